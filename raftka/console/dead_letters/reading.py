"""Reading dead letters: forward, in the order of each partition, and backward, the newest first."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from raftka.client.blocking.client import Client, Unreachable, Where
from raftka.client.blocking.reader import FetchedRecord, Reader
from raftka.console.dead_letters.letters import Letter, read_letter
from raftka.console.dead_letters.selection import Filter, Spans

POLL_S, POLL_RECORDS = 0.2, 500
SILENT_S = 20.0  # without a record or an offset further on: the partition's leader is away
CHUNK_RECORDS = 200  # read backward at once, of each partition


class Forward:
    """Records of spans, each once, in the order of its partition."""

    def __init__(self, client: Client, spans: Spans) -> None:
        self._ends = {where: end for where, (begin, end) in spans.items() if begin < end}
        self.total = sum(end - spans[where][0] for where, end in self._ends.items())
        # an offset that comes again is passed over: a log that lost its end would repeat some
        self.positions = {where: spans[where][0] for where in self._ends}
        self._begins = dict(self.positions)
        self._reader = Reader(client, self.positions, committed=True)

    @property
    def done(self) -> int:
        """Offsets that were passed, records or not."""
        return sum(self.positions[where] - begin for where, begin in self._begins.items())

    @property
    def is_over(self) -> bool:
        return all(self.positions[where] >= end for where, end in self._ends.items())

    def poll(self) -> list[FetchedRecord]:
        """Return further records; none, when none came in a short time. Raises KafkaError."""
        found = []
        for record in self._reader.poll(POLL_S, POLL_RECORDS):
            where = record.topic, record.partition
            if self.positions[where] <= record.offset < self._ends[where]:
                self.positions[where] = record.offset + 1
                found.append(record)
        for where, position in list(self._reader.positions.items()):
            self.positions[where] = min(max(self.positions[where], position), self._ends[where])
            if self.positions[where] >= self._ends[where]:
                self._reader.leave(where)
        return found

    def close(self) -> None:
        self._reader.close()


def read_forward(
    client: Client, spans: Spans, is_gone: Callable[[], bool]
) -> Iterator[tuple[Forward, list[FetchedRecord]]]:
    """Yield the records in pieces, an empty one now and then, with how far it is. Ends when the
    spans do or `is_gone` says so. Raises Unreachable when a partition stays silent, and KafkaError.
    """
    forward = Forward(client, spans)
    last, seen_s = forward.done, time.monotonic()
    try:
        while not forward.is_over and not is_gone():
            yield forward, forward.poll()
            if forward.done != last:
                last, seen_s = forward.done, time.monotonic()
            elif time.monotonic() - seen_s > SILENT_S:
                where = next(iter(forward.positions))
                raise Unreachable(f"no broker gives records of {where[0]} for {SILENT_S:g} s")
    finally:
        forward.close()


class Page(NamedTuple):
    letters: list[Letter]  # the newest first
    before: dict[Where, int]  # by partition: the offset before which the next page begins
    is_last: bool
    examined: int  # records


@dataclass(slots=True)
class _Behind:
    """One partition, read from its end to its beginning."""

    begin: int
    before: int  # what is below is not read yet
    waiting: list[Letter] = field(default_factory=list)  # the newest last

    @property
    def is_read(self) -> bool:
        return self.before <= self.begin

    @property
    def rest(self) -> int:
        """The offset before which the next page begins: letters that wait are read again."""
        return self.waiting[-1].record.offset + 1 if self.waiting else self.before


def read_page(
    client: Client,
    spans: Spans,
    before: Mapping[Where, int],
    wanted: Filter,
    size: int,
    most_examined: int,
    is_gone: Callable[[], bool],
) -> Page:
    """Return letters by their timestamps, the newest first: at most `size`, and fewer when so many
    records were examined. `before`: of the page before, empty for the first.
    """
    behind = {
        where: _Behind(begin, min(before.get(where, end), end))
        for where, (begin, end) in spans.items()
    }
    found: list[Letter] = []
    examined = 0
    while len(found) < size:
        empty = {
            where: (max(each.begin, each.before - CHUNK_RECORDS), each.before)
            for where, each in behind.items()
            if not each.waiting and not each.is_read
        }
        if empty and (examined >= most_examined or is_gone()):
            break  # the newest of the partitions is not known
        for where, (low, _) in empty.items():
            behind[where].before = low
        for _, records in read_forward(client, empty, is_gone):
            examined += len(records)
            for record in records:
                letter = read_letter(record)
                if wanted.matches(letter):
                    behind[letter.where].waiting.append(letter)
        if empty:
            continue
        newest = max(
            (each for each in behind.values() if each.waiting),
            key=lambda each: each.waiting[-1].record.timestamp,
            default=None,
        )
        if newest is None:
            break
        found.append(newest.waiting.pop())
    rests = {where: each.rest for where, each in behind.items()}
    is_last = all(each.is_read and not each.waiting for each in behind.values())
    return Page(found, rests, is_last, examined)
