"""The short way of OffsetCommit: successive commits of a consumer differ only in correlation id and
offsets, so the rest is compared, not decoded.

A plan is made from a short request for few partitions that goes the long way. A request that looks
different goes the long way again. The coordinator decides on each of them.
"""

from collections.abc import Iterable
from itertools import chain, repeat
from struct import Struct
from typing import TYPE_CHECKING

from raftka.broker.context import MetadataCache
from raftka.broker.coordinators.partition import LOADED
from raftka.broker.coordinators.runtime import CoordinatorRuntime
from raftka.broker.network.access.authorizer import GROUP, TOPIC
from raftka.broker.network.connection import ServerConnection, Slot
from raftka.broker.network.dispatch import LONG_FRAME_BYTES
from raftka.broker.network.plan_layout import HEAD_END
from raftka.coordinator.commands import (
    CommitOffsets,
    CommitPartition,
    CommitTopic,
    OffsetsCommitted,
)
from raftka.wire.codec import Piece
from raftka.wire.errors import Code, KafkaError
from raftka.wire.frame import encode_response
from raftka.wire.messages.offsets import OFFSET_COMMIT, OffsetCommitRequest

if TYPE_CHECKING:
    from raftka.broker.network.request import Request

# at most, in a request with a plan; the plan keeps the request, so a long one gets none
PARTITIONS = 100
OFFSET = "topics.partitions.committed_offset"
HEAD = Struct(">ii")  # of an answer: size, correlation id

response = OFFSET_COMMIT.response
topic_row, partition_row = response.topics, response.topics.partitions


def remember(
    request: "Request[OffsetCommitRequest]",
    command: CommitOffsets,
    runtime: CoordinatorRuntime,
    metadata: MetadataCache,
) -> None:
    """Make a plan from a request that is one command, of which no topic was refused."""
    count = sum([len(topic.partitions) for topic in command.topics])
    named = all(topic.name is not None for topic in command.topics)
    short = 0 < len(request.frame) <= LONG_FRAME_BYTES
    if (
        short
        and named
        and 0 < count <= PARTITIONS
        and request.connection.worth_a_plan(OFFSET_COMMIT.key)
    ):
        request.connection.plans[OFFSET_COMMIT.key] = CommitPlan(
            request, command, runtime, metadata
        )


class CommitPlan:
    __slots__ = (
        "_answer",
        "_command",
        "_done",
        "_fixed",
        "_ids",
        "_layout",
        "_metadata",
        "_rows",
        "_runtime",
        "_topics",
        "latency",
        "resource",
        "version",
    )
    operation = "READ"

    def __init__(
        self,
        request: "Request[OffsetCommitRequest]",
        command: CommitOffsets,
        runtime: CoordinatorRuntime,
        metadata: MetadataCache,
    ) -> None:
        self.version = request.version
        self.latency = request.dispatcher.metrics.latency(OFFSET_COMMIT.name)
        self.resource = (GROUP, command.group_id)
        self._runtime = runtime
        self._metadata = metadata
        self._command = command
        self._topics = [(TOPIC, str(topic.name)) for topic in command.topics]
        self._ids = (
            {topic.topic_id for topic in request.body.topics} if request.version >= 10 else set()
        )
        self._layout = self._layout_of(request)
        self._fixed = self._layout.unpack(request.frame)[::2]
        self._rows = [
            (topic.name, topic.topic_id, [each.partition_index for each in topic.partitions])
            for topic in request.body.topics
        ]
        self._done = OffsetsCommitted(
            tuple([(Code.NONE,) * len(topic.partitions) for topic in command.topics])
        )
        self._answer = b"".join(self._encoded(repeat(Code.NONE), 0))[HEAD.size :]  # type: ignore[arg-type]

    @staticmethod
    def _layout_of(request: "Request[OffsetCommitRequest]") -> Struct:
        """Return the layout of a frame behind its head: bytes that are the same each time, with the
        offsets in between.
        """
        (positions,) = OFFSET_COMMIT.request_positions(
            request.version, request.frame, request.body_position, OFFSET
        )
        parts, at = [f">{HEAD_END}x"], HEAD_END
        for position in positions:
            parts.append(f"{position - at}sq")
            at = position + 8
        return Struct("".join([*parts, f"{len(request.frame) - at}s"]))

    def run(self, connection: ServerConnection, frame: memoryview, correlation_id: int) -> bool:
        """Submit the commit; return False if the request must go the long way."""
        if len(frame) != self._layout.size:
            return False
        values = self._layout.unpack(frame)
        if values[::2] != self._fixed or not self._may_commit(connection):
            return False
        try:
            coordinator = self._runtime.find(self._command.group_id)
        except KafkaError:
            return False
        if coordinator.state not in LOADED:
            return False
        coordinator.submit(
            self._command_with(values[1::2]), CommitWait(self, connection.slot(), correlation_id)
        )
        return True

    def _may_commit(self, connection: ServerConnection) -> bool:
        """Return whether the client may read the topics, and those that it names by id are still
        there. It is checked each time.
        """
        allowed, session = connection.dispatcher.authorizer.allowed, connection.session
        for topic in self._topics:
            if not allowed(session, "READ", topic):
                return False
        return not self._ids or self._ids <= self._metadata.image.topics.keys()

    def _command_with(self, offsets: tuple[int, ...]) -> CommitOffsets:
        command = self._command
        found = iter(offsets)
        topics = [
            CommitTopic(
                name,
                tuple(
                    [CommitPartition(each[0], next(found), each[2], each[3]) for each in partitions]
                ),
            )
            for name, partitions in command.topics
        ]
        return CommitOffsets(
            command.group_id,
            command.generation_id,
            command.member_id,
            command.instance_id,
            tuple(topics),
            command.retention_ms,
            command.may_say_not_found,
        )

    def answer(self, answer: OffsetsCommitted | KafkaError, correlation_id: int) -> list[Piece]:
        if answer == self._done:
            return [HEAD.pack(4 + len(self._answer), correlation_id) + self._answer]
        codes = (
            repeat(answer.code)
            if isinstance(answer, KafkaError)
            else chain.from_iterable(answer.errors)
        )
        return self._encoded(codes, correlation_id)

    def _encoded(self, codes: Iterable[Code], correlation_id: int) -> list[Piece]:
        found = iter(codes)
        topics = [
            topic_row(
                name=name,
                topic_id=topic_id,
                partitions=[
                    partition_row(partition_index=each, error_code=int(next(found)))
                    for each in indexes
                ],
            )
            for name, topic_id, indexes in self._rows
        ]
        return encode_response(OFFSET_COMMIT, self.version, correlation_id, response(topics=topics))


class CommitWait:
    """The ticket of a commit that came by the short way."""

    __slots__ = ("correlation_id", "plan", "slot")

    def __init__(self, plan: CommitPlan, slot: Slot, correlation_id: int) -> None:
        self.plan = plan
        self.slot = slot
        self.correlation_id = correlation_id

    def __call__(self, answer: OffsetsCommitted | KafkaError) -> None:
        self.slot.complete(self.plan.answer(answer, self.correlation_id))

    @property
    def over(self) -> bool:
        """Return whether the request is answered, or its connection has gone."""
        return self.slot.parts is not None or self.slot.connection.gone
