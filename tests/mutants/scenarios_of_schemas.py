"""Pairs of schemas and texts of strangers, one for each planted bug: see directed.py."""

import base64
import json
import tempfile
from pathlib import Path
from typing import Any

from google.protobuf.descriptor_pb2 import FileDescriptorProto

from raftka.schemas.formats import avro, json_schema, protobuf
from raftka.schemas.formats.schema import InvalidSchema, Reference
from raftka.wire.errors import Code
from raftka.wire.messages.produce import PRODUCE
from tests.broker.requests import batch, produce, produced
from tests.broker.rights import pat
from tests.kit.broker.schema_validation import BAD, GOOD, TO_DEAD, Scene, guarded
from tests.mutants.directed import finds


def avro_problems(reader: Any, writer: Any) -> list[str]:
    return avro.incompatibilities(*(avro.parse(json.dumps(each), []) for each in (reader, writer)))


def json_problems(reader: Any, writer: Any) -> list[str]:
    return json_schema.incompatibilities(
        *(json_schema.parse(json.dumps(each), []) for each in (reader, writer))
    )


def record(*fields: dict) -> dict:
    return {"type": "record", "name": "R", "fields": list(fields)}


@finds
def new_field_needs_no_default() -> None:
    assert avro_problems(record({"name": "f", "type": "int"}), record()), (
        "a reader cannot read its new field"
    )


@finds
def numbers_are_promoted_both_ways() -> None:
    assert avro_problems("int", "long"), "a reader cuts the writer's numbers"


@finds
def problems_stay_where_they_are() -> None:
    nested = ({"type": "array", "items": each} for each in ("int", "string"))
    assert avro_problems(*nested), "a reader cannot read the items"


@finds
def closed_model_takes_what_was_open() -> None:
    assert json_problems({"additionalProperties": False}, {}), (
        "a reader refuses properties that were valid"
    )


@finds
def one_option_is_enough() -> None:
    assert json_problems(
        {"type": "string"}, {"anyOf": [{"type": "string"}, {"type": "integer"}]}
    ), "a reader refuses the second option"


@finds
def zigzag_is_taken_for_plain() -> None:
    schemas = [
        protobuf.parse(f'syntax = "proto3"; message M {{ {each} a = 1; }}', [])
        for each in ("sint32", "int32")
    ]
    assert protobuf.incompatibilities(*schemas), "a reader reads other numbers"


@finds
def names_are_written_as_they_come() -> None:
    smuggled = FileDescriptorProto(message_type=[{"name": "M { } message N"}])
    try:
        schema = protobuf.parse(base64.b64encode(smuggled.SerializeToString()).decode(), [])
    except InvalidSchema:
        return
    raise AssertionError(
        f"a name declares messages: {[each.name for each in schema.descriptor.message_type]}"
    )


@finds
def references_leave_their_folder() -> None:
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder, "written")
        try:
            protobuf.parse("", [Reference(str(target), "")])
        except InvalidSchema:
            pass
        assert not target.exists(), "a reference is written elsewhere"


@finds
def silent_registry_takes_everything() -> None:
    scene = Scene()
    with scene.stage:
        scene.create()
        scene.registry.answer = b"HTTP/1.1 500 Internal\r\nContent-Length: 2\r\n\r\n{}"
        assert scene.send(GOOD).error_code, "a record is taken unseen"


@finds
def log_asks_for_no_schemas() -> None:
    scene = Scene()
    with scene.stage:
        scene.create()
        scene.registry.register(7, "t-value")
        assert scene.send(BAD).error_code == Code.INVALID_RECORD, (
            "a record without a schema is taken"
        )


def with_letters(**configs: str) -> Scene:
    scene = Scene()
    scene.create(**TO_DEAD)
    scene.stage.create("dead", configs=configs)
    scene.registry.register(7, "t-value")
    return scene


@finds
def letters_are_not_waited_for() -> None:
    scene = with_letters(max_message_bytes="10")
    with scene.stage:
        assert scene.send(GOOD, BAD).error_code, (
            "a record is neither stored nor refused, and no letter"
        )


@finds
def letters_leave_a_gap_in_sequences() -> None:
    scene = with_letters()
    with scene.stage:
        scene.send(GOOD, BAD, producer_id=1, producer_epoch=0, base_sequence=0)
        assert scene.send(GOOD, producer_id=1, producer_epoch=0, base_sequence=2).error_code == 0, (
            "the producer's next batch is refused"
        )


@finds
def letters_lend_the_right_to_write() -> None:
    with guarded() as (_, stage):
        assert produced(pat(stage).ask(PRODUCE, produce("t", batch(BAD)))).error_code, (
            "a client has written to a topic of others"
        )
