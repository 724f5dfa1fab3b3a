"""A finding: what is wrong, in one sentence, and the next step. Registration of checks."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from raftka.client.blocking.client import Where
from raftka.doctor.facts import Facts

BAD, WARN = "bad", "warn"
NAMED = 3  # examples in a sentence


class Found(NamedTuple):
    """`text`: one sentence. `command`: the next step, as a shell takes it."""

    text: str
    command: str


class Finding(NamedTuple):
    kind: str
    level: str  # BAD or WARN
    text: str
    command: str


Check = Callable[[Facts], Iterable[Found]]


class Registered(NamedTuple):
    kind: str
    level: str
    check: Check


CHECKS: list[Registered] = []


def finds(kind: str, level: str = WARN) -> Callable[[Check], Check]:
    """Register a check: what it yields are findings of this kind."""

    def register(check: Check) -> Check:
        CHECKS.append(Registered(kind, level, check))
        return check

    return register


# words of sentences


def count(number: int, one: str) -> str:
    return f"{number:,} {one}" + ("" if number == 1 else "s")


def examples(names: Iterable[str]) -> str:
    known = list(names)
    return ", ".join(known[:NAMED]) + (" and others" if len(known) > NAMED else "")


def places(wheres: Iterable[Where]) -> str:
    return examples(f"{topic}-{index}" for topic, index in sorted(wheres))


def names(ids: Sequence[int], one: str = "broker") -> str:
    if len(ids) == 1:
        return f"{one} {ids[0]}"
    return f"{one}s {', '.join(map(str, ids[:-1]))} and {ids[-1]}"


def has(number: int, one: str, many: str) -> str:
    """Return the verb of a sentence about `number` things."""
    return one if number == 1 else many
