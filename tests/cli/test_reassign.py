"""Plans: evenly spread, little moved, and JSON that is checked before anybody acts on it."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftka.cli.admin.reassign import from_json, spread, to_json
from raftka.cli.output import CommandFailed

CLUSTERS = st.lists(
    st.lists(st.integers(1, 6), min_size=1, max_size=3, unique=True), min_size=1, max_size=30
)


@given(
    CLUSTERS,
    st.lists(st.integers(1, 8), min_size=1, max_size=6, unique=True),
    st.none() | st.integers(1, 3),
)
def test_every_partition_gets_its_replicas_on_brokers_that_may_have_them(
    now: list[list[int]], brokers: list[int], factor: int | None
) -> None:
    plan = spread({("t", i): each for i, each in enumerate(now)}, brokers, factor)

    for i, before in enumerate(now):
        replicas = plan["t", i]
        assert len(replicas) == len(set(replicas)) == min(len(brokers), factor or len(before))
        assert set(replicas) <= set(brokers)


@given(st.integers(1, 40), st.integers(1, 6), st.integers(1, 3))
def test_new_brokers_share_evenly(partitions: int, brokers: int, factor: int) -> None:
    """All were on one broker that must go."""
    factor = min(factor, brokers)
    plan = spread({("t", i): [99] for i in range(partitions)}, list(range(brokers)), factor)

    replicas = Counter(each for chosen in plan.values() for each in chosen)
    leaders = Counter(chosen[0] for chosen in plan.values())
    assert max(replicas.values()) - min(replicas[each] for each in range(brokers)) <= 1
    assert max(leaders.values()) - min(leaders[each] for each in range(brokers)) <= 1 + (
        brokers > factor > 1
    )


def test_what_is_spread_well_stays() -> None:
    now = {("t", i): [1 + i % 3, 1 + (i + 1) % 3, 1 + (i + 2) % 3] for i in range(9)}

    assert spread(now, [1, 2, 3]) == now


def test_one_broker_more_takes_its_share_and_nothing_else_moves() -> None:
    now = {("t", i): [1 + i % 2] for i in range(6)}
    plan = spread(now, [1, 2, 3])

    moved = [where for where in now if plan[where] != now[where]]
    assert len(moved) == 2
    assert all(plan[where] == [3] for where in moved)


@given(
    st.lists(
        st.lists(st.integers(0, 8), min_size=1, max_size=3, unique=True), min_size=1, max_size=40
    ),
    st.lists(st.sampled_from("abcd"), min_size=9, max_size=9),
    st.none() | st.integers(1, 6),
)
def test_replicas_share_a_rack_only_where_there_are_more_of_them_than_racks(
    now: list[list[int]], letters: list[str], factor: int | None
) -> None:
    racks: dict[int, str | None] = dict(enumerate(letters))
    plan = spread({("t", i): each for i, each in enumerate(now)}, range(9), factor, racks)

    for replicas in plan.values():
        of_rack = Counter(racks[each] for each in replicas)
        assert len(of_rack) == min(len(replicas), len(set(letters)))


@given(st.integers(1, 30), st.integers(2, 3), st.integers(1, 4))
def test_hosts_of_equal_size_share_evenly(partitions: int, factor: int, brokers: int) -> None:
    racks: dict[int, str | None] = {each: f"host-{each // brokers}" for each in range(3 * brokers)}
    plan = spread({("t", i): [99] * 1 for i in range(partitions)}, list(racks), factor, racks)

    replicas = Counter(each for chosen in plan.values() for each in chosen)
    assert max(replicas.values()) - min(replicas[each] for each in racks) <= 1 + (factor < 3)


def test_a_replica_that_shares_a_host_moves_to_another() -> None:
    racks: dict[int, str | None] = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c", 6: "c"}

    assert spread({("t", 0): [1, 2, 3]}, list(racks), None, racks) == {("t", 0): [1, 3, 5]}


def test_a_plan_is_read_as_it_was_written() -> None:
    plan = {("t", 0): [1, 2], ("u", 3): [3]}

    assert from_json(to_json(plan)) == plan
    assert from_json(
        '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1],"log_dirs":["any"]}]}'
    ) == {("t", 0): [1]}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"partitions": [{}]}',
        '{"partitions": [{"topic": "t", "partition": "x", "replicas": []}]}',
        '{"partitions": [{"topic": "t", "partition": 0, "replicas": 1}]}',
        '{"partitions": [{"topic": "t", "partition": 0, "replicas": [1]}, {"topic": "t", '
        '"partition": 0, "replicas": [2]}]}',
    ],
)
def test_what_is_no_plan_is_refused(text: str) -> None:
    with pytest.raises(CommandFailed, match="plan"):
        from_json(text)
