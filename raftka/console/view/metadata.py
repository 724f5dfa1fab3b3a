"""Brokers, topics and partitions, as a broker's Metadata shows them to the login."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple
from uuid import UUID

from raftka.client.blocking.client import Client, Where
from raftka.client.blocking.every_broker import NOT_ALIVE, fenced_brokers
from raftka.client.connection import Address
from raftka.console.limits import ANSWER_SECONDS, BULK_ANSWER_SECONDS
from raftka.console.view.brokers import Brokers
from raftka.wire.errors import name_of_code
from raftka.wire.messages.metadata import METADATA, MetadataResponse, MetadataResponseTopic


class Broker(NamedTuple):
    node_id: int
    host: str
    port: int
    rack: str | None


class Partition(NamedTuple):
    """`leader` is -1 where there is none. Others are ids of brokers."""

    index: int  # type: ignore[assignment]  # nobody looks for values in it by tuple.index
    leader: int
    leader_epoch: int
    replicas: Sequence[int]
    isr: Sequence[int]
    offline: Sequence[int]


class Topic(NamedTuple):
    """`partitions` by index. `error`: Kafka's name of why they are not known, or None."""

    name: str
    topic_id: str
    internal: bool
    partitions: Sequence[Partition]
    error: str | None

    @property
    def replication(self) -> int:
        """The replicas of a partition: the most that one has."""
        return max((len(each.replicas) for each in self.partitions), default=0)


class Health(NamedTuple):
    """Partitions of a topic that lack a replica in sync, and that lack a leader."""

    under_replicated: int
    offline: int


class Metadata:
    """All of a cluster at one time, topics by name and in order. `missing`: brokers that are
    registered and not alive.
    """

    def __init__(
        self,
        cluster_id: str | None,
        controller: int,
        brokers: Mapping[int, Broker],
        topics: Mapping[str, Topic],
        missing: Mapping[int, str],
    ) -> None:
        self.cluster_id, self.controller = cluster_id, controller
        self.brokers, self.topics, self.missing = brokers, topics, missing

    @cached_property
    def addresses(self) -> dict[int, Address]:
        return {each.node_id: (each.host, each.port) for each in self.brokers.values()}

    @cached_property
    def partition_count(self) -> int:
        return sum(len(topic.partitions) for topic in self.topics.values())

    @cached_property
    def health(self) -> dict[str, Health]:
        """The topics that lack a leader or a replica in sync; others are left out."""
        found = {}
        for name, topic in self.topics.items():
            under = offline = 0
            for each in topic.partitions:
                under += len(each.isr) < len(each.replicas)
                offline += each.leader < 0
            if under or offline:
                found[name] = Health(under, offline)
        return found

    @cached_property
    def led(self) -> dict[int, list[Where]]:
        """All partitions by their leader; -1 for none."""
        found: dict[int, list[Where]] = {}
        for name, topic in self.topics.items():
            for each in topic.partitions:
                found.setdefault(each.leader, []).append((name, each.index))
        return found

    def partition(self, where: Where) -> Partition | None:
        topic = self.topics.get(where[0])
        if topic is None or not 0 <= where[1] < len(topic.partitions):
            return None
        return topic.partitions[where[1]]

    def by_leader(self, wheres: Iterable[Where]) -> dict[int, list[Where]]:
        """Those of the partitions that a broker leads, by its id."""
        found: dict[int, list[Where]] = {}
        for where in wheres:
            each = self.partition(where)
            if each is not None and each.leader >= 0:
                found.setdefault(each.leader, []).append(where)
        return found


def read_metadata(brokers: Brokers) -> Metadata:
    """Ask for all topics. Raises OSError when no broker answers."""
    with brokers.any_broker() as client:
        answer = _ask_for_all(client)
        # a bootstrap server may leave
        client.brokers = {each.node_id: (each.host, each.port) for each in answer.brokers}
        return _metadata(answer, dict.fromkeys(fenced_brokers(client), NOT_ALIVE))


def _ask_for_all(client: Client) -> MetadataResponse:
    """Find a broker that answers by a small question: the answer to the large one takes time, and
    no other broker is to begin one meanwhile.
    """
    request = METADATA.request(topics=None, allow_auto_topic_creation=False)
    client.refresh([], answer_s=ANSWER_SECONDS.value)
    if client.answered is not None:
        try:
            return client.ask_at(
                client.answered, METADATA, request, answer_s=BULK_ANSWER_SECONDS.value
            )
        except OSError:
            pass  # it has just gone
    return client.ask_any(METADATA, request, answer_s=BULK_ANSWER_SECONDS.value)


def _metadata(answer: MetadataResponse, missing: Mapping[int, str]) -> Metadata:
    return Metadata(
        answer.cluster_id,
        answer.controller_id,
        {
            each.node_id: Broker(each.node_id, each.host, each.port, each.rack)
            for each in sorted(answer.brokers, key=lambda each: each.node_id)
        },
        {each.name: each for each in sorted(map(_topic, answer.topics))},
        missing,
    )


def _topic(row: MetadataResponseTopic) -> Topic:
    partitions = [
        Partition(
            each.partition_index,
            each.leader_id,
            each.leader_epoch,
            each.replica_nodes,
            each.isr_nodes,
            each.offline_replicas,
        )
        for each in row.partitions
    ]
    partitions.sort()
    return Topic(
        str(row.name),
        str(UUID(bytes=bytes(row.topic_id))),
        row.is_internal,
        partitions,
        name_of_code(row.error_code) if row.error_code else None,
    )
