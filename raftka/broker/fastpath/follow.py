"""The short way of a follower's Fetch: in its session it tells of new offsets of some partitions, and nothing else.

A plan is made after such a request was answered the long way. It reads and writes the bytes itself. The long way's code (`go_on`) reads the log and
keeps the session. The message's compiler writes errors, divergences and everything unusual.
"""

from collections.abc import Callable
from typing import cast

from raftka.broker.context import BrokerContext
from raftka.broker.network.access.authorizer import THE_CLUSTER
from raftka.broker.network.connection import ServerConnection
from raftka.broker.network.request import Delayed, Request
from raftka.broker.replica.fetch_session_cache import FetchSession, FetchSessionCache
from raftka.wire.codec import Piece
from raftka.wire.encoder import EncodedRows
from raftka.wire.messages.fetch import FETCH, FetchRequest, FetchResponse
from raftka.wire.replica_fetch import EPOCH, MOST, VERSION, answer_frame, read_topics, topics_begin
from raftka.wire.schema import Element, Row

FOLLOWER = "FetchFollower"  # Kafka's name of these requests in its metrics
HEAD_END = 8  # key, version, correlation id

GoOn = Callable[[Request[FetchRequest]], FetchResponse | Delayed]


class Rows(list[Row]):
    """The few rows of a topic, which are encoded when all are there."""

    add = list.append


class ShortRequest(Request[FetchRequest]):
    __slots__ = ()

    def encoded_rows(self, row: type[Element], count: int = 0) -> EncodedRows[Element]:
        return cast(EncodedRows[Element], Rows()) if count <= MOST else super().encoded_rows(row, count)

    def encode(self, row: Row) -> list[Piece]:
        plain = answer_frame(self.correlation_id, row) if isinstance(row, FETCH.response) else None
        return super().encode(row) if plain is None else plain


class FollowPlan:
    __slots__ = ("before", "behind", "body", "body_at", "context", "dispatcher", "go_on", "kind", "session", "sessions", "topics_at", "version")
    operation, resource = "CLUSTER_ACTION", THE_CLUSTER

    def __init__(
        self, request: Request[FetchRequest], sessions: FetchSessionCache, context: BrokerContext, session: FetchSession, go_on: GoOn
    ) -> None:
        self.version = VERSION
        self.dispatcher = request.dispatcher
        self.kind = request.dispatcher.metrics.kind(FOLLOWER)
        self.body = request.body  # its terms are those of all requests of the session
        self.body_at = request.body_position
        self.topics_at, self.behind = topics_begin(request.frame, request.body_position)
        self.before = bytes(request.frame[HEAD_END : self.topics_at - EPOCH.size])
        self.session, self.sessions, self.context, self.go_on = session, sessions, context, go_on

    def run(self, connection: ServerConnection, frame: memoryview, correlation_id: int) -> bool:
        session, at = self.session, self.topics_at
        if not session.lasting or session.parked is not None or frame[HEAD_END : at - EPOCH.size] != self.before:
            return False
        asked = read_topics(frame, at, self.behind)
        if asked is None or len(asked) + len(session.dirty) > MOST or EPOCH.unpack_from(frame, at - EPOCH.size)[0] != session.epoch:
            return False
        replica, broker_epoch = session.reader
        registered = self.context.metadata.image.brokers.get(replica)
        if registered is None or registered.epoch != broker_epoch:
            return False
        partitions = session.partitions
        found = [partitions.get((topic_id, each.partition)) for topic_id, each in asked]
        for cached, (_, each) in zip(found, asked, strict=True):
            if cached is None or cached.fetch_request.current_leader_epoch != each.leader_epoch:
                return False
        for cached, (_, each) in zip(found, asked, strict=True):
            assert cached is not None
            row = cached.fetch_request
            row.fetch_offset, row.last_fetched_epoch = each.fetch_offset, each.last_fetched_epoch
            row.log_start_offset, row.partition_max_bytes = each.log_start, each.max_bytes
            session.dirty[cached] = None
        session.heard = now = connection.dispatcher.now()
        self.sessions.advance(session, now)
        request = ShortRequest(FETCH, VERSION, correlation_id, self.body, connection.session, connection, self.dispatcher, frame, self.body_at)
        answer = self.go_on(request)
        if not isinstance(answer, Delayed):
            connection.answer(self.dispatcher.encoded(request, answer))
        return True


def remember(request: Request[FetchRequest], sessions: FetchSessionCache, context: BrokerContext, session: FetchSession, go_on: GoOn) -> None:
    """Called with a request of a follower that went on with its session the long way."""
    connection = request.connection
    if request.version != VERSION or request.meter is not None or not session.by_id or request.body.isolation_level or request.body.rack_id:
        return
    known = connection.plans.get(FETCH.key)
    if not (isinstance(known, FollowPlan) and known.session is session) and request.frame:
        connection.plans[FETCH.key] = FollowPlan(request, sessions, context, session, go_on)
