"""Produce: v3-13; by topic id from v13 on. Appends here and now; with acks=all the answer waits for
the high watermark, with acks=1 for the flush of a leader that is alone in the ISR.

The checks of a batch are the log's. A request like the one before it on its connection is answered
by its plan (fastpath/produce.py).
"""

from collections import deque
from collections.abc import Hashable
from functools import partial

from raftka.broker.handlers.metadata import INTERNAL_TOPICS
from raftka.broker.handlers.services import Services
from raftka.broker.network.access.authorizer import THE_CLUSTER, TOPIC, TRANSACTIONAL_ID
from raftka.broker.network.dispatch import handles
from raftka.broker.network.request import Delayed, Request
from raftka.broker.produce.plan import ZSTD, remember
from raftka.broker.produce.schemas.checks import Check
from raftka.broker.produce.schemas.dead_letters import Origin
from raftka.broker.produce.verification import Question, Refused
from raftka.broker.replica.finding import find
from raftka.broker.replica.partition import Partition
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
from raftka.wire.errors import Code, KafkaError, ProtocolError, without_frames
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
from raftka.wire.schema import ZERO_UUID, Row

ADMIN_CLIENT = "__admin_client"
response = PRODUCE.response
# refused behind the CRC
BY_PRODUCER_STATE = frozenset(
    {Code.OUT_OF_ORDER_SEQUENCE_NUMBER, Code.INVALID_PRODUCER_EPOCH, Code.INVALID_TXN_STATE}
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
NOT_TOLD = frozenset({Code.NOT_LEADER_OR_FOLLOWER, Code.FENCED_LEADER_EPOCH})


def _refused(request: Request[ProduceRequest], code: Code) -> Steps[ProduceResponse | None]:
    """The same error for every partition."""
    if request.body.acks == 0:
        request.connection.end("a produce without acknowledgement failed")
        return None
    row = response.responses.partition_responses
    topics = request.encoded_rows(response.responses)
    for topic in request.body.topic_data:
        partitions = request.encoded_rows(row)
        for asked in topic.partition_data:
            partitions.add(row(index=asked.index, error_code=int(code), base_offset=-1))
            yield
        topics.add(
            response.responses(
                name=topic.name,
                topic_id=topic.topic_id or ZERO_UUID,
                partition_responses=partitions,
            )
        )
        yield
    return response(responses=topics)


@handles(PRODUCE, refused=_refused)
def produce(
    request: Request[ProduceRequest], services: Services
) -> Steps[ProduceResponse | Delayed | None]:
    run = _Produce(request, services)
    if (yield from run.list_partitions()) and not _may_use_its_id(request):
        raise KafkaError(Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    return (
        yield from (
            run.append_all() if request.body.transactional_id is None else run.verify_and_append()
        )
    )


def _may_use_its_id(request: Request[ProduceRequest]) -> bool:
    transactional_id = request.body.transactional_id
    return transactional_id is not None and request.may(
        "WRITE", (TRANSACTIONAL_ID, transactional_id)
    )


def _transactional(records: Owned | None) -> bool:
    if records is None or len(records) < BATCH_HEADER_BYTES or records[MAGIC_POSITION] != MAGIC:
        return False
    return bool(records[ATTRIBUTES_POSITION + 1] & TRANSACTIONAL)


class NotVerified(KafkaError):
    """The transaction coordinator does not know of a transaction in the partition: nobody has
    looked at the batch.
    """


Outcome = Prepared | BaseException


def _outcome(much: TakesLong) -> Outcome:
    try:
        return much.prepared()
    except KafkaError as error:
        return without_frames(error)  # they hold the opened batch
    except Exception as error:
        return error


class _Produce:
    """One request under way: an answer for each partition, some of which come later."""

    def __init__(self, request: Request[ProduceRequest], services: Services) -> None:
        self.request = request
        self.services = services
        # by the topic's place in the request
        self.rows: dict[int, list[PartitionProduceResponse]] = {}
        self.failed = False
        self.pending: Delayed | None = None
        self.waiting = 1  # partitions, and ourselves until all are appended
        self.now_ms = services.context.runtime.clock.wall_ms()
        self.topics: dict[int, int] = {}  # places in the request, by the id of a topic's row
        self.left: deque[tuple[TopicProduceData, PartitionProduceData]] = deque()
        # by the id of a partition's row in the request
        self.not_verified: dict[Hashable, KafkaError] = {}
        # by the same: what the leader knew of producers when the coordinator was asked
        self.asked_for: dict[Hashable, ProducerState] = {}
        self.is_verified = False  # the coordinator has answered
        self.is_held = False  # until it does

    def list_partitions(self) -> Steps[bool]:
        """Return whether one of them has transactional records."""
        is_transactional = False
        for place, topic in enumerate(self.request.body.topic_data):
            self.topics[id(topic)] = place
            for partition in topic.partition_data:
                self.left.append((topic, partition))
                is_transactional = is_transactional or _transactional(partition.records)
                yield
        return is_transactional

    # transactions

    def verify_and_append(self) -> Steps[ProduceResponse | Delayed | None]:
        """Ask the transaction's coordinator first where a transaction would begin; nothing behind
        on this connection is looked at meanwhile.
        """
        question = yield from self._question()
        if question is None or not question.partitions:
            return (yield from self.append_all())
        self.services.verifier.ask(question, self._verified)
        if self.is_verified:
            return (yield from self.append_all())
        self._hold()
        self.is_held = True
        return self.pending

    def _question(self) -> Steps[Question | None]:
        """About the partitions whose batches would begin a transaction. None: there are none."""
        request, producers = self.request, set()
        asked: list[tuple[TopicProduceData, PartitionProduceData, Owned]] = []
        for topic, partition in self.left:
            records = partition.records
            if records is not None and _transactional(records):
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
                    self.services.replicas,
                    "WRITE",
                    topic.name if request.version < 13 else topic.topic_id,
                    partition.index,
                )
                self._check(found, records)
                found.leading()
                one_batch(records)
                if found.log.producers.must_verify(producer_id, epoch):
                    guard = found.log.producers.guard(
                        producer_id, epoch, read_header(records).base_sequence, version, self.now_ms
                    )
                    question.add(found, guard, id(partition))
                    self.asked_for[id(partition)] = found.log.producers
            except KafkaError as error:
                if error.code is Code.INVALID_PRODUCER_EPOCH:
                    self.not_verified[id(partition)] = NotVerified(error.code)
            yield
        return question

    def _verified(self, refused: Refused) -> None:
        """The coordinator has answered, or could not be asked."""
        for place, error in refused.items():
            self.not_verified[place] = self._refusal(error)
        self.is_verified = True
        if self.is_held:
            self._append_rest()

    def _refusal(self, error: KafkaError) -> NotVerified:
        """As Kafka says it to a producer of this version."""
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
        """Append one batch after the other, until one takes long; `outcome` is what came of the
        first of those that are left.
        """
        while self.left:
            topic, partition = self.left[0]
            try:
                self._partition(topic, partition, outcome)
            except TakesLong as much:
                self._run_beside(partition, much)
                return self.pending
            except NeedsSchemas as needed:
                outcome = self._compare(topic, partition, needed)
                if outcome is None:
                    return self.pending
                continue
            outcome = partition.records = None
            self.left.popleft()
            yield
        return (yield from self._answer())

    def _hold(self) -> None:
        """The answer comes later, and until then nothing that comes behind it on its connection is
        looked at.
        """
        request = self.request
        request.connection.hold()
        if self.pending is None and request.body.acks != 0:
            self.pending = Delayed(request)
        request.keep(self.services.pool)

    def _run_beside(self, partition: PartitionProduceData, much: TakesLong) -> None:
        """Nothing behind it on this connection is looked at meanwhile: what comes first is first in
        the log.
        """
        self._hold()
        partition.records = much.batch
        self.services.background.run(
            much.opened_bytes, partial(_outcome, much), self._append_rest, self._is_waited_for
        )

    def _compare(
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
            topic.name or self.services.replicas.find_by_id(topic.topic_id, partition.index).topic,
            partition.index,
        )
        may_write = lambda name: self.request.may("WRITE", (TOPIC, name))  # noqa: E731
        self.services.schemas.begin(
            Check(
                needed,
                origin,
                may_write,
                self._is_waited_for,
                self.services.context.runtime.clock.now(),
                hold,
            ),
            done,
        )
        return at_once[0] if at_once else None

    def _is_waited_for(self) -> bool:
        """Who asks for no acknowledgement does not wait, and may have gone; else nobody was told,
        nor will be, that the records are there.
        """
        return self.request.body.acks == 0 or not self.request.connection.abandoned

    def _append_rest(self, outcome: Outcome | None = None) -> None:
        """In a later turn; `outcome` is that of the first batch that is left."""
        self.now_ms = self.services.context.runtime.clock.wall_ms()
        self.services.dispatcher.long_work.run("Produce", self.append_all(outcome), self._appended)

    def _appended(self, answer: ProduceResponse | Delayed | Exception | None) -> None:
        request = self.request
        if isinstance(answer, Exception):
            self.left.clear()
            if self.pending is not None:
                self.pending.broken(answer)
            else:
                request.dispatcher.broken(request, answer)
        elif isinstance(answer, Row) and self.pending is not None:
            self.pending.complete(answer)
        request.connection.release()

    def _partition(
        self, topic: TopicProduceData, asked: PartitionProduceData, outcome: Outcome | None
    ) -> None:
        place = self.topics[id(topic)]
        try:
            try:
                row, partition, offset = self._append(topic, asked, outcome)
            except TakesLong as much:
                self.services.background.check_room(much.opened_bytes)
                raise
        except (TakesLong, NeedsSchemas):
            raise
        except KafkaError as error:
            self.failed = True
            row = self._error(topic, asked, error)
            # one of them may hold the error itself: a cycle with the batch in it
            without_frames(error)
        else:
            if self.request.body.acks == -1:
                self.waiting += 1
                partition.wait_for_commit(
                    offset,
                    self.services.context.runtime.clock.now() + self.request.body.timeout_ms / 1000,
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
            self.services.replicas,
            "WRITE",
            topic.name if request.version < 13 else topic.topic_id,
            asked.index,
        )
        if records is None:
            raise KafkaError(Code.INVALID_RECORD)
        try:
            self._check(partition, records)
            if (refusal := self.not_verified.get(id(asked))) is not None:
                raise refusal
            if self.asked_for.get(id(asked), producers := partition.log.producers) is not producers:
                # it was made anew, after a truncation, and the answer is lost: the client asks
                # again
                raise KafkaError(Code.NOT_LEADER_OR_FOLLOWER)
            if isinstance(outcome, BaseException):
                raise outcome
            batch = records if outcome is None else outcome
            base, following, time_ms, _ = partition.append(
                batch, request.body.acks, self.now_ms, request.connection, later=True
            )
        except (TakesLong, NeedsSchemas):
            raise
        except KafkaError:
            one_batch(records)  # what is no batch is told before anything else
            raise
        alone = len(self.topics) == 1 and len(topic.partition_data) == 1
        if (
            alone
            and request.meter is None
            and partition.topic not in INTERNAL_TOPICS
            and partition.log.config.schemas is None
        ):
            remember(request, partition, self.services.context)
        row = response.responses.partition_responses(
            index=asked.index,
            error_code=0,
            base_offset=base,
            log_append_time_ms=time_ms,
            log_start_offset=partition.log.start_offset,
        )
        return row, partition, following

    def _check(self, partition: Partition, records: Owned) -> None:
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
            raise KafkaError(Code.INVALID_TOPIC_EXCEPTION)  # a client may call itself as it likes

    def _error(
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
                self.services.context.metrics.hit(cause.limit)
        partition = self.services.replicas.partitions.get(
            (topic.name, asked.index)
        ) or self.services.replicas.by_id.get((topic.topic_id, asked.index))
        self.services.context.metrics.count_of_topic(
            "kafka_server_brokertopicmetrics_failedproducerequests_total",
            partition.topic if partition is not None else None,
        )
        self.services.context.batch_refused(
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
                error.code in BY_PRODUCER_STATE and not isinstance(error, NotVerified)
            ):
                row.log_start_offset = partition.log.start_offset
            if error.code in NOT_TOLD and self.request.version >= 10:
                row.current_leader = rows.current_leader(
                    leader_id=partition.image.leader, leader_epoch=partition.image.leader_epoch
                )
        return row

    def complete(self) -> None:
        """Answer: no partition waits any more."""
        if self.pending is not None:
            self.services.dispatcher.long_work.run("Produce", self._row(), self.pending.settle)

    def _answer(self) -> Steps[ProduceResponse | Delayed | None]:
        self.waiting -= 1
        if self.request.body.acks == 0:
            if self.failed:  # there is no answer to put an error in
                self.request.connection.end("a produce without acknowledgement failed")
            return None
        if self.waiting:
            self.pending = self.pending or Delayed(self.request)
            return self.pending
        return (yield from self._row())

    def _row(self) -> Steps[ProduceResponse]:
        """The answer, and where the leaders are that its errors name (KIP-951)."""
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
            endpoints = self.services.metadata.endpoints_of(
                leaders, self.request.session.listener, response.node_endpoints
            )
        return response(responses=topics, node_endpoints=endpoints)


class _Wait:
    """One partition of a request that waits for the high watermark, or for the leader's flush."""

    __slots__ = ("row", "run")

    def __init__(self, run: _Produce, row: PartitionProduceResponse) -> None:
        self.run = run
        self.row = row

    def complete(self, code: Code) -> None:
        row = self.row
        if code is not Code.NONE:
            row.error_code = int(code)
            row.base_offset = row.log_append_time_ms = row.log_start_offset = -1
        run = self.run
        run.waiting -= 1  # here, as one flush may complete 20,000 of them
        if not run.waiting:
            run.complete()
