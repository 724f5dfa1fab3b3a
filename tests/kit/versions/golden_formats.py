"""The bytes of every format that raftka writes, at a level of `raftka.version`.

`python -m tests.kit.versions.golden_formats LEVEL` writes the file of a new level. The files of
earlier levels never change: data of users are full of these bytes.
"""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

from raftka import versions
from raftka.backup import manifest as backup
from raftka.broker.controller.boot_counter import BootCounter, Start
from raftka.coordinator import records as offsets
from raftka.coordinator.commands import Protocol
from raftka.coordinator.consumer import records as consumer
from raftka.coordinator.modern.records import MemberState, Targets
from raftka.coordinator.share import records as share
from raftka.coordinator.share_state import records as share_states
from raftka.coordinator.streams import records as streams
from raftka.coordinator.streams.tasks import Held, Tasks
from raftka.coordinator.streams.topology import (
    CopartitionGroup,
    Subtopology,
    TopicInfo,
    Topology,
)
from raftka.coordinator.transactions import records as transactions
from raftka.log import checkpoints
from raftka.log.directory import LogDirectory
from raftka.log.producers.markers import Marker
from raftka.log.producers.state import ProducerState
from raftka.log.segments.transaction_index import AbortedTransaction, TransactionIndex
from raftka.metadata.image import MetadataImage
from raftka.metadata.quorum import journal_format
from raftka.metadata.records import LATER, FeatureLevelSet, Record, encode_batch
from raftka.pipeline.records.fields import Exact
from raftka.pipeline.topics.decisions import Decision, decision_value
from raftka.registry import records as registry
from raftka.runtime.simulated.world import World
from raftka.share.state import SharePartitionKey, StateBatch
from raftka.sql.catalog import PersistentQuery, Stream, encode
from raftka.sql.language.statements import Column, Format, Options, Role
from raftka.wire.records import TRANSACTIONAL
from tests.kit.versions.records import RECORDS, TOPIC
from zookeeper_bridge.tree import store

FOLDER = Path(__file__).parents[2] / "versions" / "levels"
Bytes = Iterator[tuple[str, bytes]]  # a name, and the bytes of one sample


def as_of(record: Record, level: int) -> Record | None:
    """The record with what this level has of it; None: its kind is newer."""
    first = next((each for each in LATER.get(type(record), ()) if each.level > level), None)
    if first is None:
        return record
    return None if first.version == 0 else type(record)(*record[: first.fields_before])


def _records(level: int) -> Bytes:
    for number, record in enumerate(RECORDS):
        known = as_of(record, level)
        if known is not None:
            yield f"{type(record).__name__} {number}", encode_batch([known], 7, level)


def image_at(level: int) -> MetadataImage:
    image, _ = MetadataImage().apply(1, [FeatureLevelSet(versions.RAFTKA_VERSION, level)])
    for offset, record in enumerate(RECORDS, 2):
        known = as_of(record, level)
        image, _ = image.apply(offset, [known] if known is not None else [])
    return image


def _snapshot(level: int) -> Bytes:
    yield "an image", image_at(level).to_snapshot()


def _journal(level: int) -> Bytes:
    items = [
        journal_format.encode_item(kind, 7, 1, b"1,2,3") for kind in sorted(journal_format.Kind)
    ]
    yield "all items", b"".join(journal_format.encode_record(1, journal_format.flatten(items)))


def _snapshot_file(level: int) -> Bytes:
    yield "a snapshot", journal_format.encode_snapshot(7, 2, b"state")


def _starts(level: int) -> Bytes:
    with World(1, guard=False) as world:
        files = world.node("n1").files
        counter = BootCounter(files, "/data", b"p" * 16, Random(1))
        counter.met(2, Start(b"d" * 16, 4, b"q" * 16))
        yield "two nodes", files.read("/data/starts")


def _meta_properties(level: int) -> Bytes:
    with World(1, guard=False) as world:
        files = world.node("n1").files
        directory = LogDirectory(files, "/data", 1, Random(1))
        directory.join_cluster("a-cluster")
        directory.raise_level(level)
        yield "of a cluster", files.read("/data/meta.properties")


def _checkpoints(level: int) -> Bytes:
    yield "offsets", checkpoints.encode_offsets({("orders", 0): 7, ("orders", 1): 8})
    yield "epochs", checkpoints.encode_epochs([(0, 0), (3, 17)])


def _clean_shutdown(level: int) -> Bytes:
    yield "after epoch 7", checkpoints.encode_clean_shutdown(7)


def _partition_metadata(level: int) -> Bytes:
    yield "a topic", checkpoints.encode_partition_metadata(TOPIC)


def _producer_snapshot(level: int) -> Bytes:
    state = ProducerState()
    state.record(1000, 2, 0, 3, 10, 99, 99)
    state.record(1001, 0, 0, 3, 13, 99, 99, TRANSACTIONAL)
    state.end(Marker(1002, 1, 4, False, 2), 16, 99, 99)
    yield "three producers", state.snapshot()


def _transaction_index(level: int) -> Bytes:
    index = TransactionIndex()
    index.append(AbortedTransaction(1000, 3, 9, 3))
    yield "an aborted transaction", index.encoded()


def _committed_offset(level: int) -> Bytes:
    yield "key", offsets.offset_key(offsets.offset_topic_prefix(offsets.offset_prefix("g"), "t"), 3)
    yield "plain", offsets.offset_value(7, 2, "", 99, topic_id=TOPIC)
    yield "with metadata", offsets.offset_value(7, 2, "note", 99, topic_id=TOPIC)
    yield "without a topic id", offsets.offset_value(7, 2, "", 99)
    yield "that expires", offsets.offset_value(7, 2, "note", 99, 100)


def _classic_group(level: int) -> Bytes:
    member = offsets.GroupMember("m", "i", "client", "/host", 60, 45, b"topics", b"partitions")
    group = offsets.GroupMetadata("consumer", 3, "range", "m", 99, (member,))
    record = offsets.group_record("g", group)
    yield "key", record.key
    yield "value", record.value or b""


def _share_group(level: int) -> Bytes:
    partitions = share.Partitions(
        {TOPIC: share.Topic("t", frozenset((2, 3)))},
        {TOPIC: share.Topic("t", frozenset((0, 1)))},
        {TOPIC: "t"},
    )
    for name, record in {
        "group": share.group_record("g", consumer.Epoch(3, 77)),
        "member": share.member_record("g", "m", share.Said("rack", "client", "/host", ("t",))),
        "targets": share.targets_record("g", Targets(3, 99)),
        "target": share.target_record("g", "m", {TOPIC: (0, 1)}),
        "current": share.current_record("g", "m", share.Current(3, 2, {TOPIC: (0, 1)})),
        "partitions": share.partitions_record("g", partitions),
    }.items():
        yield f"{name} key", record.key
        yield f"{name} value", record.value or b""


def _consumer_group(level: int) -> Bytes:
    said = consumer.Said(
        "i",
        "rack",
        "client",
        "/host",
        ("t",),
        "t.*",
        60,
        "uniform",
        consumer.Classic(45, (Protocol("range", b"topics"),)),
    )
    current = consumer.Current(3, 2, MemberState.UNREVOKED, {TOPIC: {0: 3}}, {TOPIC: {1: 2}})
    for name, record in {
        "group": consumer.group_record("g", consumer.Epoch(3, 77)),
        "member": consumer.member_record("g", "m", said),
        "targets": consumer.targets_record("g", Targets(3, 99)),
        "target": consumer.target_record("g", "m", {TOPIC: (0, 1)}),
        "current": consumer.current_record("g", "m", current),
        "regex": consumer.regex_record("g", "t.*", consumer.Resolved(("t",), 5, 99)),
    }.items():
        yield f"{name} key", record.key
        yield f"{name} value", record.value or b""


def _streams_group(level: int) -> Bytes:
    said = streams.Said("i", "rack", "client", "/host", 60, 1, "p", streams.Endpoint("h", 9), ())
    said = said._replace(tags=(("zone", "a"),))
    topic = TopicInfo("counts", 0, 3, (("cleanup.policy", "compact"),))
    subtopology = Subtopology(
        "0", ("t",), ("words",), (topic,), (topic,), (CopartitionGroup((0,), (0,)),)
    )
    current = streams.Current(
        3,
        2,
        MemberState.UNREVOKED,
        Held({"0": {0: 3}}, {"1": (0,)}),
        Held({"0": {1: 2}}, {}, {"2": (5,)}),
    )
    epoch = streams.Epoch(3, 77, 1, (("num.standby.replicas", "1"),))
    for name, record in {
        "group": streams.group_record("g", epoch),
        "member": streams.member_record("g", "m", said),
        "targets": streams.targets_record("g", Targets(3, 99)),
        "target": streams.target_record("g", "m", Tasks({"0": (0, 1)}, {"1": (0,)})),
        "current": streams.current_record("g", "m", current),
        "topology": streams.topology_record("g", Topology(1, (subtopology,))),
    }.items():
        yield f"{name} key", record.key
        yield f"{name} value", record.value or b""


def _transaction(level: int) -> Bytes:
    growing = transactions.Growing(transactions.NONE)
    growing.add("orders", TOPIC, {0, 1})
    transaction = transactions.Transaction(
        1000,
        2,
        60,
        transactions.State.PREPARE_COMMIT,
        growing.partitions(),
        98,
        99,
        999,
        1001,
        2,
        1,
    )
    record = transactions.transaction_record("id", transaction)
    yield "key", record.key
    yield "value", record.value or b""


def _share_state(level: int) -> Bytes:
    key = SharePartitionKey("g", TOPIC, 3)
    batches = [StateBatch(10, 14, 0, 1), StateBatch(15, 20, 4, 5)]
    snapshot = share_states.Snapshot(1, 2, 3, 10, 6, 98, 99, batches)
    for name, record in (
        ("snapshot", share_states.snapshot_record(key, snapshot)),
        ("update", share_states.update_record(key, share_states.Update(1, 3, 10, 6, batches))),
    ):
        yield f"key of a {name}", record.key
        yield f"value of a {name}", record.value or b""


def _znodes(level: int) -> Bytes:
    node = store.Znode(1, 2, 3, 4, 5, 6, 7, 8, store.NodeKind.TTL, b"acl", b"data")
    yield "node", store.pack_node(node)
    yield "family", store.pack_family(store.Family(3, 4))
    yield "session", store.pack_session(store.Session(30000, closing=True))


def _schemas(level: int) -> Bytes:
    reference = registry.SchemaReference("other", "other-value", 1)
    body = registry.Body(registry.JSON, '{"type":"object"}', (reference,))
    version = registry.Registered("orders-value", 2, 7, body)
    for name, (key, value) in {
        "schema": registry.schema_record(version),
        "deleted subject": registry.delete_subject_record("orders-value", 2),
        "cleared subject": registry.clear_subject_record("orders-value"),
        "settings": registry.settings_record(None, {"compatibilityLevel": "FULL"}),
        "mode": registry.mode_record("orders-value", "READONLY"),
        "context": registry.context_record(".staging"),
        "used ids": registry.used_ids_record(7),
    }.items():
        yield f"{name} key", key
        yield f"{name} value", value or b""


def _sink_decisions(level: int) -> Bytes:
    yield "a decision", decision_value(Decision("query", 7))


def _sql_statements(level: int) -> Bytes:
    columns = (Column("id", "string", Role.KEY), Column("n", Exact(9, 2)))
    yield "a stream", encode(Stream("STREAM", "s", columns, Options("t", Format.JSON)))
    yield "a query", encode(PersistentQuery("q", "s", "SELECT 1", ("a",), "server", "7" * 32))


def _backup_manifest(level: int) -> Bytes:
    segments = (backup.Segment(0, 70, "data/a.log"), backup.Segment(7, 80, "data/b.log", 1234))
    partition = backup.Partition("orders", TOPIC.hex(), 0, 3, 2, 9, segments)
    image = backup.Segment(17, 5, "metadata/first.image", 99)
    yield (
        "a backup",
        backup.encode_manifest(
            backup.Manifest("first", "f" * 32, "a-cluster", "0.1.0", 1, 2, 3, image, (partition,))
        ),
    )


SAMPLES: dict[versions.Format, Callable[[int], Bytes]] = {
    versions.METADATA_RECORDS: _records,
    versions.METADATA_SNAPSHOT: _snapshot,
    versions.METADATA_JOURNAL: _journal,
    versions.JOURNAL_ITEMS: _journal,
    versions.SNAPSHOT_FILE: _snapshot_file,
    versions.STARTS: _starts,
    versions.META_PROPERTIES: _meta_properties,
    versions.CHECKPOINTS: _checkpoints,
    versions.CLEAN_SHUTDOWN: _clean_shutdown,
    versions.PARTITION_METADATA: _partition_metadata,
    versions.PRODUCER_SNAPSHOT: _producer_snapshot,
    versions.TRANSACTION_INDEX: _transaction_index,
    versions.COMMITTED_OFFSET: _committed_offset,
    versions.CLASSIC_GROUP: _classic_group,
    versions.CONSUMER_GROUP: _consumer_group,
    versions.SHARE_GROUP: _share_group,
    versions.STREAMS_GROUP: _streams_group,
    versions.TRANSACTION: _transaction,
    versions.SHARE_STATE: _share_state,
    versions.ZNODES: _znodes,
    versions.SCHEMAS: _schemas,
    versions.SINK_DECISIONS: _sink_decisions,
    versions.SQL_STATEMENTS: _sql_statements,
    versions.BACKUP_MANIFEST: _backup_manifest,
}


def encoded_at(level: int) -> dict[str, str]:
    """Return the bytes of all samples as hexadecimal text, by format and sample."""
    return {
        f"{each.name}: {name}": data.hex()
        for each, samples in SAMPLES.items()
        for name, data in samples(level)
    }


def main(level: int) -> None:
    path = FOLDER / f"level-{level}.json"
    if path.exists():
        raise SystemExit(f"{path} is there: users have data of level {level}")
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(encoded_at(level), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(int(sys.argv[1]))
