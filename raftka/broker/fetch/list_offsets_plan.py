"""The short way of ListOffsets for the ends of one partition: Spark asks for both after every poll,
and its requests differ in the timestamp alone.

A plan is made after such a request was answered the long way. A request that looks different, or
whose answer is an error, goes the long way again.
"""

from struct import Struct
from typing import TYPE_CHECKING

from raftka.broker.network.access.authorizer import TOPIC
from raftka.broker.network.connection import ServerConnection
from raftka.broker.network.plan_layout import HEAD_END, positions_in_answer
from raftka.broker.replica.partition import Partition
from raftka.wire.messages.fetch import READ_COMMITTED
from raftka.wire.messages.list_offsets import EARLIEST, LATEST, LIST_OFFSETS, ListOffsetsRequest

if TYPE_CHECKING:
    from raftka.broker.network.request import Request

TIMESTAMP = Struct(">q")
OFFSET_AND_EPOCH = Struct(">qi")


def remember(request: "Request[ListOffsetsRequest]", partition: Partition) -> None:
    """Make a plan from a consumer's request for one end of one partition, which its leader has
    answered.
    """
    if (
        request.connection.worth_a_plan(LIST_OFFSETS.key)
        and (plan := EndsPlan.of(request, partition)) is not None
    ):
        request.connection.plans[LIST_OFFSETS.key] = plan


class EndsPlan:
    __slots__ = (
        "isolated",
        "latency",
        "leader",
        "partition",
        "post",
        "pre",
        "prefix",
        "resource",
        "suffix",
        "timestamp_at",
        "version",
    )
    operation = "DESCRIBE"

    def __init__(
        self, request: "Request[ListOffsetsRequest]", partition: Partition, timestamp_at: int
    ) -> None:
        self.version = request.version
        self.latency = request.dispatcher.metrics.latency(LIST_OFFSETS.name)
        self.resource = (TOPIC, partition.topic)
        self.partition = partition
        self.leader = partition.leader
        self.isolated = request.body.isolation_level == READ_COMMITTED
        self.timestamp_at = timestamp_at
        self.prefix = bytes(request.frame[HEAD_END:timestamp_at])
        self.suffix = bytes(request.frame[timestamp_at + 8 :])
        self.pre, self.post = self._layout(request, partition)

    @classmethod
    def of(cls, request: "Request[ListOffsetsRequest]", partition: Partition) -> "EndsPlan | None":
        (timestamps,) = LIST_OFFSETS.request_positions(
            request.version, request.frame, request.body_position, "topics.partitions.timestamp"
        )
        return cls(request, partition, timestamps[0]) if len(timestamps) == 1 else None

    @staticmethod
    def _layout(
        request: "Request[ListOffsetsRequest]", partition: Partition
    ) -> tuple[bytes, bytes]:
        """Return the bytes of an answer before and behind the offset and, from v4 on, the leader
        epoch.
        """
        rows = LIST_OFFSETS.response.topics
        row = rows.partitions(partition_index=partition.index)
        (sample,) = request.encode(
            LIST_OFFSETS.response(topics=[rows(name=partition.topic, partitions=[row])])
        )
        assert isinstance(sample, bytes)
        ((at,),) = positions_in_answer(
            LIST_OFFSETS, request.version, sample, "topics.partitions.offset"
        )
        return sample[8:at], sample[at + (12 if request.version >= 4 else 8) :]

    def run(self, connection: ServerConnection, frame: memoryview, correlation_id: int) -> bool:
        """Answer the request; return False if it must go the long way."""
        at, partition, leader = self.timestamp_at, self.partition, self.leader
        if (
            len(frame) != at + 8 + len(self.suffix)
            or frame[HEAD_END:at] != self.prefix
            or frame[at + 8 :] != self.suffix
        ):
            return False
        if leader is None or partition.leader is not leader or partition.log.held is not None:
            return False
        (timestamp,) = TIMESTAMP.unpack_from(frame, at)
        epoch = leader.leader_epoch
        if timestamp == LATEST and leader.knows_its_end:
            offset = partition.last_stable_offset if self.isolated else leader.high_watermark
        elif timestamp == EARLIEST:
            offset = partition.log.start_offset
            known = partition.log.epoch_of(offset)
            epoch = known if known >= 0 else epoch
        else:
            return False
        numbers = (
            OFFSET_AND_EPOCH.pack(offset, epoch) if self.version >= 4 else TIMESTAMP.pack(offset)
        )
        body = self.pre + numbers + self.post
        head = (4 + len(body)).to_bytes(4, "big") + correlation_id.to_bytes(4, "big", signed=True)
        connection.answer((head + body,), 8 + len(body))
        return True
