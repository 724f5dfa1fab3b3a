"""Shrink a failing life: find the fewest faults and the plainest settings with which it fails in
the same way.

Delta debugging (ddmin, Zeller and Hildebrandt 2002) over the numbers of the faults, then each
setting back to its default. Each fault has a chance of its own, so leaving one out changes nothing
of the others but what follows from it. Knows no cluster: it is given what runs a life.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace

from raftka.chaos.simulated.swarm import Settings

# (faults to keep, settings) -> in which way it fails; empty: it does not
Fails = Callable[[frozenset[int], Settings], str]
SCHEDULE = ("seconds", "gap_s")  # another one would have other faults
DETAILS = re.compile(r"[0-9a-f]{8,}|[0-9]+|'[^']*'")


def way_of(violations: Sequence[str]) -> str:
    """Return the kind of the first violation: it stays the same when a life fails a little earlier,
    elsewhere, with other records.
    """
    if not violations:
        return ""
    lines = violations[0].rstrip().splitlines()
    last = lines[-1] if lines[0].startswith("Traceback") else lines[0]
    kind, separator, _ = last.partition(": ")
    return DETAILS.sub("#", kind if separator and " " not in kind else last)


@dataclass
class Shrunk:
    faults: tuple[int, ...]
    settings: Settings
    way: str
    runs: int = 0
    in_time: bool = True
    told: list[str] = field(default_factory=list)


class OutOfTime(Exception):
    pass


class Shrinker:
    def __init__(
        self,
        fails: Fails,
        faults: Sequence[int],
        settings: Settings,
        way: str,
        may_go_on: Callable[[], bool],
    ) -> None:
        self.best = Shrunk(tuple(faults), settings, way)
        self._fails = fails
        self._may_go_on = may_go_on
        self._known: dict[tuple[frozenset[int], Settings], bool] = {}

    def run(self) -> Shrunk:
        try:
            self._faults()
            self._settings()
            self._faults()
        except OutOfTime:
            self.best.in_time = False
        return self.best

    def _still(self, faults: Sequence[int], settings: Settings) -> bool:
        """Fails it in the same way? Then it is the best that is known."""
        key = frozenset(faults), settings
        if key not in self._known:
            if not self._may_go_on():
                raise OutOfTime
            self.best.runs += 1
            self._known[key] = self._fails(*key) == self.best.way
        if self._known[key]:
            self.best.faults, self.best.settings = tuple(faults), settings
        return self._known[key]

    def _faults(self) -> None:
        """First none at all, then the last ones alone: what breaks something is seldom long ago.
        Then halves, quarters, ..., each left out.
        """
        settings = self.best.settings
        if not self.best.faults or self._still((), settings):
            return
        pieces = 2
        while len(self.best.faults) > 1:
            faults = self.best.faults
            pieces = min(pieces, len(faults))
            size = -(-len(faults) // pieces)
            chunks = [faults[at : at + size] for at in range(0, len(faults), size)]
            if any(self._still(chunk, settings) for chunk in reversed(chunks)):
                pieces = 2
            elif len(chunks) > 2 and any(
                self._still(_but(faults, chunk), settings) for chunk in chunks
            ):
                pieces = max(2, pieces - 1)
            elif pieces == len(faults):
                return
            else:
                pieces = min(len(faults), 2 * pieces)

    def _settings(self) -> None:
        """Again from the beginning when one went back: another may be able to follow."""
        plain, before = Settings(), None
        while before != self.best.settings:
            before = self.best.settings
            for name in [each.name for each in fields(Settings) if each.name not in SCHEDULE]:
                candidate = replace(self.best.settings, **{name: getattr(plain, name)})
                if candidate != self.best.settings and _fits(candidate):
                    self._still(self.best.faults, candidate)


def _but(faults: Sequence[int], chunk: Sequence[int]) -> tuple[int, ...]:
    return tuple(each for each in faults if each not in chunk)


def _fits(settings: Settings) -> bool:
    """There can be such a cluster."""
    brokers = settings.nodes - len(settings.controllers)
    return (
        settings.voters <= settings.nodes
        and settings.replication <= brokers
        and all(each <= settings.voters for each in settings.controllers)
    )
