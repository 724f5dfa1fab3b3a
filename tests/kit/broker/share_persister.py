"""A persister whose coordinators and peers the test plays."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from raftka.broker.coordinators.share_persister import SharePersister
from raftka.broker.work.long_work import LongWork
from raftka.limits import Limit
from raftka.runtime.simulated.world import World
from raftka.share.state import SharePartitionKey, StateBatch
from raftka.wire.errors import Code, KafkaError
from raftka.wire.schema import AnyApi

HERE, THERE = 1, 2


def key(broker: int, index: int = 0) -> SharePartitionKey:
    """Return a key that the broker coordinates: the last character of its group says which."""
    return SharePartitionKey(f"g{broker}", b"t" * 16, index)


def batch(first: int) -> StateBatch:
    return StateBatch(first, first, 2, 1)


class Question:
    """A request to another broker."""

    def __init__(self, broker: int, api: AnyApi, row: Any, on_reply: Callable[..., None]) -> None:
        self.broker = broker
        self.api = api
        self.row = row
        self._on_reply = on_reply

    @property
    def indexes(self) -> list[int]:
        return [partition.partition for topic in self.row.topics for partition in topic.partitions]

    @property
    def first(self) -> int:
        """The first offset of the first batch."""
        offset: int = self.row.topics[0].partitions[0].state_batches[0].first_offset
        return offset

    def answer(self, **fields: Any) -> None:
        of_topic = self.api.response.results
        results = [
            of_topic(
                topic_id=topic.topic_id,
                partitions=[
                    of_topic.partitions(partition=each.partition, **fields)
                    for each in topic.partitions
                ],
            )
            for topic in self.row.topics
        ]
        self._on_reply(self.api.response(results=results), None)

    def fail_with(self, code: Code, text: str | None = None) -> None:
        self.answer(error_code=int(code), error_message=text)

    def answer_nothing(self) -> None:
        self._on_reply(self.api.response(), None)

    def lose(self) -> None:
        self._on_reply(None, "the connection is lost")


class PersisterScene:
    def __init__(self, world: World) -> None:
        self.world = world
        self.runtime = world.node("n1")
        self.questions: list[Question] = []
        self.submitted: list[tuple[Any, Callable[[Any], None]]] = []
        self.results: list[tuple[str, Any]] = []
        self.failures: list[Exception] = []
        self.hits: list[Limit] = []
        self.moved: dict[SharePartitionKey, int] = {}
        self.coordinator_error: KafkaError | None = None
        self.at_once = False  # the coordinator here answers in the call
        context: Any = SimpleNamespace(
            node_id=HERE, runtime=self.runtime, metrics=SimpleNamespace(hit=self.hits.append)
        )
        service: Any = SimpleNamespace(coordinator_of=self._coordinator_of, submit=self._submit)
        self.persister = SharePersister(
            context, service, LongWork(self.runtime.clock, self._failed)
        )
        channels: Any = SimpleNamespace(ask=self._ask, close=lambda: None)
        self.persister.channels = channels

    def _failed(self, name: str, error: Exception) -> None:
        self.failures.append(error)

    def _coordinator_of(self, found: SharePartitionKey) -> int:
        if self.coordinator_error is not None:
            raise self.coordinator_error
        return self.moved.get(found, int(found.group_id[-1]))

    def _submit(
        self, found: SharePartitionKey, command: object, ticket: Callable[[Any], None]
    ) -> None:
        self.submitted.append((command, ticket))
        if self.at_once:
            ticket(None)

    def _ask(self, broker: int, api: AnyApi, row: Any, on_reply: Callable[..., None]) -> None:
        self.questions.append(Question(broker, api, row, on_reply))

    def do(self, action: Callable[[], object]) -> None:
        """Do it in a turn of the node."""
        self.runtime.take(lambda _: action() and None, None)
        self.run(0.001)

    def run(self, seconds: float) -> None:
        self.world.run(self.world.now + seconds)

    def done(self, name: str) -> Callable[[Any], None]:
        return lambda result: self.results.append((name, result))

    def write(
        self,
        broker: int,
        index: int,
        start: int,
        *batches: StateBatch,
        done: int = 2,
        leader_epoch: int = 5,
        state_epoch: int = 3,
    ) -> None:
        self.persister.write(
            key(broker, index),
            state_epoch,
            leader_epoch,
            start,
            done,
            batches,
            self.done("write"),
        )

    def named(self, name: str) -> list[Any]:
        return [result for each, result in self.results if each == name]

    def codes(self, name: str) -> list[Code]:
        return [
            result.code if isinstance(result, KafkaError) else Code.NONE
            for result in self.named(name)
        ]
