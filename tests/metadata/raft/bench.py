"""A few voters whose every message is delivered by hand: the same scenario plays on pysyncobj as it
comes and on RaftCore.

Nobody stands for election unless the scenario says so; time moves only when it says so. Knows no
fault and no rule.
"""

from collections import deque
from collections.abc import Callable, Iterable
from random import Random
from typing import Any

from pysyncobj import SyncObj, SyncObjConf, replicated, syncobj
from pysyncobj.node import Node as StockPeer
from pysyncobj.transport import Transport

from raftka.chaos.small.memory_files import MemoryFiles
from raftka.metadata.quorum.journal import Journal
from raftka.metadata.quorum.raft import Committed, RaftConfig, RaftCore, Snapshot
from raftka.metadata.quorum.raft_engine import NEVER

FOREVER = float("inf")


class Harm(AssertionError):
    """The harm that a scenario looks for has happened."""


class Bench:
    """Messages wait in `queues` until `deliver`; each carries the time at which it was sent."""

    def __init__(self, size: int = 3) -> None:
        self.ids = [chr(ord("a") + i) for i in range(size)]
        self.now = 100.0
        self.queues: dict[tuple[str, str], deque[tuple[float, Any]]] = {
            (a, b): deque() for a in self.ids for b in self.ids if a != b
        }
        self.free = False  # elections by themselves
        self.late: dict[str, float] = {}  # who was stopped for so many seconds, as its clock shows
        self.cut: set[tuple[str, str]] = set()  # (from, to): nothing arrives

    # what the two kinds do differently

    def tick(self, *ids: str) -> None:
        raise NotImplementedError

    def hand_over(self, sender: str, receiver: str, message: Any) -> None:
        raise NotImplementedError

    def stand(self, who: str) -> None:
        raise NotImplementedError

    def be_impatient(self, who: str) -> None:
        """From now on it waits for its leader as long as it would by itself."""
        raise NotImplementedError

    def propose(self, who: str, value: str) -> None:
        raise NotImplementedError

    def applied(self, who: str) -> list[str]:
        raise NotImplementedError

    def log(self, who: str) -> list[tuple[int, int]]:
        """(index, term) of what it keeps."""
        raise NotImplementedError

    def commit_index(self, who: str) -> int:
        raise NotImplementedError

    def leads(self, who: str) -> bool:
        raise NotImplementedError

    def term(self, who: str) -> int:
        raise NotImplementedError

    def compact(self, who: str) -> None:
        """A snapshot of what it has applied; the entries go."""
        raise NotImplementedError

    def read(self, who: str) -> list[str] | None:
        """Return the answer to a client that asks this node; None: there is none."""
        raise NotImplementedError

    def pieces(self, sender: str, receiver: str) -> list[Any]:
        """The queued pieces of a snapshot."""
        raise NotImplementedError

    # the same for both

    def clock(self, who: str) -> float:
        return self.now - self.late.get(who, 0.0)

    def queued(self, sender: str, receiver: str) -> list[Any]:
        return [message for _, message in self.queues[sender, receiver]]

    def deliver(
        self, sender: str, receiver: str, count: int | None = None, sent_before: float = FOREVER
    ) -> int:
        queue, done = self.queues[sender, receiver], 0
        if (sender, receiver) in self.cut:
            queue.clear()
        for _ in range(len(queue) if count is None else count):
            if not queue or queue[0][0] > sent_before:
                break
            self.hand_over(sender, receiver, queue.popleft()[1])
            done += 1
        return done

    def drop(self, sender: str, receiver: str) -> None:
        self.queues[sender, receiver].clear()

    def drop_all(self) -> None:
        for queue in self.queues.values():
            queue.clear()

    def links(self, ids: Iterable[str]) -> list[tuple[str, str]]:
        return [(a, b) for a in ids for b in ids if a != b]

    def exchange(self, *ids: str, rounds: int = 50) -> None:
        """Ticks and deliveries among these until nothing is said any more."""
        for _ in range(rounds):
            self.tick(*ids)
            if not sum([self.deliver(a, b) for a, b in self.links(ids)]):
                return

    def heartbeat(self, *ids: str) -> None:
        """A leader among these says something to all, and they answer."""
        self.now += 0.25
        self.exchange(*ids)

    def run(self, seconds: float, latency: float, *ids: str, step: float = 0.05) -> None:
        """Time goes on for these, elections and all."""
        self.free = True
        for who in ids:
            self.be_impatient(who)
        end = self.now + seconds
        while self.now < end:
            self.now += step
            for a, b in self.links(ids):
                self.deliver(a, b, sent_before=self.now - latency)
            self.tick(*ids)
        self.free = False

    def elect(self, who: str, *by: str) -> None:
        """It leads, elected by these, who have not heard of a leader for long."""
        self.now += 2.0
        self.stand(who)
        self.exchange(who, *by)
        assert self.leads(who)

    def commit(self, leader: str, *followers: str, values: Iterable[str]) -> None:
        for value in values:
            self.propose(leader, value)
        self.heartbeat(leader, *followers)
        self.heartbeat(leader, *followers)  # now they know that it is committed


# pysyncobj as it comes


class _Wire(Transport):  # type: ignore[misc]
    def __init__(self, bench: Bench, me: str) -> None:
        super().__init__(None, None, [])
        self.bench, self.me = bench, me

    def send(self, node: StockPeer, message: Any) -> bool:
        self.bench.queues[self.me, node.id].append((self.bench.now, message))
        return True


class _NoPoller:
    def poll(self, timeout: float) -> None: ...


class StockNode(SyncObj):  # type: ignore[misc]
    def __init__(self, bench: "StockBench", me: str, conf: SyncObjConf) -> None:
        self.on_put: Callable[[str], None] = lambda value: None
        peers = [StockPeer(other) for other in bench.ids if other != me]
        super().__init__(StockPeer(me), peers, conf, transport=_Wire(bench, me))
        self.values: list[str] = []
        self._poller = _NoPoller()
        for peer in peers:
            self._SyncObj__onNodeConnected(peer)

    @replicated  # type: ignore[untyped-decorator]
    def put(self, value: str) -> None:
        self.values.append(value)
        self.on_put(value)


class StockBench(Bench):
    def __init__(self, size: int = 3, **conf: Any) -> None:
        super().__init__(size)
        conf = {"autoTick": False, "useFork": False, "leaderFallbackTimeout": 30.0} | conf
        syncobj.monotonicTime = lambda: self.now
        self.nodes = {me: StockNode(self, me, SyncObjConf(**conf)) for me in self.ids}
        self._calm()

    def _use_clock(self, who: str) -> None:
        syncobj.monotonicTime = lambda: self.clock(who)

    def _calm(self) -> None:
        if not self.free:
            for node in self.nodes.values():
                node._SyncObj__raftElectionDeadline = FOREVER

    def tick(self, *ids: str) -> None:
        for me in ids:
            self._use_clock(me)
            self.nodes[me].doTick(0)
            self._calm()

    def hand_over(self, sender: str, receiver: str, message: Any) -> None:
        self._use_clock(receiver)
        self.nodes[receiver]._SyncObj__onMessageReceived(StockPeer(sender), message)
        self._calm()

    def be_impatient(self, who: str) -> None:
        self.nodes[who]._SyncObj__raftElectionDeadline = (
            self.now + self.nodes[who]._SyncObj__generateRaftTimeout()
        )

    def stand(self, who: str) -> None:
        self.nodes[who]._SyncObj__raftElectionDeadline = 0
        self.tick(who)

    def propose(self, who: str, value: str) -> None:
        self.nodes[who].put(value)
        self.tick(who)

    def applied(self, who: str) -> list[str]:
        return self.nodes[who].values

    def log(self, who: str) -> list[tuple[int, int]]:
        log = self.nodes[who]._SyncObj__raftLog
        return [(log[i][1], log[i][2]) for i in range(len(log))]

    def commit_index(self, who: str) -> int:
        return int(self.nodes[who].raftCommitIndex)

    def leads(self, who: str) -> bool:
        return bool(self.nodes[who]._isLeader())

    def term(self, who: str) -> int:
        return int(self.nodes[who].raftCurrentTerm)

    def compact(self, who: str) -> None:
        self.nodes[who].forceLogCompaction()
        self.tick(who)
        self.tick(who)

    def read(self, who: str) -> list[str] | None:
        return list(self.applied(who)) if self.leads(who) else None

    def pieces(self, sender: str, receiver: str) -> list[Any]:
        return [
            message
            for message in self.queued(sender, receiver)
            if message.get("serialized") is not None
        ]


# ours


class OurBench(Bench):
    def __init__(
        self, size: int = 3, config: RaftConfig | None = None, boot: str | None = None
    ) -> None:
        """Without `boot` they all run and have said who they are."""
        super().__init__(size)
        self.config = config or RaftConfig(retain_entries=0)
        self.voters = {me: number for number, me in enumerate(self.ids, start=1)}
        self.names = {number: me for me, number in self.voters.items()}
        self.disks = {me: MemoryFiles() for me in self.ids}
        self.cores: dict[str, RaftCore] = {}
        self.handed: dict[str, list[Committed | Snapshot]] = {}
        for me in self.ids if boot is None else boot:
            self.boot(me)
        if boot is None:
            self.exchange(*self.ids)

    def boot(self, me: str) -> None:
        """Start its process on what its disk has."""
        journal = Journal.open(self.disks[me], "raft", self.voters[me])
        self.cores[me] = RaftCore(
            self.voters[me],
            sorted(self.names),
            journal,
            Random(f"{me}/{self.now}"),
            self.now,
            self.config,
        )
        self.handed[me] = []
        for other in self.ids:
            if other != me and other in self.cores:
                self.cores[me].peer_up(self.voters[other])
                self.cores[other].peer_lost(self.voters[me])
                self.cores[other].peer_up(self.voters[me])
        self.tick(me)

    def crash(self, me: str, *, power: bool = True) -> None:
        if power:
            self.disks[me].power_lost(Random(0))
        self.disks[me].process_died()
        for other in self.ids:
            if other != me:
                self.drop(me, other)
                self.drop(other, me)

    def _calm(self, me: str) -> None:
        if not self.free:
            self.cores[me]._voter.election_at = FOREVER

    def step(self, me: str) -> None:
        """One turn, without what may leave only after the flush."""
        self.cores[me].step(self.clock(me))
        self._calm(me)

    def sync(self, me: str) -> None:
        core = self.cores[me]
        if core.unsynced:
            for file in core.take_sync():
                file.sync()
            core.synced()

    def tick(self, *ids: str) -> None:
        for me in ids:
            self.step(me)
            self.give_out(me)
            self.sync(me)
            self.give_out(me)

    def tick_after_flush(self, me: str) -> None:
        self.sync(me)
        self.give_out(me)
        self.tick(me)

    def give_out(self, me: str) -> None:
        core = self.cores[me]
        for receiver, message in core.take_outbox():
            self.queues[me, self.names[receiver]].append((self.now, message))
        while items := core.take_committed():
            for item in [items] if isinstance(items, Snapshot) else items:
                if self.handed[me] and item.index <= self.handed[me][-1].index:
                    raise Harm(f"{me} is handed {item.index} after {self.handed[me][-1].index}")
                self.handed[me].append(item)

    def hand_over(self, sender: str, receiver: str, message: Any) -> None:
        self.cores[receiver].receive(self.voters[sender], message)
        self.tick(receiver)

    def be_impatient(self, who: str) -> None:
        voter = self.cores[who]._voter
        voter.election_at = self.now + voter._SyncObj__generateRaftTimeout()

    def stand(self, who: str) -> None:
        self.cores[who]._voter._heard = NEVER
        self.cores[who]._voter.election_at = NEVER
        self.tick(who)

    def propose(self, who: str, value: str) -> None:
        self.cores[who].propose(value.encode())
        self.tick(who)

    def applied(self, who: str) -> list[str]:
        """Through a state machine whose snapshot is its values."""
        values: list[str] = []
        for item in self.handed[who]:
            if isinstance(item, Snapshot):
                values = item.state.decode().split()
            elif item.data:
                values.append(item.data.decode())
        return values

    def log(self, who: str) -> list[tuple[int, int]]:
        return [(entry.index, entry.term) for entry in self.cores[who].journal.entries]

    def commit_index(self, who: str) -> int:
        return self.cores[who].commit_index

    def leads(self, who: str) -> bool:
        return self.cores[who].state == "leader"

    def term(self, who: str) -> int:
        return self.cores[who].term

    def compact(self, who: str) -> None:
        self.cores[who].snapshot(self.handed[who][-1].index, " ".join(self.applied(who)).encode())
        self.tick(who)

    def read(self, who: str) -> list[str] | None:
        answers: list[int | None] = []
        self.cores[who].read_index(answers.append)
        self.tick(who)
        return self.applied(who) if answers and answers[0] is not None else None

    def pieces(self, sender: str, receiver: str) -> list[Any]:
        return [
            message for message in self.queued(sender, receiver) if message["type"] == "snapshot"
        ]
