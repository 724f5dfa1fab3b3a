"""DeleteRecords: v0-2; raise the start of a log. The answer waits until all living replicas have
raised theirs too, so that no later leader has the deleted records.

The starts of logs are written down with the next checkpoint, as in Kafka; the next retention
removes the files.
"""

from raftka.broker.context import MetadataCache
from raftka.broker.coordinators.topics import INTERNAL_TOPICS
from raftka.broker.handlers.by_topic import rows_by_topic
from raftka.broker.handlers.parts import ReplicaParts
from raftka.broker.network.dispatch import handles
from raftka.broker.network.request import Delayed, Request
from raftka.broker.replica.finding import check, find
from raftka.broker.replica.manager import ReplicaManager
from raftka.broker.replica.partition import Partition
from raftka.broker.work.long_work import Steps
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.delete_records import (
    DELETE_RECORDS,
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)

response = DELETE_RECORDS.response
partition_row = response.topics.partitions
UNKNOWN = -1


def _refused(request: Request[DeleteRecordsRequest], code: Code) -> Steps[DeleteRecordsResponse]:
    def partition(
        _: DeleteRecordsTopic, asked: DeleteRecordsPartition
    ) -> DeleteRecordsPartitionResult:
        return partition_row(
            partition_index=asked.partition_index, low_watermark=UNKNOWN, error_code=int(code)
        )

    return response(
        topics=(yield from rows_by_topic(request, response.topics, request.body.topics, partition))
    )


@handles(DELETE_RECORDS, refused=_refused)
def delete_records(
    request: Request[DeleteRecordsRequest], metadata: MetadataCache, replicas: ReplicaParts
) -> Steps[DeleteRecordsResponse | Delayed]:
    return (yield from _Deletion(request, metadata, replicas.manager).run())


class _Deletion:
    """One request: each partition's row, some of which wait for replicas."""

    def __init__(
        self,
        request: Request[DeleteRecordsRequest],
        metadata: MetadataCache,
        replicas: ReplicaManager,
    ) -> None:
        self.request = request
        self.metadata, self.replicas = metadata, replicas
        self.topics: dict[str, dict[int, DeleteRecordsPartitionResult]] = {}
        # partitions that wait, with the offset that the low watermark must reach
        self.late: dict[Partition, tuple[DeleteRecordsPartitionResult, int]] = {}
        self.waiting = 1  # partitions, and the request itself until all of them wait
        self.pending: Delayed | None = None
        self.deadline = (
            request.dispatcher.context.runtime.clock.now() + max(0, request.body.timeout_ms) / 1000
        )

    def run(self) -> Steps[DeleteRecordsResponse | Delayed]:
        for topic in self.request.body.topics:
            rows = self.topics.setdefault(topic.name, {})
            for partition in topic.partitions:
                rows[partition.partition_index] = self._partition(
                    topic.name, partition.partition_index, partition.offset
                )
                yield
            yield
        for late, (row, start) in self.late.items():
            self._wait(late, row, start)
            yield
        self.waiting -= 1
        if not self.waiting:
            return (yield from self._row())
        self.pending = Delayed(self.request)
        return self.pending

    def _partition(self, topic: str, index: int, offset: int) -> DeleteRecordsPartitionResult:
        row = partition_row(partition_index=index, low_watermark=UNKNOWN, error_code=0)
        try:
            check(self.request, "DELETE", topic)
            if topic in INTERNAL_TOPICS and self.metadata.image.topic_named(topic) is not None:
                raise KafkaError(Code.INVALID_TOPIC_EXCEPTION)
            partition = find(self.request, self.replicas, "DELETE", topic, index)
            start = partition.delete_before(offset)
        except KafkaError as error:
            row.error_code = int(error.code)
            return row
        row.low_watermark = partition.low_watermark
        if row.low_watermark < start:
            # of a partition that is named twice the last offset counts
            self.late[partition] = row, start
        return row

    def _wait(self, partition: Partition, row: DeleteRecordsPartitionResult, start: int) -> None:
        """Wait for the replicas, or complete the row with an error if this broker does not lead any
        more: other requests may have been served since `_partition`.
        """
        self.waiting += 1
        wait = _Wait(self, partition, row)
        if partition.leader is not None:
            partition.wait_for_low_watermark(start, self.deadline, wait)
        elif self.replicas.partitions.get((partition.topic, partition.index)) is partition:
            wait.complete(Code.NOT_LEADER_OR_FOLLOWER)
        else:
            wait.complete(Code.UNKNOWN_TOPIC_OR_PARTITION)

    def partition_done(self) -> None:
        self.waiting -= 1
        if not self.waiting and self.pending is not None:
            self.request.dispatcher.long_work.run(
                self.request.api.name, self._row(), self.pending.settle, failed=self.request.fail
            )

    def _row(self) -> Steps[DeleteRecordsResponse]:
        topics = self.request.encoded_rows(response.topics)
        for name, rows in self.topics.items():
            partitions = self.request.encoded_rows(partition_row)
            for row in rows.values():
                partitions.add(row)
                yield
            topics.add(response.topics(name=name, partitions=partitions))
            yield
        return response(topics=topics)


class _Wait:
    """One partition of a request that waits for its replicas."""

    __slots__ = ("partition", "row", "run")

    def __init__(
        self, run: _Deletion, partition: Partition, row: DeleteRecordsPartitionResult
    ) -> None:
        self.run = run
        self.partition = partition
        self.row = row

    def complete(self, code: Code) -> None:
        self.row.error_code = int(code)
        if code is Code.NONE:
            self.row.low_watermark = self.partition.low_watermark
        self.run.partition_done()
