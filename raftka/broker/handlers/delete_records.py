"""DeleteRecords: v0-2; a log starts later from now on. Waits until all replicas that live have said that theirs does: none can lead with more.

Where logs start is written down with the next checkpoint, as in Kafka; the files go with the next retention.
"""

from functools import partial

from raftka.broker.handlers.by_topic import rows_by_topic
from raftka.broker.handlers.finding import check, find
from raftka.broker.handlers.metadata import INTERNAL_TOPICS
from raftka.broker.handlers.services import Services
from raftka.broker.network.dispatch import Pending, Request, handles
from raftka.broker.network.long_work import Steps
from raftka.broker.replica.partition import Partition
from raftka.runtime.interfaces import Timer
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
    def partition(_: DeleteRecordsTopic, asked: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
        return partition_row(partition_index=asked.partition_index, low_watermark=UNKNOWN, error_code=int(code))

    return response(topics=(yield from rows_by_topic(request, response.topics, request.body.topics, partition)))


@handles(DELETE_RECORDS, refused=_refused)
def delete_records(request: Request[DeleteRecordsRequest], services: Services) -> Steps[DeleteRecordsResponse | Pending]:
    return (yield from _Deletion(request, services).run())


class _Deletion:
    """One request: each partition's row, and whose replicas it still waits for."""

    def __init__(self, request: Request[DeleteRecordsRequest], services: Services) -> None:
        self.request = request
        self.services = services
        self.topics: dict[str, dict[int, DeleteRecordsPartitionResult]] = {}
        self.waiting: dict[Partition, tuple[DeleteRecordsPartitionResult, int]] = {}  # what the low watermark must come to
        self.pending: Pending | None = None
        self.timer: Timer | None = None

    def run(self) -> Steps[DeleteRecordsResponse | Pending]:
        began = self.services.context.runtime.clock.now()
        for topic in self.request.body.topics:
            rows = self.topics.setdefault(topic.name, {})
            for partition in topic.partitions:
                rows[partition.partition_index] = self._partition(topic.name, partition.partition_index, partition.offset)
                yield
            yield
        for host in list(self.waiting):
            if host in self.waiting:
                host.deletions[self] = None
                self.look(host)  # it may have come so far while the others were looked at
            yield
        if not self.waiting:
            return (yield from self._row())
        self.pending = Pending(self.request)
        clock = self.services.context.runtime.clock
        self.timer = clock.call_at(max(clock.now(), began + max(0, self.request.body.timeout_ms) / 1000), self._finish)
        return self.pending

    def _partition(self, topic: str, index: int, offset: int) -> DeleteRecordsPartitionResult:
        row = partition_row(partition_index=index, low_watermark=UNKNOWN, error_code=0)
        try:
            check(self.request, "DELETE", topic)
            if topic in INTERNAL_TOPICS and self.services.metadata.image.topic_named(topic) is not None:
                raise KafkaError(Code.INVALID_TOPIC_EXCEPTION)
            host = find(self.request, self.services, "DELETE", topic, index)
            start = host.delete_before(offset)
        except KafkaError as error:
            row.error_code = int(error.code)
            return row
        row.low_watermark = host.low_watermark
        if row.low_watermark < start:
            row.error_code = int(Code.REQUEST_TIMED_OUT)  # so it is, until the replicas have told
            self.waiting[host] = (row, start)
        return row

    def look(self, host: Partition) -> None:
        """Some replica of the partition told where its log starts, or which replicas live has changed, or who leads."""
        row, start = self.waiting[host]
        try:
            host.leading()
            if host.low_watermark < start:
                return
            row.low_watermark, row.error_code = host.low_watermark, 0
        except KafkaError as error:
            gone = self.services.replicas.hosts.get((host.topic, host.index)) is not host
            row.error_code = int(Code.UNKNOWN_TOPIC_OR_PARTITION if gone else error.code)
        del self.waiting[host]
        host.deletions.pop(self, None)
        if not self.waiting:
            self._finish()

    def _finish(self) -> None:
        for host in self.waiting:
            host.deletions.pop(self, None)
        if self.timer is not None:
            self.timer.cancel()
        if self.pending is not None:
            dispatcher = self.services.dispatcher
            failed = partial(dispatcher.request_failed, self.request)
            dispatcher.long_work.run(self.request.api.name, self._row(), self.pending.settle, failed=failed)

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
