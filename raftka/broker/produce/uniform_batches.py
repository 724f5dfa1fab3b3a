"""Produce requests of one size that come in one piece, as a client that does not wait for answers
sends them: read and answered by columns.

A column has one field of each request. One call of a Struct reads it from all requests, or writes
it to all answers, and one comparison covers all constant bytes; so no byte code runs for each
request. Knows the places of fields, not their meaning.
"""

from functools import lru_cache
from struct import Struct

from raftka.wire.records import ATTRIBUTES_POSITION, BATCH_HEADER_BYTES, CRC_POSITION

HEAD_BYTES = 8  # of a request: size, key and version; then comes its correlation id
# columns of a connection: 3 KB each for five requests, 15 KB for 32; to make them takes as long as
# they save once
KEPT = 4
HEADER_BYTES = BATCH_HEADER_BYTES - ATTRIBUTES_POSITION


class Columns:
    """The layout of a number of requests and of their answers; the fields of each follow those of
    the one before.
    """

    __slots__ = ("answers", "batches", "constants", "expected", "headers", "varying")

    def __init__(self, layouts: tuple[Struct, ...], expected: tuple[bytes, ...]) -> None:
        constants, varying, headers, batches, answers = layouts
        self.constants = constants.unpack  # the bytes that must equal `expected`
        self.expected = expected
        self.varying = varying.unpack  # correlation id, CRC, the bytes that it covers
        self.headers = headers.unpack  # of the batches, from the attributes on
        # base offset, the bytes between it and the CRC, CRC, the bytes that it covers
        self.batches = batches.pack
        # correlation id, front, base offset, back and the size of the next answer, which the last
        # leaves out
        self.answers = answers.pack


class UniformRequests:
    """Requests of `size` bytes that are `head`, a correlation id, `middle`, a CRC, the bytes that
    it covers, and `tail` bytes.

    `middle` ends with `start`: the bytes of a batch in front of its CRC. `front` and `back` are
    bytes of an answer, around its base offset.
    """

    __slots__ = ("_head", "_rest", "columns", "middle", "size", "start")

    def __init__(
        self, size: int, head: bytes, middle: bytes, tail: int, front: int, back: int
    ) -> None:
        self.size = size
        self.middle = middle
        self.start = middle[-CRC_POSITION:]
        self.columns: dict[int, Columns] = {}  # by the number of requests, as they were needed
        self._head = head
        self._rest = tail, front, back

    def columns_of(self, count: int) -> Columns:
        """Return the columns of so many requests, and keep them."""
        body = self.size - HEAD_BYTES - 4 - len(self.middle) - 4 - self._rest[0]
        if len(self.columns) == KEPT:
            self.columns.clear()
        layouts = _layouts(count, len(self.middle), body, *self._rest)
        columns = self.columns[count] = Columns(layouts, (self._head, self.middle) * count)
        return columns


@lru_cache(64)
def _layouts(
    count: int, middle: int, body: int, tail: int, front: int, back: int
) -> tuple[Struct, ...]:
    """Return the layouts of `Columns`; sizes in bytes."""
    return (
        Struct(">" + f"{HEAD_BYTES}s4x{middle}s{4 + body + tail}x" * count),
        Struct(">" + f"{HEAD_BYTES}xi{middle}xI{body}s{tail}x" * count),
        Struct(
            ">"
            + f"{HEAD_BYTES + 4 + middle + 4}x{HEADER_BYTES}s{body - HEADER_BYTES + tail}x" * count
        ),
        Struct(">" + f"q{CRC_POSITION - 8}sI{body}s" * count),
        Struct(">" + f"i{front}sq{back + 4}s" * (count - 1) + f"i{front}sq{back}s"),
    )
