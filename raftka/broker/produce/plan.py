"""The short way of a Produce: successive requests of a producer differ only in correlation id and
records, so the rest is compared, not decoded.

A plan is made after a request with one partition was answered the long way. A request that looks
different, or fails, goes the long way again. Batches are appended as there (append.py). The
message's compiler says where the records begin in each version, and where the numbers of an encoded
answer stand (`Api.request_positions`).
"""

import sys
from collections.abc import Sequence
from struct import Struct
from typing import TYPE_CHECKING, cast

from raftka.broker.context import BrokerContext
from raftka.broker.network.access.authorizer import TOPIC, TRANSACTIONAL_ID, Resource
from raftka.broker.network.connection import ServerConnection, Slot
from raftka.broker.network.plan_layout import HEAD_END, positions_in_answer, varint_at
from raftka.broker.produce.append import append_batches, append_uniform_batches
from raftka.broker.produce.uniform_batches import UniformRequests
from raftka.broker.replica.partition import Partition
from raftka.limits import REQUESTS_IN_HAND
from raftka.runtime.memory import NO_BYTES
from raftka.wire.codec import Piece, varint
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.produce import PRODUCE, ProduceRequest
from raftka.wire.records import (
    ATTRIBUTES_POSITION,
    BATCH_HEADER_BYTES,
    COMPRESSION_MASK,
    CRC_POSITION,
    TRANSACTIONAL,
)

if TYPE_CHECKING:
    from raftka.broker.network.request import Request

CORRELATION = Struct(">i")
INT64 = Struct(">q")
KEY_AND_VERSION = Struct(">hh")
NO_APPEND_TIME = INT64.pack(-1)
LARGEST_UNIFORM_BYTES = 4096  # of a request: the records of larger ones are not copied
# in one piece, fewer than REQUESTS_IN_HAND: each number of them needs Structs of its own
MOST_UNIFORM = 32
# pieces without an attempt, once `run_uniform` has left one out: the next ones are likely to be no
# better
SKIPPED_PIECES = 16
UNKNOWN = sys.maxsize  # more bytes than come
# nothing behind the records in a flexible version: of the partition, the topic, the request
NO_TAGS = b"\0\0\0"
ZSTD = 4


def remember(
    request: "Request[ProduceRequest]", partition: Partition, context: BrokerContext
) -> None:
    """Make a plan from a request for one partition that was appended."""
    connection = request.connection
    known = connection.plans.get(PRODUCE.key)
    if (
        isinstance(known, ProducePlan)
        and known.leader is partition.leader
        and known.version == request.version
    ):
        return
    if (
        connection.worth_a_plan(PRODUCE.key)
        and (plan := ProducePlan.of(request, partition, context)) is not None
    ):
        connection.plans[PRODUCE.key] = plan
        connection.pipeline = plan if plan.acks == 1 else None


class ProducePlan:
    __slots__ = (
        "_pieces_to_skip",
        "_size",
        "_uniform",
        "acks",
        "answer",
        "answer_bytes",
        "clock",
        "flexible",
        "front",
        "key_and_version",
        "latency",
        "leader",
        "partition",
        "post",
        "pre",
        "prefix",
        "request",
        "resource",
        "shortest",
        "tail",
        "timeout_s",
        "transactional",
        "uniform_bytes",
        "version",
    )
    operation = "WRITE"

    def __init__(
        self,
        request: "Request[ProduceRequest]",
        partition: Partition,
        context: BrokerContext,
        prefix: bytes,
        flexible: bool,
    ) -> None:
        self.request = request  # of its kind: for errors, which are encoded the long way
        self.partition = partition
        self.resource = (TOPIC, partition.topic)
        self.leader = partition.leader
        self.version = request.version
        self.key_and_version = KEY_AND_VERSION.pack(PRODUCE.key, request.version)
        self.acks: int = request.body.acks
        transactional_id = request.body.transactional_id
        self.transactional: Resource | None = (
            None if transactional_id is None else (TRANSACTIONAL_ID, transactional_id)
        )
        self.timeout_s = request.body.timeout_ms / 1000
        self.clock = context.runtime.clock
        self.latency = context.metrics.latency(PRODUCE.name)
        self.prefix = prefix
        # key and version, correlation id, prefix, bytes of records
        self.front = Struct(f">4si{len(prefix)}s{'' if flexible else 'i'}")
        self.shortest = self.front.size + BATCH_HEADER_BYTES
        self.flexible = flexible
        self.tail = 3 if flexible else 0
        self.pre, self.post = self._layout(request, partition)
        ending_bytes = len(self.post) + (8 if self.version >= 5 else 0)
        layout = Struct(f">ii{len(self.pre)}sqq{ending_bytes}s")
        self.answer, self.answer_bytes = layout.pack, layout.size - 4
        self._size = self.answer_bytes.to_bytes(4)
        self.uniform_bytes = UNKNOWN  # of the requests that `run_uniform` takes
        self._uniform: UniformRequests | None = None
        self._pieces_to_skip = 0  # they go to `run_many` without an attempt at `run_uniform`

    @classmethod
    def of(
        cls, request: "Request[ProduceRequest]", partition: Partition, context: BrokerContext
    ) -> "ProducePlan | None":
        flexible = request.version in PRODUCE.flexible
        records = request.body.topic_data[0].partition_data[0].records
        frame = request.frame
        if not frame or records is None:
            return None  # it went with its turn, while the batch was made anew
        ((at,),) = PRODUCE.request_positions(
            request.version, frame, request.body_position, "topic_data.partition_data.records"
        )
        end = at + (len(varint(len(records) + 1)) if flexible else 4) + len(records)
        if frame[end:] != (NO_TAGS if flexible else b""):
            return None  # tags behind the records, or bytes behind the request
        prefix = bytes(frame[HEAD_END:at])
        request.frame = NO_BYTES  # it lives as long as the plan
        request.body.topic_data[0].partition_data[0].records = None
        return cls(request, partition, context, prefix, flexible)

    @staticmethod
    def _layout(request: "Request[ProduceRequest]", partition: Partition) -> tuple[bytes, bytes]:
        """Return the bytes of an answer between its correlation id and its base offset, and those
        behind the log's start offset.
        """
        topic = request.body.topic_data[0]
        rows = PRODUCE.response.responses
        row = rows.partition_responses(index=partition.index)
        (sample,) = request.encode(
            PRODUCE.response(
                responses=[
                    rows(name=topic.name, topic_id=topic.topic_id, partition_responses=[row])
                ]
            )
        )
        assert isinstance(sample, bytes)
        ((at,),) = positions_in_answer(
            PRODUCE, request.version, sample, "responses.partition_responses.base_offset"
        )
        return sample[8:at], sample[at + (24 if request.version >= 5 else 16) :]

    def pack(self, correlation_id: int, base: int, time_ms: int) -> bytes:
        """Return the bytes of an answer."""
        return self.answer(
            self.answer_bytes,
            correlation_id,
            self.pre,
            base,
            time_ms,
            INT64.pack(self.partition.log.start_offset) + self.post
            if self.version >= 5
            else self.post,
        )

    def refused(self, code: Code, correlation_id: int) -> list[Piece]:
        """Return the answer to a request that was appended and whose wait ended in an error."""
        request = self.request
        topic = request.body.topic_data[0]
        rows = PRODUCE.response.responses
        row = rows.partition_responses(
            index=self.partition.index, error_code=int(code), base_offset=-1
        )
        parts = request.encode(
            PRODUCE.response(
                responses=[
                    rows(name=topic.name, topic_id=topic.topic_id, partition_responses=[row])
                ]
            )
        )
        head = bytearray(cast(bytes, parts[0]))
        CORRELATION.pack_into(head, 4, correlation_id)
        return [head, *parts[1:]]

    def run(self, connection: ServerConnection, frame: memoryview, correlation_id: int) -> bool:
        partition, leader = self.partition, self.leader
        found = self._batch(connection, frame)
        if found is None or leader is None or partition.leader is not leader:
            return False
        try:
            ((base, following, time_ms, _),) = append_batches(
                partition, (found[0],), self.acks, self.clock.wall_ms(), connection
            )
        except KafkaError:
            return False  # nothing was done: the long way meets the error again, and answers it
        if self.acks == -1:
            wait = _Wait(self, connection.slot(), correlation_id, base, time_ms)
            partition.wait_for_commit(following, connection.received_s + self.timeout_s, wait)
        elif self.acks == 1:
            answer = self.pack(correlation_id, base, time_ms)
            log = partition.log
            # Partition.answers_after_flush, without its call
            if len(leader.isr) == 1 and log.syncs and following > log.flushed_offset:
                partition.wait_for_flush(following, _FlushWait(self, connection.slot(), [answer]))
            else:
                connection.answer((answer,), len(answer))
        return True

    def run_many(self, connection: ServerConnection, frames: Sequence[memoryview]) -> int:
        """Answer requests of a producer that does not wait for each answer (acks=1). Return how
        many from the front are answered.
        """
        partition, log, leader, batch_of = (
            self.partition,
            self.partition.log,
            self.leader,
            self._batch,
        )
        if leader is None or partition.leader is not leader:
            return 0
        if len(frames) > 1 and len(frames[0]) == len(frames[-1]):
            if self._pieces_to_skip:
                self._pieces_to_skip -= 1
            else:
                self._expect_uniform(connection, frames[0])
        waits = len(leader.isr) == 1 and log.syncs  # as in `run`
        batches: list[memoryview] = []
        correlation_ids: list[int] = []
        for frame in frames[: REQUESTS_IN_HAND.value] if waits else frames:
            found = batch_of(connection, frame)
            if found is None:
                break
            batches.append(found[0])
            correlation_ids.append(found[1])
        if not batches:
            return 0
        try:
            appended = append_batches(partition, batches, 1, self.clock.wall_ms(), connection)
        except KafkaError:
            return 0  # as in `run`
        ending = INT64.pack(log.start_offset) + self.post if self.version >= 5 else self.post
        pack, size, pre, reached = self.answer, self.answer_bytes, self.pre, -1
        answers: list[bytes] = []
        for correlation_id, (base, following, time_ms, _) in zip(
            correlation_ids, appended, strict=False
        ):
            answers.append(pack(size, correlation_id, pre, base, time_ms, ending))
            reached = following
        if waits and reached > log.flushed_offset:
            partition.wait_for_flush(
                reached, _FlushWait(self, connection.slot(requests=len(answers)), answers)
            )
        else:
            connection.answer(answers, len(answers) * len(answers[0]))
        return len(answers)

    def run_uniform(self, connection: ServerConnection, view: memoryview) -> int:
        """As `run_many`, of requests of `uniform_bytes` in one piece. Return how many are answered:
        all, or none, because `run_many` may answer some.
        """
        partition, log, leader, uniform = (
            self.partition,
            self.partition.log,
            self.leader,
            self._uniform,
        )
        count = len(view) // self.uniform_bytes
        if (
            count > MOST_UNIFORM
            or leader is None
            or partition.leader is not leader
            or uniform is None
        ):
            return 0
        columns = uniform.columns.get(count) or uniform.columns_of(count)
        bases = None
        if columns.constants(view) == columns.expected:
            fields, headers = columns.varying(view), columns.headers(view)
            crcs, bodies = fields[1::3], fields[2::3]
            bases = append_uniform_batches(
                partition,
                uniform.start,
                headers,
                crcs,
                bodies,
                columns.batches,
                self.clock.wall_ms(),
                connection,
            )
        if bases is None:
            self.uniform_bytes, self._pieces_to_skip = UNKNOWN, SKIPPED_PIECES
            return 0
        size, post = self._size, self.post
        ending = INT64.pack(log.start_offset) + post if self.version >= 5 else post
        answers: list[object] = [0, self.pre, 0, NO_APPEND_TIME + ending + size] * count
        answers[0::4], answers[2::4] = fields[0::3], bases
        data = size + columns.answers(*answers)
        end = log.end_offset
        if len(leader.isr) == 1 and log.syncs and end > log.flushed_offset:  # as in `run`
            each = self.answer_bytes + 4
            split = [data[at : at + each] for at in range(0, len(data), each)]
            partition.wait_for_flush(end, _FlushWait(self, connection.slot(requests=count), split))
        else:
            connection.answer((data,), len(data))
        return count

    def _expect_uniform(self, connection: ServerConnection, frame: memoryview) -> None:
        """Take requests of the size of `frame`, with the same bytes in front of the CRC, by
        columns from now on.
        """
        found = self._batch(connection, frame)
        if found is None or len(frame) > LARGEST_UNIFORM_BYTES:
            return
        batch, size = found[0], len(frame)
        records_bytes = varint(len(batch) + 1) if self.flexible else len(batch).to_bytes(4)
        middle = self.prefix + records_bytes + batch[:CRC_POSITION]
        known = self._uniform
        if known is None or known.size != size + 4 or known.middle != middle:
            self._uniform = UniformRequests(
                size + 4,
                size.to_bytes(4) + self.key_and_version,
                middle,
                self.tail,
                len(self.pre),
                self.answer_bytes - 12 - len(self.pre),
            )
        self.uniform_bytes = size + 4

    def _batch(
        self, connection: ServerConnection, frame: memoryview
    ) -> tuple[memoryview, int] | None:
        """Return the records of a request and its correlation id. None: it differs in more."""
        size_bytes = len(frame)
        if size_bytes < self.shortest:
            return None
        if self.flexible:
            key_and_version, correlation_id, prefix = self.front.unpack_from(frame)
            begin, size = varint_at(frame, self.front.size)
            size -= 1
        else:
            key_and_version, correlation_id, prefix, size = self.front.unpack_from(frame)
            begin = self.front.size
        stop = begin + size
        if (
            prefix != self.prefix
            or key_and_version != self.key_and_version
            or size < BATCH_HEADER_BYTES
            or stop + self.tail != size_bytes
        ):
            return None
        attributes = frame[begin + ATTRIBUTES_POSITION + 1]
        if attributes and (
            (attributes & TRANSACTIONAL and not self._may_use_its_id(connection))
            or (attributes & COMPRESSION_MASK == ZSTD and self.version < 7)
        ):
            return None
        return frame[begin:stop], correlation_id

    def _may_use_its_id(self, connection: ServerConnection) -> bool:
        """Return whether the client may write in its transaction. It is checked each time, because
        the right may have been taken away, or no batch was transactional so far.
        """
        return self.transactional is not None and connection.dispatcher.authorizer.allowed(
            connection.session, self.operation, self.transactional
        )


class _Wait:
    """An acks=all answer of a plan that waits for the high watermark."""

    __slots__ = ("base", "correlation_id", "plan", "slot", "time_ms")

    def __init__(
        self, plan: ProducePlan, slot: Slot, correlation_id: int, base: int, time_ms: int
    ) -> None:
        self.plan = plan
        self.slot = slot
        self.correlation_id = correlation_id
        self.base = base
        self.time_ms = time_ms

    def complete(self, code: Code) -> None:
        if code is Code.NONE:
            self.slot.complete((self.plan.pack(self.correlation_id, self.base, self.time_ms),))
        else:
            self.slot.complete(self.plan.refused(code, self.correlation_id))


class _FlushWait:
    """acks=1 answers of a plan that wait for the flush of a leader that is alone in the ISR."""

    __slots__ = ("answers", "plan", "slot")

    def __init__(self, plan: ProducePlan, slot: Slot, answers: list[bytes]) -> None:
        self.plan = plan
        self.slot = slot
        self.answers = answers

    def complete(self, code: Code) -> None:
        if code is Code.NONE:
            self.slot.complete(self.answers)
        else:
            self.slot.complete(
                [
                    part
                    for answer in self.answers
                    for part in self.plan.refused(code, CORRELATION.unpack_from(answer, 4)[0])
                ]
            )
