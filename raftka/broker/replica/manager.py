"""The partitions of this broker: follows the metadata image, writes at the end of each turn,
flushes, keeps deadlines. Knows no request format.
"""

from collections.abc import Callable, Iterator, Mapping
from enum import Enum, auto
from typing import Protocol

from raftka.broker.context import BrokerContext
from raftka.broker.controller.broker_lifecycle import BrokerLifecycle
from raftka.broker.controller.metadata_event_log import IsrChanges
from raftka.broker.network.frame_pool import FramePool
from raftka.broker.replica.alter_partition_manager import AlterPartitionManager
from raftka.broker.replica.damaged_logs import DamagedLogs
from raftka.broker.replica.fetcher import ReplicaFetcherManager
from raftka.broker.replica.housekeeping import Housekeeping
from raftka.broker.replica.isr_shrinks import IsrShrinks
from raftka.broker.replica.log_failures import LogFailures
from raftka.broker.replica.log_opener import LogOpener
from raftka.broker.replica.partition import Partition, Woken
from raftka.broker.replica.stray_logs import StrayLogs
from raftka.broker.replica.throttles import ReplicationThrottles
from raftka.broker.work.slices import Slices
from raftka.log.directory import DirectoryFailure, LogDirectory
from raftka.log.log import Log
from raftka.log.manager import LogManager
from raftka.log.recovery import Damaged
from raftka.metadata.image import BROKER, TOPIC, Delta, MetadataImage, PartitionImage, TopicImage
from raftka.replication.partition import Altered, AlterIsr, FollowerState, LeaderState
from raftka.runtime.interfaces import File
from raftka.versions import NewerFormat
from raftka.wire.errors import Code, KafkaError


class Delivery(Protocol):
    """Delayed delivery (raftka/broker/delivery/), a room above."""

    def follow(self, partition: Partition) -> None:
        """Note a replica of a delayed topic whose role or settings may have changed."""


Flushed = Callable[[OSError | None], None]

EXPIRE_EVERY_S = 0.1  # resolution of produce deadlines
CHECKPOINT_EVERY_S = 5.0
LOADING = "logs are being opened"
PARTITIONS_OF_TURN = 100  # that change, go, or are configured: 2 to 3 ms
REVIEWED_IN_A_TURN = 500  # of those where perhaps nothing has to be done


class Opening(Enum):
    """The logs of earlier runs of this broker, at its start."""

    NO_IMAGE = auto()  # the first image has not come
    OPENING = auto()  # some are not open yet: the broker may lead nothing
    OPENED = auto()


NO_IMAGE, OPENING, OPENED = Opening


class ReplicaManager:
    def __init__(
        self,
        context: BrokerContext,
        logs: LogManager,
        lifecycle: BrokerLifecycle,
        pool: FramePool,
        broken: Callable[[int], None],
    ) -> None:
        """`broken` is called with a broker whose connection to this node broke."""
        self.context = context
        self.lifecycle = lifecycle
        self.me = context.node_id
        self.clock = context.runtime.clock
        self.logs = logs
        self.partitions: dict[tuple[str, int], Partition] = {}
        self.by_id: dict[tuple[bytes, int], Partition] = {}
        self.throttles = ReplicationThrottles(context)
        self.fetchers = ReplicaFetcherManager(context, lifecycle, self.throttles, pool, broken)
        self.housekeeping: Housekeeping  # the node sets it
        self.delivery: Delivery  # likewise
        self.failures = LogFailures(context, lifecycle, self.partitions, self.stop)
        self.isr_changes = IsrChanges(context)
        self.isr_requests = AlterPartitionManager(
            context, lifecycle, self._altered, self.isr_changes.publish
        )
        self.live: dict[int, int] = {}  # broker id to epoch, of all that may be in an ISR
        self.doubtful = DamagedLogs(context, lifecycle)
        self._touched: list[Partition] = []
        self._to_flush: dict[LogDirectory, list[tuple[list[File | str], Flushed]]] = {}
        self._watched: dict[Partition, float] = {}
        self._expiring = False
        self._checkpoint_due = False
        self._to_read: dict[Woken, None] = {}  # at the turn's end
        self.isr_shrinks = IsrShrinks(context, self.partitions)
        self._opening = NO_IMAGE
        self._changed: Slices[tuple[bytes, int]] = Slices(
            self.clock, PARTITIONS_OF_TURN, self._on_partitions
        )
        self._doomed: Slices[Partition] = Slices(
            self.clock, PARTITIONS_OF_TURN, self._remove_doomed
        )
        self._reviewed: Slices[Partition] = Slices(self.clock, REVIEWED_IN_A_TURN, self._review)
        self._configured: Slices[Partition] = Slices(
            self.clock, PARTITIONS_OF_TURN, self._configure
        )
        self.strays = StrayLogs(context, logs)
        self._opener = LogOpener(self.clock, self._make_ahead, self._open_more)
        logs.work_in_turns(self._next_turn)
        # by topic: called when a leadership begins, goes on in another epoch, or ends
        self.leaderships: dict[str, Callable[[Partition], None]] = {}
        self.prefers_racks = (context.metadata.settings["replica.selector.class"] or "").endswith(
            "RackAwareReplicaSelector"
        )

    def start(self) -> None:
        self.housekeeping.retention.start()

    def _rolled(self, partition: Partition) -> None:
        self.context.events.info(
            "segment_rolled",
            partition=partition.name,
            base_offset=partition.log.segments.active.base_offset,
            segments=len(partition.log.segments),
        )
        self.context.metrics.count("raftka_segments_rolled_total")

    # finding

    def find(self, topic: str, index: int) -> Partition:
        """Raises UNKNOWN_TOPIC_OR_PARTITION, or NOT_LEADER_OR_FOLLOWER when the replica is
        elsewhere.
        """
        partition = self.partitions.get((topic, index))
        if partition is None:
            known = self.context.metadata.image.topic_named(topic)
            raise self._absent(known, index, Code.UNKNOWN_TOPIC_OR_PARTITION)
        return partition

    def find_by_id(self, topic_id: bytes, index: int) -> Partition:
        """Raises UNKNOWN_TOPIC_ID, or as `find`."""
        partition = self.by_id.get((topic_id, index))
        if partition is None:
            raise self._absent(
                self.context.metadata.image.topics.get(topic_id), index, Code.UNKNOWN_TOPIC_ID
            )
        return partition

    def _absent(self, topic: TopicImage | None, index: int, unknown: Code) -> KafkaError:
        if topic is None:
            return KafkaError(unknown)
        if not 0 <= index < len(topic.partitions):
            return KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION)
        if self.me in topic.partitions[index].offline:
            return KafkaError(Code.KAFKA_STORAGE_ERROR)
        return KafkaError(Code.NOT_LEADER_OR_FOLLOWER)

    # the turn

    def touch(self, partition: Partition) -> None:
        if not self._touched:
            self.clock.at_turn_end(self._write)
        self._touched.append(partition)

    def _write(self) -> None:
        touched, self._touched = self._touched, []
        for partition in touched:
            partition.write()

    def read_soon(self, reader: Woken) -> None:
        """Let a parked fetch read at the turn's end: once, after all changes of this turn."""
        if not self._to_read:
            self.clock.at_turn_end(self._read_parked)
        self._to_read[reader] = None

    def _read_parked(self) -> None:
        readers, self._to_read = self._to_read, {}
        for reader in readers:
            reader.records_arrived()

    def flush(self, home: LogDirectory, files: "list[File | str]", done: Flushed) -> None:
        """Flush at the turn's end, together with all other dirty files of the directory: many files
        cost little more than one.
        """
        if not self._to_flush:
            self.clock.at_turn_end(self._flush)
        self._to_flush.setdefault(home, []).append((files, done))

    def _flush(self) -> None:
        """Flush each directory by itself: an error is that of one directory, and a slow one delays
        no other.
        """
        asked, self._to_flush = self._to_flush, {}
        for together in asked.values():
            self._flush_together(together)

    def _flush_together(self, asked: list[tuple[list[File | str], Flushed]]) -> None:
        now, began = self.clock.now, self.clock.now()

        def flushed(error: OSError | None) -> None:
            self.context.metrics.flushes.add(now() - began)
            for _, done in asked:
                done(error)

        self.context.runtime.files.flush([file for files, _ in asked for file in files], flushed)

    def log_moved(self, partition: Partition, log: Log, home: LogDirectory) -> None:
        """Go on with the log in another directory, also as a follower."""
        self.fetchers.remove(partition)
        log.on_rolled = lambda: self._rolled(partition)
        partition.moved(log, home)
        if log.held is not None:
            log.held.pending = None  # a delivery may be under way in the log before
            self.delivery.follow(partition)
        if partition.leader is None and partition.image.leader >= 0:
            self.fetchers.add(partition, partition.image.leader)

    def stop(self, partition: Partition) -> None:
        """Stop a replica whose log has failed."""
        self.housekeeping.mover.stop(partition)
        partition.stop_leading()
        self.fetchers.remove(partition)
        partition.give_up(Code.KAFKA_STORAGE_ERROR)

    # deadlines

    def watch(self, partition: Partition, deadline: float) -> None:
        known = self._watched.get(partition)
        if known is None or deadline < known:
            self._watched[partition] = deadline
        if not self._expiring:
            self._expiring = True
            self.clock.call_at(self.clock.now() + EXPIRE_EVERY_S, self._expire)

    def _expire(self) -> None:
        """Expire operations of all partitions. An idle broker has no such timer."""
        now = self.clock.now()
        for partition in [
            each
            for each, deadline in self._watched.items()
            if deadline <= now or not each.has_deadlines
        ]:
            following = partition.expire(now)
            if following is None:
                del self._watched[partition]
            else:
                self._watched[partition] = following
        self._expiring = bool(self._watched)
        if self._expiring:
            self.clock.call_at(now + EXPIRE_EVERY_S, self._expire)

    def _next_turn(self, step: Callable[[], None]) -> None:
        self.clock.call_at(self.clock.now(), step)

    def checkpoint_later(self) -> None:
        if not self._checkpoint_due:
            self._checkpoint_due = True
            self.clock.call_at(self.clock.now() + CHECKPOINT_EVERY_S, self._checkpoint)

    def _checkpoint(self) -> None:
        self._checkpoint_due = False
        self.checkpoint()

    def checkpoint(self) -> None:
        """Write a checkpoint now; do nothing while an earlier one is under way."""
        if self.context.stopped:
            return  # closing has written them, and another process may have the directory by now
        self.logs.write_checkpoints(HighWatermarks(self.partitions), self._checkpointed)

    def _checkpointed(self, error: OSError | None) -> None:
        if error is not None:
            self.failures.fail_node(error)
        else:
            self.housekeeping.retention.checkpointed()

    # ISR

    def _altered(self, partition: Partition, effect: AlterIsr, answer: Altered | Code) -> None:
        leader = partition.leader
        if (
            leader is None
            or self.partitions.get((partition.topic, partition.index)) is not partition
        ):
            return
        before = leader.isr
        if not isinstance(answer, Altered):
            self.context.metrics.count("kafka_server_replicamanager_failedisrupdates_total")
        partition.apply(leader.alter_answered(effect, answer, self.clock.now()))
        self.isr_changes.note(partition.name, before, leader.isr)
        partition.wake_all()
        self.isr_shrinks.later(leader.deadline())

    # the image

    def on_image(self, image: MetadataImage, delta: Delta) -> None:
        live_changed = bool(delta.brokers_changed) or delta.reloaded
        if live_changed:
            self.live = {
                broker.broker_id: broker.epoch for broker in image.brokers.values() if broker.alive
            }
        self._delete_topics(delta.topics_deleted)
        if delta.reloaded:
            self._doomed.add(
                [
                    partition
                    for partition in self.partitions.values()
                    if partition.topic_id not in image.topics
                ]
            )
            self.strays.remove()
            self._changed.add(
                [
                    (topic_id, index)
                    for topic_id, topic in image.topics.items()
                    for index in range(len(topic.partitions))
                ]
            )
        else:
            self._changed.add(delta.partitions_changed)
        if live_changed:
            self._reviewed.add(self.partitions.values())
            self.fetchers.on_brokers(image)
            self.fetchers.pump()
        self._on_configs(delta)
        if self._opening is NO_IMAGE:
            self._opening = OPENED
            if self._changed or self._opener:
                # a log that has lost records is found before this broker may be elected
                self._opening = OPENING
                self.lifecycle.withdraw(LOADING)

    def _on_partitions(self, keys: list[tuple[bytes, int]]) -> None:
        """Lead, follow, open or remove partitions as the present image has them."""
        topics = self.context.metadata.image.topics
        for topic_id, index in keys:
            if topic_id in topics:
                self._on_partition(topics[topic_id], index)
        self.isr_changes.publish()
        self.fetchers.pump()
        if self._opening is OPENING and not self._changed and not self._opener:
            self._opening = OPENED
            self.lifecycle.come_back(LOADING)

    def _make_ahead(self, keys: list[tuple[bytes, int]], done: Callable[[], None]) -> None:
        image, wanted = self.context.metadata.image, []
        for topic_id, index in keys:
            topic = image.topics.get(topic_id)
            if topic is not None and index < len(topic.partitions):
                config = self.context.metadata.topic_configs.of(image, topic.name).log
                wanted.append(
                    ((topic.name, index), topic_id, config, self._others_have(topic, index))
                )
        self.context.runtime.offload.run(self.logs.prepare(wanted), lambda _: done())

    def _others_have(self, topic: TopicImage, index: int) -> bool:
        """Return whether other brokers have all committed records: else the log of this broker is
        the best there is, even if it is damaged.
        """
        eligible = topic.partitions[index].eligible
        return self.me in eligible and len(eligible) > 1

    def _open_more(self, keys: list[tuple[bytes, int]]) -> None:
        if not self.context.stopped:
            self._on_partitions(keys)
            if self.logs.forget_ahead():
                self.strays.remove()

    def _on_partition(self, topic: TopicImage, index: int) -> None:
        image = topic.partitions[index]
        partition = self.partitions.get((topic.name, index))
        if partition is not None and partition.topic_id != topic.topic_id:
            self._remove([partition])
            partition = None
        if self.me not in image.replicas:
            self.doubtful.discard(topic.topic_id, index)
            if partition is not None:
                self._remove([partition])
            elif self._opener.gone(topic.topic_id, index):
                self.strays.remove()
            return
        if partition is None:
            if self.me in image.offline or self.logs.lies_offline(
                (topic.name, index), topic.topic_id
            ):
                return
            if not self._opener.may_open(
                (topic.topic_id, index), new=not self.logs.lies_here((topic.name, index))
            ):
                return
            try:
                partition = self._open(topic, index)
            except Damaged as damage:
                self.doubtful.add(topic, index, damage)
                return
            except NewerFormat as error:
                # before anything of the partition was changed
                self.context.runtime.fail(NewerFormat(f"{topic.name}-{index}: {error}"))
                return
            except DirectoryFailure as error:
                if self.failures.open_failed(f"{topic.name}-{index}", error.home, error):
                    self._on_partition(topic, index)  # in another directory, if it is new
                return
            if (cut := partition.log.cut) is not None and (cut.bytes or cut.segments):
                self.context.events.warning(
                    "log_cut",
                    partition=partition.name,
                    end=cut.offset,
                    bytes=cut.bytes,
                    segments=cut.segments,
                )
        before, partition.image = partition.image, image
        if image.leader == self.me:
            self._lead(partition, image)
        else:
            self._follow(partition, before, image)

    def _open(self, topic: TopicImage, index: int) -> Partition:
        config = self.context.metadata.topic_configs.of(self.context.metadata.image, topic.name).log
        whole = self._others_have(topic, index)
        log = self.logs.get_or_create(
            topic.name, index, topic.topic_id, config, self.clock.wall_ms(), whole=whole
        )
        self.doubtful.discard(topic.topic_id, index)
        partition = Partition(
            self,
            topic,
            index,
            log,
            self.logs.home((topic.name, index)),
            self.logs.high_watermark(topic.name, index),
        )
        partition.image = PartitionImage(partition.image.replicas, (), -1, -1, -1)
        log.on_rolled = lambda: self._rolled(partition)
        self.partitions[topic.name, index] = partition
        self.by_id[topic.topic_id, index] = partition
        if self.logs.leftovers:
            self.housekeeping.mover.opened(partition)
        return partition

    def _lead(self, partition: Partition, image: PartitionImage) -> None:
        leader = partition.leader
        now = self.clock.now()
        min_isr = self.context.metadata.topic_configs.of(
            self.context.metadata.image, partition.topic
        ).min_insync_replicas
        if leader is None or leader.leader_epoch != image.leader_epoch:
            if partition.log.failed is not None:
                return
            self.fetchers.remove(partition)
            partition.log.assign_epoch(image.leader_epoch)
            leader = LeaderState(
                self.me,
                image.leader_epoch,
                image.partition_epoch,
                image.replicas,
                image.isr,
                partition.log.end_offset,
                partition.log.flushed_offset,
                partition.follower_state.high_watermark
                if leader is None
                else leader.high_watermark,
                now,
                self.context.metadata.settings.seconds("replica.lag.time.max.ms"),
                min_isr,
                self._live_of(image),
                image.elr,
            )
            partition.lead(leader)
            partition.flush()  # records of an earlier role
            partition.wake_all()
            # produces of an earlier leadership of this broker may be committed by now
            partition.committed(leader.high_watermark)
            self.context.events.debug(
                "leading", partition=partition.name, epoch=image.leader_epoch, isr=image.isr
            )
            partition.tell_leadership()
            if partition.log.held is not None:
                self.delivery.follow(partition)
        else:
            isr_before = leader.isr
            partition.apply(leader.on_image(image, self._live_of(image), now, min_isr))
            self.isr_changes.note(partition.name, isr_before, leader.isr)
            partition.wake_all()
            partition.complete_deletions()
        self.isr_shrinks.later(leader.deadline())

    def _live_of(self, image: PartitionImage) -> Mapping[int, int]:
        """Return the brokers that may be in the ISR, id to epoch: a live broker whose directory
        failed may not.
        """
        return (
            {each: epoch for each, epoch in self.live.items() if each not in image.offline}
            if image.offline
            else self.live
        )

    def _follow(self, partition: Partition, before: PartitionImage, image: PartitionImage) -> None:
        if partition.leader is not None:
            high_watermark = partition.leader.high_watermark
            partition.stop_leading()
            partition.follower_state = FollowerState(
                image.leader, image.leader_epoch, partition.log.end_offset, high_watermark
            )
            partition.give_up(Code.NOT_LEADER_OR_FOLLOWER)
        elif (before.leader, before.leader_epoch) == (image.leader, image.leader_epoch):
            return
        else:
            partition.follower_state = FollowerState(
                image.leader,
                image.leader_epoch,
                partition.log.end_offset,
                partition.follower_state.high_watermark,
            )
            partition.wake_all()
        self.fetchers.remove(partition)
        if partition.log.held is not None:
            self.delivery.follow(partition)
        if image.leader >= 0 and partition.log.failed is None:
            self.fetchers.add(partition, image.leader)

    def _review(self, partitions: list[Partition]) -> None:
        """Use the present set of live brokers, which has changed."""
        now = self.clock.now()
        for partition in partitions:
            if partition.leader is not None:
                partition.apply(
                    partition.leader.on_image(partition.image, self._live_of(partition.image), now)
                )
                partition.complete_deletions()
        self.isr_changes.publish()

    def _on_configs(self, delta: Delta) -> None:
        """Configure partitions again: settings of a broker, or of all, are every topic's
        defaults.
        """
        topics = {name for kind, name in delta.configs_changed if kind == TOPIC}
        everyone = delta.reloaded or any(kind == BROKER for kind, _ in delta.configs_changed)
        if everyone or topics:
            self._configured.add(
                [
                    partition
                    for partition in self.partitions.values()
                    if everyone or partition.topic in topics
                ]
            )

    def _configure(self, partitions: list[Partition]) -> None:
        now, image = self.clock.now(), self.context.metadata.image
        configs = {
            topic: self.context.metadata.topic_configs.of(image, topic)
            for topic in {partition.topic for partition in partitions}
        }
        for partition in partitions:
            if self.partitions.get((partition.topic, partition.index)) is partition:
                config = configs[partition.topic]
                partition.configure(config.log)
                if partition.log.held is not None:
                    self.delivery.follow(partition)
                if partition.leader is not None:
                    partition.apply(
                        partition.leader.on_image(
                            partition.image,
                            self._live_of(partition.image),
                            now,
                            config.min_insync_replicas,
                        )
                    )

    def _delete_topics(self, topics: Mapping[bytes, TopicImage]) -> None:
        """Remove the partitions of all topics that an entry deletes together: each removal syncs
        the log directories.
        """
        for topic_id in topics:
            self.doubtful.discard_topic(topic_id)
        self._doomed.add(
            [
                partition
                for topic_id, topic in topics.items()
                for index in range(len(topic.partitions))
                if (partition := self.by_id.get((topic_id, index))) is not None
            ]
        )
        for topic_id in topics:
            if self._opener.gone(topic_id):
                self.strays.remove()

    def _remove_doomed(self, partitions: list[Partition]) -> None:
        self._remove(
            [
                partition
                for partition in partitions
                if self.partitions.get((partition.topic, partition.index)) is partition
            ]
        )

    def _remove(self, partitions: list[Partition]) -> None:
        # flushes that were asked for keep their files open; a closed file could not be flushed
        self._flush()
        for partition in partitions:
            self.housekeeping.mover.stop(partition)
            self.fetchers.remove(partition)
            self.partitions.pop((partition.topic, partition.index), None)
            self.by_id.pop((partition.topic_id, partition.index), None)
            partition.stop_leading()
            self.context.metrics.partition_gone(
                partition.messages_in,
                partition.bytes_in,
                partition.bytes_out,
                partition.produced,
                partition.fetched,
            )
            self._watched.pop(partition, None)
            partition.give_up(Code.UNKNOWN_TOPIC_OR_PARTITION)
        self.logs.remove([(partition.topic, partition.index) for partition in partitions])

    def close(self) -> None:
        """Shut down cleanly: write all records, indexes and checkpoints."""
        for waiting in (
            self._changed,
            self._doomed,
            self._reviewed,
            self._configured,
            self.strays.waiting,
            self.strays.namesakes,
        ):
            waiting.clear()
        self.housekeeping.retention.close()
        self.housekeeping.mover.close()
        self._write()
        high_watermarks = dict(HighWatermarks(self.partitions))
        # requests that come before the process ends get NOT_LEADER_OR_FOLLOWER
        for partition in self.partitions.values():
            self.fetchers.remove(partition)
            partition.stop_leading()
        self.logs.close(high_watermarks, self.lifecycle.broker_epoch)


class HighWatermarks(Mapping[tuple[str, int], int]):
    """The present high watermarks, by topic and partition."""

    def __init__(self, partitions: Mapping[tuple[str, int], Partition]) -> None:
        self._partitions = partitions

    def __getitem__(self, key: tuple[str, int]) -> int:
        return self._partitions[key].high_watermark

    def __iter__(self) -> Iterator[tuple[str, int]]:
        return iter(self._partitions)

    def __len__(self) -> int:
        return len(self._partitions)
