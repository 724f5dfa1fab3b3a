"""From a frame to its handler and back: decode, authorise, call, encode. Knows no API beyond
ApiVersions' special case, and no socket.

A handler takes the request and, behind it, the parts of the broker that its annotations name. It
is a plain function that returns a row, or a Delayed (a parked produce or fetch). The
handler of a request that can have many items is a generator: it yields between items, so that one
long request does not keep the loop (long_work.py); a long frame is decoded in the same way.
Handlers that must ask the controller are `async`. The connection holds behind every request that
goes on in a later turn.
"""

from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping
from copy import copy
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from inspect import iscoroutinefunction, isgeneratorfunction, signature
from typing import Any, Concatenate, ParamSpec, TypeVar, Union

from raftka.broker.context import BrokerContext
from raftka.broker.network.access.authorizer import AllowAll, Authorizer
from raftka.broker.network.connection import (
    HEAD,
    ConnectionReports,
    Parts,
    ServerConnection,
    raised_at,
)
from raftka.broker.network.frame_pool import FramePool
from raftka.broker.network.quotas.client_quotas import ClientQuotas
from raftka.broker.network.request import Delayed, Request
from raftka.broker.network.session import Session
from raftka.broker.telemetry.metrics import SAMPLED
from raftka.broker.work.long_requests import LongRequests
from raftka.broker.work.long_work import LongWork, Steps, Unfinished, drained
from raftka.runtime.memory import Owned, owned
from raftka.wire.api_ceilings import Ceiling
from raftka.wire.errors import Code, KafkaError, ProtocolError, limit_of
from raftka.wire.frame import RequestHeader, decode_request_header, encode_response
from raftka.wire.schema import AnyApi, Api, Req, Resp, Row, Versions

API_VERSIONS_KEY = 18
FETCH_KEY = 1
LONG_FRAME_BYTES = 16 * 1024  # from this size on a request is decoded in steps

Received = TypeVar("Received")
Taken = ParamSpec("Taken")  # the parts that a handler takes: handlers/parts.py


class Postponed(Exception):
    """Raised by an interceptor: handle the request, and all behind it on its connection, later."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


Answer = Row | Delayed | None
AnswerOf = Union[Resp, Delayed, None]  # noqa: UP007
Answers = Union[AnswerOf[Resp], Steps[AnswerOf[Resp]], Awaitable[AnswerOf[Resp]]]  # noqa: UP007
Handler = Callable[Concatenate[Request[Req], Taken], Answers[Resp]]
Refusal = Callable[[Request[Req], Code], Resp | Steps[Resp | None] | None]
# returns the answer; None: the handler is called. May raise KafkaError and Postponed
Interceptor = Callable[[Request[Any]], Row | None]


def _refused(request: Request[Any], code: Code) -> Any:
    return request.api.response(error_code=int(code))


def _missing(request: Request[Any], *parts: Any) -> Any:
    raise NotImplementedError(request.api.name)


@dataclass(slots=True)
class Registration:
    """An API and its handler."""

    api: AnyApi
    module: str  # imported when the first request comes; the import sets the following fields
    # a Handler; `waits` and `in_steps` say what it returns
    handler: Callable[..., Any] = _missing
    parts: tuple[type, ...] = ()  # the annotations of its parameters behind the request
    refused: Refusal[Any, Any] = _refused
    waits: bool = False  # async: asks the controller
    in_steps: bool = False  # a generator

    def load(self) -> None:
        if self.handler is _missing:
            import_module(self.module)


Handlers = dict[int, Registration]  # by API key; ApiVersions announces exactly these
HANDLERS: Handlers = {}  # of brokers
CONTROLLER_HANDLERS: Handlers = {}  # of the controllers' listener
OWN_HANDLERS: Handlers = {}  # raftka's own APIs, of brokers; only raftka's tools are shown them
FIRST_OWN_KEY = 30_000


def register(module: str, apis: Iterable[AnyApi], table: Handlers = HANDLERS) -> None:
    """Register APIs. The import of the module sets their handlers."""
    table.update((api.key, Registration(api, module)) for api in apis)


def handles(
    api: Api[Req, Resp],
    refused: Refusal[Req, Resp] = _refused,
    table: Handlers = HANDLERS,
) -> Callable[[Handler[Req, Taken, Resp]], Handler[Req, Taken, Resp]]:
    """Set the handler of a registered API. `refused` makes the answer to a request that failed as a
    whole; by default the top level `error_code` is set.
    """

    def handle(handler: Handler[Req, Taken, Resp]) -> Handler[Req, Taken, Resp]:
        registration = table[api.key]
        registration.handler, registration.refused = handler, refused
        registration.parts = tuple(
            [each.annotation for each in signature(handler).parameters.values()][1:]
        )
        registration.waits, registration.in_steps = (
            iscoroutinefunction(handler),
            isgeneratorfunction(handler),
        )
        return handler

    return handle


class BoundParts(dict[int, tuple[object, ...]]):
    """The parts that the handler of an API takes, by API key. The first request binds them, because
    it imports the handler; later requests cost no Python call.
    """

    def __init__(self, parts: Mapping[type, object], handlers: Handlers) -> None:
        super().__init__()
        self.parts = parts
        self._handlers = handlers

    def __missing__(self, key: int) -> tuple[object, ...]:
        registration = self._handlers.get(key) or OWN_HANDLERS[key]
        bound = self[key] = tuple([self.parts[each] for each in registration.parts])
        return bound


class Dispatcher:
    def __init__(self, context: BrokerContext, pool: FramePool) -> None:
        self.context = context
        self.pool = pool
        self.handlers, self.own = HANDLERS, OWN_HANDLERS
        # the node calls `serve` when it has all its parts
        self.parts = BoundParts({}, HANDLERS)
        self.reports = ConnectionReports(context.metrics, context.events)
        self.long_work = LongWork(context.runtime.clock, self.work_failed)
        self.long_requests: LongRequests[Request[Row]] = LongRequests(
            context.metrics, Request.is_abandoned
        )
        self.events = context.events
        self.metrics = context.metrics
        self.authorizer: Authorizer = AllowAll()
        self.quotas = ClientQuotas(context)
        self.interceptors: dict[int, Interceptor] = {}  # by API key; for tests that inject faults
        self.connections: dict[ServerConnection, None] = {}
        release = context.metadata.settings["raftka.api.ceiling"]
        self.ceiling = Ceiling(release) if release is not None else None
        self.now = context.runtime.clock.now
        self.cpu_s = context.runtime.clock.cpu_s

    def serve(self, parts: Mapping[type, object]) -> None:
        """Give handlers these parts, by the types with which handlers name them."""
        self.parts = BoundParts(parts, self.handlers)

    def of_controllers(self) -> "Dispatcher":
        """Return a dispatcher for the controllers' listener. It shares all else with this one:
        connections, rights, quotas and long work.
        """
        other = copy(self)
        other.handlers, other.own = CONTROLLER_HANDLERS, {}
        return other

    def apis(self, session: Session) -> list[AnyApi]:
        """Return the APIs of this listener that the client is shown, in the order of their keys."""
        own = self.own if session.is_raftka else {}
        return [table[key].api for table in (self.handlers, own) for key in sorted(table)]

    def announced(self, api: AnyApi, session: Session) -> Versions:
        """Return the versions that ApiVersions shows to this client; NO_VERSION: the API is not
        there. A ceiling does not hold for raftka's own nodes and tools.
        """
        if self.ceiling is None or session.is_raftka:
            return api.announced
        return self.ceiling.announced(api)

    # from a frame to its handler

    def dispatch(self, connection: ServerConnection, frame: memoryview) -> None:
        """Handle one whole frame, without its size. Raises ProtocolError."""
        if len(frame) < HEAD.size:
            raise ProtocolError(f"a request of {len(frame)} bytes")
        key, version, correlation_id = HEAD.unpack_from(frame)
        slots = connection.slots
        if slots:
            if key != FETCH_KEY:
                connection.complete_early()
            connection.check_crowded()
        if not self.interceptors and not (
            self.quotas.active and self.quotas.limits(connection.session)
        ):
            plan = connection.plans.get(key)
            if plan is not None:
                connection.latency = plan.latency
            if (
                plan is not None
                and plan.version == version
                and self.authorizer.allowed(connection.session, plan.operation, plan.resource)
                and plan.run(connection, frame, correlation_id)
            ):
                if (latency := connection.latency) is not None:
                    latency.at_once += 1
                    if not latency.at_once % SAMPLED:
                        latency.sum_s += SAMPLED * (self.now() - connection.received_s)
                return
        registration = self.handlers.get(key)
        if key >= FIRST_OWN_KEY:
            registration = self.own.get(key)
        if (
            registration is None
            or version not in registration.api.versions
            or (
                self.ceiling is not None
                and version not in self.announced(registration.api, connection.session)
            )
        ):
            self._unsupported(connection, frame, key, version, correlation_id)
            return
        connection.latency = self.metrics.latency(registration.api.name)
        connection.handled = registration.api.name
        if len(frame) > LONG_FRAME_BYTES:
            self._decode_long(connection, registration, version, frame)
        else:
            request = self._decode(connection, registration.api, version, frame)
            self._call(registration, request)
            if request.meter is not None:
                request.meter.pause()
        if connection.latency is not None:
            connection.latency.add(self.now() - connection.received_s)

    def dispatch_many(
        self,
        connection: ServerConnection,
        run: Callable[[ServerConnection, Received], int],
        received: Received,
    ) -> int:
        """Return how many requests from the front a plan has answered together, by its method
        `run_many` or `run_uniform`.
        """
        plan = connection.pipeline
        session = connection.session
        if (
            plan is None
            or self.interceptors
            or not self.authorizer.allowed(session, plan.operation, plan.resource)
        ):
            return 0
        if self.quotas.active and self.quotas.limits(session):
            return 0
        if connection.slots:
            connection.complete_early()
            connection.check_crowded()
        connection.latency = plan.latency
        count = run(connection, received)
        if connection.latency is not None:  # else their slot adds their time
            plan.latency.at_once += count
            plan.latency.sum_s += count * (self.now() - connection.received_s)
        return count

    def _decode(
        self, connection: ServerConnection, api: AnyApi, version: int, received: memoryview
    ) -> Request[Row]:
        began_s = self.cpu_s() if self.quotas.active else 0.0
        frame = owned(received)  # its handler may go on in a later turn, and cannot know beforehand
        header, position = self._header(connection, api, version, frame)
        body, _ = api.decode_request(version, frame, position)
        request = Request(
            api,
            version,
            header.correlation_id,
            body,
            connection.session,
            connection,
            self,
            frame,
            position,
        )
        if self.quotas.active:
            request.meter = self.quotas.meter(request, began_s)
        return request

    @staticmethod
    def _header(
        connection: ServerConnection, api: AnyApi, version: int, frame: memoryview
    ) -> tuple[RequestHeader, int]:
        header, position = decode_request_header(frame, flexible=version in api.flexible)
        if header.client_id != connection.session.client_id:  # plans are those of one client id
            connection.session.client_id = header.client_id
            connection.plans.clear()
            connection.pipeline = None
        return header, position

    def _decode_long(
        self,
        connection: ServerConnection,
        registration: Registration,
        version: int,
        received: memoryview,
    ) -> None:
        api, pool = registration.api, self.pool
        # the pool's buffer is held when a later turn reads it
        frame = Owned(received) if pool.lends(received) else owned(received)
        header, position = self._header(connection, api, version, frame)
        request: Request[Row] = Request(
            api,
            version,
            header.correlation_id,
            api.request(),
            connection.session,
            connection,
            self,
            frame,
            position,
        )
        steps = api.decode_request_in_steps(version, frame, position)

        if self.quotas.active:
            request.meter = self.quotas.meter(request, self.cpu_s())
        resume = partial(
            self.long_work.resume,
            api.name,
            steps,
            partial(self._on_decoded, registration, request),
            request.is_wanted,
            request.fail,
            request.spent,
        )
        try:
            if not self.long_requests.enter(request, len(frame), resume):
                raise Unfinished
            request.body, _ = self.long_work.begin(steps)
        except Unfinished:
            pool.hold(frame)
            connection.hold()
            request.slot = connection.slot()
            if self.long_requests.has(request):
                resume()
        except ProtocolError:
            self.long_requests.leave(request)
            raise
        else:
            self._call(registration, request)
            if not request.goes_on and not request.stays:
                self.long_requests.leave(request)
        finally:
            if request.meter is not None:
                request.meter.pause()

    def _on_decoded(
        self, registration: Registration, request: Request[Row], result: tuple[Row, int] | Exception
    ) -> None:
        connection = request.connection
        try:
            if isinstance(result, Exception):
                raise result
            request.body = result[0]
            if request.meter is not None:
                request.meter.go_on()
            self._call(registration, request)
            if request.meter is not None:
                request.meter.pause()
        except ProtocolError as error:
            connection.refuse(error)
        except Exception as error:
            self.reports.failed(connection, error)
        connection.latency = None  # its slot adds its time
        if not request.goes_on and not request.stays:
            self.long_requests.leave(request)
        connection.release()

    def _call(self, registration: Registration, request: Request[Row]) -> None:
        if request.meter is not None:
            self.quotas.arrived(request)
        try:
            registration.load()
            answer: Answer | Exception = self._intercepted(request)
            if answer is None:
                if registration.waits:
                    self._spawn(registration, request)
                    return
                if registration.in_steps:
                    steps = self._in_steps(registration, request)
                    answer = self.long_work.begin(steps)
                else:
                    answer = registration.handler(request, *self.parts[registration.api.key])
        except Unfinished:
            self._call_later(request, steps)
            return
        except KafkaError as error:
            self._count_limit(error)
            answer = _drained(registration.refused(request, error.code))
        except ProtocolError:
            raise
        except Postponed as later:
            if request.slot is not None:
                request.slot.complete(())
            request.connection.postpone(request.frame, self.now() + later.seconds)
            return
        except Exception as error:
            answer = error
        self._answer(request, answer)

    def _count_limit(self, error: KafkaError) -> None:
        for limit in limit_of(error):
            self.metrics.hit(limit)

    def _in_steps(self, registration: Registration, request: Request[Row]) -> Steps[Answer]:
        """Take the steps of the handler; if it fails, those of the refusal of every item."""
        try:
            steps: Steps[Answer] = registration.handler(request, *self.parts[registration.api.key])
            return (yield from steps)
        except KafkaError as error:
            self._count_limit(error)
            refusal = registration.refused(request, error.code)
            return (yield from refusal) if isinstance(refusal, Generator) else refusal

    def _call_later(self, request: Request[Row], steps: Steps[Answer]) -> None:
        """Go on with the handler of a long request in later turns; requests behind it on its
        connection wait.
        """
        connection = request.connection
        request.keep(self.pool)
        request.slot = request.slot or request.promised or connection.slot()
        request.goes_on = True
        connection.hold()

        def done(result: Answer | Exception) -> None:
            self._answer(request, result)
            if not isinstance(result, Delayed):
                request.free()
            elif not request.stays:
                self.long_requests.leave(request)
            connection.release()

        self.long_work.resume(
            request.api.name,
            steps,
            done,
            request.is_wanted,
            request.fail,
            request.spent,
        )

    def _answer(self, request: Request[Row], answer: Answer | Exception) -> None:
        slot = request.slot
        if isinstance(answer, Delayed) or (answer is None and slot is None):
            return
        parts: Parts = ()
        if isinstance(answer, Row):
            parts = request.dispatcher.encoded(request, answer)
        elif answer is not None:
            parts = request.dispatcher.broken(request, answer)
        if slot is None:
            request.connection.answer(parts)
        else:
            slot.complete(parts)

    def _spawn(self, registration: Registration, request: Request[Row]) -> None:
        request.connection.hold()
        request.goes_on = True
        pending = Delayed(request)
        request.slot = pending.slot  # an answer that comes later still takes the same place
        self.context.runtime.spawn(
            partial(self._wait, registration, request, pending), registration.api.name
        )

    async def _wait(
        self, registration: Registration, request: Request[Row], pending: Delayed
    ) -> None:
        try:
            answer: Answer = await registration.handler(request, *self.parts[registration.api.key])
        except KafkaError as error:
            self._count_limit(error)
            refusal = registration.refused(request, error.code)
            answer = await request.finish(refusal) if isinstance(refusal, Generator) else refusal
        except Exception as error:
            pending.broken(error)
            answer = None
        if isinstance(answer, Row):
            pending.complete(answer)
        if not isinstance(answer, Delayed):
            request.free()
        elif not request.stays:  # else the code that completes the Delayed frees the request
            self.long_requests.leave(request)
        request.connection.release()

    def _intercepted(self, request: Request[Row]) -> Row | None:
        interceptor = self.interceptors.get(request.api.key)
        return interceptor(request) if interceptor is not None else None

    def encoded(self, request: Request[Row], row: Row) -> Parts:
        try:
            if request.meter is not None:
                request.meter.tell(row)
            return request.encode(row)
        except Exception as error:
            return self.broken(request, error)

    def broken(self, request: Request[Row], error: Exception) -> Parts:
        """Return the answer after a bug of the broker: UNKNOWN_SERVER_ERROR, or none, and the
        connection ends. Other requests are not affected.
        """
        self.metrics.count("raftka_handler_errors_total")
        self.events.error(
            "handler_failed",
            api=request.api.name,
            version=request.version,
            peer=request.session.peer,
            error=repr(error),
            where=raised_at(error),
        )
        try:
            row = _drained(
                self.handlers[request.api.key].refused(request, Code.UNKNOWN_SERVER_ERROR)
            )
            return request.encode(row) if row is not None else ()
        except Exception:
            request.connection.end("an error without text")
            return ()

    def work_failed(self, name: str, error: Exception) -> None:
        """Report a bug of the broker at the end of long work that no connection waits for."""
        self.metrics.count("raftka_handler_errors_total")
        self.events.error("long_work_failed", work=name, error=repr(error), where=raised_at(error))

    def _unsupported(
        self,
        connection: ServerConnection,
        frame: memoryview,
        key: int,
        version: int,
        correlation_id: int,
    ) -> None:
        """Close the connection without an answer; but answer ApiVersions as version 0, so that
        client and broker find a common version. Raises ProtocolError.
        """
        if key != API_VERSIONS_KEY:
            raise ProtocolError(f"API key {key} version {version} is not supported")
        api = self.handlers[key].api
        announced = self.announced(api, connection.session)
        # raises when the frame has no header, and so is no request
        decode_request_header(frame, flexible=version > announced.high)
        entry = api.response.api_keys(
            api_key=key, min_version=announced.low, max_version=announced.high
        )
        row = api.response(error_code=int(Code.UNSUPPORTED_VERSION), api_keys=[entry])
        connection.answer(encode_response(api, 0, correlation_id, row))


def _drained(refusal: Row | Steps[Row | None] | None) -> Row | None:
    """Take all steps now: for requests of few items, and after a bug of the broker."""
    return drained(refusal) if isinstance(refusal, Generator) else refusal
