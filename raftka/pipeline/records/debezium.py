"""Change events of Debezium: their envelopes, the schema that Kafka Connect's JSON may carry, and
its types. Knows no Arrow and no declared fields.

    {"op": "u", "before": {"id": 7, "state": "NEW"}, "after": {"id": 7, "state": "PAID"}, "source":
    {"ts_ms": 1795596654627}}

`c` created, `u` updated, `d` deleted, `r` read by a snapshot. With JsonConverter's `schemas.enable`
this is `payload`, beside its `schema`. Behind a deletion comes a tombstone: the same key without a
value.
"""

import binascii
from base64 import b64decode, b64encode
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Literal, NamedTuple

import msgspec

from raftka.json_values import Json
from raftka.pipeline.records.fast_json import valid_one
from raftka.schemas.values import Misfit

EPOCH, DAY_ONE, MIDNIGHT = datetime(1970, 1, 1, tzinfo=UTC), date(1970, 1, 1), datetime(1970, 1, 1)
ROWS, DELETED, TRUNCATED = ("c", "u", "r"), "d", "t"
# PostgreSQL does not tell large values that did not change
UNAVAILABLE = "__debezium_unavailable_value"
UNAVAILABLE_BASE64 = b64encode(UNAVAILABLE.encode())
PLACEHOLDERS: tuple[Json, ...] = (
    UNAVAILABLE,
    UNAVAILABLE.encode(),
    UNAVAILABLE_BASE64.decode(),
    [UNAVAILABLE],
)

# bytes of a decimal, twice what a column holds: to make digits of many more takes the square of
# their time
LARGEST_NUMBER = 32
LARGEST_SCALE = 1000


class Change(NamedTuple):
    op: str | None  # None: a tombstone
    before: Mapping[str, Json]
    after: Mapping[str, Json]
    at: datetime | None  # when the database did it

    @property
    def deleted(self) -> bool:
        return self.op in (None, DELETED)


def change_of(document: object) -> Change:
    """Read a change event. `document`: the value as its format has it; None: a tombstone. Raise
    Misfit for a value that is no change of a row.
    """
    payload = unwrapped(document)
    if payload is None:
        return Change(None, {}, {}, None)
    if not isinstance(payload, Mapping) or "op" not in payload:
        raise Misfit(
            "no change event of Debezium: it has no op (does ExtractNewRecordState flatten the "
            "events? Then leave `envelope` out)"
        )
    op, before, after = payload["op"], payload.get("before"), payload.get("after")
    if op == TRUNCATED:
        raise Misfit(
            "the table was truncated: that removes no row of a lake. Next step: remove its rows "
            "by hand, or begin with a new lake"
        )
    if op not in (*ROWS, DELETED):
        raise Misfit(
            f"op is {str(op)[:20]!r}: no change of a row, which would be one of "
            f"{', '.join((*ROWS, DELETED))}"
        )
    if op != DELETED and not isinstance(after, Mapping):
        raise Misfit(f"op is {op!r}, and there is no group of fields in after")
    found = {
        name: each if isinstance(each, Mapping) else {}
        for name, each in (("before", before), ("after", after))
    }
    return Change(op, found["before"], found["after"], moment(payload))


def moment(payload: Mapping[str, Json]) -> datetime | None:
    source = payload.get("source")
    for holder in (source if isinstance(source, Mapping) else {}, payload):
        told = holder.get("ts_ms")
        try:
            if type(told) is int:
                return EPOCH + timedelta(milliseconds=told)
        except OverflowError:
            pass  # a time of no year: the change counts without it
    return None


Quick = Json  # an event without a schema beside it; its rows are not decoded
QUICK = msgspec.json.Decoder(
    msgspec.defstruct(
        "Quick",
        [
            ("op", Literal["c", "u", "r"]),
            ("after", msgspec.Raw),
            ("source", Json, None),
            ("ts_ms", Json, None),
        ],
    )
).decode
ESCAPED = b"\\u00"  # a letter may be written so: the placeholder would not be seen


def quick(text: bytes | None) -> Quick:
    """An event that has a row now; None: `change_of` is to say. As strict as `parse_json`."""
    try:
        if (
            text is None
            or not valid_one(text)
            or any(each in text for each in (UNAVAILABLE.encode(), UNAVAILABLE_BASE64, ESCAPED))
        ):
            return None
        return QUICK(text)
    except Exception:  # whatever it is: the slow way says it
        return None


def complete(change: Change, names: Collection[str]) -> dict[str, Json]:
    """Return the present row. PostgreSQL sends large values that did not change only in the row
    before. Raise Misfit when it did not send them.
    """
    row = dict(change.after)
    for name in names:
        if _is_placeholder(row.get(name)):
            row[name] = change.before.get(name)
            if row[name] is None or _is_placeholder(row[name]):
                raise Misfit(
                    f"{name} did not change, and its value is not in the event: it is too large "
                    "for PostgreSQL's usual log. "
                    "Next step: ALTER TABLE ... REPLICA IDENTITY FULL, then a snapshot of the table"
                )
    return row


def _is_placeholder(value: object) -> bool:
    return isinstance(value, str | bytes | list) and any(
        type(value) is type(each) and value == each for each in PLACEHOLDERS
    )


# the schema beside the payload


def unwrapped(document: object) -> Json:
    """The payload, its values of the types that the schema names; a document without a schema as it
    is. Raises Misfit.
    """
    if not isinstance(document, Mapping) or document.keys() != {"schema", "payload"}:
        return document
    schema = document["schema"]
    return (
        document["payload"]
        if not isinstance(schema, Mapping)
        else Typing().typed(document["payload"], schema, "")
    )


Schema = Mapping[str, Json]


class Typing:
    """Converts the values of one document of Kafka Connect's JSON by its schema. A value that does
    not match the schema stays as it is: the declared fields judge it.
    """

    def __init__(self) -> None:
        # of each group in the schema: a list of groups asks for them again and again
        self._fields: dict[int, dict[str, Schema]] = {}

    def typed(self, value: Json, schema: Schema, where: str) -> Json:
        """Raises Misfit."""
        if value is None:
            return None
        kind, name = schema.get("type"), schema.get("name")
        convert = TYPES.get(name) if isinstance(name, str) else None
        if convert is None and kind == "bytes":
            convert = _bytes
        if convert is not None:
            try:
                return convert(value, schema)
            except (ValueError, TypeError, KeyError, OverflowError, ArithmeticError):
                raise Misfit(
                    f"{where or 'the value'} is {str(value)[:60]!r}, which is no {name or kind}"
                ) from None
        if kind == "struct" and isinstance(value, Mapping):
            known = self._known(schema)
            return {
                each: self.typed(item, known[each], f"{where}.{each}" if where else each)
                if each in known
                else item
                for each, item in value.items()
            }
        items = schema.get("items")
        if kind == "array" and isinstance(value, list) and isinstance(items, Mapping):
            return [self.typed(each, items, where) for each in value]
        return value

    def _known(self, schema: Schema) -> dict[str, Schema]:
        found = self._fields.get(id(schema))
        if found is None:
            fields = schema.get("fields")
            told = fields if isinstance(fields, list) else []
            found = {
                each["field"]: each
                for each in told
                if isinstance(each, Mapping) and isinstance(each.get("field"), str)
            }
            self._fields[id(schema)] = found
        return found


def _whole(value: Json) -> int:
    if type(value) is not int:
        raise TypeError
    return value


def _bytes(value: Json, _: object = None) -> bytes:
    if not isinstance(value, str):
        raise TypeError
    return b64decode(value, validate=True)


def _number(unscaled: Json, scale: int) -> Decimal:
    content = _bytes(unscaled)
    if abs(scale) > LARGEST_SCALE or len(content) > LARGEST_NUMBER:
        raise ValueError
    digits = Decimal(int.from_bytes(content, "big", signed=True)).as_tuple()
    return Decimal((digits.sign, digits.digits, -scale))


def _decimal(value: Json, schema: Mapping[str, Json]) -> Decimal:
    """JsonConverter writes bytes, or numbers with `decimal.format=NUMERIC`."""
    if type(value) in (int, float):
        return Decimal(repr(value))
    return _number(value, int(schema["parameters"]["scale"]))


def _any_scale(value: Json, _: object) -> Decimal:
    return _number(value["value"], _whole(value["scale"]))


def _day(value: Json, _: object) -> date:
    return day_of(_whole(value))


def day_of(days: int) -> date:
    """Days since 1970. Raises OverflowError."""
    return DAY_ONE + timedelta(days=days)


def _instant(per_us: float) -> Callable[[Json, object], datetime]:
    """`per_us`: so many of the unit are a microsecond; less than one where it is longer."""
    return lambda value, _: EPOCH + timedelta(microseconds=_us(value, per_us))


def _clock(per_us: float) -> Callable[[Json, object], time]:
    return lambda value, _: (MIDNIGHT + timedelta(microseconds=_us(value, per_us))).time()


def _us(value: Json, per_us: float) -> int:
    return _whole(value) // int(per_us) if per_us >= 1 else _whole(value) * round(1 / per_us)


MS, US, NS = 0.001, 1, 1000
CONNECT, TIME = "org.apache.kafka.connect.data", "io.debezium.time"
TYPES: dict[str, Callable[[Json, Mapping[str, Json]], Json]] = {
    f"{CONNECT}.Decimal": _decimal,
    "io.debezium.data.VariableScaleDecimal": _any_scale,
    f"{CONNECT}.Date": _day,
    f"{TIME}.Date": _day,
    f"{CONNECT}.Timestamp": _instant(MS),
    f"{TIME}.Timestamp": _instant(MS),
    f"{TIME}.MicroTimestamp": _instant(US),
    f"{TIME}.NanoTimestamp": _instant(NS),
    f"{CONNECT}.Time": _clock(MS),
    f"{TIME}.Time": _clock(MS),
    f"{TIME}.MicroTime": _clock(US),
    f"{TIME}.NanoTime": _clock(NS),
}


def plain(value: Json, kind: object) -> Json:
    """A value without a schema where Kafka Connect's JSON is of one meaning: base64 for `binary`,
    for a `date` days, or the text 2026-01-31Z of `time.precision.mode=isostring`. Others stay.
    """
    try:
        if kind == "date":
            return (
                day_of(value)
                if type(value) is int
                else value.removesuffix("Z")
                if type(value) is str
                else value
            )
        if kind == "binary" and type(value) is str:
            return _bytes(value)
    except (OverflowError, binascii.Error):
        pass  # the declared fields say what is wrong
    return value
