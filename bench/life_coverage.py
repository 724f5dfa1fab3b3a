"""The code that random lives reach: lines, branches and guards of each folder, as a table for
docs/reliability.md.

    python -m bench.life_coverage swarm --seeds 0-199 [--guards]
    python -m bench.life_coverage swarm --seeds 0-49 --keep FILE    # and so on to 150-199: in
        pieces, each prints the row of all so far

A guard is a `raise`, or an `if` whose body only leaves the function or the turn of the loop: the
code refuses a case, or leaves it alone, because a condition does not hold. Each is counted in how
many lives it was reached; `--guards` lists the counts, and says why no life reaches those that none
has (unreached.py). `small`: the lives of `raftka chaos sim --small`.
"""

import argparse
import json
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from bench.reached import Reached, watching
from bench.unreached import reason

FOLDERS = ("log", "replication", "coordinator", "metadata", "broker")
HERE = Path(__file__).resolve().parents[1] / "raftka"


class Sums:
    """Over lives: which lines and branches were reached, by file and number, and each guard in how
    many lives.
    """

    def __init__(self) -> None:
        self.lives = 0
        self.reached: set[str] = set()
        self.guards: Counter[str] = Counter()

    @classmethod
    def kept(cls, path: Path) -> "Sums":
        sums, said = cls(), json.loads(path.read_text())
        sums.lives, sums.reached, sums.guards = (
            said["lives"],
            set(said["reached"]),
            Counter(said["guards"]),
        )
        return sums

    def keep(self, path: Path) -> None:
        path.write_text(
            json.dumps(
                {"lives": self.lives, "reached": sorted(self.reached), "guards": self.guards}
            )
        )

    def add(self, modules: list[Reached]) -> None:
        """One life more."""
        self.lives += 1
        for module in modules:
            name = name_of(module)
            self.reached.update(
                f"{name}:{number}" for number, mark in enumerate(module.marks) if mark
            )
            self.guards.update(
                f"{name}:{line}" for line, number in module.guards.items() if module.marks[number]
            )


def name_of(module: Reached) -> str:
    return str(module.path.relative_to(HERE))


def lives_of(name: str) -> Callable[[int], object]:
    """Import the modules under measurement: call this under `watching`."""
    from raftka.chaos.runner import options_of
    from raftka.chaos.simulation import simulate
    from raftka.chaos.small import raft_life, replication_life
    from raftka.chaos.small.raft_oracle import Violation

    def small(seed: int) -> None:
        for run_seed in (raft_life.run_seed, replication_life.run_seed):
            with suppress(Violation):
                run_seed(seed)

    if name == "small":
        return small
    return lambda seed: simulate(seed, options_of(name))


def row(name: str, modules: list[Reached], sums: Sums) -> str:
    cells = []
    for folder in FOLDERS:
        lines, branches, guards = [], [], []
        for module in modules:
            file = name_of(module)
            if file.startswith(f"{folder}/"):
                lines += [f"{file}:{number}" in sums.reached for number in module.lines.values()]
                branches += [f"{file}:{number}" in sums.reached for number in module.branches]
                guards += [sums.guards[f"{file}:{line}"] > 0 for line in module.guards]
        shares = [sum(each) / max(1, len(each)) for each in (lines, branches)]
        cells.append(f"{shares[0]:.0%} / {shares[1]:.0%} / {sum(guards)} of {len(guards)}")
    return f"| `{name}` | {sums.lives} | " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.life_coverage")
    parser.add_argument("name", help="a plan or a workload, as of `raftka chaos sim`, or small")
    parser.add_argument("--seeds", default="0-199")
    parser.add_argument(
        "--keep",
        type=Path,
        help="a file that holds what earlier seeds have reached, and gets what these reach",
    )
    parser.add_argument(
        "--guards",
        action="store_true",
        help="list all guards, with the number of lives that have reached each",
    )
    given = parser.parse_args()
    first, _, last = given.seeds.partition("-")
    sums = Sums.kept(given.keep) if given.keep is not None and given.keep.exists() else Sums()
    with watching([HERE / folder for folder in FOLDERS]) as modules:
        run = lives_of(given.name)
        for module in modules:
            # by the import
            sums.reached.update(
                f"{name_of(module)}:{number}" for number, mark in enumerate(module.marks) if mark
            )
        for seed in range(int(first), int(last or first) + 1):
            for module in modules:
                module.clear()
            run(seed)
            sums.add(modules)
    if given.keep is not None:
        sums.keep(given.keep)
    modules.sort(key=name_of)
    print(row(given.name, modules, sums))
    for module in modules if given.guards else ():
        text = module.path.read_text().splitlines()
        for line in sorted(module.guards):
            lives, what = sums.guards[f"{name_of(module)}:{line}"], text[line - 1].strip()
            print(
                f"{lives:5} {name_of(module)}:{line} {what}"
                + ("" if lives else f"  # {reason(name_of(module), what)}")
            )


if __name__ == "__main__":
    main()
