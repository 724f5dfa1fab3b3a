"""Questions of a partition's leader to a transaction's coordinator: is this partition in the
producer's transaction (KIP-890)?

A producer of version 1 has added the partition itself; for one of version 2 the leader adds it. All
questions that a turn has for one broker go in one request. Knows no batch and no client.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from raftka.broker.context import BrokerContext
from raftka.broker.replica.partition import Partition
from raftka.log.producers.markers import VERSION_2
from raftka.log.producers.state import Guard
from raftka.wire.errors import Code, KafkaError, code_of
from raftka.wire.messages.transactions import (
    ADD_PARTITIONS_TO_TXN,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)
from raftka.wire.schema import Api, Req, Resp

Key = tuple[str, int]
Refused = Mapping[Hashable, KafkaError]  # by the place that the question gave to a partition
PARTITIONS_OF_BATCH = 1_000  # in the questions of one request, until the next begins
FAILURES = "kafka_server_addpartitionstotxnmanager_verificationfailurerate_total"


class Coordinators(Protocol):
    """The transaction coordinators of the cluster."""

    def coordinator_of(self, transactional_id: str) -> int:
        """Return the broker's id. Raises COORDINATOR_NOT_AVAILABLE."""

    def add_partitions(
        self,
        transactional_id: str,
        producer: tuple[int, int],
        partitions: Sequence[Key],
        done: Callable[[Mapping[Key, Code] | KafkaError], None],
        *,
        verify_only: bool,
    ) -> None:
        """Ask the coordinator on this broker."""


class Channels(Protocol):
    """The connections to other brokers."""

    def ask(
        self,
        broker_id: int,
        api: Api[Req, Resp],
        row: Req,
        on_reply: Callable[[Resp | None, str | None], None],
    ) -> None: ...


@dataclass(slots=True)
class Question:
    """A question about the partitions of one request: `add` each, then give it to
    `TransactionVerifier.ask`.
    """

    transactional_id: str
    producer_id: int
    epoch: int
    version: int  # of the transaction
    partitions: dict[Key, tuple[Partition, Guard, Hashable]] = field(default_factory=dict)

    def add(self, partition: Partition, guard: Guard, place: Hashable) -> None:
        self.partitions[partition.topic, partition.index] = partition, guard, place

    @property
    def kind(self) -> tuple[int, int, bool]:
        """Questions about one transactional id go in one request only if this is equal."""
        return self.producer_id, self.epoch, self.version < VERSION_2


class _Batch:
    """Questions that go to a broker in one request."""

    __slots__ = ("_by_id", "_size", "questions")

    def __init__(self) -> None:
        self.questions: list[tuple[Question, Callable[[Refused], None]]] = []
        self._by_id: dict[str, list[Question]] = {}
        self._size = 0  # partitions

    def takes(self, question: Question) -> bool:
        others = self._by_id.get(question.transactional_id)
        return self._size < PARTITIONS_OF_BATCH and (
            others is None or others[0].kind == question.kind
        )

    def add(self, question: Question, done: Callable[[Refused], None]) -> None:
        self.questions.append((question, done))
        self._by_id.setdefault(question.transactional_id, []).append(question)
        self._size += len(question.partitions)

    def request(self) -> AddPartitionsToTxnRequest:
        rows = ADD_PARTITIONS_TO_TXN.request.transactions
        transactions = []
        for transactional_id, questions in self._by_id.items():
            topics: dict[str, dict[int, None]] = {}
            for question in questions:
                for topic, index in question.partitions:
                    topics.setdefault(topic, {})[index] = None
            producer_id, epoch, verify_only = questions[0].kind
            transaction = rows(
                transactional_id=transactional_id,
                producer_id=producer_id,
                producer_epoch=epoch,
                verify_only=verify_only,
            )
            transaction.topics = [
                rows.topics(name=name, partitions=list(indexes)) for name, indexes in topics.items()
            ]
            transactions.append(transaction)
        return ADD_PARTITIONS_TO_TXN.request(transactions=transactions)


class TransactionVerifier:
    def __init__(
        self, context: BrokerContext, coordinators: Coordinators, channels: Channels
    ) -> None:
        self._context = context
        self._coordinators = coordinators
        self._channels = channels
        self._batches: dict[int, list[_Batch]] = {}  # of this turn, by broker

    def ask(self, question: Question, done: Callable[[Refused], None]) -> None:
        """Ask the coordinator. `done` is called once, perhaps at once, with the partitions in which
        the transaction must not begin; the guards of the others are verified.
        """
        if (
            question.version < VERSION_2
            and not self._context.metadata.settings["transaction.partition.verification.enable"]
        ):
            done(self._settle(question, dict.fromkeys(question.partitions, Code.NONE)))
            return
        try:
            broker = self._coordinators.coordinator_of(question.transactional_id)
            if broker == self._context.node_id:
                self._ask_here(question, done)
            else:
                self._ask_there(broker, question, done)
        except KafkaError as error:
            done(self._settle(question, error))

    def _ask_here(self, question: Question, done: Callable[[Refused], None]) -> None:
        self._coordinators.add_partitions(
            question.transactional_id,
            (question.producer_id, question.epoch),
            list(question.partitions),
            lambda answer: done(self._settle(question, answer)),
            verify_only=question.version < VERSION_2,
        )

    def _ask_there(self, broker: int, question: Question, done: Callable[[Refused], None]) -> None:
        """Ask at the end of the turn, with all other questions of the turn for this broker."""
        if not self._batches:
            self._context.runtime.clock.at_turn_end(self._end_turn)
        batches = self._batches.setdefault(broker, [_Batch()])
        if not batches[-1].takes(question):
            batches.append(_Batch())
        batches[-1].add(question, done)

    def _end_turn(self) -> None:
        to_ask, self._batches = self._batches, {}
        for broker, batches in to_ask.items():
            for batch in batches:
                self._channels.ask(
                    broker, ADD_PARTITIONS_TO_TXN, batch.request(), partial(self._on_answer, batch)
                )

    def _on_answer(
        self, batch: _Batch, answer: AddPartitionsToTxnResponse | None, error: str | None
    ) -> None:
        codes = _codes(answer) if answer is not None else KafkaError(Code.NETWORK_EXCEPTION, error)
        for question, done in batch.questions:
            done(
                self._settle(
                    question,
                    codes
                    if isinstance(codes, KafkaError)
                    else codes.get(question.transactional_id, {}),
                )
            )

    def _settle(self, question: Question, answer: Mapping[Key, Code] | KafkaError) -> Refused:
        refused = {}
        for key, (partition, guard, place) in question.partitions.items():
            error = answer if isinstance(answer, KafkaError) else None
            if (
                not isinstance(answer, KafkaError)
                and (code := answer.get(key, Code.UNKNOWN_SERVER_ERROR)) is not Code.NONE
            ):
                error = KafkaError(code)
            partition.log.producers.verified(question.producer_id, guard, known=error is None)
            if error is not None:
                refused[place] = error
        if refused:
            self._context.metrics.count(FAILURES, len(refused))
        return refused


def _codes(answer: AddPartitionsToTxnResponse) -> Mapping[str, Mapping[Key, Code]] | KafkaError:
    """Return the codes of the partitions, by transactional id."""
    if answer.error_code:
        return KafkaError(code_of(answer.error_code))
    return {
        transaction.transactional_id: {
            (topic.name, row.partition_index): code_of(row.partition_error_code)
            for topic in transaction.topic_results
            for row in topic.results_by_partition
        }
        for transaction in answer.results_by_transaction
    }
