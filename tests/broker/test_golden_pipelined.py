"""Requests in one write, and one that outlives its session, at a secured Apache Kafka 4.3.1.

golden_pipelined.jsonl has the recorded answers; the requests were not recorded as bytes and stand
in ASKED. What differs stands in PIPELINED with its reason.
"""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from raftka.wire.frame import encode_request
from raftka.wire.messages.fetch import FETCH
from raftka.wire.messages.metadata import METADATA
from raftka.wire.messages.sasl import SASL_AUTHENTICATE, SASL_HANDSHAKE
from raftka.wire.messages.topics import CREATE_TOPICS
from raftka.wire.schema import AnyApi, Row
from tests.broker.golden import Differences, all_found, not_meant, numbers_of
from tests.broker.golden_logins import SAME
from tests.broker.requests import fetch
from tests.broker.sasl import SECURE, logged_in
from tests.broker.stage import Stage, Wire, decoded
from tests.kit.broker.kafka_differences import PIPELINED

Question = tuple[AnyApi, int, Row]
RECORDED = {
    line["n"]: line
    for line in map(
        json.loads,
        (Path(__file__).parent / "golden_pipelined.jsonl").read_text(encoding="utf-8").splitlines(),
    )
}
SILENT_S, WAITS_MS, BEFORE_ANOTHER_LOGIN_S = 2.0, 5000, 1.1
# of every cluster its own; 3000 in the recording, of the time that is left
OURS = ("cluster_id", "session_lifetime_ms")
HANDSHAKE: Question = (SASL_HANDSHAKE, 1, SASL_HANDSHAKE.request(mechanism="PLAIN"))
NO_TOPICS: Question = (METADATA, 12, METADATA.request(topics=[]))
ALL_TOPICS: Question = (METADATA, 12, METADATA.request(topics=None))


def login(password: bytes) -> Question:
    return SASL_AUTHENTICATE, 2, SASL_AUTHENTICATE.request(auth_bytes=b"\0pat\0" + password)


ASKED: dict[int, list[Question]] = {
    40: [HANDSHAKE, ALL_TOPICS],
    41: [HANDSHAKE, login(b"pat-secret"), NO_TOPICS],
    42: [HANDSHAKE, login(b"wrong"), ALL_TOPICS],
    305: [(FETCH, 12, fetch("open", 0, max_wait_ms=WAITS_MS, min_bytes=1))],
    306: [NO_TOPICS, HANDSHAKE, login(b"pat-secret"), NO_TOPICS],
}


def ask(wire: Wire, questions: list[Question]) -> None:
    wire.send(
        b"".join(
            encode_request(api, version, number, "sec", row)
            for number, (api, version, row) in enumerate(questions)
        )
    )


def compared(n: int, wire: Wire) -> Differences:
    found: Differences = {}
    answers: list[dict[str, Any]] = RECORDED[n]["response"]
    for place, (recorded, (api, version, _)) in enumerate(zip(answers, ASKED[n], strict=False)):
        data = wire.frame()
        if data is None:
            return {**found, "outcome": (len(answers), place)}
        found |= differences(f"{place}", recorded, decoded(api, version, data))
    ends = wire.world.run(lambda: wire.close_reason is not None, at_most_s=1.0)
    if ends is not (RECORDED[n]["outcome"] == "closed"):
        found["outcome"] = RECORDED[n]["outcome"], ends
    return found


def differences(path: str, recorded: dict[str, Any], ours: Any) -> Differences:
    """Of the fields that are recorded; tags without a value are empty there."""
    found: Differences = {}
    for name, theirs in recorded.items():
        field = re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
        mine = getattr(ours, field)
        if isinstance(theirs, list) and theirs and isinstance(theirs[0], dict):
            pairs = zip(theirs, mine, strict=True)
            for place, (each, own) in enumerate(pairs):
                found |= differences(f"{path}.{field}.{place}", each, own)
        elif not same(field, theirs, mine):
            found[f"{path}.{field}"] = theirs, mine
    return found


def same(field: str, theirs: Any, mine: Any) -> bool:
    if theirs == {}:
        return True
    if field in OURS:
        return bool(theirs) is bool(mine)
    if field == "mechanisms":
        return sorted(theirs) == sorted(mine)
    if isinstance(theirs, dict):
        return bytes.fromhex(theirs["hex"]) == bytes(mine or b"")
    return bool((SAME.get(theirs, theirs) if isinstance(theirs, str | int) else theirs) == mine)


def before_login(stage: Stage, n: int) -> Differences:
    wire = stage.wire()
    if n == 35:
        wire.send(bytes.fromhex("00080000"))
        silent = not stage.world.run(lambda: wire.close_reason is not None, at_most_s=SILENT_S)
        return {} if silent else {"outcome": (RECORDED[n]["outcome"], "closed")}
    ask(wire, ASKED[n])
    return compared(n, wire)


def in_a_session(stage: Stage, n: int) -> Differences:
    wire = logged_in(stage)
    stage.world.run(stage.world.now + BEFORE_ANOTHER_LOGIN_S)
    ask(wire, ASKED[n])
    return compared(n, wire)


@cache
def replayed() -> dict[int, Differences]:
    found: dict[int, Differences] = {}
    with Stage(**SECURE) as stage:
        found |= {n: before_login(stage, n) for n in (35, 40, 41, 42)}
        assert not stage.world.failures
    with Stage(**SECURE, connections_max_reauth_ms="3000") as stage:
        row = CREATE_TOPICS.request
        topic = row.topics(name="open", num_partitions=1, replication_factor=1)
        assert (
            logged_in(stage)
            .ask(CREATE_TOPICS, row(topics=[topic], timeout_ms=1000))
            .topics[0]
            .error_code
            == 0
        )
        found |= {n: in_a_session(stage, n) for n in (305, 306)}
        assert not stage.world.failures
    return found


@pytest.mark.parametrize("n", RECORDED)
def test_the_answers_are_kafkas(n: int) -> None:
    assert not_meant(PIPELINED, n, replayed()[n]) == {}, RECORDED[n]["comment"]


@pytest.mark.parametrize("n", numbers_of(PIPELINED))
def test_what_is_said_to_differ_does(n: int) -> None:
    assert all_found(PIPELINED, n, replayed()[n])
