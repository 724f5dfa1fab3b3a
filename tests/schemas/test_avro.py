"""Avro: what is a schema, what is the same schema, and what a reader can read."""

import io
import json
from typing import Any

import avro.compatibility
import avro.schema
import fastavro
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from raftka.schemas.formats import avro as ours
from raftka.schemas.formats import pairs
from raftka.schemas.formats.schema import MAX_BYTES, InvalidSchema, Reference


def parse(value: Any, *references: tuple[str, Any]) -> ours.AvroSchema:
    return ours.parse(
        json.dumps(value), [Reference(name, json.dumps(text)) for name, text in references]
    )


def record(*fields: dict, name: str = "R", **more: Any) -> dict:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(type_: Any, name: str = "f", **more: Any) -> dict:
    return {"name": name, "type": type_, **more}


def enum(*symbols: str, **more: Any) -> dict:
    return {"type": "enum", "name": "E", "symbols": list(symbols), **more}


def problems(reader: Any, writer: Any) -> list[str]:
    return ours.incompatibilities(parse(reader), parse(writer))


FIXED = {"type": "fixed", "name": "F", "size": 4}
LINKED = record(field(["null", "R"], "next"), field("int", "value"))

READABLE = [  # reader, writer
    ("long", "int"),
    ("float", "int"),
    ("float", "long"),
    ("double", "int"),
    ("double", "long"),
    ("double", "float"),
    ("string", "bytes"),
    ("bytes", "string"),
    ({"type": "int", "logicalType": "date"}, "int"),
    (record(field("int", default=1)), record()),
    (record(), record(field("int"))),
    (record(field("int", "new", aliases=["old"])), record(field("int", "old"))),
    (record(name="New", aliases=["R"]), record()),
    (record(name="a.R"), record(name="b.R")),
    (record(name="New", aliases=["b.Old"], namespace="a"), record(name="b.Old")),
    (record(field(["null", "int"], default=None)), record()),
    (enum("A", "B"), enum("A")),
    (enum("A", "X", default="X"), enum("A", "B")),
    (["null", "int"], "int"),
    (["null", "int"], ["int"]),
    (["null", "long"], ["int", "null"]),
    ("int", ["int"]),
    ({"type": "array", "items": "long"}, {"type": "array", "items": "int"}),
    ({"type": "map", "values": "long"}, {"type": "map", "values": "int"}),
    (FIXED, FIXED),
    (LINKED, LINKED),
    (record(field(["null", "R"], "next"), field("long", "value")), LINKED),
]

UNREADABLE = [  # reader, writer, what is told
    ("int", "long", "TYPE_MISMATCH at /: the reader has int, the writer long"),
    ("float", "double", "TYPE_MISMATCH at /: the reader has float, the writer double"),
    ("null", "int", "TYPE_MISMATCH at /: the reader has null, the writer int"),
    ("string", "int", "TYPE_MISMATCH at /: the reader has string, the writer int"),
    (record(), "int", "TYPE_MISMATCH at /: the reader has record R, the writer int"),
    (
        record(field("int")),
        record(),
        "READER_FIELD_MISSING_DEFAULT_VALUE at /fields/0: the reader's field f has no default, "
        "and the writer has no field of that name",
    ),
    (
        record(field("int")),
        record(field("string")),
        "TYPE_MISMATCH at /fields/0/type: the reader has int, the writer string",
    ),
    (
        record(name="New"),
        record(),
        "NAME_MISMATCH at /name: the reader's record is New, the writer's is R, which is no alias "
        "of the former",
    ),
    (
        enum("A"),
        enum("B", "A"),
        "MISSING_ENUM_SYMBOLS at /symbols: the reader's E lacks symbols of the writer and has no "
        "default: B",
    ),
    (
        FIXED,
        {**FIXED, "size": 5},
        "FIXED_SIZE_MISMATCH at /size: the reader's F has 4 bytes, the writer's has 5",
    ),
    (
        ["null", "int"],
        "string",
        "MISSING_UNION_BRANCH at /: no branch of the reader's union can read the writer's string",
    ),
    (
        ["null", "int"],
        ["int", "string"],
        "MISSING_UNION_BRANCH at /1: no branch of the reader's union can read the writer's string",
    ),
    ("int", ["int", "null"], "TYPE_MISMATCH at /: the reader has int, the writer null"),
    (
        {"type": "array", "items": "int"},
        {"type": "array", "items": "long"},
        "TYPE_MISMATCH at /items: the reader has int, the writer long",
    ),
    (
        {"type": "map", "values": "int"},
        {"type": "map", "values": "long"},
        "TYPE_MISMATCH at /values: the reader has int, the writer long",
    ),
    (
        record(field(["null", "R"], "next"), field("string", "value")),
        LINKED,
        "TYPE_MISMATCH at /fields/1/type: the reader has string, the writer int",
    ),
]


@pytest.mark.parametrize(("reader", "writer"), READABLE, ids=json.dumps)
def test_readable(reader: Any, writer: Any) -> None:
    assert problems(reader, writer) == []


@pytest.mark.parametrize(("reader", "writer", "told"), UNREADABLE, ids=json.dumps)
def test_unreadable_is_told_with_its_path(reader: Any, writer: Any, told: str) -> None:
    assert told in problems(reader, writer)


def test_all_problems_are_told() -> None:
    reader = record(
        field("int", "a"), field("int", "b"), field(record(field("int", "d"), name="S"), "c")
    )
    writer = record(field("string", "a"), field(record(name="S"), "c"))

    assert [each.partition(":")[0] for each in problems(reader, writer)] == [
        "READER_FIELD_MISSING_DEFAULT_VALUE at /fields/1",
        "TYPE_MISMATCH at /fields/0/type",
        "READER_FIELD_MISSING_DEFAULT_VALUE at /fields/2/type/fields/0",
    ]


REFUSED = [
    ("", "the text is no JSON"),
    ("string", "the text is no JSON"),
    ("{", "the text is no JSON"),
    ("NaN", "the text is no JSON"),
    ("9" * 5000, "the text is no JSON"),
    ("1", "1 is no type"),
    ("{}", "no name of a type"),
    ('{"type":{"type":"int"}}', "no name of a type"),
    ('"strin"', '"strin" is neither a type of Avro nor one that is defined'),
    ('{"type":"array"}', 'no attribute "items"'),
    ('["int","int"]', "a union has int twice"),
    ('["int",["null"]]', "a union is directly in another one"),
    ('{"type":"record","fields":[]}', "a record has no name"),
    ('{"type":"record","name":"a-b","fields":[]}', 'the name "a-b" is none for Avro'),
    ('{"type":"record","name":"a..b","fields":[]}', 'the name "a..b" is none for Avro'),
    ('{"type":"record","name":"int","fields":[]}', "int is a type of Avro and cannot be defined"),
    ('{"type":"record","name":"R"}', "record R has no list of fields"),
    (
        '{"type":"record","name":"R","aliases":"S","fields":[]}',
        '"aliases" of R is no list of strings',
    ),
    (json.dumps(record({"type": "int"})), "a field of R has no name"),
    (json.dumps(record({"name": "f"})), "field f of R has no type"),
    (json.dumps(record(field("int"), field("int"))), "R has the field f twice"),
    (json.dumps(record(field("int", order="up"))), 'has the order "up"'),
    (json.dumps(record(field(record(), "g"))), "R is defined twice"),
    (json.dumps(record(field("S"))), '"S" is neither a type'),
    (json.dumps(enum("A", "A")), "enum E has a symbol twice"),
    (json.dumps(enum("1")), 'symbol "1" of E is none for Avro'),
    (json.dumps(enum("A", default="B")), 'the default "B" of enum E is none of its symbols'),
    ('{"type":"enum","name":"E","symbols":"AB"}', '"symbols" of E is no list of strings'),
    ('{"type":"enum","name":"E"}', "enum E has no symbols"),
    ('{"type":"fixed","name":"F","size":-1}', "the size of fixed F is no number of bytes: -1"),
    ('{"type":"fixed","name":"F","size":true}', "the size of fixed F is no number of bytes: true"),
    (
        json.dumps(record(field({"type": "int", "x": 1e308}))).replace("1e+308", "1e999"),
        "beyond the range of a double",
    ),
    ('"\\ud800"', "half of a surrogate pair"),
]


@pytest.mark.parametrize(("text", "told"), REFUSED)
def test_no_schema_is_refused_with_the_reason(text: str, told: str) -> None:
    with pytest.raises(InvalidSchema) as refusal:
        ours.parse(text, [])

    assert told in str(refusal.value)


DEFAULTS = [  # type, values that are of it, values that are not
    ("null", [None], [0, "null"]),
    ("boolean", [True, False], [0, "true", None]),
    ("int", [0, -(2**31), 2**31 - 1], [2**31, 1.0, True, "1"]),
    ("long", [2**63 - 1], [2**63, 1.5]),
    ("float", [1, 1.5], ["NaN", True]),
    ("double", [1, 1.5], [None]),
    ("string", ["", "\u20ac"], [1, None]),
    ("bytes", ["\u00ff"], ["\u20ac", 1]),
    (FIXED, ["\u0000abc"], ["abc", 1]),
    (enum("A", "B"), ["B"], ["C", 0, []]),
    ({"type": "array", "items": "int"}, [[], [1, 2]], [{}, ["a"]]),
    ({"type": "map", "values": "int"}, [{}, {"a": 1}], [[], {"a": "b"}]),
    (["null", "int"], [None, 3], ["x"]),
    (["int", "null"], [None, 3], ["x"]),
    (
        record(field("int", "a"), field("int", "b", default=1), name="S"),
        [{"a": 1}, {"a": 1, "b": 2}],
        [{}, {"a": "x"}, {"a": 1, "b": "x"}, 1],
    ),
]


@pytest.mark.parametrize(("type_", "valid", "invalid"), DEFAULTS, ids=json.dumps)
def test_defaults_are_validated(type_: Any, valid: list, invalid: list) -> None:
    for default in valid:
        parse(record(field(type_, default=default)))
    for default in invalid:
        with pytest.raises(InvalidSchema, match=r"the default .* of field f of R is no"):
            parse(record(field(type_, default=default)))


def test_a_default_that_contains_itself_is_refused() -> None:
    with pytest.raises(InvalidSchema, match="is no record R"):
        parse(record(field("R", default={})))


def test_white_space_is_lost_and_nothing_else() -> None:
    text = (
        '{ "name": "R", "type": "record", "doc": "d\u00e9j\u00e0",\n "x": [1.5, {"b": 1, "a": '
        "null}],"
    )
    text += ' "fields": [{"type": {"type": "int"}, "name": "f"}] }'

    parsed = ours.parse(text, [])

    assert parsed.text == (
        '{"name":"R","type":"record","doc":"d\u00e9j\u00e0","x":[1.5,{"b":1,"a":null}],'
        '"fields":[{"type":"int","name":"f"}]}'
    )


def test_plain_types_are_written_as_their_names() -> None:
    assert parse({"type": "string"}).text == '"string"'
    assert parse({"type": "string", "a": 1}).text == '{"type":"string","a":1}'
    assert (
        parse([{"type": "null"}, {"type": "array", "items": {"type": "int"}}]).text
        == '["null",{"type":"array","items":"int"}]'
    )


def test_canonical_schemas_have_one_order_and_short_names() -> None:
    one = {
        "fields": [
            {"order": "ascending", "type": "a.b.R", "name": "f", "z": 1, "doc": "d", "y": 2}
        ],
        "aliases": ["a.b.Q"],
        "name": "a.b.R",
        "zz": 0,
        "type": "record",
    }
    other = {
        "type": "record",
        "zz": 0,
        "namespace": "a.b",
        "name": "R",
        "aliases": ["Q"],
        "fields": [{"name": "f", "doc": "d", "y": 2, "z": 1, "type": "R"}],
    }

    assert parse(one).text != parse(other).text
    assert parse(one).canonical == parse(other).canonical
    assert parse(one).normalized == (
        '{"type":"record","name":"R","namespace":"a.b","fields":[{"name":"f","type":"R","doc":"d",'
        '"y":2,"z":1}],"aliases":["Q"],"zz":0}'
    )


def test_references_are_known_by_their_full_names() -> None:
    street = record(field("string", "name"), name="Street", namespace="geo")
    city = record(field("Street", "main"), name="City", namespace="geo")
    person = record(field("geo.City"), field("geo.Street", "g"), name="Person")

    parsed = parse(person, ("street", street), ("city", city))

    assert parsed.text == json.dumps(person, separators=(",", ":"))
    assert ours.incompatibilities(parsed, parsed) == []
    with pytest.raises(InvalidSchema, match=r'reference "city": "geo.Street" is neither'):
        parse(person, ("city", city), ("street", street))
    changed = parse(
        person,
        ("street", record(field("int", "name"), name="Street", namespace="geo")),
        ("city", city),
    )
    assert ours.incompatibilities(changed, parsed) == [
        "TYPE_MISMATCH at /fields/1/type/fields/0/type: the reader has int, the writer string",
    ]


def test_a_name_without_namespace_is_found_from_within_one() -> None:
    parsed = parse(record(field(record(name="S")), field(record(field("S"), name="n.T"), "g")))

    assert ours.parse(parsed.normalized, []).canonical == parsed.normalized


HOSTILE = {
    "deep": '{"type":"array","items":' * 100_000 + '"int"' + "}" * 100_000,
    "deep lists": "[" * 200_000,
    "too large": '"' + "x" * MAX_BYTES + '"',
    "a chain of defaults": json.dumps(
        record(
            *(
                field(
                    record(field(f"R{n - 1}", default={}), name=f"R{n}")
                    if n
                    else record(name="R0"),
                    f"f{n}",
                    default={},
                )
                for n in range(300)
            ),
            field("R299", "last", default={}),
        )
    ),
}


@pytest.mark.parametrize("name", ["deep", "deep lists", "too large"])
def test_hostile_texts_are_refused(name: str) -> None:
    with pytest.raises(InvalidSchema):
        ours.parse(HOSTILE[name], [])


def test_references_count_as_well() -> None:
    with pytest.raises(InvalidSchema, match="1048576 are allowed"):
        ours.parse(
            '"int"', [Reference(str(n), json.dumps("x" * (MAX_BYTES // 3))) for n in range(3)]
        )


def test_chains_of_types_and_of_defaults_end() -> None:
    """Ten thousand types, each with the one before: no recursion follows them."""
    chained = ours.parse(HOSTILE["a chain of defaults"], [])
    names = [record(*([field(f"R{n - 1}")] if n else []), name=f"R{n}") for n in range(10_000)]
    long = parse([*names, record(field("R9999"), name="Last")])

    assert ours.incompatibilities(chained, chained) == []
    assert ours.incompatibilities(long, long) == []


def test_large_schemas_have_linear_cost() -> None:
    """Half of a megabyte of fields; and unions of a thousand records on both sides, of which each
    pair would be a million.
    """
    wide = parse(record(*(field("int", f"f{n}") for n in range(20_000))))
    union = parse([record(field("int"), name=f"R{n}") for n in range(5_000)])

    assert ours.incompatibilities(wide, wide) == []
    assert ours.incompatibilities(union, union) == []


def test_more_combinations_than_are_allowed_are_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of the reader's records goes by the names of all of the writer's."""
    names = [f"W{n}" for n in range(40)]
    writer = [record(field("int"), name=name) for name in names]
    reader = [record(field("int"), name=f"R{n}", aliases=names) for n in range(40)]
    assert problems(reader, writer) == []

    monkeypatch.setattr(pairs, "MAX_STEPS", 1000)

    assert problems(reader, writer) == [
        "TOO_COMPLEX at /: the schemas have too many combinations of parts to compare"
    ]


def test_fields_of_many_pairs_are_counted() -> None:
    """No field is compared, but each is looked at for each of the writer's records."""
    names = [f"W{n}" for n in range(2000)]
    reader = parse(
        record(*(field("int", f"f{n}", default=0) for n in range(10_000)), aliases=names)
    )

    found = ours.incompatibilities(reader, parse([record(name=name) for name in names]))

    assert found == ["TOO_COMPLEX at /: the schemas have too many combinations of parts to compare"]


def test_messages_are_bounded() -> None:
    name = "x" * 100_000

    assert len(problems(record(field("int", name)), record())[0]) < 2100
    with pytest.raises(InvalidSchema) as refusal:
        parse(record(field("int", name), field("int", name)))
    assert len(str(refusal.value)) < 1100


def test_problems_are_bounded() -> None:
    reader = record(*(field("int", f"f{n}") for n in range(1000)))

    assert len(problems(reader, record())) == 100


# Against the avro package: what it parses, what it says of pairs, and what its reader does with
# data.

NAMES = st.sampled_from(["A", "B", "n.A"])
FIELD_NAMES = st.sampled_from(["a", "b", "c"])
PRIMITIVES = st.sampled_from(
    ["null", "boolean", "int", "long", "float", "double", "bytes", "string"]
)


@st.composite
def types(draw: Any, depth: int = 3, in_union: bool = False) -> Any:
    kinds = ["primitive", "primitive", "enum", "fixed"] + (
        ["array", "map", "record", "record"] + ([] if in_union else ["union"]) if depth else []
    )
    kind = draw(st.sampled_from(kinds))
    below = types(depth=depth - 1)
    if kind == "primitive":
        return draw(PRIMITIVES)
    if kind == "enum":
        symbols = draw(st.lists(st.sampled_from("XYZ"), min_size=1, unique=True))
        return {
            "type": "enum",
            "name": draw(NAMES),
            "symbols": symbols,
            **({"default": symbols[0]} if draw(st.booleans()) else {}),
        }
    if kind == "fixed":
        return {"type": "fixed", "name": draw(NAMES), "size": draw(st.integers(1, 2))}
    if kind == "array":
        return {"type": "array", "items": draw(below)}
    if kind == "map":
        return {"type": "map", "values": draw(below)}
    if kind == "union":
        return draw(st.lists(types(depth=depth - 1, in_union=True), min_size=1, max_size=3))
    fields = [
        {"name": name, "type": draw(below), **({"default": 1} if draw(st.booleans()) else {})}
        for name in draw(st.lists(FIELD_NAMES, unique=True, max_size=3))
    ]
    name = draw(NAMES)
    aliases = [
        each for each in draw(st.lists(NAMES, max_size=1)) if "." in each or "." not in name
    ]  # others are of its namespace; the package forgets that
    return {"type": "record", "name": name, "fields": fields, "aliases": aliases}


@st.composite
def changed(draw: Any, value: Any) -> Any:
    """The same schema with one to three leaves drawn anew, so that pairs are often readable."""
    value = json.loads(json.dumps(value))
    for _ in range(draw(st.integers(0, 2))):
        places = list(holders(value))
        if not places:
            return draw(types())
        holder, key = draw(st.sampled_from(places))
        holder[key] = draw(types(depth=1))
    return value


def holders(value: Any) -> Any:
    if isinstance(value, list):
        for index, each in enumerate(value):
            yield value, index
            yield from holders(each)
    elif isinstance(value, dict):
        for key in ("items", "values"):
            if key in value:
                yield value, key
                yield from holders(value[key])
        for each in value.get("fields", ()):
            yield each, "type"
            yield from holders(each["type"])


def parsed_by_both(value: Any) -> tuple[ours.AvroSchema, avro.schema.Schema]:
    try:
        mine = parse(value)
    except InvalidSchema:
        assume(False)
    try:
        return mine, avro.schema.parse(json.dumps(value))
    except avro.errors.SchemaParseException:
        raise AssertionError(f"the avro package refuses {value}") from None


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_verdicts_are_those_of_the_avro_package(data: Any) -> None:
    writer_value = data.draw(types())
    writer, writer_of_avro = parsed_by_both(writer_value)
    reader, reader_of_avro = parsed_by_both(data.draw(changed(writer_value)))
    verdict = avro.compatibility.ReaderWriterCompatibilityChecker().get_compatibility(
        reader_of_avro, writer_of_avro
    )

    found = ours.incompatibilities(reader, writer)

    assert (found == []) == (
        verdict.compatibility is avro.compatibility.SchemaCompatibilityType.compatible
    ), found


def datum(draw: Any, schema: avro.schema.Schema) -> Any:
    kind = schema.type
    if kind == "union":
        branch = draw(st.sampled_from(schema.schemas))
        value = datum(draw, branch)
        return (branch.fullname, value) if branch.type == "record" else value
    if kind == "record":
        return {each.name: datum(draw, each.type) for each in schema.fields}
    if kind == "array":
        return [datum(draw, schema.items) for _ in range(draw(st.integers(0, 2)))]
    if kind == "map":
        return {str(n): datum(draw, schema.values) for n in range(draw(st.integers(0, 2)))}
    if kind == "enum":
        return draw(st.sampled_from(schema.symbols))
    if kind == "fixed":
        return b"x" * schema.size
    return {
        "null": None,
        "boolean": True,
        "int": 1,
        "long": 2,
        "float": 0.5,
        "double": 1.5,
        "bytes": b"ab",
        "string": "cd",
    }[kind]


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_what_has_no_problems_is_really_read(data: Any) -> None:
    """By fastavro, which resolves names in full where the rules compare local ones: there are no
    namespaces here.
    """
    writer_value = data.draw(types())
    writer, writer_of_avro = parsed_by_both(writer_value)
    reader_value = data.draw(changed(writer_value))
    reader, _ = parsed_by_both(reader_value)
    assume("n.A" not in reader.text + writer.text and ours.incompatibilities(reader, writer) == [])
    out = io.BytesIO()
    fastavro.schemaless_writer(out, writer_value, datum(data.draw, writer_of_avro))
    fastavro.schemaless_reader(io.BytesIO(out.getvalue()), writer_value, reader_value)


@settings(max_examples=100, deadline=None)
@given(types())
def test_normalized_schemas_are_schemas_and_stay_as_they_are(value: Any) -> None:
    schema, _ = parsed_by_both(value)

    again = ours.parse(schema.normalized, [])

    assert again.normalized == again.canonical == schema.normalized
    assert ours.incompatibilities(schema, again) == ours.incompatibilities(again, schema) == []
