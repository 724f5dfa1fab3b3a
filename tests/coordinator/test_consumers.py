"""Consumer groups of the new protocol under random histories: one owner at a time, everything
converges, and the log says it all.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from raftka.coordinator.commands import (
    GroupSettings,
    Heartbeat,
    Join,
    Joined,
    Leave,
    LeavingMember,
    MemberIdRequired,
    Protocol,
    Rebalance,
    Sync,
    Synced,
)
from raftka.coordinator.consumer.commands import (
    ConsumerBeat,
    ConsumerHeartbeat,
    ConsumerSettings,
    SetTargets,
    Target,
)
from raftka.coordinator.consumer.draft import Draft
from raftka.coordinator.consumer.group import ConsumerGroup, State
from raftka.coordinator.consumer.records import (
    MEMBER,
    Said,
)
from raftka.coordinator.groups import GroupCoordinator
from raftka.coordinator.machine import Context, Outcome, Record
from raftka.coordinator.modern.records import MemberState
from raftka.coordinator.modern.soft import REVOKE
from raftka.coordinator.protocol import read_assignment
from raftka.wire.errors import KafkaError
from tests.coordinator.world import FakeTopics, consumer_view, outcome_of, subscription

SETTINGS = GroupSettings(
    min_session_timeout_ms=1000,
    initial_rebalance_delay_ms=0,
    consumer=ConsumerSettings(assignment_interval_ms=0),
)
OFTEN = {
    "beat": 30,
    "slow": 6,
    "join": 6,
    "leave": 1,
    "lose": 2,
    "subscribe": 1,
    "topics": 1,
    "wait": 1,
    "fail_over": 1,
    "force": 1,
}
STEPS = [name for name, times in OFTEN.items() for _ in range(times)]
Partition = tuple[bytes, int]


@dataclass
class Consumer:
    """A consumer: it has the partitions that it was told, until it has given up those that it is
    told to, which takes until its next heartbeat.
    """

    name: str
    instance_id: str | None
    is_classic: bool = False
    member_id: str = ""
    epoch: int = -1  # -1: not in the group
    has: set[Partition] = field(default_factory=set)
    told: set[Partition] | None = None  # not done yet
    topics: tuple[str, ...] = ("t",)
    regex: str | None = None
    says: bool = True  # all that there is to say, with the next heartbeat

    def forget(self) -> None:
        self.epoch, self.has, self.told, self.says = -1, set(), None, True


class World:
    def __init__(self, seed: int, *, with_classic: bool, refuses: int = 0) -> None:
        self.random = Random(seed)
        self.refuses = refuses
        self.topics = FakeTopics({"t": 4, "u": 3, "v": 1})
        self.now = 0.0
        self.log: list[Record] = []
        self.machine = GroupCoordinator(SETTINGS)
        self.consumers = [
            Consumer(f"c{i}", f"i{i}" if i % 3 == 0 else None, with_classic and i % 2 == 1)
            for i in range(6)
        ]
        self.born = 0
        self.answers: dict[int, Any] = {}
        self.asked = 0
        self.take(self.machine.loaded(self.context()))

    def context(self) -> Context:
        return Context(self.now, round(self.now * 1000), self.random, self.topics)

    def take(self, outcome: Outcome) -> None:
        refused = (
            bool(outcome.records)
            and bool(self.refuses)
            and self.random.randrange(self.refuses) == 0
        )
        for record in () if refused else outcome.records:
            self.log.append(record)
            self.machine.replay(record)
        for ticket, answer in outcome.replies:
            assert ticket not in self.answers
            self.answers[int(str(ticket))] = (
                KafkaError(answer.code)
                if isinstance(answer, KafkaError)
                else None
                if refused
                else answer
            )

    def ask(self, command: Any) -> Any:
        """None: nothing was heard."""
        self.asked += 1
        try:
            outcome = outcome_of(self.machine.decide(command, self.asked, self.context()))
        except KafkaError as error:
            return error
        self.take(outcome)
        return self.answers.get(self.asked)

    @property
    def group(self) -> ConsumerGroup | None:
        group = self.machine.groups.get("g")
        return group if isinstance(group, ConsumerGroup) else None

    # what consumers do

    def beat(self, consumer: Consumer, *, loses: bool = False) -> None:
        self.finish(consumer)
        if consumer.is_classic:
            self.classic(consumer)
            return
        if consumer.epoch < 0:
            self.born += 1
            consumer.member_id = f"{consumer.name}-{self.born}"
        joins = consumer.epoch < 0
        says = joins or consumer.says
        owned: dict[bytes, frozenset[int]] = {}
        for topic_id, partition in consumer.has:
            owned[topic_id] = owned.get(topic_id, frozenset()) | {partition}
        topics, regex = (consumer.topics, consumer.regex or "") if says else (None, None)
        identity = (
            "g",
            consumer.member_id,
            max(consumer.epoch, 0),
            consumer.instance_id,
            None,
            consumer.name,
            "/h",
        )
        answer = self.ask(
            ConsumerHeartbeat(
                *identity,
                5_000 if says else -1,
                topics,
                regex,
                None,
                owned if says or self.random.random() < 0.6 else None,
            )
        )
        if isinstance(answer, KafkaError):
            consumer.forget()
        elif isinstance(answer, ConsumerBeat) and not loses:
            consumer.epoch, consumer.says = answer.epoch, False
            if answer.assignment is not None:
                self.hear(
                    consumer,
                    {
                        (topic_id, each)
                        for topic_id, partitions in answer.assignment.items()
                        for each in partitions
                    },
                )
        elif joins:
            consumer.forget()  # and comes again as another
        else:
            consumer.says = True

    def hear(self, consumer: Consumer, told: set[Partition]) -> None:
        """It goes on with what it keeps, and reads of the new ones at once: somebody else must
        not.
        """
        consumer.has |= told
        consumer.told = told

    def finish(self, consumer: Consumer) -> None:
        if consumer.told is not None:
            consumer.has, consumer.told = consumer.told, None

    def classic(self, consumer: Consumer) -> None:
        """An eager one: before it joins again it has nothing any more."""
        who = "g", consumer.epoch, consumer.member_id, consumer.instance_id
        if consumer.epoch >= 0 and self.ask(Heartbeat(*who)) is None and self.random.random() < 0.9:
            return
        consumer.has = set()
        protocol = Protocol("range", subscription(consumer.topics))
        identity = "g", consumer.member_id, consumer.instance_id, consumer.name, "/h", 6_000, 5_000
        answer = self.ask(Join(*identity, "consumer", (protocol,)))
        if isinstance(answer, MemberIdRequired):
            consumer.member_id = answer.member_id
        elif isinstance(answer, Joined):
            consumer.member_id, consumer.epoch = answer.member_id, answer.generation_id
            said = self.ask(
                Sync(
                    "g",
                    consumer.epoch,
                    consumer.member_id,
                    consumer.instance_id,
                    "consumer",
                    "range",
                    (),
                )
            )
            if isinstance(said, Synced):
                named = read_assignment(said.assignment).partitions
                ids = {name: self.topics.topic_id(name) or b"" for name in named}
                consumer.has = {
                    (ids[name], each) for name, partitions in named.items() for each in partitions
                }
        elif isinstance(answer, KafkaError):
            consumer.forget()
            consumer.member_id = ""

    # steps

    def step(self) -> None:
        consumer = self.random.choice(self.consumers)
        getattr(self, f"do_{self.random.choice(STEPS)}")(consumer)
        self.check()
        if self.random.random() < 0.05:
            self.check_log()

    def do_beat(self, consumer: Consumer) -> None:
        if consumer.epoch >= 0:
            self.beat(consumer)

    def do_slow(self, consumer: Consumer) -> None:
        """It is heard of, but has not given up anything."""
        if consumer.epoch >= 0 and not consumer.is_classic:
            told, consumer.told = consumer.told, None
            self.beat(consumer)
            consumer.told = consumer.told if consumer.told is not None else told

    def do_join(self, consumer: Consumer) -> None:
        if consumer.epoch < 0:
            self.beat(consumer)

    def do_lose(self, consumer: Consumer) -> None:
        if consumer.epoch >= 0 and not consumer.is_classic:
            self.beat(consumer, loses=True)

    def do_leave(self, consumer: Consumer) -> None:
        if consumer.epoch < 0:
            return
        if consumer.is_classic:
            self.ask(Leave("g", (LeavingMember(consumer.member_id, consumer.instance_id),)))
        else:
            away = -2 if consumer.instance_id is not None and self.random.random() < 0.5 else -1
            self.ask(
                ConsumerHeartbeat(
                    "g",
                    consumer.member_id,
                    away,
                    consumer.instance_id,
                    None,
                    "",
                    "",
                    -1,
                    None,
                    None,
                    None,
                    None,
                )
            )
        consumer.forget()

    def do_subscribe(self, consumer: Consumer) -> None:
        consumer.topics = tuple(self.random.sample(["t", "u", "v"], self.random.randint(1, 3)))
        consumer.regex = (
            self.random.choice((None, None, "[tu]", "w.*")) if not consumer.is_classic else None
        )
        consumer.says = True

    def do_topics(self, consumer: Consumer) -> None:
        name, old = "w1", self.topics.topic_id("w1")
        if old is None:
            self.topics.create(name, 2)
        else:
            self.topics.delete(name)
        self.take(
            outcome_of(
                self.machine.on_image([(old, name)] if old is not None else [], self.context())
            )
        )

    def do_wait(self, consumer: Consumer) -> None:
        """Not so long that who is heard of is removed; sessions end while somebody is not chosen
        for long.
        """
        self.wait(self.random.choice((0.1, 1.0, 3.0)))

    def do_force(self, consumer: Consumer) -> None:
        """A test gives a member what it likes; then the assignor decides again."""
        topic_id = self.topics.topic_id("t") or b""
        given = tuple(sorted(self.random.sample(range(4), self.random.randint(0, 4))))
        self.ask(SetTargets("g", {consumer.member_id: {topic_id: given} if given else {}}))
        self.check()
        if self.random.random() < 0.5:
            self.wait(0.1)
        self.ask(Rebalance("g"))

    def do_fail_over(self, consumer: Consumer) -> None:
        if self.random.random() < 0.2:
            self.machine = self.rebuilt()
            self.take(self.machine.loaded(self.context()))

    def wait(self, seconds: float) -> None:
        until = self.now + seconds
        while (when := max(self.machine.deadline(), self.now)) <= until:
            self.now = when
            self.take(outcome_of(self.machine.tick(self.context())))
        self.now = until
        known = self.group.members if self.group is not None else {}
        for consumer in self.consumers:
            if consumer.epoch >= 0 and self.group is not None and consumer.member_id not in known:
                # by its own clock its session is over too: it has stopped reading
                consumer.forget()

    # what must hold

    def rebuilt(self) -> GroupCoordinator:
        machine = GroupCoordinator(SETTINGS)
        for record in self.log:
            machine.replay(record)
        return machine

    def check(self) -> None:
        group = self.group
        if group is None:
            return
        having: dict[Partition, str] = {}
        for consumer in self.consumers:
            for partition in consumer.has if consumer.member_id in group.members else ():
                if self.topics.topic_name(partition[0]) is not None:
                    assert having.setdefault(partition, consumer.name) == consumer.name, (
                        f"two have {partition}"
                    )
        held = [
            (member_id, each)
            for member_id, member in group.members.items()
            for each in _all(member.current)
        ]
        assert {each: member_id for member_id, each in held} == group.owners
        assert len(held) == len(group.owners)
        assert group.subscribed == set().union(
            *[group.topics_of(member.said) for member in group.members.values()]
        )
        assert all(
            group.subscribes(name) == (name in group.subscribed) for name in self.topics.names()
        )
        for member in group.members.values():
            assert member.current.epoch <= group.targets.epoch <= group.epoch.epoch
            assert {
                name for name in self.topics.names() if group.reads(member.said, name)
            } == group.topics_of(member.said) & {*self.topics.names()}
            if member.current.state is MemberState.UNREVOKED and member.said.classic is None:
                assert self.machine.consumers.soft["g"].runs(REVOKE, member.member_id), (
                    "nobody waits for what it is to give up"
                )
        classic = [
            member.said.classic
            for member in group.members.values()
            if member.said.classic is not None
        ]
        assert group.classic_count == len(classic)
        assert group.protocols == Counter(
            protocol.name for each in classic for protocol in each.protocols
        )

    def check_shares(self) -> None:
        """Nothing has happened for some time: each partition has its owner, who reads it."""
        group = self.group
        assert group is not None
        assert group.state is State.STABLE
        wanted = {
            (topic_id, each)
            for name in group.subscribed
            if (topic_id := self.topics.topic_id(name))
            for each in range(self.topics.partition_count(name))
        }
        assert (
            {each for consumer in self.consumers for each in consumer.has}
            == wanted
            == group.owners.keys()
        )

    def check_log(self) -> None:
        if self.group is not None:
            other = self.rebuilt().groups["g"]
            assert isinstance(other, ConsumerGroup)
            assert consumer_view(other) == consumer_view(self.group)


def _all(current: Any) -> list[Partition]:
    return [
        (topic_id, each)
        for held in (current.assigned, current.revoking)
        for topic_id, partitions in held.items()
        for each in partitions
    ]


@pytest.mark.parametrize("with_classic", [False, True], ids=["new", "mixed"])
@pytest.mark.parametrize("seed", range(30))
def test_a_partition_has_one_owner_and_the_log_says_who(seed: int, with_classic: bool) -> None:
    world = World(seed, with_classic=with_classic, refuses=seed % 3 * 10)
    for _ in range(250):
        world.step()
    world.check_log()

    assert world.log


@pytest.mark.parametrize("with_classic", [False, True], ids=["new", "mixed"])
@pytest.mark.parametrize("seed", range(15))
def test_when_nothing_changes_everybody_has_its_share(seed: int, with_classic: bool) -> None:
    world = World(seed, with_classic=with_classic)
    for _ in range(150):
        world.step()
    for _ in range(30):
        for consumer in world.consumers:
            world.beat(consumer)
        world.wait(1.1)  # topics may have changed: expressions are resolved again
    world.check_shares()
    before = len(world.log)
    for consumer in world.consumers:
        world.beat(consumer)
    assert len(world.log) == before or with_classic  # an eager one may join again


@pytest.mark.parametrize("refused", [False, True], ids=["taken", "first refused"])
def test_partitions_that_are_added_are_shared_out_although_no_member_changes(refused: bool) -> None:
    world = World(0, with_classic=False)
    for _ in range(5):
        for consumer in world.consumers:
            world.beat(consumer)
    world.check_shares()
    world.topics.grow("t", 9)
    world.take(outcome_of(world.machine.on_image([], world.context())))
    if refused:
        world.refuses = 1  # each record
        for consumer in world.consumers:
            consumer.says = False
            world.beat(consumer)
        world.refuses = 0

    for _ in range(5):
        for consumer in world.consumers:
            world.beat(consumer)
    world.check_shares()


class Looked(tuple[str, ...]):
    """Topics of a member: how often somebody looks through them."""

    times = 0

    def __iter__(self) -> Iterator[str]:
        Looked.times += 1
        return super().__iter__()


def test_a_group_of_many_is_not_looked_through_when_one_joins() -> None:
    group = ConsumerGroup("g")
    said = Said(None, None, "client", "/host", Looked(("t", "u")))
    for number in range(100):
        group.apply(MEMBER, f"m{number}", said)
    before = Looked.times

    draft = Draft(group, [])
    draft.say("one more", said)

    assert draft.group.subscribed == {"t", "u"}
    assert draft.group.subscribes("u")
    assert Looked.times - before <= 5


def test_targets_that_a_test_sets_are_followed_and_have_one_owner() -> None:
    world = World(1, with_classic=False)
    one, two = (each for each in world.consumers[1:3])
    for _ in range(6):
        for consumer in (one, two):
            world.beat(consumer)
    topic_id = world.topics.topic_id("t") or b""
    assert sorted(map(len, (one.has, two.has))) == [2, 2]
    assert world.group is not None
    epoch = world.group.epoch.epoch

    targets: dict[str, Target] = {one.member_id: {topic_id: (0, 1, 2)}}
    assert world.ask(SetTargets("g", targets)) is None
    for _ in range(6):
        for consumer in (one, two):
            world.beat(consumer)
    assert one.has == {(topic_id, each) for each in (0, 1, 2)}
    assert two.has <= {(topic_id, 3)}
    assert world.group.epoch.epoch == epoch + 1

    both: dict[str, Target] = {each.member_id: {topic_id: (0,)} for each in (one, two)}
    assert "INVALID_REQUEST" in str(world.ask(SetTargets("g", both)))
    assert "UNKNOWN_MEMBER_ID" in str(world.ask(SetTargets("g", {"nobody": {}})))
    assert world.group.epoch.epoch == epoch + 1
