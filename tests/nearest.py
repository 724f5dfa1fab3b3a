"""`./run test --fast`: which test files are nearest to what changed, by imports. Runs no test and
imports no source.

The costs of test files (seconds of their tests, one after the other) are in `costs.json`, which
`./run test --write-costs` writes.
"""

import ast
import json
import subprocess
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCES = ("raftka", "compat", "tests", "bench", "tools")
COSTS = Path(__file__).parent / "costs.json"
BUDGET_SECONDS = 110.0  # of tests, on two cores; with what pytest needs to start, under 90 s
LONGEST_SECONDS = 40.0  # a file that takes longer is not for this tier
UNKNOWN_SECONDS = 2.0  # of a new file
FAR = 99


def module_name(path: str) -> str:
    parts = list(Path(path).with_suffix("").parts)
    parts = parts[1:] if parts[0] == "compat" else parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(path: str, tree: ast.AST) -> Iterator[str]:
    """Dotted names, `from a import b` as a.b and as a."""
    package = module_name(path).split(".")[: None if path.endswith("__init__.py") else -1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            origin = (
                ".".join(
                    [
                        *package[: len(package) - node.level + 1],
                        *([node.module] if node.module else []),
                    ]
                )
                if node.level
                else node.module or ""
            )
            yield from [origin, *(f"{origin}.{alias.name}" for alias in node.names)]


def distances(sources: Mapping[str, str], changed: Iterable[str]) -> dict[str, int]:
    """Of each file that imports a changed one, how many imports lie between; 0 for those that
    changed.
    """
    files = {module_name(path): path for path in sources}
    importers: dict[str, set[str]] = {}
    for path, source in sources.items():
        for name in imported(path, ast.parse(source)):
            if name in files:
                importers.setdefault(files[name], set()).add(path)
    found = {path: 0 for path in changed if path in sources}
    waiting = deque(found)
    while waiting:
        path = waiting.popleft()
        for importer in sorted(importers.get(path, ())):
            if importer not in found:
                found[importer] = found[path] + 1
                waiting.append(importer)
    return found


def chosen(
    tests: Iterable[str], near: Mapping[str, int], costs: Mapping[str, float]
) -> dict[str, int]:
    """Distance of each test file that the budget has room for, the nearest first, of equally near
    ones the cheapest.
    """
    left, found = BUDGET_SECONDS, {}
    for path in sorted(
        tests, key=lambda path: (near.get(path, FAR), costs.get(path, UNKNOWN_SECONDS), path)
    ):
        cost = costs.get(path, UNKNOWN_SECONDS)
        if cost <= min(left, LONGEST_SECONDS):
            left -= cost
            found[path] = near.get(path, FAR)
    return found


def changed_files() -> list[str]:
    """Return the files that the working tree has changed; if none, those of the last commit."""

    def lines(*arguments: str) -> list[str]:
        done = subprocess.run(
            ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
        )
        return done.stdout.split("\n")[:-1]

    return lines("diff", "--name-only", "HEAD") + lines(
        "ls-files", "--others", "--exclude-standard"
    ) or lines("diff", "--name-only", "HEAD~1")


def nearest() -> dict[str, int]:
    sources = {
        str(path.relative_to(ROOT)): path.read_text()
        for top in SOURCES
        for path in (ROOT / top).rglob("*.py")
    }
    tests = [path for path in sources if Path(path).name.startswith("test_")]
    return chosen(
        tests,
        distances(sources, changed_files()),
        json.loads(COSTS.read_text()) if COSTS.exists() else {},
    )
