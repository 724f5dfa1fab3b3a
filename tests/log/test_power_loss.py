"""The power goes at any moment: what a flush has confirmed is there afterwards, the rest may be
gone, nothing is ever wrong. 400 lives by seed.
"""

from collections.abc import Callable
from random import Random

import pytest

from raftka.log.log import Log
from raftka.runtime.interfaces import File
from raftka.wire.records import crc_matches, iterate
from tests.log.files import MemoryFiles
from tests.log.given import NOW, append, batch, checkpoint, content, disk, flush, open_log, read_all


class Life:
    """A log with random work, and what it owes: rows that were confirmed as flushed, epochs, the
    recovery point that was written down.
    """

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.config = {
            "segment_bytes": self.random.choice([500, 900, 3000]),
            "index_interval_bytes": self.random.choice([1, 150, 4096]),
            "retention_ms": -1,
        }
        self.files: MemoryFiles = disk()
        self.retired: list[File] = []
        self.written_over = 0  # appends over a deleted segment
        self.log: Log = self.open()
        self.rows: list[tuple[int, int, bytes]] = []
        # also of what was deleted from the start: producers are remembered longer
        self.history: list[tuple[int, int]] = []
        self.point = 0  # as the manager's file has it
        self.epoch = 0
        self.sequence = 0

    def open(self, point: int = 0) -> Log:
        log = open_log(self.files, recovery_point=point, **self.config)  # type: ignore[arg-type]
        log.durability.on_recovery_point_lowered = self.lowered
        log.segments.on_retired = self.retired.append
        return log

    def lowered(self) -> None:
        self.point = self.log.durability.recovery_point

    def append(self) -> None:
        for _ in range(self.random.randint(1, 4)):
            count = self.random.randint(1, 5)
            each = batch(
                count,
                seed=self.random.getrandbits(30),
                size=self.random.choice([5, 60]),
                producer=7,
                sequence=self.sequence,
            )
            base, following, _, _ = self.log.client_batches.append(each, self.epoch, NOW)
            self.sequence += count
            self.rows.append((base, following, bytes(each[21:])))
            self.history.append((base, following))
        if self.random.random() < 0.9:
            self.log.write_staged()
            self.written_over += self.log.segments.active.is_over

    def flush(self) -> None:
        files, offset = self.log.begin_flush()
        self.files.flush(files, lambda error: None)
        self.log.flushed(offset)

    def checkpoint(self) -> None:
        files, settle = self.log.begin_checkpoint()
        for file in files:
            if self.random.random() < 0.05:
                return self.power_loss()
            self.files.flush([file], lambda error: None)
        names = settle(True)
        if self.random.random() < 0.05:
            return self.power_loss()
        self.files.flush(names, lambda error: None)
        self.point = self.log.durability.settled_point = self.log.durability.recovery_point
        return None

    def truncate(self) -> None:
        ends = [row[1] for row in self.rows[-6:]] or [self.log.end_offset]
        to = self.random.choice(ends)
        begins_anew = to <= self.log.segments[0].base_offset
        self.log.truncate_to(to)
        if begins_anew and not self.log.producers.producers:
            self.history = []  # as in Kafka: no snapshot is that old
        self.rows = [row for row in self.rows if row[1] <= to]
        self.history = [row for row in self.history if row[1] <= to]
        self.epoch += 1
        producer = self.log.producers.producers.get(7)
        self.sequence = producer.next_sequence if producer else 0

    def delete(self) -> None:
        first_half = [row[0] for row in self.rows[: len(self.rows) // 2]] or [self.log.start_offset]
        to = self.random.choice(
            [*first_half, *[self.log.flushed_offset] * (len(first_half) // 2 + 1)]
        )
        self.log.set_start_offset(to)
        if (
            self.random.random() < 0.5
            and self.log.end_offset == to > self.log.segments.active.base_offset
        ):
            self.log.roll(NOW)
        self.log.delete_old_segments(NOW, self.log.flushed_offset)
        if self.random.random() < 0.8:
            self.files.sync_directory(self.log.directory)
            self.log.segments.recycled.directory_flushed()
        if self.random.random() < 0.8:
            for file in self.retired:
                self.log.segments.recycled.release(file, 0.0)
            self.retired.clear()

    def power_loss(self) -> None:
        owed = self.log.flushed_offset
        self.files = self.files.power_loss(self.random)
        self.log = self.open(self.point)
        self.check(owed)

    def check(self, owed: int) -> None:
        """Everything below `owed` is there; whatever is there is what was appended, in order; the
        next append goes on.
        """
        log = self.log
        assert log.end_offset >= owed, f"{owed} were confirmed, {log.end_offset} are left"
        assert log.flushed_offset == log.end_offset
        wanted = {row[0]: row for row in self.rows}
        at = log.start_offset
        found: list[tuple[int, int, bytes]] = []
        while at < log.end_offset:
            data = memoryview(content(log.read(at, 1 << 20, log.end_offset)[0]))
            for header, view in iterate(data):
                assert crc_matches(view, header)
                assert wanted[header.base_offset] == (
                    header.base_offset,
                    header.last_offset + 1,
                    bytes(view[21:]),
                )
                assert not found or found[-1][1] == header.base_offset
                found.append(wanted[header.base_offset])
            at = found[-1][1]
        self.rows = found
        assert all(start < log.end_offset for _, start in log.epochs.entries())
        self.epoch = max(self.epoch, log.latest_epoch) + 1
        producer = log.producers.producers.get(7)
        remembered = (
            [(base, base + last - first + 1) for first, last, base, _ in producer.batches]
            if producer
            else []
        )
        self.history = [row for row in self.history if row[1] <= log.end_offset]
        assert remembered == self.history[len(self.history) - len(remembered) :]
        assert remembered or not any(following <= owed for _, following in self.history), (
            "a producer whose batches are deleted is forgotten"
        )
        if not remembered:
            self.history = []  # nothing of it was ever confirmed
        self.sequence = producer.next_sequence if producer else 0

    def live(self) -> None:
        steps = (
            [self.append] * 6
            + [self.flush] * 3
            + [self.checkpoint] * 2
            + [self.truncate, self.delete, self.power_loss]
        )
        self.go(steps, self.random.randint(5, 60))

    def live_long(self) -> None:
        """Most segments are deleted, and written over."""
        often = [self.append] * 10 + [self.flush] * 6 + [self.checkpoint] * 6 + [self.delete] * 6
        self.go([*often, self.truncate, self.power_loss], self.random.randint(50, 150))

    def go(self, steps: list[Callable[[], None]], count: int) -> None:
        for _ in range(count):
            self.random.choice(steps)()
        self.power_loss()


@pytest.mark.parametrize("block", range(8))
def test_lives_with_power_loss(block: int) -> None:
    for seed in range(50 * block, 50 * block + 50):
        try:
            Life(seed).live()
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise


@pytest.mark.parametrize("block", range(8))
def test_lives_that_write_over_deleted_segments(block: int) -> None:
    written_over = 0
    for seed in range(1000 + 25 * block, 1025 + 25 * block):
        life = Life(seed)
        try:
            life.live_long()
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
        written_over += life.written_over
    assert written_over > 20


@pytest.mark.parametrize("seed", range(5))
def test_index_entries_of_what_was_cut_are_not_believed_after_the_next_checkpoint(
    seed: int,
) -> None:
    """The segment was full, its index files were closed, and nothing that is appended after the cut
    needs an entry.
    """
    files = disk()
    log = open_log(files, segment_bytes=400)
    append(log, batch(1, size=100), batch(1, size=100, timestamp=NOW + 1000), batch(1, size=200))
    assert [segment.base_offset for segment in log.segments] == [0, 2]
    flush(log)
    checkpoint(log)
    log.truncate_to(1)
    append(
        log, batch(1, size=20, timestamp=NOW + 10), batch(1, size=20, timestamp=NOW + 5), epoch=1
    )
    flush(log)
    point = checkpoint(log)
    left = open_log(files.power_loss(Random(seed)), recovery_point=point, segment_bytes=400)
    assert left.end_offset == 3
    assert left.max_timestamp_offset(3) == log.max_timestamp_offset(3)
    assert left.offset_for_timestamp(NOW + 11, 3) is None


@pytest.mark.parametrize("seed", range(20))
def test_a_cut_is_on_the_disk_before_a_checkpoint_counts_on_it(seed: int) -> None:
    """With flush=os nobody waits for the disk, and to a segment that is full after the cut nothing
    is ever appended again.
    """
    files = disk()
    log = open_log(files, flush="os", segment_bytes=400)
    for _ in range(3):
        append(log, batch(1, size=20))
    checkpoint(log)
    log.truncate_to(2)
    append(log, batch(1, size=250, seed=1), epoch=1)
    assert len(log.segments) == 2
    point = checkpoint(log)
    left = open_log(
        files.power_loss(Random(seed)), recovery_point=point, flush="os", segment_bytes=400
    )
    assert [(header.base_offset, header.leader_epoch) for header in read_all(left)] == [
        (0, 0),
        (1, 0),
        (2, 1),
    ]
