"""Streams groups (KIP-1071) at work: members that run tasks, give them up when they are told to,
crash without a word, sleep, leave and come back too late, while coordinators move and die.

A member owns a task from the heartbeat that gives it until the one that says it was given up. The
offsets that members commit and find stand in a history, which the checker judges. No two members
that are both heard of own the same active task; a commit of a task that another member was given
since is refused; each task goes on when all is healed.
"""

from collections.abc import Mapping, Sequence
from random import Random
from typing import ClassVar, NamedTuple
from uuid import UUID

import trio

from raftka.broker.coordinators.partition import BUSY
from raftka.chaos.simulated.clients.client import Address, Client
from raftka.chaos.simulated.clients.groups import (
    SESSION_MS,
    SURELY_S,
    GroupClient,
    Place,
    Refused,
)
from raftka.chaos.simulated.clients.shapes import NEW_GROUPS
from raftka.chaos.simulated.clients.share_states import configure
from raftka.chaos.simulated.cluster import Cluster
from raftka.chaos.simulated.workloads.group import PAUSE_S, OfGroups, coordinator_in, hold_on
from raftka.coordinator.groups import GroupCoordinator
from raftka.coordinator.streams.group import StreamsGroup
from raftka.wire.errors import Code
from raftka.wire.messages.streams_groups import (
    STREAMS_GROUP_HEARTBEAT,
    OwnedTaskIds,
    StreamsGroupHeartbeatRequest,
    TaskIds,
    Topology,
)

GROUP, MEMBERS = "flows", 4
SOURCE, SOURCE_PARTITIONS = "clicks", 4
REPARTITIONED, REPARTITIONS = "flows-repartition", 3  # the brokers make it
CHANGELOG = "flows-changelog"
READS = {"0": SOURCE, "1": REPARTITIONED}  # the topic that each subtopology reads
ALL = [(SOURCE, each) for each in range(SOURCE_PARTITIONS)] + [
    (REPARTITIONED, each) for each in range(REPARTITIONS)
]
HEARTBEAT_MS, REBALANCE_MS = 100, 1000
STANDBYS = ("0", "0", "1")
LOOKS_EVERY_S = 0.1
ASLEEP_S = (0.5, 2.5)
# chances: of a turn, that a process dies without a word, or a late commit comes; of a loss, that a
# member is slow to give a task up, or does not; of a member, that it shares a process
CRASHES, LATE, SLOW, KEEPS_IT, SHARES_PROCESS = 0.02, 0.1, 0.1, 0.1, 0.3
STAYS = (8, 60)  # turns, until a member leaves or sleeps
JOINS, LEAVES = 0, -1  # as an epoch
BEGIN_ANEW = frozenset({Code.UNKNOWN_MEMBER_ID, Code.FENCED_MEMBER_EPOCH})

Task = tuple[str, int]  # subtopology and partition


class Zombie(NamedTuple):
    """A task that a member has had."""

    member_id: str
    epoch: int
    place: Place
    given_at: float


class StreamsMember(GroupClient):
    def __init__(self, client: Client, group: "StreamsWork", process_id: str) -> None:
        super().__init__(client, group.story, GROUP)
        self.commits = group.commits
        self.owners = group.owners
        self.process_id = process_id
        self.member_id = self._new_id()
        self.epoch = JOINS
        self.at: dict[Place, int] = {}  # of an active task -> what it committed last
        self.assigned: frozenset[Place] = frozenset()  # its active tasks
        self.standby: Sequence[Task] = ()
        self.reports = False  # the next heartbeat must name its standby tasks: they have changed
        self.given_at: dict[Place, float] = {}
        self.gone: list[Zombie] = []

    def _new_id(self) -> str:
        return str(UUID(bytes=self.random.randbytes(16)))

    async def serve(self, where: Address) -> None:
        owned_changed, turns = True, self.random.randint(*STAYS)
        while not self.over:
            try:
                await self._heartbeat(where, says_owned=owned_changed)
                owned_changed = await self._reconcile(where)
                await self._work(where)
                await self._be_careless(where)
                turns -= 1
                if turns == 0:
                    turns, owned_changed = self.random.randint(*STAYS), True
                    await self._leave_or_sleep(where)
            except Refused as refused:
                owned_changed = True
                if refused.code in BEGIN_ANEW:
                    self.turned_away(self.member_id, refused.code)
                    self._begin_anew()
                elif refused.code is not Code.STALE_MEMBER_EPOCH:
                    self.story.wrong.append(
                        f"{self.member_id} of {self.group} is refused with {refused.code.name}"
                    )
                    return
                await trio.sleep(HEARTBEAT_MS / 1000)

    def _begin_anew(self) -> None:
        self.epoch, self.assigned, self.standby = JOINS, frozenset(), ()
        for place in self.at:
            self._give_up(place)
        self.at.clear()
        self.is_new()

    # heartbeats

    def _row(self, epoch: int, *, says_owned: bool) -> StreamsGroupHeartbeatRequest:
        request = STREAMS_GROUP_HEARTBEAT.request
        joins = epoch == JOINS
        says = says_owned or joins
        return request(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=epoch,
            rebalance_timeout_ms=REBALANCE_MS if joins else -1,
            topology=topology() if joins else None,
            process_id=self.process_id if joins else None,
            active_tasks=_owned(self._tasks()) if says else None,
            standby_tasks=_owned(self.standby if not joins else ()) if says else None,
            warmup_tasks=[] if says else None,
        )

    def _tasks(self) -> list[Task]:
        names = {topic: subtopology for subtopology, topic in READS.items()}
        return sorted((names[topic], partition) for topic, partition in self.at)

    async def _heartbeat(self, where: Address, *, says_owned: bool) -> None:
        asked_at, coordinator = self.now, self.story.coordinator(self.group)
        answer = await self.client.ask(
            where, STREAMS_GROUP_HEARTBEAT, self._row(self.epoch, says_owned=says_owned)
        )
        self.check(answer.error_code)
        if answer.member_epoch < self.epoch:
            self.story.wrong.append(
                f"epoch back: {self.member_id} had {self.epoch}, now it has {answer.member_epoch}"
            )
        self.epoch = answer.member_epoch
        before = self.standby
        if answer.standby_tasks is not None:
            self.standby = _told(answer.standby_tasks)
        if answer.active_tasks is not None:
            told = _told(answer.active_tasks)
            self.assigned = frozenset((READS[each], partition) for each, partition in told)
            for place in sorted(self.assigned - self.at.keys()):
                self.given_at[place] = self.now
                self.story.claims.given(place, self.member_id, asked_at)
                self._own(place)
        self.reports = self.standby != before
        if self.at.keys() <= self.assigned and not self.reports:  # it has nothing to give up
            self.was_heard(asked_at, coordinator)

    def _own(self, place: Place) -> None:
        """Note its task; the member that had it has given it up, or is not heard of any more."""
        other = self.owners.get(place)
        coordinator = self.story.coordinator(self.group)
        if other is not None and other is not self and place in other.at and coordinator:
            heard_at, by = other._heard
            if by == coordinator and self.now < heard_at + SURELY_S:
                self.story.wrong.append(
                    f"two owners: {self.member_id} is given {place[0]}-{place[1]}, which "
                    f"{other.member_id} has, and was heard of {self.now - heard_at:.3f} s ago"
                )
        self.owners[place] = self

    def _give_up(self, place: Place) -> None:
        if self.owners.get(place) is self:
            del self.owners[place]

    async def _reconcile(self, where: Address) -> bool:
        """Give up the revoked tasks, then take the assigned ones. True: something has changed, so a
        heartbeat must report it.
        """
        lost = sorted(self.at.keys() - self.assigned)
        if lost and self.random.random() < SLOW:
            await trio.sleep(self.random.uniform(*ASLEEP_S))
        if lost and self.random.random() < KEEPS_IT:
            await self._keep_all(where)
        if lost:
            await self._commit({place: self.at[place] + 1 for place in lost}, where)
            for place in lost:
                self.gone.append(Zombie(self.member_id, self.epoch, place, self.given_at[place]))
                del self.at[place]
                self._give_up(place)
        new = sorted(self.assigned - self.at.keys())
        if new:
            found = await self.fetch(where, new, self.member_id, self.epoch)
            self.at.update({place: max(0, offset) for place, offset in found.items()})
        return bool(lost or new) or self.reports

    async def _keep_all(self, where: Address) -> None:
        """Send heartbeats, but keep tasks that it was told to give up. Raises NoAnswer, Refused."""

        async def beat() -> int:
            row = self._row(self.epoch, says_owned=False)
            return (await self.client.ask(where, STREAMS_GROUP_HEARTBEAT, row)).error_code

        await hold_on(self, self.member_id, beat, REBALANCE_MS)

    # work

    async def _work(self, where: Address) -> None:
        for _ in range(2):
            await self.pause(PAUSE_S)
            if self.at and not self.over:
                self.at = {place: offset + 1 for place, offset in self.at.items()}
                await self._commit(self.at, where)

    async def _commit(self, offsets: Mapping[Place, int], where: Address) -> None:
        others = {p: self.story.claims.since(p, self.given_at[p]) for p in offsets}
        await self.commit(where, offsets, self.epoch, self.member_id, generation_told=-1)
        for place in offsets:
            self.commits[place] += 1
            if others[place] not in ("", self.member_id):
                self.story.wrong.append(
                    f"zombie: {self.member_id} commits {place[0]}-{place[1]}, which "
                    f"{others[place]} was given before it asked"
                )

    async def _be_careless(self, where: Address) -> None:
        """Crash, or commit what another member has by now. Raises NoAnswer."""
        if self.random.random() < CRASHES:
            self.gone += [
                Zombie(self.member_id, self.epoch, place, self.given_at[place])
                for place in sorted(self.at)
            ]
            self._begin_anew()
            self.member_id = self._new_id()
            self.client.hang_up(where)
        if self.gone and self.random.random() < LATE:
            zombie = self.gone.pop(self.random.randrange(len(self.gone)))
            member_id, epoch, place, given_at = zombie
            other = self.story.claims.since(place, given_at)
            if other in ("", self.member_id, member_id):
                return
            codes = await self.ask_to_commit(where, {place: 0}, epoch, member_id)
            if Code.NONE in codes.values():
                self.story.wrong.append(
                    f"zombie: {member_id} commits {place[0]}-{place[1]} of epoch {epoch}, {other} "
                    "was given it since"
                )

    async def _leave_or_sleep(self, where: Address) -> None:
        """And when it wakes, it does not ask first whether it still is a member."""
        if self.random.random() < 0.5:
            await trio.sleep(self.random.uniform(*ASLEEP_S))
            await self._work(where)
            return
        row = self._row(LEAVES, says_owned=False)
        self._begin_anew()
        self.member_id = self._new_id()
        self.check((await self.client.ask(where, STREAMS_GROUP_HEARTBEAT, row)).error_code)


class StreamsWork(OfGroups):
    settings: ClassVar[Mapping[str, str]] = {
        "offsets.topic.num.partitions": "2",
        "group.streams.session.timeout.ms": str(SESSION_MS),
        "group.streams.min.session.timeout.ms": str(SESSION_MS),
        "group.streams.heartbeat.interval.ms": str(HEARTBEAT_MS),
        "group.streams.min.heartbeat.interval.ms": str(HEARTBEAT_MS),
        "group.streams.assignment.interval.ms": "100",
        "group.streams.initial.rebalance.delay.ms": "100",
        "replica.lag.time.max.ms": "2000",
        "leader.imbalance.check.interval.seconds": "1",
    }

    def __init__(self, pace: float = 1.0) -> None:
        super().__init__(pace)
        self.commits = dict.fromkeys(ALL, 0)
        self.owners: dict[Place, StreamsMember] = {}

    def begin(self, cluster: Cluster, chance: Random) -> None:
        client = cluster.client()
        cluster.do(client, lambda: client.create_topic(SOURCE, SOURCE_PARTITIONS, 3))
        settings = {"streams.num.standby.replicas": chance.choice(STANDBYS)}
        cluster.do(client, lambda: configure(client, GROUP, settings))
        self.story.coordinator = lambda group: coordinator_in(cluster, group)
        for number in range(MEMBERS):
            process = 0 if chance.random() < SHARES_PROCESS else number
            member = cluster.client_of_a_library(f"streams{number}", NEW_GROUPS)
            self.clients.append(StreamsMember(member, self, f"process-{process}"))
        for each in self.clients:
            each.pace = self.pace
            each.client.runtime.spawn(each.run, each.group)
        self._check_targets(cluster)
        cluster.settled(lambda: all(self.commits.values()), 20.0)
        self.move_coordinators(cluster, chance)

    def _check_targets(self, cluster: Cluster) -> None:
        """The members' targets have each task exactly once, when they are of the group's epoch."""
        for node in cluster.judged.values():
            for coordinator in node.groups.runtime.partitions.values():
                assert isinstance(coordinator.machine, GroupCoordinator)
                group = coordinator.machine.groups.get(GROUP)
                if isinstance(group, StreamsGroup) and coordinator.state is not BUSY:
                    self._check_target(group)
        cluster.world.at(cluster.world.now + LOOKS_EVERY_S, lambda: self._check_targets(cluster))

    def _check_target(self, group: StreamsGroup) -> None:
        tasks = sorted(
            (READS[subtopology], partition)
            for target in group.target.values()
            for subtopology, partitions in target.active.items()
            for partition in partitions
        )
        ready = group.topology is not None and group.epoch.validated_topology == 0
        current = group.epoch.epoch == group.targets.epoch and bool(group.members)
        if ready and current and tasks != sorted(ALL) and not self.story.wrong:
            self.story.wrong.append(
                f"unassigned: {GROUP} at epoch {group.epoch.epoch} is to run the tasks {tasks}"
            )

    @property
    def counts(self) -> Sequence[int]:
        return list(self.commits.values())

    def check(self, cluster: Cluster) -> list[str]:
        return self.judge(cluster, {GROUP: ALL})


def topology() -> Topology:
    """Return two subtopologies, of which the second reads what the first writes."""
    request = STREAMS_GROUP_HEARTBEAT.request
    subtopology = request.topology.subtopologies
    first = subtopology(
        subtopology_id="0",
        source_topics=[SOURCE],
        repartition_sink_topics=[REPARTITIONED],
        state_changelog_topics=[
            subtopology.state_changelog_topics(name=CHANGELOG, replication_factor=3)
        ],
    )
    second = subtopology(
        subtopology_id="1",
        repartition_source_topics=[
            subtopology.repartition_source_topics(
                name=REPARTITIONED, partitions=REPARTITIONS, replication_factor=3
            )
        ],
    )
    return request.topology(epoch=0, subtopologies=[first, second])


def _owned(tasks: Sequence[Task]) -> list[OwnedTaskIds]:
    make = STREAMS_GROUP_HEARTBEAT.request.active_tasks
    return [
        make(subtopology_id=each, partitions=[index for name, index in tasks if name == each])
        for each in sorted({name for name, _ in tasks})
    ]


def _told(rows: Sequence[TaskIds]) -> list[Task]:
    return [(each.subtopology_id, partition) for each in rows for partition in each.partitions]
