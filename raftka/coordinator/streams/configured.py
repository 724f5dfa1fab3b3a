"""A topology beside the cluster's topics: how many partitions each internal topic must have, which
topics are missing, and how many tasks there are. Knows no group.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from itertools import islice
from typing import NamedTuple

from raftka.coordinator.machine import Topics
from raftka.coordinator.streams.topology import Subtopology, TopicInfo, Topology
from raftka.limits import TASKS_OF_GROUP
from raftka.wire.errors import Code, KafkaError, check_limit

SHOWN = 20  # names of topics in a text

Counts = dict[str, int]  # partitions by topic


class StatusCode(IntEnum):
    """Numbers of StreamsGroupHeartbeat's answer."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5
    MISSING_CLIENT_TAGS = 6


class Status(NamedTuple):
    code: StatusCode
    text: str


class MissingTopic(NamedTuple):
    """An internal topic that the broker is to create."""

    name: str
    partitions: int
    replication_factor: int  # -1: the default of the broker
    configs: tuple[tuple[str, str], ...]


class Configured(NamedTuple):
    """`counts` has the partitions of all internal topics, and is empty when they are not known."""

    tasks: dict[str, int]  # by subtopology
    counts: Counts
    missing: tuple[MissingTopic, ...] = ()
    fault: Status | None = None  # no tasks are assigned meanwhile

    @property
    def ready(self) -> bool:
        return self.fault is None


class _Mismatch(Exception):
    """Topics that exist have wrong numbers of partitions."""


def configure(topology: Topology, topics: Topics) -> Configured:
    """Raises STREAMS_INVALID_TOPOLOGY for a topology that no topics can make right."""
    missing = sorted(
        {
            name
            for each in topology.subtopologies
            for name in each.source_topics
            if not topics.partition_count(name)
        }
        - {topic.name for topic in topology.internal_topics()}
    )
    if missing:
        text = f"Source topics {_listed(missing)} are missing."
        return Configured({}, {}, fault=Status(StatusCode.MISSING_SOURCE_TOPICS, text))
    try:
        counts = _decide_counts(topology, topics)
        tasks = {each.id: _most_partitions(each, topics, counts) for each in topology.subtopologies}
        to_create = _missing_internal(topology, topics, counts)
    except _Mismatch as mismatch:
        fault = Status(StatusCode.INCORRECTLY_PARTITIONED_TOPICS, str(mismatch))
        return Configured({}, {}, fault=fault)
    check_limit(TASKS_OF_GROUP, sum(tasks.values()), code=Code.STREAMS_INVALID_TOPOLOGY)
    if to_create:
        text = f"Internal topics are missing: {_listed([topic.name for topic in to_create])}"
        fault = Status(StatusCode.MISSING_INTERNAL_TOPICS, text)
        return Configured(tasks, counts, to_create, fault)
    return Configured(tasks, counts)


def _decide_counts(topology: Topology, topics: Topics) -> Counts:
    counts = _repartition_counts(topology, topics)
    repartition = {
        topic.name: topic
        for each in topology.subtopologies
        for topic in each.repartition_source_topics
    }
    for each in topology.subtopologies:
        for names in each.copartitioned():
            counts.update(_copartition(names, repartition, topics, counts))
    for each in topology.subtopologies:
        most = _most_partitions(each, topics, counts)
        sources = set(each.sources())
        counts.update(
            {topic.name: most for topic in each.changelog_topics if topic.name not in sources}
        )
    return counts


def _repartition_counts(topology: Topology, topics: Topics) -> Counts:
    """Return the partitions of repartition topics: a topic without a number of its own has as many
    as the subtopology that writes it has tasks.
    """
    counts = {
        topic.name: topic.partitions
        for each in topology.subtopologies
        for topic in each.repartition_source_topics
        if topic.partitions
    }
    _propagate(topology, topics, counts)
    if any(
        name not in counts
        for each in topology.subtopologies
        for name in each.repartition_sink_topics
    ):
        raise _invalid(
            "Failed to compute number of partitions for all repartition topics. There may be "
            "loops in the topology that cannot be resolved."
        )
    if any(
        topic.name not in counts
        for each in topology.subtopologies
        for topic in each.repartition_source_topics
    ):
        raise _invalid(
            "Failed to compute number of partitions for all repartition topics, because a "
            "repartition source topic is never used as a sink topic."
        )
    return counts


def _propagate(topology: Topology, topics: Topics, counts: Counts) -> None:
    """Add the partitions of the topics that subtopologies write, from the first to the last. A
    subtopology is looked at again when a topic that it reads becomes known.
    """
    readers: dict[str, list[Subtopology]] = {}
    for each in topology.subtopologies:
        for topic in each.repartition_source_topics:
            readers.setdefault(topic.name, []).append(each)
    waiting = deque(topology.subtopologies)
    done: set[str] = set()
    while waiting:
        subtopology = waiting.popleft()
        if subtopology.id in done:
            continue
        most = _known_most(subtopology, topics, counts)
        if most is None:
            continue
        done.add(subtopology.id)
        for name in subtopology.repartition_sink_topics:
            if name not in counts:
                counts[name] = most
                waiting.extend(readers.get(name, ()))


def _known_most(subtopology: Subtopology, topics: Topics, counts: Mapping[str, int]) -> int | None:
    """Return the most partitions of the topics that it reads, as far as they are known; None: of no
    topic.
    """
    found = [counts[t.name] for t in subtopology.repartition_source_topics if t.name in counts]
    found += [n for name in subtopology.source_topics if (n := topics.partition_count(name))]
    return max(found, default=None)


def _copartition(
    names: frozenset[str], repartition: Mapping[str, TopicInfo], topics: Topics, counts: Counts
) -> Counts:
    """Return the partitions of the repartition topics among these topics: as many as the other
    topics have. Raises _Mismatch.
    """
    inner = sorted(names & repartition.keys())
    outer = {name: _count(name, topics, counts) for name in sorted(names - repartition.keys())}
    fixed = {name: counts[name] for name in inner if repartition[name].partitions}
    if not names:
        return {}
    deciding = outer or fixed or {"": max(counts[name] for name in inner)}
    number = next(iter(deciding.values()))
    if any(each != number for each in deciding.values()):
        listed = ", ".join(f"{name}={count}" for name, count in deciding.items())
        raise _Mismatch(
            f"Following topics do not have the same number of partitions: [{{{listed}}}]"
        )
    for name, count in fixed.items():
        if count != number:
            raise _Mismatch(
                f"Number of partitions [{count}] of repartition topic [{name}] doesn't match "
                f"number of partitions [{number}] of the source topic."
            )
    return dict.fromkeys(inner, number)


def _most_partitions(subtopology: Subtopology, topics: Topics, counts: Counts) -> int:
    """Return the number of its tasks: the most partitions of the topics that it reads."""
    sources = list(subtopology.sources())
    if not sources:
        raise _invalid(f"No source topics found for subtopology {subtopology.id}")
    return max(_count(name, topics, counts) for name in sources)


def _missing_internal(
    topology: Topology, topics: Topics, counts: Counts
) -> tuple[MissingTopic, ...]:
    """Return the internal topics that are to be created. Raises _Mismatch."""
    missing = {}
    for topic in topology.internal_topics():
        exists, needed = topics.partition_count(topic.name), counts.get(topic.name, 0)
        if exists and needed and exists != needed:
            raise _Mismatch(
                f"Existing topic {topic.name} has different number of partitions: expected "
                f"{needed}, found {exists}"
            )
        if not exists:
            factor = topic.replication_factor or -1
            missing[topic.name] = MissingTopic(topic.name, needed, factor, topic.configs)
    return tuple(missing[name] for name in sorted(missing))


def _count(name: str, topics: Topics, counts: Mapping[str, int]) -> int:
    """Return the partitions that the topic has, or will have."""
    return counts.get(name) or topics.partition_count(name)


def _listed(names: Iterable[str]) -> str:
    """Return the names as text; of very many, the first."""
    rest: Iterator[str] = iter(names)
    text = ", ".join(islice(rest, SHOWN))
    more = sum(1 for _ in rest)
    return f"{text} and {more} more" if more else text


def _invalid(text: str) -> KafkaError:
    return KafkaError(Code.STREAMS_INVALID_TOPOLOGY, text)
