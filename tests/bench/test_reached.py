"""Marks before statements: what a module does is as without them, and what was reached is known by
line.
"""

import importlib
import sys
from pathlib import Path

import pytest

from bench.reached import Reached, watching
from bench.unreached import UNKNOWN, reason

SOURCE = '''"""A module."""


def half(number: int) -> int:
    """Of an even one."""
    if number < 0:
        return 0
    if number % 2:
        raise ValueError("odd")
    for _ in range(number):
        number -= 0
    return number // 2
'''


@pytest.fixture
def reached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Reached:
    (tmp_path / "halves_to_watch.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "halves_to_watch", raising=False)
    with watching([tmp_path]) as found:
        importlib.import_module("halves_to_watch")
    (module,) = found
    module.clear()
    return module


def lines(reached: Reached) -> set[int]:
    return {line for line, number in reached.lines.items() if reached.marks[number]}


def test_lines_branches_and_guards(reached: Reached) -> None:
    half = sys.modules["halves_to_watch"].half

    assert set(reached.guards) == {7, 9}
    assert half(4) == 2
    assert lines(reached) == {6, 8, 10, 11, 12}
    # two tests that are false, the loop, its end
    assert sum(reached.marks[number] for number in reached.branches) == 4
    reached.clear()
    with pytest.raises(ValueError, match="odd"):
        half(3)
    assert {line for line, number in reached.guards.items() if reached.marks[number]} == {9}
    assert half(-1) == 0
    assert lines(reached) == {6, 7, 8, 9}


def test_a_guard_has_a_reason_or_is_to_be_looked_at() -> None:
    assert "limit" in reason("coordinator/memory_budget.py", "raise LimitRefused(MEMBERS, 3)")
    assert reason("coordinator/offsets.py", "raise KafkaError(Code.ILLEGAL_GENERATION)") == UNKNOWN
