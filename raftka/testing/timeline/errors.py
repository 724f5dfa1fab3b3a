"""Errors in the answers of all APIs: which codes, and for which topics, partitions and groups.
Found in the schemas of the messages.

The elements of a long answer are encoded as they are added, and gone then: an encoder that looks at
each first stands before the encoder of such an array.
"""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from raftka.wire.codec import Piece
from raftka.wire.encoder import EncodedRows
from raftka.wire.rows import Row, Struct

ERRORS = ("error_code", "partition_error_code")
LABELS = (  # fields that say what an error is about; the first that has a value
    "name",
    "topic",
    "topic_name",
    "topic_id",
    "group_id",
    "transactional_id",
    "key",
    "resource_name",
    "index",
    "partition_index",
    "partition",
    "partition_id",
    "member_id",
)


class Found(NamedTuple):
    about: tuple[object, ...]  # names and numbers, from the outside in; ids of topics as bytes
    code: int


class Finder:
    """Finds the errors in rows of one struct."""

    __slots__ = ("_arrays", "_error", "_labels")

    def __init__(self, struct: Struct) -> None:
        names = [field.name for field in struct.fields]
        self._error = next((name for name in names if name in ERRORS), None)
        self._labels = tuple(name for name in LABELS if name in names)
        self._arrays = tuple(
            (field.name, finder)
            for field in struct.fields
            if field.array
            and field.struct is not None
            and (finder := finder_of(field.struct)) is not None
        )

    @property
    def finds_nothing(self) -> bool:
        """No row of the struct can hold an error."""
        return self._error is None and not self._arrays

    def find(self, row: Row, found: list[Found], outer: tuple[object, ...] = ()) -> None:
        """Add the errors of the row and of all rows in it; `outer`: what it lies in."""
        if self._error is not None and (code := getattr(row, self._error)):
            found.append(Found(self._about(row, outer), code))
        for name, finder in self._arrays:
            rows = getattr(row, name)
            if rows.__class__ is EncodedRows:
                errors = rows.encode.found if rows.encode.__class__ is WatchedEncoder else ()
                if errors:
                    about = self._about(row, outer)
                    found.extend([Found(about + each.about, each.code) for each in errors])
            elif rows:
                about = self._about(row, outer)
                for each in rows:
                    finder.find(each, found, about)

    def _about(self, row: Row, outer: tuple[object, ...]) -> tuple[object, ...]:
        for name in self._labels:
            value = getattr(row, name)
            if value not in (None, "", bytes(16)):
                return (*outer, value)
        return outer


@cache
def finder_of(struct: Struct) -> Finder | None:
    finder = Finder(struct)
    return None if finder.finds_nothing else finder


class WatchedEncoder:
    """The encoder of the rows of an array, which keeps the errors that it sees."""

    __slots__ = ("_encode", "_finder", "found")

    def __init__(self, encode: Callable[[Row, list[Piece]], None], finder: Finder) -> None:
        self._encode = encode
        self._finder = finder
        self.found: list[Found] = []

    def __call__(self, row: Row, parts: list[Piece]) -> None:
        self._finder.find(row, self.found)
        self._encode(row, parts)
