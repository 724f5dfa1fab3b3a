"""A node's view of Kafka's layout, and the events for its clients: each applied entry becomes
events, in an order in which it may have happened.

projection.py computes the content. This module remembers when lists last changed, as this node has
seen it, because the metadata do not say that. Lists from before this node began count as changed at
the offset it began with, so no change is missed after a reconnect. Knows no client.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from raftka.metadata.image import BROKER, TOPIC, Delta, MetadataImage, TopicImage
from zookeeper_bridge.protocol.long_list import LongList, list_of
from zookeeper_bridge.tree.kafka_acls import KIND_NAMES, LITERAL_FOLDER, Resource, index_of
from zookeeper_bridge.tree.projection import (
    CLUSTER_ID,
    CONTROLLER,
    EPOCH,
    IDS,
    MOVES,
    PRODUCER_IDS,
    TOPICS,
    Controller,
    Partition,
    Projected,
    Projection,
    Stored,
    entity_name,
    is_moving,
    moving_in,
)
from zookeeper_bridge.tree.store import Znode
from zookeeper_bridge.tree.watches import EventType

LISTS = (
    IDS,
    TOPICS,
    PRODUCER_IDS,
    MOVES,
    CONTROLLER,
    "/config/topics",
    "/config/brokers",
    LITERAL_FOLDER,
)
FOLDER_OF = {TOPIC: "/config/topics", BROKER: "/config/brokers"}
Happening = tuple[EventType, str]
Touched = Mapping[str, Znode | None]  # what the tree had at a path before an entry


def keeps_configs(path: str) -> bool:
    """The tree has it for its version: what happens to it there is not what clients are told."""
    return path.startswith(("/config/topics/", "/config/brokers/"))


class Layout(Projection):
    def __init__(self, tree: Stored, *, guarded: bool = False) -> None:
        self._seen: dict[str, int] = {}
        self._moving: dict[Partition, None] = {}
        super().__init__(
            tree,
            MetadataImage(),
            Controller(None, 0),
            self._seen,
            lambda: self._moving,
            guarded=guarded,
        )
        self._packed: tuple[object, bytes | LongList] = (None, b"")

    def load(self, image: MetadataImage, controller: Controller) -> None:
        self.image, self.controller = image, controller
        self._seen.update(dict.fromkeys(LISTS, image.offset))
        self._moving.clear()
        self._moving.update(dict.fromkeys(moving_in(image)))

    def apply(self, image: MetadataImage, delta: Delta, touched: Touched) -> Iterable[Happening]:
        """To be looked at now or never. `touched`: where the tree keeps versions of settings, and
        the entry has changed it.
        """
        before, self.image = self.image, image
        if (
            delta.of_extensions_alone
            and not touched
            and before.next_producer_id == image.next_producer_id
        ):
            return ()  # most often
        if before.topic_ids is not image.topic_ids:
            self._seen[TOPICS] = self._seen["/config/topics"] = image.offset
        if delta.brokers_changed:
            self._seen[IDS] = image.offset
        if delta.configs_changed:
            self._seen["/config/brokers"] = image.offset
        if delta.acls_changed:
            self._seen[LITERAL_FOLDER] = image.offset
        formed = [(EventType.CREATED, CLUSTER_ID)] if delta.cluster_formed else []
        moves = self._moves_changed(before, delta)
        configs = self._configs_changed(before, delta, touched)
        acls = self._acls_changed(before, delta)
        return chain(
            formed,
            self._brokers(before, delta),
            configs,
            self._topics(before, delta),
            moves,
            self._ids_allocated(before),
            acls,
        )

    def _acls_changed(self, before: MetadataImage, delta: Delta) -> Iterator[Happening]:
        changed = [
            Resource(acl.pattern, acl.resource_type, acl.name)
            for acl in delta.acls_changed
            if acl.resource_type in KIND_NAMES
        ]
        resources = [each for each in dict.fromkeys(changed) if each.is_path]
        earlier, later = index_of(before.acls), index_of(self.image.acls)
        for resource in resources:
            was, now = earlier.data(resource), later.data(resource)
            if was != now:
                yield (
                    EventType.CREATED
                    if was is None
                    else EventType.DELETED
                    if now is None
                    else EventType.CHANGED,
                    resource.path,
                )

    def _brokers(self, before: MetadataImage, delta: Delta) -> Iterator[Happening]:
        for broker_id in sorted(delta.brokers_changed):
            was, now = before.brokers.get(broker_id), self.image.brokers.get(broker_id)
            lived, lives = was is not None and was.alive, now is not None and now.alive
            if lived != lives:
                yield EventType.CREATED if lives else EventType.DELETED, f"{IDS}/{broker_id}"

    def _topics(self, before: MetadataImage, delta: Delta) -> Iterator[Happening]:
        for topic in delta.topics_deleted.values():
            yield from ((EventType.DELETED, path) for path in reversed(_paths_of(topic, 0)))
        for topic_id in delta.topics_changed:
            topic, known = self.image.topics[topic_id], before.topics.get(topic_id)
            if known is None:
                yield from ((EventType.CREATED, path) for path in _paths_of(topic, 0))
            elif known.assigned_times != topic.assigned_times:
                yield EventType.CHANGED, f"{TOPICS}/{topic.name}"
                yield from (
                    (EventType.CREATED, path)
                    for path in _paths_of(topic, len(known.partitions))[2:]
                )
        for topic_id, index in dict.fromkeys(delta.partitions_changed):
            if before.partition(topic_id, index) is not None and topic_id in self.image.topics:
                yield (
                    EventType.CHANGED,
                    f"{TOPICS}/{self.image.topics[topic_id].name}/partitions/{index}/state",
                )

    def _configs_changed(
        self, before: MetadataImage, delta: Delta, touched: Touched
    ) -> Iterator[Happening]:
        """A topic's settings are there as long as it is, and before, where somebody has written
        them down for it.
        """
        paths = dict.fromkeys(touched)
        paths.update(
            (f"/config/topics/{topic.name}", None) for topic in delta.topics_deleted.values()
        )
        created = [
            self.image.topics[topic_id]
            for topic_id in delta.topics_changed
            if topic_id not in before.topics
        ]
        paths.update((f"/config/topics/{topic.name}", None) for topic in created)
        paths.update(
            (f"{FOLDER_OF[kind]}/{entity_name(name)}", None)
            for kind, name in delta.configs_changed
            if kind in FOLDER_OF
        )
        earlier = Projection(_Earlier(self.tree, touched), before, self.controller, {}, dict)
        for path in paths:
            was, now = earlier.find(path), self.find(path)
            if was is None or now is None:
                if now is not was:
                    yield EventType.CREATED if was is None else EventType.DELETED, path
            elif was.node.version != now.node.version or was.node.data != now.node.data:
                yield EventType.CHANGED, path

    def _moves_changed(self, before: MetadataImage, delta: Delta) -> list[Happening]:
        moved = bool(self._moving)
        # what is new does not move
        known = [
            partition for partition in delta.partitions_changed if partition[0] in before.topics
        ]
        changed = [
            partition
            for partition in known
            if partition in self._moving or is_moving(self.image, partition)
        ]
        changed += [partition for partition in self._moving if partition[0] in delta.topics_deleted]
        for partition in changed:
            if is_moving(self.image, partition):
                self._moving[partition] = None
            else:
                self._moving.pop(partition, None)
        if not changed:
            return []
        self._seen[MOVES] = self.image.offset
        if moved and self._moving:
            return [(EventType.CHANGED, MOVES)]
        return [(EventType.CREATED if self._moving else EventType.DELETED, MOVES)]

    def _ids_allocated(self, before: MetadataImage) -> list[Happening]:
        if before.next_producer_id == self.image.next_producer_id:
            return []
        self._seen[PRODUCER_IDS] = self.image.offset
        return [(EventType.CHANGED, PRODUCER_IDS)]

    def elected(self, controller: Controller) -> list[Happening]:
        """Look for a new controller, with each entry and now and then: leadership is no entry of
        the log.
        """
        before, happened = self.controller, list[Happening]()
        if before == controller:
            return happened
        self.controller, self._seen[CONTROLLER] = controller, self.image.offset
        if before.leader != controller.leader:
            happened += [(EventType.DELETED, CONTROLLER)] * (before.leader is not None)
            happened += [(EventType.CREATED, CONTROLLER)] * (controller.leader is not None)
        if before.term != controller.term:
            happened.append((EventType.CHANGED, EPOCH))
        return happened

    def packed_children(self, path: str, found: Projected) -> bytes | LongList:
        if path != TOPICS:
            return list_of(found.children)
        if self._packed[0] is not self.image.topic_ids:
            self._packed = self.image.topic_ids, list_of(found.children)
        return self._packed[1]


class _Earlier:
    """A tree as it was before an entry, as far as that is asked."""

    def __init__(self, tree: Stored, touched: Touched) -> None:
        self._tree = tree
        self._touched = touched
        self.family, self.child_count = tree.family, tree.child_count
        self.child_names = tree.child_names

    def node(self, path: str) -> Znode | None:
        return self._touched[path] if path in self._touched else self._tree.node(path)


def _paths_of(topic: TopicImage, first: int) -> list[str]:
    """Its znodes, parents first; of its partitions those from `first` on."""
    within = f"{TOPICS}/{topic.name}/partitions"
    numbers = range(first, len(topic.partitions))
    return [
        f"{TOPICS}/{topic.name}",
        within,
        *[path for index in numbers for path in (f"{within}/{index}", f"{within}/{index}/state")],
    ]
