"""The share coordinator on a stage: each command is decided, what it records is shown, encoded, and
replayed, as the shell around it would.

Share partitions are `t-0` (of group g) or `h/t-0`; batches `10-14:0x1` (first, last, state,
deliveries). Each record lies at the offset that is shown before it. After every record a second
coordinator is made from the log: it must know what the first one knows.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from random import Random

from raftka.coordinator.machine import Context, Outcome, Record
from raftka.coordinator.share_state.commands import (
    DeleteState,
    FindPrunable,
    InitializeState,
    ReadState,
    ShareStateSettings,
    SummarizeState,
    WriteState,
)
from raftka.coordinator.share_state.coordinator import ShareStateCoordinator, StoredState
from raftka.coordinator.share_state.records import (
    SNAPSHOT_KEY,
    Update,
    read_key,
    read_snapshot,
    read_update,
    update_record,
)
from raftka.share.state import (
    NO_COUNT,
    NO_START,
    SharePartitionKey,
    ShareState,
    ShareSummary,
    StateBatch,
)
from raftka.wire.errors import KafkaError
from tests.coordinator.world import FakeTopics, outcome_of
from tests.scenario import Words

UNKNOWN_TOPIC = b"?" * 16


def stage() -> "ShareStateStage":
    return ShareStateStage()


class ShareStateStage:
    def __init__(self) -> None:
        self.settings = ShareStateSettings()
        self.random = Random(1)
        self.now = 0.0
        self.wall_ms = 1_000_000
        self.topics = FakeTopics({"t": 4, "u": 2})
        self.ids = {name: self.topics.topic_id(name) or b"" for name in ("t", "u")}
        self.log: list[tuple[int, Record]] = []
        self.end = 0
        self.vouched_for = True
        self.refusing = False
        self.machine = self._from_log()

    def do(self, verb: str, words: Words) -> Iterable[str]:
        play: Callable[[Words], Iterable[str] | None] = getattr(
            self, f"do_{verb.replace('-', '_')}"
        )
        return play(words) or ()

    # the world

    def do_settings(self, words: Words) -> None:
        given = {name: int(words[name]) for name in words.named}
        self.settings = replace(self.settings, **given)
        self.machine.settings = self.settings

    def do_at(self, words: Words) -> Iterator[str]:
        """`at 2.5`: the shell's timer goes off whenever the machine wants, until then."""
        until = float(words.bare[0])
        while (when := max(self.machine.deadline(), self.now)) <= until:
            self._move(when)
            yield from self._outcome(outcome_of(self.machine.tick(self._context())))
            if self.refusing:
                break
        self._move(until)

    def do_failover(self, words: Words) -> Iterator[str]:
        """Load the log into another coordinator."""
        self.machine = self._from_log()
        self.machine.settings = self.settings
        yield from self._outcome(outcome_of(self.machine.loaded(self._context())))

    def do_refuse(self, words: Words) -> None:
        """`refuse`: no record is taken, until `refuse no`."""
        self.refusing = not words.flag("no")

    def do_unvouched(self, words: Words) -> None:
        """No controller has vouched for this broker of late, until `unvouched no`."""
        self.vouched_for = words.flag("no")

    def do_delete_topic(self, words: Words) -> Iterator[str]:
        """`delete-topic t quietly`: no coordinator hears of it."""
        name = words.bare[0]
        self.topics.delete(name)
        if not words.flag("quietly"):
            deleted = [(self.ids[name], name)]
            yield from self._outcome(outcome_of(self.machine.on_image(deleted, self._context())))

    def do_log(self, words: Words) -> None:
        """`log update t-0 snapshot=7 10-14:0x1`: a record as it may lie in the log, for the next
        coordinator.
        """
        update = Update(words.number("snapshot"), 0, NO_START, NO_COUNT, _batches(words))
        self.log.append((self.end, update_record(self._key(words.bare[1]), update)))
        self.end += 1

    def do_prune(self, words: Words) -> Iterator[str]:
        """Delete the records of the log that no state needs."""
        outcome = outcome_of(self.machine.decide(FindPrunable(), "prune", self._context()))
        ((_, before),) = outcome.replies
        self.log = [each for each in self.log if each[0] >= before]
        yield f"log starts at {before}"

    # commands

    def do_init(self, words: Words) -> Iterator[str]:
        """`init t-0 epoch=3 start=7`."""
        yield from self._decide(
            InitializeState(
                self._key(words.bare[0]), words.number("epoch"), words.number("start", -1)
            )
        )

    def do_read(self, words: Words) -> Iterator[str]:
        yield from self._decide(ReadState(self._key(words.bare[0]), words.number("leader", 0)))

    def do_write(self, words: Words) -> Iterator[str]:
        """`write t-0 epoch=3 leader=5 start=10 done=6 10-14:0x1`."""
        yield from self._decide(
            WriteState(
                self._key(words.bare[0]),
                words.number("epoch", 3),
                words.number("leader", 0),
                words.number("start", -1),
                words.number("done", -1),
                _batches(words),
            )
        )

    def do_delete(self, words: Words) -> Iterator[str]:
        yield from self._decide(DeleteState(self._key(words.bare[0])))

    def do_summary(self, words: Words) -> Iterator[str]:
        yield from self._decide(SummarizeState(self._key(words.bare[0])))

    # the shell

    def _key(self, text: str) -> SharePartitionKey:
        group_id, _, partition = text.rpartition("/")
        topic, _, index = partition.partition("-")
        return SharePartitionKey(group_id or "g", self.ids.get(topic, UNKNOWN_TOPIC), int(index))

    def _from_log(self) -> ShareStateCoordinator:
        machine = ShareStateCoordinator(ShareStateSettings())
        for offset, record in self.log:
            machine.position = offset
            machine.replay(record)
        machine.position = self.end
        return machine

    def _context(self) -> Context:
        return Context(self.now, self.wall_ms, self.random, self.topics, self.vouched_for)

    def _move(self, to: float) -> None:
        self.wall_ms += round((to - self.now) * 1000)
        self.now = to

    def _decide(self, command: object) -> Iterator[str]:
        yield from self._outcome(outcome_of(self.machine.decide(command, "asked", self._context())))

    def _outcome(self, outcome: Outcome) -> Iterator[str]:
        records = outcome.records or ((outcome.confirm,) if outcome.confirm is not None else ())
        if self.refusing and records:
            if outcome.undo is not None:
                outcome.undo()
            yield "refused"
            return
        for record in records:
            self.machine.replay(record)
            self.log.append((self.end, record))
            yield f"{self.end}: {self._seen(record)}"
            self.end += 1
        self.machine.position = self.end  # all of a turn is appended as one batch
        for _, answer in outcome.replies:
            yield _said(answer)
        if records:
            other = self._from_log()
            assert _known(other) == _known(self.machine)

    def _seen(self, record: Record) -> str:
        key, value = record
        where = read_key(key)
        names = {topic_id: name for name, topic_id in self.ids.items()}
        name = f"{names.get(where.topic_id, '?')}-{where.partition}"
        if where.group_id != "g":
            name = f"{where.group_id}/{name}"
        if value is None:
            return f"{name} none"
        if key[1] == SNAPSHOT_KEY:
            found = read_snapshot(value)
            return (
                f"{name} snapshot {found.snapshot_epoch} epoch={found.state_epoch} "
                f"leader={found.leader_epoch} start={found.start} done={found.complete_count}"
                f"{_shown(found.batches)}"
            )
        update = read_update(value)
        return (
            f"{name} update of {update.snapshot_epoch} start={update.start} "
            f"done={update.complete_count}{_shown(update.batches)}"
        )


def _batches(words: Words) -> tuple[StateBatch, ...]:
    found = []
    for word in words.bare:
        offsets, _, rest = word.partition(":")
        if rest:
            first, _, last = offsets.partition("-")
            state, _, count = rest.partition("x")
            found.append(StateBatch(int(first), int(last), int(state), int(count)))
    return tuple(found)


def _shown(batches: Iterable[StateBatch]) -> str:
    return "".join(f" {each.first}-{each.last}:{each.state}x{each.count}" for each in batches)


def _known(machine: ShareStateCoordinator) -> object:
    """All but times, which a snapshot of another coordinator may have."""

    def fields(state: StoredState) -> list[object]:
        return [getattr(state, name) for name in StoredState.__slots__]

    return {key: fields(state) for key, state in machine.states.items()}, machine.batches


def _said(answer: object) -> str:
    match answer:
        case KafkaError():
            return answer.code.name
        case None:
            return "ok"
        case ShareState():
            return (
                f"epoch={answer.state_epoch} leader={answer.leader_epoch} "
                f"start={answer.start}{_shown(answer.batches)}"
            )
        case ShareSummary():
            return (
                f"epoch={answer.state_epoch} leader={answer.leader_epoch} "
                f"start={answer.start} done={answer.complete_count}"
            )
    raise TypeError(answer)
