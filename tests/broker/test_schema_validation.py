"""Topics whose records are compared with schemas when they are produced: which are refused, with
which words, and what the registry is asked.
"""

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from raftka.broker.produce.plan import ProducePlan
from raftka.broker.produce.schemas.checks import AGAIN_S, KEPT_S, TOLD, WholeSchema
from raftka.limits import (
    SCHEMA_DOCUMENT_BYTES,
    SCHEMA_DOCUMENTS,
    SCHEMA_DOCUMENTS_BYTES,
    SCHEMA_LOOKUP_SECONDS,
    SCHEMA_LOOKUPS,
    SCHEMAS_OF_BATCH,
)
from raftka.metadata.image import TOPIC
from raftka.wire.errors import Code
from raftka.wire.messages.metadata import METADATA
from raftka.wire.messages.offsets import OFFSET_COMMIT
from raftka.wire.messages.produce import PRODUCE
from raftka.wire.records import build_batch
from tests.broker.conftest import Lower
from tests.broker.requests import batch, produce, produced
from tests.broker.schema_registry import URL, framed
from tests.broker.stage import Stage
from tests.kit.broker.schema_validation import ON, TIME_MS, Scene

STRATEGY = "confluent_value_subject_name_strategy"
PACKAGE = "io.confluent.kafka.serializers.subject."


@pytest.fixture
def scene() -> Iterator[Scene]:
    scene = Scene()
    with scene.stage:
        yield scene
        assert not scene.stage.world.failures


def test_record_with_a_schema_of_its_subject_is_taken(scene: Scene) -> None:
    scene.create()
    scene.registry.register(7, "t-value")
    assert scene.send(framed(7), framed(7)).error_code == 0
    assert [record.value for record in scene.stored()] == [framed(7), framed(7)]
    assert scene.registry.asked == ["/schemas/ids/7/versions"], (
        "one question, however many records name it"
    )


BAD = {
    "no magic byte": (
        b"plain text",
        "the value does not begin with a zero byte and a schema id",
    ),
    "too short": (
        b"\0\0\0\0",
        "the value does not begin with a zero byte and a schema id",
    ),
    "empty": (b"", "the value does not begin with a zero byte and a schema id"),
    "unknown number": (framed(8), "schema 8 of the value is not registered under subject t-value"),
    "another subject": (framed(9), "schema 9 of the value is not registered under subject t-value"),
    "negative number": (
        b"\0\xff\xff\xff\xff...",
        "schema -1 of the value is not registered under subject t-value",
    ),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("compression", [0, 1, 4])
def test_wrong_record_refuses_its_batch_and_is_named(
    scene: Scene, case: str, compression: int
) -> None:
    value, reason = BAD[case]
    scene.create()
    scene.registry.register(7, "t-value")
    scene.registry.register(9, "u-value")
    answer = scene.send(framed(7), value, framed(7), compression=compression)
    assert (Code(answer.error_code), answer.base_offset) == (Code.INVALID_RECORD, -1)
    assert [
        (each.batch_index, each.batch_index_error_message) for each in answer.record_errors
    ] == [(1, reason)]
    told = (
        "only showing the first three errors at most: [RecordError(batchIndex=1, "
        f"message='{reason}')]"
    )
    assert (
        answer.error_message
        == f"One or more records have been rejected due to 1 record errors in total, and {told}"
    )
    assert scene.stored() == []
    assert scene.stage.counted("raftka_schema_rejected_records_total") == 1


def test_null_is_no_value_and_keys_have_a_switch_of_their_own(scene: Scene) -> None:
    scene.create()
    scene.create(
        "k", confluent_value_schema_validation="false", confluent_key_schema_validation="true"
    )
    scene.registry.register(7, "k-key")

    def send(topic: str, key: bytes | None, value: bytes | None) -> int:
        records = bytes(build_batch([(key, value, (), TIME_MS)]))
        return produced(scene.stage.wire().ask(PRODUCE, produce(topic, records))).error_code

    assert send("t", b"any key", None) == 0
    assert send("k", framed(7), b"any value") == 0
    assert send("k", None, b"any value") == 0
    assert send("k", b"any key", b"any value") == Code.INVALID_RECORD


def test_subject_is_named_after_the_record_where_the_topic_says_so(scene: Scene) -> None:
    avro = json.dumps({"type": "record", "name": "Order", "namespace": "shop", "fields": []})
    scene.registry.register(1, "shop.Order", "r-shop.Order", text=avro)
    scene.registry.register(2, "Title", kind="JSON", text='{"title": "Title"}')
    scene.registry.register(3, "t-value", kind="JSON", text="{}")
    scene.create("r", **{STRATEGY: f"{PACKAGE}TopicRecordNameStrategy"})
    scene.create("q", **{STRATEGY: "RecordNameStrategy"})
    assert scene.send(framed(1), topic="r").error_code == 0
    assert scene.send(framed(1), framed(2), topic="q").error_code == 0
    assert scene.send(framed(2), topic="r").error_code == Code.INVALID_RECORD
    for number, topic in ((3, "q"), (4, "q")):
        answer = scene.send(framed(number), topic=topic)
        text = (
            f"schema {number} of the value is not registered, or has no name of a record for "
            "its subject"
        )
        assert answer.record_errors[0].batch_index_error_message == text


def test_messages_of_protobuf_name_subjects_by_their_indexes(scene: Scene) -> None:
    file = scene.registry.descriptors[5] = _descriptor()
    assert file.package == "shop"
    scene.registry.register(5, "shop.First", "shop.Second.Inner", kind="PROTOBUF", text="")
    scene.create("q", **{STRATEGY: "RecordNameStrategy"})
    first, inner = framed(5, b"\0payload"), framed(5, b"\4\2\0payload")
    assert scene.send(first, inner, topic="q").error_code == 0
    answer = scene.send(
        first, framed(5, b"\2\2..."), framed(5, b"\2\x40"), framed(5, b""), topic="q"
    )
    assert [each.batch_index_error_message for each in answer.record_errors] == [
        "schema 5 of the value is not registered under subject shop.Second",
        "schema 5 of the value is not registered, or has no name of a record for its subject",
        "the value of schema 5 has no message indexes behind its schema id",
    ]


def _descriptor() -> Any:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    file = FileDescriptorProto(name="f.proto", package="shop", syntax="proto3")
    file.message_type.add(name="First")
    second = file.message_type.add(name="Second")
    second.nested_type.add(name="Inner")
    return file


# what the registry is asked


def test_registration_is_seen_at_once_and_deletion_in_time(scene: Scene) -> None:
    scene.create()
    assert scene.send(framed(7)).error_code == Code.INVALID_RECORD
    scene.registry.register(7, "t-value")
    assert scene.send(framed(7)).error_code == 0
    scene.registry.subjects[7].clear()
    assert scene.send(framed(7)).error_code == 0, "it is known for a while"
    scene.stage.world.run(scene.stage.world.now + KEPT_S + 1)
    assert scene.send(framed(7)).error_code == Code.INVALID_RECORD


def test_registry_that_is_a_moment_behind_is_asked_twice(scene: Scene) -> None:
    scene.create()
    wire = scene.stage.wire()
    wire.request(PRODUCE, produce("t", batch(framed(7))))
    scene.stage.wait(lambda: len(scene.registry.asked) == 1)
    scene.registry.register(7, "t-value")
    assert produced(wire.answer(PRODUCE)).error_code == 0
    assert len(scene.registry.asked) == 2


def test_unknown_number_is_not_asked_for_each_time(scene: Scene) -> None:
    scene.create()
    began = scene.stage.world.now
    wires = [scene.stage.wire() for _ in range(20)]
    for _ in range(5):
        for wire in wires:
            wire.request(PRODUCE, produce("t", batch(framed(8))))
        assert {produced(wire.answer(PRODUCE)).error_code for wire in wires} == {
            Code.INVALID_RECORD
        }
    took = scene.stage.world.now - began
    assert len(scene.registry.asked) <= 2 * (1 + took / AGAIN_S)
    assert took < 5 * 2 * AGAIN_S, "nobody waits longer"


def test_schema_under_one_more_subject_is_seen_at_once(scene: Scene) -> None:
    """Its number was asked for a moment ago, for another topic."""
    scene.create()
    scene.registry.register(7, "other-value")
    assert scene.send(framed(7)).error_code == Code.INVALID_RECORD
    scene.registry.register(7, "t-value")
    assert scene.send(framed(7)).error_code == 0


def test_many_that_name_a_new_schema_ask_once(scene: Scene) -> None:
    scene.create()
    scene.registry.register(7, "t-value")
    wires = [scene.stage.wire() for _ in range(10)]
    for wire in wires:
        wire.request(PRODUCE, produce("t", batch(framed(7))))
    assert [produced(wire.answer(PRODUCE)).error_code for wire in wires] == [0] * 10
    assert len(scene.registry.asked) == 1


AWAY: dict[str, bytes] = {
    "no answer": b"",
    "no HTTP": b"SSH-2.0\r\n\r\n",
    "an error": b"HTTP/1.1 500 Internal\r\nContent-Length: 2\r\n\r\n{}",
    "no entry": b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\n{}",
    "something else": b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}",
    "no JSON": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n<>",
    "another document": b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n[1]",
    "too long": b"HTTP/1.1 200 OK\r\nContent-Length: 9999999\r\n\r\n" + bytes(1 << 20),
}


@pytest.mark.parametrize("case", AWAY)
def test_registry_without_an_answer_refuses_for_now_and_takes_nothing_unseen(
    scene: Scene, lowered: Lower, case: str
) -> None:
    lowered(SCHEMA_DOCUMENT_BYTES, 1000)
    scene.create()
    scene.registry.register(7, "t-value")
    scene.registry.answer = AWAY[case]
    answer = scene.send(framed(7))
    assert Code(answer.error_code) is Code.NOT_ENOUGH_REPLICAS, "producers try again"
    assert "The schema registry gives no answer" in str(answer.error_message)
    assert scene.stored() == []
    assert len(scene.stage.events("schema_registry_away")) == 1
    assert scene.stage.counted(SCHEMA_LOOKUP_SECONDS.metric) == (case == "no answer")
    assert scene.stage.counted(SCHEMA_DOCUMENT_BYTES.metric) == (case == "too long")
    scene.registry.answer = None
    assert scene.send(framed(7)).error_code == 0
    assert len(scene.stage.events("schema_registry_back")) == 1


def test_second_registry_is_asked_where_the_first_one_is_away() -> None:
    scene = Scene(confluent_schema_registry_url=f"http://nowhere:1,{URL}")
    with scene.stage:
        scene.create()
        scene.registry.register(7, "t-value")
        assert scene.send(framed(7)).error_code == 0


def test_without_a_registry_nothing_is_taken() -> None:
    with Stage() as stage:
        stage.create("t", configs=ON)
        answer = produced(stage.wire().ask(PRODUCE, produce("t", batch(framed(7)))))
        assert Code(answer.error_code) is Code.NOT_ENOUGH_REPLICAS
        assert "confluent.schema.registry.url" in stage.events("schema_registry_away")[0]["reason"]


def test_name_and_password_go_to_the_registry_and_nowhere_else() -> None:
    scene = Scene(confluent_basic_auth_user_info="me:secret", raftka_log_level="debug")
    with scene.stage:
        scene.create()
        scene.registry.answer = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\n{}"
        answer = scene.send(framed(7))
        assert "Authorization: Basic bWU6c2VjcmV0\r\n" in scene.registry.heads[0]
        assert "secret" not in str(answer) + scene.stage.logs[1].getvalue()


def test_producer_without_acknowledgement_loses_its_connection(scene: Scene) -> None:
    scene.create()
    wire = scene.stage.wire()
    wire.request(PRODUCE, produce("t", batch(b"plain"), acks=0))
    assert wire.frame() is None
    scene.registry.register(7, "t-value")
    wire = scene.stage.wire()
    wire.request(PRODUCE, produce("t", batch(framed(7)), acks=0))
    scene.stage.wait(lambda: scene.stage.partition("t").high_watermark == 1)


# order, and other requests


def test_connection_keeps_its_order_and_others_go_on(scene: Scene) -> None:
    scene.create()
    scene.stage.create("plain")
    scene.registry.register(7, "t-value")
    scene.registry.answer = b""
    wire = scene.stage.wire()
    values = [framed(7, b"%d" % at) for at in range(5)]
    for value in values:
        wire.request(PRODUCE, produce("t", batch(value), acks=1))
    scene.stage.wait(lambda: len(scene.registry.asked) == 1)
    assert scene.send(b"any", topic="plain").error_code == 0
    assert scene.stage.wire().ask(METADATA, METADATA.request(topics=None)).topics
    scene.registry.answer = None
    codes = [produced(wire.answer(PRODUCE)).error_code for _ in values]
    assert codes == [Code.NOT_ENOUGH_REPLICAS, 0, 0, 0, 0]
    assert [record.value for record in scene.stored()] == values[1:]


def test_large_batch_is_read_beside_the_loop(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.create(compression_type="zstd")
    scene.registry.register(7, "t-value")
    jobs: list[object] = []
    offload = scene.stage.nodes[1].services.schemas._worker._offload
    run = offload.run

    def noted(work: Callable[[], object], done: Callable[[Any], None]) -> None:
        jobs.append(work)
        run(work, done)

    monkeypatch.setattr(offload, "run", noted)
    values = [framed(7, b"%d" % at) for at in range(2000)]
    assert scene.send(*values).error_code == 0
    assert jobs
    assert [record.value for record in scene.stored()] == values
    answer = scene.send(*values, b"bad", *[b"worse"] * (TOLD + 10))
    assert Code(answer.error_code) is Code.INVALID_RECORD
    assert [each.batch_index for each in answer.record_errors] == list(range(2000, 2000 + TOLD))
    assert f"due to {TOLD + 11} record errors in total" in str(answer.error_message)


def test_setting_is_seen_by_a_connection_that_goes_the_short_way(scene: Scene) -> None:
    scene.stage.create("t")
    wire = scene.stage.wire()
    for at in range(4):
        assert scene.send(b"%d" % at, wire=wire, acks=1).error_code == 0
    connection = scene.stage.server_side()
    assert isinstance(connection.plans[PRODUCE.key], ProducePlan)
    scene.stage.set(TOPIC, "t", **ON)
    for acks in (1, -1):
        assert scene.send(b"no schema", wire=wire, acks=acks).error_code == Code.INVALID_RECORD
    scene.stage.set(TOPIC, "t", confluent_value_schema_validation=None)
    assert scene.send(b"no schema", wire=wire, acks=1).error_code == 0


def test_topics_without_the_setting_call_nothing_new(scene: Scene) -> None:
    """On both ways of a Produce: as many calls as ever, and none of them here."""
    scene.stage.create("t")
    called: set[str] = set()

    def note(frame: Any, event: str, argument: object) -> None:
        if event == "call":
            called.add(frame.f_code.co_filename)

    wire = scene.stage.wire()
    sys.setprofile(note)
    try:
        codes = [scene.send(b"any", wire=wire, acks=1).error_code for _ in range(5)]
    finally:
        sys.setprofile(None)
    assert codes == [0] * 5
    assert any(name.endswith("broker/produce/plan.py") for name in called)
    assert not [name for name in called if "/produce/schemas/" in name]


def test_internal_topics_are_written_whatever_is_set(scene: Scene) -> None:
    scene.create("__consumer_offsets")
    request = OFFSET_COMMIT.request
    partition = request.topics.partitions(partition_index=0, committed_offset=1)
    row = request(group_id="g", topics=[request.topics(name="t", partitions=[partition])])
    scene.stage.create("t")
    (answer,) = scene.stage.wire().ask(OFFSET_COMMIT, row, 8).topics
    assert answer.partitions[0].error_code == 0


# limits


def test_batch_of_too_many_schemas_is_refused(scene: Scene, lowered: Lower) -> None:
    lowered(SCHEMAS_OF_BATCH, 3)
    scene.create()
    for number in range(4):
        scene.registry.register(number, "t-value")
    assert scene.send(*map(framed, range(3))).error_code == 0
    answer = scene.send(*map(framed, range(4)))
    assert Code(answer.error_code) is Code.INVALID_RECORD
    assert SCHEMAS_OF_BATCH.name in str(answer.error_message)
    assert scene.stage.counted(SCHEMAS_OF_BATCH.metric) == 1


def test_few_questions_are_asked_at_a_time(scene: Scene, lowered: Lower) -> None:
    lowered(SCHEMA_LOOKUPS, 2)
    scene.create()
    scene.registry.answer = b""
    wires = [scene.stage.wire() for _ in range(4)]
    for number, wire in enumerate(wires):
        scene.registry.register(number, "t-value")
        wire.request(PRODUCE, produce("t", batch(framed(number))))
    scene.stage.wait(
        lambda: scene.stage.counted(SCHEMA_LOOKUPS.metric) == 2 and len(scene.registry.asked) == 2
    )
    scene.registry.answer = None
    codes = [produced(wire.answer(PRODUCE)).error_code for wire in wires]
    assert sorted(codes) == [0, 0, Code.NOT_ENOUGH_REPLICAS, Code.NOT_ENOUGH_REPLICAS]


@pytest.mark.parametrize(
    "limit", [SCHEMA_DOCUMENTS, SCHEMA_DOCUMENTS_BYTES], ids=lambda limit: limit.name
)
def test_answers_of_the_registry_make_room_for_others(
    scene: Scene, lowered: Lower, limit: Any
) -> None:
    lowered(limit, 3 if limit is SCHEMA_DOCUMENTS else 120)
    scene.create()
    for number in range(6):
        scene.registry.register(number, "t-value")
        assert scene.send(framed(number)).error_code == 0
    assert scene.stage.counted(limit.metric) >= 3
    assert len(scene.stage.nodes[1].services.schemas.registry._kept) <= 3
    asked = len(scene.registry.asked)
    assert scene.send(framed(0)).error_code == 0
    assert len(scene.registry.asked) == asked + 1


# payloads


class Judge:
    """Takes what ends with a dot."""

    def __init__(self) -> None:
        self.schemas: list[WholeSchema] = []
        self.error: OSError | None = None

    def judge(self, schema: WholeSchema, payloads: list[bytes]) -> list[str | None]:
        self.schemas.append(schema)
        if self.error is not None:
            raise self.error
        return [
            None if payload.endswith(b".") else f"{payload!r} has no dot" for payload in payloads
        ]


@pytest.fixture
def judge(scene: Scene) -> Judge:
    judge = scene.stage.nodes[1].services.schemas.judge = Judge()
    scene.create(raftka_value_schema_validation_payload="true")
    return judge


def test_payload_is_compared_with_its_schema_and_all_that_it_refers_to(
    scene: Scene, judge: Judge
) -> None:
    references = [{"name": "a", "subject": "s/a", "version": 2}]
    scene.registry.register(7, "t-value", text="seven", references=references)
    scene.registry.register(8, "t-value", kind="JSON", text="{}")
    scene.registry.versions["s%2Fa/2"] = {
        "schema": "text of a",
        "references": [{"name": "b", "subject": "b", "version": 1}],
    }
    scene.registry.versions["b/1"] = {"schema": "text of b"}
    answer = scene.send(framed(7, b"a."), framed(8, b"b"), framed(7, b"c"), b"d")
    assert [
        (each.batch_index, each.batch_index_error_message) for each in answer.record_errors
    ] == [
        (1, "it is no value of schema 8: b'b' has no dot"),
        (2, "it is no value of schema 7: b'c' has no dot"),
        (3, "the value does not begin with a zero byte and a schema id"),
    ]
    assert sorted(judge.schemas)[0] == (
        7,
        "AVRO",
        "seven",
        (("b", "text of b"), ("a", "text of a")),
    )
    assert scene.send(framed(7, b"a."), framed(8, b"b.")).error_code == 0
    asked = len(scene.registry.asked)
    assert scene.send(framed(7, b"c.")).error_code == 0
    assert len(scene.registry.asked) == asked, "schemas never change"


@pytest.mark.parametrize("is_there", [True, False])
def test_payload_that_cannot_be_compared_is_refused_for_now(
    scene: Scene, judge: Judge, *, is_there: bool
) -> None:
    judge.error = OSError("no process")
    if not is_there:
        scene.stage.nodes[1].services.schemas.judge = None
    scene.registry.register(7, "t-value")
    assert Code(scene.send(framed(7, b"a.")).error_code) is Code.NOT_ENOUGH_REPLICAS
    assert scene.stored() == []
    assert len(scene.stage.events("schema_payloads_not_judged")) == is_there
