"""A marker sender whose coordinator, partitions and peers the test plays."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from raftka.broker.coordinators.marker_sender import MarkerSender
from raftka.broker.coordinators.partition import ACTIVE, CLOSED
from raftka.broker.work.long_work import LongWork
from raftka.coordinator.transactions.commands import MarkersWritten, WriteMarkers
from raftka.coordinator.transactions.records import TopicPartitions
from raftka.metadata.image import NO_PARTITION, MetadataImage, TopicImage
from raftka.runtime.simulated.world import World
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.transactions import WRITE_TXN_MARKERS

HERE, THERE, ELSEWHERE = 1, 2, 3
T, U = b"t" * 16, b"u" * 16
WRITE = WriteMarkers("x", 1000, 7, (1, 2), commit=True, version=2, topics={})
Place = tuple[str, int]


class Question:
    """A request to another broker."""

    def __init__(self, broker: int, row: Any, on_reply: Callable[[Any, str | None], None]) -> None:
        self.broker = broker
        self.row = row
        self._on_reply = on_reply

    @property
    def places(self) -> list[Place]:
        return [
            (topic.name, index)
            for marker in self.row.markers
            for topic in marker.topics
            for index in topic.partition_indexes
        ]

    def answer(self, codes: dict[Place, Code] | None = None) -> None:
        rows = WRITE_TXN_MARKERS.response.markers
        of_topic = rows.topics
        markers = [
            rows(
                producer_id=marker.producer_id,
                topics=[
                    of_topic(
                        name=topic.name,
                        partitions=[
                            of_topic.partitions(
                                partition_index=index,
                                error_code=int((codes or {}).get((topic.name, index), Code.NONE)),
                            )
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in self.row.markers
        ]
        self._on_reply(WRITE_TXN_MARKERS.response(markers=markers), None)

    def fail(self) -> None:
        self._on_reply(None, "the connection is lost")


class Scene:
    """Broker 1, where a coordinator of epoch 5 is; broker 1 leads t-0, broker 2 t-1, t-2 and u-0,
    broker 3 t-3.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.runtime = world.node("n1")
        self.questions: list[Question] = []
        self.written: list[tuple[Place, Callable[[Code], None]]] = []  # on this broker
        self.told: list[object] = []  # to the coordinator
        self.warned: list[str] = []
        self.refusal: KafkaError | None = None  # of the coordinator
        self.coordinator = SimpleNamespace(epoch=5, state=ACTIVE)
        self.leaders = {"t": [HERE, THERE, THERE, ELSEWHERE], "u": [THERE]}
        self.metadata = SimpleNamespace(image=self.image())
        events = SimpleNamespace(warning=lambda name, **fields: self.warned.append(name))
        self.context = SimpleNamespace(
            node_id=HERE, metadata=self.metadata, runtime=self.runtime, events=events
        )
        context: Any = self.context
        self.failures: list[Exception] = []
        self.sender = MarkerSender(
            context,
            LongWork(self.runtime.clock, self._failed),
            self._any(self._ask),
            self._any(self._write),
        )
        self.sender.runtime = self._any(self._submit)

    def _failed(self, name: str, error: Exception) -> None:
        self.failures.append(error)

    def _any(self, does: Any) -> Any:
        return SimpleNamespace(ask=does, write=does, submit=does, find=self._find)

    def _find(self, transactional_id: str) -> Any:
        if self.coordinator.state is CLOSED:
            raise KafkaError(Code.NOT_COORDINATOR)
        return self.coordinator

    def _ask(self, broker: int, api: object, row: Any, on_reply: Any) -> None:
        self.questions.append(Question(broker, row, on_reply))

    def _write(self, marker: Any, topic: str, partition: int, done: Callable[[Code], None]) -> None:
        assert marker.coordinator_epoch == self.coordinator.epoch
        self.written.append(((topic, partition), done))

    def _submit(
        self, transactional_id: str, command: object, ticket: Callable[[KafkaError | None], None]
    ) -> None:
        self.told.append(command)
        ticket(self.refusal)

    def image(self) -> MetadataImage:
        ids = {"t": T, "u": U}
        topics = {
            ids[name]: TopicImage(
                name, ids[name], tuple([NO_PARTITION._replace(leader=each) for each in leaders])
            )
            for name, leaders in self.leaders.items()
        }
        return MetadataImage(
            topics=topics, topic_ids={topic.name: topic_id for topic_id, topic in topics.items()}
        )

    def do(self, action: Callable[[], None]) -> None:
        """Do it in a turn of the node."""
        self.runtime.take(lambda _: action(), None)
        self.run(0.001)

    def send(self, *places: Place, failure: KafkaError | None = None, **fields: Any) -> None:
        indexes: dict[str, set[int]] = {}
        for name, index in places:
            indexes.setdefault(name, set()).add(index)
        topics = {
            name: TopicPartitions({"t": T, "u": U}[name], frozenset(each), b"")
            for name, each in indexes.items()
        }
        self.do(lambda: self.sender.send(WRITE._replace(topics=topics, **fields), failure))

    def run(self, seconds: float) -> None:
        self.world.run(self.world.now + seconds)

    def move(self, **leaders: list[int]) -> None:
        """Other leaders are known from now on."""
        self.leaders = leaders
        self.metadata.image = self.image()
        self.do(self.sender.on_image)

    @property
    def is_over(self) -> bool:
        return self.told == [MarkersWritten("x", 1000, 7, (1, 2))] and not self.sender._endings
