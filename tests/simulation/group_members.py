"""A member of a group that takes one step after the other."""

from collections.abc import Callable
from typing import Any

import trio

from raftka.chaos.simulated.clients.client import Client, NoAnswer
from raftka.chaos.simulated.cluster import Cluster
from raftka.runtime.simulated.world import World
from raftka.wire.errors import Code
from raftka.wire.messages.find_coordinator import FIND_COORDINATOR
from raftka.wire.messages.groups import (
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    SYNC_GROUP,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from raftka.wire.messages.offsets import (
    OFFSET_COMMIT,
    OFFSET_DELETE,
    OFFSET_FETCH,
    OffsetCommitRequest,
    OffsetDeleteRequest,
)
from raftka.wire.schema import Api, Req, Resp

OFFSETS, TOPIC, ELSEWHERE = "__consumer_offsets", "t", "u"  # nobody subscribes to the second topic
AGAIN_S = 0.1
PATIENCE_S = 12.0  # of a join or sync, which waits for others
PASSES = {Code.NOT_COORDINATOR, Code.COORDINATOR_NOT_AVAILABLE, Code.COORDINATOR_LOAD_IN_PROGRESS}


class Member:
    """Does what clients do, one request at a time."""

    def __init__(self, client: Client, group: str) -> None:
        self.client = client
        self.group = group
        self.member_id = ""
        self.generation = -1
        self.assigned_in = -1  # the last generation in which it had an assignment: it is in the log
        self.leads = False
        self.others: list[str] = []

    async def ask(
        self, api: Api[Req, Resp], row: Req, code: Callable[[Any], int]
    ) -> tuple[int, Any]:
        """Until a coordinator has answered."""
        while True:
            try:
                return await self.ask_once(api, row, code)
            except NoAnswer:
                await trio.sleep(AGAIN_S)

    async def ask_once(
        self, api: Api[Req, Resp], row: Req, code: Callable[[Any], int]
    ) -> tuple[int, Any]:
        """Raises NoAnswer."""
        found = (
            await self.client.anybody(
                FIND_COORDINATOR, FIND_COORDINATOR.request(coordinator_keys=[self.group])
            )
        ).coordinators[0]
        if found.error_code:
            raise NoAnswer
        answer = await self.client.ask((found.host, found.port), api, row, PATIENCE_S)
        if code(answer) in PASSES:
            raise NoAnswer
        return code(answer), answer

    # joining

    def join_row(self) -> JoinGroupRequest:
        request = JOIN_GROUP.request
        subscription = b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff"
        protocols = [request.protocols(name="range", metadata=subscription)]
        row = request(
            group_id=self.group,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=protocols,
        )
        row.session_timeout_ms, row.rebalance_timeout_ms = 10_000, 8_000
        return row

    def sync_row(self) -> SyncGroupRequest:
        request = SYNC_GROUP.request
        assignments = (
            [request.assignments(member_id=each, assignment=each.encode()) for each in self.others]
            if self.leads
            else []
        )
        kind = {"protocol_type": "consumer", "protocol_name": "range"}
        return request(
            group_id=self.group,
            member_id=self.member_id,
            generation_id=self.generation,
            assignments=assignments,
            **kind,
        )

    async def join(self) -> bool:
        code, row = await self.ask(JOIN_GROUP, self.join_row(), _top)
        if code == Code.UNKNOWN_MEMBER_ID:
            self.member_id = ""
        elif code == Code.MEMBER_ID_REQUIRED:
            self.member_id = row.member_id
        else:
            assert code in (Code.NONE, Code.REBALANCE_IN_PROGRESS), Code(code)
        if code == Code.NONE:
            assert row.generation_id >= self.assigned_in
            self.member_id, self.generation, self.leads = (
                row.member_id,
                row.generation_id,
                row.leader == row.member_id,
            )
            self.others = [each.member_id for each in row.members]
        return code == Code.NONE

    async def sync(self) -> bool:
        code, row = await self.ask(SYNC_GROUP, self.sync_row(), _top)
        assert code in (
            Code.NONE,
            Code.REBALANCE_IN_PROGRESS,
            Code.ILLEGAL_GENERATION,
            Code.UNKNOWN_MEMBER_ID,
        ), Code(code)
        if code == Code.NONE:
            self.assigned_in = self.generation
        return code == Code.NONE and bytes(row.assignment) == self.member_id.encode()

    async def settle(self) -> None:
        while not (await self.join() and await self.sync() and await self.beats() == Code.NONE):
            pass

    # what it does then

    async def beats(self) -> int:
        return (await self.ask(HEARTBEAT, self.beat_row(), _top))[0]

    def beat_row(self) -> HeartbeatRequest:
        return HEARTBEAT.request(
            group_id=self.group, member_id=self.member_id, generation_id=self.generation
        )

    def commit_row(self, offset: int, topic: str = TOPIC) -> OffsetCommitRequest:
        request = OFFSET_COMMIT.request
        partition = request.topics.partitions(partition_index=0, committed_offset=offset)
        topics = [request.topics(name=topic, partitions=[partition])]
        return request(
            group_id=self.group,
            member_id=self.member_id,
            generation_id_or_member_epoch=self.generation,
            topics=topics,
        )

    async def commit(self, offset: int, topic: str = TOPIC) -> None:
        code, _ = await self.ask(OFFSET_COMMIT, self.commit_row(offset, topic), _partition)
        assert code == Code.NONE, Code(code)

    async def committed(self, topic: str = TOPIC) -> int:
        request = OFFSET_FETCH.request
        row = request(
            groups=[
                request.groups(
                    group_id=self.group,
                    topics=[request.groups.topics(name=topic, partition_indexes=[0])],
                )
            ]
        )
        _, answer = await self.ask(
            OFFSET_FETCH, row, lambda answer: int(answer.groups[0].error_code)
        )
        return int(answer.groups[0].topics[0].partitions[0].committed_offset)

    def leave_row(self) -> LeaveGroupRequest:
        return LEAVE_GROUP.request(
            group_id=self.group, members=[LEAVE_GROUP.request.members(member_id=self.member_id)]
        )

    def delete_row(self) -> OffsetDeleteRequest:
        request = OFFSET_DELETE.request
        return request(
            group_id=self.group,
            topics=[
                request.topics(
                    name=ELSEWHERE, partitions=[request.topics.partitions(partition_index=0)]
                )
            ],
        )


def _top(row: Any) -> int:
    return int(row.error_code)


def _partition(row: Any) -> int:
    return int(row.topics[0].partitions[0].error_code)


def began(world: World) -> Cluster:
    settings = {
        "offsets.topic.num.partitions": "1",
        "group.initial.rebalance.delay.ms": "0",
        "group.consumer.assignment.interval.ms": "0",
    }
    cluster = Cluster(world, settings=settings)
    cluster.wait_ready()
    client = cluster.client()
    for topic in (TOPIC, ELSEWHERE):
        cluster.do(client, lambda topic=topic: client.create_topic(topic, 2, 3))  # type: ignore[misc]
    return cluster
