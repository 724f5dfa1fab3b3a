"""Rows about share groups: records a second that a hundred members take and accept, and the time of
an acknowledgement.

The members are this program's own, in one loop, as those of groups.py. Ten share each partition.
Each fetches, and accepts its records with a ShareAcknowledge of its own, which is timed.
"""

import asyncio
import time
from collections.abc import Sequence
from secrets import token_hex

from bench.groups import ELSEWHERE, Address, Peer, coordinator
from bench.load import BenchFailed, load
from bench.systems import System, cpu_seconds
from raftka.cluster.ask import ask_any, call
from raftka.wire.errors import Code
from raftka.wire.messages.configs import INCREMENTAL_ALTER_CONFIGS
from raftka.wire.messages.list_offsets import LIST_OFFSETS
from raftka.wire.messages.metadata import METADATA
from raftka.wire.messages.share_acknowledge import SHARE_ACKNOWLEDGE
from raftka.wire.messages.share_fetch import SHARE_FETCH
from raftka.wire.messages.share_groups import SHARE_GROUP_HEARTBEAT

TOPIC, PARTITIONS, MEMBERS = "shared", 10, 100
# as each system's defaults, but for the times that a group waits before it begins
SETTINGS = {
    "group.share.assignment.interval.ms": "0",
    "offsets.topic.replication.factor": "3",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
}
FILL = "produce -b 16000 -s 100 -d 2 -a -1"
COUNTED = (0.25, 0.95)  # of all records: a JVM warms up, and the last ones are taken by few
PATIENCE_S = 120.0
GROUP_RESOURCE, SET, ACCEPT = 32, 0, 1
MAX_RECORDS = 500  # of a fetch, as clients have it (max.poll.records)
Range = tuple[int, int]


class Member:
    """A member that takes records of one partition at its leader."""

    def __init__(self, group: str, topic_id: bytes, partition: int, leader: Address) -> None:
        self.group, self.topic_id, self.partition = group, topic_id, partition
        self.leader = leader
        self.id = token_hex(11)
        self.peer = Peer()
        self.records = 0
        self.took_s: list[float] = []  # each acknowledgement
        self._epoch = 0

    async def run(self) -> None:
        await self.peer.connect(self.leader)
        while True:
            if found := await self._fetch():
                await self._accept(found)

    async def _fetch(self) -> list[Range]:
        request = SHARE_FETCH.request
        row = request(
            group_id=self.group,
            member_id=self.id,
            share_session_epoch=self._epoch,
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=1 << 20,
            max_records=MAX_RECORDS,
            batch_size=MAX_RECORDS,
        )
        if not self._epoch:
            topic = request.topics
            row.topics = [
                topic(
                    topic_id=self.topic_id,
                    partitions=[topic.partitions(partition_index=self.partition)],
                )
            ]
        answer = await self.peer.ask(SHARE_FETCH, row)
        self.check(answer.error_code, "ShareFetch")
        self._epoch += 1
        found = []
        for each in answer.responses:
            for part in each.partitions:
                self.check(part.error_code, "ShareFetch")
                found += [(got.first_offset, got.last_offset) for got in part.acquired_records]
        return found

    async def _accept(self, found: Sequence[Range]) -> None:
        topic = SHARE_ACKNOWLEDGE.request.topics
        row = topic.partitions
        batches = [
            row.acknowledgement_batches(
                first_offset=first, last_offset=last, acknowledge_types=[ACCEPT]
            )
            for first, last in found
        ]
        request = SHARE_ACKNOWLEDGE.request(
            group_id=self.group,
            member_id=self.id,
            share_session_epoch=self._epoch,
            topics=[
                topic(
                    topic_id=self.topic_id,
                    partitions=[
                        row(partition_index=self.partition, acknowledgement_batches=batches)
                    ],
                )
            ],
        )
        began = time.monotonic()
        answer = await self.peer.ask(SHARE_ACKNOWLEDGE, request)
        self.took_s.append(time.monotonic() - began)
        self.check(answer.error_code, "ShareAcknowledge")
        self._epoch += 1
        for each in answer.responses:
            for part in each.partitions:
                self.check(part.error_code, "ShareAcknowledge")
        self.records += sum(last - first + 1 for first, last in found)

    def check(self, code: int, name: str) -> None:
        if code:
            raise BenchFailed(f"{name} was refused: {Code(code).name}")


def figures(system: System, seconds: float) -> dict[str, str]:
    """All of them, by title; the topic is filled for so many seconds."""
    targets = system.create_topic(TOPIC, PARTITIONS)
    load(FILL, targets, system.pids, TOPIC, seconds)
    found = asyncio.run(_measure(system))
    return {
        "100 share consumers, 10 partitions: records accepted a second": f"{found['per_s']:,.0f}",
        "- CPU of all nodes, us a record": f"{found['cpu_us']:.2f}",
        "- ms of an acknowledgement, p50 (p99)": f"{found['p50_ms']:.1f} ({found['p99_ms']:.1f})",
    }


async def _measure(system: System) -> dict[str, float]:
    group = "shares"
    asked = METADATA.request(topics=[METADATA.request.topics(name=TOPIC)])
    (topic,) = call(system.addresses[0], METADATA, asked).topics
    view = ask_any(system.addresses, [TOPIC])
    there = sum(_end(view.leader_address(TOPIC, each), each) for each in range(PARTITIONS))
    leaders = [view.leader_address(TOPIC, partition) for partition in range(PARTITIONS)]
    _from_the_beginning(system.addresses[0], group)
    members = [
        Member(group, topic.topic_id, number % PARTITIONS, leaders[number % PARTITIONS])
        for number in range(MEMBERS)
    ]
    tasks = await _join(system, members)
    tasks += [asyncio.create_task(member.run()) for member in members]
    try:
        first = await _until_accepted(tasks, members, int(there * COUNTED[0]))
        for member in members:
            member.took_s.clear()
        cpu, began = sum(map(cpu_seconds, system.pids)), time.monotonic()
        records = await _until_accepted(tasks, members, int(there * COUNTED[1])) - first
        took_s = time.monotonic() - began
        cpu = sum(map(cpu_seconds, system.pids)) - cpu
    finally:
        for task in tasks:
            task.cancel()
        for member in members:
            member.peer.close()
    times = sorted(taken for member in members for taken in member.took_s)
    return {
        "per_s": records / took_s,
        "cpu_us": cpu / records * 1e6,
        "p50_ms": times[len(times) // 2] * 1000,
        "p99_ms": times[len(times) * 99 // 100] * 1000,
    }


async def _until_accepted(
    tasks: Sequence[asyncio.Task[None]], members: Sequence[Member], records: int
) -> int:
    """Wait until so many records are accepted; return how many are. Raises what a task raises."""
    deadline = time.monotonic() + PATIENCE_S
    while (accepted := sum(each.records for each in members)) < records:
        done, _ = await asyncio.wait(tasks, timeout=0.02, return_when=asyncio.FIRST_EXCEPTION)
        for task in done:
            task.result()
        if time.monotonic() > deadline:
            raise BenchFailed(f"{accepted} of {records} records were accepted")
    return accepted


def _end(address: Address, partition: int) -> int:
    topic = LIST_OFFSETS.request.topics
    row = topic(name=TOPIC, partitions=[topic.partitions(partition_index=partition, timestamp=-1)])
    answer = call(address, LIST_OFFSETS, LIST_OFFSETS.request(topics=[row]), version=7)
    return answer.topics[0].partitions[0].offset


def _from_the_beginning(address: Address, group: str) -> None:
    row = INCREMENTAL_ALTER_CONFIGS.request.resources
    reset = row.configs(name="share.auto.offset.reset", config_operation=SET, value="earliest")
    resource = row(resource_type=GROUP_RESOURCE, resource_name=group, configs=[reset])
    answer = call(
        address,
        INCREMENTAL_ALTER_CONFIGS,
        INCREMENTAL_ALTER_CONFIGS.request(resources=[resource]),
    )
    if answer.responses[0].error_code:
        raise BenchFailed(f"the group's setting was refused: {answer.responses[0].error_message}")


async def _join(system: System, members: Sequence[Member]) -> list[asyncio.Task[None]]:
    """Let all members join, wait until each has a partition, and go on with their heartbeats."""
    address = await coordinator(system.addresses, members[0].group)
    assigned = [asyncio.Event() for _ in members]
    tasks = [
        asyncio.create_task(_beat(address, member, event))
        for member, event in zip(members, assigned, strict=True)
    ]
    waiting = asyncio.create_task(_wait_for_all(assigned))
    done, _ = await asyncio.wait(
        [waiting, *tasks], timeout=PATIENCE_S, return_when=asyncio.FIRST_COMPLETED
    )
    if waiting not in done:
        waiting.cancel()
        for task in done:
            task.result()
        raise BenchFailed(f"{system.name}: not all members have a partition")
    return tasks


async def _wait_for_all(events: Sequence[asyncio.Event]) -> None:
    for event in events:
        await event.wait()


async def _beat(address: Address, member: Member, assigned: asyncio.Event) -> None:
    peer, epoch = Peer(), 0
    await peer.connect(address)
    while True:
        row = SHARE_GROUP_HEARTBEAT.request(
            group_id=member.group, member_id=member.id, member_epoch=epoch
        )
        row.subscribed_topic_names = None if epoch else [TOPIC]
        answer = await peer.ask(SHARE_GROUP_HEARTBEAT, row)
        if answer.error_code in ELSEWHERE:
            await asyncio.sleep(0.1)
            continue
        member.check(answer.error_code, "ShareGroupHeartbeat")
        epoch = answer.member_epoch
        if answer.assignment is not None and answer.assignment.topic_partitions:
            assigned.set()
        await asyncio.sleep(answer.heartbeat_interval_ms / 1000 if assigned.is_set() else 0.5)
