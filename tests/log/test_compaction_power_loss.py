"""The power goes at every file call of a compaction: the log opens, nothing committed is lost, no
key that was deleted comes back.
"""

from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest

from raftka.log.log import Log
from raftka.log.segments.scan import headers
from tests.log.compacting import DAY, Pair, batches, clean, pairs_batch, records
from tests.log.files import MemoryFiles, PowerLoss
from tests.log.given import NOW, append, checkpoint, disk, open_log

CONFIG = {
    "cleanup_policy": "compact",
    "segment_bytes": 700,
    "index_interval_bytes": 100,
    "delete_retention_ms": DAY,
}
KEYS = [b"key-%d" % number for number in range(6)]


class Table:
    """A topic as a table: what was written, and what compaction must leave of it."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.files = disk()
        self.log = self.open(self.files, 0)
        self.written: dict[int, Pair] = {}
        self.now = NOW
        self.sequence = 0

    @staticmethod
    def open(files: MemoryFiles, point: int) -> Log:
        return open_log(files, recovery_point=point, **CONFIG)  # type: ignore[arg-type]

    def write(self, count: int) -> None:
        random = self.random
        for _ in range(count):
            pairs = [
                (
                    random.choice(KEYS),
                    None if random.random() < 0.2 else random.randbytes(random.choice([5, 60])),
                )
                for _ in range(random.randint(1, 4))
            ]
            producer = {"producer": 7, "sequence": self.sequence} if random.random() < 0.5 else {}
            self.sequence += len(pairs) if producer else 0
            base = self.log.end_offset
            append(
                self.log,
                pairs_batch(
                    *pairs, timestamp=self.now, compression=random.choice([0, 0, 1, 4]), **producer
                ),
                now=self.now,
            )
            self.written |= {base + at: pair for at, pair in enumerate(pairs)}
        self.log.durability.settled_point = checkpoint(self.log)

    def table(self) -> dict[bytes | None, bytes]:
        state = dict(self.written.values())
        return {key: value for key, value in state.items() if value is not None}

    def check(self, log: Log, end: int, dirty_from: int) -> None:
        """`end`: what was confirmed. Every record is where it was, and of the table nothing is
        missing and nothing is back.
        """
        assert log.end_offset == end
        for segment, following in pairwise(log.segments):
            assert all(
                header[0] + header[6] < following.base_offset
                for _, header in headers(segment.file, 0, segment.size)
            ), "they overlap"
        found = records(log)
        assert all(self.written[record.offset] == (record.key, record.value) for record in found)
        state = {record.key: record.value for record in found}
        assert {key: value for key, value in state.items() if value is not None} == self.table()
        assert {record.offset for record in found} >= {
            offset for offset in self.written if offset >= dirty_from
        }
        producer = log.producers.producers.get(7)
        assert (producer.next_sequence if producer else 0) == self.sequence

    def reopen(self, files: MemoryFiles) -> Log:
        return self.open(files, self.log.durability.recovery_point)

    def compact(self) -> bool:
        """Several segments become one."""
        log = self.log
        log.configure(replace(log.config, segment_bytes=4 * log.config.segment_bytes))
        try:
            return clean(self.files, log, self.now) is not None
        finally:
            log.configure(replace(log.config, segment_bytes=log.config.segment_bytes // 4))


def dead(random: Random) -> Table:
    """Two rounds behind it, so that there are horizons, a clean part, and tombstones that may go in
    the next.
    """
    table = Table(random.getrandbits(30))
    table.write(25)
    table.compact()
    table.now += DAY + 5
    table.write(15)
    return table


def compact_until(table: Table, at_call: int | None) -> bool:
    """Return whether the power went before the round was over."""
    table.files.power_off_at = None if at_call is None else table.files.calls + at_call
    try:
        table.compact()
    except PowerLoss:
        return True
    finally:
        table.files.power_off_at = None
    return False


@pytest.mark.parametrize("seed", range(5))
def test_the_power_goes_at_every_call(seed: int) -> None:
    at_call = 0
    while True:
        at_call += 1
        table = dead(Random(seed))
        end, active = table.log.end_offset, table.log.segments.active.base_offset
        went = compact_until(table, at_call)
        if not went:
            break
        for outcome in range(4):
            random = Random(seed * 100_000 + at_call * 10 + outcome)
            files = table.files.power_loss(random)
            log = table.reopen(files)
            try:
                table.check(log, end, active)
                assert not [name for name in files.names if name.endswith((".cleaned", ".swap"))]
                # and once more, in the middle of the recovery's changes
                again = files.power_loss(random)
                table.check(table.reopen(again), end, active)
                clean(files, log, table.now)
                table.check(log, end, active)
            except BaseException as error:
                error.add_note(f"seed {seed}, call {at_call}, outcome {outcome}")
                raise
    assert at_call > 30
    table.check(table.log, end, active)


@pytest.mark.parametrize("seed", range(2))
def test_the_power_goes_at_every_call_of_the_recovery(seed: int) -> None:
    found = 0
    for at_call in range(1, 200):
        table = dead(Random(seed))
        end, active = table.log.end_offset, table.log.segments.active.base_offset
        if not compact_until(table, at_call):
            break
        files = table.files.power_loss(Random(at_call))
        if not any(name.endswith(".swap") for name in files.names):
            continue
        for at_recovery in range(1, 30):
            hurt = files.power_loss(Random(0))
            hurt.power_off_at = hurt.calls + at_recovery
            try:
                table.reopen(hurt)
            except PowerLoss:
                found += 1
                hurt.power_off_at = None
                for outcome in range(4):
                    table.check(
                        table.reopen(hurt.power_loss(Random(100 * at_recovery + outcome))),
                        end,
                        active,
                    )
    assert found > 10


@pytest.mark.parametrize("block", range(4))
def test_a_table_stays_a_table_whatever_happens(block: int) -> None:
    """Rounds, appends, restarts and power losses in any order, against the model; in the end every
    key is there once.
    """
    for seed in range(10 * block, 10 * block + 10):
        random = Random(seed)
        table = Table(seed)
        for _ in range(12):
            table.write(random.randint(1, 12))
            end, active = table.log.end_offset, table.log.segments.active.base_offset
            went = compact_until(table, random.choice([None, random.randint(1, 60)]))
            if went or random.random() < 0.2:
                point, cleaned = (
                    table.log.durability.recovery_point,
                    table.log.segments.cleaned_offset,
                )
                table.files = table.files.power_loss(random)
                table.log = table.open(table.files, point)
                table.log.segments.cleaned_offset = cleaned
            table.check(table.log, end, active)
            table.now += random.choice([5, DAY // 2, 2 * DAY])
        table.log.roll(table.now)
        append(table.log)
        while table.compact():
            pass
        keys = [record.key for record in records(table.log)]
        assert len(keys) == len(set(keys)), f"seed {seed}"
        table.check(table.log, table.log.end_offset, table.log.end_offset)
        assert batches(table.log)[-1][0].last_offset == table.log.end_offset - 1
