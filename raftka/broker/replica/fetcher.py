"""Follow leaders: one connection and at most one Fetch under way for each broker that leads a
partition of this one.

`replication/follower.py` decides what a partition does with its answer. Here its effects meet the
log, and many partitions share a request and a session: what has not changed costs nothing. A
partition that becomes ready while a Fetch waits at the leader is not kept waiting: a tiny request
behind the Fetch makes the leader answer.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import Enum, auto
from math import inf
from typing import Any

from raftka.broker.context import BrokerContext
from raftka.broker.controller.broker_lifecycle import BrokerLifecycle
from raftka.broker.network.frame_pool import FramePool
from raftka.broker.replica.fetch_session_handler import FetchSessionHandler, Key, Place
from raftka.broker.replica.partition import Partition
from raftka.broker.replica.throttles import ReplicationThrottles
from raftka.client.connection import ClientConnection, Intended, open_connection
from raftka.metadata.image import MetadataImage
from raftka.replication.follower import (
    Answer,
    AppendRecords,
    AskOffsets,
    Flush,
    FollowerFetch,
    Phase,
    SetLogStart,
    StartAfresh,
    TruncateTo,
)
from raftka.replication.partition import AdvanceHighWatermark
from raftka.replication.throttle import Throttle
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.api_versions import API_VERSIONS
from raftka.wire.messages.fetch import FETCH, FetchResponse, PartitionData
from raftka.wire.messages.list_offsets import LIST_OFFSETS, ListOffsetsResponse
from raftka.wire.replica_fetch import MOST, VERSION, Terms, read_answer, request_body


class FetcherState(Enum):
    """The one Fetch that a fetcher has under way."""

    IDLE = auto()  # none
    ASKING = auto()  # it is at the leader
    INTERRUPTED = auto()  # and a tiny request behind it makes the leader answer
    TAKING = auto()  # its answer has come and is carried out, some partitions a turn


IDLE, ASKING, INTERRUPTED, TAKING = FetcherState

FETCHER_STATES: Mapping[FetcherState, frozenset[FetcherState]] = {
    IDLE: frozenset({ASKING, TAKING}),
    ASKING: frozenset({INTERRUPTED, IDLE}),
    INTERRUPTED: frozenset({IDLE}),
    TAKING: frozenset({IDLE}),
}

RECONNECT_S = (0.05, 1.0)  # after the first failure, and at most
THROTTLE_CHECK_S = 1.0  # a throttle's rate may change while a partition waits for it
# partitions that are asked for with one Fetch, or whose answers are carried out in one turn: 3 to
# 10 ms
OF_TURN = 500
EARLIEST, LATEST = -2, -1
SESSION_ERRORS = frozenset(
    {
        Code.FETCH_SESSION_ID_NOT_FOUND,
        Code.INVALID_FETCH_SESSION_EPOCH,
        Code.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)


class PartitionFetchState:
    """One partition that this broker follows."""

    __slots__ = ("among", "fetch", "fetcher", "key", "partition", "phase", "place")

    def __init__(self, fetcher: "ReplicaFetcher", partition: Partition) -> None:
        log = partition.log
        self.fetcher = fetcher
        self.partition = partition
        self.key = (partition.topic_id, partition.index)
        self.phase = Phase.READY  # as its fetcher knows it
        self.among: dict[PartitionFetchState, None] = {}  # its fetcher's partitions in this phase
        self.place: Place  # as the leader knows it, or will with the next request
        self.fetch = FollowerFetch(
            partition.follower_state,
            log.start_offset,
            log.end_offset,
            log.flushed_offset,
            log.latest_epoch,
            log.epoch_end,
        )
        partition.on_flushed = self._on_flushed

    def start(self) -> None:
        self.carry_out(self.fetch.start())

    def set_place(self, now: float) -> bool:
        """Return whether the partition is to be fetched now; `place` says from where."""
        fetch = self.fetch
        position = None if fetch.catches_up and self._is_throttled(now) else fetch.next_fetch(now)
        if position is not None:
            self.place = Place(position, self.partition.log.start_offset)
        if self.fetch.phase is not self.phase:
            self.fetcher.note_phase(self)
        return position is not None

    def back_off(self, now: float) -> None:
        self.fetch.failed(now)
        self.fetcher.note_phase(self)

    def carry_out(self, effects: tuple[object, ...]) -> None:
        try:
            self._carry_out(effects)
        except OSError as error:
            self.partition.manager.failures.log_failed(self.partition, error)
        if self.fetch.phase is not self.phase:
            self.fetcher.note_phase(self)

    def _carry_out(self, effects: tuple[Any, ...]) -> None:
        for effect in effects:
            kind = effect.__class__  # `match` costs more, and each record of a follower comes here
            if kind is AppendRecords:
                self._append(effect.records, effect.leader_epoch)
            elif kind is Flush:
                # else the partition flushes at the end of the turn, when it has written
                if not self.partition.touched:
                    self.partition.flush()
            elif kind is AdvanceHighWatermark:
                self.partition.committed(effect.offset)
            else:
                self._change(effect)

    def _append(self, records: memoryview | bytes, leader_epoch: int) -> None:
        fetch, partition, context = self.fetch, self.partition, self.fetcher.context
        log, throttle = partition.log, self._throttle() if fetch.catches_up else None
        try:
            log.append_as_follower(
                memoryview(records), leader_epoch, context.runtime.clock.wall_ms()
            )
        except KafkaError as error:
            if log.failed is not None:
                raise log.failed from error
            context.events.error(
                "replica_append_refused", partition=partition.name, error=str(error)
            )
            fetch.append_failed(self.fetcher.now())
            return
        context.metrics.replication_bytes_in += len(records)
        if not partition.touched:
            partition.touched = True
            partition.manager.touch(partition)
        if throttle is not None:
            throttle.passed(len(records), self.fetcher.now())
        self._carry_out(fetch.appended(log.end_offset, log.latest_epoch))

    def _change(self, effect: Any) -> None:
        fetch, log = self.fetch, self.partition.log
        match effect:
            case TruncateTo(offset):
                self.fetcher.context.events.info(
                    "truncated",
                    partition=self.partition.name,
                    offset=offset,
                    log_end=log.end_offset,
                )
                self.fetcher.context.metrics.count("raftka_truncations_total")
                log.truncate_to(offset)
                self._carry_out(fetch.truncated(log.end_offset, log.latest_epoch))
            case StartAfresh(offset):
                log.truncate_fully_and_start_at(offset)
                self._carry_out(fetch.truncated(log.end_offset, log.latest_epoch))
            case SetLogStart(offset):
                if log.set_start_offset(offset):
                    self.partition.start_set()
            case AskOffsets(leader_epoch):
                self.fetcher.ask_offsets(self, leader_epoch)

    def _on_flushed(self, offset: int) -> None:
        fetch = self.fetch
        before = fetch.phase
        if effects := fetch.flushed(offset):
            self._carry_out(effects)
        if before is Phase.WRITING and fetch.phase is Phase.READY:
            if fetch.catches_up:
                self._is_throttled(self.fetcher.now())
            self.fetcher.pump_later()
        if fetch.phase is not self.phase:
            self.fetcher.note_phase(self)

    def _is_throttled(self, now: float) -> bool:
        """Return whether the partition is over its rate; then its fetch is held for a while."""
        throttle = self._throttle()
        if throttle is None or throttle.free_at <= now:
            return False
        self.fetch.hold(min(throttle.free_at, now + THROTTLE_CHECK_S))
        return True

    def _throttle(self) -> Throttle | None:
        return self.fetcher.fetchers.throttles.takes(self.partition)


class ReplicaFetcher:
    """All partitions that this broker follows from one leader."""

    def __init__(self, fetchers: "ReplicaFetcherManager", leader: int) -> None:
        self.fetchers = fetchers
        self.context = fetchers.context
        self.leader = leader
        self.follows: dict[Key, PartitionFetchState] = {}
        self.state = IDLE
        self.ready: dict[PartitionFetchState, None] = {}  # by phase
        self.fetching: dict[PartitionFetchState, None] = {}
        self.writing: dict[PartitionFetchState, None] = {}
        self.resting: dict[PartitionFetchState, None] = {}
        self.others: dict[PartitionFetchState, None] = {}
        # not to be fetched any more, or not now; the leader does not know
        self.lapsed: dict[Key, None] = {}
        self.session = FetchSessionHandler()
        self.session_is_stale = False  # the next request begins another one
        self.connection: ClientConnection | None = None
        self.connect_at = 0.0
        self.failures = 0
        self._pump_due = False
        self._wakes_at = inf

    def now(self) -> float:
        return self.context.runtime.clock.now()

    def pump_later(self) -> None:
        if not self._pump_due:
            self._pump_due = True
            self.context.runtime.clock.at_turn_end(self.pump)

    def wake_at(self, when: float) -> None:
        if when < self._wakes_at:
            self._wakes_at = when
            self.context.runtime.clock.call_at(when, self._wake)

    def _wake(self) -> None:
        self._wakes_at = inf
        self.pump_later()

    # the partitions

    def add(self, follow: PartitionFetchState) -> None:
        self.follows[follow.key] = follow
        follow.among = self._set_of(follow.phase)
        follow.among[follow] = None
        # its log has moved, perhaps while an answer is under way
        if self.session.knows(follow.key, follow.fetch.state.leader_epoch):
            self.session_is_stale = True
        follow.start()
        self.pump_later()

    def remove(self, follow: PartitionFetchState) -> None:
        del self.follows[follow.key]
        del follow.among[follow]
        self.lapsed[follow.key] = None
        if self.follows:
            self.pump_later()  # perhaps the others waited for its write
        else:
            self.close()

    def note_phase(self, follow: PartitionFetchState) -> None:
        """Move the partition to those in its phase, which may have changed."""
        phase = follow.fetch.phase
        if phase is follow.phase or self.follows.get(follow.key) is not follow:
            return
        del follow.among[follow]
        into = follow.among = self._set_of(phase)
        into[follow] = None
        follow.phase = phase
        if into is self.resting or into is self.others:
            self.lapsed[follow.key] = None

    def _set_of(self, phase: Phase) -> dict[PartitionFetchState, None]:
        if phase is Phase.READY:
            return self.ready
        if phase is Phase.FETCHING:
            return self.fetching
        if phase is Phase.WRITING:
            return self.writing
        return self.resting if phase is Phase.BACKED_OFF else self.others

    # fetching

    def pump(self) -> None:
        """Send the next Fetch, if everything of the answer before is on this broker's disk."""
        self._pump_due = False
        if not self.follows:
            return
        if self.connection is None:
            self._connect()
            return
        state = self.state
        if self.writing or state is TAKING:
            return
        now = self.now()
        resting = self.resting
        ready = [*self.ready]
        if resting:
            ready += [follow for follow in resting if follow.fetch.retry_at <= now]
        if state is IDLE:
            asked = [follow for follow in ready[:OF_TURN] if follow.set_place(now)]
            if self.fetching:
                self._send(asked)
            if len(ready) > OF_TURN:
                self.pump_later()  # the others with the next Fetch
        elif ready and state is ASKING:
            self.state = INTERRUPTED
            self.connection.request(
                API_VERSIONS, API_VERSIONS.request(), lambda row, error: None, version=0
            )
        if resting:
            self.wake_at(max(min(follow.fetch.retry_at for follow in resting), now + 0.01))

    def _send(self, asked: Iterable[PartitionFetchState]) -> None:
        settings, session = self.context.metadata.settings, self.session
        if self.session_is_stale:
            self.session_is_stale = False
            session.lost()
        wanted = {
            follow.key: follow.place for follow in (self.fetching if session.whole else asked)
        }
        if (
            not session.whole
            and not self.lapsed
            and len(wanted) <= MOST
            and self._send_changes(wanted)
        ):
            return
        lapsed, self.lapsed = self.lapsed, {}
        row = session.request(wanted, lapsed, settings["replica.fetch.max.bytes"])
        row.replica_state = FETCH.request.replica_state(
            replica_id=self.context.node_id, replica_epoch=self.fetchers.lifecycle.broker_epoch
        )
        row.max_wait_ms, row.min_bytes = settings["replica.fetch.wait.max.ms"], 1
        row.max_bytes = settings["replica.fetch.response.max.bytes"]
        self.state = ASKING
        assert self.connection is not None
        self.connection.request(FETCH, row, self._on_response, version=VERSION)

    def _send_changes(self, wanted: Mapping[Key, Place]) -> bool:
        """Send a request that goes on with the session and names changed places alone; False: the
        connection does not speak its version.
        """
        connection, settings = self.connection, self.context.metadata.settings.values
        session = self.session
        if connection is None or not connection.speaks(FETCH, VERSION):
            return False
        changes = session.changes(wanted, settings["replica.fetch.max.bytes"])
        most = settings["replica.fetch.response.max.bytes"]
        terms = Terms(
            settings["replica.fetch.wait.max.ms"],
            1,
            most,
            self.context.node_id,
            self.fetchers.lifecycle.broker_epoch,
        )
        body = request_body(terms, session.id, session.epoch, changes)
        self.state = ASKING
        connection.exchange(FETCH, VERSION, body, self._on_frame, self._on_response)
        return True

    def _on_frame(self, frame: memoryview, at: int) -> None:
        """Read the answer to `_send_changes` without decoding it. Raises ProtocolError."""
        plain = read_answer(frame, at)
        if plain is None:
            self._on_response(FETCH.decode_response(VERSION, frame, at)[0], None)
            return
        session_id, partitions = plain
        self.state = IDLE
        self.session.went_on(session_id)
        self.failures = 0
        follows = self.follows
        answers = [
            (follow, Answer(Code.NONE, high_watermark, log_start, records))
            for topic_id, index, high_watermark, _, log_start, records in partitions
            if (follow := follows.get((topic_id, index))) is not None
        ]
        self._carry_out_answers(answers, was_whole=False)
        if not self.writing:
            self.pump_later()

    def _on_response(self, row: FetchResponse | None, error: str | None) -> None:
        self.state = IDLE
        was_whole = self.session.whole
        self.pump_later()
        if row is None or not self.session.answered(row):
            self.session.lost()
            if row is None or was_whole or row.error_code not in SESSION_ERRORS:
                self._back_off()
            return
        self.failures = 0
        follows = self.follows
        answers = [
            (follow, _answer(partition))
            for topic in row.responses
            for partition in topic.partitions
            if (follow := follows.get((topic.topic_id, partition.partition_index))) is not None
        ]
        self._carry_out_answers(answers, was_whole=was_whole)

    def _carry_out_answers(
        self, answers: list[tuple[PartitionFetchState, Answer]], first: int = 0, *, was_whole: bool
    ) -> None:
        """Carry out some answers now, the rest in later turns; the next Fetch waits for all."""
        now, end = self.now(), first + OF_TURN
        for follow, answer in answers[first:end]:
            if self.follows.get(follow.key) is follow:
                follow.carry_out(follow.fetch.answered(answer, now))
        if end < len(answers):
            if self.state is not TAKING:
                self.state = TAKING
                # the buffer is used again when the turn ends
                answers = [
                    (follow, answer._replace(records=bytes(answer.records)))
                    for follow, answer in answers
                ]
            self.context.runtime.clock.call_at(
                now, lambda: self._carry_out_answers(answers, end, was_whole=was_whole)
            )
            return
        if self.state is TAKING:
            self.state = IDLE
            self.pump_later()
        if was_whole:
            self._back_off()  # partitions that the answer has left out

    def _back_off(self) -> None:
        """Back off with all partitions that the last Fetch has asked for and got no answer to."""
        now = self.now()
        for follow in tuple(self.fetching):
            follow.back_off(now)

    def ask_offsets(self, follow: PartitionFetchState, leader_epoch: int) -> None:
        """Ask by two ListOffsets where the leader's log begins and ends."""
        found: dict[int, int] = {}

        def answered(which: int) -> Callable[[ListOffsetsResponse | None, str | None], None]:
            def note(row: ListOffsetsResponse | None, error: str | None) -> None:
                if self.follows.get(follow.key) is not follow:
                    return  # this broker leads by now, follows another, or the topic is deleted
                partition = row.topics[0].partitions[0] if row is not None else None
                if partition is None or partition.error_code or partition.offset < 0:
                    follow.back_off(self.now())
                    self.pump_later()
                    return
                found[which] = partition.offset
                if len(found) == 2:
                    follow.carry_out(follow.fetch.offsets(found[EARLIEST], found[LATEST]))
                    self.pump_later()

            return note

        assert self.connection is not None
        request = LIST_OFFSETS.request
        for which in (EARLIEST, LATEST):
            rows = [
                request.topics.partitions(
                    partition_index=follow.partition.index,
                    current_leader_epoch=leader_epoch,
                    timestamp=which,
                )
            ]
            row = request(
                replica_id=self.context.node_id,
                topics=[request.topics(name=follow.partition.topic, partitions=rows)],
            )
            self.connection.request(LIST_OFFSETS, row, answered(which), version=7)

    # the connection

    def _connect(self) -> None:
        now = self.now()
        if now < self.connect_at:
            self.wake_at(self.connect_at)
            return
        broker = self.context.metadata.image.brokers.get(self.leader)
        endpoint = (
            broker.endpoint(self.context.metadata.settings.inter_broker_listener)
            if broker is not None
            else None
        )
        if endpoint is None:
            return  # an image that has the broker calls `pump`
        name, address = f"broker-{self.context.node_id}-fetcher", (endpoint.host, endpoint.port)
        network, secured = self.context.runtime.network, self.context.secured()
        self.connection = open_connection(
            network,
            address,
            name,
            on_closed=self._on_closed,
            pool=self.fetchers.pool,
            secured=secured,
            intended=Intended.of(self.context.metadata.image.cluster_id, self.leader),
        )
        self.pump_later()

    def _on_closed(self, reason: str) -> None:
        # the connection was up, and this broker did not close it
        if self.follows and self.connection is not None and self.connection.versions:
            self.fetchers.broken(self.leader)
        self.connection = None
        if self.state is not TAKING:
            self.state = IDLE
        self.session.lost()
        self._back_off()
        first, most = RECONNECT_S
        self.connect_at = self.now() + min(most, first * 2.0**self.failures)
        self.failures = min(self.failures + 1, 10)
        if self.follows:
            self.wake_at(self.connect_at)

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close("not followed any more")


class ReplicaFetcherManager:
    def __init__(
        self,
        context: BrokerContext,
        lifecycle: BrokerLifecycle,
        throttles: ReplicationThrottles,
        pool: FramePool,
        broken: Callable[[int], None],
    ) -> None:
        """`broken` is called with a leader whose connection broke."""
        self.context = context
        self.lifecycle = lifecycle
        self.throttles = throttles
        self.pool = pool
        self.broken = broken
        self.by_leader: dict[int, ReplicaFetcher] = {}

    def add(self, partition: Partition, leader: int) -> None:
        fetcher = self.by_leader.get(leader)
        if fetcher is None:
            fetcher = self.by_leader[leader] = ReplicaFetcher(self, leader)
        fetcher.add(PartitionFetchState(fetcher, partition))

    def remove(self, partition: Partition) -> None:
        partition.on_flushed = None
        for fetcher in self.by_leader.values():
            follow = fetcher.follows.get((partition.topic_id, partition.index))
            if follow is not None:
                fetcher.remove(follow)

    def pump(self) -> None:
        for fetcher in self.by_leader.values():
            if fetcher.follows:
                fetcher.pump_later()

    def max_lag(self) -> int:
        return max(
            (
                follow.fetch.lag
                for fetcher in self.by_leader.values()
                for follow in fetcher.follows.values()
            ),
            default=0,
        )

    def on_brokers(self, image: MetadataImage) -> None:
        """Connect at once to brokers that came back, perhaps elsewhere, without a back-off."""
        for leader, fetcher in self.by_leader.items():
            if image.alive(leader):
                fetcher.failures = 0
                fetcher.connect_at = 0.0


def _answer(partition: PartitionData) -> Answer:
    diverging = partition.diverging_epoch
    return Answer(
        Code(partition.error_code) if partition.error_code else Code.NONE,
        partition.high_watermark,
        partition.log_start_offset,
        partition.records if partition.records is not None else b"",
        (diverging.epoch, diverging.end_offset) if diverging.end_offset >= 0 else None,
    )
