"""Batches that no client should write are answered, and stored, as by Apache Kafka 4.3.1: each of
odd_batches.py, in every kind of topic.

With raftka.validation=records all are but those below; with `header` what is inside of a batch is
believed.
"""

from functools import cache

import pytest

from raftka.wire.errors import Code
from tests.broker import odd_batches
from tests.broker.odd_batches import INSIDE, Answers, Case, asked, recorded
from tests.broker.stage import Stage
from tests.kit.broker.kafka_differences import ODD_BATCHES

KAFKA = recorded()
NAMES = sorted({case.name for case in KAFKA})
MEANT = set().union(*ODD_BATCHES.values())
BELIEVED = (
    Code.UNKNOWN_SERVER_ERROR,
    Code.INVALID_RECORD,
    Code.INVALID_TIMESTAMP,
    Code.MESSAGE_TOO_LARGE,
)


@cache
def answers(validation: str) -> Answers:
    with Stage(raftka_validation=validation) as stage:
        stage.world.network.delay("client", "n1", 0.0)
        for name, configs in odd_batches.TOPICS.items():
            stage.create(name, 1, configs=configs)
        found = asked(stage.wire(), stage.nodes[1].runtime.clock.wall_ms)
        assert stage.counted("raftka_handler_errors_total") == 0, stage.logs[1].getvalue()[-2000:]
        return found


def differing(name: str) -> list[Case]:
    return [
        case
        for case, told in answers("records").items()
        if case.name == name and told != KAFKA[case]
    ]


def test_all_of_them_are_recorded() -> None:
    assert answers("records").keys() == KAFKA.keys()
    assert len(KAFKA) > 2000


@pytest.mark.parametrize("name", [name for name in NAMES if name not in MEANT])
def test_the_answer_is_kafkas(name: str) -> None:
    assert {case: answers("records")[case] for case in differing(name)} == {
        case: KAFKA[case] for case in differing(name)
    }


@pytest.mark.parametrize("name", sorted(MEANT))
def test_what_differs_is_refused_here(name: str) -> None:
    cases = differing(name)

    assert cases
    assert all(case.codec != "none" for case in cases)
    assert {answers("records")[case]["code"] for case in cases} <= {
        Code.INVALID_RECORD,
        Code.MESSAGE_TOO_LARGE,
        Code.UNKNOWN_SERVER_ERROR,
    }


@pytest.mark.parametrize("name", NAMES)
def test_headers_alone_say_the_same_or_are_believed(name: str) -> None:
    for case, thorough in answers("records").items():
        if case.name != name or (told := answers("header")[case]) == thorough:
            continue
        inside = name in INSIDE or ": " in name or name.startswith("count ")
        assert told["code"] == 0, case
        if thorough["code"]:
            assert inside, case
            assert thorough["code"] in BELIEVED, case
        else:  # the largest timestamp, and what Kafka clears when it writes that
            assert {
                field
                for field, value in told["stored"].items()
                if value != thorough["stored"].get(field)
            } <= {"max_timestamp", "attributes"}
