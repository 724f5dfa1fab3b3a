"""A leader that goes on in a further leader epoch."""

from raftka.wire.messages.produce import PRODUCE
from raftka.wire.messages.reassignments import ALTER_PARTITION_REASSIGNMENTS
from tests.broker.requests import batch, produce, produced
from tests.broker.stage import Stage


def test_a_leader_that_goes_on_in_another_epoch_keeps_its_high_watermark() -> None:
    with Stage(3, broker_session_timeout_ms="60000", replica_lag_time_max_ms="60000") as stage:
        stage.create("t")
        leader = stage.leader("t")
        stays, goes = (node_id for node_id in (1, 2, 3) if node_id != leader)
        for _ in range(3):
            assert (
                produced(
                    stage.wire(leader).ask(PRODUCE, produce("t", batch(b"v"), acks=-1))
                ).error_code
                == 0
            )
        partition = stage.partition("t", node_id=leader)
        epoch = partition.leader_epoch
        stage.world.pause(f"n{stays}")  # it does not fetch in the next epoch
        request = ALTER_PARTITION_REASSIGNMENTS.request
        moved = request.topics.partitions(partition_index=0, replicas=[leader, stays])
        stage.wire(leader).request(
            ALTER_PARTITION_REASSIGNMENTS,
            request(topics=[request.topics(name="t", partitions=[moved])]),
        )
        stage.wait(lambda: partition.leader_epoch > epoch)

        assert goes not in partition.image.replicas
        assert partition.leader is not None
        assert partition.high_watermark == 3
