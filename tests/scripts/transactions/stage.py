"""The transaction coordinator on a stage: each command is decided, what it records is shown,
encoded, and replayed, as the shell around it would.

The first word says who asks; it stands for the reply. Who has been given a pair of producer id and
epoch comes with it from then on, unless the script says otherwise (`pair=1000/3`). Fresh producer
ids are 1000, 2000 ... in the order in which they were taken. Markers are shown when the shell would
have them sent; `written x` is the sender's word that all of them are. After every record a second
coordinator is made from the log: it must know what the first one knows.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from random import Random

from raftka.coordinator.machine import Context, Outcome, Record, Ticket
from raftka.coordinator.transactions.commands import (
    AddPartitions,
    DescribedTransaction,
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
from raftka.coordinator.transactions.coordinator import TransactionCoordinator
from raftka.coordinator.transactions.records import (
    NONE,
    Growing,
    Partitions,
    State,
    TopicPartitions,
    Transaction,
    read_key,
    transaction_record,
)
from raftka.coordinator.transactions.transaction import LAST_EPOCH
from raftka.wire.errors import Code, KafkaError
from raftka.wire.rows import ZERO_UUID
from tests.coordinator.world import FakeTopics, outcome_of
from tests.scenario import Words

NOBODY = Producer(-1, -1)


def stage() -> "TransactionStage":
    return TransactionStage()


class TransactionStage:
    def __init__(self) -> None:
        self.settings = TransactionSettings()
        self.random = Random(1)
        self.now = 0.0
        self.wall_ms = 1_000_000
        self.topics = FakeTopics({"t": 4, "u": 2})
        self.log: list[Record] = []
        self.sent: list[str] = []
        self.ready: dict[str, WriteMarkers] = {}  # the last markers of each id
        self.machine = self._new_machine()
        self.pairs: dict[str, Producer] = {}  # by who asks
        self.waiting: dict[str, None] = {}
        self.fresh = 0
        self.refusing = False
        self.shown = 0

    def do(self, verb: str, words: Words) -> Iterable[str]:
        play: Callable[[Words], Iterable[str] | None] = getattr(
            self, f"do_{verb.replace('-', '_')}"
        )
        return play(words) or ()

    # the world

    def do_settings(self, words: Words) -> None:
        given = {name: int(words[name]) for name in words.named}
        self.settings = replace(self.settings, **given)
        self.machine.configure(self.settings)

    def do_at(self, words: Words) -> Iterator[str]:
        """`at 2.5`: the shell's timer goes off whenever the machine wants, until then."""
        until = float(words.bare[0])
        while (when := max(self.machine.deadline(), self.now)) <= until:
            self._move(when)
            yield from self._outcome(outcome_of(self.machine.tick(self._context())))
            if self.refusing:
                break
        self._move(until)

    def do_wall(self, words: Words) -> None:
        """`wall 3600`: the wall clock jumps by so many seconds."""
        self.wall_ms += int(float(words.bare[0]) * 1000)

    def do_failover(self, words: Words) -> Iterator[str]:
        """Another coordinator: who waits hears NOT_COORDINATOR, and what is not in the log is gone.
        `failover 30`: after so many seconds.
        """
        for who in self.waiting:
            yield f"{who} NOT_COORDINATOR"
        self.waiting = {}
        if words.bare:
            self._move(self.now + float(words.bare[0]))
        self.machine = self._new_machine()
        yield from self._outcome(outcome_of(self.machine.loaded(self._context())))

    def do_refuse(self, words: Words) -> None:
        """`refuse`: no record is taken, until `refuse no`."""
        self.refusing = not words.flag("no")

    def do_forget(self, words: Words) -> None:
        for who in words.bare:
            self.machine.client_gone(who)
            self.waiting.pop(who)

    def do_topic(self, words: Words) -> None:
        """`topic t`: it is made anew, under another id."""
        self.topics.create(words.bare[0], 4)

    def do_log(self, words: Words) -> None:
        """`log x state=1 pair=5/32766 ...`: a record as another broker may have written it, for the
        next coordinator.
        """
        pair = _pair(words["pair"])
        partitions = _of_t() if words.flag("t-0") else NONE
        state = State(words.number("state"))
        its = Transaction(
            pair.producer_id,
            pair.epoch,
            60_000,
            state,
            partitions,
            self.wall_ms,
            self.wall_ms,
            version=words.number("version", 0),
        )
        self.log.append(
            transaction_record(
                words.bare[0], replace(its, next_producer_id=words.number("next", -1))
            )
        )

    # commands

    def do_init(self, words: Words) -> Iterator[str]:
        """`init a x timeout=60000 again`: with its own pair if it has one and the word says so, or
        with `pair=`.
        """
        who, transactional_id = words.bare[:2]
        pair = (
            _pair(words["pair"])
            if "pair" in words
            else self.pairs.get(who, NOBODY)
            if words.flag("again")
            else NOBODY
        )
        command = InitProducer(
            transactional_id, words.number("timeout", 60_000), self._fresh_id(), *pair
        )
        yield from self._decide(who, command)

    def do_add(self, words: Words) -> Iterator[str]:
        """`add a x t-0 t-1 v2`."""
        who, transactional_id, *partitions = [word for word in words.bare if word != "v2"]
        version = 2 if words.flag("v2") else 0
        hold = words.number("hold", 1000)
        yield from self._decide(
            who,
            AddPartitions(
                transactional_id, *self._pair(who, words), _partitions(partitions), version, hold
            ),
        )

    def do_verify(self, words: Words) -> Iterator[str]:
        who, transactional_id, *partitions = words.bare
        yield from self._decide(
            who,
            VerifyPartitions(transactional_id, *self._pair(who, words), _partitions(partitions)),
        )

    def do_commit(self, words: Words) -> Iterator[str]:
        yield from self._end(words, commit=True)

    def do_abort(self, words: Words) -> Iterator[str]:
        yield from self._end(words, commit=False)

    def _end(self, words: Words, *, commit: bool) -> Iterator[str]:
        who, transactional_id = words.bare[:2]
        pair = self._pair(who, words)
        is_v2 = words.flag("v2")
        fresh = self._fresh_id() if is_v2 and pair.epoch >= LAST_EPOCH else -1
        yield from self._decide(
            who, EndTransaction(transactional_id, *pair, commit, 2 if is_v2 else 0, fresh)
        )

    def do_written(self, words: Words) -> Iterator[str]:
        """`written x`: of the markers that were sent last."""
        write = self.ready[words.bare[0]]
        yield from self._decide("sender", MarkersWritten(*write[:4]))

    def do_resume(self, words: Words) -> Iterator[str]:
        yield from self._decide("sender", ResumeMarkers(words.bare[0]))

    def do_describe(self, words: Words) -> Iterator[str]:
        yield from self._decide("describe", DescribeTransaction(words.bare[0]))

    def do_list(self, words: Words) -> Iterator[str]:
        """`list states=Ongoing ids=1000 duration=5 pattern=x.*`."""
        states = (
            frozenset(state for state in State if state.shown in words["states"].split(","))
            if "states" in words
            else None
        )
        command = ListTransactions(
            states,
            frozenset(words.numbers("ids")),
            words.number("duration", -1),
            words.get("pattern") or None,
        )
        yield from self._decide("list", command)

    # the shell

    def _new_machine(self) -> TransactionCoordinator:
        machine = self._from_log(self._send)
        machine.configure(self.settings)
        return machine

    def _from_log(
        self, send: Callable[[WriteMarkers, KafkaError | None], None]
    ) -> TransactionCoordinator:
        machine = TransactionCoordinator(TransactionSettings(), send)
        for record in self.log:
            machine.replay(record)
        return machine

    def _send(self, write: WriteMarkers, failure: KafkaError | None) -> None:
        if failure is not None:
            self.sent.append(f"markers {write.transactional_id} {failure.code.name}")
            return
        self.ready[write.transactional_id] = write
        outcome = "commit" if write.commit else "abort"
        self.sent.append(
            f"markers {write.transactional_id} {outcome} {write.producer_id}/{write.epoch} "
            f"v{write.version} {_named(write.topics)}"
        )

    def _fresh_id(self) -> int:
        self.fresh += 1000
        return self.fresh

    def _pair(self, who: str, words: Words) -> Producer:
        return _pair(words["pair"]) if "pair" in words else self.pairs.get(who, NOBODY)

    def _context(self) -> Context:
        return Context(self.now, self.wall_ms, self.random, self.topics)

    def _move(self, to: float) -> None:
        if to > self.now:
            self.wall_ms += round((to - self.now) * 1000)
            self.now = to

    def _decide(self, who: str, command: object) -> Iterator[str]:
        self.waiting[who] = None
        try:
            outcome = outcome_of(self.machine.decide(command, who, self._context()))
        except KafkaError as error:
            outcome = Outcome((), ((who, error),))
        yield from self._outcome(outcome)

    def _outcome(self, outcome: Outcome) -> Iterator[str]:
        refused = self.refusing and bool(outcome.records)
        if refused and outcome.undo is not None:
            outcome.undo()
        for record in outcome.records if not refused else ():
            self.log.append(record)
            self.machine.replay(record)
            name = read_key(record.key)
            yield (
                f"record {name} "
                f"{_seen(self.machine.transactions[name]) if record.value is not None else 'none'}"
            )
        for ticket, answer in outcome.replies:
            yield from self._reply(
                ticket, KafkaError(Code.COORDINATOR_NOT_AVAILABLE) if refused else answer
            )
        if outcome.records and not refused:
            other = self._from_log(self._send)
            assert {name: _known(its) for name, its in other.transactions.items()} == {
                name: _known(its) for name, its in self.machine.transactions.items()
            }
            assert other._size_bytes == self.machine._size_bytes

    def _reply(self, ticket: Ticket, answer: object) -> Iterator[str]:
        if callable(ticket):
            ticket(answer)
            sent, self.sent = self.sent, []
            yield from sent
            return
        who = str(ticket)
        del self.waiting[who]  # a second answer fails here
        if isinstance(answer, Producer):
            self.pairs[who] = answer
        if who != "sender" or answer is not None:
            yield f"{who} {_said(answer)}"


def _of_t() -> Partitions:
    growing = Growing(NONE)
    growing.add("t", ZERO_UUID, {0})
    return growing.partitions()


def _pair(text: str) -> Producer:
    producer_id, _, epoch = text.partition("/")
    return Producer(int(producer_id), int(epoch))


def _partitions(words: Iterable[str]) -> tuple[tuple[str, int], ...]:
    return tuple(
        (topic, int(index)) for topic, _, index in (word.rpartition("-") for word in words)
    )


def _named(topics: dict[str, TopicPartitions]) -> str:
    return (
        " ".join(
            f"{name}-{index}"
            for name, topic in sorted(topics.items())
            for index in sorted(topic.indexes)
        )
        or "nothing"
    )


def _seen(its: Transaction) -> str:
    """All of it."""
    parts = [its.state.shown, f"{its.producer_id}/{its.epoch}", _named(its.partitions.topics)]
    parts += [f"last={its.last_epoch}"] if its.last_epoch >= 0 else []
    parts += [f"previous={its.previous_producer_id}"] if its.previous_producer_id >= 0 else []
    parts += [f"next={its.next_producer_id}"] if its.next_producer_id >= 0 else []
    parts += [f"v{its.version}"] if its.version else []
    parts += [f"timeout={its.timeout_ms}"] if its.timeout_ms != 60_000 else []
    return " ".join(parts)


def _known(its: Transaction) -> object:
    """Return the knowledge of a new coordinator: all but the topics' ids."""
    return (
        replace(its, partitions=NONE),
        _without_ids(its),
        its.partitions.count,
        its.partitions.size_bytes,
    )


def _without_ids(its: Transaction) -> dict[str, object]:
    return {name: (topic.indexes, topic.encoded) for name, topic in its.partitions.topics.items()}


def _said(answer: object) -> str:
    match answer:
        case KafkaError():
            return answer.code.name
        case None:
            return "ok"
        case Producer():
            return f"ok {answer.producer_id}/{answer.epoch}"
        case frozenset():
            return (
                "lacks " + " ".join(f"{name}-{index}" for name, index in sorted(answer))
                if answer
                else "ok"
            )
        case DescribedTransaction():
            return (
                f"{answer.state.shown} {answer.producer_id}/{answer.epoch} "
                f"start={answer.start_ms} {_named(answer.topics)}"
            )
        case tuple():
            return (
                " ".join(f"{each.transactional_id}={each.state.shown}" for each in answer)
                or "nothing"
            )
    raise TypeError(answer)
