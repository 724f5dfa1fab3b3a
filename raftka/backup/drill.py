"""Rehearse a restore: restore a backup into a cluster of its own in a temporary folder, start it,
and compare the records, offsets and rights that a client finds there with those of the backup.
"""

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import SystemRandom
from tempfile import TemporaryDirectory
from typing import NamedTuple

from raftka.backup.contents import batches_of
from raftka.backup.cut import check
from raftka.backup.manifest import Manifest, Partition
from raftka.backup.places import Place
from raftka.backup.restore import Restored, make_plan, restore
from raftka.backup.state import offsets_in
from raftka.backup.verify import read_image
from raftka.client.blocking.batch_reader import BatchReader
from raftka.client.blocking.client import Client, Where
from raftka.client.blocking.groups import committed
from raftka.cluster.plan import plan_cluster
from raftka.cluster.ports import HeldPorts
from raftka.cluster.processes import Processes
from raftka.log.checkpoints import uuid_text
from raftka.log.segments.times import HELD
from raftka.metadata.configs.settings import NodeSettings
from raftka.metadata.configs.topic import DELAYED, DELIVERY
from raftka.metadata.image import TOPIC, MetadataImage
from raftka.runtime.interfaces import Files
from raftka.wire.messages.backup import BACKUP_METADATA
from raftka.wire.records import iterate

# the drill's cluster keeps all records: retention and compaction would go on where they stopped
SETTINGS = {
    "log.retention.check.interval.ms": str(24 * 3_600_000),
    "log.cleaner.enable": "false",
}
POLL_S = 1.0
COMPARED = ("acls", "scram", "quotas", "tokens", "configs")


class Seen(NamedTuple):
    """The batches of a partition that consumers see."""

    digest: str
    end_offset: int  # behind the last of them


@dataclass(slots=True)
class Drill:
    """The result of a rehearsal."""

    restored: Restored = field(default_factory=Restored)
    nodes: int = 0
    partitions: int = 0
    bytes: int = 0
    offsets: int = 0  # committed ones that were compared
    differing: list[str] = field(default_factory=list)
    rto_s: float = 0.0  # from the start of the restore until clients may come
    rpo_s: float = 0.0  # since the cut: later records would have been lost


def drill(
    place: Place,
    manifest: Manifest,
    files: Files,
    folder: Path | None = None,
    nodes: int = 3,
    progress: Callable[[str], None] = lambda _: None,
) -> Drill:
    """Rehearse. `folder`: in it a temporary one is made, with room for the backup once for each
    replica. Raises BackupError, ClusterFailed, ClientError, KafkaError, OSError.
    """
    found = Drill(nodes=nodes)
    found.rpo_s = max(0.0, time.time() - manifest.cut_ms / 1000)
    began = time.monotonic()
    with rehearsal(place, manifest, files, folder, nodes, progress) as (client, found.restored):
        found.rto_s = time.monotonic() - began
        progress("compare")
        _compare(place, manifest, client, found)
    return found


@contextmanager
def rehearsal(
    place: Place,
    manifest: Manifest,
    files: Files,
    folder: Path | None = None,
    nodes: int = 3,
    progress: Callable[[str], None] = lambda _: None,
) -> Iterator[tuple[Client, Restored]]:
    """Restore the backup into a cluster of its own, which runs until the context ends."""
    with (
        TemporaryDirectory(prefix="raftka-drill-", dir=folder) as data,
        HeldPorts(2 * nodes) as ports,
    ):
        plans = plan_cluster(Path(data), ports.pairs(), SETTINGS)
        settings = [NodeSettings.from_properties(plan.properties) for plan in plans]
        random = SystemRandom()
        plan = make_plan(manifest, settings, cluster_id=uuid_text(random.randbytes(16)))
        restored = restore(place, plan, settings, files, random, progress)
        cluster = Processes(plans)
        try:
            cluster.start_all()
            cluster.wait_ready()
            with Client(cluster.addresses, "raftka-drill") as client:
                _wait_for_leaders(client, manifest)
                yield client, restored
            cluster.stop()
        finally:
            cluster.close()


def _wait_for_leaders(client: Client, manifest: Manifest) -> None:
    """Raises Unreachable."""
    patience = client.patience("leaders of all partitions")
    while True:
        answer = client.refresh(manifest.topics)
        led = sum(each.leader_id >= 0 for topic in answer.topics for each in topic.partitions)
        if led >= len(manifest.partitions):
            return
        patience.wait(f"{led} of {len(manifest.partitions)} partitions have a leader")


def _compare(place: Place, manifest: Manifest, client: Client, found: Drill) -> None:
    image = read_image(place, manifest)
    here = {(each.topic, each.index): _seen_in(place, each, image) for each in manifest.partitions}
    there = _hashes_of(client, manifest.partitions, here)
    for partition in manifest.partitions:
        found.partitions += 1
        found.bytes += partition.size
        where = partition.topic, partition.index
        if there[where] != here[where].digest:
            found.differing.append(partition.name)
    by_group: dict[str, dict[Where, int]] = {}
    known = {(partition.topic, partition.index) for partition in manifest.partitions}
    for (group, topic, index), value in offsets_in(place, manifest).items():
        if (topic, index) in known:
            by_group.setdefault(group, {})[topic, index] = value.offset
    for group, offsets in by_group.items():
        found.offsets += len(offsets)
        if committed(client, group) != offsets:
            found.differing.append(f"offsets of group {group}")
    answer = client.ask(BACKUP_METADATA, BACKUP_METADATA.request())
    check(answer)
    made = MetadataImage.from_snapshot(bytes(answer.image))
    found.differing += [name for name in COMPARED if getattr(image, name) != getattr(made, name)]


def _seen_in(place: Place, partition: Partition, image: MetadataImage) -> Seen:
    """Return what consumers see: neither held batches nor those that a compaction has emptied."""
    digest, end = hashlib.sha256(), partition.start_offset
    delayed = image.config(TOPIC, partition.topic).get(DELIVERY) == DELAYED
    for _, header, batch in batches_of(place, partition):
        after = header[0] + header[6] + 1
        seen = header[12] and not (delayed and header[5] & HELD)
        if seen and after > partition.start_offset:
            digest.update(batch)
            end = after
    return Seen(digest.hexdigest(), end)


def _hashes_of(
    client: Client, partitions: Sequence[Partition], seen: Mapping[Where, Seen]
) -> dict[Where, str]:
    """Read all batches below the cut, as a client gets them."""
    digests = {(each.topic, each.index): hashlib.sha256() for each in partitions}
    starts = {(each.topic, each.index): each.start_offset for each in partitions}
    ends = {where: each.end_offset for where, each in seen.items()}
    reader = BatchReader(client, starts, ends)
    try:
        while not reader.is_over:
            for came in reader.poll(POLL_S):
                for header, batch in iterate(came.records):
                    wanted = header.base_offset < ends[came.where] and header.count
                    if wanted and came.offset <= header.last_offset:
                        digests[came.where].update(batch)
    finally:
        reader.close()
    return {where: digest.hexdigest() for where, digest in digests.items()}
