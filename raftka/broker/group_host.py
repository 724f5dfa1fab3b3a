"""What is particular to groups among coordinators: their topic and how it comes to be, their settings, and which broker looks after which of them.

Knows no request and no group's state.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from raftka.broker.shards import Shards, partition_for
from raftka.coordinator.commands import GroupSettings
from raftka.coordinator.groups import GroupCoordinator
from raftka.metadata.commands import CreateTopics, NewTopic
from raftka.metadata.settings import NodeSettings
from raftka.wire.errors import Code, KafkaError

if TYPE_CHECKING:
    from raftka.broker.node import Node

TOPIC = "__consumer_offsets"
MINUTE_MS = 60_000


class ImageTopics:
    """What the coordinators see of the metadata, as they are now."""

    __slots__ = ("_node",)

    def __init__(self, node: "Node") -> None:
        self._node = node

    def topic_id(self, name: str) -> bytes | None:
        return self._node.image.topic_ids.get(name)

    def topic_name(self, topic_id: bytes) -> str | None:
        topic = self._node.image.topics.get(topic_id)
        return topic.name if topic is not None else None

    def partition_count(self, name: str) -> int:
        topic = self._node.image.topic_named(name)
        return len(topic.partitions) if topic is not None else 0

    def names(self) -> Iterable[str]:
        return self._node.image.topic_ids


class Groups:
    def __init__(self, node: "Node") -> None:
        self.node = node
        self.settings = settings_of(node.settings)
        self.shards = Shards(node, TOPIC, ImageTopics(node), lambda: GroupCoordinator(self.settings))
        self._configure(node.settings)

    def on_settings(self, settings: NodeSettings) -> None:
        """Some may have changed."""
        before, self.settings = self.settings, settings_of(settings)
        self._configure(settings)
        if self.settings != before:
            for shard in self.shards.shards.values():
                assert isinstance(shard.machine, GroupCoordinator)
                shard.machine.configure(self.settings)

    def _configure(self, settings: NodeSettings) -> None:
        self.shards.timeout_s = settings.seconds("offsets.commit.timeout.ms")
        self.shards.compression = settings["offsets.topic.compression.codec"]

    def coordinator_of(self, group_id: str) -> int:
        """The broker that looks after the group. Raises COORDINATOR_NOT_AVAILABLE: then its topic is on its way, or has no leader."""
        node = self.node
        topic = node.image.topic_named(TOPIC)
        if topic is None:
            node.create_automatically(CreateTopics((self._new_topic(node.settings),)))
            raise KafkaError(Code.COORDINATOR_NOT_AVAILABLE)
        leader = topic.partitions[partition_for(group_id, len(topic.partitions))].leader
        if leader < 0:
            raise KafkaError(Code.COORDINATOR_NOT_AVAILABLE)
        return leader

    @staticmethod
    def _new_topic(settings: NodeSettings) -> NewTopic:
        configs = (
            ("compression.type", "producer"),
            ("cleanup.policy", "compact"),
            ("segment.bytes", str(settings["offsets.topic.segment.bytes"])),
        )
        return NewTopic(TOPIC, settings["offsets.topic.num.partitions"], settings["offsets.topic.replication.factor"], (), configs)


def settings_of(settings: NodeSettings) -> GroupSettings:
    return GroupSettings(
        min_session_timeout_ms=settings["group.min.session.timeout.ms"],
        max_session_timeout_ms=settings["group.max.session.timeout.ms"],
        max_size=settings["group.max.size"],
        initial_rebalance_delay_ms=settings["group.initial.rebalance.delay.ms"],
        offsets_retention_ms=settings["offsets.retention.minutes"] * MINUTE_MS,
        offsets_retention_check_interval_ms=settings["offsets.retention.check.interval.ms"],
        offset_metadata_max_bytes=settings["offset.metadata.max.bytes"],
        settle_ms=settings["raftka.group.settle.ms"],
    )
