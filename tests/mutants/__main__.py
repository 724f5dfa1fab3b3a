"""`./run mutants`: plant each bug in turn, and tell which seed finds it."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from multiprocessing import Pool
from statistics import median

from tests.mutants.catalogue import MUTANTS
from tests.mutants.hunt import Finding, hunt, survives

COUNTS, TOO_PLAIN = "yes", "no"


def run(bugs: str, seeds: int, jobs: int, survival: bool, output: str) -> int:
    """0: all were found."""
    names = [name for name in bugs.split(",") if name] or list(MUTANTS)
    unknown = [name for name in names if name not in MUTANTS]
    if unknown:
        print(
            f"no such bug: {', '.join(unknown)}; `./run mutants --list` names them all",
            file=sys.stderr,
        )
        return 2
    rows = []
    print(_head(output))
    for finding, lives_on in _findings(names, range(seeds), jobs, survival):
        rows.append((finding, lives_on))
        print(_row(finding, lives_on, output), flush=True)
    found = [finding for finding, _ in rows if finding.found]
    counting = [finding for finding, lives_on in rows if lives_on is not False]
    told = f"{len(found)} of {len(rows)} found"
    if survival:
        told += (
            f"; of the {len(counting)} that survive the first seeds of the default plan, "
            f"{sum(each.found for each in counting)}"
        )
    if found:
        told += (
            f"; lives until one is found: median {median(each.lives for each in found):g}, most "
            f"{max(each.lives for each in found)}"
        )
    print(f"\n{told}")
    return 0 if len(found) == len(rows) else 1


def _findings(
    names: Sequence[str], seeds: Sequence[int], jobs: int, survival: bool
) -> Iterator[tuple[Finding, bool | None]]:
    """In the order of their names, as they come."""
    task = partial(_one, seeds=seeds, survival=survival)
    if jobs == 1:
        yield from map(task, names)
        return
    with Pool(jobs) as pool:
        yield from pool.imap(task, names)


def _one(name: str, seeds: Sequence[int], survival: bool) -> tuple[Finding, bool | None]:
    return hunt(name, seeds), survives(name) if survival else None


def _head(output: str) -> str:
    if output == "markdown":
        return (
            "| bug | area | what it breaks | found by | seed | lives | as | CPU s | counts |\n"
            "|---|---|---|---|---|---|---|---|---|"
        )
    return f"{'bug':46} {'found by':20} {'seed':>4} {'lives':>5} {'CPU s':>6}  as"


def _row(finding: Finding, lives_on: bool | None, output: str) -> str:
    seed = "" if finding.hunt in ("", "scenario") else str(finding.seed)
    if output == "markdown":
        bug = MUTANTS[finding.bug]
        counts = "" if lives_on is None else COUNTS if lives_on else TOO_PLAIN
        cells = (
            f"`{bug.name}`",
            bug.area,
            bug.breaks,
            finding.hunt or "**not found**",
            seed,
            finding.lives,
            finding.kind,
        )
        return "| " + " | ".join(map(str, (*cells, f"{finding.seconds:.1f}", counts))) + " |"
    plain = "  (found by the first seeds of the default plan)" if lives_on is False else ""
    return (
        f"{finding.bug:46} {finding.hunt or 'NOT FOUND':20} {seed:>4} {finding.lives:5} "
        f"{finding.seconds:6.1f}  {finding.kind}{plain}"
    )


def listed() -> int:
    for bug in MUTANTS.values():
        print(f"{bug.name:46} {bug.area:12} {bug.breaks}")
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="./run mutants",
        description="Plant bugs in the running code, one at a time; tell which seed finds each.",
    )
    parser.add_argument("--bugs", default="", metavar="NAME,NAME", help="these alone")
    parser.add_argument(
        "--seeds",
        type=int,
        default=50,
        help="how many are tried for each bug and each kind of life (50)",
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes (1)")
    parser.add_argument(
        "--survival",
        action="store_true",
        help="also tell which bugs the first three seeds of the default plan would have found",
    )
    parser.add_argument("--list", action="store_true", help="name the bugs, hunt none")
    parser.add_argument(
        "-o",
        "--output",
        choices=("text", "markdown"),
        default="text",
        help="how the table is printed",
    )
    options = parser.parse_args(arguments)
    return (
        listed()
        if options.list
        else run(options.bugs, options.seeds, options.jobs, options.survival, options.output)
    )


if __name__ == "__main__":
    sys.exit(main())
