"""Produces that come behind answered ones wait a few turns for more; then disk and followers get
them together.
"""

from collections.abc import Callable, Iterator
from math import inf
from typing import Any

import pytest

from raftka.broker.replica.partition import LITTLE_BYTES, Partition
from raftka.broker.work import batching
from raftka.broker.work.batching import WAITS
from raftka.runtime.interfaces import Clock, Timer
from raftka.wire.messages.produce import PRODUCE
from tests.broker.requests import batch, produce, produced
from tests.broker.stage import Stage, Wire


class HeldClock:
    """A clock that keeps the checks of partitions for more produces; the test makes them."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.checks: list[Callable[[], None]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._clock, name)

    def call_at(self, when: float, action: Any) -> Timer | None:
        if getattr(action, "__func__", None) is Partition._check_for_more:
            self.checks.append(action)
            return None
        return self._clock.call_at(when, action)


class Answered:
    """A client whose two produces were answered at once, at a node that checks for more produces
    when the test says so.
    """

    def __init__(self, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
        stage.create("t")
        self.stage = stage
        self.wire: Wire = stage.wire()
        clock = HeldClock(stage.nodes[1].replicas.clock)
        self.checks = clock.checks
        monkeypatch.setattr(stage.nodes[1].replicas, "clock", clock)
        monkeypatch.setattr(batching, "WAIT_S", inf)
        self.send(2)
        self.wait_for_answers(2)

    def send(self, count: int, size: int = 1, acks: int = -1) -> None:
        for _ in range(count):
            self.wire.request(PRODUCE, produce("t", batch(b"v" * size), acks=acks))
        self.stage.world.run(self.stage.world.now + 0.5)

    def wait_for_answers(self, count: int) -> None:
        assert [produced(self.wire.answer(PRODUCE)).error_code for _ in range(count)] == [0] * count

    @property
    def flushed(self) -> int:
        return self.stage.partition("t").log.flushed_offset


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> Iterator[Answered]:
    with Stage() as stage:
        yield Answered(stage, monkeypatch)


def test_the_first_of_those_that_were_answered_waits_for_the_other(answered: Answered) -> None:
    answered.send(1)
    assert (answered.flushed, len(answered.checks), answered.wire.frames) == (2, 1, [])

    answered.send(1)

    answered.wait_for_answers(2)
    assert answered.flushed == 4


def test_a_produce_waits_for_some_turns_only(answered: Answered) -> None:
    answered.send(1)
    for _ in range(WAITS):
        assert answered.flushed == 2
        answered.checks.pop()()

    answered.wait_for_answers(1)
    assert not answered.checks


def test_a_large_produce_is_passed_on_at_once(answered: Answered) -> None:
    answered.send(1, LITTLE_BYTES)

    answered.wait_for_answers(1)
    assert not answered.checks


def test_a_produce_without_acks_is_passed_on_at_once(answered: Answered) -> None:
    answered.send(1, acks=0)

    assert (answered.flushed, answered.checks) == (3, [])


def test_a_produce_that_waits_when_the_leadership_ends_is_refused(answered: Answered) -> None:
    partition = answered.stage.partition("t")
    answered.send(1)

    answered.stage.nodes[1].replicas.stop(partition)
    for check in answered.checks:
        check()

    assert produced(answered.wire.answer(PRODUCE)).error_code != 0


def test_a_topic_that_is_deleted_meanwhile_is_not_flushed(answered: Answered) -> None:
    answered.send(1)
    answered.stage.delete("t")
    answered.stage.world.run(answered.stage.world.now + 5.0)

    for check in answered.checks:
        check()
    answered.stage.world.run(answered.stage.world.now + 5.0)

    assert answered.stage.counted("raftka_log_failures_total") == 0
