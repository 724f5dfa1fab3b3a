"""Groups at work: clients that commit offsets for a group of their own, and classic groups whose
members come, go, are slow, and come back too late.

What each commits and finds stands in a history, which the checker judges; what two members of one
generation are both given is seen at once. Members are as careless as clients are: they do not use
an id that they asked for, are heard of without doing what they are told to, say something of an
earlier generation. In the end nobody is there any more, and so no group may have members.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from random import Random
from typing import ClassVar

import trio

from raftka.broker.coordinators.partition import LOADED
from raftka.broker.coordinators.runtime import partition_for
from raftka.chaos.checker import check
from raftka.chaos.simulated.clients.client import Address, Client, NoAnswer
from raftka.chaos.simulated.clients.groups import SESSION_MS, TOPIC, GroupClient, Refused, Story
from raftka.chaos.simulated.clients.shapes import STATIC
from raftka.chaos.simulated.cluster import Cluster
from raftka.chaos.simulated.workloads.compaction import all_of
from raftka.chaos.simulated.workloads.offsets import Forgetful
from raftka.chaos.verdict import Rules
from raftka.coordinator.groups import GroupCoordinator
from raftka.coordinator.records import group_key
from raftka.metadata.commands import AlterReassignments, ElectLeaders, Move, MovedTopic
from raftka.wire.errors import Code
from raftka.wire.messages.groups import (
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    SYNC_GROUP,
    JoinGroupResponse,
)

OFFSETS = "__consumer_offsets"
PARTITIONS = 4
SIMPLE, FORGETFUL, MEMBERS = 3, 2, 3
PAUSE_S = (0.02, 0.1)
ASLEEP_S = (0.5, 2.5)  # a member that is slow
REBALANCE_MS = SESSION_MS
SILENT_TURNS = (0, 0, 40)  # of a generation, in which a member commits nothing
# what a member can go by: all have the first one
PROTOCOLS = (("share",), ("share", "keep"), ("keep", "share"))
# chances: of an id that is asked for, a generation, the end of one, a commit
NEVER_USED, HANGS_BACK, LEAVES, LATE = 0.1, 0.06, 0.2, 0.15
# chance, of a turn: a static member begins anew, without a word, as a process that is restarted
RESTARTS = 0.01
MIN_ISR = 2
MOVED_S = (0.5, 3.0)  # between two times that coordinators move
# after so long a group has gone on without who hangs back: one rebalance, and the next
PATIENCE_S = 2 * REBALANCE_MS / 1000 + 2.0
# that it must still be heard of after that, for one may come from a coordinator that was paused
TIMES = 5
ALL_GONE_S = 20.0
LEAVE_SAYS_MEMBERS = 3  # version
TURNED_AWAY = frozenset(
    {
        Code.UNKNOWN_MEMBER_ID,
        Code.GROUP_ID_NOT_FOUND,
        Code.ILLEGAL_GENERATION,
        Code.REBALANCE_IN_PROGRESS,
        Code.FENCED_INSTANCE_ID,
        Code.INCONSISTENT_GROUP_PROTOCOL,
    }
)


class Committer(GroupClient):
    """The only client of a simple group: commits 1, 2, 3, ... and looks now and then what there
    is.
    """

    last = 0

    async def serve(self, where: Address) -> None:
        looks = True  # at a new coordinator first, before another commit hides what is gone
        while not self.over:
            try:
                if looks or self.random.random() < 0.3:
                    await self.fetch(where, [0])
                looks = False
                self.last += 1
                await self.commit(where, {0: self.last})
            except Refused as refused:
                self.story.wrong.append(
                    f"{self.group}: a commit is refused with {refused.code.name}"
                )
                return
            await self.pause(PAUSE_S)


class Member(GroupClient):
    """A member of a classic group; static if it has an instance id. Sleeps too long now and then,
    and commits all the same when it wakes.
    """

    def __init__(
        self, client: Client, story: Story, group: str, name: str, instance: str | None
    ) -> None:
        super().__init__(client, story, group)
        self.name, self.instance = name, instance
        self.member_id = ""
        self.generation = -1
        self.joined_at = 0.0
        self.protocols = self.random.choice(PROTOCOLS)
        self.protocol = ""  # of its generation
        self._hangs = False  # it is told to join again, and does not at once
        self.earlier = -1  # a generation that it had under its present id
        self.commits: dict[int, int] = defaultdict(int)  # of each partition
        self.had: dict[int, list[int]] = {}  # by generation
        # member id and generation of the last assignment; one that nobody was assigned in the next
        # coordinator does not know
        self.synced = "", -1

    async def serve(self, where: Address) -> None:
        while not self.over:
            try:
                if self._hangs:
                    self._hangs = False
                    await self._hang_back(where)
                mine = await self._join(where)
                if mine is not None:
                    await self._work(where, mine)
            except Refused as refused:
                if refused.code is Code.MEMBER_ID_REQUIRED:
                    if self.random.random() < NEVER_USED:
                        self._anew()
                    continue
                if refused.code not in TURNED_AWAY:
                    self.story.wrong.append(
                        f"{self.name} of {self.group} is refused with {refused.code.name}"
                    )
                    return
                if refused.code in (Code.UNKNOWN_MEMBER_ID, Code.GROUP_ID_NOT_FOUND):
                    self.turned_away(self.name, refused.code)
                if refused.code in (
                    Code.UNKNOWN_MEMBER_ID,
                    Code.GROUP_ID_NOT_FOUND,
                    Code.FENCED_INSTANCE_ID,
                ):
                    self._anew()
                elif refused.code is Code.REBALANCE_IN_PROGRESS:
                    self._hangs = self.random.random() < HANGS_BACK
                await trio.sleep(0.02)

    def _anew(self) -> None:
        self.member_id, self.earlier = "", -1
        self.is_new()

    @property
    def place(self) -> str:
        """The key of its place in the group: an instance id, which another member may take over, or
        its own id.
        """
        return self.instance or self.member_id

    async def _join(self, where: Address) -> list[int] | None:
        request = JOIN_GROUP.request
        row = request(
            group_id=self.group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type="work",
            protocols=[
                request.protocols(name=each, metadata=self.name.encode()) for each in self.protocols
            ],
            reason=self.client.shape.reason,
        )
        asked_at = self.now
        joined = await self.client.ask(where, JOIN_GROUP, row, 5.0)
        if joined.error_code == Code.MEMBER_ID_REQUIRED:
            self.member_id = joined.member_id
        self.check(joined.error_code)
        if joined.protocol_name not in self.protocols:
            self.story.wrong.append(
                f"{self.name} of {self.group} is to go by {joined.protocol_name}, it knows "
                f"{self.protocols}"
            )
        member_id, generation = self.synced
        self.earlier = (
            generation
            if member_id == joined.member_id and generation < joined.generation_id
            else -1
        )
        if joined.generation_id < max(self.had, default=-1):
            # nobody was in the group, and it had no offsets: it was forgotten, and begins anew
            self.had.clear()
        self.is_new()  # who was not assigned anything is not written down
        self.protocol = joined.protocol_name or ""
        self.member_id, self.generation = joined.member_id, joined.generation_id
        self.joined_at = self.now
        # nobody waits for who is given the generation again that it had
        known = (self.member_id, self.generation) == self.synced
        if self.instance is None and not known and self.random.random() < HANGS_BACK:
            await self._hang_back(where)
            return None
        mine = await self._sync(where, joined)
        self.story.claims.given(self.place, self.member_id, asked_at)  # not before
        return mine

    async def _sync(self, where: Address, joined: JoinGroupResponse) -> list[int]:
        request = SYNC_GROUP.request
        members = (
            [each.member_id for each in joined.members] if joined.leader == self.member_id else []
        )
        shares = {
            each: bytes(p for p in range(PARTITIONS) if p % len(members) == place)
            for place, each in enumerate(members)
        }
        row = request(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type="work",
            protocol_name=self.protocol,
            assignments=[
                request.assignments(member_id=each, assignment=share)
                for each, share in shares.items()
            ],
        )
        synced = await self.client.ask(where, SYNC_GROUP, row, 5.0)
        self.check(synced.error_code)
        if self.synced[0] == self.member_id and self.generation < self.synced[1]:
            self.story.wrong.append(
                f"generation back: {self.name} of {self.group} had {self.synced[1]}, now it has "
                f"{self.generation}"
            )
        self.synced = self.member_id, self.generation
        mine = list(bytes(synced.assignment))
        if self.instance is not None and self.had.setdefault(self.generation, mine) != mine:
            had = self.had[self.generation]
            self.story.wrong.append(
                f"{self.instance} of {self.group} is given {mine} in generation "
                f"{self.generation}, before it restarted {had}"
            )
        for partition in mine:
            self.story.given(
                self.group, self.generation, partition, self.instance or self.member_id
            )
        return mine

    async def _work(self, where: Address, mine: list[int]) -> None:
        """Work until told to join again. Begins at the offset that the last owner of each partition
        has committed.
        """
        at = await self.fetch(where, mine) if mine else {}
        asleep_at = self.random.randint(3, 60)
        silent = self.random.choice(SILENT_TURNS)
        for number in range(200):
            if self.over:
                return
            if self.instance is not None and self.random.random() < RESTARTS:
                self._anew()
                return
            if number == asleep_at:
                # and it does not ask first whether it still is a member
                await trio.sleep(self.random.uniform(*ASLEEP_S))
            if mine and number >= silent:
                at = {p: max(0, offset) + 1 for p, offset in at.items()}
                other, asked_at = self.story.claims.since(self.place, self.joined_at), self.now
                await self.commit(where, at, self.generation, self.member_id, self.instance)
                self.was_heard_for_good(asked_at)
                for partition in mine:
                    self.commits[partition] += 1
                if other:
                    self.story.wrong.append(
                        f"zombie: {self.name} commits as {self.instance}, which {other} was "
                        "before it asked"
                    )
            if number % 3 == 0 and number != asleep_at:
                self.check(await self._heartbeat(where))
            if mine and self.earlier >= 0 and self.random.random() < LATE:
                await self._commit_late(where, at)
            self.count += not mine
            await self.pause(PAUSE_S)
        if self.instance is None and self.random.random() < LEAVES:
            await self._leave(where)

    async def _heartbeat(self, where: Address) -> int:
        """Its answer."""
        asked_at, coordinator = self.now, self.story.coordinator(self.group)
        row = HEARTBEAT.request(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
        )
        code: int = (await self.client.ask(where, HEARTBEAT, row)).error_code
        if code == Code.NONE:
            self.was_heard(asked_at, coordinator)
        return code

    async def _commit_late(self, where: Address, at: Mapping[int, int]) -> None:
        """Send a commit of an earlier generation, as if it had been late. Raises NoAnswer."""
        places = {(TOPIC, partition): offset for partition, offset in at.items()}
        codes = await self.ask_to_commit(where, places, self.earlier, self.member_id, self.instance)
        if Code.NONE in codes.values():
            self.story.wrong.append(
                f"zombie: a commit of generation {self.earlier} of {self.group} is taken in "
                f"{self.generation}"
            )
        self.earlier = -1

    async def _hang_back(self, where: Address) -> None:
        """Send heartbeats, but do not rejoin when told to. Raises NoAnswer, and Refused when the
        group has gone on without it.
        """
        began, coordinator, late = self.now, self.story.coordinator(self.group), 0
        self.is_new()
        while self.instance is None and not self.over:
            row = HEARTBEAT.request(
                group_id=self.group, generation_id=self.generation, member_id=self.member_id
            )
            asked_at = self.now
            code = (await self.client.ask(where, HEARTBEAT, row)).error_code
            if code not in (Code.NONE, Code.REBALANCE_IN_PROGRESS):
                self._anew()
                self.check(code)
            if self.story.coordinator(self.group) != coordinator:
                return
            late += asked_at > began + PATIENCE_S
            if late == TIMES:
                self.story.wrong.append(
                    f"{self.group} waits for {self.name} for {self.now - began:.1f} s, the "
                    f"rebalance time-out is {REBALANCE_MS} ms"
                )
                return
            await trio.sleep(0.1)

    async def _leave(self, where: Address) -> None:
        request, member_id = LEAVE_GROUP.request, self.member_id
        self._anew()
        if (self.client.shape.version(LEAVE_GROUP) or 0) < LEAVE_SAYS_MEMBERS:
            row = request(group_id=self.group, member_id=member_id)
        else:
            row = request(group_id=self.group, members=[request.members(member_id=member_id)])
        answer = await self.client.ask(where, LEAVE_GROUP, row)
        self.check(answer.error_code or (answer.members[0].error_code if answer.members else 0))


def members_left(cluster: Cluster) -> list[str]:
    """Members, or members to be, of groups whose coordinators live."""
    found = []
    for node in cluster.judged.values():
        for coordinator in node.groups.runtime.partitions.values():
            machine = coordinator.machine
            assert isinstance(machine, GroupCoordinator)
            for group in (
                machine.groups.values()
                if coordinator.state in LOADED and coordinator.partition.leader is not None
                else ()
            ):
                who = [*group.members, *group.pending]
                if who:
                    found.append(
                        f"{group.group_id} has {len(who)} members, {who[0]} is one of them,"
                    )
    return found


def coordinator_in(cluster: Cluster, group: str) -> object:
    """The coordinator of the group, its epoch, and whether it can write its decisions; None: its
    topic does not exist yet.
    """
    topic = cluster.newest.image.topic_named(OFFSETS)
    partition = (
        topic.partitions[partition_for(group, len(topic.partitions))] if topic is not None else None
    )
    return (
        (partition.leader, partition.leader_epoch, len(partition.isr) < MIN_ISR)
        if partition is not None
        else None
    )


def removals_of(cluster: Cluster, group: str) -> int:
    """The number of the group's tombstones in the longest log of its partition."""
    topic = cluster.newest.image.topic_named(OFFSETS)
    if topic is None:
        return 0
    replicas = cluster.partitions(OFFSETS, partition_for(group, len(topic.partitions))).values()
    key = group_key(group)
    counts = [
        sum(each == key and value is None for _, _, each, value in all_of(partition))
        for partition in replicas
    ]
    return max(counts, default=0)


def move_leaders(
    cluster: Cluster, chance: Random, names: Sequence[str], over: Callable[[], bool]
) -> None:
    """As an administrator does, again and again: replicas of one of the topics change their order,
    and the first of them is to lead.
    """
    if over():
        return
    topic = cluster.newest.image.topic_named(names[0] if len(names) == 1 else chance.choice(names))
    brokers = [
        node for node_id, node in cluster.judged.items() if node_id not in cluster.controllers
    ]
    if topic is not None and brokers:
        controller = chance.choice(brokers).controller
        index = chance.randrange(len(topic.partitions))
        replicas = topic.partitions[index].replicas
        move = MovedTopic(topic.name, (Move(index, tuple(chance.sample(replicas, len(replicas)))),))
        for command in (AlterReassignments((move,)), ElectLeaders(0)):
            controller.call(command, lambda error, reply: None, MOVED_S[1])
    cluster.world.at(
        cluster.world.now + chance.uniform(*MOVED_S),
        lambda: move_leaders(cluster, chance, names, over),
    )


async def hold_on(
    member: GroupClient, member_id: str, beat: Callable[[], Awaitable[int]], rebalance_ms: int
) -> None:
    """Send heartbeats, but keep all that the member was told to give up. `beat`: returns the error
    code of one. Raises NoAnswer in the end; Refused when the group has gone on.
    """
    story, group = member.story, member.group
    began, coordinator, late = member.now, story.coordinator(group), 0
    while not member.over and story.coordinator(group) == coordinator:
        asked_at = member.now
        code = await beat()
        if code in (Code.UNKNOWN_MEMBER_ID, Code.FENCED_MEMBER_EPOCH):
            member.is_new()
        member.check(code)
        late += asked_at > began + PATIENCE_S
        if late == TIMES:
            said = (
                f"{group} waits for {member_id} for {member.now - began:.1f} s to give up what it "
                "is to"
            )
            story.wrong.append(f"{said}, the rebalance time-out is {rebalance_ms} ms")
        await trio.sleep(0.1)
    member.is_new()
    raise NoAnswer  # it has not listened, and begins with all that there is to say


class OfGroups:
    """The parts that workloads of groups share: a story, clients that end when they are told to,
    and the checker.
    """

    topics: Sequence[tuple[str, int]] = ((OFFSETS, 2),)

    def __init__(self, pace: float = 1.0) -> None:
        self.pace = pace
        self.over = False
        self.story = Story()
        self.clients: list[GroupClient] = []

    @property
    def wrong(self) -> list[str]:
        return self.story.wrong

    def move_coordinators(self, cluster: Cluster, chance: Random) -> None:
        move_leaders(cluster, chance, [OFFSETS], lambda: self.over)

    def end(self) -> None:
        self.over = True
        for each in self.clients:
            each.over = True

    @property
    def ended(self) -> bool:
        return all(each.done for each in self.clients)

    def judge(self, cluster: Cluster, groups: Mapping[str, Sequence[object]]) -> list[str]:
        """Once more, what each of these groups has for its partitions in the end."""
        found = []
        if not cluster.settled(lambda: not members_left(cluster), ALL_GONE_S):
            found += [
                f"{each} when all members have been gone for {ALL_GONE_S} s"
                for each in members_left(cluster)
            ]
        reader = GroupClient(cluster.client("last"), self.story, "")
        for group, partitions in groups.items():
            reader.group = group
            cluster.do(reader.client, lambda partitions=partitions: _insist(reader, partitions))  # type: ignore[misc]
        return found + [
            str(each)
            for each in check(
                self.story.history, Rules(least_acknowledged=0, least_polled=0)
            ).anomalies
        ]


class GroupWork(OfGroups):
    settings: ClassVar[Mapping[str, str]] = {
        "offsets.topic.num.partitions": "2",
        "group.min.session.timeout.ms": "100",
        "group.initial.rebalance.delay.ms": "100",
        "offsets.retention.check.interval.ms": "700",
        "replica.lag.time.max.ms": "2000",
        "leader.imbalance.check.interval.seconds": "1",  # leaderships go back and forth
    }

    def begin(self, cluster: Cluster, chance: Random) -> None:
        client = cluster.client()
        cluster.do(client, lambda: client.create_topic(TOPIC, PARTITIONS, 3))
        self.story.coordinator = lambda group: coordinator_in(cluster, group)
        self.story.removals = lambda group: removals_of(cluster, group)
        self.clients += [
            Committer(cluster.client_of_a_library(f"simple{i}"), self.story, f"simple{i}")
            for i in range(SIMPLE)
        ]
        static = chance.random() < 0.5  # two processes take themselves for the same member
        for i in range(MEMBERS):
            instance = "the one" if i < 2 and static else None
            member = (
                cluster.client_of_a_library(f"member{i}", STATIC)
                if instance
                else cluster.client_of_a_library(f"member{i}")
            )
            self.members.append(Member(member, self.story, "workers", f"member{i}", instance))
        self.clients += self.members
        self.clients += [
            Forgetful(cluster.client_of_a_library(f"forgetful{i}"), self.story, f"forgetful{i}")
            for i in range(FORGETFUL)
        ]
        for each in self.clients:
            each.pace = self.pace
            each.client.runtime.spawn(each.run, each.group)
        cluster.settled(lambda: all(each.count for each in self.clients[:SIMPLE]), 20.0)
        self.move_coordinators(cluster, chance)

    def __init__(self, pace: float = 1.0) -> None:
        super().__init__(pace)
        self.members: list[Member] = []

    @property
    def counts(self) -> Sequence[int]:
        """Commits of each partition of the group, and of each single client."""
        alone = [each.count for each in self.clients if not isinstance(each, Member)]
        return [
            *alone,
            *(
                sum(each.commits[partition] for each in self.members)
                for partition in range(PARTITIONS)
            ),
        ]

    def check(self, cluster: Cluster) -> list[str]:
        return self.judge(
            cluster,
            {each.group: [0] for each in self.clients[:SIMPLE]} | {"workers": range(PARTITIONS)},
        )


async def _insist(reader: GroupClient, partitions: Sequence[object]) -> object:
    while True:
        try:
            return await reader.fetch(await reader.coordinator(), partitions)
        except NoAnswer:
            await reader.rest()
