"""Share partitions when leaders change and writes fail, in the simulation."""

from collections.abc import Callable, Iterator, Sequence

import pytest

from raftka.share.partition import DeadRange
from raftka.share.state import SharePartitionKey
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.share_acknowledge import SHARE_ACKNOWLEDGE
from tests.broker.stage import Stage
from tests.kit.broker.share import (
    ShareMember,
    Writes,
    acknowledgement,
    configure,
    fill,
    move,
    persisted,
    set_up,
    shares,
)

ACCEPT, RELEASE, REJECT = 1, 2, 3


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
        (Code.POLICY_VIOLATION, Code.UNKNOWN_SERVER_ERROR),
    ],
)
def test_a_write_that_fails_leaves_the_records_acquired(
    stage: Stage, error: Code, seen: Code
) -> None:
    place, member = set_up(stage), ShareMember(stage, "g")
    member.acquire(place)
    writes = Writes(stage)
    member.wire.request(SHARE_ACKNOWLEDGE, acknowledgement(member, place, 2, 4, ACCEPT))
    stage.wait(lambda: bool(writes.held))
    writes.end(KafkaError(error, "no"))
    (topic,) = member.wire.answer(SHARE_ACKNOWLEDGE).responses
    assert Code(topic.partitions[0].error_code) is seen
    assert topic.partitions[0].error_message == "Error in write state RPC. no"
    member.epoch += 1
    assert ShareMember(stage, "g", "B").acquire(place) == []
    member.wire.request(SHARE_ACKNOWLEDGE, acknowledgement(member, place, 2, 4, ACCEPT))
    stage.wait(lambda: bool(writes.held))
    writes.end(None)
    (topic,) = member.wire.answer(SHARE_ACKNOWLEDGE).responses
    assert topic.partitions[0].error_code == 0


@pytest.mark.parametrize(
    ("error", "seen"),
    [
        (Code.UNKNOWN_TOPIC_OR_PARTITION, Code.UNKNOWN_TOPIC_OR_PARTITION),
        (Code.GROUP_ID_NOT_FOUND, Code.GROUP_ID_NOT_FOUND),
        (Code.INVALID_REQUEST, Code.UNKNOWN_SERVER_ERROR),
        (Code.FENCED_STATE_EPOCH, Code.NOT_LEADER_OR_FOLLOWER),
        (Code.FENCED_LEADER_EPOCH, Code.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_a_state_that_is_another_one_now_is_read_anew(
    stage: Stage, error: Code, seen: Code
) -> None:
    place, member = set_up(stage), ShareMember(stage, "g")
    member.acquire(place)
    writes = Writes(stage)
    member.wire.request(SHARE_ACKNOWLEDGE, acknowledgement(member, place, 2, 4, ACCEPT))
    stage.wait(lambda: bool(writes.held))
    writes.end(KafkaError(error, "no"))
    (topic,) = member.wire.answer(SHARE_ACKNOWLEDGE).responses
    assert Code(topic.partitions[0].error_code) is seen
    assert stage.nodes[1].share_leader.count == 0
    assert ShareMember(stage, "g", "B").acquire(place) == [(0, 9, 1)]


def test_groups_that_do_not_exist_take_no_memory(stage: Stage) -> None:
    place = set_up(stage)
    for number in range(3):
        (row,) = ShareMember(stage, f"no{number}").fetch(place, max_wait_ms=10).values()
        assert row.code is Code.UNKNOWN_SERVER_ERROR
    assert stage.nodes[1].share_leader.count == 0


def count(stage: Stage) -> int:
    return stage.nodes[1].share_leader.count


def test_share_partitions_end_with_the_last_session_of_their_group(stage: Stage) -> None:
    place = set_up(stage)
    first, second = (ShareMember(stage, "g", letter * 22) for letter in "AB")
    assert first.acquire(place, max_records=10) == [(0, 9, 1)]
    second.fetch(place, max_wait_ms=0)
    second.close()
    stage.world.run(stage.world.now + 1.0)
    assert count(stage) == 1
    writes = Writes(stage)
    first.close()
    stage.wait(lambda: bool(writes.held))
    assert count(stage) == 1  # what it held is being released
    writes.end(None)
    assert count(stage) == 0


def test_a_share_partition_that_began_at_the_end_keeps_its_start(stage: Stage) -> None:
    place = set_up(stage)
    configure(stage, "g", share_auto_offset_reset="latest")
    member = ShareMember(stage, "g")
    assert member.acquire(place) == []
    member.close()
    stage.world.run(stage.world.now + 1.0)
    fill(stage, "t", 5)
    assert ShareMember(stage, "g").acquire(place) == [(10, 14, 1)]


def test_a_group_that_was_deleted_has_no_share_partitions(stage: Stage) -> None:
    place = set_up(stage)
    member = ShareMember(stage, "g")
    member.acquire(place)
    assert member.done(place, 0, 9, ACCEPT) is Code.NONE
    member.close()
    results: list[KafkaError | None] = []
    key = SharePartitionKey("g", *place)
    stage.nodes[1].share_persister.delete(key, results.append)
    stage.wait(lambda: bool(results))
    found = ShareMember(stage, "g").fetch(place)
    assert found[place].code is Code.UNKNOWN_SERVER_ERROR


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


# dead letters


class Letters:
    """A dead-letter topic of every group, whose writes end when a test says so."""

    def __init__(self) -> None:
        self.sent: list[tuple[Sequence[DeadRange], Callable[[], None]]] = []

    def wants(self, group_id: str) -> bool:
        return True

    def send(
        self, key: SharePartitionKey, records: Sequence[DeadRange], done: Callable[[], None]
    ) -> None:
        self.sent.append((records, done))


def test_rejected_records_are_archived_when_their_dead_letters_are_written(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, member, letters = set_up(stage), ShareMember(stage, "g"), Letters()
    monkeypatch.setattr(stage.nodes[1].share_leader, "_dead_letters", letters)
    member.acquire(place)
    assert member.done(place, 0, 1, REJECT) is Code.NONE
    assert persisted(stage, "g", place).batches == ((0, 1, 3, 1),)
    ((records, done),) = letters.sent
    assert [tuple(each) for each in records] == [(0, 1, 1, "Offset rejected by client.")]
    done()
    stage.wait(lambda: persisted(stage, "g", place).batches == ((0, 1, 4, 1),))
    assert member.done(place, 2, 2) is Code.NONE
    assert persisted(stage, "g", place).start == 2


def test_dead_letters_that_a_leader_may_not_have_written_are_sent_again() -> None:
    with shares(), Stage(3) as stage:
        place = set_up(stage, replicas=1)
        letters = {node_id: Letters() for node_id in stage.nodes}
        for node_id, node in stage.nodes.items():
            node.share_leader._dead_letters = letters[node_id]
        first = stage.leader("t")
        then = next(node_id for node_id in stage.nodes if node_id != first)
        member = ShareMember(stage, "g", node_id=first)
        member.acquire(place)
        assert member.done(place, 0, 1, REJECT) is Code.NONE
        move(stage, then)
        assert ShareMember(stage, "g", node_id=then).acquire(place) == [(2, 9, 1)]
        ((records, _),) = letters[then].sent
        assert [(each.first, each.last) for each in records] == [(0, 1)]
