"""Each request in each state of a transactional id, as Apache Kafka 4.3.1 answers it, but for what
`expected` tells.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from raftka.coordinator.transactions.coordinator import TransactionCoordinator
from raftka.wire.errors import Code
from tests.broker.stage import Stage
from tests.broker.transaction_table import (
    LAST_EPOCH,
    PROBES,
    RECORDED,
    STANDS_STILL,
    STATES,
    Case,
    Question,
    Table,
    play,
)

RECORDED_ANSWERS: Table = json.loads(RECORDED.read_text())
WAITS, FOREIGN = str(int(Code.CONCURRENT_TRANSACTIONS)), str(int(Code.INVALID_PRODUCER_ID_MAPPING))
NOTHING = str(int(Code.INVALID_TXN_STATE))


class StageLine:
    """Three nodes in the simulation."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.wires = {node: stage.wire(node) for node in stage.nodes}

    def ask(self, questions: Sequence[Question]) -> list[Any]:
        """Several questions have a connection each: one that waits for markers holds up no
        other.
        """
        if len(questions) == 1:
            node, api, row, version = questions[0]
            return [self.wires[node].ask(api, row, version)]
        wires = [self.stage.wire(node) for node, _, _, _ in questions]
        for wire, (_, api, row, version) in zip(wires, questions, strict=True):
            wire.request(api, row, version)
        return [
            wire.answer(api, version)
            for wire, (_, api, _, version) in zip(wires, questions, strict=True)
        ]

    def sleep(self, seconds: float) -> None:
        self.stage.world.run(self.stage.world.now + seconds)

    def stand_still(self, *, still: bool) -> None:
        (self.stage.world.pause if still else self.stage.world.resume)(f"n{STANDS_STILL}")

    def raise_epoch(self, case: Case) -> None:
        """In the coordinator's memory alone."""
        for coordinator in self.stage.nodes[case.node].transactions.runtime.partitions.values():
            machine = coordinator.machine
            assert isinstance(machine, TransactionCoordinator)
            if case.id in machine.transactions:
                machine.transactions[case.id] = replace(
                    machine.transactions[case.id], epoch=LAST_EPOCH
                )
        case.before = case.answered = (case.before[0], LAST_EPOCH)


@pytest.fixture(scope="module")
def answers() -> Iterator[Table]:
    with Stage(
        3,
        transaction_state_log_num_partitions="3",
        transaction_state_log_replication_factor="1",
        transaction_state_log_min_isr="1",
        offsets_topic_num_partitions="3",
        offsets_topic_replication_factor="1",
        min_insync_replicas="1",
    ) as stage:
        yield play(StageLine(stage))


def expected(state: str, request: str) -> str:
    """The recorded answer, or ours where it differs for a reason that docs/compatibility.md
    tells.
    """
    recorded, (name, _, pair) = RECORDED_ANSWERS[state][request], request.rpartition(" ")
    # Kafka aborts the transaction; ours waits for that
    if state.startswith("ongoing") and recorded == WAITS and name.startswith("InitProducerId"):
        return {"none": "0 same +2", "before": "0 same +1", "answered": "0 same +1"}.get(
            pair
        ) or refusal(state, request)
    # Kafka looks at the epoch when the markers are written
    if state.startswith("preparing") and recorded == WAITS and not is_its(state, name, pair):
        return refusal(state, request)
    if (
        state.endswith("the last epoch")
        and pair == "answered"
        and recorded == str(int(Code.INVALID_PRODUCER_ID_MAPPING))
    ):  # it is valid a moment later
        return str(int(Code.NOT_ENOUGH_REPLICAS)) if name.startswith("Produce") else WAITS
    # Kafka ends a producer whose commit comes before its transaction has begun
    if name == "EndTxn v5 commit" and recorded == NOTHING and is_current(state, pair):
        return WAITS
    # Kafka takes a fenced producer for one that asks again
    if state.endswith("version 1") and name.startswith("EndTxn v5") and pair == "older":
        return refusal(state, request)
    return recorded


def is_its(state: str, name: str, pair: str) -> bool:
    """Return whether the producer of the transaction may have the pair."""
    if pair == "before":
        return name.startswith(("InitProducerId", "EndTxn v5")) or "version 1" in state
    return pair in ("none", "answered")


def is_current(state: str, pair: str) -> bool:
    """Return whether the producer, which has no transaction, has the pair that is stored."""
    return pair == "answered" or (
        pair == "before" and (state == "empty" or state.endswith("version 1"))
    )


def refusal(state: str, request: str) -> str:
    """As the request is refused where no transaction is under way."""
    name, _, pair = request.rpartition(" ")
    is_foreign = pair == "stranger" or (
        pair == "beyond"
        and state.endswith("the last epoch")
        and not name.startswith("InitProducerId")
    )
    return RECORDED_ANSWERS["empty"][f"{name} {'stranger' if is_foreign else 'beyond'}"]


def test_the_table_is_whole() -> None:
    assert RECORDED_ANSWERS.keys() == STATES.keys()
    assert all(list(each) == [str(probe) for probe in PROBES] for each in RECORDED_ANSWERS.values())


@pytest.mark.parametrize("state", STATES)
def test_requests_in_a_state_are_answered_as_by_kafka(answers: Table, state: str) -> None:
    wrong = {
        request: (answer, right)
        for request, answer in answers[state].items()
        if answer != (right := expected(state, request))
    }

    assert not wrong, "ours, and what is right"
