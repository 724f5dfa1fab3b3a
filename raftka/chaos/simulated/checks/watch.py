"""Invariants, checked now and then while everything else goes on: the promises that clients'
answers rest on.

- A term has one leader, and what was committed to the metadata log at an index is the same on all
  nodes, for ever.
- Every member of a partition's ISR that lives has all that is committed, on its disk; the leader of
  a later epoch knows no less to be committed.
- Nothing is committed by a leader with fewer than min.insync.replicas, and no log begins behind
  what is committed.

Raises AssertionError in the middle of the run, when it is still to be seen why.
"""

from collections.abc import Callable, Mapping
from zlib import crc32

from raftka.broker.node import Node
from raftka.broker.replica.partition import Partition
from raftka.chaos.simulated.checks.shadows import unflushed
from raftka.chaos.simulated.cluster import Cluster
from raftka.metadata.image import PartitionImage

EVERY_S = 0.02
Key = tuple[str, int]
One = tuple[bytes, int]  # of a topic of that name: by its id


class Watch:
    """`disks_stay`: no broker loses what it had, so its place in an ISR is a promise also while it
    is not registered anew. But for `rotten`.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        disks_stay: bool = True,
        every_s: float = EVERY_S,
        rotten: Callable[[], int | None] = lambda: None,
    ) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.over = False
        self._disks_stay = disks_stay
        self._every_s = every_s
        self._rotten = rotten
        self._leaders: dict[int, int] = {}  # of the quorum, by term
        self._entries: dict[int, tuple[int, int]] = {}  # committed: index -> (term, checksum)
        # by node: which process, and up to where its committed entries were compared
        self._seen: dict[int, tuple[object, int]] = {}
        self._committed: dict[One, tuple[int, int]] = {}  # (leader epoch, high watermark)
        # below min.insync.replicas: (epochs of leader and partition), high watermark
        self._under: dict[One, tuple[tuple[int, int], int]] = {}

    def begin(self) -> None:
        self.world.at(self.world.now + self._every_s, self._check)

    def _check(self) -> None:
        if self.over:
            return
        judged, newest = self.cluster.judged, self.cluster.newest
        for node_id in judged:
            self._quorum(node_id)
        held = [(node_id, node.replicas.partitions) for node_id, node in judged.items()]
        # a node of another release may know more: its image is not read
        for topic in newest.image.topics.values() if isinstance(newest, Node) else ():
            for index, partition in enumerate(topic.partitions):
                key = topic.name, index
                found = {
                    node_id: replica
                    for node_id, replicas in held
                    if (replica := replicas.get(key)) is not None
                }
                self._partition(key, topic.topic_id, partition, found)
        self.begin()

    # the quorum

    def _quorum(self, node_id: int) -> None:
        core = self.cluster.nodes[node_id].quorum.core
        if core is None:
            return
        if core.state == "leader":
            known = self._leaders.setdefault(core.term, node_id)
            assert known == node_id, (
                f"two leaders of the quorum: n{known} and n{node_id} in term {core.term}"
            )
        process, upto = self._seen.get(node_id, (None, 0))
        base = core.journal.base.index
        for index in range(max(base, upto if process is core else base) + 1, core.commit_index + 1):
            command, _, term = core.journal.entries[index - base]
            entry = (term, crc32(command))
            known_entry = self._entries.setdefault(index, entry)
            assert known_entry == entry, (
                f"another committed entry: n{node_id} has one of term {term} at {index}, of term "
                f"{known_entry[0]} before"
            )
        self._seen[node_id] = core, core.commit_index

    # partitions

    def _partition(
        self, key: Key, topic_id: bytes, partition: PartitionImage, found: Mapping[int, Partition]
    ) -> None:
        """`found`: the replicas on those that live, of any topic of that name."""
        replica = found.get(partition.leader)
        if (
            replica is None
            or replica.topic_id != topic_id
            or replica.leader is None
            or replica.leader.leader_epoch != partition.leader_epoch
        ):
            return
        replicas = {node_id: each for node_id, each in found.items() if each.topic_id == topic_id}
        leader, name = replica.leader, f"{key[0]}-{key[1]}"
        one = topic_id, key[1]
        epoch, committed = self._committed.get(one, (-1, 0))
        self._min_isr(one, name, replica)
        if leader.leader_epoch < epoch:
            return  # who knows of the later one is not there, or has not read it yet
        if leader.knows_its_end:
            assert leader.high_watermark >= committed, (
                f"high watermark back: {name} {leader.high_watermark} in epoch "
                f"{leader.leader_epoch}, {committed} in {epoch}"
            )
        self._committed[one] = leader.leader_epoch, max(committed, leader.high_watermark)
        assert replica.log.start_offset <= max(committed, leader.high_watermark), (
            f"log start: {name} begins at {replica.log.start_offset}, ahead of what is committed"
        )
        assert replica.log.segments.cleaned_offset <= max(committed, leader.high_watermark), (
            f"cleaned: {name} up to {replica.log.segments.cleaned_offset}, "
            f"{leader.high_watermark} is committed"
        )
        if self._disks_stay:
            for member in set(partition.eligible) - {self._rotten()}:
                self._member(
                    name, member, replicas.get(member), max(committed, leader.high_watermark)
                )

    def _member(self, name: str, member: int, partition: Partition | None, committed: int) -> None:
        """With flush=os a written record counts."""
        if partition is not None and partition.log.failed is None:
            flushed = partition.log.flushed_offset
            gone = (
                None
                if partition.log.config.flush == "os"
                else unflushed(partition.log, self.cluster.disk(member))
            )
            assert gone is None, f"n{member} {name}: {gone}"
            assert flushed >= committed, (
                f"ISR member behind: n{member} has {name} up to {flushed} on its disk, "
                f"{committed} is committed"
            )

    def _min_isr(self, key: One, name: str, partition: Partition) -> None:
        """Looked at twice in one partition epoch: between two the ISR may have been large enough
        for a moment.
        """
        leader = partition.leader
        assert leader is not None
        config = partition.manager.context.metadata.topic_configs.of(
            partition.manager.context.metadata.image, partition.topic
        )
        if len(leader.isr) >= min(config.min_insync_replicas, 1 + len(leader._followers)):
            self._under.pop(key, None)
            return
        now = (leader.leader_epoch, leader.partition_epoch)
        epochs, before = self._under.get(key, (now, leader.high_watermark))
        assert epochs != now or leader.high_watermark <= before, (
            f"committed below min.insync.replicas: {name} with the ISR {leader.isr}"
        )
        self._under[key] = now, leader.high_watermark
