"""Placement: every replica on its own broker, leaders and followers spread evenly, racks too."""

from collections import Counter
from random import Random

import pytest

from raftka.metadata.placement import Place, place


def brokers(*racks: str | None) -> list[Place]:
    return [(10 + number, rack) for number, rack in enumerate(racks)]


@pytest.mark.parametrize("count", [1, 2, 3, 5, 9])
@pytest.mark.parametrize("factor", [1, 2, 3])
@pytest.mark.parametrize("seed", range(5))
def test_replicas_are_distinct_and_leaders_even(count: int, factor: int, seed: int) -> None:
    if factor > count:
        return
    placed = place(30, factor, brokers(*[None] * count), Random(seed))

    assert all(len(set(replicas)) == factor for replicas in placed)
    leads = Counter(replicas[0] for replicas in placed)
    assert max(leads.values()) - min(leads.values()) <= 1
    assert len(leads) == count


def test_the_followers_of_one_leader_are_not_always_the_same() -> None:
    """So that its partitions do not all move to one neighbour when it dies."""
    placed = place(40, 2, brokers(*[None] * 5), Random(1))

    for leader in range(10, 15):
        assert len({replicas[1] for replicas in placed if replicas[0] == leader}) == 4


@pytest.mark.parametrize("seed", range(20))
def test_a_partition_is_on_as_many_racks_as_there_are(seed: int) -> None:
    racks = dict(zip(range(10, 17), "aaabbcc", strict=True))
    for factor in (2, 3, 4):
        for replicas in place(20, factor, list(racks.items()), Random(seed)):
            assert len(set(replicas)) == factor
            assert len({racks[each] for each in replicas}) == min(factor, 3)


def test_topics_of_one_partition_do_not_all_begin_at_the_same_broker() -> None:
    random = Random(1)
    firsts = Counter(place(1, 1, brokers(None, None, None), random)[0][0] for _ in range(300))

    assert min(firsts.values()) > 60
