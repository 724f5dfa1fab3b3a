"""Placement: every replica on its own broker, leaders and followers spread evenly, racks too."""

from collections import Counter
from random import Random

import pytest

from raftka.metadata.controller.assignment import Place, choose, place
from raftka.metadata.image import MetadataImage
from raftka.metadata.records import (
    BrokerFenced,
    BrokerRegistered,
    BrokerShuttingDown,
    BrokerUnfenced,
    Record,
)
from raftka.wire.errors import KafkaError


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


@pytest.mark.parametrize("seed", range(20))
def test_a_fenced_broker_gets_replicas_only_if_needed_and_never_the_first(seed: int) -> None:
    alive, fenced = brokers(None, None, None), [(20, None), (21, None)]
    for factor, expected in ((2, 0), (3, 0), (4, 1), (5, 2)):
        for replicas in place(10, factor, alive, Random(seed), fenced):
            assert sum(each >= 20 for each in replicas) == expected
            assert replicas[0] < 20
            assert len(set(replicas)) == factor


@pytest.mark.parametrize("seed", range(20))
def test_another_rack_is_worth_more_than_being_there_right_now(seed: int) -> None:
    alive = brokers("a", "a", "b")
    for replicas in place(10, 3, alive, Random(seed), [(20, "c"), (21, "c")]):
        assert len(set(replicas) & {20, 21}) == 1
        assert replicas[0] < 20


def test_the_replicas_on_fenced_brokers_are_spread_too() -> None:
    fenced: list[Place] = [(20, None), (21, None), (22, None)]
    placed = place(30, 2, brokers(None), Random(1), fenced)

    assert Counter(replicas[1] for replicas in placed) == {20: 10, 21: 10, 22: 10}


@pytest.mark.parametrize(
    ("racks", "factor"), [("abc", 3), ("aabbcc", 3), ("aabbcc", 2), ("aaabbb", 2), ("aaabbbccc", 3)]
)
def test_with_racks_of_equal_size_every_broker_has_about_as_many_replicas(
    racks: str, factor: int
) -> None:
    placed = place(600, factor, brokers(*racks), Random(1))

    share = 600 * factor / len(racks)
    counts = Counter(each for replicas in placed for each in replicas)
    assert min(counts.values()) > 0.8 * share
    assert max(counts.values()) < 1.2 * share


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(
    ("racks", "factor", "most"),
    [
        ("aabb", 3, 2),
        ("aabb", 4, 2),
        ("aaabbb", 4, 2),
        ("aaabbbccc", 5, 2),
        ("aaab", 3, 2),
        ("aaab", 4, 3),
    ],
)
def test_more_replicas_than_racks_are_spread_evenly_over_the_racks(
    racks: str, factor: int, most: int, seed: int
) -> None:
    """As Kafka's placer does."""
    rack_of = dict(enumerate(racks, 10))
    for replicas in place(20, factor, list(rack_of.items()), Random(seed)):
        assert len(set(replicas)) == factor
        assert max(Counter(rack_of[each] for each in replicas).values()) == most


def hosts(leaving: set[int] = frozenset(), fenced: set[int] = frozenset()) -> MetadataImage:  # type: ignore[assignment]
    """Three hosts of two brokers, 1 to 6."""
    image = MetadataImage()
    for broker_id in range(1, 7):
        registered = BrokerRegistered(
            broker_id, b"i" * 16, b"%d" % broker_id * 16, (), f"host-{(broker_id + 1) // 2}"
        )
        offset = image.offset + 1
        records: list[Record] = [registered, BrokerUnfenced(broker_id, offset)]
        records += [BrokerShuttingDown(broker_id, offset)] * (broker_id in leaving) + [
            BrokerFenced(broker_id, offset)
        ] * (broker_id in fenced)
        image, _ = image.apply(offset, records)
    return image


def host_of(broker_id: int) -> int:
    return (broker_id + 1) // 2


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(
    ("leaving", "fenced"),
    [
        (set(), set()),
        ({6}, set()),
        ({5, 6}, set()),
        ({5, 6}, {5, 6}),
        ({5}, {6}),
        (set(), {5, 6}),
        ({1, 2}, {3}),
    ],
)
def test_replicas_never_share_a_host_also_while_one_is_restarted(
    leaving: set[int], fenced: set[int], seed: int
) -> None:
    image = hosts(leaving, fenced)
    for replicas, isr, leader in choose(image, 12, 3, Random(seed)):
        assert sorted(map(host_of, replicas)) == [1, 2, 3]
        assert all(image.alive(each) for each in isr)
        assert leader == isr[0]
        assert set(isr) == {each for each in replicas if image.alive(each)}


@pytest.mark.parametrize("seed", range(5))
def test_a_broker_that_leaves_gets_no_replica_where_others_do(seed: int) -> None:
    for factor, leaving in ((3, {5}), (2, {5, 6}), (1, {1, 2, 3})):
        assert not leaving & {
            each
            for replicas, _, _ in choose(hosts(leaving), 12, factor, Random(seed))
            for each in replicas
        }


def test_brokers_that_leave_do_not_count_for_the_replication_factor() -> None:
    with pytest.raises(KafkaError, match="only 4 broker"):
        choose(hosts({5, 6}), 1, 5, Random(1))
