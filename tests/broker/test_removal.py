"""A replica that goes in the very turn in which it was written to: nothing is written to a file
that is closed. (The mutants have the other way round, a flush that was asked for before:
tests/mutants/scenarios_of_logs.py.)
"""

import pytest

from raftka.wire.errors import Code
from raftka.wire.messages.produce import PRODUCE
from tests.broker.requests import batch, produce, produced
from tests.broker.stage import Stage

# it applies what it hears of in the same turn
OBSERVER = {"process.roles": "broker", "listeners": "PLAINTEXT://n2:9092"}


@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("written_first", [True, False])
def test_records_come_with_the_end_of_their_topic(written_first: bool, acks: int) -> None:
    with Stage(1, min_insync_replicas="1") as stage:
        stage.start(2, OBSERVER)
        stage.wait(stage.nodes[2].ready.is_set)
        stage.create("t", partitions=4, replication_factor=1)
        partition = next(at for at in range(4) if stage.leader("t", at) == 2)
        wire = stage.wire(2)
        assert (
            produced(wire.ask(PRODUCE, produce("t", batch(b"1"), partition=partition))).error_code
            == 0
        )

        stage.world.pause("n2")  # all that comes meanwhile is one turn
        for is_record in (written_first, not written_first):
            if is_record:
                wire.request(PRODUCE, produce("t", batch(b"2"), partition=partition, acks=acks))
            else:
                stage.delete("t")
            stage.world.run(stage.world.now + 0.01)
        stage.world.resume("n2")

        assert produced(wire.answer(PRODUCE)).error_code in (0, Code.UNKNOWN_TOPIC_OR_PARTITION)
        stage.wait(lambda: stage.nodes[2].image.topic_named("t") is None)
        stage.world.run(stage.world.now + 1.0)
        assert stage.world.failures == []
        assert stage.events("log_failed", 2) == []
        assert not stage.nodes[2].replicas.partitions
