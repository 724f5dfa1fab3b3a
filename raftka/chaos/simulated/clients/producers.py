"""Clients while a cluster suffers: idempotent producers with several batches in flight, writers
that ask for less, readers that watch.

Each `Producer` writes numbered records to one partition and never gives up. What it was told, and
what readers saw, stands in the `History`, and operation by operation, for the checker, in its
`told`.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

import trio

from raftka.chaos import history as story
from raftka.chaos.simulated.checks.forgotten import Forgotten
from raftka.chaos.simulated.clients.client import (
    PASSES,
    Client,
    Leader,
    NoAnswer,
    batches_of,
    end_row,
    fetch_row,
    only_partition,
)
from raftka.chaos.simulated.clients.exact import Examiner
from raftka.chaos.simulated.clients.libraries import HEADERS, RIGHT, as_written_by
from raftka.chaos.simulated.clients.pauses import Pauses
from raftka.log.producers.state import BATCHES_REMEMBERED
from raftka.wire.errors import Code
from raftka.wire.messages.fetch import FETCH, PartitionData
from raftka.wire.messages.list_offsets import LIST_OFFSETS
from raftka.wire.messages.produce import PRODUCE, PartitionProduceResponse
from raftka.wire.records import build_batch
from raftka.wire.schema import AnyApi, Row

BATCH_RECORDS = (1, 4)
PADDING_BYTES = (0, 300)
CODECS = (0, 0, 0, 1, 2, 3, 4)
NOISE_PAUSE_S = (0.0, 0.2)
EXAMINED = 0.2  # of what a reader asks
# of a producer's turns without anything under way: what a broker must refuse, or know for a
# duplicate
TRIED = 0.15
BUMPED = 0.1  # of these turns: it goes on in its next epoch
# of records, when they are sent; some clients' clocks go ahead
AGES_MS = (0, 0, 0, 1, 40, 700, -300)


class Stream(NamedTuple):
    """The records of one producer in one partition."""

    producer: str
    topic: str
    partition: int


@dataclass
class History:
    """Everything that was promised to a client."""

    # number of the record -> offset, -1: not told
    acknowledged: dict[Stream, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))
    # records that were sent, acknowledged or not
    begun: dict[Stream, int] = field(default_factory=dict)
    # what readers were given, by offset
    seen: dict[tuple[str, int], dict[int, bytes]] = field(default_factory=lambda: defaultdict(dict))
    # numbers of records: they may be there, nobody was told
    given_up: dict[Stream, set[int]] = field(default_factory=lambda: defaultdict(set))
    # what no leader need know for a duplicate
    forgotten: set[Forgotten] = field(default_factory=set)
    violations: list[str] = field(default_factory=list)
    told: story.History = field(default_factory=story.History)
    now: Callable[[], float] = lambda: 0.0
    _processes: int = 0

    def process(self) -> int:
        """A new one."""
        self._processes += 1
        return self._processes

    def begin(self, process: int, verb: str, **body: object) -> None:
        self.told.invoke(process, verb, self.now(), **body)

    def end(self, process: int, outcome: str, **body: object) -> None:
        self.told.end(process, outcome, self.now(), **body)

    def polled(
        self, process: int, key: str, records: Sequence[tuple[int, bytes]], **body: object
    ) -> None:
        self.end(
            process,
            story.OK,
            polled={key: [(offset, name_of(value)) for offset, value in records]},
            **body,
        )

    @property
    def count(self) -> int:
        return sum(map(len, self.acknowledged.values()))

    def saw(self, topic: str, partition: int, offset: int, value: bytes) -> None:
        before = self.seen[topic, partition].setdefault(offset, value)
        if before != value:
            self.violations.append(
                f"{topic}-{partition} has two records at offset {offset}: {before[:20]!r} and "
                f"{value[:20]!r}"
            )


@dataclass(frozen=True)
class Batch:
    number: int
    first: int  # number of its first record
    count: int
    data: bytearray
    process: int  # in the history


def key_of(topic: str, partition: int) -> str:
    return f"{topic}-{partition}"


def name_of(value: bytes) -> str:
    """The name of a record in the history."""
    producer, number, _ = value.split(b"/", 2)
    return f"{producer.decode()}/{number.decode()}"


def value_of(stream: Stream, number: int, random: Random) -> bytes:
    return b"%s/%d/" % (stream.producer.encode(), number) + b"." * random.randint(*PADDING_BYTES)


def number_of(value: bytes) -> tuple[str, int]:
    """The producer of a record and its number."""
    producer, number, _ = value.split(b"/", 2)
    return producer.decode(), int(number)


class Producer:
    """Idempotent; keeps its order however often it must send again. Up to `depth` batches in
    flight.

    It gives up what waits only when the leader refuses as out of order a batch that it has, and
    need not remember.
    """

    def __init__(
        self,
        client: Client,
        history: History,
        stream: Stream,
        depth: int,
        pause_s: tuple[float, float],
        chance: Random | None = None,
    ) -> None:
        """`chance`: it also goes on in later epochs, sends what must be refused, and sends again
        what was acknowledged.
        """
        self.client = client
        self.history = history
        self.stream = stream
        self._chance = chance
        self._epoch = self._epoch_begins_at = 0  # the number of its first record
        self._last: Batch | None = None  # acknowledged in this epoch, with nothing behind it
        self._last_offset = -1  # of that batch
        self.over = False  # set: send no more than was begun
        self.done = False
        self._depth = depth
        self._random = client.runtime.random(f"producer {stream}")
        self._library = self._random.choice(HEADERS) if chance is not None else RIGHT
        self.pauses = Pauses(self._random, pause_s)
        self._next = self._begun = 0  # records, batches
        self._producer_id = -1
        self._waiting: list[Batch] = []  # not acknowledged yet, in order
        self._processes: list[int] = []  # that have nothing under way

    @property
    def counts(self) -> Sequence[int]:
        return [len(self.history.acknowledged[self.stream])]

    def end(self) -> None:
        self.over = True

    async def run(self) -> None:
        self._producer_id = await self.client.producer_id()
        while self._waiting or not self.over:
            while len(self._waiting) < self._allowed and not self.over and self._is_remembered:
                self._begin_batch()
            await self._send_all()
            if self._chance is not None and not self._waiting and self._last is not None:
                await self._try(self._chance, self._last)
            await self.pauses.rest()
        self.done = True

    @property
    def _is_remembered(self) -> bool:
        """Return whether a log that has all would still know the oldest that waits behind one batch
        more: no client sends so many behind one that failed.
        """
        return not self._waiting or self._begun - self._waiting[0].number < BATCHES_REMEMBERED

    @property
    def _allowed(self) -> int:
        """The first batch goes alone: a broker takes any number from a producer it does not
        know.
        """
        return self._depth if self._last is not None else 1

    def _begin_batch(self) -> None:
        random, now = self._random, self.client.runtime.clock.wall_ms()
        values = [
            value_of(self.stream, self._next + i, random)
            for i in range(random.randint(*BATCH_RECORDS))
        ]
        ages = [self._chance.choice(AGES_MS) if self._chance is not None else 0 for _ in values]
        data = build_batch(
            [
                (self.stream.producer.encode(), value, (), now - age)
                for value, age in zip(values, ages, strict=True)
            ],
            compression=random.choice(CODECS),
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=self._next - self._epoch_begins_at,
        )
        as_written_by(self._library, data)
        process = self._processes.pop() if self._processes else self.history.process()
        _, topic, partition = self.stream
        sends = [(key_of(topic, partition), name_of(value), None) for value in values]
        self.history.begin(
            process,
            story.PRODUCE,
            sends=sends,
            producer=f"{self.stream.producer} of {key_of(topic, partition)}",
            epoch=self._epoch,
        )
        self._waiting.append(Batch(self._begun, self._next, len(values), data, process))
        self._begun += 1
        self._next += len(values)
        self.history.begun[self.stream] = self._next

    async def _send_all(self) -> None:
        """All that wait, in order, one behind the other; what failed waits on."""
        _, topic, partition = self.stream
        leader = await self.client.leader(topic, partition)
        batches, refused, unknown = self._waiting, False, False
        answers = await self.client.ask_all(
            leader.address,
            PRODUCE,
            [self.client.produce_row(topic, partition, batch.data) for batch in batches],
        )
        self._waiting = []
        for batch, answer in zip(batches, answers, strict=True):
            found = only_partition(PRODUCE, answer) if answer is not None else None
            if (
                found is not None
                and found.error_code == Code.OUT_OF_ORDER_SEQUENCE_NUMBER
                and self._is_forgotten(batch, leader)
            ):
                unknown = True
            elif found is not None and self._took(batch, found, refused):
                continue
            refused = True
            self._waiting.append(batch)
        if unknown:
            self._give_up()
        if refused:
            await self.client.lost_leader(topic, partition)

    def _is_forgotten(self, batch: Batch, leader: Leader) -> bool:
        sequence, (_, topic, partition) = batch.first - self._epoch_begins_at, self.stream
        return (
            Forgotten(
                leader.address[0],
                key_of(topic, partition),
                self._producer_id,
                self._epoch,
                sequence,
            )
            in self.history.forgotten
        )

    def _give_up(self) -> None:
        """Go on in the next epoch, as a library that tells its application of an error; what waits
        may be in the log, and is not sent again.
        """
        for batch in self._waiting:
            self.history.end(batch.process, story.INFO)
            self.history.given_up[self.stream].update(range(batch.first, batch.first + batch.count))
        self._waiting = []
        self._begin_epoch()

    def _begin_epoch(self) -> None:
        self._epoch, self._epoch_begins_at, self._last = self._epoch + 1, self._next, None

    def _took(self, batch: Batch, answer: PartitionProduceResponse, refused: bool) -> bool:
        """`refused`: one before it was not taken, so this one may be told that it is out of order;
        and by an earlier leader, that is cut off.
        """
        code = Code(answer.error_code)
        if code is Code.NONE:
            for i in range(batch.count):
                self.history.acknowledged[self.stream][batch.first + i] = answer.base_offset + i
            self._acknowledged(batch, answer.base_offset)
            return True
        astray = refused or not self.client.knows_epochs
        if code not in PASSES and not (astray and code is Code.OUT_OF_ORDER_SEQUENCE_NUMBER):
            self.history.violations.append(
                f"{self.stream}: the batch at {batch.first} is refused with {code.name}"
            )
        return False

    async def _try(self, chance: Random, last: Batch) -> None:
        """Send a batch that a broker must refuse (an earlier epoch, a gap, an epoch without its
        beginning), or the last batch, which it must know.
        """
        _, topic, partition = self.stream
        if (drawn := chance.random()) < BUMPED and last.first > self._epoch_begins_at:
            self._begin_epoch()
            return
        if drawn > BUMPED + TRIED:
            return
        sequence = self._next - self._epoch_begins_at
        what, epoch, sequence, expected = chance.choice(
            [
                ("a gap", self._epoch, sequence + 7, Code.OUT_OF_ORDER_SEQUENCE_NUMBER),
                (
                    "an epoch without its beginning",
                    self._epoch + 1,
                    sequence,
                    Code.OUT_OF_ORDER_SEQUENCE_NUMBER,
                ),
                ("the epoch before", self._epoch - 1, sequence, Code.INVALID_PRODUCER_EPOCH),
                ("the last batch", self._epoch, 0, Code.NONE),
            ][: None if self._epoch else -2]
            if chance.random() < 0.6
            else [("the last batch", self._epoch, 0, Code.NONE)]
        )
        data = last.data
        if expected is not Code.NONE:
            record = (
                b"zombie",
                value_of(Stream("zombie", topic, partition), 0, chance),
                (),
                self.client.runtime.clock.wall_ms(),
            )
            data = build_batch(
                [record],
                producer_id=self._producer_id,
                producer_epoch=epoch,
                base_sequence=sequence,
            )
        leader = await self.client.leader(topic, partition)
        (answer,) = await self.client.ask_all(
            leader.address, PRODUCE, [self.client.produce_row(topic, partition, bytearray(data))]
        )
        found = only_partition(PRODUCE, answer) if answer is not None else None
        code = Code(found.error_code) if found is not None else None
        if found is None or code in PASSES:
            await self.client.lost_leader(topic, partition)
        elif code is not expected or (
            code is Code.NONE and found.base_offset not in (-1, self._last_offset)
        ):
            told = (
                f"{found.base_offset}, where it is not"
                if code is Code.NONE
                else str(code and code.name)
            )
            self.history.violations.append(
                f"{self.stream}: {what} of epoch {epoch} at {sequence} is answered with {told}, "
                f"not {expected.name}"
            )

    def _acknowledged(self, batch: Batch, base_offset: int) -> None:
        self._last, self._last_offset = batch, base_offset
        producer, topic, partition = self.stream
        known = base_offset >= 0
        sends = [
            (
                key_of(topic, partition),
                f"{producer}/{batch.first + i}",
                base_offset + i if known else None,
            )
            for i in range(batch.count)
        ]
        self.history.end(batch.process, story.OK, sends=sends)
        self._processes.append(batch.process)


class Noise:
    """Writes with acks=1 and acks=0: leaves tails that nobody else has. Sends each record once, so
    none may be there twice.
    """

    def __init__(
        self, client: Client, history: History, topic: str, partitions: Sequence[int], name: str
    ) -> None:
        self.client = client
        self.history = history
        self.over = False
        self._topic, self._partitions, self._name = topic, partitions, name
        self._random = client.runtime.random(f"noise {name}")

    async def run(self) -> None:
        number, process = 0, self.history.process()
        while not self.over:
            partition = self._random.choice(self._partitions)
            value = value_of(Stream(self._name, self._topic, partition), number, self._random)
            batch = build_batch([(None, value, (), self.client.runtime.clock.wall_ms())])
            leader = await self.client.leader(self._topic, partition)
            self.history.begin(
                process,
                story.PRODUCE,
                sends=[(key_of(self._topic, partition), name_of(value), None)],
            )
            (answer,) = await self.client.ask_all(
                leader.address,
                PRODUCE,
                [
                    self.client.produce_row(
                        self._topic, partition, batch, acks=self._random.randint(0, 1)
                    )
                ],
            )
            self.history.end(process, story.INFO)
            if answer is not None and only_partition(PRODUCE, answer).error_code:
                await self.client.lost_leader(self._topic, partition)
            await trio.sleep(self._random.uniform(*NOISE_PAUSE_S))
            number += 1


class Reader:
    """Follows one partition, and says when something that it was shown is taken back."""

    def __init__(
        self,
        client: Client,
        history: History,
        topic: str,
        partition: int,
        examiner: Examiner | None = None,
    ) -> None:
        """`examiner`: asks in between what else follows from the records that were read."""
        self.client = client
        self.history = history
        self.over = False
        self.position = 0
        self._examiner = examiner
        self._topic, self._partition = topic, partition
        self._random = client.runtime.random(f"reader {topic} {partition}")
        self._last_epoch = -1  # of the last batch read
        self._end = 0  # the largest end offset that was told
        self._high_watermark = (-1, -1)  # leader epoch, offset
        self._key = key_of(topic, partition)
        self._process = history.process()

    async def run(self) -> None:
        self.history.begin(self._process, story.ASSIGN, keys=[self._key])
        self.history.end(self._process, story.OK)
        while not self.over:
            leader = await self.client.leader(self._topic, self._partition)
            if (
                self._examiner is not None
                and self._examiner.known
                and self._random.random() < EXAMINED
            ):
                await self._examine(self._examiner, leader)
                continue
            api, row, verb = self._question(leader)
            self.history.begin(self._process, verb)
            try:
                found = only_partition(api, await self.client.ask(leader.address, api, row))
            except NoAnswer:
                self.history.end(self._process, story.FAIL)
                await self.client.lost_leader(self._topic, self._partition)
                continue
            if found.error_code:
                self.history.end(self._process, story.FAIL, error=Code(found.error_code).name)
                self._refused(api, Code(found.error_code))
                await self.client.lost_leader(self._topic, self._partition)
            elif api is LIST_OFFSETS:
                self.history.end(
                    self._process,
                    story.OK,
                    told={self._key: story.Told(leader.epoch, -1, -1, found.offset)},
                )
                self._told_end(found.offset)
            else:
                self._read(found, leader.epoch)

    def _question(self, leader: Leader) -> tuple[AnyApi, Row, str]:
        if self._random.random() < 0.2:
            return (
                LIST_OFFSETS,
                end_row(self._topic, self._partition, leader.epoch),
                story.LIST_OFFSETS,
            )
        return (
            FETCH,
            fetch_row(self._topic, self._partition, self.position, leader.epoch, self._last_epoch),
            story.POLL,
        )

    async def _examine(self, examiner: Examiner, leader: Leader) -> None:
        question = examiner.question(leader)
        try:
            answer = only_partition(
                question.api, await self.client.ask(leader.address, question.api, question.row)
            )
        except NoAnswer:
            await self.client.lost_leader(self._topic, self._partition)
            return
        if examiner.answered(question, answer, leader.epoch) in PASSES:
            await self.client.lost_leader(self._topic, self._partition)
        self.history.violations += examiner.wrong

    def _wrong(self, what: str) -> None:
        self.history.violations.append(
            f"reader of {self._topic}-{self._partition} at {self.position}: {what}"
        )

    def _refused(self, api: AnyApi, code: Code) -> None:
        if code not in PASSES:
            self._wrong(f"{api.name} is refused with {code.name}")

    def _told_end(self, offset: int) -> None:
        if offset < self._end:
            self._wrong(f"the end was {self._end}, now it is {offset}")
        self._end = max(self._end, offset)

    def _read(self, answer: PartitionData, epoch: int) -> None:
        if answer.diverging_epoch is not None and answer.diverging_epoch.end_offset >= 0:
            self._wrong(
                f"what was read of epoch {self._last_epoch} diverges at "
                f"{answer.diverging_epoch.end_offset}"
            )
            self._last_epoch = -1
            self.history.end(self._process, story.FAIL, error="diverges")
            return
        if (epoch, answer.high_watermark) < self._high_watermark:
            self._wrong(
                f"high watermark {answer.high_watermark} of epoch {epoch} after "
                f"{self._high_watermark}"
            )
        self._high_watermark = (epoch, answer.high_watermark)
        told = story.Told(
            epoch, answer.log_start_offset, answer.last_stable_offset, answer.high_watermark
        )
        records: list[tuple[int, bytes]] = []
        batches = list(batches_of(answer, self.position))
        if self._examiner is not None:
            self._examiner.known.learn(batches)
        for batch in batches:
            records += batch.records
            for offset, value in batch.records:
                self.history.saw(self._topic, self._partition, offset, value)
            self.position, self._last_epoch = batch.next_offset, batch.epoch
        self._end = max(self._end, self.position)
        self.history.polled(self._process, self._key, records, told={self._key: told})
