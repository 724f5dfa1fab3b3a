"""A deterministic network of RaftCores: one heap of events, virtual time, delays, drops, one-way
cuts, pauses, crashes. Checks nothing by itself.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from random import Random

from raftka.chaos.small.memory_files import MemoryFile, MemoryFiles
from raftka.metadata.quorum.journal import Journal
from raftka.metadata.quorum.raft import (
    Committed,
    Message,
    RaftConfig,
    RaftCore,
    Snapshot,
    WrongCluster,
)

FOREVER = float("inf")


@dataclass
class Network:
    """Delays and losses of messages; tests change the fields while it runs."""

    delay: Callable[[int, int], float] = lambda sender, receiver: 0.001
    drop: Callable[[int, int, Message], bool] = lambda sender, receiver, message: False
    cut: set[tuple[int, int]] = field(default_factory=set)  # (from, to)
    fifo: bool = True
    # through msgpack and back, where a test wants it
    wire: Callable[[Message], Message] = lambda message: message


class Node:
    """The driver of one core: what the broker's shell does, on virtual time."""

    def __init__(self, cluster: "Cluster", node_id: int, disk: MemoryFiles) -> None:
        self.cluster, self.id, self.disk = cluster, node_id, disk
        self.core: RaftCore = None  # type: ignore[assignment]
        self.alive, self.paused = False, False
        self.life = 0  # counts starts and deaths: events of an earlier life are void
        self.rate, self.offset = 1.0, 0.0  # of its clock
        self.applied: list[Committed | Snapshot] = []
        self.on_applied: Callable[[Node, Committed | Snapshot], None] = lambda node, item: None
        # the state machine's state, where it makes snapshots
        self.state_at: Callable[[int], bytes] | None = None
        self.on_stepped: Callable[[Node], None] = lambda node: None
        self.on_disk_error: Callable[[Node], None] | None = None
        self.on_start: Callable[[Node], None] = lambda node: None
        self._turn_at = FOREVER
        self.disks = 0  # disks that were lost

    @property
    def directory_id(self) -> bytes:
        """A new disk has a new directory."""
        return b"%8d%8d" % (self.id, self.disks)

    def lose_disk(self) -> None:
        self.disk = MemoryFiles()
        self.disks += 1

    def now(self) -> float:
        return self.cluster.now * self.rate + self.offset

    def start(self) -> None:
        self.alive, self.paused = True, False
        self.life += 1
        self.applied = []
        random = Random(f"{self.cluster.seed}/{self.id}/{self.life}")
        journal = Journal.open(self.disk, "raft", self.id)
        founders = self.cluster.founders
        self.core = RaftCore(
            self.id,
            founders if self.id in founders else (),
            journal,
            random,
            self.now(),
            self.cluster.config,
            self.directory_id,
        )
        self._turn_at = FOREVER
        self.on_start(self)
        self.wake()

    def stop(self, *, power: bool = False) -> None:
        self.alive = False
        self.life += 1
        if power:
            self.disk.power_lost(self.cluster.random)
        else:
            self.disk.process_died()

    def wake(self) -> None:
        """A turn as soon as possible."""
        self._turn(self.cluster.now)

    def _turn(self, at: float) -> None:
        if at < self._turn_at:
            self._turn_at = at
            self.cluster.at(at, self.turn, (self.life, at))

    def turn(self, life: int, at: float) -> None:
        if life != self.life or at != self._turn_at:
            return
        self._turn_at = FOREVER
        if self.paused or self.core.journal.syncing:
            return  # resume and synced make a turn
        try:
            self.core.step(self.now())
            self.on_stepped(self)
            files = self.core.take_sync() if self.core.unsynced else None
        except OSError:
            if self.on_disk_error is None:
                raise
            self.on_disk_error(self)
            return
        if files is not None:
            self.cluster.after(self.cluster.disk_delay(self.id), self._flushed, (self.life, files))
            self._hand_out()
        else:
            self._give_out()

    def _flushed(self, life: int, files: list[MemoryFile]) -> None:
        if life != self.life:
            return
        if self.paused:  # the process notices when it runs again
            self.cluster.after(0.01, self._flushed, (life, files))
            return
        try:
            for file in files:
                file.sync()
        except OSError:
            if self.on_disk_error is None:
                raise
            self.on_disk_error(self)
            return
        self.core.synced()
        self._give_out()

    def _hand_out(self) -> None:
        for receiver, message in self.core.take_outbox():
            self.cluster.send(self.id, receiver, message)
        while items := self.core.take_committed():
            for item in [items] if isinstance(items, Snapshot) else items:
                self.applied.append(item)
                self.on_applied(self, item)

    def _give_out(self) -> None:
        self._hand_out()
        if self.state_at is not None and self.core.wants_snapshot and self.applied:
            self.core.snapshot(self.applied[-1].index, self.state_at(self.applied[-1].index))
        self._turn(
            max(self.cluster.now, (self.core.next_deadline() - self.offset) / self.rate + 1e-6)
        )

    def resume(self) -> None:
        self.paused = False
        self.wake()

    @property
    def leads(self) -> bool:
        return self.alive and self.core.active

    @property
    def data(self) -> list[bytes]:
        """The applied entries, without leaders' own."""
        return [item.data for item in self.applied if isinstance(item, Committed) and item.data]


class Cluster:
    def __init__(
        self,
        voters: int = 3,
        seed: object = 0,
        config: RaftConfig | None = None,
        start: bool = True,
        later: int = 0,
    ) -> None:
        """`later`: nodes that are no voters when the cluster is formed, and may become some."""
        self.founders = list(range(1, voters + 1))
        self.voters = list(range(1, voters + later + 1))
        self.seed, self.random, self.now = seed, Random(f"{seed}/cluster"), 0.0
        self.config = config or RaftConfig()
        self.net = Network()
        self.disk_delay: Callable[[int], float] = lambda node: 0.0005
        self.events: list[tuple[float, int, Callable[..., None], tuple[object, ...]]] = []
        self._count = 0
        self._last: dict[tuple[int, int], float] = {}
        self.refused: list[WrongCluster] = []
        self.sent = 0  # messages
        self.on_sent: Callable[[int, int, Message], None] = lambda sender, receiver, message: None
        self.nodes = {voter: Node(self, voter, MemoryFiles()) for voter in self.voters}
        if start:
            for voter in self.voters:
                self.start(voter)

    # time

    def at(
        self, when: float, action: Callable[..., None], arguments: tuple[object, ...] = ()
    ) -> None:
        self._count += 1
        heappush(self.events, (when, self._count, action, arguments))

    def after(
        self, delay: float, action: Callable[..., None], arguments: tuple[object, ...] = ()
    ) -> None:
        self.at(self.now + delay, action, arguments)

    def run(self, seconds: float, until: Callable[[], bool] | None = None) -> bool:
        """Up to `seconds`; with `until`, whether it came true."""
        end = self.now + seconds
        while self.events and self.events[0][0] <= end:
            self.now, _, action, arguments = heappop(self.events)
            action(*arguments)
            if until is not None and until():
                return True
        self.now = end
        return until is not None and until()

    # nodes

    def start(self, node_id: int) -> None:
        self.nodes[node_id].start()
        for other in self.voters:
            if other != node_id and self.nodes[other].alive:
                self.connect(node_id, other)

    def connect(self, a: int, b: int) -> None:
        for here, there in ((a, b), (b, a)):
            self.nodes[here].core.peer_up(there)
            self.nodes[here].wake()

    def disconnect(self, here: int, there: int) -> None:
        if self.nodes[here].alive:
            self.nodes[here].core.peer_lost(there)
            self.nodes[here].wake()

    def crash(self, node_id: int, *, power: bool = False, silent: bool = False) -> None:
        """SIGKILL, or the power; the others' connections to it close, unless `silent`."""
        self.nodes[node_id].stop(power=power)
        for other in self.voters:
            if other != node_id and not silent:
                self.disconnect(other, node_id)

    def send(self, sender: int, receiver: int, message: Message) -> None:
        net = self.net
        self.sent += 1
        self.on_sent(sender, receiver, message)
        if (sender, receiver) in net.cut or net.drop(sender, receiver, message):
            return
        arrives = self.now + net.delay(sender, receiver)
        if net.fifo:
            arrives = self._last[sender, receiver] = max(
                arrives, self._last.get((sender, receiver), 0.0)
            )
        self.at(
            arrives,
            self._arrive,
            (sender, receiver, self.nodes[sender].life, self.nodes[receiver].life, message),
        )

    def arrive_again(self, sender: int, receiver: int, message: Message) -> None:
        """A duplicate, or one that comes late."""
        self._arrive(sender, receiver, self.nodes[sender].life, self.nodes[receiver].life, message)

    def _arrive(
        self, sender: int, receiver: int, sent_in: int, for_life: int, message: Message
    ) -> None:
        node = self.nodes[receiver]
        if not node.alive or (
            self.net.fifo and (self.nodes[sender].life, node.life) != (sent_in, for_life)
        ):
            return  # with the process its connections ended
        try:
            node.core.receive(sender, self.net.wire(message))
        except WrongCluster as refusal:
            self.refused.append(refusal)
            return
        node.wake()

    # what tests ask

    @property
    def leader(self) -> Node | None:
        """The active leader of the highest term."""
        return max(
            (node for node in self.nodes.values() if node.leads),
            key=lambda node: node.core.term,
            default=None,
        )

    def elect(self, seconds: float = 5.0) -> Node:
        assert self.run(seconds, lambda: self.leader is not None), "nobody leads"
        assert self.leader is not None
        return self.leader

    def propose(self, data: bytes, node: Node | None = None) -> int:
        node = node or self.leader
        assert node is not None
        index = node.core.propose(data)
        node.wake()
        return index

    def settle(self, seconds: float = 10.0) -> None:
        """Until all living nodes have applied all that the leader has."""
        living = [node for node in self.nodes.values() if node.alive]
        assert self.run(
            seconds,
            lambda: (
                len({i for n in living for i in (n.core.commit_index, n.core.last_index)}) == 1
                and self.leader is not None
            ),
        )
