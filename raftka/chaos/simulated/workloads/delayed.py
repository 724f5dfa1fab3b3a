"""Delayed records at work: writers give each record a time of its own, readers wait for them at
the end of the log, while leaders move and die.

Each record that was acknowledged is read exactly once, and none before its time. Readers delete
what they have read; pending records among it must stay.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from random import Random
from typing import ClassVar, NamedTuple

import trio

from raftka.chaos.simulated.clients.client import (
    FETCH_BYTES,
    Client,
    NoAnswer,
    fetch_row,
    only_partition,
    produce_row,
)
from raftka.chaos.simulated.cluster import Cluster
from raftka.chaos.simulated.workloads.group import move_leaders
from raftka.log.delivery.due import DELIVER_AT, HELD_OFFSET
from raftka.wire.errors import Code
from raftka.wire.messages.delete_records import DELETE_RECORDS
from raftka.wire.messages.fetch import FETCH
from raftka.wire.messages.produce import PRODUCE
from raftka.wire.records import NewRecord, Record, build_batch, iterate, records_of

DELAYED = "delayed"
PARTITIONS = 2
MIN_ISR = 2
PAUSE_S = (0.02, 0.2)  # between two batches of a writer
LONGEST_S = 4.0  # of a delay
PLAIN, LONG = 0.15, 0.2  # chances, of a record: it names no time; it waits long
CODECS = (0, 0, 4)
DELETES = 0.05  # chance, of a turn of a reader
MARGIN_MS = 2  # clocks count in whole milliseconds
CONFIGS = {
    "raftka.delivery": "delayed",
    "min.insync.replicas": str(MIN_ISR),
    "internal.segment.bytes": "3000",
    "segment.ms": "1000",
}


class Sent(NamedTuple):
    """A record that was acknowledged."""

    offset: int  # as the answer has it
    at_ms: int  # its time; 0: it names none


class Writer:
    """Writes to one partition; never gives up on a batch."""

    def __init__(self, client: Client, partition: int) -> None:
        self.client, self.partition = client, partition
        self.sent: dict[bytes, Sent] = {}  # by value
        self.over = self.done = False
        self._random = client.runtime.random(f"delays {partition}")

    async def run(self) -> None:
        producer_id, sequence = await self.client.producer_id(), 0
        while not self.over:
            now = self.client.runtime.clock.wall_ms()
            times = [self._time(now) for _ in range(self._random.randint(1, 5))]
            values = [b"%d" % (sequence + number) for number in range(len(times))]
            records: list[NewRecord] = [
                (None, value, [(DELIVER_AT, b"%d" % at)] if at else [], now)
                for value, at in zip(values, times, strict=True)
            ]
            batch = build_batch(
                records,
                producer_id=producer_id,
                producer_epoch=0,
                base_sequence=sequence,
                compression=self._random.choice(CODECS),
            )
            row = produce_row(DELAYED, self.partition, batch)
            found = await self.client.ask_leader(DELAYED, self.partition, PRODUCE, row)
            for number, (value, at) in enumerate(zip(values, times, strict=True)):
                self.sent[value] = Sent(int(found.base_offset) + number, at)
            sequence += len(times)
            await trio.sleep(self._random.uniform(*PAUSE_S))
        self.done = True

    def _time(self, now: int) -> int:
        chance = self._random.random()
        if chance < PLAIN:
            return 0
        longest = LONGEST_S if chance < PLAIN + LONG else LONGEST_S / 8
        return now + round(self._random.uniform(-0.02, longest) * 1000)


class Reader:
    """Reads one partition, each record when it can be read, and deletes some of what it has
    read.
    """

    def __init__(self, client: Client, partition: int) -> None:
        self.client, self.partition = client, partition
        self.read: dict[bytes, Record] = {}  # by value
        self.late_ms: list[int] = []  # from a record's time to its delivery
        self.over = self.done = False
        self.wrong: list[str] = []
        self._offset = 0
        self._random = client.runtime.random(f"deletions {partition}")

    async def run(self) -> None:
        while not self.over:
            if self._random.random() < DELETES:
                await self._delete()
            leader = await self.client.leader(DELAYED, self.partition)
            row = fetch_row(DELAYED, self.partition, self._offset)
            row.topics[0].partitions[0].partition_max_bytes = FETCH_BYTES
            try:
                found = only_partition(FETCH, await self.client.ask(leader.address, FETCH, row))
            except NoAnswer:
                await self.client.lost_leader(DELAYED, self.partition)
                continue
            if found.error_code:
                await self._on_error(Code(found.error_code), found.log_start_offset)
                continue
            for header, batch in iterate(memoryview(found.records or b"")):
                for record in records_of(batch):
                    if record.offset >= self._offset:
                        self._take(record)
                self._offset = max(self._offset, header.last_offset + 1)
        self.done = True

    async def _delete(self) -> None:
        request = DELETE_RECORDS.request
        asked = request.topics.partitions(partition_index=self.partition, offset=self._offset)
        topics = [request.topics(name=DELAYED, partitions=[asked])]
        leader = await self.client.leader(DELAYED, self.partition)
        with suppress(NoAnswer):  # what stays is deleted the next time
            row = request(topics=topics, timeout_ms=200)
            await self.client.ask(leader.address, DELETE_RECORDS, row)

    async def _on_error(self, code: Code, start: int) -> None:
        if code is Code.OFFSET_OUT_OF_RANGE and start >= 0:
            self.wrong.append(f"{DELAYED}-{self.partition}: offset {self._offset} is gone")
            self._offset = start
        await self.client.lost_leader(DELAYED, self.partition)

    def _take(self, record: Record) -> None:
        value = record.value or b""
        where = f"{DELAYED}-{self.partition}: {value!r}"
        if (before := self.read.get(value)) is not None:
            self.wrong.append(f"{where} is read at {before.offset} and at {record.offset}")
        self.read[value] = record
        at_ms = int(dict(record.headers).get(DELIVER_AT) or 0)
        now = self.client.runtime.clock.wall_ms()
        if at_ms > now + MARGIN_MS:
            self.wrong.append(f"{where} is read {at_ms - now} ms before its time")
        if at_ms and HELD_OFFSET in dict(record.headers):
            self.late_ms.append(record.timestamp - at_ms)


class DelayedWork:
    settings: ClassVar[Mapping[str, str]] = {
        "replica.lag.time.max.ms": "2000",
        "leader.imbalance.check.interval.seconds": "1",
        "log.retention.check.interval.ms": "500",
    }
    topics: Sequence[tuple[str, int]] = ((DELAYED, PARTITIONS),)

    def __init__(self) -> None:
        self.writers: list[Writer] = []
        self.readers: list[Reader] = []
        self.over = False

    def begin(self, cluster: Cluster, chance: Random) -> None:
        client = cluster.client()
        cluster.do(client, lambda: client.create_topic(DELAYED, PARTITIONS, 3, dict(CONFIGS)))
        for partition in range(PARTITIONS):
            self.writers.append(Writer(cluster.client(f"delayer{partition}"), partition))
            self.readers.append(Reader(cluster.client(f"waiter{partition}"), partition))
        clients: list[Writer | Reader] = [*self.writers, *self.readers]
        for each in clients:
            each.client.runtime.spawn(each.run, type(each).__name__)
        move_leaders(cluster, chance, [DELAYED], lambda: self.over)

    @property
    def wrong(self) -> list[str]:
        return [wrong for reader in self.readers for wrong in reader.wrong]

    @property
    def counts(self) -> Sequence[int]:
        """Records acknowledged, and records read, of each partition."""
        return [
            *(len(writer.sent) for writer in self.writers),
            *(len(reader.read) for reader in self.readers),
        ]

    def end(self) -> None:
        self.over = True
        for writer in self.writers:
            writer.over = True

    @property
    def ended(self) -> bool:
        """Return whether all acknowledged records are read. The readers go then."""
        if not all(writer.done for writer in self.writers) or self._unread():
            return False
        for reader in self.readers:
            reader.over = True
        return all(reader.done for reader in self.readers)

    def _unread(self) -> list[str]:
        return [
            f"{DELAYED}-{writer.partition}: {value!r}, acknowledged at {sent.offset}, is not read"
            for writer, reader in zip(self.writers, self.readers, strict=True)
            for value, sent in writer.sent.items()
            if value not in reader.read
        ]

    def check(self, cluster: Cluster) -> list[str]:
        found = self._unread()
        for writer, reader in zip(self.writers, self.readers, strict=True):
            for value, sent in writer.sent.items():
                record = reader.read.get(value)
                held = record and dict(record.headers).get(HELD_OFFSET)
                if held is not None and int(held) != sent.offset:
                    found.append(
                        f"{DELAYED}-{writer.partition}: {value!r} was held at {held!r}, and "
                        f"acknowledged at {sent.offset}"
                    )
        return found
