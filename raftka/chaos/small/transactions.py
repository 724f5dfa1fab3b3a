"""Transactional producers of a small life and their coordinator, which never fails; and the judge
of what the replicas' logs make of them.

The judge replays the committed batches without any of the broker's code: from that follow the last
stable offset of each high watermark, and what a reader of what is committed must see.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

from raftka.chaos.small.logs import Batch, StoredLog, told
from raftka.chaos.small.replica import Replica
from raftka.log.config import LogConfig
from raftka.log.producers.markers import VERSION_1, VERSION_2, Marker
from raftka.replication.partition import LeaderState
from raftka.wire.errors import KafkaError
from raftka.wire.records import build_batch

SHARE = 1 / 3  # of the lives
PRODUCERS = (2, 3, 4)
BATCHES = (1, 4)  # of a transaction
RETRY_S = (0.3, 0.8)  # after which a client sends a batch again, or a coordinator a marker
TRIES = 6
PAUSE_S = (0.0, 0.4)
SOON_S, LATE_S = (0.0, 0.05), (0.05, 1.5)  # for so long a message may be on its way
ANSWER_LOST, TIMED_OUT, COMMITS, SENT_LATE, DOES_NOT_WAIT = 0.15, 0.15, 0.6, 0.3, 0.1  # chances
FAILOVER_S = (0.5, 4.0)  # between two epochs of the coordinator
CHECKPOINT_S = (0.2, 1.5)
READ_S = (0.02, 0.2)
READ_BYTES = (100, 300, 1000, 1 << 20)
SEGMENT_BYTES = (300, 1200, 1 << 20)
INDEX_INTERVAL_BYTES = (60, 300, 4096)


class World(Protocol):
    """The life, as its producers see it."""

    now: float
    random: Random
    replicas: dict[int, Replica]
    over: bool

    def at(self, when: float, action: Callable[[], object]) -> None: ...

    def later(self, seconds: float, replica: Replica, action: Callable[[], object]) -> None: ...

    def say(self, sender: int, target: Replica, action: Callable[[], object]) -> None: ...

    def disk_s(self, broker: int) -> float: ...

    def check(self, right: bool, what: str) -> None: ...


class Replay:
    """The state that follows from a log's batches."""

    def __init__(self) -> None:
        self.open: dict[int, int] = {}  # producer id -> first offset
        # producer id, first offset, offset of the marker
        self.aborted: list[tuple[int, int, int]] = []
        # producer id -> epoch, next sequence, coordinator epoch
        self.producers: dict[int, tuple[int, int, int]] = {}
        self.outcomes: dict[int, bool] = {}  # offset of a transactional batch -> it is committed
        self._batches: dict[int, list[int]] = {}  # of open transactions

    def add(self, offset: int, batch: Batch) -> list[int]:
        """Returns the offsets of the batches of the transaction that ends with it."""
        producer_id, marker = batch.producer_id, batch.marker
        epoch, sequence, coordinator_epoch = self.producers.get(producer_id, (batch.epoch, 0, -1))
        if marker is not None:
            self.producers[producer_id] = (
                batch.epoch,
                sequence if epoch == batch.epoch else 0,
                marker.coordinator_epoch,
            )
            first = self.open.pop(producer_id, None)
            if first is not None and not marker.commit:
                self.aborted.append((producer_id, first, offset))
            ended = self._batches.pop(producer_id, [])
            self.outcomes.update(dict.fromkeys(ended, marker.commit))
            return ended
        if batch.transactional:
            self.producers[producer_id] = batch.epoch, batch.sequence + 1, coordinator_epoch
            self.open.setdefault(producer_id, offset)
            self._batches.setdefault(producer_id, []).append(offset)
        return []


class Judge:
    def __init__(self, world: World, decided: Callable[[str], bool | None]) -> None:
        """`decided`: whether the transaction of that value is committed; None: nobody has ended
        it.
        """
        self._world, self._decided = world, decided
        self.values: list[str] = []  # of what is committed
        self.batches: list[Batch] = []
        self.replay = Replay()
        self.stable = [0]  # by the high watermark: the last stable offset
        self.reads = 0

    def committed(self, replica: Replica, offset: int) -> None:
        log = replica.log
        assert isinstance(log, StoredLog)
        for batch, entry in zip(
            log.batches[len(self.batches) : offset],
            log.entries[len(self.batches) : offset],
            strict=True,
        ):
            for ended in self.replay.add(len(self.batches), batch):
                value, outcome = self.values[ended], self.replay.outcomes[ended]
                right = self._decided(value)
                self._world.check(
                    outcome == right,
                    f"torn: {value} at {ended} is ended by {entry.value}, committed is {right}",
                )
            self.batches.append(batch)
            self.values.append(entry.value)
            self.stable.append(min(self.replay.open.values(), default=len(self.batches)))
        self.check_stable(replica, offset)

    def check_stable(self, replica: Replica, high_watermark: int) -> int:
        """The last stable offset. A replica that has begun with a snapshot may not know what is
        committed before it: then it shows less.
        """
        log = replica.log
        assert isinstance(log, StoredLog)
        stable = log.broker_log.last_stable_offset(high_watermark)
        right = self.stable[high_watermark]
        less = high_watermark < log.broker_log.producers.restored_at and stable < right
        what = (
            f"the last stable offset of {replica.id} is {stable} at the high watermark "
            f"{high_watermark}: the committed batches say {right}"
        )
        self._world.check(stable == right or less, what)
        return stable

    def rebuilt(self, replica: Replica) -> None:
        """Its log was opened, or cut: what it remembers must be what its batches say."""
        log = replica.log
        assert isinstance(log, StoredLog)
        replay, state = Replay(), log.broker_log.producers
        for offset, batch in enumerate(log.batches):
            replay.add(offset, batch)
        found = [each[:3] for each in log.broker_log.aborted.find(0, log.end)]
        self._world.check(
            found == replay.aborted,
            f"aborted transactions of {replica.id} are {found}, its batches say {replay.aborted}",
        )
        opened = {
            producer_id: each.transaction_start
            for producer_id, each in state.producers.items()
            if each.transaction_start >= 0
        }
        self._world.check(
            opened == replay.open,
            f"open transactions of {replica.id} are {opened}, its batches say {replay.open}",
        )
        self._world.check(
            list(state.open) == sorted(replay.open.values()),
            f"{replica.id} has open transactions at {list(state.open)}",
        )
        known = {
            producer_id: (each.epoch, each.next_sequence, each.coordinator_epoch)
            for producer_id, each in state.producers.items()
        }
        self._world.check(
            known == replay.producers,
            f"{replica.id} remembers producers {known}, its batches say {replay.producers}",
        )
        self.check_stable(replica, replica.committed)

    def read(self, replica: Replica, offset: int, size: int) -> None:
        """As a reader of what is committed, from any replica."""
        log = replica.log
        assert isinstance(log, StoredLog)
        stable = self.check_stable(replica, replica.committed)
        if offset < stable:
            self.reads += 1
            end, shown = log.read_committed(offset, size, stable)
            right = [
                (each, self.values[each]) for each in range(offset, end) if self._is_shown(each)
            ]
            self._world.check(
                offset < end <= stable,
                f"dirty read: of {replica.id} from {offset} to {end}, stable is {stable}",
            )
            self._world.check(
                shown == right,
                f"what is committed: {replica.id} shows {shown} from {offset} to {end}, it is "
                f"{right}",
            )

    def _is_shown(self, offset: int) -> bool:
        batch = self.batches[offset]
        return batch.marker is None and (not batch.transactional or self.replay.outcomes[offset])


@dataclass
class Producer:
    id: int
    version: int  # of its transactions
    epoch: int = 0
    sequence: int = 0
    transaction: int = 0
    left: int = 0  # batches
    sending: str = ""  # the value that is not acknowledged yet
    unsure: bool = False  # of a batch of this epoch nobody knows what became


@dataclass
class Ending:
    """A transaction that the coordinator has ended, and whose marker is not committed yet."""

    marker: Marker
    next_epoch: int
    sent: int = 0  # how often: the connection of an earlier one is closed
    taken_over: bool = False  # by another coordinator, before it was over
    # offset and leader epoch of each copy: that of the transaction before looks alike
    written: set[tuple[int, int]] = field(default_factory=set)


@dataclass
class Coordinator:
    epoch: int = 0
    open: dict[int, Producer] = field(default_factory=dict)  # by producer id
    ending: dict[int, Ending] = field(default_factory=dict)


class Transactions:
    def __init__(self, world: World, random: Random) -> None:
        self._world = world
        self.judge = Judge(world, lambda value: self.decided.get(self._of_value[value]))
        self.config = LogConfig(
            segment_bytes=random.choice(SEGMENT_BYTES),
            index_interval_bytes=random.choice(INDEX_INTERVAL_BYTES),
        )
        self.producers = [
            Producer(number, random.choice((VERSION_1, VERSION_2)))
            for number in range(random.choice(PRODUCERS))
        ]
        self.coordinator = Coordinator()
        # producer id, transaction -> it is committed
        self.decided: dict[tuple[int, int], bool] = {}
        self._of_value: dict[str, tuple[int, int]] = {}

    def new_log(self) -> StoredLog:
        return StoredLog(self.config, self._now_ms)

    def _now_ms(self) -> int:
        return int(self._world.now * 1000)

    def begin(self) -> None:
        for producer in self.producers:
            self._pause(PAUSE_S, lambda producer=producer: self._begin(producer))  # type: ignore[misc]
        for replica in self._world.replicas.values():
            self._checkpoint(replica)
        self._fail_over()
        self._read()

    def _pause(self, between_s: tuple[float, float], action: Callable[[], object]) -> None:
        self._world.at(self._world.now + self._world.random.uniform(*between_s), action)

    def end(self) -> None:
        """No more begins; what is open is aborted."""
        for producer in list(self.coordinator.open.values()):
            self._end(producer, commit=False)

    @property
    def sent(self) -> int:
        """Batches."""
        return len(self._of_value)

    @property
    def over(self) -> bool:
        """Nothing is open, and every marker is written everywhere."""
        logs = [replica.log for replica in self._world.replicas.values()]
        hanging = any(log.broker_log.producers.open for log in logs if isinstance(log, StoredLog))
        return not (hanging or self.coordinator.open or self.coordinator.ending)

    def check(self) -> None:
        """At the end."""
        judge = self.judge
        self._world.check(not judge.replay.open, f"hanging: {judge.replay.open}")
        for replica in self._world.replicas.values():
            judge.rebuilt(replica)

    # a producer

    def _begin(self, producer: Producer) -> None:
        if self._world.over:
            return
        producer.transaction += 1
        producer.left, producer.unsure = self._world.random.randint(*BATCHES), False
        self.coordinator.open[producer.id] = producer
        if self._world.random.random() < TIMED_OUT:
            number = producer.transaction
            self._pause((0.1, 1.0), lambda: self._time_out(producer, number))
        self._next(producer)

    def _time_out(self, producer: Producer, transaction: int) -> None:
        """The coordinator aborts, and fences the producer, which may not know for a while."""
        if self._is_open(producer, transaction):
            self._end(producer, commit=False, fence=True)

    def _is_open(self, producer: Producer, transaction: int) -> bool:
        return producer.id in self.coordinator.open and producer.transaction == transaction

    def _next(self, producer: Producer) -> None:
        if producer.id not in self.coordinator.open:
            return
        if producer.left == 0:
            self._end(producer, commit=self._world.random.random() < COMMITS)
            return
        producer.sending = self._value(producer)
        self._try(producer, producer.sending, producer.transaction, TRIES)

    def _value(self, producer: Producer) -> str:
        value = f"{producer.id}.{producer.epoch} {producer.transaction}/{producer.sequence}"
        self._of_value[value] = producer.id, producer.transaction
        return value

    def _try(self, producer: Producer, value: str, transaction: int, tries: int) -> None:
        if producer.sending != value or not self._is_open(producer, transaction):
            return
        if tries == 0:
            self._end(producer, commit=False)
            return
        self._send(producer, value)
        if self._world.random.random() < DOES_NOT_WAIT:
            self._pause(SOON_S, lambda: self._try(producer, value, transaction, 0))
        self._pause(RETRY_S, lambda: self._try(producer, value, transaction, tries - 1))

    def _send(self, producer: Producer, value: str) -> None:
        """A batch that begins with the producer's next sequence, to a replica that takes itself for
        the leader.
        """
        leaders = [
            each for each in self._world.replicas.values() if each.alive and each.leader is not None
        ]
        if not leaders:
            return
        now_ms, of_producer = self._now_ms(), (producer.epoch, producer.sequence)
        target, version = self._world.random.choice(leaders), producer.version
        producer_id = producer.id
        batch = build_batch(
            [(None, value.encode(), (), now_ms)],
            producer_id=producer_id,
            producer_epoch=of_producer[0],
            base_sequence=of_producer[1],
            transactional=True,
        )
        self._world.say(
            0,
            target,
            lambda: self._arrives(target, batch, value, (producer_id, *of_producer), version),
        )

    def _arrives(
        self, replica: Replica, batch: bytearray, value: str, of: tuple[int, int, int], version: int
    ) -> None:
        """As the Produce handler does: the coordinator is asked before a transaction begins."""
        log, leader, (producer_id, epoch, sequence) = replica.log, replica.leader, of
        assert isinstance(log, StoredLog)
        if leader is None:
            return
        if not log.broker_log.producers.must_verify(producer_id, epoch):
            self._append(replica, leader, batch, value)
            return
        try:
            guard = log.broker_log.producers.guard(
                producer_id, epoch, sequence, version, self._now_ms()
            )
        except KafkaError:
            return

        def asked() -> None:
            known = (
                producer_id in self.coordinator.open
                and self.coordinator.open[producer_id].epoch == epoch
            )
            self._pause(
                self._on_its_way(), lambda: self._world.say(0, replica, lambda: answered(known))
            )

        def answered(known: bool) -> None:
            log.broker_log.producers.verified(producer_id, guard, known)
            if known and replica.log is log:
                self._append(replica, leader, batch, value)

        self._pause(self._on_its_way(), asked)

    def _on_its_way(self) -> tuple[float, float]:
        return LATE_S if self._world.random.random() < SENT_LATE else SOON_S

    def _append(self, replica: Replica, leader: LeaderState, batch: bytearray, value: str) -> None:
        log = replica.log
        assert isinstance(log, StoredLog)
        if replica.leader is leader:
            try:
                replica.write(value, lambda epoch: log.append_batch(batch, epoch))
            except KafkaError:
                pass  # the producer is fenced, or comes too late

    def acknowledged(self, value: str, offset: int, epoch: int) -> None:
        """The record at that offset, of that leader epoch, is committed. The answer to the
        coordinator that wrote it may be lost.
        """
        ending = next(
            (each for each in self.coordinator.ending.values() if (offset, epoch) in each.written),
            None,
        )
        if self._world.random.random() < ANSWER_LOST:
            return
        if ending is not None:
            self._ended(ending)
        producer = next((each for each in self.producers if each.sending == value), None)
        if producer is not None:
            producer.sending = ""
            producer.sequence += 1
            producer.left -= 1
            self._pause(
                PAUSE_S,
                lambda transaction=producer.transaction: self._goes_on(producer, transaction),  # type: ignore[misc]
            )

    def _goes_on(self, producer: Producer, transaction: int) -> None:
        if producer.transaction == transaction:
            self._next(producer)

    # the coordinator

    def _end(self, producer: Producer, *, commit: bool, fence: bool = False) -> None:
        """Decide. A producer whose batch may still be under way goes on with another epoch, and so
        does each in version 2.
        """
        random = self._world.random
        marker_epoch = producer.epoch + (fence or producer.version == VERSION_2)
        del self.coordinator.open[producer.id]
        producer.unsure = bool(producer.sending)
        if not commit and not producer.sending and random.random() < SENT_LATE:
            producer.sending = self._value(producer)
            producer.unsure = True
        if producer.sending:
            late = Producer(producer.id, producer.version, producer.epoch, producer.sequence)
            value = producer.sending
            self._pause(LATE_S, lambda: self._send(late, value))
        producer.sending = ""
        self.decided[producer.id, producer.transaction] = commit
        # it asks for another epoch when its transaction is over
        again = producer.version == VERSION_1 and producer.unsure and not fence
        marker = Marker(producer.id, marker_epoch, self.coordinator.epoch, commit, producer.version)
        self.coordinator.ending[producer.id] = Ending(marker, marker_epoch + again)
        self._send_marker(self.coordinator.ending[producer.id])

    def _send_marker(self, ending: Ending) -> None:
        marker = ending.marker
        if self.coordinator.ending.get(marker.producer_id) is not ending:
            return
        ending.sent += 1
        sent = ending.sent
        leaders = [
            each for each in self._world.replicas.values() if each.alive and each.leader is not None
        ]
        if leaders:
            target = self._world.random.choice(leaders)
            self._world.say(0, target, lambda: self._mark(target, ending, marker, sent))
        if self._world.random.random() < SENT_LATE:
            self._pause(LATE_S, lambda: self._late(ending, marker, sent))
        self._pause(RETRY_S, lambda: self._send_marker(ending))

    def _late(self, ending: Ending, marker: Marker, sent: int) -> None:
        for target in self._world.replicas.values():
            self._world.say(
                0,
                target,
                lambda target=target: self._mark(target, ending, marker, sent),  # type: ignore[misc]
            )

    def _mark(self, replica: Replica, ending: Ending, marker: Marker, sent: int) -> None:
        """As the marker writer does. In version 1 a marker that comes late would end the next
        transaction, as in Kafka: what was on a connection that is closed is not carried out, and
        the marker of another coordinator fences what this one has sent.
        """
        log = replica.log
        assert isinstance(log, StoredLog)
        is_last = self.coordinator.ending.get(marker.producer_id) is ending and ending.sent == sent
        if marker.version == VERSION_1 and not is_last and not ending.taken_over:
            return

        def append(epoch: int) -> int:
            end = log.append_marker(marker, epoch)
            if end < 0:
                self._ended(ending)
            else:
                ending.written.add((end - 1, epoch))
            return end

        try:
            replica.write(told(marker), append)
        except KafkaError:
            pass  # another coordinator has written its marker

    def _ended(self, ending: Ending) -> None:
        """The marker is committed."""
        producer_id = ending.marker.producer_id
        if self.coordinator.ending.get(producer_id) is not ending:
            return
        del self.coordinator.ending[producer_id]
        (producer,) = [each for each in self.producers if each.id == producer_id]
        if ending.next_epoch != producer.epoch:
            producer.epoch, producer.sequence = ending.next_epoch, 0
        self._pause(PAUSE_S, lambda: self._begin(producer))

    def _fail_over(self) -> None:
        """Another coordinator takes over: it knows what was decided, and sends its own markers;
        some of the old ones are still on their way.
        """
        coordinator = self.coordinator
        coordinator.epoch += 1
        for producer_id, old in list(coordinator.ending.items()):
            old.taken_over = True
            marker = Marker(
                producer_id,
                old.marker.epoch,
                coordinator.epoch,
                old.marker.commit,
                old.marker.version,
            )
            coordinator.ending[producer_id] = Ending(marker, old.next_epoch)
            self._send_marker(coordinator.ending[producer_id])
            self._pause(LATE_S, lambda old=old: self._late(old, old.marker, old.sent))  # type: ignore[misc]
        if not self._world.over:
            self._pause(FAILOVER_S, self._fail_over)

    # the replicas

    def _checkpoint(self, replica: Replica) -> None:
        log = replica.log
        assert isinstance(log, StoredLog)
        if replica.alive and not replica.paused and (done := log.begin_checkpoint()) is not None:
            self._world.later(self._world.disk_s(replica.id), replica, done)
        self._pause(CHECKPOINT_S, lambda: self._checkpoint(replica))

    def _read(self) -> None:
        random = self._world.random
        replica = random.choice(list(self._world.replicas.values()))
        if replica.committed:
            self.judge.read(replica, random.randrange(replica.committed), random.choice(READ_BYTES))
        self._pause(READ_S, self._read)
