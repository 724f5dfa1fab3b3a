"""DescribeLogDirs and AlterReplicaLogDirs: where replicas lie, and how they come to lie elsewhere
while producers and readers go on.
"""

import errno
from collections.abc import Iterable
from itertools import count
from typing import Any

import pytest

from raftka.broker.logs.mover import PIECE_BYTES, Move
from raftka.broker.replica.partition import Partition
from raftka.log.log import Log
from raftka.metadata.commands import APPEND, SET, SUBTRACT
from raftka.metadata.configs.settings import NodeSettings, SettingError
from raftka.metadata.image import BROKER
from raftka.runtime.simulated.clock import EPOCH_MS
from raftka.runtime.simulated.disk import NodeFiles
from raftka.wire.errors import Code
from raftka.wire.messages.configs import INCREMENTAL_ALTER_CONFIGS
from raftka.wire.messages.fetch import FETCH
from raftka.wire.messages.list_offsets import LIST_OFFSETS
from raftka.wire.messages.log_dirs import ALTER_REPLICA_LOG_DIRS, DESCRIBE_LOG_DIRS
from raftka.wire.messages.produce import PRODUCE
from raftka.wire.messages.topics import CREATE_TOPICS
from raftka.wire.records import build_batch
from tests.broker.requests import batch, fetch, fetched, list_offsets, produce, produced
from tests.broker.stage import Stage

FIRST, SECOND = "/data", "/more"


@pytest.fixture
def stage() -> Iterable[Stage]:
    with Stage(log_dirs=f"{FIRST},{SECOND}") as stage:
        yield stage


def described(
    stage: Stage, node_id: int = 1, **asked: Any
) -> dict[str, dict[tuple[str, int], tuple[int, int, bool]]]:
    """By directory and partition: size, lag, whether it is a future replica."""
    row = stage.wire(node_id).ask(
        DESCRIBE_LOG_DIRS, DESCRIBE_LOG_DIRS.request(**({"topics": None} | asked))
    )
    return {
        each.log_dir: {
            (topic.name, partition.partition_index): (
                partition.partition_size,
                partition.offset_lag,
                partition.is_future_key,
            )
            for topic in each.topics
            for partition in topic.partitions
        }
        for each in row.results
        if each.error_code == 0
    }


def alter(stage: Stage, path: str, topic: str = "t", *partitions: int) -> list[Code]:
    request = ALTER_REPLICA_LOG_DIRS.request
    row = request.dirs(
        path=path, topics=[request.dirs.topics(name=topic, partitions=partitions or (0,))]
    )
    (answer,) = stage.wire().ask(ALTER_REPLICA_LOG_DIRS, request(dirs=[row])).results
    return [Code(each.error_code) for each in answer.partitions]


def moved(stage: Stage, path: str) -> bool:
    return stage.partition("t").home.path == path and not stage.nodes[1].housekeeping.mover.moves


def filled(stage: Stage, batches: int = 8) -> None:
    """More than goes in one piece."""
    stage.create("t")
    for at in range(batches):
        records = build_batch([(b"k", bytes([at]) * (PIECE_BYTES // 4), (), EPOCH_MS)])
        assert produced(stage.wire().ask(PRODUCE, produce("t", bytes(records)))).error_code == 0


def content(stage: Stage) -> bytes:
    log = stage.partition("t").log
    spans, offset = [], log.start_offset
    for segment in log.segments:
        found, _ = log.read(max(offset, segment.base_offset), 1 << 30, log.end_offset)
        spans += found
    return b"".join([span.file.read(span.position, span.size) for span in spans])


def test_what_lies_where(stage: Stage) -> None:
    stage.create("t", 2)
    stage.wire().ask(PRODUCE, produce("t", batch(b"1")))
    assert [len(each) for each in described(stage).values()] == [1, 1]
    where = {key: size for each in described(stage).values() for key, (size, _, _) in each.items()}
    assert (where["t", 0], where["t", 1]) == (stage.partition("t").log.size_bytes, 0)
    request = DESCRIBE_LOG_DIRS.request
    asked = described(
        stage,
        topics=[
            request.topics(topic="t", partitions=[0, 7]),
            request.topics(topic="nosuch", partitions=[0]),
        ],
    )
    assert [key for each in asked.values() for key in each] == [("t", 0)]


def test_a_directory_that_failed_is_reported(stage: Stage) -> None:
    stage.create("t", 2)
    partition = next(
        partition
        for partition in stage.nodes[1].replicas.partitions.values()
        if partition.home.path == SECOND
    )
    stage.world.disk("n1").broken.add(SECOND)
    wire = stage.wire()
    wire.request(PRODUCE, produce(partition.topic, batch(b"1"), partition=partition.index))
    assert wire.frame() is None, "what it was told of the turn's writes cannot be said"
    row = stage.wire().ask(DESCRIBE_LOG_DIRS, DESCRIBE_LOG_DIRS.request(topics=None))
    assert [
        (each.log_dir, Code(each.error_code), each.total_bytes > 0) for each in row.results
    ] == [
        (FIRST, Code.NONE, True),
        (SECOND, Code.KAFKA_STORAGE_ERROR, False),
    ]
    assert alter(stage, SECOND, "t", 1 - partition.index) == [Code.KAFKA_STORAGE_ERROR]
    assert alter(stage, FIRST, "t", partition.index) == [Code.KAFKA_STORAGE_ERROR]
    assert (
        produced(
            stage.wire().ask(PRODUCE, produce("t", batch(b"2"), partition=1 - partition.index))
        ).error_code
        == 0
    )
    assert (
        produced(
            stage.wire().ask(PRODUCE, produce("t", batch(b"2"), partition=partition.index))
        ).error_code
        == Code.KAFKA_STORAGE_ERROR
    )


def test_who_searches_by_time_in_a_directory_that_fails_is_told_so(stage: Stage) -> None:
    """It was an unknown error, with which a client gives up; and the directory was not known to
    have failed.
    """
    stage.create("t", 2)
    partition = next(
        partition
        for partition in stage.nodes[1].replicas.partitions.values()
        if partition.home.path == SECOND
    )
    assert (
        produced(
            stage.wire().ask(PRODUCE, produce("t", batch(b"1"), partition=partition.index))
        ).error_code
        == Code.NONE
    )
    stage.world.disk("n1").broken.add(SECOND)

    (topic,) = stage.wire().ask(LIST_OFFSETS, list_offsets("t", 0, partition.index)).topics

    assert Code(topic.partitions[0].error_code) is Code.KAFKA_STORAGE_ERROR
    assert list(stage.nodes[1].logs.offline) == [SECOND]
    assert not stage.events("handler_failed")


def test_what_is_refused(stage: Stage) -> None:
    stage.create("t")
    assert alter(stage, "/elsewhere") == [Code.LOG_DIR_NOT_FOUND]
    assert alter(stage, SECOND, "t" * 240) == [Code.INVALID_TOPIC_EXCEPTION]
    assert alter(stage, SECOND, "t", 3) == [Code.UNKNOWN_TOPIC_OR_PARTITION]
    assert alter(stage, stage.partition("t").home.path) == [Code.NONE], "where it is already"
    assert not stage.nodes[1].housekeeping.mover.moves


def test_a_partition_that_is_not_there_yet_is_made_where_it_is_wanted(stage: Stage) -> None:
    assert alter(stage, SECOND, "new", 0, 1, 2) == [Code.UNKNOWN_TOPIC_OR_PARTITION] * 3
    stage.create("new", 3)
    assert {partition.home.path for partition in stage.nodes[1].replicas.partitions.values()} == {
        SECOND
    }


def cordoned(stage: Stage) -> list[str]:
    row = stage.wire().ask(DESCRIBE_LOG_DIRS, DESCRIBE_LOG_DIRS.request(topics=None))
    return [each.log_dir for each in row.results if each.is_cordoned]


def homes(stage: Stage, topic: str) -> set[str]:
    replicas = stage.nodes[1].replicas.partitions.values()
    return {each.home.path for each in replicas if each.topic == topic}


def cordon(stage: Stage, value: str, operation: int = SET) -> Code:
    request = INCREMENTAL_ALTER_CONFIGS.request
    row = request.resources.configs(
        name="cordoned.log.dirs", config_operation=operation, value=value
    )
    resource = request.resources(resource_type=BROKER, resource_name="1", configs=[row])
    wire = stage.wire()
    answer = wire.ask(INCREMENTAL_ALTER_CONFIGS, request(resources=[resource])).responses[0]
    return Code(answer.error_code)


def create_code(stage: Stage, name: str) -> Code:
    request = CREATE_TOPICS.request
    row = request.topics(name=name, num_partitions=1, replication_factor=1)
    return Code(stage.wire().ask(CREATE_TOPICS, request(topics=[row])).topics[0].error_code)


def test_new_replicas_are_in_no_cordoned_directory(stage: Stage) -> None:
    stage.create("before", 2)
    assert (cordoned(stage), homes(stage, "before")) == ([], {FIRST, SECOND})

    assert cordon(stage, FIRST) is Code.NONE
    stage.create("t", 4)
    assert (cordoned(stage), homes(stage, "t")) == ([FIRST], {SECOND})
    assert homes(stage, "before") == {FIRST, SECOND}, "what is there stays"
    for index in range(2):
        sent = produce("before", batch(b"1"), partition=index)
        assert produced(stage.wire().ask(PRODUCE, sent)).error_code == 0

    assert cordon(stage, SECOND, APPEND) is Code.NONE
    assert cordoned(stage) == [FIRST, SECOND]
    assert create_code(stage, "none") is Code.INVALID_REPLICATION_FACTOR
    assert cordon(stage, SECOND, SUBTRACT) is Code.NONE
    stage.wait(lambda: create_code(stage, "again") is Code.NONE)


def test_no_replica_moves_to_a_cordoned_directory(stage: Stage) -> None:
    stage.create("t")
    home = stage.partition("t").home.path
    other = SECOND if home == FIRST else FIRST
    assert cordon(stage, other) is Code.NONE
    assert alter(stage, other) == [Code.INVALID_REPLICA_ASSIGNMENT]
    assert alter(stage, other, "t", 7) == [Code.INVALID_REPLICA_ASSIGNMENT]
    assert alter(stage, home) == [Code.NONE]

    assert cordon(stage, home) is Code.NONE
    assert alter(stage, home) == [Code.NONE], "it lies there"
    assert alter(stage, other) == [Code.NONE]
    stage.wait(lambda: moved(stage, other))


def test_only_directories_of_the_broker_can_be_cordoned(stage: Stage) -> None:
    assert cordon(stage, "/nowhere") is Code.INVALID_REQUEST
    assert cordon(stage, f"{FIRST},/nowhere", APPEND) is Code.INVALID_REQUEST
    assert cordon(stage, "/nowhere", SUBTRACT) is Code.NONE
    assert cordoned(stage) == []
    given = stage.properties(1) | {"cordoned.log.dirs": "/nowhere"}
    with pytest.raises(SettingError, match=r"must be present in log\.dirs or log\.dir"):
        NodeSettings.from_properties(given)


def test_the_properties_file_cordons_until_a_setting_says_otherwise() -> None:
    with Stage(log_dirs=f"{FIRST},{SECOND}", cordoned_log_dirs="*") as stage:
        assert cordoned(stage) == [FIRST, SECOND]
        assert create_code(stage, "t") is Code.INVALID_REPLICATION_FACTOR
        stage.set(BROKER, "1", cordoned_log_dirs="")
        assert cordoned(stage) == []
        stage.wait(lambda: create_code(stage, "t") is Code.NONE)


def test_a_broker_whose_other_directory_failed_gets_no_new_replica(stage: Stage) -> None:
    stage.create("t", 2)
    assert cordon(stage, FIRST) is Code.NONE
    index = next(i for i in range(2) if stage.partition("t", i).home.path == SECOND)
    stage.world.disk("n1").broken.add(SECOND)
    wire = stage.wire()
    wire.request(PRODUCE, produce("t", batch(b"1"), partition=index))
    assert wire.frame() is None
    names = (f"u{number}" for number in count())  # the controller hears of it with a heartbeat
    stage.wait(lambda: create_code(stage, next(names)) is Code.INVALID_REPLICATION_FACTOR)


def test_a_replica_moves_with_all_it_has(stage: Stage) -> None:
    filled(stage)
    partition, before = stage.partition("t"), content(stage)
    home, epochs, old = partition.home.path, partition.log.epochs.entries(), partition.log
    target = SECOND if home == FIRST else FIRST
    assert alter(stage, target) == [Code.NONE]
    (future,) = [value for value in described(stage)[target].values() if value[2]]
    assert future[1] > 0
    stage.wait(lambda: moved(stage, target))

    assert content(stage) == before
    assert (partition.log.epochs.entries(), partition.log.flushed_offset) == (epochs, 8)
    assert [sorted(each) for each in described(stage).values()] == (
        [[], [("t", 0)]] if target == SECOND else [[("t", 0)], []]
    )
    assert produced(stage.wire().ask(PRODUCE, produce("t", batch(b"9")))).base_offset == 8
    assert fetched(stage.wire().ask(FETCH, fetch("t", 8))).high_watermark == 9
    disk = stage.world.disk("n1")
    assert disk.find(f"{home}/t-0") is None
    stage.world.run(stage.world.now + old.config.file_delete_delay_ms / 1000 + 1)
    assert not [name for name in disk.directory(home).entries if name.startswith("t-0")]

    stage.kill(1, power_loss=True)
    stage.start(1)
    stage.wait(
        lambda: stage.nodes[1].ready.is_set() and ("t", 0) in stage.nodes[1].replicas.partitions
    )
    assert content(stage)[: len(before)] == before
    assert moved(stage, target)


def test_a_replica_moves_to_and_fro(stage: Stage) -> None:
    """The folder that a move leaves behind waits a minute for its end; the next move leaves another
    one.
    """
    filled(stage, 3)
    before = content(stage)
    for number in range(6):
        assert alter(stage, SECOND if stage.partition("t").home.path == FIRST else FIRST) == [
            Code.NONE
        ]
        stage.wait(lambda: not stage.nodes[1].housekeeping.mover.moves)
        assert (
            produced(stage.wire().ask(PRODUCE, produce("t", batch(b"x")))).base_offset == 3 + number
        )
    assert content(stage)[: len(before)] == before
    assert not stage.events("log_directory_move_failed")
    stage.world.run(stage.world.now + 100.0)
    disk = stage.world.disk("n1")
    assert [
        name
        for path in (FIRST, SECOND)
        for name in disk.directory(path).entries
        if name.startswith("t-0")
    ] == ["t-0"]


@pytest.mark.parametrize("syncs", range(1, 12))
def test_a_disk_that_fails_while_names_change_costs_nothing_that_was_acknowledged(
    stage: Stage, syncs: int
) -> None:
    """Each time another flush of the directory that is left or entered; with the other one the
    broker goes on.
    """
    filled(stage, 2)
    if stage.partition("t").home.path == FIRST:
        alter(stage, SECOND)
        stage.wait(lambda: moved(stage, SECOND))
    before, disk, end_move = content(stage), stage.world.disk("n1"), stage.nodes[1].logs.end_move

    def failing(*given: Any) -> Any:
        disk.failing_under, disk.failing_syncs = SECOND, 1
        disk.syncs_before_failing = syncs - 1
        return end_move(*given)

    stage.nodes[1].logs.end_move = failing  # type: ignore[method-assign, assignment]
    alter(stage, FIRST)
    stage.wait(lambda: not stage.nodes[1].housekeeping.mover.moves)
    disk.failing_syncs = 0
    assert not stage.world.failures
    stage.kill(1, power_loss=True)
    stage.start(1)
    stage.wait(lambda: is_back(stage))
    assert not stage.refused
    stage.wait(lambda: stage.partition("t").leader is not None)
    assert content(stage) == before


def test_a_copy_that_finds_no_room_harms_nobody(stage: Stage) -> None:
    filled(stage)
    home = stage.partition("t").home.path
    stage.world.disk("n1").room_bytes = 3 * PIECE_BYTES // 2
    assert alter(stage, SECOND if home == FIRST else FIRST) == [Code.NONE]
    stage.wait(lambda: not stage.nodes[1].housekeeping.mover.moves)
    stage.world.disk("n1").room_bytes = None
    assert stage.events("log_directory_move_failed")
    assert stage.nodes[1].logs.offline == {}
    assert stage.partition("t").home.path == home
    assert produced(stage.wire().ask(PRODUCE, produce("t", batch(b"1")))).base_offset == 8


@pytest.mark.parametrize("broken", [FIRST, SECOND])
def test_a_directory_that_fails_during_a_move_is_the_one_that_is_given_up(
    stage: Stage, broken: str
) -> None:
    """The error of a read or a write does not say where it was."""
    filled(stage)
    stage.set(BROKER, "1", replica_alter_log_dirs_io_max_bytes_per_second=str(PIECE_BYTES))
    alter(stage, SECOND if stage.partition("t").home.path == FIRST else FIRST)
    stage.world.run(stage.world.now + 1.0)
    stage.world.disk("n1").broken.add(broken)
    stage.world.run(stage.world.now + 3.0)
    assert not stage.nodes[1].housekeeping.mover.moves
    assert set(stage.nodes[1].logs.offline) <= {broken}


@pytest.mark.parametrize("target", [FIRST, SECOND])
def test_a_log_that_cannot_be_opened_under_its_new_name_takes_nothing_more(
    stage: Stage, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old one lies where the next start removes it."""
    filled(stage)
    if stage.partition("t").home.path == target:
        alter(stage, SECOND if target == FIRST else FIRST)
        stage.wait(lambda: not stage.nodes[1].housekeeping.mover.moves)
    before = content(stage)
    open_log, end_move = Log.open, stage.nodes[1].logs.end_move

    def cannot(*_: Any, **__: Any) -> Log:
        raise OSError(errno.EIO, "no")

    def watched(*given: Any) -> Any:
        monkeypatch.setattr(Log, "open", cannot)
        return end_move(*given)

    monkeypatch.setattr(stage.nodes[1].logs, "end_move", watched)
    alter(stage, target)
    stage.wait(lambda: not stage.nodes[1].housekeeping.mover.moves)
    monkeypatch.setattr(Log, "open", open_log)
    wire = stage.wire()
    wire.request(PRODUCE, produce("t", batch(b"lost?")))
    answer = wire.answer(PRODUCE)
    assert produced(answer).error_code in (Code.KAFKA_STORAGE_ERROR, Code.NOT_LEADER_OR_FOLLOWER)
    assert target == FIRST or list(stage.nodes[1].logs.offline) == [SECOND]
    stage.kill(1, power_loss=True)
    stage.start(1)
    stage.wait(lambda: is_back(stage))
    assert stage.partition("t").home.path == target
    assert content(stage) == before


@pytest.mark.parametrize("start", [5, 6])
def test_what_batches_do_not_tell_moves_too(stage: Stage, start: int) -> None:
    """An epoch in which nothing was written, a log start inside a batch, producers whose batches
    are deleted.
    """
    filled(stage, 4)
    partition = stage.partition("t")
    target = SECOND if partition.home.path == FIRST else FIRST
    idempotent = batch(b"1", b"2", producer_id=9, producer_epoch=0, base_sequence=0)
    assert produced(stage.wire().ask(PRODUCE, produce("t", idempotent))).base_offset == 4
    partition.delete_before(start)
    assert produced(stage.wire().ask(PRODUCE, produce("t", batch(b"3")))).base_offset == 6
    partition.log.assign_epoch(7)
    epochs, producers = partition.log.epochs.entries(), dict(partition.log.producers.producers)
    alter(stage, target)
    stage.wait(lambda: moved(stage, target))
    assert (
        partition.log.epochs.entries(),
        partition.log.latest_epoch,
        partition.log.start_offset,
    ) == (epochs, 7, start)
    assert partition.log.producers.producers == producers

    stage.kill(1, power_loss=True)
    stage.start(1)
    stage.wait(
        lambda: stage.nodes[1].ready.is_set() and ("t", 0) in stage.nodes[1].replicas.partitions
    )
    assert stage.partition("t").log.start_offset == start
    assert produced(stage.wire().ask(PRODUCE, produce("t", idempotent))).base_offset == 4, (
        "a duplicate"
    )


def test_a_move_is_called_off_or_sent_elsewhere(stage: Stage) -> None:
    filled(stage)
    home = stage.partition("t").home.path
    target = SECOND if home == FIRST else FIRST
    stage.set(BROKER, "1", replica_alter_log_dirs_io_max_bytes_per_second="100000")
    alter(stage, target)
    stage.world.run(stage.world.now + 1.0)
    assert stage.nodes[1].housekeeping.mover.moves
    assert alter(stage, home) == [Code.NONE]

    assert moved(stage, home)
    assert not [
        name for name in stage.world.disk("n1").directory(target).entries if name.startswith("t-0")
    ]
    stage.set(BROKER, "1", replica_alter_log_dirs_io_max_bytes_per_second=None)
    alter(stage, target)
    stage.wait(lambda: moved(stage, target))


def test_a_move_keeps_to_its_rate(stage: Stage) -> None:
    filled(stage)
    target = SECOND if stage.partition("t").home.path == FIRST else FIRST
    stage.set(BROKER, "1", replica_alter_log_dirs_io_max_bytes_per_second=str(PIECE_BYTES))
    began = stage.world.now
    alter(stage, target)
    stage.wait(lambda: moved(stage, target))
    assert 1.5 < stage.world.now - began < 3.0


def test_what_the_present_log_loses_meanwhile_the_future_one_loses(stage: Stage) -> None:
    filled(stage)
    partition = stage.partition("t")
    target = SECOND if stage.partition("t").home.path == FIRST else FIRST
    stage.set(BROKER, "1", replica_alter_log_dirs_io_max_bytes_per_second=str(PIECE_BYTES))
    alter(stage, target)
    move: Move = stage.nodes[1].housekeeping.mover.moves[partition]
    stage.wait(lambda: move.future.flushed_offset == 8 - 2 or move.future.end_offset >= 6)
    partition.log.truncate_to(3)
    partition.log.assign_epoch(partition.leader_epoch + 1)
    partition.log.client_batches.append(
        memoryview(bytearray(batch(b"other"))), partition.leader_epoch + 1, EPOCH_MS
    )
    partition.log.write_staged()
    before = content(stage)
    stage.wait(lambda: moved(stage, target))
    assert content(stage) == before
    assert partition.log.end_offset == 4


def test_a_topic_that_is_deleted_takes_its_future_with_it(stage: Stage) -> None:
    filled(stage)
    target = SECOND if stage.partition("t").home.path == FIRST else FIRST
    stage.set(BROKER, "1", replica_alter_log_dirs_io_max_bytes_per_second="1000")
    alter(stage, target)
    stage.world.run(stage.world.now + 1.0)
    stage.delete("t")
    stage.wait(lambda: not stage.nodes[1].replicas.partitions)
    assert not stage.nodes[1].housekeeping.mover.moves
    assert not [
        name for name in stage.world.disk("n1").directory(target).entries if name.startswith("t-0")
    ]


def test_the_next_process_goes_on_with_a_move(stage: Stage) -> None:
    filled(stage)
    target, before = SECOND if stage.partition("t").home.path == FIRST else FIRST, content(stage)
    stage.set(BROKER, "1", replica_alter_log_dirs_io_max_bytes_per_second="1000")
    alter(stage, target)
    stage.world.run(stage.world.now + 1.0)
    stage.kill(1, power_loss=True)
    stage.start(1)
    stage.wait(
        lambda: stage.nodes[1].ready.is_set() and ("t", 0) in stage.nodes[1].replicas.partitions
    )
    stage.set(BROKER, "1", replica_alter_log_dirs_io_max_bytes_per_second=None)
    stage.wait(lambda: moved(stage, target), 600.0)
    assert content(stage) == before


class PowerCut:
    """The power goes at one of the file calls by which names change."""

    def __init__(self, stage: Stage, at: int) -> None:
        self.stage, self.left, self.changing = stage, at, False
        self.original, self.end_move = NodeFiles.note, stage.nodes[1].logs.end_move

    def plant(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def note(files: NodeFiles, kind: bytes, a: int, b: int) -> None:
            self.note(files, kind, a, b)

        monkeypatch.setattr(NodeFiles, "note", note)
        monkeypatch.setattr(self.stage.nodes[1].logs, "end_move", self.change)

    def note(self, files: NodeFiles, kind: bytes, a: int, b: int) -> None:
        self.left -= self.changing
        if self.changing and self.left == 0:
            self.stage.world.kill("n1", power_loss=True)
        self.original(files, kind, a, b)

    def change(self, *given: Any) -> Any:
        self.changing = True
        found = self.end_move(*given)
        self.changing = False
        return found


def is_back(stage: Stage) -> bool:
    return 1 in stage.refused or (
        stage.nodes[1].ready.is_set() and ("t", 0) in stage.nodes[1].replicas.partitions
    )


def change_with_power_cut(at: int, keeps_nothing: bool) -> bool:
    """False: it was through before. The next start finds one log and all of it, and so does the one
    behind it.
    """
    with (
        Stage(seed=at, log_dirs=f"{FIRST},{SECOND}") as stage,
        pytest.MonkeyPatch.context() as monkeypatch,
    ):
        filled(stage, 3)
        before = content(stage)
        target = SECOND if stage.partition("t").home.path == FIRST else FIRST
        stage.world.disk("n1").keeps_nothing = keeps_nothing
        cut = PowerCut(stage, at)
        cut.plant(monkeypatch)
        alter(stage, target)
        stage.wait(lambda: cut.left <= 0 or moved(stage, target))
        monkeypatch.undo()
        for _ in range(2 if cut.left <= 0 else 0):
            stage.nodes.pop(1)
            stage.start(1)
            stage.wait(lambda: is_back(stage))
            assert not stage.refused, at
            assert content(stage) == before, at
            stage.wait(lambda: not stage.nodes[1].housekeeping.mover.moves)
            assert content(stage) == before, at
            stage.world.kill("n1", power_loss=True)
        return cut.left <= 0


@pytest.mark.parametrize("keeps_nothing", [True, False])
def test_the_power_goes_at_every_file_call_of_the_change(keeps_nothing: bool) -> None:
    at = 1
    while change_with_power_cut(at, keeps_nothing):
        at += 1
    assert at > 15


@pytest.mark.parametrize("written", [0, 1])
def test_a_log_whose_names_an_earlier_process_did_not_flush(
    written: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had made the log, written to it perhaps, and ended before it came to flush; the next
    claims what it finds, and only then the power goes.
    """
    with Stage() as stage:
        stage.world.disk("n1").keeps_nothing = True
        stage.create("t")
        if written:
            monkeypatch.setattr(Partition, "flush", lambda _host: None)
            stage.wire().request(PRODUCE, produce("t", batch(b"0")), 12)
            stage.wait(lambda: bool(stage.partition("t").log.written_offset))
            monkeypatch.undo()
        stage.kill(1)
        stage.start(1)
        stage.wait(lambda: is_back(stage) and stage.leader("t") == 1)
        if not written:
            assert produced(stage.wire().ask(PRODUCE, produce("t", batch(b"0")))).error_code == 0

        stage.kill(1, power_loss=True)
        stage.start(1)
        stage.wait(lambda: is_back(stage) and stage.leader("t") == 1)

        assert stage.partition("t").log.end_offset == 1
