"""The client's side against a scripted broker: bytes in memory, no socket."""

import pytest

from raftka.client.connection import ANOTHER_NODE, ANY_NODE, ClientConnection, Intended
from raftka.limits import PARTIAL_BYTES, LimitExceeded
from raftka.runtime.interfaces import Connection, Transport
from raftka.wire.errors import Code
from raftka.wire.frame import encode_response
from raftka.wire.messages.api_versions import API_VERSIONS
from raftka.wire.messages.fetch import FETCH
from raftka.wire.messages.find_coordinator import FIND_COORDINATOR
from raftka.wire.messages.metadata import METADATA, MetadataRequest, MetadataResponse
from raftka.wire.messages.produce import PRODUCE
from raftka.wire.schema import AnyApi
from tests.client.played_broker import Broker
from tests.wire.oracle import APIS


def metadata(version: int, request: MetadataRequest) -> MetadataResponse:
    return METADATA.response(cluster_id=f"v{version} {(request.topics or ())[0].name}")


def named(name: str) -> MetadataRequest:
    return METADATA.request(topics=[METADATA.request.topics(name=name)])


# of a request: key, version, correlation id, the client id "tests", no tags
HEADER_BYTES = 2 + 2 + 4 + 2 + 5 + 1
ALL = {api: (api.announced.low, api.announced.high) for api in APIS}


def test_it_is_what_the_runtime_drives() -> None:
    broker = Broker(ALL)
    connection: Connection = broker.client
    transport: Transport = broker
    connection.opened(transport)
    assert broker.wakes == 1


@pytest.mark.parametrize("step", [1, 7, 1_000_000])
def test_requests_wait_for_the_versions_and_replies_come_in_order(step: int) -> None:
    broker = Broker(ALL, Metadata=metadata).opened()
    for name in ("a", "b"):
        broker.client.request(METADATA, named(name), broker.note)
    assert (broker.client.ready, broker.client.in_flight, len(broker.client.take_output())) == (
        False,
        3,
        1,
    )

    broker = Broker(ALL, Metadata=metadata).opened()
    for name in ("a", "b"):
        broker.client.request(METADATA, named(name), broker.note)
    broker.answer(step)
    broker.client.request(METADATA, named("c"), broker.note)
    broker.answer(step)

    assert broker.client.ready
    assert broker.client.in_flight == 0
    assert broker.events[0] == "ready"
    assert [row.cluster_id for row in broker.events[1:]] == ["v13 a", "v13 b", "v13 c"]
    assert [(header.client_id, header.correlation_id) for header, _ in broker.seen] == [
        ("tests", 0),
        ("tests", 1),
        ("tests", 2),
        ("tests", 3),
    ]
    assert broker.seen[0][1].client_software_name == "raftka"


@pytest.mark.parametrize(
    ("theirs", "cap", "chosen"),
    [((0, 13), None, 13), ((0, 99), None, 13), ((0, 9), None, 9), ((0, 13), 7, 7), ((4, 8), 99, 8)],
)
def test_the_highest_common_version_is_taken(
    theirs: tuple[int, int], cap: int | None, chosen: int
) -> None:
    broker = Broker({**ALL, METADATA: theirs}, Metadata=metadata).opened()
    broker.answer()
    broker.client.request(METADATA, named("a"), broker.note, cap)
    broker.answer()
    assert broker.seen[-1][0].api_version == chosen
    assert broker.client.version_of(METADATA, cap) == chosen


@pytest.mark.parametrize("theirs", [(14, 20), None])
def test_no_version_in_common_is_an_error_of_the_request(theirs: tuple[int, int] | None) -> None:
    versions: dict[AnyApi, tuple[int, int]] = {
        API_VERSIONS: (0, 4),
        **({METADATA: theirs} if theirs else {}),
    }
    broker = Broker(versions).opened()
    broker.client.request(METADATA, named("queued"), broker.note)
    broker.answer()
    broker.client.request(METADATA, named("sent"), broker.note)
    assert broker.events == [
        "the broker and we have no version of Metadata in common",
        "ready",
        "the broker and we have no version of Metadata in common",
    ]


@pytest.mark.parametrize(("highest", "asked"), [(4, [5, 4]), (3, [5, 3]), (0, [5, 0]), (2, [5, 2])])
def test_an_older_broker_says_which_api_versions_it_knows(highest: int, asked: list[int]) -> None:
    broker = Broker({**ALL, API_VERSIONS: (0, highest)}, Metadata=metadata).opened()
    broker.client.request(METADATA, named("a"), broker.note)
    broker.answer()
    assert [header.api_version for header, _ in broker.seen] == [*asked, 13]
    assert broker.events[-1].cluster_id == "v13 a"


def test_a_broker_whose_refusal_can_not_be_read_is_asked_in_version_0() -> None:
    broker = Broker(ALL).opened()
    (first,) = broker.client.take_output()
    assert first[6:8] == b"\0\5"
    broker.client.receive(memoryview(b"\0\0\0\x0d" + b"\0\0\0\0" + b"\0\x23" + b"\2\0\x12\0\0\0\4"))
    (second,) = broker.client.take_output()
    assert second[6:8] == b"\0\0"


@pytest.mark.parametrize(
    ("code", "says"),
    [(Code.INVALID_REQUEST, "INVALID_REQUEST"), (777, "error 777"), (Code.NONE, "NONE")],
)
def test_a_broker_that_gives_no_versions_is_closed(code: int, says: str) -> None:
    broker = Broker(ALL).opened()
    broker.client.request(METADATA, named("a"), broker.note)
    broker.client.take_output()
    (answer,) = encode_response(API_VERSIONS, 5, 0, API_VERSIONS.response(error_code=code))
    assert isinstance(answer, bytes)
    broker.client.receive(memoryview(answer))
    reason = f"the broker's answer to ApiVersions: {says}"
    assert broker.events == [reason, reason]


def test_the_intended_node_is_named_and_its_absence_is_the_reason_of_the_end() -> None:
    broker = Broker(ALL)
    broker.client.intended = Intended.of("c", 7)
    broker.opened()
    (asked,) = broker.client.take_output()
    row, _ = API_VERSIONS.decode_request(5, memoryview(asked), 4 + HEADER_BYTES)
    assert (row.cluster_id, row.node_id) == ("c", 7)
    refusal = API_VERSIONS.response(error_code=Code.REBOOTSTRAP_REQUIRED)
    (answer,) = encode_response(API_VERSIONS, 5, 0, refusal)
    assert isinstance(answer, bytes)
    broker.client.receive(memoryview(answer))

    assert broker.events == [f"{ANOTHER_NODE}: not broker 7 of cluster c is there"]
    assert Intended.of(None, 7) is ANY_NODE


def test_everything_unanswered_learns_that_the_connection_closed() -> None:
    broker = Broker(ALL, Metadata=metadata).opened()
    broker.answer()
    broker.client.request(METADATA, named("sent"), broker.note)
    broker.client.closed("reset by peer")
    broker.client.request(METADATA, named("late"), broker.note)
    assert broker.events == ["ready", "reset by peer", "reset by peer", "reset by peer"]
    assert not broker.client.ready
    assert not broker.client.take_output()


def test_a_connection_that_never_opened_tells_the_queued() -> None:
    broker = Broker(ALL)
    broker.client.request(METADATA, named("a"), broker.note)
    broker.client.closed("refused")
    assert broker.events == ["refused", "refused"]


def test_closed_before_it_opened() -> None:
    broker = Broker(ALL)
    broker.client.close("not wanted any more")
    broker.opened()
    assert broker.events == ["not wanted any more"]
    assert not broker.client.take_output()


def test_a_request_made_while_closing_does_not_hang() -> None:
    broker = Broker(ALL).opened()
    broker.client.request(
        METADATA,
        named("a"),
        lambda row, error: broker.client.request(METADATA, named("again"), broker.note),
    )
    broker.client.closed("gone")
    assert broker.events == ["gone", "gone"]


def test_produce_with_acks_0_is_never_answered() -> None:
    broker = Broker(ALL, Metadata=metadata).opened()
    broker.client.request(PRODUCE, PRODUCE.request(acks=0), broker.note)
    broker.client.request(METADATA, named("a"), broker.note)
    broker.answer()
    assert broker.events[0] is None
    assert broker.events[-1].cluster_id == "v13 a"
    assert broker.client.in_flight == 0


def test_records_of_a_reply_are_a_view_of_what_was_received() -> None:
    fetched, partition = FETCH.response.responses, FETCH.response.responses.partitions
    row = FETCH.response(responses=[fetched(partitions=[partition(records=b"batches")])])
    broker = Broker(ALL, Fetch=lambda version, request: row).opened()
    broker.client.request(FETCH, FETCH.request(), broker.note)
    broker.answer()
    records = broker.events[-1].responses[0].partitions[0].records
    assert isinstance(records, memoryview)
    assert bytes(records) == b"batches"


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b"\0\0\0\5\0\0\0\5\0", "response 5 where 1 was due"),
        (b"\0\0\0\4\0\0\0\1", "the response ends inside its header"),
        (b"\0\0\0\5\0\0\0\1\0", "the message ends inside a field"),
        (b"\xff\xff\xff\xff", "a frame of -1 bytes"),
        (b"HTTP/1.1 400 Bad Request", "a frame of 1213486160 bytes"),
    ],
)
def test_a_broker_that_talks_nonsense_is_closed(answer: bytes, says: str) -> None:
    broker = Broker(ALL).opened()
    broker.answer()
    broker.client.request(METADATA, named("a"), broker.note)
    broker.client.take_output()
    broker.client.receive(memoryview(answer))
    assert broker.client.close_reason is not None
    assert broker.client.close_reason.startswith("the broker's answer: ")
    assert says in broker.client.close_reason
    assert broker.events == ["ready", broker.client.close_reason, broker.client.close_reason]


def test_a_broker_that_sends_no_more_is_closed() -> None:
    broker = Broker(ALL).opened()
    broker.client.receive(memoryview(bytearray()))
    assert broker.events == ["the broker sends no more"]


class NoMemory:
    """A pool of which others have taken everything."""

    def take(self, size: int, total: int) -> bytearray:
        raise LimitExceeded(PARTIAL_BYTES, size)

    def give_at_turn_end(self, buffer: bytearray) -> None: ...
    def discard(self, buffer: bytearray) -> None: ...


def test_no_memory_for_an_answer_closes() -> None:
    broker = Broker(ALL)
    broker.client = ClientConnection("tests", on_closed=broker.events.append, pool=NoMemory())
    broker.opened()
    broker.client.receive(memoryview(b"\0\0\1\0"))
    (reason,) = broker.events
    assert reason.startswith("partial_bytes: ")


def test_a_large_answer_is_received_into_its_own_buffer() -> None:
    fetched, partition = FETCH.response.responses, FETCH.response.responses.partitions
    records = bytes(range(256)) * 800
    row = FETCH.response(responses=[fetched(partitions=[partition(records=records)])])
    broker = Broker({**ALL, FETCH: (4, 4)}).opened()
    broker.answer()
    broker.client.request(FETCH, FETCH.request(), broker.note)
    broker.client.take_output()
    left = b"".join(
        bytes(p) for p in encode_response(FETCH, 4, 1, row) if isinstance(p, bytes | memoryview)
    )
    assert broker.client.room() is None
    broker.client.receive(memoryview(left[:20_000]))
    left = left[20_000:]
    while left:
        room = broker.client.room()
        size = min(len(left), 50_000)
        if room is None:
            broker.client.receive(memoryview(left[:size]))
        else:
            size = min(size, len(room))
            room[:size] = left[:size]
            broker.client.receive(room[:size])
        left = left[size:]
    assert bytes(broker.events[-1].responses[0].partitions[0].records) == records


def test_an_answer_that_was_not_asked_for() -> None:
    broker = Broker(ALL).opened()
    broker.answer()
    broker.client.receive(memoryview(b"\0\0\0\4\0\0\0\1"))
    assert broker.client.close_reason == "the broker's answer: a response that was not asked for"


def test_what_a_version_can_not_carry() -> None:
    old = {**ALL, FIND_COORDINATOR: (0, 2)}
    keys = FIND_COORDINATOR.request(coordinator_keys=["g"])
    broker = Broker(old).opened()
    broker.client.request(FIND_COORDINATOR, keys, broker.note)
    broker.answer()
    assert broker.events == ["FindCoordinatorRequest v2 has no coordinator_keys", "ready"]
    with pytest.raises(ValueError, match="has no coordinator_keys"):
        broker.client.request(FIND_COORDINATOR, keys, broker.note)
    assert broker.client.in_flight == 0
