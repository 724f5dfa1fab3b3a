"""The tables of states of share partitions and of share fetches: each transition is one that
happens, and no other is taken.
"""

from collections.abc import Mapping
from enum import Enum

import pytest

from raftka.broker.share import partitions, share_fetch
from raftka.broker.share.partitions import LedSharePartition
from raftka.broker.share.share_fetch import Progress, ShareFetch
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.share_acknowledge import SHARE_ACKNOWLEDGE
from tests.broker.stage import Stage
from tests.kit.broker.share import (
    ShareMember,
    Writes,
    acknowledgement,
    fill,
    initialise,
    move,
    set_up,
    shares,
)
from tests.kit.transitions import recorded

Table = Mapping[Enum, Mapping[Enum, Enum]]
TABLES: list[Table] = [partitions.TRANSITIONS, share_fetch.TRANSITIONS]  # type: ignore[list-item]


def changes(table: Table) -> set[tuple[Enum, Enum]]:
    return {
        (state, following)
        for state, row in table.items()
        for following in row.values()
        if following is not state
    }


@pytest.mark.parametrize("table", TABLES)
def test_each_state_has_a_row_and_all_but_the_first_are_entered(table: Table) -> None:
    states = set(type(next(iter(table))))
    assert set(table) == states
    entered = {following for row in table.values() for following in row.values()}
    assert len(states - entered) <= 1 or states - entered == {Progress.BEGUN}


def test_share_partitions_take_the_transitions_of_their_table() -> None:
    with recorded(LedSharePartition, "state") as seen, shares(), Stage(3) as stage:
        place = set_up(stage, replicas=1)
        first = stage.leader("t")
        ShareMember(stage, "unknown", node_id=first).fetch(place, max_wait_ms=1)
        initialise(stage, "unknown", place)
        ShareMember(stage, "unknown", node_id=first).fetch(place, max_wait_ms=1)
        ShareMember(stage, "g", node_id=first).acquire(place)
        move(stage, next(node_id for node_id in stage.nodes if node_id != first))
    assert seen <= changes(partitions.TRANSITIONS)  # type: ignore[arg-type]
    assert len(seen) >= 5


def test_share_fetches_take_the_transitions_of_their_table() -> None:
    with recorded(ShareFetch, "progress") as seen, shares(), Stage() as stage:
        place = set_up(stage)
        member = ShareMember(stage, "g")
        member.acquire(place)
        member.ask(max_wait_ms=30_000)
        stage.wait(lambda: stage.nodes[1].metrics.parked_share_fetches == 1)
        fill(stage, "t", 1)
        member.answer()
        member.epoch += 1
        member.fetch(acks={place: [(0, 9, [1])]}, max_wait_ms=10)
        member.ask(max_wait_ms=30_000)
        stage.wait(lambda: stage.nodes[1].metrics.parked_share_fetches == 1)
        member.close()
        stage.wait(lambda: stage.nodes[1].metrics.parked_share_fetches == 0)
    assert seen <= changes(share_fetch.TRANSITIONS)  # type: ignore[arg-type]
    assert {before for before, _ in seen} >= set(Progress) - {Progress.WOKEN, Progress.OVER}


def test_a_fenced_write_ends_a_share_partition() -> None:
    with recorded(LedSharePartition, "state") as seen, shares(), Stage() as stage:
        place, member = set_up(stage), ShareMember(stage, "g")
        member.acquire(place)
        writes = Writes(stage)
        member.wire.request(SHARE_ACKNOWLEDGE, acknowledgement(member, place, 0, 4, 1))
        stage.wait(lambda: bool(writes.held))
        writes.end(KafkaError(Code.FENCED_LEADER_EPOCH, "fenced"))
        (topic,) = member.wire.answer(SHARE_ACKNOWLEDGE).responses
        assert topic.partitions[0].error_code == Code.NOT_LEADER_OR_FOLLOWER
    assert (partitions.State.ACTIVE, partitions.State.FENCED) in seen
