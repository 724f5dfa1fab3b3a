"""One client connection, sans-IO: bytes in, frames to dispatch, answers out in the order of their requests. Knows no API.

A request is *answered*, *waiting* (its effect is made: appended, parked; what follows goes on) or *holding* (it asks the controller or
authenticates: nothing behind it is decoded until it has its answer).
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import TYPE_CHECKING, Any, Protocol

from raftka.broker.frame_pool import FramePool
from raftka.limits import OUTPUT_BYTES, REQUEST_BYTES, REQUESTS_IN_HAND, LimitExceeded
from raftka.runtime.door import Buffer, FileSpan, Transport
from raftka.wire.errors import ProtocolError

if TYPE_CHECKING:
    from raftka.broker.dispatch import Dispatcher

SIZE = Struct(">i")
HEAD = Struct(">hhi")  # api key, api version, correlation id
SMALLEST_FRAME = 8
LOOKS_LIKE = {0x47455420: "HTTP", 0x504F5354: "HTTP", 0x16030100: "TLS", 0x16030101: "TLS", 0x16030102: "TLS", 0x16030103: "TLS"}

Parts = Sequence[Buffer | FileSpan]


@dataclass(slots=True)
class Session:
    """Who speaks: goes with every request, forwarded ones too."""

    listener: str
    peer: str = ""
    principal: str = "User:ANONYMOUS"
    client_id: str | None = None
    authenticated: bool = True


class Plan(Protocol):
    """What a connection remembers of the last request of a kind, to answer one that differs only in its records without decoding it."""

    version: int

    def run(self, connection: "ServerConnection", frame: memoryview, correlation_id: int) -> bool: ...


class Slot:
    """A request's place in the order of answers; `hurry`: answer now with what there is, a request of another kind waits behind."""

    __slots__ = ("connection", "hurry", "parts")

    def __init__(self, connection: "ServerConnection", hurry: Callable[[], None] | None = None) -> None:
        self.connection = connection
        self.parts: Parts | None = None
        self.hurry = hurry

    def complete(self, parts: Parts) -> None:
        if self.parts is None:
            self.parts = parts
            self.connection.settle()


class ServerConnection:
    __slots__ = (
        "_backlog",
        "_ended",
        "_filled",
        "_frame",
        "_held",
        "_needed",
        "_over",
        "_pool",
        "_stopped",
        "active",
        "dispatcher",
        "out",
        "out_bytes",
        "plans",
        "session",
        "silent_s",
        "slots",
        "transport",
    )

    def __init__(self, dispatcher: "Dispatcher", pool: FramePool, listener: str) -> None:
        self.dispatcher = dispatcher
        self.session = Session(listener)
        self.transport: Transport | None = None
        self.slots: deque[Slot] = deque()
        self.out: list[Buffer | FileSpan] = []
        self.out_bytes = 0
        self.plans: dict[int, Plan] = {}
        self.silent_s = 0.0
        self.active = True  # something came since the last sweep
        self._pool = pool
        self._frame: bytearray | None = None  # of a frame that has not come whole, with its size
        self._filled = 0
        self._needed = 0
        self._held = 0  # holding requests and mutes
        self._stopped = False  # reading, because of what is held or too much in hand
        self._backlog = bytearray()
        self._ended = False
        self._over = False  # it will be closed, what still comes is of no interest

    # the network's side

    def opened(self, transport: Transport) -> None:
        self.transport = transport
        self.session.peer = transport.peer

    def room(self) -> memoryview | None:
        if self._frame is None or self._stopped:
            return None
        return memoryview(self._frame)[self._filled : self._needed]

    def receive(self, view: memoryview) -> None:
        self.active = True
        if self._over:
            return
        if not view:
            self._ended = True
            self.settle()
            return
        if self._stopped:
            self._backlog += view
            return
        try:
            self._take(view)
        except (ProtocolError, LimitExceeded) as error:
            self.refuse(str(error))

    def take_output(self) -> Parts:
        out, self.out = self.out, []
        self.out_bytes = 0
        if self._stopped:
            self._resume()
        return out

    def closed(self, reason: str) -> None:
        self.transport = None
        self.slots.clear()
        self.plans.clear()
        self._drop_frame()
        self.dispatcher.connection_closed(self, reason)

    # answers

    def slot(self, hurry: Callable[[], None] | None = None) -> Slot:
        slot = Slot(self, hurry)
        self.slots.append(slot)
        return slot

    def answer(self, parts: Parts, size_bytes: int = 0) -> None:
        """An answer that is there at once; it still leaves behind those before it."""
        if self.slots:
            slot = Slot(self)
            slot.parts = parts
            self.slots.append(slot)
        else:
            self.out.extend(parts)
            self.out_bytes += size_bytes or sum([len(part) for part in parts if not isinstance(part, FileSpan)])
            if self.out_bytes > OUTPUT_BYTES.value:
                self.check_crowded()
            if self.transport is not None:
                self.transport.wake()

    def settle(self) -> None:
        """Whatever is answered at the front leaves."""
        slots = self.slots
        while slots and (parts := slots[0].parts) is not None:
            slots.popleft()
            self.out.extend(parts)
        if self.transport is None:
            return
        self.transport.wake()
        if self._stopped:
            self._resume()
        if self._ended and not slots and not self._held:
            self.transport.close("closed by the other side")

    def hold(self) -> None:
        """Nothing behind this request is decoded until `release`."""
        self._held += 1
        self._stop()

    def release(self) -> None:
        self._held -= 1
        self._resume()

    def hurry(self) -> None:
        """A request of another kind has come: whoever waits for more to send need not wait on."""
        for slot in tuple(self.slots):
            if slot.parts is None and slot.hurry is not None:
                slot.hurry()

    def refuse(self, reason: str) -> None:
        """The other side does not keep to the protocol: one line in the log, and the connection ends."""
        if self.transport is not None:
            self.dispatcher.refused(self, reason)
            self.abort(reason)

    def abort(self, reason: str) -> None:
        """Close without what has not left yet."""
        self._over = True
        self.slots.clear()
        self.out = []
        self._drop_frame()
        if self.transport is not None:
            self.transport.close(reason)

    # frames

    def _take(self, view: memoryview) -> None:
        if self._frame is not None:
            position = self._fill(view)
            if position < 0:
                return
        else:
            position = 0
        end = len(view)
        dispatch = self.dispatcher.dispatch
        while end - position >= 4:
            (size,) = SIZE.unpack_from(view, position)
            if not SMALLEST_FRAME <= size <= REQUEST_BYTES.value:
                raise self._bad_size(size)
            after = position + 4 + size
            if after > end:
                break
            if self._stopped:
                break
            dispatch(self, view[position + 4 : after])
            position = after
        if position < end and not self._over:
            if self._stopped:
                self._backlog += view[position:]
            else:
                self._begin(view[position:])

    def _fill(self, view: memoryview) -> int:
        """Go on with the frame that has begun; how much of `view` it took, -1: all, and it is not whole yet."""
        frame, filled = self._frame, self._filled
        assert frame is not None
        if view.obj is frame:  # the network put it there
            used = len(view)
        else:
            used = min(len(view), self._needed - filled)
            frame[filled : filled + used] = view[:used]
        self._filled = filled = filled + used
        if filled < self._needed:
            return -1
        if self._needed == 4:
            self._needed = 4 + self._checked_size(frame)
            return self._fill_grown(view, used)
        if filled < 4 + SIZE.unpack_from(frame)[0]:
            return self._fill_grown(view, used)
        self._frame = None
        self._pool.give_at_turn_end(frame)
        self.dispatcher.dispatch(self, memoryview(frame)[4:filled])
        return used

    def _fill_grown(self, view: memoryview, used: int) -> int:
        self._grow()
        if used == len(view):
            return -1
        more = self._fill(view[used:])
        return more if more < 0 else used + more

    def _begin(self, rest: memoryview) -> None:
        """A frame that has not come whole: its buffer grows with what comes, not with what it announces."""
        size = self._checked_size(rest) if len(rest) >= 4 else 0
        self._needed = min(4 + size, max(len(rest) * 2, 4)) if size else 4
        self._frame = self._pool.take(self._needed if size else 4, 4 + size)
        self._needed = min(len(self._frame), 4 + size)
        self._frame[: len(rest)] = rest
        self._filled = len(rest)

    def _grow(self) -> None:
        assert self._frame is not None
        total = 4 + SIZE.unpack_from(self._frame)[0]
        if len(self._frame) < total:
            larger = self._pool.take(min(total, max(2 * self._filled, 4096)), total)
            larger[: self._filled] = memoryview(self._frame)[: self._filled]
            self._pool.give_at_turn_end(self._frame)
            self._frame = larger
        self._needed = min(len(self._frame), total)

    def _drop_frame(self) -> None:
        if self._frame is not None:
            self._pool.give_at_turn_end(self._frame)
            self._frame = None

    def _checked_size(self, buffer: Buffer) -> int:
        size: int = SIZE.unpack_from(buffer)[0]
        if not SMALLEST_FRAME <= size <= REQUEST_BYTES.value:
            raise self._bad_size(size)
        return size

    def _bad_size(self, size: int) -> ProtocolError:
        if size > REQUEST_BYTES.value:
            self.dispatcher.metrics.refused(REQUEST_BYTES)
        looks = LOOKS_LIKE.get(size)
        return ProtocolError(f"{looks} on a plaintext Kafka listener" if looks else f"frame of {size} bytes, 8 to {REQUEST_BYTES.value} allowed")

    # flow

    @property
    def partial(self) -> bool:
        return self._frame is not None

    @property
    def crowded(self) -> bool:
        return len(self.slots) >= REQUESTS_IN_HAND.value or self.out_bytes > OUTPUT_BYTES.value

    def check_crowded(self) -> None:
        if self.crowded and not self._stopped:
            self.dispatcher.metrics.refused(REQUESTS_IN_HAND if self.out_bytes <= OUTPUT_BYTES.value else OUTPUT_BYTES)
            self._stop()

    def _stop(self) -> None:
        if not self._stopped:
            self._stopped = True
            if self.transport is not None:
                self.transport.hold_reading(True)

    def _resume(self) -> None:
        """Go on with what came meanwhile. At most until the next request that holds."""
        if self._held or self.crowded or self.transport is None:
            return
        self._stopped = False
        if self._backlog:
            backlog, self._backlog = self._backlog, bytearray()
            try:
                self._take(memoryview(backlog))
            except (ProtocolError, LimitExceeded) as error:
                self.refuse(str(error))
                return
        if not self._stopped and self.transport is not None and not self._ended:
            self.transport.hold_reading(False)

    def remember(self, api_key: int, plan: Any) -> None:
        self.plans[api_key] = plan
