"""The log beside a list: any order of appends, reads, truncations, retention and restarts gives
what the list gives.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from raftka.log.log import Log
from tests.log.files import MemoryFiles
from tests.log.given import NOW, batch, checkpoint, content, disk, flush, open_log

Row = tuple[int, int, bytes, int]  # base offset, next offset, what the CRC covers, leader epoch


class Modelled(RuleBasedStateMachine):
    @initialize(
        segment=st.sampled_from([150, 400, 1500, 1 << 20]),
        interval=st.sampled_from([1, 150, 4096]),
        size=st.sampled_from([1, 30, 200]),
    )
    def begin(self, segment: int, interval: int, size: int) -> None:
        self.config = {
            "segment_bytes": max(segment, 70 + 8 * (size + 12)),
            "index_interval_bytes": interval,
        }
        self.size = size
        self.files: MemoryFiles = disk()
        self.log: Log = open_log(self.files, **self.config)  # type: ignore[arg-type]
        self.rows: list[Row] = []
        self.start = 0
        self.epoch = 0
        self.seed = 0

    @property
    def end(self) -> int:
        return self.rows[-1][1] if self.rows else self.base

    base = 0  # where an empty log stands

    @rule(counts=st.lists(st.integers(1, 8), min_size=1, max_size=6))
    def lead(self, counts: list[int]) -> None:
        for count in counts:
            self.seed += 1
            each = batch(count, seed=self.seed, size=self.size, timestamp=NOW + self.seed)
            body = bytes(each[21:])
            base, following, _, _ = self.log.client_batches.append(each, self.epoch, NOW)
            assert (base, following) == (self.end, self.end + count)
            self.rows.append((base, following, body, self.epoch))

    @rule(counts=st.lists(st.integers(1, 8), min_size=1, max_size=6))
    def follow(self, counts: list[int]) -> None:
        records = bytearray()
        for count in counts:
            self.seed += 1
            each = batch(
                count, seed=self.seed, size=self.size, base_offset=self.end, leader_epoch=self.epoch
            )
            records += each
            self.rows.append((self.end, self.end + count, bytes(each[21:]), self.epoch))
        assert self.log.append_as_follower(memoryview(records), self.epoch) == self.end

    @rule()
    def turn_ends(self) -> None:
        self.log.write_staged()

    @rule()
    def flush(self) -> None:
        flush(self.log)

    @rule()
    def checkpoint(self) -> None:
        self.log.write_staged()
        flush(self.log)
        assert checkpoint(self.log) == self.end

    @rule()
    def new_leader(self) -> None:
        self.epoch += 1
        self.log.assign_epoch(self.epoch)

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        to = data.draw(st.integers(self.start, self.end))
        first = self.rows[0][0] if self.rows else self.base
        self.rows = [row for row in self.rows if row[1] <= to]
        self.base = self.end if self.rows else min(first, to)
        assert self.log.truncate_to(to) == self.end
        self.start = min(self.start, self.end)
        self.epoch += 1

    @rule(further=st.integers(0, 50))
    def restart_elsewhere(self, further: int) -> None:
        self.base = self.start = self.end + further
        self.rows = []
        self.log.truncate_fully_and_start_at(self.base)

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        to = data.draw(st.integers(self.start, self.end))
        self.log.set_start_offset(to)
        self.start = to
        self.log.write_staged()
        self.log.delete_old_segments(NOW, to)
        kept = self.log.segments[0].base_offset
        assert kept <= to
        self.rows = [row for row in self.rows if row[0] >= kept]
        if not self.rows:
            self.base = kept

    @rule(clean=st.booleans())
    def reopen(self, clean: bool) -> None:
        self.log.write_staged()
        point = self.log.durability.recovery_point
        self.log.close(clean=clean)
        self.log = open_log(
            self.files, clean=clean, recovery_point=point, start_offset=self.start, **self.config
        )
        assert self.log.cut is None
        assert self.log.flushed_offset == self.end
        self.epoch = max(self.epoch, self.log.latest_epoch)

    @precondition(lambda self: self.rows)
    @rule(data=st.data())
    def read(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.start, self.end))
        up_to = data.draw(st.sampled_from([row[1] for row in self.rows]))
        max_bytes = data.draw(st.sampled_from([0, 100, 500, 2000, 1 << 20]))
        spans, size = self.log.read(offset, max_bytes, up_to)
        wanted = [row for row in self.rows if row[1] > offset and row[1] <= up_to]
        found = content(spans)
        assert size == len(found)
        if not wanted:
            assert not found
            return
        count, at = 0, 0
        while at < len(found):
            length = int.from_bytes(found[at + 8 : at + 12], "big")
            base, _, body, epoch = wanted[count]
            assert int.from_bytes(found[at : at + 8], "big") == base
            assert int.from_bytes(found[at + 12 : at + 16], "big", signed=True) == epoch
            assert found[at + 21 : at + 12 + length] == body
            at, count = at + 12 + length, count + 1
        assert at == len(found)
        assert count == 1 or len(found) <= max_bytes

    @invariant()
    def ends(self) -> None:
        if hasattr(self, "log"):
            assert (self.log.start_offset, self.log.end_offset) == (self.start, self.end)
            assert self.log.flushed_offset <= self.log.written_offset <= self.log.end_offset
            assert self.log.durability.recovery_point <= self.log.flushed_offset

    def teardown(self) -> None:
        if hasattr(self, "log"):
            self.log.write_staged()
            at = self.start
            bodies = []
            while at < self.end:
                data = content(self.log.read(at, 1 << 20, self.end)[0])
                position = 0
                while position < len(data):
                    length = int.from_bytes(data[position + 8 : position + 12], "big")
                    bodies.append(data[position + 21 : position + 12 + length])
                    at = (
                        int.from_bytes(data[position : position + 8], "big")
                        + int.from_bytes(data[position + 23 : position + 27], "big")
                        + 1
                    )
                    position += 12 + length
            assert bodies == [row[2] for row in self.rows if row[1] > self.start]


TestModelled = Modelled.TestCase
TestModelled.settings = settings(
    derandomize=True, deadline=None, max_examples=150, stateful_step_count=30
)
