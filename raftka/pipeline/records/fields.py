"""The declared fields of a stream's records: names and kinds from YAML, and whether a value is of its kind. Knows neither Arrow nor Spark.

    {truck: int, speed: double?, stops: [{name: string, since: timestamp}]}

A name may be missing where its kind ends in `?`. What a record has beside these names is passed by: a producer may add fields before its readers do.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Union

from raftka.json_values import Json, JsonObject
from raftka.pipeline.errors import OptionRefused

SHOWN = 60  # characters of a value that is wrong


class Misfit(Exception):
    """A value is not of its declared kind: the text names the value and the kind."""


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    kind: "Kind"
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class Many:
    of: "Kind"


@dataclass(frozen=True, slots=True)
class Group:
    fields: tuple[Field, ...]


Kind = Union[str, Many, Group]  # noqa: UP007 (a forward reference)


def _whole(bits: int) -> Callable[[Json], Json]:
    def check(value: object) -> Json:
        if type(value) is not int or not -(1 << bits - 1) <= value < 1 << bits - 1:
            raise ValueError
        return value

    return check


def _number(value: Json) -> float:
    if type(value) not in (int, float):
        raise ValueError
    return float(value)


def _of(*kinds: type) -> Callable[[Json], Json]:
    def check(value: object) -> Json:
        if type(value) not in kinds:
            raise ValueError
        return value

    return check


def _text(value: object) -> str:
    """Only what UTF-8 can hold: JSON may escape half of a surrogate pair."""
    if type(value) is not str:
        raise ValueError
    value.encode()
    return value


def _moment(value: object) -> datetime:
    """ISO 8601, UTC where it does not say, or ms since 1970."""
    if type(value) is int:
        return datetime.fromtimestamp(value / 1000, UTC)
    if type(value) is str:
        value = datetime.fromisoformat(value)
    if not isinstance(value, datetime):
        raise ValueError
    return value.astimezone(UTC) if value.tzinfo is not None else value.replace(tzinfo=UTC)  # 0001-01-01 in Tokyo is in no year of UTC's


CHECKS: dict[str, Callable[[Json], Json]] = {
    "boolean": _of(bool),
    "int": _whole(32),
    "bigint": _whole(64),
    "float": _number,
    "double": _number,
    "string": _text,
    "binary": _of(bytes),
    "timestamp": _moment,
}
SPARK = {"int": "integer", "bigint": "long"}  # its JSON has other names for them


def fields(declared: object, where: str) -> tuple[Field, ...]:
    """From YAML. Raises OptionRefused."""
    if not isinstance(declared, Mapping) or not declared:
        raise OptionRefused(f"{where} is to be a mapping of names to kinds, such as {{truck: int, speed: double?}}")
    return tuple(_field(str(name), kind, f"{where}.{name}") for name, kind in declared.items())


def _field(name: str, declared: Json, where: str) -> Field:
    if name.startswith("_"):
        raise OptionRefused(f"{where}: names with _ before them are of the record: _topic, _partition, _offset, ...")
    nullable = isinstance(declared, str) and declared.endswith("?")
    return Field(name, _kind(declared[:-1] if nullable else declared, where), nullable)


def _kind(declared: object, where: str) -> Kind:
    if isinstance(declared, Mapping):
        return Group(fields(declared, where))
    if isinstance(declared, list) and len(declared) == 1:
        return Many(_kind(declared[0], where))
    if isinstance(declared, str) and declared in CHECKS:
        return declared
    raise OptionRefused(f"{where} is {declared!r}: one of {', '.join(CHECKS)}, a mapping of such, or one of these in [ ]")


def fitting(value: object, kind: Kind, where: str) -> Json:
    """The value as its kind has it. Raises Misfit."""
    if isinstance(kind, Group):
        if not isinstance(value, Mapping):
            raise Misfit(f"{where or 'the record'} is {_shown(value)} where a group of fields is to be")
        return {each.name: member(value, each, where) for each in kind.fields}
    if isinstance(kind, Many):
        if not isinstance(value, list):
            raise Misfit(f"{where} is {_shown(value)} where a list is to be")
        return [fitting(each, kind.of, f"{where}[{at}]") for at, each in enumerate(value)]
    try:
        return CHECKS[kind](value)
    except (ValueError, OverflowError, OSError):
        raise Misfit(f"{where} is {_shown(value)} where a {kind} is to be") from None


def member(record: Mapping[str, object], field: Field, where: str = "") -> Json:
    value = record.get(field.name)
    name = f"{where}.{field.name}" if where else field.name
    if value is not None:
        return fitting(value, field.kind, name)
    if not field.nullable:
        raise Misfit(f"{name} is null" if field.name in record else f"there is no {name}")
    return None


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN else text[:SHOWN] + "..."


def spark_json(wanted: tuple[Field, ...]) -> JsonObject:
    """As Spark writes types down: read back without asking anybody, which a definition must not."""
    return {
        "type": "struct",
        "fields": [{"name": each.name, "type": _spark(each.kind), "nullable": True, "metadata": {}} for each in wanted],
    }


def _spark(kind: Kind) -> Json:
    if isinstance(kind, Group):
        return spark_json(kind.fields)
    if isinstance(kind, Many):
        return {"type": "array", "elementType": _spark(kind.of), "containsNull": True}
    return SPARK.get(kind, kind)


def parsed_json(value: bytes) -> Json:
    """Strictly: NaN is none, and bytes that are no UTF-8 are none. Raises Misfit."""
    try:
        return json.loads(value.decode(), parse_constant=_refuse)
    except UnicodeDecodeError as error:
        raise Misfit(f"no JSON: {error.reason} at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise Misfit(f"no JSON: {error.msg} at character {error.pos}") from None
    except ValueError as error:  # such as a number with more digits than Python reads
        raise Misfit(f"no JSON of ours: {error}") from None
    except RecursionError:
        raise Misfit("no JSON of ours: it is nested too deeply") from None


def _refuse(text: str) -> Json:
    raise Misfit(f"no JSON: {text}")
