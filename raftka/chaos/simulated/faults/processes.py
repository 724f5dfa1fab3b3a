"""Processes that die or stand still, clocks that jump, leaders that are asked to move."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial

from raftka.broker.node import Node
from raftka.chaos.simulated.faults.incident import Incident, kind
from raftka.metadata.commands import AlterReassignments, Command, ElectLeaders, Move, MovedTopic
from raftka.runtime.simulated.disk import SYNC_S

VERY_SLOW_SYNC_S = (0.3, 1.0)
BEFORE_THE_DARK_S = (0.1, 0.5)
BACK_S = ((0.0, 0.0), (0.0, 0.0), (0.2, 1.0))  # the first, the second, the third node
SPREADS_S = (0.0, 0.3, 3.0)  # of the nodes' starts, when all start
LAST_LOOKS, WHOLE_LOOKS = 100, 600  # for an ISR of one; until all are in sync again
PAUSES_S = (0.05, 0.5, 2.0, 5.0)
CLOCK_JUMPS_S = (-3480.0, -60.0, -0.2, 0.2, 60.0, 3480.0)
FURTHEST_S = 3550.0  # from clients' clocks: what lies an hour ahead is refused as INVALID_TIMESTAMP


@kind
def power_loss(it: Incident) -> None:
    it.die(it.someone(), power_loss=True)


@kind
def kill(it: Incident) -> None:
    it.die(it.someone(), power_loss=False)


@kind
def restart(it: Incident) -> None:
    """So fast that nobody may have noticed."""
    it.die(it.someone(), power_loss=False, back_s=(0.0, 0.02))


@kind
def shut_down(it: Incident) -> None:
    """As an operator does it: leaderships move, everything is closed; then it is started again."""
    node_id = it.someone()
    if node_id is None:
        return
    it.note(f"shutdown of n{node_id}")
    _shut_down(it, node_id, lambda: _stopped(it, node_id))


def _shut_down(it: Incident, node_id: int, then: Callable[[], object]) -> None:
    """`then` is called when the process has ended, if it was not another one by then."""
    node = it.cluster.nodes[node_id]

    async def stop() -> None:
        with suppress(OSError):  # of a disk: the process ends with that, as by the command line
            await node.shutdown()
        it.world.at(it.world.now, lambda: _end(it, node_id, node, then))

    node.runtime.spawn(stop, "stop")


def _end(it: Incident, node_id: int, node: Node, then: Callable[[], object]) -> None:
    if it.cluster.nodes[node_id] is node and it.cluster.alive(node_id):
        it.cluster.kill(node_id, power_loss=False)
        then()


def _stopped(it: Incident, node_id: int) -> None:
    if it.scene.over:
        it.start(node_id)
    else:
        it.for_a_while(f"end of n{node_id}", it.random.uniform(0.0, 2.0), lambda: it.start(node_id))


@kind
def kill_leader(it: Incident) -> None:
    it.die(it.cluster.leader_of(it.topic, it.partition()), power_loss=it.random.random() < 0.5)


@kind
def kill_controller(it: Incident) -> None:
    it.die(it.cluster.controller, power_loss=it.random.random() < 0.5)


@kind
def power_loss_of_all(it: Incident) -> None:
    it.note("power loss of all")
    it.cluster.power_loss()
    spread_s = it.random.choice(SPREADS_S)
    for node_id in it.cluster.nodes:
        it.later(it.random.uniform(0.0, spread_s), partial(it.start, node_id))


@kind
def dark(it: Incident) -> None:
    """One node is down when the disk of a second becomes very slow; then all lose power, and the
    second is back before the third.

    So it leads alone what it had when it went: all that was acknowledged, or else it will be
    missed.
    """
    it.scene.preparing = True
    it.when(40, it.all_are_in_sync, lambda: _one_down(it, *it.random.sample(it.brokers, 3)))


def _one_down(it: Incident, down: int, *others: int) -> None:
    if it.random.random() < 0.8:
        it.note(f"kill n{down}")
        it.cluster.kill(down, power_loss=False)
    it.when(40, lambda: left_the_isr(it, down), lambda: _slow_and_then_dark(it, down, *others))


def left_the_isr(it: Incident, node_id: int) -> bool:
    return it.cluster.alive(node_id) or it.left_every_isr(node_id)


def _slow_and_then_dark(it: Incident, down: int, slow: int, other: int) -> None:
    leader = it.cluster.leader_of(it.topic, it.partition())
    if (slow == leader) is (it.random.random() < 0.5):  # a leader as often as a follower
        slow, other = other, slow
    it.note(f"very slow disk n{slow}")
    it.cluster.disk(slow).sync_s = VERY_SLOW_SYNC_S
    it.later(it.random.uniform(*BEFORE_THE_DARK_S), lambda: _now_dark(it, down, slow, other))


def _now_dark(it: Incident, *order: int) -> None:
    """The last of the three is the last to be back, and with it all others."""
    it.note("power loss of all")
    it.scene.preparing = False
    disk = it.cluster.disk(order[1])
    disk.keeps_nothing = it.random.random() < 0.7
    it.cluster.power_loss()
    disk.keeps_nothing, disk.sync_s = False, SYNC_S
    for node_id, spread_s in zip(order, BACK_S, strict=True):
        it.later(it.random.uniform(*spread_s), partial(it.start, node_id))
    for node_id in it.cluster.nodes.keys() - set(order):
        it.later(BACK_S[-1][1], partial(it.start, node_id))


@kind
def last_member(it: Incident) -> None:
    """All replicas are in sync; all but one stop in order. The last of the ISR loses its power,
    with all that it has not flushed. Then all come back.

    One of the others leads, with all that was acknowledged: it was eligible.
    """
    it.scene.preparing = True
    it.when(60, it.all_are_in_sync, lambda: _leave_one(it))


def _leave_one(it: Incident) -> None:
    index = it.partition()
    isr = it.cluster.isr_of(it.topic, index)
    if not it.all_are_in_sync() or len(isr) < 2:
        it.scene.preparing = False
        return
    last = it.random.choice(isr)
    others = [each for each in isr if each != last]
    for each in others:
        it.later(it.random.uniform(0.0, 1.0), partial(_leave, it, each))
    it.when(
        LAST_LOOKS,
        lambda: set(it.cluster.isr_of(it.topic, index)) <= {last},
        lambda: it.later(it.random.uniform(0.0, 1.0), partial(_forget, it, last, others)),
    )


def _leave(it: Incident, node_id: int) -> None:
    if not it.cluster.alive(node_id):  # another fault has come first
        return
    it.note(f"shutdown of n{node_id}")
    _shut_down(it, node_id, lambda: it.start(node_id) if it.scene.over else None)


def _forget(it: Incident, last: int, others: list[int]) -> None:
    it.note(f"power loss n{last}, the last of the ISR")
    it.cluster.kill(last, power_loss=True)
    for each in (last, *others):
        back = partial(it.later, it.random.uniform(0.0, 3.0), partial(it.start, each))
        it.when(LAST_LOOKS, partial(_is_down, it, each), back)
    it.when(WHOLE_LOOKS, it.all_are_in_sync, lambda: setattr(it.scene, "preparing", False))


def _is_down(it: Incident, node_id: int) -> bool:
    return not it.cluster.alive(node_id)


@kind
def pause(it: Incident) -> None:
    node_id = it.someone()
    if node_id is not None:
        it.world.pause(f"n{node_id}")
        it.for_a_while(
            f"pause n{node_id}", it.random.choice(PAUSES_S), lambda: _resume(it, node_id)
        )


def _resume(it: Incident, node_id: int) -> None:
    if it.cluster.alive(node_id):
        it.world.resume(f"n{node_id}")


@kind
def clock_jump(it: Incident) -> None:
    """The wall clock is set; half of the times it is set back later. Timers follow the monotonic
    clock, what is written down does not.
    """
    machine, jump_s = it.world.machine(f"n{it.anyone()}"), it.random.choice(CLOCK_JUMPS_S)
    if abs(machine.wall_offset_s + jump_s) > FURTHEST_S:
        jump_s = -jump_s
    machine.wall_offset_s += jump_s
    if it.random.random() < 0.5:
        it.note(f"clock of {machine.name} jumps {jump_s:+} s")
        return

    def back() -> None:
        machine.wall_offset_s -= (
            jump_s if abs(machine.wall_offset_s - jump_s) <= FURTHEST_S else 0.0
        )

    it.for_a_while(f"clock of {machine.name} jumps {jump_s:+} s", it.random.uniform(0.1, 3.0), back)


# who is asked to go elsewhere


@kind
def move(it: Incident) -> None:
    """To any brokers, also such as are down."""
    brokers = it.brokers
    _reassign(
        it, tuple(it.random.sample(brokers, min(len(brokers), it.random.choice((2, 3, 3, 3, 4)))))
    )


@kind
def call_off(it: Incident) -> None:
    _reassign(it, None)


def _reassign(it: Incident, target: tuple[int, ...] | None) -> None:
    _command(it, AlterReassignments((MovedTopic(it.topic, (Move(it.partition(), target),)),)))


@kind
def elect(it: Incident) -> None:
    _command(it, ElectLeaders(0))


def _command(it: Incident, command: Command) -> None:
    """Ask some broker, as an administrator does, without waiting for the result."""
    living = [node_id for node_id in it.brokers if it.cluster.alive(node_id)]
    if living:
        it.note(str(command))
        ignored: Callable[[object, object], None] = lambda error, reply: None  # noqa: E731
        it.cluster.nodes[it.random.choice(living)].controller.call(command, ignored, 5.0)
