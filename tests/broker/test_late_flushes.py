"""flush.ms, where answers do not wait for the disk (raftka.log.flush=os): so long after it was
written a record is there, as a power cut shows.
"""

from typing import Any

import pytest

from raftka.broker.logs import flush_scheduler as late_flushes
from raftka.broker.logs.flush_scheduler import FlushScheduler
from raftka.broker.replica.partition import Partition
from raftka.metadata.image import BROKER, TOPIC
from raftka.wire.messages.list_offsets import LIST_OFFSETS
from raftka.wire.messages.produce import PRODUCE
from tests.broker.requests import batch, list_offsets, produce, produced
from tests.broker.stage import Stage


def stage(**settings: Any) -> Stage:
    """Whatever was not flushed is gone with the power."""
    stage = Stage(raftka_log_flush="os", **settings)
    stage.world.disk("n1").keeps_nothing = True
    return stage


def write(stage: Stage, topic: str = "t", value: bytes = b"v") -> None:
    assert produced(stage.wire().ask(PRODUCE, produce(topic, batch(value)))).error_code == 0


def later(stage: Stage, seconds: float) -> None:
    stage.world.run(stage.world.now + seconds)


def left(stage: Stage, topic: str = "t") -> int:
    """Records, after the power was cut."""
    stage.kill(1, power_loss=True)
    node = stage.start(1)
    stage.wait(
        lambda: (
            node.ready.is_set()
            and (topic, 0) in node.replicas.partitions
            and node.replicas.partitions[topic, 0].leader is not None
        )
    )
    (of_topic,) = stage.wire().ask(LIST_OFFSETS, list_offsets(topic, -1)).topics
    return int(of_topic.partitions[0].offset)


@pytest.mark.parametrize("name", ["log_flush_interval_ms", "log_flush_scheduler_interval_ms"])
def test_after_so_long_it_is_on_disk(name: str) -> None:
    with stage(**{name: "500"}) as there:
        there.create("t")
        write(there)
        later(there, 0.3)
        write(there)
        later(there, 0.25)
        write(there)

        assert left(there) == 2


def test_before_that_it_may_be_lost() -> None:
    with stage(log_flush_interval_ms="500") as there:
        there.create("t")
        write(there)
        later(there, 0.4)

        assert left(there) == 0


def test_one_flush_follows_the_other() -> None:
    with stage(log_flush_interval_ms="100") as there:
        there.create("t")
        for _ in range(5):
            write(there)
            later(there, 0.15)

        assert left(there) == 5


def test_without_it_nothing_is_flushed_but_by_a_checkpoint() -> None:
    with stage() as there:
        there.create("t")
        write(there)
        later(there, 3.0)

        assert left(there) == 0


def test_each_topic_has_its_own_and_it_can_be_changed() -> None:
    with stage() as there:
        for topic in ("t", "other"):
            there.create(topic)
        there.set(TOPIC, "t", flush_ms="100")
        write(there)
        write(there, "other")
        later(there, 0.2)

        assert left(there) == 1
        assert left(there, "other") == 0
        there.set(BROKER, "", log_flush_interval_ms="0")
        write(there, "other")
        later(there, 0.1)
        assert left(there, "other") == 1


def test_what_is_written_while_a_flush_is_under_way_is_flushed_by_the_next() -> None:
    with stage(log_flush_interval_ms="100") as there:
        there.create("t")
        there.world.disk("n1").sync_s = (0.5, 0.5)
        write(there)
        later(there, 0.2)
        write(there)
        later(there, 2.0)

        assert left(there) == 2


def test_a_disk_that_fails_ends_the_node() -> None:
    with stage(log_flush_interval_ms="100") as there:
        there.create("t")
        there.world.disk("n1").failing_under = "/data/t-0"
        there.world.disk("n1").failing_syncs = 1
        write(there)
        later(there, 1.0)

        assert there.events("flush_failed")


def test_one_log_does_not_hide_another() -> None:
    with stage(log_flush_interval_ms="500") as there:
        for topic in ("t", "other"):
            there.create(topic)
        write(there)
        later(there, 0.3)
        write(there, "other")
        later(there, 0.6)

        assert left(there, "other") == 1


def test_of_many_logs_some_are_flushed_in_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(late_flushes, "FLUSHED_IN_A_TURN", 3)
    flushed: list[float] = []
    flush = FlushScheduler._flush
    with stage(log_flush_interval_ms="100") as there:

        def counted(self: FlushScheduler, partition: Partition) -> None:
            flushed.append(there.world.now)
            flush(self, partition)

        monkeypatch.setattr(FlushScheduler, "_flush", counted)
        there.create("t", partitions=10)
        row = produce("t", batch(b"v"))
        parts = PRODUCE.request.topic_data.partition_data
        row.topic_data[0].partition_data = [
            parts(index=index, records=batch(b"v")) for index in range(10)
        ]
        there.wire().ask(PRODUCE, row)
        later(there, 1.0)

        assert len(flushed) == 10
        assert max(flushed.count(when) for when in set(flushed)) <= 3
        assert not any(there.partition("t", index).log.unflushed for index in range(10))
