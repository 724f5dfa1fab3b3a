"""The shell of coordinators when a decision takes several turns: what comes meanwhile waits, and
nobody else does.
"""

from collections.abc import Iterator
from itertools import pairwise

import pytest

from raftka.broker.coordinators.partition import (
    ACTIVE,
    AT_ONCE,
    BUSY,
    COORDINATOR_STATES,
    LOADED_AT_ONCE,
    RECORD_WEIGHT,
    CoordinatorPartition,
    CoordinatorState,
)
from raftka.broker.coordinators.runtime import partition_for
from raftka.broker.work.long_work import SLICE_S, STEPS
from raftka.runtime.simulated.clock import READING_S
from raftka.wire.errors import Code
from tests.broker.toy import Add, Read, Slow, ToyStage, batches, machine
from tests.kit.transitions import changes_of, recorded

STEPS_OF_SLICE = round(SLICE_S / READING_S) * STEPS


@pytest.fixture
def stage() -> Iterator[ToyStage]:
    stage = ToyStage()
    with stage:
        yield stage


def test_what_comes_during_a_long_decision_waits_and_is_decided_in_its_order(
    stage: ToyStage,
) -> None:
    stage.topic()

    asked = stage.ask_all(Slow("a", "1"), Read("a"), Add("a", ("2",)), Slow("a", "3"), Read("a"))

    assert machine(stage).lists == {}
    assert stage.runtimes[1].partitions[0].state is BUSY
    stage.wait(lambda: all(each.answers for each in asked))
    assert [each.answer for each in asked] == [[], ["1"], ["1", "2"], ["1", "2"], ["1", "2", "3"]]
    assert stage.runtimes[1].partitions[0].state is ACTIVE


def test_other_coordinators_do_not_wait_for_a_long_decision(stage: ToyStage) -> None:
    stage.topic(partitions=2)
    elsewhere = next(
        name for name in "abcdef" if partition_for(name, 2) != partition_for("slow", 2)
    )
    stage.ask(Add(elsewhere, ("1",)))
    stage.world.run(stage.world.now + 0.01)  # the node has nothing to do

    slow, read = stage.ask_all(Slow("slow", "1"), Read(elsewhere))

    assert (slow.answer, read.answer) == (None, ["1"])
    stage.wait(lambda: bool(slow.answers))


def test_a_long_decision_has_a_slice_of_each_turn(stage: ToyStage) -> None:
    stage.topic()
    slices = stage.nodes[1].dispatcher.long_work.slices

    stage.ask(Slow("a", "1", steps=10 * STEPS_OF_SLICE))

    assert 9 <= stage.nodes[1].dispatcher.long_work.slices - slices <= 11


def test_very_many_records_are_replayed_in_slices_and_are_one_batch(stage: ToyStage) -> None:
    stage.topic()
    words = tuple(f"{i}" for i in range(AT_ONCE + 3 * STEPS_OF_SLICE))

    add, read = stage.ask_all(Add("a", words), Read("a"))

    assert AT_ONCE < len(machine(stage).lists["a"]) < len(words)
    assert batches(stage) == []
    stage.wait(lambda: bool(read.answers))
    assert add.answer == read.answer == list(words)
    assert [len(batch) for batch in batches(stage)] == [len(words)]


def test_a_long_decision_that_is_refused_leaves_the_others_alone(stage: ToyStage) -> None:
    stage.topic()

    asked = stage.ask_all(Slow("a", ""), Add("a", ("1",)))

    stage.wait(lambda: all(each.answers for each in asked))
    assert [each.answer for each in asked] == [Code.INVALID_REQUEST, ["1"]]


def test_time_and_deleted_topics_wait_for_a_long_decision(stage: ToyStage) -> None:
    stage.topic()
    topic_id = stage.create("t")
    (slow,) = stage.ask_all(Slow("a", "1", steps=1_000_000))
    machine(stage).timers["bell"] = 0.0
    stage.delete("t")
    stage.wait(lambda: topic_id not in stage.nodes[1].image.topics)

    assert stage.runtimes[1].partitions[0].state is BUSY
    assert (machine(stage).ticks, machine(stage).told) == (0, [])
    stage.wait(lambda: bool(slow.answers) and bool(machine(stage).told))
    assert machine(stage).ticks == 1
    assert stage.ask(Read("bell")) == ["rang"]


def test_who_waits_for_a_long_decision_hears_that_another_coordinates(stage: ToyStage) -> None:
    stage.topic()
    asked = stage.ask_all(Slow("a", "1"), Read("a"))
    runtime = stage.runtimes[1]

    stage.nodes[1].runtime.take(lambda _: runtime._unload(runtime.partitions[0]), None)  # type: ignore[attr-defined]
    stage.world.run(stage.world.now + 1.0)

    assert [each.answer for each in asked] == [Code.NOT_COORDINATOR] * 2
    assert batches(stage) == []
    assert stage.nodes[1].dispatcher.long_work.waiting == 0


def test_a_large_batch_is_loaded_in_slices(stage: ToyStage) -> None:
    stage.topic()
    words = tuple(str(number) for number in range(5 * LOADED_AT_ONCE // RECORD_WEIGHT))
    stage.ask(Add("a", words))
    stage.kill(1)
    stage.runtimes.clear()
    stage.start(1)
    seen = set()
    stage.wait(lambda: bool(stage.runtimes and stage.runtimes[1].partitions))

    def loaded() -> bool:
        seen.add(len(machine(stage).lists.get("a", ())))
        return stage.serving()

    stage.wait(loaded)
    steps = sorted(seen)
    assert steps[-1] == len(words)
    assert (
        max(after - before for before, after in pairwise(steps)) <= LOADED_AT_ONCE // RECORD_WEIGHT
    )
    assert stage.ask(Read("a")) == list(words)


def test_every_transition_of_a_coordinator_happens() -> None:
    """One coordinator each is unloaded while it loads, while it is at rest, and during a long
    decision.
    """
    with recorded(CoordinatorPartition, "state") as changes, ToyStage() as stage:
        stage.topic(partitions=3)
        runtime = stage.runtimes[1]
        (slow,) = stage.ask_all(Slow("a", "1", steps=1_000_000))
        busy = next(each for each in runtime.partitions.values() if each.state is BUSY)
        rests, loads = [each for each in runtime.partitions.values() if each is not busy]
        runtime.reload(loads)
        for each in (busy, rests, runtime.partitions[loads.partition.index]):
            runtime._unload(each)
        stage.world.run(stage.world.now + 1.0)

        assert slow.answer is Code.NOT_COORDINATOR

    assert changes == changes_of(COORDINATOR_STATES)
    assert set(COORDINATOR_STATES) == set(CoordinatorState)
