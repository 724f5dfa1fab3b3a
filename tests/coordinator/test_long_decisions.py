"""Decisions about large groups come in short steps, and their records need not be one batch."""

from collections.abc import Callable
from typing import Any

import pytest

from raftka.coordinator.classic.group import ClassicGroup
from raftka.coordinator.commands import (
    CommitOffsets,
    CommitPartition,
    CommitTopic,
    DeleteGroup,
    FetchOffsets,
)
from raftka.coordinator.consumer.group import State
from raftka.coordinator.machine import Outcome, OutcomeOrSteps
from raftka.coordinator.share.commands import AlterShareOffsets, StateInitialized
from tests.coordinator import large_groups
from tests.coordinator.large_groups import (
    MEMBERS,
    Coordinator,
    consumers_leave_at_once,
    downgrade,
    mixed,
    upgrade,
)
from tests.coordinator.world import counted, outcome_of


def commit(coordinator: Coordinator, group_id: str, offsets: int) -> None:
    if not coordinator.topics.partition_count("read"):
        coordinator.topics.create("read", offsets)
    partitions = tuple([CommitPartition(each, 1) for each in range(offsets)])
    coordinator.ask("", CommitOffsets(group_id, -1, "", None, (CommitTopic("read", partitions),)))


def targets(coordinator: Coordinator) -> Callable[[], Any]:
    coordinator.gather()
    coordinator.settle()
    coordinator.wait(1.0)
    return lambda: coordinator.beat("new", 0)


def delete_group(coordinator: Coordinator) -> Callable[[], Any]:
    commit(coordinator, "g", 20 * MEMBERS)
    return lambda: coordinator.ask("", DeleteGroup("g"))


def fetch_all_offsets(coordinator: Coordinator) -> Callable[[], Any]:
    commit(coordinator, "g", 20 * MEMBERS)
    return lambda: coordinator.ask("", FetchOffsets("g", None))


def offsets_expire(coordinator: Coordinator) -> Callable[[], Any]:
    commit(coordinator, "g", 20 * MEMBERS)
    coordinator.load()
    coordinator.now += coordinator.settings.offsets_retention_ms / 1000
    return lambda: coordinator.wait(0.0)


def topic_deleted(coordinator: Coordinator) -> Callable[[], Any]:
    for group in range(2 * MEMBERS):
        commit(coordinator, f"g{group}", 1)
    topic_id = coordinator.topics.topic_id("read")
    assert topic_id is not None
    return lambda: coordinator.take(
        outcome_of(coordinator.machine.on_image([(topic_id, "read")], coordinator.context()))
    )


def offsets_of_a_share_group_altered(coordinator: Coordinator) -> Callable[[], Any]:
    coordinator.topics.create("shared", 20 * MEMBERS)
    command = AlterShareOffsets("shares", {"shared": dict.fromkeys(range(20 * MEMBERS), 1)})
    return lambda: coordinator.ask("", command)


def share_partitions_initialized(coordinator: Coordinator) -> Callable[[], Any]:
    offsets_of_a_share_group_altered(coordinator)()
    (number,) = coordinator.machine.shares.soft["shares"].asked
    return lambda: coordinator.ask("", StateInitialized("shares", number, {}))


def last_session_of_a_consumer_ends(coordinator: Coordinator) -> Callable[[], Any]:
    """Classic members alone are left: a downgrade."""
    ids = mixed(coordinator)
    for each in ids:
        coordinator.join(each)
    coordinator.wait(28.0)
    for each in ids:
        coordinator.join(each)
    return lambda: coordinator.wait(20.0)


@pytest.mark.parametrize(
    "event",
    [
        upgrade,
        downgrade,
        last_session_of_a_consumer_ends,
        targets,
        consumers_leave_at_once,
        delete_group,
        fetch_all_offsets,
        offsets_expire,
        topic_deleted,
        offsets_of_a_share_group_altered,
        share_partitions_initialized,
    ],
    ids=lambda event: str(event.__name__),
)
def test_a_long_decision_is_many_short_steps(
    event: Callable[[Coordinator], Callable[[], Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    act = event(Coordinator(2 * MEMBERS))
    parts: list[int] = []

    def in_steps(found: OutcomeOrSteps) -> Outcome:
        while not isinstance(found, Outcome):
            with counted() as made:
                try:
                    next(found)
                except StopIteration as stop:
                    found = stop.value
            parts.append(made.count)
        return found

    for module in (large_groups.__name__, __name__):
        monkeypatch.setattr(f"{module}.outcome_of", in_steps)
    act()

    assert len(parts) > 20
    assert max(parts) < sum(parts) / 4  # the record of a classic group is made by one call


def test_a_session_that_ends_while_no_record_can_be_written_is_ended_later() -> None:
    coordinator = Coordinator(3)
    coordinator.gather()
    coordinator.settle()
    coordinator.now = coordinator.machine.deadline()
    while coordinator.machine.deadline() <= coordinator.now:
        assert outcome_of(coordinator.machine.tick(coordinator.context())).records  # refused

    coordinator.wait(5.0)

    assert coordinator.consumers.state is State.EMPTY


def test_records_of_a_large_downgrade_need_not_be_one_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
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
