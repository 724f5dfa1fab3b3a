"""The coordinator of a group is killed in the middle of each step that a member takes: join, sync,
heartbeat, commit, leave, offset delete, and the heartbeat of the new protocol. What was answered is
so with the next coordinator too; what was not may be or not; members find together again.
"""

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any

import pytest
import trio

from raftka.chaos.simulated.clients.client import Client, NoAnswer
from raftka.chaos.simulated.cluster import Cluster
from raftka.runtime.simulated.world import World
from raftka.wire.errors import Code
from raftka.wire.messages.consumer_groups import (
    CONSUMER_GROUP_HEARTBEAT,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from raftka.wire.messages.groups import (
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    SYNC_GROUP,
)
from raftka.wire.messages.offsets import (
    OFFSET_COMMIT,
    OFFSET_DELETE,
)
from raftka.wire.schema import AnyApi, Row
from tests.simulation.group_members import (
    ELSEWHERE,
    OFFSETS,
    TOPIC,
    Member,
    _partition,
    _top,
    began,
)

LIVES, STEP_S = 8, 0.0007  # how long after a step has begun the coordinator is killed


def _left(row: Any) -> int:
    return int(row.error_code or row.members[0].error_code)


class Scene:
    """Two members of a stable group that has committed; then one step, in which their coordinator
    dies.
    """

    def __init__(self, cluster: Cluster, number: int) -> None:
        self.cluster = cluster
        self.client = cluster.client(f"client{number}")
        self.members = [
            Member(cluster.client(f"client{number}.{i}"), f"g{number}") for i in range(2)
        ]
        self.a, self.b = self.members
        self.answered: dict[Member, tuple[int, Any]] = {}

    def do(self, *tasks: Callable[[], Awaitable[object]]) -> None:
        """All at the same time, to their ends."""

        async def together() -> None:
            async with trio.open_nursery() as nursery:
                for task in tasks:
                    nursery.start_soon(task)

        self.cluster.do(self.client, together, 120.0)

    def value(self, task: Callable[[], Awaitable[Any]]) -> Any:
        return self.cluster.do(self.client, task, 120.0)

    def begin(self) -> None:
        self.do(self.a.settle, self.b.settle)
        self.do(lambda: self.a.commit(10), lambda: self.b.commit(5, ELSEWHERE))

    def step(
        self,
        who: Iterable[Member],
        api: AnyApi,
        row: Callable[[Member], Row],
        code: Callable[[Any], int],
        after_s: float,
    ) -> None:
        """They ask, and whoever coordinates them is killed so much later."""
        for member in who:

            async def ask(member: Member = member) -> None:
                try:
                    self.answered[member] = await member.ask_once(api, row(member), code)
                except NoAnswer:
                    pass

            member.client.runtime.spawn(ask, member.group)
        world, cluster = self.cluster.world, self.cluster
        world.run(world.now + after_s)
        doomed = cluster.leader_of(OFFSETS, 0)
        assert doomed is not None
        cluster.kill(doomed, power_loss=world.random("power").random() < 0.7)
        world.run(world.now + 0.2)
        heard = dict(self.answered)
        world.run(lambda: cluster.leader_of(OFFSETS, 0) not in (None, doomed), at_most_s=20.0)
        self.answered = heard
        self.doomed = doomed

    def code(self, member: Member) -> int | None:
        """None: it has not heard an answer."""
        return self.answered[member][0] if member in self.answered else None

    def end(self, *members: Member) -> None:
        """They find together, and what was committed is there."""
        self.do(*[member.settle for member in members])
        # one had settled when another came back
        while len({member.generation for member in members}) > 1:
            self.do(*[member.settle for member in members])
        assert sorted(members[0].others or members[-1].others) == sorted(
            member.member_id for member in members
        )
        self.cluster.start(self.doomed)
        self.cluster.wait_ready()


def commits(scene: Scene, after_s: float) -> None:
    scene.step([scene.a], OFFSET_COMMIT, lambda member: member.commit_row(11), _partition, after_s)
    assert scene.code(scene.a) in (Code.NONE, None)
    assert scene.value(scene.a.committed) in (
        (11,) if scene.code(scene.a) == Code.NONE else (10, 11)
    )
    assert scene.value(scene.a.beats) == Code.NONE  # nobody has to rebalance


def beats(scene: Scene, after_s: float) -> None:
    scene.step(scene.members, HEARTBEAT, Member.beat_row, _top, after_s)
    for member in scene.members:
        assert scene.code(member) in (Code.NONE, None)
        assert scene.value(member.beats) == Code.NONE


def joins(scene: Scene, after_s: float) -> None:
    scene.step(
        sorted(scene.members, key=lambda member: not member.leads),
        JOIN_GROUP,
        Member.join_row,
        _top,
        after_s,
    )


def syncs(scene: Scene, after_s: float) -> None:
    """A member that has its assignment is in that generation with the next coordinator."""
    leader = next(member for member in scene.members if member.leads)
    scene.do(leader.join, next(member.join for member in scene.members if member is not leader))
    scene.step(scene.members, SYNC_GROUP, Member.sync_row, _top, after_s)
    for member in scene.members:
        if scene.code(member) == Code.NONE:
            member.assigned_in = member.generation
            assert scene.value(member.beats) in (Code.NONE, Code.REBALANCE_IN_PROGRESS)


def leaves(scene: Scene, after_s: float) -> None:
    """The departure of a member is in no record before the others have found together: the next
    coordinator may have to hear of it again.
    """
    scene.step([scene.b], LEAVE_GROUP, Member.leave_row, _left, after_s)
    assert scene.code(scene.b) in (Code.NONE, None)
    code, _ = scene.value(lambda: scene.b.ask(LEAVE_GROUP, scene.b.leave_row(), _left))
    assert code in (Code.NONE, Code.UNKNOWN_MEMBER_ID)
    assert scene.value(scene.a.committed) == 10


def deletes(scene: Scene, after_s: float) -> None:
    scene.step(
        [scene.a],
        OFFSET_DELETE,
        Member.delete_row,
        lambda row: int(row.error_code or row.topics[0].partitions[0].error_code),
        after_s,
    )
    assert scene.code(scene.a) in (Code.NONE, None)
    assert scene.value(lambda: scene.a.committed(ELSEWHERE)) in (
        (-1,) if scene.code(scene.a) == Code.NONE else (-1, 5)
    )


STEPS = {
    "join": joins,
    "sync": syncs,
    "heartbeat": beats,
    "commit": commits,
    "leave": leaves,
    "offset delete": deletes,
}


@pytest.mark.parametrize("step", STEPS)
def test_a_coordinator_killed_in_the_middle_of(step: str) -> None:
    with World(1) as world:
        cluster = began(world)
        for life in range(LIVES):
            scene = Scene(cluster, life)
            scene.begin()
            STEPS[step](scene, life * STEP_S)
            scene.end(*(scene.members if step != "leave" else [scene.a]))
            assert scene.value(scene.a.committed) in (10, 11)
            assert (
                step == "offset delete" or scene.value(partial(scene.a.committed, ELSEWHERE)) == 5
            )


class Consumer(Member):
    """Of the new protocol."""

    def __init__(self, client: Client, group: str, member_id: str) -> None:
        super().__init__(client, group)
        self.member_id = member_id
        self.epoch = 0
        self.owned: dict[bytes, tuple[int, ...]] = {}

    def row(self) -> ConsumerGroupHeartbeatRequest:
        request = CONSUMER_GROUP_HEARTBEAT.request
        said: dict[str, Any] = {"rebalance_timeout_ms": 8_000, "subscribed_topic_names": [TOPIC]}
        held = [
            request.topic_partitions(topic_id=topic_id, partitions=list(partitions))
            for topic_id, partitions in self.owned.items()
        ]
        return request(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=self.epoch,
            topic_partitions=held,
            **said,
        )

    def hear(self, row: ConsumerGroupHeartbeatResponse) -> None:
        self.epoch = row.member_epoch
        if row.assignment is not None:
            self.owned = {
                each.topic_id: tuple(each.partitions) for each in row.assignment.topic_partitions
            }

    async def beat(self) -> None:
        code, row = await self.ask(CONSUMER_GROUP_HEARTBEAT, self.row(), _top)
        # not fenced, not unknown: all that was answered is there
        assert code == Code.NONE, Code(code)
        self.hear(row)


def _said(member: Member) -> Row:
    assert isinstance(member, Consumer)
    return member.row()


def test_a_coordinator_killed_in_the_middle_of_a_consumers_heartbeat() -> None:
    """A member's epoch that was answered is never unknown to the next coordinator, and no partition
    has two owners.
    """
    with World(2) as world:
        cluster = began(world)
        for life in range(LIVES):
            scene = Scene(cluster, life)
            a, b = (
                Consumer(member.client, member.group, f"m{i}")
                for i, member in enumerate(scene.members)
            )
            scene.do(a.beat)
            assert [len(each) for each in a.owned.values()] == [2]

            scene.step([b], CONSUMER_GROUP_HEARTBEAT, _said, _top, life * STEP_S)
            if b in scene.answered:
                b.hear(scene.answered[b][1])
            for _ in range(4):
                for member in (a, b):
                    scene.do(member.beat)
                    both = [
                        (topic, each)
                        for held in (a.owned, b.owned)
                        for topic, partitions in held.items()
                        for each in partitions
                    ]
                    assert len(set(both)) == len(both)
            assert [sum(map(len, member.owned.values())) for member in (a, b)] == [1, 1]
            cluster.start(scene.doomed)
            cluster.wait_ready()
