"""The long run of simulated lives: `python -m tests.simulation.soak --seeds 0-999 --plan power --jobs 2`. Exit code 1 when anything was violated.

power    all three nodes lose power again and again under load, with slow disks: nothing acknowledged may be lost, twice, or out of order
faults   whatever can go wrong, by chance
One seed alone tells its whole story: `--seeds 17 --plan faults`.
"""

import argparse
import os
import sys
import time
from collections.abc import Iterable, Iterator
from functools import partial
from multiprocessing import Pool

from raftka.chaos.simulation import PLANS, Life, live

VIOLATIONS_SHOWN = 5


def lives(seeds: Iterable[int], plan: str, jobs: int) -> Iterator[Life]:
    """In the order in which they end."""
    if jobs == 1:
        yield from map(partial(live, plan=PLANS[plan]), seeds)
        return
    with Pool(jobs) as pool:
        yield from pool.imap_unordered(partial(live, plan=PLANS[plan]), seeds, chunksize=4)


def run(seeds: range, plan: str, jobs: int) -> bool:
    began, done, violated, acknowledged, simulated_s, events = time.monotonic(), 0, 0, 0, 0.0, 0
    for life in lives(seeds, plan, jobs):
        done += 1
        violated += bool(life.violations)
        acknowledged += life.acknowledged
        simulated_s += life.simulated_s
        events += len(life.happened)
        if life.violations:
            print(f"seed {life.seed}:")
            for violation in life.violations[:VIOLATIONS_SHOWN]:
                print("   ", violation)
        if done % 100 == 0 or life.violations:
            print(f"{done:6} seeds, {violated} violated, {done / (time.monotonic() - began):.2f} seeds/s", flush=True)
    seconds = time.monotonic() - began
    print(
        f"{plan}: seeds {seeds.start}-{seeds.stop - 1}, violated {violated}, faults {events:,}, records acknowledged {acknowledged:,},"
        f" simulated {simulated_s:,.0f} s in {seconds:.0f} s, {done / seconds:.2f} seeds/s"
    )
    return not violated


def tell(seed: int, plan: str) -> bool:
    life = live(seed, PLANS[plan])
    print(*life.log, "", *life.happened, "", *life.violations, sep="\n")
    print(f"seed {seed}, {life.acknowledged:,} records acknowledged, trace hash {life.trace_hash}")
    return not life.violations


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulation.soak", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", default="0-999", help="A-B, or one alone")
    parser.add_argument("--plan", choices=(*PLANS, "all"), default="all")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    first, _, last = options.seeds.partition("-")
    plans = PLANS if options.plan == "all" else [options.plan]
    if last:
        good = [run(range(int(first), int(last) + 1), plan, options.jobs) for plan in plans]
    else:
        good = [tell(int(first), plan) for plan in plans]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
