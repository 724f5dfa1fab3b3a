"""What large groups cost: with twice as many members, what all of them ask costs twice as much, not
four times. Steps are counted, not seconds.
"""

import tracemalloc
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from raftka.coordinator.classic.group import ClassicGroup
from raftka.coordinator.commands import (
    CommitOffsets,
    CommitPartition,
    CommitTopic,
    DescribeGroup,
    GroupSettings,
    Heartbeat,
    Join,
    Leave,
    LeavingMember,
    ListGroups,
    Protocol,
    Sync,
)
from raftka.coordinator.consumer.commands import ConsumerHeartbeat, DescribeConsumerGroup
from raftka.coordinator.consumer.group import ConsumerGroup, State
from raftka.coordinator.groups import GroupCoordinator
from raftka.coordinator.machine import Context, Outcome, Record
from raftka.coordinator.protocol import write_assignment
from raftka.wire.errors import Code, KafkaError
from tests.coordinator.world import LINEAR, FakeTopics, counted, outcome_of, subscription

MEMBERS = 150
TOPICS = 4


class Coordinator:
    """A coordinator with one group of n members and a partition for each."""

    def __init__(self, members: int) -> None:
        self.members = [f"m{number:05}" for number in range(members)]
        self.topics = FakeTopics({f"t{number}": members // TOPICS for number in range(TOPICS)})
        self.now = 100.0
        self.random = Random(1)
        self.log: list[Record] = []
        self.answers: dict[str, Any] = {}
        self.settings = GroupSettings(initial_rebalance_delay_ms=1000)
        self.machine = GroupCoordinator(self.settings)

    def context(self) -> Context:
        return Context(self.now, round(self.now * 1000), self.random, self.topics)

    def ask(self, who: str, command: Any) -> Any:
        try:
            self.take(outcome_of(self.machine.decide(command, who, self.context())))
        except KafkaError as error:
            self.answers[who] = error
        return self.answers.get(who)

    def take(self, outcome: Outcome) -> None:
        for record in outcome.records:
            self.log.append(record)
            self.machine.replay(record)
        self.answers.update({str(ticket): answer for ticket, answer in outcome.replies})

    def wait(self, seconds: float) -> None:
        until = self.now + seconds
        while (when := max(self.machine.deadline(), self.now)) <= until:
            self.now = when
            self.take(outcome_of(self.machine.tick(self.context())))
        self.now = until

    def load(self) -> None:
        """Another coordinator."""
        self.machine = GroupCoordinator(self.settings)
        for record in self.log:
            self.machine.replay(record)
        self.take(self.machine.loaded(self.context()))

    # classic members

    def join(self, member_id: str, who: str = "", instance_id: str | None = None) -> Any:
        protocols = (Protocol("range", subscription(self.topics.names())),)
        return self.ask(
            who or member_id,
            Join(
                "g",
                member_id,
                instance_id,
                "c",
                "/h",
                30_000,
                60_000,
                "consumer",
                protocols,
                needs_member_id=False,
            ),
        )

    def form(self) -> list[str]:
        """A classic group that is stable."""
        for member_id in self.members:
            self.join("", member_id)
        self.wait(5.0)
        joined = [self.answers[member_id] for member_id in self.members]
        (leader,) = {each.leader for each in joined}
        ids = [each.member_id for each in joined]
        shares = tuple(
            [(each, write_assignment({"t0": (place,)}, 0)) for place, each in enumerate(ids)]
        )
        for member_id in ids:
            self.ask(
                member_id,
                Sync(
                    "g",
                    1,
                    member_id,
                    None,
                    "consumer",
                    "range",
                    shares if member_id == leader else (),
                ),
            )
        assert isinstance(group := self.machine.groups["g"], ClassicGroup)
        assert group.state == "Stable"
        return ids

    # consumers

    def beat(self, member_id: str, epoch: int, owned: Any = None) -> Any:
        joins = epoch == 0
        said = (
            (60_000, tuple(f"t{number}" for number in range(TOPICS)), None, None, {})
            if joins
            else (-1, None, None, None, owned)
        )
        return self.ask(
            member_id, ConsumerHeartbeat("g", member_id, epoch, None, None, "c", "/h", *said)
        )

    def gather(self) -> None:
        """A consumer group whose members have all joined within the interval of assignments, and
        settle after it.
        """
        for member_id in self.members:
            self.beat(member_id, 0)
        self.wait(1.0)

    def settle(self) -> None:
        """Each member gives up what it must, and gets what is free."""
        for _ in range(3):
            for member_id in self.members:
                answer = self.answers[member_id]
                owned = (
                    None
                    if answer.assignment is None
                    else {topic_id: frozenset(each) for topic_id, each in answer.assignment.items()}
                )
                self.beat(member_id, answer.epoch, owned)

    @property
    def consumers(self) -> ConsumerGroup:
        group = self.machine.groups["g"]
        assert isinstance(group, ConsumerGroup)
        return group


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


def consumers_leave_at_once(coordinator: Coordinator) -> Callable[[], Any]:
    coordinator.gather()
    coordinator.settle()
    return lambda: coordinator.ask(
        "admin", Leave("g", tuple([LeavingMember(each, None) for each in coordinator.members]))
    )


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


def upgrade(coordinator: Coordinator) -> Callable[[], Any]:
    coordinator.form()
    return lambda: coordinator.beat("new", 0)


def mixed(coordinator: Coordinator) -> list[str]:
    ids = coordinator.form()
    coordinator.beat("new", 0)
    assert len(coordinator.consumers.members) == len(ids) + 1
    coordinator.wait(1.0)
    return ids


def classic_members_of_a_consumer_group_rejoin(coordinator: Coordinator) -> Callable[[], Any]:
    ids = mixed(coordinator)
    return lambda: [coordinator.join(each) for each in ids]


def classic_members_of_a_consumer_group_leave_one_by_one(
    coordinator: Coordinator,
) -> Callable[[], Any]:
    ids = mixed(coordinator)
    return lambda: [coordinator.ask(each, Leave("g", (LeavingMember(each, None),))) for each in ids]


def downgrade(coordinator: Coordinator) -> Callable[[], Any]:
    mixed(coordinator)

    def leave() -> None:
        coordinator.beat("new", -1)
        coordinator.wait(0.1)

    return leave


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
