"""Regular expressions of strangers: RE2, which takes linear time whatever they are. The engine is
imported with the first expression: most brokers never see one.
"""

from collections.abc import Callable
from functools import lru_cache

MEMORY_BYTES = 1024 * 1024  # of one compiled expression


class NoEngine(Exception):
    """The package google-re2 (raftka[regex]) is not here."""

    def __init__(self) -> None:
        super().__init__("This broker has no engine for regular expressions: install raftka[regex]")


class InvalidExpression(Exception):
    """This is no expression of RE2; the text is the engine's."""


@lru_cache(maxsize=256)
def compile_linear(regex: str) -> Callable[[str], bool]:
    """Return a function that says whether the expression matches a whole text. Raises
    InvalidExpression and NoEngine.
    """
    try:
        import re2
    except ImportError:
        raise NoEngine from None

    options = re2.Options()
    options.log_errors = False
    options.max_mem = MEMORY_BYTES
    try:
        match = re2.compile(regex, options).fullmatch
    except re2.error as error:
        raise InvalidExpression(_text_of(error)) from None
    return lambda text: match(text) is not None


def _text_of(error: Exception) -> str:
    text = error.args[0] if error.args else ""
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
