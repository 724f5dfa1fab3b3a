"""Answers of statements: columns, and rows that may keep coming."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from raftka.json_values import Json


class Column(NamedTuple):
    name: str
    type: str  # as SQL writes it


def distinct_names(columns: Sequence[Column]) -> list[str]:
    """Return names of columns; one that comes again gets a number."""
    found: dict[str, None] = {}
    for column in columns:
        name = column.name
        for number in itertools.count(2):
            if name not in found:
                break
            name = f"{column.name}_{number}"
        found[name] = None
    return list(found)


def _nothing() -> None:
    """Close nothing."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Rows have a value for each column, as JSON has it. Close the answer when no more of them are
    wanted; of a live answer another thread may do that.
    """

    columns: Sequence[Column] = ()
    rows: Iterator[Sequence[Json]] = field(default_factory=lambda: iter(()))
    note: str = ""  # a sentence for the user: the work done, or the rows left out
    is_live: bool = False  # rows keep coming until it is closed
    close: Callable[[], None] = _nothing


def table(
    columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[Json]], note: str = ""
) -> Answer:
    """Return an answer with these rows. `columns`: names and types."""
    return Answer([Column(*each) for each in columns], iter(rows), note)


class Words(NamedTuple):
    """Words that a prompt may complete."""

    topics: Sequence[str] = ()
    names: Sequence[str] = ()  # of streams, tables and queries
    fields: Sequence[str] = ()
    functions: Sequence[str] = ()
