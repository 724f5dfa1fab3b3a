"""Admits long requests to be decoded and handled: as Python objects a request takes twenty times
its bytes. Knows no API.
"""

from collections import deque
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from raftka.broker.telemetry.metrics import Metrics
from raftka.limits import LONG_REQUEST_BYTES, LONG_REQUESTS_WAITING_BYTES, MIB

CHECKED_BYTES = 8 * MIB  # of requests that wait, before those of clients that have gone are dropped
CLOSED = "closed by the other side"


class Holding(Protocol):
    """A connection, as long requests use it."""

    def hold(self) -> None: ...

    def release_soon(self) -> None: ...

    def end(self, reason: str) -> None: ...


class Arrived(Protocol):
    """A request that is whole and not decoded yet."""

    @property
    def connection(self) -> Holding: ...


A = TypeVar("A", bound=Arrived)


class LongRequests(Generic[A]):
    def __init__(self, metrics: Metrics, abandoned: Callable[[A], bool]) -> None:
        """`abandoned` returns whether the client has gone, or closed its side: then its request is
        not worth the time.
        """
        self._metrics = metrics
        self._abandoned = abandoned
        self._inside: dict[int, int] = {}  # bytes of a request, by its identity
        self._bytes = 0
        self._waiting: deque[tuple[A, int, Callable[[], None]]] = deque()
        self._waiting_bytes = 0
        self._check_at_bytes = CHECKED_BYTES
        self.is_full = False  # so many bytes wait that no further long frame is to be read
        self._held_back: list[Holding] = []

    def enter(self, request: A, size: int, begin: Callable[[], None]) -> bool:
        """Return whether there is room for the request's `size` bytes now; else `begin` is called
        when there is. Requests enter in order of arrival. A single one always has room.
        """
        if self._waiting or not self._has_room(size):
            self._metrics.hit(LONG_REQUEST_BYTES)
            self._waiting.append((request, size, begin))
            self._waiting_bytes += size
            if self._waiting_bytes > self._check_at_bytes:
                self._drop_abandoned()
            self._update_is_full()
            return False
        self._let_in(request, size)
        return True

    def has(self, request: A) -> bool:
        """Return whether the request has entered, and not left."""
        return id(request) in self._inside

    def any_inside(self) -> bool:
        """Return whether a long request is decoded, handled or freed."""
        return bool(self._inside)

    @property
    def waiting(self) -> int:
        """The number of requests that have not entered yet."""
        return len(self._waiting)

    def hold_back(self, connection: Holding) -> None:
        """Read nothing more from the connection until there is room for its frame."""
        self._metrics.hit(LONG_REQUESTS_WAITING_BYTES)
        self._held_back.append(connection)
        connection.hold()

    def leave(self, request: A) -> bool:
        """Give the room of a request to others: it is answered, or its client has gone. Return
        False if it had not entered, or had left before.
        """
        size = self._inside.pop(id(request), None)
        if size is None:
            return False
        self._bytes -= size
        self._admit()
        return True

    def _has_room(self, size: int) -> bool:
        return not self._inside or self._bytes + size <= LONG_REQUEST_BYTES.value

    def _admit(self) -> None:
        while self._waiting and (
            self._has_room(self._waiting[0][1]) or self._abandoned(self._waiting[0][0])
        ):
            request, size, begin = self._waiting.popleft()
            self._waiting_bytes -= size
            if self._abandoned(request):
                request.connection.end(CLOSED)
            else:
                self._let_in(request, size)
                begin()
        self._update_is_full()

    def _update_is_full(self) -> None:
        self.is_full = self._waiting_bytes > LONG_REQUESTS_WAITING_BYTES.value
        if not self.is_full:
            held_back, self._held_back = self._held_back, []
            for connection in held_back:
                connection.release_soon()

    def _drop_abandoned(self) -> None:
        """Drop the requests of clients that have gone, which would fill the memory: at most half
        of the bytes that wait are theirs.
        """
        gone = [each for each in self._waiting if self._abandoned(each[0])]
        left = {id(each[0]) for each in gone}
        self._waiting = deque(each for each in self._waiting if id(each[0]) not in left)
        self._waiting_bytes = sum([size for _, size, _ in self._waiting])
        self._check_at_bytes = max(CHECKED_BYTES, 2 * self._waiting_bytes)
        for request, _, _ in gone:
            request.connection.end(CLOSED)

    def _let_in(self, request: A, size: int) -> None:
        self._inside[id(request)] = size
        self._bytes += size
