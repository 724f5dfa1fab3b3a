"""Regular expressions of users, searched in bounded time: by RE2 where raftka[regex] is installed,
else by Python's re, which takes then only what it is quick with.
"""

import re
from typing import Protocol

from raftka.console.limits import PATTERN_CHARACTERS, PATTERN_TEXT_CHARACTERS

UNBOUNDED = re.compile(r"[*+]|\{\d*,\}")
NO_UTF8 = re.compile("[\udc80-\udcff]")  # as `surrogateescape` decodes such bytes
BETTER = "pip install raftka[regex] takes it"


class NoPattern(ValueError):
    """The text is no regular expression that is searched. The text says why."""


class TooLong(Exception):
    """A text in which this expression could take time without end."""


class Pattern(Protocol):
    def search(self, text: str) -> bool:
        """Raise TooLong."""
        ...


def compile_pattern(text: str, *, ignores_case: bool) -> Pattern:
    """Raise NoPattern."""
    if len(text) > PATTERN_CHARACTERS.value:
        raise NoPattern(f"a regular expression has at most {PATTERN_CHARACTERS.value} characters")
    try:
        import re2
    except ImportError:
        return _Guarded(text, ignores_case)
    return _Linear(re2, text, ignores_case)


class _Linear:
    """RE2: time is linear in the text."""

    def __init__(self, re2: object, text: str, ignores_case: bool) -> None:
        options = re2.Options()  # type: ignore[attr-defined]
        options.case_sensitive, options.log_errors = not ignores_case, False
        try:
            self._found = re2.compile(text, options)  # type: ignore[attr-defined]
        except Exception as error:  # RE2 has an error of its own
            raise NoPattern(f"{text} is no regular expression: {error}") from None

    def search(self, text: str) -> bool:
        if not text.isascii():  # each byte that is no UTF-8 is a character that RE2 knows
            text = NO_UTF8.sub("\ufffd", text)
        return self._found.search(text) is not None


class _Guarded:
    """Python's re without what makes it slow: repeated groups, backreferences, and more than one
    endless repetition in a long text.
    """

    def __init__(self, text: str, ignores_case: bool) -> None:
        bare = re.sub(r"\\[^1-9]|\[\^?\]?(?:\\.|[^\]\\])*\]", "x", text, flags=re.DOTALL)
        if re.search(r"\)[*+{]|\\[1-9]|\(\?(?!:)", bare):
            raise NoPattern(
                f"{text} has a repeated group, a reference or a look around, which can take time "
                f"without end: {BETTER}"
            )
        self._is_slow = len(UNBOUNDED.findall(bare)) > 1
        try:
            self._found = re.compile(text, re.IGNORECASE if ignores_case else 0)
        except (re.error, RecursionError, OverflowError) as error:
            raise NoPattern(f"{text} is no regular expression: {error}") from None

    def search(self, text: str) -> bool:
        if self._is_slow and len(text) > PATTERN_TEXT_CHARACTERS.value:
            raise TooLong
        return self._found.search(text) is not None
