"""Alarms: when they ring, and that neither putting them off nor leaving them costs a heap."""

from math import inf
from random import Random

import pytest

from raftka.coordinator.timers import Alarm, Alarms


def rung(alarms: Alarms, now: float) -> list[str]:
    names = []
    while (alarm := alarms.due(now)) is not None:
        names.append(alarm.owner)
    return names


def test_they_ring_in_their_order_once() -> None:
    alarms = Alarms()
    late, early, off = (Alarm(name, print) for name in ("late", "early", "off"))
    for alarm, due in ((late, 2.0), (early, 1.0), (off, 1.5)):
        alarms.set(alarm, due)
    alarms.off(off)

    assert alarms.next() == 1.0
    assert rung(alarms, 0.9) == []
    assert rung(alarms, 5.0) == ["early", "late"]
    assert (rung(alarms, 9.0), alarms.next()) == ([], inf)


def test_one_that_is_put_off_waits_and_one_that_is_put_forward_does_not() -> None:
    alarms = Alarms()
    alarm = Alarm("a", print)
    alarms.set(alarm, 1.0)
    alarms.set(alarm, 3.0)

    assert rung(alarms, 2.0) == []
    assert alarms.next() == 3.0
    alarms.set(alarm, 2.5)
    assert alarms.next() == 2.5
    assert rung(alarms, 2.6) == ["a"]
    assert rung(alarms, 9.0) == []


def test_putting_off_does_not_fill_the_heap() -> None:
    alarms = Alarms()
    alarm = Alarm("a", print)
    for when in range(10_000):
        alarms.set(alarm, float(when))

    assert len(alarms) == 1


def test_alarms_that_are_off_are_forgotten() -> None:
    alarms = Alarms()
    kept = Alarm("kept", print)
    alarms.set(kept, 5000.0)
    for _ in range(10_000):
        alarm = Alarm("gone", print)
        alarms.set(alarm, 1000.0)
        alarms.off(alarm)

    assert len(alarms) < 250
    assert rung(alarms, 9999.0) == ["kept"]


@pytest.mark.parametrize("seed", range(20))
def test_as_a_list_that_is_searched(seed: int) -> None:
    random, alarms, now = Random(seed), Alarms(), 0.0
    known = [Alarm(str(i), print) for i in range(20)]
    due = dict.fromkeys(known, inf)
    for _ in range(2000):
        alarm = random.choice(known)
        if random.random() < 0.3:
            alarms.off(alarm)
            due[alarm] = inf
        else:
            due[alarm] = now + random.randint(0, 50)
            alarms.set(alarm, due[alarm])
        if random.random() < 0.2:
            now += random.randint(0, 20)
            expected = sorted(each.owner for each, when in due.items() if when <= now)
            assert sorted(rung(alarms, now)) == expected
            due = {each: inf if when <= now else when for each, when in due.items()}
        assert alarms.next() == min(due.values())
