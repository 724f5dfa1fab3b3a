"""Parts of a JSON Schema with an `$id` of their own, as bundlers write them: resources with their
own base, anchors and draft.
"""

import json

import pytest

from raftka.json_values import Json
from raftka.schemas.formats import json_schema
from raftka.schemas.formats.json_schema.documents import resolve
from raftka.schemas.formats.json_schema.parser import MAX_DYNAMIC
from raftka.schemas.formats.schema import InvalidSchema, Reference

DRAFT_7 = "http://json-schema.org/draft-07/schema#"
DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"
DRAFT_4 = "http://json-schema.org/draft-04/schema#"


def parse(schema: Json, *references: tuple[str, Json]) -> json_schema.JsonSchema:
    return json_schema.parse(
        json.dumps(schema), [Reference(name, json.dumps(each)) for name, each in references]
    )


def faults(reader: Json, writer: Json) -> list[str]:
    """Return the rules that are broken."""
    return [
        each.partition(" ")[0]
        for each in json_schema.incompatibilities(parse(reader), parse(writer))
    ]


def bundle(draft: str, plate: Json, root_plate: Json = True) -> Json:
    """A schema of trucks, with that of a truck as a resource in it, in which `#/$defs/plate` is its
    own.
    """
    keyword = "$defs" if draft == DRAFT_2020 else "definitions"
    return {
        "$schema": draft,
        "$id": "http://example.com/fleet.json",
        "type": "array",
        "items": {"$ref": "truck.json"},
        keyword: {
            "plate": root_plate,
            "truck": {
                "$id": "truck.json",
                "type": "object",
                "additionalProperties": False,
                "properties": {"plate": {"$ref": f"#/{keyword}/plate"}},
                keyword: {"plate": plate},
            },
        },
    }


@pytest.mark.parametrize("draft", [DRAFT_7, DRAFT_2020])
def test_a_pointer_in_a_resource_is_read_from_its_own_root(draft: str) -> None:
    text, number = {"type": "string"}, {"type": "integer"}

    assert "TYPE_CHANGED" in faults(bundle(draft, number), bundle(draft, text))
    assert faults(bundle(draft, text, number), bundle(draft, text, text)) == []


@pytest.mark.parametrize("draft", [DRAFT_7, DRAFT_2020])
def test_relative_references_are_resolved_against_their_resource(draft: str) -> None:
    schema = {
        "$schema": draft,
        "$id": "http://example.com/a/root.json",
        "properties": {"x": {"$ref": "b/one.json"}, "y": {"$ref": "two.json"}},
        "definitions": {
            "one": {"$id": "b/one.json", "allOf": [{"$ref": "two.json"}]},
            "near": {"$id": "b/two.json", "type": "string"},
            "far": {"$id": "two.json", "type": "integer"},
        },
    }
    changed = json.loads(json.dumps(schema))
    changed["definitions"]["near"]["type"] = "boolean"

    assert faults(schema, schema) == []
    found = json_schema.incompatibilities(parse(changed), parse(schema))
    assert found
    assert all("/x" in each and "/y" not in each for each in found), found


def test_a_relative_reference_from_another_base_leads_to_nothing() -> None:
    schema = bundle(DRAFT_7, True)
    schema["definitions"]["truck"]["$id"] = "trucks/truck.json"

    with pytest.raises(InvalidSchema, match=r"\$ref truck.json leads to no schema"):
        parse(schema)


@pytest.mark.parametrize(
    ("anchor", "draft"), [({"$id": "#p"}, DRAFT_7), ({"$anchor": "p"}, DRAFT_2020)]
)
def test_an_anchor_is_its_resources_own(anchor: Json, draft: str) -> None:
    schema: Json = {
        "$schema": draft,
        "$id": "http://example.com/root.json",
        "properties": {
            "x": {"$ref": "#p"},
            "y": {"$ref": "inner.json"},
            "z": {"$ref": "inner.json#p"},
        },
        "definitions": {
            "outer": {**anchor, "type": "integer"},
            "inner": {
                "$id": "inner.json",
                "allOf": [{"$ref": "#p"}],
                "definitions": {"q": {**anchor, "type": "string"}},
            },
        },
    }
    changed = json.loads(json.dumps(schema))
    changed["definitions"]["inner"]["definitions"]["q"]["type"] = "boolean"

    found = json_schema.incompatibilities(parse(changed), parse(schema))
    assert {name for name in "xyz" for each in found if f"/{name}" in each} == {"y", "z"}
    del schema["definitions"]["outer"]
    with pytest.raises(InvalidSchema, match=r"\$ref #p leads to no schema"):
        parse(schema)


def test_a_resource_is_of_the_draft_that_it_says() -> None:
    """exclusiveMinimum is true in draft 4, and prefixItems nothing in draft 7."""
    old = {
        "$schema": DRAFT_4,
        "id": "old.json",
        "type": "number",
        "minimum": 5,
        "exclusiveMinimum": True,
    }
    tuples = {
        "$schema": DRAFT_2020,
        "$id": "new.json",
        "prefixItems": [{"type": "string"}],
        "items": False,
    }
    schema: Json = {
        "$schema": DRAFT_7,
        "$id": "http://example.com/root.json",
        "properties": {"x": {"$ref": "old.json"}, "y": {"$ref": "new.json"}},
        "definitions": {"old": old, "new": tuples},
    }
    changed = json.loads(json.dumps(schema))
    changed["definitions"]["new"]["prefixItems"][0]["type"] = "integer"

    assert faults(schema, schema) == []
    assert faults(changed, schema)
    schema["definitions"]["old"]["exclusiveMinimum"] = 7
    with pytest.raises(InvalidSchema, match="exclusiveMinimum"):
        parse(schema)


def test_an_id_beside_a_reference_is_none_where_that_stands_alone() -> None:
    schema = {
        "$schema": DRAFT_7,
        "properties": {"x": {"$id": "http://example.com/x.json", "$ref": "#/definitions/y"}},
        "definitions": {"y": {"type": "string"}},
    }

    assert faults(schema, schema) == []
    with pytest.raises(InvalidSchema):
        parse({**schema, "items": {"$ref": "http://example.com/x.json"}})


def test_the_same_resource_by_another_place_is_no_change() -> None:
    """A bundler may put it anywhere."""
    inside = bundle(DRAFT_2020, {"type": "string"})
    moved = json.loads(json.dumps(inside))
    moved["$defs"]["elsewhere"] = moved["$defs"].pop("truck")
    apart = json.loads(json.dumps(inside))
    truck = apart["$defs"].pop("truck")

    assert faults(moved, inside) == faults(inside, moved) == []
    other = parse(apart, ("truck.json", truck))
    assert (
        json_schema.incompatibilities(other, parse(inside))
        == json_schema.incompatibilities(parse(inside), other)
        == []
    )


def test_a_reference_may_refer_to_others_by_its_own_uri() -> None:
    truck = {
        "$id": "http://other.org/schemas/truck.json",
        "properties": {"p": {"$ref": "plate.json"}},
    }
    plate = {"$id": "http://other.org/schemas/plate.json", "type": "string"}

    assert parse({"$ref": "truck"}, ("truck", truck), ("plate", plate))


def test_a_reference_without_a_schema_keyword_is_of_the_draft_of_its_referrer() -> None:
    def schema(kind: str, draft: str = DRAFT_2020) -> json_schema.JsonSchema:
        closed = {
            "allOf": [{"properties": {"size": {"type": kind}}}],
            "unevaluatedProperties": False,
        }
        bundled = {
            "$id": "http://x/other",
            "$ref": "part",
            "$defs": {"part": {"$id": "part", **closed}},
        }
        return parse(
            {"$schema": draft, "properties": {"a": {"$ref": "other.json"}}}, ("other.json", bundled)
        )

    assert json_schema.incompatibilities(schema("integer"), schema("number")) != []
    assert json_schema.incompatibilities(schema("number"), schema("integer")) == []
    with pytest.raises(InvalidSchema, match="part leads to no schema"):
        schema("number", DRAFT_7)  # which knows no $defs


def test_a_reference_that_is_none_of_its_referrers_draft_is_of_draft_7() -> None:
    row = {"items": [{"type": "number"}], "additionalItems": False}

    assert parse({"$schema": DRAFT_2020, "$ref": "row.json"}, ("row.json", row)).documents


def test_a_dynamic_reference_leads_to_the_outermost_anchor() -> None:
    tree = {
        "$id": "tree.json",
        "$dynamicAnchor": "node",
        "type": "object",
        "properties": {"children": {"type": "array", "items": {"$dynamicRef": "#node"}}},
    }

    def strict(kind: str) -> Json:
        return {
            "$schema": DRAFT_2020,
            "$id": "http://example.com/strict.json",
            "$dynamicAnchor": "node",
            "$ref": "tree.json",
            "properties": {"name": {"type": kind}},
            "required": ["name"],
            "$defs": {"tree": tree},
        }

    assert faults(strict("string"), strict("string")) == []
    found = json_schema.incompatibilities(parse(strict("integer")), parse(strict("string")))
    assert any("children" in each for each in found), found


def test_a_property_that_both_require_and_the_reader_alone_describes_is_no_safe_change() -> None:
    writer = {"type": "object", "required": ["a"]}
    reader = {**writer, "properties": {"a": {"type": "integer"}}}
    beside = {"$schema": DRAFT_2020, "$ref": "#/$defs/x", "$defs": {"x": {"type": "object"}}}

    assert faults(reader, writer) == ["REQUIRED_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"]
    assert faults({**reader, **beside}, {**writer, **beside})
    text = {**writer, "properties": {"a": {"type": "string"}}}
    assert "TYPE_CHANGED" in faults({**reader, **beside}, {**text, **beside})
    assert faults({**reader, **beside}, {**reader, **beside}) == []


def test_dynamic_anchors_are_bounded() -> None:
    anchors = {f"a{at}": {"$dynamicAnchor": f"a{at}"} for at in range(MAX_DYNAMIC + 1)}

    with pytest.raises(InvalidSchema, match="dynamic anchors"):
        parse({"$schema": DRAFT_2020, "$defs": anchors})


@pytest.mark.parametrize(
    ("base", "reference", "found"),
    [
        ("http://a/b/c", "d", "http://a/b/d"),
        ("http://a/b/c", "../d", "http://a/d"),
        ("http://a/b/c", "//e/f", "http://e/f"),
        ("http://a/b/c", "urn:x:y", "urn:x:y"),
        ("custom://a/b/c", "d", "custom://a/b/d"),
        ("custom://a/b/c", "/d", "custom://a/d"),
        ("", "d", "d"),
        ("dir/file.json", "d", "dir/d"),
    ],
)
def test_references_are_resolved_as_rfc_3986_says(base: str, reference: str, found: str) -> None:
    assert resolve(base, reference) == found
