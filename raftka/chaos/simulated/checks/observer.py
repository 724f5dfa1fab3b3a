"""Record every node's metadata for the checker: leaders, ISRs and epochs, each as of an offset.

Counts as it goes what of it is rare. Changes nothing: a node does not know that it is observed.
"""

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from raftka.chaos.checks.metadata import NO_LEADER, LeaderSeen, PartitionSeen, Seen
from raftka.metadata.image import Delta, MetadataImage
from raftka.metadata.quorum.raft import Snapshot
from raftka.runtime.simulated.world import World

if TYPE_CHECKING:
    from raftka.broker.node import Node

Tell = Callable[[MetadataImage, MetadataImage, Delta], object]


class Observer:
    def __init__(self, world: World) -> None:
        self.world = world
        self.seen: list[Seen] = []
        self.noticed: Counter[str] = Counter()
        # the last term that each observer spoke of, and its leader
        self._leaders: dict[str, tuple[int, int]] = {}
        # of each partition: the last offset at which its leader changed, and when
        self._changes: dict[str, tuple[int, float]] = {}

    def watch(self, node_id: int, node: "Node") -> None:
        """Before it starts."""
        name = f"n{node_id} {self.world.machine(f'n{node_id}').incarnations}"
        publish, apply = node.metadata_events.publish, node.quorum._apply

        def telling(before: MetadataImage, after: MetadataImage, delta: Delta) -> None:
            self._told(name, node, before, after, delta)
            publish(before, after, delta)

        def applying(found: Any) -> None:
            if isinstance(found, Snapshot) and node.image.offset:
                self.noticed["snapshot_installed"] += 1
            apply(found)

        node.metadata_events.publish = telling  # type: ignore[method-assign]
        node.quorum._apply = applying

    def _told(
        self, name: str, node: "Node", before: MetadataImage, after: MetadataImage, delta: Delta
    ) -> None:
        core = node.quorum.core
        if (
            core is not None
            and core.leader is not None
            and self._leaders.get(name) != (core.term, core.leader)
        ):
            self._leaders[name] = core.term, core.leader
            self.seen.append(LeaderSeen(core.term, name, core.leader))
        for topic_id in sorted(delta.topics_changed):
            if topic_id not in before.topics and topic_id in after.topics:
                for index in range(len(after.topics[topic_id].partitions)):
                    self._partition(name, before, after, topic_id, index)
        for topic_id, index in sorted(delta.partitions_changed):
            self._partition(name, before, after, topic_id, index)

    def _partition(
        self, name: str, before: MetadataImage, after: MetadataImage, topic_id: bytes, index: int
    ) -> None:
        was, now = before.partition(topic_id, index), after.partition(topic_id, index)
        if now is None:
            return
        key = f"{after.topics[topic_id].name}-{index} {topic_id.hex()}"
        replicas, isr = tuple(now.replicas), tuple(now.isr)
        seen = PartitionSeen(
            after.offset,
            name,
            key,
            now.leader,
            now.leader_epoch,
            now.partition_epoch,
            replicas,
            isr,
            tuple(now.offline),
            tuple(now.elr),
            tuple(now.last_known_elr),
        )
        self.seen.append(seen)
        if was is not None and self._changes.get(key, (-1, 0.0))[0] < after.offset:
            self._notice(key, was, now, after.offset)

    def _notice(self, key: str, was: Any, now: Any, offset: int) -> None:
        """The first of all nodes that hears of it."""
        _, when = self._changes.get(key, (-1, -1e9))
        if set(was.isr) - set(now.isr):
            self.noticed["isr_shrunk"] += 1
        if set(now.isr) - set(was.isr):
            self.noticed["isr_expanded"] += 1
        if tuple(was.replicas) != tuple(now.replicas):
            self.noticed["reassigned"] += 1
        if len(now.isr) == 1 < len(now.replicas):
            self.noticed["isr_of_one"] += 1
        if now.leader not in (was.leader, NO_LEADER):
            self.noticed["leader_elected"] += 1
            if self.world.now - when < 0.5:
                self.noticed["two_elections_at_once"] += 1
            self._changes[key] = offset, self.world.now
        else:
            self._changes[key] = offset, when
