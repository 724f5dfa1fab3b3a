"""Fetch: v4-18; topic ids from v13 on (KIP-516), sessions from v7 on (KIP-227). Consumers and followers ask alike.

A consumer reads what is committed, a follower what is written; a follower's fetch offset tells what it has on its disk. With too little to
read the request is parked in its session and looks again, at the end of a turn, where something has changed.
"""

from typing import TYPE_CHECKING, Any

from raftka.broker.authorizer import THE_CLUSTER
from raftka.broker.dispatch import Pending, Request, handles
from raftka.broker.fetch_session import BEGIN, END, FetchSession, Reader, Wanted
from raftka.broker.handlers.fetch_plan import remember
from raftka.broker.handlers.finding import find
from raftka.broker.handlers.nearest import nearest
from raftka.broker.partition_host import PartitionHost
from raftka.limits import PARKED_REQUESTS
from raftka.runtime.door import Timer
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.fetch import FETCH
from raftka.wire.schema import Row

if TYPE_CHECKING:
    from raftka.broker.node import Node

READ_COMMITTED = 1
CONSUMER = -1
FOLLOWER = "FetchFollower"  # what Kafka calls these among its request metrics
MAX_WAIT_MS = 3_600_000
response = FETCH.response
of_partition = response.responses.partitions
LEADER_TOLD = frozenset({Code.NOT_LEADER_OR_FOLLOWER, Code.FENCED_LEADER_EPOCH})


@handles(FETCH, refused=lambda request, code: request.answer(error_code=int(code)))
def fetch(request: Request, node: "Node") -> Row | Pending:
    run = Fetch(request, node)
    if run.replica >= 0:
        request.connection.dispatcher.kind = node.metrics.kind(FOLLOWER)
    run.look()
    wait_ms = request.body.max_wait_ms
    if wait_ms > 0 and not run.settled:
        if node.parked < PARKED_REQUESTS.value:
            return run.park(min(wait_ms, MAX_WAIT_MS) / 1000)
        node.metrics.hit(PARKED_REQUESTS)
    row = run.answer()
    if run.plain is not None:
        remember(request, node, run.plain, run.isolated, run.max_bytes)
    return row


class Fetch:
    """One request: read at once, or parked and read again."""

    __slots__ = (
        "body",
        "broker_epoch",
        "bytes",
        "goes_on",
        "held",
        "isolated",
        "max_bytes",
        "node",
        "pending",
        "plain",
        "replica",
        "request",
        "rows",
        "session",
        "settled",
        "timer",
        "watching",
    )

    def __init__(self, request: Request, node: "Node") -> None:
        self.request = request
        self.node = node
        self.body = body = request.body
        state = body.replica_state
        self.replica: int = state.replica_id if request.version >= 15 and state is not None else body.replica_id
        self.broker_epoch: int = state.replica_epoch if request.version >= 15 and state is not None else -1
        self.isolated = body.isolation_level == READ_COMMITTED
        self.max_bytes: int = min(body.max_bytes, node.settings["fetch.max.bytes"])
        self.pending: Pending | None = None
        self.timer: Timer | None = None
        self.settled = False  # there is something to tell: enough bytes, an error, a divergence
        self.plain: Wanted | None = None  # of a consumer of one partition that got records: its next request will look the same
        self.bytes = 0
        self.rows: dict[Wanted, Row] = {}  # what is to be told
        self.held: dict[Wanted, None] = {}  # those with records
        self.session, self.goes_on = self._session()
        self.watching = self.session.lasting

    def _session(self) -> tuple[FetchSession, bool]:
        node, now = self.node, self.node.runtime.clock.now()
        reader = Reader(self.replica, self.broker_epoch)
        session, goes_on = node.fetch_sessions.for_request(self.body, reader, now, by_id=self.request.version >= 13)
        if reader.follows and self._genuine():
            session.heard = now
        return session, goes_on

    def _genuine(self) -> bool:
        """Anybody can claim to be a replica, and move the high watermark."""
        registered = self.node.image.brokers.get(self.replica)
        return registered is not None and registered.epoch == self.broker_epoch

    # reading

    def look(self) -> None:
        """Read where there is news."""
        session = self.session
        self.settled = not session.partitions
        for wanted in session.take_news():
            self._look_at(wanted)
        if self.bytes >= self.body.min_bytes:
            self.settled = True

    def _look_at(self, wanted: Wanted) -> None:
        self.bytes -= wanted.size
        wanted.size = 0
        asked = wanted.asked
        try:
            host = self._host(wanted)
            row = self._consumer_read(host, wanted) if self.replica < 0 else self._follower_read(host, wanted)
        except KafkaError as error:
            self.settled = True
            known = self.node.image.topic_named(wanted.topic) or self.node.image.topics.get(wanted.topic_id)
            self.node.metrics.count_of_topic("kafka_server_brokertopicmetrics_failedfetchrequests_total", known.name if known is not None else None)
            row = self._error(asked, error, wanted.topic_id)
        else:
            if self.watching:
                host.watched_by(wanted)
        if wanted.size:
            self.bytes += wanted.size
            self.held[wanted] = None
        elif self.held:
            self.held.pop(wanted, None)
        if not self.goes_on or wanted.size or self._is_new(wanted, row):
            self.rows[wanted] = row
        elif self.rows:
            self.rows.pop(wanted, None)

    @staticmethod
    def _is_new(wanted: Wanted, row: Row) -> bool:
        return bool(row.high_watermark != wanted.high_watermark or row.log_start_offset != wanted.log_start or _again(row))

    def _host(self, wanted: Wanted) -> PartitionHost:
        request, asked = self.request, wanted.asked
        if self.replica < 0:
            host = find(request, self.node, "READ", wanted.name, asked.partition)
        elif not request.may("CLUSTER_ACTION", THE_CLUSTER):
            raise KafkaError(Code.TOPIC_AUTHORIZATION_FAILED)
        else:
            name, replicas = wanted.name, self.node.replicas
            host = replicas.find_by_id(name, asked.partition) if isinstance(name, bytes) else replicas.find(name, asked.partition)
        if wanted.host is not host:
            wanted.leave()
            wanted.host = host
        host.check_epoch(asked.current_leader_epoch)
        return host

    def _consumer_read(self, host: PartitionHost, wanted: Wanted) -> Row:
        rack = self.body.rack_id
        leader = host.leader
        if leader is None and (not rack or host.log.failed is not None):  # KIP-392: a follower serves those that the leader may have sent
            host.leading()
        asked, readable = wanted.asked, host.high_watermark
        if rack and leader is not None and (preferred := nearest(self.node, host, leader, rack, asked.fetch_offset)) is not None:
            self.settled = True
            return self._row(host, asked, readable, preferred_read_replica=preferred)
        if asked.last_fetched_epoch >= 0 and (diverging := self._divergence(host, asked)) is not None:
            return diverging
        return self._read(host, wanted, readable, readable)

    def _follower_read(self, host: PartitionHost, wanted: Wanted) -> Row:
        leader, asked = host.leading(), wanted.asked
        if not self._genuine():
            raise KafkaError(Code.NOT_LEADER_OR_FOLLOWER)
        if asked.last_fetched_epoch >= 0 and (diverging := self._divergence(host, asked)) is not None:
            diverging.high_watermark = (
                diverging.last_stable_offset
            ) = -1  # it learns that when it has cut its log: else its session never said it again
            return diverging
        before, now = host.high_watermark, self.node.runtime.clock.now()
        throttle = host.manager.throttles.sends(host) if self.replica not in leader.isr else None
        if throttle is not None and throttle.free_at > now:
            row = self._row(host, asked, before)
        else:
            row = self._read(host, wanted, host.log.end_offset, before)
            if throttle is not None:
                throttle.passed(wanted.size, now)
        host.apply(leader.fetched(self.replica, asked.fetch_offset, now, self.broker_epoch))
        host.start_told(self.replica, asked.log_start_offset)
        if 0 <= asked.log_start_offset < host.log.start_offset:
            self.settled = True  # somebody may wait for it to follow
        if leader.high_watermark != before:
            row.high_watermark = row.last_stable_offset = leader.high_watermark
        if self.goes_on and host.manager.prefers_racks and row.high_watermark > wanted.high_watermark:
            self.settled = True  # its consumers wait for that
        if self.replica not in leader.isr:
            self.session.news[wanted] = None  # each of its fetches may be the one that lets it in
        return row

    def _divergence(self, host: PartitionHost, asked: Row) -> Row | None:
        """KIP-320: where the reader's log and ours part, if they do."""
        if asked.last_fetched_epoch == host.log.latest_epoch and asked.fetch_offset <= host.log.end_offset:
            return None
        epoch, end = host.log.epoch_end(asked.last_fetched_epoch)
        if epoch < 0 or asked.last_fetched_epoch > host.leader_epoch:
            raise KafkaError(Code.OFFSET_OUT_OF_RANGE)
        if epoch == asked.last_fetched_epoch and end >= asked.fetch_offset:
            return None
        self.settled = True
        return self._row(host, asked, host.high_watermark, diverging_epoch=of_partition.diverging_epoch(epoch=epoch, end_offset=end))

    def _read(self, host: PartitionHost, wanted: Wanted, readable: int, high_watermark: int) -> Row:
        log, asked = host.log, wanted.asked
        offset = asked.fetch_offset
        if offset < log.start_offset:
            raise KafkaError(Code.OFFSET_OUT_OF_RANGE)
        if offset >= readable:
            if offset > log.end_offset:
                raise KafkaError(Code.OFFSET_OUT_OF_RANGE)
            return self._row(host, asked, high_watermark)
        if asked.partition_max_bytes < 0 or self.max_bytes < 0:
            raise KafkaError(Code.UNKNOWN_SERVER_ERROR)  # Kafka's own answer
        room = min(asked.partition_max_bytes, self.max_bytes - self.bytes)
        try:
            spans, size = log.read(offset, max(room, 0), readable, min_one=not self.bytes) if room > 0 or not self.bytes else ((), 0)
        except OSError as error:
            host.manager.directories.failed(host.home, error)
            raise KafkaError(Code.KAFKA_STORAGE_ERROR, str(error)) from error
        wanted.size = size
        if not size:
            self.session.news[wanted] = None  # what did not fit comes with the next answer
            return self._row(host, asked, high_watermark)
        return self._row(host, asked, high_watermark, records=spans)

    def _row(self, host: PartitionHost, asked: Row, high_watermark: int, records: Any = b"", **fields: Any) -> Row:
        return of_partition(
            partition_index=asked.partition,
            high_watermark=high_watermark,
            last_stable_offset=high_watermark,
            log_start_offset=host.log.start_offset,
            aborted_transactions=[] if self.isolated else None,
            records=records,
            **fields,
        )

    def _error(self, asked: Row, error: KafkaError, topic_id: bytes) -> Row:
        absent = error.code in (Code.UNKNOWN_TOPIC_OR_PARTITION, Code.UNKNOWN_TOPIC_ID, Code.TOPIC_AUTHORIZATION_FAILED)
        row = of_partition(
            partition_index=asked.partition,
            error_code=int(error.code),
            high_watermark=-1,
            aborted_transactions=[] if absent else None,
            records=b"",
        )
        if error.code in LEADER_TOLD and self.request.version >= 16:
            partition = self.node.partition_image(topic_id, asked.partition)
            if partition is not None:
                row.current_leader = of_partition.current_leader(leader_id=partition.leader, leader_epoch=partition.leader_epoch)
        return row

    # answering

    def answer(self) -> Row:
        """With what there is; the session then knows what was told."""
        session, version = self.session, self.request.version
        rows = self._topics()
        endpoints = self._endpoints() if version >= 16 else []
        self._count()
        if session.lasting:
            self.plain = self._plain()
            self._told()
        elif self.body.session_epoch == BEGIN and version >= 7 and not self.goes_on and self.node.fetch_sessions.admit(session, session.created):
            self._told()
            for wanted in session.partitions.values():
                if wanted.host is not None:
                    wanted.host.watched_by(wanted)
        elif self.body.session_epoch == END or version < 7:
            self.plain = self._plain()
        self._finish()
        return response(session_id=session.id if session.lasting else 0, responses=rows, node_endpoints=endpoints)

    def _count(self) -> None:
        for wanted in self.rows:
            if (host := wanted.host) is not None:
                host.fetched += 1
                if self.replica < 0:
                    host.bytes_out += wanted.size
        if self.replica >= 0:
            self.node.metrics.replication_bytes_out += self.bytes

    def _topics(self) -> list[Row]:
        topics: dict[str | bytes, Row] = {}
        for wanted, row in self.rows.items():
            topic = topics.get(wanted.name)
            if topic is None:
                topic = topics[wanted.name] = response.responses(topic=wanted.topic, topic_id=wanted.topic_id, partitions=[])
            topic.partitions.append(row)
        return list(topics.values())

    def _endpoints(self) -> list[Row]:
        leaders = {row.current_leader.leader_id for row in self.rows.values() if row.error_code}
        return self.node.endpoints_of(leaders, self.request.session.listener, response.node_endpoints) if leaders else []

    def _told(self) -> None:
        """What has records or an error is looked at again even if nothing happens: it is told until the reader asks for something else."""
        session = self.session
        for wanted, row in self.rows.items():
            wanted.high_watermark, wanted.log_start = row.high_watermark, row.log_start_offset
            if wanted.size:
                session.to_the_end(wanted)
            if wanted.size or _again(row):
                session.news[wanted] = None

    def _plain(self) -> Wanted | None:
        if not len(self.session.partitions) == len(self.body.topics) == 1 or self.replica != CONSUMER or not self.bytes:
            return None
        if self.pending is not None or self.body.forgotten_topics_data or (self.body.rack_id and self.node.replicas.prefers_racks):
            return None
        (wanted,) = self.rows
        host, epoch = wanted.host, wanted.asked.last_fetched_epoch
        return wanted if host is not None and host.leader is not None and (epoch < 0 or epoch == host.leader_epoch) else None

    # waiting

    def park(self, wait_s: float) -> Pending:
        session = self.session
        self.pending = Pending(self.request, self._answer)
        self.node.parked += 1
        clock = self.node.runtime.clock
        self.timer = clock.call_at(clock.now() + wait_s, self._answer)
        session.parked = self
        if not self.watching:
            self.watching = True
            for wanted in session.partitions.values():
                if wanted.host is not None:
                    wanted.host.watched_by(wanted)
        return self.pending

    def look_soon(self) -> None:
        self.node.replicas.look_soon(self)

    def look_again(self) -> None:
        """Something changed at some of the partitions."""
        self._go_on(at_once=False)

    def _answer(self) -> None:
        """Time is up, or somebody waits behind: with what there is. Or nobody is there any more."""
        self._go_on(at_once=True)

    def _go_on(self, *, at_once: bool) -> None:
        """Called by those who wrote, or by a timer: what goes wrong here is not their matter."""
        pending = self.pending
        if pending is None:
            return
        if pending.over:
            self._abandon()
            return
        try:
            row = self._look_again(at_once=at_once)
        except Exception as error:
            self._abandon()
            pending.broken(error)
        else:
            if row is not None:
                pending.complete(row)

    def _look_again(self, *, at_once: bool) -> Row | None:
        held = list(self.held)
        self.look()
        if not self.settled and not at_once:
            return None
        if held:  # found some time ago: their files may be gone
            self.session.news.update(dict.fromkeys(held))
            self.look()
        return self.answer()

    def overtaken(self) -> None:
        """Another request of the session came before this one's answer, so it is not known any more what the reader knows."""
        pending = self.pending
        self._abandon()
        if pending is not None:
            pending.complete(self.request.answer(error_code=int(Code.INVALID_FETCH_SESSION_EPOCH)))

    def _abandon(self) -> None:
        """Nothing of it was told."""
        self.session.news.update(dict.fromkeys(self.rows))
        self._finish()

    def _finish(self) -> None:
        session = self.session
        for wanted in self.held:
            wanted.size = 0
        if self.pending is not None:
            self.pending = None
            self.node.parked -= 1
            session.parked = None
            if not session.lasting:
                session.leave()
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


def _again(row: Row) -> bool:
    """To be told again and again."""
    return bool(row.error_code or row.diverging_epoch.epoch >= 0 or row.preferred_read_replica >= 0)
