"""Structured log: one line an event, `key=value` on a terminal and JSON elsewhere. Knows no broker.

Its own forty lines because structlog costs an idle node 7 MB and a start 0.1 s
(docs/architecture.md).
"""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from math import inf
from typing import IO

from raftka.limits import Limit

QUIET_S = 60.0
LINES_A_SECOND = 10  # of an event that clients cause as often as they like
LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}


class Events:
    """`log.info("broker_fenced", broker=3)`; bound fields go with every line."""

    __slots__ = ("_fields", "_level", "_stream", "_wall_ms", "watch")

    def __init__(
        self,
        stream: IO[str] | None,
        wall_ms: Callable[[], int],
        level: str = "info",
        **fields: object,
    ) -> None:
        self._stream = stream
        self._wall_ms = wall_ms
        self._level = LEVELS[level]
        self._fields = fields
        # sees all events, those of lower levels too: level, event, fields
        self.watch: Callable[[str, str, dict[str, object]], None] | None = None

    def bind(self, **fields: object) -> "Events":
        bound = Events(self._stream, self._wall_ms)
        bound._level, bound._fields = self._level, self._fields | fields
        bound.watch = self.watch
        return bound

    @property
    def level(self) -> str:
        return next(name for name, level in LEVELS.items() if level == self._level)

    @level.setter
    def level(self, name: str) -> None:
        self._level = LEVELS[name]

    def debug(self, event: str, **fields: object) -> None:
        self._write("debug", event, fields)

    def info(self, event: str, **fields: object) -> None:
        self._write("info", event, fields)

    def warning(self, event: str, **fields: object) -> None:
        self._write("warning", event, fields)

    def error(self, event: str, **fields: object) -> None:
        self._write("error", event, fields)

    def _write(self, level: str, event: str, fields: dict[str, object]) -> None:
        if self.watch is not None:
            self.watch(level, event, fields)
        if self._stream is None or LEVELS[level] < self._level:
            return
        moment = datetime.fromtimestamp(self._wall_ms() / 1000, UTC).isoformat(
            timespec="milliseconds"
        )
        line = {"time": moment, "level": level, "event": event} | self._fields | fields
        try:
            self._stream.write(
                _human(line) if self._stream.isatty() else json.dumps(line, default=str) + "\n"
            )
            self._stream.flush()
        except OSError:
            pass  # nobody reads the log any more; the node goes on


class LimitHits:
    """One line for a limit that is hit, then at most one a minute with how often it was."""

    __slots__ = ("_events", "_now", "_quiet")

    def __init__(self, events: Events, now: Callable[[], float]) -> None:
        self._events = events
        self._now = now
        # by limit: until when, and how often it was hit since its last line
        self._quiet: dict[str, list[float]] = {}

    def __call__(self, limit: Limit) -> None:
        quiet = self._quiet.setdefault(limit.name, [-inf, 0])
        quiet[1] += 1
        if self._now() >= quiet[0]:
            self._events.warning(
                "limit_hit",
                limit=limit.name,
                allowed=limit.value,
                times=int(quiet[1]),
                reason=limit.reason,
            )
            quiet[:] = self._now() + QUIET_S, 0


class BoundedRate:
    """An event of what clients cause: at most so many lines in a second, the next one says how many
    were left out.
    """

    __slots__ = ("_begun", "_event", "_left_out", "_lines", "_now", "_write")

    def __init__(self, write: Callable[..., None], event: str, now: Callable[[], float]) -> None:
        """`write`: of Events, for the level."""
        self._write = write
        self._event = event
        self._now = now
        self._begun = -inf
        self._lines = self._left_out = 0

    def __call__(self, **fields: object) -> None:
        now = self._now()
        if now >= self._begun + 1.0:
            self._begun, self._lines = now, 0
        if self._lines >= LINES_A_SECOND:
            self._left_out += 1
            return
        self._lines += 1
        if self._left_out:
            fields["left_out"] = self._left_out
        self._left_out = 0
        self._write(self._event, **fields)


def _human(line: dict[str, object]) -> str:
    head = f"{str(line.pop('time'))[11:23]} {line.pop('level'):7} {line.pop('event')}"
    return f"{head} {' '.join(f'{name}={value}' for name, value in line.items())}\n"
