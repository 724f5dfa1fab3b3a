"""The group coordinator under random commands: what must hold whatever happens, and whoever
coordinates next.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pytest

from raftka.coordinator.classic.group import ClassicGroup, State, topics_of
from raftka.coordinator.commands import (
    CommitOffsets,
    CommitPartition,
    CommitTopic,
    DeleteGroup,
    DeleteOffsets,
    FetchOffsets,
    GroupSettings,
    Heartbeat,
    Join,
    Joined,
    Leave,
    LeavingMember,
    MemberIdRequired,
    OffsetsCommitted,
    Protocol,
    Rebalance,
    Sync,
)
from raftka.coordinator.groups import GroupCoordinator
from raftka.coordinator.machine import Context, Outcome, Record
from raftka.coordinator.records import (
    GROUP_METADATA_KEY,
    CommittedOffset,
    GroupMember,
    GroupMetadata,
    group_key,
    group_record,
    kind,
    offset_key,
    offset_prefix,
    offset_topic_prefix,
    offset_value,
    read_group_key,
)
from raftka.wire.errors import Code, KafkaError
from tests.coordinator.world import FakeTopics, classic, outcome_of, subscription, view

GROUPS = ("g", "h")
SETTINGS = GroupSettings(
    min_session_timeout_ms=1000,
    offsets_retention_ms=60_000,
    offsets_retention_check_interval_ms=20_000,
    max_size=6,
    initial_rebalance_delay_ms=500,
)
OFTEN = {
    "next": 30,
    "join": 2,
    "sync": 2,
    "heartbeat": 3,
    "leave": 1,
    "commit": 3,
    "simple": 1,
    "delete": 1,
    "offsets": 1,
    "wait": 2,
    "topic": 1,
    "rebalance": 1,
}
COMMANDS = [name for name, times in OFTEN.items() for _ in range(times)]
SIMPLE = {
    "state": State.EMPTY,
    "generation": 0,
    "protocol": (None, None),
    "leader": None,
    "since": -1,
    "members": {},
    "static": {},
    "topics": None,
}


@dataclass
class Client:
    """A client that knows of itself what its last answer said."""

    name: str
    group_id: str
    instance_id: str | None
    member_id: str = ""
    generation_id: int = -1
    leads: tuple[str, ...] = ()
    type_: tuple[str | None, str | None] = None, None


@dataclass
class World:
    """A shell with a log; `refuses`: of how many outcomes with records one is refused."""

    seed: int
    refuses: int = 0
    now: float = 0.0
    log: list[Record] = field(default_factory=list)
    waiting: dict[int, Client | None] = field(default_factory=dict)
    # of each group, when its last record of its own was replayed
    views: dict[str, Any] = field(default_factory=dict)
    # the largest offset of a group's partition that was acknowledged
    committed: dict[tuple[str, int], int] = field(default_factory=dict)
    asked: int = 0

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        self.topics = FakeTopics({"t": 3, "u": 2})
        self.machine = GroupCoordinator(replace(SETTINGS, settle_ms=50 * (self.seed % 2)))
        self.clients = [
            Client(f"{group}{i}", group, f"i{i}" if i % 3 == 0 else None)
            for group in GROUPS
            for i in range(4)
        ]
        self.answers: list[tuple[Client | None, Any]] = []
        self.take(self.machine.loaded(self.context()))

    def context(self) -> Context:
        return Context(self.now, 1_000_000 + round(self.now * 1000), self.random, self.topics)

    def ask(self, client: Client | None, command: Any) -> Any:
        """The answer, or None while it is waited for."""
        self.asked += 1
        ticket = self.asked
        self.waiting[ticket] = client
        before = len(self.answers)
        try:
            outcome = outcome_of(self.machine.decide(command, ticket, self.context()))
        except KafkaError as error:
            outcome = Outcome((), ((ticket, error),))
        self.take(outcome)
        return (
            self.answers[-1][1]
            if ticket not in self.waiting and len(self.answers) > before
            else None
        )

    def take(self, outcome: Outcome) -> None:
        refused = (
            bool(outcome.records)
            and bool(self.refuses)
            and self.random.randrange(self.refuses) == 0
        )
        if not refused:
            for record in outcome.records:
                self.log.append(record)
                self.machine.replay(record)
                self.remember(record)
        elif outcome.undo is not None:
            outcome.undo()
        for ticket, answer in outcome.replies:
            client = self.waiting.pop(int(str(ticket)))  # a second answer to one ticket fails here
            self.answers.append(
                (client, KafkaError(Code.COORDINATOR_NOT_AVAILABLE) if refused else answer)
            )
            self.learn(client, self.answers[-1][1])

    def remember(self, record: Record) -> None:
        """Take the group as its own record made it."""
        if kind(record.key) == GROUP_METADATA_KEY:
            name = read_group_key(record.key)
            self.views[name] = view(self.machine, name) if record.value is not None else None

    def seen(self, name: str) -> Any:
        """As the next coordinator sees it, which knows nothing of a rebalance under way."""
        now = view(self.machine, name)
        assert now is not None
        if self.machine.groups[name].state in (State.STABLE, State.EMPTY):
            return now
        return {**(self.views.get(name) or SIMPLE), "offsets": now["offsets"]}

    def learn(self, client: Client | None, answer: Any) -> None:
        if client is None:
            return
        match answer:
            case MemberIdRequired(member_id):
                client.member_id = member_id
            case Joined():
                client.member_id, client.generation_id = answer.member_id, answer.generation_id
                client.leads = tuple(each.member_id for each in answer.members)
                client.type_ = answer.protocol_type, answer.protocol_name
            case KafkaError(code=Code.UNKNOWN_MEMBER_ID | Code.FENCED_INSTANCE_ID):
                client.member_id, client.generation_id, client.leads = "", -1, ()

    # steps

    def step(self) -> None:
        client = self.random.choice(self.clients)
        getattr(self, f"do_{self.random.choice(COMMANDS)}")(client)

    def do_next(self, client: Client) -> None:
        """Do the client's next step: it joins while others do, asks for its assignment, then reads
        on.
        """
        group = classic(self.machine).get(client.group_id)
        member = group.members.get(client.member_id) if group is not None else None
        if (
            group is None
            or member is None
            or (member.join_ticket is None and group.state is State.PREPARING)
        ):
            self.do_join(client, new=False)
        elif client.generation_id == group.generation_id and group.state is not State.PREPARING:
            self.do_sync(client)
            self.do_commit(client)
        self.do_heartbeat(client)

    def do_join(self, client: Client, *, new: bool | None = None) -> None:
        names = self.random.sample(["range", "sticky", "even"], self.random.randint(1, 3))
        topics = self.random.sample(["t", "u"], self.random.randint(1, 2))
        protocols = tuple(
            [
                Protocol(name, subscription(topics))
                for name in ["range", *names]
                if name != "range" or names.count("range") == 0
            ]
        )
        new = self.random.random() < 0.2 if new is None else new
        version = self.random.choice((3, 8, 9))
        member_id = "" if new else client.member_id
        times = self.random.choice((1000, 5000)), self.random.choice((2000, 6000))
        identity = client.group_id, member_id, client.instance_id, client.name, "/h"
        self.ask(client, Join(*identity, *times, "consumer", protocols, version >= 4, version >= 9))

    def do_sync(self, client: Client) -> None:
        assignments = tuple([(each, f"{self.asked}".encode()) for each in client.leads])
        types = client.type_ if self.random.random() < 0.9 else (None, None)
        self.ask(
            client,
            Sync(
                client.group_id,
                client.generation_id,
                client.member_id,
                client.instance_id,
                *types,
                assignments,
                False,
            ),
        )

    def do_heartbeat(self, client: Client) -> None:
        self.ask(
            client,
            Heartbeat(client.group_id, client.generation_id, client.member_id, client.instance_id),
        )

    def do_leave(self, client: Client) -> None:
        who = (
            LeavingMember(client.member_id, client.instance_id)
            if self.random.random() < 0.7
            else LeavingMember("", client.instance_id)
        )
        self.ask(client, Leave(client.group_id, (who,)))

    def do_commit(self, client: Client, generation: int | None = None) -> None:
        """Offsets grow, as those of consumers do."""
        partition, offset = self.random.randrange(3), self.asked
        topics = (
            CommitTopic(
                "t", (CommitPartition(partition, offset, -1, self.random.choice((None, "note"))),)
            ),
        )
        who = (
            (client.generation_id, client.member_id, client.instance_id)
            if generation is None
            else (generation, "", None)
        )
        answer = self.ask(client, CommitOffsets(client.group_id, *who, topics))
        if isinstance(answer, OffsetsCommitted) and answer.errors[0][0] is Code.NONE:
            self.committed[client.group_id, partition] = offset

    def do_simple(self, client: Client) -> None:
        self.do_commit(client, generation=-1)

    def do_delete(self, client: Client) -> None:
        if (
            self.ask(None, DeleteGroup(client.group_id)) is None
            and client.group_id not in self.machine.groups
        ):
            self.forget(client.group_id)

    def do_offsets(self, client: Client) -> None:
        partition = self.random.randrange(3)
        self.ask(None, DeleteOffsets(client.group_id, (("t", (partition,)),)))
        if partition not in self.offsets(client.group_id):
            self.committed.pop((client.group_id, partition), None)

    def do_topic(self, client: Client) -> None:
        old = self.topics.topic_id("t")
        assert old is not None
        if self.random.random() < 0.05:
            self.topics.create("t", 3)
            outcome = outcome_of(self.machine.on_image([(old, "t")], self.context()))
            self.refuses, before = 0, self.refuses  # the broker tells it of a deletion once
            self.take(outcome)
            self.refuses = before
            self.committed.clear()

    def do_rebalance(self, client: Client) -> None:
        had_members = bool(
            (group := classic(self.machine).get(client.group_id)) is not None and group.members
        )
        answer = self.ask(None, Rebalance(client.group_id))
        assert had_members is (answer is None or answer.code is not Code.GROUP_ID_NOT_FOUND)

    def do_wait(self, client: Client) -> None:
        self.wait(self.random.choice((0.1, 0.5, 3.0)))

    def wait(self, seconds: float) -> None:
        until = self.now + seconds
        while (when := max(self.machine.deadline(), self.now)) <= until:
            self.now = when
            self.take(outcome_of(self.machine.tick(self.context())))
            for group_id, partition in list(self.committed):
                if group_id not in self.machine.groups or partition not in self.offsets(group_id):
                    del self.committed[group_id, partition]  # expired
        self.now = until

    def forget(self, group_id: str) -> None:
        self.committed = {
            key: offset for key, offset in self.committed.items() if key[0] != group_id
        }

    # what must hold

    def offsets(self, group_id: str) -> dict[int, int]:
        outcome = outcome_of(
            self.machine.decide(FetchOffsets(group_id, None), "reader", self.context())
        )
        return {
            each.partition: each.offset
            for topic in outcome.replies[0][1].topics
            for each in topic.partitions
        }

    def rebuilt(self) -> GroupCoordinator:
        machine = GroupCoordinator(SETTINGS)
        for record in self.log:
            machine.replay(record)
        return machine

    def check(self) -> None:
        other = self.rebuilt()
        assert {name: view(other, name) for name in other.groups} == {
            name: self.seen(name) for name, group in self.machine.groups.items() if group.in_log
        }
        for (group_id, partition), offset in self.committed.items():
            assert self.offsets(group_id)[partition] == offset, (group_id, partition)
        for group in classic(self.machine).values():
            assert not group.is_nothing
            assert group.joining <= group.members.keys()
            assert group.joining == {
                each.member_id for each in group.members.values() if each.join_ticket is not None
            }
            assert group.syncing <= group.members.keys()
            assert group.leader in group.members or not group.members
            assert group.static == {
                each.instance_id: each.member_id
                for each in group.members.values()
                if each.instance_id is not None
            }


@pytest.mark.parametrize("seed", range(24))
def test_a_coordinator_made_from_the_log_knows_what_the_one_that_wrote_it_knew(seed: int) -> None:
    world = World(seed)
    for _ in range(400):
        world.step()
        if world.random.random() < 0.1:
            world.check()
    world.check()

    assert {type(answer) for _, answer in world.answers} >= {
        Joined,
        OffsetsCommitted,
        KafkaError,
        MemberIdRequired,
    }


@pytest.mark.parametrize("seed", range(24))
def test_everybody_is_answered_once(seed: int) -> None:
    """At most once: `World.take` fails else. At least once, when enough time has passed: also where
    records are refused now and then.
    """
    world = World(seed, refuses=seed % 4 * 3)
    for _ in range(300):
        world.step()
    world.refuses = 0
    world.wait(400)

    assert world.waiting == {}
    assert all(
        group.state in (State.EMPTY, State.STABLE) for group in world.machine.groups.values()
    )
    assert all(not group.members for group in world.machine.groups.values())


def assignments_are_refused() -> tuple[World, Client, Client]:
    """A group of a leader and another member: the coordinator has told both that the log refused
    the assignments.
    """
    world = World(0)
    clients = [Client(name, "g", None) for name in "ab"]
    for client in clients * 2:  # the first answer may be an id alone
        world.do_join(client, new=False)
    world.wait(1.0)
    (leader,) = (each for each in clients if each.leads)
    (other,) = (each for each in clients if not each.leads)
    world.do_sync(other)
    world.refuses = 1
    world.do_sync(leader)
    world.refuses = 0
    assert [answer.code for _, answer in world.answers[-2:]] == [Code.COORDINATOR_NOT_AVAILABLE] * 2
    return world, leader, other


def test_a_leader_whose_assignments_were_refused_is_waited_for_as_long_as_a_rebalance_lasts() -> (
    None
):
    """The leader sends only heartbeats from then on: the other members must not wait for it for
    ever.
    """
    world, leader, other = assignments_are_refused()
    world.do_sync(other)
    group = classic(world.machine)["g"]
    for _ in range(2 * group.rebalance_timeout_ms // 1000 + 1):
        world.do_heartbeat(leader)
        assert group.state is State.COMPLETING or leader.member_id not in group.members
        world.wait(0.5)

    assert other not in world.waiting.values()
    assert group.members.keys() <= {other.member_id}


def test_a_member_that_heard_of_refused_assignments_is_waited_for_while_a_rebalance_lasts() -> None:
    """The member sends only heartbeats from then on: its share must not lie idle for ever."""
    world, leader, other = assignments_are_refused()
    world.do_sync(leader)
    group = classic(world.machine)["g"]
    assert group.state is State.STABLE
    for _ in range(2 * group.rebalance_timeout_ms // 1000 + 1):
        world.do_heartbeat(leader)
        world.do_heartbeat(other)
        world.wait(0.5)

    assert group.members.keys() == {leader.member_id}


def test_a_forced_rebalance_asks_the_members_of_a_stable_group_to_join_again() -> None:
    world = World(0)
    client = next(each for each in world.clients if each.instance_id is not None)
    world.do_join(client, new=False)
    world.wait(1.0)
    world.do_sync(client)
    group = classic(world.machine)[client.group_id]
    assert (group.state, group.generation_id) == (State.STABLE, 1)

    assert world.ask(None, Rebalance(client.group_id)) is None

    assert str(group.state) == State.PREPARING
    world.do_heartbeat(client)
    assert world.answers[-1][1].code is Code.REBALANCE_IN_PROGRESS
    for _ in range(20):  # its protocols are drawn: not every choice is possible
        world.do_join(client, new=False)
    assert (str(group.state), client.generation_id >= 2) == (State.COMPLETING, True)


@pytest.mark.parametrize("seed", range(16))
def test_members_who_do_what_clients_do_become_stable(seed: int) -> None:
    world = World(seed, refuses=seed % 3 * 4)
    for _ in range(200):
        world.step()
    world.refuses = 0
    for _ in range(60):
        for client in world.clients:
            world.do_next(client)
        world.wait(0.5)
        if all(group.state is State.STABLE for name, group in world.machine.groups.items()):
            break

    assert {name: group.state for name, group in world.machine.groups.items()} == dict.fromkeys(
        GROUPS, State.STABLE
    )


def test_the_end_of_a_group_does_not_take_offsets_that_have_not_ended() -> None:
    """As in a log that was written by others, or in parts: what nobody has deleted is there."""
    machine = GroupCoordinator(SETTINGS)
    machine.replay(group_record("g", GroupMetadata("consumer", 3, None, None, 9)))
    machine.replay(
        Record(
            offset_key(offset_topic_prefix(offset_prefix("g"), "t"), 1), offset_value(5, -1, "", 9)
        )
    )
    machine.replay(Record(group_key("g"), None))

    assert view(machine, "g") == {**SIMPLE, "offsets": {"t": {1: CommittedOffset(5, -1, "", 9)}}}


def test_records_of_another_kind_are_passed_over() -> None:
    machine = GroupCoordinator(SETTINGS)
    machine.replay(Record(b"\0\x12\0\1g", b"\0\0"))
    machine.replay(Record(b"\0\x20\0\1g", None))

    assert machine.groups == {}


def test_what_members_say_is_read_when_somebody_asks_and_what_many_say_is_read_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[bytes] = []

    def noted(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
        read.extend(said := list(subscriptions))
        return topics_of(said)

    monkeypatch.setattr("raftka.coordinator.classic.group.topics_of", noted)
    machine = GroupCoordinator(SETTINGS)

    def replay(**topics: str) -> None:
        members = [
            GroupMember(name, None, "c", "/h", 9, 9, subscription([topic]), b"")
            for name, topic in topics.items()
        ]
        machine.replay(
            group_record("g", GroupMetadata("consumer", 3, "range", "a", 9, tuple(members)))
        )

    replay(a="t", b="t", c="u")
    replay(a="t", b="t", d="v")
    replay(a="w", b="t", d="t")

    group = machine.groups["g"]
    assert isinstance(group, ClassicGroup)
    assert read == []
    assert group.subscribed == group.subscribed == frozenset({"t", "w"})
    assert len(read) == 2
