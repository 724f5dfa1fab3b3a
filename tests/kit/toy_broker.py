"""Parts of the toy: partitions that lose what is not committed when their leader changes,
and metadata that nodes apply sooner or later.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from raftka.chaos.checks.metadata import LeaderSeen, PartitionSeen, Seen
from raftka.chaos.history import Told

BROKERS = (1, 2, 3, 4)


@dataclass(eq=False)
class Transaction:
    keys: set[str] = field(default_factory=set)
    committed: bool | None = None  # None: open
    over: bool = False  # its end stands in all its partitions


class Entry(NamedTuple):
    value: int | None  # None: a transaction ends here
    transaction: Transaction | None


class Partition:
    def __init__(self, key: str) -> None:
        self.key = key
        self.log: list[Entry] = []
        self.where: dict[int, int] = {}
        self.log_start = self.high_watermark = 0
        self.told_high_watermark = 0  # a new leader knows less at first
        self.epoch = 0
        self.open: dict[Transaction, int] = {}  # first offset
        self.ends: dict[Transaction, int] = {}

    def append(self, value: int | None, transaction: Transaction | None = None) -> None:
        offset = len(self.log)
        self.log.append(Entry(value, transaction))
        if value is not None:
            self.where[value] = offset
            if transaction is not None:
                self.open.setdefault(transaction, offset)
        elif transaction is not None:
            self.ends[transaction] = offset

    def has(self, value: int) -> bool:
        """Committed."""
        return self.where.get(value, self.high_watermark) < self.high_watermark

    def replicate(self, random: Random) -> None:
        self.high_watermark = random.randint(self.high_watermark, len(self.log))
        self.told_high_watermark = random.randint(self.told_high_watermark, self.high_watermark)
        for transaction, offset in list(self.ends.items()):
            if offset < self.high_watermark:
                self.open.pop(transaction, None)
                del self.ends[transaction]

    def elect(self, random: Random) -> None:
        self.epoch += 1
        end = random.randint(self.high_watermark, len(self.log))
        for entry in self.log[end:]:
            if entry.value is not None:
                del self.where[entry.value]
        del self.log[end:]
        self.open = {
            transaction: offset for transaction, offset in self.open.items() if offset < end
        }
        self.ends = {
            transaction: offset for transaction, offset in self.ends.items() if offset < end
        }
        self.told_high_watermark = random.randint(self.log_start, self.high_watermark)

    @property
    def told(self) -> Told:
        last_stable = min([self.told_high_watermark, *self.open.values()])
        return Told(self.epoch, self.log_start, last_stable, self.told_high_watermark)

    def read(self, position: int, count: int) -> tuple[list[tuple[int, int]], int]:
        """Records, and where to go on."""
        found: list[tuple[int, int]] = []
        position = max(position, self.log_start)
        last_stable = self.told.last_stable
        while position < last_stable and len(found) < count:
            value, transaction = self.log[position]
            if value is not None and (transaction is None or transaction.committed):
                found.append((position, value))
            position += 1
        return found, position


class Metadata:
    """The metadata log, and nodes that have applied more or less of it."""

    def __init__(self, random: Random, seen: list[Seen], keys: Iterable[str]) -> None:
        self.random = random
        self.seen = seen
        self.log = [
            PartitionSeen(i + 1, "", key, 1, 0, 0, (1, 2, 3), (1, 2, 3))
            for i, key in enumerate(keys)
        ]
        self.applied = dict.fromkeys(BROKERS, len(self.log))
        self.term = 0

    def step(self) -> None:
        now = self.random.choice(self.log)
        now = next(each for each in reversed(self.log) if each.key == now.key)
        self.log.append(
            self._changed(now)._replace(
                offset=len(self.log) + 1, partition_epoch=now.partition_epoch + 1
            )
        )
        broker = self.random.choice(BROKERS)
        self.applied[broker] = self.random.randint(self.applied[broker], len(self.log))
        known = next(
            each for each in reversed(self.log[: self.applied[broker]]) if each.key == now.key
        )
        self.seen.append(known._replace(offset=self.applied[broker], observer=f"n{broker}"))
        self.term += self.random.random() < 0.1
        self.seen.append(LeaderSeen(self.term, f"n{broker}", self.term % 3))

    def _changed(self, now: PartitionSeen) -> PartitionSeen:
        match self.random.randint(0, 2):
            case 0 if len(now.isr) > 1:  # shrink
                gone = self.random.choice(now.isr)
                isr = tuple(each for each in now.isr if each != gone)
                return self._led(
                    now._replace(isr=isr), isr[0] if gone == now.leader else now.leader
                )
            case 1:
                return now._replace(isr=now.replicas)
            case _:
                return self._led(now, self.random.choice([-1, *now.isr]))

    def _led(self, now: PartitionSeen, leader: int) -> PartitionSeen:
        return now._replace(leader=leader, leader_epoch=now.leader_epoch + (leader != now.leader))
