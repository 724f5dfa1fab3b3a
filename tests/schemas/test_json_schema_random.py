"""JSON Schema: for random schemas, what has no problems takes every value that was valid before."""

import json
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from raftka.schemas.formats import json_schema
from raftka.schemas.formats.json_schema import compatibility
from raftka.schemas.formats.schema import InvalidSchema

INT, NUMBERS, STRING, NULL = ({"type": each} for each in ("integer", "number", "string", "null"))


def parse(value: Any) -> json_schema.JsonSchema:
    return json_schema.parse(json.dumps(value), [])


def problems(reader: Any, writer: Any) -> list[str]:
    return json_schema.incompatibilities(parse(reader), parse(writer))


LEAVES = st.sampled_from(
    [
        True,
        {},
        False,
        INT,
        NUMBERS,
        STRING,
        NULL,
        {"type": "boolean"},
        {"type": ["string", "integer"]},
        {"enum": ["a", 1, None]},
        {"const": "a"},
    ]
    + [{"type": "string", "maxLength": n} for n in (1, 2)]
    + [
        {"minLength": 1},
        {"type": "string", "pattern": "^a"},
        {"maximum": 1},
        {"minimum": 0},
        {"type": "integer", "exclusiveMaximum": 2},
    ]
    + [{"type": "number", "multipleOf": n} for n in (0.5, 1, 2)]
)
NAMES = st.sampled_from(["a", "b", "ab"])


def choices(below: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """No oneOf: that its options exclude each other is taken for granted, as Confluent does."""
    some = st.lists(below, min_size=1, max_size=3)
    objects = st.fixed_dictionaries(
        {},
        optional={
            "type": st.just("object"),
            "properties": st.dictionaries(NAMES, below, max_size=2),
            "patternProperties": st.dictionaries(st.sampled_from(["^a", "b$"]), below, max_size=2),
            "additionalProperties": below,
            "required": st.lists(NAMES, unique=True, max_size=1),
            "minProperties": st.integers(0, 2),
            "maxProperties": st.integers(0, 2),
            "propertyNames": st.sampled_from([{"maxLength": 1}, {"pattern": "^a"}]),
            "dependencies": st.dictionaries(
                NAMES, st.lists(NAMES, unique=True, max_size=1) | below, max_size=1
            ),
        },
    )
    arrays = st.fixed_dictionaries(
        {},
        optional={
            "type": st.just("array"),
            "items": below | some,
            "additionalItems": below,
            "minItems": st.integers(0, 2),
            "maxItems": st.integers(0, 2),
            "uniqueItems": st.booleans(),
            "contains": below,
        },
    )
    combined = st.one_of(
        st.builds(lambda each: {"anyOf": each}, some),
        st.builds(lambda each: {"allOf": each}, some),
        st.builds(lambda each: {"not": each}, below),
        st.builds(
            lambda one, two, three: {"if": one, "then": two, "else": three}, below, below, below
        ),
    )
    return (
        objects | arrays | combined | st.builds(lambda one, two: {**one, **two}, objects, combined)
    )


SCHEMAS = st.recursive(LEAVES, choices, max_leaves=6)
VALUES = st.recursive(
    st.sampled_from([None, True, 0, 1, 2, 3, 0.5, 1.5, -1, "", "a", "b", "ab", "aaa"]),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(NAMES, below, max_size=3),
    max_leaves=5,
)


def changed(draw: Any, value: Any) -> Any:
    """The schema with one part drawn anew, so that it is often like the other."""
    value = json.loads(json.dumps(value))
    places = [
        (holder, key) for holder, key in holders(value) if isinstance(holder[key], dict | bool)
    ]
    if not places or draw(st.integers(0, 5)) == 0:
        return draw(SCHEMAS)
    holder, key = draw(st.sampled_from(places))
    holder[key] = draw(
        LEAVES
        | st.just({**holder[key], "minProperties": 1} if isinstance(holder[key], dict) else True)
    )
    return value


def holders(value: Any) -> Any:
    if isinstance(value, dict | list):
        for key, each in list(value.items()) if isinstance(value, dict) else list(enumerate(value)):
            if key not in (
                "uniqueItems",
                "properties",
                "patternProperties",
                "dependencies",
                "enum",
            ):
                yield value, key
            yield from holders(each)


def valid_schema(value: Any) -> bool:
    try:
        parse(value)
    except InvalidSchema:
        return False
    return True


@settings(max_examples=250, deadline=None)
@given(st.data())
def test_what_has_no_problems_takes_all_that_was_valid(data: Any) -> None:
    writer = data.draw(SCHEMAS)
    reader = changed(data.draw, writer) if data.draw(st.booleans()) else data.draw(SCHEMAS)
    assume(valid_schema(reader) and valid_schema(writer) and problems(reader, writer) == [])
    takes, took = (jsonschema_rs.Draft7Validator(each) for each in (reader, writer))

    for value in data.draw(st.lists(VALUES, min_size=20, max_size=20)):
        assert takes.is_valid(value) or not took.is_valid(value), value


@settings(max_examples=200, deadline=None)
@given(SCHEMAS)
def test_a_schema_takes_what_it_takes(schema: Any) -> None:
    assert problems(schema, schema) == []
    assert problems(json.loads(parse(schema).normalized), schema) == []


OPTIONS = st.lists(
    st.one_of(
        LEAVES,
        st.builds(
            lambda kind, value, required: {
                "type": "object",
                "properties": {"a": {"const": kind}, "b": value},
                "required": required,
            },
            st.integers(0, 2),
            LEAVES,
            st.lists(NAMES, unique=True, max_size=2),
        ),
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(["anyOf", "oneOf"]), OPTIONS, OPTIONS, st.booleans())
def test_options_that_are_left_out_at_a_glance_would_not_fit(
    keyword: str, reader: list, writer: list, more: bool
) -> None:
    schemas = {keyword: [*reader, *(writer if more else [])]}, {keyword: writer}
    found = problems(*schemas)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compatibility, "_hopeless", lambda one, other: False)
        assert (problems(*schemas) == []) == (found == [])
