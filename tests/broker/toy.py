"""A coordinator of lists of words, for tests of the shell that hosts coordinators: small, and every
mistake of the shell is seen in a list.

A word appended twice is there twice, one lost is missing, and whoever reads sees a list that only
ever grows.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, NamedTuple

from raftka.broker.coordinators.partition import LOADED
from raftka.broker.coordinators.runtime import CoordinatorRuntime
from raftka.broker.node import Node
from raftka.coordinator.machine import Context, Outcome, OutcomeOrSteps, Record, Steps, Ticket
from raftka.metadata.image import Delta, MetadataImage
from raftka.wire.errors import Code, KafkaError
from raftka.wire.records import iterate, records_of
from tests.broker.stage import Stage

TOPIC = "words"


class Add(NamedTuple):
    """Answered with the list. An empty word is refused."""

    name: str
    words: tuple[str, ...]
    atomic: bool = True


class Read(NamedTuple):
    """Answered with the list."""

    name: str


class Await(NamedTuple):
    """Answered with the list when it has grown."""

    name: str


class Ring(NamedTuple):
    """After so many seconds the word `rang` is added. Answered with None."""

    name: str
    after_s: float


class Fail(NamedTuple):
    """A mistake of the machine's own."""

    name: str


class Slow(NamedTuple):
    """Answered with the list before it, after so many steps; then `word` is added. An empty word is
    refused with the last step.
    """

    name: str
    word: str
    steps: int = 5_000


@dataclass
class Toy:
    lists: dict[str, list[str]] = field(default_factory=dict)
    awaiting: list[tuple[str, Ticket]] = field(default_factory=list)
    timers: dict[str, float] = field(default_factory=dict)
    forgotten: list[Ticket] = field(default_factory=list)
    told: list[tuple[bytes, str]] = field(default_factory=list)
    position: int = 0
    begun: int = 0
    ticks: int = 0

    def decide(self, command: Any, ticket: Ticket, context: Context) -> OutcomeOrSteps:
        match command:
            case Slow():
                return self._slowly(command, ticket)
            case Add(name, words, atomic):
                if "" in words:
                    raise KafkaError(Code.INVALID_REQUEST)
                after = [*self.lists.get(name, ()), *words]
                woken = [each for listening, each in self.awaiting if listening == name]
                self.awaiting = [each for each in self.awaiting if each[0] != name]
                records = [Record(name.encode(), word.encode()) for word in words]
                return Outcome(records, [(each, after) for each in (*woken, ticket)], atomic)
            case Read(name):
                return Outcome(replies=[(ticket, list(self.lists.get(name, ())))])
            case Await(name):
                self.awaiting.append((name, ticket))
                return Outcome()
            case Ring(name, after_s):
                self.timers[name] = context.now + after_s
                return Outcome(replies=[(ticket, None)])
        raise ZeroDivisionError

    def _slowly(self, command: Slow, ticket: Ticket) -> Steps[Outcome]:
        before = list(self.lists.get(command.name, ()))
        for _ in range(command.steps):
            yield
        if not command.word:
            raise KafkaError(Code.INVALID_REQUEST)
        return Outcome([Record(command.name.encode(), command.word.encode())], [(ticket, before)])

    def replay(self, record: Record) -> None:
        if record.value is None:
            raise ValueError("words are not taken back")
        self.lists.setdefault(record.key.decode(), []).append(record.value.decode())
        if record.value == b"rang":
            self.timers.pop(record.key.decode(), None)

    def replay_pending(self, producer_id: int, record: Record) -> None:
        raise ValueError("words are not written in transactions")

    def end_transaction(self, producer_id: int, *, commit: bool) -> None: ...

    def loaded(self, context: Context) -> Outcome:
        self.begun += 1
        return Outcome()

    def on_image(self, deleted: Sequence[tuple[bytes, str]], context: Context) -> Outcome:
        self.told += deleted
        return Outcome([Record(b"deleted", name.encode()) for _, name in deleted])

    def deadline(self) -> float:
        return min(self.timers.values(), default=inf)

    def tick(self, context: Context) -> Outcome:
        self.ticks += 1
        due = [name for name, at in self.timers.items() if at <= context.now]
        return Outcome([Record(name.encode(), b"rang") for name in due])

    def client_gone(self, ticket: Ticket) -> None:
        self.forgotten.append(ticket)
        self.awaiting = [each for each in self.awaiting if each[1] != ticket]


class NoTopics:
    def topic_id(self, name: str) -> bytes | None:
        return None

    def topic_name(self, topic_id: bytes) -> str | None:
        return None

    def partition_count(self, name: str) -> int:
        return 0

    def names(self) -> tuple[str, ...]:
        return ()

    def grown_since(self, when: float) -> int:
        return 0

    def growth_after(self, name: str, when: float) -> tuple[float, int] | None:
        return None

    def on_image(
        self, before: MetadataImage, image: MetadataImage, delta: Delta, now: float
    ) -> None:
        """There are no topics."""


def start_runtime(node: Node) -> CoordinatorRuntime:
    runtime = CoordinatorRuntime(
        node.context,
        node.replicas,
        node.lifecycle,
        node.dispatcher.long_work,
        TOPIC,
        NoTopics(),
        Toy,
    )
    node.coordinators.append(runtime)
    return runtime


class Asked:
    """A ticket; what came of it."""

    def __init__(self) -> None:
        self.answers: list[Any] = []

    def __call__(self, answer: Any) -> None:
        self.answers.append(answer)

    @property
    def answer(self) -> Any:
        """Of errors the code; None as long as there is none. There is only one."""
        assert len(self.answers) <= 1, self.answers
        (answer,) = self.answers or (None,)
        return answer.code if isinstance(answer, KafkaError) else answer


class ToyStage(Stage):
    """Each node hosts toys on the topic `words`."""

    def __init__(self, nodes: int = 1, seed: int = 1) -> None:
        self.runtimes: dict[int, CoordinatorRuntime] = {}
        super().__init__(nodes, seed)

    def _start(self, node_id: int, node: Node) -> None:
        super()._start(node_id, node)
        self.runtimes[node_id] = start_runtime(node)

    def topic(self, partitions: int = 1, **configs: str) -> None:
        """Ready to be asked."""
        self.create(TOPIC, partitions, configs={"cleanup_policy": "compact", **configs})
        self.wait(lambda: self.serving(partitions))

    def serving(self, partitions: int = 1) -> bool:
        return (
            sum(
                coordinator.state in LOADED
                for runtime in self.runtimes.values()
                for coordinator in runtime.partitions.values()
            )
            == partitions
        )

    def ask_all(self, *commands: Any, node_id: int = 1) -> list[Asked]:
        """In one turn."""
        asked = [Asked() for _ in commands]

        def submit(_: object) -> None:
            for command, ticket in zip(commands, asked, strict=True):
                try:
                    self.runtimes[node_id].submit(command.name, command, ticket)
                except KafkaError as error:
                    ticket(error)

        self.nodes[node_id].runtime.take(submit, None)  # type: ignore[attr-defined]
        return asked

    def ask(self, command: Any, node_id: int = 1) -> Any:
        """Of errors the code."""
        (asked,) = self.ask_all(command, node_id=node_id)
        self.wait(lambda: bool(asked.answers))
        return asked.answer


def machine(stage: ToyStage, node_id: int = 1) -> Toy:
    toy = stage.runtimes[node_id].partitions[0].machine
    assert isinstance(toy, Toy)
    return toy


def batches(stage: ToyStage, node_id: int = 1) -> list[list[bytes]]:
    log = stage.partition(TOPIC, node_id=node_id).log
    spans, _ = log.read(0, 1 << 20, log.end_offset)
    data = memoryview(b"".join(span.file.read(span.position, span.size) for span in spans))
    return [[record.value or b"" for record in records_of(batch)] for _, batch in iterate(data)]
