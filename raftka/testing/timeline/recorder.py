"""Events of one cluster in a ring, and the clusters whose events a report may show. Knows no node
and no test runner.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Hashable
from typing import NamedTuple

from raftka.limits import TIMELINE_CLUSTERS, TIMELINE_EVENTS, TIMELINE_LINES

Now = Callable[[], float]


class Event:
    """Something that happened, perhaps several times; `at` and `last` in seconds of the clock."""

    __slots__ = ("at", "key", "last", "text", "times")

    def __init__(self, at: float, text: str, key: Hashable) -> None:
        self.at = self.last = at
        self.text = text
        self.key = key
        self.times = 1


class Moment(NamedTuple):
    """An event as others may keep it; times in seconds of the clock."""

    at: float
    last: float
    times: int
    text: str


class Timeline:
    """The last events of a cluster, at most TIMELINE_EVENTS; earlier ones are counted. Any thread
    may call it.
    """

    def __init__(self, name: str, now: Now = time.monotonic) -> None:
        """`name`: of the cluster, as reports show it."""
        self.name = name
        self._now = now
        self._lock = threading.Lock()
        self._events: deque[Event] = deque()
        self._repeated: dict[Hashable, Event] = {}
        self._dropped_until = 0.0  # the time of the last event that was dropped
        self._dropped = 0
        self.began = now()

    def note(self, text: str, key: Hashable = None) -> None:
        """Add an event. One with a `key` that is the same as that of an event before counts there,
        unless a report has begun since: `mark` forgets keys.
        """
        at = self._now()
        with self._lock:
            known = self._repeated.get(key) if key is not None else None
            if known is not None:
                known.times += 1
                known.last = at
                return
            event = Event(at, text, key)
            self._events.append(event)
            if key is not None:
                self._repeated[key] = event
            if len(self._events) > TIMELINE_EVENTS:
                dropped = self._events.popleft()
                self._dropped += 1
                self._dropped_until = dropped.at
                self._repeated.pop(dropped.key, None)

    def mark(self) -> None:
        """Begin a new test: events that are repeated are counted anew."""
        with self._lock:
            self._repeated.clear()

    def last(self) -> list[Moment]:
        """Return the last events, at most TIMELINE_LINES, the oldest first."""
        with self._lock:
            shown = list(self._events)[-TIMELINE_LINES:]
            return [Moment(each.at, each.last, each.times, each.text) for each in shown]

    def text(self, since: float | None = None) -> str:
        """Return the events from `since` on (the clock's seconds; None: the start), one a line,
        with times relative to it; empty: there are none.
        """
        start = self.began if since is None else since
        with self._lock:
            shown = [event for event in self._events if event.last >= start]
            lines = [_line(event, start) for event in shown[-TIMELINE_LINES:]]
            left_out = len(shown) - len(lines)
            dropped = self._dropped if self._dropped_until >= start else 0
        if left_out + dropped:
            lines.insert(0, f"({left_out + dropped} earlier events are not shown)")
        return "\n".join(lines)


def _line(event: Event, start: float) -> str:
    times = "" if event.times == 1 else f"  (x{event.times}, until {event.last - start:+.3f} s)"
    return f"{event.at - start:+9.3f} s  {event.text}{times}"


class Registry:
    """The time lines of the clusters of this process: of living ones, and of the last that ended,
    as a cluster that a test makes ends before its report is written.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._living: list[Timeline] = []
        self._ended: deque[Timeline] = deque(maxlen=TIMELINE_CLUSTERS)

    def add(self, timeline: Timeline) -> None:
        with self._lock:
            self._living.append(timeline)

    def end(self, timeline: Timeline) -> None:
        with self._lock:
            if timeline in self._living:
                self._living.remove(timeline)
                self._ended.append(timeline)

    def begin_test(self) -> None:
        """Forget clusters that have ended; living ones count repeated events anew."""
        with self._lock:
            self._ended.clear()
            living = list(self._living)
        for timeline in living:
            timeline.mark()

    def texts(self, since: float) -> list[tuple[str, str]]:
        """Return name and text of each time line with events since then (monotonic seconds)."""
        with self._lock:
            timelines = [*self._ended, *self._living]
        texts = [(each.name, each.text(since)) for each in timelines]
        return [(name, text) for name, text in texts if text]


CLUSTERS = Registry()
