"""A small cluster's logs on a disk in memory, and cuts of them: for backups without brokers."""

from dataclasses import dataclass, field
from random import Random
from uuid import UUID

from raftka.backup.cut import Cut, CutPartition, CutSegment
from raftka.backup.manifest import Manifest
from raftka.backup.restore import Plan, make_plan
from raftka.coordinator.records import (
    offset_key,
    offset_prefix,
    offset_topic_prefix,
    offset_value,
)
from raftka.coordinator.transactions.records import (
    NONE,
    Growing,
    State,
    Transaction,
    transaction_record,
)
from raftka.log.backup_cut import cut_log
from raftka.log.config import LogConfig
from raftka.log.log import Log
from raftka.log.segments.scan import Header
from raftka.log.segments.search import at_once
from raftka.metadata.configs.settings import NodeSettings
from raftka.metadata.image import MetadataImage
from raftka.metadata.records import ClusterFormed, TopicCreated
from raftka.wire.records import BATCH_HEADER, build_batch, iterate
from tests.log.files import MemoryFiles
from tests.log.given import NOW, append, batch, end_transaction, in_transaction

CLUSTER = "abcdefghijklmnopqrstuv"
TOPICS = {"orders": 2, "__consumer_offsets": 1, "__transaction_state": 1}
OPEN, DONE = 7, 8  # producers: with an open transaction at the cut, and with a committed one
HOME = "old"


def topic_id(name: str) -> bytes:
    return UUID(int=1 + list(TOPICS).index(name)).bytes


def image() -> MetadataImage:
    partition = ((1, 2, 3), (1, 2, 3), 1)
    records = [TopicCreated(name, topic_id(name), (partition,) * n) for name, n in TOPICS.items()]
    made, _ = MetadataImage().apply(1, [ClusterFormed(CLUSTER), *records])
    return made


@dataclass
class Source:
    """Logs that can be cut again and again."""

    files: MemoryFiles
    logs: dict[tuple[str, int], Log] = field(default_factory=dict)
    backup_id: str = "f" * 32

    @classmethod
    def make(cls, files: MemoryFiles, seed: int) -> "Source":
        made = cls(files)
        random = Random(seed)
        for name, count in TOPICS.items():
            for index in range(count):
                made.open(name, index)
        for index in range(2):
            log = made.logs["orders", index]
            made.write("orders", index, random.randint(3, 12), seed)
            in_transaction(log, batch(2, producer=DONE, transactional=True, seed=seed))
            end_transaction(log, DONE, commit=True)
            in_transaction(log, batch(2, producer=OPEN, transactional=True, seed=seed))
        end = made.logs["orders", 0].end_offset
        prefix = offset_topic_prefix(offset_prefix("group"), "orders")
        gone = offset_topic_prefix(offset_prefix("group"), "deleted")
        made.append("__consumer_offsets", offset_key(prefix, 0), offset_value(end, 0, "", NOW))
        made.append("__consumer_offsets", offset_key(gone, 0), offset_value(5, 0, "", NOW))
        growing = Growing(NONE)
        growing.add("orders", bytes(16), {0, 1})
        key, value = transaction_record(
            "open", Transaction(OPEN, 0, 60_000, State.ONGOING, growing.partitions(), NOW, NOW)
        )
        made.append("__transaction_state", key, value)
        return made

    def open(self, name: str, index: int) -> Log:
        directory = f"{HOME}/{name}-{index}"
        self.files.make_directory(directory)
        config = LogConfig(segment_bytes=700, index_interval_bytes=100)
        log = Log.open(self.files, directory, config, NOW, clean_shutdown=False)
        self.logs[name, index] = log
        return log

    def write(self, name: str, index: int, batches: int, seed: int) -> None:
        for at in range(batches):
            append(self.logs[name, index], batch(3, size=60, seed=seed + at))

    def append(self, name: str, key: bytes, value: bytes | None) -> None:
        log = self.logs[name, 0]
        log.append_of_coordinator(memoryview(build_batch([(key, value, (), NOW)])), 0)
        log.write_staged()

    def cut(self) -> Cut:
        """Cut all logs at their ends."""
        made = Cut(NOW, NOW + 1, 1, image(), image().to_snapshot())
        for (name, index), log in self.logs.items():
            directory = f"{HOME}/__raftka_backup/{name}-{index}"
            if self.files.exists(directory):
                self.files.remove(directory)
            self.files.make_directory(directory)
            found = at_once(cut_log(log, self.files, log.end_offset, directory, NOW, pauses=False))
            assert found is not None
            segments = tuple(
                CutSegment(each.base_offset, each.size, 1, each.path) for each in found
            )
            made.partitions.append(
                CutPartition(
                    name, topic_id(name), index, 0, log.start_offset, log.end_offset, segments
                )
            )
        return made

    def keep(self) -> None: ...

    def read(self, segment: CutSegment, position: int, size: int) -> bytes:
        raise AssertionError("the files are here")


def settings_of(nodes: int = 3, *, apart: bool = False) -> list[NodeSettings]:
    """`apart`: the metadata have a directory of their own."""
    voters = ",".join(f"{node}@host:{node}" for node in range(1, nodes + 1))
    return [
        NodeSettings.from_properties(
            {
                "node.id": str(node),
                "process.roles": "broker,controller",
                "listeners": f"PLAINTEXT://:{9000 + node},CONTROLLER://:{node}",
                "controller.listener.names": "CONTROLLER",
                "controller.quorum.voters": voters,
                "log.dirs": f"new/{node}-a,new/{node}-b",
                **({"metadata.log.dir": f"new/{node}-m"} if apart else {}),
            }
        )
        for node in range(1, nodes + 1)
    ]


def plan_of(manifest: Manifest) -> Plan:
    return make_plan(manifest, settings_of())


def opened(files: MemoryFiles, node: int, topic: str, index: int = 0) -> Log:
    """Open the log of a restored node."""
    for path in settings_of()[node - 1].log_dirs:
        if files.exists(f"{path}/{topic}-{index}/partition.metadata"):
            return Log.open(
                files, f"{path}/{topic}-{index}", LogConfig(), NOW, clean_shutdown=False
            )
    raise AssertionError(f"{topic}-{index} is not there")


def bytes_of(log: Log, end: int | None = None) -> bytes:
    end = log.end_offset if end is None else end
    found, position = b"", log.start_offset
    while position < end:
        for span in log.read(position, 1 << 20, end)[0]:
            data = span.file.read(span.position, span.size)
            found += data
            for header, _ in iterate(memoryview(data)):
                position = header.last_offset + 1
    return found


def batches(log: Log) -> list[tuple[Header, memoryview]]:
    return [
        (BATCH_HEADER.unpack_from(batch), batch) for _, batch in iterate(memoryview(bytes_of(log)))
    ]
