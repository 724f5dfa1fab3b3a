"""The tokens of a statement from left to right, and the error where another one should be."""

from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import partial
from itertools import pairwise
from typing import NoReturn, TypeVar

from raftka.json_values import Json
from raftka.sql.language.errors import StatementError
from raftka.sql.language.tokens import Kind, Token, tokens

DEEPEST = 50  # values within values, and types within types
LONGEST_NAME = 100
T = TypeVar("T")


class Reader:
    def __init__(self, text: str) -> None:
        """Raises StatementError."""
        self.text = text
        self.tokens = tokens(text)  # the last one is the end
        if len(self.tokens) > 1 and self.tokens[-2].text == ";":
            del self.tokens[-2]
        self._position = 0

    # looking

    @property
    def next(self) -> Token:
        return self.tokens[self._position]

    def sees(self, *words: str) -> bool:
        """Return whether these words and signs come next."""
        coming = self.tokens[self._position : self._position + len(words)]
        return [each.word or each.text for each in coming] == list(words)

    def find(self, *words: str) -> Token | None:
        """Return the first token where these words come, outside of brackets and from here on."""
        depth = 0
        for at in range(self._position, len(self.tokens)):
            token = self.tokens[at]
            depth += (token.text in "([{") - (token.text in ")]}") if token.text else 0
            if depth == 0 and [each.word for each in self.tokens[at : at + len(words)]] == list(
                words
            ):
                return token
        return None

    # taking

    def take(self) -> Token:
        token = self.next
        self._position = min(self._position + 1, len(self.tokens) - 1)
        return token

    def skip(self, *words: str) -> bool:
        """Take these words and signs if they come next; return whether they did."""
        if not self.sees(*words):
            return False
        self._position += len(words)
        return True

    def expect(self, *words: str) -> None:
        for word in words:
            if not self.skip(word):
                self.refuse(f"{word} should be here")

    def one_of(self, *words: str) -> str:
        for word in words:
            if self.skip(word):
                return word
        raise self.error(f"{' or '.join(words)} should be here")

    def jump(self, token: Token) -> None:
        """Go on at a token that `find` has given."""
        self._position = self.tokens.index(token)

    def places_since(self, begin: Token) -> Iterator[int]:
        """Yield the places of the tokens that were taken from this one on, the last one first."""
        position = self._position
        while self.tokens[position].at > begin.at:
            position -= 1
            yield self.tokens[position].at

    def name(self, of: str) -> str:
        """Take a name; one in backticks may have any letters."""
        token = self.next
        if token.kind not in (Kind.WORD, Kind.QUOTED):
            self.refuse(f"the name of {of} should be here")
        found = token.text if token.kind is Kind.WORD else token.value
        if not found or len(found) > LONGEST_NAME:
            self.refuse(f"the name of {of} has 1 to {LONGEST_NAME} letters")
        self.take()
        return found

    def number(self, of: str) -> int:
        if self.next.kind is not Kind.NUMBER or not self.next.text.isdecimal():
            self.refuse(f"{of} should be here, a whole number")
        return int(self.take().text)

    def in_brackets(self, item: Callable[[], T], close: str = ")") -> list[T]:
        """Take items with commas between them, up to the closing bracket."""
        found = [item()]
        while self.skip(","):
            found.append(item())
        if not self.skip(close):
            self.refuse(f"a comma or {close} should be here")
        return found

    def end(self) -> None:
        if self.next.kind is not Kind.END:
            self.refuse("the statement should end here")

    def error(self, message: str, at: int | None = None) -> StatementError:
        """Return the error of a place; None: of the next token."""
        return StatementError(message, self.text, self.next.at if at is None else at)

    def refuse(self, message: str, at: int | None = None) -> NoReturn:
        """Raise the error of a place."""
        raise self.error(message, at)

    # values

    def value(self, depth: int = 0) -> Json:
        """Take a value: a text, a number, TRUE, FALSE, NULL, ARRAY[...], MAP(...), STRUCT(...)."""
        if depth > DEEPEST:
            self.refuse(f"values stand in each other more than {DEEPEST} deep")
        is_negative = self.skip("-")
        token = self.next
        if token.kind is Kind.NUMBER:
            self.take()
            number = int(token.text) if token.text.isdecimal() else Decimal(token.text)
            return -number if is_negative else number
        if is_negative:
            self.refuse("a number should be here")
        if token.kind is Kind.TEXT:
            return self.take().value
        constants: dict[str, Json] = {"TRUE": True, "FALSE": False, "NULL": None}
        if token.word in constants:
            self.take()
            return constants[token.word]
        if self.skip("ARRAY", "["):
            if self.skip("]"):
                return []
            return self.in_brackets(lambda: self.value(depth + 1), "]")
        for word in ("MAP", "STRUCT"):
            if self.skip(word, "("):
                if self.skip(")"):
                    return {}
                pair = partial(self._pair, word == "MAP", depth)
                return dict(self.in_brackets(pair))
        raise self.error(
            "a value should be here: 'text', a number, TRUE, FALSE, NULL, ARRAY[1, 2], "
            "MAP('a' := 1) or STRUCT(a := 1). Next step for other expressions: INSERT INTO ... "
            "SELECT"
        )

    def _pair(self, is_map: bool, depth: int) -> tuple[str, Json]:
        if is_map:
            if self.next.kind is not Kind.TEXT:
                self.refuse("the name in a map should be here, in single quotes")
            name = self.take().value
        else:
            name = self.name("a field")
        self.expect(":=")
        return name, self.value(depth + 1)


def called_in(query: str) -> set[str]:
    """Return the names in lower case that stand before a bracket: of functions, and others."""
    found = tokens(query)
    return {
        (each.value if each.kind is Kind.QUOTED else each.text).lower()
        for each, after in pairwise(found)
        if after.text == "(" and each.kind in (Kind.WORD, Kind.QUOTED)
    }
