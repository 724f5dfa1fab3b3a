"""Produce: v3-13; by topic id from v13 on. Appends here and now; with acks=all the answer waits for the high watermark, with acks=1 for the
flush of a leader that is alone in the ISR.

The checks of a batch are the log's. A request like the one before it on its connection is answered by its plan (produce_plan.py).
"""

from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from raftka.broker.authorizer import TRANSACTIONAL_ID
from raftka.broker.dispatch import Pending, Request, handles
from raftka.broker.handlers.finding import find
from raftka.broker.handlers.metadata import INTERNAL_TOPICS
from raftka.broker.handlers.produce_plan import ZSTD, remember
from raftka.broker.partition_host import PartitionHost
from raftka.log.checkpoints import uuid_text
from raftka.log.validation import MAGIC_POSITION, RefusedRecords, TakesLong, one_batch
from raftka.wire.errors import Code, KafkaError, ProtocolError
from raftka.wire.messages.produce import PRODUCE
from raftka.wire.records import ATTRIBUTES_POSITION, BATCH_HEADER_BYTES, COMPRESSION_MASK, MAGIC, TRANSACTIONAL
from raftka.wire.schema import ZERO_UUID, Row

if TYPE_CHECKING:
    from raftka.broker.node import Node

ADMIN_CLIENT = "__admin_client"
response = PRODUCE.response
BY_PRODUCER_STATE = frozenset({Code.OUT_OF_ORDER_SEQUENCE_NUMBER, Code.INVALID_PRODUCER_EPOCH})  # refused behind the CRC
NOT_TOLD = frozenset({Code.NOT_LEADER_OR_FOLLOWER, Code.FENCED_LEADER_EPOCH})


def _refused(request: Request, code: Code) -> Row | None:
    """The same error for every partition."""
    if request.body.acks == 0:
        request.connection.end("a produce without acknowledgement failed")
        return None
    rows = []
    for topic in request.body.topic_data:
        partitions = [response.responses.partition_responses(index=p.index, error_code=int(code), base_offset=-1) for p in topic.partition_data]
        rows.append(response.responses(name=topic.name, topic_id=topic.topic_id or ZERO_UUID, partition_responses=partitions))
    return request.answer(responses=rows)


@handles(PRODUCE, refused=_refused)
def produce(request: Request, node: "Node") -> Row | Pending | None:
    body = request.body
    run = _Produce(request, node)
    if body.transactional_id is not None and not request.may("WRITE", (TRANSACTIONAL_ID, body.transactional_id)):
        return _refused(request, Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if body.transactional_id is None and any(_transactional(p.records) for t in body.topic_data for p in t.partition_data):
        return _refused(request, Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    return run.go_on()


def _transactional(records: memoryview | None) -> bool:
    if records is None or len(records) < BATCH_HEADER_BYTES or records[MAGIC_POSITION] != MAGIC:
        return False
    return bool(records[ATTRIBUTES_POSITION + 1] & TRANSACTIONAL)


Prepared = memoryview | BaseException


def _outcome(much: TakesLong) -> Prepared:
    try:
        return much.prepared()
    except Exception as error:
        return error


class _Produce:
    """One request under way: an answer for each partition, some of which come later."""

    def __init__(self, request: Request, node: "Node") -> None:
        self.request = request
        self.node = node
        self.rows: dict[int, list[Row]] = {}  # by the topic's place in the request
        self.failed = False
        self.pending: Pending | None = None
        self.waiting = 1  # partitions, and ourselves until all are appended
        self.holding = False
        self.now_ms = node.runtime.clock.wall_ms()
        self.topics = {id(topic): place for place, topic in enumerate(request.body.topic_data)}
        self.left = deque((topic, partition) for topic in request.body.topic_data for partition in topic.partition_data)

    # appending

    def go_on(self, prepared: Prepared | None = None) -> Row | Pending | None:
        """Append one after the other, until one takes long; with `prepared` that has come back, and is the first of those that are left."""
        while self.left:
            topic, partition = self.left[0]
            try:
                self._partition(topic, partition, prepared)
            except TakesLong as much:
                if self.node.beside.has_room(self._size()):
                    return self._later(partition, much)
                self._partition(topic, partition, _outcome(much))
            prepared = None
            self.left.popleft()
        return self._answer()

    def _later(self, partition: Row, much: TakesLong) -> Pending | None:
        """Nothing behind it on this connection is looked at meanwhile: what comes first is first in the log."""
        request = self.request
        if not self.holding:
            self.holding = True
            request.connection.hold()
            if request.body.acks != 0:
                self.pending = Pending(request)
            for _, other in self.left:  # the frame goes with the turn
                other.records = memoryview(bytearray(other.records)) if other.records is not None and other is not partition else None
            request.frame = request.frame[:0]
        much.keep()
        partition.records = much.batch
        self.node.beside.run(self._size(), partial(_outcome, much), self._come_back)
        return self.pending

    def _come_back(self, prepared: Prepared) -> None:
        request = self.request
        self.now_ms = self.node.runtime.clock.wall_ms()
        try:
            answer = self.go_on(prepared)
        except Exception as error:
            self.left.clear()
            answer = None
            if self.pending is not None:
                self.pending.broken(error)
            else:
                request.connection.dispatcher.broken(request, error)
        if isinstance(answer, Row) and self.pending is not None:
            self.pending.complete(answer)
        if not self.left:
            request.connection.release()

    def _size(self) -> int:
        return sum(len(partition.records) for _, partition in self.left if partition.records is not None)

    def _partition(self, topic: Row, partition: Row, prepared: Prepared | None) -> None:
        place = self.topics[id(topic)]
        try:
            row, host, offset = self._append(topic, partition, prepared)
        except TakesLong:
            raise
        except KafkaError as error:
            self.failed = True
            row = self._error(topic, partition, error)
        else:
            if self.request.body.acks == -1:
                self.waiting += 1
                host.wait_for(offset, self.node.runtime.clock.now() + self.request.body.timeout_ms / 1000, _Wait(self, row))
            elif self.request.body.acks == 1 and host.answers_after_flush:
                self.waiting += 1
                host.wait_for_flush(offset, _Wait(self, row))
        self.rows.setdefault(place, []).append(row)

    def _append(self, topic: Row, partition: Row, prepared: Prepared | None) -> tuple[Row, PartitionHost, int]:
        request, records = self.request, partition.records
        host = find(request, self.node, "WRITE", topic.name if request.version < 13 else topic.topic_id, partition.index)
        if records is None:
            raise KafkaError(Code.INVALID_RECORD)
        try:
            self._check(host, records)
            if isinstance(prepared, BaseException):
                raise prepared
            batch, is_prepared = (records, False) if prepared is None else (prepared, True)
            base, following, time_ms, _ = host.append(batch, request.body.acks, self.now_ms, request.connection, later=True, prepared=is_prepared)
        except KafkaError:
            one_batch(records)  # what is no batch is told before anything else
            raise
        if len(self.topics) == 1 and len(topic.partition_data) == 1:
            remember(request, host, self.node)
        row = response.responses.partition_responses(
            index=partition.index, error_code=0, base_offset=base, log_append_time_ms=time_ms, log_start_offset=host.log.start_offset
        )
        return row, host, following

    def _check(self, host: PartitionHost, records: memoryview) -> None:
        request = self.request
        if request.version < 7 and len(records) >= BATCH_HEADER_BYTES and records[ATTRIBUTES_POSITION + 1] & COMPRESSION_MASK == ZSTD:
            raise KafkaError(Code.UNSUPPORTED_COMPRESSION_TYPE)
        if request.body.acks not in (-1, 0, 1):
            raise KafkaError(Code.INVALID_REQUIRED_ACKS)
        if host.topic in INTERNAL_TOPICS and request.session.client_id != ADMIN_CLIENT:
            raise KafkaError(Code.INVALID_TOPIC_EXCEPTION)
        if _transactional(records):  # no transaction can be under way: there is no coordinator yet
            raise KafkaError(Code.INVALID_TXN_STATE)

    def _error(self, topic: Row, partition: Row, error: KafkaError) -> Row:
        rows = response.responses.partition_responses
        row = rows(index=partition.index, error_code=int(error.code), base_offset=-1, error_message=error.message)
        if isinstance(error, RefusedRecords):
            row.record_errors = [rows.record_errors(batch_index=i, batch_index_error_message=text) for i, text in error.record_errors]
            if isinstance(cause := error.__cause__, ProtocolError) and cause.limit is not None:
                self.node.metrics.hit(cause.limit)
        host = self.node.replicas.hosts.get((topic.name, partition.index)) or self.node.replicas.by_id.get((topic.topic_id, partition.index))
        self.node.metrics.count_of_topic("kafka_server_brokertopicmetrics_failedproducerequests_total", host.topic if host is not None else None)
        self.node.batch_refused(
            partition=f"{topic.name or uuid_text(topic.topic_id)}-{partition.index}" if host is None else host.name,
            error=error.code.name,
            reason=error.message,
            bytes=None if partition.records is None else len(partition.records),
            client=self.request.session.client_id,
            peer=self.request.session.peer,
        )
        if host is not None:
            if isinstance(error, RefusedRecords) or error.code in BY_PRODUCER_STATE:
                row.log_start_offset = host.log.start_offset
            if error.code in NOT_TOLD and self.request.version >= 10:
                row.current_leader = rows.current_leader(leader_id=host.image.leader, leader_epoch=host.image.leader_epoch)
        return row

    def partition_done(self) -> None:
        self.waiting -= 1
        if not self.waiting and self.pending is not None:
            self.pending.complete(self._row())

    def _answer(self) -> Row | Pending | None:
        self.waiting -= 1
        if self.request.body.acks == 0:
            if self.failed:  # there is no answer to put an error in
                self.request.connection.end("a produce without acknowledgement failed")
            return None
        if self.waiting:
            self.pending = self.pending or Pending(self.request)
            return self.pending
        return self._row()

    def _row(self) -> Row:
        topics = self.request.body.topic_data
        rows = [
            response.responses(name=topic.name, topic_id=topic.topic_id, partition_responses=self.rows.get(place, []))
            for place, topic in enumerate(topics)
        ]
        return response(responses=rows, node_endpoints=self._endpoints(rows) if self.request.version >= 10 else [])

    def _endpoints(self, rows: list[Row]) -> list[Row]:
        """Where the leaders are that the errors name (KIP-951)."""
        leaders = {p.current_leader.leader_id for topic in rows for p in topic.partition_responses if p.error_code and p.current_leader is not None}
        return self.node.endpoints_of(leaders, self.request.session.listener, response.node_endpoints)


class _Wait:
    """One partition of a request that waits for the high watermark, or for the leader's flush."""

    __slots__ = ("row", "run")

    def __init__(self, run: _Produce, row: Row) -> None:
        self.run = run
        self.row = row

    def committed(self, host: PartitionHost, code: Code) -> None:
        row = self.row
        if code is not Code.NONE:
            row.error_code = int(code)
            row.base_offset = row.log_append_time_ms = row.log_start_offset = -1
        self.run.partition_done()
