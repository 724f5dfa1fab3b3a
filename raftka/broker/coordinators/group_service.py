"""The part of the coordinators that only groups have: their topic and its creation, their settings,
and the broker that coordinates each group.

Knows no request and no group's state.
"""

from collections.abc import Mapping
from dataclasses import replace

from raftka.broker.context import BrokerContext
from raftka.broker.controller.broker_lifecycle import BrokerLifecycle
from raftka.broker.controller.topic_creation import TopicCreation
from raftka.broker.coordinators.runtime import CoordinatorRuntime, partition_for
from raftka.broker.coordinators.topics import ImageTopics
from raftka.broker.replica.manager import ReplicaManager
from raftka.broker.work.long_work import LongWork
from raftka.coordinator.commands import GroupSettings
from raftka.coordinator.consumer.commands import ConsumerSettings
from raftka.coordinator.groups import GroupCoordinator
from raftka.metadata.commands import NewTopic
from raftka.metadata.configs.groups import GROUP_SETTINGS
from raftka.metadata.configs.settings import NodeSettings
from raftka.metadata.image import GROUP, MetadataImage
from raftka.wire.errors import Code, KafkaError

TOPIC = "__consumer_offsets"
MINUTE_MS = 60_000
OF_GROUP = {
    "consumer.session.timeout.ms": "session_timeout_ms",
    "consumer.heartbeat.interval.ms": "heartbeat_interval_ms",
    "consumer.assignment.interval.ms": "assignment_interval_ms",
}


class GroupCoordinatorService:
    def __init__(
        self,
        context: BrokerContext,
        replicas: ReplicaManager,
        lifecycle: BrokerLifecycle,
        topic_creation: TopicCreation,
        long_work: LongWork,
    ) -> None:
        self.context = context
        self._topic_creation = topic_creation
        self.settings = settings_of(context.metadata.settings, context.metadata.image)
        self.runtime = CoordinatorRuntime(
            context,
            replicas,
            lifecycle,
            long_work,
            TOPIC,
            ImageTopics(context),
            lambda: GroupCoordinator(self.settings),
        )
        self._configure(context.metadata.settings)

    def on_settings(self, settings: NodeSettings) -> None:
        """Use the node's settings, which may have changed."""
        before, self.settings = self.settings, settings_of(settings, self.context.metadata.image)
        self._configure(settings)
        if self.settings != before:
            for partition in self.runtime.partitions.values():
                assert isinstance(partition.machine, GroupCoordinator)
                partition.machine.configure(self.settings)

    def _configure(self, settings: NodeSettings) -> None:
        self.runtime.timeout_s = settings.seconds("offsets.commit.timeout.ms")
        self.runtime.compression = settings["offsets.topic.compression.codec"]

    def coordinator_of(self, group_id: str) -> int:
        """Return the broker that coordinates the group. Raises COORDINATOR_NOT_AVAILABLE while its
        topic is made, or has no leader.
        """
        topic = self.context.metadata.image.topic_named(TOPIC)
        if topic is None:
            self._topic_creation.want(
                self._new_topic(self.context.metadata.settings), internal=True
            )
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
        return NewTopic(
            TOPIC,
            settings["offsets.topic.num.partitions"],
            settings["offsets.topic.replication.factor"],
            (),
            configs,
        )


def settings_of(settings: NodeSettings, image: MetadataImage) -> GroupSettings:
    consumer = _consumer_settings(settings)
    own = {
        name: _of_group(consumer, settings, config)
        for (kind, name), config in image.configs.items()
        if kind == GROUP
    }
    return GroupSettings(
        min_session_timeout_ms=settings["group.min.session.timeout.ms"],
        max_session_timeout_ms=settings["group.max.session.timeout.ms"],
        max_size=settings["group.max.size"],
        initial_rebalance_delay_ms=settings["group.initial.rebalance.delay.ms"],
        offsets_retention_ms=settings["offsets.retention.minutes"] * MINUTE_MS,
        offsets_retention_check_interval_ms=settings["offsets.retention.check.interval.ms"],
        offset_metadata_max_bytes=settings["offset.metadata.max.bytes"],
        settle_ms=settings["raftka.group.settle.ms"],
        consumer=consumer,
        consumer_of=own,
    )


def _consumer_settings(settings: NodeSettings) -> ConsumerSettings:
    policy = settings["group.consumer.migration.policy"].lower()
    return ConsumerSettings(
        session_timeout_ms=settings["group.consumer.session.timeout.ms"],
        heartbeat_interval_ms=settings["group.consumer.heartbeat.interval.ms"],
        assignment_interval_ms=settings["group.consumer.assignment.interval.ms"],
        busy_interval_ms=settings["raftka.group.consumer.busy.interval.ms"],
        max_size=settings["group.consumer.max.size"],
        assignors=tuple(settings["group.consumer.assignors"]) or ("uniform", "range"),
        upgrades=policy in ("upgrade", "bidirectional"),
        downgrades=policy in ("downgrade", "bidirectional"),
    )


def _of_group(
    consumer: ConsumerSettings, settings: NodeSettings, config: Mapping[str, str]
) -> ConsumerSettings:
    """Return the settings of one group, within the present bounds of the broker."""
    bounds = {
        "session_timeout_ms": (
            settings["group.consumer.min.session.timeout.ms"],
            settings["group.consumer.max.session.timeout.ms"],
        ),
        "heartbeat_interval_ms": (
            settings["group.consumer.min.heartbeat.interval.ms"],
            settings["group.consumer.max.heartbeat.interval.ms"],
        ),
        "assignment_interval_ms": (
            settings["group.consumer.min.assignment.interval.ms"],
            settings["group.consumer.max.assignment.interval.ms"],
        ),
    }
    own = {}
    for name, field in OF_GROUP.items():
        if name in config:
            least, most = bounds[field]
            own[field] = min(max(GROUP_SETTINGS[name].parse(config[name]), least), most)
    return replace(consumer, **own)
