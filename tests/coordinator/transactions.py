"""A shell with a log around a transaction coordinator, for tests."""

from random import Random

from raftka.coordinator.machine import Context, Outcome, Record, Ticket
from raftka.coordinator.transactions.commands import TransactionSettings, WriteMarkers
from raftka.coordinator.transactions.coordinator import TransactionCoordinator
from raftka.wire.errors import Code, KafkaError
from tests.coordinator.world import FakeTopics, outcome_of

Reply = tuple[Ticket, object]


class Shell:
    def __init__(self, settings: TransactionSettings | None = None) -> None:
        self.settings = settings or TransactionSettings()
        self.now = 0.0
        self.topics = FakeTopics({"t": 4, "u": 2})
        self.random = Random(1)
        self.log: list[Record] = []
        self.sent: list[WriteMarkers] = []
        self.vouched_for = True
        self.machine = self.rebuilt()

    def rebuilt(self) -> TransactionCoordinator:
        machine = TransactionCoordinator(self.settings, self._send)
        for record in self.log:
            machine.replay(record)
        return machine

    def _send(self, write: WriteMarkers, failure: KafkaError | None) -> None:
        if failure is None:
            self.sent.append(write)

    def context(self) -> Context:
        return Context(
            self.now, 1_000_000 + round(self.now * 1000), self.random, self.topics, self.vouched_for
        )

    def ask(self, ticket: Ticket, command: object, told: list[Reply] | None = None) -> None:
        try:
            outcome = outcome_of(self.machine.decide(command, ticket, self.context()))
        except KafkaError as error:
            outcome = Outcome((), ((ticket, error),))
        self.take(outcome, [] if told is None else told)

    def take(self, outcome: Outcome, told: list[Reply], *, refused: bool = False) -> None:
        if refused and outcome.undo is not None:
            outcome.undo()
        for record in () if refused else outcome.records:
            self.log.append(record)
            self.machine.replay(record)
        for ticket, answer in outcome.replies:
            said = KafkaError(Code.COORDINATOR_NOT_AVAILABLE) if refused else answer
            if callable(ticket):
                ticket(said)
            else:
                told.append((ticket, said))
