"""Marks before statements: what a module does is as without them, and what was reached is known by
line.
"""

import importlib
import re
import sys
from pathlib import Path

import pytest

import raftka
from bench.reached import Reached, watching
from bench.unreached import REASONS, UNKNOWN, reason

RAFTKA = Path(raftka.__file__).parent
ALTERNATIVES = re.compile(r"\(([^()]*)\)(?!\?)")
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


SOURCES = {
    str(path.relative_to(RAFTKA)): path.read_text().splitlines() for path in RAFTKA.rglob("*.py")
}


def unmatched(where: str, what: str) -> list[str]:
    """Return the alternatives of an entry that no file, or no line of its files, matches."""
    files = [lines for name, lines in SOURCES.items() if re.search(where, name)]
    texts = {line.strip() for lines in files for line in lines}
    one_of = ALTERNATIVES.search(where)
    wheres = (
        [where.replace(one_of[0], each) for each in one_of[1].split("|")] if one_of else [where]
    )
    return [
        *(each for each in wheres if not any(re.search(each, name) for name in SOURCES)),
        *(
            each
            for each in (what.split("|") if "(" not in what.replace("\\(", "") else [what])
            if not any(re.search(each, text) for text in texts)
        ),
    ]


@pytest.mark.parametrize(("where", "what", "why"), REASONS)
def test_each_reason_matches_files_and_lines(where: str, what: str, why: str) -> None:
    assert unmatched(where, what) == []


def test_a_reason_that_matches_nothing_is_found() -> None:
    assert unmatched("log/(recovery|nowhere)", "Damaged|Unheard") == ["log/nowhere", "Unheard"]
