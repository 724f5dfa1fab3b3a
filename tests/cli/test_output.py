"""The output of commands: tables for people, an object a line for scripts, colours and progress
only on a terminal.
"""

import io
import json

import pytest

from raftka.cli.columns import COLUMNS, colour_of
from raftka.cli.output import command, show, warn_of_lack
from raftka.cli.progress import AFTER_S, CLEAR, EVERY_S, Progress, progress

ROWS: list[dict[str, object]] = [
    {"name": "a", "replicas": [1, 2], "rack": None, "lag": 7},
    {"name": "long", "replicas": [], "rack": "x", "lag": 12000},
]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def as_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Make both outputs a terminal with colours, for the test that calls this."""
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    found = Terminal()
    monkeypatch.setattr("sys.stdout", found)
    monkeypatch.setattr("sys.stderr", found)
    return found


def test_a_table_is_as_wide_as_it_must_be_and_numbers_stand_at_the_right(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show(ROWS, ["name", "replicas", "lag", "rack"], "text")

    assert capsys.readouterr().out.splitlines() == [
        "name  replicas    lag  rack",
        "a     1,2           7  -",
        "long  -         12000  x",
    ]


def test_names_of_others_do_not_act_on_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    show([{"group": "\033[2Jé\r", "isr": ["\x9b1m"]}], ["group", "isr"], "table")
    warn_of_lack("no broker has \033[2J\nsecond line")

    done = capsys.readouterr()
    assert "\\x1b[2Jé\\x0d" in done.out
    assert "\\x9b1m" in done.out
    assert done.err == "raftka: warning: no broker has \\x1b[2J\nsecond line\n"


def test_for_scripts_a_row_is_an_object_with_all_columns(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show(ROWS, ["name", "host"], "json")

    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert rows == [{**row, "host": None} for row in ROWS]


def test_a_column_without_a_meaning_is_an_error() -> None:
    with pytest.raises(KeyError, match=r"raftka/cli/columns\.py"):
        show(ROWS, ["name", "nmae"], "text")
    show([{"nmae": 1}], ["nmae"], "text", own=True)


def test_a_terminal_shows_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = as_terminal(monkeypatch)
    rows = [
        {"group": "a", "state": "Stable"},
        {"group": "b", "state": "Dead"},
        {"group": "c", "state": "Empty"},
    ]
    show(rows, ["group", "state"], "text")

    assert terminal.getvalue().splitlines() == [
        "\033[1mgroup  state\033[0m",
        "a      \033[32mStable\033[0m",
        "b      \033[31mDead\033[0m",
        "c      Empty",
    ]


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_colours_can_be_forbidden(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    terminal = as_terminal(monkeypatch)
    monkeypatch.setenv(name, value)
    show([{"group": "a", "state": "Stable"}], ["group", "state"], "text")

    assert "\033" not in terminal.getvalue()


def test_json_and_files_have_no_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, file = as_terminal(monkeypatch), io.StringIO()
    show([{"group": "a", "state": "Stable"}], ["group", "state"], "json")
    monkeypatch.setattr("sys.stdout", file)
    show([{"group": "a", "state": "Stable"}], ["group", "state"], "text")

    assert "\033" not in terminal.getvalue() + file.getvalue()
    assert "Stable" in terminal.getvalue()
    assert "Stable" in file.getvalue()


@pytest.mark.parametrize(
    ("column", "row", "colour"),
    [
        ("isr", {"isr": [1], "replicas": [1, 2]}, "yellow"),
        ("isr", {"isr": [2, 1], "replicas": [1, 2]}, None),
        ("leader", {"leader": -1}, "red"),
        ("leader", {"leader": 0}, None),
        ("offline", {"offline": [3]}, "red"),
        ("state", {"state": "PreparingRebalance"}, "yellow"),
    ],
)
def test_what_is_wrong_has_a_colour(
    column: str, row: dict[str, object], colour: str | None
) -> None:
    assert column in COLUMNS
    assert colour_of(column, row) == colour


def test_an_answer_that_lacks_something_has_an_exit_code_of_its_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    @command
    def partial() -> None:
        warn_of_lack("broker 1 has not answered: groups may be missing")

    @command
    def whole() -> None: ...

    assert (partial(), whole()) == (3, 0)
    assert capsys.readouterr().err.startswith("raftka: warning: broker 1 has not answered")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_progress_has_share_rate_and_rest() -> None:
    terminal, clock = Terminal(), Clock()
    shown = Progress("searching", 3_000, "records", stream=terminal, clock=clock)

    clock.now = AFTER_S / 2
    shown.update(500)
    assert terminal.getvalue() == ""
    clock.now = 2.0
    shown.update(1_500)
    clock.now += EVERY_S / 2
    shown.update(1_600)  # too soon for another line
    assert terminal.getvalue() == (
        f"{CLEAR}searching   50%  1,500 of 3,000 records  750 records/s  2 s left"
    )
    shown.clear()
    shown.clear()
    assert terminal.getvalue().count(CLEAR) == 2


def test_progress_without_a_total_has_a_count_and_a_rate() -> None:
    shown = Progress("reading", 0, "bytes", stream=None)

    assert shown.line(5_000_000, 2.0) == "reading  5.0 MB  2.5 MB/s"


@pytest.mark.parametrize("how", ["quiet", "no terminal", "beside output"])
def test_progress_is_for_who_looks_at_it(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    stream: io.StringIO = as_terminal(monkeypatch)
    if how == "no terminal":
        stream = io.StringIO()
        monkeypatch.setattr("sys.stderr", stream)
    with progress(
        "moving", 4, "partitions", quiet=how == "quiet", beside_output=how != "beside output"
    ) as shown:
        shown._next = 0.0
        shown.update(2)

    assert stream.getvalue() == ""


def test_progress_is_taken_away_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = as_terminal(monkeypatch)
    with progress("moving", 4, "partitions") as shown:
        shown._next = 0.0
        shown.update(2)

    assert "moving   50%" in terminal.getvalue()
    assert terminal.getvalue().endswith(CLEAR)
