"""A request, and an answer to it that comes later. Knows no API."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from raftka.broker.context import BrokerContext
from raftka.broker.network.access.authorizer import Authorizer, Resource, authorized_operations
from raftka.broker.network.connection import ConnectionReports, Parts, ServerConnection, Slot
from raftka.broker.network.frame_pool import FramePool
from raftka.broker.network.quotas.meter import Meter
from raftka.broker.network.session import Session
from raftka.broker.telemetry.metrics import Metrics
from raftka.broker.work.long_requests import CLOSED, LongRequests
from raftka.broker.work.long_work import LongWork, Steps, T
from raftka.runtime.memory import NO_BYTES, Owned
from raftka.wire.api_ceilings import Ceiling
from raftka.wire.codec import Piece
from raftka.wire.encoder import EncodedRows
from raftka.wire.frame import encode_response
from raftka.wire.rows import free
from raftka.wire.schema import AnyApi, Element, Row, Versions

Body_co = TypeVar("Body_co", bound=Row, covariant=True)
PRODUCE_KEY = 0


class Answering(Protocol):
    """The dispatcher, as a request uses it."""

    context: BrokerContext
    authorizer: Authorizer
    long_work: LongWork
    long_requests: "LongRequests[Request[Row]]"
    metrics: Metrics
    reports: ConnectionReports
    ceiling: Ceiling | None

    def apis(self, session: Session) -> list[AnyApi]: ...

    def announced(self, api: AnyApi, session: Session) -> Versions: ...

    def encoded(self, request: "Request[Row]", row: Row) -> Parts: ...

    def broken(self, request: "Request[Row]", error: Exception) -> Parts: ...


class Delayed:
    """An answer that comes later, by one call of `complete`; a second call does nothing."""

    __slots__ = ("request", "slot")

    def __init__(
        self, request: "Request[Row]", complete_early: Callable[[], None] | None = None
    ) -> None:
        self.request = request
        self.slot: Slot | None = (
            request.slot or request.promised or request.connection.slot(complete_early)
        )
        request.promised = self.slot
        self.slot.complete_early = complete_early

    def complete(self, row: Row) -> None:
        slot, self.slot = self.slot, None
        if slot is not None:
            request = self.request
            slot.complete(request.dispatcher.encoded(request, row))

    def broken(self, error: Exception) -> None:
        """Complete with an error: the code that makes the answer has failed."""
        slot, self.slot = self.slot, None
        if slot is not None:
            request = self.request
            slot.complete(request.dispatcher.broken(request, error))

    def settle(self, result: Row | Exception) -> None:
        """Complete with the row, or with an error."""
        if isinstance(result, Row):
            self.complete(result)
        else:
            self.broken(result)

    @property
    def over(self) -> bool:
        """Return whether the request is answered, or its client is gone."""
        return self.slot is None or self.slot.connection.gone


@dataclass(slots=True)
class Request(Generic[Body_co]):
    """One decoded request of a client."""

    api: AnyApi
    version: int
    correlation_id: int
    body: Body_co
    session: Session
    connection: ServerConnection
    dispatcher: Answering = field(repr=False)
    # empty from the second turn on; the body's records are parts of it
    frame: Owned = field(repr=False)
    body_position: int  # in the frame
    goes_on: bool = False  # its handler goes on in later turns
    # a long request until its answer is written, also when the handler has returned a Delayed
    stays: bool = False
    slot: Slot | None = None  # its place among the answers, when its handler goes on
    # the place of a Delayed, which its handler may make before it is interrupted
    promised: Slot | None = None
    meter: Meter | None = field(default=None, repr=False)  # of a client with quotas

    def keep(self, pool: FramePool) -> None:
        """Give the frame's buffer to no other frame: the request goes on in a later turn."""
        pool.hold(self.frame)
        self.frame = NO_BYTES

    # the life of a long request

    def is_abandoned(self) -> bool:
        """Return whether the answer is not worth the time of a long request: the client has gone,
        or has closed its side. Clients that produce with acks=0 do not wait: theirs is worth it.
        """
        return self.connection.gone if self.api.key == PRODUCE_KEY else self.connection.abandoned

    def is_wanted(self) -> bool:
        """Return whether the client is still there; else the request is freed."""
        connection = self.connection
        if not connection.gone and self.dispatcher.long_requests.has(self) and self.is_abandoned():
            connection.end(CLOSED)
        if connection.gone:
            self.free()
            return False
        return True

    def free(self) -> None:
        """Free the body, which no code reads any more; in steps, before the next long request
        enters, because that takes longer than a slice.
        """
        dispatcher = self.dispatcher
        if dispatcher.long_requests.has(self):
            dispatcher.long_work.resume(
                "freeing a request", free(self.body), lambda _: self._leave()
            )

    def _leave(self) -> None:
        self.dispatcher.long_requests.leave(self)

    def fail(self, error: Exception) -> None:
        """End the connection after a bug of the broker behind the handler."""
        self.dispatcher.long_requests.leave(self)
        self.dispatcher.reports.failed(self.connection, error)

    # for handlers

    def encoded_rows(self, row: type[Element]) -> EncodedRows[Element]:
        """Return an array of the answer that may be long; `row` is the class of its elements."""
        rows = self.api.encoded_rows(self.version, row)
        if (observer := self.dispatcher.context.observer) is not None:
            observer.on_rows(rows, row)
        return rows

    def encoded_strings(self) -> EncodedRows[str]:
        """Return an array of strings of the answer that may be long."""
        return self.api.encoded_strings(self.version)

    async def finish(self, steps: Steps[T]) -> T:
        """Do the work of an async handler over many items, in slices."""
        return await self.dispatcher.long_work.finish(self.api.name, steps, self.spent)

    @property
    def spent(self) -> Callable[[float], None] | None:
        """Return the function that adds seconds of CPU time to the client's quota; None: it has
        none.
        """
        return None if self.meter is None else self.meter.spent

    def may(self, operation: str, resource: Resource) -> bool:
        return self.dispatcher.authorizer.allowed(self.session, operation, resource)

    def may_with_any_topic(self, operation: str) -> bool:
        return self.dispatcher.authorizer.allowed_any_topic(self.session, operation)

    def authorized_operations(self, resource: Resource) -> int:
        return authorized_operations(self.dispatcher.authorizer, self.session, resource)

    def encode(self, row: Row) -> list[Piece]:
        if (observer := self.dispatcher.context.observer) is not None:
            observer.on_answer(self.api, row, self.session.client_id, self.session.peer)
        return encode_response(self.api, self.version, self.correlation_id, row)
