"""One Produce that goes the long way: each partition is checked and appended, then the answer waits
for its acknowledgement. Knows no rules of a batch: these are the log's.

It appends here and now. With acks=all the answer waits for the high watermark, with acks=1 for the
flush of a leader that is alone in the ISR. A batch that takes long, a comparison with schemas and a
question to a transaction's coordinator hold the connection, so that batches stay in order.
"""

from collections import deque
from collections.abc import Hashable
from functools import partial

from raftka.broker.coordinators.topics import INTERNAL_TOPICS
from raftka.broker.network.access.authorizer import THE_CLUSTER, TOPIC
from raftka.broker.network.frame_pool import FramePool
from raftka.broker.network.request import Delayed, Request
from raftka.broker.produce.append import append_batches
from raftka.broker.produce.plan import ZSTD, remember
from raftka.broker.produce.schemas.checks import Check, SchemaChecks
from raftka.broker.produce.schemas.dead_letters import Origin
from raftka.broker.produce.verification import Question, Refused, TransactionVerifier
from raftka.broker.replica.finding import find
from raftka.broker.replica.manager import ReplicaManager
from raftka.broker.replica.partition import Partition
from raftka.broker.work.background_worker import BackgroundWorker
from raftka.broker.work.long_work import Steps
from raftka.log.checkpoints import uuid_text
from raftka.log.producers.markers import VERSION_1, VERSION_2
from raftka.log.producers.state import ProducerState
from raftka.log.validation import (
    MAGIC_POSITION,
    NeedsSchemas,
    Prepared,
    RefusedRecords,
    TakesLong,
    one_batch,
)
from raftka.runtime.memory import Owned
from raftka.wire.errors import Code, KafkaError, ProtocolError, limit_of, without_frames
from raftka.wire.messages.produce import (
    PRODUCE,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from raftka.wire.records import (
    ATTRIBUTES_POSITION,
    BATCH_HEADER_BYTES,
    COMPRESSION_MASK,
    MAGIC,
    TRANSACTIONAL,
    read_header,
)
from raftka.wire.schema import Row

ADMIN_CLIENT = "__admin_client"
response = PRODUCE.response
WITH_LOG_START = frozenset(  # their answers have the log's start, as Kafka's
    {
        Code.OUT_OF_ORDER_SEQUENCE_NUMBER,
        Code.INVALID_PRODUCER_EPOCH,
        Code.INVALID_TXN_STATE,
        Code.NOT_ENOUGH_REPLICAS,
    }
)
SAYS_ABORTABLE = 11  # the version from which on a producer knows TRANSACTION_ABORTABLE
# from which on it leaves it to the leader to add partitions to its transaction
ADDS_PARTITIONS = 12
PASSING = frozenset(  # the coordinator cannot answer now
    {
        Code.NETWORK_EXCEPTION,
        Code.COORDINATOR_LOAD_IN_PROGRESS,
        Code.COORDINATOR_NOT_AVAILABLE,
        Code.NOT_COORDINATOR,
        Code.OPERATION_NOT_ATTEMPTED,  # it does not know another partition of the transaction yet
    }
)
# errors that name the leader to write to
NAMES_LEADER = frozenset({Code.NOT_LEADER_OR_FOLLOWER, Code.FENCED_LEADER_EPOCH})


def _is_transactional(records: Owned | None) -> bool:
    if records is None or len(records) < BATCH_HEADER_BYTES or records[MAGIC_POSITION] != MAGIC:
        return False
    return bool(records[ATTRIBUTES_POSITION + 1] & TRANSACTIONAL)


class NotVerified(KafkaError):
    """The transaction coordinator does not know of a transaction in the partition. The batch itself
    was not checked.
    """


Outcome = Prepared | BaseException


def _outcome(much: TakesLong) -> Outcome:
    try:
        return much.prepared()
    except KafkaError as error:
        return without_frames(error)  # they hold the opened batch
    except Exception as error:
        return error


class Produce:
    """One request: a row of the answer for each partition, some of which wait."""

    def __init__(
        self,
        request: Request[ProduceRequest],
        replicas: ReplicaManager,
        pool: FramePool,
        background: BackgroundWorker,
        verifier: TransactionVerifier,
        schemas: SchemaChecks,
    ) -> None:
        self.request, self.replicas, self.context = request, replicas, replicas.context
        self.pool, self.background = pool, background
        self.verifier, self.schemas = verifier, schemas
        # by the topic's place in the request
        self.rows: dict[int, list[PartitionProduceResponse]] = {}
        self.failed = False
        self.pending: Delayed | None = None
        self.waiting = 1  # partitions, and one more until all are appended
        self.now_ms = self.context.runtime.clock.wall_ms()
        self.topics: dict[int, int] = {}  # places in the request, by the id of a topic's row
        self.remaining: deque[tuple[TopicProduceData, PartitionProduceData]] = deque()
        # by the id of a partition's row in the request
        self.not_verified: dict[Hashable, KafkaError] = {}
        # by the same: what the leader knew of producers when the coordinator was asked
        self.producers_when_asked: dict[Hashable, ProducerState] = {}
        self.is_verified = False  # the coordinator has answered
        self.is_held = False  # until it does

    def list_partitions(self) -> Steps[bool]:
        """Return whether one of them has transactional records."""
        is_transactional = False
        for place, topic in enumerate(self.request.body.topic_data):
            self.topics[id(topic)] = place
            for partition in topic.partition_data:
                self.remaining.append((topic, partition))
                is_transactional = is_transactional or _is_transactional(partition.records)
                yield
        return is_transactional

    # transactions

    def verify_and_append(self) -> Steps[ProduceResponse | Delayed | None]:
        """Ask the transaction's coordinator first where a transaction would begin; later requests
        of this connection wait meanwhile.
        """
        question = yield from self._make_question()
        if question is None or not question.partitions:
            return (yield from self.append_all())
        self.verifier.ask(question, self._on_verified)
        if self.is_verified:
            return (yield from self.append_all())
        self._hold()
        self.is_held = True
        return self.pending

    def _make_question(self) -> Steps[Question | None]:
        """Return a question about the partitions whose batches would begin a transaction. None:
        there are no transactional batches, or they name different producers.
        """
        request, producers = self.request, set()
        asked: list[tuple[TopicProduceData, PartitionProduceData, Owned]] = []
        for topic, partition in self.remaining:
            records = partition.records
            if records is not None and _is_transactional(records):
                header = read_header(records)
                producers.add((header.producer_id, header.producer_epoch))
                asked.append((topic, partition, records))
            yield
        if len(producers) > 1:
            text = "Transactional records contained more than one producer ID"
            self.not_verified = {
                id(partition): NotVerified(Code.INVALID_PRODUCER_ID_MAPPING, text)
                for _, partition, _ in asked
            }
        if len(producers) != 1 or request.body.transactional_id is None:
            return None
        ((producer_id, epoch),) = producers
        version = VERSION_2 if request.version >= ADDS_PARTITIONS else VERSION_1
        question = Question(request.body.transactional_id, producer_id, epoch, version)
        for topic, partition, records in asked:
            try:
                found = find(
                    request,
                    self.replicas,
                    "WRITE",
                    topic.name if request.version < 13 else topic.topic_id,
                    partition.index,
                )
                self._check_terms(found, records)
                found.leading()
                one_batch(records)
                if found.log.producers.must_verify(producer_id, epoch):
                    guard = found.log.producers.guard(
                        producer_id, epoch, read_header(records).base_sequence, version, self.now_ms
                    )
                    question.add(found, guard, id(partition))
                    self.producers_when_asked[id(partition)] = found.log.producers
            except KafkaError as error:
                if error.code is Code.INVALID_PRODUCER_EPOCH:
                    self.not_verified[id(partition)] = NotVerified(error.code)
            yield
        return question

    def _on_verified(self, refused: Refused) -> None:
        """Append: the coordinator has answered, or could not be asked."""
        for place, error in refused.items():
            self.not_verified[place] = self._refusal(error)
        self.is_verified = True
        if self.is_held:
            self._append_rest()

    def _refusal(self, error: KafkaError) -> NotVerified:
        """Return the error that Kafka sends to a producer of this version."""
        code, message = error.code, error.message
        if code is Code.TRANSACTION_ABORTABLE and self.request.version < SAYS_ABORTABLE:
            return NotVerified(Code.INVALID_TXN_STATE, "Partition was not added to the transaction")
        if code is Code.PRODUCER_FENCED:
            return NotVerified(Code.INVALID_PRODUCER_EPOCH)
        is_passing = code in PASSING or (
            code is Code.CONCURRENT_TRANSACTIONS and self.request.version < ADDS_PARTITIONS
        )
        if is_passing:
            return NotVerified(
                Code.NOT_ENOUGH_REPLICAS,
                f"Unable to verify the partition has been added to the transaction: {code.name}",
            )
        return NotVerified(code, message)

    # appending

    def append_all(self, outcome: Outcome | None = None) -> Steps[ProduceResponse | Delayed | None]:
        """Append one batch after the other, until one takes long. `outcome`: of the work on the
        first one that is left.
        """
        while self.remaining:
            topic, partition = self.remaining[0]
            try:
                self._append_partition(topic, partition, outcome)
            except TakesLong as much:
                self._prepare_in_background(partition, much)
                return self.pending
            except NeedsSchemas as needed:
                outcome = self._compare_with_schemas(topic, partition, needed)
                if outcome is None:
                    return self.pending
                continue
            outcome = partition.records = None
            self.remaining.popleft()
            yield
        return (yield from self._answer_or_wait())

    def _hold(self) -> None:
        """Answer later. Until then the next requests of its connection wait, so that batches stay
        in order.
        """
        request = self.request
        request.connection.hold()
        if self.pending is None and request.body.acks != 0:
            self.pending = Delayed(request)
        request.keep(self.pool)

    def _prepare_in_background(self, partition: PartitionProduceData, much: TakesLong) -> None:
        self._hold()
        partition.records = much.batch
        self.background.run(
            much.opened_bytes, partial(_outcome, much), self._append_rest, self._is_waited_for
        )

    def _compare_with_schemas(
        self, topic: TopicProduceData, partition: PartitionProduceData, needed: NeedsSchemas
    ) -> Outcome | None:
        """Compare the records with the topic's schemas. Return the outcome, or None when it comes
        later.
        """
        at_once: list[Outcome] = []
        is_held = False

        def hold() -> None:
            nonlocal is_held
            self._hold()
            is_held = True
            partition.records = needed.batch

        def done(outcome: Outcome) -> None:
            (self._append_rest if is_held else at_once.append)(outcome)

        origin = Origin(
            topic.name or self.replicas.find_by_id(topic.topic_id, partition.index).topic,
            partition.index,
        )
        may_write = lambda name: self.request.may("WRITE", (TOPIC, name))  # noqa: E731
        self.schemas.begin(
            Check(
                needed,
                origin,
                may_write,
                self._is_waited_for,
                self.context.runtime.clock.now(),
                hold,
            ),
            done,
        )
        return at_once[0] if at_once else None

    def _is_waited_for(self) -> bool:
        """Return whether the batch is still to be appended. A client that wants no acknowledgement
        may have gone; any other one that has gone got no answer for its records.
        """
        return self.request.body.acks == 0 or not self.request.connection.abandoned

    def _append_rest(self, outcome: Outcome | None = None) -> None:
        """Go on in a later turn. `outcome`: of the work on the first batch that is left."""
        self.now_ms = self.context.runtime.clock.wall_ms()
        long_work = self.request.dispatcher.long_work
        long_work.run("Produce", self.append_all(outcome), self._on_appended)

    def _on_appended(self, answer: ProduceResponse | Delayed | Exception | None) -> None:
        request = self.request
        if isinstance(answer, Exception):
            self.remaining.clear()
            if self.pending is not None:
                self.pending.broken(answer)
            else:
                request.dispatcher.broken(request, answer)
        elif isinstance(answer, Row) and self.pending is not None:
            self.pending.complete(answer)
        request.connection.release()

    def _append_partition(
        self, topic: TopicProduceData, asked: PartitionProduceData, outcome: Outcome | None
    ) -> None:
        place = self.topics[id(topic)]
        try:
            try:
                row, partition, offset = self._append(topic, asked, outcome)
            except TakesLong as much:
                self.background.check_room(much.opened_bytes)
                raise
        except (TakesLong, NeedsSchemas):
            raise
        except KafkaError as error:
            self.failed = True
            row = self._error_row(topic, asked, error)
            without_frames(error)  # they may hold the error itself: a cycle with the batch in it
        else:
            if self.request.body.acks == -1:
                self.waiting += 1
                partition.wait_for_commit(
                    offset,
                    self.context.runtime.clock.now() + self.request.body.timeout_ms / 1000,
                    _Wait(self, row),
                )
            elif self.request.body.acks == 1 and partition.answers_after_flush:
                self.waiting += 1
                partition.wait_for_flush(offset, _Wait(self, row))
        self.rows.setdefault(place, []).append(row)

    def _append(
        self, topic: TopicProduceData, asked: PartitionProduceData, outcome: Outcome | None
    ) -> tuple[PartitionProduceResponse, Partition, int]:
        request, records = self.request, asked.records
        partition = find(
            request,
            self.replicas,
            "WRITE",
            topic.name if request.version < 13 else topic.topic_id,
            asked.index,
        )
        if records is None:
            raise KafkaError(Code.INVALID_RECORD)
        try:
            self._check_terms(partition, records)
            if (refusal := self.not_verified.get(id(asked))) is not None:
                raise refusal
            producers = partition.log.producers
            if self.producers_when_asked.get(id(asked), producers) is not producers:
                # it was made anew, after a truncation, which loses the coordinator's answer: let
                # the client ask again
                raise KafkaError(Code.NOT_LEADER_OR_FOLLOWER)
            if isinstance(outcome, BaseException):
                raise outcome
            batch = records if outcome is None else outcome
            ((base, following, time_ms, _),) = append_batches(
                partition, (batch,), request.body.acks, self.now_ms, request.connection
            )
        except (TakesLong, NeedsSchemas):
            raise
        except KafkaError:
            one_batch(records)  # the error of bytes that are no batch comes before all others
            raise
        alone = len(self.topics) == 1 and len(topic.partition_data) == 1
        if (
            alone
            and request.meter is None
            and partition.topic not in INTERNAL_TOPICS
            and partition.log.config.schemas is None
        ):
            remember(request, partition, self.context)
        row = response.responses.partition_responses(
            index=asked.index,
            error_code=0,
            base_offset=base,
            log_append_time_ms=time_ms,
            log_start_offset=partition.log.start_offset,
        )
        return row, partition, following

    def _check_terms(self, partition: Partition, records: Owned) -> None:
        request = self.request
        if (
            request.version < 7
            and len(records) >= BATCH_HEADER_BYTES
            and records[ATTRIBUTES_POSITION + 1] & COMPRESSION_MASK == ZSTD
        ):
            raise KafkaError(Code.UNSUPPORTED_COMPRESSION_TYPE)
        if request.body.acks not in (-1, 0, 1):
            raise KafkaError(Code.INVALID_REQUIRED_ACKS)
        if partition.topic in INTERNAL_TOPICS and not (
            request.session.client_id == ADMIN_CLIENT and request.may("CLUSTER_ACTION", THE_CLUSTER)
        ):
            raise KafkaError(Code.INVALID_TOPIC_EXCEPTION)  # any client can take that client id

    def _error_row(
        self, topic: TopicProduceData, asked: PartitionProduceData, error: KafkaError
    ) -> PartitionProduceResponse:
        rows = response.responses.partition_responses
        row = rows(
            index=asked.index,
            error_code=int(error.code),
            base_offset=-1,
            error_message=error.message,
        )
        if isinstance(error, RefusedRecords):
            row.record_errors = [
                rows.record_errors(batch_index=i, batch_index_error_message=text)
                for i, text in error.record_errors
            ]
            if isinstance(cause := error.__cause__, ProtocolError) and cause.limit is not None:
                self.context.metrics.hit(cause.limit)
        for limit in limit_of(error):
            self.context.metrics.hit(limit)
        partition = self.replicas.partitions.get(
            (topic.name, asked.index)
        ) or self.replicas.by_id.get((topic.topic_id, asked.index))
        self.context.metrics.count_of_topic(
            "kafka_server_brokertopicmetrics_failedproducerequests_total",
            partition.topic if partition is not None else None,
        )
        self.context.batch_refused(
            partition=f"{topic.name or uuid_text(topic.topic_id)}-{asked.index}"
            if partition is None
            else partition.name,
            error=error.code.name,
            reason=error.message,
            bytes=None if asked.records is None else len(asked.records),
            client=self.request.session.client_id,
            peer=self.request.session.peer,
        )
        if partition is not None:
            if isinstance(error, RefusedRecords) or (
                error.code in WITH_LOG_START and not isinstance(error, NotVerified)
            ):
                row.log_start_offset = partition.log.start_offset
            if error.code in NAMES_LEADER and self.request.version >= 10:
                row.current_leader = rows.current_leader(
                    leader_id=partition.image.leader, leader_epoch=partition.image.leader_epoch
                )
        return row

    def complete(self) -> None:
        """Send the answer: no partition waits any more."""
        if self.pending is not None:
            self.request.dispatcher.long_work.run("Produce", self._make_row(), self.pending.settle)

    def _answer_or_wait(self) -> Steps[ProduceResponse | Delayed | None]:
        self.waiting -= 1
        if self.request.body.acks == 0:
            if self.failed:  # there is no answer to put an error in
                self.request.connection.end("a produce without acknowledgement failed")
            return None
        if self.waiting:
            self.pending = self.pending or Delayed(self.request)
            return self.pending
        return (yield from self._make_row())

    def _make_row(self) -> Steps[ProduceResponse]:
        """Return the answer, with the addresses of the leaders that its errors name (KIP-951)."""
        topics = self.request.encoded_rows(response.responses)
        leaders: set[int] = set()
        for place, topic in enumerate(self.request.body.topic_data):
            partitions = self.request.encoded_rows(response.responses.partition_responses)
            for row in self.rows.get(place, ()):
                partitions.add(row)
                if row.error_code and row.current_leader is not None:
                    leaders.add(row.current_leader.leader_id)
                yield
            topics.add(
                response.responses(
                    name=topic.name, topic_id=topic.topic_id, partition_responses=partitions
                )
            )
        endpoints = []
        if self.request.version >= 10:
            session = self.request.session
            endpoints = self.context.metadata.endpoints_of(
                leaders, session.listener, session.reached_at, response.node_endpoints
            )
        return response(responses=topics, node_endpoints=endpoints)


class _Wait:
    """One partition of a request that waits for the high watermark, or for the leader's flush."""

    __slots__ = ("produce", "row")

    def __init__(self, produce: Produce, row: PartitionProduceResponse) -> None:
        self.produce = produce
        self.row = row

    def complete(self, code: Code) -> None:
        row = self.row
        if code is not Code.NONE:
            row.error_code = int(code)
            row.base_offset = row.log_append_time_ms = row.log_start_offset = -1
        produce = self.produce
        produce.waiting -= 1  # here, as one flush may complete 20,000 of them
        if not produce.waiting:
            produce.complete()
