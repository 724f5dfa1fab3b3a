"""Histories go out as lines and come back the same; what is no history is refused. And all of this
is pure, though floor 4 need not be.
"""

import ast
from pathlib import Path

import pytest

import raftka.chaos
from raftka.chaos.checker import check
from raftka.chaos.history import (
    COMMIT,
    FAIL,
    INFO,
    NEVER,
    OK,
    POLL,
    PRODUCE,
    History,
    HistoryFailed,
    Told,
    dump,
    load,
)
from tests.kit.imports import OUTSIDE_OF_PURE, imports
from tests.kit.toy_kafka import Toy

ROOT = Path(raftka.chaos.__path__[0])
PURE = [
    ROOT / "history.py",
    ROOT / "verdict.py",
    ROOT / "checker.py",
    ROOT / "linearizable.py",
    *sorted((ROOT / "checks").glob("*.py")),
]


def told() -> tuple[History, list[str]]:
    lines: list[str] = []
    history = History(lines.append)
    history.invoke(1, PRODUCE, 0.5, sends=[("t-0", 7, None)], producer="p", epoch=0)
    history.invoke(2, POLL, 0.6)
    history.end(1, OK, 0.7, sends=[("t-0", 7, 42)])
    history.end(2, OK, 0.8, polled={"t-0": [(42, 7)]}, told={"t-0": Told(3, 0, 43, 43)})
    history.invoke(1, COMMIT, 0.9, group="g", generation=2, offsets={"t-0": 43})
    return history, lines


def test_a_history_is_written_as_operations_happen() -> None:
    _, lines = told()

    assert (
        lines[0]
        == '["invoke",1,0.5,"produce",{"sends":[["t-0",7,null]],"producer":"p","epoch":0}]\n'
    )
    assert lines[3] == '["ok",2,0.8,{"polled":{"t-0":[[42,7]]},"told":{"t-0":[3,0,43,43]}}]\n'
    assert len(lines) == 5


def test_both_ways_of_writing_read_the_same() -> None:
    history, lines = told()

    streamed, dumped = load(lines), load(dump(history))

    assert list(dump(streamed)) == list(dump(dumped)) == list(dump(history))
    assert streamed.operations[1].told == {"t-0": Told(3, 0, 43, 43)}
    assert [each.outcome for each in streamed.operations] == [OK, OK, INFO]
    assert streamed.operations[2].ended == NEVER


def test_a_large_one_comes_back_and_is_judged_the_same() -> None:
    toy = Toy(5)
    history = toy.run(800)
    lines = list(dump(history))

    again = load(lines)

    assert list(dump(again)) == lines
    assert str(check(again)) == str(check(history)) == "valid"


def test_a_line_that_is_cut_off_is_left_out() -> None:
    _, lines = told()

    assert len(load([*lines[:-1], lines[-1][:20]]).events) == len(lines) - 1


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (
            ['["invoke",1,0.0,"produce",{}]', '["invoke",1,0.0,"poll",{}]'],
            "line 2: process 1 begins poll while its produce is under way",
        ),
        (['["ok",1,0.0,{}]'], "line 1: process 1 ends what it has not begun"),
        (['["invoke",1,0.0,"dance",{}]'], "line 1: there is no verb dance"),
        (['["invoke",1,0.0,"poll",{"began":3}]'], "line 1: an operation has no began"),
        (['["invoke",1,0.0,"poll",{}]', '["done",1,0.0,{}]'], "line 2: there is no outcome done"),
        (["{}"], "line 1: not enough values"),
        (["nonsense"], "line 1: Expecting value"),
    ],
)
def test_an_invalid_history_is_refused(lines: list[str], said: str) -> None:
    with pytest.raises(HistoryFailed, match=said):
        load(line + "\n" for line in lines)


def test_failed_operations_have_ended_and_open_ones_have_not() -> None:
    history = History()
    for process, outcome in ((1, FAIL), (2, INFO)):
        history.invoke(process, PRODUCE, 0.0)
        history.end(process, outcome, 1.0)

    assert [each.ended for each in history.operations] == [1, NEVER]


VALUES = ("raftka.chaos.", "raftka.json_values", "raftka.share.state", "raftka.wire.errors")


@pytest.mark.parametrize("path", PURE, ids=lambda path: path.stem)
def test_the_checker_is_pure(path: Path) -> None:
    """Of raftka it knows values alone: states of records, and the protocol's numbers of errors."""
    relative = str(path.relative_to(ROOT.parent.parent))
    found = [target for _, target in imports(ast.parse(path.read_text()), relative)]

    assert not [target for target in found if target.split(".")[0] in OUTSIDE_OF_PURE]
    assert all(target.startswith(VALUES) for target in found if target.startswith("raftka"))
