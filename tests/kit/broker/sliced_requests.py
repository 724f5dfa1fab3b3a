"""Requests that a busy node carries out in several slices."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from raftka.runtime.simulated import clock
from raftka.wire.messages.produce import PRODUCE
from tests.broker.requests import batch
from tests.kit.broker.transactions import Client

PARTITIONS = 60
BUSY_S = 0.002  # between two readings of the CPU clock: two readings fit into a slice


@contextmanager
def busy(reading_s: float = BUSY_S) -> Iterator[None]:
    """`reading_s`: CPU time between two readings of a node's clock."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clock, "READING_S", reading_s)
        yield


def sent(client: Client, sequence: int, partitions: int = PARTITIONS) -> list[tuple[int, int]]:
    """The index and the error code of each partition of one transactional Produce."""
    request = PRODUCE.request
    producer = {
        "producer_id": client.pair[0],
        "producer_epoch": client.pair[1],
        "base_sequence": sequence,
    }
    rows = [
        request.topic_data.partition_data(
            index=at, records=batch(b"%d" % at, **producer, transactional=True)
        )
        for at in range(partitions)
    ]
    row = request(
        acks=-1,
        timeout_ms=5000,
        transactional_id="x",
        topic_data=[request.topic_data(name="t", partition_data=rows)],
    )
    answer = client.wire.ask(PRODUCE, row, 12)
    return [
        (row.index, row.error_code)
        for topic in answer.responses
        for row in topic.partition_responses
    ]
