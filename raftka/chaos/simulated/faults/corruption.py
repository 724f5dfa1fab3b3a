"""Damaged disks: a bit flips, a write lands elsewhere, a disk is restored from an older copy. On
one node of a life: the others are intact.

It happens while all replicas are in sync, and no other fault follows before the others go on
without the node: so damage never hits the only copy.
"""

from collections.abc import Callable, Iterator
from copy import deepcopy
from struct import unpack_from

from raftka.chaos.simulated.faults.incident import Incident, kind
from raftka.chaos.simulated.faults.processes import left_the_isr
from raftka.log.checkpoints import (
    PARTITION_METADATA,
    RECOVERY_POINTS,
    CheckpointError,
    Offsets,
    decode_offsets,
)
from raftka.metadata.quorum.journal_format import RECORD_MAGIC, JournalDamaged, decode_journal
from raftka.runtime.simulated.disk import Directory, Inode

HEADER_BYTES = 61
OFF_S = (0.0, 2.0)
LEFT_LOOKS, UNTIL_THE_END = 100, 600  # for the ISR without it
SPAN_BYTES = (30, 300)  # of a write that went astray
JOURNAL = "/data/__raftka_metadata/journal"
BESIDE = (".index", ".timeindex", ".snapshot", "checkpoint", PARTITION_METADATA)
# of a batch: Kafka's checksum says nothing of its base offset and its leader epoch
UNPROTECTED = (*range(8), *range(12, 16))


def files(directory: Directory, path: str = "") -> Iterator[tuple[str, Inode]]:
    for name, entry in sorted(directory.entries.items()):
        if isinstance(entry, Directory):
            yield from files(entry, f"{path}/{name}")
        elif entry.content:
            yield f"{path}/{name}", entry


def _while_down(it: Incident, damage: Callable[[int], str]) -> None:
    it.when(60, it.all_are_in_sync, lambda: _stop(it, damage))


def _stop(it: Incident, damage: Callable[[int], str]) -> None:
    if it.scene.rotten is None:
        it.scene.rotten = it.random.choice(it.brokers)
    node_id = it.scene.rotten
    if not it.all_are_in_sync() or it.scene.preparing:
        return
    it.scene.preparing = True
    it.cluster.kill(node_id, power_loss=it.random.random() < 0.5)
    it.when(LEFT_LOOKS, lambda: left_the_isr(it, node_id), lambda: _damage(it, node_id, damage))


def _damage(it: Incident, node_id: int, damage: Callable[[int], str]) -> None:
    it.scene.preparing = False
    if not it.cluster.alive(node_id):
        # nobody could decide: it may have the only copy
        what = damage(node_id) if it.left_every_isr(node_id) else f"kill n{node_id}"
        it.for_a_while(what, it.random.uniform(*OFF_S), lambda: it.start(node_id))


def _logs(it: Incident, node_id: int) -> list[tuple[str, Inode, int, int]]:
    """With the bounds of what is read when it starts again: from the recovery point on, but for the
    last batch, which may never have been whole.
    """
    everything = dict(files(it.cluster.disk(node_id).root))
    found = []
    for path, inode in everything.items():
        home, name, file = path.rsplit("/", 2)
        topic, _, index = name.rpartition("-")
        if file.endswith(".log") and topic == it.topic:  # not one that is deleted, or moves
            points = _recovery_points(everything.get(f"{home}/{RECOVERY_POINTS}"))
            first, last = _bounds(inode.content, points.get((topic, int(index)), 0))
            if first < last:
                found.append((path, inode, first, last))
    return found


def _recovery_points(checkpoint: Inode | None) -> Offsets:
    try:
        return decode_offsets(bytes(checkpoint.content)) if checkpoint is not None else {}
    except CheckpointError:  # it is rotten itself
        return {}


def _bounds(content: bytearray, offset: int) -> tuple[int, int]:
    """The positions of the first batch at or behind that offset, and of the last of all."""
    batches = list(_batches(content))
    behind = [at for at in batches if unpack_from(">q", content, at)[0] >= offset]
    return (behind[0], batches[-1]) if behind else (0, 0)


def _batches(content: bytearray) -> Iterator[int]:
    at = 0
    while at + HEADER_BYTES <= len(content):
        yield at
        at += 12 + max(1, unpack_from(">i", content, at + 8)[0])


@kind
def flip_in_log(it: Incident) -> None:
    def flip(node_id: int) -> str:
        logs = _logs(it, node_id)
        if not logs:
            return f"nothing to flip on n{node_id}"
        path, inode, first, last = it.random.choice(logs)
        batches = [at for at in _batches(inode.content) if first <= at < last]
        position = it.random.choice(batches) + it.random.choice(
            [at for at in range(HEADER_BYTES + 1) if at not in UNPROTECTED]
        )
        it.cluster.disk(node_id).flip(path, position, 1 << it.random.randrange(8))
        return f"bit flip at {position} of {path} on n{node_id}"

    _while_down(it, flip)


@kind
def misdirected_write(it: Incident) -> None:
    """A write meant for another place lands in the middle of a log."""

    def astray(node_id: int) -> str:
        logs = _logs(it, node_id)
        if not logs:
            return f"nothing to overwrite on n{node_id}"
        path, inode, first, last = it.random.choice(logs)
        size = min(last - first, it.random.randint(*SPAN_BYTES))
        source = it.random.randrange(len(inode.content) - size + 1)
        target = it.random.randrange(first, last - size + 1)
        batches = set(_batches(inode.content))
        while any(
            at + source - target in batches
            for at in batches
            if target - HEADER_BYTES < at < target + size
        ):
            # else it puts a sound batch in another's place, and no checksum says so
            source = it.random.randrange(len(inode.content) - size + 1)
        inode.content[target : target + size] = bytes(inode.content[source : source + size])
        return f"misdirected write of {size} bytes at {target} of {path} on n{node_id}"

    _while_down(it, astray)


def _version_bytes(path: str) -> range:
    if path.endswith(PARTITION_METADATA):
        return range(len("version: "), len("version: 0"))
    return range(2) if path.endswith(".snapshot") else range(path.endswith("checkpoint"))


@kind
def flip_beside_log(it: Incident) -> None:
    """In what is derived from logs, or can be had again."""

    def flip(node_id: int) -> str:
        disk = it.cluster.disk(node_id)
        found = [(path, inode) for path, inode in files(disk.root) if path.endswith(BESIDE)]
        if not found:
            return f"nothing to flip on n{node_id}"
        path, inode = it.random.choice(found)
        at = it.random.randrange(len(inode.content))
        if at in _version_bytes(path):
            at = (at + 2) % len(inode.content)  # a later version is refused, not mended
        disk.flip(path, at, 1 << it.random.randrange(8))
        return f"bit flip in {path} on n{node_id}"

    _while_down(it, flip)


def _last_record(journal: bytes) -> int:
    """The position of the last whole record: a node cannot tell either whether the one behind it
    was ever whole.
    """
    try:
        _, _, end = decode_journal(journal)
    except JournalDamaged:
        return 0
    return journal.rfind(RECORD_MAGIC, 0, end)


@kind
def flip_in_metadata(it: Incident) -> None:
    """The node refuses to start, until its operator has found a good copy of the block."""

    def flip(node_id: int) -> str:
        disk = it.cluster.disk(node_id)
        found = dict(files(disk.root)).get(JOURNAL)
        last = _last_record(bytes(found.content)) if found is not None else 0
        if found is None or last <= 0:
            return f"nothing to flip on n{node_id}"
        position, bit = it.random.randrange(last), 1 << it.random.randrange(8)
        disk.flip(JOURNAL, position, bit)
        whole = len(found.content)

        def restore() -> None:
            if (
                disk.find(JOURNAL) is found
                and len(found.content) >= whole
                and node_id in it.cluster.refused
            ):
                disk.flip(JOURNAL, position, bit)

        it.scene.restore[node_id] = restore
        it.cluster.start(node_id)
        return f"bit flip at {position} of {whole} of {JOURNAL} on n{node_id}"

    _while_down(it, flip)


@kind
def older_disk(it: Incident) -> None:
    """A disk is copied, its node starts anew, and is later given the copy: it must not go on with
    that, and comes back with an empty one.
    """
    it.when(60, it.all_are_in_sync, lambda: _copy(it))


def _copy(it: Incident) -> None:
    it.scene.rotten = it.scene.rotten or it.random.choice(it.brokers)
    node_id = it.scene.rotten
    # nobody else knows of the only voter's starts
    if not it.all_are_in_sync() or it.scene.preparing or (it.cluster.voters == 1 and node_id == 1):
        return
    it.scene.preparing = True
    copy = deepcopy(it.cluster.disk(node_id).root)
    it.note(f"the disk of n{node_id} is copied, and n{node_id} started again")
    it.cluster.kill(node_id, power_loss=it.random.random() < 0.5)
    it.cluster.start(node_id)
    it.when(LEFT_LOOKS, it.all_are_in_sync, lambda: _put_back(it, node_id, copy))


def _put_back(it: Incident, node_id: int, copy: Directory) -> None:
    """Nothing else happens before the others know that it is gone: with its disk it may be the last
    of an ISR.
    """
    if not it.all_are_in_sync():
        it.scene.preparing = False
        return
    it.note(f"older disk n{node_id}")
    it.cluster.kill(node_id, power_loss=it.random.random() < 0.5)
    it.cluster.disk(node_id).root = copy
    it.scene.restore[node_id] = lambda: it.cluster.new_disk(node_id)
    it.cluster.start(node_id)
    it.when(
        UNTIL_THE_END,
        lambda: it.left_every_isr(node_id),
        lambda: setattr(it.scene, "preparing", False),
    )
