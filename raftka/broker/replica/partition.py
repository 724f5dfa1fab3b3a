"""One replica on this broker: its log joined with its role. Carries out the effects of the pure
replication state. Knows no request format.

Answers wait here: produces for the high watermark or for the leader's own flush, DeleteRecords for
the low watermark, fetches for more records.
"""

from collections.abc import Callable
from math import inf
from typing import Any, Protocol

from raftka.broker.context import BrokerContext
from raftka.broker.purgatory import Operation, Purgatory
from raftka.broker.work.batching import Batching
from raftka.log.config import FOREVER, LogConfig
from raftka.log.directory import LogDirectory
from raftka.log.log import Log
from raftka.log.producers.markers import Marker
from raftka.log.validation import NeedsSchemas, Prepared, TakesLong
from raftka.metadata.image import PartitionImage, TopicImage
from raftka.replication.partition import AdvanceHighWatermark, AlterIsr, FollowerState, LeaderState
from raftka.runtime.interfaces import Clock, File
from raftka.wire.errors import Code, KafkaError

# Larger batches are not delayed: copying them costs more than a shared flush saves.
LITTLE_BYTES = 512 * 1024


class Failures(Protocol):
    """Failed writes and flushes (log_failures.py)."""

    def log_failed(self, partition: "Partition", error: OSError) -> None: ...

    def flush_failed(self, partition: "Partition", error: OSError) -> None: ...


class Writes(Protocol):
    def written(self, partition: "Partition") -> None:
        """Flush the log later: it has bytes that are not flushed, and no answer waits for them."""


class Cleaning(Protocol):
    """The housekeeping of logs, as a partition uses it."""

    @property
    def flushes(self) -> Writes: ...


class IsrRequests(Protocol):
    """Requests to the controller for another ISR (alter_partition_manager.py)."""

    def ask(self, partition: "Partition", effect: AlterIsr) -> None: ...


class LagWatch(Protocol):
    """The check for followers that have lagged for too long (isr_shrinks.py)."""

    def note_lag(self, leader: LeaderState) -> None: ...


class Manager(Protocol):
    """The replica manager, as a partition uses it."""

    context: BrokerContext
    prefers_racks: bool
    clock: Clock
    # by topic: called when a leadership of one of its partitions begins, changes its epoch, or ends
    leaderships: "dict[str, Callable[[Partition], None]]"

    @property
    def failures(self) -> Failures: ...

    @property
    def isr_requests(self) -> IsrRequests: ...

    @property
    def isr_shrinks(self) -> LagWatch: ...

    @property
    def housekeeping(self) -> Cleaning: ...

    def touch(self, partition: "Partition") -> None:
        """Write the staged records at the turn's end."""

    def flush(
        self,
        home: LogDirectory,
        files: "list[File | str]",
        done: "Callable[[OSError | None], None]",
    ) -> None: ...

    def watch(self, partition: "Partition", deadline: float) -> None:
        """Expire the operations that wait at the deadline."""

    def checkpoint_later(self) -> None:
        """Write high watermarks and log starts down within seconds."""


class IdleReader(Protocol):
    """A partition of a fetch session that has read all records (CachedPartition)."""

    log_start: int

    @property
    def follower(self) -> tuple[int, float] | None:
        """Broker id and time of the last fetch; None: a consumer."""

    def changed(self, *, wake: bool) -> None: ...


class Woken(Protocol):
    """Reads at the turn's end, after all changes of the turn."""

    def records_arrived(self) -> None: ...


class Waiting(Woken, Protocol):
    """A parked Fetch."""

    def read_soon(self) -> None: ...
    def overtaken(self) -> None: ...


class Traffic:
    """Bytes and messages of producers in earlier leaderships, and the log's end when the present
    one began.
    """

    __slots__ = ("begun_at", "bytes_in", "messages_in")

    def __init__(self) -> None:
        self.begun_at = self.bytes_in = self.messages_in = 0


class Partition:
    __slots__ = (
        "_batching",
        "_check_due",
        "_flushes_to",
        "_new",
        "_passed_on",
        "bytes_out",
        "delayed_by_commit",
        "delayed_by_flush",
        "delayed_by_low_watermark",
        "fetched",
        "flushing",
        "follower_state",
        "home",
        "idle_consumers",
        "idle_followers",
        "image",
        "index",
        "leader",
        "log",
        "manager",
        "name",
        "on_flushed",
        "on_quiet",
        "produced",
        "staged_by",
        "topic",
        "topic_id",
        "touched",
        "traffic",
    )

    def __init__(
        self,
        manager: Manager,
        topic: TopicImage,
        index: int,
        log: Log,
        home: LogDirectory,
        high_watermark: int,
    ) -> None:
        self.manager = manager
        self.topic = topic.name
        self.topic_id = topic.topic_id
        self.index = index
        self.name = f"{topic.name}-{index}"
        self.image: PartitionImage = topic.partitions[index]
        self.log = log
        self.home = home
        self.leader: LeaderState | None = None
        self.follower_state = FollowerState(-1, -1, log.end_offset, high_watermark)
        # produces with acks=all, by the offset that the high watermark must reach
        self.delayed_by_commit = Purgatory()
        # produces with acks=1, by the offset below which all must be on this leader's disk
        self.delayed_by_flush = Purgatory()
        # DeleteRecords, by the offset where the logs of all replicas that live must begin
        self.delayed_by_low_watermark = Purgatory()
        # readers that have seen all records and changes of this partition
        self.idle_consumers: dict[IdleReader, None] = {}
        self.idle_followers: dict[IdleReader, None] = {}
        # connections whose answers are right only if this turn's write succeeds
        self.staged_by: list[Any] = []
        self.touched = False
        self.flushing = False
        self._flushes_to = -1  # the offset that the flush under way makes durable
        self._batching = Batching()
        self._check_due = False  # the next turn calls `_check_for_more`
        self._new = 0  # produces that wait for a commit, since the last flush was begun
        self._passed_on = 0  # `appended_bytes` of the log then
        self.on_quiet: Callable[[], None] | None = None  # called when no flush is under way
        self.on_flushed: Callable[[int], None] | None = None  # the replica fetcher, while following
        # requests for this partition, and bytes sent to consumers
        self.produced = self.fetched = self.bytes_out = 0
        self.traffic = Traffic()

    # leading

    def lead(self, leader: LeaderState) -> None:
        self.stop_leading()
        self.leader = leader
        self.traffic.begun_at = self.log.appended_bytes

    def stop_leading(self) -> None:
        if self.leader is not None:
            self.traffic.bytes_in, self.traffic.messages_in = self.bytes_in, self.messages_in
            self.leader = None
            if self.log.held is not None:
                self.log.held.pending = None

    def moved(self, log: Log, home: LogDirectory) -> None:
        """Go on with the same log in another directory; all of it is on the disk there."""
        self.traffic.bytes_in, self.traffic.messages_in = self.bytes_in, self.messages_in
        self.log, self.home = log, home
        self.traffic.begun_at = log.appended_bytes
        if self.leader is not None:
            self.traffic.messages_in -= log.end_offset - self.leader.epoch_start_offset
        self._durable(log.flushed_offset)

    @property
    def bytes_in(self) -> int:
        """Bytes of producers: computed from the log, so that no append counts them."""
        led = self.log.appended_bytes - self.traffic.begun_at if self.leader is not None else 0
        return self.traffic.bytes_in + led

    @property
    def messages_in(self) -> int:
        led = self.log.end_offset - self.leader.epoch_start_offset if self.leader is not None else 0
        return self.traffic.messages_in + led

    # reading

    @property
    def high_watermark(self) -> int:
        return (
            self.leader.high_watermark
            if self.leader is not None
            else self.follower_state.high_watermark
        )

    @property
    def last_stable_offset(self) -> int:
        """The end of the records that readers of committed transactions may see."""
        return self.log.last_stable_offset(self.high_watermark)

    def readable_end(self, *, is_isolated: bool) -> int:
        """Return the offset up to which consumers read. Raises OFFSET_NOT_AVAILABLE while held
        batches are being looked for.
        """
        end = self.last_stable_offset if is_isolated else self.high_watermark
        return end if self.log.held is None else self.log.visible_end(end)

    @property
    def deletable_end(self) -> int:
        """Return the offset below which records may be deleted. Pending records stay: the leader
        knows them, and a follower deletes what its leader has deleted.
        """
        held, start = self.log.held, self.log.start_offset
        if held is None:
            return self.high_watermark
        if self.leader is None or held.pending is None:
            return min(start, self.high_watermark)
        return min(max(start, held.pending.first(self.log.end_offset)), self.high_watermark)

    @property
    def leader_epoch(self) -> int:
        return self.image.leader_epoch

    def leading(self) -> LeaderState:
        """Raises NOT_LEADER_OR_FOLLOWER (KAFKA_STORAGE_ERROR when the log has failed)."""
        leader = self.leader
        if leader is None:
            raise KafkaError(
                Code.KAFKA_STORAGE_ERROR
                if self.log.failed is not None
                else Code.NOT_LEADER_OR_FOLLOWER
            )
        return leader

    def check_epoch(self, epoch: int) -> None:
        """KIP-320: -1 is not checked."""
        if epoch >= 0 and epoch != self.image.leader_epoch:
            raise KafkaError(
                Code.FENCED_LEADER_EPOCH
                if epoch < self.image.leader_epoch
                else Code.UNKNOWN_LEADER_EPOCH
            )

    # writing

    def append(
        self,
        batch: memoryview | Prepared,
        acks: int,
        now_ms: int,
        connection: object,
    ) -> tuple[int, int, int, bool]:
        """Append the broker's own records as leader. Return base offset, next offset, log append
        time, and whether it is a duplicate. Raises KafkaError.

        They are compared with no schema, and prepared at once. Batches of clients have their own
        way (broker/produce/append.py).
        """
        leader = self.leader or self.leading()
        if acks == -1 and leader.under_min_isr:
            raise KafkaError(Code.NOT_ENOUGH_REPLICAS)
        log = self.log
        try:
            while True:
                try:
                    if isinstance(batch, Prepared):
                        result = log.client_batches.append_prepared(
                            batch, leader.leader_epoch, now_ms
                        )
                    else:
                        result = log.client_batches.append(batch, leader.leader_epoch, now_ms)
                    break
                except TakesLong as much:
                    batch = much.prepared()
                except NeedsSchemas as needed:
                    batch = Prepared(needed.batch, None, needed.rules)
        except KafkaError:
            if self.log.failed is not None:  # it had to begin a segment
                self.manager.failures.log_failed(self, self.log.failed)
            raise
        self.appended(1, -1 if result[3] else result[1], connection)
        return result

    def append_marker(self, marker: Marker, now_ms: int, connection: object) -> int:
        """As leader, end a transaction here; returns the next offset, -1: there is nothing to end.
        Raises KafkaError.

        `abort` of `connection` is called when the log cannot be written.
        """
        return self._append_own(
            lambda epoch: self.log.append_marker(marker, epoch, now_ms), connection
        )

    def append_made(self, batch: memoryview, now_ms: int, connection: object) -> int:
        """As leader, append records that a coordinator has made; returns the next offset. Raises
        KafkaError.
        """
        if not self.log.client_batches.takes_unchanged(len(batch)):
            return self.append(batch, -1, now_ms, connection)[1]
        self.produced += 1
        return self.append_of_coordinator(batch, connection)

    def append_of_coordinator(self, batch: memoryview, connection: object) -> int:
        """As leader, append a coordinator's records in a producer's transaction; returns the next
        offset. Raises KafkaError.
        """
        return self._append_own(
            lambda epoch: self.log.append_of_coordinator(batch, epoch), connection
        )

    def _append_own(self, append: Callable[[int], int], connection: object) -> int:
        """`append` gets the leader epoch."""
        leader = self.leading()
        if leader.under_min_isr:
            raise KafkaError(Code.NOT_ENOUGH_REPLICAS)
        try:
            end = append(leader.leader_epoch)
        except KafkaError:
            if self.log.failed is not None:  # it had to begin a segment
                self.manager.failures.log_failed(self, self.log.failed)
            raise
        self.appended(0, end, connection)
        return end

    def appended(self, requests: int, end: int, connection: object) -> None:
        """Do what follows from appends of a connection to the log; `end` is where the last of them
        ended, -1: they were duplicates.
        """
        self.produced += requests
        leader = self.leader
        if end >= 0 and leader is not None:
            leader.appended(end)
            self.staged_by.append(connection)
            if not self.touched:
                self.touched = True
                self.manager.touch(self)
                if len(leader.isr) > 1:
                    self._watch_followers(leader)
        if self.log.failed is not None:
            self.manager.failures.log_failed(self, self.log.failed)  # it had to begin a segment

    def _watch_followers(self, leader: LeaderState) -> None:
        """Count a follower that does not fetch from now on as lagging: the log has grown."""
        for reader in self.idle_followers:
            if reader.follower is not None:
                leader.was_there(*reader.follower)
        self.manager.isr_shrinks.note_lag(leader)

    def wait_for_commit(self, offset: int, deadline: float, operation: Operation) -> None:
        """Complete `operation` when everything below `offset` is committed."""
        assert self.leader is not None
        if offset <= self.leader.high_watermark:
            operation.complete(Code.NONE)
        else:
            self._new += 1
            self.delayed_by_commit.add(offset, operation, deadline)
            self.manager.watch(self, deadline)

    @property
    def answers_after_flush(self) -> bool:
        """Return whether the answer to acks=1 waits for this leader's flush.

        A leader that is alone in the ISR moves the high watermark when it has flushed: before that,
        no consumer can read the record.
        """
        leader = self.leader
        return leader is not None and len(leader.isr) == 1 and self.log.syncs

    def wait_for_flush(self, offset: int, operation: Operation) -> None:
        """Complete `operation` when everything below `offset` is on this leader's disk. No
        deadline: a flush comes back, or the log fails.
        """
        if offset <= self.log.flushed_offset:
            operation.complete(Code.NONE)
        elif self.log.failed is not None:
            operation.complete(Code.KAFKA_STORAGE_ERROR)  # while it was appended
        else:
            self.delayed_by_flush.add(offset, operation)

    def write(self) -> None:
        """Write the batches of this turn to the file, at the turn's end."""
        self.touched = False
        try:
            self.log.write_staged()
        except OSError as error:
            for connection in self.staged_by:
                connection.abort("the log could not be written")
            self.staged_by.clear()
            self.manager.failures.log_failed(self, error)
            return
        self.staged_by.clear()
        if self._new:
            self._pass_on_soon()
        else:
            self._pass_on()

    def _pass_on(self) -> None:
        """Flush as soon as the flush before is done, and wake followers."""
        self.flush()
        if self.idle_followers:
            self._grown()

    def _pass_on_soon(self) -> None:
        """Pass on now, or a few turns later while more is likely to come and this is little."""
        size = self.log.appended_bytes
        if size - self._passed_on < LITTLE_BYTES and self._batching.waits_for_more(
            self._new, self.manager.clock.now()
        ):
            if not self._check_due:
                self._check_due = True
                clock = self.manager.clock
                clock.call_at(clock.now(), self._check_for_more)
        else:
            self._new, self._passed_on = 0, size
            self._pass_on()

    def _check_for_more(self) -> None:
        self._check_due = False
        if self._new:
            self._pass_on_soon()

    def flush(self) -> None:
        if self.flushing or self.log.failed is not None:
            return
        files, offset = self.log.begin_flush()
        if not files:
            self._durable(offset)
            if self.log.config.flush_ms != FOREVER:
                self.manager.housekeeping.flushes.written(self)
            return
        self.flushing = True
        self._flushes_to = offset
        self.manager.flush(self.home, files, self._flush_done)

    def _flush_done(self, error: OSError | None) -> None:
        self.flushing = False
        if error is not None:
            self.manager.failures.flush_failed(self, error)
        if self.log.failed is not None or error is not None:
            return
        self.log.flushed(self._flushes_to)
        self._durable(self.log.flushed_offset)
        if self.on_quiet is not None:
            quiet, self.on_quiet = self.on_quiet, None
            quiet()
        if self.log.flushed_offset < self.log.end_offset:
            self.flush()

    def configure(self, config: LogConfig) -> None:
        """Use changed settings of the topic. Where answers do not wait for the disk any more, those
        that did are sent now.
        """
        self.log.configure(config)
        self._durable(self.log.flushed_offset)
        self.flush()

    def _durable(self, offset: int) -> None:
        if self.leader is not None:
            if effects := self.leader.flushed(offset):
                self.apply(effects)
            if self.delayed_by_flush.waiting:
                self.delayed_by_flush.reached(offset)
        if self.on_flushed is not None:
            self.on_flushed(offset)

    # effects

    def apply(self, effects: tuple[object, ...]) -> None:
        for effect in effects:
            if effect.__class__ is AdvanceHighWatermark:
                self.committed(effect.offset)
            elif effect.__class__ is AlterIsr:
                self.manager.isr_requests.ask(self, effect)

    def committed(self, offset: int) -> None:
        waiting = self.delayed_by_commit.waiting
        if waiting:
            waited = len(waiting)
            under_min_isr = self.leader is not None and self.leader.under_min_isr
            self.delayed_by_commit.reached(
                offset, Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND if under_min_isr else Code.NONE
            )
            self._batching.note_answered(waited - len(self.delayed_by_commit.waiting))
        self.manager.checkpoint_later()
        if self.idle_consumers:
            idle, self.idle_consumers = self.idle_consumers, {}
            for reader in idle:
                reader.changed(wake=True)
        # a follower has the high watermark with its next answer; at once where consumers read there
        for reader in self.idle_followers:
            reader.changed(wake=self.manager.prefers_racks)

    # readers

    def watched_by(self, reader: IdleReader) -> None:
        """Call `changed` of the reader once: of a follower when the log has grown, of a consumer
        when more is committed.
        """
        (self.idle_followers if reader.follower is not None else self.idle_consumers)[reader] = None

    def _grown(self) -> None:
        idle, self.idle_followers = self.idle_followers, {}
        for reader in idle:
            reader.changed(wake=True)

    def start_moved(self) -> None:
        """Mark readers for whom records may be gone at the log's start. None is woken for it; the
        next answer has the new start.
        """
        start = self.log.start_offset
        for reader in (*self.idle_consumers, *self.idle_followers):
            if reader.log_start != start:
                reader.changed(wake=False)

    def wake_all(self) -> None:
        """Wake all readers: leader, epoch, ISR or log start changed, or the partition is gone."""
        for reader in (*self.idle_consumers, *self.idle_followers):
            reader.changed(wake=True)
        self.idle_consumers, self.idle_followers = {}, {}

    def give_up(self, code: Code) -> None:
        """Fail everything that waits here: this broker is not the leader any more."""
        self.delayed_by_commit.fail(code)
        self.delayed_by_flush.fail(code)
        self.wake_all()
        self.delayed_by_low_watermark.fail(code)
        self.tell_leadership()

    def tell_leadership(self) -> None:
        """Tell the part that follows the leaderships of this topic, if there is one."""
        if (on_change := self.manager.leaderships.get(self.topic)) is not None:
            on_change(self)

    # deleting records

    @property
    def low_watermark(self) -> int:
        return self.leading().low_watermark(self.log.start_offset)

    def delete_before(self, offset: int) -> int:
        """Start the log at `offset` (-1: the high watermark), as leader, but not behind a pending
        record; return where it starts. Raises KafkaError.
        """
        leader, config = self.leading(), self.log.config
        if config.compacted and not config.deleted_by_age:
            raise KafkaError(Code.POLICY_VIOLATION)
        start = leader.high_watermark if offset == -1 else offset
        if not 0 <= start <= leader.high_watermark:
            raise KafkaError(Code.OFFSET_OUT_OF_RANGE)
        if self.log.held is not None:
            if self.log.held.pending is None:
                raise KafkaError(Code.OFFSET_NOT_AVAILABLE)
            start = min(start, self.deletable_end)
        if self.log.set_start_offset(start):
            self.start_set()
            self.wake_all()
        return start

    def start_set(self) -> None:
        self.manager.checkpoint_later()

    def start_told(self, replica: int, log_start: int) -> None:
        """Note where the log of a follower begins, which its fetch has said."""
        if self.leader is not None and self.leader.start_told(replica, log_start):
            self.complete_deletions()

    def wait_for_low_watermark(self, offset: int, deadline: float, operation: Operation) -> None:
        """Complete `operation` when the logs of all replicas that live begin at `offset`, or
        later.
        """
        self.delayed_by_low_watermark.add(offset, operation, deadline)
        self.manager.watch(self, deadline)
        self.complete_deletions()

    def complete_deletions(self) -> None:
        """Complete DeleteRecords, after a replica's log start or the set of live replicas has
        changed.
        """
        if self.delayed_by_low_watermark:
            self.delayed_by_low_watermark.reached(self.low_watermark)

    @property
    def has_deadlines(self) -> bool:
        return bool(self.delayed_by_commit or self.delayed_by_low_watermark)

    def expire(self, now: float) -> float | None:
        """Time out what has waited too long; return the next deadline, None: nothing waits."""
        deadline = inf
        for purgatory in (self.delayed_by_commit, self.delayed_by_low_watermark):
            purgatory.expire(now)
            deadline = min(deadline, purgatory.deadline())
        return deadline if deadline < inf else None
