"""The checks of transactions: a sound history is let pass, and each anomaly is named."""

from math import inf

import pytest

from raftka.chaos.checks.transactions import (
    Attempt,
    Entry,
    Place,
    Result,
    Span,
    check_aborted,
    check_attempts,
    check_copies,
    check_read,
    check_stable,
    last_stable,
    spans_of,
)

A, B, INPUT = ("a", 0), ("b", 0), ("in", 0)


def attempt(number: int = 0, result: Result = Result.COMMITTED, offset: int = 0) -> Attempt:
    found = Attempt(number, "copier", INPUT, result=result)
    for place in (A, B):
        found.sent[place] = [found.value(offset, 0)]
    return found


def span(
    its: Attempt, place: Place = A, first: int = 0, marker: float = 1, *, committed: bool = True
) -> Span:
    return Span(its.number, first, marker, committed, list(enumerate(its.sent[place], first)))


def both(its: Attempt, first: int = 0, *, committed: bool = True) -> dict[Place, list[Span]]:
    return {place: [span(its, place, first, first + 1, committed=committed)] for place in (A, B)}


@pytest.mark.parametrize(
    ("result", "committed"),
    [
        (Result.COMMITTED, True),
        (Result.UNKNOWN, True),
        (Result.UNKNOWN, False),
        (Result.ABORTED, False),
    ],
)
def test_all_or_nothing_as_the_client_was_told_is_sound(result: Result, committed: bool) -> None:
    its = attempt(result=result)
    assert check_attempts([its], both(its, committed=committed)) == []


def test_each_anomaly_of_a_transaction_is_named() -> None:
    its = attempt()
    assert check_attempts([its], {A: [span(its)], B: [span(its, B, committed=False)]})[
        0
    ].startswith("torn: ")
    assert check_attempts([its], both(its, committed=False))[0].startswith("commit-lost: ")
    assert check_attempts([its], {A: [span(its)], B: [span(its, B, marker=inf, committed=False)]})[
        0
    ].startswith("hanging: ")
    assert check_attempts([], both(its))[0].startswith("phantom: ")
    aborted = attempt(result=Result.ABORTED)
    assert check_attempts([aborted], both(aborted))[0].startswith("dirty: ")
    its.fenced = True
    assert check_attempts([its], both(its))[0].startswith("zombie: ")


def test_each_input_is_copied_once_in_order_below_the_committed_offset() -> None:
    first, second = attempt(0), attempt(1, offset=1)
    sound = {place: [span(first, place), span(second, place, 2, 3)] for place in (A, B)}
    assert check_copies(sound, {INPUT: 2}) == []
    assert "its offset is not committed" in check_copies(sound, {INPUT: 1})[0]
    assert "not there" in check_copies(sound, {INPUT: 3})[0]
    twice = {**sound, A: [*sound[A], span(attempt(2, offset=1), A, 4, 5)]}
    assert "there twice" in check_copies(twice, {INPUT: 2})[0]
    turned = {**sound, A: [span(second, A), span(first, A, 2, 3)]}
    assert check_copies(turned, {INPUT: 2})[0].startswith("out of order: ")


def test_the_last_stable_offset_stops_where_a_marker_is_not_below_the_high_watermark() -> None:
    spans = [Span(1, 0, 5, True, ()), Span(2, 3, inf, False, ())]
    assert [last_stable(spans, end) for end in (0, 4, 5, 6, 9)] == [0, 0, 0, 3, 3]
    assert check_stable(A, spans, {(4, 0), (6, 3), (9, 0)}) == []
    assert "passes an open transaction" in check_stable(A, spans, {(5, 3)})[0]


def test_readers_are_given_what_is_committed_up_to_their_position() -> None:
    first, second = attempt(0), attempt(1)
    spans = [span(first), span(second, A, 2, 3, committed=False), span(attempt(2), A, 4, 5)]
    right = [(0, first.sent[A][0]), (4, attempt(2).sent[A][0])]
    assert check_read("r", A, spans, right, 6) == check_read("r", A, spans, right[:1], 4) == []
    assert check_read("r", A, spans, right[:1], 6)[0].startswith("lost read: ")
    assert check_read("r", A, spans, [right[0], (2, second.sent[A][0]), right[1]], 6)[0].startswith(
        "dirty read: "
    )
    assert check_read("r", A, spans, [right[0], (4, b"other")], 6)[0].startswith("another read: ")


def test_transactions_are_found_in_a_log() -> None:
    entries = [
        Entry(0, 1, 7, 0, (b"x", b"y")),
        Entry(2, 2, 8, 0, (b"z",)),
        Entry(3, 3, 7, 0, (), commits=False),
        Entry(4, 4, 9, 0, (), commits=True),
        Entry(5, 5, 7, 0, (b"w",)),
        Entry(6, 6, 7, 0, (), commits=True),
    ]
    spans = spans_of(entries)
    assert spans == [
        Span(7, 0, 3, False, [(0, b"x"), (1, b"y")]),
        Span(8, 2, inf, False, [(2, b"z")]),
        Span(7, 5, 6, True, [(5, b"w")]),
    ]
    assert check_aborted("n1", spans, [(7, 0, 3)]) == []
    assert "lacks [(7, 0, 3)]" in check_aborted("n1", spans, [])[0]
    assert "has [(7, 5, 6)] beside" in check_aborted("n1", spans, [(7, 0, 3), (7, 5, 6)])[0]
