"""Pieces of files in answers are pinned from the turn that makes the answer until they have left,
or never will: no segment is written over them.
"""

from typing import Any

import pytest

from raftka.runtime.interfaces import FileSpan, unpin
from tests.broker.line import Line


class Pinned:
    """A file that counts."""

    def __init__(self) -> None:
        self.pins = 0

    def pin(self) -> None:
        self.pins += 1

    def unpin(self) -> None:
        self.pins -= 1


def span() -> Any:
    file: Any = Pinned()
    return FileSpan(file, 0, 10)


def pins(*spans: FileSpan) -> list[int]:
    return [each.file.pins for each in spans]  # type: ignore[attr-defined]


def test_an_answer_that_waits_for_a_slow_client_is_pinned() -> None:
    connection, first, second = Line().connection, span(), span()

    connection.answer((b"head", first))
    connection.answer((b"head", second, b"tail"))
    assert pins(first, second) == [1, 1]

    unpin(connection.take_output())
    assert pins(first, second) == [0, 0]


def test_an_answer_behind_one_that_is_not_there_yet_is_pinned() -> None:
    connection, first, second = Line().connection, span(), span()
    slot = connection.slot()
    connection.answer((b"head", second))
    assert pins(second) == [1]

    slot.complete((b"head", first))
    slot.complete((b"again", first))
    assert pins(first, second) == [1, 1]
    assert connection.take_output() == [b"head", first, b"head", second]


@pytest.mark.parametrize("how", ["closed", "abort", "end"])
def test_what_never_leaves_is_unpinned(how: str) -> None:
    connection, ready, waiting, late = Line().connection, span(), span(), span()
    connection.answer((ready,))
    slot = connection.slot()
    connection.answer((waiting,))

    getattr(connection, how)("a reason")
    slot.complete((late,))
    if how == "end":
        unpin(connection.take_output())  # what was answered still leaves
    connection.closed("gone")

    assert pins(ready, waiting, late) == [0, 0, 0]
    connection.answer((late,))
    assert pins(late) == [0]
