"""Validation of values by a JSON Schema, for the keywords that the official suite's groups on
references use.

It judges what `Documents` resolves: which schema a reference leads to, and which draft that one is
of.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from raftka.json_values import Json, JsonObject
from raftka.schemas.formats.json_schema.documents import (
    METASCHEMAS,
    Document,
    Documents,
    is_known,
)
from raftka.schemas.formats.json_schema.parser import _validate
from raftka.schemas.formats.schema import InvalidSchema

TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "null": (type(None),),
    "number": (int, float),
    "integer": (int,),
}


class Seen(NamedTuple):
    """The parts of a value that have been evaluated."""

    valid: bool
    names: frozenset[str] = frozenset()
    items: int = 0


Ask = Callable[..., Seen]  # of a schema, and of a part of the value in place of it


def is_valid(documents: Documents, value: Json) -> bool:
    return judge(documents, documents.root.value, documents.root, value).valid


def judge(documents: Documents, schema: Json, document: Document, value: Json) -> Seen:
    if isinstance(schema, bool):
        return Seen(schema)
    document = documents.entered(schema, document)
    if document is METASCHEMAS[document.draft]:
        return Seen(_by_metaschema(document.draft, value))
    seen: list[Seen] = []
    target = documents.referred(schema, document)
    if target is not None:
        seen.append(judge(documents, target.value, target.document, value))
        if document.draft <= 7:
            return seen[0]
    known = {key: each for key, each in schema.items() if is_known(key, document.draft)}
    valid = _plain(known, value)

    def ask(each: Json, part: Json = value) -> Seen:
        return judge(documents, each, document, part)

    seen += [ask(each) for each in known.get("allOf", ())]
    for keyword in ("anyOf", "oneOf"):
        if keyword in known:
            found = [each for each in map(ask, known[keyword]) if each.valid]
            valid &= bool(found) if keyword == "anyOf" else len(found) == 1
            seen += found
    if "not" in known:
        valid &= not ask(known["not"]).valid
    if "if" in known:
        tested = ask(known["if"])
        seen += [tested] if tested.valid else []
        then = "then" if tested.valid else "else"
        seen += [ask(known[then])] if then in known else []
    valid &= all(each.valid for each in seen)
    names = frozenset[str]().union(*(each.names for each in seen))
    items = max((each.items for each in seen), default=0)
    if isinstance(value, dict):
        named, right = _object(known, value, ask, names)
        return Seen(valid and right, names | named, items)
    if isinstance(value, list):
        counted, right = _array(known, value, ask, items)
        return Seen(valid and right, names, max(items, counted))
    return Seen(valid, names, items)


def _object(
    known: JsonObject, value: JsonObject, ask: Ask, names: frozenset[str]
) -> tuple[frozenset[str], bool]:
    parts = [
        (name, known["properties"][name]) for name in value if name in known.get("properties", {})
    ]
    for pattern, each in known.get("patternProperties", {}).items():
        parts += [(name, each) for name in value if re.search(pattern, name)]
    found = {name for name, _ in parts}
    if "additionalProperties" in known:
        parts += [(name, known["additionalProperties"]) for name in value if name not in found]
    found |= {name for name, _ in parts}
    if "unevaluatedProperties" in known:
        parts += [
            (name, known["unevaluatedProperties"]) for name in value if name not in found | names
        ]
    right = all(ask(each, value[name]).valid for name, each in parts)
    if "propertyNames" in known:
        right &= all(ask(known["propertyNames"], name).valid for name in value)
    return frozenset(name for name, _ in parts), right


def _array(known: JsonObject, value: list[Json], ask: Ask, items: int) -> tuple[int, bool]:
    tuples = known.get("prefixItems", known.get("items"))
    places = tuples if isinstance(tuples, list) else []
    rest = known.get("additionalItems" if isinstance(known.get("items"), list) else "items")
    pairs = list(zip(places, value, strict=False))
    if rest is not None:
        pairs += [(rest, each) for each in value[len(places) :]]
    counted = len(pairs)
    if "unevaluatedItems" in known:
        pairs += [(known["unevaluatedItems"], each) for each in value[max(counted, items) :]]
        counted = len(value)
    right = all(ask(each, part).valid for each, part in pairs)
    if "contains" in known:
        right &= any(ask(known["contains"], each).valid for each in value)
    return counted, right


def _plain(known: JsonObject, value: Json) -> bool:
    return all(_holds(key, each, value) for key, each in known.items())


def _holds(key: str, said: Json, value: Json) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if key == "type":
        return any(_is(each, value) for each in ([said] if isinstance(said, str) else said))
    if key == "const":
        return bool(said == value and type(said) is type(value))
    if key == "enum":
        return any(
            each == value and isinstance(each, bool) == isinstance(value, bool) for each in said
        )
    if key in ("minimum", "maximum") and number:
        return bool(value >= said if key == "minimum" else value <= said)
    if key in ("minLength", "maxLength") and isinstance(value, str):
        return bool(len(value) >= said if key == "minLength" else len(value) <= said)
    if key in ("minItems", "maxItems") and isinstance(value, list):
        return bool(len(value) >= said if key == "minItems" else len(value) <= said)
    if key == "pattern" and isinstance(value, str):
        return re.search(said, value) is not None
    if key == "required" and isinstance(value, dict) and isinstance(said, list):
        return all(name in value for name in said)
    if key == "dependentRequired" and isinstance(value, dict):
        return all(
            each in value for name, needed in said.items() if name in value for each in needed
        )
    return True


def _is(type_: str, value: Json) -> bool:
    if isinstance(value, bool):
        return type_ == "boolean"
    if type_ == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, TYPES[type_])


def _by_metaschema(draft: int, value: Json) -> bool:
    try:
        _validate(value, draft)
    except InvalidSchema:
        return False
    return True
