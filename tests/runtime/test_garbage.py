"""Collections of garbage in a node's process: each visits few objects, and cycles are found all the
same.
"""

import gc
import sys
import weakref
from collections.abc import Iterator

import pytest

from raftka.runtime.real import garbage
from raftka.runtime.real.garbage import FULL, MIDDLE, YOUNG, ShortCollections

KEPT = 300_000
AT_MOST = 3 * YOUNG * MIDDLE * FULL  # objects that one collection visits


class Busy:
    def __init__(self) -> None:
        self.yes = False

    def __call__(self) -> bool:
        return self.yes


class Visited:
    """The number of objects that each full collection visits."""

    def __init__(self) -> None:
        self.counts: list[int] = []

    def __call__(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start" and info["generation"] == 2:
            self.counts.append(len(gc.get_objects()))


class Ring:
    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def busy() -> Busy:
    return Busy()


@pytest.fixture
def visited(busy: Busy) -> Iterator[Visited]:
    """Of collections in this process, until the test has ended."""
    before, visited = gc.get_threshold(), Visited()
    collections = ShortCollections(busy)
    collections.begin()
    gc.callbacks.insert(0, visited)
    yield visited
    gc.callbacks.remove(visited)
    collections.end()
    gc.set_threshold(*before)
    gc.unfreeze()


pytestmark = pytest.mark.skipif(
    sys.version_info >= (3, 14), reason="the interpreter collects in small steps by itself"
)


def test_full_collections_do_not_visit_what_an_earlier_one_left(
    visited: Visited, busy: Busy
) -> None:
    busy.yes = True  # as in a long request: a visit to all is put off

    kept = [[number] for number in range(KEPT)]

    assert len(kept) == KEPT
    assert len(visited.counts) >= KEPT // AT_MOST
    assert max(visited.counts) <= AT_MOST


def test_a_cycle_of_frozen_objects_is_freed_when_memory_has_grown(
    visited: Visited, monkeypatch: pytest.MonkeyPatch
) -> None:
    # a little growth is enough
    monkeypatch.setattr(garbage, "MORE_BLOCKS", -sys.getallocatedblocks())
    ring = Ring()
    gone = weakref.ref(ring)
    gc.collect()
    gc.collect(0)
    gc.freeze()

    del ring
    assert gone() is not None
    kept = [[number] for number in range(KEPT)]

    assert gone() is None
    assert len(kept) == KEPT
    assert max(visited.counts) > KEPT // 10


def test_objects_of_a_long_request_are_no_growth(
    visited: Visited, busy: Busy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(garbage, "MORE_BLOCKS", -sys.getallocatedblocks())
    busy.yes = True

    kept = [[number] for number in range(KEPT)]

    assert len(kept) == KEPT
    assert max(visited.counts) <= AT_MOST
