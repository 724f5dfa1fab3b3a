"""JSON Schema: what is a schema, and which changes reject values that were valid before."""

import json
from typing import Any

import pytest

from raftka.schemas.formats import json_schema
from raftka.schemas.formats.schema import InvalidSchema, Reference

DRAFT_4 = "http://json-schema.org/draft-04/schema#"
DRAFT_7 = "http://json-schema.org/draft-07/schema#"
DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"


def parse(value: Any, *references: tuple[str, Any]) -> json_schema.JsonSchema:
    return json_schema.parse(
        json.dumps(value), [Reference(name, json.dumps(text)) for name, text in references]
    )


def problems(reader: Any, writer: Any) -> list[str]:
    return json_schema.incompatibilities(parse(reader), parse(writer))


def kinds(reader: Any, writer: Any) -> list[str]:
    """The rules that say no, each with its path."""
    return [each.partition(":")[0] for each in problems(reader, writer)]


def properties(required: tuple[str, ...] = (), others: Any = None, /, **types: Any) -> dict:
    found: dict = {
        "type": "object",
        "properties": {
            name: {"type": each} if isinstance(each, str) else each for name, each in types.items()
        },
    }
    if required:
        found["required"] = list(required)
    return found if others is None else {**found, "additionalProperties": others}


def tuple_of(*types: str, rest: Any = None) -> dict:
    found: dict = {"type": "array", "items": [{"type": each} for each in types]}
    return found if rest is None else {**found, "additionalItems": rest}


CLOSED, NUMBERS = False, {"type": "number"}
INT, STRING, NULL = {"type": "integer"}, {"type": "string"}, {"type": "null"}

READABLE = [  # reader, writer
    ({}, STRING),
    (True, {"type": "object"}),
    (STRING, False),
    ({"type": "number"}, INT),
    ({"type": ["string", "null"]}, STRING),
    (
        {"type": "string", "title": "t", "description": "d", "default": "", "examples": []},
        {"type": "string", "$id": "http://x/"},
    ),
    (STRING, {"type": "string", "minLength": 1, "maxLength": 2, "pattern": "a"}),
    (
        {"type": "string", "maxLength": 3, "minLength": 1},
        {"type": "string", "maxLength": 2, "minLength": 2},
    ),
    ({"type": "string", "minLength": 0}, STRING),
    ({"type": "string", "format": "date"}, STRING),
    (
        {"type": "number", "maximum": 2, "minimum": 0},
        {"type": "number", "maximum": 1.5, "exclusiveMinimum": 0},
    ),
    ({"type": "number", "exclusiveMaximum": 2}, {"type": "number", "maximum": 1}),
    ({"type": "number", "multipleOf": 0.1}, {"type": "number", "multipleOf": 0.3}),
    ({"type": "number", "multipleOf": 0.5}, INT),
    ({"type": "string", "maximum": 1}, STRING),
    ({"enum": ["a", "b", 1]}, {"enum": ["a", 1.0]}),
    ({"enum": ["a", "b"]}, {"const": "a"}),
    (STRING, {"enum": ["a", "b"]}),
    (STRING, {"type": "string", "enum": ["a"]}),
    ({"type": "string", "enum": ["b", "a"]}, {"type": "string", "enum": ["a"]}),
    (properties((), CLOSED, a="string", b="string"), properties((), CLOSED, a="string")),
    (
        properties(("b",), CLOSED, a="string", b={"type": "string", "default": ""}),
        properties((), CLOSED, a="string"),
    ),
    (properties((), None, a="string"), properties((), None, a="string", b="string")),
    (properties((), None, a="string"), properties(("a",), None, a="string")),
    (
        properties(("a",), None, a={"type": "string", "default": "x"}),
        properties((), None, a="string"),
    ),
    (properties((), NUMBERS, a="string"), properties((), NUMBERS, a="string", b="integer")),
    (properties((), NUMBERS, a="string", b="number"), properties((), NUMBERS, a="string")),
    (properties((), None, a="string"), properties((), CLOSED, a="string")),
    (properties((), NUMBERS), properties((), CLOSED)),
    (properties((), None, a={}), properties()),
    (properties((), CLOSED), properties((), CLOSED, a=False)),
    ({"patternProperties": {"^a": NUMBERS}}, {"patternProperties": {"^a": INT, "^b": STRING}}),
    (
        {"patternProperties": {"^a": NUMBERS}, "additionalProperties": False},
        properties((), CLOSED, a="integer"),
    ),
    ({"type": "object", "maxProperties": 2}, {"type": "object", "maxProperties": 1}),
    (
        {"type": "object", "propertyNames": {"maxLength": 3}},
        {"type": "object", "propertyNames": {"maxLength": 2}},
    ),
    ({"dependencies": {"a": ["b"]}}, {"dependencies": {"a": ["b", "c"]}}),
    ({}, {"dependencies": {"a": ["b"], "b": STRING}}),
    (
        {"dependencies": {"a": properties((), None, b="number")}},
        {"dependencies": {"a": properties((), None, b="integer")}},
    ),
    ({"type": "array", "items": NUMBERS}, {"type": "array", "items": INT}),
    ({"type": "array"}, {"type": "array", "items": INT, "minItems": 1, "uniqueItems": True}),
    (tuple_of("number"), tuple_of("integer", "string")),
    (tuple_of("integer", "string", rest=False), tuple_of("integer", rest=False)),
    (tuple_of("integer", "number", rest=NUMBERS), tuple_of("integer", rest=INT)),
    (tuple_of("integer", rest=NUMBERS), tuple_of("integer", "integer", rest=NUMBERS)),
    ({"type": "array", "contains": NUMBERS}, {"type": "array", "contains": INT}),
    ({"anyOf": [STRING, INT]}, STRING),
    ({"oneOf": [NULL, STRING]}, STRING),
    ({"oneOf": [NULL, STRING, INT]}, {"oneOf": [STRING, NULL]}),
    ({"anyOf": [NUMBERS, STRING]}, {"oneOf": [INT, STRING]}),
    ({"type": ["string", "null"]}, {"oneOf": [STRING, NULL]}),
    ({"oneOf": [STRING, NULL]}, {"anyOf": [STRING]}),
    (STRING, {"allOf": [STRING, {"maxLength": 3}]}),
    ({"allOf": [STRING, {"maxLength": 3}]}, {"type": "string", "maxLength": 2}),
    ({"not": {"type": "integer"}}, {"not": {"type": "number"}}),
    ({"if": STRING, "then": {"maxLength": 3}}, {"if": STRING, "then": {"maxLength": 2}}),
    ({"type": "string", "connect.type": "bytes"}, {"type": "number", "connect.type": "bytes"}),
    (
        {"definitions": {"a": NUMBERS}, "properties": {"x": {"$ref": "#/definitions/a"}}},
        {"properties": {"x": INT}},
    ),
    (
        {"$ref": "http://json-schema.org/draft-07/schema#"},
        {"$ref": "http://json-schema.org/draft-07/schema#"},
    ),
]

UNREADABLE = [  # reader, writer, rules
    (False, STRING, ["TYPE_CHANGED at /"]),
    (STRING, True, ["TYPE_NARROWED at /"]),
    (STRING, INT, ["TYPE_CHANGED at /"]),
    (STRING, {"type": ["string", "null"]}, ["TYPE_NARROWED at /"]),
    (INT, {"type": "number"}, ["TYPE_NARROWED at /"]),
    ({"type": "string", "maxLength": 2}, STRING, ["MAX_LENGTH_ADDED at /maxLength"]),
    (
        {"type": "string", "maxLength": 2},
        {"type": "string", "maxLength": 3},
        ["MAX_LENGTH_DECREASED at /maxLength"],
    ),
    ({"type": "string", "minLength": 2}, STRING, ["MIN_LENGTH_ADDED at /minLength"]),
    (
        {"type": "string", "minLength": 2},
        {"type": "string", "minLength": 1},
        ["MIN_LENGTH_INCREASED at /minLength"],
    ),
    ({"type": "string", "pattern": "a"}, STRING, ["PATTERN_ADDED at /pattern"]),
    (
        {"type": "string", "pattern": "a"},
        {"type": "string", "pattern": "b"},
        ["PATTERN_CHANGED at /pattern"],
    ),
    ({"type": "number", "maximum": 2}, NUMBERS, ["MAXIMUM_ADDED at /maximum"]),
    (
        {"type": "number", "maximum": 2},
        {"type": "number", "maximum": 3},
        ["MAXIMUM_DECREASED at /maximum"],
    ),
    (
        {"type": "number", "minimum": 2},
        {"type": "number", "minimum": 1},
        ["MINIMUM_INCREASED at /minimum"],
    ),
    (
        {"type": "number", "exclusiveMaximum": 2},
        {"type": "number", "maximum": 2},
        ["EXCLUSIVE_MAXIMUM_DECREASED at /exclusiveMaximum"],
    ),
    (
        {"type": "number", "exclusiveMinimum": 2},
        NUMBERS,
        ["EXCLUSIVE_MINIMUM_ADDED at /exclusiveMinimum"],
    ),
    ({"type": "number", "multipleOf": 2}, NUMBERS, ["MULTIPLE_OF_ADDED at /multipleOf"]),
    (
        {"type": "number", "multipleOf": 4},
        {"type": "number", "multipleOf": 2},
        ["MULTIPLE_OF_EXPANDED at /multipleOf"],
    ),
    (
        {"type": "number", "multipleOf": 3},
        {"type": "number", "multipleOf": 2},
        ["MULTIPLE_OF_CHANGED at /multipleOf"],
    ),
    ({"enum": ["a"]}, {"enum": ["a", "b"]}, ["ENUM_ARRAY_NARROWED at /enum"]),
    ({"enum": ["a", "c"]}, {"enum": ["a", "b"]}, ["ENUM_ARRAY_CHANGED at /enum"]),
    ({"const": 1}, {"const": True}, ["ENUM_ARRAY_CHANGED at /enum"]),
    ({"type": "string", "enum": ["a"]}, STRING, ["ENUM_ARRAY_NARROWED at /enum"]),
    (
        properties((), None, a="string"),
        properties(),
        ["OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL at /properties/a"],
    ),
    (
        properties(("a",), None, a="string"),
        properties(),
        ["REQUIRED_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL at /properties/a"],
    ),
    (
        properties(("a",), None, a={"type": "string", "default": ""}),
        properties(),
        ["REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL at /properties/a"],
    ),
    (
        properties(("a",), CLOSED, a="string"),
        properties((), CLOSED),
        ["REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL at /properties/a"],
    ),
    (
        properties(("a",), None, a="string"),
        properties((), None, a="string"),
        ["REQUIRED_ATTRIBUTE_ADDED at /required/a"],
    ),
    ({"required": ["a"]}, {}, ["REQUIRED_ATTRIBUTE_ADDED at /required/a"]),
    (
        properties((), CLOSED),
        properties((), CLOSED, a="string"),
        ["PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL at /properties/a"],
    ),
    (
        properties((), NUMBERS),
        properties((), NUMBERS, a="string"),
        [
            "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL at /properties/a",
            "TYPE_CHANGED at /properties/a",
        ],
    ),
    (
        properties((), NUMBERS, a="string"),
        properties((), NUMBERS),
        [
            "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL at /properties/a",
            "TYPE_CHANGED at /properties/a",
        ],
    ),
    (
        properties((), None, a="string"),
        properties((), None, a="integer"),
        ["TYPE_CHANGED at /properties/a"],
    ),
    (
        properties((), None, a="string"),
        properties((), None, a={}),
        ["TYPE_NARROWED at /properties/a"],
    ),
    (
        properties((), CLOSED),
        properties(),
        ["ADDITIONAL_PROPERTIES_REMOVED at /additionalProperties"],
    ),
    (
        properties((), NUMBERS),
        properties(),
        ["ADDITIONAL_PROPERTIES_NARROWED at /additionalProperties"],
    ),
    (properties((), INT), properties((), NUMBERS), ["TYPE_NARROWED at /additionalProperties"]),
    (
        {"patternProperties": {"^a": INT}},
        {},
        [
            "PATTERN_PROPERTY_ADDED at /patternProperties/^a",
            "TYPE_NARROWED at /patternProperties/^a",
        ],
    ),
    (
        {"patternProperties": {"^a": INT}},
        {"patternProperties": {"^a": NUMBERS}},
        ["TYPE_NARROWED at /patternProperties/^a"],
    ),
    (
        {"additionalProperties": False},
        {"patternProperties": {"^a": INT}, "additionalProperties": False},
        [
            "PATTERN_PROPERTY_REMOVED at /patternProperties/^a",
            "TYPE_CHANGED at /patternProperties/^a",
        ],
    ),
    ({"maxProperties": 1}, {"maxProperties": 2}, ["MAX_PROPERTIES_DECREASED at /maxProperties"]),
    ({"minProperties": 1}, {}, ["MIN_PROPERTIES_ADDED at /minProperties"]),
    (
        {"propertyNames": {"maxLength": 3}},
        {},
        [
            "PROPERTY_NAMES_NARROWED at /propertyNames",
            "MAX_LENGTH_ADDED at /propertyNames/maxLength",
        ],
    ),
    ({"dependencies": {"a": ["b"]}}, {}, ["DEPENDENCY_ARRAY_ADDED at /dependencies/a"]),
    (
        {"dependencies": {"a": ["b", "c"]}},
        {"dependencies": {"a": ["b"]}},
        ["DEPENDENCY_ARRAY_EXTENDED at /dependencies/a"],
    ),
    (
        {"dependencies": {"a": ["b"]}},
        {"dependencies": {"a": ["c"]}},
        ["DEPENDENCY_ARRAY_CHANGED at /dependencies/a"],
    ),
    ({"dependencies": {"a": STRING}}, {}, ["DEPENDENCY_SCHEMA_ADDED at /dependencies/a"]),
    ({"items": INT}, {}, ["ADDITIONAL_ITEMS_NARROWED at /items"]),
    ({"items": INT}, {"items": STRING}, ["TYPE_CHANGED at /items"]),
    ({"maxItems": 1}, {"maxItems": 2}, ["MAX_ITEMS_DECREASED at /maxItems"]),
    ({"minItems": 1}, {}, ["MIN_ITEMS_ADDED at /minItems"]),
    ({"uniqueItems": True}, {}, ["UNIQUE_ITEMS_ADDED at /uniqueItems"]),
    (
        tuple_of("integer", rest=False),
        tuple_of("integer"),
        ["ADDITIONAL_ITEMS_REMOVED at /additionalItems"],
    ),
    (
        tuple_of("integer", rest=False),
        tuple_of("integer", "string", rest=False),
        ["ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL at /items/1", "TYPE_CHANGED at /items/1"],
    ),
    (
        tuple_of("integer", rest=NUMBERS),
        tuple_of("integer", "string", rest=NUMBERS),
        [
            "ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL at /items/1",
            "TYPE_CHANGED at /items/1",
        ],
    ),
    (
        tuple_of("integer", "string"),
        tuple_of("integer"),
        ["ITEM_ADDED_TO_OPEN_CONTENT_MODEL at /items/1", "TYPE_NARROWED at /items/1"],
    ),
    (
        tuple_of("integer", "string", rest=NUMBERS),
        tuple_of("integer", rest=NUMBERS),
        [
            "ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL at /items/1",
            "TYPE_CHANGED at /items/1",
        ],
    ),
    ({"contains": INT}, {}, ["MIN_CONTAINS_INCREASED at /contains"]),
    ({"contains": INT}, {"contains": STRING}, ["TYPE_CHANGED at /contains"]),
    ({"anyOf": [STRING, INT]}, NULL, ["COMBINED_TYPE_SUBSCHEMAS_CHANGED at /anyOf"]),
    (
        {"oneOf": [STRING, INT]},
        {"oneOf": [STRING, NULL]},
        ["COMBINED_TYPE_SUBSCHEMAS_CHANGED at /oneOf/1"],
    ),
    (STRING, {"oneOf": [STRING, NULL]}, ["TYPE_CHANGED at /oneOf/1"]),
    ({"oneOf": [STRING, INT]}, {"anyOf": [STRING, INT]}, ["COMBINED_TYPE_CHANGED at /"]),
    ({"allOf": [STRING, {"maxLength": 3}]}, STRING, ["MAX_LENGTH_ADDED at /maxLength"]),
    ({"not": {"type": "number"}}, {"not": {"type": "integer"}}, ["NOT_TYPE_EXTENDED at /not"]),
    ({"not": {"type": "number"}}, {}, ["NOT_TYPE_EXTENDED at /not"]),
    ({"if": STRING, "then": {"maxLength": 3}}, {}, ["CONDITION_CHANGED at /if"]),
    (
        {"if": INT, "then": {"maximum": 3}},
        {"if": NUMBERS, "then": {"maximum": 3}},
        ["CONDITION_CHANGED at /if"],
    ),
    ({"$ref": "http://json-schema.org/draft-07/schema#"}, {}, ["TYPE_CHANGED at /"]),
]


@pytest.mark.parametrize(("reader", "writer"), READABLE, ids=json.dumps)
def test_readable(reader: Any, writer: Any) -> None:
    assert problems(reader, writer) == []


@pytest.mark.parametrize(("reader", "writer", "told"), UNREADABLE, ids=json.dumps)
def test_unreadable_is_told_with_rule_and_path(reader: Any, writer: Any, told: list[str]) -> None:
    assert kinds(reader, writer) == told


DRAFTS = [  # draft, reader, writer, rules
    (
        DRAFT_4,
        {"maximum": 2, "exclusiveMaximum": True},
        {"maximum": 2},
        ["MAXIMUM_DECREASED at /maximum"],
    ),
    (DRAFT_4, {"maximum": 2}, {"maximum": 2, "exclusiveMaximum": True}, []),
    (
        DRAFT_2020,
        {"prefixItems": [INT], "items": False},
        {"prefixItems": [INT]},
        ["ADDITIONAL_ITEMS_REMOVED at /items"],
    ),
    (
        DRAFT_2020,
        {"prefixItems": [NUMBERS, STRING], "items": False},
        {"prefixItems": [INT], "items": False},
        [],
    ),
    (
        DRAFT_2020,
        {"dependentRequired": {"a": ["b"]}},
        {},
        ["DEPENDENCY_ARRAY_ADDED at /dependentRequired/a"],
    ),
    (DRAFT_2020, {"dependentRequired": {"a": ["b"]}}, {"dependentRequired": {"a": ["b", "c"]}}, []),
    (
        DRAFT_2020,
        {"dependentSchemas": {"a": INT}},
        {"dependentSchemas": {"a": NUMBERS}},
        ["TYPE_NARROWED at /dependentSchemas/a"],
    ),
    (
        DRAFT_2020,
        {"unevaluatedProperties": False},
        {},
        ["UNEVALUATED_PROPERTIES_REMOVED at /unevaluatedProperties"],
    ),
    (
        DRAFT_2020,
        {"unevaluatedProperties": INT},
        {},
        ["UNEVALUATED_PROPERTIES_NARROWED at /unevaluatedProperties"],
    ),
    (DRAFT_2020, {}, {"unevaluatedProperties": False}, []),
    (
        DRAFT_2020,
        properties((), None, a="string"),
        {"type": "object", "unevaluatedProperties": False},
        [],
    ),
    (
        DRAFT_2020,
        {"unevaluatedItems": False},
        {},
        ["UNEVALUATED_ITEMS_REMOVED at /unevaluatedItems"],
    ),
    (
        DRAFT_2020,
        {"contains": INT, "minContains": 2},
        {"contains": INT},
        ["MIN_CONTAINS_INCREASED at /contains"],
    ),
    (DRAFT_2020, {"contains": INT, "minContains": 0}, {}, []),
    (
        DRAFT_2020,
        {"contains": INT, "maxContains": 2},
        {"contains": INT},
        ["MAX_CONTAINS_DECREASED at /maxContains"],
    ),
    (DRAFT_2020, {"contains": INT, "maxContains": 2}, {"contains": INT, "maxContains": 1}, []),
    (
        DRAFT_2020,
        {"contains": NUMBERS, "maxContains": 2},
        {"contains": INT, "maxContains": 1},
        ["MAX_CONTAINS_DECREASED at /contains"],
    ),
    (
        DRAFT_2020,
        {"$ref": "#/$defs/a", "maxLength": 3, "$defs": {"a": STRING}},
        STRING,
        ["MAX_LENGTH_ADDED at /maxLength"],
    ),
    (DRAFT_7, {"$ref": "#/$defs/a", "maxLength": 3, "$defs": {"a": STRING}}, STRING, []),
    (
        DRAFT_2020,
        properties((), None, a="integer"),
        {
            "type": "object",
            "allOf": [properties((), None, a="string")],
            "unevaluatedProperties": False,
        },
        ["OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL at /properties/a"],
    ),
]


@pytest.mark.parametrize(("draft", "reader", "writer", "told"), DRAFTS)
def test_keywords_of_drafts(draft: str, reader: Any, writer: Any, told: list[str]) -> None:
    assert kinds({"$schema": draft, **reader}, {"$schema": draft, **writer}) == told


REFERRING = [  # ways to write that a property is a string
    {"properties": {"x": {"$ref": "#/definitions/a"}}, "definitions": {"a": STRING}},
    {"properties": {"x": {"$ref": "#/$defs/a"}}, "definitions": {"a": STRING}},
    {"properties": {"x": {"$ref": "#/definitions/a~1b%20c~0"}}, "definitions": {"a/b c~": STRING}},
    {"properties": {"x": {"$ref": "#/elsewhere/0"}}, "elsewhere": [STRING]},
    {"properties": {"x": {"$ref": "#named"}}, "definitions": {"a": {"$id": "#named", **STRING}}},
    {
        "$schema": DRAFT_2020,
        "properties": {"x": {"$ref": "#named"}},
        "$defs": {"a": {"$anchor": "named", **STRING}},
    },
    {
        "$id": "http://h/root",
        "properties": {"x": {"$ref": "http://h/root#/definitions/a"}},
        "definitions": {"a": STRING},
    },
    {
        "$id": "http://h/root",
        "properties": {"x": {"$ref": "part"}},
        "definitions": {"a": {"$id": "http://h/part", **STRING}},
    },
    {"properties": {"x": {"$ref": "other.json"}}},
    {"properties": {"x": {"$ref": "./other.json#"}}},
    {"properties": {"x": {"$ref": "other.json#/definitions/s"}}},
    {"$id": "http://h/dir/root", "properties": {"x": {"$ref": "other.json"}}},
    {"$id": "http://h/dir/root", "properties": {"x": {"$ref": "http://h/dir/other.json"}}},
    {"properties": {"x": {"$ref": "http://other/id"}}},
    {"properties": {"x": {"$ref": "chain.json"}}},
    {"properties": {"x": {"allOf": [{"$ref": "chain.json"}]}}},
]
OTHER = ("other.json", {"$id": "http://other/id", "type": "string", "definitions": {"s": STRING}})
CHAIN = ("chain.json", {"$ref": "other.json"})


@pytest.mark.parametrize("schema", REFERRING, ids=json.dumps)
def test_references_lead_to_schemas(schema: Any) -> None:
    plain, number = parse({"properties": {"x": STRING}}), parse({"properties": {"x": NUMBERS}})
    parsed = parse(schema, OTHER, CHAIN)

    assert (
        json_schema.incompatibilities(parsed, plain)
        == json_schema.incompatibilities(plain, parsed)
        == []
    )
    assert [each.partition(":")[0] for each in json_schema.incompatibilities(number, parsed)] == [
        "TYPE_CHANGED at /properties/x"
    ]


UNRESOLVED = [
    "#/definitions/b",
    "#b",
    "b.json",
    "http://127.0.0.1:1/schema",
    "file:///etc/passwd",
    "#/properties/x/title",
    "#/elsewhere/2",
    "other.json#/x",
]


@pytest.mark.parametrize("reference", UNRESOLVED)
def test_references_to_nothing_are_refused_and_never_fetched(reference: str) -> None:
    with pytest.raises(InvalidSchema, match="leads to no schema"):
        parse(
            {"properties": {"x": {"$ref": reference, "title": "t"}}, "elsewhere": [STRING]}, OTHER
        )


REFUSED = [
    ("", "the text is no JSON"),
    ("[]", "a JSON Schema is an object, true or false"),
    ('"string"', "a JSON Schema is an object, true or false"),
    ('{"type": "strin"}', 'at /type: "strin" is not valid'),
    (
        '{"properties": {"a": {"minLength": "x"}}}',
        'at /properties/a/minLength: "x" is not of type "integer"',
    ),
    (
        '{"$schema": "http://json-schema.org/draft-04/schema#", "required": []}',
        "at /required: [] has less than 1 item",
    ),
    (
        '{"$schema": "https://json-schema.org/draft/2020-12/schema", "prefixItems": {}}',
        "at /prefixItems",
    ),
    ('{"$schema": "https://json-schema.org/draft/2019-09/schema", "$anchor": 1}', "at /$anchor"),
    (
        '{"$schema": "http://json-schema.org/draft-06/schema", "const": 1, "contains": 1}',
        "at /contains",
    ),
    ('{"$schema": "http://127.0.0.1:1/own", "type": 1}', "at /type"),
    ('{"pattern": "["}', "is no regular expression"),
    ('{"patternProperties": {"(": {}}}', "is no regular expression"),
    ('{"$ref": "#/x/0", "x": [{"type": 5}]}', "at /type: 5 is not valid"),
    ('{"const": 1e999}', "beyond the range of a double"),
]


@pytest.mark.parametrize(("text", "told"), REFUSED)
def test_no_schema_is_refused_with_the_reason(text: str, told: str) -> None:
    with pytest.raises(InvalidSchema) as refusal:
        json_schema.parse(text, [])

    assert told in str(refusal.value)


def test_invalid_references_are_told_by_name() -> None:
    with pytest.raises(InvalidSchema, match=r"reference bad\.json: at /type"):
        parse({}, ("bad.json", {"type": "x"}))


def test_expressions_of_java_are_taken() -> None:
    assert problems({"pattern": "\\Aa\\Z"}, {"pattern": "\\Aa\\Z"}) == []


def test_an_expression_that_cannot_be_matched_here_covers_nothing() -> None:
    """It may match the property, or not: neither is taken for granted."""
    java = {"type": "object", "patternProperties": {"\\Aa\\Z": INT}, "additionalProperties": False}

    assert kinds(java, properties((), CLOSED, a="integer")) == [
        "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL at /properties/a"
    ]
    assert "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL at /properties/a" in kinds(
        properties(("a",), CLOSED, a="integer"), java
    )


def test_white_space_is_lost_and_nothing_else() -> None:
    text = '{ "b": 1,\n "a": {"z": [1.5, null], "y": "\u20ac"} }'

    parsed = json_schema.parse(text, [])

    assert parsed.text == parsed.canonical == '{"b":1,"a":{"z":[1.5,null],"y":"\u20ac"}}'
    assert parsed.normalized == '{"a":{"y":"\u20ac","z":[1.5,null]},"b":1}'


RECURSIVE = {
    "type": "object",
    "properties": {"next": {"$ref": "#"}, "value": INT},
    "additionalProperties": False,
}


def test_recursive_schemas_are_compared() -> None:
    wider = {**RECURSIVE, "properties": {"next": {"$ref": "#"}, "value": NUMBERS}}

    assert problems(wider, RECURSIVE) == []
    assert kinds(RECURSIVE, wider) == ["TYPE_NARROWED at /properties/value"]
    assert problems({"$ref": "#"}, {"allOf": [{"$ref": "#"}]}) == []


def test_mutual_recursion_through_choices_is_compared() -> None:
    """The option that takes another one depends on pairs that are compared meanwhile."""

    def trees(leaf: Any) -> Any:
        branch = {
            "type": "object",
            "properties": {"l": {"$ref": "#/definitions/t"}, "r": {"$ref": "#/definitions/t"}},
            "required": ["l", "r"],
        }
        return {"$ref": "#/definitions/t", "definitions": {"t": {"oneOf": [leaf, branch, NULL]}}}

    assert problems(trees(NUMBERS), trees(INT)) == []
    assert problems(trees(INT), trees(NUMBERS)) != []


HOSTILE = {
    "deep": '{"not":' * 100_000 + "{}" + "}" * 100_000,
    "many expressions": json.dumps({"allOf": [{"pattern": f"^{n}$"} for n in range(3000)]}),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts_are_refused(name: str) -> None:
    with pytest.raises(InvalidSchema):
        json_schema.parse(HOSTILE[name], [])


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^((?=a)a|(?=a)aa)+$"])
def test_expressions_that_backtrack_end(pattern: str) -> None:
    """The first one is matched without backtracking; the other has a budget, and then counts as one
    that cannot be matched.
    """
    name = "a" * 5000 + "b"
    reader = {"type": "object", "patternProperties": {pattern: INT}, "additionalProperties": False}

    assert kinds(reader, {**properties((), CLOSED), "properties": {name: INT}}) == [
        f"PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL at ...{name[-1000:]}"
    ]


@pytest.mark.parametrize(
    "schema",
    [
        {
            "$ref": "#/definitions/0",
            "definitions": {
                str(n): {"allOf": [{"$ref": f"#/definitions/{n + 1}"}, INT]} for n in range(2000)
            }
            | {"2000": {}},
        },
        {"allOf": [{"required": [f"r{n}"]} for n in range(2000)]},
        {
            "definitions": {
                str(n): {
                    "anyOf": [
                        properties((), None, x={"$ref": f"#/definitions/{(n + m) % 100}"})
                        for m in range(6)
                    ]
                }
                for n in range(300)
            }
        }
        | {"$ref": "#/definitions/0"},
    ],
    ids=["chain", "wide", "choices"],
)
def test_combinations_are_bounded(schema: Any) -> None:
    parsed = parse(schema)

    assert json_schema.incompatibilities(parsed, parsed) in (
        [],
        ["TOO_COMPLEX at /: the schemas have too many combinations of parts to compare"],
    )


def test_long_chains_of_references_end() -> None:
    chain = parse(
        {
            "$ref": "#/definitions/d0",
            "definitions": {f"d{n}": {"$ref": f"#/definitions/d{n + 1}"} for n in range(3000)}
            | {"d3000": INT},
        }
    )
    nested = parse(
        {
            "$ref": "#/definitions/d0",
            "definitions": {
                f"d{n}": properties((), CLOSED, x={"$ref": f"#/definitions/d{n + 1}"})
                for n in range(3000)
            }
            | {"d3000": INT},
        }
    )

    assert json_schema.incompatibilities(chain, chain) == []
    assert json_schema.incompatibilities(nested, nested) == []


def test_large_schemas_have_bounded_cost() -> None:
    wide = parse(
        properties((), None, **{f"p{n}": {"type": "string", "maxLength": 5} for n in range(5_000)})
    )
    events = parse(
        {"oneOf": [properties(("k",), None, k={"const": n}, v="string") for n in range(200)]}
    )
    options = parse({"oneOf": [properties(("k",), None, k={"const": n}) for n in range(800)]})
    patterns = parse(
        {
            "patternProperties": {f"^{n}": INT for n in range(500)},
            "properties": {f"p{n}": INT for n in range(2000)},
        }
    )

    assert (
        json_schema.incompatibilities(wide, wide)
        == json_schema.incompatibilities(events, events)
        == []
    )
    for schema in (options, patterns):
        assert json_schema.incompatibilities(schema, schema)[0].startswith("TOO_COMPLEX at /")


def test_problems_are_bounded() -> None:
    assert (
        len(
            problems(
                properties((), None, **{f"p{n}": "string" for n in range(1000)}), {"type": "object"}
            )
        )
        == 100
    )
