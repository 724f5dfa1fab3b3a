"""The short way of a consumer's Fetch: successive requests of a consumer of one partition differ in
correlation id and offset, in a session also in its epoch. The rest is compared, not decoded.

A plan is made after such a request was answered the long way. It answers only when there is enough
to send: waiting, errors and everything unusual go the long way. The message's compiler says where
fields stand in a request and in an encoded answer (`Api.request_positions`).
"""

from collections.abc import Sequence
from struct import Struct
from typing import TYPE_CHECKING

from raftka.broker.fetch import reading
from raftka.broker.fetch.reading import AbortedUnknown
from raftka.broker.fetch.sessions import NO_SESSION, CachedPartition, FetchSessionCache
from raftka.broker.network.access.authorizer import TOPIC
from raftka.broker.network.connection import ServerConnection
from raftka.broker.network.plan_layout import HEAD_END, positions_in_answer
from raftka.log.log import Log
from raftka.log.segments.transaction_index import AbortedTransaction
from raftka.runtime.interfaces import File, FileSpan
from raftka.wire.codec import varint
from raftka.wire.errors import KafkaError
from raftka.wire.messages.fetch import FETCH, FetchRequest

if TYPE_CHECKING:
    from raftka.broker.network.request import Request

OFFSET, EPOCH = Struct(">q"), Struct(">i")
SIZE, SIZE_AND_CORRELATION = Struct(">i"), Struct(">ii")
OFFSETS = Struct(">qqq")  # high watermark, last stable offset, log start
ABORTED = Struct(">qq")  # producer id, first offset; in flexible versions a byte of tags follows


def remember(
    request: "Request[FetchRequest]",
    sessions: FetchSessionCache,
    cached: CachedPartition,
    isolated: bool,
    max_bytes: int,
) -> None:
    """Make a plan from a request that was answered with records, and names one partition, the only
    one of its session if it has one.
    """
    assert cached.partition is not None
    if not request.connection.worth_a_plan(FETCH.key) or cached.partition.log.held is not None:
        return
    kind = SessionPlan if cached.session.lasting else FetchPlan
    plan = kind.of(request, sessions, cached, isolated, max_bytes)
    if plan is not None:
        request.connection.plans[FETCH.key] = plan


class FetchPlan:
    __slots__ = (
        "before",
        "clear",
        "flexible",
        "isolated",
        "latency",
        "leader",
        "max_bytes",
        "min_bytes",
        "none_aborted",
        "offset_at",
        "partition",
        "pre",
        "prefix",
        "resource",
        "suffix",
        "tail",
        "version",
    )
    operation = "READ"

    def __init__(
        self,
        request: "Request[FetchRequest]",
        sessions: FetchSessionCache,
        cached: CachedPartition,
        isolated: bool,
        max_bytes: int,
        offset_at: int,
        epoch_at: int = -1,
    ) -> None:
        body, fetch_request, partition = request.body, cached.fetch_request, cached.partition
        assert partition is not None
        self.version = request.version
        self.partition = partition
        self.latency = request.dispatcher.metrics.latency(FETCH.name)
        self.resource = (TOPIC, partition.topic)
        self.leader = partition.leader
        self.min_bytes: int = body.min_bytes
        self.max_bytes: int = min(fetch_request.partition_max_bytes, max_bytes)
        self.isolated = isolated  # it reads what is committed
        self.offset_at = offset_at
        self.prefix = bytes(request.frame[HEAD_END:offset_at])
        self.suffix = bytes(request.frame[offset_at + 8 :])
        self.flexible = request.version in FETCH.flexible
        self.pre, self.before, self.tail = self._layout(request, cached, isolated)
        # a file; of its batches from this offset up to this position none was aborted
        self.clear: tuple[File | None, int, int] = None, 0, 0
        self.none_aborted = self._aborted(())

    @classmethod
    def of(
        cls,
        request: "Request[FetchRequest]",
        sessions: FetchSessionCache,
        cached: CachedPartition,
        isolated: bool,
        max_bytes: int,
    ) -> "FetchPlan | None":
        """Return a plan; None if the request names the partition more than once."""
        offsets, epochs = FETCH.request_positions(
            request.version,
            request.frame,
            request.body_position,
            "topics.partitions.fetch_offset",
            "session_epoch",
        )
        return (
            cls(request, sessions, cached, isolated, max_bytes, offsets[0], *epochs)
            if len(offsets) == 1
            else None
        )

    @staticmethod
    def _layout(
        request: "Request[FetchRequest]", cached: CachedPartition, isolated: bool
    ) -> tuple[bytes, bytes, bytes]:
        """Return the bytes of an answer before the three offsets; between them, with the aborted
        transactions, and the size of the records; behind the records.
        """
        session_id = cached.session.id if cached.session.lasting else NO_SESSION
        rows = FETCH.response.responses
        partition = rows.partitions(
            partition_index=cached.fetch_request.partition,
            aborted_transactions=[] if isolated else None,
            records=b"",
        )
        topics = [rows(topic=cached.topic, topic_id=cached.topic_id, partitions=[partition])]
        parts = request.encode(FETCH.response(session_id=session_id, responses=topics))
        sample = b"".join([bytes(part) for part in parts if not isinstance(part, FileSpan)])
        (at,), (size_at,) = positions_in_answer(
            FETCH,
            request.version,
            sample,
            "responses.partitions.high_watermark",
            "responses.partitions.records",
        )
        behind = at + (24 if request.version >= 5 else 16)
        if isolated:
            behind += 1 if request.version in FETCH.flexible else 4  # the length of an empty list
        return (
            sample[8:at],
            sample[behind:size_at],
            sample[size_at + (1 if request.version in FETCH.flexible else 4) :],
        )

    def run(self, connection: ServerConnection, frame: memoryview, correlation_id: int) -> bool:
        at = self.offset_at
        if (
            len(frame) != at + 8 + len(self.suffix)
            or frame[HEAD_END:at] != self.prefix
            or frame[at + 8 :] != self.suffix
        ):
            return False
        (offset,) = OFFSET.unpack_from(frame, at)
        return self.serve(connection, offset, correlation_id)

    def serve(self, connection: ServerConnection, offset: int, correlation_id: int) -> bool:
        partition, leader = self.partition, self.leader
        if leader is None or partition.leader is not leader:
            return False
        log = partition.log
        try:
            spans, size, high_watermark, stable = reading.read_for_consumer(
                partition, offset, self.max_bytes, self.isolated, True
            )
            if not size or size < self.min_bytes:
                return False
            aborted = self._aborted_in(log, offset, spans, stable) if self.isolated else b""
        except (KafkaError, OSError, AbortedUnknown):
            return False  # the long way meets it again, and makes the row of the error
        partition.fetched += 1
        partition.bytes_out += size
        offsets = OFFSETS.pack(high_watermark, stable, log.start_offset)
        if self.version < 5:
            offsets = offsets[:16]
        body = (
            self.pre
            + offsets
            + aborted
            + self.before
            + (varint(size + 1) if self.flexible else SIZE.pack(size))
        )
        frame_size = 4 + len(body) + size + len(self.tail)
        head = SIZE_AND_CORRELATION.pack(frame_size, correlation_id) + body
        connection.answer((head, *spans, self.tail) if self.tail else (head, *spans), len(head))
        return True

    def _aborted_in(self, log: Log, offset: int, spans: Sequence[FileSpan], stable: int) -> bytes:
        """Return the encoded list of aborted transactions for what was read. Raises OSError.

        A read far behind the log's end is mostly in a part that the last read has found to be
        clear.
        """
        (span,) = spans
        file, first, end = self.clear
        if span.file is file and offset >= first and span.position + span.size <= end:
            return self.none_aborted
        if aborted := log.aborted.find(offset, log.bound_of(offset, span)):
            return self._aborted(aborted)
        if 2 * span.size > self.max_bytes:
            self.clear = span.file, offset, log.aborted.free_up_to(offset, span, stable)
        return self.none_aborted

    def _aborted(self, aborted: Sequence[AbortedTransaction]) -> bytes:
        """Return the list, encoded."""
        count, tags = (
            (varint(len(aborted) + 1), b"\0")
            if self.flexible
            else (len(aborted).to_bytes(4, "big"), b"")
        )
        return count + b"".join(
            [ABORTED.pack(each.producer_id, each.first_offset) + tags for each in aborted]
        )


class SessionPlan(FetchPlan):
    """The plan of a session of one partition. It leaves the session as the long way would."""

    __slots__ = ("begin", "cached", "epoch_at", "fetch_request", "middle", "session", "sessions")

    def __init__(
        self,
        request: "Request[FetchRequest]",
        sessions: FetchSessionCache,
        cached: CachedPartition,
        isolated: bool,
        max_bytes: int,
        offset_at: int,
        epoch_at: int = -1,
    ) -> None:
        super().__init__(request, sessions, cached, isolated, max_bytes, offset_at)
        self.cached, self.session, self.sessions = cached, cached.session, sessions
        self.fetch_request = cached.fetch_request
        frame = bytes(request.frame)
        self.epoch_at = epoch_at
        self.begin = frame[HEAD_END : self.epoch_at]
        self.middle = frame[self.epoch_at + 4 : offset_at]

    def run(self, connection: ServerConnection, frame: memoryview, correlation_id: int) -> bool:
        at, epoch_at, session = self.offset_at, self.epoch_at, self.session
        if (
            len(frame) != at + 8 + len(self.suffix)
            or frame[HEAD_END:epoch_at] != self.begin
            or frame[epoch_at + 4 : at] != self.middle
            or frame[at + 8 :] != self.suffix
        ):
            return False
        (epoch,), (offset,) = EPOCH.unpack_from(frame, epoch_at), OFFSET.unpack_from(frame, at)
        if (
            epoch != session.epoch
            or not session.lasting
            or session.parked is not None
            or len(session.partitions) != 1
        ):
            return False
        cached, partition = self.cached, self.partition
        if cached.partition is not partition or not self.serve(connection, offset, correlation_id):
            return False
        self.sessions.advance(session, connection.dispatcher.now())
        cached.fetch_request = self.fetch_request
        cached.fetch_request.fetch_offset = offset
        cached.high_watermark = partition.high_watermark
        cached.log_start = partition.log.start_offset
        session.dirty[cached] = None
        return True
