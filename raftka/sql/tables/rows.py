"""Rows of lookups from the records of a table, with the columns, types and values that Spark gives
them. Knows no topic and no Spark.
"""

import json
import operator
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from ctypes import c_float
from dataclasses import dataclass
from typing import NamedTuple

from raftka.json_values import Json, JsonObject
from raftka.pipeline.errors import PipelineError
from raftka.pipeline.records.fields import Field, Group, Kind, Many, MapOf, fitting
from raftka.pipeline.records.registry_client import RegistryAccess
from raftka.pipeline.records.schema_readers import RegistryReader
from raftka.pipeline.sql import plain
from raftka.schemas.framing import HEADER_BYTES, MAGIC
from raftka.schemas.values import Misfit
from raftka.schemas.values.json_text import parse_json
from raftka.sql import answers
from raftka.sql.catalog import Stream, is_key
from raftka.sql.language.lookups import Condition, Lookup
from raftka.sql.language.statements import Column, Format, Role
from raftka.sql.tables.store import Found

BITS = {"int": 32, "bigint": 64}
WHOLE = re.compile(rb"[\x00-\x20\x7f]*([+-]?[0-9]{1,40})[\x00-\x20\x7f]*")
COMPARE: Mapping[str, Callable[[Json, Json], bool]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def wanted_of_table(key: bytes, table: Stream) -> bytes | None:
    """Return the bytes that a lookup names a record's key by; None: no lookup names it. A key of
    several columns is named by all but the last one.
    """
    if table.key is not None:
        return wanted_of(key, table.key.kind)
    parts = _parts(key, table)
    return None if parts is None else _name(list(parts.values())[:-1])


def _parts(key: bytes, table: Stream) -> Mapping[str, str | int] | None:
    """Return the values of a key of several columns; None: it does not fit."""
    fields = tuple(Field(each.name, each.kind) for each in table.keys)
    try:
        found: Mapping[str, str | int] = fitting(parse_json(key), Group(fields), "")
    except Misfit:
        return None
    return found


def _name(values: Sequence[str | int]) -> bytes:
    return json.dumps(values).encode()


def wanted_of(key: bytes, kind: Kind) -> bytes | None:
    """Return the bytes that a lookup names a key of one column by; None: no lookup names it."""
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
    conditions: Sequence[tuple[Column, Condition]] = ()

    @property
    def shown(self) -> list[answers.Column]:
        return [answers.Column(each.name, _type_text(each.column.kind)) for each in self.columns]


def plan_of(lookup: Lookup, table: Stream) -> Plan | None:
    """None: it is a question for Spark."""
    # Spark alone reads delimited lines
    is_known = table.format is not Format.DELIMITED and all(
        each.role is Role.VALUE or is_key(each) for each in table.columns
    )
    if table.kind != "TABLE" or not is_known:
        return None
    columns = {each.name.lower(): each for each in table.columns}
    names = lookup.columns or [each.name for each in table.columns]
    compared = [(lookup.key, value) for value in lookup.values]
    compared += [(each.column, each.value) for each in lookup.more]
    if not all(name.lower() in columns for name in (*names, *(name for name, _ in compared))):
        return None
    if not all(_can_compare(columns[name.lower()].kind, value) for name, value in compared):
        return None
    keys = _named(lookup, table)
    if not keys:
        return None
    conditions = [(columns[each.column.lower()], each) for each in lookup.more]
    return Plan([Chosen(name, columns[name.lower()]) for name in names], keys, conditions)


def _can_compare(kind: Kind, value: str | int) -> bool:
    """Return whether Spark compares a column with a value as it is."""
    return kind == "string" if isinstance(value, str) else kind in BITS


def _named(lookup: Lookup, table: Stream) -> list[tuple[str | int, bytes]]:
    """Return the values of a lookup, and the bytes that name them; none: it does not say all of
    the key that it is to say.
    """
    if any(each.kind not in ("string", *BITS) for each in table.keys):
        return []
    wanted = [each.name.lower() for each in table.keys]
    if table.key is not None:
        names_key = lookup.key.lower() == wanted[0]
        return [(each, str(each).encode()) for each in lookup.values] if names_key else []
    if lookup.key.lower() not in wanted[:-1]:
        return []
    equal = {each.column.lower(): each.value for each in lookup.more if each.sign == "="}
    found = []
    for value in lookup.values:
        given = {**equal, lookup.key.lower(): value}
        if not all(name in given for name in wanted[:-1]):
            return []
        found.append((value, _name([given[name] for name in wanted[:-1]])))
    return found


def _type_text(kind: Kind) -> str:
    if isinstance(kind, Many):
        return f"array<{_type_text(kind.of)}>"
    if isinstance(kind, MapOf):
        return f"map<string,{_type_text(kind.of)}>"
    if isinstance(kind, Group):
        parts = (f"{each.name}:{_type_text(each.kind)}" for each in kind.fields)
        return f"struct<{','.join(parts)}>"
    return str(kind)


def _holds(value: Json, condition: Condition) -> bool:
    return value is not None and COMPARE[condition.sign](value, condition.value)


class ValueReader:
    """Reads the values of a table's records. May be used by several threads."""

    def __init__(self, table: Stream, registry: RegistryAccess | None) -> None:
        self._table, self._group = table, Group(table.fields)
        self._has_registry = registry is not None
        self._lock = threading.Lock()  # of the reader by schema ids
        self._framed = (
            None
            if registry is None or table.format.decoded_as == Format.JSON
            else RegistryReader.of(registry, (table.format.decoded_as,))
        )

    def rows(self, plan: Plan, key: str | int, records: Sequence[Found]) -> list[list[Json]]:
        """Return the rows of records that a value names, in the order of their keys; those that do
        not fit are left out. Raise PipelineError without a registry.
        """
        table = self._table
        if table.key is None:
            parts = [_parts(each.key, table) or {} for each in records]
        else:
            parts = [{table.key.name: key}] * len(records)
        found = [
            (list(keys.values()), row)
            for keys, each in zip(parts, records, strict=True)
            if (row := self._row(plan, keys, each.value)) is not None
        ]
        return [row for _, row in sorted(found, key=lambda each: each[0])]

    def _row(self, plan: Plan, keys: Mapping[str, Json], value: bytes) -> list[Json] | None:
        """Return a row; None: the record does not fit."""
        try:
            fields: JsonObject = {**fitting(self._parsed(value), self._group, ""), **keys}
            if not all(_holds(fields[column.name], each) for column, each in plan.conditions):
                return None
            return [_shown(fields[column.name], column.kind) for _, column in plan.columns]
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
