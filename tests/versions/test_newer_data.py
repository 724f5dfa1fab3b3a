"""A planted newer version of each format is refused in one sentence, and its files stay as they
are.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

import msgpack
import pytest
import trio

import raftka.cluster
from raftka.broker.refusal import describe_error
from raftka.checksum import crc32c
from raftka.client.blocking.client import Client, check
from raftka.client.blocking.connection import addresses_of
from raftka.client.blocking.producer import Producer
from raftka.client.blocking.transaction import begin, end
from raftka.coordinator import records as offsets
from raftka.coordinator.consumer import records as consumer
from raftka.coordinator.machine import Record
from raftka.coordinator.transactions import records as transactions
from raftka.log.directory import LogDirectoryError
from raftka.metadata.configs.settings import METADATA_DIRECTORY
from raftka.metadata.image import MetadataImage
from raftka.metadata.quorum.journal_format import (
    CHECK,
    RECORD,
    RECORD_HEAD,
    SNAPSHOT,
    Kind,
    decode_journal,
    encode_item,
    encode_record,
    encode_snapshot,
)
from raftka.metadata.quorum.raft_types import REGULAR
from raftka.metadata.records import ExtensionPut, FeatureLevelSet, encode_batch
from raftka.pipeline.errors import PipelineError
from raftka.pipeline.topics.decisions import _content
from raftka.registry.records import read_key
from raftka.runtime.real.runtime import NodeFailed
from raftka.versions import LEVELS, METADATA_SNAPSHOT, RAFTKA_VERSION, NewerFormat
from raftka.wire.messages.offsets import OFFSET_COMMIT
from raftka.wire.messages.topics import CREATE_TOPICS
from raftka.wire.records import Record as NewRecord
from raftka.wire.records import build_batch
from tests.kit.versions.fingerprint import fingerprint
from zookeeper_bridge.tree import store

SETTINGS = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
BY_NAME = 9  # the last version of OffsetCommit with names of topics
Plant = Callable[[Path], None]


def write_all(servers: str) -> None:
    """An aborted transaction leaves an index, and each producer a snapshot; both coordinators
    have their topics.
    """
    create = CREATE_TOPICS.request.topics(name="t", num_partitions=1, replication_factor=1)
    commit = OFFSET_COMMIT.request
    partition = commit.topics.partitions(partition_index=0, committed_offset=7)
    commits = commit(group_id="g", topics=[commit.topics(name="t", partitions=[partition])])
    with Client(addresses_of(servers), "test") as client:
        created = client.ask_controller(CREATE_TOPICS, CREATE_TOPICS.request(topics=[create]))
        check(created.topics[0].error_code, "t")
        answer = client.ask_coordinator("g", OFFSET_COMMIT, commits, BY_NAME)
        check(answer.topics[0].partitions[0].error_code, "g")
        identity = begin(client, "id", 60_000)
        producer = Producer(client, identity=identity)
        producer.add(("t", 0), (b"key", b"value", (), 1_700_000_000_000))
        producer.flush()
        end(client, identity, commit=False)


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a node that was stopped in order."""
    folder = tmp_path_factory.mktemp("left")

    async def fill() -> None:
        async with raftka.cluster.launch(1, data=folder, properties=SETTINGS) as cluster:
            await trio.to_thread.run_sync(write_all, cluster.bootstrap_servers)

    trio.run(fill)
    return folder


@pytest.fixture
def folder(left: Path, tmp_path: Path) -> Path:
    shutil.copytree(left, tmp_path / "copy")
    return tmp_path / "copy"


@pytest.fixture
def data(folder: Path) -> Path:
    return folder / "node-1" / "data"


async def start(folder: Path) -> None:
    async with raftka.cluster.launch(1, data=folder, properties=SETTINGS):
        pass


async def test_without_a_plant_the_node_starts(folder: Path) -> None:
    await start(folder)


def replaced(name: str, before: bytes, after: bytes) -> Plant:
    def plant(data: Path) -> None:
        path = data / name
        content = path.read_bytes()
        assert before in content, content[:100]
        path.write_bytes(content.replace(before, after, 1))

    return plant


def with_first_line(name: str, line: bytes) -> Plant:
    def plant(data: Path) -> None:
        _, _, rest = (data / name).read_bytes().partition(b"\n")
        (data / name).write_bytes(line + b"\n" + rest)

    return plant


def with_record(body: Callable[[int, int], list[bytes]], magic: bytes = b"") -> Plant:
    """Append a record to the journal. `body` gets the index and the term of the next entry."""

    def plant(data: Path) -> None:
        path = data / METADATA_DIRECTORY / "journal"
        content = path.read_bytes()
        items, number, end_of_records = decode_journal(content)
        entries = [item for item in items if item.kind == Kind.ENTRY]
        record = b"".join(encode_record(number + 1, body(entries[-1].a + 1, entries[-1].b)))
        if magic:
            head = magic + record[len(magic) : RECORD.size]
            record = head + CHECK.pack(crc32c(head)) + record[RECORD_HEAD:]
        path.write_bytes(content[:end_of_records] + record)

    return plant


def entry(command: Callable[[int], bytes]) -> Callable[[int, int], list[bytes]]:
    return lambda index, term: encode_item(Kind.ENTRY, index, term, REGULAR + command(index))


def snapshot(state: bytes, digit: bytes = b"1") -> Plant:
    def plant(data: Path) -> None:
        whole = encode_snapshot(1, 1, state)
        head = whole[:3] + digit + whole[4 : SNAPSHOT.size]
        rest = CHECK.pack(crc32c(head)) + whole[SNAPSHOT.size + CHECK.size :]
        (data / METADATA_DIRECTORY / "snapshot").write_bytes(head + rest)

    return plant


def image_of_version(version: int) -> bytes:
    values = msgpack.unpackb(MetadataImage().to_snapshot(), use_list=True, strict_map_key=False)
    packed: bytes = msgpack.packb([version, *values[1:]])
    return packed


NEWER = LEVELS[-1].number + 1
OWN_LEVEL = b"raftka.version=%d" % LEVELS[-1].number
AT_START: dict[str, tuple[Plant, str]] = {
    "meta.properties": (
        replaced("meta.properties", b"version=1", b"version=2"),
        "version 2 of meta.properties",
    ),
    "level of a log directory": (
        replaced("meta.properties", OWN_LEVEL, b"raftka.version=%d" % NEWER),
        f"raftka.version {NEWER}",
    ),
    "recovery points": (
        with_first_line("recovery-point-offset-checkpoint", b"1"),
        "version 1 of checkpoints",
    ),
    "high watermarks": (
        with_first_line("replication-offset-checkpoint", b"1"),
        "version 1 of checkpoints",
    ),
    "clean shutdown": (
        replaced(".kafka_cleanshutdown", b'"version":0', b'"version":1'),
        "version 1 of the mark of a clean shutdown",
    ),
    "starts": (
        with_first_line(f"{METADATA_DIRECTORY}/starts", b"1"),
        "version 1 of the counter of starts",
    ),
    "kind of a metadata record": (
        with_record(entry(lambda index: msgpack.packb((index, [(900, 0, ())])))),
        "version 0 of record 900",
    ),
    "version of a metadata record": (
        with_record(entry(lambda index: msgpack.packb((index, [(22, 1, (b"", 0))])))),
        "version 1 of record 22",
    ),
    "level of the cluster": (
        with_record(entry(lambda i: encode_batch([FeatureLevelSet(RAFTKA_VERSION, NEWER)], i))),
        f"raftka.version {NEWER}",
    ),
    "level of Kafka": (
        with_record(entry(lambda i: encode_batch([FeatureLevelSet("metadata.version", 34)], i))),
        "metadata.version 34",
    ),
    "item of the journal": (
        with_record(lambda index, term: encode_item(99)),  # type: ignore[arg-type]
        "version 99 of the items of the metadata journal",
    ),
    "record of the journal": (
        with_record(lambda index, term: encode_item(Kind.VOTE, term, 0), b"\xabRJ2"),
        "version 2 of the metadata journal",
    ),
    "snapshot of the metadata": (
        snapshot(image_of_version(METADATA_SNAPSHOT.newest + 1)),
        f"version {METADATA_SNAPSHOT.newest + 1} of the metadata snapshot",
    ),
    "file of the snapshot": (
        snapshot(b"", b"3"),
        "version 3 of the file of the metadata snapshot",
    ),
}


@pytest.mark.parametrize("name", AT_START)
async def test_newer_data_keep_a_node_from_starting_and_nothing_is_touched(
    folder: Path, data: Path, name: str
) -> None:
    plant, told = AT_START[name]
    plant(data)
    before = fingerprint(data)

    with pytest.raises(NewerFormat) as refused:
        await start(folder)

    assert told in str(refused.value)
    assert fingerprint(data) == before
    check_sentence(refused.value, folder)


@pytest.mark.parametrize("level", [b"abc", b"-2", b"9" * 5000])
async def test_a_level_that_cannot_be_read_keeps_a_node_from_starting(
    folder: Path, data: Path, level: bytes
) -> None:
    replaced("meta.properties", OWN_LEVEL, b"raftka.version=" + level)(data)
    before = fingerprint(data)

    with pytest.raises(LogDirectoryError, match=r"meta\.properties: raftka\.version=.* is damaged"):
        await start(folder)

    assert fingerprint(data) == before


def check_sentence(error: BaseException, folder: Path) -> None:
    (node,) = raftka.cluster.plan.plan_cluster(folder, [(1, 2)], SETTINGS)
    settings = raftka.cluster.embedded.EmbeddedNode(node).settings
    sentence = describe_error(error, settings)
    assert "\n" not in sentence
    assert ". " not in sentence
    assert "start a release that knows it" in sentence


def newer_snapshots(data: Path) -> None:
    paths = list((data / "t-0").glob("*.snapshot"))
    assert paths
    for path in paths:
        path.write_bytes(b"\0\2" + path.read_bytes()[2:])


def newer_transaction_index(data: Path) -> None:
    (path,) = [each for each in (data / "t-0").glob("*.txnindex") if each.stat().st_size]
    path.write_bytes(b"\0\1" + path.read_bytes()[2:])


IN_A_PARTITION: dict[str, tuple[Plant, str]] = {
    "partition.metadata": (
        replaced("t-0/partition.metadata", b"version: 0", b"version: 1"),
        "version 1 of partition.metadata",
    ),
    "leader epochs": (
        with_first_line("t-0/leader-epoch-checkpoint", b"1"),
        "version 1 of checkpoints",
    ),
    "producer snapshots": (newer_snapshots, "version 2 of producer snapshots"),
    "transaction index": (newer_transaction_index, "version 1 of transaction indexes"),
}


@pytest.mark.parametrize("name", IN_A_PARTITION)
async def test_newer_data_of_a_partition_end_the_node_and_the_partition_is_not_touched(
    folder: Path, data: Path, name: str
) -> None:
    plant, told = IN_A_PARTITION[name]
    plant(data)
    before = fingerprint(data / "t-0")

    with pytest.raises((NewerFormat, NodeFailed)) as refused:
        await start(folder)

    error = refused.value.__cause__ if isinstance(refused.value, NodeFailed) else refused.value
    assert isinstance(error, NewerFormat)
    assert told in str(error)
    assert str(error).startswith("t-0: ")  # a node has thousands of partitions
    assert fingerprint(data / "t-0") == before
    check_sentence(error, folder)


VALUES: dict[str, tuple[str, Record]] = {
    "committed offset": ("__consumer_offsets", Record(b"\0\1\0\1g\0\1t\0\0\0\0", b"\0\5later")),
    "classic group": ("__consumer_offsets", Record(offsets.group_key("g"), b"\0\5later")),
    "consumer group": (
        "__consumer_offsets",
        Record(consumer.FORM.key(consumer.GROUP, "g"), b"\0\1later"),
    ),
    "transactional id": (
        "__transaction_state",
        Record(transactions.transaction_key("i"), b"\0\2later"),
    ),
}


@pytest.mark.parametrize("name", VALUES)
async def test_newer_record_of_a_coordinator_stops_it_and_stays(
    folder: Path, data: Path, name: str
) -> None:
    topic, (key, value) = VALUES[name]
    (log,) = (data / f"{topic}-0").glob("*.log")
    end_offset = end_of(log.read_bytes())
    batch = build_batch(
        [(key, value, (), 1_700_000_000_000)], base_offset=end_offset, leader_epoch=0
    )
    log.write_bytes(log.read_bytes() + batch)
    (data / ".kafka_cleanshutdown").unlink()
    before = log.read_bytes()

    async with raftka.cluster.launch(1, data=folder, properties=SETTINGS):
        file = folder / "node-1" / "raftka.log"
        with trio.fail_after(60):
            while "coordinator_refused" not in file.read_text():  # noqa: ASYNC110  # files tell nobody
                await trio.sleep(0.01)
        (line,) = [each for each in file.read_text().splitlines() if "coordinator_refused" in each]

    assert "and this release reads up to version" in line
    assert log.read_bytes() == before


def end_of(content: bytes) -> int:
    at = end_offset = 0
    while at < len(content):
        base = int.from_bytes(content[at : at + 8], "big")
        end_offset = base + int.from_bytes(content[at + 23 : at + 27], "big") + 1
        at += 12 + int.from_bytes(content[at + 8 : at + 12], "big")
    return end_offset


@pytest.mark.parametrize("key", [b"n/x", b"c/x", b"s" + bytes(8)])
async def test_newer_znode_ends_a_node_with_a_bridge(folder: Path, data: Path, key: bytes) -> None:
    value = bytes([store.FORMAT + 1]) + bytes(60)
    plant = with_record(entry(lambda i: encode_batch([ExtensionPut(store.PACKAGE, key, value)], i)))
    plant(data)

    with pytest.raises((NewerFormat, NodeFailed)) as refused:
        async with raftka.cluster.launch(1, data=folder, properties=SETTINGS, bridge_port=0):
            await trio.sleep_forever()

    error = refused.value.__cause__ if isinstance(refused.value, NodeFailed) else refused.value
    assert isinstance(error, NewerFormat)
    assert "version 1 of the bridge's znodes and sessions" in str(error)


def test_newer_decision_of_a_sink_is_refused() -> None:
    newer = NewRecord(7, 0, b"key", b'{"query":"q","batch":7,"version":1}', ())

    with pytest.raises(PipelineError, match="version 1 of decisions of Spark's sinks"):
        _content(newer)


def test_newer_record_of_the_registry_is_refused() -> None:
    with pytest.raises(NewerFormat, match="version 2 of the registry's schemas"):
        read_key(b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":2}')
