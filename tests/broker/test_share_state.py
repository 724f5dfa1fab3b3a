"""Share coordinators in a cluster: their topic, a fail-over, settings, pruning, rights."""

from collections.abc import Iterator
from typing import Any

import pytest

from raftka.broker.coordinators.share_state_service import TOPIC
from raftka.coordinator.share_state.coordinator import ShareStateCoordinator
from raftka.share.state import NO_COUNT, NO_START, SharePartitionKey, ShareState, StateBatch
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.configs import DESCRIBE_CONFIGS
from raftka.wire.messages.find_coordinator import FIND_COORDINATOR
from raftka.wire.messages.share_state import (
    DELETE_SHARE_GROUP_STATE,
    INITIALIZE_SHARE_GROUP_STATE,
    READ_SHARE_GROUP_STATE,
    READ_SHARE_GROUP_STATE_SUMMARY,
    WRITE_SHARE_GROUP_STATE,
)
from raftka.wire.schema import AnyApi
from tests.broker.denying import Deny
from tests.broker.stage import Stage
from tests.kit.broker.share_states import coordinated, initialize, read, write

APIS = (
    INITIALIZE_SHARE_GROUP_STATE,
    READ_SHARE_GROUP_STATE,
    WRITE_SHARE_GROUP_STATE,
    DELETE_SHARE_GROUP_STATE,
    READ_SHARE_GROUP_STATE_SUMMARY,
)
BATCH = StateBatch(0, 9, 2, 1)


@pytest.fixture
def stage() -> Iterator[Stage]:
    with Stage(share_coordinator_state_topic_num_partitions="1") as stage:
        stage.create("t", 3)
        yield stage
        assert not stage.world.failures


def key_of(stage: Stage, index: int = 0) -> SharePartitionKey:
    return SharePartitionKey("g", stage.nodes[1].image.topic_ids["t"], index)


def machine_of(stage: Stage, node_id: int = 1) -> ShareStateCoordinator:
    (coordinator,) = stage.nodes[node_id].share_states.runtime.partitions.values()
    assert isinstance(coordinator.machine, ShareStateCoordinator)
    return coordinator.machine


def wait_for(stage: Stage, seconds: float) -> None:
    stage.world.run(stage.world.now + seconds)


def test_the_first_question_creates_the_topic_with_its_settings() -> None:
    with Stage(3, share_coordinator_state_topic_segment_bytes="2000000") as stage:
        key = SharePartitionKey("g", b"t" * 16, 0)
        find = FIND_COORDINATOR.request(key_type=2, coordinator_keys=[key.coordinator_key()])
        (row,) = stage.wire().ask(FIND_COORDINATOR, find).coordinators
        assert row.error_code == Code.COORDINATOR_NOT_AVAILABLE
        coordinated(stage)

        image = stage.nodes[1].image
        topic = image.topic_named(TOPIC)
        assert topic is not None
        assert [len(each.replicas) for each in topic.partitions] == [3] * 50
        describe = DESCRIBE_CONFIGS.request
        (found,) = (
            stage.wire()
            .ask(
                DESCRIBE_CONFIGS,
                describe(resources=[describe.resources(resource_type=2, resource_name=TOPIC)]),
            )
            .results
        )
        values = {each.name: each.value for each in found.configs}
        assert values["cleanup.policy"] == "delete"
        assert values["retention.ms"] == values["retention.bytes"] == "-1"
        assert values["min.insync.replicas"] == "2"
        assert values["segment.bytes"] == "2000000"
        (row,) = stage.wire().ask(FIND_COORDINATOR, find).coordinators
        assert (row.error_code, row.node_id) == (
            0,
            stage.nodes[1].share_states.coordinator_of(key),
        )


def test_what_is_acknowledged_survives_the_coordinator() -> None:
    with Stage(3, share_coordinator_state_topic_num_partitions="1") as stage:
        stage.create("t", 3)
        coordinated(stage)
        initialize(stage, key_of(stage), 3, NO_START)
        assert write(stage, key_of(stage), 3, 0, 0, BATCH) is None
        first = stage.leader(TOPIC)

        stage.kill(first, power_loss=True)
        survivor = next(iter(stage.nodes))
        key = SharePartitionKey("g", stage.nodes[survivor].image.topic_ids["t"], 0)

        # asked before the next coordinator is there: the persister waits for it
        assert read(stage, key, 0, node_id=survivor) == ShareState(3, 0, 0, NO_COUNT, (BATCH,))
        assert write(stage, key, 3, 0, 10, node_id=survivor) is None


def test_a_write_is_answered_when_it_is_committed() -> None:
    with Stage(3, share_coordinator_state_topic_num_partitions="1") as stage:
        stage.create("t", 3)
        coordinated(stage)
        initialize(stage, key_of(stage), 3, NO_START)
        leader = stage.leader(TOPIC)
        for other in {1, 2, 3} - {leader}:
            stage.world.network.cut(f"n{leader}", f"n{other}")
        answers: list[Any] = []
        node = stage.nodes[leader]
        runtime: Any = node.runtime
        runtime.take(
            lambda _: node.share_persister.write(
                key_of(stage), 3, 0, 0, 10, (BATCH,), answers.append
            ),
            None,
        )
        wait_for(stage, 1.0)

        assert not answers
        stage.world.network.heal()
        stage.wait(lambda: bool(answers))
        assert answers == [None]


def test_the_states_of_a_deleted_topic_go(stage: Stage) -> None:
    coordinated(stage)
    key = key_of(stage)
    initialize(stage, key, 3, 0)
    stage.delete("t")
    stage.wait(lambda: not machine_of(stage).states)

    error = read(stage, key, 0)
    assert isinstance(error, KafkaError)
    assert error.code is Code.INVALID_REQUEST


# pruning


def test_the_log_is_pruned_when_all_that_it_rests_on_is_committed() -> None:
    with Stage(
        3,
        share_coordinator_state_topic_num_partitions="1",
        share_coordinator_cold_partition_snapshot_interval_ms="2000",
        share_coordinator_state_topic_prune_interval_ms="3000",
    ) as stage:
        stage.create("t", 3)
        coordinated(stage)
        keys = [key_of(stage, index) for index in range(3)]
        for key in keys:
            initialize(stage, key, 3, NO_START)
        for at in range(20):
            assert write(stage, keys[0], 3, 0, at, StateBatch(at, at, 2, 1)) is None
        partition = stage.partition(TOPIC)
        assert partition.log.start_offset == 0

        wait_for(stage, 8.0)
        start = stage.partition(TOPIC).log.start_offset

        assert start >= 3  # behind the snapshots at the beginning
        for each in stage.nodes.values():
            assert each.replicas.partitions[TOPIC, 0].log.start_offset == start
        # a coordinator that has but the rest knows all states
        stage.kill(stage.leader(TOPIC))
        survivor = next(iter(stage.nodes))
        found = [read(stage, key, 0, node_id=survivor) for key in keys]
        assert found == [
            ShareState(3, 0, 19, NO_COUNT, (StateBatch(19, 19, 2, 1),)),
            ShareState(3, 0, NO_START, NO_COUNT, ()),
            ShareState(3, 0, NO_START, NO_COUNT, ()),
        ]


def test_a_snapshot_that_is_not_committed_replaces_none() -> None:
    """The leader has a newer snapshot of all states that no other replica has: the log before it
    stays.
    """
    with Stage(
        3,
        share_coordinator_state_topic_num_partitions="1",
        share_coordinator_snapshot_update_records_per_snapshot="0",
        share_coordinator_state_topic_prune_interval_ms="1000",
    ) as stage:
        stage.create("t", 3)
        coordinated(stage)
        key = key_of(stage)
        initialize(stage, key, 3, NO_START)
        assert write(stage, key, 3, 0, 0, BATCH) is None
        wait_for(stage, 3.0)
        partition = stage.partition(TOPIC)
        assert partition.log.start_offset == 1
        node = stage.nodes[leader := stage.leader(TOPIC)]
        for other in {1, 2, 3} - {leader}:
            stage.world.network.cut(f"n{leader}", f"n{other}")
        runtime: Any = node.runtime
        runtime.take(
            lambda _: node.share_persister.write(key, 3, 0, 0, 10, (BATCH,), lambda _: None), None
        )
        wait_for(stage, 1.5)

        assert partition.log.end_offset == 3
        assert partition.log.start_offset == 1


@pytest.mark.parametrize("seed", [1, 2])
def test_acknowledged_writes_survive_fail_overs_and_pruning(seed: int) -> None:
    with Stage(
        3,
        seed,
        share_coordinator_state_topic_num_partitions="2",
        share_coordinator_cold_partition_snapshot_interval_ms="1500",
        share_coordinator_snapshot_update_records_per_snapshot="7",
        share_coordinator_state_topic_prune_interval_ms="1000",
    ) as stage:
        stage.create("t", 2)
        coordinated(stage)
        writers = [Writer(stage, key_of(stage, index)) for index in range(2)]
        for power_loss in (False, True, True):
            wait_for(stage, 1.0)
            victim = max(stage.leader(TOPIC, index) for index in range(2))
            victim = victim if victim != 1 else 2
            stage.kill(victim, power_loss=power_loss)
            wait_for(stage, 2.0)
            stage.start(victim)
        wait_for(stage, 3.0)

        for writer in writers:
            writer.assert_all_is_there()
        assert all(stage.partition(TOPIC, index).log.start_offset > 100 for index in range(2))
        assert not stage.world.failures


class Writer:
    """Marks one offset after the other as done, from node 1; the start follows ten behind."""

    def __init__(self, stage: Stage, key: SharePartitionKey) -> None:
        self.stage = stage
        self.key = key
        self.node = stage.nodes[1]
        self.acknowledged: list[int] = []
        initialize(stage, key, 1, 0)
        runtime: Any = self.node.runtime
        runtime.take(lambda _: self._write(0), None)

    def _write(self, offset: int) -> None:
        def done(error: KafkaError | None) -> None:
            assert error is None, error
            self.acknowledged.append(offset)
            clock = self.node.runtime.clock
            clock.call_at(clock.now() + 0.01, lambda: self._write(offset + 1))

        self.node.share_persister.write(
            self.key, 1, 0, max(0, offset - 10), 0, (StateBatch(offset, offset, 2, 1),), done
        )

    def assert_all_is_there(self) -> None:
        acknowledged = [*self.acknowledged]
        state = read(self.stage, self.key, 0)
        assert isinstance(state, ShareState)
        done = {offset for batch in state.batches for offset in range(batch.first, batch.last + 1)}
        assert len(acknowledged) > 100
        assert [each for each in acknowledged if each >= state.start and each not in done] == []


# rights


@pytest.mark.parametrize("api", APIS, ids=lambda api: str(api.name))
def test_only_brokers_may_ask(stage: Stage, api: AnyApi) -> None:
    coordinated(stage)
    topic = api.request.topics
    row = api.request(
        group_id="g",
        topics=[topic(topic_id=b"t" * 16, partitions=[topic.partitions(partition=4)])],
    )
    dispatcher = stage.nodes[1].dispatcher
    dispatcher.authorizer, before = Deny("CLUSTER_ACTION"), dispatcher.authorizer
    (refused,) = stage.wire().ask(api, row).results
    dispatcher.authorizer = before
    (answered,) = stage.wire().ask(api, row).results

    (partition,) = refused.partitions
    assert refused.topic_id == b"t" * 16
    assert (partition.partition, partition.error_code, partition.error_message) == (
        4,
        Code.CLUSTER_AUTHORIZATION_FAILED,
        "Cluster authorization failed.",
    )
    assert answered.partitions[0].error_code != Code.CLUSTER_AUTHORIZATION_FAILED


def test_another_broker_is_not_the_coordinator() -> None:
    with Stage(3, share_coordinator_state_topic_num_partitions="1") as stage:
        stage.create("t")
        coordinated(stage)
        api = READ_SHARE_GROUP_STATE
        topic = api.request.topics
        row = api.request(
            group_id="g",
            topics=[
                topic(
                    topic_id=key_of(stage).topic_id,
                    partitions=[topic.partitions(partition=0, leader_epoch=0)],
                )
            ],
        )
        other = next(iter({1, 2, 3} - {stage.leader(TOPIC)}))
        (answer,) = stage.wire(other).ask(api, row).results

        assert answer.partitions[0].error_code == Code.NOT_COORDINATOR
        assert answer.partitions[0].error_message == (
            "Unable to read share group state: This is not the correct coordinator."
        )


def test_find_coordinator_of_a_share_partition_needs_cluster_action(stage: Stage) -> None:
    coordinated(stage)
    find = FIND_COORDINATOR.request(key_type=2, coordinator_keys=[key_of(stage).coordinator_key()])
    stage.nodes[1].dispatcher.authorizer = Deny("CLUSTER_ACTION")
    (row,) = stage.wire().ask(FIND_COORDINATOR, find).coordinators

    assert row.error_code == Code.CLUSTER_AUTHORIZATION_FAILED
