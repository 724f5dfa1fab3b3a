"""The promises of transactions, judged by the batches and markers of the logs in the end: all or
nothing, each input once, nothing of a fenced producer, and readers of what is committed were shown
exactly that. Knows no cluster: logs and attempts come as plain values.

Each function returns violations as sentences; none found is an empty list.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from math import inf
from typing import NamedTuple

SHOWN = 3  # of many alike

Place = tuple[str, int]  # a partition
Logs = Mapping[Place, Sequence["Entry"]]


class Entry(NamedTuple):
    """A batch of a log."""

    offset: int
    last_offset: int
    producer_id: int
    epoch: int
    values: Sequence[bytes]
    commits: bool | None = None  # of a marker; None: it is none


class Span(NamedTuple):
    """A transaction in one partition."""

    producer_id: int
    first: int
    marker: float  # its offset; infinity: there is none
    committed: bool
    values: Sequence[tuple[int, bytes]]  # by offset


class Result(Enum):
    """The end of an attempt, as its client knows it."""

    ABORTED = "it has asked for no commit, or was refused"
    COMMITTED = "it heard that it is committed"
    UNKNOWN = "it asked for a commit, and heard no answer"


@dataclass
class Attempt:
    """A transaction as its client knows it. The values that it sends begin with its number, and
    with the input that each is a copy of.
    """

    number: int
    who: str
    source: Place
    sent: dict[Place, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    result: Result = Result.ABORTED
    fenced: bool = False  # another client had the transactional id when it asked for the commit

    def value(self, offset: int, padding: int) -> bytes:
        return (
            b"%d/%s/%d/%d/" % (self.number, self.source[0].encode(), self.source[1], offset)
            + b"." * padding
        )

    def __str__(self) -> str:
        return f"transaction {self.number} of {self.who}"


class Copied(NamedTuple):
    number: int  # of the attempt
    source: Place
    offset: int


def copied(value: bytes) -> Copied:
    number, topic, partition, offset, _ = value.split(b"/", 4)
    return Copied(int(number), (topic.decode(), int(partition)), int(offset))


def spans_of(entries: Iterable[Entry]) -> list[Span]:
    """In the order of their first offsets."""
    found: list[Span] = []
    running: dict[int, tuple[int, list[tuple[int, bytes]]]] = {}
    for entry in entries:
        if entry.commits is None:
            running.setdefault(entry.producer_id, (entry.offset, []))[1].extend(
                enumerate(entry.values, entry.offset)
            )
        elif entry.producer_id in running:
            first, values = running.pop(entry.producer_id)
            found.append(Span(entry.producer_id, first, entry.offset, entry.commits, values))
    found += [
        Span(producer_id, first, inf, False, values)
        for producer_id, (first, values) in running.items()
    ]
    return sorted(found, key=lambda span: span.first)


def check_attempts(attempts: Sequence[Attempt], spans: Mapping[Place, Sequence[Span]]) -> list[str]:
    """Each is visible in all partitions that it wrote to, or in none; and as its client was
    told.
    """
    # committed, by attempt
    there: dict[int, dict[Place, set[bytes]]] = defaultdict(lambda: defaultdict(set))
    wrong = []
    for place, of_place in spans.items():
        for span in of_place:
            if span.marker == inf:
                wrong.append(
                    f"hanging: the transaction of producer {span.producer_id} in {_named(place)} "
                    f"at {span.first} has no marker"
                )
            for _, value in span.values if span.committed else ():
                there[copied(value).number][place].add(value)
    for attempt in attempts:
        visible = there.pop(attempt.number, {})
        whole = {place: set(values) for place, values in attempt.sent.items() if values}
        if visible and visible != whole:
            parts = sorted(place for place in whole if visible.get(place) != whole[place])
            wrong.append(
                f"torn: {attempt} is committed, and not in {', '.join(map(_named, parts))}"
            )
        elif visible and attempt.result is Result.ABORTED:
            wrong.append(f"dirty: {attempt} is committed, which its client has not asked for")
        elif not visible and whole and attempt.result is Result.COMMITTED:
            wrong.append(f"commit-lost: {attempt} was committed, and is not there")
        if visible and attempt.fenced:
            wrong.append(f"zombie: {attempt} is committed, and another client had its id")
    wrong += [f"phantom: transaction {number} is there, which nobody began" for number in there]
    return wrong


def check_copies(
    spans: Mapping[Place, Sequence[Span]], committed: Mapping[Place, int]
) -> list[str]:
    """In every output topic is each input below the committed offset once, in order, and none
    beyond. `committed`: of each input partition.
    """
    wrong = []
    for topic in sorted({topic for topic, _ in spans}):
        counts: dict[Place, Counter[int]] = {source: Counter() for source in committed}
        for place, of_place in spans.items():
            if place[0] != topic:
                continue
            last: dict[Place, int] = {}
            for _, value in sorted(
                each for span in of_place if span.committed for each in span.values
            ):
                _, source, offset = copied(value)
                counts[source][offset] += 1
                if offset < last.get(source, -1):
                    wrong.append(
                        f"out of order: {_named(place)} has {offset} of {_named(source)} behind "
                        f"{last[source]}"
                    )
                last[source] = offset
        for source, count in counts.items():
            end = max(0, committed[source])
            twice = sorted(offset for offset, times in count.items() if times > 1)
            lost = sorted(set(range(end)) - count.keys())
            beyond = sorted(offset for offset in count if offset >= end)
            for kind, offsets in (
                ("there twice", twice),
                ("not there", lost),
                ("there, and its offset is not committed", beyond),
            ):
                if offsets:
                    wrong.append(
                        f"not exactly once: {offsets[:SHOWN]} of {_named(source)} in {topic}: "
                        f"{kind} (committed is {end})"
                    )
    return wrong


def last_stable(spans: Sequence[Span], high_watermark: int) -> int:
    """Return the right last stable offset: where the first transaction begins that has no marker
    below the high watermark.
    """
    return min(
        [
            high_watermark,
            *(span.first for span in spans if span.first < high_watermark <= span.marker),
        ]
    )


def check_stable(place: Place, spans: Sequence[Span], told: Iterable[tuple[int, int]]) -> list[str]:
    """`told`: (high watermark, last stable offset), each pair from one answer. A broker that has
    just started may tell less.
    """
    return [
        f"last stable offset: {_named(place)} is told {offset} at high watermark "
        f"{high_watermark}, it is {right}: it passes an open transaction"
        for high_watermark, offset in sorted(told)
        if offset > (right := last_stable(spans, high_watermark))
    ][:SHOWN]


def check_read(
    who: str,
    place: Place,
    spans: Sequence[Span],
    read: Sequence[tuple[int, bytes]],
    position: float,
) -> list[str]:
    """Check the records that a reader of committed data was given, from the beginning to
    `position`.
    """
    right = sorted(
        (offset, value)
        for span in spans
        if span.committed
        for offset, value in span.values
        if offset < position
    )
    if list(read) == right:
        return []
    aborted = {offset for span in spans if not span.committed for offset, _ in span.values}
    given, wanted = {offset for offset, _ in read}, {offset for offset, _ in right}
    dirty, lost = sorted(given & aborted), sorted(wanted - given)
    if dirty:
        return [
            f"dirty read: {who} is given {len(dirty)} records of {_named(place)} that are not "
            f"committed, the first at {dirty[0]}"
        ]
    if lost:
        return [
            f"lost read: {who} is not given {len(lost)} committed records of {_named(place)}, the "
            f"first at {lost[0]}"
        ]
    return [f"another read: {who} is given other records of {_named(place)} than are committed"]


def check_aborted(
    where: str, spans: Sequence[Span], listed: Iterable[tuple[float, ...]]
) -> list[str]:
    """`listed`: (producer id, first offset, offset of the marker) as a replica tells it."""
    right: set[tuple[float, ...]] = {
        (span.producer_id, span.first, span.marker)
        for span in spans
        if span.marker != inf and not span.committed
    }
    found = set(listed)
    if found == right:
        return []
    return [
        f"aborted transactions: {where} lacks {sorted(right - found)[:SHOWN]}, has "
        f"{sorted(found - right)[:SHOWN]} beside"
    ]


def _named(place: Place) -> str:
    return f"{place[0]}-{place[1]}"
