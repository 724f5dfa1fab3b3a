"""Avro values by their schemas, with fastavro. References are put into the schema's text, so that
fastavro sees one schema whole. Knows no Spark.
"""

import json
from collections.abc import Callable, Mapping
from io import BytesIO

from raftka.json_values import Json, JsonObject
from raftka.pipeline.records.fields import Misfit
from raftka.pipeline.records.registry_client import RegistryClient, Schema

NAMED = ("record", "error", "enum", "fixed")
PRIMITIVE = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
MOST_REFERENCES = 1_000
DEEPEST = 200

Read = Callable[[bytes], Json]


def reader(schema: Json, number: int) -> Read:
    """A function of the bytes of one record. It raises Misfit; `reader` raises it for a schema that
    is none.
    """
    from fastavro import parse_schema, schemaless_reader

    try:
        parsed = parse_schema(schema)
    except Exception as error:  # of a schema that anybody may have registered
        raise Misfit(
            f"Avro schema {number} can not be used: {type(error).__name__} {error}"
        ) from None

    def read(value: bytes) -> Json:
        stream = BytesIO(value)
        try:
            found = schemaless_reader(stream, parsed, None)
        # whatever it raises on bytes that are none of its own: one record must not stop all
        except Exception as error:
            raise Misfit(
                f"no Avro of schema {number}: {type(error).__name__} {error}".rstrip()
            ) from None
        if left := len(value) - stream.tell():
            raise Misfit(f"no Avro of schema {number}: {left} bytes are left behind it")
        return found

    return read


def from_registry(schema: Schema, client: RegistryClient) -> Json:
    """The schema as JSON with all that it refers to inside. Raises Misfit, RegistryAway and
    UnknownSchema.
    """
    known: dict[str, JsonObject] = {}
    _collect(schema, client, known, set())
    return Whole(known).put_together(_parsed(schema.text))


def _parsed(text: str) -> Json:
    try:
        return json.loads(text)
    except ValueError:
        if text in PRIMITIVE:  # as some clients register it
            return text
        raise Misfit("an Avro schema of the registry is no JSON") from None


def _collect(
    schema: Schema, client: RegistryClient, known: dict[str, JsonObject], seen: set[tuple[str, int]]
) -> None:
    """Named types by full name, of all schemas that this one refers to."""
    for each in schema.references:
        if (each.subject, each.version) in seen:
            continue
        seen.add((each.subject, each.version))
        if len(seen) > MOST_REFERENCES:
            raise Misfit(f"an Avro schema refers to more than {MOST_REFERENCES} others")
        other = client.version(each.subject, each.version)
        parsed = _parsed(other.text)
        if isinstance(parsed, dict) and "name" in parsed:  # Avro has no names for other types
            known.setdefault(each.name, parsed)
            known.setdefault(_full(parsed, ""), parsed)
        _collect(other, client, known, seen)


def _full(named: Mapping[str, Json], namespace: str) -> str:
    name, own = str(named["name"]), named.get("namespace")
    if "." in name:
        return name
    own = namespace if own is None else str(own)
    return f"{own}.{name}" if own else name


class Whole:
    """Replaces the first use of each name that is defined elsewhere by its definition."""

    def __init__(self, known: Mapping[str, JsonObject]) -> None:
        self._known = known
        self._defined: set[str] = set()

    def put_together(self, schema: Json) -> Json:
        """Raises Misfit."""
        return self._walk(schema, "", 0)

    def _walk(self, schema: Json, namespace: str, depth: int) -> Json:
        if depth > DEEPEST:
            raise Misfit("an Avro schema is nested too deeply")
        if isinstance(schema, str):
            return self._name(schema, namespace, depth)
        if isinstance(schema, list):
            return [self._walk(each, namespace, depth + 1) for each in schema]
        if not isinstance(schema, dict):
            return schema
        return self._object(schema, namespace, depth)

    def _name(self, name: str, namespace: str, depth: int) -> Json:
        if name in PRIMITIVE:
            return name
        names = [name] if "." in name or not namespace else [f"{namespace}.{name}", name]
        for full in names:
            if full in self._defined:
                return full
            if full in self._known:
                whole = _full(self._known[full], "")
                if whole in self._defined:
                    return whole
                # With its own namespace in full: where it stands now another one may hold.
                space, _, short = whole.rpartition(".")
                return self._walk(
                    {**self._known[full], "name": short, "namespace": space}, "", depth + 1
                )
        return name

    def _object(self, schema: JsonObject, namespace: str, depth: int) -> Json:
        kind = schema.get("type")
        if kind in NAMED and "name" in schema:
            full = _full(schema, namespace)
            self._defined.add(full)
            namespace = full.rpartition(".")[0]
            if isinstance(schema.get("fields"), list):
                fields = [
                    {**each, "type": self._walk(each["type"], namespace, depth + 1)}
                    if isinstance(each, dict) and "type" in each
                    else each
                    for each in schema["fields"]
                ]
                return {**schema, "fields": fields}
            return schema
        found = dict(schema)
        for name in ("items", "values", "type"):
            if name in found and (name != "type" or kind not in ("array", "map")):
                found[name] = self._walk(found[name], namespace, depth + 1)
        return found
