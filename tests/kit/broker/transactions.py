"""A transactional producer on the wire."""

from typing import Any

from raftka.broker.network.access.authorizer import AllowAll, Resource
from raftka.broker.network.session import Session
from raftka.wire.errors import Code
from raftka.wire.messages.find_coordinator import FIND_COORDINATOR
from raftka.wire.messages.produce import PRODUCE
from raftka.wire.messages.producer_ids import INIT_PRODUCER_ID
from raftka.wire.messages.transactions import (
    ADD_PARTITIONS_TO_TXN,
    DESCRIBE_TRANSACTIONS,
    END_TXN,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
)
from tests.broker.requests import batch, produce, produced
from tests.broker.stage import Stage, Wire

TOPIC = "__transaction_state"


class Client:
    """A producer with a transactional id, at its coordinator."""

    def __init__(self, stage: Stage, transactional_id: str = "x") -> None:
        self.stage = stage
        self.id = transactional_id
        self.wire = stage.wire(self.coordinator())
        self.pair = (-1, -1)

    def coordinator(self) -> int:
        request = FIND_COORDINATOR.request(key_type=1, coordinator_keys=[self.id])
        wire = self.stage.wire(next(iter(self.stage.nodes)))
        found: list[int] = []

        def is_found() -> bool:
            (row,) = wire.ask(FIND_COORDINATOR, request).coordinators
            found[:] = (
                [row.node_id] if not row.error_code and row.node_id in self.stage.nodes else []
            )
            return bool(found)

        for _ in range(200):
            if is_found():
                return found[0]
            self.stage.world.run(self.stage.world.now + 0.1)
        raise AssertionError("nobody coordinates")

    def init(self, version: int = 5, timeout_ms: int = 60_000, **fields: Any) -> Any:
        for _ in range(100):
            request = INIT_PRODUCER_ID.request(
                transactional_id=self.id, transaction_timeout_ms=timeout_ms, **fields
            )
            answer = self.wire.ask(INIT_PRODUCER_ID, request, version)
            if answer.error_code not in (Code.COORDINATOR_LOAD_IN_PROGRESS, Code.NOT_COORDINATOR):
                break
            self.stage.world.run(self.stage.world.now + 0.1)
        if not answer.error_code:
            self.pair = (answer.producer_id, answer.producer_epoch)
        return answer

    def add(self, *partitions: tuple[str, int], version: int = 3) -> list[int]:
        answer = self.wire.ask(
            ADD_PARTITIONS_TO_TXN, adding(self.id, self.pair, *partitions), version
        )
        return [
            each.partition_error_code
            for topic in answer.results_by_topic_v3_and_below
            for each in topic.results_by_partition
        ]

    def ending(self, *, commit: bool = True) -> EndTxnRequest:
        return END_TXN.request(
            transactional_id=self.id,
            producer_id=self.pair[0],
            producer_epoch=self.pair[1],
            committed=commit,
        )

    def end(self, *, commit: bool = True, version: int = 5, wire: Wire | None = None) -> int:
        answer = (wire or self.wire).ask(END_TXN, self.ending(commit=commit), version)
        if not answer.error_code and version >= 5:
            self.pair = (answer.producer_id, answer.producer_epoch)
        return int(answer.error_code)

    def describe(self) -> Any:
        (row,) = self.wire.ask(
            DESCRIBE_TRANSACTIONS, DESCRIBE_TRANSACTIONS.request(transactional_ids=[self.id])
        ).transaction_states
        return row

    def produce(
        self,
        topic: str,
        partition: int = 0,
        sequence: int = 0,
        version: int = 11,
        value: bytes = b"v",
    ) -> int:
        """At the partition's leader."""
        records = batch(
            value,
            producer_id=self.pair[0],
            producer_epoch=self.pair[1],
            base_sequence=sequence,
            transactional=True,
        )
        wire = self.stage.wire(self.stage.leader(topic, partition))
        return int(
            produced(
                wire.ask(
                    PRODUCE, produce(topic, records, partition, transactional_id=self.id), version
                )
            ).error_code
        )


def adding(
    transactional_id: str, pair: tuple[int, int], *partitions: tuple[str, int]
) -> AddPartitionsToTxnRequest:
    request = ADD_PARTITIONS_TO_TXN.request
    return request(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=pair[0],
        v3_and_below_producer_epoch=pair[1],
        v3_and_below_topics=[
            request.v3_and_below_topics(name=name, partitions=[index]) for name, index in partitions
        ],
    )


def is_over(client: Client, state: str) -> bool:
    found: str = client.describe().transaction_state
    return found == state


def settled(client: Client, state: str) -> None:
    for _ in range(300):
        if is_over(client, state):
            return
        client.stage.world.run(client.stage.world.now + 0.02)
    raise AssertionError(client.describe())


class DenyOnResource(AllowAll):
    """Denies operations, with commas between them, on one resource."""

    def __init__(self, operations: str, *resource: str) -> None:
        self.operations, self.resource = operations.split(","), resource

    def allowed(self, session: Session, operation: str, resource: Resource) -> bool:
        return operation not in self.operations or tuple(resource) != self.resource


def write(
    client: Client, wire: Wire, sequence: int, *, transactional: bool = True, acks: int = -1
) -> int:
    """The error of one more batch of the producer, on its connection."""
    identity = {
        "producer_id": client.pair[0],
        "producer_epoch": client.pair[1],
        "base_sequence": sequence,
        "transactional": True,
    }
    records = batch(b"v", **(identity if transactional else {}))
    return int(
        produced(
            wire.ask(PRODUCE, produce("t", records, acks=acks, transactional_id="x"), 12)
        ).error_code
    )
