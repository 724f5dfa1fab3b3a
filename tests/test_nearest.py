"""`./run test --fast` runs the tests that import what changed, the nearest first, as far as its
budget goes.
"""

from tests.nearest import BUDGET_SECONDS, FAR, LONGEST_SECONDS, chosen, distances

SOURCES = {
    "raftka/a.py": "",
    "raftka/b.py": "from raftka.a import thing",
    "raftka/c/__init__.py": "from . import d",
    "raftka/c/d.py": "from ..b import thing",
    "tests/test_a.py": "import raftka.a",
    "tests/test_b.py": "def test():\n    from raftka import b",
    "tests/test_d.py": "from raftka.c import d",
    "tests/test_e.py": "import os",
}


def test_imports_between_a_file_and_what_changed_are_counted() -> None:
    near = distances(SOURCES, ["raftka/a.py", "README.md"])
    assert near == {
        "raftka/a.py": 0,
        "raftka/b.py": 1,
        "tests/test_a.py": 1,
        "raftka/c/d.py": 2,
        "tests/test_b.py": 2,
        "raftka/c/__init__.py": 3,
        "tests/test_d.py": 3,
    }
    assert distances(SOURCES, ["tests/test_e.py"]) == {"tests/test_e.py": 0}


def test_the_nearest_come_first_and_the_budget_is_kept() -> None:
    near = {"near": 1, "dear": 1, "next": 2, "long": 1}
    costs = {
        "near": 1.0,
        "dear": 30.0,
        "next": 40.0,
        "far": 39.0,
        "cheap": 0.1,
        "long": LONGEST_SECONDS + 1,
    }
    found = chosen(["far", "cheap", "next", "dear", "near", "long"], near, costs)
    assert list(found.items()) == [("near", 1), ("dear", 1), ("next", 2), ("cheap", FAR)] + [
        ("far", FAR)
    ] * (BUDGET_SECONDS >= 110.1)
    assert sum(costs[path] for path in found) <= BUDGET_SECONDS


def test_a_module_and_its_package_are_both_imported() -> None:
    assert "tests/test_x.py" in distances(
        {"raftka/c/__init__.py": "", "tests/test_x.py": "from raftka.c import name"},
        ["raftka/c/__init__.py"],
    )
