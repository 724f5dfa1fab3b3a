"""A plan that makes the brokers of a cluster even: by bytes, by leaders, and by the rate at which
leaders take records. Pure: the same cluster has the same plan.

Replicas of a partition stay on as many racks as there can be; a host of several brokers is a rack.
As few bytes move as evenness allows: a replica moves only from a broker above the mean to one below
it, and leaders change places among the replicas that there are.
"""

from bisect import bisect_left
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heappop, heappush
from operator import itemgetter
from typing import NamedTuple

Where = tuple[str, int]  # topic, partition

EVEN = 0.05  # of the mean: brokers that differ less from it are left as they are
AIM = 0.5  # of that: so near to the mean a plan comes, so that it lasts
OF_COUNT = 0.01  # weight of the number of replicas beside their bytes: empty ones are spread, too
SWAPS = 2  # passes over the leaders for their rates


class BalancedPartition(NamedTuple):
    """`size`: bytes of a replica. `rate`: bytes a second that producers send."""

    replicas: Sequence[int]  # the preferred leader first
    size: int = 0
    rate: float = 0.0


class BalancedBroker(NamedTuple):
    """`rack`: None: the broker is one by itself. `takes`: it may have replicas afterwards."""

    rack: str | None = None
    takes: bool = True


class Move(NamedTuple):
    """New replicas of a partition. `copied`: bytes that brokers fetch for it."""

    where: Where
    before: Sequence[int]
    after: Sequence[int]
    copied: int

    @property
    def changes_leader(self) -> bool:
        return self.before[0] != self.after[0]


class Unbalanced(ValueError):
    """No plan can be made. The text is for the user."""


class Evenness(NamedTuple):
    """By broker; brokers that give everything away are not among them."""

    sizes: Mapping[int, int]
    leaders: Mapping[int, int]
    rates: Mapping[int, float]

    @property
    def unevenness(self) -> float:
        """Return the largest distance from the mean, by bytes or by leaders, as a part of it."""
        return max(distance(self.sizes.values()), distance(self.leaders.values()))


def distance(values: Iterable[float]) -> float:
    """Return the largest distance of a value from the mean, as a part of the mean."""
    known = list(values)
    mean = sum(known) / len(known) if known else 0.0
    return max(abs(each - mean) for each in known) / mean if mean else 0.0


def measure(
    partitions: Mapping[Where, BalancedPartition], brokers: Mapping[int, BalancedBroker]
) -> Evenness:
    takes = [node_id for node_id, each in sorted(brokers.items()) if each.takes]
    sizes = dict.fromkeys(takes, 0)
    leaders = dict.fromkeys(takes, 0)
    rates = dict.fromkeys(takes, 0.0)
    for each in partitions.values():
        for node_id in each.replicas:
            if node_id in sizes:
                sizes[node_id] += each.size
        if each.replicas[0] in leaders:
            leaders[each.replicas[0]] += 1
            rates[each.replicas[0]] += each.rate
    return Evenness(sizes, leaders, rates)


def plan_balance(
    partitions: Mapping[Where, BalancedPartition],
    brokers: Mapping[int, BalancedBroker],
    even: float = EVEN,
) -> list[Move]:
    """Return the moves, in the order of their partitions. Raises Unbalanced where the brokers that
    take replicas are too few for a partition that must leave.
    """
    cluster = _Cluster(partitions, brokers)
    cluster.leave_brokers()
    cluster.part_racks()
    cluster.even_sizes(even * AIM)
    cluster.even_leaders()
    cluster.even_rates()
    return [
        Move(
            where,
            partitions[where].replicas,
            after,
            partitions[where].size * len(set(after) - set(partitions[where].replicas)),
        )
        for where, after in sorted(cluster.replicas.items())
        if list(after) != list(partitions[where].replicas)
    ]


class _Cluster:
    """Replicas as the plan has them so far, and what each broker has to carry."""

    def __init__(
        self,
        partitions: Mapping[Where, BalancedPartition],
        brokers: Mapping[int, BalancedBroker],
    ) -> None:
        self._partitions, self._brokers = partitions, brokers
        self.replicas = {where: list(each.replicas) for where, each in sorted(partitions.items())}
        self._takes = sorted(node_id for node_id, each in brokers.items() if each.takes)
        count = sum(len(each.replicas) for each in partitions.values())
        total = sum(each.size * len(each.replicas) for each in partitions.values())
        self._of_count = max(1.0, OF_COUNT * total / max(1, count))
        self._load: dict[int, float] = dict.fromkeys(brokers, 0.0)
        for where, own in self.replicas.items():
            for node_id in own:
                self._load[node_id] = self._load.get(node_id, 0.0) + self._weight(where)

    def _weight(self, where: Where) -> float:
        return self._partitions[where].size + self._of_count

    def _rate(self, where: Where) -> float:
        return self._partitions[where].rate

    def _rack(self, node_id: int) -> object:
        broker = self._brokers.get(node_id)
        return node_id if broker is None or broker.rack is None else broker.rack

    def _room(self, wanted: int) -> int:
        """Return how many of so many replicas one rack may have."""
        return -(-wanted // max(1, len({self._rack(each) for each in self._takes})))

    def _may_take(self, where: Where, node_id: int, goes: int) -> bool:
        """Return whether the broker may have the replica that another gives up."""
        own = self.replicas[where]
        if node_id in own:
            return False
        rack = self._rack(node_id)
        there = sum(self._rack(each) == rack for each in own if each != goes)
        return there < self._room(len(own))

    def _move(self, where: Where, goes: int, comes: int) -> None:
        own = self.replicas[where]
        own[own.index(goes)] = comes
        self._load[goes] -= self._weight(where)
        self._load[comes] += self._weight(where)

    # replicas that have to move

    def leave_brokers(self) -> None:
        """Give away what is on brokers that take nothing, the largest first."""
        leaving = [
            (where, goes)
            for where, own in self.replicas.items()
            for goes in own
            if goes not in self._takes
        ]
        for where, goes in sorted(leaving, key=lambda each: (-self._weight(each[0]), each)):
            self._give_away(where, goes)

    def part_racks(self) -> None:
        """Move replicas that share a rack while another has none of the partition."""
        for where, own in self.replicas.items():
            room = self._room(len(own))
            racks: Counter[object] = Counter()
            for node_id in list(own):
                racks[self._rack(node_id)] += 1
                if racks[self._rack(node_id)] > room:
                    racks[self._rack(node_id)] -= 1
                    racks[self._rack(self._give_away(where, node_id))] += 1

    def _give_away(self, where: Where, goes: int) -> int:
        """Return the broker that takes the replica: of those that may, the emptiest."""
        may = [each for each in self._takes if self._may_take(where, each, goes)]
        may = may or [each for each in self._takes if each not in self.replicas[where]]
        if not may:
            raise Unbalanced(
                f"{where[0]}-{where[1]} has {len(self.replicas[where])} replicas, too many for the "
                f"brokers that may have them ({', '.join(map(str, self._takes)) or 'none'}): add a "
                "broker, or lower its replication factor"
            )
        comes = min(may, key=lambda each: (self._load[each], each))
        self._move(where, goes, comes)
        return comes

    # bytes

    def even_sizes(self, even: float) -> None:
        held: dict[int, list[tuple[float, Where]]] = {each: [] for each in self._takes}
        for where, own in self.replicas.items():
            for node_id in own:
                held[node_id].append((self._weight(where), where))
        for each in held.values():
            each.sort()
        mean = sum(self._load[each] for each in self._takes) / max(1, len(self._takes))
        # replicas by the broker that may give them and one that may take them
        offers: dict[tuple[int, int], list[tuple[float, Where]]] = {}
        while (pair := self._next_pair(offers, held, mean, even * mean)) is not None:
            self._move(*pair)

    def _next_pair(
        self,
        offers: dict[tuple[int, int], list[tuple[float, Where]]],
        held: Mapping[int, list[tuple[float, Where]]],
        mean: float,
        least: float,
    ) -> tuple[Where, int, int] | None:
        """Return the next replica to move, and from where to where; None: the brokers are even, or
        no replica would make them more even.
        """
        by_load = sorted(self._takes, key=lambda each: (self._load[each], each))
        for goes in reversed(by_load):
            for comes in by_load:
                above, below = self._load[goes] - mean, mean - self._load[comes]
                if min(above, below) <= 0 or max(above, below) <= least:
                    continue
                if (goes, comes) not in offers:
                    offers[goes, comes] = list(held[goes])
                where = self._take(
                    offers[goes, comes], goes, comes, min(above, below), above + below
                )
                if where is not None:
                    return where, goes, comes
        return None

    def _take(
        self,
        offered: list[tuple[float, Where]],
        goes: int,
        comes: int,
        fits: float,
        most: float,
    ) -> Where | None:
        """Return the largest replica that fits, else the smallest that still brings the two brokers
        together. Those that cannot move are offered no more.
        """
        place = bisect_left(offered, fits, key=itemgetter(0))
        while offered:
            if place == len(offered) or (place and offered[place][0] > fits):
                place -= 1
            weight, where = offered.pop(place)
            if weight > fits and weight >= most:
                offered.insert(place, (weight, where))
                return None
            if goes in self.replicas[where] and self._may_take(where, comes, goes):
                return where
        return None

    # leaders

    def even_leaders(self) -> None:
        """Turn leaders over, along chains of brokers where no single turn helps, until the counts
        differ by one at most, or no chain is left.
        """
        led = _Led(self.replicas, self._rate)
        while True:
            order = sorted(self._takes, key=lambda each: (led.count[each], each))
            if not any(self._turn(led, order, busy) for busy in reversed(order)):
                return

    def _turn(self, led: "_Led", order: Sequence[int], busy: int) -> bool:
        """Turn leaders along one chain; return whether there is one."""
        idle = [each for each in order if led.count[each] <= led.count[busy] - 2]
        chain = led.chain(busy, idle) if idle else []
        for goes, comes in chain:
            where = led.best(goes, comes)
            assert where is not None
            led.turn(where, comes)
        return bool(chain)

    def even_rates(self) -> None:
        """Exchange leaders between pairs of brokers where that brings their rates together."""
        if not any(each.rate for each in self._partitions.values()):
            return
        led = _Led(self.replicas, self._rate)
        rates: defaultdict[int, float] = defaultdict(float)
        for where, own in self.replicas.items():
            rates[own[0]] += self._partitions[where].rate
        for _ in range(SWAPS * len(self._takes)):
            order = sorted(self._takes, key=lambda each: (rates[each], each))
            for slow in order[:-1]:
                if self._exchange(led, rates, order[-1], slow):
                    break
            else:
                return

    def _exchange(self, led: "_Led", rates: defaultdict[int, float], fast: int, slow: int) -> bool:
        """Exchange pairs of leaders of two brokers; return whether any was."""
        down = sorted(led.all_of(fast, slow), key=lambda each: (-self._rate(each), each))
        up = sorted(led.all_of(slow, fast), key=lambda each: (self._rate(each), each))
        done = False
        for first, second in zip(down, up, strict=False):
            gain = self._rate(first) - self._rate(second)
            if not 0 < gain < rates[fast] - rates[slow]:
                continue
            led.turn(first, slow)
            led.turn(second, fast)
            rates[fast] -= gain
            rates[slow] += gain
            done = True
        return done


class _Led:
    """Leaders of partitions, and the replicas that could take over."""

    def __init__(self, replicas: dict[Where, list[int]], rate: Callable[[Where], float]) -> None:
        self._replicas, self._rate = replicas, rate
        self.count: Counter[int] = Counter()
        # partitions by their leader and another replica, the one with the highest rate first;
        # those that another broker leads by now are passed over
        self._heaps: defaultdict[tuple[int, int], list[tuple[float, Where]]] = defaultdict(list)
        self._beside: defaultdict[int, set[int]] = defaultdict(set)
        for where in replicas:
            self._add(where)

    def _add(self, where: Where) -> None:
        leader, *others = self._replicas[where]
        self.count[leader] += 1
        for each in others:
            heappush(self._heaps[leader, each], (-self._rate(where), where))
            self._beside[leader].add(each)

    def _is_led(self, where: Where, goes: int, comes: int) -> bool:
        own = self._replicas[where]
        return own[0] == goes and comes in own

    def best(self, goes: int, comes: int) -> Where | None:
        """Return a partition that one leads and the other could lead; None: there is none."""
        heap = self._heaps[goes, comes]
        while heap:
            where = heap[0][1]
            if self._is_led(where, goes, comes):
                return where
            heappop(heap)
        return None

    def all_of(self, goes: int, comes: int) -> set[Where]:
        """Return all such partitions."""
        heap = self._heaps[goes, comes]
        return {where for _, where in heap if self._is_led(where, goes, comes)}

    def turn(self, where: Where, comes: int) -> None:
        """Let another of its replicas lead the partition."""
        own = self._replicas[where]
        self.count[own[0]] -= 1
        own.remove(comes)
        own.insert(0, comes)
        self._add(where)

    def chain(self, busy: int, idle: Sequence[int]) -> list[tuple[int, int]]:
        """Return the shortest chain of turns from a broker to one of the idle ones; empty: none."""
        reached = {busy: busy}
        rest = deque([busy])
        while rest:
            goes = rest.popleft()
            if goes in idle:
                chain = []
                while goes != busy:
                    chain.append((reached[goes], goes))
                    goes = reached[goes]
                return chain[::-1]
            for comes in sorted(self._beside[goes]):
                if comes not in reached and self.best(goes, comes) is not None:
                    reached[comes] = goes
                    rest.append(comes)
        return []
