"""The declared fields of a stream's records: names and kinds from YAML, and checks of values by
their kinds. Knows neither Arrow nor Spark.

    {truck: int, speed: double?, stops: [{name: string, since: timestamp}], price: "decimal(10,2)",
    tags: {"*": string}}

A name may be missing where its kind ends in `?`. What a record has beside these names is passed by:
a producer may add fields before its readers do.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import NamedTuple, Union
from uuid import UUID

from raftka.json_values import Json, JsonObject
from raftka.pipeline.errors import OptionRefused
from raftka.schemas.values import Misfit

SHOWN = 60  # characters of a value that is wrong
LARGEST_DECIMAL = 38  # digits: Spark's, and Arrow's of 128 bits
EXACT_DIGITS = 15  # of a decimal that survive in a number of JSON, which is read as a double
MAP = "*"  # the one name of a mapping that declares a map
PLAIN_DECIMAL = re.compile(r"-?[0-9]{1,60}(\.[0-9]{1,60})?")
PLAIN_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
DECIMAL_KIND = re.compile(r"decimal\(\s*([0-9]{1,2})\s*,\s*([0-9]{1,2})\s*\)")


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


@dataclass(frozen=True, slots=True)
class MapOf:
    """Any names, which are strings, with values of one kind."""

    of: "Kind"


@dataclass(frozen=True, slots=True)
class Exact:
    """A decimal of `digits` digits, `scale` of them behind the point."""

    digits: int
    scale: int

    def __str__(self) -> str:
        return f"decimal({self.digits},{self.scale})"

    def check(self, value: Json) -> Decimal:
        """A decimal, a whole number, digits in a string; a number of JSON where no digit can be
        lost. Raises ValueError rather than round.
        """
        if type(value) is float and self.digits <= EXACT_DIGITS:
            value = Decimal(repr(value))
        known = type(value) in (str, int, Decimal)
        if (
            not known
            or (type(value) is str and PLAIN_DECIMAL.fullmatch(value) is None)
            or (type(value) is int and abs(value) >= 10**self.digits)
        ):
            raise ValueError
        number = Decimal(value)
        if not number.is_finite():
            raise ValueError
        try:  # in a context of its own: rounding, and more digits than that, raise
            return number.quantize(
                Decimal(1).scaleb(-self.scale),
                context=Context(prec=self.digits, traps=[InvalidOperation, Inexact]),
            )
        except (InvalidOperation, Inexact):
            raise ValueError from None


Kind = Union[str, Many, Group, MapOf, Exact]  # noqa: UP007 (a forward reference)


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
    """Check a text. UTF-8 must hold it: JSON may escape half of a surrogate pair. Avro's times and
    UUIDs become text here.
    """
    if type(value) in (UUID, time):
        value = str(value)
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
    # 0001-01-01 in Tokyo is in no year of UTC's
    return value.astimezone(UTC) if value.tzinfo is not None else value.replace(tzinfo=UTC)


def _day(value: object) -> date:
    if type(value) is str and PLAIN_DATE.fullmatch(value) is not None:
        return date.fromisoformat(value)
    if type(value) is not date:
        raise ValueError
    return value


CHECKS: dict[str, Callable[[Json], Json]] = {
    "boolean": _of(bool),
    "int": _whole(32),
    "bigint": _whole(64),
    "float": _number,
    "double": _number,
    "string": _text,
    "binary": _of(bytes),
    "timestamp": _moment,
    "date": _day,
}
SPARK = {"int": "integer", "bigint": "long"}  # its JSON has other names for them


def fields(declared: object, where: str) -> tuple[Field, ...]:
    """From YAML. Raises OptionRefused."""
    if not isinstance(declared, Mapping) or not declared:
        raise OptionRefused(
            f"{where} is to be a mapping of names to kinds, such as {{truck: int, speed: double?}}"
        )
    return tuple(_field(str(name), kind, f"{where}.{name}") for name, kind in declared.items())


def _field(name: str, declared: Json, where: str) -> Field:
    if name.startswith("_"):
        raise OptionRefused(
            f"{where}: names with _ before them are of the record: _topic, _partition, _offset, ..."
        )
    if name == MAP:
        raise OptionRefused(
            f"{where}: a record is no map; one of its fields may be: {{tags: {{{MAP!r}: string}}}}"
        )
    nullable = isinstance(declared, str) and declared.endswith("?")
    return Field(name, _kind(declared[:-1] if nullable else declared, where), nullable)


def _kind(declared: object, where: str) -> Kind:
    if isinstance(declared, Mapping):
        if MAP in declared:
            if len(declared) > 1:
                raise OptionRefused(
                    f"{where} is a map, whose one name is *, and has other names beside it"
                )
            return MapOf(_kind(declared[MAP], f"{where}.{MAP}"))
        return Group(fields(declared, where))
    if isinstance(declared, list) and len(declared) == 1:
        return Many(_kind(declared[0], where))
    if isinstance(declared, str) and declared in CHECKS:
        return declared
    if isinstance(declared, str) and (match := DECIMAL_KIND.fullmatch(declared)) is not None:
        digits, scale = int(match[1]), int(match[2])
        if not 1 <= digits <= LARGEST_DECIMAL or scale > digits:
            raise OptionRefused(
                f"{where} is {declared!r}: of 1 to {LARGEST_DECIMAL} digits, no more of them "
                "behind the point"
            )
        return Exact(digits, scale)
    kinds = f"{', '.join(CHECKS)}, decimal(10,2)"
    raise OptionRefused(
        f"{where} is {declared!r}: one of {kinds}, a mapping of such, {{{MAP!r}: kind}} for a "
        "map, or one of these in [ ]"
    )


def fitting(value: object, kind: Kind, where: str) -> Json:
    """Return the value as its kind has it. Raise Misfit."""
    if isinstance(kind, Group):
        if not isinstance(value, Mapping):
            raise Misfit(
                f"{where or 'the record'} is {_shown(value)} where a group of fields is to be"
            )
        return {each.name: member(value, each, where) for each in kind.fields}
    if isinstance(kind, Many):
        if not isinstance(value, list):
            raise Misfit(f"{where} is {_shown(value)} where a list is to be")
        return [fitting(each, kind.of, f"{where}[{at}]") for at, each in enumerate(value)]
    if isinstance(kind, MapOf):
        if not isinstance(value, Mapping):
            raise Misfit(f"{where} is {_shown(value)} where a map is to be")
        return {
            _name(name, where): fitting(each, kind.of, f"{where}[{_shown(name)}]")
            for name, each in value.items()
        }
    try:
        return kind.check(value) if isinstance(kind, Exact) else CHECKS[kind](value)
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


def _name(name: object, where: str) -> str:
    """A name in a map. Raises Misfit."""
    try:
        return _text(name)
    except ValueError:
        raise Misfit(f"{where} has the name {_shown(name)} where a string is to be") from None


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN else text[:SHOWN] + "..."


def spark_json(wanted: tuple[Field, ...]) -> JsonObject:
    """As Spark writes types down: read back without asking anybody, which a definition must not."""
    return {
        "type": "struct",
        "fields": [
            {"name": each.name, "type": _spark(each.kind), "nullable": True, "metadata": {}}
            for each in wanted
        ],
    }


def _spark(kind: Kind) -> Json:
    if isinstance(kind, Group):
        return spark_json(kind.fields)
    if isinstance(kind, Many):
        return {"type": "array", "elementType": _spark(kind.of), "containsNull": True}
    if isinstance(kind, MapOf):
        return {
            "type": "map",
            "keyType": "string",
            "valueType": _spark(kind.of),
            "valueContainsNull": True,
        }
    return str(kind) if isinstance(kind, Exact) else SPARK.get(kind, kind)


# records that change rows by key

DEBEZIUM, UPSERT = "debezium", "upsert"
FLAG = (Field("_deleted", "boolean"),)
ADDED = {
    DEBEZIUM: (
        *FLAG,
        Field("_op", "string", nullable=True),
        Field("_changed", "timestamp", nullable=True),
    ),
    UPSERT: FLAG,
}


class Envelope(NamedTuple):
    kind: str
    key: tuple[str, ...]


def envelope(kind: object, key: object, declared: Sequence[Field], where: str) -> Envelope | None:
    """From YAML; None: records are rows that are added. Raises OptionRefused."""
    if kind is None:
        if key is not None:
            raise OptionRefused(
                f"{where} has key, which is of streams with an envelope: {', '.join(ADDED)}"
            )
        return None
    if not isinstance(kind, str) or kind not in ADDED:
        raise OptionRefused(f"{where}.envelope is {kind!r}: one of {', '.join(ADDED)}")
    names = (
        tuple(map(str, key))
        if isinstance(key, list)
        else (str(key),)
        if isinstance(key, str)
        else ()
    )
    if not names:
        raise OptionRefused(f"{where} has an envelope: which fields name a row? `key: [id]`")
    known = {each.name: each for each in declared}
    for name in names:
        if name not in known:
            raise OptionRefused(
                f"{where}.key names {name}, which is no field: there are {', '.join(known)}"
            )
        if known[name].nullable:
            raise OptionRefused(f"{where}.key names {name}, which may be null: a key has no `?`")
    return Envelope(kind, names)
