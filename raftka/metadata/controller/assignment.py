"""Assign new partitions to brokers: the controller chooses, or the client gives an assignment that
is checked. For CreateTopics, CreatePartitions and reassignments.

As in Kafka, fenced brokers count: a machine that is down for a moment is no reason to refuse a
topic. Brokers that are shutting down do not count, with one exception. If two replicas would share
a rack, while all brokers of another rack are shutting down, one of these gets a replica and fetches
it when it is back. So a restart of a host does not put two replicas of a new topic on another host.
"""

from collections.abc import Container, Sequence
from random import Random

from raftka.metadata.image import BrokerImage, MetadataImage
from raftka.metadata.records import Replicas
from raftka.wire.errors import Code, KafkaError

Place = tuple[int, str | None]  # (broker id, rack)
NewPartition = tuple[Replicas, Replicas, int]  # (replicas, isr, leader)


def choose(
    image: MetadataImage,
    count: int,
    factor: int,
    random: Random,
    cordoned: Container[int] = (),
) -> tuple[NewPartition, ...]:
    """Choose replicas, ISR and leader for `count` partitions, on no broker that is `cordoned`.
    Raises INVALID_REPLICATION_FACTOR.
    """
    brokers = [each for each in image.brokers.values() if each.broker_id not in cordoned]
    alive = [(broker.broker_id, broker.rack) for broker in brokers if broker.alive]
    fenced = [
        (broker.broker_id, broker.rack)
        for broker in brokers
        if broker.fenced and not broker.shutting_down
    ]
    if not alive:
        raise KafkaError(
            Code.INVALID_REPLICATION_FACTOR,
            "All brokers are currently fenced, or have all their log directories cordoned.",
        )
    if factor > len(alive) + len(fenced):
        raise KafkaError(
            Code.INVALID_REPLICATION_FACTOR,
            f"The target replication factor of {factor} cannot be reached because only "
            f"{len(alive) + len(fenced)} broker(s) are registered "
            "or some brokers have all their log directories cordoned.",
        )
    living = {broker_id for broker_id, _ in alive}
    behind = fenced + _of_missing_racks(brokers, [*alive, *fenced], factor)
    return tuple(
        [_begun(replicas, living) for replicas in place(count, factor, alive, random, behind)]
    )


def _of_missing_racks(
    brokers: Sequence[BrokerImage], usable: Sequence[Place], factor: int
) -> list[Place]:
    """Return brokers that are shutting down, of racks without a usable broker; none if each replica
    has a rack of its own anyway.
    """
    racks = {rack for _, rack in usable if rack is not None}
    if len(racks) + sum(rack is None for _, rack in usable) >= factor:
        return []
    leaving = [
        (broker.broker_id, broker.rack)
        for broker in brokers
        if broker.shutting_down and broker.rack is not None
    ]
    return [(broker_id, rack) for broker_id, rack in leaving if rack not in racks]


def _begun(replicas: Replicas, living: set[int]) -> NewPartition:
    isr = (
        replicas
        if living.issuperset(replicas)
        else tuple([each for each in replicas if each in living])
    )
    return replicas, isr, isr[0]


def assigned(
    image: MetadataImage,
    assignments: Sequence[Replicas],
    first: int,
    factor: int,
    cordoned: Container[int],
) -> tuple[NewPartition, ...]:
    """Check the client's assignment and add ISRs and leaders. `first`: index of the first
    partition. Raises INVALID_REPLICA_ASSIGNMENT.
    """
    partitions = []
    for index, replicas in enumerate(assignments, first):
        check_assigned(image, replicas, factor, cordoned)
        partitions.append(_assigned(image, replicas, index))
    return tuple(partitions)


def _assigned(image: MetadataImage, replicas: Replicas, index: int) -> NewPartition:
    isr = tuple([each for each in replicas if image.alive(each)])
    if not isr:
        raise bad_assignment(
            f"All brokers specified in the manual partition assignment for partition {index} are "
            "fenced or in controlled shutdown."
        )
    return replicas, isr, isr[0]


def check_assigned(
    image: MetadataImage,
    replicas: Replicas,
    factor: int | None,
    cordoned: Container[int],
    present: Container[int] = (),
) -> None:
    """`cordoned`: brokers without a log directory for new replicas. `present`: those that have a
    replica of the partition already. Raises INVALID_REPLICA_ASSIGNMENT.
    """
    includes = "The manual partition assignment includes"
    if not replicas:
        raise bad_assignment(f"{includes} an empty replica list.")
    before = None
    for broker_id in sorted(replicas):
        if broker_id not in image.brokers:
            raise bad_assignment(
                f"{includes} broker {broker_id}, but no such broker is registered."
            )
        if broker_id == before:
            raise bad_assignment(f"{includes} the broker {broker_id} more than once.")
        if broker_id in cordoned and broker_id not in present:
            raise bad_assignment(
                f"{includes} broker {broker_id}, but all its log directories are cordoned."
            )
        before = broker_id
    if factor is not None and len(replicas) != factor:
        others = f"this is not consistent with previous partitions, which have {factor} replica(s)."
        raise bad_assignment(
            f"{includes} a partition with {len(replicas)} replica(s), but {others}"
        )


def bad_assignment(message: str) -> KafkaError:
    return KafkaError(Code.INVALID_REPLICA_ASSIGNMENT, message)


def place(
    partitions: int,
    replication_factor: int,
    brokers: Sequence[Place],
    random: Random,
    fenced: Sequence[Place] = (),
) -> list[tuple[int, ...]]:
    """Return the replicas of each partition in order of preference: leaders one after the other
    over the brokers, the other replicas at shifting distances behind them.

    So all brokers lead about the same number of partitions. When one dies, its partitions do not
    all go to one neighbour. With racks, two replicas of a partition share a rack only when there
    are more replicas than racks. Then no rack has two more than another that has brokers left, as
    in Kafka. A fenced broker is never the first replica; it is chosen only if a rack or the
    replication factor needs it.
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
    """Order brokers so that neighbours are on different racks: one of each rack, then the next of
    each.
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
