"""The cost of large groups: with twice as many members, the requests of all of them cost twice as
much, not four times. Steps are counted, not seconds.
"""

import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from raftka.coordinator.commands import (
    CommitOffsets,
    CommitPartition,
    CommitTopic,
    DescribeGroup,
    Heartbeat,
    Join,
    Leave,
    LeavingMember,
    ListGroups,
    Protocol,
    Sync,
)
from raftka.coordinator.consumer.commands import ConsumerHeartbeat, DescribeConsumerGroup
from raftka.coordinator.consumer.group import State
from raftka.wire.errors import Code
from tests.coordinator.large_groups import (
    MEMBERS,
    TOPICS,
    Coordinator,
    consumers_leave_at_once,
    downgrade,
    mixed,
    upgrade,
)
from tests.coordinator.world import LINEAR, FakeTopics, counted, outcome_of


def classic_join_and_sync(coordinator: Coordinator) -> Callable[[], Any]:
    return coordinator.form


def classic_heartbeats(coordinator: Coordinator) -> Callable[[], Any]:
    ids = coordinator.form()
    return lambda: [coordinator.ask(each, Heartbeat("g", 1, each, None)) for each in ids]


def classic_rebalance(coordinator: Coordinator) -> Callable[[], Any]:
    ids = coordinator.form()

    def rejoin() -> None:
        for each in ids:
            coordinator.join(each)
        leader = next(each for each in ids if coordinator.answers[each].leader == each)
        for each in ids:
            coordinator.ask(
                each,
                Sync(
                    "g",
                    2,
                    each,
                    None,
                    "consumer",
                    "range",
                    tuple([(each, b"x") for each in ids]) if each == leader else (),
                ),
            )

    return rejoin


def classic_leave_at_once(coordinator: Coordinator) -> Callable[[], Any]:
    ids = coordinator.form()
    return lambda: coordinator.ask(
        "admin", Leave("g", tuple([LeavingMember(each, None) for each in ids]))
    )


def classic_leave_one_by_one(coordinator: Coordinator) -> Callable[[], Any]:
    ids = coordinator.form()
    return lambda: [coordinator.ask(each, Leave("g", (LeavingMember(each, None),))) for each in ids]


def classic_sessions_end(coordinator: Coordinator) -> Callable[[], Any]:
    coordinator.form()
    return lambda: coordinator.wait(200.0)


def classic_load(coordinator: Coordinator) -> Callable[[], Any]:
    coordinator.form()
    return coordinator.load


def classic_describe(coordinator: Coordinator) -> Callable[[], Any]:
    coordinator.form()
    return lambda: (
        coordinator.ask("admin", DescribeGroup("g")),
        coordinator.ask("admin", ListGroups()),
    )


def consumer_joins(coordinator: Coordinator) -> Callable[[], Any]:
    return coordinator.gather


def consumers_settle(coordinator: Coordinator) -> Callable[[], Any]:
    coordinator.gather()
    return coordinator.settle


def consumer_heartbeats(coordinator: Coordinator) -> Callable[[], Any]:
    coordinator.gather()
    coordinator.settle()
    assert coordinator.consumers.state is State.STABLE
    return lambda: [
        coordinator.beat(each, coordinator.answers[each].epoch) for each in coordinator.members
    ]


def consumers_rejoin(coordinator: Coordinator) -> Callable[[], Any]:
    coordinator.gather()
    coordinator.settle()
    return lambda: [coordinator.beat(each, 0) for each in coordinator.members]


def consumers_leave_one_by_one(coordinator: Coordinator) -> Callable[[], Any]:
    coordinator.gather()
    coordinator.settle()
    return lambda: [coordinator.beat(each, -1) for each in coordinator.members]


def consumer_sessions_end(coordinator: Coordinator) -> Callable[[], Any]:
    coordinator.gather()
    coordinator.settle()
    return lambda: coordinator.wait(50.0)


def consumers_load(coordinator: Coordinator) -> Callable[[], Any]:
    coordinator.gather()
    coordinator.settle()
    return coordinator.load


def consumers_describe(coordinator: Coordinator) -> Callable[[], Any]:
    coordinator.gather()
    coordinator.settle()
    return lambda: (
        coordinator.ask("admin", DescribeConsumerGroup("g")),
        coordinator.ask("admin", ListGroups()),
    )


def classic_members_of_a_consumer_group_rejoin(coordinator: Coordinator) -> Callable[[], Any]:
    ids = mixed(coordinator)
    return lambda: [coordinator.join(each) for each in ids]


def classic_members_of_a_consumer_group_leave_one_by_one(
    coordinator: Coordinator,
) -> Callable[[], Any]:
    ids = mixed(coordinator)
    return lambda: [coordinator.ask(each, Leave("g", (LeavingMember(each, None),))) for each in ids]


EVENTS = [
    classic_join_and_sync,
    classic_heartbeats,
    classic_rebalance,
    classic_leave_at_once,
    classic_leave_one_by_one,
    classic_sessions_end,
    classic_load,
    classic_describe,
    consumer_joins,
    consumers_settle,
    consumer_heartbeats,
    consumers_rejoin,
    consumers_leave_at_once,
    consumers_leave_one_by_one,
    consumer_sessions_end,
    consumers_load,
    consumers_describe,
    upgrade,
    classic_members_of_a_consumer_group_rejoin,
    classic_members_of_a_consumer_group_leave_one_by_one,
    downgrade,
]


def steps_of(event: Callable[[Coordinator], Callable[[], Any]], members: int) -> int:
    act = event(Coordinator(members))
    with counted() as steps:
        act()
    return steps.count


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: str(event.__name__))
def test_what_all_members_of_a_group_ask_costs_in_proportion_to_their_number(
    event: Callable[[Coordinator], Callable[[], Any]],
) -> None:
    once, twice = steps_of(event, MEMBERS), steps_of(event, 2 * MEMBERS)

    assert once >= MEMBERS
    assert twice / once < LINEAR


def memory_of_a_change(members: int) -> int:
    """Bytes, while one member of a group that is not settled gets what is free."""
    coordinator = Coordinator(members)
    coordinator.gather()
    first, last = coordinator.members[0], coordinator.members[-1]
    coordinator.beat(first, coordinator.answers[first].epoch, {})
    epoch = coordinator.answers[last].epoch
    tracemalloc.start()
    try:
        outcome = outcome_of(
            coordinator.machine.decide(
                ConsumerHeartbeat(
                    "g", last, epoch, None, None, "c", "/h", -1, None, None, None, None
                ),
                "last",
                coordinator.context(),
            )
        )
        assert outcome.records
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_what_one_member_changes_is_decided_without_a_copy_of_all_members() -> None:
    assert memory_of_a_change(2000) < 1.5 * memory_of_a_change(200)


def test_a_rebalance_does_not_read_what_its_members_subscribe_to() -> None:
    def steps(topics: int) -> int:
        coordinator = Coordinator(MEMBERS)
        coordinator.topics = FakeTopics({f"t{number}": 1 for number in range(topics)})
        for member_id in coordinator.members:
            coordinator.join("", member_id)
        with counted() as made:
            coordinator.wait(5.0)
        return made.count

    assert steps(20 * TOPICS) / steps(TOPICS) < 1.1


def test_topics_that_many_consumers_name_are_counted_once() -> None:
    def steps(topics: int) -> int:
        coordinator = Coordinator(MEMBERS)
        for number in range(topics):
            coordinator.topics.create(f"x{number}", 1)
        names = tuple(coordinator.topics.names())
        for member_id in coordinator.members:
            coordinator.ask(
                member_id,
                ConsumerHeartbeat(
                    "g", member_id, 0, None, None, "c", "/h", 60_000, names, None, None, {}
                ),
            )
        assert coordinator.consumers.subscribed == set(names)
        with counted() as made:
            coordinator.ask(
                "admin",
                Leave("g", tuple([LeavingMember(each, None) for each in coordinator.members[1:]])),
            )
        return made.count

    assert steps(200) / steps(100) < 1.1


def test_a_join_with_very_many_protocols_is_refused_before_they_are_looked_at() -> None:
    def steps(number: int) -> int:
        coordinator = Coordinator(1)
        protocols = tuple([Protocol(f"{place:x}", b"") for place in range(number)])
        with counted() as made:
            refused = coordinator.ask(
                "m", Join("g", "", "i", "c", "/h", 30_000, 60_000, "consumer", protocols)
            )
        assert refused.code is Code.UNKNOWN_SERVER_ERROR
        return made.count

    assert steps(300_000) == steps(30_000) < 1_000


def test_deleted_topics_are_looked_for_once_in_each_group() -> None:
    def steps(number: int) -> int:
        coordinator = Coordinator(TOPICS)
        for group in range(number):
            coordinator.ask(
                "",
                CommitOffsets(
                    f"g{group}",
                    -1,
                    "",
                    None,
                    (CommitTopic("t0", (CommitPartition(0, 1, -1, None),)),),
                ),
            )
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
            coordinator.ask(
                member_id, ConsumerHeartbeat("g", member_id, 0, None, None, "c", "/h", *joins)
            )
        coordinator.wait(1.0)
        assert len(coordinator.consumers.subscribed) == topics
        with counted() as made:
            for member_id in coordinator.members:
                coordinator.beat(member_id, -1)
        return made.count

    assert steps(200) / steps(100) < 1.1
