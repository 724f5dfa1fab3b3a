"""The transaction coordinator under random commands: what must hold whatever happens, and whoever
coordinates next.
"""

from collections import deque
from dataclasses import replace
from typing import Any

import pytest

from raftka.coordinator.machine import Outcome, Record
from raftka.coordinator.transactions.commands import (
    AddPartitions,
    DescribeTransaction,
    EndTransaction,
    InitProducer,
    ListTransactions,
    MarkersWritten,
    Producer,
    ResumeMarkers,
    TransactionSettings,
    VerifyPartitions,
    WriteMarkers,
)
from raftka.coordinator.transactions.records import (
    NONE,
    State,
    Transaction,
    read_key,
    transaction_record,
)
from raftka.coordinator.transactions.transaction import ENDING, FENCING_EPOCH, LAST_EPOCH
from raftka.wire.errors import KafkaError
from tests.coordinator.transactions import Reply, Shell
from tests.coordinator.world import outcome_of

IDS = ("x", "y", "z")
OFTEN = {
    "init": 3,
    "add": 8,
    "verify": 1,
    "end": 8,
    "written": 8,
    "resume": 1,
    "look": 1,
    "topic": 1,
    "wait": 3,
    "forget": 1,
    "failover": 1,
}
COMMANDS = [name for name, times in OFTEN.items() for _ in range(times)]
PARTITIONS = (("t", 0), ("t", 1), ("t", 3), ("u", 0), ("gone", 7))
SETTINGS = TransactionSettings(expiration_ms=30_000, expiration_interval_ms=5_000)


class Client:
    """A producer that knows of itself what its last answer said, and the one before."""

    def __init__(self, transactional_id: str) -> None:
        self.id = transactional_id
        self.pairs: deque[Producer] = deque([Producer(-1, -1)], maxlen=3)


class World(Shell):
    """`refuses`: of how many outcomes with records one is refused. The ids begin near the last
    epoch, so that it comes.
    """

    def __init__(self, seed: int, refuses: int = 0) -> None:
        super().__init__(SETTINGS)
        self.random.seed(seed)
        self.refuses = refuses
        self.clients = [Client(name) for name in IDS for _ in range(2)]
        self.waiting: dict[int, Client | None] = {}
        self.answers: list[Any] = []
        self.unwritten: list[WriteMarkers] = []  # markers that were sent last, by nobody confirmed
        self.asked = 0
        self.fresh = 1000
        for name in IDS[: seed % 3]:
            its = Transaction(
                self._fresh(), LAST_EPOCH - self.random.randrange(4), 60_000, update_ms=1_000_000
            )
            self.log.append(transaction_record(name, its))
            for client in self.clients:
                if client.id == name:
                    client.pairs.append(Producer(its.producer_id, its.epoch))
        self.begin()

    def _fresh(self) -> int:
        self.fresh += 1
        return self.fresh

    def begin(self) -> None:
        self.machine = self.rebuilt()
        self.unwritten = []
        self.carry_out(outcome_of(self.machine.loaded(self.context())))

    def submit(self, client: Client | None, command: object) -> None:
        self.asked += 1
        self.waiting[self.asked] = client
        try:
            outcome = outcome_of(self.machine.decide(command, self.asked, self.context()))
        except KafkaError as error:
            outcome = Outcome((), ((self.asked, error),))
        self.carry_out(outcome)

    def carry_out(self, outcome: Outcome) -> None:
        told: list[Reply] = []
        refused = (
            bool(outcome.records)
            and bool(self.refuses)
            and self.random.randrange(self.refuses) == 0
        )
        before, committed = len(self.sent), dict(self.machine.transactions)
        self.take(outcome, told, refused=refused)
        self.unwritten += self.sent[before:]
        for record in () if refused else outcome.records:
            self.check_epoch(record, committed)
        for ticket, answer in told:
            client = self.waiting.pop(int(str(ticket)))  # a second answer to one ticket fails here
            self.answers.append(answer)
            if client is not None and isinstance(answer, Producer):
                client.pairs.append(answer)

    def check_epoch(self, record: Record, before: dict[str, Transaction]) -> None:
        """Of one producer id the epoch never goes back."""
        name = read_key(record.key)
        old, new = before.get(name), self.machine.transactions.get(name)
        if old is not None and new is not None and old.producer_id == new.producer_id:
            assert new.epoch >= old.epoch

    # steps

    def step(self) -> None:
        client = self.random.choice(self.clients)
        getattr(self, f"do_{self.random.choice(COMMANDS)}")(client)

    def pair(self, client: Client) -> Producer:
        """Nearly always the one that it was told last."""
        return client.pairs[-1] if self.random.random() < 0.85 else self.random.choice(client.pairs)

    def partitions(self) -> tuple[tuple[str, int], ...]:
        return tuple(self.random.sample(PARTITIONS, self.random.randrange(4)))

    def do_init(self, client: Client) -> None:
        pair = self.pair(client) if self.random.random() < 0.7 else Producer(-1, -1)
        self.submit(
            client,
            InitProducer(
                client.id, self.random.choice((2_000, 60_000, 2**31 - 1)), self._fresh(), *pair
            ),
        )

    def do_add(self, client: Client) -> None:
        version = self.random.choice((0, 2))
        self.submit(
            client,
            AddPartitions(
                client.id,
                *self.pair(client),
                self.partitions(),
                version,
                self.random.choice((100, 1000)),
            ),
        )

    def do_verify(self, client: Client) -> None:
        self.submit(client, VerifyPartitions(client.id, *self.pair(client), self.partitions()))

    def do_end(self, client: Client) -> None:
        version = self.random.choice((0, 2))
        self.submit(
            client,
            EndTransaction(
                client.id, *self.pair(client), self.random.random() < 0.5, version, self._fresh()
            ),
        )

    def do_written(self, client: Client) -> None:
        if self.unwritten:
            write = self.random.choice(self.unwritten)
            self.submit(None, MarkersWritten(*write[:4]))

    def do_resume(self, client: Client) -> None:
        self.submit(None, ResumeMarkers(client.id))

    def do_look(self, client: Client) -> None:
        self.submit(None, DescribeTransaction(client.id))
        self.submit(None, ListTransactions())

    def do_topic(self, client: Client) -> None:
        self.topics.create("t", 4)

    def do_forget(self, client: Client) -> None:
        if self.waiting:
            ticket = self.random.choice(list(self.waiting))
            del self.waiting[ticket]
            self.machine.client_gone(ticket)

    def do_failover(self, client: Client) -> None:
        """The shell tells all who wait that it does not coordinate any more."""
        if self.random.random() < 0.3:
            self.waiting.clear()
            self.begin()

    def do_wait(self, client: Client) -> None:
        self.wait(self.random.choice((0.05, 0.5, 3.0, 40.0)))

    def wait(self, seconds: float) -> None:
        until = self.now + seconds
        while (when := max(self.machine.deadline(), self.now)) <= until:
            self.now = when
            self.carry_out(outcome_of(self.machine.tick(self.context())))
            if self.refuses:
                self.now += 0.1  # the shell does not tick again at once
        self.now = max(until, self.now)

    # what must hold

    def check(self) -> None:
        other = self.rebuilt()
        assert {name: known(its) for name, its in other.transactions.items()} == {
            name: known(its) for name, its in self.machine.transactions.items()
        }
        assert (
            other._size_bytes
            == self.machine._size_bytes
            == sum(its.partitions.size_bytes for its in self.machine.transactions.values())
        )
        assert len(self.machine._holds) == sum(map(len, self.machine._held.values()))
        for name, its in self.machine.transactions.items():
            assert -1 < its.epoch <= FENCING_EPOCH
            assert bool(its.partitions.topics) <= (
                its.state in ENDING or its.state is State.ONGOING
            )
            # an abort that was refused: it waits for its second
            assert name not in self.machine._held or its.state in ENDING or self.refuses


def known(its: Transaction) -> object:
    """All but the topics' ids, which are not stored."""
    topics = {name: (topic.indexes, topic.encoded) for name, topic in its.partitions.topics.items()}
    return replace(its, partitions=NONE), topics, its.partitions.count, its.partitions.size_bytes


@pytest.mark.parametrize("seed", range(24))
def test_a_coordinator_made_from_the_log_knows_what_the_one_that_wrote_it_knew(seed: int) -> None:
    world = World(seed, refuses=seed % 4 * 3)
    for _ in range(500):
        world.step()
        if world.random.random() < 0.1:
            world.check()
    world.check()

    assert {type(answer) for answer in world.answers} >= {Producer, KafkaError, type(None)}


@pytest.mark.parametrize("seed", range(24))
def test_everybody_is_answered_once(seed: int) -> None:
    """At most once: `World.carry_out` fails else. At least once, when enough time has passed, also
    where no marker is written.
    """
    world = World(seed, refuses=seed % 4 * 3)
    for _ in range(300):
        world.step()
    world.refuses = 0
    world.wait(2)

    assert world.waiting == {}


@pytest.mark.parametrize("seed", range(16))
def test_when_all_markers_are_written_every_transaction_is_over(seed: int) -> None:
    """Every id whose end is in the log has had its markers sent, whatever was refused in
    between.
    """
    world = World(seed, refuses=seed % 4 * 3)
    for _ in range(300):
        world.step()
    world.refuses = 0
    world.wait(0)
    for name in IDS:
        world.submit(None, ResumeMarkers(name))
    for write in list(world.unwritten):
        world.submit(None, MarkersWritten(*write[:4]))

    assert all(its.state not in ENDING for its in world.machine.transactions.values())


@pytest.mark.parametrize(
    "command",
    [
        VerifyPartitions("x", 1, 0, PARTITIONS[:1]),
        AddPartitions("x", 1, 1, PARTITIONS[:1]),
        EndTransaction("x", 1, 1, commit=True),
    ],
)
def test_a_coordinator_that_nobody_vouches_for_asks_its_replicas_before_it_answers(
    command: object,
) -> None:
    """Another one may have ended the transaction by now, or have given the id the epoch that this
    one refuses.
    """
    shell = Shell()
    shell.ask("", InitProducer("x", 60_000, 1))
    shell.ask("", AddPartitions("x", 1, 0, PARTITIONS[:1]))
    alone = outcome_of(shell.machine.decide(command, "", shell.context()))
    shell.vouched_for = False
    unsure = outcome_of(shell.machine.decide(command, "", shell.context()))

    assert (list(alone.records), alone.confirm) == ([], None)
    assert str(unsure.replies) == str(alone.replies)
    assert unsure.confirm is not None, "what may be of the past is told as if it was sure"
    shell.machine.replay(unsure.confirm)
    assert list(shell.machine.transactions) == ["x"]


def test_a_late_answer_about_markers_does_not_complete_the_next_transaction_of_its_epoch() -> None:
    """Its end was written, and the sender of markers did not hear of it."""
    shell = Shell()
    shell.ask("", InitProducer("x", 60_000, 1))
    for commit in (True, False):
        shell.ask("", AddPartitions("x", 1, 0, PARTITIONS[:1]))
        shell.ask("", EndTransaction("x", 1, 0, commit=commit))
        shell.ask("", MarkersWritten(*shell.sent[0][:4]))
        shell.now += 0.001

    assert [write.commit for write in shell.sent] == [True, False]
    assert shell.machine.transactions["x"].state is State.PREPARE_ABORT, (
        "the abort is complete, and no marker is written"
    )
