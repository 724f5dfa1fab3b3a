"""Requests of strangers for too many or too large transactions: only they are refused, the limit's
counter moves, and a transaction beside them goes on.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from raftka.limits import (
    HELD_BY_TRANSACTION,
    PARTITIONS_OF_TRANSACTION,
    TRANSACTION_BYTES,
    TRANSACTION_BYTES_OF_COORDINATOR,
    TRANSACTIONAL_IDS_OF_COORDINATOR,
    Limit,
)
from raftka.wire.errors import Code
from raftka.wire.messages.transactions import ADD_PARTITIONS_TO_TXN
from tests.broker.conftest import Lower
from tests.broker.stage import Stage
from tests.kit.broker.transactions import Client, adding


@pytest.fixture
def stage() -> Iterator[Stage]:
    """One partition of transactions: all ids have the same coordinator."""
    with Stage(transaction_state_log_num_partitions="1") as stage:
        stage.create("t", 5)
        yield stage
        assert not stage.world.failures


class Neighbour(Client):
    """A producer whose transactions must go on."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage, "neighbour")
        assert self.init().error_code == 0

    def is_well(self) -> bool:
        return self.add(("t", 0)) == [0] and self.end(version=3) == 0


def test_transactional_ids_of_a_coordinator(stage: Stage, lowered: Lower) -> None:
    neighbour = Neighbour(stage)
    lowered(TRANSACTIONAL_IDS_OF_COORDINATOR, 3)

    codes = [Client(stage, name).init().error_code for name in ("a", "b", "c", "a")]

    assert codes == [0, 0, Code.POLICY_VIOLATION, 0]
    assert stage.counted(TRANSACTIONAL_IDS_OF_COORDINATOR.metric) == 1
    assert neighbour.is_well()


@pytest.mark.parametrize(
    ("limit", "value", "fits"),
    # 2 + 1 + 4 of each + 1 of tags
    [
        (PARTITIONS_OF_TRANSACTION, 3, 3),
        (TRANSACTION_BYTES, 17, 3),
        (TRANSACTION_BYTES_OF_COORDINATOR, 17, 3),
    ],
    ids=lambda each: getattr(each, "name", ""),
)
def test_partitions(stage: Stage, lowered: Lower, limit: Limit, value: int, fits: int) -> None:
    neighbour, client = Neighbour(stage), Client(stage)
    client.init()
    lowered(limit, value)
    assert client.add(*[("t", index) for index in range(fits)]) == [0] * fits

    assert client.add(("t", fits)) == [Code.POLICY_VIOLATION]

    assert stage.counted(limit.metric) == 1
    assert [list(topic.partitions) for topic in client.describe().topics] == [list(range(fits))]
    assert client.end(version=3) == 0
    assert client.add(("t", fits)) == [0]  # there is room again
    assert client.end(version=3) == 0
    assert neighbour.is_well()


def test_requests_that_wait_for_markers(
    stage: Stage, lowered: Lower, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that there is no room for hear at once what they would hear after a second; the others
    are served.
    """
    neighbour, client = Neighbour(stage), Client(stage)
    lowered(HELD_BY_TRANSACTION, 3)
    client.init()
    assert client.add(("t", 0)) == [0]
    sender = stage.nodes[1].transactions.sender
    ended: list[Any] = []
    monkeypatch.setattr(sender, "_spread", ended.append)
    assert client.end(version=3) == 0
    wires = [stage.wire() for _ in range(5)]
    for wire in wires:
        wire.request(ADD_PARTITIONS_TO_TXN, adding(client.id, client.pair, ("t", 1)), 3)
    stage.wait(lambda: stage.counted(HELD_BY_TRANSACTION.metric) == 2)
    monkeypatch.undo()

    assert neighbour.is_well()
    for markers in ended:
        sender._spread(markers)

    answers = [
        wire.answer(ADD_PARTITIONS_TO_TXN, 3)
        .results_by_topic_v3_and_below[0]
        .results_by_partition[0]
        for wire in wires
    ]
    assert sorted(answer.partition_error_code for answer in answers) == [
        0,
        0,
        0,
        *[Code.CONCURRENT_TRANSACTIONS] * 2,
    ]
