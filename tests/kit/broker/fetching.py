"""Partitions with three batches, and the values of a Fetch answer."""

from raftka.wire.messages.fetch import PartitionData
from raftka.wire.messages.produce import PRODUCE
from raftka.wire.records import iterate, records_of
from tests.broker.requests import batch, produce, produced
from tests.broker.stage import Stage

VALUES = [b"%03d" % i for i in range(6)]
SIZE = len(batch(VALUES[0], VALUES[1]))  # of each of the three batches of `filled`


def filled(stage: Stage, topic: str = "t", partitions: int = 1) -> bytes:
    """Three batches of two records in each partition."""
    topic_id = stage.create(topic, partitions)
    for partition in range(partitions):
        wire = stage.wire(stage.leader(topic, partition))
        for i in range(0, 6, 2):
            assert (
                produced(
                    wire.ask(PRODUCE, produce(topic, batch(*VALUES[i : i + 2]), partition))
                ).error_code
                == 0
            )
    return topic_id


def values(row: PartitionData) -> list[bytes | None]:
    return [
        record.value
        for _, found in iterate(memoryview(row.records or b""))
        for record in records_of(found)
    ]
