"""Places in a partition as people write them."""

import os
import time
from collections.abc import Iterator

import pytest

from raftka.cli.output import CommandFailed
from raftka.cli.records.positions import read_position, read_time
from raftka.client.blocking.positions import Position, _clamped

WORDS = ("start", "end", "current")
NOON = 1_700_000_000.0  # 2023-11-14T22:13:20Z


@pytest.fixture(autouse=True)
def _zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine that is three hours ahead of UTC, all year."""
    monkeypatch.setenv("TZ", "UTC-3")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()
    assert "TZ" not in os.environ or os.environ["TZ"] != "UTC-3"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("start", ("start", 0)),
        ("current", ("current", 0)),
        ("12", ("offset", 12)),
        ("0", ("offset", 0)),
        ("-3", ("back", 3)),
        ("2h", ("time", 92_800_000)),
        ("1h30m", ("time", 94_600_000)),
        ("90s", ("time", 99_910_000)),
        ("1d", ("time", 13_600_000)),
        ("P1DT1H30M1S", ("time", 8_199_000)),
        ("PT30M", ("time", 98_200_000)),
        ("1970-01-01T00:01:00+00:00", ("time", 60_000)),
        ("1970-01-01T00:01:00Z", ("time", 60_000)),
        ("1970-01-02", ("time", 75_600_000)),  # midnight here
    ],
)
def test_a_position(text: str, expected: tuple[str, int]) -> None:
    assert read_position("--to", text, 100_000.0, WORDS) == Position(*expected)


@pytest.mark.parametrize(
    ("text", "hour", "minute", "second"),
    [("10:42", 10, 42, 0), ("9:05", 9, 5, 0), ("00:00:30", 0, 0, 30), ("23:59:59.5", 23, 59, 59.5)],
)
def test_a_clock_time_is_one_of_today_here(
    text: str, hour: int, minute: int, second: float
) -> None:
    midnight = 1_699_995_600  # 2023-11-15T00:00+03:00, the local day of NOON
    assert read_time(text, NOON) == (midnight + 3600 * hour + 60 * minute + second) * 1000


@pytest.mark.parametrize(
    "text", ["yesterday", "P", "PT", "+3", "", "25:00", "10:42:61", "2h30", "30", "h", "1.5h"]
)
def test_what_is_no_time(text: str) -> None:
    assert read_time(text, NOON) is None


@pytest.mark.parametrize("text", ["yesterday", "+3", "", "currently"])
def test_an_invalid_position_is_refused_with_the_forms(text: str) -> None:
    with pytest.raises(CommandFailed, match=r"--from .*: it is start, end, an offset, -N"):
        read_position("--from", text, NOON, ("start", "end"))


def test_a_word_counts_where_it_has_a_meaning() -> None:
    with pytest.raises(CommandFailed):
        read_position("--from", "current", NOON, ("start", "end"))


@pytest.mark.parametrize(
    ("position", "expected"),
    [
        (Position("start"), 10),
        (Position("end"), 50),
        (Position("offset", 20), 20),
        (Position("offset", 5), 10),
        (Position("offset", 99), 50),
        (Position("back", 1), 49),
        (Position("back", 100), 10),
        (Position("time", 1), 30),
    ],
)
def test_an_offset_is_one_that_is_there_or_the_end(position: Position, expected: int) -> None:
    assert _clamped(position, 10, 50, 30) == expected


def test_a_time_behind_all_records_is_the_end() -> None:
    assert _clamped(Position("time", 1), 10, 50, -1) == 50
