"""A request, and an answer to it that comes later. Knows no API."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from raftka.broker.network.access.authorizer import Authorizer, Resource, authorized_operations
from raftka.broker.network.connection import Parts, ServerConnection, Slot
from raftka.broker.network.frame_pool import FramePool
from raftka.broker.network.quotas.meter import Meter
from raftka.broker.network.session import Session
from raftka.broker.telemetry.metrics import Latency, Metrics
from raftka.broker.work.long_work import LongWork, Steps, T
from raftka.runtime.memory import NO_BYTES, Owned
from raftka.wire.codec import Piece
from raftka.wire.encoder import EncodedRows
from raftka.wire.frame import encode_response
from raftka.wire.schema import AnyApi, Element, Row

Body_co = TypeVar("Body_co", bound=Row, covariant=True)


class Answering(Protocol):
    """The dispatcher, as a request uses it."""

    authorizer: Authorizer
    long_work: LongWork
    metrics: Metrics
    kind: Latency | None

    def encoded(self, request: "Request[Row]", row: Row) -> Parts: ...

    def broken(self, request: "Request[Row]", error: Exception) -> Parts: ...

    def answered(self, request: "Request[Row]") -> None:
        """Free the request: no code reads it any more."""

    def wanted(self, request: "Request[Row]") -> bool:
        """Return whether the client is still there."""

    def request_failed(self, request: "Request[Row]", error: Exception) -> None: ...


class Delayed:
    """An answer that comes later. What it waits for calls `complete`; a second call does
    nothing.
    """

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
        """Complete with an error: making the answer has failed."""
        slot, self.slot = self.slot, None
        if slot is not None:
            request = self.request
            slot.complete(request.dispatcher.broken(request, error))

    def settle(self, result: Row | Exception) -> None:
        """Complete it with the row, or say what has failed."""
        if isinstance(result, Row):
            self.complete(result)
        else:
            self.broken(result)

    @property
    def over(self) -> bool:
        """Answered, or nobody is there any more to be answered."""
        return self.slot is None or self.slot.connection.gone


@dataclass(slots=True)
class Request(Generic[Body_co]):
    api: AnyApi
    version: int
    correlation_id: int
    body: Body_co
    session: Session
    connection: ServerConnection
    dispatcher: Answering = field(repr=False)
    # empty from the first later turn on; the body's records are parts of it
    frame: Owned = field(repr=False)
    body_position: int  # in the frame
    goes_on: bool = False  # its handler is at work in later turns too
    # among the long requests until its answer is written, also when that comes later
    stays: bool = False
    slot: Slot | None = None  # its place among the answers, once it goes on in a later turn
    # the place of a Delayed, which its handler may make before it is interrupted
    promised: Slot | None = None
    meter: Meter | None = field(default=None, repr=False)  # of a client with quotas

    def keep(self, pool: FramePool) -> None:
        """The request goes on in a later turn: its frame's buffer is given to no other frame."""
        pool.hold(self.frame)
        self.frame = NO_BYTES

    def encoded_rows(self, row: type[Element], count: int = 0) -> EncodedRows[Element]:
        """For an array of the answer that may be long; `row` is the class of its elements, `count`
        the number of all, if it is known.
        """
        return self.api.encoded_rows(self.version, row)

    def encoded_strings(self) -> EncodedRows[str]:
        """For an array of strings in the answer that may be long."""
        return self.api.encoded_strings(self.version)

    async def finish(self, steps: Steps[T]) -> T:
        """For async handlers: work over many items, in slices."""
        return await self.dispatcher.long_work.finish(self.api.name, steps, self.spent)

    @property
    def spent(self) -> Callable[[float], None] | None:
        """Is told of CPU time that goes into the request, when that is counted."""
        return None if self.meter is None else self.meter.spent

    def may(self, operation: str, resource: Resource) -> bool:
        return self.dispatcher.authorizer.allowed(self.session, operation, resource)

    def may_with_any_topic(self, operation: str) -> bool:
        return self.dispatcher.authorizer.allowed_any_topic(self.session, operation)

    def authorized_operations(self, resource: Resource) -> int:
        return authorized_operations(self.dispatcher.authorizer, self.session, resource)

    def encode(self, row: Row) -> list[Piece]:
        return encode_response(self.api, self.version, self.correlation_id, row)
