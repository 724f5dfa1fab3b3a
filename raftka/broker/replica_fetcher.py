"""Follows leaders: one connection and at most one Fetch in flight for each broker that leads something we replicate.

What a partition does with its answer is replication/follower.py's; here its effects meet the log, and many partitions share a request.
A partition that becomes ready while a Fetch waits at the leader is not kept waiting: a tiny request behind it makes the leader answer.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from raftka.broker.partition_host import PartitionHost
from raftka.metadata.image import MetadataImage
from raftka.replication.follower import (
    Answer,
    AppendRecords,
    AskOffsets,
    Flush,
    FollowerFetch,
    Phase,
    Position,
    SetLogStart,
    StartAfresh,
    TruncateTo,
)
from raftka.replication.partition import AdvanceHighWatermark
from raftka.replication.throttle import Throttle
from raftka.wire.client import ClientConnection
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.api_versions import API_VERSIONS
from raftka.wire.messages.fetch import FETCH
from raftka.wire.messages.list_offsets import LIST_OFFSETS
from raftka.wire.schema import Row

if TYPE_CHECKING:
    from raftka.broker.node import Node

FETCH_VERSION = 17
RECONNECT_S = (0.05, 1.0)
LOOK_AGAIN_S = 1.0  # at a throttle
EARLIEST, LATEST = -2, -1


class Follow:
    """One partition that we follow."""

    __slots__ = ("fetch", "fetcher", "host")

    def __init__(self, fetcher: "ReplicaFetcher", host: PartitionHost) -> None:
        log = host.log
        self.fetcher = fetcher
        self.host = host
        self.fetch = FollowerFetch(host.follower_state, log.start_offset, log.end_offset, log.flushed_offset, log.latest_epoch, log.epoch_end)
        host.on_flushed = self._flushed

    def start(self) -> None:
        self.carry_out(self.fetch.start())

    def carry_out(self, effects: tuple[Any, ...]) -> None:
        try:
            self._carry_out(effects)
        except OSError as error:
            self.host.manager.log_failed(self.host, error)

    def _carry_out(self, effects: tuple[Any, ...]) -> None:
        fetch, host = self.fetch, self.host
        log = host.log
        for effect in effects:
            match effect:
                case AppendRecords(records, leader_epoch):
                    size, throttle = len(records), self._throttle()
                    try:
                        log.append_as_follower(memoryview(records), leader_epoch)
                    except KafkaError as error:
                        if log.failed is not None:
                            raise log.failed from error
                        self.fetcher.node.events.error("replica_append_refused", partition=host.name, error=str(error))
                        fetch.append_failed(self.fetcher.now())
                        continue
                    self.fetcher.node.metrics.replication_bytes_in += len(records)
                    if not host.touched:
                        host.touched = True
                        host.manager.touch(host)
                    if throttle is not None:
                        throttle.passed(size, self.fetcher.now())
                    self.carry_out(fetch.appended(log.end_offset, log.latest_epoch))
                case Flush():
                    host.flush()  # what is staged is flushed when it is written, at the end of the turn
                case AdvanceHighWatermark(offset):
                    host.committed(offset)
                case TruncateTo(offset):
                    self.fetcher.node.events.info("truncated", partition=host.name, offset=offset, log_end=log.end_offset)
                    self.fetcher.node.metrics.count("raftka_truncations_total")
                    log.truncate_to(offset)
                    self.carry_out(fetch.truncated(log.end_offset, log.latest_epoch))
                case StartAfresh(offset):
                    log.truncate_fully_and_start_at(offset)
                    self.carry_out(fetch.truncated(log.end_offset, log.latest_epoch))
                case SetLogStart(offset):
                    log.set_start_offset(offset)
                case AskOffsets(leader_epoch):
                    self.fetcher.ask_offsets(self, leader_epoch)

    def _flushed(self, offset: int) -> None:
        before = self.fetch.phase
        self.carry_out(self.fetch.flushed(offset))
        if before is Phase.WRITING and self.fetch.phase is Phase.READY:
            self._held(self.fetcher.now())
            self.fetcher.pump_later()

    def next_fetch(self, now: float) -> Position | None:
        return None if self._held(now) else self.fetch.next_fetch(now)

    def _held(self, now: float) -> bool:
        """Over its rate; the rate may change meanwhile."""
        throttle = self._throttle()
        if throttle is None or throttle.free_at <= now:
            return False
        self.fetch.hold(min(throttle.free_at, now + LOOK_AGAIN_S))
        return True

    def _throttle(self) -> Throttle | None:
        return self.host.manager.throttles.takes(self.host) if self.fetch.catches_up else None


class ReplicaFetcher:
    """All that we follow from one broker."""

    def __init__(self, fetchers: "ReplicaFetchers", leader: int) -> None:
        self.fetchers = fetchers
        self.node = fetchers.node
        self.leader = leader
        self.follows: dict[tuple[str, int], Follow] = {}
        self.connection: ClientConnection | None = None
        self.in_flight: dict[tuple[bytes, int], Follow] = {}
        self.interrupted = False
        self.connect_at = 0.0
        self.failures = 0
        self._due = False

    def now(self) -> float:
        return self.node.runtime.clock.now()

    def pump_later(self) -> None:
        if not self._due:
            self._due = True
            self.node.runtime.clock.at_turn_end(self.pump)

    def wake_at(self, when: float) -> None:
        self.node.runtime.clock.call_at(when, self.pump_later)

    def pump(self) -> None:
        """Send the next Fetch, if everything of the answer before is on our disk."""
        self._due = False
        if not self.follows:
            return
        if self.connection is None:
            self._connect()
            return
        if any(each.fetch.phase is Phase.WRITING for each in self.follows.values()):
            return
        now = self.now()
        if self.in_flight:
            if not self.interrupted and any(each.fetch.phase is Phase.READY for each in self.follows.values()):
                self.interrupted = True
                self.connection.request(API_VERSIONS, API_VERSIONS.request(), lambda row, error: None, version=0)
            return
        wanted: dict[Follow, Position] = {}
        for follow in self.follows.values():
            position = follow.next_fetch(now)
            if position is not None:
                wanted[follow] = position
        if wanted:
            self._send(wanted)
        self._wake_for_back_off(now)

    def _wake_for_back_off(self, now: float) -> None:
        waits = [each.fetch.retry_at for each in self.follows.values() if each.fetch.phase is Phase.BACKED_OFF]
        if waits:
            self.wake_at(max(min(waits), now + 0.01))

    def _send(self, wanted: dict[Follow, Position]) -> None:
        settings = self.node.settings
        topics: dict[bytes, list[Row]] = {}
        for follow, position in wanted.items():
            host = follow.host
            self.in_flight[host.topic_id, host.index] = follow
            topics.setdefault(host.topic_id, []).append(
                FETCH.request.topics.partitions(
                    partition=host.index,
                    current_leader_epoch=position.leader_epoch,
                    fetch_offset=position.fetch_offset,
                    last_fetched_epoch=position.last_fetched_epoch,
                    log_start_offset=host.log.start_offset,
                    partition_max_bytes=settings["replica.fetch.max.bytes"],
                )
            )
        row = FETCH.request(
            replica_state=FETCH.request.replica_state(replica_id=self.node.node_id, replica_epoch=self.node.link.broker_epoch),
            max_wait_ms=settings["replica.fetch.wait.max.ms"],
            min_bytes=1,
            max_bytes=settings["replica.fetch.response.max.bytes"],
            session_epoch=-1,
            topics=[FETCH.request.topics(topic_id=topic_id, partitions=rows) for topic_id, rows in topics.items()],
        )
        self.interrupted = False
        assert self.connection is not None
        self.connection.request(FETCH, row, self._answered, version=FETCH_VERSION)

    def _answered(self, row: Row | None, error: str | None) -> None:
        asked, self.in_flight = self.in_flight, {}
        now = self.now()
        if row is None or row.error_code:
            for follow in asked.values():
                follow.fetch.failed(now)
            self.pump_later()
            return
        self.failures = 0
        for topic in row.responses:
            for partition in topic.partitions:
                key = (topic.topic_id, partition.partition_index)
                if key not in asked:
                    continue
                follow = asked.pop(key)
                if self.follows.get((follow.host.topic, follow.host.index)) is follow:
                    follow.carry_out(follow.fetch.answered(_answer(partition), now))
        for follow in asked.values():
            follow.fetch.failed(now)
        self.pump_later()

    def ask_offsets(self, follow: Follow, leader_epoch: int) -> None:
        """Where the leader's log begins and ends: two ListOffsets."""
        found: dict[int, int] = {}

        def answered(which: int) -> Callable[[Row | None, str | None], None]:
            def note(row: Row | None, error: str | None) -> None:
                partition = row.topics[0].partitions[0] if row is not None else None
                if partition is None or partition.error_code or partition.offset < 0:
                    follow.fetch.failed(self.now())
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
            rows = [request.topics.partitions(partition_index=follow.host.index, current_leader_epoch=leader_epoch, timestamp=which)]
            row = request(replica_id=self.node.node_id, topics=[request.topics(name=follow.host.topic, partitions=rows)])
            self.connection.request(LIST_OFFSETS, row, answered(which), version=7)

    # the connection

    def _connect(self) -> None:
        now = self.now()
        if now < self.connect_at:
            self.wake_at(self.connect_at)
            return
        broker = self.node.image.brokers.get(self.leader)
        endpoint = broker.endpoint(self.node.settings.inter_broker_listener) if broker is not None else None
        if endpoint is None:
            return  # an image that knows it wakes us
        self.connection = ClientConnection(f"broker-{self.node.node_id}-fetcher", on_closed=self._closed)
        self.node.runtime.network.connect(endpoint.host, endpoint.port, self.connection)
        self.pump_later()

    def _closed(self, reason: str) -> None:
        self.connection = None
        asked, self.in_flight = self.in_flight, {}
        now = self.now()
        for follow in asked.values():
            follow.fetch.failed(now)
        first, most = RECONNECT_S
        self.connect_at = now + min(most, first * 2.0**self.failures)
        self.failures = min(self.failures + 1, 10)
        if self.follows:
            self.wake_at(self.connect_at)

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close("not followed any more")


class ReplicaFetchers:
    def __init__(self, node: "Node") -> None:
        self.node = node
        self.by_leader: dict[int, ReplicaFetcher] = {}

    def add(self, host: PartitionHost, leader: int) -> None:
        fetcher = self.by_leader.get(leader)
        if fetcher is None:
            fetcher = self.by_leader[leader] = ReplicaFetcher(self, leader)
        follow = Follow(fetcher, host)
        fetcher.follows[host.topic, host.index] = follow
        follow.start()
        fetcher.pump_later()

    def remove(self, host: PartitionHost) -> None:
        host.on_flushed = None
        for fetcher in self.by_leader.values():
            if fetcher.follows.pop((host.topic, host.index), None) is not None and not fetcher.follows:
                fetcher.close()

    def pump(self) -> None:
        for fetcher in self.by_leader.values():
            if fetcher.follows:
                fetcher.pump_later()

    def max_lag(self) -> int:
        return max((follow.fetch.lag for fetcher in self.by_leader.values() for follow in fetcher.follows.values()), default=0)

    def on_brokers(self, image: MetadataImage) -> None:
        """A broker that came back, perhaps elsewhere: no need to wait for the back-off."""
        for leader, fetcher in self.by_leader.items():
            if image.alive(leader):
                fetcher.failures = 0
                fetcher.connect_at = 0.0


def _answer(partition: Row) -> Answer:
    diverging = partition.diverging_epoch
    return Answer(
        Code(partition.error_code),
        partition.high_watermark,
        partition.log_start_offset,
        partition.records if partition.records is not None else b"",
        (diverging.epoch, diverging.end_offset) if diverging is not None and diverging.end_offset >= 0 else None,
    )
