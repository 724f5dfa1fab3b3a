"""Counts of partitions, and the moves between successive metadata."""

from raftka.console.cluster.partitions import BAR_MS, BARS, SPAN_MS, Moves, count_partitions
from raftka.console.limits import MOVES
from raftka.json_values import Json
from tests.console.cluster.clusters import metadata, partition

NOW = 1_000_000 * BAR_MS


def test_counts_of_a_cluster_with_a_dead_broker() -> None:
    counts = count_partitions(
        metadata(
            {
                "orders": [partition(0), partition(1, leader=3, isr=(1, 3), replicas=(2, 3, 1))],
                "lost": [partition(0, leader=-1, isr=(2,), replicas=(2,))],
            },
            brokers=(1, 3),
            gone=(2,),
        )
    )
    assert counts.total == 3
    assert counts.offline == [("lost", 0)]
    assert [where for where, _ in counts.under_replicated] == [("orders", 1)]
    assert counts.leaders == {1: 1, 3: 1, -1: 1}
    assert counts.replicas == {1: 2, 2: 3, 3: 2}
    assert counts.lagging == {2: 1}


def test_a_partition_counts_for_the_broker_that_should_lead_it() -> None:
    counts = count_partitions(
        metadata({"orders": [partition(leader=2), partition(1, leader=2, isr=(2, 3))]})
    )
    assert counts.not_preferred == {1: 1}, "of the second the first replica is not in sync"


def latest(moves: Moves, now_ms: int) -> list[str]:
    found: Json = moves.shown(now_ms)["latest"]
    return [f"{each['topic']}-{each['partition']}: {each['text']}" for each in found]


def test_moves_of_leaders_and_replicas() -> None:
    moves = Moves()
    moves.observe(metadata({"orders": [partition(0), partition(1)]}), NOW)
    assert latest(moves, NOW) == []
    lost = partition(1, leader=2, isr=(2, 3), epoch=1)
    moves.observe(metadata({"orders": [partition(0), lost]}), NOW + 1)
    back = partition(1, leader=2, isr=(2, 3, 1), epoch=1)
    moves.observe(metadata({"orders": [partition(0), back]}), NOW + 2)
    assert latest(moves, NOW + 3) == [
        "orders-1: broker 1 came back, 3 of 3 in sync",
        "orders-1: broker 1 fell out, 2 of 3 in sync",
        "orders-1: leader 1 → 2, epoch 1",
    ]
    assert moves.shown(NOW + 3)["bars"][-1] == [1, 1, 1]
    assert moves.shown(NOW + 3)["kinds"] == ("leader", "shrunk", "grown")


def test_a_lost_leader_is_none() -> None:
    moves = Moves()
    moves.observe(metadata({"orders": [partition()]}), NOW)
    moves.observe(metadata({"orders": [partition(leader=-1, isr=(1,), epoch=1)]}), NOW)
    assert "orders-0: leader 1 → none, epoch 1" in latest(moves, NOW)


def test_a_topic_made_anew_has_not_moved() -> None:
    moves = Moves()
    moves.observe(metadata({"orders": [partition()]}), NOW)
    other = "00000000-0000-0000-0000-000000000002"
    moves.observe(metadata({"orders": [partition(leader=2)]}, ids={"orders": other}), NOW)
    assert latest(moves, NOW) == []


def test_bars_move_on_and_leave() -> None:
    moves = Moves()
    moves.observe(metadata({"orders": [partition()]}), NOW)
    moves.observe(metadata({"orders": [partition(leader=2)]}), NOW)
    at = [each[0] for each in moves.shown(NOW + 3 * BAR_MS)["bars"]]
    assert at == [0] * (BARS - 4) + [1, 0, 0, 0]
    later = NOW + SPAN_MS
    assert sum(map(sum, moves.shown(later)["bars"])) == 0
    assert latest(moves, later) == []


def test_metadata_from_before_a_long_pause_tell_no_time_of_a_move() -> None:
    moves = Moves()
    moves.observe(metadata({"orders": [partition()]}), NOW)
    moves.observe(metadata({"orders": [partition(leader=2)]}), NOW + SPAN_MS)
    assert latest(moves, NOW + SPAN_MS) == []


def test_so_many_moves_are_listed_and_all_are_counted() -> None:
    moves, many = Moves(), MOVES.value + 10
    moves.observe(metadata({"orders": [partition(index) for index in range(many)]}), NOW)
    moved = [partition(index, leader=2) for index in range(many)]
    moves.observe(metadata({"orders": moved}), NOW)
    assert len(latest(moves, NOW)) == MOVES.value
    assert moves.shown(NOW)["bars"][-1] == [many, 0, 0]
