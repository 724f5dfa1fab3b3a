"""First and last offsets of partitions, and the rates at which they grow."""

import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from raftka.client.blocking.client import Where, list_offsets_request
from raftka.console.limits import OLDEST_RATE_SECONDS
from raftka.console.view.brokers import Brokers
from raftka.console.view.cached import Effort
from raftka.console.view.metadata import Metadata
from raftka.wire.errors import name_of_code
from raftka.wire.messages.list_offsets import LIST_OFFSETS

LEAST_RATE_S = 0.5  # between two readings that make a rate


class Offsets(NamedTuple):
    """`failed`: Kafka's name of the error of partitions that have none, those without a leader
    among them. `missing`: brokers that do not answer, and why. `taken`: monotonic seconds.
    """

    of: Mapping[Where, int]
    failed: Mapping[Where, str]
    missing: Mapping[int, str]
    taken: float


class Ends(NamedTuple):
    """All ends of a cluster, and records a second since the reading before it; without one there
    are no rates.
    """

    offsets: Offsets
    rates: Mapping[Where, float]
    rates_by_topic: Mapping[str, float]

    @property
    def has_rates(self) -> bool:
        return bool(self.rates_by_topic)


def read_offsets(
    brokers: Brokers,
    metadata: Metadata,
    wheres: Iterable[Where] | None,
    time_ms: int,
    effort: Effort,
) -> Offsets:
    """Ask the leaders of these partitions, or of all. `time_ms`: LATEST, EARLIEST or a time (ms
    since 1970); the first offset at or after it, -1 where there is none.
    """
    if wheres is None:
        led = {node_id: own for node_id, own in metadata.led.items() if node_id >= 0}
        without = metadata.led.get(-1, [])
    else:
        wheres = list(wheres)
        led = metadata.by_leader(wheres)
        there = {where for own in led.values() for where in own}
        without = [where for where in wheres if where not in there]
    rows = {
        node_id: list_offsets_request(dict.fromkeys(own, time_ms)) for node_id, own in led.items()
    }
    taken = time.monotonic()
    answers = brokers.ask_each(metadata.addresses, LIST_OFFSETS, rows, effort, bulk=wheres is None)
    found: dict[Where, int] = {}
    failed = dict.fromkeys(without, "LEADER_NOT_AVAILABLE")
    for answer in answers.of.values():
        for topic in answer.topics:
            name = topic.name
            for each in topic.partitions:
                if each.error_code:
                    failed[name, each.partition_index] = name_of_code(each.error_code)
                else:
                    found[name, each.partition_index] = each.offset
    return Offsets(found, failed, answers.missing, taken)


def with_rates(offsets: Offsets, before: Offsets | None) -> Ends:
    """Compare two readings of all ends. One that is too old says nothing about now."""
    passed_s = offsets.taken - before.taken if before is not None else 0.0
    rates: dict[Where, float] = {}
    by_topic: dict[str, float] = {}
    if before is not None and LEAST_RATE_S <= passed_s <= OLDEST_RATE_SECONDS.value:
        old = before.of
        for where, end in offsets.of.items():
            if (start := old.get(where)) is None:
                continue
            by_topic.setdefault(where[0], 0.0)
            if end > start:
                rate = rates[where] = (end - start) / passed_s
                by_topic[where[0]] += rate
    return Ends(offsets, rates, by_topic)


def messages_by_topic(starts: Offsets, ends: Offsets) -> dict[str, int]:
    """Offsets between first and last by topic: of a compacted topic more than its records."""
    found: dict[str, int] = {}
    first = starts.of
    for where, end in ends.of.items():
        if (start := first.get(where)) is not None:
            found[where[0]] = found.get(where[0], 0) + max(0, end - start)
    return found
