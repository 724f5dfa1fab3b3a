"""Parsed schemas of all formats: some are kept, and a new one is compared with earlier versions."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from importlib import import_module

from raftka.limits import Limit
from raftka.registry.errors import INVALID_SCHEMA, LimitReached, RegistryError
from raftka.registry.limits import PARSED_CHARACTERS, SCHEMA_CHARACTERS
from raftka.registry.records import AVRO, JSON, PROTOBUF
from raftka.schemas.formats.schema import Format, InvalidSchema, Parsed, Reference

MODULES = {AVRO: "avro", JSON: "json_schema", PROTOBUF: "protobuf"}

Resolved = tuple[Reference, ...]
# type, text, the schemas that it refers to, and whether it is new
Key = tuple[str, str, Resolved, bool]


def format_of(schema_type: str) -> Format:
    """Import what the type needs when a schema of it comes for the first time. Raises
    RegistryError.
    """
    if schema_type not in MODULES:
        raise RegistryError(
            INVALID_SCHEMA,
            f"Invalid schema type {schema_type:.100}: it is one of {', '.join(MODULES)}",
        )
    return import_module(f"raftka.schemas.formats.{MODULES[schema_type]}")


class ParsedSchemas:
    """A cache of parsed schemas, for several threads."""

    def __init__(self, hit: Callable[[Limit], None] = lambda limit: None) -> None:
        self._hit = hit
        self._kept: OrderedDict[Key, Parsed] = OrderedDict()  # used longest ago first
        self._characters = 0  # of the texts
        self._lock = threading.Lock()

    def parsed(
        self, schema_type: str, text: str, references: Resolved, *, new: bool = False
    ) -> Parsed:
        """Return the parsed schema. Slow for large ones: milliseconds to seconds. `new`: not one
        that was legal in an older library. Raises RegistryError.
        """
        key = (schema_type, text, references, new)
        if _characters(key) > SCHEMA_CHARACTERS.value:
            raise LimitReached(
                SCHEMA_CHARACTERS,
                INVALID_SCHEMA,
                f"Invalid schema: it has {_characters(key):,} characters",
            )
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        try:
            found = format_of(schema_type).parse(text, references, new=new)
        except InvalidSchema as error:
            raise RegistryError(INVALID_SCHEMA, f"Invalid schema: {error}") from None
        self._keep(key, found)
        return found

    def _keep(self, key: Key, schema: Parsed) -> None:
        with self._lock:
            if key not in self._kept:
                self._kept[key] = schema
                self._characters += _characters(key)
            while self._characters > PARSED_CHARACTERS.value:
                left, _ = self._kept.popitem(last=False)
                self._characters -= _characters(left)
                self._hit(PARSED_CHARACTERS)


def _characters(key: Key) -> int:
    return len(key[1]) + sum(len(each.text) for each in key[2])


def incompatibilities(
    level: str, schema_type: str, new: Parsed, version: int, old: Parsed
) -> list[str]:
    """Return the reasons why a new schema does not go with an earlier version of the same type."""
    compare, found = format_of(schema_type).incompatibilities, list[str]()
    if level.startswith(("BACKWARD", "FULL")):
        found += _with_prefix(
            f"what was written with version {version} cannot be read", compare(new, old)
        )
    if level.startswith(("FORWARD", "FULL")):
        found += _with_prefix(f"readers with version {version} cannot read it", compare(old, new))
    return found


def _with_prefix(prefix: str, reasons: Iterable[str]) -> list[str]:
    return [f"{prefix}: {each}" for each in reasons]
