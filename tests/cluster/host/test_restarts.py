"""Restarts of a host's broker: pauses double, and there is an end. Times are numbers here: no test
waits.
"""

from raftka.cluster.host.supervisor import LONGEST_S, WINDOW_S, Restarts
from raftka.limits import HOST_RESTARTS


def test_pauses_double_and_the_last_one_is_the_hosts_end() -> None:
    restarts = Restarts()
    pauses = [
        restarts.pause_after(10, now=float(moment)) for moment in range(HOST_RESTARTS.value + 1)
    ]

    assert pauses == [0.5, 1.0, 2.0, 4.0, 8.0, None]


def test_ends_that_are_long_ago_do_not_count() -> None:
    restarts = Restarts()
    moments = [number * WINDOW_S / (HOST_RESTARTS.value - 1) for number in range(100)]

    pauses = [restarts.pause_after(10, moment) for moment in moments]

    assert None not in pauses
    assert max(pause for pause in pauses if pause is not None) <= LONGEST_S


def test_a_quiet_time_makes_the_first_pause_short_again() -> None:
    restarts = Restarts()
    assert [restarts.pause_after(10, 0.0), restarts.pause_after(10, 1.0)] == [0.5, 1.0]
    assert restarts.pause_after(10, WINDOW_S + 2.0) == 0.5


def test_brokers_are_counted_apart() -> None:
    restarts = Restarts()
    for _ in range(HOST_RESTARTS.value + 1):
        restarts.pause_after(10, 0.0)

    assert restarts.pause_after(10, 0.0) is None
    assert restarts.pause_after(11, 0.0) == 0.5
