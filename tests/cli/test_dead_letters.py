"""`raftka dead-letters` against three live nodes."""

from collections.abc import Iterator
from typing import Any

import pytest

from raftka.cli.admin.client import connect
from raftka.client.blocking.client import Client
from raftka.cluster.processes import Processes
from tests.kit.dead_letters import ERROR, write_letters
from tests.kit.dead_letters import connect as of_connect


@pytest.fixture
def client(cluster: Processes) -> Iterator[Client]:
    with connect(cluster.bootstrap_servers) as client:
        yield client


def values(raftka: Any, topic: str) -> list[str]:
    return sorted(raftka(f"consume {topic} --from start --exit-at-end").out.split())


def test_letters_are_counted_and_sent_again(raftka: Any, client: Client, topic: str) -> None:
    bad = f"{topic}.dlq"
    assert raftka(f"topics create {bad} -p 2 -r 1").code == 0
    other = of_connect(topic, 0, error="java.io.IOException", message="late")
    write_letters(client, bad, [(None, b"a", of_connect(topic, 1)), (None, b"b", other)])
    write_letters(client, bad, [(None, b"c", of_connect(topic, 2)), (None, b"d", ())], 1)

    counted = raftka(f"dead-letters describe {bad} -o json").rows
    assert {(each["failure"], each["origin"]): each["letters"] for each in counted} == {
        (ERROR, topic): 2,
        ("java.io.IOException", topic): 1,
        ("no error is named", None): 1,
    }
    dry = raftka(f"dead-letters redrive {bad} --dry-run -o json").rows
    unknown = "its origin is not known: choose a topic"
    assert dry == [
        {"topic": topic, "letters": 3, "reason": None},
        {"topic": None, "letters": 1, "reason": unknown},
    ]
    assert values(raftka, topic) == []

    done = raftka(f"dead-letters redrive {bad} --kind java.io.IOException -o json")
    assert (done.code, done.rows) == (0, [{"topic": topic, "letters": 1, "reason": None}])
    assert raftka(f"dead-letters redrive {bad} --letter 0@0 --letter 1@1 --to {topic}").code == 0
    assert values(raftka, topic) == ["a", "b", "d"]
    assert raftka(f"dead-letters redrive {bad} --unknown-origin --to {topic}").code == 0
    assert raftka(f"dead-letters redrive {bad} --origin {topic} --grep LATE").code == 0
    assert values(raftka, topic) == ["a", "b", "b", "d", "d"]
    assert raftka(f"topics delete {bad}").code == 0


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("redrive nowhere", "UNKNOWN_TOPIC_OR_PARTITION"),
        ("describe nowhere", "UNKNOWN_TOPIC_OR_PARTITION"),
        ("redrive bad --letter 1", "--letter 1: it is PARTITION@OFFSET"),
        ("redrive bad --letter x@1", "--letter x@1: it is PARTITION@OFFSET"),
        ("redrive bad --origin a --unknown-origin", "either --origin or --unknown-origin"),
    ],
)
def test_what_cannot_be_is_refused(raftka: Any, command: str, says: str) -> None:
    refused = raftka(f"dead-letters {command}")
    assert (refused.code, says in refused.err, refused.out) == (1, True, "")
