"""A group's offset is a register: who asks is told the last that was committed before, or one that was under way.

commit-lost     asked, it is one that a later commit had replaced, or none, though one was acknowledged
phantom-commit  nobody ever committed that
zombie-commit   acknowledged to a generation of the group after a later one had committed
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from raftka.chaos.checks.rising import Rising, as_they_ended
from raftka.chaos.history import FAIL, FETCH_OFFSET, NEVER, OK, History, Operation
from raftka.chaos.verdict import Findings

NONE = -1
BEFORE_ALL = -1


@dataclass(slots=True)
class Commit:
    operation: Operation | None  # None: that there is none, in the beginning
    began: int
    ended: int  # it has happened by then; NEVER: nobody knows
    generation: int = -1


@dataclass(slots=True)
class Register:
    """One group's offset of one key."""

    group: str
    key: str
    commits: dict[int, list[Commit]] = field(default_factory=lambda: defaultdict(list))  # by offset
    reads: list[tuple[Operation, int]] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"group {self.group}, {self.key}"


def check(history: History, findings: Findings) -> None:
    registers: dict[tuple[str, str], Register] = {}
    for operation in history.operations:
        if not operation.offsets:
            continue
        reads = operation.verb == FETCH_OFFSET
        for key, offset in operation.offsets.items():
            register = registers.get((operation.group, key))
            if register is None:
                register = registers[operation.group, key] = Register(operation.group, key)
                register.commits[NONE].append(Commit(None, BEFORE_ALL, BEFORE_ALL))
            if reads and operation.outcome == OK:
                register.reads.append((operation, offset))
            elif not reads and operation.outcome != FAIL:
                register.commits[offset].append(Commit(operation, operation.began, operation.ended, operation.generation))
    for register in registers.values():
        _witness(register)
        _judge(register, findings)
    _generations(history, findings)


def _witness(register: Register) -> None:
    """What was read has happened by then, if only one commit can have written it."""
    for operation, offset in register.reads:
        commits = register.commits.get(offset, ())
        if len(commits) == 1 and commits[0].began < operation.ended:
            commits[0].ended = min(commits[0].ended, operation.ended)


def _judge(register: Register, findings: Findings) -> None:
    latest, generations = Rising(), Rising()  # when the latest began, and of which generation it was, of all that had happened by a position
    for commit in sorted(_happened(register), key=lambda each: each.ended):
        assert commit.operation is not None
        latest.learn(None, commit.began, commit.operation, commit.ended)
        generations.learn(None, commit.generation, commit.operation, commit.ended)
    for operation, offset in register.reads:
        commits = [each for each in register.commits.get(offset, ()) if each.began < operation.ended]
        if not commits:
            findings.wrong("phantom-commit", register.name, f"{offset} was read, nobody had committed it", (operation,))
            continue
        last, generation = latest.known(None, operation.began), generations.known(None, operation.began)
        if last is not None and all(_replaced(each, last[0], generation[0] if generation else -1) for each in commits):
            said = f"{offset} was read after {last[1].offsets[register.key]} had been committed"
            findings.wrong("commit-lost", register.name, said, (commits[-1].operation, last[1], operation))


def _happened(register: Register) -> Iterator[Commit]:
    return (each for commits in register.commits.values() for each in commits if each.operation is not None and each.ended < NEVER)


def _replaced(commit: Commit, latest_began: int, generation: int) -> bool:
    """By a commit that began after it had ended, or by one of a later generation, after which its own is refused."""
    return commit.ended < latest_began or NONE < commit.generation < generation


def _generations(history: History, findings: Findings) -> None:
    rising = Rising()
    for operation in as_they_ended(history):
        if operation.outcome != OK or operation.generation < 0 or operation.verb == FETCH_OFFSET:
            continue
        before = rising.known(operation.group, operation.began)
        if before is not None and before[0] > operation.generation:
            said = f"generation {operation.generation} has committed after generation {before[0]}"
            findings.wrong("zombie-commit", f"group {operation.group}", said, (before[1], operation))
        rising.learn(operation.group, operation.generation, operation)
