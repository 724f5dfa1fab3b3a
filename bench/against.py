"""`./run bench --against COMMIT GROUP ...`: the same groups in this tree and in that commit, in
turns, and the ratio of each figure with its spread.

Each tree runs its own benchmark with its own code; figures are compared where both print a row of
the same name. A pair is one run of each tree, one right after the other, and every other pair
begins with the other tree: what the machine does meanwhile hits both.
"""

import os
import re
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from compileall import compile_dir
from pathlib import Path
from typing import NamedTuple

from bench.hashes import HERE, checked_out
from bench.load import BenchFailed

NUMBER = re.compile(r"-?\d+(?:,\d{3})*(?:\.\d+)?")
RULE = re.compile(r"\|(?:-+\|)+")


class Figure(NamedTuple):
    table: str  # the title of its first column
    row: str
    column: str


def figures(lines: Sequence[str]) -> dict[Figure, float]:
    """All numbers of the tables, by where they stand; the first number of a cell."""
    found: dict[Figure, float] = {}
    titles: list[str] = []
    for at, line in enumerate(lines):
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|") or RULE.fullmatch(line.strip()):
            continue
        if at + 1 < len(lines) and RULE.fullmatch(lines[at + 1].strip()):
            titles = cells
            continue
        for title, cell in zip(titles[1:], cells[1:], strict=False):
            number = NUMBER.search(cell)
            if number is not None:
                found[Figure(titles[0], cells[0], title)] = float(number[0].replace(",", ""))
    return found


def run(tree: Path, arguments: Sequence[str]) -> dict[Figure, float]:
    """One run of a tree's benchmark. Raises BenchFailed."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tree), str(tree / "compat")])}
    done = subprocess.run(
        [sys.executable, "-P", "-m", "bench", *arguments],
        cwd=tree,
        env=env,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        raise BenchFailed(f"{tree}: bench {' '.join(arguments)} ended with {done.returncode}")
    return figures(done.stdout.splitlines())


def pairs(
    trees: Sequence[Path], arguments: Sequence[str], count: int
) -> Iterator[tuple[dict[Figure, float], dict[Figure, float]]]:
    """The figures of both trees, the first one's first."""
    for number in range(count):
        order = list(trees) if number % 2 == 0 else list(reversed(trees))
        came = {tree: run(tree, arguments) for tree in order}
        yield came[trees[0]], came[trees[1]]


def ratios(before: Mapping[Figure, float], after: Mapping[Figure, float]) -> dict[Figure, float]:
    """Of what both have: after / before."""
    return {
        figure: after[figure] / value
        for figure, value in before.items()
        if value and figure in after
    }


def compare(commit: str, arguments: Sequence[str], count: int) -> Iterator[str]:
    """The lines of a table. Raises BenchFailed, and CalledProcessError for a commit that is not
    there.
    """
    old: dict[Figure, list[float]] = defaultdict(list)
    new: dict[Figure, list[float]] = defaultdict(list)
    found: dict[Figure, list[float]] = defaultdict(list)
    with checked_out(commit) as before:
        for tree in (before, HERE):
            # else the first start of a node compiles all of it
            compile_dir(tree / "raftka", quiet=1)
        for first, second in pairs((before, HERE), arguments, count):
            for figure, ratio in ratios(first, second).items():
                old[figure].append(first[figure])
                new[figure].append(second[figure])
                found[figure].append(ratio)
    yield f"| {count} pairs | {commit} | this tree | ratio | least | most |"
    yield "|---|---|---|---|---|---|"
    for figure, each in found.items():
        if len(each) == count:
            medians = [f"{statistics.median(values):,.4g}" for values in (old[figure], new[figure])]
            shown = " | ".join(
                f"{value:.3f}" for value in (statistics.median(each), min(each), max(each))
            )
            yield f"| {figure.row}: {figure.column} | {' | '.join(medians)} | {shown} |"
