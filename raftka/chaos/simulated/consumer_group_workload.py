"""Consumer groups of the protocol of KIP-848 at work: members that come, leave, are static, are slow, and come back too late.

A member owns a partition from the heartbeat that gives it until the one that says it was given up. What members commit and find stands in a history,
which the checker judges; a commit of a partition that another member has been given since must be refused, and each partition's commits go on.
"""

from collections.abc import Mapping, Sequence
from random import Random
from typing import ClassVar
from uuid import UUID

import trio

from raftka.chaos.simulated.client import Address, Client
from raftka.chaos.simulated.cluster import Cluster
from raftka.chaos.simulated.group_workload import PARTITIONS, PAUSE_S, TOPIC, GroupClient, OfGroups, Refused, Story
from raftka.wire.errors import Code
from raftka.wire.messages.consumer_groups import CONSUMER_GROUP_HEARTBEAT
from raftka.wire.rows import Row

GROUP = "consumers"
MEMBERS = 4
SESSION_MS, HEARTBEAT_MS = 1000, 100
REBALANCE_MS = 1000
ASLEEP_S = (0.5, 2.5)
STAYS = (20, 120)  # turns, until a member leaves or sleeps
JOINS, LEAVES, IS_BACK_SOON = 0, -1, -2  # as an epoch
BEGIN_ANEW = frozenset({Code.UNKNOWN_MEMBER_ID, Code.FENCED_MEMBER_EPOCH})
AGAIN = frozenset({Code.STALE_MEMBER_EPOCH, Code.UNRELEASED_INSTANCE_ID})


class ConsumerMember(GroupClient):
    def __init__(self, client: Client, story: Story, commits: dict[int, int], topic_id: bytes, instance: str | None) -> None:
        super().__init__(client, story, GROUP)
        self.commits = commits  # of each partition, by whomever
        self.topic_id = topic_id
        self.instance = instance
        self.member_id = self._new_id()
        self.epoch = JOINS
        self.at: dict[int, int] = {}  # partition that it owns -> what it committed last
        self.assigned: frozenset[int] = frozenset()
        self.given_at: dict[int, float] = {}  # partition -> when it was told that it has it

    def _new_id(self) -> str:
        return str(UUID(bytes=self.random.randbytes(16)))

    async def serve(self, where: Address) -> None:
        whole, turns = True, self.random.randint(*STAYS)
        while not self.over:
            try:
                await self._heartbeat(where, whole)
                whole = await self._reconcile(where) or self.epoch == JOINS
                await self._work(where)
                turns -= 1
                if turns == 0:
                    turns, whole = self.random.randint(*STAYS), True
                    await self._leave_or_sleep(where)
            except Refused as refused:
                whole = True
                if refused.code in BEGIN_ANEW:
                    self._begin_anew()
                elif refused.code not in AGAIN:
                    self.story.wrong.append(f"{self.member_id} of {self.group} is refused with {refused.code.name}")
                    return
                await trio.sleep(HEARTBEAT_MS / 1000)

    def _begin_anew(self) -> None:
        self.epoch, self.assigned = JOINS, frozenset()
        self.at.clear()

    def _row(self, epoch: int, whole: bool) -> Row:
        """`whole`: what the coordinator may not know, or not any more."""
        request = CONSUMER_GROUP_HEARTBEAT.request
        owned = [request.topic_partitions(topic_id=self.topic_id, partitions=sorted(self.at))] if self.at else []
        return request(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=epoch,
            instance_id=self.instance,
            rebalance_timeout_ms=REBALANCE_MS if whole else -1,
            subscribed_topic_names=[TOPIC] if whole else None,
            topic_partitions=owned if whole else None,
        )

    async def _heartbeat(self, where: Address, whole: bool) -> None:
        asked_at = self.now
        answer = await self.client.ask(where, CONSUMER_GROUP_HEARTBEAT, self._row(self.epoch, whole))
        self.check(answer.error_code)
        if answer.member_epoch < self.epoch:
            self.story.wrong.append(f"epoch back: {self.member_id} had {self.epoch}, now it has {answer.member_epoch}")
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.assigned = frozenset(p for each in answer.assignment.topic_partitions for p in each.partitions)
            for partition in self.assigned - self.at.keys():
                self.given_at[partition] = self.now
                self.story.claims.given(partition, self.member_id, asked_at)

    async def _reconcile(self, where: Address) -> bool:
        """Gives up what it must, then takes what it may. True: something has changed, the coordinator is to be told."""
        lost = self.at.keys() - self.assigned
        if lost:
            await self._commit({p: self.at[p] + 1 for p in lost}, where)
            for partition in lost:
                del self.at[partition]
        new = sorted(self.assigned - self.at.keys())
        if new:
            found = await self.fetch(where, new, self.member_id, self.epoch)
            self.at.update({p: max(0, offset) for p, offset in found.items()})
        return bool(lost or new)

    async def _work(self, where: Address) -> None:
        for _ in range(2):
            await trio.sleep(self.random.uniform(*PAUSE_S))
            if self.at and not self.over:
                self.at = {p: offset + 1 for p, offset in self.at.items()}
                await self._commit(self.at, where)

    async def _commit(self, offsets: Mapping[int, int], where: Address) -> None:
        others = {p: self.story.claims.since(p, self.given_at[p]) for p in offsets}
        await self.commit(where, offsets, self.epoch, self.member_id, self.instance, generation_told=-1)  # of a member, not of the group
        for partition in offsets:
            self.commits[partition] += 1
            if other := others[partition]:
                self.story.wrong.append(f"zombie: {self.member_id} commits {TOPIC}-{partition}, which {other} was given before it asked")

    async def _leave_or_sleep(self, where: Address) -> None:
        """And when it wakes, it does not ask first whether it still is a member."""
        if self.random.random() < 0.5:
            await trio.sleep(self.random.uniform(*ASLEEP_S))
            await self._work(where)
            return
        epoch = LEAVES if self.instance is None else IS_BACK_SOON
        self.check((await self.client.ask(where, CONSUMER_GROUP_HEARTBEAT, self._row(epoch, whole=False))).error_code)
        self._begin_anew()
        self.member_id = self._new_id()


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

    def __init__(self) -> None:
        super().__init__()
        self.commits = dict.fromkeys(range(PARTITIONS), 0)

    def begin(self, cluster: Cluster, chance: Random) -> None:
        client = cluster.client()
        cluster.do(client, lambda: client.create_topic(TOPIC, PARTITIONS, 3))
        topic = cluster.newest.image.topic_named(TOPIC)
        assert topic is not None
        for i in range(MEMBERS):
            instance = f"instance{i}" if chance.random() < 0.3 else None
            self.clients.append(ConsumerMember(cluster.client(f"consumer{i}"), self.story, self.commits, topic.topic_id, instance))
        for each in self.clients:
            each.client.runtime.spawn(each.run, each.group)
        cluster.settled(lambda: all(self.commits.values()), 20.0)

    @property
    def counts(self) -> Sequence[int]:
        return list(self.commits.values())

    def check(self, cluster: Cluster) -> list[str]:
        return self.judge(cluster, {GROUP: range(PARTITIONS)})
