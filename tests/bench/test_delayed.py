"""Delayed records through leaders that die by SIGKILL, on real nodes: each comes once, none before
its time.
"""

from bench.delayed import SETTINGS, measure
from bench.systems import Raftka


def test_each_record_comes_once_while_leaders_are_killed() -> None:
    with Raftka(3, SETTINGS) as system:
        system.start()
        system.wait_ready()

        result = measure(system, 5_000, 8.0, kills=True)

    assert result.killed > 0
    assert (result.missing, result.repeated, result.early) == (0, 0, 0)
