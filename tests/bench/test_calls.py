"""Calls of the interpreter that a request costs in real nodes: their loop, sockets and flushes too,
which the simulation does not have.
"""

import shutil

import pytest

from bench.calls import counted

pytestmark = pytest.mark.skipif(
    shutil.which("cc") is None, reason="no C compiler here: the load generator makes the requests"
)


@pytest.mark.parametrize(
    ("nodes", "load", "expected"),
    [(1, "produce -b 1", 103.0), (3, "produce -b 1 -a -1", 970.0)],
    ids=["one node", "three replicas"],
)
def test_a_record(nodes: int, load: str, expected: float) -> None:
    found = counted(nodes, load, seconds=1.0)

    assert sum(found.values()) == pytest.approx(expected, rel=0.13)
