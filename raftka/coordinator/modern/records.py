"""The form that records of all groups of the new protocols have in __consumer_offsets. A key has
the record's kind and the group's id, and often one name more; a value is a flexible row. Knows no
kind.
"""

from collections.abc import Collection, Mapping
from enum import IntEnum
from functools import cache
from typing import Any, NamedTuple

from raftka.coordinator.machine import Record
from raftka.coordinator.records import kind, read_string_of_key, string_of_key
from raftka.versions import Format
from raftka.wire.decoder import Decoder, compile_decoder
from raftka.wire.encoder import Encoder, compile_encoder, encode_row
from raftka.wire.errors import ProtocolError
from raftka.wire.rows import Row

Untyped = Any  # a value, or its row: only messages have stubs


class MemberState(IntEnum):
    """As they are written. A member has partitions of a consumer group, or tasks of a streams
    group.
    """

    STABLE = 1  # has all that the targets of its epoch say
    UNREVOKED = 2  # is to give some up, and has not said that it has
    UNRELEASED = 3  # waits for some that others have


class Targets(NamedTuple):
    """The assignment that was made last for all members."""

    epoch: int
    timestamp_ms: int = 0


class RecordForm:
    """`whose`: a type of groups, for texts of errors. `rows`: of the values, by kind. `of_group`:
    the kinds whose keys have no name.
    """

    def __init__(
        self,
        whose: str,
        versions: Format,
        rows: Mapping[int, type[Row]],
        of_group: Collection[int],
    ) -> None:
        self._whose = whose
        self._versions = versions
        self._rows = rows
        self._of_group = of_group
        self._decoder = cache(self._compile_decoder)
        self._encoder = cache(self._compile_encoder)

    def key(self, what: int, group_id: str, name: str = "") -> bytes:
        parts = [what.to_bytes(2, "big"), string_of_key(group_id)]
        if what not in self._of_group:
            parts.append(string_of_key(name))
        return b"".join(parts)

    def read_key(self, data: bytes) -> tuple[int, str, str]:
        """Return the record's kind, the group and the name, "" where there is none. Raises
        ValueError.
        """
        what = kind(data)
        group_id, at = read_string_of_key(data, 2, self._whose)
        name = ""
        if what not in self._of_group:
            name, at = read_string_of_key(data, at, self._whose)
        if at != len(data):
            raise ValueError(f"the key of {self._whose} is too long: {data[:40]!r}")
        return what, group_id, name

    def record(self, what: int, group_id: str, row: Row, name: str = "") -> Record:
        value = encode_row(self._encoder(what), row, b"\0\0")
        return Record(self.key(what, group_id, name), value)

    def tombstone(self, what: int, group_id: str, name: str = "") -> Record:
        return Record(self.key(what, group_id, name), None)

    def read_row(self, what: int, value: bytes) -> Untyped:
        """Return the row of a value. Raises ValueError, NewerFormat."""
        self._versions.check(kind(value), self._versions.place)
        try:
            row, _ = self._decoder(what)(memoryview(value), 2)
        except ProtocolError as error:
            text = f"the value of {self._whose}'s record {what} cannot be read: {error}"
            raise ValueError(text) from error
        return row

    def _compile_decoder(self, what: int) -> Decoder:
        return compile_decoder(self._rows[what].struct, 0, flexible=True, bounded=False)

    def _compile_encoder(self, what: int) -> Encoder:
        return compile_encoder(self._rows[what].struct, 0, flexible=True)
