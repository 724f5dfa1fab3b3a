"""The operations of clients, as plain values: each operation begins, and ends as ok, fail or info.
JSON lines out and in.

A *process* does one thing at a time: a producer with five batches in flight is five processes, and
a consumer that crashed comes back as another one. ok: it has happened, and this is what was told.
fail: it has not happened and never will. info: nobody knows, as after a time-out; so is all that
never ended. A write that asks for less than acks=all promises nothing: it is written down as info,
without its offset.

Knows no clock (times are seconds that it is given, and only tell; what was before what, the order
of the lines says) and no judgement.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from raftka.json_values import Json

PRODUCE, POLL, TRANSACTION = "produce", "poll", "txn"
COMMIT, FETCH_OFFSET, LIST_OFFSETS = "commit", "fetch-offset", "list-offsets"
# the consumer forgets where it was, but for the keys that it keeps
ASSIGN, SUBSCRIBE = "assign", "subscribe"
READ, WRITE, COMPARE_AND_SET = "read", "write", "cas"  # of registers
VERBS = frozenset(
    {
        PRODUCE,
        POLL,
        TRANSACTION,
        COMMIT,
        FETCH_OFFSET,
        LIST_OFFSETS,
        ASSIGN,
        SUBSCRIBE,
        READ,
        WRITE,
        COMPARE_AND_SET,
    }
)

INVOKE, OK, FAIL, INFO = "invoke", "ok", "fail", "info"
ENDS = frozenset({OK, FAIL, INFO})
NEVER = 1 << 62  # after all that has ended

Key = str  # a partition, `topic-0`; or the name of a register
Value = int | str  # of a record: unique in its key
Send = Sequence[Json]  # key, value, offset or None when it was not told
Records = Sequence[Sequence[Json]]  # offset, value


class Told(NamedTuple):
    """The rest of an answer about a partition, beside its records."""

    # -1: not known, or a follower's word: nothing follows then from the rest but for its own answer
    leader_epoch: int
    log_start: int
    last_stable: int
    high_watermark: int


NOTHING: Mapping[Key, object] = MappingProxyType({})


def _nothing() -> Mapping[Key, Json]:
    """One for all: a dictionary each would be half of a history."""
    return NOTHING


@dataclass(slots=True, eq=False)
class Operation:
    """`began`, `ended` are positions in the history."""

    process: int
    verb: str
    began: int
    began_s: float
    ended: int = NEVER
    ended_s: float = float("inf")
    outcome: str = INFO
    error: str = ""
    # produce, poll, txn
    sends: Sequence[Send] = ()
    # in the order in which they came
    polled: Mapping[Key, Records] = field(default_factory=_nothing)
    # by the answer that brought the last record; list-offsets: the end as high watermark
    told: Mapping[Key, Told] = field(default_factory=_nothing)
    rebalanced: Sequence[Key] = ()  # keys that moved while it polled: it may go on elsewhere
    # who is fenced by a later epoch; its operations are appended in the order in which they began
    producer: str = ""
    epoch: int = -1
    # assign, subscribe
    keys: Sequence[Key] = ()
    # commit, fetch-offset, and what a transaction commits
    group: str = ""
    generation: int = -1  # of a classic group; -1: it has none
    offsets: Mapping[Key, int] = field(default_factory=_nothing)  # -1: none
    # registers
    key: Key = ""
    expected: Value | None = None  # cas: what must be there
    value: Value | None = None  # to write; of a read: what was found
    matched: bool = True  # cas: False when something else was there, which is ok as well


HEAD = ("process", "verb", "began", "began_s", "ended", "ended_s", "outcome")
BODY = tuple(name for name in Operation.__dataclass_fields__ if name not in HEAD)
DEFAULTS = {name: getattr(Operation(0, PRODUCE, 0, 0.0), name) for name in BODY}


class HistoryFailed(Exception):
    """The file is no history: the text says where and why."""


@dataclass(slots=True)
class History:
    """`write` is given each line as it happens, for what must outlive a harness that is killed."""

    write: Callable[[str], object] | None = None
    operations: list[Operation] = field(default_factory=list)  # in the order in which they began
    # each at the position where it began, and again where it ended
    events: list[Operation] = field(default_factory=list)
    under_way: dict[int, Operation] = field(default_factory=dict)  # by process

    def invoke(self, process: int, verb: str, at_s: float, **body: object) -> Operation:
        if process in self.under_way:
            raise HistoryFailed(
                f"process {process} begins {verb} while its {self.under_way[process].verb} is "
                "under way"
            )
        if verb not in VERBS:
            raise HistoryFailed(f"there is no verb {verb}")
        operation = self.under_way[process] = Operation(process, verb, len(self.events), at_s)
        _take(operation, body)
        self.operations.append(operation)
        self._happened(operation, (INVOKE, process, at_s, verb, body))
        return operation

    def end(self, process: int, outcome: str, at_s: float, **body: object) -> Operation:
        """`body`: what is known now, over what was known when it began."""
        if process not in self.under_way:
            raise HistoryFailed(f"process {process} ends what it has not begun")
        if outcome not in ENDS:
            raise HistoryFailed(f"there is no outcome {outcome}")
        operation = self.under_way.pop(process)
        operation.outcome, operation.ended_s = outcome, at_s
        if outcome != INFO:  # else it may still happen
            operation.ended = len(self.events)
        _take(operation, body)
        self._happened(operation, (outcome, process, at_s, body))
        return operation

    def _happened(self, operation: Operation, line: tuple[object, ...]) -> None:
        self.events.append(operation)
        if self.write is not None:
            self.write(_line(line))


def longest_write_s(history: History, since_s: float = 0.0) -> float:
    """Return the longest time of an acknowledged write, from the first try to the answer, of those
    that began since then; all in seconds.
    """
    return max(
        (
            each.ended_s - each.began_s
            for each in history.operations
            if each.verb == PRODUCE and each.outcome == OK and each.began_s >= since_s
        ),
        default=0.0,
    )


def _take(operation: Operation, body: Mapping[str, object]) -> None:
    if not body.keys() <= DEFAULTS.keys():
        raise HistoryFailed(f"an operation has no {', '.join(body.keys() - DEFAULTS.keys())}")
    for name, value in body.items():
        setattr(operation, name, value)


def _line(values: Sequence[object]) -> str:
    return json.dumps(values, separators=(",", ":"), ensure_ascii=False) + "\n"


def dump(history: History) -> Iterator[str]:
    """Write one line for each event. Fields that are known only at the end need not stand in the
    beginning.
    """
    for position, operation in enumerate(history.events):
        body = {
            name: value for name in BODY if (value := getattr(operation, name)) != DEFAULTS[name]
        }
        if operation.began != position:
            yield _line((operation.outcome, operation.process, operation.ended_s, body))
        else:
            never_ended = history.under_way.get(operation.process) is operation
            yield _line(
                (
                    INVOKE,
                    operation.process,
                    operation.began_s,
                    operation.verb,
                    body if never_ended else {},
                )
            )


def load(lines: Iterable[str]) -> History:
    """Raises HistoryFailed, with the number of the line. A last line that is cut off is left out:
    whoever wrote it was killed.
    """
    history = History()
    for number, line in enumerate(lines, 1):
        if not line.endswith("\n"):
            break
        try:
            head, process, at_s, *rest = json.loads(line)
            body = rest[-1]
            if "told" in body:  # pairs and triples may stay lists
                body["told"] = {key: Told(*told) for key, told in body["told"].items()}
            if head == INVOKE:
                history.invoke(process, rest[0], at_s, **body)
            else:
                history.end(process, head, at_s, **body)
        except (ValueError, TypeError, KeyError, IndexError, HistoryFailed) as error:
            raise HistoryFailed(f"line {number}: {error}") from error
    return history
