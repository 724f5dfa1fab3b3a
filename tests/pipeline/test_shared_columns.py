"""Columns that several flows read are made once, whoever comes first and whoever dies; nothing
depends on them.
"""

import fcntl
import os
import threading
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="needs raftka[pipeline]")
import pyarrow as pa

from raftka.pipeline.topics import shared_columns
from raftka.pipeline.topics.shared_columns import PARTS, SharedColumns, between

LARGE = 1 << 30


class Maker:
    """Records of offsets that are no multiple of seven, `step` of them at a time."""

    def __init__(self, step: int = 10, size: int = 8) -> None:
        self.step, self.size, self.made = step, size, list[int]()
        self.failure: Exception | None = None

    def __call__(self, start: int, stop: int) -> Generator[pa.RecordBatch]:
        for begin in range(start, stop, self.step):
            if self.failure is not None:
                raise self.failure
            offsets = [each for each in range(begin, min(begin + self.step, stop)) if each % 7]
            self.made += offsets
            if offsets:
                yield pa.RecordBatch.from_pydict(
                    {
                        "offset": pa.array(offsets, pa.int64()),
                        "value": [b"v" * self.size] * len(offsets),
                    }
                )


def offsets(rows: Iterator[pa.RecordBatch]) -> list[int]:
    return [each for batch in rows for each in batch.column("offset").to_pylist()]


def wanted(start: int, stop: int) -> list[int]:
    return [each for each in range(start, stop) if each % 7]


@pytest.fixture
def shared(tmp_path: Path) -> SharedColumns:
    return SharedColumns(tmp_path / "a" / "b", LARGE)


def test_ranges_of_any_kind_are_made_once(shared: SharedColumns) -> None:
    make = Maker()

    for start, stop in ((20, 65), (20, 65), (0, 30), (31, 33), (50, 100), (0, 100), (7, 8)):
        assert offsets(shared.rows(start, stop, make)) == wanted(start, stop), (start, stop)

    assert sorted(make.made) == wanted(0, 100)


def test_offsets_without_records_are_remembered_too(shared: SharedColumns) -> None:
    make = Maker()

    assert offsets(shared.rows(7, 8, make)) == []
    make.failure = AssertionError("nothing is to be made")
    assert offsets(shared.rows(7, 8, make)) == []


def test_many_at_once_make_it_once(shared: SharedColumns, tmp_path: Path) -> None:
    make, found = Maker(), list[list[int]]()

    def reader() -> None:
        found.append(offsets(SharedColumns(tmp_path / "a" / "b", LARGE).rows(0, 500, make)))

    threads = [threading.Thread(target=reader) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()

    assert found == [wanted(0, 500)] * 8
    assert sorted(make.made) == wanted(0, 500)


def test_the_oldest_leave_and_a_reader_comes_to_its_end_however_little_place_there_is(
    tmp_path: Path,
) -> None:
    for limit in (0, 1, 300, 2000):
        folder = tmp_path / str(limit)
        shared = SharedColumns(folder, limit)
        assert offsets(shared.rows(0, 300, Maker())) == wanted(0, 300)
        files = sorted(folder.glob("*.arrow"))
        assert files
        assert len(files) == 1 or sum(each.stat().st_size for each in files) <= limit


def test_there_are_never_more_parts_than_that(tmp_path: Path) -> None:
    shared, make = SharedColumns(tmp_path, LARGE), Maker()

    for at in range(0, 10 * (PARTS + 20), 10):
        offsets(shared.rows(at, at + 10, make))

    assert len(list(tmp_path.glob("*.arrow"))) == PARTS


def test_a_failure_leaves_what_was_made_before(shared: SharedColumns) -> None:
    class Half(Maker):
        def __call__(self, start: int, stop: int) -> Generator[pa.RecordBatch]:
            for batch in super().__call__(start, stop):
                yield batch
                self.failure = RuntimeError("the broker is away")

    with pytest.raises(RuntimeError, match="away"):
        offsets(shared.rows(0, 100, Half()))

    make = Maker()
    assert offsets(shared.rows(0, 100, make)) == wanted(0, 100)
    assert sorted(make.made) == wanted(10, 100)


def test_a_full_disk_costs_the_sharing_and_no_row(
    shared: SharedColumns, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pa, "OSFile", full)

    assert offsets(shared.rows(0, 100, Maker())) == wanted(0, 100)


def test_a_folder_that_cannot_be_made_costs_the_sharing_and_no_row(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")

    assert offsets(SharedColumns(tmp_path / "file" / "b", LARGE).rows(0, 100, Maker())) == wanted(
        0, 100
    )


def test_a_maker_that_hangs_holds_others_up_for_a_while_only(tmp_path: Path) -> None:
    now = 0.0

    def pause(seconds: float) -> None:
        nonlocal now
        now += seconds

    descriptor = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        assert offsets(
            SharedColumns(tmp_path, LARGE, lambda: now, pause).rows(0, 100, Maker())
        ) == wanted(0, 100)
    finally:
        os.close(descriptor)
    assert shared_columns.WAIT_S <= now < shared_columns.WAIT_S + 1
    assert not list(tmp_path.glob("*.arrow"))


def test_what_a_killed_maker_left_is_no_part(shared: SharedColumns, tmp_path: Path) -> None:
    offsets(shared.rows(0, 10, Maker()))
    (tmp_path / "a" / "b" / "fresh").write_bytes(b"half")

    assert offsets(shared.rows(0, 30, Maker())) == wanted(0, 30)


def test_rows_stay_when_their_part_leaves(shared: SharedColumns, tmp_path: Path) -> None:
    offsets(shared.rows(0, 10, Maker()))
    (batch,) = shared.rows(0, 10, Maker())
    for path in (tmp_path / "a" / "b").glob("*.arrow"):
        path.unlink()

    assert between(batch, 3, 6).column("offset").to_pylist() == [3, 4, 5]
