"""Long requests take turns: other clients are answered between their slices, few of them are in
memory at a time, and none is lost.
"""

import gc
from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from raftka.broker.fetch.sessions import CachedPartition, FetchSession
from raftka.broker.network.dispatch import LONG_FRAME_BYTES
from raftka.broker.telemetry.metrics import Metrics
from raftka.broker.work import long_work
from raftka.broker.work.long_requests import LongRequests
from raftka.broker.work.long_work import Steps
from raftka.limits import LONG_REQUEST_BYTES, LONG_REQUESTS_WAITING_BYTES
from raftka.runtime.simulated.clock import READING_S
from raftka.wire.errors import Code
from raftka.wire.frame import encode_request
from raftka.wire.messages.fetch import FETCH, FetchRequest
from raftka.wire.messages.find_coordinator import FIND_COORDINATOR
from raftka.wire.messages.metadata import METADATA, MetadataRequest
from raftka.wire.messages.offsets import OFFSET_FETCH
from raftka.wire.messages.produce import PRODUCE
from raftka.wire.messages.producer_ids import INIT_PRODUCER_ID
from raftka.wire.messages.transactions import TXN_OFFSET_COMMIT
from raftka.wire.rows import Row, free
from tests.broker.conftest import Lower
from tests.broker.requests import batch, fetch, fetched, produce, produced
from tests.broker.stage import Stage
from tests.kit.broker.early_answers import ask_behind_an_early_answer

MANY = 3000
ONE = METADATA.request(topics=[METADATA.request.topics(name="t")], allow_auto_topic_creation=False)


@pytest.fixture
def stage() -> Iterator[Stage]:
    with Stage(auto_create_topics_enable="false") as stage:
        stage.create("t")
        stage.create("wide", partitions=600)
        yield stage
        assert not stage.world.failures


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices of a few steps."""
    monkeypatch.setattr(long_work, "FIRST_STEPS", 4)
    monkeypatch.setattr(long_work, "SLICE_S", 3.5 * READING_S)


def unknown(count: int) -> MetadataRequest:
    """Names of topics that there are not: a request of some 20 bytes for each."""
    return METADATA.request(
        topics=[METADATA.request.topics(name=f"no-such-topic-{i}") for i in range(count)],
        allow_auto_topic_creation=False,
    )


def wide(count: int = 600, **fields: Any) -> FetchRequest:
    """A full Fetch of many partitions."""
    request = FETCH.request
    partitions = [
        request.topics.partitions(partition=i, fetch_offset=0, partition_max_bytes=1000)
        for i in range(count)
    ]
    return request(
        topics=[request.topics(topic="wide", partitions=partitions)],
        **({"max_bytes": 1 << 20, "max_wait_ms": 0, "min_bytes": 1} | fields),
    )


@pytest.mark.usefixtures("tiny")
def test_others_are_answered_between_the_slices_of_a_long_request(stage: Stage) -> None:
    long, other = stage.wire(), stage.wire()
    long.request(METADATA, unknown(MANY))
    stage.wait(lambda: stage.nodes[1].dispatcher.long_work.waiting > 0)

    assert other.ask(METADATA, ONE).topics[0].error_code == Code.NONE
    assert not long.frames
    assert len(long.answer(METADATA).topics) == MANY


def test_what_comes_behind_a_long_request_is_answered_behind_it(stage: Stage) -> None:
    wire = stage.wire()
    wire.request(METADATA, unknown(MANY))
    wire.request(METADATA, ONE)

    assert [len(wire.answer(METADATA).topics) for _ in range(2)] == [MANY, 1]


@pytest.mark.usefixtures("tiny")
def test_so_many_long_requests_are_at_work_and_others_wait(stage: Stage, lowered: Lower) -> None:
    lowered(LONG_REQUEST_BYTES, 100_000)
    wires = [stage.wire() for _ in range(4)]
    for wire in wires:
        wire.request(METADATA, unknown(MANY))
    requests = stage.nodes[1].dispatcher.long_requests
    stage.wait(lambda: requests.waiting == 3)

    assert stage.counted(LONG_REQUEST_BYTES.metric) == 3
    assert len(requests._inside) == 1
    assert [len(wire.answer(METADATA).topics) for wire in wires] == [MANY] * 4
    stage.wait(lambda: not requests._inside)
    assert not requests._bytes


@pytest.mark.usefixtures("tiny")
def test_the_next_long_request_enters_when_the_one_before_is_freed(
    stage: Stage, lowered: Lower, monkeypatch: pytest.MonkeyPatch
) -> None:
    lowered(LONG_REQUEST_BYTES, 100_000)
    requests = stage.nodes[1].dispatcher.long_requests
    inside: list[int] = []

    def freed(row: Row) -> Iterator[None]:
        for _ in free(row):
            inside.append(len(requests._inside))
            yield

    monkeypatch.setattr("raftka.broker.network.request.free", freed)
    wires = [stage.wire() for _ in range(2)]
    for wire in wires:
        wire.request(METADATA, unknown(MANY))

    assert [len(wire.answer(METADATA).topics) for wire in wires] == [MANY] * 2
    stage.wait(lambda: not requests._inside)
    assert len(inside) > MANY
    assert set(inside) == {1}


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("pieces", [1, 10])
def test_no_further_long_frame_is_read_while_too_much_waits(
    stage: Stage, lowered: Lower, monkeypatch: pytest.MonkeyPatch, pieces: int
) -> None:
    """Short requests are read and answered meanwhile."""
    monkeypatch.setattr("raftka.runtime.simulated.network.IGNORE_ROOM", -1.0)
    lowered(LONG_REQUEST_BYTES, 100_000)
    lowered(LONG_REQUESTS_WAITING_BYTES, 100_000)
    wires = [stage.wire() for _ in range(8)]
    requests = stage.nodes[1].dispatcher.long_requests
    frame = encode_request(METADATA, 12, 1, "many", unknown(MANY))
    assert len(frame) > 100_000
    for number in range(pieces):
        for wire in wires:
            wire.send(frame[number * len(frame) // pieces : (number + 1) * len(frame) // pieces])
        stage.world.run(stage.world.now + 0.001)
    stage.wait(lambda: len(requests._held_back) == 6)

    assert (len(requests._inside), requests.waiting) == (1, 1)
    assert requests._waiting_bytes < 200_000
    assert stage.counted(LONG_REQUESTS_WAITING_BYTES.metric) == 6
    assert stage.wire().ask(METADATA, ONE).topics[0].error_code == Code.NONE
    assert requests.is_full
    assert [len(wire.answer(METADATA, 12).topics) for wire in wires] == [MANY] * 8
    stage.wait(lambda: not requests._inside and not requests._bytes)
    assert not requests._held_back
    assert not requests.is_full


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("moment", ["waits", "is at work"])
def test_a_client_that_goes_makes_room(stage: Stage, lowered: Lower, moment: str) -> None:
    lowered(LONG_REQUEST_BYTES, 100_000)
    first, second, third = wires = [stage.wire() for _ in range(3)]
    for wire in wires:
        wire.request(METADATA, unknown(MANY))
    requests = stage.nodes[1].dispatcher.long_requests
    stage.wait(lambda: requests.waiting == 2)

    gone, kept = (second, first) if moment == "waits" else (first, second)
    gone.close()
    assert [len(wire.answer(METADATA).topics) for wire in (kept, third)] == [MANY] * 2
    stage.wait(
        lambda: (
            not requests._inside
            and not requests._bytes
            and not stage.nodes[1].dispatcher.long_work.waiting
        )
    )


@pytest.mark.usefixtures("tiny")
def test_a_long_request_ends_with_its_client(stage: Stage) -> None:
    """Nothing is read from a connection that holds, so its end is looked for."""
    wire, dispatcher = stage.wire(), stage.nodes[1].dispatcher
    wire.request(METADATA, unknown(MANY))
    stage.wait(lambda: dispatcher.long_work.waiting > 0)
    wire.close()
    stage.wait(lambda: not dispatcher.long_requests._inside)

    assert not dispatcher.metrics.latency("Metadata").count


class Client:
    """Of one long request that waits."""

    gone = left = False
    reason: str | None = None

    def end(self, reason: str) -> None:
        self.gone, self.reason = True, reason


def test_long_requests_of_clients_that_left_do_not_pile_up() -> None:
    requests: LongRequests[Any] = LongRequests(
        Metrics(),
        lambda request: bool(request.connection.gone or request.connection.left),
    )
    begun: list[int] = []

    def enter(number: int) -> Any:
        request: Any = SimpleNamespace(connection=Client())
        requests.enter(request, LONG_REQUEST_BYTES.value, partial(begun.append, number))
        return request

    first = enter(0)
    clients = []
    for number in range(1, 1000):
        clients.append(enter(number).connection)
        clients[-1].left = number % 100 != 0
    assert requests.waiting < 30
    assert all(each.reason for each in clients[:900] if each.left)

    requests.leave(first)
    assert begun == [100]


def test_a_long_frame_that_cannot_be_decoded_ends_its_connection_alone(stage: Stage) -> None:
    wire, other = stage.wire(), stage.wire()
    body = (
        bytes.fromhex("0003 0001 00000001 0001 61")
        + (MANY).to_bytes(4, "big")
        + b"\0\1a" * (MANY - 1)
        + b"\x7f\xff"
    )
    assert len(body) > LONG_FRAME_BYTES // 2
    wire.send_frame(body + bytes(LONG_FRAME_BYTES - 4000))

    assert wire.frame() is None
    assert other.ask(METADATA, ONE).topics[0].error_code == Code.NONE
    assert not stage.nodes[1].dispatcher.long_requests._inside


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("broken", ["_on_decoded", "_answer"])
def test_an_error_where_a_long_request_ends_closes_its_connection_alone(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    wire, other = stage.wire(), stage.wire()
    dispatcher = stage.nodes[1].dispatcher
    monkeypatch.setattr(dispatcher, broken, Mock(side_effect=ValueError("a bug of ours")))
    wire.request(METADATA, unknown(MANY))

    assert wire.frame() is None
    monkeypatch.undo()
    assert "a bug of ours" in stage.events("plan_failed")[0]["error"]
    assert not dispatcher.long_requests._bytes
    assert other.ask(METADATA, ONE).topics[0].error_code == Code.NONE


def test_work_that_no_client_waits_for_fails_alone(stage: Stage) -> None:
    long_work = stage.nodes[1].dispatcher.long_work
    ended: list[Exception | None] = []
    long_work.resume(
        "first", (None for _ in range(3)), Mock(side_effect=ValueError("a bug of ours"))
    )
    long_work.resume("second", (None for _ in range(3)), ended.append)

    stage.wait(lambda: bool(ended))
    (event,) = stage.events("long_work_failed")
    assert (event["work"], "a bug of ours" in event["error"]) == ("first", True)


def test_each_of_100_groups_is_answered_while_others_go_on(stage: Stage) -> None:
    request = OFFSET_FETCH.request
    groups = [
        request.groups(
            group_id=f"group-{i}", topics=[request.groups.topics(name="t", partition_indexes=[0])]
        )
        for i in range(MANY)
    ]
    long, other = stage.wire(), stage.wire()
    long.request(OFFSET_FETCH, request(groups=groups), 9)
    assert other.ask(METADATA, ONE).topics[0].error_code == Code.NONE

    assert {each.error_code for each in long.answer(OFFSET_FETCH, 9).groups} == {
        Code.NOT_COORDINATOR
    }


@pytest.mark.usefixtures("tiny")
def test_an_answer_that_comes_later_names_all_that_the_request_named(stage: Stage) -> None:
    """Also where the handler is async: the request is freed behind its answer, not behind the
    handler.
    """
    wire = stage.wire()
    for key_type, key in enumerate(("g", "t")):
        coordinator = FIND_COORDINATOR.request(key_type=key_type, coordinator_keys=[key])
        stage.wait(
            lambda row=coordinator: not wire.ask(FIND_COORDINATOR, row).coordinators[0].error_code  # type: ignore[misc]
        )
    given = INIT_PRODUCER_ID.request(transactional_id="t", transaction_timeout_ms=60_000)
    stage.wait(lambda: not wire.ask(INIT_PRODUCER_ID, given).error_code)
    pair = wire.ask(INIT_PRODUCER_ID, given)
    request = TXN_OFFSET_COMMIT.request
    of_topic = request.topics
    topics = [
        of_topic(
            name="wide",
            partitions=[of_topic.partitions(partition_index=i % 600, committed_offset=1)],
        )
        for i in range(MANY)
    ]

    row = request(
        transactional_id="t",
        group_id="g",
        producer_id=pair.producer_id,
        producer_epoch=pair.producer_epoch,
        topics=topics,
    )
    answer = wire.ask(TXN_OFFSET_COMMIT, row, 5)

    assert [each.error_code for topic in answer.topics for each in topic.partitions] == [0] * MANY


def test_a_fetch_in_slices_tells_every_partition_and_brings_records_of_the_first(
    stage: Stage,
) -> None:
    wire = stage.wire()
    for index in (0, 1, 300, 599):
        assert (
            produced(wire.ask(PRODUCE, produce("wide", batch(b"%d" % index), index))).error_code
            == 0
        )

    (topic,) = wire.ask(FETCH, wide(), 12).responses

    rows = {row.partition_index: row for row in topic.partitions}
    assert sorted(rows) == list(range(600))
    assert {row.error_code for row in rows.values()} == {0}
    assert rows[0].records
    assert [rows[index].high_watermark for index in (0, 1, 2, 300, 599)] == [1, 1, 0, 1, 1]


@pytest.mark.usefixtures("tiny")
def test_a_session_reads_all_records_however_its_fetches_are_cut(stage: Stage) -> None:
    wire, expected = stage.wire(), set()
    for index in range(0, 600, 60):
        assert (
            produced(wire.ask(PRODUCE, produce("wide", batch(b"%d" % index), index))).error_code
            == 0
        )
        expected.add(index)
    answer = wire.ask(FETCH, wide(session_id=0, session_epoch=0), 12)
    session, epoch, seen = answer.session_id, 1, set()
    assert session
    request = FETCH.request
    for _ in range(30):
        found = [
            row.partition_index
            for topic in answer.responses
            for row in topic.partitions
            if row.records
        ]
        seen.update(found)
        if seen == expected:
            break
        partitions = [
            request.topics.partitions(partition=i, fetch_offset=1, partition_max_bytes=1000)
            for i in found
        ]
        topics = [request.topics(topic="wide", partitions=partitions)] if found else []
        answer = wire.ask(
            FETCH,
            request(
                topics=topics,
                session_id=session,
                session_epoch=epoch,
                max_bytes=1 << 20,
                max_wait_ms=100,
                min_bytes=1,
            ),
            12,
        )
        epoch += 1
        assert answer.error_code == 0
    assert seen == expected


@pytest.mark.usefixtures("tiny")
def test_a_client_that_goes_in_the_middle_of_its_fetch_leaves_nothing_behind(stage: Stage) -> None:
    wire = stage.wire()
    wire.request(FETCH, wide(max_wait_ms=3_600_000), 12)
    stage.wait(lambda: stage.nodes[1].dispatcher.long_work.waiting > 0)
    wire.close()
    stage.wait(
        lambda: (
            not stage.nodes[1].dispatcher.long_work.waiting
            and not stage.nodes[1].metrics.parked_fetches
        )
    )

    assert not stage.nodes[1].fetch_sessions.by_id
    assert fetched(stage.wire().ask(FETCH, fetch("t", 0))).error_code == 0


@pytest.mark.usefixtures("tiny")
def test_a_client_that_goes_while_its_session_is_made_is_no_bug_of_ours(stage: Stage) -> None:
    wire, sessions = stage.wire(), stage.nodes[1].fetch_sessions
    made: list[int] = []
    want = FetchSession.want

    def seen(session: FetchSession, topics: Any) -> Steps[None]:
        for _ in want(session, topics):
            made.append(len(session.partitions))
            yield

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FetchSession, "want", seen)
        wire.request(FETCH, wide(), 12)
        stage.wait(lambda: bool(made))
    wire.close()
    stage.wait(lambda: not stage.nodes[1].dispatcher.long_work.waiting)

    assert 0 < made[-1] < 600
    assert not sessions.by_id
    assert not stage.events("handler_failed")


@pytest.mark.parametrize(
    "ends", [{"session_epoch": -1}, {"session_epoch": 0}, {"session_epoch": -1, "max_wait_ms": 20}]
)
def test_a_session_that_has_ended_is_freed_without_the_garbage_collector(
    stage: Stage, ends: dict[str, int]
) -> None:
    """Its partitions lead to it and back: a hundred fetches of thousands of partitions were
    hundreds of megabytes.
    """
    stage.nodes[1].fetch_sessions.slots = 1
    wire = stage.wire()
    gc.collect()
    gc.disable()
    try:
        for _ in range(3):
            answer = wire.ask(FETCH, wide(session_id=0, **ends), 12)
            if answer.session_id:
                wire.ask(
                    FETCH,
                    FETCH.request(session_id=answer.session_id, session_epoch=-1, max_wait_ms=0),
                    12,
                )
        stage.wait(lambda: not stage.nodes[1].dispatcher.long_work.waiting)
        assert not stage.nodes[1].fetch_sessions.by_id
        assert not [
            each for each in gc.get_objects() if isinstance(each, CachedPartition | FetchSession)
        ]
    finally:
        gc.enable()


@pytest.mark.usefixtures("tiny")
def test_records_that_come_while_a_fetch_reads_end_its_wait(stage: Stage) -> None:
    reader, writer = stage.wire(), stage.wire()
    reader.request(FETCH, wide(max_wait_ms=30_000, session_id=0, session_epoch=0), 12)
    stage.wait(lambda: stage.nodes[1].dispatcher.long_work.waiting > 0)
    began = stage.world.now
    assert produced(writer.ask(PRODUCE, produce("wide", batch(b"x"), 0))).error_code == 0

    (topic,) = reader.answer(FETCH, 12).responses
    assert [row.partition_index for row in topic.partitions if row.records] == [0]
    assert stage.world.now - began < 5


def test_a_request_that_is_answered_before_its_interruption_has_one_place_among_the_answers(
    stage: Stage,
) -> None:
    ask_behind_an_early_answer(stage)
