"""A log that is deleted from at its start all the time, by its size, by its age, by DeleteRecords,
with one writer who knows all that is in it.

So it is known what a reader must find: by time, by offset, at the start, before it, behind the end.
Records are of any age, or have no time, and a batch says of its largest time what some library
writes.
"""

from collections.abc import Mapping, Sequence
from random import Random
from typing import ClassVar

import trio

from raftka.chaos.simulated.checks.log_starts import LogStarts
from raftka.chaos.simulated.clients.client import (
    PASSES,
    Address,
    Client,
    NoAnswer,
    batches_of,
    only_partition,
    produce_row,
)
from raftka.chaos.simulated.clients.libraries import LIBRARIES, TIMELESS, as_written_by, one_of
from raftka.chaos.simulated.cluster import Cluster
from raftka.metadata.image import TOPIC
from raftka.wire.errors import Code
from raftka.wire.messages.configs import INCREMENTAL_ALTER_CONFIGS
from raftka.wire.messages.delete_records import DELETE_RECORDS, DeleteRecordsPartitionResult
from raftka.wire.messages.fetch import FETCH, PartitionData
from raftka.wire.messages.list_offsets import EARLIEST, LATEST, LIST_OFFSETS, MAX_TIMESTAMP
from raftka.wire.messages.produce import PRODUCE
from raftka.wire.records import build_batch

ARCHIVE = "archive"
PAUSE_S = (0.0, 0.15)
PROBED_S = (0.01, 0.12)
AGES_MS = (0, 0, 1, 50, 900, 4000, -300)  # some clients' clocks go ahead
RETENTION = {
    "retention.ms": ("800", "3000", "100000", "-1"),
    "retention.bytes": ("1000", "4000", "9000", "-1"),
}
FAR = 1_000_000


class Writer:
    """One batch at a time, until it is acknowledged."""

    def __init__(self, client: Client, library: str) -> None:
        self.client = client
        self.over = self.done = False
        self.wrong: list[str] = []
        self._library = library
        self.times: list[int] = []  # ms, acknowledged, by offset
        self.values: list[bytes] = []
        self.under_way: list[int] = []  # times of what is not acknowledged yet
        self._random = client.runtime.random("archive writer")

    async def run(self) -> None:
        producer_id = await self.client.producer_id()
        while not self.over:
            random, now, base = self._random, self.client.runtime.clock.wall_ms(), len(self.times)
            library = one_of(self._library, random)
            times = [
                -1 if library == TIMELESS else now - random.choice(AGES_MS)
                for _ in range(random.randint(1, 4))
            ]
            values = [b"%d/" % (base + i) + b"." * random.randint(0, 90) for i in range(len(times))]
            records = [(None, value, (), time) for value, time in zip(values, times, strict=True)]
            batch = build_batch(
                records,
                producer_id=producer_id,
                producer_epoch=0,
                base_sequence=base,
                compression=random.choice((0, 0, 2, 4)),
            )
            self.under_way = times
            answer = await self.client.ask_leader(
                ARCHIVE, 0, PRODUCE, produce_row(ARCHIVE, 0, as_written_by(library, batch))
            )
            self.under_way = []
            if answer.base_offset not in (base, -1):
                self.wrong.append(
                    f"{ARCHIVE}: what is at {base} is acknowledged at {answer.base_offset}"
                )
            self.times += times
            self.values += values
            await trio.sleep(random.uniform(*PAUSE_S))
        self.done = True


class Prober:
    """Each look is one leader's, on one connection: it only goes on from what it has told."""

    def __init__(self, client: Client, writer: Writer, starts: LogStarts) -> None:
        self.client, self.writer, self.starts = client, writer, starts
        self.over = self.done = False
        self.wrong: list[str] = []
        self._random = client.runtime.random("prober")

    async def run(self) -> None:
        random = self._random
        looks = (
            self._by_time,
            self._by_time,
            self._largest,
            self._around_the_start,
            self._read,
            self._delete,
            self._alter,
            self._written_down,
        )
        while not self.over:
            leader = await self.client.leader(ARCHIVE, 0)
            try:
                if self.writer.times:
                    await random.choice(looks)(leader.address, leader.epoch)
            except NoAnswer:
                await self.client.lost_leader(ARCHIVE, 0)
            await trio.sleep(random.uniform(*PROBED_S))
        self.done = True

    def _say(self, what: str) -> None:
        self.wrong.append(f"{ARCHIVE}: {what}")

    def _sound(self, answer: PartitionData | DeleteRecordsPartitionResult, *also: Code) -> Code:
        """Raises NoAnswer for what passes."""
        code = Code(answer.error_code)
        if code in PASSES:
            raise NoAnswer
        if code not in (Code.NONE, *also):
            self._say(f"refused with {code.name}")
        return code

    async def _offsets(self, where: Address, epoch: int, *timestamps: int) -> list[int]:
        """One behind the other. Raises NoAnswer."""
        request = LIST_OFFSETS.request
        asked = [
            request.topics.partitions(
                partition_index=0, current_leader_epoch=epoch, timestamp=timestamp
            )
            for timestamp in timestamps
        ]
        rows = [request(topics=[request.topics(name=ARCHIVE, partitions=[each])]) for each in asked]
        answers = await self.client.ask_all(where, LIST_OFFSETS, rows)
        if None in answers:
            raise NoAnswer
        found = [only_partition(LIST_OFFSETS, answer) for answer in answers]
        for each in found:
            self._sound(each)
        return [each.offset for each in found]

    async def _fetch(
        self, where: Address, epoch: int, offset: int, max_bytes: int = 4000
    ) -> PartitionData:
        request = FETCH.request
        asked = request.topics.partitions(
            partition=0,
            fetch_offset=offset,
            current_leader_epoch=epoch,
            partition_max_bytes=max_bytes,
        )
        row = request(
            max_wait_ms=0, min_bytes=1, topics=[request.topics(topic=ARCHIVE, partitions=[asked])]
        )
        return (await self.client.ask(where, FETCH, row)).responses[0].partitions[0]

    async def _by_time(self, where: Address, epoch: int) -> None:
        """The first that is not older, among what is there; and nothing that is not committed."""
        times = self.writer.times.copy()
        known = [time for time in (*times[-60:], *self.writer.under_way) if time >= 0] or [0]
        wanted = self._random.choice(known) + self._random.choice((0, 0, 1))
        begin, found, end, after = await self._offsets(
            where, epoch, EARLIEST, wanted, LATEST, EARLIEST
        )
        if found >= end:
            self._say(f"asked for {wanted} it tells of {found}, the end is {end}")
        if begin == after and end >= len(times):
            there = next(
                (offset for offset in range(begin, len(times)) if times[offset] >= wanted), None
            )
            if (there is not None and found != there) or (
                there is None and -1 < found < max(begin, len(times))
            ):
                self._say(
                    f"asked for {wanted} it tells of {found}, the first is at {there}; it begins "
                    f"at {begin}"
                )

    async def _largest(self, where: Address, epoch: int) -> None:
        """The first record of those that have the largest time. What retention has taken of a
        segment may have had it: then there is no answer.
        """
        times = self.writer.times.copy()
        begin, found, end, after = await self._offsets(
            where, epoch, EARLIEST, MAX_TIMESTAMP, LATEST, EARLIEST
        )
        known = range(begin, len(times))
        if (
            begin == after
            and end >= len(times)
            and found in known
            and (largest := max(times[begin:])) >= 0
        ):
            there = times.index(largest, begin)
            if found != there:
                self._say(
                    f"asked for the largest time it tells of {found}, {largest} is at {there}; it "
                    f"begins at {begin}"
                )
        if found >= end or (found in known and times[found] < 0):
            self._say(f"asked for the largest time it tells of {found}, the end is {end}")

    async def _around_the_start(self, where: Address, epoch: int) -> None:
        (begin,) = await self._offsets(where, epoch, EARLIEST)
        for offset in (begin - 1, begin, len(self.writer.times) + FAR):
            answer = await self._fetch(where, epoch, offset)
            code = self._sound(answer, Code.OFFSET_OUT_OF_RANGE)
            inside = offset == begin
            if inside and code is Code.OFFSET_OUT_OF_RANGE:
                inside = (await self._offsets(where, epoch, EARLIEST))[0] == begin
            if inside is not (code is Code.NONE):
                self._say(f"it begins at {begin}, a fetch at {offset} is answered with {code.name}")

    async def _read(self, where: Address, epoch: int) -> None:
        begin, end = await self._offsets(where, epoch, EARLIEST, LATEST)
        writer = self.writer
        known = min(end, len(writer.times))
        if begin >= known:
            return
        offset = self._random.randrange(begin, known)
        answer = await self._fetch(where, epoch, offset, self._random.choice((1, 200, 4000)))
        if self._sound(answer, Code.OFFSET_OUT_OF_RANGE) is not Code.NONE:
            (begin,) = await self._offsets(where, epoch, EARLIEST)
            if begin <= offset:
                self._say(f"it begins at {begin}, and has no offset {offset}")
            return
        if answer.log_start_offset < begin:
            self._say(f"it began at {begin}, then at {answer.log_start_offset}")
        records = [
            (at, value, time)
            for batch in batches_of(answer, offset)
            for (at, value), time in zip(batch.records, batch.times, strict=True)
        ]
        if not records or records[0][0] != offset:
            self._say(f"a fetch at {offset} gives {records[:1]}, the end is {end}")
        other = [
            record
            for record in records
            if record[0] < known
            and record[1:] != (writer.values[record[0]], writer.times[record[0]])
        ]
        if other:
            self._say(
                f"it has {other[0]}, acknowledged is {writer.values[other[0][0]]!r} with "
                f"{writer.times[other[0][0]]}"
            )

    async def _delete(self, where: Address, epoch: int) -> None:
        """Acknowledged is what the whole ISR has done, and nothing beyond what is committed."""
        if self._random.random() < 0.5:
            return
        known = len(self.writer.times)
        offset = self._random.choice((known - known // 8, known, known + 1, known + 4))
        request, before = DELETE_RECORDS.request, self.starts.before()
        asked = request.topics.partitions(partition_index=0, offset=offset)
        row = request(topics=[request.topics(name=ARCHIVE, partitions=[asked])], timeout_ms=1000)
        answer = (await self.client.ask(where, DELETE_RECORDS, row)).topics[0].partitions[0]
        behind = self.starts.behind(before, where, offset)
        if self._sound(answer, Code.OFFSET_OUT_OF_RANGE) is not Code.NONE:
            return
        if behind or answer.low_watermark < offset:
            self._say(
                f"deleted before {offset}, the low watermark {answer.low_watermark}: {behind} of "
                "the ISR begin earlier"
            )
        begin, end = await self._offsets(where, epoch, EARLIEST, LATEST)
        if begin > end or begin < offset:
            self._say(f"deleted before {offset}, it begins at {begin} and ends at {end}")

    async def _alter(self, where: Address, epoch: int) -> None:
        name = self._random.choice(sorted(RETENTION))
        request = INCREMENTAL_ALTER_CONFIGS.request
        config = request.resources.configs(
            name=name, config_operation=0, value=self._random.choice(RETENTION[name])
        )
        resource = request.resources(resource_type=TOPIC, resource_name=ARCHIVE, configs=[config])
        await self.client.ask(where, INCREMENTAL_ALTER_CONFIGS, request(resources=[resource]))

    async def _written_down(self, where: Address, epoch: int) -> None:
        least = self.starts.least()
        (begin,) = await self._offsets(where, epoch, EARLIEST)
        if begin < least:
            self._say(
                f"deleted records are back: it begins at {begin}, every replica had written down "
                f"{least}"
            )


class ArchiveWork:
    settings: ClassVar[Mapping[str, str]] = {"log.retention.check.interval.ms": "300"}
    topics: Sequence[tuple[str, int]] = ((ARCHIVE, 1),)

    def __init__(self) -> None:
        self.writer: Writer
        self.prober: Prober

    def begin(self, cluster: Cluster, chance: Random) -> None:
        client = cluster.client()
        configs = {name: chance.choice(values) for name, values in RETENTION.items()}
        configs |= {
            "internal.segment.bytes": chance.choice(("600", "1500", "5000")),
            "index.interval.bytes": chance.choice(("64", "400")),
        }
        configs |= {"file.delete.delay.ms": "0"}  # the next segment is written over the file
        configs |= {
            "min.insync.replicas": chance.choice("12"),
            "segment.ms": chance.choice(("500", "100000")),
        }
        cluster.do(client, lambda: client.create_topic(ARCHIVE, 1, 3, configs))
        self.writer = Writer(cluster.client("archivist"), chance.choice(LIBRARIES))
        self.prober = Prober(cluster.client("prober"), self.writer, LogStarts(cluster, ARCHIVE, 0))
        self.writer.client.runtime.spawn(self.writer.run, "writer")
        self.prober.client.runtime.spawn(self.prober.run, "prober")

    @property
    def wrong(self) -> list[str]:
        return self.writer.wrong + self.prober.wrong

    @property
    def counts(self) -> Sequence[int]:
        return [len(self.writer.times)]

    def end(self) -> None:
        self.writer.over = self.prober.over = True

    @property
    def ended(self) -> bool:
        return self.writer.done and self.prober.done

    def check(self, cluster: Cluster) -> list[str]:
        """Each replica by itself: all that is behind its start."""
        found = []
        for node_id, partition in sorted(cluster.partitions(ARCHIVE, 0).items()):
            if (
                partition.log.end_offset != len(self.writer.times)
                or not 0 <= partition.log.start_offset <= partition.log.end_offset
            ):
                span = f"{partition.log.start_offset} to {partition.log.end_offset}"
                found.append(
                    f"n{node_id} has {ARCHIVE} from {span}, {len(self.writer.times)} records were "
                    "acknowledged"
                )
        return found
