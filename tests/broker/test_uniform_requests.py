"""Produces of one size that come in one piece are answered together, and nobody can tell it from
the answers or the log.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from raftka.broker.network.connection import ServerConnection
from raftka.broker.produce.plan import (
    LARGEST_UNIFORM_BYTES,
    MOST_UNIFORM,
    SKIPPED_PIECES,
    ProducePlan,
)
from raftka.broker.produce.uniform_batches import KEPT
from raftka.limits import REQUESTS_IN_HAND
from raftka.wire.errors import Code
from raftka.wire.frame import encode_request
from raftka.wire.messages.produce import PRODUCE
from raftka.wire.records import build_batch
from tests.broker.requests import batch, produce, produced
from tests.broker.stage import Stage, decoded
from tests.kit.broker.uniform_produces import give, many, one, prepared, told

VERSIONS = (3, 4, 5, 7, 8, 9, 10, 12)
QUICK: dict[str, Any] = {"raftka_log_flush": "os"}


@contextmanager
def uniform(monkeypatch: pytest.MonkeyPatch, *, open: bool = True) -> Iterator[list[int]]:
    """Return how many requests were answered together, each time it was tried; with `open` false
    none are.
    """
    taken: list[int] = []
    run = ProducePlan.run_uniform

    def watched(self: ProducePlan, connection: ServerConnection, view: memoryview) -> int:
        taken.append(run(self, connection, view) if open else 0)
        return taken[-1]

    with monkeypatch.context() as patched:
        patched.setattr(ProducePlan, "run_uniform", watched)
        yield taken


def stored(stage: Stage) -> bytes:
    log = stage.partition("t").log
    log.write_staged()
    return b"".join(segment.file.read(0, segment.size) for segment in log.segments)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("settings", [QUICK, {}], ids=["written", "flushed"])
def test_answers_and_log_are_those_of_requests_alone(
    version: int, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for open in (True, False):
        with Stage(**settings) as stage, uniform(monkeypatch, open=open) as taken:
            stage.create("t")
            wire, server = prepared(stage, version)
            told_all = []
            for count in (5, 2, 5, 7):
                give(stage, server, b"".join(many(count, version)))
                told_all.append(told(stage, wire))
            partition, produces = stage.partition("t"), stage.nodes[1].metrics.latency("Produce")
            counts = (
                partition.produced,
                partition.bytes_in,
                partition.messages_in,
                partition.high_watermark,
                produces.count,
            )
            found.append((told_all, stored(stage), counts))
            if open:
                assert taken == [5, 2, 5, 7]
    assert found[0] == found[1]
    (frames, _), *_ = found[0][0]
    assert [int.from_bytes(frame[:4]) for frame in frames] == [100, 107, 114, 121, 128]
    assert [produced(decoded(PRODUCE, version, frame)).base_offset for frame in frames] == [
        5,
        6,
        7,
        8,
        9,
    ]


def test_a_byte_that_differs_has_the_same_consequences(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the second of three requests, each byte in front of the records."""
    sent = many(3, 9)
    size = len(sent[0])
    found: list[list[Any]] = [[], []]
    for answers, open in zip(found, (True, False), strict=True):
        with Stage(**QUICK) as stage, uniform(monkeypatch, open=open):
            stage.create("t")
            for position in range(size - 30):
                wire, server = prepared(stage, 9)
                data = bytearray(b"".join(sent))
                data[size + position] ^= 1
                give(stage, server, bytes(data))
                answers.append((*told(stage, wire), stage.partition("t").log.end_offset))
                wire.close()
            answers.append(stored(stage))
    assert found[0] == found[1]


def test_bytes_inside_of_a_request_are_not_taken_for_requests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The middle of a large request may come as a piece of its own, and look like small ones."""
    inner = b"".join(many(2))
    with Stage(**QUICK) as stage, uniform(monkeypatch) as taken:
        stage.create("t")
        wire, server = prepared(stage)
        outer = one(500, value=b"<" * 10 + inner + b">" * 10)
        at = outer.index(inner)
        for piece in (outer[:at], inner, outer[at + len(inner) :]):
            give(stage, server, piece)

        frames, _ = told(stage, wire)

        assert [int.from_bytes(frame[:4]) for frame in frames] == [500]
        assert taken == []


def test_what_comes_while_a_request_is_held_waits_for_its_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Stage(**QUICK) as stage, uniform(monkeypatch) as taken:
        stage.create("t")
        wire, server = prepared(stage)
        server.hold()
        give(stage, server, b"".join(many(3)))
        assert (told(stage, wire), taken, stage.partition("t").log.end_offset) == (
            ([], None),
            [],
            5,
        )
        server.release()

        assert len(told(stage, wire)[0]) == 3


def test_behind_a_gate_every_request_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    class Gate:
        is_late = False

        def passes(self, frame: memoryview) -> bool:
            return False

    with Stage(**QUICK) as stage, uniform(monkeypatch) as taken:
        stage.create("t")
        wire, server = prepared(stage)
        server.gate = Gate()
        give(stage, server, b"".join(many(3)))
        assert (told(stage, wire), taken, stage.partition("t").log.end_offset) == (
            ([], None),
            [],
            5,
        )


def test_a_broken_request_among_others_is_refused_alone() -> None:
    with Stage(**QUICK) as stage:
        stage.create("t")
        wire, server = prepared(stage)
        sent = many(5)
        sent[2] = sent[2][:-5] + b"!" + sent[2][-4:]
        give(stage, server, b"".join(sent))

        rows = [produced(decoded(PRODUCE, 12, frame)) for frame in told(stage, wire)[0]]
        assert [row.error_code for row in rows] == [0, 0, Code.CORRUPT_MESSAGE, 0, 0]
        assert [row.base_offset for row in rows] == [5, 6, -1, 7, 8]


def test_requests_of_different_timestamps_are_uniform(monkeypatch: pytest.MonkeyPatch) -> None:
    def at(number: int, time_ms: int) -> bytes:
        records = bytes(build_batch([(None, b"v" * 20, (), 1_700_000_000_000 + time_ms)]))
        return encode_request(PRODUCE, 12, number, "test", produce("t", records, acks=1))

    with Stage(**QUICK) as stage, uniform(monkeypatch) as taken:
        stage.create("t")
        wire, server = prepared(stage)
        give(
            stage, server, b"".join(at(number, time_ms) for number, time_ms in enumerate((3, 9, 4)))
        )

        assert (len(told(stage, wire)[0]), taken) == (3, [3])
        assert (
            stage.partition("t").log.segments.active.max_timestamp,
            stage.partition("t").log.segments.active.max_timestamp_offset,
        ) == (1_700_000_000_009, 6)


def test_requests_of_another_size_are_known_when_they_have_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Stage(**QUICK) as stage, uniform(monkeypatch) as taken:
        stage.create("t")
        wire, server = prepared(stage)
        for _ in range(3):
            give(stage, server, b"".join(one(number, value=b"w" * 31) for number in range(4)))

        assert (len(told(stage, wire)[0]), taken) == (12, [4, 4])


def test_a_client_of_many_numbers_holds_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = [*range(2, 20), *range(19, 1, -1)]
    with Stage(**QUICK) as stage, uniform(monkeypatch) as taken:
        stage.create("t")
        wire, server = prepared(stage)
        for count in counts:
            give(stage, server, b"".join(many(count)))

        assert (len(told(stage, wire)[0]), taken) == (sum(counts), counts)
        plan = server.pipeline
        assert isinstance(plan, ProducePlan)
        assert plan._uniform is not None
        assert len(plan._uniform.columns) <= KEPT


def test_more_than_are_taken_together_go_the_other_way(monkeypatch: pytest.MonkeyPatch) -> None:
    count = MOST_UNIFORM + 1
    assert count <= REQUESTS_IN_HAND.value
    with Stage() as stage, uniform(monkeypatch) as taken:
        stage.create("t")
        wire, server = prepared(stage)
        give(stage, server, b"".join(many(count)))

        assert len(told(stage, wire)[0]) == count
        assert taken == [0]


def test_large_requests_are_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    with Stage(**QUICK) as stage, uniform(monkeypatch) as taken:
        stage.create("t")
        wire, server = prepared(stage)
        for _ in range(3):
            give(
                stage,
                server,
                b"".join(one(number, value=b"w" * LARGEST_UNIFORM_BYTES) for number in range(3)),
            )

        assert (len(told(stage, wire)[0]), taken) == (9, [])


def test_behind_a_large_request_another_is_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection has room of its own for that one: it is given back as frames are cut."""
    with Stage(**QUICK) as stage, uniform(monkeypatch) as taken:
        stage.create("t")
        wire, server = prepared(stage)
        give(stage, server, one(500, value=b"w" * 70_000))
        give(stage, server, b"".join(many(3)))
        assert (len(told(stage, wire)[0]), taken) == (4, [])
        give(stage, server, b"".join(many(3)))

        assert (len(told(stage, wire)[0]), taken) == (3, [3])


def test_where_requests_were_left_out_the_next_are_not_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Stage(**QUICK) as stage, uniform(monkeypatch) as taken:
        stage.create("t", configs={"message_timestamp_type": "LogAppendTime"})
        wire, server = prepared(stage)
        for _ in range(2 * SKIPPED_PIECES):
            give(stage, server, b"".join(many(3)))

        assert (len(told(stage, wire)[0]), taken) == (6 * SKIPPED_PIECES, [0, 0])


def test_a_leader_no_more_takes_none(monkeypatch: pytest.MonkeyPatch) -> None:
    with Stage(**QUICK) as stage, uniform(monkeypatch) as taken:
        stage.create("t")
        wire, server = prepared(stage)
        stage.partition("t").leader = None
        give(stage, server, b"".join(many(3)))

        rows = [produced(decoded(PRODUCE, 12, frame)) for frame in told(stage, wire)[0]]
        assert [row.error_code for row in rows] == [Code.NOT_LEADER_OR_FOLLOWER] * 3
        assert taken == [0]


def test_a_flush_that_fails_is_told_to_each() -> None:
    with Stage() as stage:
        stage.create("t")
        wire, server = prepared(stage)
        stage.world.disk("n1").sync_s = (30.0, 30.0)
        give(stage, server, b"".join(many(3)))
        partition = stage.partition("t")
        stage.wait(lambda: partition.log.written_offset == 8)
        stage.nodes[1].replicas.stop(partition)

        frames, _ = told(stage, wire)
        rows = [produced(decoded(PRODUCE, 12, frame)) for frame in frames]
        assert [int.from_bytes(frame[:4]) for frame in frames] == [100, 107, 114]
        assert [(row.error_code, row.base_offset) for row in rows] == [
            (Code.KAFKA_STORAGE_ERROR, -1)
        ] * 3


def test_answers_come_after_the_flush_and_behind_those_that_wait() -> None:
    with Stage() as stage:
        stage.create("t")
        wire, server = prepared(stage)
        stage.world.disk("n1").sync_s = (0.4, 0.4)
        began = stage.world.now
        give(stage, server, b"".join(many(3)))
        give(stage, server, b"".join(many(3, first=200)))

        numbers = [int.from_bytes((wire.frame() or b"")[:4]) for _ in range(6)]
        assert numbers == [100, 107, 114, 200, 207, 214]
        assert stage.world.now >= began + 0.4


def test_a_bug_in_it_ends_the_connection_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: ProducePlan, connection: ServerConnection, view: memoryview) -> int:
        raise ZeroDivisionError

    with Stage(**QUICK) as stage:
        stage.create("t")
        wire, server = prepared(stage)
        monkeypatch.setattr(ProducePlan, "run_uniform", broken)
        give(stage, server, b"".join(many(3)))

        frames, reason = told(stage, wire)
        assert not frames
        assert reason
        assert len(stage.events("plan_failed")) == 1
        assert (
            produced(stage.wire().ask(PRODUCE, produce("t", batch(b"v"), acks=1))).error_code == 0
        )
