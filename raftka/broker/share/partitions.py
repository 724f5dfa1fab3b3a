"""The share partitions of this broker: those of the partitions that it leads, by group. Reads their
state, writes each change of it, and ends locks in time. Knows no request.

A share partition lives as long as the leadership in which its state was read, and the share
sessions of its group at this broker. A write that the share coordinator fences ends it too: the
next fetch reads the state anew.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum, auto
from functools import partial
from math import inf
from typing import Protocol

from raftka.broker.context import BrokerContext
from raftka.broker.replica.manager import ReplicaManager
from raftka.broker.replica.partition import Partition
from raftka.broker.share.group_settings import GroupSettings, lock_ms_of_group, settings_of_group
from raftka.broker.work.long_work import LongWork, Steps
from raftka.coordinator.timers import Timer as LockTimer
from raftka.coordinator.timers import Timers
from raftka.limits import SHARE_PARTITIONS
from raftka.metadata.configs.settings import NodeSettings
from raftka.metadata.image import Delta, MetadataImage
from raftka.replication.partition import LeaderState
from raftka.runtime.interfaces import Timer
from raftka.share.partition import Change, DeadRange, Rules, SharePartition
from raftka.share.state import SharePartitionKey, ShareState, StateBatch
from raftka.wire.errors import Code, KafkaError, LimitRefused

WRITE_AGAIN_S = 1.0  # after a write that failed at all tries of the persister
EXPIRED_IN_A_TURN = 100  # share partitions whose locks end
NOT_HOSTED = "This server does not host this topic-partition."

Written = Callable[[KafkaError | None], None]
Place = tuple[bytes, int]  # topic id and partition


class Persister(Protocol):
    """The client of the share coordinator (coordinators/share_persister.py)."""

    def read(
        self,
        key: SharePartitionKey,
        leader_epoch: int,
        done: Callable[[ShareState | KafkaError], None],
    ) -> None: ...

    def write(
        self,
        key: SharePartitionKey,
        state_epoch: int,
        leader_epoch: int,
        start: int,
        complete_count: int,
        batches: Sequence[StateBatch],
        done: Written,
    ) -> None: ...


class DeadLetters(Protocol):
    """Writes records that a group gives up to its dead-letter topic."""

    def wants(self, group_id: str) -> bool:
        """Return whether the group has such a topic, and the cluster's level allows it."""

    def send(
        self, key: SharePartitionKey, records: Sequence[DeadRange], done: Callable[[], None]
    ) -> None:
        """Call `done` once they are written, or given up."""


class WaitingFetch(Protocol):
    """A ShareFetch that waits for records."""

    def on_change(self, share: "LedSharePartition") -> None:
        """Note that a share partition has changed."""

    def records_arrived(self) -> None:
        """Look at the share partitions that have changed."""


class State(Enum):
    EMPTY = auto()  # its state has not been read
    INITIALIZING = auto()  # its state is being read
    ACTIVE = auto()
    FAILED = auto()  # its state could not be read; the next fetch tries again
    FENCED = auto()  # this object must not be used any more


class Event(Enum):
    LOAD = auto()
    LOADED = auto()
    FAIL = auto()
    FENCE = auto()  # the leadership is over, the topic is gone, or the coordinator fenced a write


TRANSITIONS: Mapping[State, Mapping[Event, State]] = {
    State.EMPTY: {Event.LOAD: State.INITIALIZING, Event.FENCE: State.FENCED},
    State.INITIALIZING: {
        Event.LOADED: State.ACTIVE,
        Event.FAIL: State.FAILED,
        Event.FENCE: State.FENCED,
    },
    State.ACTIVE: {Event.FENCE: State.FENCED},
    State.FAILED: {Event.LOAD: State.INITIALIZING, Event.FENCE: State.FENCED},
    State.FENCED: {Event.FENCE: State.FENCED},
}
# errors of a write after which the state has to be read anew, or is gone with its group or topic
FENCED_BY = frozenset(
    {
        Code.FENCED_LEADER_EPOCH,
        Code.FENCED_STATE_EPOCH,
        Code.GROUP_ID_NOT_FOUND,
        Code.INVALID_REQUEST,
        Code.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
# codes of the share coordinator, as clients see them
AS_CLIENTS_SEE = {
    Code.NOT_COORDINATOR: Code.COORDINATOR_NOT_AVAILABLE,
    Code.COORDINATOR_NOT_AVAILABLE: Code.COORDINATOR_NOT_AVAILABLE,
    Code.COORDINATOR_LOAD_IN_PROGRESS: Code.COORDINATOR_NOT_AVAILABLE,
    Code.GROUP_ID_NOT_FOUND: Code.GROUP_ID_NOT_FOUND,
    Code.UNKNOWN_TOPIC_OR_PARTITION: Code.UNKNOWN_TOPIC_OR_PARTITION,
    Code.FENCED_LEADER_EPOCH: Code.NOT_LEADER_OR_FOLLOWER,
    Code.FENCED_STATE_EPOCH: Code.NOT_LEADER_OR_FOLLOWER,
}


class LedSharePartition:
    """One share partition, joined with the partition that this broker leads."""

    __slots__ = (
        "_image_offset",
        "_node_settings",
        "_rules",
        "_settings",
        "core",
        "error",
        "is_persisted",
        "key",
        "leader",
        "leadership",
        "lock_timer",
        "log_start",
        "partition",
        "place",
        "state",
        "state_epoch",
        "waiting",
    )
    follower: tuple[int, float] | None = None  # as a reader of the partition: a consumer

    def __init__(
        self,
        leader: "ShareLeader",
        key: SharePartitionKey,
        partition: Partition,
        leadership: LeaderState,
    ) -> None:
        self.leader = leader
        self.key = key
        self.place = (key.topic_id, key.partition)
        self.partition = partition
        self.leadership = leadership
        self.state = State.EMPTY
        self.state_epoch = -1
        self.is_persisted = False  # the share coordinator knows where it begins
        self.core = SharePartition(0)
        self.error: KafkaError | None = None  # why its state could not be read
        self.lock_timer = LockTimer(self, leader.expire)
        self.waiting: dict[WaitingFetch, None] = {}
        self.log_start = -1  # where the log began when its readers looked last
        # its group's settings, and what they were read from
        self._settings: GroupSettings
        self._rules: Rules
        self._image_offset = -1
        self._node_settings: NodeSettings | None = None

    @property
    def is_current(self) -> bool:
        """Return whether the leadership in which it began goes on."""
        return self.state is not State.FENCED and self.partition.leader is self.leadership

    @property
    def settings(self) -> GroupSettings:
        self._read_settings()
        return self._settings

    @property
    def rules(self) -> Rules:
        self._read_settings()
        return self._rules

    def _read_settings(self) -> None:
        metadata = self.leader.context.metadata
        offset, settings = metadata.image.offset, metadata.settings
        if self._image_offset != offset or self._node_settings is not settings:
            self._image_offset, self._node_settings = offset, settings
            self._settings = settings_of_group(metadata, self.key.group_id)
            self._rules = self.leader.rules_of(self.key.group_id, self._settings)

    @property
    def readable_end(self) -> int:
        """Return the end of the records that the group may read; 0 while held batches are being
        looked for.
        """
        try:
            return self.partition.readable_end(is_isolated=self.settings.reads_committed)
        except KafkaError:
            return 0

    def has_records(self) -> bool:
        """Return whether there are records to acquire, if there is a state."""
        self.core.on_log_start(self.partition.log.start_offset)
        return self.core.next_offset() < self.readable_end and self.core.has_room(self.rules)

    def _is_worth_a_look(self) -> bool:
        """Return whether a fetch that looks may find records, or an error."""
        return self.state is not State.ACTIVE or not self.is_current or self.has_records()

    def on(self, event: Event) -> None:
        self.state = TRANSITIONS[self.state][event]

    def changed(self, *, wake: bool) -> None:
        """Note that the log has more, begins elsewhere, or is led no more: fetches look again, at
        the turn's end.
        """
        for fetch in self.waiting:
            fetch.on_change(self)
        if self.waiting:
            self.leader.replicas.read_soon(self)

    def records_arrived(self) -> None:
        """Let fetches look, the one that waits longest first, while there may be something for the
        next one: nearly always one takes all there is.
        """
        for fetch in tuple(self.waiting):
            if not self._is_worth_a_look():
                self._watch_log()
                break
            fetch.records_arrived()

    def watch(self, fetch: WaitingFetch) -> None:
        """Call the fetch when there may be something to acquire."""
        self.waiting[fetch] = None
        self._watch_log()

    def _watch_log(self) -> None:
        self.log_start = self.partition.log.start_offset
        self.partition.watched_by(self)

    def leave(self, fetch: WaitingFetch) -> None:
        """Call it no more. A share partition that has no state is forgotten with its last fetch:
        groups that do not exist shall take no memory.
        """
        self.waiting.pop(fetch, None)
        if self.state is State.FAILED and not self.waiting:
            self.leader.forget(self)


class ShareLeader:
    def __init__(
        self,
        context: BrokerContext,
        replicas: ReplicaManager,
        persister: Persister,
        long_work: LongWork,
        has_sessions: Callable[[str], bool],
        dead_letters: DeadLetters | None = None,
    ) -> None:
        """`has_sessions`: whether a group has share sessions at this broker."""
        self.context = context
        self.replicas = replicas
        self._persister = persister
        self._long_work = long_work
        self._has_sessions = has_sessions
        self._dead_letters = dead_letters
        self._clock = context.runtime.clock
        self._places: dict[Place, dict[str, LedSharePartition]] = {}  # by group
        self._of_group: dict[str, dict[Place, LedSharePartition]] = {}
        self.count = 0  # share partitions
        self._timers = Timers()
        self._timer: Timer | None = None
        self._rings_at = inf

    # settings

    def lock_ms_of(self, group_id: str) -> int:
        return lock_ms_of_group(self.context.metadata, group_id)

    def rules_of(self, group_id: str, settings: GroupSettings) -> Rules:
        dead_letters = self._dead_letters is not None and self._dead_letters.wants(group_id)
        return Rules(settings.count_limit, settings.max_locks, settings.renews, dead_letters)

    def lock_ends(self, settings: GroupSettings) -> float:
        """Return when a lock ends that begins now, by the clock."""
        return self._clock.now() + settings.lock_ms / 1000

    # finding

    def find(self, key: SharePartitionKey) -> LedSharePartition | None:
        """Return the share partition, if a fetch has made it and this broker still leads."""
        share = self._places.get((key.topic_id, key.partition), {}).get(key.group_id)
        if share is not None and not share.is_current:
            self.forget(share)
            return None
        return share

    def find_or_make(self, key: SharePartitionKey) -> LedSharePartition:
        """Raises KafkaError if this broker does not lead the partition, or has too many."""
        share = self.find(key)
        if share is not None:
            return share
        found = self.replicas.find_by_id(key.topic_id, key.partition)
        leadership = found.leading()
        if self.count >= SHARE_PARTITIONS.value:
            self.context.metrics.hit(SHARE_PARTITIONS)
            raise LimitRefused(SHARE_PARTITIONS, self.count + 1, None, Code.UNKNOWN_SERVER_ERROR)
        share = LedSharePartition(self, key, found, leadership)
        self._places.setdefault(share.place, {})[key.group_id] = share
        self._of_group.setdefault(key.group_id, {})[share.place] = share
        self.count += 1
        return share

    def forget(self, share: LedSharePartition) -> None:
        """Forget it: it has no state, its leadership is over, or the persisted state is another
        one.
        """
        share.on(Event.FENCE)
        self._timers.off(share.lock_timer)
        share.partition.idle_consumers.pop(share, None)
        group_id, place = share.key.group_id, share.place
        if self._of_group.get(group_id, {}).get(place) is share:
            self.count -= 1
            del self._places[place][group_id], self._of_group[group_id][place]
            if not self._places[place]:
                del self._places[place]
            if not self._of_group[group_id]:
                del self._of_group[group_id]
        share.changed(wake=True)

    def forget_idle(self, group_id: str) -> Steps[None]:
        """Forget the group's share partitions, as those of a group that is deleted: its last share
        session here has ended. Those that still write follow when that is done.
        """
        for share in tuple(self._of_group.get(group_id, {}).values()):
            self._forget_if_idle(share)
            yield

    def _forget_if_idle(self, share: LedSharePartition) -> None:
        """Keep one whose start is known here alone, and is not the log's."""
        if (
            share.state is State.ACTIVE
            and not self._has_sessions(share.key.group_id)
            and (share.is_persisted or share.settings.reset.is_earliest)
            and share.core.is_idle
        ):
            self.forget(share)

    # reading the state

    def load(self, share: LedSharePartition) -> None:
        """Read its state, unless it is there or on its way."""
        if share.state not in (State.EMPTY, State.FAILED):
            return
        share.on(Event.LOAD)
        share.error = None
        self._persister.read(
            share.key, share.leadership.leader_epoch, partial(self._on_read, share)
        )

    def _on_read(self, share: LedSharePartition, result: ShareState | KafkaError) -> None:
        if share.state is not State.INITIALIZING:
            return
        if isinstance(result, KafkaError):
            self._fail(share, as_client_sees(result, "read"))
            return
        share.state_epoch = result.state_epoch
        if result.start >= 0:
            share.is_persisted = True
            self._activate(share, SharePartition(result.start, result.batches))
        else:
            self._find_start(share)

    def _find_start(self, share: LedSharePartition) -> None:
        """Begin where share.auto.offset.reset says. Nothing is written before the first change."""
        partition, reset = share.partition, share.settings.reset
        if reset.is_earliest:
            self._activate(share, SharePartition(partition.log.start_offset))
        elif not share.leadership.knows_its_end:
            self._fail(share, KafkaError(Code.OFFSET_NOT_AVAILABLE))
        elif reset.age_ms is None:
            self._activate(share, SharePartition(partition.high_watermark))
        else:
            self._long_work.run(
                "start of a share partition",
                self._search(share, self._clock.wall_ms() - reset.age_ms),
                partial(self._on_searched, share),
                lambda: share.is_current,
            )

    @staticmethod
    def _search(share: LedSharePartition, timestamp: int) -> Steps[int]:
        partition = share.partition
        try:
            found = yield from partition.log.search_time(timestamp, partition.high_watermark)
        except OSError as error:
            raise KafkaError(Code.KAFKA_STORAGE_ERROR, str(error)) from error
        if found is None:
            raise KafkaError(Code.OFFSET_NOT_AVAILABLE)
        return found.offset

    def _on_searched(self, share: LedSharePartition, result: int | Exception) -> None:
        if share.state is not State.INITIALIZING:
            return
        if isinstance(result, int):
            self._activate(share, SharePartition(result))
        elif isinstance(result, KafkaError):
            self._fail(share, result)
        else:
            raise result

    def _activate(self, share: LedSharePartition, core: SharePartition) -> None:
        share.core = core
        share.on(Event.LOADED)
        self._give_up(share, core.archiving())
        share.changed(wake=True)

    def _fail(self, share: LedSharePartition, error: KafkaError) -> None:
        share.error = error
        share.on(Event.FAIL)

    # writing changes

    def write(self, share: LedSharePartition, change: Change, done: Written) -> None:
        """Write a change that has begun; then commit it, or roll it back, and call `done` with the
        error that clients see.
        """
        if not change.batches:
            share.core.commit(change)
            self.watch_locks(share)
            done(None)
            return
        self._persister.write(
            share.key,
            share.state_epoch,
            share.leadership.leader_epoch,
            change.start,
            change.complete_count,
            change.batches,
            partial(self._on_written, share, change, done),
        )

    def _on_written(
        self,
        share: LedSharePartition,
        change: Change,
        done: Written,
        error: KafkaError | None,
    ) -> None:
        if error is None:
            share.is_persisted = True
            share.core.commit(change)
            self._give_up(share, change.dead)
        else:
            share.core.rollback(change)
        self._settle(share, error)
        done(None if error is None else as_client_sees(error, "write"))

    def release(self, key: SharePartitionKey, member_id: str, done: Written) -> bool:
        """Release all records of a share partition that a member holds; return whether there are
        some: then `done` is called when that is written.
        """
        share = self.find(key)
        if share is None or share.state is not State.ACTIVE:
            return False
        change = share.core.release(member_id, share.rules)
        if not change.batches:
            return False
        self.write(share, change, done)
        return True

    def release_steps(self, group_id: str, member_id: str, places: Iterable[Place]) -> Steps[None]:
        """Release all that a member holds: the connection of its session is gone."""
        for place in places:
            self.release(SharePartitionKey(group_id, *place), member_id, lambda _: None)
            yield
        yield from self.forget_idle(group_id)

    def _write_later(self, share: LedSharePartition, change: Change) -> None:
        """Write a change that stands, whatever comes of the write: a record may be delivered once
        more than is counted. Records that are given up are written again until that succeeds.
        """

        def on_written(error: KafkaError | None) -> None:
            if error is None:
                share.is_persisted = True
                self._give_up(share, change.dead)
            self._settle(share, error)
            if error is not None and share.state is State.ACTIVE:
                again_at = self._clock.now() + WRITE_AGAIN_S
                self._clock.call_at(again_at, partial(self._write_again, share, change))

        if change.batches:
            self._persister.write(
                share.key,
                share.state_epoch,
                share.leadership.leader_epoch,
                change.start,
                change.complete_count,
                change.batches,
                on_written,
            )
        self.watch_locks(share)
        share.changed(wake=True)

    def _write_again(self, share: LedSharePartition, change: Change) -> None:
        if share.state is State.ACTIVE and not self.context.stopped:
            again = share.core.again(change)
            if again.batches:
                self._write_later(share, again)

    def _settle(self, share: LedSharePartition, error: KafkaError | None) -> None:
        """Let fetches look again after a write; a fenced one ends this share partition."""
        if share.state is not State.ACTIVE:
            return
        if error is not None and error.code in FENCED_BY:
            self.forget(share)
            return
        self.watch_locks(share)
        share.changed(wake=True)
        self._forget_if_idle(share)

    def _give_up(self, share: LedSharePartition, records: Sequence[DeadRange]) -> None:
        """Send records to the dead-letter topic; archive them when they are there."""
        if not records:
            return
        if self._dead_letters is None:
            self._on_given_up(share, records)
        else:
            self._dead_letters.send(share.key, records, partial(self._on_given_up, share, records))

    def _on_given_up(self, share: LedSharePartition, records: Sequence[DeadRange]) -> None:
        for each in records:
            if share.state is State.ACTIVE:
                self._write_later(share, share.core.archive(each.first, each.last))

    # locks

    def watch_locks(self, share: LedSharePartition) -> None:
        """Release its records when their locks end."""
        due = share.core.expires_at
        if share.state is not State.ACTIVE or due == inf:
            self._timers.off(share.lock_timer)
            return
        self._timers.set(share.lock_timer, due)
        self._arm()

    def _arm(self) -> None:
        due = self._timers.next()
        if due < self._rings_at:
            if self._timer is not None:
                self._timer.cancel()
            self._rings_at = due
            self._timer = self._clock.call_at(due, self._ring)

    def _ring(self) -> None:
        self._timer, self._rings_at = None, inf
        if self.context.stopped:
            return
        now = self._clock.now()
        for _ in range(EXPIRED_IN_A_TURN):
            timer = self._timers.due(now)
            if timer is None:
                break
            timer.ring(timer.owner)
        self._arm()

    def expire(self, share: LedSharePartition) -> None:
        """Release the records whose locks have ended."""
        change = share.core.expire(self._clock.now(), share.rules)
        if change.batches:
            self._write_later(share, change)
        else:
            self.watch_locks(share)

    # the image

    def on_image(self, image: MetadataImage, delta: Delta) -> None:
        """Drop the share partitions of topics that are gone, and of partitions led elsewhere."""
        if not self._places:
            return
        if delta.reloaded:
            changed = list(self._places)
        else:
            changed = [each for each in delta.partitions_changed if each in self._places]
            for topic_id, topic in delta.topics_deleted.items():
                changed += [(topic_id, index) for index in range(len(topic.partitions))]
        for place in changed:
            for share in tuple(self._places.get(place, {}).values()):
                now = image.partition(*place)
                if (
                    now is None
                    or now.leader != self.context.node_id
                    or now.leader_epoch != share.leadership.leader_epoch
                ):
                    self.forget(share)


def as_client_sees(error: KafkaError, rpc: str) -> KafkaError:
    """Return the error of a request to the share coordinator, as an answer to a client has it."""
    code = AS_CLIENTS_SEE.get(error.code, Code.UNKNOWN_SERVER_ERROR)
    return KafkaError(code, f"Error in {rpc} state RPC. {error.message or error.code.name}")
