"""The short way of a Produce: successive requests of a producer differ only in correlation id and
records, so the rest is compared, not decoded.

Made after a request with one partition was answered the long way; whatever looks different, or
fails, goes the long way again. Holds for every version: where the records begin, and where the
numbers of an encoded answer stand, says the message's compiler (`Api.request_positions`).
"""

import sys
from collections.abc import Sequence
from struct import Struct
from typing import TYPE_CHECKING, cast

from raftka.broker.context import BrokerContext
from raftka.broker.network.access.authorizer import TOPIC, TRANSACTIONAL_ID, Resource
from raftka.broker.network.connection import ServerConnection, Slot
from raftka.broker.network.plan_layout import HEAD_END, positions_in_answer, varint_at
from raftka.broker.produce.uniform_batches import AlikeRequests
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
LARGEST_ALIKE_BYTES = 4096  # of a request: the records of larger ones are not copied
# in one piece, fewer than REQUESTS_IN_HAND: each number of them needs Structs of its own
MOST_ALIKE = 32
NOT_TRIED = 16  # pieces, once `run_alike` has left one out: the next are likely to be no better
UNKNOWN = sys.maxsize  # more bytes than come
# nothing behind the records in a flexible version: of the partition, the topic, the request
NO_TAGS = b"\0\0\0"
ZSTD = 4


def remember(
    request: "Request[ProduceRequest]", partition: Partition, context: BrokerContext
) -> None:
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
        "_alike",
        "_not_tried",
        "_size",
        "acks",
        "alike_bytes",
        "answer",
        "answer_bytes",
        "clock",
        "flexible",
        "front",
        "key_and_version",
        "kind",
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
        self.kind = context.metrics.kind(PRODUCE.name)
        self.prefix = prefix
        # key and version, correlation id, prefix, bytes of records
        self.front = Struct(f">4si{len(prefix)}s{'' if flexible else 'i'}")
        self.shortest = self.front.size + BATCH_HEADER_BYTES
        self.flexible = flexible
        self.tail = 3 if flexible else 0
        self.pre, self.post = self._layout(request, partition)
        layout = Struct(f">ii{len(self.pre)}sqq{len(self._ending())}s")
        self.answer, self.answer_bytes = layout.pack, layout.size - 4
        self._size = self.answer_bytes.to_bytes(4)
        self.alike_bytes = UNKNOWN  # of the requests that `run_alike` takes
        self._alike: AlikeRequests | None = None
        self._not_tried = 0  # so many more pieces go to `run_many`

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

    def _ending(self) -> bytes:
        """Return the bytes behind the two numbers of an answer that is made now."""
        return (
            INT64.pack(self.partition.log.start_offset) + self.post
            if self.version >= 5
            else self.post
        )

    def pack(self, correlation_id: int, base: int, time_ms: int) -> bytes:
        return self.answer(
            self.answer_bytes, correlation_id, self.pre, base, time_ms, self._ending()
        )

    def refused(self, code: Code, correlation_id: int) -> list[Piece]:
        """The answer to a request that was appended and whose wait ended in an error."""
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
        if self.acks == 1:
            return self.run_many(connection, (frame,)) == 1
        partition = self.partition
        found = self._batch(connection, frame)
        if found is None or partition.leader is not self.leader:
            return False
        try:
            base, following, time_ms, _ = partition.append(
                found[0], self.acks, self.clock.wall_ms(), connection, later=True
            )
        except KafkaError:
            return False  # nothing was done: the long way finds the same error, and words for it
        if self.acks == -1:
            wait = _Wait(self, connection.slot(), correlation_id, base, time_ms)
            partition.wait_for_commit(following, connection.dispatcher.began + self.timeout_s, wait)
        return True

    def run_many(self, connection: ServerConnection, frames: Sequence[memoryview]) -> int:
        """Of a producer that does not wait for each answer (acks=1): how many from the front are
        answered. What is the same for all is done once.
        """
        partition, log, now_ms = self.partition, self.partition.log, self.clock.wall_ms()
        if partition.leader is not self.leader or self.leader is None:
            return 0
        epoch, append, batch_of = self.leader.leader_epoch, log.client_batches.append, self._batch
        pack, size, pre, ending = self.answer, self.answer_bytes, self.pre, self._ending()
        answers: list[bytes] = []
        end = reached = -1
        # Partition.answers_after_flush, without its call
        waits = len(self.leader.isr) == 1 and log.syncs
        if len(frames) > 1 and len(frames[0]) == len(frames[-1]):
            if self._not_tried:
                self._not_tried -= 1
            else:
                self._expect_alike(connection, frames[0])
        for frame in frames[: REQUESTS_IN_HAND.value] if waits else frames:
            found = batch_of(connection, frame)
            if found is None:
                break
            batch, correlation_id = found
            try:
                base, following, time_ms, duplicate = append(batch, epoch, now_ms)
            except KafkaError:
                break  # as in `run`
            if not duplicate:
                end = following
            elif answers:
                break  # nothing was done; it waits for its own batch alone
            reached = following
            answers.append(pack(size, correlation_id, pre, base, time_ms, ending))
            if duplicate:
                break
        partition.appended(len(answers), end, connection)
        if answers and waits and reached > log.flushed_offset:
            partition.wait_for_flush(
                reached, _FlushWait(self, connection.slot(requests=len(answers)), answers)
            )
        elif answers:
            connection.answer(answers, len(answers) * len(answers[0]))
        return len(answers)

    def run_alike(self, connection: ServerConnection, view: memoryview) -> int:
        """As `run_many`, of requests of `alike_bytes` in one piece: how many are answered, all or
        none. One by one some may be.
        """
        partition, log, leader, alike = self.partition, self.partition.log, self.leader, self._alike
        count = len(view) // self.alike_bytes
        if (
            count > MOST_ALIKE
            or partition.leader is not self.leader
            or leader is None
            or alike is None
        ):
            return 0
        columns = alike.columns.get(count) or alike.columns_of(count)
        bases = None
        if columns.constants(view) == columns.expected:
            fields, now_ms = columns.varying(view), self.clock.wall_ms()
            crcs, bodies, headers = fields[1::3], fields[2::3], columns.headers(view)
            bases = log.client_batches.append_uniform(
                alike.start, headers, crcs, bodies, columns.batches, leader.leader_epoch, now_ms
            )
        if bases is None:
            self.alike_bytes, self._not_tried = UNKNOWN, NOT_TRIED
            return 0
        size = self._size
        answers: list[object] = [0, self.pre, 0, NO_APPEND_TIME + self._ending() + size] * count
        answers[0::4], answers[2::4] = fields[0::3], bases
        data = size + columns.answers(*answers)
        end = log.end_offset
        partition.appended(count, end, connection)
        if len(leader.isr) == 1 and log.syncs and end > log.flushed_offset:  # as in `run_many`
            each = self.answer_bytes + 4
            split = [data[at : at + each] for at in range(0, len(data), each)]
            partition.wait_for_flush(end, _FlushWait(self, connection.slot(requests=count), split))
        else:
            connection.answer((data,), len(data))
        return count

    def _expect_alike(self, connection: ServerConnection, frame: memoryview) -> None:
        """Requests of the size of `frame`, and with the same bytes in front of the CRC, are likely
        to come.
        """
        found = self._batch(connection, frame)
        if found is None or len(frame) > LARGEST_ALIKE_BYTES:
            return
        batch, size = found[0], len(frame)
        records_bytes = varint(len(batch) + 1) if self.flexible else len(batch).to_bytes(4)
        middle = self.prefix + records_bytes + batch[:CRC_POSITION]
        if self._alike is None or self._alike.size != size + 4 or self._alike.middle != middle:
            self._alike = AlikeRequests(
                size + 4,
                size.to_bytes(4) + self.key_and_version,
                middle,
                self.tail,
                len(self.pre),
                self.answer_bytes - 12 - len(self.pre),
            )
        self.alike_bytes = size + 4

    def _batch(
        self, connection: ServerConnection, frame: memoryview
    ) -> tuple[memoryview, int] | None:
        """The records of a request that differs in nothing else, and its correlation id."""
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
        """Ask each time: the right may have been taken away, or nobody has asked, because no batch
        was transactional so far.
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
