"""Send the markers of transactions that end to the leaders of their partitions, until each has its
marker, and then tell the coordinator.

To each other broker one WriteTxnMarkers is in flight, with the markers that are queued for it, up
to a bound; on this broker the markers are written without a socket. A marker that a leader refuses
for a time is sent again, to the leader as then known. A leader that has seen a higher epoch of the
producer has no transaction to end: its partition is passed over, and so is a deleted one. A leader
that knows a later coordinator ends the sending: the later coordinator sends the markers, too. When
a coordinator is unloaded, the markers that are queued for it are dropped.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol

from raftka.broker.context import BrokerContext
from raftka.broker.coordinators.broker_channels import BrokerChannels
from raftka.broker.coordinators.partition import CLOSED, CoordinatorPartition
from raftka.broker.coordinators.runtime import CoordinatorRuntime
from raftka.broker.work.long_work import LongWork, Steps
from raftka.coordinator.transactions.commands import MarkersWritten, ResumeMarkers, WriteMarkers
from raftka.log.producers.markers import Marker
from raftka.wire.errors import Code, KafkaError, code_of
from raftka.wire.messages.transactions import (
    WRITE_TXN_MARKERS,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from raftka.wire.rows import ZERO_UUID

RETRY_S = (0.05, 1.0)  # after the first refusal, and at most
MARKERS_OF_REQUEST = 1_000
QUEUED_BYTES = 256 * 1024  # of topics' names in one request
PASSED_OVER = frozenset(
    {Code.INVALID_PRODUCER_EPOCH, Code.UNSUPPORTED_FOR_MESSAGE_FORMAT, Code.UNSUPPORTED_VERSION}
)
# the next coordinator sends the markers again
MOVED = frozenset({Code.NOT_COORDINATOR, Code.COORDINATOR_LOAD_IN_PROGRESS})

Place = tuple[str, int]


class Writer(Protocol):
    """Writes markers where this broker leads (markers.py)."""

    def write(
        self, marker: Marker, topic: str, partition: int, done: Callable[[Code], None]
    ) -> None:
        """Call `done` once, perhaps now, with NONE when the marker is committed, or an error."""


class _Ending:
    """A transaction that ends."""

    __slots__ = ("coordinator", "left", "marker", "over", "write")

    def __init__(self, write: WriteMarkers, coordinator: CoordinatorPartition) -> None:
        self.write = write
        self.coordinator = coordinator
        self.marker = Marker(
            write.producer_id, write.epoch, coordinator.epoch, write.commit, write.version
        )
        self.left: dict[Place, None] = {}  # partitions without their markers
        self.over = False

    @property
    def wanted(self) -> bool:
        return not self.over and self.coordinator.state is not CLOSED


class _Outbox:
    """The markers that are queued for another broker."""

    __slots__ = ("in_flight", "queue")

    def __init__(self) -> None:
        self.queue: deque[tuple[_Ending, Place]] = deque()
        self.in_flight = False


class MarkerSender:
    def __init__(
        self, context: BrokerContext, long_work: LongWork, channels: BrokerChannels, writer: Writer
    ) -> None:
        self.context = context
        self.channels = channels
        self.runtime: CoordinatorRuntime  # set by the service: each needs the other
        self._writer = writer
        self._long_work = long_work
        self._clock = context.runtime.clock
        self._endings: dict[str, _Ending] = {}  # by transactional id
        self._outboxes: dict[int, _Outbox] = {}
        self._parked: list[tuple[_Ending, Place]] = []  # until the next try
        self._retry_s = RETRY_S[0]
        self._retry_at: float | None = None

    @property
    def queued(self) -> int:
        """Markers that wait for a request in flight."""
        return sum(len(outbox.queue) for outbox in self._outboxes.values())

    @property
    def parked(self) -> int:
        """Markers that wait for a leader."""
        return len(self._parked)

    @property
    def completing(self) -> int:
        """Transactions whose markers are all written, and whose coordinator has not yet said so in
        its log.
        """
        return sum(not ending.left for ending in self._endings.values() if ending.wanted)

    def send(self, write: WriteMarkers, failure: KafkaError | None) -> None:
        """Send the markers of a transaction whose end is committed. With an error it is unknown
        whether it is: then ask the coordinator.
        """
        if failure is not None:
            if failure.code not in MOVED:
                self._later(partial(self._resume, write.transactional_id))
            return
        try:
            coordinator = self.runtime.find(write.transactional_id)
        except KafkaError:
            return
        before = self._endings.get(write.transactional_id)
        if before is not None and before.wanted:
            if before.coordinator is coordinator and before.write[:4] == write[:4]:
                return
            before.over = True
        ending = self._endings[write.transactional_id] = _Ending(write, coordinator)
        self._run(self._begin(ending))

    def _begin(self, ending: _Ending) -> Steps[None]:
        markers: list[tuple[_Ending, Place]] = []
        for name, topic in ending.write.topics.items():
            for index in topic.indexes:
                yield
                place = name, index
                ending.left[place] = None
                markers.append((ending, place))
        if markers:
            self._spread(markers)
        else:
            self._written(ending)

    def _resume(self, transactional_id: str) -> None:
        def answered(answer: KafkaError | None) -> None:
            if answer is not None and answer.code not in MOVED:
                self._later(partial(self._resume, transactional_id))

        self._submit(transactional_id, ResumeMarkers(transactional_id), answered)

    def _submit(
        self, transactional_id: str, command: object, ticket: Callable[[KafkaError | None], None]
    ) -> None:
        try:
            self.runtime.submit(transactional_id, command, ticket)
        except KafkaError as error:
            ticket(error)

    def _later(self, action: Callable[[], None]) -> None:
        self._clock.call_at(self._clock.now() + RETRY_S[1] / 2, action)

    def _run(self, steps: Steps[None]) -> None:
        """Take the steps as long work: a transaction may have very many partitions."""

        def failed(result: Exception | None) -> None:
            if result is not None:
                self._long_work.failed("sending markers", result)

        self._long_work.run("sending markers", steps, failed)

    # which broker

    def _spread(self, markers: list[tuple[_Ending, Place]]) -> None:
        self._run(self._spread_in_steps(markers))

    def _spread_in_steps(self, markers: list[tuple[_Ending, Place]]) -> Steps[None]:
        """Queue each marker for the present leader of its partition."""
        brokers: set[int] = set()
        for ending, place in markers:
            yield
            if not ending.wanted or place not in ending.left:
                continue
            leader = self._leader(ending, place)
            if leader is None:
                self._settle(ending, place, Code.NONE)
            elif leader < 0:
                self._park(ending, place)
            elif leader == self.context.node_id:
                self._writer.write(ending.marker, *place, partial(self._settle, ending, place))
            else:
                self._outboxes.setdefault(leader, _Outbox()).queue.append((ending, place))
                brokers.add(leader)
        for broker in sorted(brokers):
            self._pump(broker)

    def _leader(self, ending: _Ending, place: Place) -> int | None:
        """Return the leader; None: the partition is gone; -1: it has no leader."""
        name, index = place
        image = self.context.metadata.image
        topic_id = ending.write.topics[name].topic_id
        topic = image.topics.get(topic_id) if topic_id != ZERO_UUID else image.topic_named(name)
        return (
            topic.partitions[index].leader
            if topic is not None and 0 <= index < len(topic.partitions)
            else None
        )

    # other brokers

    def _pump(self, broker: int) -> None:
        outbox = self._outboxes[broker]
        if outbox.queue and not outbox.in_flight:
            outbox.in_flight = True
            self._run(self._ask(broker, outbox))

    def _ask(self, broker: int, outbox: _Outbox) -> Steps[None]:
        """Send a request with a bounded part of the queue."""
        taken: list[tuple[_Ending, Place]] = []
        size = 0
        while outbox.queue and len(taken) < MARKERS_OF_REQUEST and size < QUEUED_BYTES:
            ending, place = outbox.queue.popleft()
            if ending.wanted and place in ending.left:
                taken.append((ending, place))
                size += len(place[0])
            yield
        if taken:
            self.channels.ask(
                broker, WRITE_TXN_MARKERS, _request(taken), partial(self._answered, broker, taken)
            )
        else:
            outbox.in_flight = False
            self._pump(broker)  # markers may have been queued meanwhile

    def _answered(
        self,
        broker: int,
        taken: list[tuple[_Ending, Place]],
        answer: WriteTxnMarkersResponse | None,
        error: str | None,
    ) -> None:
        self._outboxes[broker].in_flight = False
        self._run(self._settle_all(taken, answer))
        self._pump(broker)

    def _settle_all(
        self, taken: list[tuple[_Ending, Place]], answer: WriteTxnMarkersResponse | None
    ) -> Steps[None]:
        codes: dict[tuple[int, Place], Code] = {}
        for marker in answer.markers if answer is not None else ():
            for topic in marker.topics:
                for row in topic.partitions:
                    codes[marker.producer_id, (topic.name, row.partition_index)] = code_of(
                        row.error_code
                    )
                    yield
        for ending, place in taken:
            self._settle(
                ending, place, codes.get((ending.marker.producer_id, place), Code.NETWORK_EXCEPTION)
            )
            yield

    # the answers of leaders

    def _settle(self, ending: _Ending, place: Place, code: Code) -> None:
        if not ending.wanted or place not in ending.left:
            return
        if code is Code.TRANSACTION_COORDINATOR_FENCED:
            self._give_up(ending)
            return
        if code is not Code.NONE and code not in PASSED_OVER:
            self._park(ending, place)
            return
        if code is not Code.NONE:
            self.context.events.warning(
                "marker_passed_over",
                topic=place[0],
                partition=place[1],
                id=ending.write.transactional_id,
                error=code.name,
            )
        self._retry_s = RETRY_S[0]
        del ending.left[place]
        if not ending.left:
            self._written(ending)

    def _give_up(self, ending: _Ending) -> None:
        """End the sending: another coordinator leads."""
        ending.over = True
        if self._endings.get(ending.write.transactional_id) is ending:
            del self._endings[ending.write.transactional_id]
        self.context.events.warning(
            "markers_fenced",
            id=ending.write.transactional_id,
            coordinator_epoch=ending.marker.coordinator_epoch,
        )

    def _written(self, ending: _Ending) -> None:
        """Tell the coordinator that all partitions have their markers."""
        write = ending.write

        def answered(answer: KafkaError | None) -> None:
            if answer is not None and answer.code not in MOVED:
                self._later(lambda: self._written(ending))
                return
            ending.over = True
            if self._endings.get(write.transactional_id) is ending:
                del self._endings[write.transactional_id]

        if ending.wanted:
            self._submit(write.transactional_id, MarkersWritten(*write[:4]), answered)

    # trying again

    def _park(self, ending: _Ending, place: Place) -> None:
        self._parked.append((ending, place))
        if self._retry_at is None:
            self._retry_at = self._clock.now() + self._retry_s
            self._clock.call_at(self._retry_at, self._retry)
            self._retry_s = min(2 * self._retry_s, RETRY_S[1])

    def _retry(self) -> None:
        self._retry_at = None
        parked, self._parked = self._parked, []
        if parked:
            self._spread(parked)

    def on_image(self) -> None:
        """Send parked markers again, and drop those of unloaded coordinators: leaders may have
        changed.
        """
        for transactional_id, ending in list(self._endings.items()):
            if not ending.wanted:
                del self._endings[transactional_id]
        if self._parked:
            self._retry_s = RETRY_S[0]
            parked, self._parked = self._parked, []
            self._spread(parked)


def _request(taken: list[tuple[_Ending, Place]]) -> WriteTxnMarkersRequest:
    row = WRITE_TXN_MARKERS.request.markers
    endings: dict[_Ending, dict[str, list[int]]] = {}
    for ending, (name, index) in taken:
        endings.setdefault(ending, {}).setdefault(name, []).append(index)
    markers = [
        row(
            producer_id=ending.marker.producer_id,
            producer_epoch=ending.marker.epoch,
            transaction_result=ending.marker.commit,
            coordinator_epoch=ending.marker.coordinator_epoch,
            transaction_version=ending.marker.version,
            topics=[
                row.topics(name=name, partition_indexes=indexes) for name, indexes in topics.items()
            ],
        )
        for ending, topics in endings.items()
    ]
    return WRITE_TXN_MARKERS.request(markers=markers)
