"""Protobuf: texts and serialized descriptors, which of them are one schema, and which changes a
reader bears.
"""

import base64
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from hypothesis import given, settings
from hypothesis import strategies as st

from raftka.schemas.formats import protobuf
from raftka.schemas.formats.protobuf import protoc
from raftka.schemas.formats.schema import InvalidSchema, Reference


@cache
def parse(text: str, *references: tuple[str, str]) -> protobuf.ProtobufSchema:
    return protobuf.parse(text, [Reference(*each) for each in references])


def problems(reader: str, writer: str) -> list[str]:
    return protobuf.incompatibilities(parse(reader), parse(writer))


def proto3(body: str) -> str:
    return f'syntax = "proto3"; {body}'


def message(fields: str, syntax: str = "proto3", more: str = "") -> str:
    return (
        f'syntax = "{syntax}"; package p; message M {{ {fields} }} message N {{ int32 x = 1; }} '
        f"enum E {{ A = 0; B = 1; }} {more}"
    ).replace("int32 x" if syntax == "proto2" else "\0", "optional int32 x")


READABLE = [  # fields of the reader, of the writer
    ("int32 a = 1; int64 b = 2;", "int32 a = 1;"),
    ("", "int32 a = 1;"),
    ("int32 other = 1;", "int32 a = 1;"),
    ("int64 a = 1;", "int32 a = 1;"),
    ("bool a = 1;", "uint64 a = 1;"),
    ("uint32 a = 1;", "E a = 1;"),
    ("E a = 1;", "int32 a = 1;"),
    ("sint64 a = 1;", "sint32 a = 1;"),
    ("sfixed32 a = 1;", "fixed32 a = 1;"),
    ("fixed64 a = 1;", "sfixed64 a = 1;"),
    ("bytes a = 1;", "string a = 1;"),
    ("repeated string a = 1;", "string a = 1;"),
    ("repeated N a = 1;", "N a = 1;"),
    ("optional int32 a = 1;", "int32 a = 1;"),
    ("map<string, int64> a = 1;", "map<bytes_, int32> a = 1;".replace("bytes_", "string")),
    ("oneof o { int32 a = 1; }", "int32 a = 1;"),
    ("oneof o { int32 a = 1; int32 b = 2; }", "int32 a = 1;"),
    ("oneof o { int32 a = 1; int32 b = 2; }", "oneof o { int32 a = 1; }"),
    ("oneof other { int32 a = 1; int32 b = 2; }", "oneof o { int32 a = 1; int32 b = 2; }"),
    ("int32 a = 1; int32 b = 2;", "oneof o { int32 a = 1; int32 b = 2; }"),
    (
        "oneof o { int32 a = 1; } oneof other { int32 b = 2; }",
        "oneof o { int32 a = 1; int32 b = 2; }",
    ),
    ("", "oneof o { int32 a = 1; int32 b = 2; }"),
    ("reserved 1; message New { }", "int32 a = 1;"),
    ("p.N a = 1;", "N a = 1;"),
]


@pytest.mark.parametrize(("reader", "writer"), READABLE)
def test_readable(reader: str, writer: str) -> None:
    assert problems(message(reader), message(writer)) == []


UNREADABLE = [
    (
        "string a = 1;",
        "int32 a = 1;",
        "FIELD_SCALAR_KIND_CHANGED at /M/1: field a = 1 is string for the reader, int32 for the "
        "writer",
    ),
    (
        "sint32 a = 1;",
        "int32 a = 1;",
        "FIELD_SCALAR_KIND_CHANGED at /M/1: field a = 1 is sint32 for the reader, int32 for the "
        "writer",
    ),
    (
        "fixed32 a = 1;",
        "int32 a = 1;",
        "FIELD_SCALAR_KIND_CHANGED at /M/1: field a = 1 is fixed32 for the reader, int32 for the "
        "writer",
    ),
    (
        "fixed64 a = 1;",
        "fixed32 a = 1;",
        "FIELD_SCALAR_KIND_CHANGED at /M/1: field a = 1 is fixed64 for the reader, fixed32 for "
        "the writer",
    ),
    (
        "double a = 1;",
        "float a = 1;",
        "FIELD_SCALAR_KIND_CHANGED at /M/1: field a = 1 is double for the reader, float for the "
        "writer",
    ),
    (
        "N a = 1;",
        "int32 a = 1;",
        "FIELD_KIND_CHANGED at /M/1: field a = 1 is p.N for the reader, int32 for the writer",
    ),
    (
        "map<string, string> a = 1;",
        "N a = 1;",
        "FIELD_KIND_CHANGED at /M/1: field a = 1 is map<string, string> for the reader, p.N for "
        "the writer",
    ),
    (
        "N a = 1;",
        "M a = 1;",
        "FIELD_NAMED_TYPE_CHANGED at /M/1: field a = 1 is p.N for the reader, p.M for the writer",
    ),
    (
        "map<string, int32> a = 1;",
        "map<string, string> a = 1;",
        "FIELD_SCALAR_KIND_CHANGED at /M/1: the value of field a = 1 is int32 for the reader, "
        "string for the writer",
    ),
    (
        "map<string, int32> a = 1;",
        "map<int32, int32> a = 1;",
        "FIELD_SCALAR_KIND_CHANGED at /M/1: the key of field a = 1 is string for the reader, "
        "int32 for the writer",
    ),
    (
        "repeated int32 a = 1;",
        "int32 a = 1;",
        "FIELD_NUMERIC_LABEL_CHANGED at /M/1: field a = 1 is repeated for the reader, optional "
        "for the writer",
    ),
    (
        "int32 a = 1;",
        "repeated int32 a = 1;",
        "FIELD_NUMERIC_LABEL_CHANGED at /M/1: field a = 1 is optional for the reader, repeated "
        "for the writer",
    ),
    ("", "message In { }", "MESSAGE_REMOVED at /M/In: the reader has no message M.In"),
    (
        "oneof o { int32 a = 1; }",
        "oneof o { int32 a = 1; int32 b = 2; }",
        "ONEOF_FIELD_REMOVED at /M/o/2: the reader has no field b = 2, which is one of the "
        "writer's oneof o",
    ),
    (
        "oneof other { int32 a = 1; }",
        "oneof o { int32 a = 1; int32 b = 2; }",
        "ONEOF_FIELD_REMOVED at /M/o/2: the reader has no field b = 2, which is one of the "
        "writer's oneof o",
    ),
    (
        "oneof o { int32 a = 1; int32 b = 2; }",
        "int32 a = 1; int32 b = 2;",
        "MULTIPLE_FIELDS_MOVED_TO_ONEOF at /M/o: the reader has them in the oneof o, the writer "
        "has several of them in none: "
        "field a = 1, field b = 2",
    ),
    (
        "oneof o { int32 a = 1; int32 b = 2; }",
        "int32 a = 1; oneof o { int32 b = 2; }",
        "FIELD_MOVED_TO_EXISTING_ONEOF at /M/o: the reader has them in the oneof o, the writer "
        "has them in no common one: field a = 1, field b = 2",
    ),
    (
        "oneof o { int32 a = 1; int32 b = 2; }",
        "oneof x { int32 a = 1; } oneof y { int32 b = 2; }",
        "FIELD_MOVED_TO_EXISTING_ONEOF at /M/o: the reader has them in the oneof o, the writer "
        "has them in no common one: field a = 1, field b = 2",
    ),
    (
        "oneof o { string a = 1; }",
        "oneof x { int32 a = 1; }",
        "FIELD_SCALAR_KIND_CHANGED at /M/o/1: field a = 1 is string for the reader, int32 for the "
        "writer",
    ),
]


@pytest.mark.parametrize(("reader", "writer", "told"), UNREADABLE)
def test_unreadable_is_told_with_its_path(reader: str, writer: str, told: str) -> None:
    assert problems(message(reader), message(writer)) == [told]


REQUIRED = [  # in proto2
    (
        "required int32 a = 1;",
        "",
        "REQUIRED_FIELD_ADDED at /M/1: the reader requires field a = 1, which the writer has not",
    ),
    (
        "",
        "required int32 a = 1;",
        "REQUIRED_FIELD_REMOVED at /M/1: the reader has no field a = 1, which the writer requires",
    ),
    (
        "required string a = 1;",
        "optional string a = 1;",
        "REQUIRED_FIELD_ADDED at /M/1: field a = 1 is required for the reader, optional for the "
        "writer",
    ),
    (
        "required N a = 1;",
        "optional N a = 1;",
        "REQUIRED_FIELD_ADDED at /M/1: field a = 1 is required for the reader, optional for the "
        "writer",
    ),
    (
        "required int32 a = 1;",
        "optional int32 a = 1;",
        "FIELD_NUMERIC_LABEL_CHANGED at /M/1: field a = 1 is required for the reader, optional "
        "for the writer",
    ),
    (
        "optional group G = 1 { }",
        "optional N a = 1;",
        "FIELD_KIND_CHANGED at /M/1: field g = 1 is p.M.G for the reader, p.N for the writer",
    ),
]


@pytest.mark.parametrize(("reader", "writer", "told"), REQUIRED)
def test_required_fields_and_groups(reader: str, writer: str, told: str) -> None:
    assert problems(message(reader, "proto2"), message(writer, "proto2")) == [told]


def test_package_and_messages_of_the_file() -> None:
    before = proto3("package a; message M { } message N { }")

    assert problems(proto3("package b; message M { } message N { }"), before) == [
        "PACKAGE_CHANGED at /: the reader's package is b, the writer's a"
    ]
    assert problems(proto3("package a; message N { } message M { }"), before) == []
    assert problems(proto3("package a; message M { message N { } }"), before) == [
        "MESSAGE_REMOVED at /N: the reader has no message N"
    ]
    assert problems(before.replace("proto3", "proto2"), before) == []


def test_types_of_references_are_compared() -> None:
    text = proto3('import "n.proto"; message M { q.N n = 1; M m = 2; }')
    before = parse(text, ("n.proto", proto3("package q; message N { int32 a = 1; N n = 2; }")))
    after = parse(text, ("n.proto", proto3("package q; message N { string a = 1; N n = 2; }")))
    elsewhere = parse(
        text.replace("q.N", "r.N"),
        ("n.proto", proto3("package r; message N { int32 a = 1; N n = 2; }")),
    )

    assert protobuf.incompatibilities(after, before) == [
        "FIELD_SCALAR_KIND_CHANGED at /M/1/1: field a = 1 is string for the reader, int32 for the "
        "writer",
    ]
    assert protobuf.incompatibilities(elsewhere, before) == []


FILES = {
    "proto3": (
        'syntax = "proto3"; package a.b; import "google/protobuf/timestamp.proto"; option '
        'java_package = "x\\"y";'
        "message M { option deprecated = true; optional int32 x = 1 [json_name = 'ZZ', deprecated "
        "= true]; map<string, N> m = 2;"
        " oneof c { string s = 3; N n = 4; } reserved 10, 12 to max; reserved 'foo';"
        " message N { google.protobuf.Timestamp t = 1; repeated E e = 2 [packed = false]; }"
        " enum E { option allow_alias = true; A = 0; B = 1 [deprecated = true]; C = 1; reserved 5 "
        "to 7, 9 to max; reserved 'Q'; } }"
        "service S { option deprecated = true; rpc F (stream M) returns (M.N) { option deprecated "
        "= true; } rpc G (M) returns (stream M); }"
    ),
    "proto2": (
        "syntax = 'proto2'; message A { optional group G = 1 { optional int32 a = 1 [default = "
        "-5]; }"
        " optional string s = 2 [default = 'a\\\"\\n\\x7f'];"
        " optional bytes b = 3 [default = '\\x00\\\"x\\xff']; required float f = 4 [default = "
        "inf]; extensions 100 to 199, 500 to max;"
        " optional E e = 5 [default = C]; enum E { B = 1; C = -2; } extend A { repeated group H = "
        "101 { optional int32 z = 1; } }"
        " oneof o { group I = 7 { optional int32 q = 1; } int32 r = 8; } repeated int32 p = 9 "
        "[packed = true]; }"
        "extend A { optional int32 ext = 100; }"
    ),
    "edition": (
        "edition = '2023'; package q; option features.field_presence = IMPLICIT;"
        "message A { int32 a = 1 [features.field_presence = LEGACY_REQUIRED]; A b = 2 "
        "[features.message_encoding = DELIMITED];"
        " reserved foo; map<int32, A> m = 9; }"
    ),
    "empty": "",
}
CUSTOM = (
    "o.proto",
    "syntax = 'proto2'; package o; import 'google/protobuf/descriptor.proto'; message V { "
    "optional int32 v = 1; repeated string w = 2; }"
    "extend google.protobuf.FieldOptions { optional string tag = 50001; repeated int32 numbers = "
    "50002; }"
    "extend google.protobuf.FileOptions { optional V v = 50001; }",
)
FILES_WITH_OPTIONS = (
    "syntax = 'proto3'; import 'o.proto'; option (o.v) = { v: 3 w: ['a', 'b'] }; message M { "
    "int32 a = 1 [(o.tag) = 'x', (o.numbers) = 1]; }"
)


@pytest.mark.parametrize("name", FILES)
def test_text_and_descriptor_are_one_schema(name: str) -> None:
    schema = parse(FILES[name])
    from_descriptor = parse(protobuf.serialized(schema))

    assert schema.text == FILES[name]
    assert parse(schema.canonical).canonical == schema.canonical
    assert from_descriptor.text == from_descriptor.canonical == schema.canonical
    assert protobuf.serialized(from_descriptor) == protobuf.serialized(schema)
    assert protobuf.incompatibilities(schema, from_descriptor) == []


@pytest.mark.parametrize("name", FILES)
def test_normalized_schemas_stay_as_they_are(name: str) -> None:
    schema = parse(FILES[name])

    again = parse(schema.normalized)

    assert again.normalized == schema.normalized
    assert (
        protobuf.incompatibilities(schema, again) == protobuf.incompatibilities(again, schema) == []
    )


def test_white_space_comments_and_qualification_make_no_difference() -> None:
    one = parse(proto3("package p;\n// a comment\nmessage M {\n  N n = 1;\n}\nmessage N { }"))
    other = parse(proto3("package p; message M { .p.N n = 1; } message N { }"))

    assert one.text != other.text
    assert one.canonical == other.canonical


def test_order_makes_a_difference_unless_normalized() -> None:
    one = parse(proto3("message M { int32 a = 1; int32 b = 2; }"))
    other = parse(proto3("message M { int32 b = 2; int32 a = 1; }"))

    assert one.canonical != other.canonical
    assert one.normalized == other.normalized


def test_custom_options_are_kept() -> None:
    schema = parse(FILES_WITH_OPTIONS, CUSTOM)
    from_descriptor = parse(protobuf.serialized(schema), CUSTOM)

    assert 'option (.o.v) = { v: 3 w: "a" w: "b" };' in schema.canonical
    assert 'int32 a = 1 [(.o.tag) = "x", (.o.numbers) = 1];' in schema.canonical
    assert from_descriptor.canonical == schema.canonical
    assert parse(FILES_WITH_OPTIONS.replace("'x'", "'y'"), CUSTOM).canonical != schema.canonical
    with pytest.raises(InvalidSchema, match="is a reference missing"):
        parse(protobuf.serialized(schema))


def test_references_may_be_serialized_and_nested() -> None:
    inner = ("deep/inner.proto", proto3("package d; message I { }"))
    outer_text = proto3("import public 'deep/inner.proto'; message O { d.I i = 1; }")
    outer = ("outer.proto", protobuf.serialized(parse(outer_text, inner)))

    schema = parse(proto3("import 'outer.proto'; message M { O o = 1; d.I i = 2; }"), inner, outer)

    assert [each.name for each in schema.files] == [
        "deep/inner.proto",
        "outer.proto",
        "schema.proto",
    ]


def test_descriptors_of_python_classes_are_taken() -> None:
    """Return a schema as confluent-kafka sends it: the descriptor of a generated module, with the
    file's name in it.
    """
    file = FileDescriptorProto(name="my/module.proto", syntax="proto3", package="m")
    file.message_type.add(name="M").field.add(
        name="a_b",
        number=1,
        type=FieldDescriptorProto.TYPE_INT32,
        label=FieldDescriptorProto.LABEL_OPTIONAL,
    )

    schema = parse(base64.b64encode(file.SerializeToString()).decode())

    assert schema.text == 'syntax = "proto3";\npackage m;\nmessage M {\n  int32 a_b = 1;\n}\n'


REFUSED = [
    ("message", "schema.proto:1:8: Expected message name."),
    ("syntax = 'proto9';", 'Unrecognized syntax identifier "proto9"'),
    (proto3("message M { N n = 1; }"), 'schema.proto:1:32: "N" is not defined.'),
    (proto3("message M { int32 a = 1; int32 b = 1; }"), "Field number 1 has already been used"),
    ("import '/etc/passwd';", "/etc/passwd: File not found."),
    ("import '../x.proto';", "not allowed in the virtual path"),
    ("import 'a/../../../../etc/passwd';", "not allowed in the virtual path"),
    ("import 'schema.proto';", "File recursively imports itself"),
    ("import 'missing.proto';", "missing.proto: File not found."),
    ("message A {" * 1000, "Reached maximum recursion limit"),
    ("AAAA", "Expected top-level statement"),
    ('"\ud800', "half of a surrogate pair"),
]


@pytest.mark.parametrize(("text", "told"), REFUSED)
def test_no_schema_is_refused_with_the_reason(text: str, told: str) -> None:
    with pytest.raises(InvalidSchema) as refusal:
        parse(text)

    assert told in str(refusal.value)
    assert "raftka-protoc" not in str(refusal.value)
    assert "WARNING" not in str(refusal.value)


@pytest.mark.parametrize(
    "name",
    [
        "/etc/x.proto",
        "../x.proto",
        "a//b",
        "a/./b",
        "x\\y",
        "a\0b",
        "a\nb",
        "",
        "x" * 300,
        "--python_out=.",
        "@x",
    ],
)
def test_references_stay_in_their_folder(name: str) -> None:
    with pytest.raises(InvalidSchema, match="is no name for a reference"):
        parse("", (name, proto3("message N { }")))


def test_references_that_exclude_each_other_are_refused() -> None:
    with pytest.raises(InvalidSchema, match="both a file and a folder"):
        parse("", ("a", ""), ("a/b", ""))


def test_well_known_types_cannot_be_replaced() -> None:
    name = "google/protobuf/timestamp.proto"

    schema = parse(
        proto3(f"import '{name}'; message M {{ google.protobuf.Timestamp t = 1; }}"),
        (name, "nonsense"),
    )

    assert schema.files[0].message_type[0].name == "Timestamp"


KNOWN = """
syntax = "proto3";
import "confluent/meta.proto";
import "confluent/type/decimal.proto";
import "google/type/date.proto";
message M {
  option (confluent.message_meta) = { doc: "d" };
  google.type.Date date = 1 [(confluent.field_meta) = { tags: "PII" }];
  confluent.type.Decimal decimal = 2;
}
"""


@pytest.mark.parametrize(
    "references",
    [(), (("google/type/date.proto", "nonsense"), ("confluent/meta.proto", "nonsense"))],
)
def test_files_that_clients_do_not_send_are_known(references: tuple[tuple[str, str], ...]) -> None:
    schema = parse(KNOWN, *references)
    from_descriptor = parse(protobuf.serialized(schema), *references)

    assert (
        '.google.type.Date date = 1 [(.confluent.field_meta) = { tags: "PII" }];'
        in schema.canonical
    )
    assert from_descriptor.canonical == schema.canonical


@pytest.mark.parametrize(
    "file",
    [
        FileDescriptorProto(package="p; message X { }"),
        FileDescriptorProto(message_type=[{"name": "M { } message N"}]),
        FileDescriptorProto(
            enum_type=[{"name": "E", "value": [{"name": "A = 0; B", "number": 1}]}]
        ),
        FileDescriptorProto(
            message_type=[
                {
                    "name": "M",
                    "field": [
                        {"name": "a", "number": 1, "type": "TYPE_INT32", "default_value": "1]; x"}
                    ],
                }
            ]
        ),
        FileDescriptorProto(
            message_type=[
                {
                    "name": "M",
                    "field": [
                        {"name": "a", "number": 1, "type": "TYPE_BYTES", "default_value": '"]; x'}
                    ],
                }
            ]
        ),
        FileDescriptorProto(
            message_type=[
                {"name": "M", "field": [{"name": "a", "number": 1, "type_name": "N a = 2; N"}]}
            ]
        ),
        FileDescriptorProto(
            message_type=[
                {
                    "name": "M",
                    "field": [{"name": "a", "number": 1, "oneof_index": 7, "type": "TYPE_INT32"}],
                }
            ]
        ),
        FileDescriptorProto(
            message_type=[
                {
                    "name": "M",
                    "field": [{"name": "a", "number": 1, "type_name": ".G", "type": "TYPE_GROUP"}],
                }
            ]
        ),
        FileDescriptorProto(
            options={"optimize_for": 1, "uninterpreted_option": [{"identifier_value": "x"}]}
        ),
    ],
    ids=lambda file: str(file).replace("\n", " ")[:40],
)
def test_descriptors_cannot_smuggle_declarations(file: FileDescriptorProto) -> None:
    with pytest.raises(
        InvalidSchema,
        match=r"is no name|is none in Protobuf|has no oneof|is not where|is defined nowhere",
    ):
        parse(base64.b64encode(file.SerializeToString()).decode())


def test_protoc_that_takes_too_long_or_too_much_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    large = proto3(f"message M {{ {' '.join(f'int32 f{n} = {n};' for n in range(1, 10_000))} }}")
    monkeypatch.setattr(protoc, "MEMORY", 32 << 20)
    with pytest.raises(InvalidSchema, match="protoc took more than"):
        protobuf.parse(large, [])
    monkeypatch.setattr(protoc, "MEMORY", 2 << 30)
    monkeypatch.setattr(protoc, "SECONDS", 0.001)
    with pytest.raises(InvalidSchema, match="protoc took longer than"):
        protobuf.parse(large, [])


def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    protobuf.parse(proto3("message M { }"), [])
    with pytest.raises(InvalidSchema):
        protobuf.parse("nonsense", [])

    assert list(tmp_path.iterdir()) == []


def test_large_schemas_are_compared() -> None:
    fields = " ".join(f"int32 f{n} = {n};" for n in range(1, 15_000))
    schema = parse(proto3(f"message M {{ {fields} }}"))

    assert protobuf.incompatibilities(schema, schema) == []
    assert schema.canonical.count("\n") == 15_002


TYPES = (
    "int32",
    "sint64",
    "fixed32",
    "double",
    "string",
    "bytes",
    "bool",
    "M",
    "E",
    "map<string, M>",
    "map<int32, int32>",
)


@st.composite
def bodies(draw: Any) -> str:
    fields: list[str] = []
    for number in draw(st.lists(st.integers(1, 6), unique=True, max_size=5)):
        type_ = draw(st.sampled_from(TYPES))
        label = (
            "" if type_.startswith("map") else draw(st.sampled_from(["", "repeated ", "optional "]))
        )
        field = f"{label}{type_} f{number} = {number};"
        alone = not label and not type_.startswith("map") and draw(st.booleans())
        if draw(st.booleans()):
            fields.append(f"message N{number} {{ }}")
        fields.append(
            f"oneof o{number} {{ {field} int32 g{number} = {number + 10}; }}" if alone else field
        )
    return " ".join(fields)


@settings(max_examples=25, deadline=None)
@given(bodies(), bodies(), st.randoms(use_true_random=False))
def test_what_has_no_problems_is_really_read(reader: str, writer: str, random: Any) -> None:
    """Scalars that both have are read as what was written, if they are of one group and neither
    turned into the other's shape.
    """
    schemas = [
        parse(proto3(f"message M {{ {body} }} enum E {{ A = 0; B = 1; }}"))
        for body in (reader, writer)
    ]
    if protobuf.incompatibilities(*schemas):
        return
    read_class, written_class = (message_class(schema) for schema in schemas)
    written = written_class()
    for field in written.DESCRIPTOR.fields:
        if field.message_type is None and random.random() < 0.8:
            if field.is_repeated:
                getattr(written, field.name).append(scalar(field))
            else:
                setattr(written, field.name, scalar(field))

    read = read_class.FromString(written.SerializeToString())

    for field, value in written.ListFields():
        other = read.DESCRIPTOR.fields_by_number.get(field.number)
        if other is not None and not field.is_repeated and not other.is_repeated:
            assert as_bytes(getattr(read, other.name)) == as_bytes(value)


def scalar(field: Any) -> Any:
    kinds = {
        FieldDescriptorProto.TYPE_STRING: "x",
        FieldDescriptorProto.TYPE_BYTES: b"x",
        FieldDescriptorProto.TYPE_DOUBLE: 0.5,
    }
    return kinds.get(field.type, 1)


def as_bytes(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


def message_class(schema: protobuf.ProtobufSchema) -> Any:
    pool = descriptor_pool.DescriptorPool()
    for file in schema.files:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("M"))


@settings(max_examples=25, deadline=None)
@given(bodies())
def test_printed_text_compiles_to_the_same_descriptor(body: str) -> None:
    schema = parse(proto3(f"message M {{ {body} }} enum E {{ A = 0; B = 1; }}"))

    again = parse(schema.canonical)

    assert again.descriptor == schema.descriptor


def test_base64_of_a_file_that_uses_options_of_its_own() -> None:
    text = proto3(
        'package p; import "google/protobuf/descriptor.proto"; extend '
        "google.protobuf.MessageOptions { bool mine = 50001; }"
        " message M { option (mine) = true; int32 a = 1; }"
    )
    sent = protobuf.serialized(parse(text))

    assert "option (.p.mine) = true;" in parse(sent).text
    assert parse(sent).canonical == parse(text).canonical


def test_base64_that_does_not_go_with_its_imports_is_refused() -> None:
    file = FileDescriptorProto(
        name="m.proto", syntax="proto3", dependency=["google/protobuf/descriptor.proto"]
    )
    kind = file.message_type.add(name="M")
    kind.field.add(
        name="a",
        number=1,
        type=FieldDescriptorProto.TYPE_MESSAGE,
        label=FieldDescriptorProto.LABEL_OPTIONAL,
        type_name=".Nowhere",
    )
    kind.options.MergeFromString(b"\x88\xb5\x18\x01")  # field 50001, which nobody defines

    with pytest.raises(InvalidSchema):
        parse(base64.b64encode(file.SerializeToString()).decode())
