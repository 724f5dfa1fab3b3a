"""The part of a node in a backup: commits that wait, logs that are cut at their high watermark,
files that are read and dropped.
"""

from collections.abc import Iterator

import pytest

from raftka.broker.logs.backup_stage import KEPT_S
from raftka.limits import BACKUP_HOLD_MS, BACKUP_READ_BYTES
from raftka.log.directory import BACKUP
from raftka.metadata.image import MetadataImage
from raftka.wire.errors import Code
from raftka.wire.messages.api_versions import API_VERSIONS
from raftka.wire.messages.backup import (
    BACKUP_CUT,
    BACKUP_DROP,
    BACKUP_HOLD,
    BACKUP_METADATA,
    BACKUP_READ,
    BackupCutPartitionResult,
    BackupHoldResponse,
)
from raftka.wire.messages.produce import PRODUCE
from raftka.wire.software import SOFTWARE_NAME
from tests.broker.conftest import Lower
from tests.broker.denying import Deny
from tests.broker.requests import batch, produce
from tests.broker.stage import Stage
from tests.kit.broker.transactions import Client, settled

ID, OTHER = "one", "two"


@pytest.fixture
def stage() -> Iterator[Stage]:
    with Stage() as stage:
        stage.create("t", 2)
        yield stage


@pytest.fixture
def three() -> Iterator[Stage]:
    with Stage(3) as stage:
        stage.create("t", 1)
        yield stage


def hold(stage: Stage, ms: int = 5_000, backup_id: str = ID) -> BackupHoldResponse:
    row = BACKUP_HOLD.request(backup_id=backup_id, hold_ms=ms)
    return stage.wire().ask(BACKUP_HOLD, row)


def cut(
    stage: Stage, at_least: int = -1, *, node_id: int = 1, topic: str = "t"
) -> BackupCutPartitionResult:
    asked = BACKUP_CUT.request.topics
    row = asked(name=topic, partitions=[asked.partitions(index=0, at_least=at_least)])
    answer = stage.wire(node_id).ask(BACKUP_CUT, BACKUP_CUT.request(backup_id=ID, topics=[row]))
    assert answer.error_code == 0
    return answer.topics[0].partitions[0]


def write(stage: Stage, size: int = 100, acks: int = -1) -> None:
    row = produce("t", batch(b"v" * size))
    row.acks = acks
    stage.wire(stage.leader("t")).ask(PRODUCE, row)


# commits


def in_transaction(stage: Stage) -> Client:
    client = Client(stage)
    client.init()
    assert client.add(("t", 0)) == [0]
    assert client.produce("t") == 0
    return client


def test_commits_wait_while_a_backup_is_cut(stage: Stage) -> None:
    client = in_transaction(stage)
    first = hold(stage)
    assert (first.error_code, first.held, first.pending) == (0, False, 0)

    assert client.end() == Code.CONCURRENT_TRANSACTIONS
    assert client.describe().transaction_state == "Ongoing"

    assert hold(stage, 0).held
    assert client.end() == 0
    settled(client, "CompleteCommit")


def test_aborts_go_on_while_commits_are_held(stage: Stage) -> None:
    client = in_transaction(stage)
    hold(stage)

    assert client.end(commit=False) == 0

    settled(client, "CompleteAbort")
    assert hold(stage).held


def test_a_hold_ends_by_itself_and_says_so(stage: Stage) -> None:
    client = in_transaction(stage)
    hold(stage, 2_000)
    stage.world.run(stage.world.now + 2.1)

    assert not hold(stage, 0).held
    assert client.end() == 0


def test_a_commit_without_its_markers_is_pending(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = []
    coordinator = stage.nodes[1].transactions
    client = in_transaction(stage)
    for partition in coordinator.runtime.partitions.values():
        monkeypatch.setattr(partition.machine, "_send_markers", lambda *write: sent.append(write))
    assert client.end() == 0

    assert hold(stage).pending == 1

    coordinator.sender.send(*sent[0])
    settled(client, "CompleteCommit")
    assert hold(stage).pending == 0


def test_one_backup_at_a_time(stage: Stage) -> None:
    hold(stage)

    refused = hold(stage, backup_id=OTHER)
    assert refused.error_code == Code.INVALID_REQUEST
    assert refused.error_message == "backup one is being made on this node"
    assert hold(stage, backup_id="../x").error_code == Code.INVALID_REQUEST

    stage.wire().ask(BACKUP_DROP, BACKUP_DROP.request(backup_id=OTHER))
    assert hold(stage, backup_id=OTHER).error_code == Code.INVALID_REQUEST
    stage.wire().ask(BACKUP_DROP, BACKUP_DROP.request(backup_id=ID))
    assert hold(stage, backup_id=OTHER).error_code == 0


# logs


def test_a_log_is_cut_at_its_end_and_can_be_read(stage: Stage) -> None:
    for size in (100, 100_000, 10):
        write(stage, size)
    log = stage.partition("t").log
    whole = b"".join(segment.file.read(0, segment.size) for segment in log.segments)

    found = cut(stage)

    assert (found.error_code, found.start_offset, found.end_offset) == (0, 0, 3)
    assert sum(each.size for each in found.segments) == len(whole)
    write(stage)
    read = b""
    for each in found.segments:
        position = 0
        while part := at(stage, each.path, position, 40_000).data:
            read, position = read + part, position + len(part)
    assert read == whole


def at(stage: Stage, path: str, position: int, size: int):  # type: ignore[no-untyped-def]
    row = BACKUP_READ.request(backup_id=ID, path=path, position=position, max_bytes=size)
    return stage.wire().ask(BACKUP_READ, row)


def test_an_empty_log_has_no_file(stage: Stage) -> None:
    found = cut(stage)

    assert (found.error_code, found.end_offset, list(found.segments)) == (0, 0, [])


def test_only_files_of_the_backup_are_read(stage: Stage) -> None:
    write(stage)
    (segment,) = cut(stage).segments

    for path in ("/etc/passwd", f"{segment.path}/../x", "", segment.path + "x"):
        assert at(stage, path, 0, 10).error_code == Code.INVALID_REQUEST
    assert at(stage, segment.path, -1, 10).error_code == Code.INVALID_REQUEST
    assert at(stage, segment.path, segment.size, 10).data == b""
    assert at(stage, segment.path, 0, -5).data == b""


def test_a_cut_waits_for_what_is_not_committed(three: Stage) -> None:
    """A record with acks=1 is acknowledged before it is committed: the cut comes behind it."""
    write(three)
    leader = three.leader("t")
    partition = three.partition("t", 0, leader)
    followers = [node for node in three.nodes if node != leader]
    for node in followers:
        three.world.network.cut(f"n{leader}", f"n{node}")
    write(three, acks=1)
    waits = cut(three, node_id=leader)
    assert (waits.error_code, waits.at_least) == (Code.OFFSET_NOT_AVAILABLE, 2)
    assert partition.high_watermark == 1
    three.world.network.heal()
    three.wait(lambda: partition.high_watermark == 2)
    assert cut(three, 2, node_id=leader).end_offset == 2


def test_only_the_leader_cuts(three: Stage) -> None:
    leader = three.leader("t")
    for node in three.nodes:
        code = cut(three, node_id=node).error_code
        assert code == (0 if node == leader else Code.NOT_LEADER_OR_FOLLOWER)
    assert cut(three, topic="unknown", node_id=leader).error_code == Code.NOT_LEADER_OR_FOLLOWER


def test_files_of_a_backup_go_when_it_is_dropped_or_forgotten(stage: Stage) -> None:
    files = stage.nodes[1].runtime.files
    write(stage)
    for forget in (
        lambda: stage.wire().ask(BACKUP_DROP, BACKUP_DROP.request(backup_id=ID)),
        lambda: stage.world.run(stage.world.now + KEPT_S + 1),
    ):
        (segment,) = cut(stage).segments
        home = stage.partition("t").home.path
        assert files.list(f"{home}/{BACKUP}") == [ID]
        forget()
        assert files.list(f"{home}/{BACKUP}") == []
        assert at(stage, segment.path, 0, 10).error_code == Code.INVALID_REQUEST
        stage.wire().ask(BACKUP_DROP, BACKUP_DROP.request(backup_id=ID))


def test_a_start_removes_the_files_of_a_backup(stage: Stage) -> None:
    write(stage)
    cut(stage)
    home = stage.partition("t").home.path

    stage.kill(1)
    stage.start(1)

    assert not stage.nodes[1].runtime.files.exists(f"{home}/{BACKUP}")


# metadata and rights


def test_metadata_have_all_that_was_committed(stage: Stage) -> None:
    stage.create("later")
    answer = stage.wire().ask(BACKUP_METADATA, BACKUP_METADATA.request())

    assert answer.error_code == 0
    image = MetadataImage.from_snapshot(bytes(answer.image))
    assert {"t", "later"} <= image.topic_ids.keys()
    assert image.to_snapshot() == stage.nodes[1].image.to_snapshot()


def test_a_backup_needs_alter_on_the_cluster(stage: Stage) -> None:
    stage.nodes[1].dispatcher.authorizer = Deny("ALTER")
    wire = stage.wire()
    read = BACKUP_READ.request(backup_id=ID, path="x", position=0, max_bytes=1)
    answers = (
        hold(stage).error_code,
        wire.ask(BACKUP_CUT, BACKUP_CUT.request(backup_id=ID, topics=[])).error_code,
        wire.ask(BACKUP_METADATA, BACKUP_METADATA.request()).error_code,
        wire.ask(BACKUP_READ, read).error_code,
        wire.ask(BACKUP_DROP, BACKUP_DROP.request(backup_id=ID)).error_code,
    )
    assert answers == (Code.CLUSTER_AUTHORIZATION_FAILED,) * 5
    stage.nodes[1].dispatcher.authorizer = Deny("none")
    assert not hold(stage).held


def test_only_tools_of_raftka_are_shown_the_apis(stage: Stage) -> None:
    for software, shown in ((SOFTWARE_NAME, True), ("apache-kafka-java", False)):
        row = API_VERSIONS.request(client_software_name=software, client_software_version="1")
        keys = {each.api_key for each in stage.wire().ask(API_VERSIONS, row).api_keys}
        assert (BACKUP_HOLD.key in keys) is shown


# limits


def test_backup_hold_ms(stage: Stage) -> None:
    client = in_transaction(stage)
    hold(stage, 1_000_000)

    assert stage.counted(BACKUP_HOLD_MS.metric) == 1
    stage.world.run(stage.world.now + BACKUP_HOLD_MS.value / 1000 + 0.1)
    assert client.end() == 0


def test_backup_read_bytes(stage: Stage, lowered: Lower) -> None:
    lowered(BACKUP_READ_BYTES, 50)
    write(stage)
    (segment,) = cut(stage).segments

    assert len(at(stage, segment.path, 0, 100).data) == 50
    assert stage.counted(BACKUP_READ_BYTES.metric) == 1
