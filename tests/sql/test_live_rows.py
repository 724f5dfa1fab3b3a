"""Rows from another thread: as many wait as are allowed, and whoever ends first wakes the other."""

import threading
from collections.abc import Iterator

import pytest

from raftka.sql.engine import live_rows
from raftka.sql.engine.live_rows import LiveRows


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_rows, "MOST_WAITING", 3)
    monkeypatch.setattr(live_rows, "CHECK_S", 0.001)


class Source:
    """A source of numbers in a thread of its own."""

    def __init__(
        self, count: int, limit: int | None = None, error: Exception | None = None
    ) -> None:
        self.given, self.ended, self.error = 0, 0, error
        self.rows = LiveRows(limit, self._check, self._end)
        self.thread = threading.Thread(target=self._give, args=(count,))
        self.thread.start()

    def _give(self, count: int) -> None:
        for number in range(count):
            if not self.rows.put([number]):
                return
            self.given += 1

    def _check(self) -> bool:
        if self.error is not None and not self.thread.is_alive():
            raise self.error
        return self.thread.is_alive()

    def _end(self) -> None:
        self.ended += 1


@pytest.fixture
def sources() -> Iterator[list[Source]]:
    started: list[Source] = []
    yield started
    for each in started:
        each.rows.close()
        each.thread.join()


def test_all_rows_come_in_order_and_the_source_is_ended_once(sources: list[Source]) -> None:
    sources.append(source := Source(100))
    assert [row[0] for row in source.rows] == list(range(100))
    source.rows.close()
    assert source.ended == 1
    assert list(source.rows) == []


def test_a_source_waits_for_its_reader(sources: list[Source]) -> None:
    sources.append(source := Source(100))
    for number in range(10):
        assert next(source.rows) == [number]
        assert source.given <= number + 5


def test_a_limit_ends_the_source(sources: list[Source]) -> None:
    sources.append(source := Source(100, limit=4))
    assert [row[0] for row in source.rows] == [0, 1, 2, 3]
    source.thread.join()
    assert (source.ended, source.given) == (1, source.given)
    assert source.given < 100


def test_closing_wakes_a_source_that_waits(sources: list[Source]) -> None:
    sources.append(source := Source(100))
    assert next(source.rows) == [0]
    source.rows.close()
    source.thread.join()
    assert list(source.rows) == []


def test_an_error_comes_after_the_rows_before_it(sources: list[Source]) -> None:
    sources.append(source := Source(2, error=ValueError("broken")))
    assert [next(source.rows), next(source.rows)] == [[0], [1]]
    with pytest.raises(ValueError, match="broken"):
        next(source.rows)
    assert source.ended == 1
    assert list(source.rows) == []
