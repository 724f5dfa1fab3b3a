"""Schemas of all types by one door: parsed once, and asked whether a new one goes with the old ones at a level of compatibility."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from importlib import import_module

from raftka.registry.errors import INVALID_SCHEMA, RegistryError
from raftka.registry.formats.schema import Format, InvalidSchema, Parsed, Reference
from raftka.registry.limits import PARSED_SCHEMAS, SCHEMA_CHARACTERS
from raftka.registry.records import AVRO, JSON, PROTOBUF

MODULES = {AVRO: "avro", JSON: "json_schema", PROTOBUF: "protobuf"}

Resolved = tuple[Reference, ...]


def format_of(schema_type: str) -> Format:
    """Imports what it needs when it is first asked for. Raises RegistryError."""
    if schema_type not in MODULES:
        raise RegistryError(INVALID_SCHEMA, f"Invalid schema type {schema_type}: it is one of {', '.join(MODULES)}")
    return import_module(f"raftka.registry.formats.{MODULES[schema_type]}")


def parsed(schema_type: str, text: str, references: Resolved) -> Parsed:
    """Slow for large schemas: milliseconds. Raises RegistryError."""
    if len(text) > SCHEMA_CHARACTERS.value:
        raise RegistryError(INVALID_SCHEMA, f"Invalid schema: it has more than {SCHEMA_CHARACTERS.value} characters")
    return _parsed(schema_type, text, references)


@lru_cache(maxsize=PARSED_SCHEMAS.value)
def _parsed(schema_type: str, text: str, references: Resolved) -> Parsed:
    try:
        return format_of(schema_type).parse(text, references)
    except InvalidSchema as error:
        raise RegistryError(INVALID_SCHEMA, f"Invalid schema: {error}") from None


def problems(level: str, schema_type: str, new: Parsed, before: Sequence[tuple[int, str, Parsed]]) -> list[str]:
    """Why the new schema does not go with those before it, of which each has version, type and schema, the oldest first."""
    if level == "NONE" or not before:
        return []
    found: list[str] = []
    for version, old_type, old in before if level.endswith("_TRANSITIVE") else before[-1:]:
        if old_type != schema_type:
            found.append(f"version {version} is of the type {old_type}, and this one {schema_type}")
            continue
        judge = format_of(schema_type).problems
        if level.startswith(("BACKWARD", "FULL")):
            found += _of_version(f"what was written with version {version} cannot be read", judge(new, old))
        if level.startswith(("FORWARD", "FULL")):
            found += _of_version(f"readers with version {version} cannot read it", judge(old, new))
    return found


def _of_version(what: str, why: Iterable[str]) -> list[str]:
    return [f"{what}: {each}" for each in why]
