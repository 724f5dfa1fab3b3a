"""Writes an Avro schema with attributes in one order, the one of Java's Avro: what differs in it
differs in meaning or in documentation.
"""

from raftka.json_values import Json, JsonObject
from raftka.registry.formats.avro_parts.types import NAMED, PRIMITIVE_TYPES

TYPE_ORDER = (
    "type",
    "name",
    "namespace",
    "doc",
    "fields",
    "symbols",
    "items",
    "values",
    "size",
    "default",
    "aliases",
)
FIELD_ORDER = ("name", "type", "doc", "default", "order", "aliases")


def normal(value: Json, namespace: str) -> Json:
    """`value` has been parsed. Names are shortened within `namespace`, the one around."""
    if isinstance(value, str):
        space, _, name = value.rpartition(".")
        return name if space == namespace and name not in PRIMITIVE_TYPES else value
    if isinstance(value, list):
        return [normal(each, namespace) for each in value]
    kind = value["type"]
    if kind not in NAMED:
        found = {
            **value,
            **{
                key: normal(value[key], namespace)
                for key in ("items", "values")
                if key in value and kind in ("array", "map")
            },
        }
        found["type"] = normal(kind, namespace)
        return found["type"] if len(found) == 1 else _ordered(found, TYPE_ORDER)
    full = (
        value["name"]
        if "." in value["name"] or not (space := value.get("namespace", namespace))
        else f"{space}.{value['name']}"
    )
    space, _, name = full.rpartition(".")
    found = {key: each for key, each in value.items() if key != "namespace"} | {"name": name}
    if space != namespace:
        found["namespace"] = space
    if "fields" in value and kind in ("record", "error"):
        found["fields"] = [_field(each, space) for each in value["fields"]]
    if "aliases" in value:
        found["aliases"] = [normal(each, space) for each in value["aliases"] or ()]
    return _ordered(found, TYPE_ORDER)


def _field(value: JsonObject, namespace: str) -> JsonObject:
    found = {**value, "type": normal(value["type"], namespace)}
    if found.get("order") == "ascending":
        del found["order"]
    return _ordered(found, FIELD_ORDER)


def _ordered(value: JsonObject, order: tuple[str, ...]) -> JsonObject:
    """Attributes that Avro does not know follow by name. Empty aliases are none."""
    keys = [key for key in order if key in value] + sorted(value.keys() - set(order))
    return {key: value[key] for key in keys if key != "aliases" or value[key]}
