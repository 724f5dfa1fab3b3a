"""Statements in a text: each ends with `;`, or with `\\G` for an answer of one line a column."""

import re
from collections.abc import Sequence
from typing import NamedTuple

# quoted texts and comments, in which an end is none; one of these without its end; an end
PART = re.compile(
    r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|--[^\n]*|/\*(?:[^*]|\*(?!/))*\*/"
    r"|(?P<broken>['\"`]|/\*)|(?P<end>;|\\G)",
    re.DOTALL,
)
COMMENT = re.compile(r"(?:\s|--[^\n]*|/\*(?:[^*]|\*(?!/))*\*/)*")


class Typed(NamedTuple):
    text: str  # of one statement, without its end
    is_vertical: bool = False


def statements_of(text: str) -> tuple[Sequence[Typed], str]:
    """Return the statements that have an end, and the text behind them, which has none yet. A
    statement of comments alone is left out.
    """
    found, begin = [], 0
    for match in PART.finditer(text):
        if match["broken"] is not None:
            break
        if match["end"] is not None:
            found.append(Typed(text[begin : match.start()].strip(), match["end"] == r"\G"))
            begin = match.end()
    rest = text[begin:].strip()
    return [each for each in found if not is_empty(each.text)], rest


def is_empty(text: str) -> bool:
    """Return whether there is nothing but spaces and comments."""
    return COMMENT.fullmatch(text) is not None
