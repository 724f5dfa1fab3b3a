"""Avro values: checked by raftka's own parser of schemas, byte by byte, and read by fastavro.

The registry checks: it needs no values, and bounds of time and memory. The pipeline reads. fastavro
wants one whole schema, so references are put into its text.
"""

import json
from collections.abc import Callable, Mapping
from io import BytesIO

from raftka.json_values import Json, JsonObject
from raftka.schemas.client import Schema, SchemaSource
from raftka.schemas.formats.avro import parse
from raftka.schemas.formats.avro.types import NAMED, PRIMITIVES, Type
from raftka.schemas.formats.schema import Reference
from raftka.schemas.values import Misfit

MAX_DEPTH = 150  # of values within values
SPARE_STEPS = 1_000  # for values without bytes, beside a step for each byte
INT_BITS, LONG_BITS = 32, 64
MAX_REFERENCES = 1_000
MAX_SCHEMA_DEPTH = 200

Read = Callable[[bytes], Json]
Write = Callable[[Json], bytes]


# checking


def matcher(text: str, references: tuple[Reference, ...]) -> Callable[[bytes], None]:
    """Return a function that raises Misfit for a payload that is no value of the schema. Raise
    InvalidSchema.
    """
    root = parse(text, references, new=False).root

    def match(payload: bytes) -> None:
        checker = _Checker(payload)
        checker.check(root, 0)
        if checker.position != len(payload):
            raise Misfit(f"{len(payload) - checker.position} bytes are left behind it")

    return match


class _Checker:
    """Makes no values, so that a payload costs no memory. Its time is bounded by the payload's
    size.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0
        self._steps = len(data) + SPARE_STEPS

    def check(self, kind: Type, depth: int) -> None:
        self._steps -= 1
        if self._steps < 0:
            raise Misfit("it has too many values without bytes")
        if depth > MAX_DEPTH:
            raise Misfit(f"it is nested deeper than {MAX_DEPTH} levels")
        match kind.kind:
            case "null":
                pass
            case "boolean":
                if self._take(1) not in (b"\0", b"\1"):
                    raise Misfit("a boolean is neither 0 nor 1")
            case "int":
                self._read_number(INT_BITS)
            case "long":
                self._read_number(LONG_BITS)
            case "float":
                self._take(4)
            case "double":
                self._take(8)
            case "bytes":
                self._take(self._read_number(LONG_BITS))
            case "string":
                self._check_string()
            case "fixed":
                self._take(kind.size)
            case "enum":
                self._read_index(kind.symbols, "symbols of an enum")
            case "union":
                self.check(
                    kind.branches[self._read_index(kind.branches, "branches of a union")], depth + 1
                )
            case "array":
                self._check_blocks(kind, depth, has_keys=False)
            case "map":
                self._check_blocks(kind, depth, has_keys=True)
            case _:
                for field in kind.fields:
                    self.check(field.type, depth + 1)

    def _check_blocks(self, kind: Type, depth: int, *, has_keys: bool) -> None:
        assert kind.items is not None
        while count := self._read_number(LONG_BITS):
            end = None
            if count < 0:
                count, size = -count, self._read_number(LONG_BITS)
                end = self.position + size
            for _ in range(count):
                if has_keys:
                    self._check_string()
                self.check(kind.items, depth + 1)
            if end is not None and end != self.position:
                raise Misfit("a block of an array or map has another size than it says")

    def _check_string(self) -> None:
        try:
            self._take(self._read_number(LONG_BITS)).decode()
        except UnicodeDecodeError:
            raise Misfit("a string is no UTF-8") from None

    def _read_index(self, choices: tuple[object, ...], noun: str) -> int:
        index = self._read_number(INT_BITS)
        if not 0 <= index < len(choices):
            raise Misfit(f"{index} is none of {len(choices)} {noun}")
        return index

    def _take(self, size: int) -> bytes:
        start, self.position = self.position, self.position + size
        if size < 0 or self.position > len(self.data):
            raise Misfit("it ends too early")
        return self.data[start : self.position]

    def _read_number(self, bits: int) -> int:
        value = shift = 0
        while True:
            byte = self._take(1)[0]
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
            if shift >= bits:
                raise Misfit(f"a number does not end within {bits} bits")
        if value >> bits:
            raise Misfit(f"a number has more than {bits} bits")
        return value >> 1 ^ -(value & 1)


# reading


def make_reader(schema: Json, schema_id: int) -> Read:
    """Return a function that reads the bytes of one record. Both raise Misfit: this one for a text
    that is no schema.
    """
    from fastavro import parse_schema, schemaless_reader

    try:
        parsed = parse_schema(schema)
    except Exception as error:  # any client may have registered the schema
        raise Misfit(
            f"Avro schema {schema_id} can not be used: {type(error).__name__} {error}"
        ) from None

    def read(value: bytes) -> Json:
        stream = BytesIO(value)
        try:
            found = schemaless_reader(stream, parsed, None)
        # fastavro raises errors of many kinds, and one record must not stop all others
        except Exception as error:
            raise Misfit(
                f"no Avro of schema {schema_id}: {type(error).__name__} {error}".rstrip()
            ) from None
        if left := len(value) - stream.tell():
            raise Misfit(f"no Avro of schema {schema_id}: {left} bytes are left behind it")
        return found

    return read


# writing


def make_writer(schema: Json, schema_id: int) -> Write:
    """Return a function that returns the bytes of a value: dates, times and decimals are Python's.
    A field that is missing gets its default. Both raise Misfit: this one for a text that is no
    schema.
    """
    from fastavro import parse_schema, schemaless_writer

    try:
        parsed = parse_schema(schema)
    except Exception as error:  # any client may have registered the schema
        raise Misfit(
            f"Avro schema {schema_id} can not be used: {type(error).__name__} {error}"
        ) from None

    def write(value: Json) -> bytes:
        stream = BytesIO()
        try:
            schemaless_writer(stream, parsed, value, strict_allow_default=True)
        except Exception as error:  # fastavro raises errors of many kinds
            raise Misfit(
                f"the value does not fit Avro schema {schema_id}: {type(error).__name__} {error}"
            ) from None
        return stream.getvalue()

    return write


def write(schema: Json, schema_id: int, value: Json) -> bytes:
    """Return the bytes of one value, as `make_writer` does."""
    return make_writer(schema, schema_id)(value)


def put_references_inside(schema: Schema, source: SchemaSource) -> Json:
    """Return the schema as JSON with all schemas that it refers to inside. Raise Misfit, and the
    errors of the source.
    """
    known: dict[str, JsonObject] = {}
    _collect(schema, source, known, set())
    return _Inliner(known).inline(_parse_text(schema.text))


def _parse_text(text: str) -> Json:
    try:
        return json.loads(text)
    except ValueError:
        if text in PRIMITIVES:  # some clients register a name without quotes
            return text
        raise Misfit("an Avro schema of the registry is no JSON") from None


def _collect(
    schema: Schema, source: SchemaSource, known: dict[str, JsonObject], seen: set[tuple[str, int]]
) -> None:
    """Add the named types of all schemas that this one refers to, by full name."""
    for each in schema.references:
        if (each.subject, each.version) in seen:
            continue
        seen.add((each.subject, each.version))
        if len(seen) > MAX_REFERENCES:
            raise Misfit(f"an Avro schema refers to more than {MAX_REFERENCES} others")
        other = source.version(each.subject, each.version)
        parsed = _parse_text(other.text)
        if isinstance(parsed, dict) and "name" in parsed:  # other types have no names
            known.setdefault(each.name, parsed)
            known.setdefault(_full(parsed, ""), parsed)
        _collect(other, source, known, seen)


def _full(named: Mapping[str, Json], namespace: str) -> str:
    name, own = str(named["name"]), named.get("namespace")
    if "." in name:
        return name
    own = namespace if own is None else str(own)
    return f"{own}.{name}" if own else name


class _Inliner:
    """Replaces the first use of each name that is defined elsewhere by its definition."""

    def __init__(self, known: Mapping[str, JsonObject]) -> None:
        self._known = known
        self._defined: set[str] = set()

    def inline(self, schema: Json) -> Json:
        """Return the schema without names that it does not define. Raise Misfit."""
        return self._walk(schema, "", 0)

    def _walk(self, schema: Json, namespace: str, depth: int) -> Json:
        if depth > MAX_SCHEMA_DEPTH:
            raise Misfit("an Avro schema is nested too deeply")
        if isinstance(schema, str):
            return self._name(schema, namespace, depth)
        if isinstance(schema, list):
            return [self._walk(each, namespace, depth + 1) for each in schema]
        if not isinstance(schema, dict):
            return schema
        return self._object(schema, namespace, depth)

    def _name(self, name: str, namespace: str, depth: int) -> Json:
        if name in PRIMITIVES:
            return name
        names = [name] if "." in name or not namespace else [f"{namespace}.{name}", name]
        for full in names:
            if full in self._defined:
                return full
            if full in self._known:
                whole = _full(self._known[full], "")
                if whole in self._defined:
                    return whole
                # With its own namespace: another one may hold at its new place.
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
