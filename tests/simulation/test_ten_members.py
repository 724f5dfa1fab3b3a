"""Ten members of a group in virtual time: how long they take to find together, and to go on without
one of them; and static members that restart one after the other, which the others must not notice.
"""

from collections.abc import Iterator
from typing import TypeVar

import pytest
import trio

from raftka.chaos.simulated.clients.client import Client
from raftka.chaos.simulated.cluster import Cluster
from raftka.runtime.simulated.world import World
from raftka.wire.errors import Code
from raftka.wire.messages.groups import (
    SYNC_GROUP,
    HeartbeatRequest,
    JoinGroupRequest,
    SyncGroupRequest,
)
from tests.simulation.group_members import Member, began

HEARTBEAT_S, SESSION_S = 0.3, 10.0
TOGETHER_S = 0.5


Named = TypeVar("Named", JoinGroupRequest, SyncGroupRequest, HeartbeatRequest)


class Living(Member):
    """Joins, sends heartbeats, and joins again when it is told to."""

    def __init__(self, client: Client, instance: str | None = None) -> None:
        super().__init__(client, "ten")
        self.instance = instance
        self.stable = False
        self.settled = 0  # how often
        self.over = self.gone = False

    async def live(self) -> None:
        while not self.over:
            if not self.stable:
                await self.settle()
                self.stable, self.settled = True, self.settled + 1
            await trio.sleep(HEARTBEAT_S)
            self.stable = await self.beats() == Code.NONE
        self.gone = True

    async def sync(self) -> bool:
        code, _ = await self.ask(SYNC_GROUP, self.sync_row(), lambda row: int(row.error_code))
        return code == Code.NONE

    def join_row(self) -> JoinGroupRequest:
        return self.named(super().join_row())

    def sync_row(self) -> SyncGroupRequest:
        return self.named(super().sync_row())

    def beat_row(self) -> HeartbeatRequest:
        return self.named(super().beat_row())

    def named(self, row: Named) -> Named:
        row.group_instance_id = self.instance
        return row


class Ten:
    def __init__(self, world: World, cluster: Cluster, *, static: bool) -> None:
        self.world = world
        self.cluster = cluster
        self.made = 0
        self.members = [self.new(f"i{i}" if static else None) for i in range(10)]

    def new(self, instance: str | None) -> Living:
        self.made += 1
        member = Living(self.cluster.client(f"member{self.made}"), instance)
        member.client.runtime.spawn(member.live, "member")
        return member

    def together(self) -> bool:
        return (
            all(each.stable for each in self.members)
            and len({each.generation for each in self.members}) == 1
        )

    def time(self) -> float:
        """Virtual seconds until they are."""
        began_at = self.world.now
        assert self.cluster.settled(self.together, 60.0)
        return self.world.now - began_at


@pytest.fixture
def world() -> Iterator[World]:
    with World(3) as world:
        yield world


def test_ten_members_form_a_group_and_continue_without_one_that_dies(world: World) -> None:
    ten = Ten(world, began(world), static=False)
    ten.time()  # the coordinator's topic is new
    everybody, ten.members = ten.members, []
    for member in everybody:
        member.over = True
    world.run(lambda: all(member.gone for member in everybody), at_most_s=20.0)
    world.run(world.now + SESSION_S + 1.0)

    ten.members = [ten.new(None) for _ in range(10)]
    assert ten.time() <= TOGETHER_S

    dead = ten.members.pop()
    dead.over = True
    generation = ten.members[0].generation
    world.run(lambda: dead.gone, at_most_s=20.0)
    world.run(
        lambda: ten.members[0].generation > generation and ten.together(),
        at_most_s=SESSION_S + TOGETHER_S,
    )
    assert ten.members[0].generation > generation
    assert ten.together()


def test_static_members_that_restart_one_after_the_other_are_not_noticed(world: World) -> None:
    ten = Ten(world, began(world), static=True)
    ten.time()
    generation = ten.members[0].generation
    seen = [member.settled for member in ten.members]

    for place, member in enumerate(list(ten.members)):
        member.over = True
        world.run(lambda member=member: member.gone, at_most_s=20.0)  # type: ignore[misc]
        ten.members[place] = ten.new(member.instance)
        ten.time()
        seen[place] = ten.members[place].settled

    world.run(world.now + 2 * HEARTBEAT_S)
    assert ten.together()
    assert {member.generation for member in ten.members} == {generation}
    assert [member.settled for member in ten.members] == seen
    assert seen == [1] * 10
