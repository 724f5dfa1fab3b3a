"""Places in partitions: their first and last offsets, and the offset of a place in each of them."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from raftka.client.blocking.client import Client, Where
from raftka.wire.messages.list_offsets import EARLIEST, LATEST


class Position(NamedTuple):
    """`kind`: start, end, current; or with a value: offset, back (from the end), time (ms)."""

    kind: str
    value: int = 0


class Bounds(NamedTuple):
    """The first offset of each partition, and the one behind its last record."""

    begins: Mapping[Where, int]
    ends: Mapping[Where, int]

    @classmethod
    def of(cls, client: Client, wheres: Sequence[Where]) -> "Bounds":
        return cls(
            client.offsets(dict.fromkeys(wheres, EARLIEST)),
            client.offsets(dict.fromkeys(wheres, LATEST)),
        )


def offsets_at(client: Client, position: Position, bounds: Bounds) -> dict[Where, int]:
    """Return an offset of each partition that is there, or its end. A time: of the first record
    that is not older; the end where there is none.
    """
    at_time = (
        client.offsets(dict.fromkeys(bounds.ends, position.value))
        if position.kind == "time"
        else {}
    )
    return {
        where: _clamped(position, bounds.begins[where], end, at_time.get(where, -1))
        for where, end in bounds.ends.items()
    }


def _clamped(position: Position, begin: int, end: int, at_time: int) -> int:
    match position.kind:
        case "start":
            wanted = begin
        case "back":
            wanted = end - position.value
        case "offset":
            wanted = position.value
        case "time" if at_time >= 0:
            wanted = at_time
        case _:
            wanted = end
    return max(begin, min(wanted, end))
