"""A client that asks brokers for leaders, coordinators, ends and times, as client libraries do, and
compares the answers with the broker's state.

A broker that was asked while nothing changed for it must tell what its image and its logs say; with
another leader epoch it must refuse. Several questions at once on one connection, one of which
waits, are answered in their order. Several clients at once ask one broker for producer ids.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from random import Random
from typing import Any, ClassVar

import trio

from raftka.broker.coordinators.runtime import partition_for
from raftka.broker.node import Node
from raftka.broker.replica.partition import Partition
from raftka.chaos.simulated.clients.client import TELLS_EPOCHS, Client, NoAnswer, only_partition
from raftka.chaos.simulated.cluster import CLIENT_PORT, Cluster
from raftka.metadata.image import MetadataImage, PartitionImage
from raftka.wire.errors import Code
from raftka.wire.messages.epochs import OFFSET_FOR_LEADER_EPOCH
from raftka.wire.messages.fetch import FETCH, FetchRequest
from raftka.wire.messages.find_coordinator import FIND_COORDINATOR
from raftka.wire.messages.list_offsets import EARLIEST, LATEST, LIST_OFFSETS, ListOffsetsRequest
from raftka.wire.messages.metadata import METADATA
from raftka.wire.messages.producer_ids import INIT_PRODUCER_ID
from raftka.wire.messages.topic_partitions import DESCRIBE_TOPIC_PARTITIONS
from raftka.wire.schema import AnyApi, Api, Req, Resp, Row

PAUSE_S = (0.05, 0.4)
LONG_POLL_MS = 200
FETCH_BYTES = 1000
BEYOND = 1_000_000  # records
GROUPS = 3  # asked for at once
ASKERS = 3  # that ask for a producer id at once
OFFSETS = "__consumer_offsets"
TELLS_OFFLINE = 5  # the first version of Metadata that does
NOT_HERE = frozenset(
    {
        Code.NOT_LEADER_OR_FOLLOWER,
        Code.UNKNOWN_TOPIC_OR_PARTITION,
        Code.KAFKA_STORAGE_ERROR,
        Code.LEADER_NOT_AVAILABLE,
    }
)
SHOWN = 300  # characters


class Asker:
    def __init__(self, client: Client, cluster: Cluster, others: Sequence[Client]) -> None:
        self.client = client
        self.others = others  # who ask at the same time, each on a connection of its own
        self.cluster = cluster
        self.over = self.done = False
        self.wrong: list[str] = []
        self.answered = 0
        self._random = client.runtime.random("asker")

    async def run(self) -> None:
        questions = (
            self._metadata,
            self._describe,
            self._coordinators,
            self._epochs,
            self._offsets,
            self._many_at_once,
            self._producer_ids,
        )
        while not self.over:
            brokers = sorted(self.cluster.nodes.keys() - self.cluster.controllers)
            begun = [each for each in brokers if self._has_no_producer_ids(each)]
            try:
                if begun and self._random.random() < 0.5:
                    await self._producer_ids(self._random.choice(begun))
                else:
                    await self._random.choice(questions)(self._random.choice(brokers))
                self.answered += 1
            except NoAnswer:
                pass
            await trio.sleep(self._random.uniform(*PAUSE_S))
        self.done = True

    def _has_no_producer_ids(self, node_id: int) -> bool:
        """Return whether the node serves and has to ask the controller for its next producer id."""
        node = self.cluster.judged.get(node_id)
        return (
            node is not None
            and node.ready.is_set()
            and node.services.producer_ids._next == node.services.producer_ids._end
        )

    def _node(self, node_id: int) -> Node:
        """Raises NoAnswer."""
        node = self.cluster.judged.get(node_id)
        if node is None or not node.ready.is_set():
            raise NoAnswer
        return node

    async def _ask(
        self, node: Node, api: Api[Req, Resp], row: Req, version: int | None = None
    ) -> Resp:
        """The answer, if the broker still lives and has seen no change of the metadata meanwhile.
        Raises NoAnswer.
        """
        image = node.image
        answer = await self.client.ask((f"n{node.node_id}", CLIENT_PORT), api, row, version=version)
        if node.image is not image or self.cluster.judged.get(node.node_id) is not node:
            raise NoAnswer
        return answer

    def _say(self, node: Node, what: str, found: object, expected: object) -> None:
        if found != expected:
            self.wrong.append(
                (
                    f"n{node.node_id} tells {self.client.shape.name} of {what}: {found}, it has "
                    f"{expected}"
                )[:SHOWN]
            )

    async def _metadata(self, node_id: int) -> None:
        node, version = self._node(node_id), self.client.shape.version(METADATA) or 99
        names = sorted(node.image.topic_ids)
        asked = [METADATA.request.topics(name=name) for name in names]
        answer = await self._ask(
            node, METADATA, METADATA.request(topics=asked, allow_auto_topic_creation=False)
        )
        for topic in answer.topics:
            known = node.image.topic_named(topic.name or "")
            self._say(
                node,
                f"the partitions of {topic.name}",
                len(topic.partitions),
                len(known.partitions) if known is not None else 0,
            )
            for partition, each in zip(
                topic.partitions, known.partitions if known is not None else (), strict=False
            ):
                found = _told(
                    partition, epoch=version >= TELLS_EPOCHS, offline=version >= TELLS_OFFLINE
                )
                expected = _known(
                    node.image,
                    each,
                    epoch=version >= TELLS_EPOCHS,
                    offline=version >= TELLS_OFFLINE,
                )
                self._say(node, f"{topic.name}-{partition.partition_index}", found, expected)

    async def _describe(self, node_id: int) -> None:
        node = self._node(node_id)
        request = DESCRIBE_TOPIC_PARTITIONS.request
        answer = await self._ask(
            node,
            DESCRIBE_TOPIC_PARTITIONS,
            request(topics=[request.topics(name=name) for name in sorted(node.image.topic_ids)]),
        )
        for topic in answer.topics:
            known = node.image.topic_named(topic.name or "")
            for partition, each in zip(
                topic.partitions, known.partitions if known is not None else (), strict=False
            ):
                expected = _known(node.image, each, epoch=True, offline=True)
                self._say(
                    node,
                    f"{topic.name}-{partition.partition_index}",
                    _told(partition, epoch=True, offline=True),
                    expected,
                )

    async def _coordinators(self, node_id: int) -> None:
        node, shape = self._node(node_id), self.client.shape
        groups = [f"group{self._random.randrange(1000)}" for _ in range(GROUPS)]
        asked = groups if shape.asks_for_many else groups[:1]
        found = shape.coordinators(
            await self._ask(node, FIND_COORDINATOR, shape.find_coordinator(asked))
        )
        topic = node.image.topic_named(OFFSETS)
        for group, each in zip(asked, found, strict=True):
            if topic is not None and each.error_code == Code.NONE:
                self._say(
                    node,
                    f"the coordinator of {group}",
                    each.node_id,
                    topic.partitions[partition_for(group, len(topic.partitions))].leader,
                )

    def _leads(self, node: Node) -> Partition:
        """One of the partitions that it leads, rather one that has just begun: it does not know its
        end yet. Raises NoAnswer.
        """
        replicas = [
            partition
            for partition in node.replicas.partitions.values()
            if partition.leader is not None
        ]
        if not replicas:
            raise NoAnswer
        return self._random.choice(
            [partition for partition in replicas if not partition.leading().knows_its_end]
            or replicas
        )

    async def _epochs(self, node_id: int) -> None:
        """With the epoch of an earlier leader it must refuse, and with that of a later one, which
        it has not heard of.
        """
        node = self._node(node_id)
        partition, by = self._leads(node), self._random.choice((-1, 1))
        expected = Code.FENCED_LEADER_EPOCH if by < 0 else Code.UNKNOWN_LEADER_EPOCH
        epoch = partition.leader_epoch + by
        if epoch < 0:
            return
        if self._random.random() < 0.5:
            found = only_partition(
                LIST_OFFSETS,
                await self._ask(
                    node, LIST_OFFSETS, _list_row(partition, LATEST, epoch), version=99
                ),
            )
        else:
            request = OFFSET_FOR_LEADER_EPOCH.request
            asked = request.topics.partitions(
                partition=partition.index,
                current_leader_epoch=epoch,
                leader_epoch=partition.leader_epoch,
            )
            row = request(topics=[request.topics(topic=partition.topic, partitions=[asked])])
            found = only_partition(
                OFFSET_FOR_LEADER_EPOCH,
                await self._ask(node, OFFSET_FOR_LEADER_EPOCH, row, version=99),
            )
        code = Code(found.error_code)
        if partition.leader is not None and code not in NOT_HERE:
            self._say(node, f"{partition.name} by epoch {epoch}", code.name, expected.name)

    async def _offsets(self, node_id: int) -> None:
        """Raises NoAnswer, also where the log's directory fails meanwhile."""
        node = self._node(node_id)
        partition = self._leads(node)
        leader, log, end = partition.leading(), partition.log, partition.high_watermark
        # a cleaner may have taken the record away
        before = end, log.start_offset, log.end_offset, log.segments.copy()
        try:
            last = log.max_timestamp_offset(end)
            newest = last[0] if last is not None else 0
            timestamp = self._random.choice(
                (EARLIEST, LATEST, newest, max(0, newest - self._random.randrange(3_000)))
            )
            found = log.offset_for_timestamp(timestamp, end) if timestamp >= 0 else None
        except OSError as error:
            raise NoAnswer from error
        version = self.client.shape.version(LIST_OFFSETS)
        expected = {LATEST: end, EARLIEST: log.start_offset}.get(
            timestamp, found[1] if found is not None else -1
        )
        knew = leader.knows_its_end
        for _ in range(2):  # the second time a shorter way may be taken
            answer = only_partition(
                LIST_OFFSETS,
                await self._ask(node, LIST_OFFSETS, _list_row(partition, timestamp, -1), version),
            )
            now = partition.high_watermark, log.start_offset, log.end_offset, log.segments
            if now != before or partition.log is not log or partition.leader is not leader:
                return
            if timestamp == LATEST and not knew:
                self._say(
                    node,
                    f"the end of {partition.name}, which it does not know",
                    answer.error_code != Code.NONE,
                    True,
                )
            elif answer.error_code == Code.NONE:
                self._say(
                    node, f"what {partition.name} has at {timestamp}", answer.offset, expected
                )

    async def _many_at_once(self, node_id: int) -> None:
        """Behind one that waits. Whether the answers come in their order the connection says."""
        node = self._node(node_id)
        partition, shape = self._leads(node), self.client.shape
        questions: list[tuple[AnyApi, Row]] = [
            (LIST_OFFSETS, _list_row(partition, LATEST, -1)),
            (METADATA, METADATA.request(topics=[])),
        ]
        questions.append((FIND_COORDINATOR, shape.find_coordinator(["one"])))
        self._random.shuffle(questions)
        fetches = [
            (FETCH, _fetch_row(partition, partition.high_watermark)),  # it waits
            (FETCH, _fetch_row(partition, partition.log.end_offset + BEYOND)),  # it is refused
        ]
        at = self._random.randrange(2)
        questions[at:at] = fetches  # a request of another kind would end the waiting
        await self.client.ask_many((f"n{node_id}", CLIENT_PORT), questions)

    async def _producer_ids(self, node_id: int) -> None:
        """Several clients ask a broker that has just started: all have to wait for the
        controller.
        """
        async with trio.open_nursery() as nursery:
            for client in (self.client, *self.others):
                nursery.start_soon(_producer_id, client, node_id)


async def _producer_id(client: Client, node_id: int) -> None:
    with suppress(NoAnswer):
        answer = await client.ask(
            (f"n{node_id}", CLIENT_PORT),
            INIT_PRODUCER_ID,
            INIT_PRODUCER_ID.request(transaction_timeout_ms=60000),
        )
        if answer.error_code == Code.NONE:
            client.producer_ids.append(int(answer.producer_id))


def _fetch_row(partition: Partition, offset: int) -> FetchRequest:
    request = FETCH.request
    asked = request.topics.partitions(
        partition=partition.index, fetch_offset=offset, partition_max_bytes=FETCH_BYTES
    )
    topic = request.topics(
        topic=partition.topic, topic_id=bytes(partition.topic_id), partitions=[asked]
    )
    return request(max_wait_ms=LONG_POLL_MS, min_bytes=1, topics=[topic])


def _list_row(partition: Partition, timestamp: int, epoch: int) -> ListOffsetsRequest:
    request = LIST_OFFSETS.request
    asked = request.topics.partitions(
        partition_index=partition.index, current_leader_epoch=epoch, timestamp=timestamp
    )
    return request(topics=[request.topics(name=partition.topic, partitions=[asked])])


def _told(row: Any, *, epoch: bool, offline: bool) -> tuple[object, ...]:
    return _all_of(
        row.leader_id,
        row.leader_epoch if epoch else -1,
        row.replica_nodes,
        row.isr_nodes,
        row.offline_replicas if offline else (),
    )


def _known(
    image: MetadataImage, partition: PartitionImage, *, epoch: bool, offline: bool
) -> tuple[object, ...]:
    gone = (
        [i for i in partition.replicas if _is_gone(image, i) or i in partition.offline]
        if offline
        else ()
    )
    return _all_of(
        partition.leader,
        partition.leader_epoch if epoch else -1,
        partition.replicas,
        partition.isr,
        gone,
    )


def _is_gone(image: MetadataImage, broker_id: int) -> bool:
    broker = image.brokers.get(broker_id)
    return broker is None or broker.fenced


def _all_of(
    leader: int, epoch: int, replicas: Sequence[int], isr: Sequence[int], offline: Sequence[int]
) -> tuple[object, ...]:
    return (
        "leader",
        leader,
        "epoch",
        epoch,
        "replicas",
        tuple(replicas),
        "isr",
        tuple(isr),
        "offline",
        tuple(offline),
    )


class AskingWork:
    settings: ClassVar[Mapping[str, str]] = {}
    topics: Sequence[tuple[str, int]] = ()

    def __init__(self) -> None:
        self.asker: Asker

    def begin(self, cluster: Cluster, chance: Random) -> None:
        self.asker = Asker(
            cluster.client_of_a_library("asker"),
            cluster,
            [cluster.client("asker") for _ in range(ASKERS - 1)],
        )
        self.asker.client.runtime.spawn(self.asker.run, "asker")

    @property
    def wrong(self) -> list[str]:
        return self.asker.wrong

    @property
    def counts(self) -> Sequence[int]:
        return [self.asker.answered]

    def end(self) -> None:
        self.asker.over = True

    @property
    def ended(self) -> bool:
        return self.asker.done

    def check(self, cluster: Cluster) -> list[str]:
        given = Counter(
            producer_id for client in cluster.clients for producer_id in client.producer_ids
        )
        return [
            f"the producer id {producer_id} was given {count} times"
            for producer_id, count in given.items()
            if count > 1
        ][:5]
