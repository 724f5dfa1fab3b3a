"""Rows of lookups from the records of a table, with the columns, types and values that Spark gives
them. Knows no topic and no Spark.
"""

import re
import threading
from collections.abc import Sequence
from ctypes import c_float
from dataclasses import dataclass
from typing import NamedTuple

from raftka.json_values import Json, JsonObject
from raftka.pipeline.errors import PipelineError
from raftka.pipeline.records.fields import Group, Kind, Many, MapOf, fitting
from raftka.pipeline.records.registry_client import RegistryAccess
from raftka.pipeline.records.schema_readers import RegistryReader
from raftka.pipeline.sql import plain
from raftka.schemas.framing import HEADER_BYTES, MAGIC
from raftka.schemas.values import Misfit
from raftka.schemas.values.json_text import parse_json
from raftka.sql import answers
from raftka.sql.catalog import Stream, is_key
from raftka.sql.language.lookups import Lookup
from raftka.sql.language.statements import Column, Format, Role

BITS = {"int": 32, "bigint": 64}
WHOLE = re.compile(rb"[\x00-\x20\x7f]*([+-]?[0-9]{1,40})[\x00-\x20\x7f]*")


def wanted_of(key: bytes, kind: Kind) -> bytes | None:
    """Return the bytes that a lookup names a record's key by; None: no lookup names it."""
    if kind == "string":
        return key
    match = WHOLE.fullmatch(key)
    number = None if match is None else int(match[1])
    limit = 1 << BITS[str(kind)] - 1
    return b"%d" % number if number is not None and -limit <= number < limit else None


class Chosen(NamedTuple):
    name: str  # as the question has it
    column: Column


@dataclass(frozen=True, slots=True)
class Plan:
    """A lookup in a table that has all that it names."""

    columns: Sequence[Chosen]
    keys: Sequence[tuple[str | int, bytes]]  # each value, and the bytes that name it

    @property
    def shown(self) -> list[answers.Column]:
        return [answers.Column(each.name, _type_text(each.column.kind)) for each in self.columns]


def plan_of(lookup: Lookup, table: Stream) -> Plan | None:
    """None: it is a question for Spark."""
    key = table.key
    # Spark alone reads delimited lines
    is_known = table.format is not Format.DELIMITED and all(
        each.role is Role.VALUE or is_key(each) for each in table.columns
    )
    if key is None or table.kind != "TABLE" or not is_known:
        return None
    if lookup.key.lower() != key.name.lower() or key.kind not in ("string", *BITS):
        return None
    kind = str if key.kind == "string" else int
    if not all(isinstance(each, kind) for each in lookup.values):
        return None
    columns = {each.name.lower(): each for each in table.columns}
    names = lookup.columns or [each.name for each in table.columns]
    if not all(name.lower() in columns for name in names):
        return None
    return Plan(
        [Chosen(name, columns[name.lower()]) for name in names],
        [(each, str(each).encode()) for each in lookup.values],
    )


def _type_text(kind: Kind) -> str:
    if isinstance(kind, Many):
        return f"array<{_type_text(kind.of)}>"
    if isinstance(kind, MapOf):
        return f"map<string,{_type_text(kind.of)}>"
    if isinstance(kind, Group):
        parts = (f"{each.name}:{_type_text(each.kind)}" for each in kind.fields)
        return f"struct<{','.join(parts)}>"
    return str(kind)


class ValueReader:
    """Reads the values of a table's records. May be used by several threads."""

    def __init__(self, table: Stream, registry: RegistryAccess | None) -> None:
        self._format, self._group = table.format, Group(table.fields)
        self._has_registry = registry is not None
        self._lock = threading.Lock()  # of the reader by schema ids
        self._framed = (
            None
            if registry is None or table.format.decoded_as == Format.JSON
            else RegistryReader.of(registry, (table.format.decoded_as,))
        )

    def row(self, plan: Plan, key: str | int, value: bytes) -> list[Json] | None:
        """Return a row; None: the record does not fit. Raise PipelineError without a registry."""
        try:
            fields: JsonObject = fitting(self._parsed(value), self._group, "")
            return [
                key if is_key(column) else _shown(fields[column.name], column.kind)
                for _, column in plan.columns
            ]
        except Misfit:
            return None
        except PipelineError:
            raise
        except Exception:  # of a library, on a wrong value: the record does not fit
            return None

    def _parsed(self, value: bytes) -> Json:
        if not self._group.fields:
            return {}
        if self._framed is not None:
            with self._lock:
                self._framed.refresh()
                return self._framed.value(value)
        is_framed = self._has_registry and value[:1] == bytes([MAGIC])
        return parse_json(value[HEADER_BYTES:] if is_framed else value)


def _shown(value: Json, kind: Kind) -> Json:
    """Return the value as an answer of Spark shows it: times are local."""
    if value is None:
        return None
    if isinstance(kind, Group):
        return {each.name: _shown(value[each.name], each.kind) for each in kind.fields}
    if isinstance(kind, Many):
        return [_shown(each, kind.of) for each in value]
    if isinstance(kind, MapOf):
        return {name: _shown(each, kind.of) for name, each in value.items()}
    if kind == "float":
        return c_float(value).value
    if kind == "timestamp":
        value = value.astimezone().replace(tzinfo=None)
    return plain(value)
