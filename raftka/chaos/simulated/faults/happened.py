"""The faults of a life as they happened, and the points where a life is stopped to be looked at."""

from dataclasses import dataclass

from raftka.runtime.simulated.world import World


@dataclass
class Happened:
    """A fault, as shown to a user."""

    at_s: float
    number: int
    kind: str
    what: str
    until_s: float | None = None  # None: it is not undone, or was to the end

    def __str__(self) -> str:
        return f"{self.at_s:.3f} #{self.number} {self.what}"


class Stopped(Exception):
    """The time that was asked for has come."""


def stop_at(world: World, until_s: float | None) -> None:
    """None: it goes on to its end."""
    if until_s is not None:
        world.at(until_s, _stop)


def _stop() -> None:
    raise Stopped
