"""Words, texts, numbers and signs of a statement, each with its place; and the statements of a
text, which end with a semicolon.
"""

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from raftka.sql.language.errors import StatementError

LONGEST = 64 << 10  # characters of a statement
LONGEST_NUMBER = 1000  # characters


class Kind(StrEnum):
    WORD = "WORD"
    QUOTED = "QUOTED"  # a name in backticks
    TEXT = "TEXT"
    NUMBER = "NUMBER"
    SIGN = "SIGN"
    END = "END"
    BROKEN = "BROKEN"  # a quote or a comment without its end


class Token(NamedTuple):
    kind: Kind
    text: str  # as it was written
    at: int

    @property
    def end(self) -> int:
        return self.at + len(self.text)

    @property
    def word(self) -> str:
        """Return the word in upper case; of others nothing, for no keyword is in quotes."""
        return self.text.upper() if self.kind is Kind.WORD else ""

    @property
    def value(self) -> str:
        """Return the content of a quoted name or a text."""
        inside, quote = self.text[1:-1], self.text[0]
        if self.kind is Kind.TEXT:
            inside = re.sub(r"\\([\\'\"])", r"\1", inside)
        return inside.replace(quote * 2, quote)


TOKEN = re.compile(
    r"(?P<SPACE>(?:\s+|--[^\n]*|/\*(?:[^*]|\*(?!/))*\*/)+)"
    r"|(?P<WORD>[^\W\d]\w*)"
    r"|(?P<NUMBER>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)"
    r"|(?P<TEXT>'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\")"
    r"|(?P<QUOTED>`(?:[^`]|``)*`)"
    r"|(?P<BROKEN>['\"`].*|/\*.*)"
    r"|(?P<SIGN>:=|->|=>|<=|>=|<>|!=|.)",
    re.DOTALL,
)


def tokens(text: str) -> list[Token]:
    """Return the tokens, the last one of the kind END. Raise StatementError."""
    if len(text) > LONGEST:
        raise StatementError(f"the statement has more than {LONGEST} characters")
    found = list(_tokens(text))
    for each in found:
        if each.kind is Kind.BROKEN:
            name = "comment" if each.text.startswith("/*") else f"quote {each.text[0]}"
            raise StatementError(f"this {name} has no end", text, each.at)
        if each.kind is Kind.NUMBER and len(each.text) > LONGEST_NUMBER:
            raise StatementError(
                f"this number has more than {LONGEST_NUMBER} digits", text, each.at
            )
    return [*found, Token(Kind.END, "", len(text.rstrip()))]


def _tokens(text: str) -> Iterator[Token]:
    for match in TOKEN.finditer(text):
        if match.lastgroup != "SPACE":
            yield Token(Kind[str(match.lastgroup)], match[0], match.start())


def split(text: str) -> list[str]:
    """Return the statements of a text, without their semicolons and without empty ones. The last
    one may have no semicolon, and a quote without its end.
    """
    found, begin, is_empty = [], 0, True
    for token in _tokens(text):
        if (token.kind, token.text) != (Kind.SIGN, ";"):
            is_empty = False
            continue
        if not is_empty:
            found.append(text[begin : token.at].strip())
        begin, is_empty = token.end, True
    return found if is_empty else [*found, text[begin:].strip()]
