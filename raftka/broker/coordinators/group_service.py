"""The part of the coordinators that only groups have: their topic and its creation, their settings,
and the broker that coordinates each group.

Knows no request and no group's state.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal, TypedDict

from raftka.broker.context import BrokerContext
from raftka.broker.controller.broker_lifecycle import BrokerLifecycle
from raftka.broker.controller.topic_creation import TopicCreation
from raftka.broker.coordinators.broker_channels import BrokerChannels
from raftka.broker.coordinators.runtime import CoordinatorRuntime, partition_for
from raftka.broker.coordinators.share_calls import Persister, ShareCalls
from raftka.broker.coordinators.share_offsets import PartitionEnds, ShareOffsets
from raftka.broker.coordinators.streams_topics import StreamsTopics
from raftka.broker.coordinators.topics import ImageTopics
from raftka.broker.replica.manager import ReplicaManager
from raftka.broker.work.long_work import LongWork
from raftka.coordinator.commands import GroupSettings
from raftka.coordinator.consumer.commands import ConsumerSettings
from raftka.coordinator.groups import GroupCoordinator
from raftka.coordinator.share.commands import ShareSettings
from raftka.coordinator.streams.assignor import ASSIGNORS
from raftka.coordinator.streams.settings import StreamsSettings
from raftka.metadata.commands import NewTopic
from raftka.metadata.configs.groups import GROUP_SETTINGS
from raftka.metadata.configs.of_groups import IN_MEMORY
from raftka.metadata.configs.settings import NodeSettings
from raftka.metadata.image import GROUP, Delta, MetadataImage
from raftka.wire.errors import Code, KafkaError

TOPIC = "__consumer_offsets"
MINUTE_MS = 60_000


OF_GROUP: Mapping[
    str, Literal["session_timeout_ms", "heartbeat_interval_ms", "assignment_interval_ms"]
] = {
    "session.timeout.ms": "session_timeout_ms",
    "heartbeat.interval.ms": "heartbeat_interval_ms",
    "assignment.interval.ms": "assignment_interval_ms",
}
OF_STREAMS_GROUP = {
    "streams.session.timeout.ms": "session_timeout_ms",
    "streams.heartbeat.interval.ms": "heartbeat_interval_ms",
    "streams.assignment.interval.ms": "assignment_interval_ms",
    "streams.initial.rebalance.delay.ms": "initial_rebalance_delay_ms",
    "streams.num.standby.replicas": "standby_replicas",
    "streams.rack.aware.assignment.tags": "rack_aware_tags",
    "streams.assignor.name": "assignor",
    "streams.task.offset.interval.ms": "task_offset_interval_ms",
    "streams.acceptable.recovery.lag": "acceptable_recovery_lag",
}


class GroupCoordinatorService:
    def __init__(
        self,
        context: BrokerContext,
        replicas: ReplicaManager,
        lifecycle: BrokerLifecycle,
        topic_creation: TopicCreation,
        long_work: LongWork,
        persister: Persister,
    ) -> None:
        self.context = context
        self._topic_creation = topic_creation
        self.streams_topics = StreamsTopics(context, topic_creation)
        self.settings = settings_of(context.metadata.settings, context.metadata.image)
        self.runtime = CoordinatorRuntime(
            context,
            replicas,
            lifecycle,
            long_work,
            TOPIC,
            ImageTopics(context),
            lambda: GroupCoordinator(self.settings, self.share_calls.call),
        )
        self.share_calls = ShareCalls(context.runtime.clock, persister, self.runtime.submit)
        self._channels = BrokerChannels(context, "groups")
        ends = PartitionEnds(context, replicas, self._channels)
        self.share_offsets = ShareOffsets(context, persister, ends)
        self._configure(context.metadata.settings)

    def on_settings(self, settings: NodeSettings) -> None:
        """Use the node's settings, which may have changed."""
        before, self.settings = self.settings, settings_of(settings, self.context.metadata.image)
        self._configure(settings)
        if self.settings != before:
            for partition in self.runtime.partitions.values():
                assert isinstance(partition.machine, GroupCoordinator)
                partition.machine.configure(self.settings)

    def on_image(self, image: MetadataImage, delta: Delta) -> None:
        """Use a new image; called after the replicas and the coordinators."""
        if delta.reloaded or delta.brokers_changed:
            self._channels.on_image(image)

    def close(self) -> None:
        self._channels.close()

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
    consumer, share = _consumer_settings(settings), _share_settings(settings)
    streams = _streams_settings(settings)
    own = {name: config for (kind, name), config in image.configs.items() if kind == GROUP}
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
        consumer_of={
            name: replace(consumer, **_own_values("consumer", settings, config))
            for name, config in own.items()
        },
        share=share,
        share_of={
            name: replace(share, **_own_values("share", settings, config))
            for name, config in own.items()
        },
        streams=streams,
        streams_of={
            name: _of_streams_group(streams, settings, config) for name, config in own.items()
        },
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


def _share_settings(settings: NodeSettings) -> ShareSettings:
    return ShareSettings(
        session_timeout_ms=settings["group.share.session.timeout.ms"],
        heartbeat_interval_ms=settings["group.share.heartbeat.interval.ms"],
        assignment_interval_ms=settings["group.share.assignment.interval.ms"],
        max_size=settings["group.share.max.size"],
        initialize_retry_ms=settings["group.share.initialize.retry.interval.ms"],
    )


class _OwnValues(TypedDict, total=False):
    """The settings that a group may have of its own, in ms."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int


def _own_values(kind: str, settings: NodeSettings, config: Mapping[str, str]) -> _OwnValues:
    """Return the settings of one group, within the present bounds of the broker."""
    own = _OwnValues()
    for setting, value in config.items():
        of_kind, _, name = setting.partition(".")
        if of_kind != kind or name not in OF_GROUP:
            continue
        least, most = settings[f"group.{kind}.min.{name}"], settings[f"group.{kind}.max.{name}"]
        own[OF_GROUP[name]] = min(max(GROUP_SETTINGS[setting].parse(value), least), most)
    return own


def _streams_settings(settings: NodeSettings) -> StreamsSettings:
    return StreamsSettings(
        session_timeout_ms=settings["group.streams.session.timeout.ms"],
        heartbeat_interval_ms=settings["group.streams.heartbeat.interval.ms"],
        assignment_interval_ms=settings["group.streams.assignment.interval.ms"],
        initial_rebalance_delay_ms=settings["group.streams.initial.rebalance.delay.ms"],
        max_size=settings["group.streams.max.size"],
        standby_replicas=settings["group.streams.num.standby.replicas"],
        rack_aware_tags=tuple(settings["group.streams.rack.aware.assignment.tags"]),
        assignor=next(iter(settings["group.streams.assignors"]), "sticky"),
        task_offset_interval_ms=settings["group.streams.task.offset.interval.ms"],
        acceptable_recovery_lag=settings["group.streams.acceptable.recovery.lag"],
        keeps_descriptions=settings["group.streams.topology.description.plugin.class"] == IN_MEMORY,
    )


def _of_streams_group(
    streams: StreamsSettings, settings: NodeSettings, config: Mapping[str, str]
) -> StreamsSettings:
    """Return the settings of one group, within the present bounds of the broker."""
    own = {
        field: GROUP_SETTINGS[name].parse(config[name])
        for name, field in OF_STREAMS_GROUP.items()
        if name in config
    }
    bounds = {
        "session_timeout_ms": (
            settings["group.streams.min.session.timeout.ms"],
            settings["group.streams.max.session.timeout.ms"],
        ),
        "heartbeat_interval_ms": (
            settings["group.streams.min.heartbeat.interval.ms"],
            settings["group.streams.max.heartbeat.interval.ms"],
        ),
        "assignment_interval_ms": (
            settings["group.streams.min.assignment.interval.ms"],
            settings["group.streams.max.assignment.interval.ms"],
        ),
        "standby_replicas": (0, settings["group.streams.max.standby.replicas"]),
        "task_offset_interval_ms": (
            settings["group.streams.min.task.offset.interval.ms"],
            2**31 - 1,
        ),
    }
    for field, (least, most) in bounds.items():
        if field in own:
            own[field] = min(max(own[field], least), most)
    if own.get("assignor", streams.assignor) not in ASSIGNORS:
        own["assignor"] = streams.assignor
    return replace(streams, **own)
