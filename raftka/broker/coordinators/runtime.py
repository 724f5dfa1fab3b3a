"""The coordinators of one topic on this broker: a state machine for each of its partitions that it leads. Finds the one that a key belongs to,
loads it when a leadership begins, a slice of the log a turn, and drops it when that ends. Knows no group and no transaction.
"""

from collections import deque
from collections.abc import Callable
from operator import mul
from struct import unpack
from typing import Any

from raftka.broker.context import BrokerContext
from raftka.broker.controller.broker_lifecycle import BrokerLifecycle
from raftka.broker.coordinators.partition import CoordinatorPartition
from raftka.broker.network.long_work import LongWork, Steps
from raftka.broker.replica.manager import ReplicaManager
from raftka.broker.replica.partition import Partition
from raftka.coordinator.machine import Context, Machine, Ticket, Topics
from raftka.metadata.image import Delta, MetadataImage
from raftka.wire.errors import Code, KafkaError

REPLIES_OF_TURN = 50  # some 40 us each: a group of 1,000 members that has rebalanced is answered in twenty turns
POWERS = tuple([pow(31, exponent, 1 << 32) for exponent in reversed(range(256))])
KNOWN_KEYS = 10_000
KNOWN_LENGTH = 100  # characters: a stranger's keys may be long


def java_hash(text: str) -> int:
    """String.hashCode, of which every client and tool of Kafka's believes that it picks the partition; in blocks, for strangers' names are long."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for at in range(0, len(units), 2 * len(POWERS)):
        block = memoryview(units)[at : at + 2 * len(POWERS)]
        count = len(block) // 2
        value = (value * pow(31, count, 1 << 32) + sum(map(mul, unpack(f">{count}H", block), POWERS[-count:]))) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def partition_for(key: str, partitions: int) -> int:
    value = java_hash(key)
    return 0 if value == -(1 << 31) else abs(value) % partitions


class CoordinatorRuntime:
    def __init__(
        self,
        context: BrokerContext,
        replicas: ReplicaManager,
        lifecycle: BrokerLifecycle,
        long_work: LongWork,
        topic: str,
        topics: Topics,
        make_machine: Callable[[], Machine],
    ) -> None:
        self.context = context
        self.lifecycle = lifecycle
        self._replicas = replicas
        self.long_work = long_work
        self.clock = context.runtime.clock
        self.topic = topic
        self.partitions: dict[int, CoordinatorPartition] = {}
        self.timeout_s = 5.0  # after which who waits for a commit is told that it may not come
        self.compression = 0
        self._topics = topics
        self._make_machine = make_machine
        self._random = context.runtime.random(f"coordinators of {topic}")
        self._loading: deque[CoordinatorPartition] = deque()
        self._scheduled = False
        self._touched: list[CoordinatorPartition] = []
        self._turn: Context | None = None  # of what is decided in this turn
        self._delivered = 0  # replies, in this turn
        self._undelivered: deque[tuple[Ticket, object]] = deque()  # for which this turn had no time
        self._image = context.metadata.image
        self._partitions: dict[str, int] = {}  # by key, for `_count` partitions
        self._count = 0
        replicas.leaderships[topic] = self._leadership_changed

    # asking

    def submit(self, key: str, command: object, ticket: Ticket) -> None:
        """`ticket` is called with the answer, perhaps at once. Raises KafkaError for what needs no coordinator to be refused."""
        self.find(key).submit(command, ticket)

    def forget(self, key: str, ticket: Ticket) -> None:
        """Who has the ticket has gone away."""
        partition = self.partitions.get(self.partition_for(key)) if self._known() else None
        if partition is not None:
            partition.forget(ticket)

    def submit_to_all(self, command: object, done: Callable[[Any], None]) -> Steps[None]:
        """`done` is called with the list of all answers, or the first KafkaError. Raises COORDINATOR_LOAD_IN_PROGRESS."""
        shards = list(self.partitions.values())
        if not all(partition.loaded for partition in shards):
            raise KafkaError(Code.COORDINATOR_LOAD_IN_PROGRESS)
        gathered = Gathered(len(shards), lambda answers: done(next((each for each in answers if isinstance(each, KafkaError)), answers)))
        for place, partition in enumerate(shards):
            ticket = gathered.place(place)
            try:
                if partition.gone:
                    raise KafkaError(Code.NOT_COORDINATOR)
                partition.submit(command, ticket)
            except KafkaError as error:
                ticket(error)
            yield

    def find(self, key: str) -> CoordinatorPartition:
        """Raises NOT_COORDINATOR, also before the topic exists."""
        partition = self.partitions.get(self.partition_for(key)) if self._known() else None
        if partition is None or partition.host.leader is None:
            raise KafkaError(Code.NOT_COORDINATOR)
        return partition

    def partition_for(self, key: str) -> int:
        found = self._partitions.get(key)
        if found is None:
            found = partition_for(key, self._count)
            if len(key) <= KNOWN_LENGTH:
                if len(self._partitions) >= KNOWN_KEYS:
                    self._partitions.clear()
                self._partitions[key] = found
        return found

    def _known(self) -> bool:
        """Whether there is such a topic."""
        image = self.context.metadata.image
        topic = image.topics.get(image.topic_ids.get(self.topic, b""))
        count = len(topic.partitions) if topic is not None else 0
        if count != self._count:
            self._partitions.clear()
            self._count = count
        return count > 0

    # leaderships

    def _leadership_changed(self, host: Partition) -> None:
        """It began, goes on in another epoch, or ended."""
        partition = self.partitions.get(host.index)
        if host.leader is None:
            if partition is not None and partition.host is host:
                self._unload(partition)
            return
        epoch = host.leader.leader_epoch
        if partition is not None and partition.host is host and epoch <= partition.epoch + 1:
            partition.epoch = epoch  # nobody else has led in between
        else:
            self._load(host, epoch)

    def _load(self, host: Partition, epoch: int) -> None:
        before = self.partitions.get(host.index)
        partition = self.partitions[host.index] = CoordinatorPartition(self, host, epoch, self._make_machine(), self.clock.now())
        if before is not None:
            before.unload()
        self._loading.append(partition)
        if not self._scheduled:
            self._load_soon()

    def _load_soon(self) -> None:
        self._scheduled = True
        self.clock.call_at(self.clock.now(), self._load_more)

    def reload(self, partition: CoordinatorPartition) -> None:
        """Its machine is ahead of the log."""
        if self.partitions.get(partition.host.index) is partition:
            self._load(partition.host, partition.epoch)

    def _unload(self, partition: CoordinatorPartition) -> None:
        del self.partitions[partition.host.index]
        partition.unload()
        self.context.events.info("coordinator_unloaded", partition=partition.host.name)

    def _load_more(self) -> None:
        """One slice of one of them: what else this broker does goes on in between."""
        partition = self._loading.popleft()
        if not partition.gone:
            try:
                if partition.load():
                    self._serve(partition)
                else:
                    self._loading.append(partition)
            except (KafkaError, OSError) as error:
                self._load_failed(partition, error)
        self._scheduled = False
        if self._loading:
            self._load_soon()

    def _load_failed(self, partition: CoordinatorPartition, error: KafkaError | OSError) -> None:
        host = partition.host
        self.context.events.warning("coordinator_load_failed", partition=host.name, error=str(error))
        failure = error if isinstance(error, OSError) else host.log.failed
        if failure is not None:
            self._replicas.log_failed(host, failure)
        else:
            self.reload(partition)  # the log begins later than it did

    def _serve(self, partition: CoordinatorPartition) -> None:
        took_ms = round((self.clock.now() - partition.began_at) * 1000)
        if partition.replayed:
            self.context.events.info("coordinator_loaded", partition=partition.host.name, records=partition.replayed, ms=took_ms)
        partition.serve()

    # the metadata

    def on_image(self, image: MetadataImage, delta: Delta) -> None:
        """Told after the replicas."""
        before, self._image = self._image, image
        deleted = [(topic_id, topic.name) for topic_id, topic in delta.topics_deleted.items()]
        if delta.reloaded:
            deleted = [(topic_id, topic.name) for topic_id, topic in before.topics.items() if topic_id not in image.topics]
        if delta.reloaded or deleted or delta.topics_changed:
            for partition in list(self.partitions.values()):
                partition.on_image(deleted)

    # the turn

    def touch(self, partition: CoordinatorPartition) -> None:
        if not self._touched:
            self.clock.at_turn_end(self._end_turn)
        self._touched.append(partition)

    def _end_turn(self) -> None:
        touched, self._touched = self._touched, []
        self._turn = None
        for partition in touched:
            partition.end_turn()

    def deliver(self, ticket: Any, answer: object) -> None:
        """Call the ticket, in a later turn when many are called in this one; in the order in which they come."""
        if self._delivered >= REPLIES_OF_TURN or self._undelivered:
            if not self._undelivered:
                self.clock.call_at(self.clock.now(), self._deliver_more)
            self._undelivered.append((ticket, answer))
            return
        if not self._delivered:
            self.clock.at_turn_end(self._end_deliveries)
        self._delivered += 1
        ticket(answer)

    def _end_deliveries(self) -> None:
        self._delivered = 0

    def _deliver_more(self) -> None:
        for _ in range(min(REPLIES_OF_TURN, len(self._undelivered))):
            ticket, answer = self._undelivered.popleft()
            try:
                ticket(answer)  # type: ignore[operator]
            except Exception as error:
                self.long_work.failed("a coordinator's reply", error)
        if self._undelivered:
            self.clock.call_at(self.clock.now(), self._deliver_more)

    def turn(self) -> Context:
        """One for all that is decided in this turn."""
        if self._turn is None:
            self._turn = Context(self.clock.now(), self.clock.wall_ms(), self._random, self._topics, self.lifecycle.vouched_for)
        return self._turn

    # what goes wrong

    def broken(self, partition: CoordinatorPartition, error: Exception) -> None:
        """A mistake of ours: this one command fails."""
        self.context.metrics.count("raftka_handler_errors_total")
        self.context.events.error("coordinator_failed", partition=partition.host.name, error=repr(error))

    def unreadable(self, partition: CoordinatorPartition, offset: int, error: Exception) -> None:
        self.context.metrics.count("raftka_coordinator_unreadable_records_total")
        self.context.events.error("coordinator_record_unreadable", partition=partition.host.name, offset=offset, error=str(error))


class Gathered:
    """Answers to several questions, for one who asked them all: `done` gets the list, when the last has come."""

    __slots__ = ("_answers", "_done", "_left")

    def __init__(self, count: int, done: Callable[[list[Any]], None]) -> None:
        self._answers: list[object] = [None] * count
        self._left = count
        self._done = done
        if not count:
            done([])

    def place(self, at: int) -> Callable[[Any], None]:
        def take(answer: object) -> None:
            self._answers[at] = answer
            self._left -= 1
            if not self._left:
                self._done(self._answers)

        return take
