"""What can go wrong, by chance: who dies, who is slow, who does not hear whom, whose disk fails. Everything is undone by `heal`."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random

from raftka.broker.node import Node
from raftka.chaos.simulated.cluster import Cluster
from raftka.metadata.commands import AlterReassignments, Command, ElectLeaders, Move, MovedTopic
from raftka.runtime.simulated_disk import SYNC_S
from raftka.wire.errors import KafkaError

SLOW_SYNC_S = (0.02, 0.3)
SLOW_DELAY_S = (0.01, 0.2)
VERY_SLOW_SYNC_S = (0.3, 1.0)
BEFORE_THE_DARK_S = (0.1, 0.5)
BACK_S = ((0.0, 0.0), (0.0, 0.0), (0.2, 1.0))  # the first, the second, the third node
SECOND_DIRECTORY = "/more"
ROOM_BYTES = (0, 20_000)
SPREADS_S = (0.0, 0.3, 3.0)  # of the nodes' starts, when all start


@dataclass(frozen=True)
class Kind:
    """`weight`: how often, compared with the others."""

    name: str
    weight: int


POWER = (Kind("dark", 20), Kind("slow_sync", 1), Kind("power_loss", 1), Kind("power_loss_of_all", 1))
ALL = (
    Kind("dark", 1),
    Kind("power_loss_of_all", 2),
    Kind("power_loss", 3),
    Kind("kill", 3),
    Kind("kill_leader", 3),
    Kind("kill_controller", 2),
    Kind("pause", 3),
    Kind("cut", 3),
    Kind("isolate", 2),
    Kind("slow_link", 2),
    Kind("loss", 2),
    Kind("slow_sync", 3),
    Kind("full_disk", 1),
    Kind("failing_sync", 1),
    Kind("failing_write", 1),
    Kind("restart", 2),
)
DIRECTORIES = (
    Kind("break_directory", 4),
    Kind("start_without_directory", 3),
    Kind("lose_directory", 5),
    Kind("move_directory", 10),
    *(kind for kind in ALL if kind.name not in ("dark", "pause", "slow_link", "full_disk")),
)
WIDTH = (*(kind for kind in ALL if kind.name != "dark"), Kind("move", 6), Kind("call_off", 2), Kind("elect", 3))


class Faults:
    def __init__(self, cluster: Cluster, topic: str, partitions: int, kinds: tuple[Kind, ...], gap_s: tuple[float, float]) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.happened: list[str] = []
        self.over = False
        self._topic, self._partitions = topic, partitions
        self._kinds, self._gap_s = kinds, gap_s
        self._random: Random = self.world.random("faults")
        self._preparing = False

    def begin(self) -> None:
        self._later(self._random.uniform(*self._gap_s), self._next)

    def _later(self, after_s: float, action: Callable[[], object]) -> None:
        self.world.at(self.world.now + after_s, lambda: None if self.over else action())

    def _next(self) -> None:
        if not self._preparing:
            kind = self._random.choices(self._kinds, [kind.weight for kind in self._kinds])[0]
            getattr(self, f"_{kind.name}")()
        self._later(self._random.uniform(*self._gap_s), self._next)

    def _note(self, what: str) -> None:
        self.happened.append(f"{self.world.now:.3f} {what}")

    def _someone(self) -> int | None:
        living = sorted(self.cluster.living)
        return self._random.choice(living) if living else None

    # who dies, and comes back

    def _die(self, node_id: int | None, *, power_loss: bool, back_s: tuple[float, float] = (0.0, 4.0)) -> None:
        if node_id is None or not self.cluster.alive(node_id):
            self._bring_back()
            return
        self._note(f"{'power loss' if power_loss else 'kill'} n{node_id}")
        self.cluster.kill(node_id, power_loss=power_loss)
        self._later(self._random.uniform(*back_s), lambda: self._start(node_id))

    def _start(self, node_id: int) -> None:
        if not self.cluster.alive(node_id):
            self._mend(node_id)
            self._note(f"start n{node_id}")
            self.cluster.start(node_id)

    def _bring_back(self) -> None:
        """Those who stopped by themselves, with a disk that works again."""
        for node_id in self.cluster.nodes:
            self._start(node_id)

    def _mend(self, node_id: int) -> None:
        disk = self.cluster.disk(node_id)
        disk.room_bytes, disk.failing_syncs, disk.failing_writes = None, 0, 0
        for path in tuple(disk.broken):
            disk.mend(path)

    def _power_loss_of_all(self) -> None:
        self._note("power loss of all")
        self.cluster.power_loss()
        spread_s = self._random.choice(SPREADS_S)
        for node_id in self.cluster.nodes:
            self._later(self._random.uniform(0.0, spread_s), partial(self._start, node_id))

    def _dark(self) -> None:
        """One node is down when the disk of a second becomes very slow; then all lose power, and the second is back before the third.

        So it leads alone what it had when it went: all that was acknowledged, or else it will be missed.
        """
        self._preparing = True
        nodes = sorted(self.cluster.nodes)
        self._when(40, self._all_are_in_sync, lambda: self._one_down(*self._random.sample(nodes, 3)))

    def _one_down(self, down: int, *others: int) -> None:
        if self._random.random() < 0.8:
            self._note(f"kill n{down}")
            self.cluster.kill(down, power_loss=False)
        self._when(40, lambda: self._left(down), lambda: self._slow_and_then_dark(down, *others))

    def _left(self, node_id: int) -> bool:
        return self.cluster.alive(node_id) or not any(node_id in self.cluster.isr_of(self._topic, p) for p in range(self._partitions))

    def _slow_and_then_dark(self, down: int, slow: int, other: int) -> None:
        leader = self.cluster.leader_of(self._topic, self._random.randrange(self._partitions))
        if (slow == leader) is (self._random.random() < 0.5):  # a leader as often as a follower
            slow, other = other, slow
        self._note(f"very slow disk n{slow}")
        self.cluster.disk(slow).sync_s = VERY_SLOW_SYNC_S
        self._later(self._random.uniform(*BEFORE_THE_DARK_S), lambda: self._now_dark(down, slow, other))

    def _now_dark(self, *order: int) -> None:
        """The last of the three is the last to be back."""
        self._note("power loss of all")
        self._preparing = False
        disk = self.cluster.disk(order[1])
        disk.keeps_nothing = self._random.random() < 0.7
        self.cluster.power_loss()
        disk.keeps_nothing, disk.sync_s = False, SYNC_S
        for node_id, spread_s in zip(order, BACK_S, strict=True):
            self._later(self._random.uniform(*spread_s), partial(self._start, node_id))

    def _all_are_in_sync(self) -> bool:
        nodes = len(self.cluster.nodes)
        return len(self.cluster.living) == nodes and all(len(self.cluster.isr_of(self._topic, p)) == nodes for p in range(self._partitions))

    def _when(self, looks: int, holds: Callable[[], bool], action: Callable[[], object]) -> None:
        """As soon as it holds, or when it was looked at in vain so often."""
        if looks == 0 or holds():
            action()
        else:
            self._later(0.05, lambda: self._when(looks - 1, holds, action))

    def _power_loss(self) -> None:
        self._die(self._someone(), power_loss=True)

    def _kill(self) -> None:
        self._die(self._someone(), power_loss=False)

    def _restart(self) -> None:
        """So fast that nobody may have noticed."""
        self._die(self._someone(), power_loss=False, back_s=(0.0, 0.02))

    def _kill_leader(self) -> None:
        leader = self.cluster.leader_of(self._topic, self._random.randrange(self._partitions))
        self._die(leader, power_loss=self._random.random() < 0.5)

    def _kill_controller(self) -> None:
        self._die(self.cluster.controller, power_loss=self._random.random() < 0.5)

    # who is asked to go elsewhere

    def _move(self) -> None:
        """To any brokers, also such as are down."""
        brokers = [node_id for node_id in self.cluster.nodes if node_id not in self.cluster.controllers]
        self._reassign(tuple(self._random.sample(brokers, self._random.choice((2, 3, 3, 3, 4)))))

    def _call_off(self) -> None:
        self._reassign(None)

    def _reassign(self, target: tuple[int, ...] | None) -> None:
        partition = self._random.randrange(self._partitions)
        self._command(AlterReassignments((MovedTopic(self._topic, (Move(partition, target),)),)))

    def _elect(self) -> None:
        self._command(ElectLeaders(0))

    def _command(self, command: Command) -> None:
        """As an administrator who asks some broker; what comes of it is not waited for."""
        brokers = [node_id for node_id in sorted(self.cluster.living) if node_id not in self.cluster.controllers]
        if brokers:
            self._note(str(command))
            node = self.cluster.nodes[self._random.choice(brokers)]
            node.link.call(command, lambda error, reply: None, 5.0)

    # who is slow

    def _pause(self) -> None:
        node_id = self._someone()
        if node_id is not None:
            self._note(f"pause n{node_id}")
            self.world.pause(f"n{node_id}")
            self._later(self._random.choice((0.05, 0.5, 2.0, 5.0)), lambda: self._resume(node_id))

    def _resume(self, node_id: int) -> None:
        if self.cluster.alive(node_id):
            self.world.resume(f"n{node_id}")

    def _slow_sync(self) -> None:
        node_id = self._random.choice(sorted(self.cluster.nodes))
        self._note(f"slow disk n{node_id}")
        self.cluster.disk(node_id).sync_s = (SLOW_SYNC_S[0], self._random.uniform(*SLOW_SYNC_S))
        self._later(self._random.uniform(0.5, 5.0), lambda: setattr(self.cluster.disk(node_id), "sync_s", SYNC_S))

    # who does not hear whom

    def _pair(self) -> tuple[str, str]:
        a, b = self._random.sample(sorted(self.cluster.nodes), 2)
        return f"n{a}", f"n{b}"

    def _cut(self) -> None:
        a, b = self._pair()
        one_way = self._random.random() < 0.5
        self._note(f"cut {a} {b}{' one way' if one_way else ''}")
        self.world.network.cut(a, b, one_way=one_way)
        self._heal_later()

    def _isolate(self) -> None:
        name = f"n{self._random.choice(sorted(self.cluster.nodes))}"
        self._note(f"isolate {name}")
        if self._random.random() < 0.5:
            self.world.network.isolate(name)
        else:  # clients still reach it
            for other in self.cluster.nodes:
                if name != f"n{other}":
                    self.world.network.cut(name, f"n{other}")
        self._heal_later()

    def _loss(self) -> None:
        a, b = self._pair()
        self._note(f"loss {a} {b}")
        self.world.network.loss(a, b, self._random.uniform(0.01, 0.3))
        self._heal_later()

    def _heal_later(self) -> None:
        self._later(self._random.uniform(0.2, 6.0), self.world.network.heal)

    def _slow_link(self) -> None:
        a, b = self._pair()
        self._note(f"slow link {a} {b}")
        self.world.network.delay(a, b, 0.001, self._random.uniform(*SLOW_DELAY_S), one_way=self._random.random() < 0.5)
        self._later(self._random.uniform(0.5, 5.0), lambda: self._usual_delay(a, b))

    def _usual_delay(self, a: str, b: str) -> None:
        low, high = self.world.network.default_delay_s
        self.world.network.delay(a, b, low, high)

    # whose disk fails

    def _full_disk(self) -> None:
        node_id = self._someone()
        if node_id is not None:
            self._note(f"full disk n{node_id}")
            self.cluster.disk(node_id).room_bytes = self._random.randint(*ROOM_BYTES)
            self._later(self._random.uniform(1.0, 5.0), lambda: self._again(node_id))

    def _failing_sync(self) -> None:
        node_id = self._someone()
        if node_id is not None:
            self._note(f"failing sync n{node_id}")
            self.cluster.disk(node_id).failing_syncs = 1
            self._later(self._random.uniform(1.0, 5.0), lambda: self._again(node_id))

    def _failing_write(self) -> None:
        node_id = self._someone()
        if node_id is not None:
            self._note(f"failing write n{node_id}")
            self.cluster.disk(node_id).failing_writes = 1
            self._later(self._random.uniform(1.0, 5.0), lambda: self._again(node_id))

    def _again(self, node_id: int) -> None:
        """Somebody has seen to the disk; the node is started anew."""
        if self.cluster.alive(node_id):
            self.cluster.kill(node_id, power_loss=False)
        self._start(node_id)

    # whose second directory fails, is lost, or takes what lay in the first

    def _break_directory(self) -> None:
        node_id = self._someone()
        if node_id is not None:
            self._note(f"broken directory n{node_id}")
            self.cluster.disk(node_id).broken.add(SECOND_DIRECTORY)
            self._later(self._random.uniform(0.5, 5.0), lambda: self._again(node_id))

    def _start_without_directory(self) -> None:
        node_id = self._someone()
        if node_id is not None:
            self._note(f"restart without a directory n{node_id}")
            self.cluster.kill(node_id, power_loss=self._random.random() < 0.5)
            self.cluster.disk(node_id).broken.add(SECOND_DIRECTORY)
            self.cluster.start(node_id)
            self._later(self._random.uniform(0.5, 5.0), lambda: self._again(node_id))

    def _lose_directory(self) -> None:
        self._when(60, self._all_are_in_sync, self._lose)

    def _lose(self) -> None:
        """Only while all others have everything, and nothing new happens to them before it is known: else the cluster could not help it."""
        node_id = self._someone()
        everywhere = all(len(self.cluster.hosts(self._topic, p)) == len(self.cluster.nodes) for p in range(self._partitions))
        if node_id is None or not everywhere or not self._all_are_in_sync():  # who has just begun anew may still be in an ISR
            return
        self._note(f"lost directory n{node_id}")
        self.cluster.kill(node_id, power_loss=self._random.random() < 0.5)
        self.cluster.disk(node_id).replace_directory(SECOND_DIRECTORY)
        self._preparing = True
        self._later(self._random.choice((0.0, 0.01, 2.0)), lambda: self._start(node_id))
        self._when(400, lambda: self._registered(node_id), self._go_on)

    def _registered(self, node_id: int) -> bool:
        return self.cluster.alive(node_id) and self.cluster.nodes[node_id].link.broker_epoch >= 0

    def _go_on(self) -> None:
        self._preparing = False

    def _move_directory(self) -> None:
        node_id = self._someone()
        if node_id is not None:
            path, partition = self._random.choice(("/data", SECOND_DIRECTORY)), self._random.randrange(self._partitions)
            self._note(f"move {self._topic}-{partition} to {path} on n{node_id}")
            process, node = self.world.machine(f"n{node_id}").node, self.cluster.nodes[node_id]
            assert process is not None
            process.take(lambda _: self._alter(node, path, partition), None)

    def _alter(self, node: Node, path: str, partition: int) -> None:
        try:
            node.replicas.mover.alter(path, self._topic, partition)
        except KafkaError as error:
            self._note(f"no: {error}")

    # the end

    def heal(self) -> None:
        """No more faults, and none left."""
        self.over = True
        self.world.network.heal()
        spread_s = self._random.choice(SPREADS_S)
        for node_id in self.cluster.nodes:
            disk = self.cluster.disk(node_id)
            disk.sync_s = SYNC_S
            if disk.broken and self.cluster.alive(node_id):
                self.cluster.kill(node_id, power_loss=False)
            if self.cluster.alive(node_id):
                self.world.resume(f"n{node_id}")
                if self._cannot_write(node_id):
                    self.cluster.kill(node_id, power_loss=False)
            self.world.at(self.world.now + self._random.uniform(0.0, spread_s), partial(self._start, node_id))
        for a in self.cluster.nodes:
            for b in self.cluster.nodes:
                if a < b:
                    self._usual_delay(f"n{a}", f"n{b}")

    def _cannot_write(self, node_id: int) -> bool:
        """A log that could not be written needs a new process, a disk that is still to fail would surprise us later."""
        disk = self.cluster.disk(node_id)
        manager = self.cluster.nodes[node_id].replicas.logs
        logs = manager.logs
        return bool(manager.offline or disk.failing_writes or disk.failing_syncs or disk.room_bytes is not None) or any(
            log.failed for log in logs.values()
        )
