"""A search: reads partitions up to where they ended when it began, and gives the records that its
filter wants. It knows no time limit; its user stops taking what it yields.

Most batches are not decoded: the probes of the filter are looked for in their opened bytes, and
only records that have them are read.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from raftka.client.blocking.batch_reader import BatchReader, Fetched
from raftka.client.blocking.client import Client, Where
from raftka.client.blocking.reader import batches_of
from raftka.console.decoding.decoder import Decoder
from raftka.console.limits import UNREADABLE_SHOWN
from raftka.console.search.filters import AS_FOUND, Filter, Formats, Seen
from raftka.console.search.patterns import TooLong
from raftka.schemas.framing import HEADER_BYTES, MAGIC
from raftka.wire.errors import ProtocolError
from raftka.wire.records import (
    BatchHeader,
    Record,
    opened,
    read_record,
    signed,
    size_of_record,
)

POLL_S = 0.2


class Found(NamedTuple):
    where: Where
    seen: Seen


@dataclass(slots=True)
class Progress:
    """Counts of a search so far."""

    records: int = 0
    bytes: int = 0  # as they came: compressed
    found: int = 0
    unsearched: int = 0  # records with a text that the expression could take too long in
    total: int = 0  # offsets
    lost: int = 0  # offsets that were deleted meanwhile
    # the first of the batches that cannot be opened, and of the records that cannot be read
    unreadable: list[str] = field(default_factory=list)
    unreadable_count: int = 0  # of all of them

    def note_unreadable(self, where: Where, offset: int, error: ProtocolError) -> None:
        self.unreadable_count += 1
        if len(self.unreadable) < UNREADABLE_SHOWN.value:
            self.unreadable.append(f"{where[0]}-{where[1]}@{offset}: {error}")

    def percent(self, left: int) -> float:
        return 100.0 if not self.total else 100.0 * (self.total - left) / self.total


class Scanner:
    """Looks for the records of a filter in batches."""

    def __init__(self, wanted: Filter, decoder: Decoder, formats: Formats = AS_FOUND) -> None:
        self.progress = Progress()
        self._wanted, self._decoder, self._formats = wanted, decoder, formats
        self._probes = wanted.probes(decoder)
        self._folds = any(probe.folds for probe in self._probes)

    def scan(self, fetched: Fetched, stop: int) -> Iterator[tuple[int, Found | None]]:
        """Yield found records, each with the offset behind it, and None behind each batch. Raises
        KafkaError for what is no batch.
        """
        progress, where = self.progress, fetched.where
        progress.bytes += len(fetched.records)
        for header, batch, has_records in batches_of(where, fetched.records, fetched.aborted):
            progress.records += header.count
            if has_records and self._is_in_time(header):
                try:
                    for record in self._records(where, header, batch):
                        if fetched.offset <= record.offset < stop:
                            seen = Seen(record, self._decoder, self._formats)
                            if self._matches(seen):
                                progress.found += 1
                                yield record.offset + 1, Found(where, seen)
                except ProtocolError as error:
                    progress.note_unreadable(where, header.base_offset, error)
            yield header.last_offset + 1, None

    def _is_in_time(self, header: BatchHeader) -> bool:
        """Return whether a record of the batch may be. Its least time is not known."""
        from_ms = self._wanted.from_ms
        return from_ms is None or header.max_timestamp >= from_ms

    def _matches(self, seen: Seen) -> bool:
        try:
            return self._wanted.matches(seen)
        except TooLong:
            self.progress.unsearched += 1
            return False

    def _records(self, where: Where, header: BatchHeader, batch: memoryview) -> Iterator[Record]:
        """Records that may match; one that cannot be read does not hide those behind it. Raises
        ProtocolError.
        """
        data, probes = bytes(opened(batch)), self._probes
        lower = data.lower() if self._folds else data
        has_texts = self._decoder.keeps_text
        if not has_texts or all(probe.is_in(data, lower, 0, len(data)) for probe in probes):
            for position, stop in _bounds(data, header.count):
                if all(probe.is_in(data, lower, position, stop) for probe in probes) or (
                    not has_texts and _has_frame(data, position)
                ):
                    try:
                        record = read_record(data, position, stop, header)
                    except ProtocolError as error:
                        offset = header.base_offset + _offset_delta(data, position)
                        self.progress.note_unreadable(where, offset, error)
                    else:
                        yield record


def _offset_delta(data: bytes, position: int) -> int:
    """Return that of the record that begins here. Raises ProtocolError."""
    _, position = signed(data, position + 1)
    return signed(data, position, 32)[0]


def _bounds(data: bytes, count: int) -> Iterator[tuple[int, int]]:
    """Begin of each record, behind its size, and its end. Raises ProtocolError."""
    position = 0
    try:
        for _ in range(count):
            size, position = size_of_record(data, position)
            stop = position + size
            if size < 1 or stop > len(data):
                raise ProtocolError(f"a record of {size} bytes")
            yield position, stop
            position = stop
    except IndexError as error:
        raise ProtocolError("a record ends behind its batch") from error


def _has_frame(data: bytes, position: int) -> bool:
    """Return whether the key, the value or a header of the record that begins here has Confluent's
    framing: the texts of its value may stand in its schema. Raises IndexError and ProtocolError.
    """
    _, position = signed(data, position + 1)  # times and offsets
    _, position = signed(data, position, 32)
    for _ in ("key", "value"):
        size, position = signed(data, position, 32)
        if size >= HEADER_BYTES and data[position] == MAGIC:
            return True
        position += max(0, size)
    count, position = signed(data, position, 32)
    for _ in range(count):
        size, position = signed(data, position, 32)
        size, position = signed(data, position + max(0, size), 32)
        if size >= HEADER_BYTES and data[position] == MAGIC:
            return True
        position += max(0, size)
    return False


class Search:
    """A scan of partitions of a topic through a client."""

    def __init__(
        self,
        client: Client,
        begins: Mapping[Where, int],
        stops: Mapping[Where, int],
        scanner: Scanner,
        *,
        committed: bool = True,
    ) -> None:
        """`stops`: the offsets behind the last records. `committed`: no records of transactions
        that are open or aborted.
        """
        self._reader = BatchReader(client, begins, stops, committed=committed)
        self._stops, self._scanner = stops, scanner
        # of what was not looked at, of partitions that are not done
        self.positions = dict(self._reader.positions)
        self.progress.total = sum(self._left_of(where) for where in self.positions)

    @property
    def progress(self) -> Progress:
        return self._scanner.progress

    @property
    def percent(self) -> float:
        return self.progress.percent(sum(map(self._left_of, self.positions)))

    def run(self) -> Iterator[Found | None]:
        """Yield what is found, and None behind each batch and each wait. `positions` is behind what
        was yielded: a search from there goes on. Raises KafkaError and Unreachable.
        """
        try:
            while not self._reader.is_over:
                for fetched in self._reader.poll(POLL_S):
                    yield from self._scan(fetched)
                self._settle()
                yield None
        finally:
            self._reader.close()

    def _scan(self, fetched: Fetched) -> Iterator[Found | None]:
        where = fetched.where
        stop = self._stops[where]
        for after, found in self._scanner.scan(fetched, stop):
            if after >= stop:
                self.positions.pop(where, None)
            else:
                self.positions[where] = after
            yield found

    def _settle(self) -> None:
        """A partition may end before its stop: behind it there is nothing to be seen."""
        self.progress.lost = self._reader.lost
        for where in self.positions.keys() - self._reader.positions.keys():
            del self.positions[where]

    def _left_of(self, where: Where) -> int:
        return max(0, self._stops[where] - self.positions[where])
