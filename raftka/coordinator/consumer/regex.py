"""Regular expressions over topics' names, as strangers send them: RE2, which takes linear time
whatever they are. Knows no group.

Kafka uses RE2/J, the same language. The engine is imported with the first expression: most brokers
never see one.
"""

from collections.abc import Callable
from functools import lru_cache

from raftka.limits import REGEX_LENGTH
from raftka.wire.errors import Code, KafkaError, LimitRefused

MEMORY_BYTES = 1024 * 1024  # of one compiled expression
NO_ENGINE = (
    "This broker has no engine for regular expressions: install raftka[regex] beside it, or "
    "subscribe to topics by name."
)
WORDS = {"missing )": "missing closing )", "missing ]": "missing closing ]"}  # RE2's for RE2/J's


@lru_cache(maxsize=256)
def compiled(regex: str) -> Callable[[str], bool]:
    """Return a function that tells whether the expression matches a whole name. Raises
    INVALID_REGULAR_EXPRESSION.
    """
    if len(regex) > REGEX_LENGTH.value:
        raise LimitRefused(REGEX_LENGTH, len(regex), code=Code.INVALID_REGULAR_EXPRESSION)
    try:
        import re2
    except ImportError:
        raise KafkaError(Code.INVALID_REGULAR_EXPRESSION, NO_ENGINE) from None

    options = re2.Options()
    options.log_errors = False
    options.max_mem = MEMORY_BYTES
    try:
        match = re2.compile(regex, options).fullmatch
    except re2.error as error:
        raise KafkaError(
            Code.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {_said(error)}.",
        ) from None
    return lambda name: match(name) is not None


def _said(error: Exception) -> str:
    said = error.args[0] if error.args else ""
    text = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
    what = text.partition(": ")[0]
    return WORDS.get(what, text)
