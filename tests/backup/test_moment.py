"""A restore as of a moment before the cut: no record later than it, no transaction torn, no offset
behind a record that is missing.
"""

from dataclasses import replace
from random import Random

import pytest

from raftka.backup.create import take
from raftka.backup.errors import BackupError
from raftka.backup.manifest import Manifest
from raftka.backup.moment import BACK_MS, as_of
from raftka.backup.places import Folder
from raftka.backup.restore import make_plan, restore
from raftka.backup.state import committed_offsets, transactions_of
from raftka.backup.verify import verify
from raftka.coordinator.records import (
    offset_key,
    offset_prefix,
    offset_topic_prefix,
    offset_value,
)
from raftka.coordinator.transactions.records import State, Transaction, transaction_record
from tests.backup.small import TOPICS, Source, batches, opened, settings_of
from tests.log.files import MemoryFiles
from tests.log.given import NOW, append, batch, end_transaction, in_transaction

PLACE = "place"
AT = NOW - 100_000  # of the first record


class Timed:
    """Logs that are written at chosen times, in ms behind AT."""

    def __init__(self) -> None:
        self.files = MemoryFiles()
        self.source = Source(self.files)
        for name, count in TOPICS.items():
            for index in range(count):
                self.source.open(name, index)
        self.place = Folder(self.files, PLACE)
        self.sequences: dict[tuple[int, int], int] = {}

    def write(self, index: int, *times: int) -> None:
        for time in times:
            append(self.source.logs["orders", index], batch(1, size=60, timestamp=AT + time))

    def begin(self, index: int, producer: int, time: int, epoch: int = 0) -> None:
        sequence = self.sequences.get((index, producer), 0)
        self.sequences[index, producer] = sequence + 1
        made = batch(
            1,
            producer=producer,
            epoch=epoch,
            sequence=sequence,
            transactional=True,
            timestamp=AT + time,
        )
        in_transaction(self.source.logs["orders", index], made)

    def commit(self, index: int, producer: int, time: int) -> None:
        end_transaction(self.source.logs["orders", index], producer, commit=True, now=AT + time)

    def cut(self) -> Manifest:
        return take(self.source, self.source.cut(), self.place, self.files, "first").manifest

    def as_of(self, time: int) -> Manifest:
        return as_of(self.place, self.cut(), AT + time)


def orders(manifest: Manifest) -> list[int]:
    return [each.end_offset for each in manifest.partitions if each.topic == "orders"]


@pytest.fixture
def timed() -> Timed:
    return Timed()


def test_a_partition_ends_before_the_first_later_record(timed: Timed) -> None:
    timed.write(0, *range(0, 4_000, 100))
    timed.write(1, 0, 5_000, 10)

    for time, ends in ((-1, [0, 0]), (0, [1, 1]), (1_050, [11, 1]), (9_000, [40, 3])):
        found = timed.as_of(time)
        assert orders(found) == ends
        assert found.cut_ms == AT + time
        verify(timed.place, found)


@pytest.mark.parametrize("time", [2_000, 2_005, 2_009])
def test_a_transaction_is_not_torn(timed: Timed, time: int) -> None:
    """One of its markers is earlier than the other one."""
    for index, at in ((0, 2_000), (1, 2_010)):
        timed.write(index, 0)
        timed.begin(index, 7, 1_000)
        timed.commit(index, 7, at)
        timed.write(index, 3_000)

    found = timed.as_of(time)

    assert (orders(found), found.cut_ms) == ([2, 2], AT + 1_999)
    assert orders(timed.as_of(1_500)) == [2, 2]
    assert orders(timed.as_of(2_010)) == [3, 3]


def test_records_of_a_transaction_that_are_all_later_tear_it_too(timed: Timed) -> None:
    """A client's clock is ahead: no record of its transaction is in the second partition."""
    timed.begin(0, 7, 1_000)
    timed.begin(1, 7, 5_000)
    timed.commit(0, 7, 2_000)
    timed.commit(1, 7, 2_000)

    assert orders(timed.as_of(3_000)) == [1, 0]


def test_transactions_of_one_epoch_are_told_apart(timed: Timed) -> None:
    for time in range(0, 5_000, 1_000):
        for index, late in ((0, 0), (1, 10)):
            timed.begin(index, 7, time)
            timed.commit(index, 7, time + 500 + late)

    assert orders(timed.as_of(2_800)) == [6, 6]
    found = timed.as_of(2_505)
    assert (orders(found), found.cut_ms) == ([5, 5], AT + 2_499)


def test_transactions_without_a_gap_are_refused(timed: Timed) -> None:
    for time in range(0, BACK_MS + 2_000, 500):
        for producer in (7, 8):
            for index in (0, 1):
                timed.begin(index, producer, time)
        for producer, (first, last) in ((7, (0, 1)), (8, (1, 0))):
            timed.commit(first, producer, time + 1)
            timed.commit(last, producer, time + 502)

    with pytest.raises(BackupError, match="no moment between two transactions"):
        timed.as_of(BACK_MS + 1_000)


def test_a_moment_behind_the_cut_is_refused(timed: Timed) -> None:
    timed.write(0, 0)
    manifest = timed.cut()

    with pytest.raises(BackupError, match="was cut before that: leave out --to"):
        as_of(timed.place, manifest, manifest.cut_ms)


def test_the_restored_state_fits_the_moment(timed: Timed) -> None:
    """An offset that a clock ahead has let in is set to the end, and a commit that was decided and
    has no marker yet is aborted.
    """
    timed.write(0, 0, 1_000, 5_000, 6_000)
    timed.begin(1, 7, 1_500)
    prefix = offset_topic_prefix(offset_prefix("group"), "orders")
    timed.source.append("__consumer_offsets", offset_key(prefix, 0), offset_value(4, 0, "", NOW))
    key, value = transaction_record("x", Transaction(7, 0, 60_000, State.PREPARE_COMMIT))
    timed.source.append("__transaction_state", key, value)
    whole = timed.cut()
    then = as_of(timed.place, whole, AT + 2_000)
    # records of coordinators have the time of the test: they come as of the cut
    mixed = replace(
        then,
        partitions=tuple(
            [
                now if now.topic != "orders" else before
                for now, before in zip(whole.partitions, then.partitions, strict=True)
            ]
        ),
    )
    settings = settings_of()
    plan = make_plan(mixed, settings)
    restore(timed.place, plan, settings, timed.files, Random(1))

    offsets = committed_offsets(batches(opened(timed.files, 1, "__consumer_offsets")))
    assert {key: value.offset for key, value in offsets.items()} == {("group", "orders", 0): 2}
    ids = transactions_of(batches(opened(timed.files, 1, "__transaction_state")))
    assert ids["x"].state is State.PREPARE_ABORT
    log = opened(timed.files, 2, "orders", 1)
    assert log.last_stable_offset(log.end_offset) == log.end_offset == 2
