"""Any text sent as a schema is refused with a reason or taken; then it can be compared, and its
normal form is a schema as well.
"""

import base64
import json
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from hypothesis import given, settings
from hypothesis import strategies as st

from raftka.schemas.formats import avro, json_schema, protobuf
from raftka.schemas.formats.schema import Format, InvalidSchema, Parsed, Reference

FORMATS: dict[str, Format] = {"AVRO": avro, "JSON": json_schema, "PROTOBUF": protobuf}
KEYWORDS = """
type name namespace fields items values symbols size default aliases order doc logicalType array map record error enum fixed int
string null A a.B . a..b object number integer properties required patternProperties additionalProperties dependencies
dependentRequired dependentSchemas prefixItems not additionalItems contains minContains maxContains anyOf oneOf allOf if then else
const pattern $id id $ref # #/definitions/A #/properties #A other other# $anchor $defs definitions $schema unevaluatedProperties
http://json-schema.org/draft-04/schema# https://json-schema.org/draft/2020-12/schema http://json-schema.org/draft-07/schema#
maximum exclusiveMaximum multipleOf maxLength minItems uniqueItems $recursiveRef $dynamicRef propertyNames [
"""
WORDS = st.sampled_from(KEYWORDS.split()) | st.just("")
LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | WORDS
VALUES = st.recursive(
    LEAVES,
    lambda below: st.lists(below, max_size=4) | st.dictionaries(WORDS, below, max_size=6),
    max_leaves=20,
)


@pytest.mark.parametrize("format_", [FORMATS["AVRO"], FORMATS["JSON"]], ids=["AVRO", "JSON"])
@settings(max_examples=400, deadline=None)
@given(value=VALUES, other=VALUES, reference=VALUES)
def test_any_json_is_refused_or_taken(
    format_: Format, value: Any, other: Any, reference: Any
) -> None:
    taken: list[Parsed] = []
    for each in (value, other):
        try:
            taken.append(
                format_.parse(json.dumps(each), [Reference("other", json.dumps(reference))])
            )
        except InvalidSchema:
            continue
    for each in taken:
        again = format_.parse(each.normalized, [Reference("other", json.dumps(reference))])
        assert again.normalized == each.normalized
        assert format_.incompatibilities(again, each) == []
    if len(taken) == 2:
        format_.incompatibilities(*taken)
        format_.incompatibilities(*reversed(taken))


@pytest.mark.parametrize("format_", FORMATS.values(), ids=FORMATS)
@settings(max_examples=30, deadline=None)
@given(text=st.text(max_size=30))
def test_any_text_is_refused_or_taken(format_: Format, text: str) -> None:
    try:
        parsed = format_.parse(text, [])
    except InvalidSchema:
        return
    assert format_.incompatibilities(parsed, parsed) == []


WHOLE = FileDescriptorProto(
    name="m.proto",
    package="p",
    dependency=["google/protobuf/timestamp.proto"],
    syntax="proto3",
    message_type=[
        {
            "name": "M",
            "field": [
                {
                    "name": "a",
                    "number": 1,
                    "type": "TYPE_INT32",
                    "label": "LABEL_OPTIONAL",
                    "oneof_index": 0,
                },
                {
                    "name": "t",
                    "number": 2,
                    "type": "TYPE_MESSAGE",
                    "type_name": ".google.protobuf.Timestamp",
                    "label": "LABEL_REPEATED",
                },
                {
                    "name": "m",
                    "number": 3,
                    "type": "TYPE_MESSAGE",
                    "type_name": ".p.M.MEntry",
                    "label": "LABEL_REPEATED",
                },
            ],
            "oneof_decl": [{"name": "o"}],
            "nested_type": [
                {
                    "name": "MEntry",
                    "options": {"map_entry": True},
                    "field": [
                        {
                            "name": "key",
                            "number": 1,
                            "type": "TYPE_STRING",
                            "label": "LABEL_OPTIONAL",
                        },
                        {
                            "name": "value",
                            "number": 2,
                            "type": "TYPE_ENUM",
                            "type_name": ".p.E",
                            "label": "LABEL_OPTIONAL",
                        },
                    ],
                }
            ],
            "reserved_range": [{"start": 5, "end": 6}],
        }
    ],
    enum_type=[
        {"name": "E", "value": [{"name": "A", "number": 0, "options": {"deprecated": True}}]}
    ],
    service=[{"name": "S", "method": [{"name": "C", "input_type": ".p.M", "output_type": ".p.M"}]}],
).SerializeToString()


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(0, 255)), min_size=1, max_size=3)
)
def test_any_descriptor_is_refused_or_taken(changes: list[tuple[int, int]]) -> None:
    data = bytearray(WHOLE)
    for place, value in changes:
        data[place] = value
    try:
        parsed = protobuf.parse(base64.b64encode(bytes(data)).decode(), [])
    except InvalidSchema:
        return
    assert protobuf.parse(protobuf.serialized(parsed), []).canonical == parsed.canonical
    assert protobuf.incompatibilities(parsed, parsed) == []


def nested_descriptor(levels: int) -> str:
    file = FileDescriptorProto(syntax="proto3")
    message = file.message_type.add(name="M")
    for _ in range(levels):
        message = message.nested_type.add(name="M")
    return base64.b64encode(file.SerializeToString()).decode()


DEEPEST = {
    "arrays": (avro, '{"type":"array","items":' * 198 + '{"type":"int"}' + "}" * 198),
    "records": (
        avro,
        "".join(
            f'{{"type":"record","name":"R{n}","fields":[{{"name":"f","type":' for n in range(65)
        )
        + '"int"'
        + "}]}" * 65,
    ),
    "negations": (json_schema, '{"not":' * 199 + "{}" + "}" * 199),
    "values": (json_schema, '{"const":' + "[" * 198 + "]" * 198 + "}"),
    "messages": (protobuf, nested_descriptor(29)),
}


@pytest.mark.parametrize("name", DEEPEST)
def test_the_deepest_schemas_are_taken_from_a_deep_stack(name: str) -> None:
    format_, text = DEEPEST[name]

    def at_depth(frames: int) -> None:
        if frames:
            at_depth(frames - 1)
            return
        schema = format_.parse(text, [])
        assert format_.incompatibilities(schema, schema) == []
        assert format_.parse(schema.normalized, []).canonical

    at_depth(200)


def test_descriptors_deeper_than_protoc_reads_are_refused() -> None:
    for levels in (40, 90, 200):
        with pytest.raises(InvalidSchema):
            protobuf.parse(nested_descriptor(levels), [])
