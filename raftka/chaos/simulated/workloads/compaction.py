"""Compacted topics and logs that are deleted from: keys whose last value must stay, records that
must not come back, times that must be found.

One writer a partition, idempotent, one batch after the other: what it was told is the least that
must be there in the end.
"""

from collections.abc import Mapping, Sequence
from random import Random
from typing import ClassVar

import trio

from raftka.chaos.simulated.checks.log_starts import LogStarts
from raftka.chaos.simulated.clients.client import (
    FETCH_BYTES,
    PASSES,
    Client,
    NoAnswer,
    only_partition,
    produce_row,
)
from raftka.chaos.simulated.cluster import Cluster
from raftka.wire.errors import Code
from raftka.wire.messages.delete_records import DELETE_RECORDS
from raftka.wire.messages.fetch import FETCH, FetchRequest
from raftka.wire.messages.list_offsets import (
    EARLIEST,
    LATEST,
    LIST_OFFSETS,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
)
from raftka.wire.messages.produce import PRODUCE
from raftka.wire.records import build_batch, iterate, records_of

COMPACTED, DELETED = "keys", "events"
KEYS = 12
PARTITIONS = 1
PAUSE_S = (0.0, 0.05)
PADDING_BYTES = (0, 120)
REPLAYED_S = (0.0, 0.1)
REPLAYED_BYTES = (1, 400, 2000)
State = dict[bytes, bytes]
Found = list[tuple[int, int, bytes | None, bytes | None]]  # offset, timestamp, key, value


class Writer:
    """`seq/key` values, tombstones now and then; never gives up on a batch."""

    def __init__(self, client: Client, topic: str, partition: int, pace: float = 1.0) -> None:
        """`pace`: of its pauses."""
        self.client, self.topic, self.partition = client, topic, partition
        self.over = self.done = False
        self._pace = pace
        self.wrong: list[str] = []
        self.latest: dict[bytes, bytes | None] = {}  # acknowledged
        # of records without a key: their offset and their time
        self.written: dict[bytes, tuple[int, int]] = {}
        self.ends: list[int] = []  # acknowledged offsets
        self._random = client.runtime.random(f"writer {topic} {partition}")
        self._sequence = 0

    @property
    def count(self) -> int:
        return self._sequence

    async def run(self) -> None:
        producer_id = await self.client.producer_id()
        while not self.over:
            records = [self._record(i) for i in range(self._random.randint(1, 5))]
            now = self.client.runtime.clock.wall_ms()
            batch = build_batch(
                [(key, value, (), now) for key, value in records],
                producer_id=producer_id,
                producer_epoch=0,
                base_sequence=self._sequence,
                compression=self._random.choice((0, 0, 1, 4)),
            )
            base = await self._send(batch)
            for i, (key, value) in enumerate(records):
                self.latest[key] = value
                self.written[value or b""] = base + i, now
            self._sequence += len(records)
            self.ends.append(base + len(records))
            await trio.sleep(self._random.uniform(*PAUSE_S) * self._pace)
        self.done = True

    def _record(self, place: int) -> tuple[bytes, bytes | None]:
        random = self._random
        key = b"%d" % random.randrange(KEYS)
        if self.topic == COMPACTED and random.random() < 0.15:
            return key, None
        return key, b"%d/" % (self._sequence + place) + b"." * random.randint(*PADDING_BYTES)

    async def _send(self, batch: bytearray) -> int:
        while True:
            leader = await self.client.leader(self.topic, self.partition)
            try:
                answer = only_partition(
                    PRODUCE,
                    await self.client.ask(
                        leader.address, PRODUCE, produce_row(self.topic, self.partition, batch)
                    ),
                )
            except NoAnswer:
                answer = None
            if answer is not None and answer.error_code == Code.NONE:
                return int(answer.base_offset)
            if answer is not None and Code(answer.error_code) not in PASSES:
                self.wrong.append(
                    f"{self.topic}-{self.partition}: the batch at {self._sequence} is refused "
                    f"with {Code(answer.error_code).name}"
                )
                await trio.sleep(1.0)
            await self.client.lost_leader(self.topic, self.partition)


class Intruder:
    """Writes values of the same keys with acks=1, each once: some are taken back with the next
    leader.
    """

    def __init__(self, client: Client, topic: str, partition: int) -> None:
        self.client, self.topic, self.partition = client, topic, partition
        self.over = self.done = False
        self.wrong: list[str] = []
        self.values: set[bytes | None] = set()
        self._random = client.runtime.random(f"intruder {partition}")

    async def run(self) -> None:
        number = 0
        while not self.over:
            leader = await self.client.leader(self.topic, self.partition)
            now = self.client.runtime.clock.wall_ms()
            records = [
                (b"%d" % self._random.randrange(KEYS), b"intruder %d.%d" % (number, i), (), now)
                for i in range(3)
            ]
            self.values.update(value for _, value, _, _ in records)
            number += 1
            try:
                row = produce_row(self.topic, self.partition, build_batch(records), acks=1)
                code = only_partition(
                    PRODUCE, await self.client.ask(leader.address, PRODUCE, row, 0.5)
                ).error_code
            except NoAnswer:
                code = -1
            if code:
                await self.client.lost_leader(self.topic, self.partition)
            await trio.sleep(self._random.uniform(0.0, 0.3))
        self.done = True


class Deleter:
    """Deletes what is old, and says when it is there again; asks for records by their time."""

    def __init__(self, client: Client, writers: Sequence[Writer], starts: LogStarts) -> None:
        self.client, self.writers, self.starts = client, writers, starts
        self.over = self.done = False
        self.wrong: list[str] = []
        self._random = client.runtime.random("deleter")

    async def run(self) -> None:
        while not self.over:
            writer = self._random.choice(self.writers)
            try:
                await self._random.choice((self._delete, self._read_log, self._find, self._find))(
                    writer
                )
            except NoAnswer:
                await self.client.lost_leader(writer.topic, writer.partition)
            await trio.sleep(self._random.uniform(0.02, 0.2))
        self.done = True

    async def _delete(self, writer: Writer) -> None:
        if len(writer.ends) < 20 or self._random.random() < 0.7:
            return
        offset = self._random.choice(writer.ends[:-10])
        request = DELETE_RECORDS.request
        rows = [request.topics.partitions(partition_index=writer.partition, offset=offset)]
        leader = await self.client.leader(writer.topic, writer.partition)
        row = request(topics=[request.topics(name=writer.topic, partitions=rows)], timeout_ms=1000)
        before = self.starts.before()
        answer = (
            (await self.client.ask(leader.address, DELETE_RECORDS, row)).topics[0].partitions[0]
        )
        if answer.error_code == Code.NONE and (
            behind := self.starts.behind(before, leader.address, offset)
        ):
            self.wrong.append(
                f"deleted before {offset} of {writer.topic}-{writer.partition}: {behind} of the "
                "ISR begin earlier"
            )

    async def _ask(self, writer: Writer, timestamp: int) -> ListOffsetsPartitionResponse:
        leader = await self.client.leader(writer.topic, writer.partition)
        row = times_row(writer.topic, writer.partition, leader.epoch, timestamp)
        answer = (await self.client.ask(leader.address, LIST_OFFSETS, row)).topics[0].partitions[0]
        if answer.error_code:
            raise NoAnswer
        return answer

    async def _read_log(self, writer: Writer) -> None:
        started = self.starts.least()
        answer = await self._ask(writer, EARLIEST)
        if answer.offset < started:
            found = f"begins at {answer.offset}, every replica had written down {started}"
            self.wrong.append(
                f"deleted records are back: {writer.topic}-{writer.partition} {found}"
            )

    async def _find(self, writer: Writer) -> None:
        """A record that is there is found by its time, or one before it that has the same; and none
        behind the end.
        """
        if not writer.written:
            return
        offset, timestamp = self._random.choice(list(writer.written.values())[-200:])
        end = await self._ask(writer, LATEST)
        answer = await self._ask(writer, timestamp)
        start, last = await self._ask(writer, EARLIEST), await self._ask(writer, LATEST)
        if start.offset <= offset < end.offset and not 0 <= answer.offset <= offset:
            self.wrong.append(
                f"time: {writer.topic}-{writer.partition} has {timestamp} at {offset}, asked for "
                f"it says {answer.offset}"
            )
        if answer.offset >= last.offset:
            self.wrong.append(
                f"time: {writer.topic}-{writer.partition} tells of {answer.offset}, its end is "
                f"{last.offset}"
            )


class Replayer:
    """Reads the log from its beginning, or from somewhere in it, to its end, again and again: what
    stood at an offset stands there, or has gone.
    """

    def __init__(self, client: Client, topic: str, partition: int) -> None:
        self.client, self.topic, self.partition = client, topic, partition
        self.over = self.done = False
        self.wrong: list[str] = []
        self._seen: dict[int, tuple[bytes | None, bytes | None]] = {}  # key and value, by offset
        self._random = client.runtime.random(f"replayer {topic} {partition}")

    async def run(self) -> None:
        while not self.over:
            end = await self.client.end_offset(self.topic, self.partition)
            offset = self._random.choice((0, self._random.randint(0, end)))
            while offset < end and not self.over:
                offset = await self._read_from(offset)
                await trio.sleep(self._random.uniform(*REPLAYED_S))
            await trio.sleep(REPLAYED_S[1])
        self.done = True

    async def _read_from(self, offset: int) -> int:
        """Read one piece; return the next offset."""
        row = fetch_row(self.topic, self.partition, offset, self._random.choice(REPLAYED_BYTES))
        answer = await self.client.ask_leader(self.topic, self.partition, FETCH, row)
        for header, batch in iterate(memoryview(answer.records)):
            if header.last_offset < offset:
                self.wrong.append(
                    f"{self.topic}-{self.partition}: from {offset} on it is given a batch that "
                    f"ends at {header.last_offset}"
                )
            for each in records_of(batch):
                if self._seen.setdefault(each.offset, (each.key, each.value)) != (
                    each.key,
                    each.value,
                ):
                    self.wrong.append(
                        f"{self.topic}-{self.partition} has another record at {each.offset} than "
                        "before"
                    )
            offset = header.last_offset + 1
        return offset


def fetch_row(topic: str, partition: int, offset: int, max_bytes: int) -> FetchRequest:
    request = FETCH.request
    asked = request.topics.partitions(
        partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes
    )
    return request(
        max_wait_ms=500, min_bytes=1, topics=[request.topics(topic=topic, partitions=[asked])]
    )


def times_row(topic: str, partition: int, epoch: int, timestamp: int) -> ListOffsetsRequest:
    request = LIST_OFFSETS.request
    asked = request.topics.partitions(
        partition_index=partition, current_leader_epoch=epoch, timestamp=timestamp
    )
    return request(topics=[request.topics(name=topic, partitions=[asked])])


class CompactionWork:
    settings: ClassVar[Mapping[str, str]] = {
        "log.cleaner.backoff.ms": "200",
        "log.retention.check.interval.ms": "500",
        "replica.lag.time.max.ms": "2000",
        "offsets.topic.num.partitions": "2",
    }
    topics: Sequence[tuple[str, int]] = ((COMPACTED, PARTITIONS), (DELETED, 1))

    def __init__(self, pace: float = 1.0) -> None:
        self._pace = pace
        self.writers: list[Writer] = []
        self.intruder: Intruder
        self.everybody: list[Writer | Deleter | Intruder | Replayer] = []

    def begin(self, cluster: Cluster, chance: Random) -> None:
        client = cluster.client()
        compact = {
            "cleanup.policy": "compact",
            "internal.segment.bytes": chance.choice(("1000", "2000", "6000")),
            "min.cleanable.dirty.ratio": chance.choice(("0.01", "0.3")),
            "delete.retention.ms": "86400000",
            "min.insync.replicas": chance.choice("12"),
        }
        delete = {
            "internal.segment.bytes": "4000",
            "retention.bytes": "30000",
            "file.delete.delay.ms": "0",  # the next segment is written over the file
            "min.insync.replicas": chance.choice("12"),
            "index.interval.bytes": "200",
        }
        cluster.do(client, lambda: client.create_topic(COMPACTED, PARTITIONS, 3, compact))
        cluster.do(client, lambda: client.create_topic(DELETED, 1, 3, delete))
        self.writers = [
            Writer(cluster.client(f"writer{p}"), COMPACTED, p, self._pace)
            for p in range(PARTITIONS)
        ]
        self.writers.append(Writer(cluster.client("events"), DELETED, 0, self._pace))
        deleter = Deleter(
            cluster.client("deleter"), self.writers[-1:], LogStarts(cluster, DELETED, 0)
        )
        self.intruder = Intruder(cluster.client("intruder"), COMPACTED, 0)
        replayer = Replayer(cluster.client("replayer"), COMPACTED, 0)
        self.everybody = [*self.writers, deleter, self.intruder, replayer]
        for each in self.everybody:
            each.client.runtime.spawn(each.run, type(each).__name__)

    @property
    def wrong(self) -> list[str]:
        return [wrong for each in self.everybody for wrong in each.wrong]

    @property
    def counts(self) -> Sequence[int]:
        return [each.count for each in self.writers]

    def end(self) -> None:
        for each in self.everybody:
            each.over = True

    @property
    def ended(self) -> bool:
        return all(each.done for each in self.everybody)

    def check(self, cluster: Cluster) -> list[str]:
        """Check each replica by itself: the next leader must not bring deleted records back, nor
        lack others.
        """
        found = []
        states: dict[int, State] = {}
        for node_id, partition in sorted(cluster.partitions(COMPACTED, 0).items()):
            records = all_of(partition)
            states[node_id] = state_of(records)
            found += _keys(
                f"{COMPACTED}-0 on n{node_id}", self.writers[0], self.intruder.values, records
            )
        first, *others = states
        for other in others:
            if not found and states[other] != states[first]:
                keys = sorted(
                    key
                    for key in states[first].keys() | states[other].keys()
                    if states[first].get(key) != states[other].get(key)
                )
                found.append(f"keys differ: n{first} and n{other} disagree about {keys[:3]}")
        client = self.writers[-1].client
        read = cluster.do(client, lambda: _read(client, DELETED, 0))
        return found + _events(self.writers[-1], read)


def all_of(partition: object) -> Found:
    """Straight from a replica's log, up to its high watermark."""
    log, found = partition.log, []  # type: ignore[attr-defined]
    offset, end = log.start_offset, partition.high_watermark  # type: ignore[attr-defined]
    while offset < end:
        spans, _ = log.read(offset, 1 << 30, end)
        if not spans:
            break
        for span in spans:
            for header, batch in iterate(memoryview(span.file.read(span.position, span.size))):
                found += [
                    (each.offset, each.timestamp, each.key, each.value)
                    for each in records_of(batch)
                    if each.offset >= offset
                ]
                offset = max(offset, header.last_offset + 1)
    return found


async def _read(client: Client, topic: str, partition: int) -> Found:
    """All that is left: from its start again, when that has moved meanwhile."""
    found: Found = []
    start = await client.ask_leader(
        topic, partition, LIST_OFFSETS, times_row(topic, partition, -1, EARLIEST)
    )
    offset, end = int(start.offset), await client.end_offset(topic, partition)
    while offset < end:
        row = fetch_row(topic, partition, offset, FETCH_BYTES)
        answer = await client.ask_leader(topic, partition, FETCH, row, Code.OFFSET_OUT_OF_RANGE)
        if answer.error_code:
            return await _read(client, topic, partition)
        for header, batch in iterate(memoryview(answer.records)):
            found += [
                (each.offset, each.timestamp, each.key, each.value)
                for each in records_of(batch)
                if each.offset >= offset
            ]
            offset = header.last_offset + 1
    return found


def state_of(found: Found) -> State:
    """The last value of each key, without deleted ones."""
    state = {key or b"": value for _, _, key, value in found}
    return {key: value for key, value in state.items() if value is not None}


def _keys(where: str, writer: Writer, others: set[bytes | None], found: Found) -> list[str]:
    state, offsets = state_of(found), [offset for offset, *_ in found]
    wrong = [] if offsets == sorted(set(offsets)) else [f"{where}: offsets out of order"]
    for key, value in sorted(writer.latest.items()):
        if state.get(key) != value and state.get(key) not in others:
            wrong.append(
                f"last value: {where} has {_short(state.get(key))} for {key!r}, {_short(value)} "
                "was acknowledged"
            )
    values = [value for _, _, _, value in found if value is not None]
    if len(set(values)) < len(values):
        wrong.append(f"{where}: a record is there twice")
    return wrong


def _events(writer: Writer, found: Found) -> list[str]:
    """From the first that is left on, every acknowledged one, once, without a gap."""
    wrong, offsets = [], [offset for offset, *_ in found]
    if offsets != list(range(offsets[0], offsets[0] + len(offsets)) if offsets else []):
        wrong.append(f"{DELETED}: there is a gap among the offsets")
    there = {value: offset for offset, _, _, value in found}
    if len(there) < len(found):
        wrong.append(f"{DELETED}: a record is there twice")
    lost = [
        offset
        for value, (offset, _) in writer.written.items()
        if offsets and offset >= offsets[0] and there.get(value) != offset
    ]
    if lost:
        wrong.append(
            f"{DELETED}: {len(lost)} acknowledged records are lost, the first is {lost[0]}"
        )
    return wrong


def _short(value: bytes | None) -> str:
    return "nothing" if value is None else repr(value[:10])
