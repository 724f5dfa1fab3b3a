"""Admits long requests to be decoded and handled: as Python objects a request takes twenty times its bytes. Knows no API."""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from raftka.broker.metrics import Metrics
from raftka.limits import LONG_REQUEST_BYTES

if TYPE_CHECKING:
    from raftka.broker.dispatch import Request


class LongRequests:
    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._inside: dict[int, int] = {}  # bytes of a request, by its identity
        self._bytes = 0
        self._waiting: deque[tuple[Request, int, Callable[[], None]]] = deque()

    def enter(self, request: "Request", size: int, begin: Callable[[], None]) -> bool:
        """Whether there is room for its `size` bytes now; else `begin` is called when there is. They enter in the order in which they came.

        One is always let in.
        """
        if self._waiting or not self._has_room(size):
            self._metrics.hit(LONG_REQUEST_BYTES)
            self._waiting.append((request, size, begin))
            return False
        self._let_in(request, size)
        return True

    def has(self, request: "Request") -> bool:
        """Whether it has entered, and not left."""
        return id(request) in self._inside

    @property
    def waiting(self) -> int:
        """How many have not entered yet."""
        return len(self._waiting)

    def leave(self, request: "Request") -> bool:
        """The request is answered, or nobody wants the answer any more. False: it had not entered, or had left before."""
        size = self._inside.pop(id(request), None)
        if size is None:
            return False
        self._bytes -= size
        self._admit()
        return True

    def _has_room(self, size: int) -> bool:
        return not self._inside or self._bytes + size <= LONG_REQUEST_BYTES.value

    def _admit(self) -> None:
        while self._waiting and (self._waiting[0][0].connection.gone or self._has_room(self._waiting[0][1])):
            request, size, begin = self._waiting.popleft()
            if not request.connection.gone:
                self._let_in(request, size)
                begin()

    def _let_in(self, request: "Request", size: int) -> None:
        self._inside[id(request)] = size
        self._bytes += size
