"""A topic that is deleted and made again under the same name, over and over: no generation may show
what an earlier one had.

One client does all of it and speaks of topics by their ids, as Kafka's own clients do: what is
acknowledged to one id is that topic's for as long as it is there. A group commits offsets of each
generation; the next one begins without any. Records are deleted from some generations, to which
nobody writes any more: all replicas hear of it all the same.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from random import Random
from typing import Any, ClassVar

import trio

from raftka.chaos.simulated.clients.client import (
    CREATION_PASSES,
    FETCH_BYTES,
    PRODUCE_TIMEOUT_MS,
    Address,
    Client,
    NoAnswer,
    batches_of,
    only_partition,
)
from raftka.chaos.simulated.clients.committers import commit_row, committed_row
from raftka.chaos.simulated.cluster import Cluster
from raftka.metadata.image import TOPIC
from raftka.wire.errors import Code
from raftka.wire.messages.delete_records import DELETE_RECORDS
from raftka.wire.messages.fetch import FETCH, FetchRequest
from raftka.wire.messages.find_coordinator import FIND_COORDINATOR
from raftka.wire.messages.metadata import METADATA
from raftka.wire.messages.offsets import OFFSET_COMMIT, OFFSET_FETCH
from raftka.wire.messages.produce import PRODUCE
from raftka.wire.messages.topics import CREATE_TOPICS, DELETE_TOPICS
from raftka.wire.records import build_batch
from raftka.wire.rows import ZERO_UUID
from raftka.wire.schema import Api, Req, Resp

NAME, GROUP = "phoenix", "ashes"
PARTITIONS = 2
RETRY_S = 0.1
NEWEST = 99  # version: the highest that there is
BATCHES = (1, 8)
# one of them, in half of the generations
OTHER_SETTINGS = ("retention.ms", "segment.ms", "flush.ms")
SHORTENED = 0.5  # of the generations
# until a topic of which records were deleted goes: the checkpoint files know of it, or not
IN_A_CHECKPOINT_S = (0.0, 0.0, 6.0)
# to see what was acknowledged, with nobody to take it away; longer where a fault is about
READS_S = 5.0


class Gone(Exception):
    """The topic is not there any more, or its broker does not know yet that it is."""


class Recreator:
    def __init__(self, client: Client) -> None:
        self.client = client
        self.over = self.done = False
        self.wrong: list[str] = []
        self.acknowledged = 0
        self.topic_id = ZERO_UUID
        self._random = client.runtime.random("recreator")
        self._generation = 0
        # the latest of each partition's leaders that was heard of
        self._epochs: dict[tuple[bytes, int], int] = {}
        self.configs: list[dict[str, str]] = []  # those that this generation may have
        self._asked: list[dict[str, str]] = []  # for every generation
        self._of_each = client.runtime.random("settings of each generation")
        self._shorten = client.runtime.random("deleted records of each generation")

    async def run(self) -> None:
        producer_id = await self.client.producer_id()
        earlier = ZERO_UUID
        while True:
            self._generation += 1
            self.topic_id = await self._create(earlier)
            written: dict[int, dict[int, bytes]] = {
                partition: {} for partition in range(PARTITIONS)
            }
            sequences = dict.fromkeys(range(PARTITIONS), 0)
            await self._offsets()
            for _ in range(self._random.randint(*BATCHES)):
                partition = self._random.randrange(PARTITIONS)
                sequences[partition] += await self._write(
                    partition, producer_id, sequences[partition], written[partition]
                )
            for partition in range(PARTITIONS):
                await self._read(partition, written[partition])
            if earlier != ZERO_UUID:
                await self._read_earlier(earlier)
            if self._shorten.random() < SHORTENED:
                await self._shorten_all(written)
            if self.over:
                break
            await self._delete()
            earlier = self.topic_id
            await trio.sleep(self._random.choice((0.0, 0.0, 0.3)))
        self.done = True

    async def _create(self, earlier: bytes) -> bytes:
        request, random = CREATE_TOPICS.request, self._random
        wanted = {
            "internal.segment.bytes": random.choice(("1000", "4000", "100000")),
            "min.insync.replicas": "1",
        }
        if self._of_each.random() < 0.5:
            wanted |= {self._of_each.choice(OTHER_SETTINGS): "86400000"}
        self._asked.append(wanted)
        configs = [request.topics.configs(name=name, value=value) for name, value in wanted.items()]
        topic = request.topics(
            name=NAME,
            num_partitions=PARTITIONS,
            replication_factor=random.choice((2, 3)),
            configs=configs,
        )
        while True:
            row = await self.client.anybody(CREATE_TOPICS, request(topics=[topic], timeout_ms=2000))
            code = Code(row.topics[0].error_code)
            if code is Code.NONE:
                self.configs = [wanted]
                return bytes(row.topics[0].topic_id)
            # by an attempt whose answer was lost, perhaps one for an earlier generation that came
            # late
            if code is Code.TOPIC_ALREADY_EXISTS:
                topic_id = await self._id_by_name()
                if topic_id not in (earlier, ZERO_UUID):
                    self.configs = self._asked
                    return topic_id
            elif code not in CREATION_PASSES:
                self.wrong.append(f"{NAME} cannot be made again: {code.name}")
            await trio.sleep(RETRY_S)

    async def _id_by_name(self) -> bytes:
        row = await self.client.anybody(
            METADATA,
            METADATA.request(
                topics=[METADATA.request.topics(name=NAME)], allow_auto_topic_creation=False
            ),
        )
        return bytes(row.topics[0].topic_id)

    async def _delete(self) -> None:
        request = DELETE_TOPICS.request
        row = request(topics=[request.topics(name=None, topic_id=self.topic_id)], timeout_ms=2000)
        while True:
            answer = await self.client.anybody(DELETE_TOPICS, row)
            if answer.responses[0].error_code in (Code.NONE, Code.UNKNOWN_TOPIC_ID):
                return
            await trio.sleep(RETRY_S)

    async def _leader(self, topic_id: bytes, partition: int) -> Address | None:
        row = await self.client.anybody(
            METADATA,
            METADATA.request(
                topics=[METADATA.request.topics(name=None, topic_id=topic_id)],
                allow_auto_topic_creation=False,
            ),
        )
        brokers = {broker.node_id: (broker.host, broker.port) for broker in row.brokers}
        for each in [
            each
            for topic in row.topics
            for each in topic.partitions
            if each.partition_index == partition
        ]:
            # it does not go back to an earlier leader
            if each.leader_epoch >= self._epochs.get((topic_id, partition), -1):
                self._epochs[topic_id, partition] = each.leader_epoch
                return brokers.get(each.leader_id)
        return None

    async def _ask(self, topic_id: bytes, partition: int, api: Api[Req, Resp], row: Req) -> Any:
        """Raises NoAnswer, also when there is no leader."""
        where = await self._leader(topic_id, partition)
        if where is None:
            raise NoAnswer
        return only_partition(api, await self.client.ask(where, api, row, version=NEWEST))

    async def _write(
        self, partition: int, producer_id: int, sequence: int, written: dict[int, bytes]
    ) -> int:
        """Until it is acknowledged."""
        now, count = self.client.runtime.clock.wall_ms(), self._random.randint(1, 4)
        values = [
            b"%d/%d/%s" % (self._generation, sequence + i, b"." * self._random.randint(0, 150))
            for i in range(count)
        ]
        request = PRODUCE.request
        while True:
            batch = build_batch(
                [(None, value, (), now) for value in values],
                producer_id=producer_id,
                producer_epoch=0,
                base_sequence=sequence,
            )
            data = request.topic_data(
                topic_id=self.topic_id,
                partition_data=[request.topic_data.partition_data(index=partition, records=batch)],
            )
            try:
                answer = await self._ask(
                    self.topic_id,
                    partition,
                    PRODUCE,
                    request(acks=-1, timeout_ms=PRODUCE_TIMEOUT_MS, topic_data=[data]),
                )
            except NoAnswer:
                answer = None
            if answer is not None and answer.error_code == Code.NONE:
                if answer.base_offset != sequence:
                    self.wrong.append(
                        f"{NAME}-{partition} of generation {self._generation} has {sequence} at "
                        f"{answer.base_offset}"
                    )
                written.update({answer.base_offset + i: value for i, value in enumerate(values)})
                self.acknowledged += 1
                return count
            if answer is not None and answer.error_code in (
                Code.OUT_OF_ORDER_SEQUENCE_NUMBER,
                Code.INVALID_PRODUCER_EPOCH,
                Code.UNKNOWN_SERVER_ERROR,
            ):
                self.wrong.append(
                    f"{NAME}-{partition}: {Code(answer.error_code).name} for {sequence} of "
                    f"generation {self._generation}"
                )
                return count
            await trio.sleep(RETRY_S)

    async def _read(self, partition: int, written: dict[int, bytes]) -> None:
        """All that was acknowledged, from the beginning, and nothing of another generation."""
        found: dict[int, bytes] = {}
        while len(found) < len(written):
            try:
                answer = await self._ask(
                    self.topic_id,
                    partition,
                    FETCH,
                    _fetch_row(self.topic_id, partition, len(found)),
                )
            except NoAnswer:
                await trio.sleep(RETRY_S)
                continue
            if answer.error_code == Code.OFFSET_OUT_OF_RANGE:
                self.wrong.append(
                    f"{NAME}-{partition} of generation {self._generation} has no offset "
                    f"{len(found)}"
                )
                return
            for batch in batches_of(answer, len(found)) if answer.error_code == Code.NONE else ():
                found.update(batch.records)
            if answer.error_code:
                await trio.sleep(RETRY_S)
        if found != written:
            other = sorted(
                offset
                for offset in found.keys() | written.keys()
                if found.get(offset) != written.get(offset)
            )
            self.wrong.append(
                f"{NAME}-{partition} of generation {self._generation} shows "
                f"{found.get(other[0], b'nothing')[:20]!r} at {other[0]},"
                f" {written.get(other[0], b'nothing')[:20]!r} was acknowledged"
            )

    async def _shorten_all(self, written: Mapping[int, Mapping[int, bytes]]) -> None:
        """Until it is acknowledged."""
        request = DELETE_RECORDS.request
        for partition in [partition for partition in written if written[partition]]:
            asked = request.topics.partitions(
                partition_index=partition, offset=self._shorten.randint(1, len(written[partition]))
            )
            row = request(topics=[request.topics(name=NAME, partitions=[asked])], timeout_ms=1000)
            while True:
                with suppress(NoAnswer):
                    if (
                        await self._ask(self.topic_id, partition, DELETE_RECORDS, row)
                    ).error_code == Code.NONE:
                        break
                await trio.sleep(RETRY_S)
        if not self.over:
            await trio.sleep(self._shorten.choice(IN_A_CHECKPOINT_S))

    async def _read_earlier(self, topic_id: bytes) -> None:
        """By an id that is gone: a broker may not have heard of that yet, but shows nothing of the
        present one.
        """
        where = self._random.choice(self.client.bootstrap)
        try:
            answer = only_partition(
                FETCH,
                await self.client.ask(where, FETCH, _fetch_row(topic_id, 0, 0), version=NEWEST),
            )
        except (NoAnswer, IndexError):
            return
        for batch in batches_of(answer, 0) if answer.error_code == Code.NONE else ():
            for offset, value in batch.records:
                if value.startswith(b"%d/" % self._generation):
                    self.wrong.append(
                        f"{NAME} by its earlier id shows {value[:20]!r} at {offset}, of "
                        f"generation {self._generation}"
                    )

    async def _offsets(self) -> None:
        """A new generation's first look must find no offset, and the next generation none committed
        then. Looks without an answer are skipped.
        """
        row = await self.client.anybody(
            FIND_COORDINATOR, FIND_COORDINATOR.request(coordinator_keys=[GROUP])
        )
        (found,) = row.coordinators
        if found.error_code:
            return
        where = found.host, found.port
        try:
            answer = await self.client.ask(where, OFFSET_FETCH, committed_row(GROUP, NAME, 0))
            group = answer.groups[0]
            offset = -1 if group.error_code else group.topics[0].partitions[0].committed_offset
            if offset not in (-1, self._generation):
                if await self._knows(where):
                    self.wrong.append(
                        f"{NAME} of generation {self._generation} has the committed offset "
                        f"{offset} of an earlier one"
                    )
                return
            await self.client.ask(
                where, OFFSET_COMMIT, commit_row(GROUP, NAME, 0, self._generation)
            )
        except NoAnswer:
            return

    async def _knows(self, where: Address) -> bool:
        """Has that broker heard of this generation? It may still serve the earlier one in good
        faith.
        """
        asked = METADATA.request(
            topics=[METADATA.request.topics(name=NAME)], allow_auto_topic_creation=False
        )
        answer = await self.client.ask(where, METADATA, asked)
        if bytes(answer.topics[0].topic_id) != self.topic_id:
            return False
        group = (await self.client.ask(where, OFFSET_FETCH, committed_row(GROUP, NAME, 0))).groups[
            0
        ]
        return not group.error_code and group.topics[0].partitions[0].committed_offset not in (
            -1,
            self._generation,
        )


def _fetch_row(topic_id: bytes, partition: int, offset: int) -> FetchRequest:
    request = FETCH.request
    asked = request.topics.partitions(
        partition=partition, fetch_offset=offset, partition_max_bytes=FETCH_BYTES
    )
    return request(
        max_wait_ms=200, min_bytes=1, topics=[request.topics(topic_id=topic_id, partitions=[asked])]
    )


class RecreationWork:
    settings: ClassVar[Mapping[str, str]] = {}
    topics: Sequence[tuple[str, int]] = ((NAME, PARTITIONS),)

    def __init__(self) -> None:
        self.recreator: Recreator

    def begin(self, cluster: Cluster, chance: Random) -> None:
        self.recreator = Recreator(cluster.client("recreator"))
        self.recreator.client.runtime.spawn(self.recreator.run, "recreator")

    @property
    def wrong(self) -> list[str]:
        return self.recreator.wrong

    @property
    def counts(self) -> Sequence[int]:
        return [self.recreator.acknowledged]

    def end(self) -> None:
        self.recreator.over = True

    @property
    def ended(self) -> bool:
        return self.recreator.done

    def check(self, cluster: Cluster) -> list[str]:
        """Nothing of an earlier generation is left where the name would bring it back, nor what it
        was set to.
        """
        found = []
        for node_id, node in sorted(cluster.living.items()):
            configs = dict(node.image.config(TOPIC, NAME))
            if configs not in self.recreator.configs:
                found.append(
                    f"n{node_id}: {NAME} has {configs}, it was made with one of "
                    f"{self.recreator.configs}"
                )
            if node_id not in cluster.controllers:
                logs = node.replicas.logs
                # None: its name was never written, because the disk was full
                mine = self.recreator.topic_id, None
                left = [
                    key
                    for key in logs.lying_here()
                    if key[0] == NAME and logs._topic_id(key) not in mine
                ]
                found += [
                    f"n{node_id} still has {NAME}-{partition} of an earlier topic"
                    for _, partition in left
                ]
        return found
