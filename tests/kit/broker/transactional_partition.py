"""A partition whose producers' transactions a scripted coordinator verifies."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.fetch import FETCH, READ_COMMITTED, PartitionData
from raftka.wire.messages.produce import PRODUCE, PartitionProduceResponse
from raftka.wire.messages.transactions import WRITE_TXN_MARKERS
from raftka.wire.records import CONTROL, TRANSACTIONAL, iterate, records_of
from tests.broker.requests import batch, fetch, fetched, produce, produced
from tests.broker.stage import Stage

TV1, TV2 = 11, 12  # versions of Produce
Key = tuple[str, int]


class Coordinator:
    """Answers questions about transactions as it is told."""

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.code = Code.NONE
        self.asked: list[tuple[str, tuple[int, int], list[Key], bool]] = []
        self.held: list[Callable[[], None]] | None = None

    def coordinator_of(self, transactional_id: str) -> int:
        return self.node_id

    def add_partitions(
        self,
        transactional_id: str,
        producer: tuple[int, int],
        partitions: Sequence[Key],
        done: Callable[[Mapping[Key, Code] | KafkaError], None],
        *,
        verify_only: bool,
    ) -> None:
        self.asked.append((transactional_id, producer, list(partitions), verify_only))
        answer = dict.fromkeys(partitions, self.code)
        if self.held is None:
            done(answer)
        else:
            self.held.append(lambda: done(answer))


class Scene:
    def __init__(self, stage: Stage, node_id: int = 1) -> None:
        self.stage = stage
        self.coordinator = Coordinator(node_id)
        stage.nodes[node_id].services.verifier._coordinators = self.coordinator
        self.line = stage.wire(node_id)

    def request(
        self,
        *values: bytes,
        sequence: int = 0,
        epoch: int = 0,
        partition: int = 0,
        transactional: bool = True,
        producer_id: int = 7,
        **fields: Any,
    ) -> Any:
        records = batch(
            *values,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=transactional,
        )
        return produce("t", records, partition, transactional_id="tx", **fields)

    def send(self, *values: bytes, version: int = TV2, **fields: Any) -> PartitionProduceResponse:
        return produced(self.line.ask(PRODUCE, self.request(*values, **fields), version))

    def mark(
        self,
        *,
        commit: bool,
        epoch: int = 0,
        version: int = 1,
        partitions: Sequence[int] = (0,),
        coordinator_epoch: int = 0,
        topic: str = "t",
    ) -> list[Code]:
        rows = WRITE_TXN_MARKERS.request.markers
        marker = rows(
            producer_id=7,
            producer_epoch=epoch,
            transaction_result=commit,
            coordinator_epoch=coordinator_epoch,
            transaction_version=version,
            topics=[rows.topics(name=topic, partition_indexes=list(partitions))],
        )
        (answer,) = (
            self.stage.wire()
            .ask(WRITE_TXN_MARKERS, WRITE_TXN_MARKERS.request(markers=[marker]))
            .markers
        )
        return [Code(row.error_code) for topic in answer.topics for row in topic.partitions]

    def read(self, offset: int = 0, **fields: Any) -> PartitionData:
        return fetched(
            self.stage.wire().ask(
                FETCH, fetch("t", offset, isolation_level=READ_COMMITTED, **fields), 12
            )
        )

    def committed(self) -> list[bytes | None]:
        """Return the values that a reader of committed records takes from one answer."""
        row = self.read()
        return values_of(row)


def values_of(row: PartitionData) -> list[bytes | None]:
    starts = sorted(
        (each.first_offset, each.producer_id) for each in row.aborted_transactions or ()
    )
    values: list[bytes | None] = []
    aborting: set[int] = set()
    for header, data in iterate(memoryview(bytes(row.records or b""))):
        while starts and starts[0][0] <= header.last_offset:
            aborting.add(starts.pop(0)[1])
        if header.attributes & CONTROL:
            (marker,) = records_of(data)
            if marker.key == b"\0\0\0\0":
                aborting.discard(header.producer_id)
        elif not (header.attributes & TRANSACTIONAL and header.producer_id in aborting):
            values += [record.value for record in records_of(data)]
    return values
