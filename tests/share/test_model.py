"""A share partition against a model with one object for each record, on random commands."""

from collections.abc import Sequence
from random import Random

import pytest

from raftka.share.partition import (
    ACCEPT,
    GAP,
    REJECT,
    RELEASE,
    RENEW,
    Acquired,
    Batch,
    Change,
    Rules,
    SharePartition,
    Wanted,
)
from raftka.wire.errors import KafkaError

MEMBERS = ("a", "b", "c")
LIMIT = 4
RULES = Rules(count_limit=LIMIT, max_locks=40, renews=True, dead_letters=False)
LOCK_S = 10.0
FREE, HELD, DONE = "free", "held", "done"


class Record:
    def __init__(self) -> None:
        self.state = FREE
        self.count = 0
        self.member = ""
        self.until = 0.0
        self.new: str | None = None  # its state when the write is done


class Model:
    """Records by offset. `start` is above all that is complete."""

    def __init__(self) -> None:
        self.records: dict[int, Record] = {}
        self.start = 0

    def take(self, member: str, found: Sequence[Acquired], until: float) -> None:
        for first, last, count in found:
            for offset in range(first, last + 1):
                record = self.records.setdefault(offset, Record())
                assert (record.state, record.new) == (FREE, None), offset
                record.state, record.member, record.until = HELD, member, until
                record.count += 1
                assert record.count == count

    def may(self, member: str, first: int, last: int) -> bool:
        """Return whether the member may acknowledge these records."""
        return all(
            (record := self.records.get(offset)) is not None
            and (record.state, record.new, record.member) == (HELD, None, member)
            for offset in range(max(first, self.start), last + 1)
        )

    def begin(self, first: int, last: int, kind: int, until: float) -> list[int]:
        changed = []
        for offset in range(max(first, self.start), last + 1):
            record = self.records[offset]
            if kind == RENEW:
                record.until = until
                continue
            again = kind == RELEASE and record.count < LIMIT
            record.new = FREE if again else DONE
            changed.append(offset)
        return changed

    def settle(self, offsets: Sequence[int], *, written: bool) -> None:
        for offset in offsets:
            record = self.records.get(offset)
            if record is not None and record.new is not None:
                record.state = record.new if written else HELD
                record.new = None
        self.move()

    def move(self) -> None:
        while (record := self.records.get(self.start)) is not None and record.state == DONE:
            del self.records[self.start]
            self.start += 1

    def expire(self, now: float) -> list[int]:
        found = [
            offset
            for offset, record in self.records.items()
            if record.state == HELD and record.new is None and record.until <= now
        ]
        for offset in found:
            self.records[offset].new = FREE if self.records[offset].count < LIMIT else DONE
        return found

    def complete(self) -> int:
        return sum(DONE in (record.new or record.state,) for record in self.records.values())

    def next_free(self, end: int) -> int:
        free = [o for o, r in self.records.items() if r.state == FREE and r.new is None]
        return min(free, default=end)


class Run:
    """One random history of both."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.core, self.model = SharePartition(0), Model()
        self.log: list[Batch] = []
        self.now = 0.0
        self.writes: list[tuple[Change, list[int]]] = []

    def step(self) -> None:
        self.now += self.random.choice((0.0, 0.1, 1.0, 6.0))
        self.random.choice(
            (self.append, self.acquire, self.acquire, self.acknowledge, self.acknowledge,
             self.acknowledge, self.settle, self.settle, self.expire, self.release, self.cut)
        )()  # fmt: skip
        core, model = self.core, self.model
        assert core.start == model.start
        assert core.complete_count == model.complete()
        assert core.next_offset() == model.next_free(core.end)
        held = [r.until for r in model.records.values() if r.state == HELD and r.new is None]
        assert core.expires_at <= min(held, default=core.expires_at)

    def append(self) -> None:
        end = self.log[-1][1] + 1 if self.log else 0
        self.log.append((end, end + self.random.choice((1, 1, 3, 8)) - 1))

    def acquire(self) -> None:
        offset = self.core.next_offset()
        batches = [batch for batch in self.log if batch[1] >= offset][: self.random.randint(1, 6)]
        wanted = Wanted(
            self.random.randint(1, 12), self.random.randint(1, 12), self.random.random() < 0.5
        )
        member, until = self.random.choice(MEMBERS), self.now + LOCK_S
        found = self.core.acquire(member, wanted, batches, until, RULES)
        self.model.take(member, found, until)
        if wanted.exact:
            assert sum(last - first + 1 for first, last, _ in found) <= wanted.max_records
        for offset in range(self.model.start, self.core.end):
            self.model.records.setdefault(offset, Record())
        if batches and self.core.has_room(RULES) and offset < self.core.end:
            assert found or wanted.max_records == 0

    def acknowledge(self) -> None:
        member = self.random.choice(MEMBERS)
        at = max(self.core.start + self.random.randint(-3, 3), 0)
        acks = []
        for _ in range(self.random.randint(1, 3)):
            last = at + self.random.randint(0, 5)
            kinds = (ACCEPT, ACCEPT, RELEASE, RELEASE, REJECT, GAP, RENEW)
            types = [self.random.choice(kinds) for _ in range(last - at + 1)]
            acks.append((at, last, types if self.random.random() < 0.5 else types[:1]))
            at = last + 1 + self.random.choice((0, 0, 2))
        allowed = all(
            last < self.core.start or (last < self.core.end and self.model.may(member, first, last))
            for first, last, _ in acks
        )
        steps = self.core.acknowledge(member, acks, self.now + LOCK_S, RULES)
        try:
            next(steps)
            raise AssertionError("so few take one step")
        except KafkaError:
            assert not allowed
        except StopIteration as stop:
            assert allowed
            changed: list[int] = []
            for first, last, types in acks:
                for offset in range(first, last + 1):
                    kind = types[0] if len(types) == 1 else types[offset - first]
                    changed += self.model.begin(offset, offset, kind, self.now + LOCK_S)
            self.check(stop.value, changed)
            self.writes.append((stop.value, changed))

    def check(self, change: Change, offsets: Sequence[int]) -> None:
        written = {
            offset: (state, count)
            for first, last, state, count in change.batches
            for offset in range(first, last + 1)
        }
        assert set(written) == set(offsets)
        for offset, (state, count) in written.items():
            record = self.model.records[offset]
            assert count == record.count
            assert (state == 0) == ((record.new or record.state) == FREE)

    def settle(self) -> None:
        """Writes end in order."""
        if self.writes:
            change, offsets = self.writes.pop(0)
            is_written = self.random.random() < 0.8
            (self.core.commit if is_written else self.core.rollback)(change)
            self.model.settle(offsets, written=is_written)

    def expire(self) -> None:
        offsets = self.model.expire(self.now)
        change = self.core.expire(self.now, RULES)
        self.check(change, offsets)
        self.model.settle(offsets, written=True)

    def release(self) -> None:
        member = self.random.choice(MEMBERS)
        offsets = [
            offset
            for offset, r in self.model.records.items()
            if (r.state, r.new, r.member) == (HELD, None, member)
        ]
        for offset in offsets:
            self.model.begin(offset, offset, RELEASE, 0.0)
        change = self.core.release(member, RULES)
        self.check(change, offsets)
        self.writes.append((change, offsets))

    def cut(self) -> None:
        """The log begins later."""
        if self.random.random() < 0.1:
            start = self.core.start + self.random.randint(0, 6)
            self.core.on_log_start(start)
            for offset in range(self.model.start, start):
                self.model.records.pop(offset, None)
            self.model.start = max(self.model.start, start)
            self.model.move()


@pytest.mark.parametrize("seed", range(60))
def test_a_share_partition_is_as_its_model(seed: int) -> None:
    run = Run(seed)
    for _ in range(300):
        run.step()
    assert run.core.end
