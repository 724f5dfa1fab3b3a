"""Rows about groups: how soon members are stable, what a member's death and a rolling restart cost,
commits, a coordinator that is killed.

The members are this program's own, in one loop: the figures are those of the coordinator and the
protocol, not a client's back-offs. They send heartbeats every three seconds, as clients do by
default, unless a row says otherwise.
"""

import asyncio
import itertools
import statistics
import time
from collections.abc import Sequence
from contextlib import suppress

from bench.load import BenchFailed, load
from bench.systems import System
from raftka.wire.errors import Code
from raftka.wire.frame import decode_response_header, encode_request
from raftka.wire.messages.consumer_groups import CONSUMER_GROUP_HEARTBEAT, OwnedTopicPartitions
from raftka.wire.messages.find_coordinator import FIND_COORDINATOR
from raftka.wire.messages.groups import HEARTBEAT, JOIN_GROUP, SYNC_GROUP, JoinGroupResponse
from raftka.wire.messages.offsets import OFFSET_COMMIT, OFFSET_FETCH
from raftka.wire.schema import Api, Req, Resp

TOPIC = "grouped"
PARTITIONS = 10
COMMITTING = "committing"
HEAVY = "heavy"
HUNDRED = 100
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.replication.factor": "3",
    "group.consumer.assignment.interval.ms": "0",
}
MINE = CONSUMER_GROUP_HEARTBEAT.request.topic_partitions
VERSIONS = {
    CONSUMER_GROUP_HEARTBEAT.key: 1,
    FIND_COORDINATOR.key: 3,
    JOIN_GROUP.key: 9,
    SYNC_GROUP.key: 5,
    HEARTBEAT.key: 4,
    OFFSET_COMMIT.key: 8,
    OFFSET_FETCH.key: 7,
}
HEARTBEAT_S = 3.0
QUICK_HEARTBEAT_S = 0.3
SESSION_MS = 6_000
PATIENCE_S = 60.0
WARM_UP_S = 5.0
RETRY_S = 0.01
MARK = 0x6F66667365742121  # where the offset stands in a frame
ELSEWHERE = {
    Code.NOT_COORDINATOR,
    Code.COORDINATOR_NOT_AVAILABLE,
    Code.COORDINATOR_LOAD_IN_PROGRESS,
}

Address = tuple[str, int]
Figure = dict[str, float]


class Peer(asyncio.Protocol):
    """A connection on which one question is asked at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._busy = asyncio.Lock()
        self._came = bytearray()
        self._answer: asyncio.Future[memoryview] | None = None

    async def connect(self, address: Address) -> None:
        self._transport, _ = await asyncio.get_running_loop().create_connection(
            lambda: self, *address
        )

    async def ask(self, api: Api[Req, Resp], request: Req) -> Resp:
        version = VERSIONS[api.key]
        frame = await self.exchange(encode_request(api, version, 1, "bench", request))
        return api.decode_response(version, frame, decode_response_header(frame, api, version)[1])[
            0
        ]

    async def exchange(self, request: bytes) -> memoryview:
        async with self._busy:
            if self._transport is None:
                raise OSError("not connected")
            self._transport.write(request)
            self._answer = asyncio.get_running_loop().create_future()
            return await self._answer

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    # called by the loop

    def data_received(self, data: bytes) -> None:
        self._came += data
        if self._answer is not None and len(self._came) >= 4 + int.from_bytes(self._came[:4]):
            answer, self._answer, came, self._came = self._answer, None, self._came, bytearray()
            if not answer.done():
                answer.set_result(memoryview(came)[4:])

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error or ConnectionError("closed by the other side"))


async def coordinator(addresses: list[Address], group: str) -> Address:
    deadline = time.monotonic() + PATIENCE_S
    for address in itertools.cycle(addresses):
        peer = Peer()
        try:
            await peer.connect(address)
            found = await peer.ask(
                FIND_COORDINATOR, FIND_COORDINATOR.request(key=group, key_type=0)
            )
        except OSError:
            found = None
        finally:
            peer.close()
        if found is not None and not found.error_code:
            return found.host, found.port
        if time.monotonic() > deadline:
            break
        await asyncio.sleep(RETRY_S)
    raise BenchFailed(f"nobody coordinates {group}")


class Member:
    """One of a classic group: joins, assigns when it leads (each member its place in the list),
    sends heartbeats, joins again when told.
    """

    def __init__(
        self, group: str, number: int, *, static: bool = False, heartbeat_s: float = HEARTBEAT_S
    ) -> None:
        self.group = group
        self.instance = f"instance-{number}" if static else None
        self.heartbeat_s = heartbeat_s
        self.id = ""
        self.generation = -1
        self.size = 0  # of the group in this generation, as its leader counted
        self.since = 0.0  # when it was given its assignment
        self.peer = Peer()

    async def run(self, address: Address) -> None:
        await self.peer.connect(address)
        while True:
            await self._join()
            while True:
                await asyncio.sleep(self.heartbeat_s)
                request = HEARTBEAT.request(
                    group_id=self.group,
                    generation_id=self.generation,
                    member_id=self.id,
                    group_instance_id=self.instance,
                )
                if (await self.peer.ask(HEARTBEAT, request)).error_code:
                    break

    async def _join(self) -> None:
        self.generation = -1
        while True:
            protocols = [
                JOIN_GROUP.request.protocols(name="range", metadata=b"\0\1\0\0\0\0\xff\xff\xff\xff")
            ]
            joined = await self.peer.ask(
                JOIN_GROUP,
                JOIN_GROUP.request(
                    group_id=self.group,
                    session_timeout_ms=SESSION_MS,
                    rebalance_timeout_ms=SESSION_MS,
                    member_id=self.id,
                    group_instance_id=self.instance,
                    protocol_type="consumer",
                    protocols=protocols,
                ),
            )
            self.id = joined.member_id
            if joined.error_code == Code.UNKNOWN_MEMBER_ID:
                self.id = ""
            elif joined.error_code in ELSEWHERE:
                await asyncio.sleep(RETRY_S)
            if joined.error_code or not await self._sync(joined):
                continue
            return

    async def _sync(self, joined: JoinGroupResponse) -> bool:
        assigns = joined.leader == joined.member_id and not joined.skip_assignment
        size = len(joined.members).to_bytes(4)
        request = SYNC_GROUP.request(
            group_id=self.group,
            generation_id=joined.generation_id,
            member_id=self.id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[
                SYNC_GROUP.request.assignments(member_id=each.member_id, assignment=size)
                for each in joined.members
            ]
            if assigns
            else [],
        )
        synced = await self.peer.ask(SYNC_GROUP, request)
        if synced.error_code:
            return False
        self.generation, self.size, self.since = (
            joined.generation_id,
            int.from_bytes(synced.assignment),
            time.monotonic(),
        )
        return True


class ModernMember(Member):
    """One of a group of the new protocol (KIP-848): it takes what it is given and says so at once;
    else it beats as often as it is told.
    """

    async def run(self, address: Address) -> None:
        await self.peer.connect(address)
        self.id = f"{self.group}-{id(self)}"
        owned: list[OwnedTopicPartitions] = []
        epoch, said = 0, False
        while True:
            beat = CONSUMER_GROUP_HEARTBEAT.request(
                group_id=self.group, member_id=self.id, member_epoch=epoch
            )
            beat.subscribed_topic_names = beat.topic_partitions = None  # as they were
            if epoch == 0:
                beat.rebalance_timeout_ms, beat.subscribed_topic_names = SESSION_MS, [TOPIC]
                beat.topic_partitions = []
            elif not said:
                beat.topic_partitions = owned
            answer = await self.peer.ask(CONSUMER_GROUP_HEARTBEAT, beat)
            if answer.error_code in ELSEWHERE:
                await asyncio.sleep(RETRY_S)
                continue
            if answer.error_code:
                raise BenchFailed(f"a heartbeat was refused: {Code(answer.error_code).name}")
            epoch, said = answer.member_epoch, True
            if answer.assignment is not None:
                owned = [
                    MINE(topic_id=each.topic_id, partitions=each.partitions)
                    for each in answer.assignment.topic_partitions
                ]
                said = False
                self.generation, self.size = epoch, sum(len(each.partitions) for each in owned)
                self.since = time.monotonic()
                continue
            if self.generation != epoch:
                self.generation, self.since = epoch, time.monotonic()
            await asyncio.sleep(answer.heartbeat_interval_ms / 1000)


class Swarm:
    """Members of groups, running."""

    def __init__(self) -> None:
        self.tasks: dict[Member, asyncio.Task[None]] = {}

    async def add(self, members: Sequence[Member], address: Address) -> None:
        for member in members:
            self.tasks[member] = asyncio.create_task(member.run(address))

    async def stop(self, members: Sequence[Member]) -> None:
        """As when their processes die."""
        for member in members:
            self.tasks.pop(member).cancel()
            member.peer.close()

    async def stable(self, members: Sequence[Member], size: int | None = None) -> float:
        """Until all are in one generation and were given `size` (that many members were counted, or
        partitions); when the last one was.
        """
        deadline = time.monotonic() + PATIENCE_S
        while not (
            all(each.size == (len(members) if size is None else size) for each in members)
            and len({each.generation for each in members}) == 1
        ):
            if time.monotonic() > deadline:
                raise BenchFailed(
                    f"{members[0].group} is not stable: "
                    f"{[(each.generation, each.size) for each in members]}"
                )
            for member in members:
                if self.tasks[member].done():
                    self.tasks[member].result()
            await asyncio.sleep(0.002)
        return max(each.since for each in members)


def figures(system: System, rounds: int, seconds: float) -> dict[str, str]:
    """All of them, by title. The first commits are not counted: a JVM warms up."""
    system.create_topic(TOPIC, PARTITIONS)
    commits(system, PARTITIONS, WARM_UP_S)
    stable, modern = ten_members(system, rounds), ten_members(system, rounds, ModernMember)
    dead, rolled = one_dies(system), rolling_restart(system)
    one, ten = commits(system, 1, seconds), commits(system, PARTITIONS, seconds)
    many = many_groups(system, HUNDRED, 10, 1000, 5 * seconds)
    again = coordinator_killed(system)
    return {
        "ten members start at once, no initial delay: stable after s, median (worst)": (
            f"{stable['median_s']:.2f} ({stable['worst_s']:.2f})"
        ),
        "the same with the new protocol (KIP-848)": (
            f"{modern['median_s']:.2f} ({modern['worst_s']:.2f})"
        ),
        "one of ten dies, heartbeats each 0.3 s: s until stable": f"{dead['beyond_s']:.2f}",
        "rolling restart of ten static members: rebalances": f"{rolled['rebalances']:.0f}",
        (
            "offset commits a second, client in C, one connection (raftka: flushed on all; "
            "Kafka: not)"
        ): f"{one['per_s']:,.0f}",
        "- CPU of all nodes, us a commit": f"{one['cpu_us']:,.0f}",
        "offset commits a second, client in C, ten connections": f"{ten['per_s']:,.0f}",
        "- CPU of all nodes, us a commit of ten": f"{ten['cpu_us']:,.0f}",
        "100 groups of ten members, 1,000 commits a second: ms of a commit, p50 (p99)": (
            f"{many['p50_ms']:.1f} ({many['p99_ms']:.1f})"
        ),
        (
            "a broker is killed, 10,000 offsets: all read again after s (groups with a wrong one)"
        ): f"{again['seconds']:.2f} ({again['wrong']:.0f})",
    }


def ten_members(system: System, rounds: int, kind: type[Member] = Member) -> Figure:
    """Seconds from ten members' first connections until all are in one generation; those of the new
    protocol have a partition each.
    """

    async def measure() -> list[float]:
        taken = []
        for turn in range(rounds):
            swarm = Swarm()
            members = [kind(f"ten-{kind.__name__}-{turn}", n) for n in range(PARTITIONS)]
            address = await coordinator(system.addresses, members[0].group)
            began = time.monotonic()
            await swarm.add(members, address)
            taken.append(await swarm.stable(members, 1 if kind is ModernMember else None) - began)
            await swarm.stop(members)
        return taken

    taken = asyncio.run(measure())
    return {"median_s": statistics.median(taken), "worst_s": max(taken)}


def one_dies(system: System) -> Figure:
    """Seconds beyond its session time-out until the nine others are stable."""

    async def measure() -> float:
        swarm = Swarm()
        members = [Member("mortal", n, heartbeat_s=QUICK_HEARTBEAT_S) for n in range(10)]
        await swarm.add(members, await coordinator(system.addresses, "mortal"))
        await swarm.stable(members)
        await swarm.stop(members[:1])
        began = time.monotonic()
        return await swarm.stable(members[1:]) - began - SESSION_MS / 1000

    return {"beyond_s": asyncio.run(measure())}


def rolling_restart(system: System) -> Figure:
    """Generations that ten static members see while each is started anew, one after the other."""

    async def measure() -> int:
        swarm = Swarm()
        members = [
            Member("rolling", n, static=True, heartbeat_s=QUICK_HEARTBEAT_S) for n in range(10)
        ]
        address = await coordinator(system.addresses, "rolling")
        await swarm.add(members, address)
        await swarm.stable(members)
        before = members[0].generation
        for n in range(10):
            await swarm.stop([members[n]])
            members[n] = Member("rolling", n, static=True, heartbeat_s=QUICK_HEARTBEAT_S)
            await swarm.add([members[n]], address)
            await swarm.stable(members)
        return members[0].generation - before

    return {"rebalances": asyncio.run(measure())}


def commit_frame(group: str, offset: int, partition: int = 0) -> bytes:
    topics = OFFSET_COMMIT.request.topics
    row = topics(
        name=TOPIC,
        partitions=[topics.partitions(partition_index=partition, committed_offset=offset)],
    )
    request = OFFSET_COMMIT.request(
        group_id=group, generation_id_or_member_epoch=-1, member_id="", topics=[row]
    )
    return bytes(encode_request(OFFSET_COMMIT, VERSIONS[OFFSET_COMMIT.key], 1, "bench", request))


def commits(system: System, connections: int, seconds: float) -> Figure:
    """All connections commit for the same group, each for a partition of its own, one commit after
    the other: commits a second, ms, us of CPU of all nodes a commit. The client is lg.c: one in
    Python takes the nodes' CPU time.
    """

    async def found() -> Address:
        address, peer = await coordinator(system.addresses, COMMITTING), Peer()
        await peer.connect(address)
        await until_committed(peer, commit_frame(COMMITTING, 0))
        peer.close()
        return address

    host, port = asyncio.run(found())
    targets = [f"{host}:{port}/{partition}" for partition in range(connections)]
    answer = load(f"commit -c {connections} -g {COMMITTING}", targets, system.pids, TOPIC, seconds)
    return {"per_s": answer["rps"], "p50_ms": answer["p50us"] / 1000, "cpu_us": answer["us_req"]}


def _check(answer: memoryview) -> None:
    """Of one partition, version 8: its error is in front of three bytes of tags."""
    code = int.from_bytes(answer[-5:-3], signed=True)
    if code:
        raise BenchFailed(f"a commit was refused: {Code(code).name}")


async def until_committed(peer: Peer, frame: bytes) -> None:
    """A coordinator may still be loading."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            _check(await peer.exchange(frame))
            return
        except BenchFailed:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(RETRY_S)


def many_groups(system: System, groups: int, size: int, rate: int, seconds: float) -> Figure:
    """So many groups of members that send heartbeats, and `rate` commits a second of all: ms of a
    commit.
    """

    async def measure() -> list[float]:
        swarm, committing = Swarm(), []
        for n in range(groups):
            name = f"many-{n}"
            members = [Member(name, i) for i in range(size)]
            address = await coordinator(system.addresses, name)
            await swarm.add(members, address)
            await swarm.stable(members)
            committing += members
        commits = [Commit(member) for member in committing]
        taken: list[float] = []
        began, waiting = time.monotonic(), set()
        for n in range(int(rate * seconds)):
            if (early := began + n / rate - time.monotonic()) > 0:
                await asyncio.sleep(early)
            waiting.add(task := asyncio.create_task(commits[n % len(commits)].timed(n, taken)))
            task.add_done_callback(waiting.discard)
        await asyncio.gather(*waiting)
        await swarm.stop(committing)
        return taken

    taken = sorted(asyncio.run(measure()))
    return {
        "p50_ms": taken[len(taken) // 2],
        "p99_ms": taken[len(taken) * 99 // 100],
        "per_s": len(taken) / seconds,
    }


class Commit:
    """A member's, encoded once: what is timed is the broker, and the machine is shared with it."""

    def __init__(self, member: Member) -> None:
        topics = OFFSET_COMMIT.request.topics
        row = topics(
            name=TOPIC, partitions=[topics.partitions(partition_index=0, committed_offset=MARK)]
        )
        request = OFFSET_COMMIT.request(
            group_id=member.group,
            generation_id_or_member_epoch=member.generation,
            member_id=member.id,
            topics=[row],
        )
        self._peer = member.peer
        self._before, self._behind = bytes(
            encode_request(OFFSET_COMMIT, VERSIONS[OFFSET_COMMIT.key], 1, "bench", request)
        ).split(MARK.to_bytes(8))

    async def timed(self, offset: int, taken: list[float]) -> None:
        frame = self._before + offset.to_bytes(8) + self._behind
        began = time.monotonic()
        _check(await self._peer.exchange(frame))
        taken.append(1000 * (time.monotonic() - began))


def coordinator_killed(system: System) -> Figure:
    """A hundred groups, an offset in each of a hundred partitions: seconds from a broker's death
    until all are read, and groups that are wrong.
    """
    system.create_topic(HEAVY, HUNDRED)
    groups = [f"heavy-{n}" for n in range(HUNDRED)]
    topics = OFFSET_COMMIT.request.topics
    rows = [topics.partitions(partition_index=p, committed_offset=p + 1) for p in range(HUNDRED)]
    expected = {p: p + 1 for p in range(HUNDRED)}

    async def commit(group: str) -> Address:
        address, peer = await coordinator(system.addresses, group), Peer()
        await peer.connect(address)
        request = OFFSET_COMMIT.request(
            group_id=group, topics=[topics(name=HEAVY, partitions=rows)]
        )
        # it loads
        while any(  # noqa: ASYNC110
            p.error_code
            for topic in (await peer.ask(OFFSET_COMMIT, request)).topics
            for p in topic.partitions
        ):
            await asyncio.sleep(RETRY_S)
        peer.close()
        return address

    async def read(group: str, left: list[Address]) -> bool:
        """Return whether all of it is right, as soon as a coordinator answers."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            with suppress(OSError):
                found = await _fetch(await coordinator(left, group), group)
                if found is not None:
                    return found == expected
            await asyncio.sleep(RETRY_S)
        raise BenchFailed(f"{group} is not served")

    async def measure() -> Figure:
        addresses = [await commit(group) for group in groups]
        victim = addresses[0]
        began = time.monotonic()
        system.kill(system.addresses.index(victim) + 1)
        left = [each for each in system.addresses if each != victim]
        right = await asyncio.gather(*(read(group, left) for group in groups))
        return {"seconds": time.monotonic() - began, "wrong": len(right) - sum(right)}

    return asyncio.run(measure())


async def _fetch(address: Address, group: str) -> dict[int, int] | None:
    peer = Peer()
    try:
        await peer.connect(address)
        fetched = await peer.ask(OFFSET_FETCH, OFFSET_FETCH.request(group_id=group, topics=None))
    finally:
        peer.close()
    return (
        None
        if fetched.error_code
        else {
            p.partition_index: p.committed_offset
            for topic in fetched.topics
            for p in topic.partitions
        }
    )
