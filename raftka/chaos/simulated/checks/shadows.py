"""Restart from copied disks: at moments of a life each node's disk is copied, loses its power, and
its logs are opened by another log manager.

The life goes on as if nobody had looked: the copy has a chance of its own, and nothing of it is in
the trace. Each log that comes back must have what the living one claims to be on its disk, must be
sound in itself (logs.py), and must come back the same once more after a clean end.
"""

from collections.abc import Callable
from random import Random

from raftka.broker.node import Node
from raftka.chaos.simulated.checks import reloaded
from raftka.chaos.simulated.checks.logs import FEW_SEARCHES, remembered, scan, wrong_with
from raftka.chaos.simulated.cluster import Cluster
from raftka.log.checkpoints import START_OFFSETS
from raftka.log.directory import Key
from raftka.log.log import Log
from raftka.log.manager import LogManager
from raftka.log.recovery import Damaged
from raftka.runtime.simulated.clock import EPOCH_MS
from raftka.runtime.simulated.disk import Directory, Inode, NodeFiles, SimulatedDisk, SimulatedFile

LOOKS = 2
SHORT_S = 10.0  # a life that is shorter has one look, beside the one at its end
HOW = ("kill", "power", "power", "nothing kept")


class _Reader:
    """In place of a simulated node and its clock: it lives as long as the check reads the copy, its
    clock stands still, and it leaves no trace.
    """

    alive = True

    def __init__(self) -> None:
        self.busy_s = 0.0
        self.clock = self

    def wall_ms(self) -> int:
        return EPOCH_MS

    def check_alive(self) -> None: ...

    def note(self, kind: bytes, a: int, b: int) -> None: ...


def copy_of(disk: SimulatedDisk, random: Random) -> SimulatedDisk:
    """With what is not on the platter yet, and without its faults."""
    copied = SimulatedDisk(disk.name, random)
    known: dict[int, Inode | Directory] = {}

    def copy(entry: Inode | Directory | None) -> Inode | Directory | None:
        if entry is None or id(entry) in known:
            return known[id(entry)] if entry is not None else None
        if isinstance(entry, Inode):
            inode = known[id(entry)] = Inode(entry.content, entry.modified_ms)
            inode.changes, inode.lost, inode.synced = (
                list(entry.changes),
                list(entry.lost),
                entry.synced,
            )
            return inode
        directory = known[id(entry)] = Directory()
        directory.entries = {
            name: found for name, each in entry.entries.items() if (found := copy(each)) is not None
        }
        directory.changes = [
            {name: copy(each) for name, each in names.items()} for names in entry.changes
        ]
        directory.synced = entry.synced
        return directory

    root = copy(disk.root)
    assert isinstance(root, Directory)
    copied.root = root
    return copied


class Shadows:
    """`rotten`: the node whose disk forgets, of which nothing is said."""

    def __init__(self, cluster: Cluster, rotten: Callable[[], int | None] = lambda: None) -> None:
        self.cluster = cluster
        self._rotten = rotten
        self._random = cluster.world.random("shadows")

    def begin(self, seconds: float) -> None:
        """Looks at random moments of that time. Raises AssertionError in the middle of the life, as
        Watch does.
        """
        world = self.cluster.world
        for _ in range(1 if seconds < SHORT_S else LOOKS):
            world.at(world.now + self._random.uniform(0.0, seconds), self._come)

    def _come(self) -> None:
        found = self.check()
        assert not found, "; ".join(found[:3])

    def check(self) -> list[str]:
        return [
            wrong for node_id in sorted(self.cluster.judged) for wrong in self.of_node(node_id)
        ] + reloaded.wrong_with(self.cluster)

    def files(self) -> list[str]:
        """The living logs themselves, when nothing happens to them any more."""
        found = []
        for node_id, node in sorted(self.cluster.judged.items()):
            if (
                node_id != self._rotten()
                and node_id not in self.cluster.controllers
                and not node.context.stopped
            ):
                files = node.runtime.files
                logs = sorted(node.replicas.logs.logs.items())
                found += [
                    f"n{node_id}: {wrong}"
                    for _, log in logs
                    if log.failed is None and not log.cleaning
                    for wrong in wrong_with(log, files)
                ]
        return found

    def of_node(self, node_id: int) -> list[str]:
        node, disk = self.cluster.nodes[node_id], self.cluster.disk(node_id)
        ill = disk.broken or node_id == self._rotten() or node_id in self.cluster.controllers
        if ill or not node.ready.is_set() or node.context.stopped or node.replicas.logs.offline:
            return []
        how = self._random.choice(HOW)
        copied = copy_of(disk, Random(self._random.random()))
        if how != "kill":
            copied.keeps_nothing = how == "nothing kept"
            copied.lose_power()
        found = _Opened(node, copied, how).check()
        return [f"n{node_id} after {how}: {each}" for each in found]


class _Opened:
    """One disk that was copied, beside its living node."""

    def __init__(self, node: Node, disk: SimulatedDisk, how: str) -> None:
        self._node, self._how = node, how
        self._files = NodeFiles(_Reader(), disk, None)  # type: ignore[arg-type]
        self._living = node.replicas.logs

    def check(self) -> list[str]:
        logs = self._open()
        found = [
            wrong for key in self._opened(logs) for wrong in self._compare(key, logs.logs[key])
        ]
        found += [
            f"{'-'.join(map(str, key))} is not there"
            for key, log in self._claimed()
            if key not in logs.logs and not self._doubtful(key, log)
        ]
        if found:
            return found
        before = {key: _state(log) for key, log in logs.logs.items()}
        logs.close({}, 1)
        again = self._open()
        for key in self._opened(again):
            log = again.logs[key]
            found += wrong_with(log, self._files, FEW_SEARCHES)
            if key in before and _state(log) != before[key]:
                found.append(
                    f"{log.directory} is {_state(log)} after a clean end, before it {before[key]}"
                )
        return found

    def _open(self) -> LogManager:
        return LogManager.open(
            self._files,
            self._node.settings.log_dirs,
            self._node.node_id,
            Random(0),
            self._node.runtime.clock.wall_ms(),
        )

    def _claimed(self) -> list[tuple[Key, Log]]:
        """Living logs of which something is said to be on the disk."""
        return [
            (key, log)
            for key, log in self._living.logs.items()
            if self._least(log) > log.start_offset
        ]

    def _least(self, log: Log) -> int:
        if self._how == "kill":
            return log.written_offset
        return log.flushed_offset if log.config.flush == "fsync" else log.durability.settled_point

    def _doubtful(self, key: Key, log: Log) -> bool:
        """Return whether the log has failed or is moving to another directory."""
        return log.failed is not None or any(
            (partition.topic, partition.index) == key
            for partition in self._node.housekeeping.mover.moves
        )

    def _opened(self, logs: LogManager) -> list[Key]:
        """The logs that the living node has too, of the same topic; the others are not looked
        at.
        """
        opened = []
        for key, _ in logs.unopened(logs.lying_here()):
            living, topic_id = self._living.logs.get(key), self._living.topic_ids.get(key)
            if (
                living is None
                or topic_id is None
                or self._doubtful(key, living)
                or logs._topic_id(key) != topic_id
            ):
                continue
            try:
                logs.get_or_create(
                    *key,
                    topic_id,
                    living.config,
                    whole=living.syncs and not living.config.compacted,
                )
            # batches that no flush had confirmed yet are there in part: a later one, and not an
            # earlier one
            except Damaged:
                logs.get_or_create(*key, topic_id, living.config)
            opened.append(key)
        return opened

    def _compare(self, key: Key, log: Log) -> list[str]:
        living = self._living.logs[key]
        where, found = f"{log.directory}", wrong_with(log, self._files, FEW_SEARCHES)
        if log.end_offset < self._least(living):
            found.append(
                f"{where} ends at {log.end_offset}, up to {self._least(living)} it is said to be "
                "on the disk"
            )
        told = self._living.home(key).offsets[START_OFFSETS].get(key, 0)
        checkpoints = self._living._checkpoints
        if log.start_offset < min(told, living.start_offset) and not checkpoints._under_way:
            found.append(f"{where} starts at {log.start_offset}, {told} is written down")
        if log.start_offset > living.start_offset:
            found.append(
                f"{where} starts at {log.start_offset}, the living one at {living.start_offset}"
            )
        if living.written_offset == living.end_offset and not living.cleaning:
            found += [f"the living {where}: {each}" for each in remembered(living, scan(living))]
        if not living.config.compacted and self._least(living):
            found += _differ(where, log, living, self._least(living))
        return found


def _state(log: Log) -> tuple[object, ...]:
    """The state to compare. Of producers the last batch alone: how many more a snapshot gives back
    depends on how dense the index is (logs.py). Not its time: a snapshot has one time for a
    producer, and that may be a later marker's.
    """
    producers = {
        producer_id: (
            each.epoch,
            each.next_sequence,
            each.transaction_start,
            [batch[:3] for batch in each.batches[-1:]],
        )
        for producer_id, each in log.producers.producers.items()
    }
    epochs = [
        (epoch, start) for epoch, start in log.epochs.entries() if start < log.end_offset
    ]  # one that has written nothing is forgotten by a crash
    return log.start_offset, log.end_offset, epochs, producers


def _differ(where: str, log: Log, living: Log, below: int) -> list[str]:
    """Below what is claimed to be on the disk."""
    mine = {batch.base: batch.data for batch in scan(log)}
    theirs = {batch.base: batch.data for batch in scan(living) if batch.last < below}
    other = [
        base for base in mine.keys() & theirs.keys() if bytes(mine[base]) != bytes(theirs[base])
    ]
    missing = [
        base for base in theirs.keys() - mine.keys() if log.start_offset <= base < log.end_offset
    ]
    return [f"{where} has another batch at {base}" for base in other[:3]] + [
        f"{where} has no batch at {base}" for base in missing[:3]
    ]


def unflushed(log: Log, disk: SimulatedDisk) -> str | None:
    """Something that the log claims to be on the disk and that a power loss would take; None:
    nothing.
    """
    if not log.syncs or log.failed is not None:
        return None
    directory, claimed = disk.find(log.directory), log.flushed_offset
    for segment in log.segments:
        if segment.base_offset >= claimed or not segment.size:
            continue
        file = segment.file
        assert isinstance(file, SimulatedFile)
        inode = file.inode
        if inode.changes or inode.lost:
            written = [change.position for change in inode.changes if change.size] + [
                position for position, _ in inode.lost
            ]
            if written and min(written) < segment.size:
                base = int.from_bytes(inode.content[min(written) : min(written) + 8], "big")
                if base < claimed:
                    return (
                        f"the batch at {base} is not flushed, the log claims all before {claimed}"
                    )
        if not isinstance(directory, Directory) or not directory.changes:
            continue
        name = file.path.rpartition("/")[2]
        if name.endswith(".swap"):
            # a cleaner's swap is under way: what it takes the place of is still there under its own
            # name
            continue
        if any(names.get(name, directory) is None for names in directory.changes):
            return (
                f"the name of the segment at {segment.base_offset} is not flushed, the log "
                f"claims all before {claimed}"
            )
    return None
