"""DeleteRecords: v0-2; a log starts later from now on. Waits until all replicas that live have said that theirs does: none can lead with more.

Where logs start is written down with the next checkpoint, as in Kafka; the files go with the next retention.
"""

from collections import deque
from typing import TYPE_CHECKING

from raftka.broker.dispatch import Pending, Request, handles
from raftka.broker.handlers.finding import check, find
from raftka.broker.handlers.metadata import INTERNAL_TOPICS
from raftka.broker.partition_host import PartitionHost
from raftka.runtime.door import Timer
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.delete_records import DELETE_RECORDS
from raftka.wire.schema import Row

if TYPE_CHECKING:
    from raftka.broker.node import Node

response = DELETE_RECORDS.response
partition_row = response.topics.partitions
UNKNOWN = -1
OF_TURN = 200  # partitions: some 2 ms


def _refused(request: Request, code: Code) -> Row:
    topics = []
    for topic in request.body.topics:
        rows = [partition_row(partition_index=each.partition_index, low_watermark=UNKNOWN, error_code=int(code)) for each in topic.partitions]
        topics.append(response.topics(name=topic.name, partitions=rows))
    return request.answer(topics=topics)


@handles(DELETE_RECORDS, refused=_refused)
def delete_records(request: Request, node: "Node") -> Row | Pending:
    return _Deletion(request, node).run()


class _Deletion:
    """One request: each partition's row, and whose replicas it still waits for."""

    def __init__(self, request: Request, node: "Node") -> None:
        self.request = request
        self.node = node
        self.topics: dict[str, dict[int, Row]] = {topic.name: {} for topic in request.body.topics}
        self.left = deque((topic.name, partition) for topic in request.body.topics for partition in topic.partitions)
        self.waiting: dict[PartitionHost, tuple[Row, int]] = {}  # what the low watermark must come to
        self.pending: Pending | None = None
        self.timer: Timer | None = None

    def run(self) -> Row | Pending:
        """Some partitions now; of thousands the rest in turns to come."""
        began = self.node.runtime.clock.now()
        self._some()
        if not self.left and not self.waiting:
            return self._row()
        self.pending = Pending(self.request)
        self._go_on(began)
        return self.pending

    def _some(self) -> None:
        for _ in range(min(len(self.left), OF_TURN)):
            topic, partition = self.left.popleft()
            self.topics[topic][partition.partition_index] = self._partition(topic, partition.partition_index, partition.offset)

    def _go_on(self, began: float) -> None:
        clock = self.node.runtime.clock
        for host in self.waiting:
            host.deletions[self] = None
        if self.left:
            clock.call_at(clock.now(), lambda: self._next_turn(began))
        elif self.waiting:
            self.timer = clock.call_at(max(clock.now(), began + max(0, self.request.body.timeout_ms) / 1000), self._finish)
        else:
            self._finish()

    def _next_turn(self, began: float) -> None:
        try:
            self._some()
        except Exception as error:
            self.left.clear()
            if self.pending is not None:
                self.pending.broken(error)
        self._go_on(began)

    def _partition(self, topic: str, index: int, offset: int) -> Row:
        row = partition_row(partition_index=index, low_watermark=UNKNOWN, error_code=0)
        try:
            check(self.request, "DELETE", topic)
            if topic in INTERNAL_TOPICS and self.node.image.topic_named(topic) is not None:
                raise KafkaError(Code.INVALID_TOPIC_EXCEPTION)
            host = find(self.request, self.node, "DELETE", topic, index)
            start = host.delete_before(offset)
        except KafkaError as error:
            row.error_code = int(error.code)
            return row
        row.low_watermark = host.low_watermark
        if row.low_watermark < start:
            row.error_code = int(Code.REQUEST_TIMED_OUT)  # so it is, until the replicas have told
            self.waiting[host] = (row, start)
        return row

    def look(self, host: PartitionHost) -> None:
        """Some replica of the partition told where its log starts, or which replicas live has changed, or who leads."""
        row, start = self.waiting[host]
        try:
            host.leading()
            if host.low_watermark < start:
                return
            row.low_watermark, row.error_code = host.low_watermark, 0
        except KafkaError as error:
            gone = self.node.replicas.hosts.get((host.topic, host.index)) is not host
            row.error_code = int(Code.UNKNOWN_TOPIC_OR_PARTITION if gone else error.code)
        del self.waiting[host]
        host.deletions.pop(self, None)
        if not self.waiting and not self.left:
            self._finish()

    def _finish(self) -> None:
        for host in self.waiting:
            host.deletions.pop(self, None)
        if self.timer is not None:
            self.timer.cancel()
        if self.pending is not None:
            self.pending.complete(self._row())

    def _row(self) -> Row:
        return response(topics=[response.topics(name=name, partitions=list(rows.values())) for name, rows in self.topics.items()])
