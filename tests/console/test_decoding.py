"""Formats that are found, masks that hide, schemas of a registry: without a broker."""

import base64
import json

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raftka.console.call import ApiError
from raftka.console.decoding import encoder, registry
from raftka.console.decoding.decoder import CHOICES, Decoder
from raftka.console.decoding.encoder import encode
from raftka.console.decoding.masks import Masks
from raftka.console.decoding.registry import AWAY_S, FramedReader
from raftka.console.settings import ConsoleSettings
from raftka.json_values import Json
from raftka.pipeline.records.registry_client import RegistryAccess, RegistryClient

# formats


@pytest.mark.parametrize(
    ("data", "kind", "text"),
    [
        (None, "null", ""),
        (b"", "text", ""),
        (b"plain", "text", "plain"),
        ("käse\t\n".encode(), "text", "käse\t\n"),
        (b"17", "text", "17"),
        (b' {"a": 1}', "json", ' {"a": 1}'),
        (b"[1, 2", "text", "[1, 2"),
        (b'{"a": NaN}', "json", '{"a": NaN}'),
        (b"\x00\x01", "hex", "0001"),
        (b"\xff\xfe", "hex", "fffe"),
        (b"a\x00b", "hex", "610062"),
        (msgpack.packb({"a": [1, "b"]}), "msgpack", '{"a": [1, "b"]}'),
        (msgpack.packb({1: 2}), "hex", "810102"),
        (b"[" * 100_000, "text", "[" * 100_000),
    ],
)
def test_a_format_is_found(data: bytes | None, kind: str, text: str) -> None:
    found = Decoder().decode(data)
    assert (found.kind, found.text) == (kind, text)


@settings(deadline=None)
@given(st.none() | st.binary(max_size=40), st.sampled_from(CHOICES), st.booleans())
def test_any_bytes_are_shown_in_any_format(data: bytes | None, wanted: str, masks: bool) -> None:
    found = Decoder(Masks(["a"] if masks else [])).decode(data, wanted)
    json.dumps(found.text)
    if wanted == "hex" and data is not None and not masks:
        assert bytes.fromhex(found.text) == data


def test_a_format_that_does_not_fit_is_told() -> None:
    found = Decoder().decode(b"plain", "json")
    assert (found.kind, found.problem) == ("text", "it is no json")


def test_a_number_and_a_schema_without_registry_are_told() -> None:
    assert Decoder().decode((-2).to_bytes(8, signed=True)).problem == "as a number: -2"
    assert "schema 7: --registry" in str(Decoder().decode(b"\0\0\0\0\7\xff").problem)


# masks

secrets = st.recursive(
    st.just("needle") | st.just(4711),
    lambda inner: (
        st.lists(inner, min_size=1, max_size=2)
        | st.dictionaries(st.sampled_from("xy"), inner, min_size=1)
    ),
    max_leaves=3,
)
plain_values = st.none() | st.integers(0, 9) | st.sampled_from(["a", '"', "\\", "}", "{", ","])


@st.composite
def documents(draw: st.DrawFn, depth: int = 0) -> Json:
    """Objects with secrets in the masked places, and in no other."""
    found: dict[str, Json] = {}
    for name in draw(st.sets(st.sampled_from(["ssn", "card", "b", 's"n', "list"]))):
        if name == "ssn":
            found[name] = draw(secrets)
        elif name == "card" and depth == 0:
            found[name] = {"number": draw(secrets), "name": draw(plain_values)}
        elif depth < 3:
            inner = documents(depth + 1) | plain_values
            found[name] = draw(st.lists(inner, max_size=2) if name == "list" else inner)
    return found


@settings(deadline=None)
@given(documents(), st.booleans(), st.sampled_from([None, 1]), st.sampled_from(CHOICES))
def test_masked_fields_are_hidden_and_all_else_stays(
    document: Json, escapes: bool, indent: int | None, wanted: str
) -> None:
    masks = Masks(["ssn", "card.number"])
    text = json.dumps(document, ensure_ascii=escapes, indent=indent)
    hidden = masks.hide(text)

    assert json.loads(hidden) == expected_of(document)
    for data in (text.encode(), json.dumps({"in": text}).encode(), msgpack.packb(document)):
        for shown in (Decoder(masks).decode(data, wanted), Decoder(masks).header("h", data)):
            assert "needle" not in shown.text
            assert "4711" not in shown.text
            assert b"needle".hex() not in shown.text


def expected_of(value: Json, path: tuple[str, ...] = ()) -> Json:
    if path[-1:] == ("ssn",) or path == ("card", "number"):
        return "***"
    if isinstance(value, dict):
        return {name: expected_of(each, (*path, name)) for name, each in value.items()}
    return [expected_of(each, path) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    ("mask", "text", "hidden"),
    [
        ("a", '{"a":{"b":[1,{"c":2}]},"d":1}', '{"a":"***","d":1}'),
        ("a.b", '{"x":{"a":{"b":1}},"a":{"b":1}}', '{"x":{"a":{"b":1}},"a":{"b":"***"}}'),
        ("$.a", '{"x":{"a":1},"a":1}', '{"x":{"a":1},"a":"***"}'),
        ("$.l[*].a", '{"l":[{"a":1},{"b":2}]}', '{"l":[{"a":"***"},{"b":2}]}'),
        ("a", '{"\\u0061":1, "a": 2}', '{"\\u0061":"***", "a": "***"}'),
        ("a", '[ "a" , {"b" : "a"} ]', '[ "a" , {"b" : "a"} ]'),
        ("a", '{"b":"{\\"a\\":1}"}', '{"b":"***"}'),
        ("ssn", '{"b":"failed: {\\"ssn\\":1}"}', '{"b":"***"}'),
        ("ssn", '{"b":"\\"{\\\\\\"ssn\\\\\\":1}\\""}', '{"b":"***"}'),
        ("ssn", '{"b":"{\\"\\\\u0073sn\\":1}"}', '{"b":"***"}'),
        ("ssn", '{"b":"ssn=1","c":"<ssn>1</ssn>"}', '{"b":"***","c":"***"}'),
        ("ssn", '{"reason":"no ssn given","c":"a: b"}', '{"reason":"no ssn given","c":"a: b"}'),
    ],
)
def test_masks(mask: str, text: str, hidden: str) -> None:
    assert Masks([mask]).hide(text) == hidden


def test_name_outside_of_ascii_is_found_in_its_escapes() -> None:
    decoder = Decoder(Masks(["prénom", "👤", "a/b"]))
    for name in ("prénom", "👤", "a/b"):
        cut = json.dumps({name: "secret"}).replace("/", "\\/")[:-1]
        assert decoder.decode(cut.encode()).kind == "masked", cut
        nested = decoder.decode(json.dumps({"x": cut + "}"}).encode())
        assert nested.text == '{"x": "***"}', cut


def test_a_mask_that_names_no_field_is_refused() -> None:
    for text in ("", "$", "a..b"):
        with pytest.raises(ValueError, match="names no field"):
            Masks([text])


def test_what_could_hold_a_masked_field_is_hidden_as_a_whole() -> None:
    decoder = Decoder(Masks(["ssn"]))
    for data in (
        b"ssn=1",
        b'{"ssn": 1',
        b"\xffssn\x01",
        b"\0\0\0\0\1\xff",
        '{"ssn":1}'.encode("utf-16"),
        b'{"\\u0073sn": 1',
        b'"{\\"\\\\u0073sn\\": 1}"',
    ):
        for wanted in CHOICES:
            assert decoder.decode(data, wanted).kind == "masked", (data, wanted)
    assert decoder.decode(b"order-1").text == "order-1"
    assert decoder.decode((7).to_bytes(8)).kind == "hex"


# schemas

PRICE = {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}
AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "state", "type": {"type": "enum", "name": "S", "symbols": ["NEW", "PAID"]}},
        {"name": "ssn", "type": ["null", "string"]},
        {
            "name": "price",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2},
        },
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}


class Registry:
    """Answers of a registry; `away`: it does not answer."""

    def __init__(self) -> None:
        self.away = False
        self.asked = 0
        self.now = 0.0
        self.schemas: dict[str, Json] = {
            "/schemas/ids/1": {"schema": json.dumps(AVRO)},
            "/schemas/ids/2": {"schema": '{"type": "object"}', "schemaType": "JSON"},
            "/schemas/ids/3": {"schema": 'syntax = "proto3";', "schemaType": "PROTOBUF"},
            "/schemas/ids/3?format=serialized": {
                "schema": proto_descriptor(),
                "schemaType": "PROTOBUF",
            },
        }
        self.client = RegistryClient(
            RegistryAccess(("http://registry:1",)), self.get, lambda: self.now, lambda s: None
        )

    def get(self, url: str, path: str) -> tuple[int, bytes]:
        self.asked += 1
        if self.away:
            raise OSError("nobody there")
        if path in self.schemas:
            return 200, json.dumps(self.schemas[path]).encode()
        return 404, json.dumps({"error_code": 40403, "message": "no"}).encode()


def proto_descriptor() -> str:
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto

    file = FileDescriptorProto(name="x", package="shop", syntax="proto3")
    message = file.message_type.add(name="Order")
    message.field.add(name="id", number=1, type=FieldDescriptorProto.TYPE_INT64, label=1)
    message.field.add(name="ssn", number=2, type=FieldDescriptorProto.TYPE_STRING, label=1)
    return base64.b64encode(file.SerializeToString()).decode()


@pytest.fixture
def a_registry(monkeypatch: pytest.MonkeyPatch) -> Registry:
    found = Registry()
    monkeypatch.setattr(encoder, "client_of", lambda _: found.client)
    return found


def written(value: Json, schema_id: int) -> bytes:
    settings_ = ConsoleSettings([("localhost", 1)])
    return base64.b64decode(encode(settings_, {"schema_id": schema_id, "json": value})["base64"])


ORDER = {
    "id": 4,
    "state": "PAID",
    "ssn": "needle",
    "price": "12.50",
    "at": "2026-11-28T01:00:00+00:00",
}


def test_a_value_is_read_with_its_schema(a_registry: Registry) -> None:
    from datetime import UTC, datetime
    from decimal import Decimal

    from raftka.schemas.values import avro

    moment = datetime(2026, 11, 28, 1, tzinfo=UTC)
    payload = avro.write(AVRO, 1, {**ORDER, "price": Decimal("12.50"), "at": moment})
    reader = FramedReader(a_registry.client, lambda: a_registry.now)
    found = Decoder(read_framed=reader).decode(b"\0\0\0\0\1" + payload)
    assert (found.kind, found.schema_id, found.value) == ("avro", 1, ORDER)
    hidden = Decoder(Masks(["ssn"]), reader).decode(b"\0\0\0\0\1" + payload)
    assert hidden.value == {**ORDER, "ssn": "***"}

    for schema_id, value, kind in (
        (2, {"id": 1}, "json"),
        (3, {"id": 7, "ssn": "needle"}, "protobuf"),
    ):
        data = written(value, schema_id)
        found = Decoder(read_framed=reader).decode(data)
        assert (found.kind, found.schema_id, found.value) == (kind, schema_id, value)


def test_schemas_that_cannot_be_read_with_are_told_and_asked_for_seldom(
    a_registry: Registry,
) -> None:
    reader = FramedReader(a_registry.client, lambda: a_registry.now)
    decoder = Decoder(read_framed=reader)

    assert "no schema 9" in str(decoder.decode(b"\0\0\0\0\x09\xff").problem)
    assert "no Avro" in str(decoder.decode(b"\0\0\0\0\x01\xff").problem)
    a_registry.away = True
    assert "no registry answers" in str(decoder.decode(b"\0\0\0\0\x02{}").problem)
    asked = a_registry.asked
    for schema_id in range(20):
        decoder.decode(bytes([0, 0, 0, 1, schema_id]) + b"{}")
    assert a_registry.asked == asked
    a_registry.away, a_registry.now = False, AWAY_S + 1
    assert decoder.decode(b"\0\0\0\0\x02{}").kind == "json"


def test_a_library_that_is_missing_is_named(
    a_registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "fastavro", None)
    found = Decoder(read_framed=FramedReader(a_registry.client)).decode(b"\0\0\0\0\1\x02")
    assert "pip install raftka[registry]" in str(found.problem)
    with pytest.raises(ApiError, match=r"pip install raftka\[registry\]"):
        written(ORDER, 1)


@pytest.mark.parametrize(
    ("schema_id", "value", "status"),
    [
        (1, {"id": "no number"}, 400),
        (3, {"idd": 1}, 400),
        (3, 5, 400),
        (9, {}, 404),
        (-1, {}, 400),
        ("1", {}, 400),
    ],
)
def test_a_value_that_does_not_fit_is_refused(
    a_registry: Registry, schema_id: int, value: Json, status: int
) -> None:
    with pytest.raises(ApiError) as refused:
        written(value, schema_id)
    assert refused.value.status == status


def test_a_registry_that_is_away_is_told(a_registry: Registry) -> None:
    a_registry.away = True
    with pytest.raises(ApiError) as refused:
        written({}, 2)
    assert refused.value.status == 503


def test_consoles_with_the_same_settings_share_a_decoder() -> None:
    first = ConsoleSettings([("localhost", 1)], masked=["a"])
    assert registry.decoder_of(first) is registry.decoder_of(first)
    assert registry.client_of(first) is None
