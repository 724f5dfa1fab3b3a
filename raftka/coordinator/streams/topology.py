"""The topology of a Kafka Streams application as its members send it: subtopologies, and the topics
of each. Knows no group.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from raftka.wire.errors import Code, KafkaError


class TopicInfo(NamedTuple):
    """An internal topic."""

    name: str
    partitions: int  # 0: as many as the topology needs
    replication_factor: int  # 0: the default of the broker
    configs: tuple[tuple[str, str], ...] = ()


class CopartitionGroup(NamedTuple):
    """Topics with equal numbers of partitions; each is a place in a list of the subtopology."""

    source_topics: tuple[int, ...] = ()
    repartition_source_topics: tuple[int, ...] = ()


class Subtopology(NamedTuple):
    """`source_regex` is kept as it was sent; a heartbeat with one is refused."""

    id: str
    source_topics: tuple[str, ...]
    repartition_sink_topics: tuple[str, ...] = ()
    repartition_source_topics: tuple[TopicInfo, ...] = ()
    changelog_topics: tuple[TopicInfo, ...] = ()
    copartition_groups: tuple[CopartitionGroup, ...] = ()
    source_regex: tuple[str, ...] = ()

    @property
    def stateful(self) -> bool:
        """Return whether its tasks have state, and so standby tasks."""
        return bool(self.changelog_topics)

    def sources(self) -> Iterator[str]:
        """Yield the names of all topics that its tasks read."""
        yield from self.source_topics
        for topic in self.repartition_source_topics:
            yield topic.name

    def copartitioned(self) -> Iterator[frozenset[str]]:
        """Yield the names of the topics of each copartition group."""
        for group in self.copartition_groups:
            yield frozenset(
                [
                    *(self.source_topics[place] for place in group.source_topics),
                    *(
                        self.repartition_source_topics[place].name
                        for place in group.repartition_source_topics
                    ),
                ]
            )


class Topology(NamedTuple):
    epoch: int
    subtopologies: tuple[Subtopology, ...] = ()

    def subtopology(self, subtopology_id: str) -> Subtopology | None:
        return next((each for each in self.subtopologies if each.id == subtopology_id), None)

    def internal_topics(self) -> Iterator[TopicInfo]:
        for each in self.subtopologies:
            yield from each.repartition_source_topics
            yield from each.changelog_topics

    def required_topics(self) -> set[str]:
        """Return the names of all topics that must be there before tasks are assigned."""
        return {
            *(name for each in self.subtopologies for name in each.source_topics),
            *(topic.name for topic in self.internal_topics()),
        }

    def named_topics(self) -> Iterator[str]:
        """Yield every name of a topic that the topology has, as often as it has it."""
        for each in self.subtopologies:
            yield from each.sources()
            yield from each.repartition_sink_topics
            for topic in each.changelog_topics:
                yield topic.name

    def reads(self, name: str) -> bool:
        return any(name in each.sources() for each in self.subtopologies)


def check_topology(topology: Topology) -> None:
    """Raise INVALID_REQUEST, STREAMS_INVALID_TOPOLOGY or STREAMS_INVALID_TOPOLOGY_EPOCH."""
    if topology.epoch < 0:
        raise KafkaError(
            Code.STREAMS_INVALID_TOPOLOGY_EPOCH,
            f"The topology's epoch is {topology.epoch}, but must be greater than or equal to 0.",
        )
    for each in topology.subtopologies:
        if each.source_regex:
            raise KafkaError(
                Code.INVALID_REQUEST,
                "Regular expressions for source topics are not supported yet.",
            )
        _check_subtopology(each)
    ids = Counter(each.id for each in topology.subtopologies)
    twice = [name for name, times in ids.items() if times > 1]
    if twice:
        raise _invalid(f"More than one subtopology has the id {twice[0]}.")


def _check_subtopology(subtopology: Subtopology) -> None:
    for topic in subtopology.changelog_topics:
        if topic.partitions:
            raise _invalid(
                f"Changelog topic {topic.name} must have an undefined partition count, but it is "
                f"set to {topic.partitions}."
            )
    for topic in subtopology.repartition_source_topics:
        if topic.partitions < 0:
            raise _invalid(
                f"Repartition topic {topic.name} has the partition count {topic.partitions}."
            )
    for group in subtopology.copartition_groups:
        _check_places(subtopology.id, group.source_topics, len(subtopology.source_topics))
        _check_places(
            subtopology.id,
            group.repartition_source_topics,
            len(subtopology.repartition_source_topics),
        )


def _check_places(subtopology_id: str, places: Iterable[int], count: int) -> None:
    for place in places:
        if not 0 <= place < count:
            raise _invalid(
                f"A copartition group of subtopology {subtopology_id} names topic {place} of "
                f"{count}."
            )


def _invalid(text: str) -> KafkaError:
    return KafkaError(Code.STREAMS_INVALID_TOPOLOGY, text)
