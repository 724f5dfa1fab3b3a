"""The model of `./run bench hosts`: what K brokers cost is measured for a few K, and the rest is
said to be a prediction.
"""

import pytest

from bench.hosts import (
    BUSY,
    FIXED,
    GROWING,
    HOSTS,
    LEADERS,
    PARTITIONS,
    SIZES,
    followers,
    predicted_rate,
    predicted_us,
)


def test_the_cost_of_a_request_grows_with_the_brokers_that_fetch_from_one() -> None:
    us = {size: 100 + 50 * followers(size) for size in SIZES}

    assert predicted_us(us, 7) == pytest.approx(100 + 50 * followers(7))
    assert predicted_us(dict.fromkeys(SIZES, 300.0), 7) == pytest.approx(300.0)


def test_no_more_brokers_fetch_from_one_than_its_partitions_have_followers() -> None:
    assert followers(1) == HOSTS - 1
    assert followers(1) < followers(2) < followers(3) < followers(1000) < (HOSTS - 1) * LEADERS


def test_more_brokers_never_make_a_request_cheaper_than_it_was() -> None:
    assert predicted_us({1: 300.0, 2: 290.0, 3: 280.0}, 7) == 280.0


def test_the_rate_is_that_of_all_cores_at_the_cost_of_a_request() -> None:
    us = {1: 300.0, 2: 300.0, 3: 300.0}

    assert predicted_rate(us, 7) == pytest.approx(7 * predicted_rate(us, 1))
    assert predicted_rate(us, 1) == pytest.approx(HOSTS * BUSY * 1e6 / 300)


def test_partitions_are_led_evenly_with_each_size() -> None:
    assert all(PARTITIONS % (HOSTS * size) == 0 for size in SIZES)
    assert len({each.topic for each in (*FIXED, *GROWING)}) == len(FIXED) + len(GROWING)


@pytest.mark.parametrize("size", SIZES)
def test_each_broker_has_the_same_load_where_it_grows(size: int) -> None:
    for each in GROWING:
        assert each.partitions(size) == size * each.partitions(1)
        assert int(each.of_lg(size).rpartition(" ")[2]) == size * int(
            each.of_lg(1).rpartition(" ")[2]
        )
    assert {each.of_lg(size) for each in FIXED} == {each.of_lg(1) for each in FIXED}
