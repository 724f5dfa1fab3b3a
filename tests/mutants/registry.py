"""Bugs are planted in the running code and taken out again: an attribute of a class or a module is
replaced for a while. Knows no bug.

@mutant(Partition, "flush")
def leader_counts_what_is_written(flush):
    '''What it breaks, in a sentence.'''
    def bug(self): ...
    return bug

The maker is given what was there. A second maker under `part_of(...)` belongs to the same bug.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

Make = Callable[[Any], Any]  # original -> bug
Owner = type | ModuleType


@dataclass(frozen=True)
class Patch:
    owner: Owner
    attribute: str
    make: Make

    @property
    def where(self) -> str:
        return (
            f"{self.owner.__module__}.{self.owner.__name__}.{self.attribute}"
            if isinstance(self.owner, type)
            else f"{self.owner.__name__}.{self.attribute}"
        )


@dataclass(frozen=True)
class Mutant:
    """`hunted_by`: names of hunts (hunt.py), the likeliest first; none: as its area says."""

    name: str
    area: str
    breaks: str
    hunted_by: tuple[str, ...] = ()
    patches: list[Patch] = field(default_factory=list)


MUTANTS: dict[str, Mutant] = {}


def mutant(owner: Owner, attribute: str, *hunted_by: str) -> Callable[[Make], Make]:
    def register(make: Make) -> Make:
        assert make.__doc__, make.__name__
        assert make.__name__ not in MUTANTS, make.__name__
        area = make.__module__.rpartition(".")[2]
        breaks = " ".join(make.__doc__.split())
        MUTANTS[make.__name__] = Mutant(
            make.__name__, area, breaks, hunted_by, [Patch(owner, attribute, make)]
        )
        return make

    return register


def part_of(bug: Make, owner: Owner, attribute: str) -> Callable[[Make], Make]:
    def register(make: Make) -> Make:
        MUTANTS[bug.__name__].patches.append(Patch(owner, attribute, make))
        return make

    return register


@contextmanager
def mutated(*names: str) -> Iterator[None]:
    patches = [patch for name in names for patch in MUTANTS[name].patches]
    originals = [(patch, patch.owner.__dict__[patch.attribute]) for patch in patches]
    try:
        for patch in patches:
            setattr(patch.owner, patch.attribute, patch.make(patch.owner.__dict__[patch.attribute]))
        yield
    finally:
        for patch, original in reversed(originals):
            setattr(patch.owner, patch.attribute, original)
