"""The output of commands: tables for people, an object a line for scripts, a progress bar only on a
terminal.
"""

import io
import json

import pytest

from raftka.cli.output import progress, show

ROWS: list[dict[str, object]] = [
    {"name": "a", "replicas": [1, 2], "rack": None},
    {"name": "long", "replicas": [], "rack": "x"},
]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_table_is_as_wide_as_it_must_be(capsys: pytest.CaptureFixture[str]) -> None:
    show(ROWS, ["name", "replicas", "rack"], "text")

    assert capsys.readouterr().out.splitlines() == [
        "name  replicas  rack",
        "a     1,2       -",
        "long  -         x",
    ]


def test_for_scripts_a_row_is_an_object(capsys: pytest.CaptureFixture[str]) -> None:
    show(ROWS, ["name"], "json")

    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == ROWS


def test_a_bar_is_for_who_looks_at_it(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    with progress("moving", 4) as moved:
        for done in range(5):
            moved(done)

    assert "moving" in terminal.getvalue()
    assert "100%" in terminal.getvalue()


@pytest.mark.parametrize(("terminal", "total"), [(io.StringIO(), 4), (Terminal(), 0)])
def test_where_nobody_looks_or_nothing_is_known_there_is_none(
    monkeypatch: pytest.MonkeyPatch, terminal: io.StringIO, total: int
) -> None:
    monkeypatch.setattr("sys.stderr", terminal)
    with progress("moving", total) as moved:
        moved(2)

    assert terminal.getvalue() == ""
