"""The shell of coordinators, with a toy for a machine: what it appends, when it answers, and what
it makes of everything that goes wrong.
"""

from collections import Counter
from collections.abc import Iterator
from random import Random

import pytest

from raftka.broker.coordinators.partition import shown_as
from raftka.broker.coordinators.runtime import REPLIES_OF_TURN, java_hash, partition_for
from raftka.wire.errors import Code
from tests.broker.toy import TOPIC, Add, Await, Fail, Read, Ring, ToyStage, batches, machine


@pytest.fixture
def stage() -> Iterator[ToyStage]:
    stage = ToyStage()
    with stage:
        yield stage


@pytest.fixture
def three() -> Iterator[ToyStage]:
    stage = ToyStage(3)
    with stage:
        yield stage


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 0),
        ("a", 97),
        ("my-group", -1906497762),
        ("connect-cluster", 1440343063),
        ("gruppe-ä", 673522898),
        ("\U0001f600", 1772899),
        ("polygenelubricants", -(2**31)),
    ],
)
def test_keys_are_hashed_as_java_does(text: str, value: int) -> None:
    assert java_hash(text) == value


@pytest.mark.parametrize("length", [1, 2, 255, 256, 257, 512, 1000, 32767])
def test_long_keys_are_hashed_in_blocks(length: int) -> None:
    text = "".join(Random(length).choices("ab\0\uffff\U0001f600ö", k=length))
    units = text.encode("utf-16-be")
    value = 0
    for at in range(0, len(units), 2):
        value = (31 * value + int.from_bytes(units[at : at + 2], "big")) % 2**32

    assert java_hash(text) % 2**32 == value


def test_the_smallest_hash_has_no_absolute_value() -> None:
    assert partition_for("polygenelubricants", 50) == 0


# what is appended, and when who asked hears of it


def test_all_of_a_turn_is_one_batch(stage: ToyStage) -> None:
    stage.topic()

    asked = stage.ask_all(Add("a", ("1",)), Add("b", ("2", "3")), Read("a"), Add("a", ("4",)))

    stage.wait(lambda: all(each.answers for each in asked))
    assert [each.answer for each in asked] == [["1"], ["2", "3"], ["1"], ["1", "4"]]
    assert batches(stage) == [[b"1", b"2", b"3", b"4"]]


def test_a_read_waits_for_what_it_has_seen(three: ToyStage) -> None:
    three.topic()
    leader = three.leader(TOPIC)
    for node_id in {1, 2, 3} - {leader}:
        three.world.network.cut(f"n{leader}", f"n{node_id}")

    add, read = three.ask_all(Add("a", ("1",)), Read("a"), node_id=leader)
    three.world.run(three.world.now + 0.5)

    assert (add.answer, read.answer) == (None, None)
    three.world.network.heal()
    three.wait(lambda: bool(read.answers))
    assert (add.answer, read.answer) == (["1"], ["1"])


def test_a_read_waits_for_batches_of_earlier_turns(three: ToyStage) -> None:
    three.topic()
    leader = three.leader(TOPIC)
    for node_id in {1, 2, 3} - {leader}:
        three.world.network.cut(f"n{leader}", f"n{node_id}")
    (add,) = three.ask_all(Add("a", ("1",)), node_id=leader)
    three.wait(lambda: batches(three, leader) == [[b"1"]])  # the turn has ended

    (read,) = three.ask_all(Read("a"), node_id=leader)
    three.world.run(three.world.now + 0.5)

    assert (add.answer, read.answer) == (None, None)
    three.world.network.heal()
    three.wait(lambda: bool(read.answers))
    assert (add.answer, read.answer) == (["1"], ["1"])


def test_a_read_of_what_is_committed_waits_for_nothing(stage: ToyStage) -> None:
    stage.topic()
    stage.ask(Add("a", ("1",)))
    stage.world.run(stage.world.now + 0.01)  # the node has nothing to do

    (read,) = stage.ask_all(Read("a"))

    assert read.answer == ["1"]


def test_a_refusal_waits_like_any_reply(three: ToyStage) -> None:
    three.topic()
    leader = three.leader(TOPIC)
    for node_id in {1, 2, 3} - {leader}:
        three.world.network.cut(f"n{leader}", f"n{node_id}")

    _, refused = three.ask_all(Add("a", ("1",)), Add("a", ("",)), node_id=leader)

    assert refused.answer is None
    three.world.network.heal()
    three.wait(lambda: bool(refused.answers))
    assert refused.answer is Code.INVALID_REQUEST


def test_what_is_not_committed_in_time_may_have_been_lost(three: ToyStage) -> None:
    three.topic()
    leader = three.leader(TOPIC)
    for node_id in {1, 2, 3} - {leader}:
        three.world.pause(f"n{node_id}")

    asked = three.ask(Add("a", ("1",)), node_id=leader)

    assert asked is Code.COORDINATOR_NOT_AVAILABLE


def test_many_replies_are_given_in_the_order_in_which_they_came_some_in_each_turn(
    stage: ToyStage,
) -> None:
    runtime, clock = stage.runtimes[1], stage.nodes[1].runtime.clock
    given: list[tuple[int, float]] = []
    turns = [0]

    def count_turns() -> None:
        turns[0] += 1
        if len(given) < 10 * REPLIES_OF_TURN:
            clock.call_at(clock.now(), count_turns)

    def ask() -> None:
        for number in range(10 * REPLIES_OF_TURN):
            runtime.deliver(lambda answer: given.append((answer, turns[0])), number)
        count_turns()

    stage.nodes[1].runtime.take(lambda _: ask(), None)  # type: ignore[attr-defined]
    stage.wait(lambda: len(given) == 10 * REPLIES_OF_TURN)
    assert [answer for answer, _ in given] == list(range(10 * REPLIES_OF_TURN))
    of_turn = Counter(turn for _, turn in given)
    assert max(of_turn.values()) <= REPLIES_OF_TURN
    stage.world.run(stage.world.now + 1)
    runtime.deliver(given.append, (-1, 0))
    assert given[-1] == (-1, 0)


def test_who_waits_is_answered_by_another_s_command(stage: ToyStage) -> None:
    stage.topic()
    (waiting,) = stage.ask_all(Await("a"))
    stage.world.run(stage.world.now + 1.0)
    assert waiting.answer is None

    stage.ask(Add("a", ("1",)))

    assert waiting.answer == ["1"]


def test_the_machine_hears_of_who_has_gone(stage: ToyStage) -> None:
    stage.topic()
    (waiting,) = stage.ask_all(Await("a"))

    stage.nodes[1].runtime.take(lambda _: stage.runtimes[1].client_gone("a", waiting), None)  # type: ignore[attr-defined]
    stage.ask(Add("a", ("1",)))

    assert machine(stage).forgotten == [waiting]
    assert waiting.answer is None


def test_time_is_a_command(stage: ToyStage) -> None:
    stage.topic()
    stage.ask(Ring("a", 5.0))
    stage.ask(Ring("b", 2.0))

    stage.world.run(stage.world.now + 3.0)
    assert (stage.ask(Read("a")), stage.ask(Read("b"))) == ([], ["rang"])
    stage.world.run(stage.world.now + 3.0)
    assert stage.ask(Read("a")) == ["rang"]


def test_deleted_topics_are_reported(stage: ToyStage) -> None:
    stage.topic()
    topic_id = stage.create("t")

    stage.delete("t")
    stage.wait(lambda: bool(machine(stage).told))

    assert machine(stage).told == [(topic_id, "t")]
    assert stage.ask(Read("deleted")) == ["t"]


# sizes


def test_more_than_a_batch_holds_becomes_several_at_the_border_of_two_outcomes(
    stage: ToyStage,
) -> None:
    stage.topic(max_message_bytes="1000")
    large = tuple(str(i) * 100 for i in range(4))

    asked = stage.ask_all(Add("a", large), Add("b", large), Add("c", ("1",)))

    stage.wait(lambda: all(each.answers for each in asked))
    assert [len(batch) for batch in batches(stage)] == [4, 5]


def test_what_no_batch_holds_is_refused_and_nobody_else_notices(stage: ToyStage) -> None:
    stage.topic(max_message_bytes="1000")
    (waiting,) = stage.ask_all(Await("b"))

    asked = stage.ask_all(Add("a", ("x" * 1000,)), Add("b", ("1",)))

    stage.wait(lambda: all(each.answers for each in asked))
    assert [each.answer for each in asked] == [Code.UNKNOWN_SERVER_ERROR, ["1"]]
    assert waiting.answer == ["1"]
    assert machine(stage).begun == 1


def test_what_need_not_be_one_batch_is_split(stage: ToyStage) -> None:
    stage.topic(max_message_bytes="1000")
    words = tuple(f"{i:0100}" for i in range(20))

    assert stage.ask(Add("a", words, atomic=False)) == list(words)

    assert len(batches(stage)) == 3
    assert stage.ask(Read("a")) == list(words)


# who coordinates


def test_before_the_topic_exists_no_broker_is_the_coordinator(stage: ToyStage) -> None:
    assert stage.ask(Read("a")) is Code.NOT_COORDINATOR


def test_only_the_leader_does(three: ToyStage) -> None:
    three.topic()
    follower = next(iter({1, 2, 3} - {three.leader(TOPIC)}))

    assert three.ask(Read("a"), node_id=follower) is Code.NOT_COORDINATOR


def test_the_next_leader_has_it_all(three: ToyStage) -> None:
    three.topic()
    first = three.leader(TOPIC)
    three.ask(Add("a", ("1", "2")), node_id=first)
    three.kill(first)
    three.runtimes.pop(first)

    three.wait(three.serving)

    assert three.leader(TOPIC) != first
    assert three.ask(Read("a"), node_id=three.leader(TOPIC)) == ["1", "2"]


def test_while_it_loads_it_says_so_and_the_node_goes_on(stage: ToyStage) -> None:
    stage.topic()
    for _ in range(20):
        stage.ask(Add("a", tuple("x" * 500 for _ in range(100))))
    stage.kill(1)
    stage.runtimes.clear()
    stage.start(1)
    stage.wait(lambda: bool(stage.runtimes and stage.runtimes[1].partitions))

    loading = stage.ask(Read("a"))
    stage.create("meanwhile")
    stage.wait(stage.serving)

    assert loading is Code.COORDINATOR_LOAD_IN_PROGRESS
    assert len(stage.ask(Read("a"))) == 2000


def test_a_coordinator_that_loses_its_leadership_tells_who_waits(three: ToyStage) -> None:
    three.topic()
    leader = three.leader(TOPIC)
    (waiting,) = three.ask_all(Await("a"), node_id=leader)

    three.delete(TOPIC, node_id=leader)
    three.wait(lambda: bool(waiting.answers))

    assert waiting.answer is Code.NOT_COORDINATOR


def test_a_record_that_cannot_be_read_is_passed_over(stage: ToyStage) -> None:
    from raftka.wire.messages.produce import PRODUCE
    from raftka.wire.records import build_batch
    from tests.broker.requests import produce

    stage.topic()
    stage.ask(Add("a", ("1",)))
    records = build_batch([(b"a", None, (), 1), (b"a", b"2", (), 1)])
    stage.wire().ask(PRODUCE, produce(TOPIC, bytes(records)), 12)
    stage.kill(1)
    stage.runtimes.clear()
    stage.start(1)

    stage.wait(lambda: bool(stage.runtimes) and stage.serving())

    assert stage.ask(Read("a")) == ["1", "2"]
    assert stage.counted("raftka_coordinator_unreadable_records_total") == 1
    assert [event["offset"] for event in stage.events("coordinator_record_unreadable")] == [1]


# what goes wrong


def test_a_mistake_of_the_machine_is_one_command_s(stage: ToyStage) -> None:
    stage.topic()

    asked = stage.ask_all(Fail("a"), Add("a", ("1",)))

    stage.wait(lambda: all(each.answers for each in asked))
    assert [each.answer for each in asked] == [Code.UNKNOWN_SERVER_ERROR, ["1"]]
    assert stage.counted("raftka_handler_errors_total") == 1


def test_under_min_isr_nothing_is_decided_and_reads_go_on(three: ToyStage) -> None:
    three.topic(min_insync_replicas="3")
    leader = three.leader(TOPIC)
    three.ask(Add("a", ("1",)), node_id=leader)
    three.ask(Ring("bell", 4.0), node_id=leader)
    away = next(iter({1, 2, 3} - {leader}))
    three.kill(away)
    three.wait(lambda: len(three.partition(TOPIC, node_id=leader).image.isr) == 2)

    assert three.ask(Add("a", ("2",)), node_id=leader) is Code.COORDINATOR_NOT_AVAILABLE
    # the bell's time: what cannot be written is tried again, once a second
    three.world.run(three.world.now + 5.0)
    assert three.ask(Read("a"), node_id=leader) == ["1"]
    assert machine(three, leader).begun == 1
    assert 2 <= machine(three, leader).ticks <= 5
    three.start(away)
    three.wait(lambda: "bell" in machine(three, leader).lists)
    assert three.ask(Read("bell"), node_id=leader) == ["rang"]


def test_a_machine_that_is_ahead_of_its_log_begins_anew(stage: ToyStage) -> None:
    stage.topic()
    stage.ask(Add("a", ("1",)))
    (waiting,) = stage.ask_all(Await("b"))
    before = machine(stage)
    # every append is refused, behind all that is looked at before
    stage.partition(TOPIC).log.client_batches._max_bytes = 0

    refused = stage.ask(Add("a", ("2",)))
    stage.partition(TOPIC).log.configure(stage.partition(TOPIC).log.config)
    stage.wait(stage.serving)

    assert refused is Code.UNKNOWN_SERVER_ERROR
    assert waiting.answer is Code.NOT_COORDINATOR
    assert machine(stage) is not before
    assert stage.ask(Read("a")) == ["1"]


def test_a_log_that_cannot_be_written_is_no_coordinator(stage: ToyStage) -> None:
    stage.topic()
    stage.ask(Add("a", ("1",)))
    disk = stage.world.disk("n1")
    disk.failing_writes, disk.failing_under = 1, f"/data/{TOPIC}-0"

    assert stage.ask(Add("a", ("2",))) is Code.NOT_COORDINATOR
    assert stage.ask(Read("a")) is Code.NOT_COORDINATOR


def test_what_an_append_is_refused_with_is_said_as_a_coordinator_says_it() -> None:
    away = {
        Code.UNKNOWN_TOPIC_OR_PARTITION,
        Code.NOT_ENOUGH_REPLICAS,
        Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        Code.REQUEST_TIMED_OUT,
    }
    moved = {Code.NOT_LEADER_OR_FOLLOWER, Code.KAFKA_STORAGE_ERROR}
    too_large = {Code.MESSAGE_TOO_LARGE, Code.RECORD_LIST_TOO_LARGE}

    assert {shown_as(code).code for code in away} == {Code.COORDINATOR_NOT_AVAILABLE}
    assert {shown_as(code).code for code in moved} == {Code.NOT_COORDINATOR}
    assert {shown_as(code).code for code in too_large} == {Code.UNKNOWN_SERVER_ERROR}
