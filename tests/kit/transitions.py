"""Record the changes of a state machine that is one attribute of a class, and compare them with the
table of the changes that may happen.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from typing import Any

Change = tuple[Enum, Enum]
Table = Mapping[Any, frozenset[Any]]


def changes_of(table: Table) -> set[Change]:
    """Return every change that the table allows."""
    return {(before, after) for before, following in table.items() for after in following}


@contextmanager
def recorded(owner: type, attribute: str) -> Iterator[set[Change]]:
    """Collect the changes of `attribute` in all objects of the class; setting the same value again
    is none. The class has the attribute as a slot, or its objects have a `__dict__`.
    """
    slot = owner.__dict__.get(attribute)
    found: set[Change] = set()

    def read(it: Any) -> Any:
        return slot.__get__(it) if slot is not None else it.__dict__[attribute]

    def write(it: Any, value: Enum) -> None:
        try:
            before = read(it)
        except (AttributeError, KeyError):
            before = value  # the object is being made
        if before is not value:
            found.add((before, value))
        if slot is not None:
            slot.__set__(it, value)
        else:
            it.__dict__[attribute] = value

    setattr(owner, attribute, property(read, write))
    try:
        yield found
    finally:
        if slot is not None:
            setattr(owner, attribute, slot)
        else:
            delattr(owner, attribute)
