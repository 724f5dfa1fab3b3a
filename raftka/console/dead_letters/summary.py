"""Counts of letters by failure and origin."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from raftka.console.dead_letters.letters import Letter
from raftka.console.limits import KINDS_OF_FAILURE
from raftka.json_values import JsonObject

EVERY_S = 0.3  # between two states of a count that goes on
MESSAGE_CHARACTERS = 300
OTHERS = "other failures"


@dataclass(slots=True)
class Count:
    kind: str
    origin: str | None  # topic
    message: str  # of the newest
    letters: int = 0
    first_ms: int = 0
    last_ms: int = 0
    redriven: int = 0  # letters of records that had been sent again before


class Summary:
    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        """`now`: seconds."""
        self.letters = 0
        self._now, self._told_s = now, now()
        self._counts: dict[tuple[str, str | None], Count] = {}

    def add(self, letter: Letter) -> None:
        kind, at_ms = letter.failure.kind, letter.record.timestamp
        origin = letter.origin.topic if letter.origin is not None else None
        if (kind, origin) not in self._counts and len(self._counts) >= KINDS_OF_FAILURE.value:
            kind, origin = OTHERS, None
        count = self._counts.get((kind, origin))
        if count is None:
            count = self._counts[kind, origin] = Count(kind, origin, "", 0, at_ms, at_ms)
        self.letters += 1
        count.letters += 1
        count.redriven += letter.redriven_times > 0
        count.first_ms = min(count.first_ms, at_ms)
        if at_ms >= count.last_ms:
            count.last_ms = at_ms
            count.message = letter.failure.message[:MESSAGE_CHARACTERS]

    def is_due(self, is_over: bool) -> bool:
        """Return whether the state should be told: at the end, and now and then."""
        now = self._now()
        if not is_over and now - self._told_s < EVERY_S:
            return False
        self._told_s = now
        return True

    def as_json(self, done: int, total: int) -> JsonObject:
        """`done`, `total`: offsets that were passed, and all."""
        counts = sorted(self._counts.values(), key=lambda each: (-each.letters, each.kind))
        return {
            "letters": self.letters,
            "counts": [
                {
                    "kind": each.kind,
                    "origin": each.origin,
                    "message": each.message,
                    "letters": each.letters,
                    "first_ms": each.first_ms,
                    "last_ms": each.last_ms,
                    "redriven": each.redriven,
                }
                for each in counts
            ],
            "done": done,
            "total": total,
            "is_whole": False,
        }
