"""Fetch: v4-18; topic ids from v13 on (KIP-516); full fetches, so every answer has session id 0 (KIP-227). Consumers and followers ask alike.

A consumer reads what is committed, a follower what is written; a follower's fetch offset tells what it has on its disk. With too little to
read the request is parked at its partitions and looks again when one of them changes.
"""

from typing import TYPE_CHECKING, Any

from raftka.broker.authorizer import THE_CLUSTER
from raftka.broker.dispatch import Pending, Request, handles
from raftka.broker.handlers.fetch_plan import remember
from raftka.broker.handlers.finding import find
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
LEADER_TOLD = frozenset({Code.NOT_LEADER_OR_FOLLOWER, Code.FENCED_LEADER_EPOCH})


@handles(FETCH, refused=lambda request, code: request.answer(error_code=int(code)))
def fetch(request: Request, node: "Node") -> Row | Pending:
    body = request.body
    if body.session_id:
        return request.answer(error_code=int(Code.FETCH_SESSION_ID_NOT_FOUND))
    run = Fetch(request, node)
    if run.is_follower:
        request.connection.dispatcher.kind = node.metrics.kind(FOLLOWER)
    row = run.read()
    if run.plain:
        remember(request, run.hosts[0], run.isolated, run.max_bytes)
    if body.max_wait_ms <= 0 or run.settled:
        return run.counted(row)
    if node.parked >= PARKED_REQUESTS.value:
        node.metrics.refused(PARKED_REQUESTS)
        return run.counted(row)
    return run.park(min(body.max_wait_ms, MAX_WAIT_MS) / 1000)


class Fetch:
    """One request: read at once, or parked and read again."""

    __slots__ = (
        "asked",
        "body",
        "broker_epoch",
        "bytes",
        "hosts",
        "is_follower",
        "isolated",
        "max_bytes",
        "node",
        "parked_at",
        "pending",
        "replica",
        "request",
        "settled",
        "sizes",
        "timer",
    )

    def __init__(self, request: Request, node: "Node") -> None:
        self.request = request
        self.node = node
        self.body = body = request.body
        state = body.replica_state
        self.replica: int = state.replica_id if request.version >= 15 and state is not None else body.replica_id
        self.broker_epoch: int = state.replica_epoch if request.version >= 15 and state is not None else -1
        self.is_follower = self.replica >= 0
        self.isolated = body.isolation_level == READ_COMMITTED
        self.max_bytes: int = min(body.max_bytes, node.settings["fetch.max.bytes"])
        self.hosts: list[PartitionHost] = []
        self.parked_at: list[PartitionHost] = []
        self.pending: Pending | None = None
        self.timer: Timer | None = None
        self.settled = False  # there is something to tell: enough bytes, an error, a divergence
        self.bytes = 0
        self.sizes: list[tuple[PartitionHost, int]] = []  # of what was read, for the metrics
        self.asked = sum([len(topic.partitions) for topic in body.topics])

    # reading

    def read(self) -> Row:
        self.bytes = 0
        self.settled = not self.asked
        self.hosts = []
        self.sizes = []
        rows = [
            response.responses(topic=topic.topic, topic_id=topic.topic_id, partitions=[self._partition(topic, p) for p in topic.partitions])
            for topic in self.body.topics
        ]
        if self.bytes >= self.body.min_bytes:
            self.settled = True
        return response(responses=rows, node_endpoints=self._endpoints(rows) if self.request.version >= 16 else [])

    def _partition(self, topic: Row, asked: Row) -> Row:
        try:
            host = self._host(topic, asked)
            self.hosts.append(host)
            return self._follower_read(host, asked) if self.is_follower else self._consumer_read(host, asked)
        except KafkaError as error:
            self.settled = True
            return self._error(asked, error, topic)

    def _host(self, topic: Row, asked: Row) -> PartitionHost:
        request = self.request
        named = topic.topic if request.version < 13 else topic.topic_id
        if not self.is_follower:
            host = find(request, self.node, "READ", named, asked.partition)
        elif not request.may("CLUSTER_ACTION", THE_CLUSTER):
            raise KafkaError(Code.TOPIC_AUTHORIZATION_FAILED)
        else:
            host = (
                self.node.replicas.find_by_id(named, asked.partition) if isinstance(named, bytes) else self.node.replicas.find(named, asked.partition)
            )
        host.check_epoch(asked.current_leader_epoch)
        return host

    def _consumer_read(self, host: PartitionHost, asked: Row) -> Row:
        readable = host.leading().high_watermark
        if asked.last_fetched_epoch >= 0 and (diverging := self._divergence(host, asked)) is not None:
            return diverging
        return self._read(host, asked, readable, readable)

    def _follower_read(self, host: PartitionHost, asked: Row) -> Row:
        leader = host.leading()
        registered = self.node.image.brokers.get(self.replica)
        if registered is None or registered.epoch != self.broker_epoch:  # anybody can claim to be a replica, and move the high watermark
            raise KafkaError(Code.NOT_LEADER_OR_FOLLOWER)
        if asked.last_fetched_epoch >= 0 and (diverging := self._divergence(host, asked)) is not None:
            return diverging
        before = host.high_watermark
        row = self._read(host, asked, host.log.end_offset, before)
        host.apply(leader.fetched(self.replica, asked.fetch_offset, self.node.runtime.clock.now(), self.broker_epoch))
        if leader.high_watermark != before:
            row.high_watermark = row.last_stable_offset = leader.high_watermark
        host.manager.note_lag(leader)
        return row

    def _divergence(self, host: PartitionHost, asked: Row) -> Row | None:
        """KIP-320: where the reader's log and ours part, if they do."""
        epoch, end = host.log.epoch_end(asked.last_fetched_epoch)
        if epoch < 0 or asked.last_fetched_epoch > host.leader_epoch:
            raise KafkaError(Code.OFFSET_OUT_OF_RANGE)
        if epoch == asked.last_fetched_epoch and end >= asked.fetch_offset:
            return None
        self.settled = True
        return self._row(host, asked, host.high_watermark, diverging_epoch=response.responses.partitions.diverging_epoch(epoch=epoch, end_offset=end))

    def _read(self, host: PartitionHost, asked: Row, readable: int, high_watermark: int) -> Row:
        log = host.log
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
        if room <= 0 and self.bytes:
            return self._row(host, asked, high_watermark)
        try:
            spans, size = log.read(offset, max(room, 0), readable, min_one=not self.bytes)
        except OSError as error:
            raise KafkaError(Code.KAFKA_STORAGE_ERROR, str(error)) from error
        self.bytes += size
        self.sizes.append((host, size))
        return self._row(host, asked, high_watermark, records=spans if size else b"")

    def _row(self, host: PartitionHost, asked: Row, high_watermark: int, records: Any = b"", **fields: Any) -> Row:
        return response.responses.partitions(
            partition_index=asked.partition,
            high_watermark=high_watermark,
            last_stable_offset=high_watermark,
            log_start_offset=host.log.start_offset,
            aborted_transactions=[] if self.isolated else None,
            records=records,
            **fields,
        )

    def _error(self, asked: Row, error: KafkaError, topic: Row) -> Row:
        absent = error.code in (Code.UNKNOWN_TOPIC_OR_PARTITION, Code.UNKNOWN_TOPIC_ID)
        row = response.responses.partitions(
            partition_index=asked.partition,
            error_code=int(error.code),
            high_watermark=-1,
            aborted_transactions=[] if absent or self.isolated else None,
            records=b"",
        )
        if error.code in LEADER_TOLD and self.request.version >= 16:
            partition = self.node.partition_image(topic.topic_id, asked.partition)
            if partition is not None:
                row.current_leader = response.responses.partitions.current_leader(leader_id=partition.leader, leader_epoch=partition.leader_epoch)
        return row

    def _endpoints(self, rows: list[Row]) -> list[Row]:
        leaders = {p.current_leader.leader_id for topic in rows for p in topic.partitions if p.error_code and p.current_leader is not None}
        return self.node.endpoints_of(leaders, self.request.session.listener, response.node_endpoints)

    @property
    def plain(self) -> bool:
        """A consumer of one partition that got records: its next request will look the same."""
        if self.asked != 1 or self.replica != CONSUMER or not self.bytes:
            return False
        epoch: int = self.body.topics[0].partitions[0].last_fetched_epoch
        return epoch < 0 or epoch == self.hosts[0].leader_epoch

    def counted(self, row: Row) -> Row:
        """The answer, as it goes out."""
        for host in self.hosts:
            host.fetched += 1
        if self.is_follower:
            self.node.metrics.replication_bytes_out += self.bytes
        else:
            for host, size in self.sizes:
                host.bytes_out += size
        return row

    # waiting

    def park(self, wait_s: float) -> Pending:
        self.pending = Pending(self.request, self._answer)
        self.node.parked += 1
        clock = self.node.runtime.clock
        self.timer = clock.call_at(clock.now() + wait_s, self._answer)
        self.parked_at = self.hosts
        for host in self.parked_at:
            host.fetches[self] = None
        return self.pending

    def look(self) -> None:
        """Something changed at one of the partitions."""
        pending = self.pending
        if pending is None:
            return
        if pending.over:
            self.finish()
            return
        self._read_again(pending, at_once=False)

    def _answer(self) -> None:
        """Time is up, or somebody waits behind: with what there is. Or nobody is there any more."""
        if self.pending is None:
            return
        if self.pending.over:
            self.finish()
        else:
            self._read_again(self.pending, at_once=True)

    def _read_again(self, pending: Pending, *, at_once: bool) -> None:
        """Called by those who wrote, or by a timer: what goes wrong here is not their matter."""
        try:
            row = self.read()
        except Exception as error:
            self.finish()
            pending.broken(error)
        else:
            if self.settled or at_once:
                self.finish()
                pending.complete(self.counted(row))

    def finish(self) -> None:
        if self.pending is not None:
            self.pending = None
            self.node.parked -= 1
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        for host in self.parked_at:
            host.fetches.pop(self, None)
        self.parked_at = []
