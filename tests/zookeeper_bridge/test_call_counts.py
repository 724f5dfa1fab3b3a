"""Calls of the interpreter that a set costs in raftka/ (tests/broker/test_call_counts.py tells how
they are counted): on all three nodes.
"""

import pytest

from tests.kit.call_counts import TOLERANCE, counted
from tests.zookeeper_bridge.stage import BridgeStage


@pytest.mark.parametrize(
    ("at_leader", "expected"),
    [(True, 1047.0), (False, 1123.0)],
    ids=["at the leader", "at a follower"],
)
def test_a_set(at_leader: bool, expected: float) -> None:
    with BridgeStage(3) as stage:
        leader = stage.controller()
        client = stage.client(leader if at_leader else leader % 3 + 1)
        client.create("/z", bytes(100))

        found = counted(lambda: client.set("/z", bytes(100)))

    assert found == pytest.approx(expected, rel=TOLERANCE)
