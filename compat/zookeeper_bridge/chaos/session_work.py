"""ZooKeeper's recipes at work in the simulation: a lock, a queue, a register and its watcher, by
sessions that move, sleep and expire.

    raftka chaos sim --work sessions --seeds 0-99

No two sessions that live hold the lock; names of the queue are unique and in the order of their
transactions, and none that a client has seen is lost; the register is linearizable; the event of a
watch comes once, before its change can be read; no session sees the past.
"""

from bisect import insort
from collections.abc import Mapping, Sequence
from random import Random
from typing import ClassVar

import trio

from raftka.chaos.history import COMPARE_AND_SET, FAIL, INFO, OK, READ, WRITE, History
from raftka.chaos.linearizable import Linearizable, judge
from raftka.chaos.simulated.cluster import Cluster
from raftka.runtime.interfaces import Runtime
from zookeeper_bridge.chaos.session_client import Expired, Gone, Reply, Session
from zookeeper_bridge.client.blocking import OPEN_TO_ALL
from zookeeper_bridge.protocol import jute
from zookeeper_bridge.protocol.errors import Err
from zookeeper_bridge.protocol.jute import Stat
from zookeeper_bridge.protocol.opcodes import Op
from zookeeper_bridge.server.bridge import Bridge
from zookeeper_bridge.tree.store import PACKAGE
from zookeeper_bridge.tree.watches import EventType

PORT, TICK_MS = 2181, 100
TIMEOUTS_MS = (400, 1000, 2000)
LOCK, QUEUE, REGISTER = "/lock", "/queue", "/register"
EPHEMERAL, SEQUENTIAL = 1, 2
PAUSE_S, HELD_S, ASLEEP_S = (0.01, 0.08), (0.02, 0.3), (0.3, 3.0)
SLEEPS, OVERSLEEPS = 0.02, 0.1  # of steps are followed by a sleep; of holders sleep with the lock
JUDGE_STEPS = 2_000_000
LOCKERS, QUEUERS, REGISTERS, WATCHERS = 3, 2, 3, 1


class Book:
    """The operations of all clients together, and the violations."""

    def __init__(self) -> None:
        self.wrong: list[str] = []
        self.history = History()
        self.holders: dict[int, int] = {}  # session -> czxid of the lock that it holds
        self.queued: list[tuple[int, str]] = []  # zxid, name: as its client got them
        self.done = {"locks": 0, "queued": 0, "registers": 0, "watched": 0}
        self._latest = 0, 0  # czxid of the lock, and its session
        # a session that held the lock -> czxid of its successor's
        self._followed: dict[int, int] = {}
        self._processes = 0

    def process(self) -> int:
        self._processes += 1
        return self._processes

    def granted(self, session: int, czxid: int) -> None:
        latest, holder = self._latest
        if czxid < latest or (czxid == latest and session != holder):
            self.wrong.append(
                f"session {session:#x} is given the lock of {czxid:#x}, and there was one of "
                f"{latest:#x}"
            )
        self._latest = max(self._latest, (czxid, session))
        for other in self.holders.keys() - {session}:
            del self.holders[other]
            self._followed[other] = czxid
        self.holders[session] = czxid

    def wrote(self, session: int, zxid: int) -> None:
        """Check that the session did not write after another session got its lock."""
        if zxid > self._followed.get(session, zxid):
            self.wrong.append(
                f"session {session:#x} writes {zxid:#x}, and its lock had gone to another in "
                f"{self._followed[session]:#x}"
            )


class Actor:
    """A client with a session of its own, which takes one step after the other."""

    def __init__(self, runtime: Runtime, addresses: Sequence[tuple[str, int]], book: Book) -> None:
        self.runtime = runtime
        self.book = book
        self.over = self.done = False
        self.random = runtime.random("actor")
        self.session = Session(runtime, addresses, self.random.choice(TIMEOUTS_MS), book.wrong)

    async def run(self) -> None:
        while not self.over:
            try:
                await self.step()
                if self.random.random() < SLEEPS:
                    await trio.sleep(self.random.uniform(*ASLEEP_S))
                elif self.random.random() < SLEEPS:
                    self.session.leave()  # elsewhere it may be better
                    self.parted()
            except Gone:
                self.parted()
                await trio.sleep(self.random.uniform(0.02, 0.3))
            except Expired:
                self.expired()
            await trio.sleep(self.random.uniform(*PAUSE_S))
        self.done = True

    async def step(self) -> None:
        raise NotImplementedError

    def parted(self) -> None:
        """The connection is lost."""

    def expired(self) -> None:
        """The session has expired, and its ephemerals are gone."""

    async def ask(self, opcode: Op, *fields: object, but: Sequence[Err] = ()) -> Reply:
        reply = await self.session.ask(opcode, *fields)
        if reply.error is not Err.OK and reply.error not in but:
            self.book.wrong.append(f"{opcode.name} {fields[0]} is refused with {reply.error.name}")
        return reply

    async def write(self, opcode: Op, *fields: object, but: Sequence[Err] = ()) -> Reply:
        reply = await self.ask(opcode, *fields, but=but)
        if reply.error is Err.OK:
            self.book.wrote(self.session.id, reply.zxid)
        return reply


class Locker(Actor):
    """Take the lock, hold it for a while and give it back. After a lost connection, ask the server
    whether this session has it.
    """

    holds, unsure = False, False

    async def step(self) -> None:
        if self.unsure:
            await self._check_lock()
        elif self.holds:
            await trio.sleep(
                self.random.uniform(*(ASLEEP_S if self.random.random() < OVERSLEEPS else HELD_S))
            )
            await self._give_back()
        else:
            self.unsure = True
            reply = await self.write(
                Op.CREATE, LOCK, b"", OPEN_TO_ALL, EPHEMERAL, but=[Err.NODE_EXISTS]
            )
            self.unsure = False
            if reply.error is Err.OK:
                self._take(reply.zxid)

    def _take(self, czxid: int) -> None:
        self.book.granted(self.session.id, czxid)
        self.holds = True

    async def _check_lock(self) -> None:
        found = await self.ask(Op.EXISTS, LOCK, False, but=[Err.NO_NODE])
        stat = Stat(*jute.STAT.decode(found.body)) if found.error is Err.OK else None
        mine = stat is not None and stat.ephemeral_owner == self.session.id
        if self.holds and not mine:
            self.book.wrong.append(f"session {self.session.id:#x} lives, and its lock is gone")
        self.unsure = False
        if stat is not None and mine:
            self._take(stat.czxid)

    async def _give_back(self) -> None:
        self.book.holders.pop(self.session.id, None)
        self.holds = False
        self.unsure = True
        await self.write(Op.DELETE, LOCK, -1)
        self.unsure = False
        self.book.done["locks"] += 1

    def parted(self) -> None:
        self.unsure = True

    def expired(self) -> None:
        self.holds = self.unsure = False


class Queuer(Actor):
    """Add names to the queue, and check their order."""

    async def step(self) -> None:
        reply = await self.write(Op.CREATE, f"{QUEUE}/n-", b"", OPEN_TO_ALL, SEQUENTIAL)
        if reply.error is not Err.OK:
            return
        book, entry = self.book, (reply.zxid, jute.STRING.decode(reply.body).rpartition("/")[2])
        insort(book.queued, entry)
        at = book.queued.index(entry)
        near = [name for _, name in book.queued[max(0, at - 1) : at + 2]]
        if near != sorted(set(near)):
            book.wrong.append(
                "the queue's names do not rise with their transactions: "
                f"{book.queued[max(0, at - 1) : at + 2]}"
            )
        book.done["queued"] += 1


class Register(Actor):
    """One operation after the other, each a process of its own in the history."""

    known: tuple[int, int] | None = None  # value and version, as last read

    async def step(self) -> None:
        verb = self.random.choice(
            (READ, READ, WRITE, COMPARE_AND_SET) if self.known else (READ, WRITE)
        )
        process = self.book.process()  # its value, too: unique
        body = {} if verb == READ else {"value": process}
        if verb == COMPARE_AND_SET and self.known is not None:
            body["expected"] = self.known[0]
        self.book.history.invoke(process, verb, self._now, key="r", **body)
        try:
            await (
                self._read(process)
                if verb == READ
                else self._set(
                    process, self.known[1] if self.known and verb == COMPARE_AND_SET else -1
                )
            )
        except (Gone, Expired):
            self.book.history.end(process, FAIL if verb == READ else INFO, self._now)
            raise
        self.book.done["registers"] += 1

    @property
    def _now(self) -> float:
        return self.runtime.clock.now()

    async def _read(self, process: int) -> None:
        await self.ask(Op.SYNC, REGISTER)
        data, stat = jute.DATA_STAT.decode((await self.ask(Op.GET_DATA, REGISTER, False)).body)
        self.known = int(data), stat.version
        self.book.history.end(process, OK, self._now, value=int(data))

    async def _set(self, process: int, version: int) -> None:
        reply = await self.write(
            Op.SET_DATA, REGISTER, b"%d" % process, version, but=[Err.BAD_VERSION]
        )
        self.book.history.end(
            process, OK, self._now, **({"matched": False} if reply.error is Err.BAD_VERSION else {})
        )


class Watcher(Actor):
    """Read the register, and get the event of each change before the new value is read."""

    armed = 0  # mzxid of the value that was read when the watch was set; 0: no watch
    rearm = False  # on a new connection

    async def step(self) -> None:
        if self.rearm:
            await self.ask(Op.SET_WATCHES, self.session.last_zxid, [REGISTER], [], [])
            self.rearm = False
        arms = not self.armed
        _, stat = jute.DATA_STAT.decode((await self.ask(Op.GET_DATA, REGISTER, arms)).body)
        self._take_events()
        if arms:
            self.armed = stat.mzxid
        elif stat.mzxid > self.armed > 0:
            self.book.wrong.append(
                f"the register of {stat.mzxid:#x} is read, and the watch on that of "
                f"{self.armed:#x} has told nothing"
            )

    def _take_events(self) -> None:
        for event, path in self.session.events:
            if (event, path) != (EventType.CHANGED, REGISTER) or not self.armed:
                self.book.wrong.append(f"event {event.name} of {path}, and no watch is set")
            self.armed = 0
            self.book.done["watched"] += 1
        self.session.events.clear()

    def parted(self) -> None:
        self._take_events()
        self.rearm = bool(self.armed)

    def expired(self) -> None:
        self._take_events()
        self.armed, self.rearm = 0, False


class SessionWork:
    settings: ClassVar[Mapping[str, str]] = {
        "zookeeper.bridge.port": str(PORT),
        "zookeeper.bridge.host": "{host}",
        "zookeeper.bridge.tick.ms": str(TICK_MS),
    }
    topics: Sequence[tuple[str, int]] = ()

    def __init__(self) -> None:
        self.book = Book()
        self.actors: list[Actor] = []
        self._addresses: list[tuple[str, int]] = []

    def begin(self, cluster: Cluster, chance: Random) -> None:
        self._addresses = [(f"n{node_id}", PORT) for node_id in cluster.nodes]
        client = cluster.client("first")
        cluster.do(client, lambda: self._prepare(client.runtime))
        kinds = (
            [Locker] * LOCKERS + [Queuer] * QUEUERS + [Register] * REGISTERS + [Watcher] * WATCHERS
        )
        self.actors = [
            kind(cluster.client(f"actor{i}").runtime, self._addresses, self.book)
            for i, kind in enumerate(kinds)
        ]
        for each in self.actors:
            each.runtime.spawn(each.run, type(each).__name__)
        cluster.settled(lambda: all(self.counts), 20.0)

    async def _prepare(self, runtime: Runtime) -> None:
        session = Session(runtime, self._addresses, max(TIMEOUTS_MS), self.wrong)
        for path in (QUEUE, REGISTER):
            made = None
            while made not in (Err.OK, Err.NODE_EXISTS):
                try:
                    made = (await session.ask(Op.CREATE, path, b"0", OPEN_TO_ALL, 0)).error
                except (Gone, Expired):
                    await trio.sleep(0.05)

    @property
    def wrong(self) -> list[str]:
        return self.book.wrong

    @property
    def counts(self) -> Sequence[int]:
        return list(self.book.done.values())

    def end(self) -> None:
        for each in self.actors:
            each.over = True

    @property
    def ended(self) -> bool:
        return all(each.done for each in self.actors)

    def check(self, cluster: Cluster) -> list[str]:
        client = cluster.client("last")
        there = set(cluster.do(client, lambda: self._children(client.runtime)))
        lost = [name for _, name in self.book.queued if name not in there]
        wrong = [f"{len(lost)} names of the queue are lost, the first is {lost[0]}"] if lost else []
        if judge(self.book.history.operations, JUDGE_STEPS, 0).linearizable is Linearizable.NO:
            wrong.append("the register is not linearizable")
        for node_id, node in cluster.living.items():
            bridge = node.extensions[PACKAGE]
            assert isinstance(bridge, Bridge)
            orphans = [
                path
                for session, paths in bridge.tree.owned.items()
                if bridge.tree.session(session) is None
                for path in paths
            ]
            wrong += [f"n{node_id} has ephemerals without a session: {orphans}"] if orphans else []
        return wrong + [f"a bridge failed: {line}" for line in cluster.log.saying("bridge_failed")]

    async def _children(self, runtime: Runtime) -> list[str]:
        session = Session(runtime, self._addresses, max(TIMEOUTS_MS), self.wrong)
        while True:
            try:
                await session.ask(Op.SYNC, QUEUE)
                found: list[str] = jute.STRINGS.decode(
                    (await session.ask(Op.GET_CHILDREN, QUEUE, False)).body
                )
                return found
            except (Gone, Expired):
                await trio.sleep(0.05)
