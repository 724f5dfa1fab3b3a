"""Random faults against the metadata quorum alone.

Each seed is at least 20 simulated seconds with 100 proposals and 5 faults: crashes with and without
loss of power, of one or of all, between any two calls of the disk; lost disks, pauses, one-way
cuts, partitions, loss, delay; clocks that go differently. A seed replays to the byte.
"""

from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from random import Random
from typing import TypeVar

import msgpack

from raftka.chaos.small.raft_cluster import Cluster, Node
from raftka.chaos.small.raft_oracle import Oracle, Violation
from raftka.metadata.quorum.raft import (
    MalformedMessage,
    NotLeader,
    ProposalsFull,
    RaftConfig,
    SafetyViolated,
    VotersRefused,
)
from raftka.metadata.quorum.voter_sets import QuorumVoter, VoterSet, ids_of, make_set

R = TypeVar("R", bound="Run")
SECONDS = 20.0
PROPOSALS = 100
NODES = 5  # of a life in which voters come and go
SIZES = (1, 3, 5, 3)  # of the set of voters, one after the other
ASK_EVERY_S = 0.15
LOST_DISK_S = 6.0  # an operator leaves the voters alone for so long after a disk was lost
FAULTS = (
    "crash",
    "power",
    "power_all",
    "pause",
    "one_way",
    "isolate",
    "split",
    "loss",
    "slow",
    "transfer",
    "slow_disk",
    "wipe",
    "wipe_at_the_worst_moment",
    "silent",
    "disk_dies",
)


class Run:
    def __init__(self, seed: int) -> None:
        self.seed, self.random = seed, Random(f"fuzz/{seed}")
        random = self.random
        config = RaftConfig(
            batch_bytes=random.choice((100, 2000, 100_000)),
            window_bytes=random.choice((200, 4000, 400_000)),
            chunk_bytes=random.choice((100, 300, 5000)),
            snapshot_every_bytes=random.choice((1000, 3000, 20_000)),
            retain_entries=random.choice((0, 3, 30)),
        )
        self.cluster = self._make_cluster(config)
        self.oracle = Oracle(self.cluster)
        self.accepted = 0
        self.faults: list[tuple[float, str]] = []
        self.loss, self.slow_net, self.slow_disk = 0.0, 1.0, 1.0
        self._weather()

    def _make_cluster(self, config: RaftConfig) -> Cluster:
        return Cluster(self.random.choice((3, 3, 3, 5)), self.seed, config, start=False)

    def _weather(self) -> None:
        """Draw the conditions of the whole run: the network's and the disks' usual delays, the
        clocks.
        """
        random, cluster = self.random, self.cluster
        base, jitter = random.choice(((0.0005, 0.001), (0.002, 0.02), (0.02, 0.02), (0.001, 0.15)))
        disk = random.choice((0.0005, 0.003, 0.03))
        duplicates = random.choice((0.0, 0.0, 0.03))
        self.usual_loss = self.loss = random.choice((0.0, 0.0, 0.02))
        cluster.net.fifo = random.random() < 0.75
        cluster.net.delay = lambda a, b: (base + jitter * cluster.random.random()) * self.slow_net
        cluster.net.drop = lambda a, b, message: self._dropped(a, b, message, duplicates)
        cluster.net.wire = (
            (lambda message: msgpack.unpackb(msgpack.packb(message)))
            if self.seed % 8 == 0
            else lambda message: message
        )
        cluster.disk_delay = lambda node: disk * (0.5 + cluster.random.random()) * self.slow_disk
        for node in cluster.nodes.values():
            node.rate, node.offset = random.uniform(0.95, 1.05), random.uniform(0, 1000)
            node.on_start = self.oracle.started
            node.on_disk_error = self._disk_error

    def _dropped(self, a: int, b: int, message: object, duplicates: float) -> bool:
        random = self.cluster.random
        if duplicates and random.random() < duplicates:
            self.cluster.after(random.random() * 0.3, self.cluster.arrive_again, (a, b, message))
        return bool(self.loss and random.random() < self.loss)

    def play(self) -> None:
        cluster = self.cluster
        for voter in cluster.voters:
            cluster.after(self.random.random() * 0.05, cluster.start, (voter,))
        for number in range(PROPOSALS):
            cluster.at(self.random.uniform(0.5, SECONDS), self._propose, (number,))
        for when in sorted(self.random.uniform(0.3, SECONDS) for _ in range(30)):
            cluster.at(when, self._read)
        for when in sorted(self.random.uniform(1.0, SECONDS - 1) for _ in range(20)):
            cluster.at(when, self._check_invariants)
        self._plan_faults()
        cluster.run(SECONDS)
        self._heal()

    def _plan_faults(self) -> None:
        count = self.random.randrange(5, 10)
        kinds = ["crash", self.random.choice(("power", "power_all"))] + [
            self.random.choice(FAULTS) for _ in range(count - 2)
        ]
        for kind in kinds:
            self.cluster.at(self.random.uniform(0.1, SECONDS - 2), self._fault, (kind,))

    # what clients do

    def _propose(self, number: int) -> None:
        leaders = [
            node
            for node in self.cluster.nodes.values()
            if node.alive and not node.paused and node.core.active
        ]
        if not leaders:
            self.cluster.after(0.2, self._propose, (number,))
            return
        node = self.random.choice(leaders)
        try:
            node.core.propose(b"%d/" % number + b"x" * self.random.choice((1, 30, 150)))
        except (NotLeader, ProposalsFull):
            self.cluster.after(0.05, self._propose, (number,))
            return
        self.accepted += 1
        node.wake()

    def _read(self) -> None:
        leaders = [
            node
            for node in self.cluster.nodes.values()
            if node.alive and not node.paused and node.core.state == "leader"
        ]
        for node in leaders:
            self.oracle.read(node)

    def _check_invariants(self) -> None:
        self.oracle.logs_match()
        self.oracle.journals_are_written()

    # what goes wrong

    def _fault(self, kind: str) -> None:
        self.faults.append((round(self.cluster.now, 3), kind))
        getattr(self, f"_{kind}")()

    def _someone(self) -> Node | None:
        """Rather the leader than another."""
        living = [node for node in self.cluster.nodes.values() if node.alive]
        leaders = [node for node in living if node.core.state == "leader"]
        return (
            self.random.choice(leaders if leaders and self.random.random() < 0.5 else living)
            if living
            else None
        )

    def _later(self, low: float, high: float) -> float:
        return self.random.uniform(low, high)

    def _down(self, node: Node | None, *, power: bool, silent: bool = False) -> None:
        if node is not None:
            self.cluster.crash(node.id, power=power, silent=silent)
            self.cluster.after(self._later(0.01, 4.0), self._up, (node,))

    def _up(self, node: Node) -> None:
        if not node.alive:
            node.disk.fail_at = None
            self.cluster.start(node.id)

    def _crash(self) -> None:
        self._down(self._someone(), power=False)

    def _silent(self) -> None:
        self._down(self._someone(), power=True, silent=True)

    def _power(self) -> None:
        self._down(self._someone(), power=True)

    def _power_all(self) -> None:
        for node in self.cluster.nodes.values():
            self._down(node if node.alive else None, power=True)

    def _disk_dies(self) -> None:
        """At one of its next calls, wherever that is: in the middle of a snapshot, of a journal
        that is replaced.
        """
        if (node := self._someone()) is not None:
            node.disk.fail_at = len(node.disk.calls) + self.random.randrange(8)

    def _disk_error(self, node: Node) -> None:
        self._down(node, power=True)

    def _wipe(self) -> None:
        """A disk is lost, never a second one before the first is made good."""
        node = self._someone()
        if node is not None and all(
            other.alive and other.core.formed for other in self.cluster.nodes.values()
        ):
            self._down(node, power=True)
            node.lose_disk()

    def _wipe_at_the_worst_moment(self) -> None:
        """One voter lags behind, another one loses its disk, and as it is back the leader, who
        alone has everything, is away.
        """
        leader = self.cluster.leader
        if leader is None or not all(
            node.alive and node.core.formed for node in self.cluster.nodes.values()
        ):
            return
        lagging, lost = self.random.sample(
            [node for node in self.cluster.nodes.values() if node is not leader], 2
        )
        self._cut(
            (
                (a, b)
                for a in self.cluster.voters
                for b in self.cluster.voters
                if (a == lagging.id) != (b == lagging.id)
            ),
            1.5,
        )
        self.cluster.after(1.0, self._lose, (lost, leader, leader.life))

    def _lose(self, lost: Node, leader: Node, life: int) -> None:
        if leader.life != life or not all(
            node.alive and node.core.formed for node in self.cluster.nodes.values()
        ):
            return
        self.cluster.crash(lost.id, power=True)
        lost.lose_disk()
        self.cluster.after(self._later(0.001, 0.1), self._up, (lost,))
        self.cluster.after(self._later(0.1, 0.6), self._down_if, (leader, life))

    def _down_if(self, node: Node, life: int) -> None:
        self._down(node if node.life == life else None, power=True)

    def _pause(self) -> None:
        if (node := self._someone()) is not None:
            node.paused = True
            self.cluster.after(self._later(0.05, 4.0), self._resume, (node, node.life))

    def _resume(self, node: Node, life: int) -> None:
        if node.life == life and node.paused:
            node.resume()

    def _cut(self, links: Iterator[tuple[int, int]], seconds: float | None = None) -> None:
        cut = set(links) - self.cluster.net.cut
        self.cluster.net.cut |= cut
        self.cluster.after(seconds or self._later(0.1, 5.0), self._mend, (cut,))

    def _mend(self, cut: set[tuple[int, int]]) -> None:
        self.cluster.net.cut -= cut

    def _one_way(self) -> None:
        a, b = self.random.sample(self.cluster.voters, 2)
        self._cut(iter([(a, b)]))

    def _isolate(self) -> None:
        if (node := self._someone()) is not None:
            self._cut(
                link
                for other in self.cluster.voters
                for link in ((node.id, other), (other, node.id))
            )

    def _split(self) -> None:
        side = set(
            self.random.sample(
                self.cluster.voters, self.random.randrange(1, len(self.cluster.voters))
            )
        )
        self._cut(
            (a, b)
            for a in self.cluster.voters
            for b in self.cluster.voters
            if (a in side) != (b in side)
        )

    def _loss(self) -> None:
        self.loss = self.random.uniform(0.05, 0.4)
        self.cluster.after(self._later(0.5, 4), setattr, (self, "loss", self.usual_loss))

    def _slow(self) -> None:
        self.slow_net = self.random.choice((5.0, 30.0))
        self.cluster.after(self._later(0.5, 4), setattr, (self, "slow_net", 1.0))

    def _slow_disk(self) -> None:
        self.slow_disk = self.random.choice((10.0, 100.0))
        self.cluster.after(self._later(0.5, 4), setattr, (self, "slow_disk", 1.0))

    def _transfer(self) -> None:
        for node in self.cluster.nodes.values():
            if node.leads and not node.paused:
                node.core.transfer(self.random.choice(self.cluster.voters))
                node.wake()

    # the end

    def _heal(self) -> None:
        """All faults end. Then a leader comes, takes proposals, and everyone catches up with it."""
        cluster = self.cluster
        cluster.net.cut.clear()
        self.loss = self.usual_loss = 0.0
        self.slow_net = self.slow_disk = 1.0
        for node in cluster.nodes.values():
            node.disk.fail_at = None
            if not node.alive:
                cluster.start(node.id)
            elif node.paused:
                node.resume()
        self.oracle.check(
            cluster.run(15, lambda: self.accepted >= PROPOSALS),
            f"only {self.accepted} proposals were taken, 15 s after all healed",
        )
        self.oracle.check(
            cluster.run(15, self._all_equal),
            f"{self.oracle.applied} of {self.oracle.highest} are applied 15 s after all healed",
        )
        self._check_invariants()
        self.oracle.nothing_lost()

    def _all_equal(self) -> bool:
        leader = self.cluster.leader
        return leader is not None and all(
            self.oracle.applied[voter] == leader.core.last_index for voter in self.cluster.voters
        )


class VotersRun(Run):
    """Voters that come and go: one voter becomes three, five, and three again, the leader among
    those that may go.

    Five nodes follow the log from the beginning. An operator asks whichever node leads for the next
    change, and asks again as long as it is refused or lost. A voter that lost its disk stays a
    voter: the operator has its new directory written into the set.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.changes = 0  # that a leader has taken
        self.reached: list[int] = []  # sizes of committed sets
        self._goals = deque(SIZES)
        self._disk_lost_at = float("-inf")
        self._next_goal_at = 0.0

    def _make_cluster(self, config: RaftConfig) -> Cluster:
        return Cluster(1, self.seed, config, start=False, later=NODES - 1)

    def play(self) -> None:
        self.cluster.at(self.random.uniform(0.3, 1.0), self._operate)
        super().play()

    def _heal(self) -> None:
        self._next_goal_at = 0.0
        super()._heal()
        self.oracle.check(
            self.cluster.run(30, lambda: not self._goals),
            f"the voters became {self.reached}, and then no more, 30 s after all healed",
        )
        self.oracle.check(
            self.cluster.run(15, self._all_equal), "not all follow, when the voters are settled"
        )
        self._check_invariants()
        self.oracle.nothing_lost()

    # disks are lost only where enough others have what was on them

    def _may_lose_a_disk(self) -> bool:
        """With one or two voters a lost disk is the end, as with any quorum."""
        leader = self.cluster.leader
        if leader is None or leader.core.voters_index > leader.core.commit_index:
            return False
        return len(leader.core.voters) >= 3

    def _wipe(self) -> None:
        if self._may_lose_a_disk():
            self._disk_lost_at = self.cluster.now
            super()._wipe()

    def _wipe_at_the_worst_moment(self) -> None:
        if self._may_lose_a_disk():
            self._disk_lost_at = self.cluster.now + 1.0
            super()._wipe_at_the_worst_moment()

    # the operator

    def _operate(self) -> None:
        if self._goals:
            self.cluster.after(self.random.uniform(0.5, 1.5) * ASK_EVERY_S, self._operate)
        leaders = [
            node
            for node in self.cluster.nodes.values()
            if node.alive and not node.paused and node.core.active
        ]
        if leaders and self.cluster.now > self._disk_lost_at + LOST_DISK_S:
            self._ask(self.random.choice(leaders))

    def _ask(self, leader: Node) -> None:
        core = leader.core
        voters = core.voter_set
        settled = core.voters_index <= core.commit_index
        if voters is not None and settled:  # controller.quorum.voters goes: see docs/operations.md
            self.cluster.founders = []
        if voters is not None and settled and self._goals and len(voters) == self._goals[0]:
            self.reached.append(self._goals.popleft())
            pause = (SECONDS - self.cluster.now) / (len(self._goals) + 1)
            self._next_goal_at = self.cluster.now + self.random.uniform(0, max(0.0, pause))
        wanted = self._wanted(leader, voters)
        if wanted is None:
            return
        try:
            core.change_voters(wanted, self.random.choice((b"", b"with records")))
        except (NotLeader, ProposalsFull, VotersRefused):
            return
        self.changes += 1
        leader.wake()
        if self.random.random() < 0.3:
            self._hurry(leader)

    def _hurry(self, leader: Node) -> None:
        """Ask for more while the change is under way, which is refused, and cut the leader off with
        some of the others.
        """
        nodes = list(self.cluster.nodes.values())
        side = {leader.id, *(node.id for node in self.random.sample(nodes, 2))}
        some = make_set(as_voter(node) for node in self.random.sample(nodes, 3))
        with suppress(NotLeader, ProposalsFull, VotersRefused):
            leader.core.change_voters(some)
        ids = self.cluster.voters
        self._cut((a, b) for a in ids for b in ids if (a in side) != (b in side))

    def _wanted(self, leader: Node, voters: VoterSet | None) -> VoterSet | None:
        nodes, random = self.cluster.nodes, self.random
        if voters is None:
            return make_set(as_voter(nodes[each]) for each in leader.core.voters)
        if moved := [each for each in voters if each != as_voter(nodes[each.node_id])]:
            voter = random.choice(moved)
            return make_set((set(voters) - {voter}) | {as_voter(nodes[voter.node_id])})
        if not self._goals or self.cluster.now < self._next_goal_at:
            return None
        if len(voters) < self._goals[0]:
            others = sorted(nodes.keys() - ids_of(voters))
            return make_set({*voters, as_voter(nodes[random.choice(others)])})
        if len(voters) > self._goals[0]:
            leads = [each for each in voters if each.node_id == leader.id]
            leaves = random.choice(leads if leads and random.random() < 0.5 else voters)
            return make_set(set(voters) - {leaves})
        return None


def as_voter(node: Node) -> QuorumVoter:
    return QuorumVoter(node.id, node.directory_id, (("CONTROLLER", f"n{node.id}", 9093),))


def run_seed(seed: int) -> Run:
    """Raises Violation."""
    return play(Run(seed))


def play(run: R) -> R:
    """Raises Violation, also for anything that a node raises."""
    seed = run.seed
    try:
        run.play()
    except (SafetyViolated, MalformedMessage) as error:
        raise Violation(
            f"seed {seed}, at {run.cluster.now:.4f}: {type(error).__name__}: {error}"
        ) from error
    except Violation:
        raise
    except Exception as error:
        raise Violation(
            f"seed {seed}, at {run.cluster.now:.4f}: {type(error).__name__}: {error}"
        ) from error
    return run


def run_voters_seed(seed: int) -> VotersRun:
    """Raises Violation."""
    return play(VotersRun(seed))
