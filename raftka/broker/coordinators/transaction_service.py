"""Transaction coordinators of this broker: their topic and its creation, their settings, and the
broker that coordinates each transactional id.

Knows no request and no transaction's state.
"""

from collections.abc import Callable, Mapping, Sequence
from math import inf

from raftka.broker.context import BrokerContext
from raftka.broker.controller.broker_lifecycle import BrokerLifecycle
from raftka.broker.controller.topic_creation import TopicCreation
from raftka.broker.coordinators.broker_channels import BrokerChannels
from raftka.broker.coordinators.marker_sender import MarkerSender, Writer
from raftka.broker.coordinators.runtime import CoordinatorRuntime, partition_for
from raftka.broker.coordinators.topics import ImageTopics
from raftka.broker.replica.manager import ReplicaManager
from raftka.broker.work.long_work import LongWork
from raftka.coordinator.machine import Ticket
from raftka.coordinator.transactions.commands import (
    VERSION_2,
    AddPartitions,
    TransactionSettings,
    VerifyPartitions,
)
from raftka.coordinator.transactions.coordinator import TransactionCoordinator
from raftka.metadata.commands import NewTopic
from raftka.metadata.configs.settings import NodeSettings
from raftka.metadata.image import Delta, MetadataImage
from raftka.wire.errors import Code, KafkaError

TOPIC = "__transaction_state"
Key = tuple[str, int]


class TransactionCoordinatorService:
    def __init__(
        self,
        context: BrokerContext,
        replicas: ReplicaManager,
        lifecycle: BrokerLifecycle,
        topic_creation: TopicCreation,
        long_work: LongWork,
        writer: Writer,
    ) -> None:
        self.context = context
        self._topic_creation = topic_creation
        self._commits_held_until = -inf
        self.settings = self._read_settings(context.metadata.settings)
        # markers wait for replicas, so they do not share a connection with the questions of
        # partition leaders
        self.marker_channels = BrokerChannels(context, "markers")
        self.channels = BrokerChannels(context, "transactions")
        self.sender = MarkerSender(context, long_work, self.marker_channels, writer)
        make = lambda: TransactionCoordinator(self.settings, self.sender.send)  # noqa: E731
        self.runtime = CoordinatorRuntime(
            context, replicas, lifecycle, long_work, TOPIC, ImageTopics(context), make
        )
        self.sender.runtime = self.runtime

    def on_settings(self, settings: NodeSettings) -> None:
        """Use the node's settings, which may have changed."""
        before, self.settings = self.settings, self._read_settings(settings)
        if self.settings != before:
            for partition in self.runtime.partitions.values():
                assert isinstance(partition.machine, TransactionCoordinator)
                partition.machine.configure(self.settings)

    def hold_commits(self, seconds: float) -> bool:
        """Decide no commit for so long; 0: the hold ends. Return whether a hold was in force.

        Coordinators that load meanwhile hold too. Aborts go on.
        """
        now = self.context.runtime.clock.now()
        was_held = now < self._commits_held_until
        self._commits_held_until = now + seconds if seconds else -inf
        self.on_settings(self.context.metadata.settings)
        return was_held

    def on_image(self, image: MetadataImage, delta: Delta) -> None:
        """Use a new image; called after the replicas and the coordinators."""
        if delta.reloaded or delta.brokers_changed:
            self.channels.on_image(image)
            self.marker_channels.on_image(image)
        self.sender.on_image()

    def close(self) -> None:
        self.channels.close()
        self.marker_channels.close()

    def coordinator_of(self, transactional_id: str) -> int:
        """Return the broker that coordinates the id. Raises COORDINATOR_NOT_AVAILABLE while its
        topic is made, or has no leader.
        """
        topic = self.context.metadata.image.topic_named(TOPIC)
        if topic is None:
            self._topic_creation.want(
                self._new_topic(self.context.metadata.settings), internal=True
            )
            raise KafkaError(Code.COORDINATOR_NOT_AVAILABLE)
        leader = topic.partitions[partition_for(transactional_id, len(topic.partitions))].leader
        if leader < 0:
            raise KafkaError(Code.COORDINATOR_NOT_AVAILABLE)
        return leader

    def submit(self, transactional_id: str, command: object, ticket: Ticket) -> None:
        """Submit a command to the coordinator of the id. Raises INVALID_REQUEST for an empty id,
        and as `CoordinatorRuntime.submit`.
        """
        if not transactional_id:
            raise KafkaError(Code.INVALID_REQUEST)
        self.runtime.submit(transactional_id, command, ticket)

    def add_partitions(
        self,
        transactional_id: str,
        producer: tuple[int, int],
        partitions: Sequence[Key],
        done: Callable[[Mapping[Key, Code] | KafkaError], None],
        *,
        verify_only: bool,
        hold_ms: int | None = None,
    ) -> None:
        """Add the partitions to the transaction, or check that they are in it; `done` gets a code
        for each, or one error for all.

        `hold_ms`: the longest wait for markers of the last transaction, instead of the usual time.
        """
        keys = tuple(partitions)

        def answered(answer: frozenset[Key] | KafkaError | None) -> None:
            if isinstance(answer, KafkaError):
                done(answer)
            else:
                lacks = answer or ()
                done(
                    {key: Code.TRANSACTION_ABORTABLE if key in lacks else Code.NONE for key in keys}
                )

        command: AddPartitions | VerifyPartitions
        if verify_only:
            command = VerifyPartitions(transactional_id, *producer, keys)
        else:
            command = AddPartitions(transactional_id, *producer, keys, VERSION_2)
        try:
            self.submit(
                transactional_id,
                command if hold_ms is None else command._replace(hold_ms=hold_ms),
                answered,
            )
        except KafkaError as error:
            done(error)

    def _read_settings(self, settings: NodeSettings) -> TransactionSettings:
        return TransactionSettings(
            expiration_ms=settings["transactional.id.expiration.ms"],
            expiration_interval_ms=settings[
                "transaction.remove.expired.transaction.cleanup.interval.ms"
            ],
            commits_held_until=self._commits_held_until,
        )

    @staticmethod
    def _new_topic(settings: NodeSettings) -> NewTopic:
        configs = (
            ("compression.type", "uncompressed"),
            ("cleanup.policy", "compact"),
            ("unclean.leader.election.enable", "false"),
            ("min.insync.replicas", str(settings["transaction.state.log.min.isr"])),
            ("segment.bytes", str(settings["transaction.state.log.segment.bytes"])),
        )
        partitions = settings["transaction.state.log.num.partitions"]
        replicas = settings["transaction.state.log.replication.factor"]
        return NewTopic(TOPIC, partitions, replicas, (), configs)
