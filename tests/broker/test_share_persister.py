"""The persister, with a coordinator and channels that the test speaks for: who is asked, in which
order, and what becomes of each answer.
"""

from collections.abc import Iterator

import pytest

from raftka.broker.coordinators.share_persister import (
    BATCHES_OF_REQUEST,
    BATCHES_OF_WRITE,
    CALLS_OF_REQUEST,
    TRIES,
)
from raftka.coordinator.share_state.commands import (
    DeleteState,
    InitializeState,
    ReadState,
    SummarizeState,
    WriteState,
)
from raftka.limits import SHARE_STATE_CALLS
from raftka.runtime.simulated.world import World
from raftka.share.state import (
    NO_COUNT,
    NO_START,
    ShareState,
    ShareSummary,
    StateBatch,
)
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.share_state import (
    INITIALIZE_SHARE_GROUP_STATE,
    READ_SHARE_GROUP_STATE,
    READ_SHARE_GROUP_STATE_SUMMARY,
    WRITE_SHARE_GROUP_STATE,
)
from tests.broker.conftest import Lower
from tests.kit.broker.share_persister import HERE, THERE, PersisterScene, batch, key

LATER = [
    Code.COORDINATOR_LOAD_IN_PROGRESS,
    Code.COORDINATOR_NOT_AVAILABLE,
    Code.NOT_COORDINATOR,
]


@pytest.fixture
def scene() -> Iterator[PersisterScene]:
    with World(1) as world:
        scene = PersisterScene(world)
        yield scene
        assert not scene.failures
        assert not world.failures


# where


def test_a_key_of_this_broker_is_asked_without_a_request(scene: PersisterScene) -> None:
    scene.do(lambda: scene.persister.initialize(key(HERE), 3, 7, scene.done("initialize")))
    scene.do(lambda: scene.persister.read(key(HERE, 1), 5, scene.done("read")))
    scene.do(lambda: scene.persister.delete(key(HERE, 2), scene.done("delete")))
    scene.do(lambda: scene.persister.summary(key(HERE, 3), -1, scene.done("summary")))
    scene.do(lambda: scene.write(HERE, 4, 10, batch(10)))

    assert [command for command, _ in scene.submitted] == [
        InitializeState(key(HERE), 3, 7),
        ReadState(key(HERE, 1), 5),
        DeleteState(key(HERE, 2)),
        SummarizeState(key(HERE, 3)),
        WriteState(key(HERE, 4), 3, 5, 10, 2, (batch(10),)),
    ]
    assert not scene.questions
    state = ShareState(3, 5, 7, NO_COUNT, ())
    for (_, ticket), answer in zip(
        scene.submitted, [None, state, KafkaError(Code.INVALID_REQUEST), None, None], strict=True
    ):
        scene.do(lambda ticket=ticket, answer=answer: ticket(answer))  # type: ignore[misc]
    assert scene.named("read") == [state]
    assert scene.codes("delete") == [Code.INVALID_REQUEST]
    assert scene.persister.waiting == 0


def test_the_calls_of_a_turn_for_a_broker_go_in_one_request(scene: PersisterScene) -> None:
    def calls() -> None:
        for index in range(3):
            scene.persister.initialize(key(THERE, index), 3, NO_START, scene.done("initialize"))
        other = key(THERE)._replace(group_id="h" + str(THERE))
        scene.persister.initialize(other, 4, 0, scene.done("of h"))
        scene.persister.read(key(THERE, 3), 5, scene.done("read"))

    scene.do(calls)

    assert [(each.broker, each.api) for each in scene.questions] == [
        (THERE, INITIALIZE_SHARE_GROUP_STATE),
        (THERE, INITIALIZE_SHARE_GROUP_STATE),
        (THERE, READ_SHARE_GROUP_STATE),
    ]
    assert [each.indexes for each in scene.questions] == [[0, 1, 2], [0], [3]]
    scene.do(scene.questions[0].answer)
    assert scene.named("initialize") == [None] * 3
    scene.do(lambda: scene.questions[2].answer(state_epoch=3, start_offset=9))
    assert scene.named("read") == [ShareState(3, 5, 9, NO_COUNT, ())]
    assert scene.named("of h") == []


def test_an_answer_has_batches_and_a_summary(scene: PersisterScene) -> None:
    scene.do(lambda: scene.persister.read(key(THERE), 5, scene.done("read")))
    row = READ_SHARE_GROUP_STATE.response.results.partitions.state_batches(
        first_offset=10, last_offset=14, delivery_state=2, delivery_count=3
    )
    scene.do(lambda: scene.questions[0].answer(state_epoch=3, start_offset=9, state_batches=[row]))
    assert scene.named("read") == [ShareState(3, 5, 9, NO_COUNT, (StateBatch(10, 14, 2, 3),))]

    scene.do(lambda: scene.persister.summary(key(THERE), 5, scene.done("summary")))
    scene.do(
        lambda: scene.questions[1].answer(
            state_epoch=3, leader_epoch=5, start_offset=9, delivery_complete_count=4
        )
    )
    assert scene.questions[1].api is READ_SHARE_GROUP_STATE_SUMMARY
    assert scene.named("summary") == [ShareSummary(3, 5, 9, 4)]


def test_requests_have_a_bounded_size(scene: PersisterScene) -> None:
    def calls() -> None:
        for index in range(CALLS_OF_REQUEST + 1):
            scene.persister.delete(key(THERE, index), scene.done("delete"))

    def writes() -> None:
        half = [batch(2 * at) for at in range(BATCHES_OF_REQUEST // 2 + 1)]
        for index in range(2):
            scene.write(THERE, 1000 + index, 0, *half)

    scene.do(calls)
    scene.run(1.0)
    assert [len(each.indexes) for each in scene.questions] == [CALLS_OF_REQUEST, 1]

    scene.do(writes)
    scene.run(1.0)
    assert [each.indexes for each in scene.questions[2:]] == [[1000], [1001]]


# order


def test_the_calls_for_one_key_go_one_after_the_other(scene: PersisterScene) -> None:
    def calls() -> None:
        scene.persister.read(key(THERE), 5, scene.done("read"))
        scene.write(THERE, 0, 10, batch(10))
        scene.persister.delete(key(THERE), scene.done("delete"))

    scene.do(calls)
    assert [each.api for each in scene.questions] == [READ_SHARE_GROUP_STATE]
    scene.do(scene.questions[0].answer)
    assert len(scene.questions) == 2
    scene.do(scene.questions[1].answer)
    assert scene.named("write") == [None]
    scene.do(scene.questions[2].answer)
    assert [name for name, _ in scene.results] == ["read", "write", "delete"]


def test_writes_that_wait_become_one(scene: PersisterScene) -> None:
    def calls() -> None:
        scene.write(THERE, 0, 10, batch(10), done=1)
        scene.write(THERE, 0, 10, batch(11), done=2)
        scene.write(THERE, 0, 12, batch(12), batch(14), done=1)
        scene.write(THERE, 0, NO_START, batch(13), done=9)

    scene.do(calls)
    assert len(scene.questions) == 1
    scene.do(scene.questions[0].answer)

    assert scene.named("write") == [None]
    assert [each.api for each in scene.questions] == [WRITE_SHARE_GROUP_STATE] * 2
    ((partition,),) = [topic.partitions for topic in scene.questions[1].row.topics]
    assert (partition.start_offset, partition.delivery_complete_count) == (12, 1)
    assert [each.first_offset for each in partition.state_batches] == [11, 12, 14, 13]
    scene.do(lambda: scene.questions[1].fail_with(Code.FENCED_STATE_EPOCH, "too old"))
    assert scene.codes("write") == [Code.NONE] + [Code.FENCED_STATE_EPOCH] * 3
    assert scene.results[-1][1].message == "too old"


def test_writes_of_another_leader_or_state_stay_apart(scene: PersisterScene) -> None:
    def calls() -> None:
        scene.write(THERE, 0, 10, batch(10))
        scene.write(THERE, 0, 10, batch(10), leader_epoch=6)
        scene.write(THERE, 0, 10, batch(10), leader_epoch=6, state_epoch=4)
        scene.write(THERE, 0, 10, *[batch(2 * at) for at in range(BATCHES_OF_WRITE)])

    scene.do(calls)
    for number in range(4):
        scene.do(scene.questions[number].answer)
        scene.run(0.1)

    assert scene.named("write") == [None] * 4


# errors


@pytest.mark.parametrize("broker", [HERE, THERE])
@pytest.mark.parametrize("code", LATER, ids=lambda code: str(code.name))
def test_what_is_refused_for_a_time_is_repeated_at_the_coordinator_as_then_known(
    scene: PersisterScene, code: Code, broker: int
) -> None:
    scene.do(lambda: scene.write(broker, 0, 10, batch(10)))
    if broker == HERE:
        scene.do(lambda: scene.submitted[0][1](KafkaError(code)))
    else:
        scene.do(lambda: scene.questions[0].fail_with(code))
    assert scene.results == []
    scene.moved[key(broker)] = THERE
    scene.run(0.1)

    assert scene.questions[-1].broker == THERE
    scene.do(scene.questions[-1].answer)
    assert scene.named("write") == [None]


def test_a_lost_request_is_repeated_before_the_next_write(scene: PersisterScene) -> None:
    def calls() -> None:
        scene.write(THERE, 0, 10, batch(10))
        scene.write(THERE, 0, 20, batch(20))

    scene.do(calls)
    scene.do(scene.questions[0].lose)
    scene.run(0.1)

    assert [each.first for each in scene.questions] == [10, 10]
    scene.do(scene.questions[1].answer)
    assert scene.questions[2].first == 20


def test_a_partition_that_the_answer_lacks_is_asked_again(scene: PersisterScene) -> None:
    scene.do(lambda: scene.write(THERE, 0, 10, batch(10)))
    scene.do(scene.questions[0].answer_nothing)
    scene.run(0.1)

    assert len(scene.questions) == 2


@pytest.mark.parametrize("how", ["refused", "lost", "unknown"])
def test_the_tries_end(scene: PersisterScene, how: str) -> None:
    scene.coordinator_error = (
        KafkaError(Code.COORDINATOR_NOT_AVAILABLE) if how == "unknown" else None
    )
    scene.do(lambda: scene.write(THERE, 0, 10, batch(10)))
    for number in range(TRIES):
        if how == "refused":
            scene.do(lambda: scene.questions[-1].fail_with(Code.NOT_COORDINATOR))
        elif how == "lost":
            scene.do(scene.questions[-1].lose)
        if how != "unknown":
            assert len(scene.questions) == number + 1
        scene.run(6.0)

    assert scene.codes("write") == [Code.COORDINATOR_NOT_AVAILABLE]
    assert scene.persister.waiting == 0


def test_other_errors_are_the_callers_and_the_next_call_goes_on(scene: PersisterScene) -> None:
    def calls() -> None:
        scene.write(THERE, 0, 10, batch(10))
        scene.persister.read(key(THERE), 6, scene.done("read"))

    scene.do(calls)
    scene.do(lambda: scene.questions[0].fail_with(Code.FENCED_LEADER_EPOCH, "older"))

    assert scene.codes("write") == [Code.FENCED_LEADER_EPOCH]
    assert scene.questions[1].api is READ_SHARE_GROUP_STATE


def test_writes_behind_one_that_failed_do_not_count_what_it_completes(
    scene: PersisterScene,
) -> None:
    """A member accepted 10 and 11, then 12, and another leader's count is its own."""

    def calls() -> None:
        scene.write(THERE, 0, 10, StateBatch(9, 11, 2, 1), StateBatch(13, 13, 0, 1), done=2)
        scene.write(THERE, 0, 10, batch(12), done=3)
        scene.write(THERE, 0, 10, batch(10), done=1, leader_epoch=6)

    scene.do(calls)
    scene.do(lambda: scene.questions[0].fail_with(Code.POLICY_VIOLATION))
    scene.do(scene.questions[1].answer)

    counts = [each.row.topics[0].partitions[0].delivery_complete_count for each in scene.questions]
    assert counts == [2, 1, 1]


def test_a_call_from_an_answer_waits_behind_the_others(scene: PersisterScene) -> None:
    def again(result: object) -> None:
        scene.persister.delete(key(THERE), scene.done("delete"))

    def calls() -> None:
        scene.persister.read(key(THERE), 5, again)
        scene.persister.summary(key(THERE), 5, scene.done("summary"))

    scene.do(calls)
    for number in range(3):
        scene.do(scene.questions[number].answer)

    assert [name for name, _ in scene.results] == ["summary", "delete"]


def test_an_answer_that_fails_its_caller_harms_no_other(scene: PersisterScene) -> None:
    def fail(result: object) -> None:
        raise ValueError("a bug")

    def calls() -> None:
        scene.persister.delete(key(THERE), fail)
        scene.persister.delete(key(THERE), scene.done("delete"))

    scene.do(calls)
    scene.do(scene.questions[0].answer)
    scene.do(scene.questions[1].answer)

    assert scene.named("delete") == [None]
    assert [str(each) for each in scene.failures] == ["a bug"]
    scene.failures.clear()


def test_calls_that_are_answered_at_once_do_not_nest(scene: PersisterScene) -> None:
    scene.at_once = True

    def calls() -> None:
        for _ in range(2_000):
            scene.persister.delete(key(HERE), scene.done("delete"))

    scene.do(calls)

    assert len(scene.named("delete")) == 2_000


def test_share_state_calls(scene: PersisterScene, lowered: Lower) -> None:
    lowered(SHARE_STATE_CALLS, 2)

    def calls() -> None:
        for index in range(3):
            scene.persister.delete(key(THERE, index), scene.done("delete"))

    scene.do(calls)
    assert scene.codes("delete") == [Code.COORDINATOR_NOT_AVAILABLE]
    assert scene.hits == [SHARE_STATE_CALLS]
    scene.do(scene.questions[0].answer)
    scene.do(lambda: scene.persister.delete(key(THERE), scene.done("delete")))
    assert len(scene.questions) == 2


def test_writes_that_became_one_count_as_many(scene: PersisterScene, lowered: Lower) -> None:
    lowered(SHARE_STATE_CALLS, 3)

    def calls() -> None:
        for _ in range(4):
            scene.write(THERE, 0, 10, batch(10))

    scene.do(calls)

    assert scene.codes("write") == [Code.COORDINATOR_NOT_AVAILABLE]
    scene.do(scene.questions[0].answer)
    scene.do(scene.questions[1].answer)
    assert scene.persister.waiting == 0
    assert scene.codes("write")[1:] == [Code.NONE] * 3


def test_a_node_that_stops_forgets_its_calls(scene: PersisterScene) -> None:
    scene.do(lambda: scene.write(THERE, 0, 10, batch(10)))
    scene.do(scene.persister.close)
    scene.do(scene.questions[0].answer)
    scene.run(1.0)

    assert scene.results == []
    assert len(scene.questions) == 1
