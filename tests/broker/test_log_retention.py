"""Retention and compaction on a running broker, in the simulation: what goes, when, and what
nothing of it may disturb.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from raftka.broker.replica.partition import Partition
from raftka.log.compaction.dirt import dirt_of, is_worth_it
from raftka.log.log import Log
from raftka.runtime.simulated.clock import EPOCH_MS
from raftka.wire.errors import Code
from raftka.wire.messages.fetch import FETCH
from raftka.wire.messages.produce import PRODUCE
from raftka.wire.records import build_batch, iterate, records_of
from tests.broker import requests
from tests.broker.requests import batch, fetched, produced
from tests.broker.stage import Stage, Wire
from tests.log.compacting import records

DAY_MS = 86_400_000
COMPACTED = {"cleanup_policy": "compact", "internal_segment_bytes": "2000"}


@pytest.fixture
def stage() -> Iterator[Stage]:
    with Stage(log_cleaner_backoff_ms="100", log_retention_check_interval_ms="1000") as stage:
        yield stage


def put(
    wire: Wire,
    *rows: tuple[bytes, bytes | None],
    topic: str = "t",
    timestamp: int = EPOCH_MS,
    acks: int = -1,
) -> int:
    """One batch; its base offset."""
    batch = bytes(build_batch([(key, value, [], timestamp) for key, value in rows]))
    answer = produced(wire.ask(PRODUCE, requests.produce(topic, batch, acks=acks)))
    assert answer.error_code == 0, answer
    return int(answer.base_offset)


def update(stage: Stage, count: int, keys: int = 7, topic: str = "t") -> dict[bytes, bytes]:
    """So many records over so many keys; the table that they leave."""
    wire = stage.wire(stage.leader(topic))
    table = {}
    for at in range(count):
        key, value = b"%d" % (at % keys), b"%d" % at * 20
        put(wire, (key, value), topic=topic)
        table[key] = value
    return table


def compacted(stage: Stage, partition: Partition, times: int = 1) -> None:
    counted = stage.counted("raftka_compactions_total", partition.manager.context.node_id)
    stage.wait(
        lambda: (
            stage.counted("raftka_compactions_total", partition.manager.context.node_id)
            >= counted + times
        )
    )


def clean(stage: Stage, partition: Partition) -> None:
    """Compact the written records, as far as they are worth a round."""
    log = partition.log

    def nothing_to_do() -> bool:
        dirt = dirt_of(log, partition.high_watermark, stage.nodes[1].runtime.clock.wall_ms())
        written_down = log.durability.settled_point >= log.segments.active.base_offset
        return (
            log.segments.cleaned_offset > 0
            and written_down
            and not log.cleaning
            and (dirt is None or not is_worth_it(log, dirt))
        )

    stage.wait(nothing_to_do)


def table_of(partition: Partition) -> dict[bytes | None, bytes | None]:
    return {record.key: record.value for record in records(partition.log)}


def test_a_compacted_topic_is_compacted_while_it_is_written_and_read(stage: Stage) -> None:
    stage.create("t", configs=COMPACTED)
    table = update(stage, 100)
    partition = stage.partition("t")
    clean(stage, partition)
    table |= update(stage, 30, keys=3)

    assert table_of(partition) == table
    assert len(records(partition.log)) < 60
    wire, offset, found = stage.wire(), 0, dict[bytes | None, bytes | None]()
    while offset < partition.log.end_offset:
        answer = fetched(wire.ask(FETCH, requests.fetch("t", offset)))
        for header, view in iterate(memoryview(answer.records or b"")):
            found |= {record.key: record.value for record in records_of(view)}
            offset = header.last_offset + 1
    assert found == table
    (line, *_) = stage.events("log_compacted")
    assert line["partition"] == "t-0"
    assert line["until"] > 0
    assert (
        stage.counted("raftka_compaction_bytes_read_total")
        > stage.counted("raftka_compaction_bytes_written_total")
        > 0
    )


def test_nothing_is_compacted_twice(stage: Stage) -> None:
    stage.create("t", configs=COMPACTED)
    update(stage, 100)
    clean(stage, stage.partition("t"))
    counted = stage.counted("raftka_compactions_total")
    stage.world.run(stage.world.now + 30)
    assert stage.counted("raftka_compactions_total") == counted


def test_nothing_that_is_not_committed_is_compacted(stage: Stage) -> None:
    stage.create("t", configs=COMPACTED)
    partition = stage.partition("t")
    update(stage, 120)
    assert partition.leader is not None
    # as if the followers had no more
    committed = partition.leader.high_watermark = partition.log.segments.cleaned_offset + 10
    stage.wait(
        lambda: (
            partition.log.durability.settled_point
            >= partition.log.segments.active.base_offset
            > committed
        )
    )
    stage.world.run(stage.world.now + 5)

    assert partition.log.segments.cleaned_offset <= committed


def test_nothing_is_compacted_when_that_is_switched_off() -> None:
    with Stage(log_cleaner_backoff_ms="100", log_cleaner_enable="false") as off:
        off.create("t", configs=COMPACTED)
        update(off, 100)
        off.world.run(off.world.now + 30)
        assert off.counted("raftka_compactions_total") == 0


def test_how_far_it_is_clean_is_remembered_over_a_restart(stage: Stage) -> None:
    stage.create("t", configs=COMPACTED)
    table = update(stage, 100)
    clean(stage, stage.partition("t"))
    cleaned = stage.partition("t").log.segments.cleaned_offset
    stage.world.run(stage.world.now + 10)

    stage.kill(1, power_loss=True)
    stage.start(1)
    stage.wait(lambda: ("t", 0) in stage.nodes[1].replicas.partitions)

    partition = stage.nodes[1].replicas.partitions["t", 0]
    assert partition.log.segments.cleaned_offset == cleaned > 0
    assert table_of(partition) == table


def test_replicas_compact_each_for_itself_and_follow_each_other() -> None:
    with Stage(3, log_cleaner_backoff_ms="100") as stage:
        stage.create("t", replication_factor=3, configs=COMPACTED)
        table = update(stage, 120)
        leader = stage.leader("t")
        behind = next(node_id for node_id in (1, 2, 3) if node_id != leader)
        stage.kill(behind)
        table |= update(stage, 60, keys=5)
        compacted(stage, stage.partition("t"))
        stage.start(behind)
        stage.wait(lambda: ("t", 0) in stage.nodes[behind].replicas.partitions)
        stage.wait(
            lambda: (
                stage.partition("t", node_id=behind).log.end_offset
                == stage.partition("t").log.end_offset
            )
        )
        for node_id in stage.nodes:
            partition = stage.partition("t", node_id=node_id)
            stage.wait(lambda partition=partition: partition.log.segments.cleaned_offset > 100)  # type: ignore[misc]
            assert table_of(partition) == table


@pytest.mark.parametrize("seed", range(12))
def test_the_power_goes_in_the_middle_and_the_table_is_whole(seed: int) -> None:
    with Stage(seed=seed, log_cleaner_backoff_ms="50") as stage:
        stage.create("t", configs=COMPACTED)
        table: dict[bytes, bytes] = {}
        random = stage.world.random("when the power goes")
        for _ in range(4):
            table |= update(stage, 60)
            stage.wait(
                lambda: (
                    bool(stage.nodes[1].housekeeping.retention.cleaner.rounds)
                    or stage.counted("raftka_compactions_total") > 0
                )
            )
            stage.world.run(stage.world.now + random.random() * 0.02)
            stage.kill(1, power_loss=True)
            stage.start(1)
            stage.wait(
                lambda: (
                    ("t", 0) in stage.nodes[1].replicas.partitions and stage.nodes[1].ready.is_set()
                )
            )
            assert table_of(stage.partition("t")) == table, f"seed {seed}"
        stage.wait(lambda: stage.partition("t").log.segments.cleaned_offset > 200)
        assert table_of(stage.partition("t")) == table


def test_a_topic_that_is_deleted_meanwhile(stage: Stage) -> None:
    stage.create("t", configs=COMPACTED)
    update(stage, 60)
    cleaner = stage.nodes[1].housekeeping.retention.cleaner
    stage.wait(lambda: bool(cleaner.rounds))
    stage.delete("t")
    stage.wait(lambda: not cleaner.rounds)

    stage.create("t", configs=COMPACTED)
    table = update(stage, 60)
    compacted(stage, stage.partition("t"))
    assert table_of(stage.partition("t")) == table
    assert not stage.events("compaction_failed")


@pytest.mark.parametrize("moment", range(20))
def test_a_log_that_is_truncated_meanwhile_is_not_changed_by_the_round(
    stage: Stage, moment: int
) -> None:
    stage.create("t", configs=COMPACTED)
    update(stage, 70)
    partition, cleaner = stage.partition("t"), stage.nodes[1].housekeeping.retention.cleaner
    stage.wait(lambda: bool(cleaner.rounds))
    stage.world.run(stage.world.now + moment * 0.0005)
    end = partition.log.truncate_to(42)
    table = table_of(partition)
    stage.wait(lambda: not cleaner.rounds)

    assert table_of(partition) == table
    assert partition.log.end_offset == end <= 42
    assert not partition.log.cleaning
    assert not [
        name
        for name in stage.nodes[1].runtime.files.list(partition.log.directory)
        if name.endswith((".cleaned", ".swap"))
    ]


# of the second batch: its base offset, a value
@pytest.mark.parametrize(("byte", "told"), [(90, "no batch at byte 89"), (140, "CRC")])
def test_a_log_that_cannot_be_read_is_left_alone(stage: Stage, byte: int, told: str) -> None:
    stage.create("t", configs=COMPACTED)
    update(stage, 12)
    partition = stage.partition("t")
    stage.world.machines["n1"].disk.flip(partition.log.segments[0].file.path, byte)
    update(stage, 60)
    stage.wait(lambda: bool(stage.events("compaction_failed")))
    stage.world.run(stage.world.now + 10)

    (line,) = stage.events("compaction_failed")
    assert told in line["error"]
    assert stage.counted("raftka_compaction_failures_total") == 1
    assert put(stage.wire(), (b"k", b"v")) == 72


def test_a_full_disk_ends_the_round_and_not_the_log(stage: Stage) -> None:
    stage.create("t", configs=COMPACTED | {"min_cleanable_dirty_ratio": "1.0"})  # never
    table = update(stage, 60)
    disk, partition = stage.world.machines["n1"].disk, stage.partition("t")
    stage.world.run(stage.world.now + 6)
    disk.room_bytes = 100
    partition.log.configure(replace(partition.log.config, min_cleanable_dirty_ratio=0.5))
    stage.wait(lambda: bool(stage.events("compaction_failed")))
    disk.room_bytes = None

    compacted(stage, partition)
    assert table_of(partition) == table
    assert partition.log.failed is None


def test_tombstones_go_after_their_time(stage: Stage) -> None:
    stage.create("t", configs=COMPACTED | {"delete_retention_ms": "60000"})
    update(stage, 30)
    put(stage.wire(), (b"0", None))
    partition = stage.partition("t")
    update(stage, 60, keys=2, topic="t")
    put(stage.wire(), (b"5", None))
    update_keys = {record.key: record.value for record in records(partition.log)}
    assert update_keys[b"5"] is None
    for _ in range(3):
        wire = stage.wire()
        for at in range(60):
            put(wire, (b"other-%d" % (at % 3), b"x" * 50))
        stage.world.run(stage.world.now + 61)

    assert b"5" not in table_of(partition)
    assert table_of(partition)[b"6"] is not None


def test_the_last_tombstones_go_without_another_write(stage: Stage) -> None:
    """KIP-534: they know their time."""
    stage.create("t", configs=COMPACTED | {"delete_retention_ms": "60000"})
    update(stage, 30)
    put(stage.wire(), (b"0", None))
    for at in range(60):
        put(stage.wire(), (b"other", b"%d" % at * 20))
    partition = stage.partition("t")
    compacted(stage, partition)
    assert table_of(partition)[b"0"] is None

    stage.world.run(stage.world.now + 70)

    table = table_of(partition)
    assert b"0" not in table
    assert table[b"other"] == b"59" * 20
    rounds = stage.counted("raftka_compactions_total")
    stage.world.run(stage.world.now + 300)
    assert stage.counted("raftka_compactions_total") == rounds, "there is nothing more to go"


def test_tombstones_of_before_a_restart_go_too(stage: Stage) -> None:
    stage.create("t", configs=COMPACTED | {"delete_retention_ms": "60000"})
    update(stage, 30)
    put(stage.wire(), (b"0", None))
    for at in range(60):
        put(stage.wire(), (b"other", b"%d" % at * 20))
    compacted(stage, stage.partition("t"))
    stage.world.run(stage.world.now + 10)
    stage.kill(1)
    stage.start(1)
    stage.wait(lambda: ("t", 0) in stage.nodes[1].replicas.partitions)
    partition = stage.nodes[1].replicas.partitions["t", 0]
    assert table_of(partition)[b"0"] is None

    stage.world.run(stage.world.now + 70)

    assert b"0" not in table_of(partition)


def test_rounds_are_as_far_apart_as_the_backoff_says(stage: Stage) -> None:
    """Not as checkpoints are, which write down how far a log is on disk."""
    stage.create("t", configs=COMPACTED)
    for _ in range(4):
        update(stage, 100)
        began = stage.world.now
        compacted(stage, stage.partition("t"))
        assert stage.world.now - began < 1.0


def test_no_log_is_looked_at_sooner_than_the_backoff_says() -> None:
    with Stage(log_cleaner_backoff_ms="30000") as stage:
        stage.create("t", configs=COMPACTED)
        began = stage.world.now
        while stage.world.now < began + 80:
            update(stage, 100)
            stage.world.run(stage.world.now + 1.0)
        assert stage.counted("raftka_compactions_total") <= 3


# retention


def segments(partition: Partition) -> list[int]:
    return [segment.base_offset for segment in partition.log.segments]


def test_retention_by_time_and_size_below_the_high_watermark() -> None:
    with Stage(log_retention_check_interval_ms="1000", log_segment_delete_delay_ms="5000") as stage:
        limits: dict[str, Any] = {
            "old": {"retention_ms": "5000"},
            "large": {"retention_bytes": "3000"},
            "kept": {"retention_ms": "-1"},
        }
        for name, configs in limits.items():
            stage.create(name, configs=configs | {"internal_segment_bytes": "1000"})
            for at in range(40):
                put(
                    stage.wire(),
                    (b"%d" % at, b"x" * 30),
                    topic=name,
                    timestamp=stage.nodes[1].runtime.clock.wall_ms(),
                )
        replicas = {name: stage.partition(name) for name in limits}
        before = segments(replicas["kept"])
        stage.wait(
            lambda: len(segments(replicas["old"])) == 1 and replicas["old"].log.size_bytes == 0
        )

        assert replicas["old"].log.start_offset == 40, (
            "the active segment goes too, when all of it is too old"
        )
        assert 3000 <= replicas["large"].log.size_bytes < 4000
        assert segments(replicas["kept"]) == before
        assert stage.counted("raftka_segments_deleted_total") == len(before) + len(before) - len(
            segments(replicas["large"])
        )


def test_retention_waits_until_the_snapshot_of_the_producers_is_on_disk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else a retry after a loss of power would be taken for new. The next checkpoint is enough, no
    second round of retention.
    """
    with Stage(log_retention_check_interval_ms="60000") as stage:
        stage.create("t", configs={"retention_ms": "5000"})
        stage.world.run(stage.world.now + 25)
        idempotent = batch(b"1", producer_id=9, producer_epoch=0, base_sequence=0)
        assert (
            produced(stage.wire().ask(PRODUCE, requests.produce("t", idempotent))).error_code == 0
        )
        log = stage.partition("t").log
        due = stage.nodes[1].replicas.checkpoint
        monkeypatch.setattr(stage.nodes[1].replicas, "checkpoint", lambda: None)
        stage.wait(lambda: log.retention_waits)
        stage.world.run(stage.world.now + 20)
        assert segments(stage.partition("t")) == [0, 1]

        monkeypatch.undo()
        due()
        stage.wait(lambda: segments(stage.partition("t")) == [1])
        assert stage.world.now < 60


def test_nothing_is_deleted_once_the_logs_are_closed() -> None:
    """The next node may have the directory before this one's last timer fires."""
    with Stage(2, log_retention_check_interval_ms="1000") as stage:
        stage.create(
            "t",
            replication_factor=2,
            configs={"retention_ms": "5000", "internal_segment_bytes": "500"},
        )
        leader = stage.leader("t")
        follower = stage.nodes[3 - leader]
        partition = stage.partition("t", node_id=3 - leader)
        for at in range(20):
            put(
                stage.wire(leader),
                (b"%d" % at, b"x" * 30),
                timestamp=stage.nodes[1].runtime.clock.wall_ms(),
            )
        stage.wait(lambda: partition.high_watermark == 20)
        before = segments(partition)
        follower.replicas.close()
        stage.world.run(stage.world.now + 60)
        assert segments(partition) == before
        assert len(before) > 3


def test_retention_keeps_what_is_not_committed() -> None:
    with Stage(log_retention_check_interval_ms="1000") as stage:
        stage.create("t", configs={"retention_bytes": "1000", "internal_segment_bytes": "500"})
        partition = stage.partition("t")
        update(stage, 40)
        assert partition.leader is not None
        partition.leader.high_watermark = 10  # as if the followers had no more
        stage.world.run(stage.world.now + 60)

        assert 0 < partition.log.start_offset <= 10


def test_the_removal_of_a_segment_is_on_the_disk_before_the_next_one_goes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else a loss of power could give back an older one without those behind it."""
    delete, in_memory = Log.delete_oldest, []
    with Stage(log_retention_check_interval_ms="60000") as stage:
        stage.create("t", configs={"retention_bytes": "1000", "internal_segment_bytes": "500"})
        update(stage, 60)
        disk = stage.world.disk("n1")

        def noted(log: Log, *given: int) -> int:
            directory = disk.directory(log.directory)
            changed = {name for change in directory.changes for name in change}  # and not flushed
            gone = changed - directory.entries.keys()
            outlived = delete(log, *given)
            if outlived:
                in_memory.append([name for name in gone if name.endswith(".log")])
            return outlived

        monkeypatch.setattr(Log, "delete_oldest", noted)
        stage.wait(lambda: len(in_memory) > 3, 60.0)

    assert in_memory == [[]] * len(in_memory)


def test_a_reader_below_the_log_start_gets_an_error() -> None:
    with Stage(log_retention_check_interval_ms="1000") as stage:
        stage.create("t", configs={"retention_bytes": "1000", "internal_segment_bytes": "500"})
        update(stage, 40)
        stage.wait(lambda: stage.partition("t").log.start_offset > 0)

        assert (
            fetched(stage.wire().ask(FETCH, requests.fetch("t", 0))).error_code
            == Code.OFFSET_OUT_OF_RANGE
        )


def test_a_topic_with_both_policies_is_compacted_and_forgotten(stage: Stage) -> None:
    stage.create(
        "t",
        configs={
            "cleanup_policy": "compact,delete",
            "internal_segment_bytes": "2000",
            "retention_ms": "20000",
        },
    )
    wire = stage.wire()
    for at in range(100):
        put(
            wire,
            (b"%d" % (at % 7), b"%d" % at * 20),
            timestamp=stage.nodes[1].runtime.clock.wall_ms(),
        )
    partition = stage.partition("t")
    compacted(stage, partition)
    assert len(records(partition.log)) < 60

    stage.wait(lambda: partition.log.start_offset == 100)
    assert not records(partition.log)


def in_sync(stage: Stage) -> bool:
    known = [
        partition
        for node in stage.nodes.values()
        if (partition := node.replicas.partitions.get(("t", 0))) is not None
    ]
    return (
        len(known) == len(stage.nodes)
        and all(len(each.image.isr) == 3 for each in known)
        and any(each.leader is not None for each in known)
    )


@pytest.mark.parametrize("seed", range(4))
def test_nodes_lose_their_power_while_all_compact(seed: int) -> None:
    with Stage(3, seed=seed, log_cleaner_backoff_ms="50") as stage:
        stage.create("t", replication_factor=3, configs=COMPACTED)
        random = stage.world.random("who loses power")
        table: dict[bytes, bytes] = {}
        for _ in range(4):
            table |= update(stage, 70)
            # the recovery point is written down every five seconds
            stage.world.run(stage.world.now + 5 + random.random() * 0.5)
            node_id = random.choice(sorted(stage.nodes))
            stage.kill(node_id, power_loss=True)
            stage.start(node_id)
            stage.wait(lambda: in_sync(stage))
        for node_id in stage.nodes:
            partition = stage.partition("t", node_id=node_id)
            stage.wait(
                lambda partition=partition: (  # type: ignore[misc]
                    partition.log.segments.cleaned_offset > 200 and partition.log.end_offset == 280
                )
            )
            assert table_of(partition) == table, f"node {node_id}"
            assert not partition.log.cleaning
        assert not any(stage.events("compaction_failed", node_id) for node_id in stage.nodes)


def test_the_file_of_a_deleted_segment_is_written_over_whatever_the_delay() -> None:
    """For as long as raftka.log.segment.reuse.ms says; and a crash finds the records alone."""
    with Stage(
        log_retention_check_interval_ms="1000",
        log_segment_delete_delay_ms="60000",
        raftka_log_segment_reuse_ms="20000",
    ) as stage:
        stage.create("t", configs={"retention_bytes": "3000", "internal_segment_bytes": "1000"})
        stage.world.run(stage.world.now + 31)
        partition = stage.partition("t")
        files = partition.log._files
        directory = partition.log.directory

        def write(count: int) -> bool:
            over = False
            for at in range(count):
                put(stage.wire(), (b"%d" % at, b"x" * 30))
                over |= partition.log.segments.active.is_over
            return over

        def kept() -> list[str]:
            return [name for name in files.list(directory) if name.endswith(".deleted")]

        write(80)
        stage.wait(lambda: len(kept()) > 1)  # as many as the round has deleted
        assert write(30)

        stage.wait(lambda: bool(kept()))
        stage.world.run(stage.world.now + 27)
        assert not kept(), "it has waited long enough"

        write(60)
        stage.wait(lambda: bool(kept()))
        assert write(30)
        end = partition.log.end_offset
        stage.kill(1)
        stage.start(1)
        stage.wait(
            lambda: stage.leader("t", 0) == 1 and ("t", 0) in stage.nodes[1].replicas.partitions
        )
        assert stage.partition("t").log.end_offset == end
        assert not stage.events("log_cut")
