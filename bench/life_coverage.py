"""What random lives reach of the code: lines, branches and guards of each folder, as a table for docs/reliability.md.

    python -m bench.life_coverage swarm --seeds 0-199 [--guards]

A guard is a `raise`: each is counted in how many lives it was reached, and `--guards` lists those that none has. `small`: the lives of
`raftka chaos sim --small`. Needs the package `coverage`, of the dev group.
"""

import argparse
import ast
import json
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import coverage

import raftka

FOLDERS = ("log", "replication", "coordinator", "metadata", "broker")
HERE = Path(raftka.__file__).parent


def lives_of(name: str) -> Callable[[int], object]:
    """Imports what is measured: that is to be called when the measurement has begun."""
    from raftka.chaos.simulated.at_work import WORKS
    from raftka.chaos.simulated.lives import live
    from raftka.chaos.simulation import PLANS, Options, simulate
    from raftka.chaos.small import raft_life, replication_life
    from raftka.chaos.small.raft_oracle import Violation

    def small(seed: int) -> None:
        for run_seed in (raft_life.run_seed, replication_life.run_seed):
            with suppress(Violation):
                run_seed(seed)

    if name == "small":
        return small
    if name in PLANS:
        return lambda seed: simulate(seed, Options(PLANS[name]))
    return lambda seed: live(seed, *WORKS[name])


def measured(name: str, seeds: range) -> dict[str, dict[str, object]]:
    """As coverage's JSON has it, by file below raftka/."""
    cov = coverage.Coverage(data_file=None, branch=True, include=[f"{HERE}/{folder}/*" for folder in FOLDERS])
    cov.start()
    run = lives_of(name)
    for seed in seeds:
        cov.switch_context(str(seed))
        run(seed)
    cov.stop()
    with TemporaryDirectory() as folder:
        path = f"{folder}/coverage.json"
        cov.json_report(outfile=path, show_contexts=True)
        found = json.loads(Path(path).read_text())["files"]
    return {str(Path(file).resolve().relative_to(HERE)): each for file, each in found.items()}


def guards(file: str, contexts: dict[str, list[str]]) -> Counter[int]:
    """Of each `raise` of the file, in how many lives it was reached."""
    tree = ast.parse((HERE / file).read_text())
    lines = [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Raise)]
    return Counter({line: len(set(contexts.get(str(line), ())) - {""}) for line in lines})


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.life_coverage")
    parser.add_argument("name", help="a plan or a workload, as of `raftka chaos sim`, or small")
    parser.add_argument("--seeds", default="0-199")
    parser.add_argument("--guards", action="store_true", help="list the guards that no life has reached")
    given = parser.parse_args()
    first, _, last = given.seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    files = measured(given.name, seeds)
    cells, never = [], []
    for folder in FOLDERS:
        sums: Counter[str] = Counter()
        for file, found in sorted(files.items()):
            if file.startswith(f"{folder}/"):
                sums.update(found["summary"])  # type: ignore[call-overload]
                for line, lives in sorted(guards(file, found.get("contexts", {})).items()):  # type: ignore[arg-type]
                    sums["guards"] += 1
                    sums["reached"] += lives > 0
                    if not lives:
                        text = (HERE / file).read_text().splitlines()[line - 1].strip()
                        never.append(f"{file}:{line} {text}")
        lines, branches = sums["covered_lines"] / max(1, sums["num_statements"]), sums["covered_branches"] / max(1, sums["num_branches"])
        cells.append(f"{lines:.0%} / {branches:.0%} / {sums['reached']} of {sums['guards']}")
    print(f"| `{given.name}` | {len(seeds)} | " + " | ".join(cells) + " |")
    for each in never if given.guards else ():
        print(f"  {each}")


if __name__ == "__main__":
    main()
