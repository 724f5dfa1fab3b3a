"""Which brokers a new partition goes to: chosen, or given by the client and checked. Both for
CreateTopics, CreatePartitions and reassignments.

As in Kafka, brokers that are fenced count (a machine that is down for a moment is no reason to
refuse a topic); those that are shutting down do not, with one exception: where a rack has no other
brokers and a replica would have to share a rack without it, one of them gets the replica, and
fetches it when it is back. So a host that is started anew does not make two replicas of a new topic
share another host. Knows no topic.
"""

from collections.abc import Sequence
from random import Random

from raftka.metadata.controller.placement import Place, place
from raftka.metadata.image import MetadataImage
from raftka.metadata.records import Replicas
from raftka.wire.errors import Code, KafkaError

NewPartition = tuple[Replicas, Replicas, int]  # (replicas, isr, leader)


def choose(
    image: MetadataImage, count: int, factor: int, random: Random
) -> tuple[NewPartition, ...]:
    """Raises INVALID_REPLICATION_FACTOR."""
    alive = [(broker.broker_id, broker.rack) for broker in image.brokers.values() if broker.alive]
    fenced = [
        (broker.broker_id, broker.rack)
        for broker in image.brokers.values()
        if broker.fenced and not broker.shutting_down
    ]
    if factor > len(alive) + len(fenced):
        raise _unable(
            factor,
            f"The target replication factor of {factor} cannot be reached because only "
            f"{len(alive) + len(fenced)} broker(s) are registered "
            "or some brokers have all their log directories cordoned.",
        )
    if not alive:
        raise _unable(factor, "All brokers are currently fenced.")
    living = {broker_id for broker_id, _ in alive}
    behind = fenced + _of_missing_racks(image, [*alive, *fenced], factor)
    return tuple(
        [_begun(replicas, living) for replicas in place(count, factor, alive, random, behind)]
    )


def _of_missing_racks(image: MetadataImage, usable: Sequence[Place], factor: int) -> list[Place]:
    """Brokers that are shutting down, of racks that no usable broker is on; none where each replica
    has a rack of its own anyway.
    """
    racks = {rack for _, rack in usable if rack is not None}
    if len(racks) + sum(rack is None for _, rack in usable) >= factor:
        return []
    leaving = [
        (broker.broker_id, broker.rack)
        for broker in image.brokers.values()
        if broker.shutting_down and broker.rack is not None
    ]
    return [(broker_id, rack) for broker_id, rack in leaving if rack not in racks]


def _unable(factor: int, reason: str) -> KafkaError:
    return KafkaError(
        Code.INVALID_REPLICATION_FACTOR,
        f"Unable to replicate the partition {factor} time(s): {reason}",
    )


def _begun(replicas: Replicas, living: set[int]) -> NewPartition:
    isr = (
        replicas
        if living.issuperset(replicas)
        else tuple([each for each in replicas if each in living])
    )
    return replicas, isr, isr[0]


def assigned(
    image: MetadataImage, assignments: Sequence[Replicas], first: int, factor: int
) -> tuple[NewPartition, ...]:
    """As the client wants it; `first`: the index of the first one. Raises
    INVALID_REPLICA_ASSIGNMENT.
    """
    return tuple(
        [
            _assigned(image, replicas, first + each, factor)
            for each, replicas in enumerate(assignments)
        ]
    )


def _assigned(image: MetadataImage, replicas: Replicas, index: int, factor: int) -> NewPartition:
    check_assigned(image, replicas, factor)
    isr = tuple([each for each in replicas if image.alive(each)])
    if not isr:
        raise bad_assignment(
            f"All brokers specified in the manual partition assignment for partition {index} are "
            "fenced or in controlled shutdown."
        )
    return replicas, isr, isr[0]


def check_assigned(image: MetadataImage, replicas: Replicas, factor: int | None = None) -> None:
    """Raises INVALID_REPLICA_ASSIGNMENT."""
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
        before = broker_id
    if factor is not None and len(replicas) != factor:
        others = f"this is not consistent with previous partitions, which have {factor} replica(s)."
        raise bad_assignment(
            f"{includes} a partition with {len(replicas)} replica(s), but {others}"
        )


def bad_assignment(message: str) -> KafkaError:
    return KafkaError(Code.INVALID_REPLICA_ASSIGNMENT, message)
