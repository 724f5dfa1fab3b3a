"""Groups at work: clients that commit offsets for a group of their own, and classic groups whose members come, go, are slow, and come back too late.

What each commits and finds stands in a history, which the checker judges; what two members of one generation are both given is seen at once.
"""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, ClassVar

import trio

from raftka.chaos.checker import check
from raftka.chaos.history import COMMIT, FAIL, FETCH_OFFSET, INFO, OK, History
from raftka.chaos.simulated.client import Address, Client, NoAnswer
from raftka.chaos.simulated.cluster import Cluster
from raftka.chaos.verdict import Rules
from raftka.wire.errors import Code
from raftka.wire.messages.find_coordinator import FIND_COORDINATOR
from raftka.wire.messages.groups import HEARTBEAT, JOIN_GROUP, SYNC_GROUP
from raftka.wire.messages.offsets import OFFSET_COMMIT, OFFSET_FETCH
from raftka.wire.rows import Row

TOPIC, OFFSETS = "orders", "__consumer_offsets"
PARTITIONS = 4
SIMPLE, MEMBERS = 3, 3
PAUSE_S = (0.02, 0.1)
SESSION_MS = 1000
ASLEEP_S = (0.5, 2.5)  # a member that is slow
PASSES = frozenset({Code.NOT_COORDINATOR, Code.COORDINATOR_NOT_AVAILABLE, Code.COORDINATOR_LOAD_IN_PROGRESS, Code.REQUEST_TIMED_OUT})
TURNED_AWAY = frozenset(
    {Code.UNKNOWN_MEMBER_ID, Code.ILLEGAL_GENERATION, Code.REBALANCE_IN_PROGRESS, Code.FENCED_INSTANCE_ID, Code.INCONSISTENT_GROUP_PROTOCOL}
)


class Refused(Exception):
    def __init__(self, code: Code) -> None:
        super().__init__(code.name)
        self.code = code


class Claims:
    """Who was given something last. What two have asked for at the same time nobody can tell the order of: answers overtake each other."""

    def __init__(self) -> None:
        self._last: dict[object, tuple[float, str]] = {}  # when it was asked for, by whom

    def given(self, what: object, who: str, asked_at: float) -> None:
        self._last[what] = max(self._last.get(what, (0.0, "")), (asked_at, who))

    def since(self, what: object, answered_at: float) -> str:
        """Who has asked for it since then, and was given it; "": nobody."""
        asked_at, who = self._last.get(what, (0.0, ""))
        return who if asked_at > answered_at else ""


class Story:
    """What all clients together did and saw."""

    def __init__(self) -> None:
        self.history = History()
        self.wrong: list[str] = []
        self.owners: dict[tuple[str, int, int], str] = {}  # (group, generation, partition) -> who
        self.claims = Claims()
        self._processes = 0

    def process(self) -> int:
        self._processes += 1
        return self._processes

    def given(self, group: str, generation: int, partition: int, who: str) -> None:
        owner = self.owners.setdefault((group, generation, partition), who)
        if owner != who:
            self.wrong.append(f"two owners: {owner} and {who} of {group} both have {TOPIC}-{partition} in generation {generation}")


class GroupClient:
    """Finds its coordinator, and asks it; commits and fetches are written down."""

    def __init__(self, client: Client, story: Story, group: str) -> None:
        self.client, self.story, self.group = client, story, group
        self.over = self.done = False
        self.count = 0
        self.random = client.runtime.random("group client")
        self._process = story.process()

    @property
    def now(self) -> float:
        return self.client.runtime.clock.now()

    async def run(self) -> None:
        while not self.over:
            try:
                await self.serve(await self.coordinator())
            except NoAnswer:
                await self.rest()
        self.done = True

    async def serve(self, where: Address) -> None:
        raise NotImplementedError

    async def coordinator(self) -> Address:
        while True:
            row = await self.client.anybody(FIND_COORDINATOR, FIND_COORDINATOR.request(coordinator_keys=[self.group]))
            (found,) = row.coordinators
            if found.error_code == Code.NONE:
                return found.host, found.port
            await self.rest()

    @staticmethod
    async def rest() -> None:
        """Before it is tried again."""
        await trio.sleep(0.05)

    def check(self, code: int) -> None:
        """Raises NoAnswer where another coordinator may have one, and Refused."""
        if code in PASSES:
            raise NoAnswer
        if code:
            raise Refused(Code(code))

    async def commit(
        self,
        where: Address,
        offsets: Mapping[int, int],
        generation: int = -1,
        member_id: str = "",
        instance: str | None = None,
        generation_told: int | None = None,
    ) -> None:
        """`generation`: of the group, or else `generation_told` is what the history is told."""
        request, history = OFFSET_COMMIT.request, self.story.history
        rows = [request.topics.partitions(partition_index=p, committed_offset=offset, committed_metadata="") for p, offset in offsets.items()]
        row = request(
            group_id=self.group,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=instance,
            topics=[request.topics(name=TOPIC, partitions=rows)],
        )
        told = {f"{TOPIC}-{p}": offset for p, offset in offsets.items()}
        known = generation if generation_told is None else generation_told
        history.invoke(self._process, COMMIT, self.now, group=self.group, generation=known, offsets=told)
        outcome = INFO
        try:
            answer = await self.client.ask(where, OFFSET_COMMIT, row)
            codes = {each.error_code for each in answer.topics[0].partitions}
            outcome = OK if codes == {0} else INFO if codes & PASSES else FAIL
            for code in codes:
                self.check(code)
        finally:
            history.end(self._process, outcome, self.now)
            if outcome == INFO:
                self._process = self.story.process()
        self.count += 1

    async def fetch(self, where: Address, partitions: Sequence[int], member_id: str | None = None, epoch: int = -1) -> dict[int, int]:
        request, history = OFFSET_FETCH.request, self.story.history
        topics = [request.groups.topics(name=TOPIC, partition_indexes=list(partitions))]
        row = request(groups=[request.groups(group_id=self.group, member_id=member_id, member_epoch=epoch, topics=topics)])
        history.invoke(self._process, FETCH_OFFSET, self.now, group=self.group)
        found: dict[int, int] = {}
        try:
            (group,) = (await self.client.ask(where, OFFSET_FETCH, row)).groups
            self.check(group.error_code)
            found = {each.partition_index: each.committed_offset for each in group.topics[0].partitions}
        finally:
            told = {f"{TOPIC}-{p}": offset for p, offset in found.items()}
            history.end(self._process, OK if found else FAIL, self.now, **({"offsets": told} if found else {}))
        return found


class Committer(GroupClient):
    """The only client of a simple group: commits 1, 2, 3, ... and looks now and then what there is."""

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
                self.story.wrong.append(f"{self.group}: a commit is refused with {refused.code.name}")
                return
            await trio.sleep(self.random.uniform(*PAUSE_S))


class Member(GroupClient):
    """Of a classic group; static if it has an instance id. Sleeps too long now and then, and commits all the same when it wakes."""

    def __init__(self, client: Client, story: Story, group: str, name: str, instance: str | None) -> None:
        super().__init__(client, story, group)
        self.name, self.instance = name, instance
        self.member_id = ""
        self.generation = -1
        self.joined_at = 0.0
        self.synced = "", -1  # member id and generation of the last assignment; one that nobody was assigned in the next coordinator does not know

    async def serve(self, where: Address) -> None:
        while not self.over:
            try:
                mine = await self._join(where)
                if mine is not None:
                    await self._work(where, mine)
            except Refused as refused:
                if refused.code is Code.MEMBER_ID_REQUIRED:
                    continue
                if refused.code not in TURNED_AWAY:
                    self.story.wrong.append(f"{self.name} of {self.group} is refused with {refused.code.name}")
                    return
                if refused.code in (Code.UNKNOWN_MEMBER_ID, Code.FENCED_INSTANCE_ID):
                    self.member_id = ""
                await trio.sleep(0.02)

    @property
    def place(self) -> str:
        """What another may take from it: nobody else's, unless it is static."""
        return self.instance or self.member_id

    async def _join(self, where: Address) -> list[int] | None:
        request = JOIN_GROUP.request
        row = request(
            group_id=self.group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=SESSION_MS,
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type="work",
            protocols=[request.protocols(name="share", metadata=self.name.encode())],
        )
        asked_at = self.now
        joined = await self.client.ask(where, JOIN_GROUP, row, 5.0)
        if joined.error_code == Code.MEMBER_ID_REQUIRED:
            self.member_id = joined.member_id
        self.check(joined.error_code)
        self.member_id, self.generation, self.joined_at = joined.member_id, joined.generation_id, self.now
        mine = await self._sync(where, joined)
        self.story.claims.given(self.place, self.member_id, asked_at)  # not before: one that was not assigned anything is not written down
        return mine

    async def _sync(self, where: Address, joined: Row) -> list[int]:
        request = SYNC_GROUP.request
        members = [each.member_id for each in joined.members] if joined.leader == self.member_id else []
        shares = {each: bytes(p for p in range(PARTITIONS) if p % len(members) == place) for place, each in enumerate(members)}
        row = request(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type="work",
            protocol_name="share",
            assignments=[request.assignments(member_id=each, assignment=share) for each, share in shares.items()],
        )
        synced = await self.client.ask(where, SYNC_GROUP, row, 5.0)
        self.check(synced.error_code)
        if self.synced[0] == self.member_id and self.generation < self.synced[1]:
            self.story.wrong.append(f"generation back: {self.name} of {self.group} had {self.synced[1]}, now it has {self.generation}")
        self.synced = self.member_id, self.generation
        mine = list(bytes(synced.assignment))
        for partition in mine:
            self.story.given(self.group, self.generation, partition, self.instance or self.member_id)
        return mine

    async def _work(self, where: Address, mine: list[int]) -> None:
        """Until it is told to join again. Goes on where whoever had the partitions before has stopped."""
        at = await self.fetch(where, mine) if mine else {}
        asleep_at = self.random.randint(3, 60)
        row = HEARTBEAT.request(group_id=self.group, generation_id=self.generation, member_id=self.member_id, group_instance_id=self.instance)
        for number in range(200):
            if self.over:
                return
            if number == asleep_at:
                await trio.sleep(self.random.uniform(*ASLEEP_S))  # and it does not ask first whether it still is a member
            if mine:
                at = {p: max(0, offset) + 1 for p, offset in at.items()}
                other = self.story.claims.since(self.place, self.joined_at)
                await self.commit(where, at, self.generation, self.member_id, self.instance)
                if other:
                    self.story.wrong.append(f"zombie: {self.name} commits as {self.instance}, which {other} was before it asked")
            if number % 3 == 0 and number != asleep_at:
                self.check((await self.client.ask(where, HEARTBEAT, row)).error_code)
            self.count += not mine
            await trio.sleep(self.random.uniform(*PAUSE_S))


class OfGroups:
    """What workloads of groups share: a story, clients that end when they are told to, and the checker."""

    topics: Sequence[tuple[str, int]] = ((OFFSETS, 2),)

    def __init__(self) -> None:
        self.story = Story()
        self.clients: list[GroupClient] = []

    @property
    def wrong(self) -> list[str]:
        return self.story.wrong

    def end(self) -> None:
        for each in self.clients:
            each.over = True

    @property
    def ended(self) -> bool:
        return all(each.done for each in self.clients)

    def judge(self, cluster: Cluster, groups: Mapping[str, Sequence[int]]) -> list[str]:
        """Once more, what each of these groups has for its partitions in the end."""
        reader = GroupClient(cluster.client("last"), self.story, "")
        for group, partitions in groups.items():
            reader.group = group
            cluster.do(reader.client, lambda partitions=partitions: _insist(reader, partitions))  # type: ignore[misc]
        return [str(each) for each in check(self.story.history, Rules(least_acknowledged=0, least_polled=0)).anomalies]


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
        self.clients += [Committer(cluster.client(f"simple{i}"), self.story, f"simple{i}") for i in range(SIMPLE)]
        static = chance.random() < 0.5  # two processes take themselves for the same member
        for i in range(MEMBERS):
            instance = "the one" if i < 2 and static else None
            self.clients.append(Member(cluster.client(f"member{i}"), self.story, "workers", f"member{i}", instance))
        for each in self.clients:
            each.client.runtime.spawn(each.run, each.group)
        cluster.settled(lambda: all(each.count for each in self.clients[:SIMPLE]), 20.0)

    @property
    def counts(self) -> Sequence[int]:
        return [*(each.count for each in self.clients[:SIMPLE]), sum(each.count for each in self.clients[SIMPLE:])]

    def check(self, cluster: Cluster) -> list[str]:
        return self.judge(cluster, {each.group: [0] for each in self.clients[:SIMPLE]} | {"workers": range(PARTITIONS)})


async def _insist(reader: GroupClient, partitions: Sequence[int]) -> Any:
    while True:
        try:
            return await reader.fetch(await reader.coordinator(), partitions)
        except NoAnswer:
            await reader.rest()
