"""The checker of registers against one that tries every order, and against histories that it cannot
finish.
"""

from collections.abc import Iterator
from itertools import permutations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from raftka.chaos.checker import check
from raftka.chaos.history import COMPARE_AND_SET, FAIL, INFO, OK, READ, WRITE, History, Operation
from raftka.chaos.linearizable import Linearizable, _Judgement, judge
from raftka.chaos.verdict import Outcome, Rules

STEPS = 100_000
VALUES = st.sampled_from([None, 1, 2])
CALLS = st.tuples(
    st.sampled_from([READ, WRITE, COMPARE_AND_SET]),
    VALUES,
    VALUES,
    st.booleans(),
    st.sampled_from([OK, OK, OK, INFO, FAIL]),
    st.integers(0, 5),
)
Call = tuple[str, object, object, bool, str, int]


def operations_of(calls: list[Call]) -> list[Operation]:
    """Each begins in its turn, and ends so many turns later."""
    found = []
    for turn, (verb, expected, value, matched, outcome, length) in enumerate(calls):
        operation = Operation(
            turn,
            verb,
            turn * 20,
            0.0,
            key="r",
            expected=expected,  # type: ignore[arg-type]
            value=value,  # type: ignore[arg-type]
            outcome=outcome,
        )
        operation.matched = matched or verb != COMPARE_AND_SET or outcome == INFO
        if outcome != INFO:
            operation.ended = (turn + length) * 20 + turn + 1
        found.append(operation)
    return found


def brute_force(operations: list[Operation]) -> bool:
    certain = [each for each in operations if each.outcome == OK]
    maybe = [each for each in operations if each.outcome == INFO and each.verb != READ]
    return any(explains(order) for more in subsets(maybe) for order in permutations(certain + more))


def subsets(operations: list[Operation]) -> Iterator[list[Operation]]:
    for bits in range(1 << len(operations)):
        yield [each for place, each in enumerate(operations) if bits >> place & 1]


def explains(order: tuple[Operation, ...]) -> bool:
    value = None
    for place, each in enumerate(order):
        if any(later.ended < each.began for later in order[place + 1 :]):
            return False
        if each.verb == READ and each.value != value:
            return False
        if each.verb == COMPARE_AND_SET and (each.expected == value) != each.matched:
            return False
        if each.verb == WRITE or (each.verb == COMPARE_AND_SET and each.matched):
            value = each.value
    return True


@settings(max_examples=1500, deadline=None)
@given(st.lists(CALLS, max_size=6))
@example(
    [
        (WRITE, None, 1, True, OK, 5),
        (WRITE, None, 1, True, OK, 0),
        (WRITE, None, 2, True, OK, 0),
        (COMPARE_AND_SET, 1, 2, True, OK, 0),
    ]
)
@example(
    [
        (WRITE, None, 1, True, INFO, 0),
        (WRITE, None, 2, True, OK, 0),
        (READ, None, 1, True, OK, 0),
        (READ, None, 2, True, OK, 0),
    ]
)
def test_the_checker_agrees_with_trying_every_order(calls: list[Call]) -> None:
    operations = operations_of(calls)

    answer = judge(operations, STEPS)

    assert answer.linearizable is (Linearizable.YES if brute_force(operations) else Linearizable.NO)


def history_of(count: int) -> History:
    """Compare-and-sets that nobody hears of again, each from anywhere to anywhere; then a read of
    what is nowhere.
    """
    history = History()
    for process in range(count * count):
        history.invoke(
            process,
            COMPARE_AND_SET,
            0.0,
            key="r",
            expected=process // count or None,
            value=process % count,
        )
    history.invoke(-1, READ, 1.0, key="r")
    history.end(-1, OK, 1.0, value=-1)
    return history


def test_calls_without_a_result_cost_little() -> None:
    """Forty of one value, forty of others: in any order that would be more steps than there are
    atoms.
    """
    history = History()
    for process in range(80):
        history.invoke(process, WRITE, 0.0, key="r", value=process if process % 2 else 0)
    for value in [100, 0, 101, 0, 102, 3, 103, 0]:
        verb = WRITE if value >= 100 else READ
        history.invoke(100, verb, 1.0, key="r", value=value)
        history.end(100, OK, 1.0)

    assert judge(history.operations, 50_000).linearizable is Linearizable.YES
    history.invoke(100, READ, 2.0, key="r", value=3)
    history.end(100, OK, 2.0)
    assert judge(history.operations, 50_000).linearizable is Linearizable.NO


def test_bits_are_used_again() -> None:
    judgement = _Judgement(1000, {(None, 0)})
    history = History()
    for value in range(50):
        operation = history.invoke(1, WRITE, 0.0, key="r", value=value)
        history.end(1, OK, 1.0)
        judgement.begins(operation)
        assert judgement.ends(operation) is None

    assert judgement.bits_used == 1


def test_the_checker_gives_up_with_unknown() -> None:
    verdict = check(history_of(30), Rules(linearizable_steps=10_000))

    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict.reason == "whether r are linearizable took more than 10,000 steps"
    assert check(history_of(3), Rules(linearizable_steps=10_000)).outcome is Outcome.VIOLATED


def test_a_violation_names_the_operations() -> None:
    history = History()
    for verb, body, told in (
        (WRITE, {"value": 1}, {}),
        (COMPARE_AND_SET, {"expected": 2, "value": 3}, {"matched": True}),
    ):
        history.invoke(1, verb, 0.0, key="r", **body)
        history.end(1, OK, 1.0, **told)

    (anomaly,) = check(history).anomalies

    assert anomaly.sentence == (
        "r: no order explains that process 1 was told that 2 was there, by a "
        "compare-and-set to 3; it held 1"
    )
    assert anomaly.operations == [2]


def test_registers_are_judged_alone() -> None:
    history = History()
    for key in ("good", "bad"):
        history.invoke(1, WRITE, 0.0, key=key, value=1)
        history.end(1, OK, 0.0)
        history.invoke(1, READ, 0.0, key=key)
        history.end(1, OK, 0.0, value=1 if key == "good" else None)

    assert [anomaly.key for anomaly in check(history).anomalies] == ["bad"]
