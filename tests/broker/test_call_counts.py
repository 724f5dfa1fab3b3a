"""Calls of the interpreter that a request costs: a guard of the short ways that does not depend on
the machine.

Counted in the simulation, so each run counts the same: Python functions of raftka/ but the
simulated runtime, and C functions that they call. A change that makes a request cheaper lowers the
number here; the commit of a change that needs more says why.
"""

import pytest

from raftka.wire.messages.fetch import FETCH
from raftka.wire.messages.offsets import OFFSET_COMMIT
from raftka.wire.messages.produce import PRODUCE
from tests.broker.requests import batch, fetch, produce, produced
from tests.broker.stage import Stage, Wire
from tests.kit.broker.committing import Committer
from tests.kit.call_counts import TOLERANCE, counted


def produce_one(wire: Wire, acks: int) -> None:
    assert produced(wire.ask(PRODUCE, produce("t", batch(b"1"), acks=acks), 7)).error_code == 0


@pytest.mark.parametrize(
    ("nodes", "acks", "expected"),
    [(1, 1, 164.0), (3, -1, 716.0)],
    ids=["one node", "three replicas"],
)
def test_a_record(nodes: int, acks: int, expected: float) -> None:
    with Stage(nodes) as stage:
        stage.create("t")
        wire = stage.wire(stage.leader("t"))

        found = counted(lambda: produce_one(wire, acks))

    assert found == pytest.approx(expected, rel=TOLERANCE)


def test_a_fetch() -> None:
    with Stage() as stage:
        stage.create("t")
        wire = stage.wire()
        produce_one(wire, 1)
        row = fetch("t", topic_id=stage.partition("t").topic_id, min_bytes=1)

        found = counted(lambda: wire.ask(FETCH, row, 17))

    assert found == pytest.approx(65.0, rel=TOLERANCE)


@pytest.mark.parametrize(
    ("commits", "expected"), [(1, 821.0), (10, 3000.0)], ids=["one", "ten at once"]
)
def test_a_commit_of_offsets(commits: int, expected: float) -> None:
    with Stage(3, offsets_topic_num_partitions="1", offsets_topic_replication_factor="3") as stage:
        stage.create("t", commits)
        client = Committer(stage)
        wires = [stage.wire(client.node_id) for _ in range(commits)]

        rows = [client.row(5) for _ in wires]
        for partition, row in enumerate(rows):
            row.topics[0].partitions[0].partition_index = partition

        def commit() -> None:
            for wire, row in zip(wires, rows, strict=True):
                wire.request(OFFSET_COMMIT, row, 8)
            for wire in wires:
                assert wire.answer(OFFSET_COMMIT, 8).topics[0].partitions[0].error_code == 0

        found = counted(commit)

    assert found == pytest.approx(expected, rel=TOLERANCE)
