"""The count of starts: what is an older copy and what is not, and what is written down of
others.
"""

from collections.abc import Iterator
from random import Random

import pytest

from raftka.broker.controller.boot_counter import BootCounter, Start, start_of
from raftka.limits import CONTROLLER_CONNECTIONS
from raftka.log.checkpoints import CheckpointError
from raftka.runtime.interfaces import Files
from raftka.runtime.simulated.world import World
from raftka.wire.errors import ProtocolError
from tests.broker.conftest import Lower

A, B, C = (bytes([i]) * 16 for i in (1, 2, 3))


@pytest.fixture
def files() -> Iterator[Files]:
    with World(1, guard=False) as world:
        yield world.node("n1").files


def starts(files: Files, process: bytes = A) -> BootCounter:
    return BootCounter(files, "/data", process, Random(1))


def test_starts_are_counted_on_one_disk(files: Files) -> None:
    first, second = starts(files, A).mine, starts(files, B).mine

    assert (first.disk, first.number, first.process) == (second.disk, 1, A)
    assert (second.number, second.process) == (2, B)
    assert first.is_before(second)
    assert not second.is_before(first)


@pytest.mark.parametrize(
    ("start", "is_older"),
    [
        (Start(A, 6, B), True),
        # the count is the same, the process is another: both began with the same copy
        (Start(A, 7, C), True),
        (Start(A, 7, B), False),
        (Start(A, 8, C), False),
        (Start(C, 1, C), False),  # another disk
    ],
)
def test_what_is_older_than_what_was_met(files: Files, start: Start, is_older: bool) -> None:
    starts(files).met(2, Start(A, 7, B))
    again = starts(files, C)  # the next process remembers

    assert again.known(2) == Start(A, 7, B)
    if is_older:
        with pytest.raises(ProtocolError, match="older copy of its disk"):
            again.met(2, start)
    else:
        again.met(2, start)
    assert starts(files).known(2) == (Start(A, 7, B) if is_older else start)


def test_so_many_are_remembered_and_no_more(files: Files, lowered: Lower) -> None:
    lowered(CONTROLLER_CONNECTIONS, 2)
    here = starts(files)
    for node_id in (1, 2, 3):
        here.met(node_id, Start(A, node_id, B))
    here.met(1, Start(A, 9, C))

    assert [here.known(node_id) is not None for node_id in (1, 2, 3)] == [True, True, False]
    assert here.known(1) == Start(A, 9, C)


@pytest.mark.parametrize(
    "text", [b"0\n1\n-1 zz 1 00\n", b"0\n1\n-1 01\n", b"nonsense", b"0\n2\n-1 01 1 02\n"]
)
def test_a_damaged_file(files: Files, text: bytes) -> None:
    starts(files)
    files.replace("/data/starts", text)

    with pytest.raises(CheckpointError, match="/data/starts is damaged"):
        starts(files)


@pytest.mark.parametrize(
    "value", [1, [A, 1], [A, "1", A], [A[:3], 1, A], ["x" * 16, 1, A], [A, 1, A, A]]
)
def test_what_is_no_start(value: object) -> None:
    with pytest.raises(ProtocolError):
        start_of(value)
