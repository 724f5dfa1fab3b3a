"""The world: the same seed gives the same run, turns gather what comes, a node that fails stops,
and nothing of that is left to chance.
"""

import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial

import pytest
import trio

from raftka.runtime.interfaces import Files, FileSpan, Timer
from raftka.runtime.simulated.clock import EPOCH_MS
from raftka.runtime.simulated.tasks import NodeStopped
from raftka.runtime.simulated.world import Node, World
from tests.runtime.talk import Echo, Talker, call, serve

NAMES = ("a", "b", "c")


# -- one small life of three nodes
# ---------------------------------------------------------------------------------------------


class Gossip:
    """Every node calls every other, says what it draws, writes what it hears, flushes, and has a
    task that naps.
    """

    def __init__(self, world: World, name: str) -> None:
        self.node = world.node(name)
        self.node.files.make_directory("data")
        self.log = self.node.files.open("data/log", create=True)
        self.others = [other for other in NAMES if other != name]
        self.talkers: list[Talker] = []
        self.naps = 0
        serve(self.node)
        self.tick()
        self.node.spawn(self.nap, "nap")
        self.node.spawn(self.nap, "nap too")

    def tick(self) -> None:
        dice = self.node.random("gossip")
        for other in self.others:
            talker = call(self.node, other)
            talker.say(dice.randbytes(dice.randrange(200)), FileSpan(self.log, 0, self.log.size()))
            self.talkers.append(talker)
        self.log.append([b"x" * dice.randrange(50)])
        self.node.files.flush([self.log], lambda error: None)
        self.node.clock.call_at(self.node.clock.now() + dice.random(), self.tick)

    async def nap(self) -> None:
        while True:
            await trio.sleep(self.node.random("nap").random() / 10)
            self.naps += 1
            self.log.append([b"z"])


def life(seed: int, *, late_s: float = 0.0) -> str:
    with World(seed) as world:
        world.network.delay("a", "b", 0.0001 + late_s, 0.0008 + late_s)
        gossips = {name: Gossip(world, name) for name in NAMES}
        world.run(1.0)
        world.network.cut("a", "b", one_way=True)
        world.network.loss("b", "c", 0.2)
        world.run(2.0)
        world.kill("b", power_loss=True)
        world.pause("c")
        world.run(2.5)
        world.resume("c")
        gossips["b"] = Gossip(world, "b")
        world.network.heal()
        world.run(4.0)
        assert all(gossip.naps > 10 for gossip in gossips.values())
        assert all(any(talker.heard for talker in gossip.talkers) for gossip in gossips.values())
        return world.trace_hash


def test_a_seed_gives_the_same_run_and_another_one_another() -> None:
    hashes = [life(seed) for seed in range(5)]

    assert hashes == [life(seed) for seed in range(5)]
    assert len(set(hashes)) == 5


def test_a_seed_gives_the_same_run_in_another_process_with_another_hash_seed() -> None:
    program = "from tests.runtime.test_simulated import life; print(life(7))"

    hashes = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]

    assert hashes == [life(7).encode() + b"\n"] * 2


def test_one_delay_changed_by_a_millisecond_is_another_run() -> None:
    assert life(7) != life(7, late_s=0.001)


def test_the_same_events_at_another_time_are_another_run() -> None:
    def run(when: float) -> str:
        world = World(1)
        world.node("a").clock.call_at(when, lambda: None)
        world.run(2.0)
        return world.trace_hash

    assert run(1.0) == run(1.0) != run(1.001)


def test_echoes_come_back_whole_through_cuts_and_heals() -> None:
    for seed in range(10):
        world = World(seed)
        nodes = {name: world.node(name) for name in NAMES}
        for node in nodes.values():
            serve(node, kind=Echo)
        talkers = [call(nodes[a], b) for a in NAMES for b in NAMES if a != b]
        dice = world.random("test")
        said = [bytearray() for _ in talkers]
        for round_ in range(30):
            a, b = dice.sample(NAMES, 2)
            world.network.cut(a, b, one_way=dice.random() < 0.5)
            for talker, words in zip(talkers, said, strict=True):
                words += (more := dice.randbytes(dice.randrange(3000)))
                talker.say(more)
            world.run(world.now + dice.random() / 10)
            if round_ % 3 == 2:
                world.network.heal()
        world.network.heal()

        assert world.run(
            lambda: all(t.heard == s for t, s in zip(talkers, said, strict=True)),  # noqa: B023
            at_most_s=5,
        )
        assert all(talker.reason is None for talker in talkers)


# -- turns, clocks, offload
# --------------------------------------------------------------------------------------------------


def test_what_comes_while_a_node_is_busy_is_one_turn() -> None:
    world = World(1)
    node = world.node("a")
    order: list[str] = []

    def timer(name: str) -> Callable[[], None]:
        def ring() -> None:
            order.append(name)
            node.clock.at_turn_end(lambda: order.append(f"end of {name}"))

        return ring

    for name in ("first", "second", "third"):  # due while the first turn is not over
        node.clock.call_at(1.0, timer(name))
    world.run(2.0)

    assert order == ["first", "end of first", "second", "third", "end of second", "end of third"]


def test_output_leaves_after_the_actions_of_the_turns_end() -> None:
    world = World(1)
    accepted = serve(world.node("b"), kind=Talker)
    client = call(world.node("a"), "b")
    world.run(1.0)
    clock = client.node.clock

    def ring() -> None:
        client.say(b"1")
        clock.at_turn_end(end)

    def end() -> None:
        client.say(b"2")
        clock.at_turn_end(lambda: client.say(b"3"))

    asked = client.asked
    clock.call_at(1.5, ring)
    world.run(2.0)

    assert accepted[0].heard == b"123"
    assert client.asked == asked + 2  # all of it at once, and once more when it had left


def test_a_cancelled_timer_does_not_ring_not_even_in_its_own_turn() -> None:
    world = World(1)
    node = world.node("a")
    rung: list[str] = []
    node.clock.call_at(1.0, lambda: rung.append("busy"))
    timers: list[Timer] = []

    def cancel_all() -> None:
        for timer in timers:
            timer.cancel()

    node.clock.call_at(1.0, cancel_all)
    timers.append(node.clock.call_at(1.0, lambda: rung.append("cancelled")))
    other = node.clock.call_at(1.5, lambda: rung.append("cancelled before"))
    other.cancel()
    other.cancel()
    world.run(2.0)

    assert rung == ["busy"]


def test_clocks_of_nodes_differ_and_the_wall_clock_jumps() -> None:
    world = World(1)
    machine = world.machine("a")
    machine.clock_offset_s, machine.clock_rate = 1234.5678, 1.05
    node = world.node("a")
    rung: list[tuple[float, float]] = []
    start = node.clock.now()
    node.clock.call_at(start + 10.0, lambda: rung.append((node.clock.now(), world.now)))
    world.run(11.0)

    assert start == 1234.5678
    assert start + 10.0 <= rung[0][0] < start + 10.001
    assert rung[0][1] == pytest.approx(10.0 / 1.05, abs=0.001)

    assert node.clock.wall_ms() == EPOCH_MS + 11_000
    machine.wall_offset_s = -60.0
    assert node.clock.wall_ms() == EPOCH_MS - 49_000
    assert node.clock.now() == 1234.5678 + 1.05 * 11.0


def test_no_timer_is_early_by_its_own_clock() -> None:
    world = World(1)
    dice = world.random("test")
    for number in range(20):
        machine = world.machine(f"n{number}")
        machine.clock_offset_s, machine.clock_rate = (
            dice.choice([0.0, 1.0, 1e6]) * dice.random(),
            dice.uniform(0.9, 1.1),
        )
        node = world.node(machine.name)
        for _ in range(100):
            when = node.clock.now() + dice.random()
            node.clock.call_at(when, partial(not_before, node, when))
    world.run(2.0)


def not_before(node: Node, when: float) -> None:
    assert node.clock.now() >= when


def test_a_timer_waits_on_when_its_clock_is_set_back() -> None:
    world = World(1)
    node = world.node("a")
    rung: list[float] = []
    node.clock.call_at(1.0, lambda: rung.append(world.now))
    world.machine("a").clock_offset_s = -2.0
    world.run(2.9)
    assert rung == []

    world.run(4.0)
    assert rung == [3.0]


def test_offload_reports_results_and_exceptions() -> None:
    world = World(1)
    node = world.node("a")
    results: list[object] = []
    node.offload.run(lambda: 6 * 7, results.append)
    node.offload.run(lambda: 1 // 0, results.append)
    assert results == []
    world.run(1.0)

    assert 42 in results
    assert any(isinstance(result, ZeroDivisionError) for result in results)


def test_a_node_that_fails_stops_at_once_and_the_world_goes_on() -> None:
    world = World(1)
    a, b = world.node("a"), world.node("b")
    accepted = serve(b, kind=Talker)
    client = call(a, "b")
    world.run(0.5)
    after: list[str] = []

    def ring() -> None:
        client.say(b"never leaves")
        a.clock.at_turn_end(lambda: after.append("end of turn"))
        a.fail(OSError("the disk is gone"))
        after.append("went on")

    a.clock.call_at(1.0, ring)
    a.clock.call_at(1.5, lambda: after.append("timer"))
    world.run(2.0)

    assert after == []
    assert [(name, str(error)) for _, name, error in world.failures] == [("a", "the disk is gone")]
    assert (bytes(accepted[0].heard), accepted[0].reason) == (b"", "connection reset by peer")
    with pytest.raises(NodeStopped):
        a.clock.call_at(3.0, lambda: None)


def test_an_exception_in_a_callback_ends_the_world_loudly() -> None:
    def broken() -> None:
        raise ValueError("x")

    world = World(1)
    world.node("a").clock.call_at(1.0, broken)

    with pytest.raises(ValueError, match="x"):
        world.run(2.0)


def test_a_world_that_does_not_get_on_says_so() -> None:
    world = World(1)

    def again() -> None:
        world.at(world.now, again)

    world.at(1.0, again)
    with pytest.raises(RuntimeError, match="again and again"):
        world.run(2.0)


def test_a_living_node_is_not_started_twice_and_a_predicate_that_never_holds_says_so() -> None:
    world = World(1)
    world.node("a")
    with pytest.raises(RuntimeError, match="alive"):
        world.node("a")

    assert world.run(lambda: False, at_most_s=5) is False
    assert world.now == 5.0


def test_random_streams_are_apart() -> None:
    world, again = World(1), World(1)
    a = world.node("a")
    again.node("a").random("other").random()  # someone else draws more

    assert a.random("x") is a.random("x")
    assert a.random("x").random() == again.machines["a"].node.random("x").random()  # type: ignore[union-attr]
    first = a.random("y").random()
    world.kill("a")
    assert world.node("a").random("y").random() != first  # a new process, a new draw


def test_the_trace_can_be_kept() -> None:
    world = World(1, keep_trace=3)
    node: Node = world.node("a")
    for when in (1.0, 2.0, 3.0, 4.0):
        node.clock.call_at(when, lambda: None)
    world.run(5.0)

    assert [(when, kind) for when, kind, *_ in world.trace] == [(2.0, "T"), (3.0, "T"), (4.0, "T")]


def test_work_apart_is_done_step_by_step_and_can_be_ended() -> None:
    def work(files: Files, name: str, upto: int) -> Iterator[int]:
        file = files.open(name, create=True)
        for number in range(upto):
            file.append([b"x"])
            file.sync()
            yield number
        raise OSError(5, "over")

    with World(3) as world:
        node = world.node("a")
        told: list[object] = []
        node.offload.run_in_process(work, ("f", 3), told.append, told.append)
        endless: list[object] = []
        cancel = node.offload.run_in_process(work, ("g", 10**9), endless.append, endless.append)
        assert world.run(lambda: len(told) == 4, at_most_s=10)
        cancel()
        seen = len(endless)
        world.run(until=world.now + 1)

        assert told[:3] == [0, 1, 2]
        assert isinstance(told[3], OSError)
        assert len(endless) == seen > 0
        assert node.busy_s == 0
