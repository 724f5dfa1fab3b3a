"""The names of very many children as the body of a reply: its size is known at once, its bytes are
made piece by piece as they leave.

ZooKeeper bounds no answer on the server's side: a client's jute.maxbuffer does. A list of a million
names would keep the loop for half a second if all of it was packed at once, and its bytes would lie
in memory once for every client that reads slowly.
"""

from collections.abc import Iterator, Sequence

from zookeeper_bridge.protocol.jute import INT

LONG_BYTES = 1 << 20  # shorter lists are packed at once, and kept
PIECE_BYTES = 1 << 18  # some 5 ms of packing


class LongList:
    """`names`: of one moment, shared by all clients that ask before the next change. `tail`: the
    bytes behind the list in the same body.
    """

    __slots__ = ("_names", "_names_bytes", "_tail", "size")

    def __init__(self, names: Sequence[str], names_bytes: int, tail: bytes = b"") -> None:
        self._names, self._names_bytes, self._tail = names, names_bytes, tail
        self.size = 4 + 4 * len(names) + names_bytes + len(tail)

    def with_tail(self, tail: bytes) -> "LongList":
        return LongList(self._names, self._names_bytes, tail)

    def pieces(self) -> Iterator[bytes]:
        yield INT.encode(len(self._names))
        step = max(1, PIECE_BYTES * len(self._names) // self.size)
        for start in range(0, len(self._names), step):
            encoded = [name.encode() for name in self._names[start : start + step]]
            yield b"".join([part for name in encoded for part in (len(name).to_bytes(4), name)])
        yield self._tail


def list_of(names: Sequence[str]) -> bytes | LongList:
    """The body of an answer to getChildren."""
    joined = "".join(names)
    names_bytes = len(joined) if joined.isascii() else len(joined.encode())
    found = LongList(names, names_bytes)
    return found if found.size > LONG_BYTES else b"".join(found.pieces())
