"""A group's offset is a register: a reader gets the last offset committed before, or one whose
commit was under way.

commit-lost     asked, it is one that a later commit had replaced, or none, though one was
                acknowledged
phantom-commit  nobody ever committed that
zombie-commit   acknowledged to a generation of the group after a later one had committed
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from raftka.chaos.checks.rising import Rising
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


def check(history: History, ended: Sequence[Operation], findings: Findings) -> None:
    groups: dict[str, dict[str, Register]] = defaultdict(dict)
    for operation in history.operations:
        if operation.offsets:
            _gather(operation, groups[operation.group])
    for registers in groups.values():
        for register in registers.values():
            _witness(register)
            _judge(register, findings)
    _generations(ended, findings)


def _gather(operation: Operation, registers: dict[str, Register]) -> None:
    reads = operation.verb == FETCH_OFFSET
    if operation.outcome == FAIL or (reads and operation.outcome != OK):
        return
    for key, offset in operation.offsets.items():
        register = registers.get(key)
        if register is None:
            register = registers[key] = Register(operation.group, key)
            register.commits[NONE].append(Commit(None, BEFORE_ALL, BEFORE_ALL))
        if reads:
            register.reads.append((operation, offset))
        else:
            register.commits[offset].append(
                Commit(operation, operation.began, operation.ended, operation.generation)
            )


def _witness(register: Register) -> None:
    """A read offset was committed before the read ended, if only one commit can have written it."""
    for operation, offset in register.reads:
        commits = register.commits.get(offset, ())
        if len(commits) == 1 and commits[0].began < operation.ended:
            commits[0].ended = min(commits[0].ended, operation.ended)


# of all that had happened by a position: when the latest began, and the latest generation
Known = tuple[int, int]


def _judge(register: Register, findings: Findings) -> None:
    happened = Rising[Known](lambda one, other: (max(one[0], other[0]), max(one[1], other[1])))
    for commit in sorted(_happened(register), key=lambda each: each.ended):
        assert commit.operation is not None
        happened.learn(None, (commit.began, commit.generation), commit.operation, commit.ended)
    for operation, offset in register.reads:
        commits = register.commits.get(offset, ())
        known = happened.known(None, operation.began)
        if known is None and commits and commits[0].began < operation.ended:
            continue  # nothing had replaced it
        if known is not None and _explained(commits, operation.ended, *known[0]):
            continue
        before = [each.operation for each in commits if each.began < operation.ended]
        if before and known is not None:
            last = happened.first(None, lambda value, began=known[0][0]: value[0] >= began)  # type: ignore[misc]
            said = f"{offset} was read after {last.offsets[register.key]} had been committed"
            findings.wrong("commit-lost", register.name, said, (before[-1], last, operation))
        else:
            findings.wrong(
                "phantom-commit",
                register.name,
                f"{offset} was read, nobody had committed it",
                (operation,),
            )


def _explained(
    commits: Sequence[Commit], read_ended: int, latest_began: int, generation: int
) -> bool:
    """By one that no other has replaced: neither one that began after it had ended, nor one of a
    later generation, after which its own is refused.
    """
    for commit in reversed(commits):  # mostly it is the last
        if (
            commit.began < read_ended
            and commit.ended >= latest_began
            and not NONE < commit.generation < generation
        ):
            return True
    return False


def _happened(register: Register) -> Iterator[Commit]:
    return (
        each
        for commits in register.commits.values()
        for each in commits
        if each.operation is not None and each.ended < NEVER
    )


def _generations(ended: Sequence[Operation], findings: Findings) -> None:
    rising = Rising[int](max)
    for operation in ended:
        if operation.generation < 0 or operation.verb == FETCH_OFFSET:
            continue
        before = rising.known(operation.group, operation.began)
        if before is not None and before[0] > operation.generation:
            said = f"generation {operation.generation} has committed after generation {before[0]}"
            findings.wrong(
                "zombie-commit", f"group {operation.group}", said, (before[1], operation)
            )
        rising.learn(operation.group, operation.generation, operation)
