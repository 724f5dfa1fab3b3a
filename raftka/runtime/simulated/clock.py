"""Time in the simulation: a node's clocks and its timers. Time passes only when the world's heap
says so. Knows no network and no disk.
"""

from collections.abc import Callable
from math import nextafter

from raftka.runtime.simulated.process import Events, Machine, Process

# CPU time that passes between two readings of a node's CPU clock: so work in slices is cut alike in
# every run
READING_S = 100e-6
EPOCH_MS = 1_700_000_000_000  # wall clock when the world begins: November 2023


def wall_ms(world: Events, machine: Machine) -> int:
    """Milliseconds since the epoch, as that machine has them."""
    return EPOCH_MS + int((world.now + machine.wall_offset_s) * 1000)


class SimulatedTimer:
    __slots__ = ("action", "clock", "when")

    def __init__(self, clock: "NodeClock", when: float, action: Callable[[], None]) -> None:
        self.clock = clock
        self.when = when
        self.action: Callable[[], None] | None = action

    def cancel(self) -> None:
        self.action = None

    def due(self, _a: object = None, _b: object = None) -> None:
        """The world has come to where the node's clock should read `when`; if it was set back
        since, wait on.
        """
        if self.action is None:
            return
        if self.clock.now() < self.when:
            self.clock.arm(self)
        else:
            self.clock.node.take(self.ring, None)

    def ring(self, _: object) -> None:
        action, self.action = self.action, None
        if action is not None:  # cancelled in this very turn, or while the node was paused
            self.clock.node.note(b"T", 0, 0)
            action()


class NodeClock:
    """A node's view of time: monotonic = offset + rate * world; wall = world + what an
    administrator or NTP did to it.
    """

    __slots__ = ("_readings", "_world", "machine", "node")

    def __init__(self, node: Process, machine: Machine, world: Events) -> None:
        self.node = node
        self.machine = machine
        self._world = world
        self._readings = 0

    def cpu_s(self) -> float:
        self._readings += 1
        return self._readings * READING_S

    def now(self) -> float:
        machine = self.machine
        return machine.clock_offset_s + machine.clock_rate * self._world.now

    def wall_ms(self) -> int:
        return wall_ms(self._world, self.machine)

    def call_at(self, when: float, action: Callable[[], None]) -> SimulatedTimer:
        self.node.check_alive()
        timer = SimulatedTimer(self, when, action)
        self.arm(timer)
        return timer

    def arm(self, timer: SimulatedTimer) -> None:
        machine, world = self.machine, self._world
        due = (timer.when - machine.clock_offset_s) / machine.clock_rate
        # never early, not even by rounding
        while machine.clock_offset_s + machine.clock_rate * due < timer.when:
            due = nextafter(due, due + 1)
        world.push(due if due > world.now else world.now, timer.due)

    def at_turn_end(self, action: Callable[[], None]) -> None:
        node = self.node
        node.check_alive()
        node.turn_ends.append(action)
        if not node.in_turn:
            node.want_turn()
