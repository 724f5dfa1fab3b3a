"""Traffic through three nodes of the simulation, whose metrics are then looked at."""

from raftka.broker.coordinators.partition import LOADED
from raftka.wire.messages.fetch import FETCH
from raftka.wire.messages.find_coordinator import FIND_COORDINATOR
from raftka.wire.messages.groups import JOIN_GROUP
from raftka.wire.messages.list_offsets import LIST_OFFSETS
from raftka.wire.messages.offsets import OFFSET_COMMIT
from raftka.wire.messages.produce import PRODUCE
from tests.broker.group_requests import commit, join
from tests.broker.requests import batch, fetch, list_offsets, produce, produced
from tests.broker.stage import Stage

RECORDS, ROUNDS = 3, 20
GROUP = 'a "group"\n\\'
DATA = batch(*[bytes(100)] * RECORDS)


def traffic(stage: Stage) -> None:
    """Records in and out of one topic, one refused append, one read outside the log."""
    stage.create("t", partitions=2, replication_factor=3)
    for partition in (0, 1):
        wire = stage.wire(stage.leader("t", partition))
        for _ in range(ROUNDS):
            assert produced(wire.ask(PRODUCE, produce("t", DATA, partition))).error_code == 0
        for _ in range(3):
            wire.ask(FETCH, fetch("t", 0, partition, max_wait_ms=10))
        wire.ask(LIST_OFFSETS, list_offsets("t", -1, partition))
        assert produced(wire.ask(PRODUCE, produce("t", DATA[:-1], partition))).error_code
        wire.ask(FETCH, fetch("t", 10_000, partition))


def a_group(stage: Stage) -> None:
    """One member, which has committed an offset of t-1; its name is a hard one."""
    stage.wire().ask(FIND_COORDINATOR, FIND_COORDINATOR.request(coordinator_keys=[GROUP]))
    stage.wait(
        lambda: any(
            coordinator.state in LOADED
            for node in stage.nodes.values()
            for coordinator in node.groups.runtime.partitions.values()
        )
    )
    wire = stage.wire(stage.leader("__consumer_offsets"))
    assert (
        wire.ask(OFFSET_COMMIT, commit(GROUP, partition=1, offset=RECORDS), 9)
        .topics[0]
        .partitions[0]
        .error_code
        == 0
    )
    assert wire.ask(JOIN_GROUP, join(GROUP), 3).error_code == 0
