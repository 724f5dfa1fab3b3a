"""The figures that `./run bench --against` reads from a benchmark's tables; it really runs both
trees in turns.
"""

from pathlib import Path

import pytest

from bench import against
from bench.against import Figure, compare, figures, ratios
from bench.hashes import HERE

TABLE = """2 cores, 24 GiB

| start to first acknowledged record | median s | worst s |
|---|---|---|
| raftka, one node | 0.70 | **1.25** |
| Apache Kafka | nan | - |

| figure | rate |
|---|---|
| lookups | 6,924 |
| p50 us | 1,234.5 us |
""".splitlines()


def test_numbers_are_known_by_table_row_and_column() -> None:
    assert figures(TABLE) == {
        Figure("start to first acknowledged record", "raftka, one node", "median s"): 0.70,
        Figure("start to first acknowledged record", "raftka, one node", "worst s"): 1.25,
        Figure("figure", "lookups", "rate"): 6924.0,
        Figure("figure", "p50 us", "rate"): 1234.5,
    }


def test_only_figures_of_both_trees_are_compared() -> None:
    a, b, c = (Figure("t", name, "x") for name in "abc")

    assert ratios({a: 2.0, b: 0.0, c: 1.0}, {a: 3.0, b: 1.0}) == {a: 1.5}


def test_trees_run_in_turns_and_medians_are_of_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    came: list[str] = []

    def run(tree: Path, arguments: list[str]) -> dict[Figure, float]:
        ours = tree == HERE
        came.append("new" if ours else "old")
        assert arguments == ["start"]
        return {Figure("t", "row", "s"): 4.0 if ours else 2.0 + len(came) % 2}

    monkeypatch.setattr(against, "run", run)

    lines = list(compare("HEAD", ["start"], 3))

    assert came == ["old", "new", "new", "old", "old", "new"]
    assert lines[2] == "| row: s | 3 | 4 | 1.333 | 1.333 | 2.000 |"


def test_a_benchmark_of_another_tree_runs_with_its_own_code(tmp_path: Path) -> None:
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "__init__.py").write_text("")
    (tmp_path / "bench" / "__main__.py").write_text(
        "import sys; print('| t | x |'); print('|---|---|'); print(f'| {sys.argv[1]} | 7 |')"
    )

    assert against.run(tmp_path, ["mine"]) == {Figure("t", "mine", "x"): 7.0}
