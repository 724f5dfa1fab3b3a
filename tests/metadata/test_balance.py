"""Plans of balance: even, with racks apart, few bytes moved, the same each time."""

import sys
from collections import Counter
from collections.abc import Mapping
from random import Random
from types import FrameType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftka.metadata.balance import (
    EVEN,
    BalancedBroker,
    BalancedPartition,
    Evenness,
    Move,
    Unbalanced,
    Where,
    distance,
    measure,
    plan_balance,
)

Partitions = Mapping[Where, BalancedPartition]
THREE = ([1, 2, 3], [2, 3, 1], [3, 1, 2])


def cluster(count: int, seed: int = 1, largest: int = 10**8) -> Partitions:
    """Partitions of any size with three replicas on brokers 1 to 3."""
    random = Random(seed)
    return {
        (f"t{i % 7}", i): BalancedPartition(
            THREE[i % 3], random.randint(0, largest), random.random() * 10**6
        )
        for i in range(count)
    }


def brokers(*node_ids: int, racks: str = "", leaving: int = 0) -> dict[int, BalancedBroker]:
    return {
        node_id: BalancedBroker(racks[i] if racks else None, node_id != leaving)
        for i, node_id in enumerate(node_ids)
    }


def moved(partitions: Partitions, moves: list[Move]) -> Partitions:
    return {
        **partitions,
        **{each.where: partitions[each.where]._replace(replicas=each.after) for each in moves},
    }


def after(partitions: Partitions, of: Mapping[int, BalancedBroker]) -> Evenness:
    return measure(moved(partitions, plan_balance(partitions, of)), of)


def test_a_fourth_broker_takes_its_share_and_hardly_more_is_copied() -> None:
    partitions, of = cluster(1_000), brokers(1, 2, 3, 4)
    moves = plan_balance(partitions, of)
    even = measure(moved(partitions, moves), of)

    assert even.unevenness <= EVEN
    assert distance(even.rates.values()) <= EVEN
    total = sum(3 * each.size for each in partitions.values())
    assert sum(each.copied for each in moves) <= total / 4


def test_a_plan_is_the_same_each_time() -> None:
    partitions, of = cluster(200), brokers(4, 1, 3, 2)
    turned = dict(sorted(partitions.items(), reverse=True))
    others = dict(sorted(of.items(), reverse=True))

    assert plan_balance(partitions, of) == plan_balance(turned, others)


@pytest.mark.parametrize("count", [3, 300])
def test_an_even_cluster_is_left_alone(count: int) -> None:
    partitions = {("t", i): BalancedPartition(THREE[i % 3], 1000, 10.0) for i in range(count)}

    assert plan_balance(partitions, brokers(1, 2, 3)) == []


def test_a_balanced_cluster_needs_nothing_more() -> None:
    partitions, of = cluster(500), brokers(1, 2, 3, 4)
    again = moved(partitions, plan_balance(partitions, of))

    assert [each for each in plan_balance(again, of) if each.copied] == []


def test_empty_partitions_are_spread_by_their_number() -> None:
    partitions = {("t", i): BalancedPartition([1, 2]) for i in range(40)}
    even = after(partitions, brokers(1, 2, 3, 4))
    assert set(even.leaders.values()) == {10}


def test_leaders_alone_cost_no_bytes() -> None:
    partitions = {("t", i): BalancedPartition([1, 2, 3], 10**6) for i in range(30)}
    moves = plan_balance(partitions, brokers(1, 2, 3))

    assert sum(each.copied for each in moves) == 0
    assert set(after(partitions, brokers(1, 2, 3)).leaders.values()) == {10}


def test_leaders_go_along_a_chain_where_no_single_turn_helps() -> None:
    """Broker 1 shares partitions with 2 alone, and 2 with 3."""
    partitions = {("a", i): BalancedPartition([1, 2], 10) for i in range(4)} | {
        ("b", i): BalancedPartition([2, 3], 10) for i in range(2)
    }
    rooms = brokers(1, 2, 3)

    leaders = after(partitions, rooms).leaders
    assert sorted(leaders.values()) == [2, 2, 2]


def test_a_broker_that_leaves_keeps_nothing() -> None:
    partitions, of = cluster(100), brokers(1, 2, 3, 4, leaving=2)
    result = moved(partitions, plan_balance(partitions, of))

    assert all(2 not in each.replicas for each in result.values())
    assert measure(result, of).unevenness <= EVEN


def test_too_few_brokers_are_refused() -> None:
    with pytest.raises(
        Unbalanced, match=r"3 replicas, too many for the brokers that may have them \(1, 2\)"
    ):
        plan_balance(cluster(1), brokers(1, 2, 3, leaving=3))


@given(
    st.lists(
        st.tuples(
            st.lists(st.integers(0, 8), min_size=1, max_size=3, unique=True),
            st.integers(0, 10**6),
            st.floats(0, 1000),
        ),
        min_size=1,
        max_size=40,
    ),
    st.lists(st.sampled_from("abcd"), min_size=9, max_size=9),
    st.integers(0, 9),
)
def test_replicas_stay_as_many_and_as_far_apart_as_racks_allow(
    rows: list[tuple[list[int], int, float]], letters: list[str], leaving: int
) -> None:
    partitions = {("t", i): BalancedPartition(*row) for i, row in enumerate(rows)}
    of = brokers(*range(9), racks="".join(letters), leaving=leaving)
    takes = {letters[node_id] for node_id, each in of.items() if each.takes}

    for where, each in moved(partitions, plan_balance(partitions, of)).items():
        assert len(set(each.replicas)) == len(partitions[where].replicas)
        assert leaving not in each.replicas
        racks = Counter(letters[one] for one in each.replicas)
        assert max(racks.values()) <= -(-len(each.replicas) // len(takes))


@given(
    st.lists(st.integers(0, 10**6), min_size=1, max_size=60), st.integers(1, 3), st.integers(0, 99)
)
def test_no_plan_makes_the_fullest_broker_fuller(sizes: list[int], factor: int, seed: int) -> None:
    random = Random(seed)
    partitions = {
        ("t", i): BalancedPartition(random.sample(range(1, 6), factor), size)
        for i, size in enumerate(sizes)
    }
    of = brokers(1, 2, 3, 4, 5)
    allowed = max(1, sum(sizes) * factor // 100)  # the weight of the number of replicas

    before = max(measure(partitions, of).sizes.values())
    assert max(after(partitions, of).sizes.values()) <= before + allowed


def test_time_is_linear_in_the_partitions() -> None:
    """Calls of Python functions, of n and of 4n partitions."""

    def calls(count: int) -> int:
        partitions, of, made = cluster(count), brokers(1, 2, 3, 4), 0

        def count_call(_frame: FrameType, event: str, _argument: object) -> None:
            nonlocal made
            made += event in ("call", "c_call")

        sys.setprofile(count_call)
        try:
            plan_balance(partitions, of)
        finally:
            sys.setprofile(None)
        return made

    assert calls(2_000) < 6 * calls(500)
