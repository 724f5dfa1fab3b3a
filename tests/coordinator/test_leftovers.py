"""Strangers that were refused, whose records were refused, or whose group is gone, leave nothing
behind in a coordinator.
"""

import sys
from collections.abc import Iterable
from random import Random

import pytest

from raftka.coordinator.commands import DeleteGroup, GroupSettings, Join, Protocol
from raftka.coordinator.consumer.commands import ConsumerHeartbeat
from raftka.coordinator.groups import GroupCoordinator
from raftka.coordinator.machine import Context, Outcome
from raftka.wire.errors import KafkaError
from tests.coordinator.world import FakeTopics, outcome_of, subscription

LONG_S = 1_000.0


class Counted(FakeTopics):
    asked = 0

    def names(self) -> Iterable[str]:
        self.asked += 1
        return super().names()


class Coordinated:
    def __init__(self) -> None:
        self.machine = GroupCoordinator(GroupSettings())
        self.topics = Counted({"t": 1})

    def at(self, now: float = 1.0) -> Context:
        return Context(now, int(now * 1000), Random(1), self.topics)

    def done(self, outcome: Outcome) -> Outcome:
        for record in outcome.records:
            self.machine.replay(record)
        return outcome

    def beat(self, group_id: str, epoch: int = 0, regex: str | None = None) -> Outcome:
        said = "client", "/host", 1_000, None if regex else ("t",), regex, None
        return outcome_of(
            self.machine.decide(
                ConsumerHeartbeat(
                    group_id, "m", epoch, None, None, *said, {} if epoch == 0 else None
                ),
                "ticket",
                self.at(),
            )
        )

    def join(self, group_id: str) -> Outcome:
        protocols = (Protocol("range", subscription(["t"])),)
        return outcome_of(
            self.machine.decide(
                Join(
                    group_id,
                    "",
                    "instance",
                    "client",
                    "/host",
                    10_000,
                    10_000,
                    "consumer",
                    protocols,
                ),
                "ticket",
                self.at(),
            )
        )


@pytest.fixture
def coordinated() -> Coordinated:
    return Coordinated()


def test_without_its_engine_a_regular_expression_is_refused_with_the_remedy(
    coordinated: Coordinated, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    with pytest.raises(KafkaError, match=r"INVALID_REGULAR_EXPRESSION.*install raftka\[regex\]"):
        coordinated.beat("g", regex="not-seen-before.*")


def test_who_is_refused_leaves_nothing(coordinated: Coordinated) -> None:
    for n in range(100):
        with pytest.raises(KafkaError, match="INVALID_REGULAR_EXPRESSION"):
            coordinated.beat(f"g{n}", regex="((")

    assert coordinated.machine.groups == {}
    assert coordinated.machine.consumers.soft == {}


def test_whose_records_are_refused_leaves_nothing_once_its_session_would_be_over(
    coordinated: Coordinated,
) -> None:
    for n in range(100):
        assert coordinated.beat(f"g{n}").records != ()
    outcome_of(coordinated.machine.tick(coordinated.at(LONG_S)))

    assert coordinated.machine.groups == {}
    assert coordinated.machine.consumers.soft == {}


def test_a_group_that_is_gone_leaves_nothing(coordinated: Coordinated) -> None:
    coordinated.done(coordinated.beat("g"))
    coordinated.done(coordinated.beat("g", epoch=-1))
    coordinated.done(
        outcome_of(coordinated.machine.decide(DeleteGroup("g"), "ticket", coordinated.at()))
    )
    outcome_of(coordinated.machine.tick(coordinated.at(LONG_S)))

    assert coordinated.machine.groups == {}
    assert coordinated.machine.consumers.soft == {}


def test_a_member_whose_records_were_refused_does_not_come_back_with_the_group_s_end(
    coordinated: Coordinated,
) -> None:
    """A classic one joined a consumer group without members, and nothing of that was written."""
    coordinated.done(coordinated.beat("g"))
    coordinated.done(coordinated.beat("g", epoch=-1))
    assert coordinated.join("g").records != ()
    coordinated.done(
        outcome_of(coordinated.machine.decide(DeleteGroup("g"), "ticket", coordinated.at()))
    )

    assert coordinated.machine.groups == {}


def test_it_has_its_place_when_they_are_written(coordinated: Coordinated) -> None:
    coordinated.done(coordinated.beat("g"))
    coordinated.done(coordinated.beat("g", epoch=-1))
    coordinated.done(coordinated.join("g"))

    assert len(coordinated.machine.groups["g"].members) == 1


def test_the_names_of_topics_are_there_once_however_many_groups_look_through_them(
    coordinated: Coordinated,
) -> None:
    for n in range(50):
        coordinated.done(coordinated.beat(f"g{n}", regex="t.*"))
    coordinated.machine.consumers.resolutions.clear()
    before = coordinated.topics.asked
    outcome_of(coordinated.machine.on_image([], coordinated.at(LONG_S)))

    assert len(coordinated.machine.consumers.resolutions) == 50
    assert coordinated.topics.asked == before + 1
