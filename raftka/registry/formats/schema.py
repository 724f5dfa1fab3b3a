"""What all types of schemas share: a parsed schema, and the refusal of a text that is none."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class InvalidSchema(Exception):
    """The text is no schema of its type, or names something that is not there: the message says which, in words for the one who sent it."""


class Reference(NamedTuple):
    """A schema that another one names: its name there, and its text."""

    name: str
    text: str


class Parsed(Protocol):
    """A schema of one type. Two texts with the same `canonical` are one schema: only white space and the like differ."""

    @property
    def canonical(self) -> str:
        """The text as it is stored and given out."""

    @property
    def normalized(self) -> str:
        """The text with everything in a fixed order, for requests with `normalize=true`."""


class Format(Protocol):
    """A module of this folder."""

    def parse(self, text: str, references: Sequence[Reference]) -> Parsed:
        """`references`: each after those that it needs itself. Raises InvalidSchema."""

    def problems(self, reader: Parsed, writer: Parsed) -> list[str]:
        """Why a reader with the one schema cannot read what was written with the other, a sentence each; empty if it can."""
