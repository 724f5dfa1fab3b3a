"""From frame to handler and back: what is announced, the order of answers, what holds, and the
hooks for faults and quotas.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from raftka.broker import handlers
from raftka.broker.fetch.fetch import Fetch
from raftka.broker.handlers import CONTROLLER_MODULES, MODULES, OWN_MODULES
from raftka.broker.handlers.api_versions import TELEMETRY
from raftka.broker.network.dispatch import HANDLERS
from raftka.broker.network.request import Request
from raftka.log.client_batches import ClientBatches
from raftka.metadata.commands import CreateTopics
from raftka.metadata.image import MetadataImage
from raftka.wire.errors import Code, KafkaError
from raftka.wire.frame import encode_request
from raftka.wire.messages.api_versions import API_VERSIONS, ApiVersionsResponse
from raftka.wire.messages.fetch import FETCH
from raftka.wire.messages.metadata import METADATA
from raftka.wire.messages.produce import PRODUCE
from raftka.wire.messages.topics import CREATE_TOPICS, CreateTopicsRequest
from raftka.wire.rows import Row
from tests.broker.requests import batch, fetch, fetched, produce, produced
from tests.broker.stage import Stage, Wire, decoded

CLIENT = API_VERSIONS.request(client_software_name="test", client_software_version="1")
NO_TOPICS = METADATA.request(topics=[])
# the ApiVersions of Apache Kafka 4.4.0
RECORDED = json.loads(
    (Path(__file__).parent / "golden_44.jsonl").read_text(encoding="utf-8").splitlines()[0]
)


def ranges(answer: ApiVersionsResponse) -> dict[int, tuple[int, int]]:
    return {entry.api_key: (entry.min_version, entry.max_version) for entry in answer.api_keys}


def new_topic(name: str, partitions: int = 1) -> CreateTopicsRequest:
    request = CREATE_TOPICS.request
    return request(
        topics=[request.topics(name=name, num_partitions=partitions, replication_factor=-1)]
    )


# what is announced


def test_what_is_registered_is_announced_in_kafkas_ranges() -> None:
    with Stage() as stage:
        answer = ranges(stage.wire().ask(API_VERSIONS, CLIENT))

    kafkas = ranges(decoded(API_VERSIONS, 5, bytes.fromhex(RECORDED["response"])))
    assert answer == {key: kafkas[key] for key in HANDLERS.keys() - set(TELEMETRY)}


@pytest.mark.parametrize("version", range(6))
def test_every_version_of_api_versions_says_the_same(version: int) -> None:
    with Stage() as stage:
        answer = stage.wire().ask(API_VERSIONS, CLIENT, version)
    assert ranges(answer).keys() == HANDLERS.keys() - set(TELEMETRY)


@pytest.mark.parametrize("module", MODULES)
def test_each_module_handles_the_apis_that_it_is_imported_for(module: str) -> None:
    for api in MODULES[module]:
        registration = HANDLERS[api.key]
        registration.load()
        assert (
            registration.handler.__module__
            == registration.module
            == f"raftka.broker.handlers.{module}"
        )


def test_a_handler_names_at_most_three_parts_of_a_node() -> None:
    with Stage() as stage:
        parts = stage.nodes[1].services.parts_of_handlers()
    for registration in HANDLERS.values():
        registration.load()
        assert set(registration.parts) <= parts.keys(), registration.api.name
        assert len(registration.parts) <= 3, registration.api.name


def test_no_module_handles_anything_else() -> None:
    folder = Path(handlers.__file__).parent
    handling = {
        path.stem
        for path in folder.glob("*.py")
        if "\n@handles(" in path.read_text(encoding="utf-8")
    }
    assert handling == MODULES.keys() | CONTROLLER_MODULES.keys() | OWN_MODULES.keys()
    assert sum(map(len, MODULES.values())) == len(HANDLERS)


def test_a_handler_is_imported_when_its_first_request_comes() -> None:
    """Else each node carries them all: 1.4 MB."""
    seldom = "'raftka.broker.handlers.acls' in sys.modules, 'importlib.metadata' in sys.modules"
    program = f"import sys, raftka.cli.broker; print({seldom})"
    assert (
        subprocess.run(
            [sys.executable, "-c", program], check=True, capture_output=True, text=True
        ).stdout
        == "False False\n"
    )


def test_only_the_features_that_work_are_supported_and_finalized() -> None:
    """Clients before version 4 take a lowest level of 0 for a mistake, so they are not told of such
    a feature.
    """
    with Stage() as stage:
        answer = stage.wire().ask(API_VERSIONS, CLIENT)
        earlier = stage.wire().ask(API_VERSIONS, CLIENT, 3)

    assert [
        (feature.name, feature.min_version, feature.max_version)
        for feature in answer.supported_features
    ] == [
        ("metadata.version", 7, 33),
        ("raftka.version", 1, 3),
        ("group.version", 0, 1),
        ("streams.version", 0, 1),
        ("transaction.version", 0, 2),
        ("share.version", 0, 2),
        ("eligible.leader.replicas.version", 0, 1),
        ("kraft.version", 0, 1),
    ]
    assert [feature.name for feature in earlier.supported_features] == [
        "metadata.version",
        "raftka.version",
    ]
    for each in (answer, earlier):
        assert {feature.name: feature.max_version_level for feature in each.finalized_features} == {
            "metadata.version": 33,
            "raftka.version": 3,
            "group.version": 1,
            "streams.version": 1,
            "transaction.version": 2,
            "share.version": 2,
            "eligible.leader.replicas.version": 1,
        }


# order


def test_answers_come_in_the_order_of_their_requests() -> None:
    """A parked fetch, acks=all that waits for disks, what is answered at once and what asks the
    controller, all in one piece.
    """
    with Stage(3) as stage:
        stage.create("t")
        wire = stage.wire(stage.leader("t"))
        asked = [
            wire.request(PRODUCE, produce("t", batch(b"1"))),
            wire.request(API_VERSIONS, CLIENT),
            wire.request(FETCH, fetch("t", 0, max_wait_ms=20_000, min_bytes=1_000_000)),
            wire.request(PRODUCE, produce("t", batch(b"2"), acks=1)),
            wire.request(CREATE_TOPICS, new_topic("u")),
            wire.request(METADATA, NO_TOPICS),
            wire.request(PRODUCE, produce("t", batch(b"3"))),
        ]
        came = [int.from_bytes((wire.frame() or b"")[:4]) for _ in asked]

    assert came == asked


def test_behind_a_request_that_asks_the_controller_nothing_is_decoded() -> None:
    with Stage() as stage:
        wire = stage.wire()
        wire.ask(API_VERSIONS, CLIENT)
        seen: list[str] = []
        stage.nodes[1].dispatcher.interceptors = {
            METADATA.key: lambda request: seen.append("metadata"),
            FETCH.key: lambda request: None,
        }
        controller, parked = stage.nodes[1].controller, []
        call = controller.call
        controller.call = lambda *asked: (  # type: ignore[method-assign]
            parked.append(asked) if isinstance(asked[0], CreateTopics) else call(*asked)
        )

        wire.request(CREATE_TOPICS, new_topic("t"))
        wire.request(METADATA, METADATA.request(topics=None))
        stage.wait(lambda: bool(parked))
        stage.world.run(stage.world.now + 1.0)
        assert seen == []
        assert wire.frames == []

        call(*parked.pop())
        assert wire.answer(CREATE_TOPICS).topics[0].error_code == 0
        assert [topic.name for topic in wire.answer(METADATA).topics] == ["t"]
        assert seen == ["metadata"]


def test_a_connection_that_closes_while_it_holds_leaves_nothing() -> None:
    with Stage() as stage:
        wire = stage.wire()
        wire.ask(API_VERSIONS, CLIENT)
        wire.request(CREATE_TOPICS, new_topic("t"))
        wire.close()
        stage.wait(lambda: not stage.nodes[1].dispatcher.connections)

        stage.wait(lambda: stage.nodes[1].image.topic_named("t") is not None)
        assert stage.wire().ask(METADATA, METADATA.request(topics=None)).topics[0].name == "t"


def test_a_muted_connection_is_answered_when_its_time_has_come() -> None:
    with Stage() as stage:
        wire = stage.wire()
        wire.ask(API_VERSIONS, CLIENT)
        begin = stage.world.now
        stage.server_side().mute(begin + 5.0)

        wire.request(API_VERSIONS, CLIENT)
        stage.wire().ask(API_VERSIONS, CLIENT)
        assert stage.world.now < begin + 1.0
        wire.answer(API_VERSIONS)
        assert begin + 5.0 <= stage.world.now < begin + 5.1


# hooks, and what goes wrong


def fails(request: Request[Row]) -> Row | None:
    raise ValueError("a bug of ours")


def refuses(request: Request[Row]) -> Row | None:
    raise KafkaError(Code.POLICY_VIOLATION)


REQUESTS: dict[int, Row] = {
    PRODUCE.key: produce("t", batch(b"1")),
    FETCH.key: fetch("t"),
    **{
        key: each.api.request()
        for key, each in HANDLERS.items()
        if key not in (PRODUCE.key, FETCH.key)
    },
}


def error_codes(row: Any) -> set[int]:
    """All that are anywhere in an answer."""
    own = {row.error_code} if "error_code" in row.__slots__ else set()
    inner = [
        each
        for name in row.__slots__
        if isinstance(rows := getattr(row, name), list)
        for each in rows
        if isinstance(each, Row)
    ]
    return own.union(*map(error_codes, inner))


def _filled(struct: Any) -> Row:
    """With a partition, by itself or by its number, in a topic where that is further in."""
    inner: dict[str, Any] = {"partition_indexes": [0]}
    structs = {field.name: field.struct for field in struct.fields}
    for name in ("partitions", "topics"):
        inner[name] = [_filled(structs[name])] if structs.get(name) is not None else [0]
    filled: Row = struct.row(**{name: value for name, value in inner.items() if name in structs})
    return filled


def filled(key: int) -> tuple[Row, int]:
    """A request that names something, and a version, so that there is a place for an error."""
    api, row = HANDLERS[key].api, REQUESTS[key]
    request = api.request
    for name in (
        "topics",
        "groups",
        "groups_names",
        "group_ids",
        "coordinator_keys",
        "resources",
        "dirs",
        "markers",
        "transactional_ids",
        "creations",
        "entries",
        "filters",
        "deletions",
    ):
        if name in row.__slots__ and key not in (PRODUCE.key, FETCH.key):
            struct = next((f.struct for f in request.struct.fields if f.name == name), None)
            row = request(**{name: [_filled(struct) if struct is not None else "key"]})
    return row, 12 if key in (PRODUCE.key, FETCH.key) else api.max_version


@pytest.mark.parametrize("key", HANDLERS, ids=lambda key: HANDLERS[key].api.name)
@pytest.mark.parametrize(
    ("hook", "code"), [(fails, Code.UNKNOWN_SERVER_ERROR), (refuses, Code.POLICY_VIOLATION)]
)
def test_a_handler_that_fails_is_an_answer_and_nobody_elses_matter(
    key: int, hook: Any, code: Code
) -> None:
    with Stage() as stage:
        wire, other = stage.wire(), stage.wire()
        row, version = filled(key)
        stage.nodes[1].dispatcher.interceptors[key] = hook

        assert error_codes(wire.ask(HANDLERS[key].api, row, version)) - {0} == {code}

        del stage.nodes[1].dispatcher.interceptors[key]
        for connection in (wire, other):
            assert connection.ask(API_VERSIONS, CLIENT).error_code == 0
        assert len(stage.events("handler_failed")) == (hook is fails)
        assert not stage.world.failures


def test_an_interceptor_answers_in_the_handlers_place() -> None:
    with Stage() as stage:
        stage.nodes[1].dispatcher.interceptors[METADATA.key] = lambda request: request.api.response(
            cluster_id="somewhere else"
        )

        assert stage.wire().ask(METADATA, NO_TOPICS).cluster_id == "somewhere else"


def test_an_interceptor_sees_also_what_would_go_the_short_way() -> None:
    with Stage() as stage:
        stage.create("t")
        wire, seen = stage.wire(), []
        for value in (b"1", b"2"):
            wire.ask(PRODUCE, produce("t", batch(value)))
        stage.nodes[1].dispatcher.interceptors[PRODUCE.key] = lambda request: seen.append(
            request.api.name
        )

        wire.ask(PRODUCE, produce("t", batch(b"3")))

        assert seen == ["Produce"]


def test_an_answer_that_has_no_encoding_is_a_servers_error() -> None:
    with Stage() as stage:
        hooks = stage.nodes[1].dispatcher.interceptors
        hooks[METADATA.key] = lambda request: METADATA.response(cluster_id="x" * 40_000)
        wire = stage.wire()

        answer = wire.ask(METADATA, METADATA.request(topics=[METADATA.request.topics(name="t")]), 4)

        assert answer.topics[0].error_code == Code.UNKNOWN_SERVER_ERROR
        assert len(stage.events("handler_failed")) == 1
        assert wire.ask(API_VERSIONS, CLIENT).error_code == 0


def test_a_topic_name_that_fits_no_error_text_is_refused() -> None:
    with Stage() as stage:
        wire = stage.wire()

        answer = wire.ask(CREATE_TOPICS, new_topic("x" * 32_767), 2)

        assert answer.topics[0].error_code in (
            Code.INVALID_TOPIC_EXCEPTION,
            Code.UNKNOWN_SERVER_ERROR,
        )
        assert wire.ask(API_VERSIONS, CLIENT).error_code == 0


def test_what_fails_in_a_parked_fetch_is_not_the_producers_matter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def look_that_fails(self: Fetch) -> Row:
        raise ValueError("a bug of ours")

    with Stage() as stage:
        stage.create("t")
        reader, writer = stage.wire(), stage.wire()
        reader.request(FETCH, fetch("t", 0, max_wait_ms=20_000, min_bytes=1))
        stage.wait(lambda: stage.nodes[1].metrics.parked_fetches == 1)
        monkeypatch.setattr(Fetch, "read_changed", look_that_fails)

        assert produced(writer.ask(PRODUCE, produce("t", batch(b"1")))).error_code == 0
        assert reader.answer(FETCH).error_code == Code.UNKNOWN_SERVER_ERROR
        assert stage.nodes[1].metrics.parked_fetches == 0
        assert not stage.world.failures


@pytest.mark.parametrize(("acks", "at_once"), [(-1, 1), (1, 1), (1, 3)])
def test_what_fails_in_a_plan_ends_its_connection_and_no_other(
    acks: int, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def append_that_fails(*_: object) -> Any:
        raise ValueError("a bug of ours")

    with Stage() as stage:
        stage.create("t")
        writer, other = stage.wire(), stage.wire()
        for value in (b"1", b"2"):
            assert (
                produced(writer.ask(PRODUCE, produce("t", batch(value), acks=acks))).error_code == 0
            )
        with monkeypatch.context() as broken:
            broken.setattr(ClientBatches, "append", append_that_fails)
            writer.send(
                b"".join(
                    encode_request(
                        PRODUCE, 12, 9 + at, "test", produce("t", batch(b"3"), acks=acks)
                    )
                    for at in range(at_once)
                )
            )

            assert writer.frame() is None

        assert produced(other.ask(PRODUCE, produce("t", batch(b"4"), acks=acks))).base_offset == 2
        assert len(stage.events("plan_failed")) == stage.counted("raftka_handler_errors_total") == 1
        assert not stage.world.failures


def test_the_session_goes_with_every_request() -> None:
    with Stage() as stage:
        seen: list[Any] = []
        stage.nodes[1].dispatcher.interceptors[METADATA.key] = lambda request: seen.append(
            request.session
        )
        stage.wire().ask(METADATA, NO_TOPICS)

    (session,) = seen
    assert (session.listener, session.principal, session.client_id) == (
        "PLAINTEXT",
        "User:ANONYMOUS",
        "test",
    )
    assert session.peer.startswith("client:")


def test_every_node_passes_on_what_the_controller_decides() -> None:
    with Stage(3) as stage:
        for node_id in stage.nodes:
            assert (
                stage.wire(node_id)
                .ask(CREATE_TOPICS, new_topic(f"t{node_id}"))
                .topics[0]
                .error_code
                == 0
            )
        images: list[MetadataImage] = [node.image for node in stage.nodes.values()]
        stage.wait(lambda: all(len(node.image.topics) == 3 for node in stage.nodes.values()))

    assert len(images) == 3


def test_the_short_way_answers_as_the_long_way_does() -> None:
    """Byte by byte, in every version: the first request goes the long way, what follows the short
    one.
    """
    with Stage() as stage:
        topic_id = stage.create("t")
        for version in range(PRODUCE.min_version, PRODUCE.max_version + 1):
            wire = stage.wire()
            row = produce("t", batch(b"1"), topic_id=topic_id)
            long, short = (_frame(wire, PRODUCE, row, version) for _ in range(2))
            assert stage.server_side().plans[PRODUCE.key]
            base = produced(decoded(PRODUCE, version, long)).base_offset
            assert (
                short.replace((base + 1).to_bytes(8, "big"), base.to_bytes(8, "big"))[4:]
                == long[4:]
            )
        for version in range(FETCH.min_version, FETCH.max_version + 1):
            wire = stage.wire()
            asked = fetch("t", 1, topic_id=topic_id, max_bytes=1)
            long, short = (_frame(wire, FETCH, asked, version) for _ in range(2))
            assert stage.server_side().plans[FETCH.key]
            assert fetched(decoded(FETCH, version, long)).records
            assert short[4:] == long[4:]


def _frame(wire: Wire, api: Any, row: Row, version: int) -> bytes:
    wire.request(api, row, version)
    frame = wire.frame()
    assert frame is not None
    return frame
