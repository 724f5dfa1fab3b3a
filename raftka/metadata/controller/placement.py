"""Place the replicas of new partitions: leaders one after the other over the brokers, the other
replicas at shifting distances behind them.

So each broker leads about as many partitions as any other, and when it dies, its partitions do not
all go to one neighbour. With racks, a partition has two replicas on one rack only when there are
more replicas than racks; then no rack has two more than another that has brokers left, as in Kafka.
Knows no topic and no broker but number and rack.
"""

from collections.abc import Sequence
from random import Random

Place = tuple[int, str | None]  # (broker id, rack)


def place(
    partitions: int,
    replication_factor: int,
    brokers: Sequence[Place],
    random: Random,
    fenced: Sequence[Place] = (),
) -> list[tuple[int, ...]]:
    """The replicas of each partition in order of preference. A fenced broker is never the first,
    and chosen only if a rack or the number needs it.
    """
    assert 0 < replication_factor <= len(brokers) + len(fenced)
    assert brokers
    ring, behind = _by_racks(brokers), _by_racks(fenced)
    start, shift = random.randrange(len(ring)), random.randrange(len(ring))
    return [
        _replicas(ring, behind, start + each, shift + each // len(ring), replication_factor)
        for each in range(partitions)
    ]


def _by_racks(brokers: Sequence[Place]) -> list[Place]:
    """Neighbours on different racks, as long as there are any: a broker of each rack, then the next
    of each.
    """
    turn: dict[str | None, int] = {}
    keyed = []
    for broker_id, rack in sorted(brokers, key=lambda broker: broker[0]):
        turn[rack] = turn.get(rack, -1) + 1
        keyed.append((turn[rack] if rack is not None else 0, rack or "", broker_id, rack))
    return [(broker_id, rack) for _, _, broker_id, rack in sorted(keyed)]


def _replicas(
    ring: list[Place], behind: list[Place], first: int, shift: int, count: int
) -> tuple[int, ...]:
    leader = ring[first % len(ring)]
    others = [
        ring[(first + 1 + (shift + each) % (len(ring) - 1)) % len(ring)]
        for each in range(len(ring) - 1)
    ]
    others += [behind[(first + each) % len(behind)] for each in range(len(behind))]
    turn = {leader[1]: 0}
    keyed = [(0, leader[0])]
    for broker_id, rack in others:
        turn[rack] = turn.get(rack, -1) + 1 if rack is not None else 0
        keyed.append((turn[rack], broker_id))
    keyed.sort(key=lambda each: each[0])  # the first of each rack, then the second of each
    return tuple([broker_id for _, broker_id in keyed[:count]])
