"""One client connection, sans-IO: bytes in, frames to dispatch, answers out in the order of their
requests. Knows no API.

A request is *answered*, *waiting* (its effect is made: appended, parked; requests behind it go on)
or *holding* (it asks the controller or authenticates: nothing behind it is decoded until it has its
answer).
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto
from math import inf
from struct import Struct
from typing import Protocol, TypeVar

from raftka.broker.context import BrokerContext
from raftka.broker.network.access.authorizer import Authorizer
from raftka.broker.network.frame_pool import FramePool
from raftka.broker.network.session import Session
from raftka.broker.telemetry.event_log import Events
from raftka.broker.telemetry.metrics import BOUNDS_S, FAST_S, Latency, Metrics
from raftka.limits import (
    IDLE_SECONDS,
    LOGIN_SECONDS,
    OUTPUT_BYTES,
    PARTIAL_FRAME_SECONDS,
    REQUEST_BYTES,
    REQUESTS_IN_HAND,
    Limit,
    LimitExceeded,
)
from raftka.runtime.interfaces import Buffer, FileSpan, Timer, Transport, pin, unpin
from raftka.wire.errors import ProtocolError
from raftka.wire.frame import FrameBuffer
from raftka.wire.schema import AnyApi, Versions

REPLANS = 32  # of one connection
TURN_S = 0.005  # CPU time of one connection's requests in a row, before others have theirs
HEAD = Struct(">hhi")  # api key, api version, correlation id
# while no long frame is to be read: such a frame does not come whole in one read
SHORT_READ_BYTES = 16 * 1024
DRIP_BYTES = 16 * 1024  # of a frame between two calls of `overdue`: less is no progress


class Arrival(Enum):
    """Treatment of the bytes that the client sends."""

    OPEN = auto()  # requests are handled
    ENDED = auto()  # the client has closed its side: what it has asked for is still answered
    DROPPED = auto()  # the connection ends: no byte is read as a request any more


class Reading(Enum):
    """Reading from the socket. While it is not on, whole frames that have come wait in the
    backlog.
    """

    ON = auto()
    HELD = auto()  # a request holds, or a quota mutes the client
    FULL = auto()  # too many requests or too many bytes of answers are in hand


OPEN, ENDED, DROPPED = Arrival
ON, HELD, FULL = Reading

ARRIVALS: Mapping[Arrival, frozenset[Arrival]] = {
    OPEN: frozenset({ENDED, DROPPED}),
    ENDED: frozenset({DROPPED}),
    DROPPED: frozenset(),
}
READINGS: Mapping[Reading, frozenset[Reading]] = {
    ON: frozenset({HELD, FULL}),
    HELD: frozenset({ON, FULL}),
    FULL: frozenset({ON}),
}

Parts = Sequence[Buffer | FileSpan]
Received = TypeVar("Received")  # frames, or bytes that may be whole frames


class Plan(Protocol):
    """Answers a request that differs from the last one of its kind only in its records, or its
    offset, without decoding it.
    """

    version: int
    latency: Latency
    operation: str
    resource: tuple[str, str]

    def run(
        self, connection: "ServerConnection", frame: memoryview, correlation_id: int
    ) -> bool: ...


class PipelinePlan(Plan, Protocol):
    """A plan for many requests that follow each other."""

    uniform_bytes: int  # of one of the requests, with its size, that `run_uniform` takes

    def run_many(self, connection: "ServerConnection", frames: Sequence[memoryview]) -> int:
        """Return how many frames from the front are answered."""

    def run_uniform(self, connection: "ServerConnection", view: memoryview) -> int:
        """Return how many requests are answered, all or none, when `view` seems to be requests of
        `uniform_bytes`.
        """


class Gate(Protocol):
    """Stands before the dispatcher until the client is known (authentication.py)."""

    @property
    def is_late(self) -> bool:
        """Return whether the time for the login is over."""

    def passes(self, frame: memoryview) -> bool:
        """Return whether the frame is the dispatcher's; else the gate has handled it. Raises
        ProtocolError.
        """


class LongFrames(Protocol):
    """The long requests of the node (long_requests.py), as a connection uses them."""

    is_full: bool

    def hold_back(self, connection: "ServerConnection") -> None: ...


class Dispatching(Protocol):
    """The dispatcher, as a connection uses it."""

    context: BrokerContext
    metrics: Metrics
    reports: "ConnectionReports"
    authorizer: Authorizer
    now: Callable[[], float]
    cpu_s: Callable[[], float]

    @property
    def long_requests(self) -> LongFrames: ...

    def announced(self, api: AnyApi, session: Session) -> Versions: ...

    def dispatch(self, connection: "ServerConnection", frame: memoryview) -> None:
        """Handle one request. Raises ProtocolError."""

    def dispatch_many(
        self,
        connection: "ServerConnection",
        run: Callable[["ServerConnection", Received], int],
        received: Received,
    ) -> int:
        """Return how many requests from the front are answered."""


class Slot:
    """A request's place in the order of answers. `complete_early` is called when a request of
    another kind waits behind: it answers with the records that there are.
    """

    __slots__ = ("complete_early", "connection", "latency", "parts", "received_s", "requests")

    def __init__(
        self,
        connection: "ServerConnection",
        complete_early: Callable[[], None] | None = None,
        requests: int = 1,
    ) -> None:
        self.connection = connection
        self.requests = requests  # more than one where a plan answers many in one go
        self.parts: Parts | None = None
        self.complete_early = complete_early
        self.received_s = connection.received_s
        # the time is added when the answer leaves
        self.latency, connection.latency = connection.latency, None

    def complete(self, parts: Parts) -> None:
        if self.parts is None:
            if not self.connection.gone:
                pin(parts)
            self.parts = parts
            self.complete_early = None  # it refers to the request, and the request to this slot
            self.connection.settle()


class ServerConnection:
    __slots__ = (
        "_arrival",
        "_backlog",
        "_frames",
        "_held",
        "_muted_until",
        "_pending_bytes",
        "_reading",
        "_replanned",
        "_unmutes",
        "active",
        "dispatcher",
        "follower",
        "gate",
        "handled",
        "latency",
        "out",
        "out_bytes",
        "pipeline",
        "plans",
        "received_s",
        "session",
        "silent_s",
        "slots",
        "transport",
    )

    def __init__(self, dispatcher: Dispatching, pool: FramePool, listener: str) -> None:
        self.dispatcher = dispatcher
        self.session = Session(listener)
        self.gate: Gate | None = None
        self.transport: Transport | None = None
        self.slots: deque[Slot] = deque()
        self.out: list[Buffer | FileSpan] = []
        self.out_bytes = 0
        self.plans: dict[int, Plan] = {}
        # the one of them for requests that come many at a time
        self.pipeline: PipelinePlan | None = None
        self.follower = -1  # id of the broker that fetches on this connection as a follower
        self.silent_s = 0.0
        self.active = True  # bytes have come since the last call of `overdue`
        self._pending_bytes = 0  # of a frame that was not whole then
        self._frames = FrameBuffer(REQUEST_BYTES.value, pool)
        self._arrival = OPEN
        self._reading = ON
        self._held = 0  # holding requests and mutes
        self._muted_until = 0.0
        self._unmutes: Timer | None = None
        self._backlog: deque[bytearray] = deque()  # frames behind one that holds
        self.received_s = 0.0  # on the node's clock: when the bytes under way came
        # of the request under way, until a slot takes it and adds the request's time
        self.latency: Latency | None = None
        self.handled: str | None = None  # the API of the last request that no plan has answered
        self._replanned = 0

    def limit_frames(self, size: int) -> None:
        """Refuse larger frames (bytes) from now on."""
        self._frames.limit_bytes = size

    # the network's side

    def opened(self, transport: Transport) -> None:
        self.transport = transport
        self.session.peer = transport.peer
        settings = self.dispatcher.context.metadata.settings
        if self.session.listener in settings.automatic_listeners:
            self.session.reached_at = transport.own_host()
        self.dispatcher.reports.opened(self)

    def room(self) -> memoryview | None:
        if self.dispatcher.long_requests.is_full and self._arrival is not DROPPED:
            if self._frames.is_long:
                self.dispatcher.long_requests.hold_back(self)
            return memoryview(bytearray(SHORT_READ_BYTES))
        try:
            return self._frames.room()
        except LimitExceeded as error:
            self.refuse(error)
            return None

    def receive(self, view: memoryview) -> None:
        self.active = True
        if self._arrival is DROPPED:
            return
        if not view:
            self._arrival = ENDED
            self._frames.drop()  # no more bytes come
            # perhaps the client is gone: that is known when an answer is sent
            self.complete_early()
            self.settle()
            return
        if (
            (pipeline := self.pipeline) is not None
            and (size := len(view)) > pipeline.uniform_bytes
            and not size % pipeline.uniform_bytes
            and self._dispatch_uniform(pipeline, view)
        ):
            return
        try:
            frames = self._frames.feed(view)
        except (ProtocolError, LimitExceeded) as error:
            self._dispatch(self._frames.before_error)
            self.refuse(error)
        else:
            self._dispatch(frames)

    def take_output(self) -> Parts:
        out, self.out = self.out, []
        self.out_bytes = 0
        if self._reading is not ON:
            self._resume()
        return out

    def closed(self, reason: str) -> None:
        if not self.session.peer:  # it was never opened: connection quotas have refused it
            self.dispatcher.reports.refused(self, reason)
        self.transport = None
        if self._unmutes is not None:  # its time may be hours away
            self._unmutes.cancel()
            self._unmutes = None
        self._drop_requests()
        self._drop_output()
        self.plans.clear()
        self.pipeline = None
        self.dispatcher.reports.closed(self, reason)

    # answers

    def slot(self, complete_early: Callable[[], None] | None = None, requests: int = 1) -> Slot:
        slot = Slot(self, complete_early, requests)
        self.slots.append(slot)
        return slot

    def answer(self, parts: Parts, size_bytes: int = 0) -> None:
        """Send an answer behind those of earlier requests. Its pieces of files may wait for long:
        they are pinned.
        """
        if self.transport is not None:
            pin(parts)
        if self.slots:
            slot = Slot(self)
            slot.parts = parts
            self.slots.append(slot)
        else:
            self.out.extend(parts)
            self.out_bytes += size_bytes or sum(
                [len(part) for part in parts if not isinstance(part, FileSpan)]
            )
            if self.out_bytes > OUTPUT_BYTES.value:
                self.check_crowded()
            if self.transport is not None:
                self.transport.wake()

    def settle(self) -> None:
        """Send the answers at the front that are complete."""
        slots, now = self.slots, self.dispatcher.now
        while slots and (parts := slots[0].parts) is not None:
            slot = slots.popleft()
            if (latency := slot.latency) is not None:
                took = now() - slot.received_s
                latency.sum_s += took * slot.requests  # Latency.add, without its call
                if took < FAST_S:
                    latency.fast += slot.requests
                else:
                    latency.slots[bisect_left(BOUNDS_S, took)] += slot.requests
            self.out.extend(parts)
            for part in parts:
                if part.__class__ is not FileSpan:
                    self.out_bytes += len(part)  # type: ignore[arg-type]
        if self.transport is None:
            return
        if self.out_bytes > OUTPUT_BYTES.value:
            self.check_crowded()
        self.transport.wake()
        if self._reading is not ON:
            self._resume()
        if self._arrival is ENDED and not slots and not self._held:
            self.transport.close("closed by the other side")

    def hold(self) -> None:
        """Decode nothing behind this request until `release`."""
        self._held += 1
        if self._reading is ON:
            self._reading = HELD
            self._hold_reading()

    def release(self) -> None:
        self._held -= 1
        self._resume()

    def mute(self, until: float) -> None:
        """Read nothing more before `until` (seconds on the runtime's clock; now: the next turn).
        Requests that have come are answered. For quotas (KIP-219).
        """
        if self._unmutes is None:
            self.hold()
        else:
            self._unmutes.cancel()
            until = max(until, self._muted_until)
        self._muted_until = until
        self._unmutes = self.dispatcher.context.runtime.clock.call_at(until, self._unmute)

    def _unmute(self) -> None:
        self._unmutes = None
        self.release()

    def release_soon(self) -> None:
        """Release in the next turn, which then dispatches the requests behind."""
        self.dispatcher.context.runtime.clock.call_at(self.dispatcher.now(), self.release)

    def postpone(self, frame: memoryview, until: float) -> None:
        """Dispatch the frame again at `until` (seconds on the runtime's clock), before the frames
        behind it.
        """
        self._backlog.appendleft(bytearray(frame))
        self.mute(until)

    def complete_early(self) -> None:
        """Complete the requests that wait only to send more in one answer: a request of another
        kind has come, or the client sends no more.
        """
        for slot in tuple(self.slots):
            if slot.parts is None and slot.complete_early is not None:
                slot.complete_early()

    def refuse(self, error: ProtocolError | LimitExceeded) -> None:
        """End the connection of a client that breaks the protocol, when the answers to earlier
        requests have left; the log gets one line.
        """
        if self.transport is not None and self._arrival is not DROPPED:
            if error.limit is not None:
                self.dispatcher.metrics.refused(error.limit)
            self.dispatcher.reports.refused(self, str(error))
            self.end(str(error))

    def end(self, reason: str) -> None:
        """Close when the answers that are complete have left; requests that wait get none."""
        self._drop_requests()
        if self.transport is not None:
            self.transport.close(reason)

    def abort(self, reason: str) -> None:
        """Close at once; answers that have not left are dropped."""
        self._drop_requests()
        self._drop_output()
        if self.transport is not None:
            self.transport.drop(reason)

    def _drop_output(self) -> None:
        out, self.out = self.out, []
        unpin(out)

    def _drop_requests(self) -> None:
        """Drop the decoded requests and complete those that wait: the client is gone."""
        self._arrival = DROPPED
        slots, self.slots = self.slots, deque()
        for slot in slots:
            unpin(slot.parts or ())
            if slot.parts is None and slot.complete_early is not None:
                slot.complete_early()
                slot.complete_early = None
        self._backlog.clear()
        self._frames.drop()

    def _dispatch(self, frames: Sequence[memoryview]) -> None:
        """Dispatch one frame after the other, until one holds."""
        dispatcher = self.dispatcher
        dispatch = dispatcher.dispatch if self.gate is None else self._dispatch_guarded
        self.received_s = dispatcher.now()
        try:
            # most often
            if len(frames) == 1 and self._reading is ON and self._arrival is not DROPPED:
                dispatch(self, frames[0])
                return
            if (
                self.pipeline is not None
                and self.gate is None
                and len(frames) > 1
                and self._reading is ON
                and self._arrival is not DROPPED
            ):
                frames = frames[dispatcher.dispatch_many(self, self.pipeline.run_many, frames) :]
            until = dispatcher.cpu_s() + TURN_S if len(frames) > 1 else inf
            for at, frame in enumerate(frames):
                if self._arrival is DROPPED:
                    return
                if (
                    at
                    and self._reading is ON
                    and dispatcher.now() - self.received_s > TURN_S
                    and dispatcher.cpu_s() > until
                ):
                    self.mute(dispatcher.now())
                if self._reading is ON:
                    dispatch(self, frame)
                else:
                    self._backlog.append(bytearray(frame))
        except ProtocolError as error:
            self.refuse(error)
        except Exception as error:
            dispatcher.reports.failed(self, error)

    def _dispatch_uniform(self, pipeline: PipelinePlan, view: memoryview) -> bool:
        """Return whether the pipeline has answered the bytes: whole requests of one size."""
        dispatcher = self.dispatcher
        if self._reading is not ON or self.gate is not None or not self._frames.is_between_frames:
            return False
        self.received_s = dispatcher.now()
        try:
            return dispatcher.dispatch_many(self, pipeline.run_uniform, view) > 0
        except Exception as error:
            dispatcher.reports.failed(self, error)
            return True

    @staticmethod
    def _dispatch_guarded(connection: "ServerConnection", frame: memoryview) -> None:
        """The gate may go with any frame: then it lets all pass."""
        if connection.gate is None or connection.gate.passes(frame):
            connection.dispatcher.dispatch(connection, frame)

    # flow

    @property
    def gone(self) -> bool:
        """The client is gone: no answer can be sent."""
        return self._arrival is DROPPED or self.transport is None

    @property
    def abandoned(self) -> bool:
        """Return whether the client is gone or has closed its side, also while nothing is read.
        Costs a syscall.
        """
        return self.gone or self.transport is None or self.transport.left()

    def overdue(self, passed_s: float) -> Limit | None:
        """Return the limit that the connection has broken by its silence; None: it goes on. Called
        every few seconds, `passed_s` after the last call. A few bytes of a frame are silence, too.
        """
        pending, before = self._frames.pending_bytes, self._pending_bytes
        self._pending_bytes = pending
        goes_on = self.active and (not before or not before <= pending < before + DRIP_BYTES)
        self.active = False
        self.silent_s = 0.0 if goes_on else self.silent_s + passed_s
        if self.gate is not None and self.gate.is_late:
            return LOGIN_SECONDS
        if self._muted_until > self.dispatcher.now():
            self.silent_s = 0.0  # the broker reads nothing: the client is not to blame
            return IDLE_SECONDS if self.abandoned else None
        # a client that is not read from cannot finish its frame
        limit = (
            PARTIAL_FRAME_SECONDS
            if (pending and self._reading is ON) or self._arrival is DROPPED
            else IDLE_SECONDS
        )
        return limit if self.silent_s >= limit.value else None

    @property
    def crowded(self) -> bool:
        return len(self.slots) >= REQUESTS_IN_HAND.value or self.out_bytes > OUTPUT_BYTES.value

    def check_crowded(self) -> None:
        """Read nothing more while too much is in hand."""
        if self.crowded and self._reading is not FULL:
            self.dispatcher.metrics.hit(
                REQUESTS_IN_HAND if self.out_bytes <= OUTPUT_BYTES.value else OUTPUT_BYTES
            )
            was_on = self._reading is ON
            self._reading = FULL
            if was_on:
                self._hold_reading()

    def _hold_reading(self) -> None:
        if self.transport is not None:
            self.transport.hold_reading(True)

    def _resume(self) -> None:
        """Dispatch the backlog, at most until the next request that holds, then read on."""
        if self._held or self.transport is None:
            return
        self.check_crowded()
        if self.crowded:
            return
        self._reading = ON
        dispatcher = self.dispatcher
        until = dispatcher.cpu_s() + TURN_S if len(self._backlog) > 1 else inf
        began = now = dispatcher.now()
        try:
            while self._backlog and self._reading is ON:
                # the first clock costs next to nothing
                if now - began > TURN_S and dispatcher.cpu_s() > until:
                    self.mute(now)
                    return
                self.received_s = now
                self._dispatch_guarded(self, memoryview(self._backlog.popleft()))
                now = dispatcher.now()
        except ProtocolError as error:
            self.refuse(error)
            return
        except Exception as error:
            dispatcher.reports.failed(self, error)
            return
        if self._arrival is DROPPED:
            return
        if self._reading is ON and self.transport is not None:
            if self._arrival is ENDED:
                self.settle()
            else:
                self.transport.hold_reading(False)

    def worth_a_plan(self, api_key: int) -> bool:
        """Return whether the client repeats its partition: else plans gain nothing, and making one
        costs more than a request.
        """
        if api_key in self.plans:
            self._replanned += 1
        return self._replanned <= REPLANS


class ConnectionReports:
    """Reports of connections to other parts of the node: the log, metrics, quotas, suspects."""

    def __init__(self, metrics: Metrics, events: Events) -> None:
        self._metrics = metrics
        self._events = events
        self.on_opened: Callable[[ServerConnection], None] = _ignore
        self.on_closed: Callable[[ServerConnection], None] = _ignore
        # with the broker id of a follower whose connection has ended
        self.on_broken: Callable[[int], None] = _ignore

    def opened(self, connection: ServerConnection) -> None:
        self.on_opened(connection)

    def closed(self, connection: ServerConnection, reason: str) -> None:
        self.on_closed(connection)
        if connection.follower >= 0:
            self.on_broken(connection.follower)
        self._events.debug("connection_closed", peer=connection.session.peer, reason=reason)

    def refused(self, connection: ServerConnection, reason: str) -> None:
        self._metrics.count("raftka_protocol_errors_total")
        self._events.warning(
            "connection_refused",
            peer=connection.session.peer,
            listener=connection.session.listener,
            reason=reason,
        )

    def failed(self, connection: ServerConnection, error: Exception) -> None:
        """End the connection after a bug of the broker outside of a handler: the state of its
        requests is unknown. Other connections are not affected.
        """
        self._metrics.count("raftka_handler_errors_total")
        self._events.error(
            "plan_failed",
            peer=connection.session.peer,
            error=repr(error),
            where=raised_at(error),
        )
        connection.end("a request failed")


def raised_at(error: Exception) -> str:
    """Return file and line where the exception was raised."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    return f"{frame.tb_frame.f_code.co_filename}:{frame.tb_lineno}" if frame is not None else ""


def _ignore(_: object) -> None:
    pass
