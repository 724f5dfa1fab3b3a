"""All nemeses of a live cluster, by name. A cluster must survive all that are in the mix.

What stands in BEYOND promises nobody anything: it shows that the harness finds what is lost.
"""

import errno
import random
from collections.abc import Iterable

from raftka.chaos.live.nemeses.clusters import Elections, Membership, Topics
from raftka.chaos.live.nemeses.disks import Clock, Disk, LyingDisks, PowerLoss, Slow
from raftka.chaos.live.nemeses.links import (
    Cut,
    LostPackets,
    NarrowNetwork,
    SlowLinks,
    deaf,
    isolated,
    one_way,
    ring,
    split,
)
from raftka.chaos.live.nemeses.nemesis import (
    Nemesis,
    a_leader,
    everybody,
    majority,
    one,
    the_controller,
)
from raftka.chaos.live.nemeses.processes import Kill, Pause, Roll, Throttle
from raftka.chaos.live.shim import FAILING

# less than message.timestamp.after.max.ms: else producers are refused for their times
SKEW_MS = 1_800_000


def _slow(chance: random.Random) -> dict[str, int]:
    return {
        "flush_delay_us": chance.choice((20_000, 200_000, 1_000_000)),
        "write_delay_us": chance.choice((0, 0, 5_000)),
    }


def _skew(chance: random.Random) -> dict[str, int]:
    return {"wall_offset_ms": chance.choice((-1, 1)) * chance.choice((200, 5_000, 60_000, SKEW_MS))}


def mix() -> list[Nemesis]:
    return [
        Kill("kill-one", one),
        Kill("kill-leader", a_leader),
        Kill("kill-controller", the_controller),
        Kill("kill-majority", majority),
        Kill("kill-all", everybody),
        Pause("pause-one", one),
        Pause("pause-leader", a_leader),
        Pause("pause-controller", the_controller),
        Roll(),
        Throttle(),
        Cut("partition", split),
        Cut("isolate-leader", isolated(a_leader)),
        Cut("isolate-controller", isolated(the_controller)),
        Cut("one-way", one_way),
        Cut("deaf", deaf),
        Cut("ring", ring),
        SlowLinks(),
        LostPackets(),
        NarrowNetwork(),
        Slow("slow-disk", one, "flushes_slow", "slow disk", _slow),
        Disk(
            "full-disk",
            one,
            "writes_refused",
            "full disk",
            lambda chance: {"write_error": errno.ENOSPC},
        ),
        Disk(
            "failing-flush",
            a_leader,
            "flushes_failed",
            "failing flushes",
            lambda chance: {"flush": FAILING},
        ),
        PowerLoss("power-loss-one", a_leader),
        PowerLoss("power-loss-all", everybody),
        Clock("clock-skew", one, "clock_skewed", "wrong clock", _skew),
        Membership(),
        Topics(),
        Elections(),
    ]


def beyond() -> list[Nemesis]:
    return [LyingDisks("lying-disks", everybody)]


def chosen(names: Iterable[str]) -> list[Nemesis]:
    """`mix` is all of MIX. Raises KeyError for a name that there is none of."""
    known = {each.name: each for each in (*mix(), *beyond())}
    wanted = [known[name] for name in names if name != "mix"]
    return [*(mix() if "mix" in names else []), *wanted]


MIX = tuple(each.name for each in mix())
BEYOND = tuple(each.name for each in beyond())
