"""Decisions about large transactions, and the load of many of them, come in short steps."""

from collections.abc import Callable

import pytest

from raftka.coordinator.machine import Outcome, OutcomeOrSteps, Ticket
from raftka.coordinator.transactions.commands import (
    AddPartitions,
    EndTransaction,
    InitProducer,
    MarkersWritten,
    VerifyPartitions,
)
from raftka.limits import PARTITIONS_OF_TRANSACTION
from tests.coordinator.transactions import Shell
from tests.coordinator.world import counted

MANY = 2_000
PARTITIONS = tuple([(f"t{each % 20}", each // 20) for each in range(MANY)])
Act = Callable[[Shell], OutcomeOrSteps]


def begin(shell: Shell) -> None:
    shell.ask("", InitProducer("x", 60_000, 1))


def adding(shell: Shell) -> OutcomeOrSteps:
    return shell.machine.decide(AddPartitions("x", 1, 0, PARTITIONS), "", shell.context())


def adding_what_is_there(shell: Shell) -> OutcomeOrSteps:
    shell.ask("", AddPartitions("x", 1, 0, PARTITIONS))
    return adding(shell)


def verifying(shell: Shell) -> OutcomeOrSteps:
    return shell.machine.decide(VerifyPartitions("x", 1, 0, PARTITIONS), "", shell.context())


def adding_after_the_markers(shell: Shell) -> OutcomeOrSteps:
    shell.ask("", AddPartitions("x", 1, 0, PARTITIONS[:1]))
    shell.ask("", EndTransaction("x", 1, 0, commit=True))
    shell.ask("held", AddPartitions("x", 1, 0, PARTITIONS))
    return shell.machine.decide(MarkersWritten(*shell.sent[0][:4]), "", shell.context())


def loading(shell: Shell) -> OutcomeOrSteps:
    for each in range(MANY):
        shell.ask("", InitProducer(f"x{each}", 60_000, 10 + each))
        shell.ask("", AddPartitions(f"x{each}", 10 + each, 0, PARTITIONS[:2]))
    return shell.rebuilt().loaded(shell.context())


def loading_one_of_many_topics(shell: Shell) -> OutcomeOrSteps:
    shell.ask("", AddPartitions("x", 1, 0, tuple([(f"t{each}", 0) for each in range(MANY)])))
    return shell.rebuilt().loaded(shell.context())


@pytest.mark.parametrize(
    "act",
    [
        adding,
        adding_what_is_there,
        verifying,
        adding_after_the_markers,
        loading,
        loading_one_of_many_topics,
    ],
    ids=lambda act: str(act.__name__),
)
def test_a_long_decision_is_many_short_steps(act: Act) -> None:
    shell = Shell()
    begin(shell)
    found = act(shell)
    parts: list[int] = []
    while not isinstance(found, Outcome):
        with counted() as made:
            try:
                next(found)
            except StopIteration as stop:
                found = stop.value
        parts.append(made.count)

    assert len(parts) > MANY / 2
    assert max(parts) < 1_000


def test_one_of_very_many_partitions_that_is_too_much_changes_nothing() -> None:
    shell = Shell()
    begin(shell)
    told: list[tuple[Ticket, object]] = []
    shell.ask(
        "",
        AddPartitions(
            "x", 1, 0, tuple([("t0", each) for each in range(PARTITIONS_OF_TRANSACTION.value + 1)])
        ),
        told,
    )

    assert [type(answer).__name__ for _, answer in told] == ["LimitRefused"]
    assert shell.machine.transactions["x"].partitions.count == 0
