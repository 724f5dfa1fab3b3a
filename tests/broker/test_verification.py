"""The questions of partition leaders to transaction coordinators: which go together, and that each
hears its own answer.
"""

from types import SimpleNamespace
from typing import Any

import pytest

from raftka.broker.produce import verification
from raftka.broker.produce.verification import Question, Refused, TransactionVerifier
from raftka.log.producers.state import ProducerState
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.transactions import ADD_PARTITIONS_TO_TXN

HERE = 1
response = ADD_PARTITIONS_TO_TXN.response


class Scene:
    """Broker 1; the coordinator of `2-...` is on broker 2, that of `3-...` on broker 3."""

    def __init__(self) -> None:
        self.turn_end: list[Any] = []
        self.asked: list[tuple[int, Any, Any]] = []
        self.refused: dict[str, Refused] = {}
        self.producers = ProducerState()
        clock = SimpleNamespace(at_turn_end=self.turn_end.append)
        metadata = SimpleNamespace(settings={"transaction.partition.verification.enable": True})
        context: Any = SimpleNamespace(
            node_id=HERE,
            metadata=metadata,
            runtime=SimpleNamespace(clock=clock),
            metrics=SimpleNamespace(count=lambda *_: None),
        )
        coordinators: Any = SimpleNamespace(coordinator_of=lambda name: int(name[0]))
        channels: Any = SimpleNamespace(
            ask=lambda broker, _, row, on_reply: self.asked.append((broker, row, on_reply))
        )
        self.verifier = TransactionVerifier(context, coordinators, channels)

    def ask(
        self, name: str, *partitions: int, as_: str = "", epoch: int = 0, version: int = 2
    ) -> None:
        question = Question(name, 7, epoch, version)
        for index in partitions:
            partition: Any = SimpleNamespace(
                topic="t", index=index, log=SimpleNamespace(producers=self.producers)
            )
            question.add(partition, self.producers.guard(7, epoch, 0, version, 0), index)
        self.verifier.ask(question, lambda refused: self.refused.__setitem__(as_ or name, refused))

    def end_turn(self) -> list[tuple[int, list[tuple[str, int, list[int]]]]]:
        """Return the questions: the broker, and its ids with epochs and partitions."""
        (end,), self.turn_end[:] = self.turn_end, []
        end()
        return [
            (
                broker,
                [
                    (
                        each.transactional_id,
                        each.producer_epoch,
                        [i for topic in each.topics for i in topic.partitions],
                    )
                    for each in row.transactions
                ],
            )
            for broker, row, _ in self.asked
        ]

    def answer(self, place: int, codes: dict[tuple[str, int], Code]) -> None:
        _, row, on_reply = self.asked[place]
        results = response.results_by_transaction
        topics = results.topic_results
        on_reply(
            response(
                results_by_transaction=[
                    results(
                        transactional_id=each.transactional_id,
                        topic_results=[
                            topics(
                                name="t",
                                results_by_partition=[
                                    topics.results_by_partition(
                                        partition_index=index,
                                        partition_error_code=codes.get(
                                            (each.transactional_id, index), Code.NONE
                                        ),
                                    )
                                    for topic in each.topics
                                    for index in topic.partitions
                                ],
                            )
                        ],
                    )
                    for each in reversed(row.transactions)
                ]
            ),
            None,
        )

    def codes(self, name: str) -> dict[Any, Code]:
        return {place: error.code for place, error in self.refused[name].items()}


def test_the_questions_of_a_turn_go_together() -> None:
    scene = Scene()
    scene.ask("2-a", 0, 1)
    scene.ask("3-c", 0)
    scene.ask("2-b", 1)
    assert scene.end_turn() == [(2, [("2-a", 0, [0, 1]), ("2-b", 0, [1])]), (3, [("3-c", 0, [0])])]

    scene.answer(0, {("2-a", 1): Code.TRANSACTION_ABORTABLE, ("2-b", 1): Code.PRODUCER_FENCED})
    assert (scene.codes("2-a"), scene.codes("2-b")) == (
        {1: Code.TRANSACTION_ABORTABLE},
        {1: Code.PRODUCER_FENCED},
    )
    assert "3-c" not in scene.refused
    scene.answer(1, {})
    assert scene.codes("3-c") == {}

    scene.ask("2-a", 2)
    assert scene.end_turn()[2:] == [(2, [("2-a", 0, [2])])]


def test_an_id_is_asked_once_for_what_is_alike_and_again_for_what_is_not() -> None:
    """Kafka's coordinator looks at an id once a request (B8): the answer for one epoch or version
    is not that for another.
    """
    scene = Scene()
    scene.ask("2-a", 0, as_="first")
    scene.ask("2-a", 1, 0, as_="second")
    scene.ask("2-a", 0, as_="newer", epoch=1)
    scene.ask("2-a", 0, as_="verified", epoch=1, version=1)
    assert scene.end_turn() == [
        (2, [("2-a", 0, [0, 1])]),
        (2, [("2-a", 1, [0])]),
        (2, [("2-a", 1, [0])]),
    ]
    assert [row.transactions[0].verify_only for _, row, _ in scene.asked] == [False, False, True]

    scene.answer(0, {("2-a", 1): Code.INVALID_TXN_STATE})
    assert (scene.codes("first"), scene.codes("second")) == ({}, {1: Code.INVALID_TXN_STATE})


def test_a_request_has_a_bounded_number_of_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "PARTITIONS_OF_BATCH", 4)
    scene = Scene()
    for name in ("2-a", "2-b", "2-c", "2-d"):
        scene.ask(name, 0, 1)
    assert [len(asked) for _, asked in scene.end_turn()] == [2, 2]


def test_when_there_is_no_answer_all_hear_it() -> None:
    scene = Scene()
    scene.ask("2-a", 0)
    scene.ask("2-b", 0)
    scene.end_turn()
    scene.asked[0][2](None, "the connection is lost")
    assert [scene.codes(name) for name in ("2-a", "2-b")] == [{0: Code.NETWORK_EXCEPTION}] * 2
    assert isinstance(scene.refused["2-a"][0], KafkaError)
