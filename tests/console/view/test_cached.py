"""A value that is kept for a while: when it is asked for again, who waits, what failures do. Time
is a number of the test, and a refresh ends when the test says so.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from raftka.console.limits import DUTY, KEPT_AGES, LONGEST_PAUSE_SECONDS
from raftka.console.view.cached import Aged, Cached, Effort
from raftka.wire.errors import Code, KafkaError

PATIENCE_S = 30.0


class Bench:
    """A cached number, the count of its refreshes. A refresh takes `takes_s`, and begins when the
    test runs it.
    """

    def __init__(self) -> None:
        self.now, self.takes_s, self.in_vain_s = 100.0, 1.0, 0.0
        self.refreshes = 0
        self.error: Exception | None = None
        self.begun: list[Callable[[], None]] = []
        self.started = threading.Semaphore(0)
        self.cached = Cached(self._refresh, clock=lambda: self.now, start=self._start)

    def _start(self, work: Callable[[], None]) -> None:
        self.begun.append(work)
        self.started.release()

    def _refresh(self, effort: Effort) -> int:
        self.refreshes += 1
        self.now += self.takes_s
        effort.waited_s += self.in_vain_s
        if self.error is not None:
            raise self.error
        return self.refreshes

    def run(self) -> None:
        """Run the refresh that has begun."""
        assert self.started.acquire(timeout=PATIENCE_S)
        self.begun.pop()()

    def first(self, pool: ThreadPoolExecutor) -> None:
        """Let a first caller wait for a first value."""
        waiting = pool.submit(self.cached.get, 10.0)
        self.run()
        assert waiting.result(PATIENCE_S).value == 1

    @property
    def pause_s(self) -> float:
        return min(DUTY.value * (self.takes_s - self.in_vain_s), LONGEST_PAUSE_SECONDS.value)


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.fixture
def pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(4)


def test_callers_wait_for_one_refresh(bench: Bench, pool: ThreadPoolExecutor) -> None:
    waiting: list[Future[Aged[int]]] = [pool.submit(bench.cached.get, 10.0) for _ in range(3)]
    bench.run()

    assert [each.result(PATIENCE_S) for each in waiting] == [Aged(1, 1.0)] * 3
    assert (bench.refreshes, bench.begun) == (1, [])


def test_a_young_value_is_not_asked_for(bench: Bench, pool: ThreadPoolExecutor) -> None:
    bench.first(pool)
    bench.now = 109.0

    assert bench.cached.get(10.0) == Aged(1, 9.0)
    assert bench.begun == []


def test_an_old_value_comes_at_once_while_a_new_one_is_under_way(
    bench: Bench, pool: ThreadPoolExecutor
) -> None:
    bench.first(pool)
    bench.now += bench.pause_s + 1

    assert bench.cached.get(10.0).value == 1
    assert bench.cached.get(10.0).value == 1
    assert len(bench.begun) == 1
    bench.run()
    assert bench.cached.get(10.0).value == 2


def test_a_value_that_is_too_old_is_waited_for(bench: Bench, pool: ThreadPoolExecutor) -> None:
    bench.first(pool)
    bench.now += 10.0 * KEPT_AGES.value + 1
    waiting = pool.submit(bench.cached.get, 10.0)
    bench.run()

    assert waiting.result(PATIENCE_S).value == 2


def test_a_costly_refresh_is_followed_by_a_pause(bench: Bench, pool: ThreadPoolExecutor) -> None:
    bench.takes_s = 2.5
    bench.first(pool)
    bench.now += bench.pause_s - 1

    assert bench.cached.get(3.0).value == 1, "too old, but the cluster rests"
    assert bench.begun == []
    bench.now += 2
    waiting = pool.submit(bench.cached.get, 3.0)
    bench.run()
    assert waiting.result(PATIENCE_S).value == 2


def test_a_pause_ends_however_long_the_refresh_took(bench: Bench, pool: ThreadPoolExecutor) -> None:
    bench.takes_s = 300.0
    bench.first(pool)
    bench.now += LONGEST_PAUSE_SECONDS.value - 1
    bench.cached.get(10.0)
    assert bench.begun == []
    bench.now += 2

    assert bench.cached.peek(10.0) is not None
    assert len(bench.begun) == 1


def test_the_wait_for_a_silent_broker_is_no_cost(bench: Bench, pool: ThreadPoolExecutor) -> None:
    bench.takes_s, bench.in_vain_s = 30.0, 29.9
    bench.first(pool)
    bench.now += bench.pause_s + 1

    assert bench.cached.get(10.0).value == 1
    assert len(bench.begun) == 1


def test_a_failure_reaches_each_caller_as_its_own_exception(
    bench: Bench, pool: ThreadPoolExecutor
) -> None:
    bench.error = KafkaError(Code.CLUSTER_AUTHORIZATION_FAILED, "no")
    waiting = [pool.submit(bench.cached.get, 10.0) for _ in range(2)]
    bench.run()
    errors = [each.exception(PATIENCE_S) for each in waiting]

    assert [repr(each) for each in errors] == [repr(bench.error)] * 2
    assert errors[0] is not errors[1]
    with pytest.raises(KafkaError, match="no"):
        bench.cached.get(10.0)
    assert bench.begun == [], "a cluster that fails is not asked without end"


def test_a_failure_keeps_the_value_that_there_was(bench: Bench, pool: ThreadPoolExecutor) -> None:
    bench.first(pool)
    bench.error = OSError("gone")
    bench.now += bench.pause_s + 1
    bench.cached.get(10.0)
    bench.run()

    assert bench.cached.get(10.0).value == 1


def test_after_a_change_callers_wait_for_a_refresh_that_begins_later(
    bench: Bench, pool: ThreadPoolExecutor
) -> None:
    bench.first(pool)
    bench.now += bench.pause_s + 1
    bench.cached.get(10.0)  # begins a refresh, which the change overtakes
    bench.started.acquire()
    early = bench.begun.pop()
    bench.cached.forget()
    waiting = pool.submit(bench.cached.get, 10.0)
    assert bench.started.acquire(timeout=PATIENCE_S)
    late = bench.begun.pop()
    early()
    assert not waiting.done()
    late()

    assert waiting.result(PATIENCE_S).value == 3
    assert bench.cached.last == 3


def test_a_peek_never_waits(bench: Bench) -> None:
    assert bench.cached.peek(10.0) is None
    assert bench.cached.peek(10.0) is None
    assert len(bench.begun) == 1
    bench.run()
    assert bench.cached.peek(10.0) == Aged(1, 1.0)
