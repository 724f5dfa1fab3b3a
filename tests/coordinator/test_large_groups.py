"""Limits of large groups: what is refused before it is looked at, and what ends although it is large."""

from typing import Any

import pytest

from raftka.coordinator.classic.group import ClassicGroup
from raftka.coordinator.commands import (
    CommitOffsets,
    CommitPartition,
    CommitTopic,
    Join,
    Protocol,
)
from raftka.coordinator.consumer.commands import ConsumerHeartbeat
from raftka.coordinator.consumer.group import State
from raftka.coordinator.machine import Outcome
from raftka.wire.errors import Code
from tests.coordinator.test_group_costs import TOPICS, Coordinator, last_session_of_a_consumer_ends
from tests.coordinator.world import LINEAR, counted, outcome_of


def test_a_session_that_ends_while_no_record_can_be_written_is_ended_later() -> None:
    coordinator = Coordinator(3)
    coordinator.gather()
    coordinator.settle()
    coordinator.now = coordinator.machine.deadline()
    while coordinator.machine.deadline() <= coordinator.now:
        assert outcome_of(coordinator.machine.tick(coordinator.context())).records  # refused

    coordinator.wait(5.0)

    assert coordinator.consumers.state is State.EMPTY


def test_records_of_a_large_downgrade_need_not_be_one_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    coordinator = Coordinator(400)
    act = last_session_of_a_consumer_ends(coordinator)
    outcomes: list[Outcome] = []

    def taken(outcome: Outcome) -> None:
        outcomes.append(outcome)
        Coordinator.take(coordinator, outcome)

    monkeypatch.setattr(coordinator, "take", taken)
    act()

    assert isinstance(coordinator.machine.groups["g"], ClassicGroup)
    assert [outcome.atomic for outcome in outcomes if outcome.records] == [False]


def test_a_join_with_very_many_protocols_is_refused_before_they_are_looked_at() -> None:
    def steps(number: int) -> int:
        coordinator = Coordinator(1)
        protocols = tuple([Protocol(f"{place:x}", b"") for place in range(number)])
        with counted() as made:
            refused = coordinator.ask("m", Join("g", "", "i", "c", "/h", 30_000, 60_000, "consumer", protocols))
        assert refused.code is Code.UNKNOWN_SERVER_ERROR
        return made.count

    assert steps(300_000) == steps(30_000) < 1_000


def test_deleted_topics_are_looked_for_once_in_each_group() -> None:
    def steps(number: int) -> int:
        coordinator = Coordinator(TOPICS)
        for group in range(number):
            coordinator.ask("", CommitOffsets(f"g{group}", -1, "", None, (CommitTopic("t0", (CommitPartition(0, 1, -1, None),)),)))
        gone = [(place.to_bytes(16, "big"), f"deleted{place}") for place in range(number)]
        with counted() as made:
            coordinator.take(outcome_of(coordinator.machine.on_image(gone, coordinator.context())))
        return made.count

    assert steps(200) / steps(100) < LINEAR


def test_members_that_leave_do_not_have_all_topics_of_their_expression_hashed() -> None:
    def steps(topics: int) -> int:
        coordinator = Coordinator(100)
        for number in range(topics):
            coordinator.topics.create(f"x{number}", 1)
        joins: Any = (60_000, (), "x.*", None, {})
        for member_id in coordinator.members:
            coordinator.ask(member_id, ConsumerHeartbeat("g", member_id, 0, None, None, "c", "/h", *joins))
        coordinator.wait(1.0)
        assert len(coordinator.consumers.subscribed) == topics
        with counted() as made:
            for member_id in coordinator.members:
                coordinator.beat(member_id, -1)
        return made.count

    assert steps(200) / steps(100) < 1.1
