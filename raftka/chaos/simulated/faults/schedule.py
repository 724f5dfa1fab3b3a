"""The times and kinds of all faults, decided before anything happens: a numbered list, of which
single ones can be left out.

Whom a fault hits and for how long it says itself, from a stream of chance of its own. Knows no
cluster.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from random import Random


@dataclass(frozen=True)
class Kind:
    """`weight`: how often, compared with the others."""

    name: str
    weight: int


@dataclass(frozen=True)
class Fault:
    number: int
    at_s: float  # after the first client has begun
    kind: str

    def __str__(self) -> str:
        return f"{self.number} {self.kind} at {self.at_s:.3f} s"


def schedule(
    chance: Random,
    kinds: Sequence[Kind],
    seconds: float,
    gap_s: tuple[float, float],
    first: int = 0,
) -> tuple[Fault, ...]:
    """`first`: the number of the first."""
    names, weights = [kind.name for kind in kinds], [kind.weight for kind in kinds]
    faults: list[Fault] = []
    at_s = chance.uniform(*gap_s)
    while kinds and at_s < seconds:
        faults.append(Fault(first + len(faults), at_s, chance.choices(names, weights)[0]))
        at_s += chance.uniform(*gap_s)
    return tuple(faults)


def without(faults: Sequence[Fault], skip: Collection[int]) -> tuple[Fault, ...]:
    return tuple(fault for fault in faults if fault.number not in skip)


KILLS = (
    Kind("power_loss_of_all", 2),
    Kind("power_loss", 3),
    Kind("kill", 3),
    Kind("kill_leader", 3),
    Kind("kill_controller", 2),
    Kind("restart", 2),
)
DELAYS = (
    Kind("pause", 3),
    Kind("cut", 3),
    Kind("isolate", 2),
    Kind("slow_link", 2),
    Kind("loss", 2),
    Kind("slow_sync", 3),
)
DISKS = (Kind("full_disk", 1), Kind("failing_sync", 1), Kind("failing_write", 1))
POWER = (
    Kind("dark", 20),
    Kind("slow_sync", 1),
    Kind("power_loss", 1),
    Kind("power_loss_of_all", 1),
)
ALL = (Kind("dark", 1), *KILLS, *DELAYS, *DISKS)
VOTERS = (Kind("dark", 1), *KILLS, *DELAYS)
DIRECTORIES = (
    Kind("break_directory", 4),
    Kind("start_without_directory", 3),
    Kind("lose_directory", 5),
    Kind("move_directory", 10),
    *(kind for kind in ALL if kind.name not in ("dark", "pause", "slow_link", "full_disk")),
)
# what is on them stays
ONE_OF_SEVERAL = (
    Kind("break_directory", 2),
    Kind("start_without_directory", 1),
    Kind("move_directory", 3),
)
WIDTH = (*KILLS, *DELAYS, *DISKS, Kind("move", 6), Kind("call_off", 2), Kind("elect", 3))
ROT = (
    Kind("flip_in_log", 1),
    Kind("misdirected_write", 1),
    Kind("flip_beside_log", 1),
    Kind("flip_in_metadata", 1),
    Kind("older_disk", 1),
)
SWARM = (
    *WIDTH,
    *ROT,
    Kind("shut_down", 3),
    Kind("lurk", 4),
    Kind("reorder", 3),
    Kind("clock_jump", 3),
    Kind("loss_everywhere", 1),
    Kind("slow_everywhere", 1),
)
# no process ends without its last records on the disk, but for the one that `last_member` chooses
ELIGIBLE = (
    Kind("last_member", 10),
    Kind("shut_down", 2),
    Kind("pause", 2),
    Kind("cut", 2),
    Kind("isolate", 1),
    Kind("slow_link", 1),
    Kind("elect", 2),
    Kind("reorder", 1),
)
# none that speaks to a node in the words of the present release, and none that changes media
UPGRADE = (
    *KILLS,
    *DELAYS,
    *DISKS,
    Kind("shut_down", 3),
    Kind("reorder", 2),
    Kind("clock_jump", 2),
    Kind("loss_everywhere", 1),
    Kind("slow_everywhere", 1),
)
SECURED = (
    *KILLS,
    *DELAYS,
    *DISKS,
    Kind("shut_down", 3),
    Kind("elect", 3),
    Kind("reorder", 3),
    Kind("loss_everywhere", 1),
    Kind("slow_everywhere", 1),
)
