"""Can the reads, writes and compare-and-sets of one register have happened one after the other,
each between its beginning and its end?

After Wing and Gong, and Lowe's "just in time": all that may be true, a value and which of the open
calls have happened, is kept as a set, and a call is made to have happened when its end comes. Of
two that differ only in the calls whose end nobody knows, the one that has used up fewer is kept.
Each register is judged alone, which is enough (Herlihy and Wing); with more than so many steps it
is given up, and the answer is UNKNOWN.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from raftka.chaos.history import (
    COMPARE_AND_SET,
    FAIL,
    INFO,
    OK,
    READ,
    WRITE,
    History,
    Key,
    Operation,
    Value,
)
from raftka.chaos.verdict import Findings

REGISTER_VERBS = frozenset({READ, WRITE, COMPARE_AND_SET})

World = tuple[Value | None, int]  # the register, and the bits of the open calls that have happened


class Linearizable(StrEnum):
    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


class Answer(NamedTuple):
    linearizable: Linearizable
    stuck: Sequence[Operation] = ()  # no order explains the first; the others were open at its end
    before: Sequence[Value | None] = ()  # what the register may have held when it began to be wrong


def check(history: History, steps: int, findings: Findings) -> list[Key]:
    """Returns the registers that were given up."""
    given_up = []
    for key, operations in registers_of(history).items():
        answer = judge(operations, steps)
        if answer.linearizable is Linearizable.UNKNOWN:
            given_up.append(key)
        elif answer.linearizable is Linearizable.NO:
            wrong = answer.stuck[0]
            said = (
                f"no order explains that process {wrong.process} was told {_told(wrong)}; it "
                f"held {' or '.join(map(str, answer.before))}"
            )
            findings.wrong("not-linearizable", key, said, answer.stuck)
    return given_up


def registers_of(history: History) -> Mapping[Key, list[Operation]]:
    found: dict[Key, list[Operation]] = defaultdict(list)
    for operation in history.operations:
        if operation.verb in REGISTER_VERBS:
            found[operation.key].append(operation)
    return found


def judge(operations: Iterable[Operation], steps: int, initial: Value | None = None) -> Answer:
    """One register's, in the order in which they began."""
    judgement = _Judgement(steps, {(initial, 0)})
    for _, ends, operation in _events(operations):
        if not ends:
            judgement.begins(operation)
        elif (answer := judgement.ends(operation)) is not None:
            return answer
    return Answer(Linearizable.YES)


def _events(operations: Iterable[Operation]) -> list[tuple[int, bool, Operation]]:
    """Without failed operations, which have not happened, and open reads, which show nothing."""
    events = []
    for each in operations:
        if each.outcome == FAIL or (each.outcome == INFO and each.verb == READ):
            continue
        events.append((each.began, False, each))
        if each.outcome == OK:
            events.append((each.ended, True, each))
    return sorted(events, key=lambda event: event[0])


class _Call:
    """The effect of a call on the register, ready to be asked a million times."""

    __slots__ = ("always", "bit", "expected", "leaves", "looks", "matched", "operation", "twin")

    def __init__(self, operation: Operation, bit: int) -> None:
        self.operation = operation
        self.bit = bit
        # the bit of an open call that does the same and began before: it is used first
        self.twin = 0
        self.always = operation.verb == WRITE
        self.matched = operation.matched
        self.looks = operation.verb == READ or not operation.matched  # changes nothing
        self.expected = operation.value if operation.verb == READ else operation.expected
        self.leaves = operation.value


@dataclass(slots=True)
class _Judgement:
    steps_left: int
    worlds: set[World]
    # that may happen now, by where they began
    calls: dict[int, _Call] = field(default_factory=dict)
    free_bits: list[int] = field(default_factory=list)
    bits_used: int = 0
    unknown_bits: int = 0  # of the calls whose end nobody knows
    twins: dict[tuple[str, Value | None, Value | None], int] = field(default_factory=dict)

    def begins(self, operation: Operation) -> None:
        if not self.free_bits:
            self.free_bits.append(1 << self.bits_used)
            self.bits_used += 1
        call = self.calls[operation.began] = _Call(operation, self.free_bits.pop())
        if operation.outcome == INFO:
            what = (operation.verb, operation.expected, operation.value)
            call.twin = self.twins.get(what, 0)
            self.twins[what] = call.bit
            self.unknown_bits |= call.bit

    def ends(self, operation: Operation) -> Answer | None:
        """Keep the worlds in which the operation has happened; an answer when none is left, or when
        it takes too long.
        """
        bit = self.calls[operation.began].bit
        reached: set[World] = set()
        seen = _Seen(self.unknown_bits)
        waiting = deque(world for world in self.worlds if seen.is_new(world))
        while waiting:
            world = waiting.popleft()  # those that have used up little come first
            if world[1] & bit:
                reached.add((world[0], world[1] ^ bit))
                continue
            self.steps_left -= len(self.calls)
            if self.steps_left < 0:
                return Answer(Linearizable.UNKNOWN)
            waiting += filter(seen.is_new, self._next(*world))
        if not reached:
            others = [
                call.operation for call in self.calls.values() if call.operation is not operation
            ]
            return Answer(
                Linearizable.NO,
                [operation, *others],
                sorted({world[0] for world in self.worlds}, key=str),
            )
        del self.calls[operation.began]
        self.free_bits.append(bit)
        self.worlds = reached
        return None

    def _next(self, value: Value | None, happened: int) -> list[World]:
        """The worlds in which one more call has happened."""
        found = []
        for call in self.calls.values():
            if happened & call.bit or happened & call.twin != call.twin:
                continue
            if call.looks:
                if (call.expected == value) == call.matched:
                    # it changes nothing, and must happen once: now is as good as ever
                    return [(value, happened | call.bit)]
            elif call.always or call.expected == value:
                found.append((call.leaves, happened | call.bit))
        return found


class _Seen:
    """Visited states, pruned by dominance: of two that differ only in used calls without a result,
    the one with fewer used calls stays.
    """

    def __init__(self, unknown_bits: int) -> None:
        self._unknown_bits = unknown_bits
        self._used: dict[World, list[int]] = {}

    def is_new(self, world: World) -> bool:
        value, happened = world
        used = happened & self._unknown_bits
        before = self._used.setdefault((value, happened ^ used), [])
        if any(other & used == other for other in before):
            return False
        before.append(used)
        return True


def _told(operation: Operation) -> str:
    if operation.verb == READ:
        return f"{operation.value} by a read"
    if operation.verb == WRITE:
        return f"that {operation.value} is written"
    return (
        f"that {operation.expected} {'was' if operation.matched else 'was not'} there, by a "
        f"compare-and-set to {operation.value}"
    )
