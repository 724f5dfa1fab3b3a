"""A fault: the requests that it chooses, and what it does to each. Knows no node and no thread."""

import time
from collections import deque
from collections.abc import Callable, Hashable
from math import inf
from typing import NamedTuple, Self

from raftka.limits import RECORDED_REQUESTS
from raftka.testing.faults.selection import Selection
from raftka.testing.faults.treatment import Hit, Treatment

Effect = Callable[[Treatment, Hit], None]
Note = Callable[[str, Hashable], None]  # a text; a key: events of one key are counted


class Fault:
    """One thing that goes wrong, until `remove`, the end of its `with` block, or as often as it was
    told to.
    """

    notes_hits = True  # in the time line

    def __init__(self, name: str, selection: Selection, effect: Effect, times: float = 1) -> None:
        """`times`: requests that it hits; inf: all. Raises ValueError for less than one."""
        if not times >= 1:  # nor NaN
            raise ValueError(f"times={times}: a fault hits at least one request")
        self.hits = 0  # requests that it has hit
        self.seen = 0  # requests that it could have hit: others are of no interest to it
        self.name = name
        self.selection = selection
        self._effect = effect
        self._times = times
        self._remove: Callable[[], object] | None = None
        self._note: Note | None = None

    def consider(self, treatment: Treatment) -> None:
        """Hit the request, if it is one that the fault is for."""
        selection = self.selection
        if self.over or not selection.fits(treatment.request):
            return
        hit = treatment.find(selection)
        if hit is None:
            return
        self.seen += 1
        if self.seen < selection.nth or not selection.draws():
            return
        self.hits += 1
        if self._note is not None and self.notes_hits:
            self._note(f"fault hits: {self.name}: {treatment}", (id(self), str(treatment)))
        self._effect(treatment, hit)

    @property
    def over(self) -> bool:
        """The fault has hit as often as it was to."""
        return self.hits >= self._times

    @property
    def left(self) -> float:
        """Requests that it will hit yet; inf: all."""
        return self._times - self.hits

    def attach(self, remove: Callable[[], object], note: Note) -> None:
        """Take the way to end the fault, and the one to tell of its hits."""
        self._remove, self._note = remove, note

    def remove(self) -> None:
        if self._remove is not None:
            self._remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()

    def __str__(self) -> str:
        often = (
            ""
            if self._times == 1
            else ", always"
            if self._times == inf
            else f", {self._times} times"
        )
        chosen = str(self.selection)
        return f"{self.name}{' of ' + chosen if chosen else ''}{often}"


class HeldRequests(Fault):
    """A fault whose requests wait until `release`; its end lets them go on, too."""

    def __init__(self, name: str, selection: Selection, times: float = 1) -> None:
        super().__init__(name, selection, self._hold, times)
        self.is_released = False

    def _hold(self, treatment: Treatment, hit: Hit) -> None:
        treatment.holds.append(lambda: not self.is_released)

    def release(self) -> None:
        """Let the held requests go on, in milliseconds; later ones are not held."""
        self.is_released = True
        self.remove()

    def __exit__(self, *exception: object) -> None:
        self.release()


class Recorded(NamedTuple):
    """A request that a client has sent."""

    api: str
    version: int
    client_id: str | None
    node: int
    correlation_id: int
    at: float  # seconds of the monotonic clock


class Recording(Fault):
    """Notes the requests of clients and does nothing to them."""

    notes_hits = False

    def __init__(self, name: str, selection: Selection) -> None:
        super().__init__(name, selection, self._record, inf)
        self._requests: deque[Recorded] = deque(maxlen=RECORDED_REQUESTS)

    def _record(self, treatment: Treatment, hit: Hit) -> None:
        request = treatment.request
        self._requests.append(
            Recorded(
                request.api.name,
                request.version,
                request.session.client_id,
                treatment.node.plan.node_id,
                request.correlation_id,
                time.monotonic(),
            )
        )

    @property
    def requests(self) -> list[Recorded]:
        """The last requests, at most RECORDED_REQUESTS, in the order in which they came."""
        return list(self._requests)

    def clear(self) -> None:
        self._requests.clear()
