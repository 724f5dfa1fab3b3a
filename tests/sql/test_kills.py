"""Ten queries of an SQL server that is killed: bench/sql_kills.py, one kill of each kind. The
command `./run soak sql` kills more.
"""

from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip(
    "pyspark",
    reason="PySpark is not installed: ./run setup pipeline installs it into .venv/ (1 GB)",
)

from bench.sql_kills import END_MS, Trial, compare, expected


def test_each_row_of_killed_servers_queries_is_there_once(tmp_path: Path) -> None:
    with Trial(tmp_path, 1, print) as trial:
        verdict = trial.run(("server", "java", "leader"))
    assert verdict.good, verdict
    assert verdict.acknowledged > 100


def test_a_verdict_finds_rows_that_are_lost_or_there_twice() -> None:
    source = [("key 1", n, n * 10) for n in range(300)] + [("key 1", 300, 3000 + END_MS)]
    wanted = expected(source)
    found = {name: Counter(rows) for name, rows in wanted.items()}
    assert compare(wanted, found) == {}
    found["keyed"]['key 1 {"n":7}'] += 1
    found["sums"].clear()
    windows = sum(found["tumbling"].values())
    found["tumbling"].clear()
    assert compare(wanted, found) == {
        "lost from sums": 7,
        "lost from tumbling": windows,
        "too many in keyed": 1,
    }
