"""Choosing dead letters: a filter, and the offsets between which it applies."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from raftka.client.blocking.client import Client, Where, check
from raftka.console.dead_letters.letters import Letter
from raftka.console.dead_letters.shown import PLAIN, Lens
from raftka.wire.messages.fetch import READ_COMMITTED
from raftka.wire.messages.list_offsets import EARLIEST, LATEST

Spans = Mapping[
    Where, tuple[int, int]
]  # by partition: its first offset, and the one behind its last


@dataclass(frozen=True, slots=True)
class Filter:
    """Letters that are looked for; None and empty: any."""

    kind: str | None = None  # of failure, as `Failure.kind` has it
    origin: str | None = None  # topic; empty: letters whose origin is not known
    text: str = ""  # in the key, the value or the failure, in any case of letters
    offsets: frozenset[tuple[int, int]] = frozenset()  # partition, offset
    lens: Lens = PLAIN  # what it hides is not found

    def matches(self, letter: Letter) -> bool:
        record = letter.record
        if self.offsets and (record.partition, record.offset) not in self.offsets:
            return False
        if self.kind is None and self.origin is None and not self.text:
            return True
        seen = self.lens.look_at(letter)
        if self.kind is not None and seen.failure.kind != self.kind:
            return False
        origin = seen.origin.topic if seen.origin is not None else ""
        if self.origin is not None and self.origin != origin:
            return False
        return not self.text or any(
            self.text.casefold() in each.casefold() for each in self.lens.texts_of(seen)
        )


def partitions_of(client: Client, topic: str) -> list[Where]:
    """Raises KafkaError for a topic that is not there, or that the user may not see."""
    (row,) = client.metadata([topic]).topics
    check(row.error_code, topic)
    return sorted((topic, each.partition_index) for each in row.partitions)


def spans_of(client: Client, topic: str, wheres: Sequence[Where] | None = None) -> Spans:
    """Return the whole topic, or some of its partitions, as readers of committed records see it.
    Raises KafkaError.
    """
    wheres = partitions_of(client, topic) if wheres is None else wheres
    begins = client.offsets(dict.fromkeys(wheres, EARLIEST), READ_COMMITTED)
    ends = client.offsets(dict.fromkeys(wheres, LATEST), READ_COMMITTED)
    return {where: (begins[where], max(begins[where], ends[where])) for where in wheres}


def within(spans: Spans, wanted: Filter) -> Spans:
    """Return the parts of the spans that hold the offsets of the filter, all of them if it has
    none.
    """
    if not wanted.offsets:
        return spans
    narrowed = {}
    for where, (begin, end) in spans.items():
        own = [offset for partition, offset in wanted.offsets if partition == where[1]]
        own = [offset for offset in own if begin <= offset < end]
        if own:
            narrowed[where] = (min(own), max(own) + 1)
    return narrowed
