"""The supervisor with brokers that are no processes, on a clock that jumps: which are started
again, when, in which order they end.
"""

import io
import json
import signal
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from raftka.broker.telemetry.event_log import Events
from raftka.broker.telemetry.metrics import Metrics
from raftka.cluster.host.plan import BrokerPlan, plan_host
from raftka.cluster.host.supervisor import Supervisor
from raftka.cluster.processes import STOP_SECONDS
from raftka.limits import HOST_RESTARTS

FILE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9192",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@h:9192",
}


class Life:
    """One life of a broker; ends when it is told, and by default with the first SIGTERM."""

    pid = 4711

    def __init__(self, stage: "Stage", node_id: int) -> None:
        self.stage, self.node_id = stage, node_id
        self.ready, self.over, self.code = trio.Event(), trio.Event(), 0
        self.deaf = False
        self.got: list[int] = []
        if stage.ready_at_once:
            self.ready.set()

    async def until_ready(self) -> None:
        await self.ready.wait()

    async def until_end(self) -> int:
        await self.over.wait()
        return self.code

    def end(self, code: int) -> None:
        self.code = code
        self.stage.told.append((trio.current_time(), "end", self.node_id))
        self.over.set()

    def signal(self, number: int) -> None:
        self.got.append(number)
        if number == signal.SIGKILL or (number == signal.SIGTERM and not self.deaf):
            self.end(-number if number == signal.SIGKILL else 0)


class Stage:
    def __init__(self, brokers: int, *, ready_at_once: bool = True) -> None:
        self.told: list[tuple[float, str, int]] = []
        self.lives: dict[int, list[Life]] = {}
        self.ready_at_once = ready_at_once
        self.announced = 0
        self.log, self.metrics = io.StringIO(), Metrics()
        self.cannot_fork = False
        plans = plan_host(FILE, brokers, "h").brokers
        self.supervisor = Supervisor(
            plans, self.launch, Events(self.log, lambda: 0), self.metrics, self.announce
        )

    def launch(self, plan: BrokerPlan) -> Life:
        if self.cannot_fork:
            raise ConnectionResetError("the process that forks nodes has ended")
        self.told.append((trio.current_time(), "start", plan.node_id))
        life = Life(self, plan.node_id)
        self.lives.setdefault(plan.node_id, []).append(life)
        return life

    def announce(self) -> None:
        self.announced += 1

    def last(self, node_id: int) -> Life:
        return self.lives[node_id][-1]

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.getvalue().splitlines()]

    def play(self, script: Callable[[], Awaitable[None]]) -> None:
        """The supervisor runs beside the script, until it ends."""

        async def main() -> None:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.supervisor.run)
                await trio.testing.wait_all_tasks_blocked()
                await script()

        trio.run(main, clock=MockClock(autojump_threshold=0))


async def settle(seconds: float = 0.0) -> None:
    """Of the clock that jumps."""
    await trio.sleep(seconds)
    await trio.testing.wait_all_tasks_blocked()


def test_a_broker_that_ends_is_started_again_after_its_pause() -> None:
    stage = Stage(2)

    async def script() -> None:
        stage.last(2).end(-9)
        await settle(0.4)
        assert len(stage.lives[2]) == 1
        await settle(0.2)
        assert len(stage.lives[2]) == 2
        stage.last(2).end(0)  # by somebody's SIGTERM: a host has all its brokers
        await settle(1.1)
        stage.supervisor.stop()

    stage.play(script)

    assert [moment for moment, what, node_id in stage.told if what == "start" and node_id == 2] == [
        0.0,
        0.5,
        pytest.approx(1.6),
    ]
    assert len(stage.lives[1]) == 1
    assert stage.supervisor.failure is None
    assert stage.supervisor.brokers[1].restarts == 2
    assert [
        each["again_in_s"] for each in stage.events() if each["event"] == "host_broker_ended"
    ] == [0.5, 1.0]


def test_a_broker_that_ends_too_often_ends_the_host_in_order() -> None:
    stage = Stage(3)

    async def script() -> None:
        for _ in range(HOST_RESTARTS.value + 1):
            stage.last(2).end(1)
            await settle(60.0)

    stage.play(script)

    assert len(stage.lives[2]) == HOST_RESTARTS.value + 1
    assert stage.supervisor.failure is not None
    assert (
        "broker 2 ended with exit code 1, for the 6th time within 10 minutes"
        in stage.supervisor.failure
    )
    assert stage.metrics.counters[HOST_RESTARTS.metric] == 1
    assert [node_id for _, what, node_id in stage.told if what == "end"][-2:] == [3, 1]


def test_the_voter_ends_last_and_the_others_together() -> None:
    stage = Stage(3)

    async def script() -> None:
        for each in (2, 3):
            stage.last(each).deaf = True
        stage.supervisor.stop()
        await settle(5.0)
        assert [stage.last(each).got for each in (1, 2, 3)] == [
            [],
            [signal.SIGCONT, signal.SIGTERM],
            [signal.SIGCONT, signal.SIGTERM],
        ]
        stage.last(2).end(0)
        await settle()
        assert stage.last(1).got == []
        stage.last(3).end(0)

    stage.play(script)

    assert stage.last(1).got == [signal.SIGCONT, signal.SIGTERM]
    assert stage.supervisor.failure is None
    assert {len(lives) for lives in stage.lives.values()} == {1}


def test_a_broker_that_takes_too_long_to_end_is_killed() -> None:
    stage = Stage(2)

    async def script() -> None:
        stage.last(2).deaf = True
        stage.supervisor.stop()

    stage.play(script)

    assert stage.last(2).got == [signal.SIGCONT, signal.SIGTERM, signal.SIGKILL]
    assert [moment for moment, what, node_id in stage.told if (what, node_id) == ("end", 2)] == [
        STOP_SECONDS
    ]


def test_a_second_signal_ends_all_at_once() -> None:
    stage = Stage(3)

    async def script() -> None:
        stage.last(3).deaf = True
        stage.supervisor.stop()
        await settle()
        stage.supervisor.stop()
        await settle()
        assert stage.last(1).got == [signal.SIGTERM, signal.SIGINT]
        assert stage.last(3).got[-2:] == [signal.SIGTERM, signal.SIGINT]
        stage.last(3).end(0)

    stage.play(script)

    assert stage.told[-1][0] == 0.0


def test_ready_is_told_once_when_all_brokers_are() -> None:
    stage = Stage(2, ready_at_once=False)

    async def script() -> None:
        stage.last(1).ready.set()
        await settle()
        assert stage.announced == 0
        stage.last(2).ready.set()
        await settle()
        assert stage.announced == 1
        stage.last(2).end(-9)
        await settle(1.0)
        stage.last(2).ready.set()
        await settle()
        stage.supervisor.stop()

    stage.play(script)

    assert stage.announced == 1


def test_a_broker_that_cannot_start_the_first_time_ends_the_host() -> None:
    stage = Stage(2, ready_at_once=False)

    async def script() -> None:
        stage.last(2).end(1)

    stage.play(script)

    assert (
        stage.supervisor.failure
        == "broker 2 ended with exit code 1 before it was ready; its last lines in the log say why"
    )
    assert stage.announced == 0
    assert {len(lives) for lives in stage.lives.values()} == {1}


def test_without_the_process_that_forks_the_host_ends() -> None:
    stage = Stage(2)

    async def script() -> None:
        stage.cannot_fork = True
        stage.last(2).end(-15)

    stage.play(script)

    assert (
        stage.supervisor.failure
        == "broker 2 cannot be forked: the process that forks nodes has ended"
    )
    assert stage.last(1).over.is_set()


def test_a_pause_ends_with_the_host() -> None:
    stage = Stage(2)

    async def script() -> None:
        stage.last(2).end(-9)
        await settle(0.1)
        stage.supervisor.stop()

    stage.play(script)

    assert stage.told[-1][0] == pytest.approx(0.1)
    assert len(stage.lives[2]) == 1
