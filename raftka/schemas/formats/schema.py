"""Parts that all formats of schemas share: a parsed schema, the refusal of a text that is none, and
bounds of size.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

MAX_BYTES = 1 << 20  # of a schema and all that it refers to
# of objects and lists in a JSON text: parsers recurse, and take three calls a level at most
MAX_DEPTH = 200
MAX_PROBLEMS = 100  # that are told of one pair of schemas
MAX_SAID = 1_000  # characters of a message: names may be as long as a schema


class InvalidSchema(Exception):
    """The text is no schema of its type, or names something that is not there: the message says
    which, in words for the one who sent it.
    """

    def __init__(self, said: str) -> None:
        super().__init__(said if len(said) <= MAX_SAID else said[:MAX_SAID] + "...")


class Reference(NamedTuple):
    """A schema that another one names: its name there, and its text."""

    name: str
    text: str


class Parsed(Protocol):
    """A schema of one type, which has three forms."""

    @property
    def text(self) -> str:
        """The text as it is stored and given out: JSON without white space; .proto texts as the
        client sent them, or written from its base64.
        """

    @property
    def canonical(self) -> str:
        """The form to compare and to hash, not to give out: two schemas of a subject (with the same
        references) are one if these are equal.
        """

    @property
    def normalized(self) -> str:
        """The text with everything in a fixed order, for requests with `normalize=true`. `parse`
        takes it as a text.
        """


class Format(Protocol):
    """A package of this folder. The time of its functions is bounded, but may be seconds for a text
    of 1 MB: call them off the loop.
    """

    def parse(self, text: str, references: Sequence[Reference], *, new: bool = True) -> Parsed:
        """`references`: each after those that it needs itself. `new`: by today's rules, not those
        that older libraries had. Raises InvalidSchema.
        """

    def incompatibilities(self, reader: Parsed, writer: Parsed) -> list[str]:
        """Return the reasons why a reader with the one schema cannot read data that was written
        with the other, a sentence each; empty if it can. Both are of this format.
        """


def check_size(text: str, references: Sequence[Reference]) -> None:
    """Raise InvalidSchema for more bytes than a schema and its references may have, and for text
    that is no Unicode.
    """
    try:
        size = sum(
            len(each.encode()) for each in (text, *(reference.text for reference in references))
        )
    except UnicodeEncodeError:
        raise InvalidSchema(
            "the text has half of a surrogate pair, which UTF-8 cannot express"
        ) from None
    if size > MAX_BYTES:
        raise InvalidSchema(
            f"the schema and its references have {size} bytes, {MAX_BYTES} are allowed"
        )
