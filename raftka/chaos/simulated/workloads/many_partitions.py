"""A topic of many partitions and clients that fetch all of them, in sessions (KIP-227) or without,
as client libraries do (shapes.py).

What a session does not say again has not changed: so what its client has pieced together must come
to what full fetches say, record by record. The writer begins a new epoch now and then (KIP-360);
what comes of an earlier epoch after that is refused.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum, auto
from random import Random
from typing import ClassVar

import trio

from raftka.chaos.simulated.clients.client import (
    PASSES,
    Address,
    Client,
    NoAnswer,
    batches_of,
    only_partition,
)
from raftka.chaos.simulated.clients.shapes import PLAIN
from raftka.chaos.simulated.cluster import Cluster
from raftka.wire.errors import Code
from raftka.wire.messages.fetch import FETCH, FetchRequest, PartitionData
from raftka.wire.messages.metadata import METADATA
from raftka.wire.messages.produce import PRODUCE
from raftka.wire.records import build_batch
from raftka.wire.rows import ZERO_UUID

WIDE, PARTITIONS = "wide", 6
READERS = 2
OLDER = (4, 6, 7, 9, 10, 13, 14, 17)  # versions of Fetch that other releases of the libraries have
SESSIONS, BY_ID = 7, 13  # versions: the first with sessions, the first with topics by id
OF_A_LIBRARY = 0.6  # of the readers: the others use an older version
# how often a writer begins a new epoch, and how often it sends something of the one before
NEW_EPOCH, LATE = 0.04, 0.15
LONGEST_WAIT_MS = 1_000
PAUSE_S = (0.0, 0.1)
RETRY_S = 0.1
FETCHED_BYTES = (300, 3_000, 50_000)
SHOWN = 3  # offsets in a sentence
SESSION_GONE = (
    Code.FETCH_SESSION_ID_NOT_FOUND,
    Code.INVALID_FETCH_SESSION_EPOCH,
    Code.FETCH_SESSION_TOPIC_ID_ERROR,
)
PASSES_HERE = PASSES | {Code.UNKNOWN_TOPIC_ID, Code.INCONSISTENT_TOPIC_ID}


class Writer:
    """Idempotent, one batch at a time, to any of the partitions."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.over = self.done = False
        self.wrong: list[str] = []
        # acknowledged, by offset
        self.written: list[dict[int, bytes]] = [{} for _ in range(PARTITIONS)]
        self._random = client.runtime.random("wide writer")

    @property
    def acknowledged(self) -> int:
        return sum(map(len, self.written))

    async def run(self) -> None:
        random = self._random
        producer_id, epoch = await self.client.producer_id(), 0
        sequences, before = [0] * PARTITIONS, [0] * PARTITIONS
        while not self.over:
            if random.random() < NEW_EPOCH:
                epoch, before, sequences = epoch + 1, sequences, [0] * PARTITIONS
            partition = random.randrange(PARTITIONS)
            values = [
                b"%d/%d/%d/%s"
                % (partition, epoch, sequences[partition] + i, b"." * random.randint(0, 90))
                for i in range(random.randint(1, 3))
            ]
            base = await self._send(
                partition, self._batch(values, producer_id, epoch, sequences[partition])
            )
            self.written[partition].update({base + i: value for i, value in enumerate(values)})
            sequences[partition] += len(values)
            if epoch and random.random() < LATE:
                await self._send_late(
                    partition, self._batch([b"late"], producer_id, epoch - 1, before[partition])
                )
            await trio.sleep(random.uniform(*PAUSE_S))
        self.done = True

    def _batch(
        self, values: Sequence[bytes], producer_id: int, epoch: int, sequence: int
    ) -> bytearray:
        now = self.client.runtime.clock.wall_ms()
        return build_batch(
            [(b"k", value, (), now) for value in values],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
        )

    async def _send_late(self, partition: int, batch: bytearray) -> None:
        """Send a batch of the epoch before to a partition that has a batch of this one."""
        leader = await self.client.leader(WIDE, partition)
        with suppress(NoAnswer):
            row = self.client.produce_row(WIDE, partition, batch)
            if (
                only_partition(
                    PRODUCE, await self.client.ask(leader.address, PRODUCE, row)
                ).error_code
                == Code.NONE
            ):
                self.wrong.append(
                    f"{WIDE}-{partition}: a batch of an earlier epoch of its producer is taken"
                )

    async def _send(self, partition: int, batch: bytearray) -> int:
        while True:
            leader = await self.client.leader(WIDE, partition)
            try:
                row = self.client.produce_row(WIDE, partition, batch)
                answer = only_partition(
                    PRODUCE, await self.client.ask(leader.address, PRODUCE, row)
                )
            except NoAnswer:
                answer = None
            if answer is not None and answer.error_code == Code.NONE:
                return int(answer.base_offset)
            # as a reader
            behind = (
                answer is not None
                and answer.error_code == Code.OUT_OF_ORDER_SEQUENCE_NUMBER
                and not self.client.knows_epochs
            )
            if answer is not None and Code(answer.error_code) not in PASSES and not behind:
                self.wrong.append(
                    f"{WIDE}-{partition}: a batch is refused with {Code(answer.error_code).name}"
                )
                await trio.sleep(1.0)
            await self.client.lost_leader(WIDE, partition)


@dataclass
class Session:
    """A client's state of one fetch session of a broker."""

    id: int = 0
    epoch: int = 0  # of the next request
    # partition -> offset that the broker knows of, -1: it is to be told again
    told: dict[int, int] = field(default_factory=dict)


class ReaderState(Enum):
    READING = auto()  # it pauses partitions at random
    HURRYING = auto()  # it pauses none any more
    STOPPING = auto()
    DONE = auto()


READING, HURRYING, STOPPING, DONE = ReaderState


class SessionReader:
    def __init__(self, client: Client, number: int) -> None:
        self.client = client
        self.number = number
        self.state = READING
        self.wrong: list[str] = []
        self.positions = [0] * PARTITIONS
        # high watermarks, as each broker has told them: a partition may come back to a broker whose
        # session has nothing new to tell
        self._told_ends: dict[tuple[Address, int], int] = {}
        self.seen: list[dict[int, bytes]] = [{} for _ in range(PARTITIONS)]
        self.wanted = set(range(PARTITIONS))
        self._sessions: dict[Address, Session] = {}
        self._random = client.runtime.random(f"session reader {number}")
        shape = client.shape
        self._version = (
            shape.versions[FETCH.key] if shape is not PLAIN else self._random.choice(OLDER)
        )
        self._in_sessions = shape.sessions and self._version >= SESSIONS
        self._topic_id = ZERO_UUID
        self._leaders: dict[int, Address] = {}
        self._epochs_told = True
        # the latest that was heard of: an earlier leader may lack what this client has read
        self._epochs = [-1] * PARTITIONS

    async def run(self) -> None:
        while self.state is not STOPPING:
            await self._look_up()
            stale = False
            while not stale and self.state is not STOPPING:
                if self.state is HURRYING:
                    self.wanted = set(range(PARTITIONS))
                # as a client that pauses partitions, or goes on with them
                elif self._random.random() < 0.05:
                    self.wanted = set(
                        self._random.sample(range(PARTITIONS), self._random.randint(1, PARTITIONS))
                    )
                elif self._random.random() < 0.2:
                    self.wanted = set(range(PARTITIONS))
                for where in sorted(set(self._leaders.values())):
                    stale |= not await self._fetch(where)
                stale |= len(self._leaders) < PARTITIONS
            await trio.sleep(RETRY_S)
        self.state = DONE

    async def _look_up(self) -> None:
        row = await self.client.anybody(
            METADATA,
            METADATA.request(
                topics=[METADATA.request.topics(name=WIDE)], allow_auto_topic_creation=False
            ),
        )
        brokers = {broker.node_id: (broker.host, broker.port) for broker in row.brokers}
        self._leaders = {}
        for each in [each for topic in row.topics for each in topic.partitions]:
            partition, where = each.partition_index, brokers.get(each.leader_id)
            if where is not None:
                self._epochs_told = each.leader_epoch >= 0
            # older versions do not tell
            if where is not None and (
                each.leader_epoch < 0 or each.leader_epoch >= self._epochs[partition]
            ):
                self._leaders[partition], self._epochs[partition] = (
                    where,
                    max(each.leader_epoch, self._epochs[partition]),
                )
        self._topic_id = bytes(row.topics[0].topic_id)

    def _row(self, session: Session, mine: set[int]) -> FetchRequest:
        """Make an incremental fetch of what is new: partitions, or offsets."""
        request, by_id, shape = FETCH.request, self._version >= BY_ID, self.client.shape
        if session.epoch == 0 or session.told.keys() - mine == session.told.keys():
            session.id, session.epoch, session.told = session.id, 0, {}
        if not self._in_sessions:
            session.id, session.epoch, session.told = 0, -1, {}
        changed = [
            partition
            for partition in sorted(mine)
            if session.told.get(partition) != self.positions[partition]
        ]
        gone = sorted(session.told.keys() - mine)
        size = self._random.choice(FETCHED_BYTES)
        asked = [
            request.topics.partitions(
                partition=p, fetch_offset=self.positions[p], partition_max_bytes=size
            )
            for p in changed
        ]
        topic = {"topic_id": self._topic_id} if by_id else {"topic": WIDE}
        forgotten = (
            [request.forgotten_topics_data(**topic, partitions=gone)]
            if gone and session.epoch > 0
            else []
        )
        session.told = {partition: self.positions[partition] for partition in mine}
        return request(
            max_wait_ms=self._random.choice((0, 100, 300, min(shape.max_wait_ms, LONGEST_WAIT_MS))),
            min_bytes=1,
            max_bytes=self._random.choice((1_000, shape.max_bytes)),
            isolation_level=shape.isolation,
            session_id=session.id,
            session_epoch=session.epoch,
            topics=[request.topics(**topic, partitions=asked)] if asked else [],
            forgotten_topics_data=forgotten,
        )

    async def _fetch(self, where: Address) -> bool:
        """False: somebody else leads, or the session is gone."""
        mine = {
            partition
            for partition, leader in self._leaders.items()
            if leader == where and partition in self.wanted
        }
        if not mine:
            return True
        session = self._sessions.setdefault(where, Session())
        row = self._row(session, mine)
        try:
            answer = await self.client.ask(where, FETCH, row, version=self._version)
        except NoAnswer:
            self._sessions.pop(where, None)
            return False
        if answer.error_code:
            self._sessions.pop(where, None)
            if (
                Code(answer.error_code) not in SESSION_GONE
                and Code(answer.error_code) not in PASSES_HERE
            ):
                self.wrong.append(
                    f"session reader {self.number} is refused with {Code(answer.error_code).name}"
                )
            return False
        went_well = True
        for topic in answer.responses:
            for partition in topic.partitions:
                went_well &= self._took(where, session, mine, partition)
        if answer.session_id == 0:
            self._sessions.pop(where, None)
        else:
            session.id, session.epoch = answer.session_id, session.epoch + 1
        return went_well

    def end_of(self, partition: int) -> int | None:
        """Return its high watermark as its leader has told it last; None: it has told none."""
        where = self._leaders.get(partition)
        return self._told_ends.get((where, partition)) if where is not None else None

    def _took(
        self, where: Address, session: Session, mine: set[int], answer: PartitionData
    ) -> bool:
        partition = answer.partition_index
        if partition not in mine:
            self.wrong.append(
                f"session reader {self.number} is told of {WIDE}-{partition}, which it does not "
                "want"
            )
            return True
        if answer.error_code:
            # it may have gone back to an earlier leader
            behind = answer.error_code == Code.OFFSET_OUT_OF_RANGE and not self._epochs_told
            if Code(answer.error_code) not in PASSES_HERE and not behind:
                self.wrong.append(
                    f"session reader {self.number}: {WIDE}-{partition} is refused with "
                    f"{Code(answer.error_code).name}"
                )
            session.told[partition] = -1
            return False
        self._told_ends[where, partition] = answer.high_watermark
        for batch in batches_of(answer, self.positions[partition]):
            self._epochs[partition] = max(self._epochs[partition], batch.epoch)
            for offset, value in batch.records:
                if offset != self.positions[partition]:
                    self.wrong.append(
                        f"session reader {self.number} wants {WIDE}-{partition} from "
                        f"{self.positions[partition]}, and gets {offset}"
                    )
                self.seen[partition][offset] = value
                self.positions[partition] = offset + 1
        return True


class WideWork:
    settings: ClassVar[Mapping[str, str]] = {}
    topics: Sequence[tuple[str, int]] = ((WIDE, PARTITIONS),)

    def __init__(self) -> None:
        self.writer: Writer
        self.readers: list[SessionReader] = []

    def begin(self, cluster: Cluster, chance: Random) -> None:
        client = cluster.client()
        configs = {
            "min.insync.replicas": chance.choice("12"),
            "internal.segment.bytes": chance.choice(("1500", "100000")),
        }
        configs["index.interval.bytes"] = chance.choice(("100", "4096"))
        cluster.do(client, lambda: client.create_topic(WIDE, PARTITIONS, 3, configs))
        self.writer = Writer(cluster.client_of_a_library("wide"))
        for number in range(READERS):
            library = chance.random() < OF_A_LIBRARY
            of_session = (
                cluster.client_of_a_library(f"session{number}")
                if library
                else cluster.client(f"session{number}")
            )
            self.readers.append(SessionReader(of_session, number))
        self.writer.client.runtime.spawn(self.writer.run, "writer")
        for reader in self.readers:
            reader.client.runtime.spawn(reader.run, "reader")

    @property
    def wrong(self) -> list[str]:
        return [*self.writer.wrong, *(wrong for each in self.readers for wrong in each.wrong)]

    @property
    def counts(self) -> Sequence[int]:
        return [self.writer.acknowledged]

    def end(self) -> None:
        self.writer.over = True
        for reader in self.readers:
            reader.state = HURRYING

    @property
    def ended(self) -> bool:
        """The writer has ended, and what each session has told comes to the same: all that was
        acknowledged.
        """
        ends = [max(written, default=-1) + 1 for written in self.writer.written]
        if not self.writer.done or any(
            each.positions[p] < ends[p] or each.end_of(p) != each.positions[p]
            for each in self.readers
            for p in range(PARTITIONS)
        ):
            return False
        for each in self.readers:
            if each.state is not DONE:
                each.state = STOPPING
        return all(each.state is DONE for each in self.readers)

    def check(self, cluster: Cluster) -> list[str]:
        found = []
        for partition, written in enumerate(self.writer.written):
            for reader in self.readers:
                seen = reader.seen[partition]
                lost = sorted(
                    offset for offset, value in written.items() if seen.get(offset) != value
                )
                if lost or len(seen) != reader.positions[partition]:
                    found.append(
                        f"session reader {reader.number} has not what is acknowledged of "
                        f"{WIDE}-{partition}: {lost[:SHOWN]}"
                    )
        return found
