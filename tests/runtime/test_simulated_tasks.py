"""Tasks of simulated nodes run on virtual time and by the seed; and who reaches around the runtime
in a simulation is noticed.
"""

import os
import random
import secrets  # noqa: F401  # named in REACHES
import socket  # noqa: F401
import sys
import threading
import time
import uuid  # noqa: F401
from collections.abc import Callable

import pytest
import trio

from raftka.runtime.simulated.guard import Unrepeatable, sim_guard
from raftka.runtime.simulated.tasks import NotRepeatable, scheduler
from raftka.runtime.simulated.world import World
from tests.runtime.talk import Talker, call, serve


def test_tasks_sleep_on_virtual_time_and_are_woken_by_callbacks() -> None:
    with World(1) as world:
        node = world.node("a")
        woken = trio.Event()
        seen: list[tuple[str, float]] = []

        async def sleeper() -> None:
            await trio.sleep(1.5)
            seen.append(("slept", world.now))
            with trio.move_on_after(10.0):
                await trio.sleep_forever()
            seen.append(("moved on", world.now))

        async def waiter() -> None:
            await woken.wait()
            seen.append(("woken", world.now))
            await trio.sleep_until(5.0)
            seen.append(("slept until", world.now))

        node.spawn(sleeper, "sleeper")
        node.spawn(waiter, "waiter")
        node.clock.call_at(3.0, woken.set)
        world.run(20.0)

        assert [name for name, _ in seen] == ["slept", "woken", "slept until", "moved on"]
        assert [at for _, at in seen] == pytest.approx([1.5, 3.0, 5.0, 11.5], abs=0.001)


def test_what_a_task_says_leaves_at_the_end_of_a_turn() -> None:
    with World(1) as world:
        accepted = serve(world.node("b"), kind=Talker)
        client = call(world.node("a"), "b")

        async def speak() -> None:
            await trio.sleep(1.0)
            client.say(b"1")
            client.say(b"2")
            client.node.clock.at_turn_end(lambda: client.say(b"3"))

        client.node.spawn(speak, "speak")
        world.run(2.0)

        assert accepted[0].heard == b"123"


def test_tasks_of_a_paused_node_stand_still() -> None:
    with World(1) as world:
        ticks: dict[str, list[float]] = {"a": [], "b": []}

        def ticker(name: str) -> Callable[[], object]:
            async def tick() -> None:
                while True:
                    await trio.sleep(0.1)
                    ticks[name].append(world.now)

            return tick

        for name in ticks:
            world.node(name).spawn(ticker(name), "tick")  # type: ignore[arg-type]
        world.run(1.0)
        world.pause("a")
        world.run(3.0)
        world.resume("a")
        world.run(4.0)

        assert not [at for at in ticks["a"] if 1.0 < at < 3.0]
        assert [at for at in ticks["a"] if at >= 3.0]
        assert len([at for at in ticks["b"] if 1.0 < at < 3.0]) >= 18


def test_tasks_of_a_killed_node_do_nothing_more() -> None:
    with World(1) as world:
        node = world.node("a")
        file = node.files.open("log", create=True)
        ends: list[str] = []

        async def task() -> None:
            try:
                await trio.sleep(5.0)
            finally:
                ends.append("finally")
                file.append([b"a last wish"])

        node.spawn(task, "task")
        world.run(1.0)
        world.kill("a")
        world.run(10.0)

        assert ends == ["finally"]
        assert file.size() == 0


@pytest.mark.parametrize("paused", [False, True])
def test_a_node_fails_from_a_task(paused: bool) -> None:
    with World(1) as world:
        node = world.node("a")

        async def task() -> None:
            await trio.sleep(1.0)
            node.fail(OSError("broken"))

        node.spawn(task, "task")
        if paused:
            world.pause("a")
            world.run(2.0)
            assert node.alive
            world.resume("a")
        world.run(3.0)

        assert [str(error) for _, _, error in world.failures] == ["broken"]
        assert not node.alive


def test_an_exception_in_a_task_ends_the_world_loudly() -> None:
    async def task() -> None:
        await trio.sleep(1.0)
        raise KeyError("no such key")

    with World(9) as world:
        world.node("a").spawn(task, "task")
        with pytest.raises(KeyError) as caught:
            world.run(2.0)

    assert any("a task of a" in note and "seed 9" in note for note in caught.value.__notes__)


def test_a_task_that_ends_because_another_node_is_dead_ends_the_world_loudly() -> None:
    with World(1) as world:
        file = world.node("a").files.open("log", create=True)
        world.kill("a")

        async def read() -> None:
            file.read(0, 1)

        world.node("b").spawn(read, "read")
        with pytest.raises(RuntimeError, match="of a, which is dead"):
            world.run(1.0)


def test_a_world_leaves_trio_as_it_was() -> None:
    module = scheduler()
    before = module._ALLOW_DETERMINISTIC_SCHEDULING, module._r.getstate()
    with World(1) as world:
        world.node("a").spawn(trio.sleep_forever, "task")
        world.run(1.0)
        assert module._ALLOW_DETERMINISTIC_SCHEDULING

    assert (module._ALLOW_DETERMINISTIC_SCHEDULING, module._r.getstate()) == before
    trio.run(trio.sleep, 0)


@pytest.mark.parametrize("name", ["_ALLOW_DETERMINISTIC_SCHEDULING", "_r"])
def test_a_trio_without_its_private_names_is_refused(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(trio._core._run, name)
    with World(1) as world, pytest.raises(NotRepeatable, match=r"Trio 0\.35 works"):
        world.node("a").spawn(trio.sleep_forever, "task")


def test_trio_shuffles_by_the_seed() -> None:
    """The two names do what they are there for: without them the order of tasks that wake together
    is not the seed's.
    """

    def order(seed: int) -> list[int]:
        came: list[int] = []
        with World(seed) as world:
            go = trio.Event()

            def waiter(number: int) -> Callable[[], object]:
                async def wait() -> None:
                    await go.wait()
                    came.append(number)

                return wait

            for number in range(8):
                world.node(f"n{number}").spawn(waiter(number), "wait")  # type: ignore[arg-type]
            world.at(1.0, go.set)
            world.run(2.0)
        return came

    assert order(1) == order(1)
    assert len({tuple(order(seed)) for seed in range(6)}) > 3


REACHES = [
    *(
        "time.time",
        "time.monotonic",
        "time.perf_counter",
        "random.random",
        "random.Random",
        "random.SystemRandom",
    ),
    *(
        "uuid.uuid4",
        "secrets.token_bytes",
        "socket.socket",
        "socket.socketpair",
        "threading.Thread",
    ),
]


@pytest.mark.parametrize("name", REACHES)
def test_reaching_around_the_runtime_is_noticed(name: str) -> None:
    module, _, function = name.partition(".")
    world = World(1)

    def reach() -> None:
        getattr(sys.modules[module], function)()

    world.node("a").clock.call_at(1.0, reach)
    with pytest.raises(Unrepeatable, match="in a simulation"):
        world.run(2.0)

    assert getattr(sys.modules[module], function).__module__ != "raftka.runtime.simulated.guard"


def test_os_urandom_is_noticed() -> None:
    with sim_guard(), pytest.raises(Unrepeatable):
        os.urandom(1)
    assert os.urandom(1)


def test_the_guard_lets_seeded_randomness_pass_and_nests() -> None:
    with sim_guard():
        with sim_guard():
            assert random.Random(1).random() == random.Random(1).random()
        with pytest.raises(Unrepeatable):
            time.monotonic()
    assert time.monotonic() > 0


def test_a_thread_that_no_simulation_has_begun_may_look_at_the_clock() -> None:
    """Threads of libraries stay when a test is over."""
    times: list[float] = []
    go_on, done = threading.Event(), threading.Event()

    def look() -> None:
        go_on.wait()
        times.append(time.monotonic())
        done.set()

    threading.Thread(target=look).start()
    with sim_guard():
        go_on.set()
        assert done.wait(30)

    assert times


def test_a_world_without_guard_may_look_at_the_clock() -> None:
    times: list[float] = []
    world = World(1, guard=False)
    world.node("a").clock.call_at(1.0, lambda: times.append(time.time()))
    world.run(2.0)

    assert times
