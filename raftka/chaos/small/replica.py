"""One broker's replica of the one partition: the machines of replication around a log in memory.
What a broker's shell does, without a shell.
"""

from collections.abc import Callable
from random import Random
from typing import Protocol

from raftka.chaos.small.logs import Entry, Log
from raftka.metadata.image import MetadataImage, PartitionImage
from raftka.replication.follower import (
    Answer,
    AppendRecords,
    AskOffsets,
    Flush,
    FollowerFetch,
    Position,
    StartAfresh,
    TruncateTo,
)
from raftka.replication.follower import Effects as FollowerEffects
from raftka.replication.partition import AdvanceHighWatermark, AlterIsr, FollowerState, LeaderState
from raftka.replication.partition import Effects as LeaderEffects
from raftka.wire.errors import Code, KafkaError

LAG_S = 1.0
NOBODY = PartitionImage((), (), -1, -1, -1)


class Oracle(Protocol):
    """Judges each step of a replica."""

    def elected(self, replica: "Replica", epoch: int) -> None: ...

    def committed(self, replica: "Replica", offset: int) -> None: ...

    def truncates(self, replica: "Replica", offset: int) -> None: ...

    def rebuilt(self, replica: "Replica") -> None: ...


class World(Protocol):
    """Time, chance, the network and the controller, as a replica sees them."""

    now: float
    random: Random
    min_isr: int

    @property
    def oracle(self) -> Oracle: ...

    def later(self, seconds: float, replica: "Replica", action: Callable[[], object]) -> None: ...

    def disk_s(self, broker: int) -> float: ...

    def partition_of(self, image: MetadataImage) -> PartitionImage | None: ...

    def alter(self, replica: "Replica", effect: AlterIsr) -> None: ...

    def ask_offsets(self, replica: "Replica", fetch: FollowerFetch) -> None: ...

    def acknowledge(self, replica: "Replica", value: str, offset: int) -> None: ...

    def new_log(self) -> Log: ...


class Replica:
    """One broker. `alive`, `life`: a process; all that was on its way to an earlier one is void."""

    def __init__(self, world: World, broker_id: int) -> None:
        self.world = world
        self.id = broker_id
        self.log = world.new_log()
        self.alive = self.paused = False
        self.life = 0
        self.broker_epoch = -1
        self.clean_epoch = -1  # at the last end, if that was in order
        self.high_watermark = 0  # the checkpoint, in the end: it may be old
        self.image = MetadataImage()
        self.partition = NOBODY
        self.leader: LeaderState | None = None
        self.follower = FollowerState(-1, -1, 0, 0)
        self.fetch: FollowerFetch | None = None
        # what clients wait for: value, and the offset behind it
        self.wants: list[tuple[str, int]] = []
        self._flushing = False

    # its process

    def start(self) -> None:
        self.alive, self.paused = True, False
        self.life += 1
        self.broker_epoch = -1
        self.image, self.partition = MetadataImage(), NOBODY
        self.leader = self.fetch = None
        self._flushing = False
        self.wants.clear()
        self.follower = FollowerState(-1, -1, self.log.end, self.high_watermark)

    def stop(self, *, power: bool) -> None:
        if self.world.random.random() < 0.5:
            self.high_watermark = min(
                self.leader.high_watermark if self.leader else self.follower.high_watermark,
                self.log.end,
            )
        self.alive = False
        self.life += 1
        self.leader = self.fetch = None
        self.log.restart(self.world.random, power=power)
        if power:
            self.high_watermark = min(self.high_watermark, self.log.end)
        self.follower = FollowerState(-1, -1, self.log.end, self.high_watermark)
        self.world.oracle.rebuilt(self)

    # what the metadata says

    def on_image(self, image: MetadataImage) -> None:
        """Not before it has our own registration: what came before is history."""
        if image.offset <= self.image.offset:
            return
        self.image = image
        if self.broker_epoch < 0 or image.offset < self.broker_epoch:
            return
        now = self.world.partition_of(image)
        if now is None:
            return
        before, self.partition = self.partition, now
        if self.id not in now.replicas:
            self._remove()
        elif now.leader == self.id:
            self._lead(now)
        elif self.leader is not None or (before.leader, before.leader_epoch) != (
            now.leader,
            now.leader_epoch,
        ):
            self._follow(now)

    def live(self) -> dict[int, int]:
        return {each: self.image.brokers[each].epoch for each in self.image.alive_brokers()}

    def _lead(self, now: PartitionImage) -> None:
        if self.leader is not None and self.leader.leader_epoch == now.leader_epoch:
            self.apply(self.leader.on_image(now, self.live(), self.world.now, self.world.min_isr))
            return
        known = (
            self.leader.high_watermark if self.leader is not None else self.follower.high_watermark
        )
        self.fetch = None
        self.wants.clear()
        self.log.assign_epoch(now.leader_epoch)
        epochs = now.leader_epoch, now.partition_epoch
        offsets = self.log.end, self.log.flushed, known
        self.leader = LeaderState(
            self.id,
            *epochs,
            now.replicas,
            now.isr,
            *offsets,
            self.world.now,
            LAG_S,
            self.world.min_isr,
            self.live(),
            now.elr,
        )
        self.world.oracle.elected(self, now.leader_epoch)
        self.world.oracle.committed(self, self.leader.high_watermark)
        self.flush()

    def _follow(self, now: PartitionImage) -> None:
        known = (
            self.leader.high_watermark if self.leader is not None else self.follower.high_watermark
        )
        self.leader = None
        self.wants.clear()
        self.follower = FollowerState(now.leader, now.leader_epoch, self.log.end, known)
        self.fetch = None
        if now.leader >= 0:
            log = self.log
            self.fetch = FollowerFetch(
                self.follower, 0, log.end, log.flushed, log.latest_epoch, log.epoch_end
            )
            self.carry_out(self.fetch, self.fetch.start())

    def _remove(self) -> None:
        """Remove the replica, which has moved to another broker, and its files."""
        self.log, self.partition = self.world.new_log(), NOBODY
        self.leader = self.fetch = None
        self.high_watermark = 0
        self.follower = FollowerState(-1, -1, 0, 0)
        self.wants.clear()

    # leading

    def append(self, value: str) -> bool:
        """For a client, with acks=all."""

        def append(epoch: int) -> int:
            self.log.append([Entry(epoch, value)], epoch)
            return self.log.end

        return self.write(value, append)

    def write(self, value: str, append: Callable[[int], int]) -> bool:
        """As leader. `append` gets the leader epoch and returns the offset that must be committed
        before `value` is acknowledged, -1: none.

        Raises KafkaError.
        """
        leader = self.leader
        if leader is None or leader.under_min_isr:
            return False
        end = append(leader.leader_epoch)
        if end >= 0:
            self.wants.append((value, end))
        self.apply(leader.appended(self.log.end))
        self.flush()
        return True

    @property
    def committed(self) -> int:
        """The high watermark."""
        return (self.leader or self.follower).high_watermark

    def apply(self, effects: LeaderEffects) -> None:
        for effect in effects:
            if isinstance(effect, AlterIsr):
                self.world.alter(self, effect)
            else:
                self.world.oracle.committed(self, effect.offset)
        leader = self.leader
        if leader is not None and not leader.under_min_isr:
            done = [want for want in self.wants if want[1] <= leader.high_watermark]
            self.wants = [want for want in self.wants if want[1] > leader.high_watermark]
            for value, offset in done:
                self.world.acknowledge(self, value, offset - 1)

    def answer(self, follower: int, position: Position, broker_epoch: int) -> Answer:
        """As the Fetch handler does for a follower."""
        leader, log = self.leader, self.log
        if leader is None:
            return Answer(Code.NOT_LEADER_OR_FOLLOWER)
        if position.leader_epoch != leader.leader_epoch:
            return Answer(
                Code.FENCED_LEADER_EPOCH
                if position.leader_epoch < leader.leader_epoch
                else Code.UNKNOWN_LEADER_EPOCH
            )
        if position.last_fetched_epoch >= 0:
            epoch, end = log.epoch_end(position.last_fetched_epoch)
            if epoch < 0:
                return Answer(Code.OFFSET_OUT_OF_RANGE)
            if epoch < position.last_fetched_epoch or end < position.fetch_offset:
                return Answer(Code.NONE, -1, 0, b"", (epoch, end))
        if position.fetch_offset > log.end:
            return Answer(Code.OFFSET_OUT_OF_RANGE)
        records = log.read(position.fetch_offset)
        try:
            self.apply(
                leader.fetched(follower, position.fetch_offset, self.world.now, broker_epoch)
            )
        except KafkaError as error:
            return Answer(error.code)
        return Answer(Code.NONE, leader.high_watermark, 0, records)  # type: ignore[arg-type]

    # following

    def carry_out(self, fetch: FollowerFetch, effects: FollowerEffects) -> None:
        for effect in effects:
            if fetch is not self.fetch:
                return
            match effect:
                case AppendRecords(records, epoch):
                    self.log.append_fetched(records, epoch)  # type: ignore[arg-type]
                    self.carry_out(fetch, fetch.appended(self.log.end, self.log.latest_epoch))
                case TruncateTo(offset):
                    self._cut(fetch, offset)
                case StartAfresh(_):
                    self._cut(fetch, 0)
                case AskOffsets():
                    self.world.ask_offsets(self, fetch)
                case Flush():
                    self.flush()
                case AdvanceHighWatermark(offset):
                    self.world.oracle.committed(self, offset)

    def _cut(self, fetch: FollowerFetch, offset: int) -> None:
        self.world.oracle.truncates(self, offset)
        self.log.truncate(offset)
        self.world.oracle.rebuilt(self)
        self.carry_out(fetch, fetch.truncated(self.log.end, self.log.latest_epoch))

    # its disk

    def flush(self) -> None:
        if not self._flushing and self.log.flushed < self.log.end:
            self._flushing = True
            log, end = self.log, self.log.begin_flush()
            self.world.later(self.world.disk_s(self.id), self, lambda: self._flushed(log, end))

    def _flushed(self, log: Log, end: int) -> None:
        self._flushing = False
        if log is not self.log:
            self.flush()
            return
        log.flush(end)
        if self.leader is not None:
            self.apply(self.leader.flushed(log.flushed))
        elif self.fetch is not None:
            self.carry_out(self.fetch, self.fetch.flushed(log.flushed))
        self.flush()
