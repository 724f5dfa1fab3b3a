"""`./run hashes [COMMIT]`: simulate the same seeds with this tree and with a commit, and compare
the hashes of their traces.

A change that is to change no behaviour leaves every hash as it was. Exit code 1 when a hash
differs; 2 when a tree cannot simulate.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parents[1]
KINDS: Mapping[str, tuple[str, ...]] = {
    "swarm": ("--plan", "swarm"),
    "three": ("--plan", "three"),
    "groups": ("--work", "groups"),
    "compaction": ("--work", "compaction"),
    "small": ("--small",),
}
SHOWN = 5  # seeds of a kind that differ


class CannotSimulate(Exception):
    """The command line of that tree failed."""


def hashes(tree: Path, kind: str, seeds: str, jobs: int) -> dict[str, str]:
    """By seed. Raises CannotSimulate."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tree), str(tree / "compat")])}
    arguments = ["chaos", "sim", "--seeds", seeds, "--jobs", str(jobs), *KINDS[kind], "-o", "json"]
    done = subprocess.run(
        [sys.executable, "-P", "-m", "raftka.cli", *arguments],
        cwd=tree,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    try:
        found: dict[str, str] = json.loads(done.stdout)["hashes"]
    except (ValueError, KeyError) as error:
        raise CannotSimulate(
            f"{tree}: raftka {' '.join(arguments)} gives no hashes: {done.stderr.strip()[-500:]}"
        ) from error
    return found


@contextmanager
def checked_out(commit: str) -> Iterator[Path]:
    """A temporary tree of that commit."""
    with tempfile.TemporaryDirectory(prefix="raftka-hashes-") as folder:
        tree = Path(folder) / "tree"
        subprocess.run(
            ["git", "worktree", "add", "--quiet", "--detach", str(tree), commit],
            cwd=HERE,
            check=True,
        )
        try:
            yield tree
        finally:
            subprocess.run(
                ["git", "worktree", "remove", "--force", str(tree)], cwd=HERE, check=True
            )


def compare(commit: str, kinds: list[str], seeds: str, jobs: int) -> bool:
    """Print each kind's result. Returns whether all hashes are equal."""
    equal = True
    with checked_out(commit) as before:
        for kind in kinds:
            old, new = hashes(before, kind, seeds, jobs), hashes(HERE, kind, seeds, jobs)
            different = [seed for seed in new if old.get(seed) != new[seed]]
            equal = equal and not different and len(old) == len(new)
            shown = f"; different: {', '.join(different[:SHOWN])}" if different else ""
            print(
                f"{kind}: {len(new) - len(different)} of {len(old)} hashes are equal{shown}",
                flush=True,
            )
    return equal


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="./run hashes",
        description="Compare the traces of simulated seeds with those of a commit.",
    )
    parser.add_argument("commit", nargs="?", default="HEAD")
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--seeds", default="0-99", help="A-B")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    try:
        return 0 if compare(options.commit, options.kinds, options.seeds, options.jobs) else 1
    except (CannotSimulate, subprocess.CalledProcessError) as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
