"""A compacted topic whose keys are all deleted, and that is then left alone until the time of every
tombstone is over.

What remains of it are batches without records, for producers and followers. Its reader needs a
record to go on, as kafka-go does: at a batch without records it stays where it is. So it must be
given a record wherever one is committed.
"""

from collections.abc import Mapping, Sequence
from random import Random
from typing import ClassVar

import trio

from raftka.chaos.simulated.clients.client import Client, batches_of, produce_row
from raftka.chaos.simulated.cluster import Cluster
from raftka.chaos.simulated.workloads.compaction import fetch_row
from raftka.wire.messages.fetch import FETCH
from raftka.wire.messages.produce import PRODUCE
from raftka.wire.records import NewRecord, build_batch

LEFT_ALONE = "left-alone"
SEGMENT_BYTES, PADDING_BYTES = 600, 400
ALONE_S = (1.0, 4.0)
READ_S = (0.05, 0.3)
READ_BYTES = (1, 200, 4000)
SENTINEL = b"sentinel"  # the one key that is never deleted


class Forgetter:
    """Writes some keys and deletes all of them; then a record in a segment of its own, and nothing
    for a while. Never gives up on a batch.
    """

    def __init__(self, client: Client) -> None:
        self.client = client
        self.over = self.done = False
        self.count = 0  # batches that were acknowledged
        self.sentinel = -1  # offset of the last acknowledged record of that key
        self._random = client.runtime.random("forgetter")

    async def run(self) -> None:
        while not self.over:
            random = self._random
            producer_id = await self.client.producer_id() if random.random() < 0.5 else -1
            keys = [b"%d" % number for number in range(random.randint(1, 5))]
            sent = 0
            for value in (b"x" * random.randint(0, 60), None):
                for part in (keys[::2], keys[1::2]):
                    if part:
                        await self._send([(key, value) for key in part], producer_id, sent)
                        sent += len(part)
            self.sentinel = await self._send([(SENTINEL, b"." * PADDING_BYTES)], -1, 0)
            await trio.sleep(random.uniform(*ALONE_S))
        self.done = True

    async def _send(
        self, pairs: Sequence[tuple[bytes, bytes | None]], producer_id: int, sequence: int
    ) -> int:
        """Return the base offset."""
        now = self.client.runtime.clock.wall_ms()
        records: list[NewRecord] = [(key, value, (), now) for key, value in pairs]
        epoch, sequence = (0, sequence) if producer_id >= 0 else (-1, -1)
        batch = build_batch(
            records, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence
        )
        answer = await self.client.ask_leader(
            LEFT_ALONE, 0, PRODUCE, produce_row(LEFT_ALONE, 0, batch)
        )
        self.count += 1
        return int(answer.base_offset)


class RecordReader:
    """Reads from the beginning to the end, again and again. Only a record brings it on."""

    def __init__(self, client: Client, writer: Forgetter) -> None:
        self.client, self.writer = client, writer
        self.over = self.done = False
        self.wrong: list[str] = []
        self.count = 0  # records that it was given
        self._random = client.runtime.random("record reader")

    async def run(self) -> None:
        offset = 0
        while not self.over:
            after = await self._read_from(offset)
            offset = after if after > offset else 0
            await trio.sleep(self._random.uniform(*READ_S))
        self.done = True

    async def _read_from(self, offset: int) -> int:
        """Return the offset behind the last record that an answer has."""
        there = self.writer.sentinel
        answer = await self.client.ask_leader(
            LEFT_ALONE, 0, FETCH, fetch_row(LEFT_ALONE, 0, offset, self._random.choice(READ_BYTES))
        )
        found = [
            record_offset
            for batch in batches_of(answer, offset)
            for record_offset, _ in batch.records
        ]
        self.count += len(found)
        if not found and offset <= there < answer.high_watermark:
            self.wrong.append(
                f"{LEFT_ALONE}: a fetch at {offset} gives no record, {there} is committed"
            )
        return found[-1] + 1 if found else offset


class LeftAloneWork:
    settings: ClassVar[Mapping[str, str]] = {"log.cleaner.backoff.ms": "200"}
    topics: Sequence[tuple[str, int]] = ((LEFT_ALONE, 1),)

    def __init__(self) -> None:
        self.writer: Forgetter
        self.reader: RecordReader

    def begin(self, cluster: Cluster, chance: Random) -> None:
        client = cluster.client()
        configs = {
            "cleanup.policy": "compact",
            "internal.segment.bytes": str(SEGMENT_BYTES),
            "min.cleanable.dirty.ratio": "0.01",
            "delete.retention.ms": chance.choice(("0", "300")),
            "min.insync.replicas": chance.choice("12"),
        }
        cluster.do(client, lambda: client.create_topic(LEFT_ALONE, 1, 3, configs))
        self.writer = Forgetter(cluster.client("forgetter"))
        self.reader = RecordReader(cluster.client("record-reader"), self.writer)
        self.writer.client.runtime.spawn(self.writer.run, "forgetter")
        self.reader.client.runtime.spawn(self.reader.run, "record reader")

    @property
    def wrong(self) -> list[str]:
        return self.reader.wrong

    @property
    def counts(self) -> Sequence[int]:
        return [self.writer.count, self.reader.count]

    def end(self) -> None:
        self.writer.over = self.reader.over = True

    @property
    def ended(self) -> bool:
        return self.writer.done and self.reader.done

    def check(self, cluster: Cluster) -> list[str]:
        """The reader has judged each answer."""
        return []
