"""Many nodes in one thread on virtual time: the simulated side of the runtime door. The same seed
gives the same run, to the byte.

A `World` is a heap of events. Each event is a callback, at most one node's; what comes for a node
while it is busy waits for its next turn, so turns gather work as real ones do. `trace_hash` covers
every delivery, file call, timer and decision with its time. Knows nothing of Kafka.

    with World(seed=7) as world:
        start(world.node("a")), start(world.node("b"))
        world.run(until=5.0)
        world.kill("a", power_loss=True)
        assert world.run(until=lambda: ..., at_most_s=30)
"""

from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from hashlib import blake2b
from heapq import heappop, heappush
from math import inf
from random import Random
from struct import Struct
from tempfile import NamedTemporaryFile
from typing import Any, TypeVar

import trio

from raftka.runtime.interfaces import Clock, Files, Network, Offload, TurnWatch
from raftka.runtime.simulated.clock import NodeClock
from raftka.runtime.simulated.disk import NodeFiles, SimulatedDisk
from raftka.runtime.simulated.guard import guard_lifted, sim_guard
from raftka.runtime.simulated.network import Endpoint, NodeNetwork, SimulatedNetwork
from raftka.runtime.simulated.process import Process, Sender
from raftka.runtime.simulated.tasks import NodeStopped, Tasks

TURN_S = (20e-6, 80e-6)  # what a turn takes a node
LEAST_TURN_S, MORE_TURN_S = TURN_S[0], TURN_S[1] - TURN_S[0]
OFFLOAD_S = (50e-6, 0.002)  # when work off the loop is done
STANDSTILL = 100_000  # events at one time
POISON = b"\xdd" * 65536  # what a received view holds after its turn
TRACE = Struct("<dcHqq")  # time, kind, node, two numbers
Action = Callable[[Any, Any], object]  # with what was scheduled beside it
Deliver = Callable[[Any], object]
T = TypeVar("T")


class Machine:
    """The parts that outlive a process: disk, clocks, power."""

    def __init__(self, name: str, number: int, disk: SimulatedDisk) -> None:
        self.name = name
        self.number = number
        self.disk = disk
        self.powered = True
        self.incarnations = 0
        self.node: Node | None = None
        self.clock_offset_s = 0.0  # set these before the node starts
        self.clock_rate = 1.0
        self.wall_offset_s = 0.0  # set at any time: the wall clock jumps


class World:
    def __init__(self, seed: int, *, guard: bool = True, keep_trace: int = 0) -> None:
        """`guard`: trap the real world while running. `keep_trace`: so many last lines of the trace
        stay readable in `trace`.
        """
        self.seed = seed
        self.now = 0.0
        self.machines: dict[str, Machine] = {}
        self.failures: list[tuple[float, str, BaseException]] = []  # nodes that called fail()
        self.trace: deque[tuple[float, str, int, int, int]] = deque(maxlen=keep_trace)
        self._heap: list[tuple[float, int, Action, object, object]] = []
        self._pushed = 0
        self._hash = blake2b(digest_size=16)
        self._randoms: dict[str, Random] = {}
        self._guard = guard
        self._broken: BaseException | None = None
        self.network = SimulatedNetwork(self)
        self.tasks = Tasks(self)

    def __enter__(self) -> "World":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the tasks of all nodes. A world in which something was spawned must be closed: Trio
        runs once a thread.
        """
        with self._guarded():
            for machine in self.machines.values():
                if machine.node is not None and machine.node.alive:
                    machine.node.die()
            self.tasks.close()

    # -- nodes and their faults
    # ----------------------------------------------------------------------------------------------

    def machine(self, name: str) -> Machine:
        if (machine := self.machines.get(name)) is None:
            disk = SimulatedDisk(name, self.random(f"disk {name}"))
            machine = self.machines[name] = Machine(name, len(self.machines) + 1, disk)
        return machine

    def disk(self, name: str) -> SimulatedDisk:
        return self.machine(name).disk

    def node(self, name: str, disk: str | None = None) -> "Node":
        """A new process on that machine (or on another's disk), with what its disk kept; power
        comes back if it was off.
        """
        machine = self.machine(name)
        if machine.node is not None and machine.node.alive:
            raise RuntimeError(f"{name} is alive: kill it first")
        machine.incarnations += 1
        self.note(b"B", machine.number, machine.incarnations, machine.powered)
        if not machine.powered:
            machine.powered = True
            self.network.powered_again(machine)
        machine.node = Node(self, machine, self.disk(disk) if disk else machine.disk)
        return machine.node

    def kill(self, name: str, power_loss: bool = False) -> None:
        """SIGKILL: the kernel closes the connections and writes its pages. With power_loss:
        silence, and unflushed bytes may be lost.
        """
        machine = self.machines[name]
        self.note(b"X", machine.number, power_loss, 0)
        if power_loss:
            machine.powered = False
        if machine.node is not None and machine.node.alive:
            machine.node.die()
        if power_loss:
            machine.disk.lose_power()

    def pause(self, name: str) -> None:
        """SIGSTOP: its kernel still takes bytes and connections, as far as its buffers go."""
        self.note(b"Z", self.machines[name].number, 1, 0)
        self._node(name).pause()

    def resume(self, name: str) -> None:
        self.note(b"Z", self.machines[name].number, 0, 0)
        self._node(name).resume()

    def end_busy_time(self, name: str) -> None:
        """Its disk is fast again: what it flushes in place is done."""
        self._node(name).end_busy_time()

    def _node(self, name: str) -> "Node":
        node = self.machines[name].node
        assert node is not None
        return node

    # -- running
    # ----------------------------------------------------------------------------------------------

    def run(self, until: float | Callable[[], bool], *, at_most_s: float = 3600.0) -> bool:
        """Until the time has come, or until the predicate holds (looked at after each event): False
        if it does not within `at_most_s`.
        """
        if not callable(until):
            self._run(until, None)
            return True
        return until() or self._run(self.now + at_most_s, until)

    def _run(self, end: float, until: Callable[[], bool] | None) -> bool:
        heap, still = self._heap, 0
        with self._guarded():
            while heap and heap[0][0] <= end:
                when, _, action, a, b = heappop(heap)
                if when > self.now:
                    self.now, still = when, 0
                elif (still := still + 1) > STANDSTILL:
                    raise RuntimeError(
                        f"{STANDSTILL} events at {when}: someone asks again and again for what is "
                        "due already"
                    )
                action(a, b)
                if self._broken is not None:
                    raise self._broken
                if until is not None and until():
                    return True
        self.now = max(self.now, end)
        return False

    def push(self, when: float, action: Action, a: object = None, b: object = None) -> None:
        """An event of the world. Those of one time run in the order in which they were pushed."""
        self._pushed += 1
        heappush(self._heap, (when, self._pushed, action, a, b))

    def at(self, when: float, action: Callable[[], object]) -> None:
        """A fault, or anything else that a test wants done at that time."""
        self.push(max(when, self.now), lambda _a, _b: action())

    def random(self, stream: str) -> Random:
        """Streams do not disturb each other: leave one fault out and the others happen as
        before.
        """
        if (random := self._randoms.get(stream)) is None:
            random = self._randoms[stream] = Random(f"{self.seed}/{stream}")
        return random

    def note(self, kind: bytes, node: int, a: int, b: int) -> None:
        """One line of the trace."""
        self._hash.update(TRACE.pack(self.now, kind, node, a, b))
        if self.trace.maxlen:
            self.trace.append((self.now, kind.decode(), node, a, b))

    @property
    def trace_hash(self) -> str:
        """Everything that happened up to now, in its order, and how far each random stream was
        read.
        """
        total = self._hash.copy()
        for name, random in self._randoms.items():
            total.update(f"{name} {hash(random.getstate()[1])}".encode())
        return total.hexdigest()

    def _guarded(self) -> AbstractContextManager[None]:
        return sim_guard() if self._guard else nullcontext()

    def task_failed(self, node: Process, error: BaseException) -> None:
        error.add_note(f"in a task of {node.machine.name} at {self.now:.6f} of seed {self.seed}")
        self._broken = self._broken or error


class Node:
    """One process: the Runtime it is given, and its turns."""

    kind = "simulated"

    def __init__(self, world: World, machine: Machine, disk: SimulatedDisk) -> None:
        self.world = self.events = world
        self.machine = machine
        self.alive = True
        self.paused = False
        self.resumed = trio.Event()
        self.scopes: dict[trio.CancelScope, None] = {}  # of its tasks
        self.clock: Clock = NodeClock(self, machine, world)
        self.network: Network = NodeNetwork(self, world.network)
        self.files: Files = NodeFiles(self, disk, world)
        self.offload: Offload = NodeOffload(self)
        self.turn_ends: list[Callable[[], None]] = []
        self.woken: list[Sender] = []
        self.views: list[bytearray] = []
        self.poison = self.views.append
        self.at_death: list[Callable[[], None]] = []
        self.endpoints: dict[Endpoint, None] = {}
        self.in_turn = False
        self.busy_s = 0.0  # what the calls of this turn took: a sync in place
        self._inbox: list[tuple[Deliver, object]] = []
        self._free_at = 0.0
        self._turn_at = inf  # when the next turn begins; inf: none is due
        self._pace = world.random(f"pace {machine.name}").random
        self._name = f"{machine.name} {machine.incarnations}"

    # -- Runtime
    # ----------------------------------------------------------------------------------------------

    def random(self, stream: str) -> Random:
        return self.world.random(f"node {self._name} {stream}")

    @contextmanager
    def lend(self, data: bytes) -> Iterator[str]:
        """In the real system: libraries that read files know no other."""
        with ExitStack() as stack:
            with guard_lifted():  # the first name of a process is drawn from a new generator
                file = stack.enter_context(NamedTemporaryFile(prefix="raftka-lent-"))
            file.write(data)
            file.flush()
            yield file.name

    def watch_turns(self, watch: TurnWatch) -> None:
        pass

    def spawn(self, task: Callable[[], Awaitable[object]], name: str) -> None:
        self.check_alive()
        self.world.tasks.spawn(self, task, f"{self.machine.name}: {name}")

    def fail(self, error: BaseException) -> None:
        self.check_alive()
        self.note(b"!", 0, 0)
        self.world.failures.append((self.world.now, self.machine.name, error))
        self.die()
        raise NodeStopped(self.machine.name)

    @property
    def is_busy(self) -> bool:
        """In a turn that takes long, paused, or about to have a turn."""
        return self.paused or bool(self._inbox) or self._free_at > self.world.now

    # -- turns
    # ----------------------------------------------------------------------------------------------

    def take(self, action: Deliver, argument: object) -> None:
        """Something came for this node: handled now, or in the next turn when it is busy, or never
        when it is dead.
        """
        if not self.alive:
            return
        self._inbox.append((action, argument))
        if self._turn_at == inf and not self.in_turn and not self.paused:
            if self.world.now >= self._free_at:
                self._turn()
            else:
                self._turn_at = self._free_at
                self.world.push(self._turn_at, self._due_turn)

    def want_turn(self) -> None:
        """A task, or a test, has asked for the end of a turn outside of one."""
        if self._turn_at == inf and not self.paused:
            self._turn_at = max(self._free_at, self.world.now)
            self.world.push(self._turn_at, self._due_turn)

    def end_busy_time(self) -> None:
        if self._free_at > self.world.now:
            self._free_at = self.world.now
            # the one that is due later will find nothing to do
            self.world.push(self.world.now, self._due_turn)

    def _due_turn(self, _a: object, _b: object) -> None:
        self._turn_at = inf
        if self.alive and not self.paused and (self._inbox or self.turn_ends or self.woken):
            self._turn()

    def _turn(self) -> None:
        self.in_turn = True
        try:
            inbox, self._inbox = self._inbox, []
            for action, argument in inbox:
                action(argument)
            while self.turn_ends or self.woken:
                self._end_turn()
        except NodeStopped:
            return
        # of a fault; as with the real runtime the process ends. Every other exception is a bug and
        # ends the world
        except OSError as error:
            with suppress(NodeStopped):
                self.fail(error)
            return
        finally:
            self.in_turn = False
            if self.views:
                self._poison()
        self._free_at = self.world.now + LEAST_TURN_S + self._pace() * MORE_TURN_S + self.busy_s
        self.busy_s = 0.0
        if self._inbox and self.alive:
            self.want_turn()

    def _poison(self) -> None:
        """Whoever keeps a view beyond its turn shall see that it was wrong to."""
        for view in self.views:
            size = len(view)
            view[:] = POISON[:size] if size <= 65536 else b"\xdd" * size
        self.views.clear()

    def _end_turn(self) -> None:
        while self.turn_ends:
            actions, self.turn_ends = self.turn_ends, []
            for action in actions:
                action()
        woken, self.woken = self.woken, []
        for endpoint in woken:
            endpoint.take_output()

    # -- the end, and what comes close to it
    # ----------------------------------------------------------------------------------

    def pause(self) -> None:
        self.check_alive()
        if not self.paused:  # else somebody may wait for it already
            self.paused = True
            self.resumed = trio.Event()

    def resume(self) -> None:
        self.paused = False
        self.resumed.set()
        self._turn_at = inf
        self.want_turn()

    def die(self) -> None:
        """Nothing of it runs any more. Its disk and its kernel are the machine's."""
        self.alive = False
        self._inbox.clear()
        self.turn_ends.clear()
        self.woken.clear()
        for scope in self.scopes:
            scope.cancel()
        self.resumed.set()
        self.world.network.killed(self)
        for action in self.at_death:
            action()

    def check_alive(self) -> None:
        if not self.alive:
            raise NodeStopped(self.machine.name)

    def note(self, kind: bytes, a: int, b: int) -> None:
        self.world.note(kind, self.machine.number, a, b)


class NodeOffload:
    def __init__(self, node: Node) -> None:
        self._node = node

    def run(self, work: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        """The work is done when its time is over, in one piece."""
        node = self._node
        node.check_alive()
        low, high = OFFLOAD_S
        node.world.push(node.world.now + low + node._pace() * (high - low), self._work, work, done)

    def run_in_process(
        self,
        work: Callable[..., Iterator[T]],
        arguments: Sequence[object],
        each: Callable[[T], None],
        done: Callable[[BaseException | None], None],
        bytes_per_s: float = inf,
    ) -> Callable[[], None]:
        """From one value to the next in one piece, and others get their turns between."""
        values = work(self._node.files, *arguments)
        end = object()
        cancelled = False

        def report(value: Any) -> None:
            if cancelled:
                return
            if value is end:
                done(None)
            elif isinstance(value, BaseException):
                done(value)
            else:
                self.run(step, report)
                each(value)

        def step() -> object:
            return end if cancelled else next(values, end)

        def cancel() -> None:
            nonlocal cancelled
            cancelled = True

        self.run(step, report)
        return cancel

    def _work(self, work: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        if not self._node.alive:
            return
        busy_s = self._node.busy_s
        try:
            result: T | BaseException = work()
        except Exception as error:
            result = error
        self._node.busy_s = busy_s  # what took its time was not the loop
        self._node.take(done, result)
