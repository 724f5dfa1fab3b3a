"""Compares two schemas pair by pair of their parts, without recursion: schemas refer to themselves,
and nest as deep as a client likes.

A pair is a part of the reader's schema and a part of the writer's. Rules of a type of schemas
expand it: what is wrong with the pair by itself, and which other pairs must be right. A pair is
taken as right until something makes it wrong (the greatest fixed point), so a linked list is
compatible with itself. Three steps: expand all pairs that can be reached from the roots; spread
what is wrong to the pairs that need it; tell the problems, nearest to the root first, each with its
path.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from raftka.schemas.formats.schema import MAX_PROBLEMS, MAX_SAID

MAX_STEPS = 300_000  # pairs, and needs of pairs: three seconds, 300 MB
# options that are looked at again because one of them turned wrong: half a second
MAX_AGAIN = 10 * MAX_STEPS
MAX_PATH = 1_000  # characters of a path that are told, its end

T = TypeVar("T")
Key = tuple[int, int]


class Fault(NamedTuple):
    """`kind`: the name of the rule, as the Schema Registry's users know it; `path`: the place below
    its pair.
    """

    kind: str
    said: str
    path: str = ""


@dataclass(slots=True)
class Need(Generic[T]):
    """Of `options`, pairs of (reader, writer), one must be right. If none is, the problems are
    `fault` and the faults of the first option.

    The option's faults are left out if there are several options and a fault, or if the need is
    `quiet`.
    """

    path: str
    options: Sequence[tuple[T, T]]
    fault: Fault | None = None
    quiet: bool = False


@dataclass(slots=True)
class Expanded(Generic[T]):
    faults: list[Fault] = field(default_factory=list)
    needs: list[Need[T]] = field(default_factory=list)
    cost: int = 0  # steps beside the needs: one for 16 things that were looked at


Expand = Callable[[T, T], Expanded[T]]


class TooComplex(Exception):
    """A comparison takes more steps than are allowed; rules may raise it as well."""


def compare(reader: T, writer: T, expand: Expand[T]) -> list[str]:
    """Return a sentence for each problem, at most MAX_PROBLEMS; none if the pair is right. Parts
    are told apart by identity, and must stay alive.
    """
    try:
        comparison = _Comparison(reader, writer, expand)
        comparison.spread()
    except TooComplex:
        return ["TOO_COMPLEX at /: the schemas have too many combinations of parts to compare"]
    return comparison.problems()


def _key(pair: tuple[T, T]) -> Key:
    return id(pair[0]), id(pair[1])


class _Comparison(Generic[T]):
    def __init__(self, reader: T, writer: T, expand: Expand[T]) -> None:
        self.root = _key((reader, writer))
        self.expanded: dict[Key, Expanded[T]] = {}
        self.needed_by: dict[Key, list[tuple[Key, Need[T]]]] = {}
        self.wrong: set[Key] = set()
        waiting = deque([(reader, writer)])
        known = {self.root}
        steps = 0
        while waiting:
            pair = waiting.popleft()
            key = _key(pair)
            expanded = self.expanded[key] = expand(*pair)
            steps += 1 + expanded.cost + sum(1 + len(need.options) for need in expanded.needs)
            if steps > MAX_STEPS:
                raise TooComplex
            for need in expanded.needs:
                for option in need.options:
                    other = _key(option)
                    self.needed_by.setdefault(other, []).append((key, need))
                    if other not in known:
                        known.add(other)
                        waiting.append(option)

    def met(self, need: Need[T]) -> bool:
        return any(_key(option) not in self.wrong for option in need.options)

    def spread(self) -> None:
        """Mark every pair that is wrong. A need with many options is looked at when all simpler
        ones are settled, not after each option.
        """
        turning = [
            key
            for key, each in self.expanded.items()
            if each.faults
            or any(len(need.options) != 1 and not self.met(need) for need in each.needs)
        ]
        self.wrong.update(turning)
        doubtful: dict[int, tuple[Key, Need[T]]] = {}
        steps = 0
        while turning or doubtful:
            if not turning:
                steps += sum(len(need.options) for _, need in doubtful.values())
                if steps > MAX_AGAIN:
                    raise TooComplex
                for parent, need in doubtful.values():
                    if parent not in self.wrong and not self.met(need):
                        self.wrong.add(parent)
                        turning.append(parent)
                doubtful.clear()
                continue
            for parent, need in self.needed_by.get(turning.pop(), ()):
                if parent in self.wrong:
                    continue
                if len(need.options) == 1:
                    self.wrong.add(parent)
                    turning.append(parent)
                else:
                    doubtful[id(need)] = parent, need

    def problems(self) -> list[str]:
        told: list[str] = []
        if self.root not in self.wrong:
            return told
        waiting: deque[tuple[Key, _Path | None]] = deque([(self.root, None)])
        seen = {self.root}
        while waiting and len(told) < MAX_PROBLEMS:
            key, path = waiting.popleft()
            expanded = self.expanded[key]
            told += [_sentence(fault, path) for fault in expanded.faults]
            for need in expanded.needs:
                if self.met(need):
                    continue
                below = _Path(path, need.path) if need.path else path
                if need.fault is not None:
                    told.append(_sentence(need.fault, below))
                if (
                    need.quiet
                    or not need.options
                    or (need.fault is not None and len(need.options) > 1)
                ):
                    continue
                if (option := _key(need.options[0])) not in seen:
                    seen.add(option)
                    waiting.append((option, below))
        return list(dict.fromkeys(told))[:MAX_PROBLEMS]


class _Path(NamedTuple):
    """Linked, because a path for each of many nested pairs would grow with the square of their
    number.
    """

    above: "_Path | None"
    step: str


def _sentence(fault: Fault, path: _Path | None) -> str:
    steps: list[str] = [fault.path] if fault.path else []
    length = 0
    while path is not None and length < MAX_PATH:
        steps.append(path.step)
        length += len(path.step) + 1
        path = path.above
    whole = "/" + "/".join(reversed(steps))
    said = fault.said if len(fault.said) <= MAX_SAID else fault.said[:MAX_SAID] + "..."
    return (
        f"{fault.kind} at {whole if len(whole) <= MAX_PATH else '...' + whole[-MAX_PATH:]}: {said}"
    )
