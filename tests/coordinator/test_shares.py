"""Share groups under random histories: only initialised partitions are assigned, all of them are at
last, and no call that is late resets what members read; and the simple assignor.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from raftka.broker.work.long_work import drained
from raftka.coordinator.commands import DeleteGroup, GroupSettings
from raftka.coordinator.consumer.commands import Target
from raftka.coordinator.groups import GroupCoordinator
from raftka.coordinator.machine import Context, Outcome, Record
from raftka.coordinator.share.assignor import assign_simple
from raftka.coordinator.share.commands import (
    AlterShareOffsets,
    DeleteState,
    InitializeState,
    Place,
    ShareBeat,
    ShareHeartbeat,
    ShareSettings,
    StateDeleted,
    StateInitialized,
)
from raftka.limits import SHARE_STATE_BYTES_OF_GROUP
from raftka.wire.errors import Code, KafkaError, LimitRefused
from tests.coordinator.world import FakeTopics, counted, outcome_of, share_view

SETTINGS = GroupSettings(share=ShareSettings(assignment_interval_ms=0, initialize_retry_ms=3_000))
TOPICS = ("t", "u", "v")
Call = InitializeState | DeleteState


class World:
    """A coordinator, its successors, and a share coordinator that answers late or never."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.topics = FakeTopics({"t": 3, "u": 2})
        self.now = 0.0
        self.log: list[Record] = []
        # calls that no share coordinator has seen yet, each with the machine that made it
        self.calls: list[tuple[GroupCoordinator, Call]] = []
        self.states: dict[Place, int] = {}  # state epochs that the share coordinator has
        self.read: dict[Place, int] = {}  # and those that leaders have read, since it was assigned
        self.epochs: dict[str, int] = {}  # of members
        self.answers: dict[object, Any] = {}
        self.machine = self.successor()

    def successor(self) -> GroupCoordinator:
        machine: GroupCoordinator
        machine = GroupCoordinator(SETTINGS, lambda call, failure: self.called(machine, call))
        for record in self.log:
            machine.replay(record)
        self.machine = machine
        self.take(machine.loaded(self.context()))
        return machine

    def context(self) -> Context:
        return Context(self.now, 1_000_000 + round(self.now * 1000), self.random, self.topics)

    def called(self, machine: GroupCoordinator, call: Call) -> None:
        self.calls.append((machine, call))

    def take(self, outcome: Outcome) -> None:
        for record in outcome.records:
            self.log.append(record)
            self.machine.replay(record)
        for ticket, answer in outcome.replies:
            if callable(ticket):
                ticket(answer)
            else:
                self.answers[ticket] = answer

    def decide(self, command: object, ticket: object) -> Any:
        self.answers.pop(ticket, None)
        try:
            self.take(outcome_of(self.machine.decide(command, ticket, self.context())))
        except KafkaError as error:
            self.answers[ticket] = error
        return self.answers.get(ticket)

    # what happens

    def beat(self, name: str, topics: tuple[str, ...] | None = None) -> None:
        epoch = self.epochs.get(name, 0)
        if epoch == 0 and topics is None:
            topics = tuple(self.random.sample(TOPICS, self.random.randint(1, 3)))
        command = ShareHeartbeat("g", name, epoch, None, "c", "/h", topics)
        answer = self.decide(command, name)
        if isinstance(answer, ShareBeat):
            self.epochs[name] = answer.epoch
            for topic_id, indexes in (answer.assignment or {}).items():
                for index in indexes:
                    self.read_state((topic_id, index))
        else:
            self.epochs.pop(name, None)

    def read_state(self, place: Place) -> None:
        """A leader reads the state of what a member was assigned."""
        assert place in self.states, "a partition was assigned that is not initialised"
        self.read.setdefault(place, self.states[place])

    def leave(self, name: str) -> None:
        if name in self.epochs:
            self.decide(ShareHeartbeat("g", name, -1, None, "c", "/h", None), name)
            del self.epochs[name]
            if not self.epochs:
                self.read.clear()

    def share_coordinator_carries_out(self) -> None:
        """The oldest call of a coordinator is carried out first; those of two coordinators are in
        any order.
        """
        if not self.calls:
            return
        machine = self.random.choice(self.calls)[0]
        at = next(i for i, (maker, _) in enumerate(self.calls) if maker is machine)
        _, call = self.calls.pop(at)
        errors: dict[Place, KafkaError] = {}
        for place in call.starts if isinstance(call, InitializeState) else call.places:
            if self.random.randrange(5) == 0:
                errors[place] = KafkaError(Code.COORDINATOR_NOT_AVAILABLE)
                if self.random.randrange(2):  # carried out, but nobody hears of it
                    self.carry_out(call, place)
            elif not self.carry_out(call, place):
                errors[place] = KafkaError(Code.FENCED_STATE_EPOCH)
        lost = self.random.randrange(5) == 0
        if machine is self.machine and not lost:
            made = StateInitialized if isinstance(call, InitializeState) else StateDeleted
            self.decide(made(call.group_id, call.number, errors), "call")

    def carry_out(self, call: Call, place: Place) -> bool:
        if isinstance(call, DeleteState):
            self.states.pop(place, None)
            return True
        if call.state_epoch < self.states.get(place, 0):
            return False
        assert place not in self.read, "a call that is late resets what members read"
        self.states[place] = call.state_epoch
        return True

    def topics_change(self) -> None:
        name = self.random.choice(TOPICS)
        before = self.topics.topic_id(name)
        deleted: list[tuple[bytes, str]] = []
        if before is None:
            self.topics.create(name, self.random.randint(1, 3))
        elif self.random.randrange(2):
            self.topics.grow(name, self.topics.partition_count(name) + 1, self.now)
        else:
            self.topics.delete(name)
            deleted.append((before, name))
            self.states = {p: epoch for p, epoch in self.states.items() if p[0] != before}
            self.read = {p: epoch for p, epoch in self.read.items() if p[0] != before}
        self.take(outcome_of(self.machine.on_image(deleted, self.context())))

    def wait(self, seconds: float) -> None:
        self.now += seconds
        while self.machine.deadline() <= self.now:
            self.take(outcome_of(self.machine.tick(self.context())))

    def step(self) -> None:
        name = f"m{self.random.randrange(4)}"
        steps: tuple[tuple[int, Callable[[], None]], ...] = (
            (12, lambda: self.beat(name)),
            (2, lambda: self.beat(name, tuple(self.random.sample(TOPICS, 2)))),
            (2, lambda: self.leave(name)),
            (10, self.share_coordinator_carries_out),
            (1, self.topics_change),
            (4, lambda: self.wait(1.0)),
            (1, lambda: setattr(self, "machine", self.successor())),
        )
        weights = [weight for weight, _ in steps]
        self.random.choices([step for _, step in steps], weights)[0]()


@pytest.mark.parametrize("seed", range(40))
def test_what_is_initialised_is_assigned_and_nothing_else(seed: int) -> None:
    world = World(seed)
    for _ in range(150):
        world.step()
    assert share_views(world) == share_views(replayed(world))

    for name in [*world.epochs]:
        world.leave(name)
    world.read.clear()
    for _ in range(80):  # in the end all is heard, and all is assigned
        world.beat("m0", ("t", "u"))
        world.epochs["m0"] = world.machine.shares.groups["g"].members["m0"].current.epoch
        world.wait(1.0)
        for _ in range(len(world.calls)):
            world.share_coordinator_carries_out()
    group = world.machine.shares.groups["g"]
    assigned = Counter(world.topics.topic_name(each) for each in group.target["m0"])
    assert assigned.keys() == {each for each in ("t", "u") if world.topics.topic_id(each)}
    for topic_id, indexes in group.members["m0"].current.assigned.items():
        count = world.topics.partition_count(world.topics.topic_name(topic_id) or "")
        assert list(indexes) == list(range(count))


def share_views(machine: World | GroupCoordinator) -> dict[str, Any]:
    coordinator = machine.machine if isinstance(machine, World) else machine
    return {name: share_view(coordinator, name) for name in coordinator.shares.groups}


def replayed(world: World) -> GroupCoordinator:
    machine = GroupCoordinator(SETTINGS)
    for record in world.log:
        machine.replay(record)
    return machine


def test_nothing_is_kept_of_groups_that_are_gone() -> None:
    world = World(1)
    world.beat("m0", ("nowhere",))
    world.leave("m0")
    world.decide(DeleteGroup("g"), "admin")
    world.decide(AlterShareOffsets("other", {"nowhere": {0: 1}}), "admin")
    world.decide(ShareHeartbeat("third", "m", 5, None, "c", "/h", None), "m")
    world.wait(100.0)

    assert (world.machine.shares.groups, world.machine.shares.soft) == ({}, {})


@pytest.mark.parametrize("when", ["before", "during the deletion"])
def test_a_group_whose_topic_is_gone_can_be_deleted(when: str) -> None:
    """The topic goes while this coordinator does not hear of it: it is loading, or not there."""
    world = World(1)
    world.beat("m0", ("t",))
    (call,) = [call for _, call in world.calls]
    world.decide(StateInitialized("g", call.number, {}), "call")
    world.leave("m0")
    if when == "before":
        world.topics.delete("t")
        world.successor()
    world.calls.clear()
    world.decide(DeleteGroup("g"), "admin")
    for _, call in world.calls:
        world.topics.delete("t")
        assert isinstance(call, DeleteState)
        error = KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION)
        world.decide(StateDeleted("g", call.number, dict.fromkeys(call.places, error)), "call")

    assert world.answers["admin"] is None
    assert (world.machine.shares.groups, world.machine.shares.soft) == ({}, {})


def test_a_group_has_so_many_share_partitions_and_no_more() -> None:
    world = World(1)
    world.topics.create("wide", SHARE_STATE_BYTES_OF_GROUP.value // 4)
    refused = world.decide(ShareHeartbeat("g", "m", 0, None, "c", "/h", ("wide",)), "m")

    assert isinstance(refused, LimitRefused)
    assert refused.code is Code.INVALID_REQUEST
    assert refused.limit is SHARE_STATE_BYTES_OF_GROUP

    world.beat("m0", ("t",))  # it does not grow over the limit either, and the member stays
    world.topics.grow("t", SHARE_STATE_BYTES_OF_GROUP.value // 4, 0.0)
    world.take(outcome_of(world.machine.on_image([], world.context())))
    world.beat("m0")
    assert "m0" in world.epochs
    refused = world.decide(
        AlterShareOffsets("h", {"wide": dict.fromkeys(range(200_000), 1)}), "admin"
    )
    assert isinstance(refused, LimitRefused)


def test_heartbeats_of_a_group_that_is_too_large_look_at_its_topics_once_a_second() -> None:
    world = World(1)
    names = tuple(f"t{number}" for number in range(1_000))
    for name in names:
        world.topics.create(name, 1)
    world.beat("m0", names)
    (call,) = [call for _, call in world.calls]
    for name in names:
        world.carry_out(call, (world.topics.topic_id(name) or b"", 0))
    world.decide(StateInitialized("g", call.number, {}), "call")
    world.topics.grow("t0", SHARE_STATE_BYTES_OF_GROUP.value // 4, 0.0)
    world.take(outcome_of(world.machine.on_image([], world.context())))

    steps = []
    for seconds in (0.0, 0.0, 0.1, 1.0):
        world.now += seconds
        with counted() as made:
            world.beat("m0")
        steps.append(made.count)

    assert max(steps[1:3]) < len(names) < min(steps[0], steps[3])


# the assignor


def assigned(
    wishes: Mapping[str, str], counts: Mapping[str, int], before: Mapping[str, Target] | None = None
) -> dict[str, Target]:
    ids = {name: frozenset(each.encode() for each in text) for name, text in wishes.items()}
    ranges = {name.encode(): range(count) for name, count in counts.items()}
    alike = len(set(wishes.values())) <= 1
    return drained(assign_simple(ids, ranges, before or {}, alike=alike))


@pytest.mark.parametrize("seed", range(60))
def test_every_partition_has_a_member_and_members_have_about_as_many(seed: int) -> None:
    random = Random(seed)
    names = [f"m{i}" for i in range(random.randint(1, 12))]
    counts = {name: random.randint(1, 6) for name in "tuv"}
    alike = seed % 2 == 0
    wishes = {each: "tuv" if alike else random.choice(["t", "tu", "uv", "tuv"]) for each in names}
    before = assigned(wishes, {"t": 3, "u": 1, "v": 2})
    found = assigned(wishes, counts, before)

    read = Counter((t, i) for target in found.values() for t, each in target.items() for i in each)
    for name, count in counts.items():
        readers = sum(name in wish for wish in wishes.values())
        for index in range(count if readers else 0):
            assert read[name.encode(), index] >= 1
            if not alike:
                assert read[name.encode(), index] <= -(-readers // count)
    for member_id, target in found.items():
        assert {topic.decode() for topic in target} <= set(wishes[member_id])
        assert all(len(set(each)) == len(each) for each in target.values())
    if alike:
        sizes = [sum(map(len, target.values())) for target in found.values()]
        assert max(sizes) - min(sizes) <= 1
        assert min(sizes) >= 1


def test_members_keep_their_partitions() -> None:
    before = assigned({"a": "t", "b": "t"}, {"t": 4})
    assert assigned({"a": "t", "b": "t"}, {"t": 4}, before) == before
    with_third = assigned({"a": "t", "b": "t", "c": "t"}, {"t": 4}, before)
    for member_id in ("a", "b"):
        assert set(with_third[member_id][b"t"]) <= set(before[member_id][b"t"])


def test_settings_of_a_group_come_before_those_of_all() -> None:
    world = World(1)
    own = replace(SETTINGS.share, heartbeat_interval_ms=700)
    world.machine.configure(replace(SETTINGS, share_of={"g": own}))

    answer = world.decide(ShareHeartbeat("g", "m", 0, None, "c", "/h", ("t",)), "m")
    assert isinstance(answer, ShareBeat)
    assert answer.interval_ms == 700
