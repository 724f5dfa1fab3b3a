"""Timers: when they ring, and that neither putting them off nor leaving them costs a heap."""

from math import inf
from random import Random

import pytest

from raftka.coordinator.timers import Timer, Timers


def rung(timers: Timers, now: float) -> list[str]:
    names = []
    while (timer := timers.due(now)) is not None:
        names.append(timer.owner)
    return names


def test_they_ring_in_their_order_once() -> None:
    timers = Timers()
    late, early, off = (Timer(name, print) for name in ("late", "early", "off"))
    for timer, due in ((late, 2.0), (early, 1.0), (off, 1.5)):
        timers.set(timer, due)
    timers.off(off)

    assert timers.next() == 1.0
    assert rung(timers, 0.9) == []
    assert rung(timers, 5.0) == ["early", "late"]
    assert (rung(timers, 9.0), timers.next()) == ([], inf)


def test_one_that_is_put_off_waits_and_one_that_is_put_forward_does_not() -> None:
    timers = Timers()
    timer = Timer("a", print)
    timers.set(timer, 1.0)
    timers.set(timer, 3.0)

    assert rung(timers, 2.0) == []
    assert timers.next() == 3.0
    timers.set(timer, 2.5)
    assert timers.next() == 2.5
    assert rung(timers, 2.6) == ["a"]
    assert rung(timers, 9.0) == []


def test_putting_off_does_not_fill_the_heap() -> None:
    timers = Timers()
    timer = Timer("a", print)
    for when in range(10_000):
        timers.set(timer, float(when))

    assert len(timers) == 1


def test_timers_that_are_off_are_forgotten() -> None:
    timers = Timers()
    kept = Timer("kept", print)
    timers.set(kept, 5000.0)
    for _ in range(10_000):
        timer = Timer("gone", print)
        timers.set(timer, 1000.0)
        timers.off(timer)

    assert len(timers) < 250
    assert rung(timers, 9999.0) == ["kept"]


@pytest.mark.parametrize("seed", range(20))
def test_as_a_list_that_is_searched(seed: int) -> None:
    random, timers, now = Random(seed), Timers(), 0.0
    known = [Timer(str(i), print) for i in range(20)]
    due = dict.fromkeys(known, inf)
    for _ in range(2000):
        timer = random.choice(known)
        if random.random() < 0.3:
            timers.off(timer)
            due[timer] = inf
        else:
            due[timer] = now + random.randint(0, 50)
            timers.set(timer, due[timer])
        if random.random() < 0.2:
            now += random.randint(0, 20)
            expected = sorted(each.owner for each, when in due.items() if when <= now)
            assert sorted(rung(timers, now)) == expected
            due = {each: inf if when <= now else when for each, when in due.items()}
        assert timers.next() == min(due.values())
