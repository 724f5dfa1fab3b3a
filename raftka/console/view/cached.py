"""A value that is asked of the cluster and kept for a while. Knows nothing of Kafka.

At most one refresh is under way, however many pages wait for the value. A refresh costs the
brokers work, so it is followed by a pause in proportion to its cost. Nothing runs when no page
asks.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from typing import Generic, TypeVar

from raftka.console.limits import DUTY, KEPT_AGES, LONGEST_PAUSE_SECONDS
from raftka.wire.errors import KafkaError, without_frames

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Aged(Generic[T]):
    """A value, and the seconds since its refresh began."""

    value: T
    age_s: float


@dataclass(slots=True)
class Effort:
    """The cost of a refresh to the brokers: the time that it takes, without that of its waits."""

    waited_s: float = 0.0

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """A wait that costs no broker any work, or whose work another refresh accounts for."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.waited_s += time.monotonic() - began


class _Flight(Generic[T]):
    """A refresh under way."""

    def __init__(self) -> None:
        self.landed = threading.Event()
        self.result: _Kept[T] | None = None
        self.error: Exception | None = None


@dataclass(frozen=True, slots=True)
class _Kept(Generic[T]):
    value: T
    taken: float  # clock time at which the refresh began


def start_thread(work: Callable[[], None]) -> None:
    threading.Thread(target=work, daemon=True, name="console view").start()


class Cached(Generic[T]):
    """One value for many threads."""

    def __init__(
        self,
        refresh: Callable[[Effort], T],
        *,
        clock: Callable[[], float] = time.monotonic,
        start: Callable[[Callable[[], None]], None] = start_thread,
    ) -> None:
        """`refresh`: asks the cluster; runs in a thread that `start` starts."""
        self._refresh, self._clock, self._start = refresh, clock, start
        self._lock = threading.Lock()
        self._kept: _Kept[T] | None = None
        self._flight: _Flight[T] | None = None
        self._error: Exception | None = None  # of the last refresh
        self._not_before = 0.0  # clock time of the earliest next refresh

    def get(self, max_age_s: float) -> Aged[T]:
        """Return the value. It may be older than `max_age_s`, up to KEPT_AGES times, while a
        refresh is under way, and older than that until the pause after the last refresh is over.

        Raises what the refresh raised, when there is no value of use.
        """
        with self._lock:
            now = self._clock()
            kept = self._kept
            if kept is not None and now - kept.taken <= max_age_s:
                return Aged(kept.value, now - kept.taken)
            flight = self._flight
            if flight is None and now >= self._not_before:
                flight = self._take_off()
            bearable = max_age_s * KEPT_AGES.value
            if kept is not None and (flight is None or now - kept.taken < bearable):
                return Aged(kept.value, now - kept.taken)
            if flight is None:
                raise _copied(self._error)
        return self._wait(flight)

    def peek(self, max_age_s: float, first_s: float = 0.0) -> Aged[T] | None:
        """Return the value that there is. Begin a refresh where it is due. Without a value, wait
        for `first_s` at most.
        """
        with self._lock:
            now, kept = self._clock(), self._kept
            fresh = kept is not None and now - kept.taken <= max_age_s
            if not fresh and self._flight is None and now >= self._not_before:
                self._take_off()
            kept, flight = self._kept, self._flight
        if kept is None and flight is not None and first_s > 0:
            flight.landed.wait(first_s)
            kept = flight.result
        return None if kept is None else Aged(kept.value, self._clock() - kept.taken)

    @property
    def last(self) -> T | None:
        """The value that there is. Begins nothing."""
        kept = self._kept
        return None if kept is None else kept.value

    def forget(self) -> None:
        """Let the next caller wait for a value whose refresh begins after now: the cluster has
        been changed.
        """
        with self._lock:
            self._kept, self._error, self._not_before = None, None, 0.0
            self._flight = None  # its value comes too late

    def _take_off(self) -> _Flight[T]:
        """Called with the lock held."""
        flight = self._flight = _Flight[T]()
        self._start(lambda: self._fly(flight))
        return flight

    def _fly(self, flight: _Flight[T]) -> None:
        effort, began = Effort(), self._clock()
        try:
            flight.result = _Kept(self._refresh(effort), began)
        except Exception as error:
            flight.error = error
        now = self._clock()
        with self._lock:
            if self._flight is flight:
                self._flight = None
                self._error = flight.error
                if flight.result is not None:
                    self._kept = flight.result
                cost_s = max(0.0, now - began - effort.waited_s)
                self._not_before = now + min(DUTY.value * cost_s, LONGEST_PAUSE_SECONDS.value)
        flight.landed.set()

    def _wait(self, flight: _Flight[T]) -> Aged[T]:
        flight.landed.wait()
        if flight.result is not None:
            return Aged(flight.result.value, self._clock() - flight.result.taken)
        raise _copied(flight.error)


def _copied(error: Exception | None) -> Exception:
    """An exception for one caller: one that callers share would gather their tracebacks."""
    if error is None:
        return RuntimeError("a refresh ended without a value")
    again: Exception
    if isinstance(error, KafkaError):
        again = KafkaError(error.code, error.message)
    else:
        again = copy(error)
    without_frames(again)
    return again
