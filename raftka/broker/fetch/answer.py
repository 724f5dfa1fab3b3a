"""The answer to a Fetch: its rows by topic, and what its session knows to have told. Reads no
log.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Protocol

from raftka.broker.fetch.sessions import CachedPartition, FetchSession
from raftka.broker.network.request import Request
from raftka.broker.work.long_work import Steps
from raftka.metadata.image import PartitionImage
from raftka.wire.codec import varint
from raftka.wire.encoder import EncodedRows
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.fetch import (
    FETCH,
    READ_COMMITTED,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    NodeEndpoint,
    PartitionData,
)

response = FETCH.response
of_topic = response.responses
of_partition = of_topic.partitions
LEADER_TOLD = frozenset({Code.NOT_LEADER_OR_FOLLOWER, Code.FENCED_LEADER_EPOCH})


class Endpoints(Protocol):
    """Where brokers are, as clients of a listener see them (handlers/services.py)."""

    def endpoints_of(
        self, brokers: set[int], listener: str, row: type[NodeEndpoint]
    ) -> list[NodeEndpoint]: ...


class FetchAnswer:
    """The rows of an answer, by topic, and the brokers that its errors name."""

    def __init__(self, request: Request[FetchRequest], session: FetchSession, told: bool) -> None:
        """`told`: the session remembers what this answer tells."""
        self._request = request
        self._session = session
        self._told = told
        self._rows: dict[str | bytes, tuple[CachedPartition, EncodedRows[PartitionData]]] = {}
        self._added: set[CachedPartition] = set()
        self._finished: EncodedRows[FetchableTopicResponse] | None = None  # topics of a long answer
        self._leaders: set[int] = set()

    def add(self, cached: CachedPartition, row: PartitionData) -> None:
        session = self._session
        topic = self._rows.get(cached.name)
        if topic is None:
            topic = self._rows[cached.name] = cached, self._request.encoded_rows(of_partition)
        topic[1].add(row)
        if row.error_code:
            self._leaders.add(row.current_leader.leader_id)
        if (partition := cached.partition) is not None:
            partition.fetched += 1
            if not session.follows:
                partition.bytes_out += cached.size
        if self._told:
            self._added.add(cached)
            # records and errors are told again, even if nothing happens, until the reader asks for
            # something else
            cached.high_watermark, cached.log_start = row.high_watermark, row.log_start_offset
            if cached.size:
                session.to_the_end(cached)
            if cached.size or told_again(row):
                session.dirty[cached] = None

    def add_rest(self, rows: Mapping[CachedPartition, PartitionData]) -> None:
        for cached, row in rows.items():
            if cached not in self._added:
                self.add(cached, row)

    def finish_topics(self, but: Iterable[CachedPartition]) -> Steps[None]:
        """Encode the topics of a long answer, except those of the partitions `but`, to which rows
        will be added.
        """
        self._finished = self._request.encoded_rows(of_topic)
        names = {cached.name for cached in but}
        for name, (first, rows) in list(self._rows.items()):
            if name not in names:
                del self._rows[name]
                self._finished.add(
                    of_topic(topic=first.topic, topic_id=first.topic_id, partitions=rows)
                )
            yield

    def topics(self) -> Sequence[FetchableTopicResponse] | EncodedRows[FetchableTopicResponse]:
        rest = [
            of_topic(topic=first.topic, topic_id=first.topic_id, partitions=rows)
            for first, rows in self._rows.values()
        ]
        if self._finished is None:
            return rest
        for topic in rest:
            self._finished.add(topic)
        return self._finished

    def endpoints(self, services: "Endpoints") -> list[NodeEndpoint]:
        request = self._request
        if not self._leaders or request.version < 16:
            return []
        return services.endpoints_of(
            self._leaders, request.session.listener, response.node_endpoints
        )


def error_row(
    fetch_request: FetchPartition, error: KafkaError, leads: PartitionImage | None
) -> PartitionData:
    """`leads`: the partition's state, where the reader may be told who leads it."""
    absent = error.code in (
        Code.UNKNOWN_TOPIC_OR_PARTITION,
        Code.UNKNOWN_TOPIC_ID,
        Code.TOPIC_AUTHORIZATION_FAILED,
    )
    row = of_partition(
        partition_index=fetch_request.partition,
        error_code=int(error.code),
        high_watermark=-1,
        aborted_transactions=[] if absent else None,
        records=b"",
    )
    if error.code in LEADER_TOLD and leads is not None:
        row.current_leader = of_partition.current_leader(
            leader_id=leads.leader, leader_epoch=leads.leader_epoch
        )
    return row


def is_news(cached: CachedPartition, row: PartitionData) -> bool:
    """Return whether a session tells a row without records."""
    return bool(
        row.high_watermark != cached.high_watermark
        or row.log_start_offset != cached.log_start
        or told_again(row)
    )


def told_again(row: PartitionData) -> bool:
    """Whether a session tells it with each answer: errors, divergences, another replica to read
    from.
    """
    return bool(row.error_code or row.diverging_epoch.epoch >= 0 or row.preferred_read_replica >= 0)


def answer_bytes(
    request: Request[FetchRequest], rows: Mapping[CachedPartition, PartitionData]
) -> int:
    """The size of an answer with these rows as a quota counts it: with its size field, without its
    header. Rows of errors count as any.
    """
    version, flexible = request.version, request.version in FETCH.flexible
    size, of_a_topic, of_a_row = _sizes(version, request.body.isolation_level == READ_COMMITTED)
    topics: set[str | bytes] = set()
    for cached in rows:
        if cached.name not in topics:
            topics.add(cached.name)
            size += of_a_topic + (len(cached.topic.encode()) if version < 13 else 0)
        size += of_a_row + cached.size + (len(varint(cached.size + 1)) - 1 if flexible else 0)
    return size


@cache
def _sizes(version: int, isolated: bool) -> tuple[int, int, int]:
    """Bytes of an answer without rows, of a topic, of a partition without records."""
    row = of_partition(aborted_transactions=[] if isolated else None, records=b"")
    answers = (
        response(),
        response(responses=[of_topic(partitions=[])]),
        response(responses=[of_topic(partitions=[row])]),
    )
    none, topic, partition = [len(FETCH.encode_response(version, each)) for each in answers]
    return 4 + none, topic - none, partition - topic
