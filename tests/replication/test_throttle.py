"""The throttle's arithmetic: the mean rate holds, whatever the size of the pieces."""

from math import inf
from random import Random

import pytest

from raftka.replication.throttle import Throttle


@pytest.mark.parametrize("seed", range(5))
def test_the_mean_is_the_rate(seed: int) -> None:
    random, throttle = Random(seed), Throttle()
    throttle.set_rate(1000, 0.0)
    now = sent = 0.0
    while now < 1000.0:
        if throttle.free_at <= now:
            size = random.choice([1, 100, 20_000])
            throttle.passed(size, now)
            sent += size
        now += random.uniform(0.0, 0.01)

    assert 900_000 < sent < 1_020_000


def test_a_new_rate_holds_for_what_is_still_owed() -> None:
    throttle = Throttle()
    throttle.set_rate(10, 0.0)
    throttle.passed(1000, 0.0)
    assert throttle.free_at == 100.0

    throttle.set_rate(100, 50.0)
    assert throttle.free_at == 55.0
    throttle.set_rate(100, 52.0)
    assert throttle.free_at == 55.0


def test_at_rate_zero_nothing_goes_until_it_is_raised() -> None:
    throttle = Throttle()
    throttle.set_rate(0, 0.0)
    assert throttle.free_at == inf
    throttle.passed(10, 5.0)
    assert throttle.free_at == inf

    throttle.set_rate(100, 10.0)
    assert throttle.free_at == 10.0
