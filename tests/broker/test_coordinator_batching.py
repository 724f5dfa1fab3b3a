"""The moments at which coordinators write their decisions, and the batches that they write."""

from collections.abc import Iterator

import pytest

from raftka.broker.work.batching import PAUSE, WAIT_S, WAITS, CoordinatorBatching
from raftka.wire.errors import Code
from tests.broker.toy import TOPIC, Add, Read, Ring, ToyStage, batches


@pytest.fixture
def three() -> Iterator[ToyStage]:
    stage = ToyStage(3)
    with stage:
        stage.topic()
        yield stage


def turns(batching: CoordinatorBatching, waiting: int) -> int:
    """Return how many turns it takes until the batch is written."""
    count = 0
    while batching.waits_for_more(waiting, 0.0):
        count += 1
    return count


def answered(batching: CoordinatorBatching, replies: int) -> None:
    batching.note_sent()
    assert batching.is_under_way
    batching.note_committed(replies)
    assert not batching.is_under_way


def test_a_lone_client_does_not_wait() -> None:
    batching = CoordinatorBatching()
    for _ in range(3):
        assert turns(batching, 1) == 0
        answered(batching, 1)


def test_requests_wait_for_clients_that_were_answered() -> None:
    batching = CoordinatorBatching()
    answered(batching, 3)
    assert batching.waits_for_more(1, 0.0)
    assert batching.waits_for_more(2, 0.0)
    assert not batching.waits_for_more(3, 0.0)
    answered(batching, 3)
    assert turns(batching, 3) == 0


def test_long_turns_of_others_end_the_wait() -> None:
    batching = CoordinatorBatching()
    answered(batching, 3)
    assert batching.waits_for_more(1, 5.0)
    assert batching.waits_for_more(1, 5.0 + WAIT_S / 2)
    assert not batching.waits_for_more(1, 5.0 + WAIT_S)


def test_a_wait_in_vain_is_not_repeated_for_a_while() -> None:
    batching = CoordinatorBatching()
    answered(batching, 3)
    assert turns(batching, 2) == WAITS
    for _ in range(PAUSE):
        answered(batching, 3)
        assert turns(batching, 2) == 0
    answered(batching, 3)
    assert turns(batching, 2) == WAITS


def test_what_is_decided_while_a_batch_is_on_its_way_is_one_batch(three: ToyStage) -> None:
    leader = three.leader(TOPIC)
    cut_off(three, leader)
    asked = three.ask_all(Add("a", ("1",)), node_id=leader)
    three.wait(lambda: batches(three, leader) == [[b"1"]])
    for word in ("2", "3", "4"):
        asked += three.ask_all(Add("a", (word,)), node_id=leader)
        three.world.run(three.world.now + 0.1)
    asked += three.ask_all(Read("a"), node_id=leader)
    three.world.run(three.world.now + 0.1)
    assert [each.answers for each in asked] == [[]] * 5

    three.world.network.heal()
    three.wait(lambda: all(each.answers for each in asked))
    assert [each.answer for each in asked] == [
        ["1"],
        ["1", "2"],
        ["1", "2", "3"],
        ["1", "2", "3", "4"],
        ["1", "2", "3", "4"],
    ]
    assert batches(three, leader) == [[b"1"], [b"2", b"3", b"4"]]


def test_what_waits_is_written_also_when_the_batch_before_it_is_not_committed_in_time(
    three: ToyStage,
) -> None:
    leader = three.leader(TOPIC)
    for node_id in {1, 2, 3} - {leader}:
        three.world.pause(f"n{node_id}")
    (first,) = three.ask_all(Add("a", ("1",)), node_id=leader)
    three.world.run(three.world.now + 1.0)
    (second,) = three.ask_all(Add("a", ("2",)), node_id=leader)

    three.wait(lambda: bool(first.answers))
    assert first.answer is Code.COORDINATOR_NOT_AVAILABLE
    three.wait(lambda: batches(three, leader) == [[b"1"], [b"2"]], at_most_s=1.0)
    three.wait(lambda: bool(second.answers))
    assert second.answer is Code.COORDINATOR_NOT_AVAILABLE


def test_a_batch_that_nobody_waits_for_keeps_nobody(three: ToyStage) -> None:
    leader = three.leader(TOPIC)
    three.ask(Ring("a", 0.5), node_id=leader)
    cut_off(three, leader)
    three.wait(lambda: batches(three, leader) == [[b"rang"]])

    three.ask_all(Add("a", ("1",)), node_id=leader)

    three.wait(lambda: batches(three, leader) == [[b"rang"], [b"1"]], at_most_s=0.1)


def test_a_coordinator_that_goes_tells_also_those_whose_words_are_not_written(
    three: ToyStage,
) -> None:
    leader = three.leader(TOPIC)
    cut_off(three, leader)
    (first,) = three.ask_all(Add("a", ("1",)), node_id=leader)
    three.wait(lambda: batches(three, leader) == [[b"1"]])
    (second,) = three.ask_all(Add("a", ("2",)), node_id=leader)
    (coordinator,) = three.runtimes[leader].partitions.values()
    three.wait(lambda: bool(coordinator._records))

    coordinator.unload()

    assert second.answer is Code.NOT_COORDINATOR
    three.world.network.heal()
    three.wait(lambda: first.answer == ["1"])
    three.world.run(three.world.now + 1.0)
    assert second.answer is Code.NOT_COORDINATOR
    assert batches(three, leader) == [[b"1"]]


def cut_off(stage: ToyStage, leader: int) -> None:
    for node_id in {1, 2, 3} - {leader}:
        stage.world.network.cut(f"n{leader}", f"n{node_id}")
