"""`raftka chaos shrink SEED`: what is left of a failing life when all that does not matter is left
out, and how to replay that.
"""

import sys
import time
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path

from raftka.chaos.runner import options_of
from raftka.chaos.shrink import Shrinker, Shrunk, way_of
from raftka.chaos.simulated.swarm import Settings
from raftka.chaos.simulation import Run, simulate
from raftka.cli.progress import progress


def shrink(seed: int, plan: str, earlier: Path | None, minutes: float, *, quiet: bool) -> int:
    ends, options = time.monotonic() + 60 * minutes, options_of(plan, earlier)
    first = simulate(seed, options)
    way = way_of(first.violations)
    if not way:
        print(f"seed {seed} does not fail: {first.outcome}")
        return 0 if first.outcome == "valid" else 2
    everything = frozenset(fault.number for fault in first.planned)
    struck = sorted({each.number for each in first.faults})
    print(
        f"seed {seed} fails with {len(struck)} faults: "
        f"{first.violations[0].strip().splitlines()[-1]}",
        file=sys.stderr,
    )

    def fails(faults: frozenset[int], settings: Settings) -> str:
        run = simulate(seed, replace(options, settings=settings, skip=everything - faults))
        left_s = max(0.0, ends - time.monotonic())
        faults_left = len(shrinker.best.faults)
        shown.update(shrinker.best.runs, f"{faults_left} faults left, {left_s:.0f} s")
        return way_of(run.violations)

    shrinker = Shrinker(fails, struck, first.settings, way, lambda: time.monotonic() < ends)
    with progress("shrinking", 0, "lives", quiet=quiet) as shown:
        best = shrinker.run()
    kept = replace(options, settings=best.settings, skip=everything - frozenset(best.faults))
    _print_result(first, best, simulate(seed, kept), earlier)
    return 1


def _print_result(first: Run, best: Shrunk, last: Run, earlier: Path | None) -> None:
    struck = {each.number for each in first.faults}
    print(
        f"{len(struck)} faults became {len(best.faults)}, in {best.runs} "
        f"lives{'' if best.in_time else ', and there was no time for more'}"
    )
    for each in last.faults:
        print(f"  {each}")
    changed = [
        f"{each.name}={getattr(best.settings, each.name)!r}"
        for each in fields(Settings)
        if _differs(first.settings, best.settings, each.name)
    ]
    print(f"  {best.settings}")
    print("  " + last.violations[0].rstrip().replace("\n", "\n  "))
    skip = _ranges(sorted({fault.number for fault in first.planned} - set(best.faults)))
    words = [
        "raftka chaos replay",
        str(first.seed),
        "--plan",
        first.plan.name,
        *(["--upgrade-from", str(earlier)] if earlier is not None else []),
        *(["--skip", skip] if skip else []),
    ]
    words += [f"--set '{pair}'" for pair in changed]
    print("again: " + " ".join(words))


def _ranges(numbers: Sequence[int]) -> str:
    """1, 2, 3, 7 is `1-3,7`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def _differs(one: Settings, other: Settings, name: str) -> bool:
    return bool(getattr(one, name) != getattr(other, name))
