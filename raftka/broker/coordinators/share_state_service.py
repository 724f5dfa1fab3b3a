"""Share coordinators of this broker: their topic and its creation, their settings, the broker that
coordinates each share partition, and the deletion of records that no state needs any more.

Knows no request and no state.
"""

from contextlib import suppress
from functools import partial

from raftka.broker.context import BrokerContext
from raftka.broker.controller.broker_lifecycle import BrokerLifecycle
from raftka.broker.controller.topic_creation import TopicCreation
from raftka.broker.coordinators.runtime import CoordinatorRuntime, partition_for
from raftka.broker.coordinators.topics import ImageTopics
from raftka.broker.replica.manager import ReplicaManager
from raftka.broker.replica.partition import Partition
from raftka.broker.work.long_work import LongWork
from raftka.coordinator.machine import Ticket
from raftka.coordinator.share_state.commands import FindPrunable, ShareStateSettings
from raftka.coordinator.share_state.coordinator import ShareStateCoordinator
from raftka.metadata.commands import NewTopic
from raftka.metadata.configs.settings import NodeSettings
from raftka.runtime.interfaces import Timer
from raftka.share.state import SharePartitionKey
from raftka.wire.errors import Code, KafkaError

TOPIC = "__share_group_state"


class ShareStateService:
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
        settings = context.metadata.settings
        self.runtime = CoordinatorRuntime(
            context,
            replicas,
            lifecycle,
            long_work,
            TOPIC,
            ImageTopics(context),
            lambda: ShareStateCoordinator(settings_of(context.metadata.settings)),
        )
        self.runtime.timeout_s = settings.seconds("share.coordinator.write.timeout.ms")
        self.runtime.compression = settings["share.coordinator.state.topic.compression.codec"]
        self._pruning: Timer | None = None

    def on_image(self) -> None:
        """Begin to prune with the first coordinator here; called after the coordinators."""
        if self._pruning is None and self.runtime.partitions:
            self._prune_later()

    def coordinator_of(self, key: SharePartitionKey) -> int:
        """Return the broker that coordinates the share partition. Raises
        COORDINATOR_NOT_AVAILABLE while its topic is made, or has no leader.
        """
        topic = self.context.metadata.image.topic_named(TOPIC)
        if topic is None:
            self._topic_creation.want(
                self._new_topic(self.context.metadata.settings), internal=True
            )
            raise KafkaError(Code.COORDINATOR_NOT_AVAILABLE)
        index = partition_for(key.coordinator_key(), len(topic.partitions))
        leader = topic.partitions[index].leader
        if leader < 0:
            raise KafkaError(Code.COORDINATOR_NOT_AVAILABLE)
        return leader

    def submit(self, key: SharePartitionKey, command: object, ticket: Ticket) -> None:
        """Submit a command to the coordinator of the share partition; as
        `CoordinatorRuntime.submit`.
        """
        self.runtime.submit(key.coordinator_key(), command, ticket)

    # pruning

    def _prune_later(self) -> None:
        clock = self.context.runtime.clock
        interval_s = self.context.metadata.settings.seconds(
            "share.coordinator.state.topic.prune.interval.ms"
        )
        self._pruning = clock.call_at(clock.now() + interval_s, self._prune)

    def _prune(self) -> None:
        """Ask each coordinator here for its oldest record that is needed. An answer comes when all
        that it rests on is committed.
        """
        self._pruning = None
        if self.context.stopped:
            return
        for coordinator in list(self.runtime.partitions.values()):
            with suppress(KafkaError):  # it is loading
                coordinator.submit(FindPrunable(), partial(self._delete, coordinator.partition))
        self.on_image()

    @staticmethod
    def _delete(partition: Partition, before: int | KafkaError) -> None:
        """Delete the records of the log below an offset, where this broker still leads."""
        if isinstance(before, int) and before > partition.log.start_offset:
            with suppress(KafkaError):
                partition.delete_before(before)

    @staticmethod
    def _new_topic(settings: NodeSettings) -> NewTopic:
        """Return the topic. Its records are deleted by pruning alone, never for their age or
        number.
        """
        configs = (
            ("compression.type", "producer"),
            ("cleanup.policy", "delete"),
            ("retention.ms", "-1"),
            ("retention.bytes", "-1"),
            ("min.insync.replicas", str(settings["share.coordinator.state.topic.min.isr"])),
            ("segment.bytes", str(settings["share.coordinator.state.topic.segment.bytes"])),
        )
        partitions = settings["share.coordinator.state.topic.num.partitions"]
        replicas = settings["share.coordinator.state.topic.replication.factor"]
        return NewTopic(TOPIC, partitions, replicas, (), configs)


def settings_of(settings: NodeSettings) -> ShareStateSettings:
    return ShareStateSettings(
        updates_of_snapshot=settings["share.coordinator.snapshot.update.records.per.snapshot"],
        cold_interval_ms=settings["share.coordinator.cold.partition.snapshot.interval.ms"],
    )
