"""Fetch from the nearest replica (KIP-392): the leader's choice for a consumer that names its rack.
Reads no log.
"""

from raftka.broker.replica.partition import Partition
from raftka.replication.partition import LeaderState


def nearest(partition: Partition, leader: LeaderState, rack: str, offset: int) -> int | None:
    """Return the in-sync follower of the rack that has most records from `offset` on; None: the
    consumer reads here.
    """
    context = partition.manager.context
    if not partition.manager.prefers_racks or offset < partition.log.start_offset:
        return None
    brokers = context.metadata.image.brokers
    if brokers[context.node_id].rack == rack:
        return None
    there = [
        broker_id
        for broker_id in leader.isr
        if (broker := brokers.get(broker_id)) is not None and broker.rack == rack and broker.alive
    ]
    return leader.most_caught_up(there, offset) if there else None
