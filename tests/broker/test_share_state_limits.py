"""Requests for too many or too large states of share partitions: only they are refused, the limit's
counter moves, and a state beside them goes on.
"""

from collections.abc import Iterator

import pytest

from raftka.limits import (
    SHARE_BATCHES_OF_COORDINATOR,
    SHARE_BATCHES_OF_PARTITION,
    SHARE_PARTITIONS_OF_COORDINATOR,
    Limit,
)
from raftka.share.state import NO_COUNT, NO_START, SharePartitionKey, ShareState, StateBatch
from raftka.wire.errors import Code, KafkaError
from tests.broker.conftest import Lower
from tests.broker.stage import Stage
from tests.kit.broker.share_states import coordinated, initialize, read, result, write


@pytest.fixture
def stage() -> Iterator[Stage]:
    """One partition of states: all have the same coordinator."""
    with Stage(share_coordinator_state_topic_num_partitions="1") as stage:
        stage.create("t", 5)
        coordinated(stage)
        yield stage
        assert not stage.world.failures


def key_of(stage: Stage, index: int = 0, group_id: str = "g") -> SharePartitionKey:
    return SharePartitionKey(group_id, stage.nodes[1].image.topic_ids["t"], index)


def apart(count: int) -> list[StateBatch]:
    """Return batches of which no two can be joined."""
    return [StateBatch(2 * at, 2 * at, 2, 1) for at in range(count)]


def code(error: KafkaError | None) -> Code:
    return Code.NONE if error is None else error.code


def test_share_partitions_of_a_coordinator(stage: Stage, lowered: Lower) -> None:
    neighbour = key_of(stage, group_id="neighbour")
    initialize(stage, neighbour, 1, 0)
    lowered(SHARE_PARTITIONS_OF_COORDINATOR, 3)
    persister = stage.nodes[1].share_persister

    def begun(index: int) -> Code:
        return code(
            result(stage, 1, lambda done: persister.initialize(key_of(stage, index), 1, 0, done))
        )

    codes = [begun(index) for index in (0, 1, 2, 0)]

    assert codes == [Code.NONE, Code.NONE, Code.POLICY_VIOLATION, Code.NONE]
    assert stage.counted(SHARE_PARTITIONS_OF_COORDINATOR.metric) == 1
    assert write(stage, neighbour, 1, 0, 0, *apart(3)) is None


@pytest.mark.parametrize(
    "limit", [SHARE_BATCHES_OF_PARTITION, SHARE_BATCHES_OF_COORDINATOR], ids=lambda each: each.name
)
def test_batches(stage: Stage, lowered: Lower, limit: Limit) -> None:
    key, neighbour = key_of(stage), key_of(stage, group_id="neighbour")
    initialize(stage, key, 1, NO_START)
    initialize(stage, neighbour, 1, NO_START)
    lowered(limit, 6)
    assert code(write(stage, key, 1, 0, NO_START, *apart(6))) is Code.NONE

    assert code(write(stage, key, 1, 0, NO_START, *apart(7))) is Code.POLICY_VIOLATION

    assert stage.counted(limit.metric) == 1
    assert read(stage, key, 0) == ShareState(1, 0, NO_START, NO_COUNT, tuple(apart(6)))
    # there is room again where the start moves, or batches are joined
    assert code(write(stage, key, 1, 0, 6, StateBatch(12, 12, 2, 1))) is Code.NONE
    assert code(write(stage, key, 1, 0, 6, StateBatch(6, 12, 2, 2))) is Code.NONE
    assert code(write(stage, neighbour, 1, 0, 0, *apart(3))) is Code.NONE
