"""From a frame to its handler and back: decode, authorise, call, encode. Knows no API beyond ApiVersions' special case, and no socket.

A handler is a plain function that answers with a row, or hands back a Pending (parked produce, fetch). Handlers that must ask the
controller are `async`; the connection holds behind them.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any

from raftka.broker.authorizer import AllowAll, Authorizer, Resource, authorized_operations
from raftka.broker.connection import HEAD, Parts, ServerConnection, Session, Slot
from raftka.broker.events import Events
from raftka.broker.metrics import SAMPLED, Latency, Metrics
from raftka.wire.errors import Code, KafkaError, ProtocolError
from raftka.wire.frame import decode_request_header, encode_response
from raftka.wire.schema import Api, Row

if TYPE_CHECKING:
    from raftka.broker.node import Node

API_VERSIONS_KEY = 18
FETCH_KEY = 1


class Postponed(Exception):
    """What an interceptor raises: the request, and all behind it on its connection, is looked at again later."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


class Pending:
    """An answer that comes later. What it waits for calls `complete`; a second call does nothing."""

    __slots__ = ("request", "slot")

    def __init__(self, request: "Request", hurry: Callable[[], None] | None = None) -> None:
        self.request = request
        self.slot: Slot | None = request.connection.slot(hurry)

    def complete(self, row: Row) -> None:
        slot, self.slot = self.slot, None
        if slot is not None:
            request = self.request
            slot.complete(request.connection.dispatcher.encoded(request, row))

    def broken(self, error: Exception) -> None:
        """What was to make the answer has failed."""
        slot, self.slot = self.slot, None
        if slot is not None:
            request = self.request
            slot.complete(request.connection.dispatcher.broken(request, error))

    @property
    def over(self) -> bool:
        """Answered, or nobody is there any more to be answered."""
        return self.slot is None or self.slot.connection.gone


@dataclass(slots=True)
class Request:
    api: Api
    version: int
    correlation_id: int
    body: Row
    session: Session
    connection: ServerConnection
    frame: memoryview = field(repr=False)
    body_position: int  # in the frame

    def answer(self, **fields: Any) -> Row:
        return self.api.response(**fields)

    def may(self, operation: str, resource: Resource) -> bool:
        return self.connection.dispatcher.authorizer.allowed(self.session, operation, resource)

    def authorized_operations(self, resource: Resource) -> int:
        return authorized_operations(self.connection.dispatcher.authorizer, self.session, resource)

    def encode(self, row: Row) -> list[Any]:
        return encode_response(self.api, self.version, self.correlation_id, row)


Answer = Row | Pending | None
Handler = Callable[[Request, "Node"], Answer] | Callable[[Request, "Node"], Awaitable[Answer]]
Refusal = Callable[[Request, Code], Row | None]
Interceptor = Callable[[Request], Row | None]  # the answer; None: as if it was not there. May raise KafkaError and Postponed


@dataclass(frozen=True, slots=True)
class Registration:
    api: Api
    handler: Handler
    refused: Refusal
    waits: bool  # async: asks the controller


HANDLERS: dict[int, Registration] = {}


def handles(api: Api, refused: Refusal | None = None) -> Callable[[Handler], Handler]:
    """Register the handler of an API; ApiVersions announces exactly what is registered. `refused` makes the answer to a request that
    failed as a whole; by default the top level `error_code` is set."""

    def register(handler: Handler) -> Handler:
        HANDLERS[api.key] = Registration(api, handler, refused or _refused, iscoroutinefunction(handler))
        return handler

    return register


def _refused(request: Request, code: Code) -> Row:
    return request.answer(error_code=int(code))


class Dispatcher:
    def __init__(self, node: "Node", events: Events, metrics: Metrics) -> None:
        self.node = node
        self.events = events
        self.metrics = metrics
        self.authorizer: Authorizer = AllowAll()
        self.interceptors: dict[int, Interceptor] = {}  # by API key; for tests that inject faults
        self.connections: dict[ServerConnection, None] = {}
        self.now = node.runtime.clock.now
        self.began = 0.0  # when the bytes under way were handed to us
        self.kind: Latency | None = None  # of the request under way, until somebody else answers for its time

    # the way of a request

    def dispatch(self, connection: ServerConnection, frame: memoryview) -> None:
        """One whole frame, without its size. Raises ProtocolError."""
        if len(frame) < HEAD.size:
            raise ProtocolError(f"a request of {len(frame)} bytes")
        key, version, correlation_id = HEAD.unpack_from(frame)
        slots = connection.slots
        if slots:
            if key != FETCH_KEY:
                connection.hurry()
            connection.check_crowded()
        if not self.interceptors:
            plan = connection.plans.get(key)
            if plan is not None:
                self.kind = plan.kind
            if (
                plan is not None
                and plan.version == version
                and self.authorizer.allowed(connection.session, plan.operation, plan.resource)
                and plan.run(connection, frame, correlation_id)
            ):
                if (kind := self.kind) is not None:
                    kind.at_once += 1
                    if not kind.at_once % SAMPLED:
                        kind.sum_s += SAMPLED * (self.now() - self.began)
                return
        registration = HANDLERS.get(key)
        if registration is None or version not in registration.api.versions:
            self._unsupported(connection, frame, key, version, correlation_id)
            return
        self.kind = self.metrics.kind(registration.api.name)
        request = self._decode(connection, registration.api, version, frame)
        self._call(registration, request)
        if self.kind is not None:
            self.kind.add(self.now() - self.began)

    def dispatch_many(self, connection: ServerConnection, frames: Sequence[memoryview]) -> int:
        """How many from the front a plan has answered in one go."""
        plan = connection.pipeline
        if plan is None or self.interceptors or not self.authorizer.allowed(connection.session, plan.operation, plan.resource):
            return 0
        if connection.slots:
            connection.hurry()
            connection.check_crowded()
        self.kind = plan.kind
        count = plan.run_many(connection, frames)
        if self.kind is not None:  # else their slot answers for their time
            plan.kind.at_once += count
            plan.kind.sum_s += count * (self.now() - self.began)
        return count

    def _decode(self, connection: ServerConnection, api: Api, version: int, frame: memoryview) -> Request:
        header, position = decode_request_header(frame, flexible=version in api.flexible)
        session = connection.session
        session.client_id = header.client_id
        body, _ = api.decode_request(version, frame, position)
        return Request(api, version, header.correlation_id, body, session, connection, frame, position)

    def _call(self, registration: Registration, request: Request) -> None:
        try:
            row = self._intercepted(request)
            if row is None:
                if registration.waits:
                    self._spawn(registration, request)
                    return
                answer = registration.handler(request, self.node)
            else:
                answer = row
        except KafkaError as error:
            answer = registration.refused(request, error.code)
        except ProtocolError:
            raise
        except Postponed as later:
            request.connection.postpone(request.frame, self.now() + later.seconds)
            return
        except Exception as error:
            request.connection.answer(self.broken(request, error))
            return
        if isinstance(answer, Row):
            request.connection.answer(self.encoded(request, answer))

    def _spawn(self, registration: Registration, request: Request) -> None:
        request.connection.hold()
        pending = Pending(request)
        self.node.runtime.spawn(partial(self._wait, registration, request, pending), registration.api.name)

    async def _wait(self, registration: Registration, request: Request, pending: Pending) -> None:
        try:
            handler: Any = registration.handler
            answer = await handler(request, self.node)
        except KafkaError as error:
            answer = registration.refused(request, error.code)
        except Exception as error:
            pending.broken(error)
            answer = None
        if isinstance(answer, Row):
            pending.complete(answer)
        request.connection.release()

    def _intercepted(self, request: Request) -> Row | None:
        interceptor = self.interceptors.get(request.api.key)
        return interceptor(request) if interceptor is not None else None

    def encoded(self, request: Request, row: Row) -> Parts:
        try:
            return request.encode(row)
        except Exception as error:
            return self.broken(request, error)

    def broken(self, request: Request, error: Exception) -> Parts:
        """A bug of ours: this one request is answered with UNKNOWN_SERVER_ERROR, or its connection ends; nobody else hears of it."""
        self.metrics.count("raftka_handler_errors_total")
        self.events.error(
            "handler_failed", api=request.api.name, version=request.version, peer=request.session.peer, error=repr(error), where=_where(error)
        )
        try:
            row = HANDLERS[request.api.key].refused(request, Code.UNKNOWN_SERVER_ERROR)
            return request.encode(row) if row is not None else ()
        except Exception:
            request.connection.end("there are no words for what went wrong")
            return ()

    def failed(self, connection: ServerConnection, error: Exception) -> None:
        """A bug of ours in a plan: how much was done of what it answers nobody knows, so the connection ends; nobody else hears of it."""
        self.metrics.count("raftka_handler_errors_total")
        self.events.error("plan_failed", peer=connection.session.peer, error=repr(error), where=_where(error))
        connection.end("a request failed")

    def _unsupported(self, connection: ServerConnection, frame: memoryview, key: int, version: int, correlation_id: int) -> None:
        """Closed without an answer, but for ApiVersions: that one is answered as version 0, so that client and broker find a common version."""
        if key != API_VERSIONS_KEY:
            raise ProtocolError(f"API key {key} version {version} is not supported")
        api = HANDLERS[key].api
        decode_request_header(frame, flexible=version > api.max_version)  # what has none is no such request
        entry = api.response.api_keys(api_key=key, min_version=api.announced.low, max_version=api.announced.high)
        row = api.response(error_code=int(Code.UNSUPPORTED_VERSION), api_keys=[entry])
        connection.answer(encode_response(api, 0, correlation_id, row))

    # what connections report

    def connection_opened(self, connection: ServerConnection) -> None:
        self.node.admission.opened(connection)

    def connection_closed(self, connection: ServerConnection, reason: str) -> None:
        self.node.admission.closed(connection)
        self.events.debug("connection_closed", peer=connection.session.peer, reason=reason)

    def refused(self, connection: ServerConnection, reason: str) -> None:
        self.metrics.count("raftka_protocol_errors_total")
        self.events.warning("connection_refused", peer=connection.session.peer, listener=connection.session.listener, reason=reason)


def _where(error: Exception) -> str:
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    return f"{frame.tb_frame.f_code.co_filename}:{frame.tb_lineno}" if frame is not None else ""
