"""A topology beside topics: how many partitions internal topics get, and what is wrong."""

import pytest

from raftka.coordinator.streams.configured import MissingTopic, StatusCode, configure
from raftka.coordinator.streams.topology import (
    CopartitionGroup,
    Subtopology,
    TopicInfo,
    Topology,
)
from raftka.limits import TASKS_OF_GROUP
from raftka.wire.errors import Code, KafkaError, LimitRefused
from tests.coordinator.world import FakeTopics


def inner(name: str, partitions: int = 0) -> TopicInfo:
    return TopicInfo(name, partitions, 0)


def topology(*subtopologies: Subtopology) -> Topology:
    return Topology(0, subtopologies)


def test_a_chain_of_repartition_topics_gets_its_numbers_from_the_first_source() -> None:
    length = 300
    chain = [Subtopology("0", ("t",), ("r1",))]
    chain += [Subtopology(str(n), (), (f"r{n + 1}",), (inner(f"r{n}"),)) for n in range(1, length)]
    chain.append(Subtopology("end", (), (), (inner(f"r{length}"),), (inner("log"),)))

    for order in (chain, chain[::-1]):
        found = configure(topology(*order), FakeTopics({"t": 7}))

        assert found.counts == {f"r{n}": 7 for n in range(1, length + 1)} | {"log": 7}
        assert set(found.tasks.values()) == {7}
        assert len(found.missing) == length + 1


def test_a_number_of_its_own_stands() -> None:
    found = configure(
        topology(Subtopology("0", ("t",), ("r",)), Subtopology("1", (), (), (inner("r", 5),))),
        FakeTopics({"t": 7}),
    )

    assert found.missing == (MissingTopic("r", 5, -1, ()),)
    assert found.tasks == {"0": 7, "1": 5}


@pytest.mark.parametrize(
    ("repartition", "sources", "counts"),
    [
        ((inner("r"),), ("t",), {"r": 4}),  # as many as the topic that it is joined with
        ((inner("r"), inner("s")), (), {"r": 9, "s": 9}),  # the most of both
        ((inner("r"), inner("s", 6)), (), {"r": 6, "s": 6}),  # as the one with a number
        ((inner("r", 4),), ("t",), {"r": 4}),
    ],
)
def test_copartitioned_topics_have_equal_numbers(
    repartition: tuple[TopicInfo, ...], sources: tuple[str, ...], counts: dict[str, int]
) -> None:
    group = CopartitionGroup(tuple(range(len(sources))), tuple(range(len(repartition))))
    found = configure(
        topology(
            Subtopology("0", ("u",), ("r",)),
            Subtopology("1", ("v",), ("s",)),
            Subtopology("2", sources, (), repartition, (), (group,)),
        ),
        FakeTopics({"t": 4, "u": 9, "v": 3}),
    )

    assert {name: found.counts[name] for name in counts} == counts
    assert found.tasks["2"] == max(counts.values())


@pytest.mark.parametrize(
    ("subtopology", "said"),
    [
        (
            Subtopology("0", ("t", "u"), copartition_groups=(CopartitionGroup((0, 1)),)),
            "Following topics do not have the same number of partitions: [{t=4, u=9}]",
        ),
        (
            Subtopology("0", ("t",), (), (inner("r", 5),), (), (CopartitionGroup((0,), (0,)),)),
            "Number of partitions [5] of repartition topic [r] doesn't match number of partitions "
            "[4] of the source topic.",
        ),
        (
            Subtopology("0", ("t",), changelog_topics=(inner("u"),)),
            "Existing topic u has different number of partitions: expected 4, found 9",
        ),
    ],
)
def test_wrong_numbers_are_named(subtopology: Subtopology, said: str) -> None:
    found = configure(topology(subtopology), FakeTopics({"t": 4, "u": 9}))

    assert found.fault is not None
    assert found.fault == (StatusCode.INCORRECTLY_PARTITIONED_TOPICS, said)
    assert (found.tasks, found.counts, found.ready) == ({}, {}, False)


def test_a_source_that_is_its_own_changelog_keeps_its_number() -> None:
    found = configure(
        topology(Subtopology("0", ("t", "u"), changelog_topics=(inner("t"),))),
        FakeTopics({"t": 4, "u": 9}),
    )

    assert (found.ready, found.tasks) == (True, {"0": 9})


def test_missing_topics_are_named_and_of_very_many_the_first() -> None:
    names = tuple(f"t{n:02}" for n in range(25))

    found = configure(topology(Subtopology("0", names)), FakeTopics({}))

    assert found.fault is not None
    assert found.fault.code is StatusCode.MISSING_SOURCE_TOPICS
    assert found.fault.text == (f"Source topics {', '.join(names[:20])} and 5 more are missing.")


@pytest.mark.parametrize(
    "subtopologies",
    [
        (Subtopology("0", ()),),
        (Subtopology("0", (), ("a",), (inner("a"),)),),
        (Subtopology("0", ("t",), (), (inner("r"),)),),
    ],
    ids=["no source", "a loop", "nobody writes it"],
)
def test_topologies_that_no_topic_can_make_right(subtopologies: tuple[Subtopology, ...]) -> None:
    with pytest.raises(KafkaError) as raised:
        configure(topology(*subtopologies), FakeTopics({"t": 1}))
    assert raised.value.code is Code.STREAMS_INVALID_TOPOLOGY


def test_very_many_tasks_are_refused() -> None:
    with pytest.raises(LimitRefused):
        configure(topology(Subtopology("0", ("t",))), FakeTopics({"t": TASKS_OF_GROUP.value + 1}))
