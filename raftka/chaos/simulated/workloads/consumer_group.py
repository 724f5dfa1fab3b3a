"""Consumer groups of the protocol of KIP-848 at work: members that come, leave, are static, are
slow, and come back too late.

A member owns a partition from the heartbeat that gives it until the one that says it was given up.
What members commit and find stands in a history, which the checker judges; a commit of a partition
that another member has been given since must be refused, and each partition's commits go on.
Meanwhile a topic gets more partitions, and another one is made that they subscribe to. Members are
careless: they do not give up what they are told to, come with an epoch of long ago, and take
themselves for an instance that another one is.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from random import Random
from typing import ClassVar
from uuid import UUID

import trio

from raftka.broker.coordinators.partition import BUSY
from raftka.chaos.simulated.clients.client import RETRY_S, Address, Client
from raftka.chaos.simulated.clients.groups import (
    SESSION_MS,
    SURELY_S,
    TOPIC,
    GroupClient,
    Place,
    Refused,
    Story,
)
from raftka.chaos.simulated.clients.shapes import NEW_GROUPS
from raftka.chaos.simulated.cluster import Cluster
from raftka.chaos.simulated.workloads.group import (
    PARTITIONS,
    PAUSE_S,
    OfGroups,
    coordinator_in,
    hold_on,
)
from raftka.coordinator.consumer.group import ConsumerGroup
from raftka.coordinator.groups import GroupCoordinator
from raftka.wire.errors import Code
from raftka.wire.messages.consumer_groups import (
    CONSUMER_GROUP_HEARTBEAT,
    ConsumerGroupHeartbeatRequest,
    OwnedTopicPartitions,
)
from raftka.wire.messages.partitions import CREATE_PARTITIONS

GROUP = "consumers"
MEMBERS = 4
HEARTBEAT_MS = 100
REBALANCE_MS = 1000
LATER, LATER_PARTITIONS = "orders.later", 4  # a topic that is made while they are at work
MORE_PARTITIONS = PARTITIONS + 2  # that the first topic gets meanwhile
CHANGES_S = (0.0, 6.0)  # when
ALL = [(TOPIC, each) for each in range(MORE_PARTITIONS)] + [
    (LATER, each) for each in range(LATER_PARTITIONS)
]
PATTERN = r"orders(\.later)?"
LOOKS_EVERY_S = 0.1
KEEPS_IT, OLD_EPOCH, LATE = 0.05, 0.03, 0.05  # chances: of a loss, a turn
# chance, of a loss: it gives up one topic, and the others after so long
ONE_BY_ONE, THE_REST_S = 0.6, (0.0, 0.5)
ASLEEP_S = (0.5, 2.5)
STAYS = ((8, 60), (8, 60), (100, 600))  # turns, until a member leaves or sleeps
JOINS, LEAVES, IS_BACK_SOON = 0, -1, -2  # as an epoch
BEGIN_ANEW = frozenset({Code.UNKNOWN_MEMBER_ID, Code.FENCED_MEMBER_EPOCH})
AGAIN = frozenset({Code.STALE_MEMBER_EPOCH, Code.UNRELEASED_INSTANCE_ID})


@dataclass
class Holder:
    """The last member that used an instance id."""

    member_id: str = ""
    asked_at: float = -inf
    coordinator: object = None


@dataclass(frozen=True)
class Habits:
    """The habits of a member."""

    instance: str | None = None
    regex: bool = False
    assignor: str | None = None
    stays: tuple[int, int] = STAYS[0]


class ConsumerMember(GroupClient):
    def __init__(
        self,
        client: Client,
        story: Story,
        group: "ConsumerGroupWork",
        names: Callable[[], Mapping[bytes, str]],
        habits: Habits,
    ) -> None:
        super().__init__(client, story, GROUP)
        self.commits = group.commits  # of each partition, by whomever
        self.holder = (
            group.holders.setdefault(habits.instance, Holder())
            if habits.instance is not None
            else None
        )
        self.names = names  # of topics by id
        self.habits = habits
        self.member_id = self._new_id()
        self.epoch = JOINS
        self.epochs: list[int] = []  # that it has had under its present id
        self.at: dict[Place, int] = {}  # partition that it owns -> what it committed last
        self.assigned: frozenset[Place] = frozenset()
        self.given_at: dict[Place, float] = {}  # partition -> when it was told that it has it
        self.given_up: dict[Place, int] = {}  # in which epoch
        self.keeps_the_rest_until = -inf

    @property
    def instance(self) -> str | None:
        return self.habits.instance

    def _new_id(self) -> str:
        return str(UUID(bytes=self.random.randbytes(16)))

    async def serve(self, where: Address) -> None:
        whole, stays = True, self.habits.stays
        turns = self.random.randint(*stays)
        while not self.over:
            try:
                await self._heartbeat(where, whole)
                whole = await self._reconcile(where) or self.epoch == JOINS
                await self._work(where)
                await self._be_careless(where)
                turns -= 1
                if turns == 0:
                    turns, whole = self.random.randint(*stays), True
                    await self._leave_or_sleep(where)
            except Refused as refused:
                whole = True
                if refused.code in BEGIN_ANEW:
                    self.turned_away(self.member_id, refused.code)
                    self._begin_anew()
                elif refused.code is Code.FENCED_INSTANCE_ID:
                    self._begin_anew()
                    self.member_id = self._new_id()
                elif refused.code not in AGAIN:
                    self.story.wrong.append(
                        f"{self.member_id} of {self.group} is refused with {refused.code.name}"
                    )
                    return
                await trio.sleep(HEARTBEAT_MS / 1000)

    def _begin_anew(self) -> None:
        self.epoch, self.assigned = JOINS, frozenset()
        self.at.clear()
        self.epochs.clear()
        self.given_up.clear()
        self.is_new()

    def _row(self, epoch: int, whole: bool) -> ConsumerGroupHeartbeatRequest:
        """`whole`: what the coordinator may not know, or not any more."""
        request, habits = CONSUMER_GROUP_HEARTBEAT.request, self.habits
        owned: list[OwnedTopicPartitions] = []
        for topic_id, name in self.names().items():
            partitions = sorted(index for topic, index in self.at if topic == name)
            owned += (
                [request.topic_partitions(topic_id=topic_id, partitions=partitions)]
                if partitions
                else []
            )
        return request(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=epoch,
            instance_id=self.instance,
            rebalance_timeout_ms=REBALANCE_MS if whole else -1,
            subscribed_topic_names=[TOPIC, LATER] if whole and not habits.regex else None,
            subscribed_topic_regex=PATTERN if whole and habits.regex else None,
            server_assignor=habits.assignor if whole else None,
            topic_partitions=owned if whole else None,
        )

    async def _heartbeat(self, where: Address, whole: bool) -> None:
        asked_at, coordinator = self.now, self.story.coordinator(self.group)
        joins = self.epoch == JOINS
        answer = await self.client.ask(
            where, CONSUMER_GROUP_HEARTBEAT, self._row(self.epoch, whole)
        )
        self.check(answer.error_code)
        if answer.member_epoch < self.epoch:
            self.story.wrong.append(
                f"epoch back: {self.member_id} had {self.epoch}, now it has {answer.member_epoch}"
            )
        self.epoch = answer.member_epoch
        if self.epochs[-1:] != [self.epoch]:
            self.epochs.append(self.epoch)
        if answer.assignment is not None:
            # without the topics that no broker which lives knows yet: they are not read before
            names = self.names()
            told = [
                (names.get(bytes(each.topic_id)), p)
                for each in answer.assignment.topic_partitions
                for p in each.partitions
            ]
            self.assigned = frozenset((name, p) for name, p in told if name is not None)
            for place in sorted(self.assigned - self.at.keys()):
                self.given_at[place] = self.now
                self.story.claims.given(place, self.member_id, asked_at)
        if self.at.keys() <= self.assigned:  # it has nothing to give up
            self.was_heard(asked_at, coordinator)
        else:
            asked_at = -inf  # it may be late with that, and removed
        self._holds(asked_at, coordinator, joins)

    def _holds(self, asked_at: float, coordinator: object, joins: bool) -> None:
        """Its instance. Who joins as one that another member is, and has not left, is to wait until
        that one's session is over.
        """
        holder = self.holder
        if holder is None:
            return
        same = (
            coordinator is not None
            and coordinator == holder.coordinator == self.story.coordinator(self.group)
        )
        if (
            joins
            and same
            and holder.member_id != self.member_id
            and self.now < holder.asked_at + SURELY_S
        ):
            self.story.wrong.append(
                f"{self.member_id} is let in as {self.instance}, which {holder.member_id} is"
            )
        if joins or holder.member_id == self.member_id or asked_at > holder.asked_at:
            holder.member_id, holder.asked_at = self.member_id, asked_at
            holder.coordinator = coordinator

    async def _reconcile(self, where: Address) -> bool:
        """Give up the revoked partitions, then take the assigned ones. True: something has changed,
        so a heartbeat must report it.
        """
        lost = sorted(self.at.keys() - self.assigned)
        if lost and self.random.random() < KEEPS_IT:
            await self._keep_all(where)
        if len({topic for topic, _ in lost}) > 1 and self.random.random() < ONE_BY_ONE:
            lost = [place for place in lost if place[0] == lost[0][0]]
            self.keeps_the_rest_until = self.now + self.random.uniform(*THE_REST_S)
        elif self.now < self.keeps_the_rest_until:
            lost = []
        if lost:
            await self._commit({p: self.at[p] + 1 for p in lost}, where)
            for place in lost:
                del self.at[place]
                self.given_up[place] = self.epoch
        new = sorted(self.assigned - self.at.keys())
        if new:
            found = await self.fetch(where, new, self.member_id, self.epoch)
            self.at.update({p: max(0, offset) for p, offset in found.items()})
        return bool(lost or new)

    async def _keep_all(self, where: Address) -> None:
        """Send heartbeats, but keep partitions that it was told to give up. Raises NoAnswer;
        Refused when the group has gone on.
        """

        async def beat() -> int:
            row = self._row(self.epoch, whole=False)
            return (await self.client.ask(where, CONSUMER_GROUP_HEARTBEAT, row)).error_code

        await hold_on(self, self.member_id, beat, REBALANCE_MS)

    async def _work(self, where: Address) -> None:
        for _ in range(2):
            await self.pause(PAUSE_S)
            if self.at and not self.over:
                self.at = {p: offset + 1 for p, offset in self.at.items()}
                await self._commit(self.at, where)

    async def _commit(self, offsets: Mapping[Place, int], where: Address) -> None:
        others = {p: self.story.claims.since(p, self.given_at[p]) for p in offsets}
        # of a member, not of the group
        await self.commit(
            where, offsets, self.epoch, self.member_id, self.instance, generation_told=-1
        )
        for place in offsets:
            self.commits[place] += 1
            if other := others[place]:
                self.story.wrong.append(
                    f"zombie: {self.member_id} commits {place[0]}-{place[1]}, which {other} was "
                    "given before it asked"
                )

    async def _be_careless(self, where: Address) -> None:
        """Says what must be refused, as if it had been on its way for long. Raises NoAnswer."""
        if len(self.epochs) > 2 and self.random.random() < OLD_EPOCH:
            answer = await self.client.ask(
                where, CONSUMER_GROUP_HEARTBEAT, self._row(self.epochs[-3], whole=True)
            )
            if answer.error_code == Code.NONE:
                self.story.wrong.append(
                    f"{self.member_id} is at epoch {self.epoch} or later, and is let go on from "
                    f"{self.epochs[-3]}"
                )
        if self.given_up and self.random.random() < LATE:
            place = self.random.choice(sorted(self.given_up))
            epoch = self.given_up.pop(place)
            other = (
                self.story.claims.since(place, self.given_at[place])
                if place not in self.assigned
                else ""
            )
            if other not in ("", self.member_id):
                codes = await self.ask_to_commit(
                    where, {place: 0}, epoch, self.member_id, self.instance
                )
                if Code.NONE in codes.values():
                    self.story.wrong.append(
                        f"zombie: {self.member_id} commits {place[0]}-{place[1]} of epoch "
                        f"{epoch}, {other} was given it since"
                    )

    async def _leave_or_sleep(self, where: Address) -> None:
        """And when it wakes, it does not ask first whether it still is a member."""
        if self.random.random() < 0.5:
            await trio.sleep(self.random.uniform(*ASLEEP_S))
            await self._work(where)
            return
        epoch = LEAVES if self.instance is None else IS_BACK_SOON
        if self.holder is not None and self.holder.member_id == self.member_id:
            self.holder.asked_at = -inf
        row = self._row(epoch, whole=False)
        self._begin_anew()
        self.member_id = self._new_id()
        self.check((await self.client.ask(where, CONSUMER_GROUP_HEARTBEAT, row)).error_code)


class ConsumerGroupWork(OfGroups):
    settings: ClassVar[Mapping[str, str]] = {
        "offsets.topic.num.partitions": "2",
        "group.consumer.session.timeout.ms": str(SESSION_MS),
        "group.consumer.min.session.timeout.ms": str(SESSION_MS),
        "group.consumer.heartbeat.interval.ms": str(HEARTBEAT_MS),
        "group.consumer.min.heartbeat.interval.ms": str(HEARTBEAT_MS),
        "replica.lag.time.max.ms": "2000",
        "leader.imbalance.check.interval.seconds": "1",
    }

    def __init__(self, pace: float = 1.0) -> None:
        super().__init__(pace)
        self.commits = dict.fromkeys(ALL, 0)
        self.holders: dict[str, Holder] = {}

    def begin(self, cluster: Cluster, chance: Random) -> None:
        client = cluster.client()
        cluster.do(client, lambda: client.create_topic(TOPIC, PARTITIONS, 3))
        self.story.coordinator = lambda group: coordinator_in(cluster, group)
        assignor, shared = chance.choice((None, "uniform", "range")), chance.random() < 0.3
        stays = chance.choice(STAYS)

        def names() -> Mapping[bytes, str]:
            return {
                topic_id: topic.name
                for topic_id, topic in cluster.newest.image.topics.items()
                if topic.name in (TOPIC, LATER)
            }

        for i in range(MEMBERS):
            instance = (
                "shared" if shared and i < 2 else f"instance{i}" if chance.random() < 0.3 else None
            )
            habits = Habits(instance, chance.random() < 0.3, assignor, stays)
            member = cluster.client_of_a_library(f"consumer{i}", NEW_GROUPS)
            self.clients.append(ConsumerMember(member, self.story, self, names, habits))
        for each in self.clients:
            each.pace = self.pace
            each.client.runtime.spawn(each.run, each.group)
        self._check_targets(cluster)
        grower = cluster.client("grower")
        times = chance.uniform(*CHANGES_S), chance.uniform(*CHANGES_S)
        grower.runtime.spawn(lambda: _more_partitions(grower, times[0]), "more partitions")
        grower.runtime.spawn(lambda: _another_topic(grower, times[1]), "another topic")
        cluster.settled(lambda: all(self.commits[TOPIC, each] for each in range(PARTITIONS)), 20.0)
        self.move_coordinators(cluster, chance)

    def _check_targets(self, cluster: Cluster) -> None:
        """All members subscribe to the same topics: their targets must have each partition once,
        with any assignor.
        """
        for node in cluster.judged.values():
            for coordinator in node.groups.runtime.partitions.values():
                assert isinstance(coordinator.machine, GroupCoordinator)
                group = coordinator.machine.groups.get(GROUP)
                if (
                    isinstance(group, ConsumerGroup)
                    and group.epoch.epoch == group.targets.epoch
                    and coordinator.state is not BUSY
                ):
                    self._share(group)
        cluster.world.at(cluster.world.now + LOOKS_EVERY_S, lambda: self._check_targets(cluster))

    def _share(self, group: ConsumerGroup) -> None:
        shared: dict[bytes, list[int]] = defaultdict(list)
        for target in group.target.values():
            for topic_id, partitions in target.items():
                shared[topic_id] += partitions
        for found in shared.values():
            if sorted(found) != list(range(len(found))) and not self.story.wrong:
                self.story.wrong.append(
                    f"{GROUP} at epoch {group.epoch.epoch} is to share out the partitions "
                    f"{sorted(found)} of a topic"
                )

    @property
    def counts(self) -> Sequence[int]:
        return list(self.commits.values())

    def check(self, cluster: Cluster) -> list[str]:
        return self.judge(cluster, {GROUP: ALL})


async def _another_topic(client: Client, after_s: float) -> None:
    await trio.sleep(after_s)
    await client.create_topic(LATER, LATER_PARTITIONS, 3)


async def _more_partitions(client: Client, after_s: float) -> None:
    """Until all brokers can be told so."""
    await trio.sleep(after_s)
    request = CREATE_PARTITIONS.request
    row = request(
        topics=[request.topics(name=TOPIC, count=MORE_PARTITIONS, assignments=None)],
        timeout_ms=3000,
    )
    while True:
        answer = await client.anybody(CREATE_PARTITIONS, row)
        if answer.results[0].error_code in (Code.NONE, Code.INVALID_PARTITIONS):  # it has them
            return
        await trio.sleep(RETRY_S)
