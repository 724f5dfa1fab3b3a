"""Regular expressions over topics' names, as strangers send them: RE2, which takes linear time
whatever they are. Knows no group.

Kafka uses RE2/J, the same language. The engine is imported with the first expression: most brokers
never see one.
"""

from collections.abc import Callable
from functools import lru_cache

from raftka.limits import REGEX_LENGTH
from raftka.regular_expressions import InvalidExpression, NoEngine, compile_linear
from raftka.wire.errors import Code, KafkaError, LimitRefused

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
        return compile_linear(regex)
    except NoEngine:
        raise KafkaError(Code.INVALID_REGULAR_EXPRESSION, NO_ENGINE) from None
    except InvalidExpression as error:
        reason = str(error).partition(": ")[0]
        raise KafkaError(
            Code.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{regex}` is not a valid regular expression: "
            f"{WORDS.get(reason, reason)}.",
        ) from None
