"""Share partitions when leaders change and writes fail, in the simulation."""

from collections.abc import Iterator, Sequence

import pytest

from raftka.broker.share.partitions import Written
from raftka.metadata.commands import AlterReassignments, Move, MovedTopic
from raftka.share.state import SharePartitionKey, StateBatch
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.share_acknowledge import SHARE_ACKNOWLEDGE
from tests.broker.stage import Stage
from tests.kit.broker.share import (
    ShareMember,
    acknowledgement,
    any_node,
    configure,
    fill,
    initialise,
    persisted,
    shares,
)

ACCEPT, RELEASE = 1, 2
Place = tuple[bytes, int]


class Writes:
    """Writes to the share coordinator that are held back, and end as a test says."""

    def __init__(self, stage: Stage) -> None:
        self.held: list[Written] = []
        self.batches: list[Sequence[StateBatch]] = []
        any_node(stage).share_persister.write = self.write  # type: ignore[method-assign]

    def write(
        self,
        key: SharePartitionKey,
        state_epoch: int,
        leader_epoch: int,
        start: int,
        complete_count: int,
        batches: Sequence[StateBatch],
        done: Written,
    ) -> None:
        self.held.append(done)
        self.batches.append(batches)

    def end(self, error: KafkaError | None) -> None:
        self.held.pop(0)(error)


def set_up(stage: Stage, replicas: int = -1) -> Place:
    """One batch of ten records, for group g from its beginning."""
    place = stage.create("t", replication_factor=replicas), 0
    configure(stage, "g", share_auto_offset_reset="earliest")
    fill(stage, "t", 10)
    initialise(stage, "g", place)
    return place


def move(stage: Stage, to: int) -> None:
    """Let another broker have and lead the partition."""
    command = AlterReassignments((MovedTopic("t", (Move(0, (to,)),)),))
    any_node(stage).controller.call(command, lambda error, reply: None, 5.0)

    def leads() -> bool:
        replicas = {n: node.replicas.partitions.get(("t", 0)) for n, node in stage.nodes.items()}
        return all(
            (replica is not None and replica.leader is not None) == (node_id == to)
            for node_id, replica in replicas.items()
        )

    stage.wait(leads)


@pytest.fixture
def stage() -> Iterator[Stage]:
    with shares(), Stage() as stage:
        yield stage
        assert not stage.world.failures


# writes


def test_an_acknowledgement_is_answered_when_it_is_written(stage: Stage) -> None:
    place, member = set_up(stage), ShareMember(stage, "g")
    member.acquire(place)
    writes = Writes(stage)
    member.wire.request(SHARE_ACKNOWLEDGE, acknowledgement(member, place, 0, 4, ACCEPT))
    stage.wait(lambda: bool(writes.held))
    stage.world.run(stage.world.now + 1.0)
    assert not member.wire.frames
    writes.end(None)
    assert member.wire.answer(SHARE_ACKNOWLEDGE).error_code == 0


@pytest.mark.parametrize(
    ("error", "seen"),
    [
        (Code.COORDINATOR_NOT_AVAILABLE, Code.COORDINATOR_NOT_AVAILABLE),
        (Code.COORDINATOR_LOAD_IN_PROGRESS, Code.COORDINATOR_NOT_AVAILABLE),
        (Code.UNKNOWN_TOPIC_OR_PARTITION, Code.UNKNOWN_TOPIC_OR_PARTITION),
        (Code.GROUP_ID_NOT_FOUND, Code.GROUP_ID_NOT_FOUND),
        (Code.INVALID_REQUEST, Code.UNKNOWN_SERVER_ERROR),
    ],
)
def test_a_write_that_fails_leaves_the_records_acquired(
    stage: Stage, error: Code, seen: Code
) -> None:
    place, member = set_up(stage), ShareMember(stage, "g")
    member.acquire(place)
    writes = Writes(stage)
    member.wire.request(SHARE_ACKNOWLEDGE, acknowledgement(member, place, 0, 4, ACCEPT))
    stage.wait(lambda: bool(writes.held))
    writes.end(KafkaError(error, "no"))
    (topic,) = member.wire.answer(SHARE_ACKNOWLEDGE).responses
    assert Code(topic.partitions[0].error_code) is seen
    assert topic.partitions[0].error_message == "Error in write state RPC. no"
    member.epoch += 1
    assert ShareMember(stage, "g", "B").acquire(place) == []
    member.wire.request(SHARE_ACKNOWLEDGE, acknowledgement(member, place, 0, 4, ACCEPT))
    stage.wait(lambda: bool(writes.held))
    writes.end(None)
    (topic,) = member.wire.answer(SHARE_ACKNOWLEDGE).responses
    assert topic.partitions[0].error_code == 0


def test_released_records_are_delivered_when_that_is_written(stage: Stage) -> None:
    place, member = set_up(stage), ShareMember(stage, "g")
    member.acquire(place)
    writes = Writes(stage)
    member.wire.request(SHARE_ACKNOWLEDGE, acknowledgement(member, place, 0, 4, RELEASE))
    stage.wait(lambda: bool(writes.held))
    other = ShareMember(stage, "g", "B")
    assert other.acquire(place) == []
    writes.end(None)
    assert other.acquire(place) == [(0, 4, 2)]


def test_the_start_moves_over_no_acquired_record(stage: Stage) -> None:
    place, member = set_up(stage), ShareMember(stage, "g")
    member.acquire(place)
    assert member.done(place, 5, 8) is Code.NONE
    assert member.done(place, 9, 9) is Code.NONE
    assert persisted(stage, "g", place).start == 0
    assert member.done(place, 0, 4, RELEASE) is Code.NONE
    assert member.acquire(place) == [(0, 4, 2)]


def test_records_are_delivered_no_more_often_than_the_limit(stage: Stage) -> None:
    place, member = set_up(stage), ShareMember(stage, "g")
    configure(stage, "g", share_delivery_count_limit="2")
    for count in (1, 2):
        assert member.acquire(place) == [(0, 9, count)]
        assert member.done(place, 0, 9, RELEASE) is Code.NONE
    assert member.acquire(place) == []
    assert persisted(stage, "g", place).batches == ((0, 9, 4, 2),)


def test_deliveries_are_counted_by_the_store(stage: Stage) -> None:
    place, member = set_up(stage), ShareMember(stage, "g")
    member.acquire(place)
    member.done(place, 0, 9, RELEASE)
    assert persisted(stage, "g", place).batches == ((0, 9, 0, 1),)


# leaders


def test_another_leader_goes_on_with_what_is_persisted() -> None:
    with shares(), Stage(3) as stage:
        place = set_up(stage, replicas=1)
        first = stage.leader("t")
        then = next(node_id for node_id in stage.nodes if node_id != first)
        member = ShareMember(stage, "g", node_id=first)
        assert member.acquire(place) == [(0, 9, 1)]
        answer = member.acknowledge({place: [(0, 2, [ACCEPT]), (5, 5, [RELEASE])]})
        assert answer.responses[0].partitions[0].error_code == 0
        other = ShareMember(stage, "g", "B", node_id=then)
        (row,) = other.fetch(place).values()
        assert row.code is Code.NOT_LEADER_OR_FOLLOWER
        assert other.done(place, 3, 3) is Code.UNKNOWN_TOPIC_OR_PARTITION
        move(stage, then)

        (row,) = member.fetch().values()
        assert row.code is Code.NOT_LEADER_OR_FOLLOWER
        assert member.done(place, 3, 3) is Code.UNKNOWN_TOPIC_OR_PARTITION
        assert stage.nodes[first].share_leader.count == 0
        (row,) = other.fetch().values()
        assert row.acquired == [(3, 4, 1), (5, 5, 2), (6, 9, 1)]


def test_a_leader_that_comes_back_reads_the_state_anew() -> None:
    with shares(), Stage(3) as stage:
        place = set_up(stage, replicas=1)
        first = stage.leader("t")
        then = next(node_id for node_id in stage.nodes if node_id != first)
        assert ShareMember(stage, "g", node_id=first).acquire(place) == [(0, 9, 1)]
        move(stage, then)
        member = ShareMember(stage, "g", "B", node_id=then)
        assert member.acquire(place) == [(0, 9, 1)]
        assert member.done(place, 0, 4) is Code.NONE
        move(stage, first)
        again = ShareMember(stage, "g", "C", node_id=first)
        assert again.acquire(place) == [(5, 9, 1)]


def test_a_parked_fetch_hears_that_the_leader_has_changed() -> None:
    with shares(), Stage(3) as stage:
        place = set_up(stage, replicas=1)
        first = stage.leader("t")
        then = next(node_id for node_id in stage.nodes if node_id != first)
        member = ShareMember(stage, "g", node_id=first)
        member.acquire(place)
        member.ask(max_wait_ms=30_000)
        metrics = stage.nodes[first].metrics
        stage.wait(lambda: metrics.parked_share_fetches == 1)
        move(stage, then)
        answer = member.answer()
        (row,) = answer.responses[0].partitions
        assert row.error_code == Code.NOT_LEADER_OR_FOLLOWER
        assert [each.node_id for each in answer.node_endpoints] == [row.current_leader.leader_id]
