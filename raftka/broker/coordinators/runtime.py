"""The coordinators of one topic on this broker: a state machine for each partition that it leads.
Finds the coordinator of a key, loads a coordinator when a leadership begins, one slice of the log a
turn, and drops it when the leadership ends. Knows no group and no transaction.
"""

from collections import deque
from collections.abc import Callable
from operator import mul
from struct import unpack
from typing import Any

from raftka.broker.context import BrokerContext
from raftka.broker.controller.broker_lifecycle import BrokerLifecycle
from raftka.broker.coordinators.errors import CoordinatorErrors
from raftka.broker.coordinators.partition import CLOSED, LOADED, CoordinatorPartition
from raftka.broker.coordinators.topics import WatchedTopics
from raftka.broker.replica.manager import ReplicaManager
from raftka.broker.replica.partition import Partition
from raftka.broker.work.long_work import LongWork, Steps
from raftka.coordinator.machine import Context, Machine, Ticket
from raftka.metadata.image import Delta, MetadataImage
from raftka.versions import NewerFormat
from raftka.wire.errors import Code, KafkaError

# some 40 us each: a group of 1,000 members that has rebalanced is answered in twenty turns
REPLIES_OF_TURN = 50
POWERS = tuple([pow(31, exponent, 1 << 32) for exponent in reversed(range(256))])
# of all coordinators, some 6 us each, that are written in a turn: a request may have some for each
RECORDS_OF_TURN = 1_000
KNOWN_KEYS = 10_000
KNOWN_LENGTH = 100  # characters: keys of clients may be long


def java_hash(text: str) -> int:
    """Return Java's String.hashCode, by which clients and tools of Kafka find the partition. In
    blocks, because names that clients choose may be long.
    """
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for at in range(0, len(units), 2 * len(POWERS)):
        block = memoryview(units)[at : at + 2 * len(POWERS)]
        count = len(block) // 2
        value = (
            value * pow(31, count, 1 << 32)
            + sum(map(mul, unpack(f">{count}H", block), POWERS[-count:]))
        ) & 0xFFFFFFFF
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
        topics: WatchedTopics,
        make_machine: Callable[[], Machine],
    ) -> None:
        self.context = context
        self.lifecycle = lifecycle
        self._replicas = replicas
        self.long_work = long_work
        self.clock = context.runtime.clock
        self.errors = CoordinatorErrors(context)
        self.topic = topic
        self.partitions: dict[int, CoordinatorPartition] = {}
        self.timeout_s = 5.0  # after which a reply that waits for a commit becomes a timeout
        self.compression = 0
        self._topics = topics
        self._make_machine = make_machine
        self._random = context.runtime.random(f"coordinators of {topic}")
        self._loading: deque[CoordinatorPartition] = deque()
        self._scheduled = False
        self._touched: list[CoordinatorPartition] = []
        self._turn: Context | None = None  # for all decisions of this turn
        self._delivered = 0  # replies, in this turn
        self._undelivered: deque[tuple[Ticket, object]] = deque()  # replies for later turns
        self._image = context.metadata.image
        self._partitions: dict[str, int] = {}  # by key, for `_count` partitions
        self._count = 0
        replicas.leaderships[topic] = self._leadership_changed

    # commands

    def submit(self, key: str, command: object, ticket: Ticket) -> None:
        """Call `ticket` with the answer, perhaps at once. Raises KafkaError when no coordinator
        here takes the command.
        """
        self.find(key).submit(command, ticket)

    def client_gone(self, key: str, ticket: Ticket) -> None:
        """Forget the ticket: its client is gone."""
        coordinator = self.partitions.get(self.partition_for(key)) if self._known() else None
        if coordinator is not None:
            coordinator.client_gone(ticket)

    def submit_to_all(self, command: object, done: Callable[[Any], None]) -> Steps[None]:
        """Call `done` with the list of all answers, or the first KafkaError. Raises
        COORDINATOR_LOAD_IN_PROGRESS.
        """
        coordinators = list(self.partitions.values())
        if not all(coordinator.state in LOADED for coordinator in coordinators):
            raise KafkaError(Code.COORDINATOR_LOAD_IN_PROGRESS)
        gathered = Gathered(
            len(coordinators),
            lambda answers: done(
                next((each for each in answers if isinstance(each, KafkaError)), answers)
            ),
        )
        for place, coordinator in enumerate(coordinators):
            ticket = gathered.place(place)
            try:
                if coordinator.state is CLOSED:
                    raise KafkaError(Code.NOT_COORDINATOR)
                coordinator.submit(command, ticket)
            except KafkaError as error:
                ticket(error)
            yield

    def find(self, key: str) -> CoordinatorPartition:
        """Return the coordinator of a key. Raises NOT_COORDINATOR, also before the topic exists."""
        coordinator = self.partitions.get(self.partition_for(key)) if self._known() else None
        if coordinator is None or coordinator.partition.leader is None:
            raise KafkaError(Code.NOT_COORDINATOR)
        return coordinator

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
        """Return whether the topic exists."""
        image = self.context.metadata.image
        topic = image.topics.get(image.topic_ids.get(self.topic, b""))
        count = len(topic.partitions) if topic is not None else 0
        if count != self._count:
            self._partitions.clear()
            self._count = count
        return count > 0

    # leaderships

    def _leadership_changed(self, partition: Partition) -> None:
        """Load or unload: the leadership began, goes on in another epoch, or ended."""
        coordinator = self.partitions.get(partition.index)
        if partition.leader is None:
            if coordinator is not None and coordinator.partition is partition:
                self._unload(coordinator)
            return
        epoch = partition.leader.leader_epoch
        if (
            coordinator is not None
            and coordinator.partition is partition
            and epoch <= coordinator.epoch + 1
        ):
            coordinator.epoch = epoch  # no other broker has led in between
        else:
            self._load(partition, epoch)

    def _load(self, partition: Partition, epoch: int) -> None:
        before = self.partitions.get(partition.index)
        coordinator = self.partitions[partition.index] = CoordinatorPartition(
            self, partition, epoch, self._make_machine(), self.clock.now()
        )
        if before is not None:
            before.unload()
        self._loading.append(coordinator)
        if not self._scheduled:
            self._load_soon()

    def _load_soon(self) -> None:
        self._scheduled = True
        self.clock.call_at(self.clock.now(), self._load_more)

    def reload(self, coordinator: CoordinatorPartition) -> None:
        """Load the log again: the machine is ahead of it."""
        if self.partitions.get(coordinator.partition.index) is coordinator:
            self._load(coordinator.partition, coordinator.epoch)

    def _unload(self, coordinator: CoordinatorPartition) -> None:
        del self.partitions[coordinator.partition.index]
        coordinator.unload()
        self.context.events.info("coordinator_unloaded", partition=coordinator.partition.name)

    def _load_more(self) -> None:
        """Load one slice of one coordinator; requests are handled in between."""
        coordinator = self._loading.popleft()
        if coordinator.state is not CLOSED:
            try:
                if coordinator.load():
                    self._serve(coordinator)
                else:
                    self._loading.append(coordinator)
            except NewerFormat as error:
                # it stays as it is: what this release wrote there would not fit
                self.errors.record_newer(coordinator.partition.name, error)
            except (KafkaError, OSError) as error:
                self._load_failed(coordinator, error)
        self._scheduled = False
        if self._loading:
            self._load_soon()

    def _load_failed(self, coordinator: CoordinatorPartition, error: KafkaError | OSError) -> None:
        partition = coordinator.partition
        self.context.events.warning(
            "coordinator_load_failed", partition=partition.name, error=str(error)
        )
        failure = error if isinstance(error, OSError) else partition.log.failed
        if failure is not None:
            self._replicas.failures.log_failed(partition, failure)
        else:
            self.reload(coordinator)  # the log begins later than it did

    def _serve(self, coordinator: CoordinatorPartition) -> None:
        coordinator.load_ms = round((self.clock.now() - coordinator.began_at) * 1000)
        if coordinator.replayed:
            self.context.events.info(
                "coordinator_loaded",
                partition=coordinator.partition.name,
                records=coordinator.replayed,
                ms=coordinator.load_ms,
            )
        coordinator.serve()

    # the metadata

    def on_image(self, image: MetadataImage, delta: Delta) -> None:
        """Tell the coordinators of topics that have changed; called after the replicas."""
        before, self._image = self._image, image
        self._topics.on_image(before, image, delta, self.clock.now())
        deleted = [(topic_id, topic.name) for topic_id, topic in delta.topics_deleted.items()]
        if delta.reloaded:
            deleted = [
                (topic_id, topic.name)
                for topic_id, topic in before.topics.items()
                if topic_id not in image.topics
            ]
        if delta.reloaded or deleted or delta.topics_changed:
            for coordinator in list(self.partitions.values()):
                coordinator.on_image(deleted)

    # the turn

    def touch(self, coordinator: CoordinatorPartition) -> None:
        if not self._touched:
            self.clock.at_turn_end(self._end_turn)
        self._touched.append(coordinator)

    def _end_turn(self) -> None:
        """End the turn of each coordinator. With very many records some wait for the next turn."""
        touched, self._touched = self._touched, []
        self._turn = None
        records = 0
        for place, coordinator in enumerate(touched):
            if records >= RECORDS_OF_TURN:
                self._touched = touched[place:] + self._touched
                self.clock.call_at(self.clock.now(), self._end_turn)
                return
            records += coordinator.unwritten
            coordinator.end_turn()

    def deliver(self, ticket: Any, answer: object) -> None:
        """Call the ticket, in a later turn when many are called in this one; in the order in which
        they come.
        """
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
        """Return the context of all decisions of this turn."""
        if self._turn is None:
            self._turn = Context(
                self.clock.now(),
                self.clock.wall_ms(),
                self._random,
                self._topics,
                self.lifecycle.vouched_for,
            )
        return self._turn


class Gathered:
    """Answers to several commands of one request: `done` gets the list when the last has come."""

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
