"""Payloads compared with schemas: what fits, what does not and why. Schemas and payloads of
strangers end no more than their question.
"""

import io
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import fastavro
import pytest

from raftka.registry.payloads.judge import CRASHED, TOO_LONG, ProcessJudge
from raftka.registry.payloads.worker import Matchers

KINDS = ["int", "long", "float", "double", "bytes", "string", "boolean", "null"]
RECORD = {
    "type": "record",
    "name": "a.R",
    "fields": [
        *({"name": kind, "type": kind} for kind in KINDS),
        {"name": "fixed", "type": {"type": "fixed", "name": "F", "size": 3}},
        {"name": "enum", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
        {"name": "array", "type": {"type": "array", "items": "string"}},
        {"name": "map", "type": {"type": "map", "values": "long"}},
        {"name": "next", "type": ["null", "a.R"]},
    ],
}
VALUE: dict[str, Any] = {
    **{
        "int": -5,
        "long": 1 << 40,
        "float": 1.5,
        "double": 2.5,
        "bytes": b"\0\1",
        "string": "é",
        "boolean": True,
        "null": None,
    },
    **{"fixed": b"abc", "enum": "B", "array": ["x", "y"], "map": {"k": 1}, "next": None},
}


class Schema(NamedTuple):
    kind: str
    text: str
    references: tuple[tuple[str, str], ...] = ()


def avro(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def reasons(schema: Schema, *payloads: bytes) -> list[str | None]:
    return Matchers().answer(schema._asdict(), list(payloads))


def test_avro_values_fit_their_schema() -> None:
    payload = avro(RECORD, {**VALUE, "next": VALUE})
    assert reasons(Schema("AVRO", json.dumps(RECORD)), payload, payload[:-1], payload + b"\0") == [
        None,
        "it ends too early",
        "1 bytes are left behind it",
    ]


def test_no_cut_avro_value_fits() -> None:
    payload = avro(RECORD, VALUE)
    found = reasons(
        Schema("AVRO", json.dumps(RECORD)), *(payload[:size] for size in range(len(payload)))
    )
    assert None not in found


AVRO_WRONG = {
    "boolean": ("boolean", b"\2", "neither 0 nor 1"),
    "long int": ("int", b"\xff\xff\xff\xff\x7f", "more than 32 bits"),
    "endless number": ("long", b"\xff" * 11, "does not end"),
    "negative size": ("string", b"\1", "ends too early"),
    "no UTF-8": ("string", b"\2\xff", "no UTF-8"),
    "symbol": ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\2", "1 is none of 1 symbols"),
    "branch": (["null", "int"], b"\4", "2 is none of 2 branches"),
    "size of a block": ({"type": "array", "items": "int"}, b"\1\4\2\0", "another size"),
    "nulls without end": (
        {"type": "array", "items": "null"},
        b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f\0",
        "too many values without bytes",
    ),
    "too deep": (
        {"type": "record", "name": "R", "fields": [{"name": "r", "type": ["null", "R"]}]},
        b"\2" * 10_000 + b"\0",
        "nested deeper",
    ),
    "itself": (
        {"type": "record", "name": "R", "fields": [{"name": "r", "type": "R"}]},
        b"",
        "nested deeper",
    ),
}


@pytest.mark.parametrize("case", AVRO_WRONG)
def test_wrong_avro_is_told_in_bounded_time(case: str) -> None:
    schema, payload, reason = AVRO_WRONG[case]
    (found,) = reasons(Schema("AVRO", json.dumps(schema)), payload)
    assert reason in str(found)


def test_avro_references_are_known() -> None:
    schema = {"type": "record", "name": "O", "fields": [{"name": "r", "type": "a.R"}]}
    text = Schema("AVRO", json.dumps(schema), (("a.R", json.dumps(RECORD)),))
    assert reasons(text, avro(RECORD, VALUE), b"") == [None, "it ends too early"]
    assert "cannot be used" in str(reasons(Schema("AVRO", json.dumps(schema)), b"")[0])


JSON_SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer"}, "other": {"$ref": "other.json"}},
    "required": ["n"],
}


def test_json_values_fit_their_schema() -> None:
    schema = Schema(
        "JSON", json.dumps(JSON_SCHEMA), (("other.json", '{"type": "string", "pattern": "^a+$"}'),)
    )
    good, wrong = b'{"n": 1, "other": "aa"}', b'{"n": 1, "other": "b"}'
    found = reasons(
        schema, good, wrong, b"{}", b"{", b"\xff", b'{"n": NaN}', b"[" * 100_000, b'{"n": 1}'
    )
    assert found[0] is found[-1] is None
    for reason, part in zip(
        found[1:-1], ["/other", "required", "no JSON", "no JSON", "no JSON", "deep"], strict=True
    ):
        assert part in str(reason)


def test_json_schema_that_backtracks_or_refers_nowhere_is_not_used() -> None:
    for schema in ({"pattern": r"(a)\1"}, {"$ref": "http://127.0.0.1:1/x"}, {"type": "nothing"}):
        assert "cannot be used" in str(reasons(Schema("JSON", json.dumps(schema)), b'"a"')[0])


def test_protobuf_values_fit_the_message_that_they_name() -> None:
    text = (
        'syntax = "proto2"; package p; import "other.proto"; message A { required string s = 1; '
        "message B { optional Other o = 1; } }"
    )
    schema = Schema(
        "PROTOBUF", text, (("other.proto", 'syntax = "proto3"; message Other { int32 n = 1; }'),)
    )
    found = reasons(
        schema,
        b"\0\x0a\1x",
        b"\4\0\0\x0a\2\x08\1",
        b"\0",
        b"\0\x0a\5x",
        b"\2\2",
        b"\x80",
        b"",
        b"\0\x0a\1x\x10\1",
    )
    assert found[0] is found[1] is found[-1] is None
    for reason, part in zip(
        found[2:-1],
        ["p.A has no s", "message p.A", "no message at the place [1]", "indexes", "indexes"],
        strict=True,
    ):
        assert part in str(reason)


def test_unknown_type_of_schema_is_told() -> None:
    assert reasons(Schema("XML", "<a/>"), b"") == [
        "the schema cannot be used: payloads of XML are not known"
    ]


# the process


@pytest.fixture
def judge() -> Iterator[ProcessJudge]:
    judge = ProcessJudge(60)
    yield judge
    judge.end()


def test_process_answers_many_questions(judge: ProcessJudge) -> None:
    schema = Schema("AVRO", '"string"')
    assert judge.judge(schema, [b"\2a", b"", b"\2\xff"]) == [
        None,
        "it ends too early",
        "a string is no UTF-8",
    ]
    first = judge._process
    large = b"\x80\x89\x7a" + b"a" * 1_000_000
    assert judge.judge(schema, [large] * 20) == [None] * 20
    assert judge._process is first


def test_process_that_ends_is_started_again(judge: ProcessJudge) -> None:
    schema = Schema("AVRO", '"string"')
    assert judge.judge(schema, [b"\2a"]) == [None]
    assert judge._process is not None
    judge._process.kill()
    judge._process.wait()
    assert judge.judge(schema, [b"\2a"]) == [None]


def test_schema_that_crashes_the_process_refuses_its_payloads_alone(judge: ProcessJudge) -> None:
    """A schema that is itself has a validator run out of its stack."""
    loop = Schema(
        "JSON",
        json.dumps(
            {
                "$ref": "#/definitions/a",
                "definitions": {"a": {"allOf": [{"$ref": "#/definitions/a"}]}},
            }
        ),
    )
    (reason,) = judge.judge(loop, [b"1"])
    assert reason is None or reason == CRASHED or "cannot be used" in reason
    assert judge.judge(Schema("AVRO", '"string"'), [b"\2a"]) == [None]


def test_question_without_an_answer_in_time_ends_the_process() -> None:
    judge = ProcessJudge(0.0)
    try:
        assert judge.judge(Schema("AVRO", '"string"'), [b"\2a", b"\2b"]) == [TOO_LONG, TOO_LONG]
        assert judge._process is None
    finally:
        judge.end()


def test_ended_judge_starts_nothing(judge: ProcessJudge) -> None:
    judge.end()
    with pytest.raises(OSError, match="stops"):
        judge.judge(Schema("AVRO", '"string"'), [b"\2a"])
    assert judge._process is None
