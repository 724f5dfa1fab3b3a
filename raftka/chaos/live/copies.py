"""The judge of the transactions of a live round: what workers wrote down, beside the logs of the
stopped nodes. Knows no client and no fault.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from pathlib import Path

from raftka.chaos.checks import transactions as checks
from raftka.chaos.checks.transactions import Attempt, Entry, Place, Result, Span
from raftka.log.producers.markers import read_marker
from raftka.log.segments.transaction_index import TransactionIndex
from raftka.wire.records import CONTROL, iterate, records_of

NOWHERE = 10**15  # the input's offset of a copy of which there is no input
Read = dict[Place, list[tuple[int, bytes]]]


@dataclass
class Written:
    """All that the workers of one client library have written down."""

    attempts: dict[int, Attempt] = field(default_factory=dict)
    committed: dict[Place, int] = field(default_factory=dict)  # of the input
    # by reader
    read: dict[str, Read] = field(default_factory=lambda: defaultdict(lambda: defaultdict(list)))
    everything: set[str] = field(default_factory=set)  # readers that came to the end


@dataclass(frozen=True, slots=True)
class Judged:
    wrong: list[str]
    results: Mapping[str, int]  # transactions, by what their client knows
    copied: int  # records in committed transactions


def load(lines: Iterable[str], source: str, target_of: Mapping[str, str]) -> dict[str, Written]:
    """By client. `target_of`: the topic that each writes to; `source`: the topic that all read."""
    found: dict[str, Written] = {client: Written() for client in target_of}
    numbers: dict[int, Attempt] = {}
    for line in map(json.loads, lines):
        if "sent" in line:
            client = line["who"]
            attempt = numbers[line["number"]] = Attempt(line["number"], client, (source, 0))
            found[client].attempts[attempt.number] = attempt
            for partition, value in line["sent"]:
                attempt.sent[target_of[client], partition].append(value.encode())
        elif "result" in line:
            attempt = numbers[line["number"]]
            attempt.result, attempt.fenced = Result[line["result"]], line["fenced"]
        elif "committed" in line:
            found[line["who"]].committed = {
                (source, int(partition)): offset for partition, offset in line["committed"].items()
            }
        else:
            of_client = found[line["client"]]
            for partition, offset, value in line["read"]:
                of_client.read[line["reader"]][target_of[line["client"]], partition].append(
                    (offset, value.encode())
                )
            if line["everything"]:
                of_client.everything.add(line["reader"])
    return found


def judge(
    written: Written, topic: str, partitions: int, directories: Sequence[Path], verbatim: str = ""
) -> Judged:
    """`directories`: of the logs of all nodes, which have stopped. `verbatim`: the client is a tool
    that has written nothing down, and copies records of that topic as they are.
    """
    wrong: list[str] = []
    spans: dict[Place, list[Span]] = {}
    for partition in range(partitions):
        place = topic, partition
        replicas, longest = logs_of(place, directories)
        spans[place] = checks.spans_of(longest)
        for log, found in replicas.items():
            if found == longest and (listed := aborted(log)) is not None:
                wrong += checks.check_aborted(str(log), spans[place], listed)
    if verbatim:
        spans = told_apart(
            spans,
            {
                (verbatim, partition): logs_of((verbatim, partition), directories)[1]
                for partition in range(partitions)
            },
        )
    else:
        wrong += checks.check_attempts(list(written.attempts.values()), spans)
    wrong += checks.check_copies(spans, written.committed)
    for who, read in written.read.items():
        for place, of_place in spans.items():
            position = (
                inf
                if who in written.everything
                else max((offset + 1 for offset, _ in read[place]), default=0)
            )
            wrong += checks.check_read(who, place, of_place, read[place], position)
    results = Counter(attempt.result.name.lower() for attempt in written.attempts.values())
    return Judged(
        wrong,
        results,
        sum(len(span.values) for of_place in spans.values() for span in of_place if span.committed),
    )


def logs_of(
    place: Place, directories: Sequence[Path]
) -> tuple[Mapping[Path, Sequence[Entry]], Sequence[Entry]]:
    """Of each node that has the partition; and the longest."""
    logs = [each / f"{place[0]}-{place[1]}" for each in directories]
    found = {log: list(entries(log)) for log in logs if log.is_dir()}
    return found, max(
        found.values(), key=lambda each: each[-1].last_offset if each else -1, default=[]
    )


def told_apart(
    spans: Mapping[Place, Sequence[Span]], sources: Mapping[Place, Sequence[Entry]]
) -> dict[Place, list[Span]]:
    """With the input of each copy in its value, as our own clients write it."""
    known, unknown = dict[bytes, bytes](), Attempt(0, "", next(iter(sources))).value(NOWHERE, 0)
    for source, of_source in sources.items():
        attempt = Attempt(0, "", source)
        known |= {
            value: attempt.value(offset, 0)
            for entry in of_source
            for offset, value in enumerate(entry.values, entry.offset)
        }
    return {
        place: [
            span._replace(
                values=[(offset, known.get(value, unknown)) for offset, value in span.values]
            )
            for span in of_place
        ]
        for place, of_place in spans.items()
    }


def entries(log: Path) -> Iterator[Entry]:
    for segment in sorted(log.glob("*.log")):
        for header, batch in iterate(memoryview(segment.read_bytes())):
            if header.attributes & CONTROL:
                marker = read_marker(batch)
                if marker is not None:
                    yield Entry(
                        header.base_offset,
                        header.last_offset,
                        header.producer_id,
                        header.producer_epoch,
                        (),
                        marker.commit,
                    )
            else:
                values = [each.value or b"" for each in records_of(batch)]
                yield Entry(
                    header.base_offset,
                    header.last_offset,
                    header.producer_id,
                    header.producer_epoch,
                    values,
                )


def aborted(log: Path) -> list[tuple[float, ...]] | None:
    """As the broker has written it to the files of the log. None: one is missing, and would be made
    again for a reader.
    """
    indexes = [segment.with_suffix(".txnindex") for segment in sorted(log.glob("*.log"))]
    if not all(index.exists() for index in indexes):
        return None
    return [
        tuple(each[:3])
        for index in indexes
        for each in TransactionIndex(index.read_bytes()).entries
    ]
