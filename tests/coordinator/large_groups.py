"""Coordinators of large groups, and events that concern all members."""

from collections.abc import Callable
from random import Random
from typing import Any

from raftka.coordinator.classic.group import ClassicGroup
from raftka.coordinator.commands import GroupSettings, Join, Leave, LeavingMember, Protocol, Sync
from raftka.coordinator.consumer.commands import ConsumerHeartbeat
from raftka.coordinator.consumer.group import ConsumerGroup
from raftka.coordinator.groups import GroupCoordinator
from raftka.coordinator.machine import Context, Outcome, Record
from raftka.coordinator.protocol import write_assignment
from raftka.wire.errors import KafkaError
from tests.coordinator.world import FakeTopics, outcome_of, subscription

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


def consumers_leave_at_once(coordinator: Coordinator) -> Callable[[], Any]:
    coordinator.gather()
    coordinator.settle()
    return lambda: coordinator.ask(
        "admin", Leave("g", tuple([LeavingMember(each, None) for each in coordinator.members]))
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


def downgrade(coordinator: Coordinator) -> Callable[[], Any]:
    mixed(coordinator)

    def leave() -> None:
        coordinator.beat("new", -1)
        coordinator.wait(0.1)

    return leave
