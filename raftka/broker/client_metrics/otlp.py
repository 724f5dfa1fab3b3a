"""Reader of OTLP's MetricsData in Protobuf, in steps of bounded time. Pure.

Gauges, sums, histograms and summaries are read; of a histogram or a summary the count and the sum.
The reader allocates nothing for lengths that a push claims and does not have.
"""

from collections.abc import Generator, Iterator
from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from raftka.limits import (
    CLIENT_METRICS_FIELDS,
    CLIENT_METRICS_LABEL_BYTES,
    OTLP_WAITING_BYTES,
    LimitExceeded,
)
from raftka.wire.codec import varint

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
RESOURCE, SCOPES = 1, 2  # of ResourceMetrics
ATTRIBUTE = 1  # of a Resource
DOUBLE, SIGNED = Struct("<d"), Struct("<q")
UNSIGNED = Struct("<Q")
DELTA = 1
NO_VALUE = 1  # the flag of a point without a value
VARINT_BYTES = 10
FIELDS_OF_STEP = 100

Span = tuple[int, int]
# number, wire type, value of a varint or else the place, end
Field = tuple[int, int, int | Span, int]
Attribute = tuple[str, str]


class InvalidPush(ValueError):
    """This is no MetricsData."""


class Kind(IntEnum):
    """The meaning of a number."""

    GAUGE = 0
    TOTAL = 1  # since the client's beginning
    DELTA = 2  # since the last push


class Point(NamedTuple):
    """One number of a push."""

    name: str
    kind: Kind
    value: float
    attributes: list[Attribute]
    of_resource: list[Attribute]  # the same list for all points of the resource


class _Labels:
    """Attributes, until they are longer than the labels of a series may be. No series keeps so
    many, and a push must not multiply them.
    """

    __slots__ = ("found", "size")

    def __init__(self) -> None:
        self.found: list[Attribute] = []
        self.size = 0

    def add(self, attributes: list[Attribute]) -> None:
        for each in attributes:
            if self.size <= CLIENT_METRICS_LABEL_BYTES.value:
                self.found.append(each)
                self.size += len(each[0]) + len(each[1])


class _Numbers(NamedTuple):
    """The fields of a point: of a number's, or of count and sum."""

    attributes: int
    doubles: dict[int, str]  # number of the field: the suffix of the metric's name
    integers: dict[int, str]
    signed: bool


# the field of a Metric: the numbers of its points
SIMPLE = _Numbers(7, {4: ""}, {6: ""}, signed=True)
GAUGE, SUM = 5, 7
POINTS = {
    GAUGE: SIMPLE,
    SUM: SIMPLE,
    9: _Numbers(9, {5: ".sum"}, {4: ".count"}, signed=False),  # a histogram
    10: _Numbers(1, {5: ".sum"}, {4: ".count"}, signed=False),  # an exponential one
    11: _Numbers(7, {5: ".sum"}, {4: ".count"}, signed=False),  # a summary
}
FLAGS = {GAUGE: 8, SUM: 8, 9: 10, 10: 10, 11: 8}


def read_points(data: bytes) -> Iterator[Point | None]:
    """Yield the numbers of a push, and None after other steps of work. Raises InvalidPush, and
    LimitExceeded for a message of too many fields.
    """
    fields = _fields(data, (0, len(data)))
    yield from _steps(fields)
    for number, wire, place, _ in fields:
        if number == 1:
            yield from _resource_metrics(data, _span(wire, place))


def with_attributes(data: bytes, attributes: list[Attribute]) -> Generator[None, None, bytes]:
    """Return the push with these attributes behind those of each resource. `data` was read before,
    without an error. Raises LimitExceeded when it would be more than may wait for the collector.
    """
    added = b"".join([_message(ATTRIBUTE, _attribute(*each)) for each in attributes])
    metrics = [each for each in _fields(data, (0, len(data))) if each[0] == 1]
    size_bytes = len(data) + len(metrics) * len(added)
    if size_bytes > OTLP_WAITING_BYTES.value:
        raise LimitExceeded(OTLP_WAITING_BYTES, size_bytes)
    parts: list[bytes] = []
    for _, wire, place, _ in metrics:
        position, _ = span = _span(wire, place)
        resources, others = [], []
        fields = _fields(data, span)
        yield from _steps(fields)
        for inner, inner_wire, inner_place, end in fields:
            if inner == RESOURCE:
                start, stop = _span(inner_wire, inner_place)
                resources.append(data[start:stop])
            else:
                others.append(data[position:end])
            position = end
        resource = _message(RESOURCE, b"".join([*resources, added]))
        parts.append(_message(1, b"".join([resource, *others])))
    return b"".join(parts)


def _attribute(key: str, value: str) -> bytes:
    return _message(1, key.encode()) + _message(2, _message(1, value.encode()))


def _message(number: int, content: bytes) -> bytes:
    return varint(number << 3 | LENGTH) + varint(len(content)) + content


def _steps(fields: list[Field]) -> Iterator[None]:
    """Yield once for each FIELDS_OF_STEP fields that were read."""
    for _ in range(1 + len(fields) // FIELDS_OF_STEP):
        yield None


def _resource_metrics(data: bytes, span: Span) -> Iterator[Point | None]:
    of_resource = _Labels()
    scopes = []
    fields = _fields(data, span)
    yield from _steps(fields)
    for number, wire, place, _ in fields:
        if number == RESOURCE:
            inside = _fields(data, _span(wire, place))
            yield from _steps(inside)
            for inner, inner_wire, inner_place, _ in inside:
                if inner == ATTRIBUTE:
                    span = _span(inner_wire, inner_place)
                    of_resource.add((yield from _read_attribute(data, span)))
        elif number == SCOPES:
            scopes.append(_span(wire, place))
    for scope in scopes:
        fields = _fields(data, scope)
        yield from _steps(fields)
        for number, wire, place, _ in fields:
            if number == 2:
                yield from _metric(data, _span(wire, place), of_resource.found)


def _metric(data: bytes, span: Span, of_resource: list[Attribute]) -> Iterator[Point | None]:
    name = ""
    kinds = []
    fields = _fields(data, span)
    yield from _steps(fields)
    for number, wire, place, _ in fields:
        if number == 1:
            # points have copies of it; one that is cut is too long for a series all the same
            name = _text(data, _span(wire, place))[: CLIENT_METRICS_LABEL_BYTES.value + 1]
        elif number in POINTS:
            kinds.append((number, _span(wire, place)))
    for number, inside in kinds:
        fields = _fields(data, inside)
        yield from _steps(fields)
        temporality = monotonic = 0
        for inner, _, value, _ in fields:
            if inner == 2 and isinstance(value, int):
                temporality = value
            elif inner == 3 and isinstance(value, int):
                monotonic = value
        kind = Kind.DELTA if temporality == DELTA else Kind.TOTAL
        if number == GAUGE or (number == SUM and not monotonic and kind is Kind.TOTAL):
            kind = Kind.GAUGE
        for inner, wire, place, _ in fields:
            if inner == 1:
                yield from _points(data, _span(wire, place), name, number, kind, of_resource)


def _points(
    data: bytes, span: Span, name: str, shape: int, kind: Kind, of_resource: list[Attribute]
) -> Iterator[Point | None]:
    numbers = POINTS[shape]
    attributes = _Labels()
    found: dict[str, float] = {}
    flags = 0
    fields = _fields(data, span)
    yield from _steps(fields)
    for number, wire, place, _ in fields:
        if number == numbers.attributes and wire == LENGTH:
            attributes.add((yield from _read_attribute(data, _span(wire, place))))
        elif wire == FIXED64 and number in numbers.doubles:
            assert isinstance(place, int)
            (found[numbers.doubles[number]],) = DOUBLE.unpack_from(data, place)
        elif wire == FIXED64 and number in numbers.integers:
            assert isinstance(place, int)
            integer = SIGNED if numbers.signed else UNSIGNED
            (found[numbers.integers[number]],) = integer.unpack_from(data, place)
        elif number == FLAGS[shape] and wire == VARINT:
            assert isinstance(place, int)
            flags = place
    if not flags & NO_VALUE:
        for suffix, value in found.items():
            yield Point(name + suffix, kind, value, attributes.found, of_resource)


def _read_attribute(data: bytes, span: Span) -> Generator[None, None, list[Attribute]]:
    """Return the attribute as text; one with a list or a map as its value is none of a metric."""
    key, text = "", None
    fields = _fields(data, span)
    yield from _steps(fields)
    for number, wire, place, _ in fields:
        if number == 1:
            key = _text(data, _span(wire, place))
        elif number == 2:
            values = _fields(data, _span(wire, place))
            yield from _steps(values)
            for inner, inner_wire, value, _ in values:
                text = _value(data, inner, inner_wire, value)
    return [(key, text)] if key and text is not None else []


def _value(data: bytes, number: int, wire: int, value: int | Span) -> str | None:
    if number == 1 and isinstance(value, tuple):
        return _text(data, value)
    if number == 2 and wire == VARINT:
        return "true" if value else "false"
    if number == 3 and isinstance(value, int) and wire == VARINT:
        return str(value - (1 << 64) if value >> 63 else value)
    if number == 4 and isinstance(value, int) and wire == FIXED64:
        return repr(DOUBLE.unpack_from(data, value)[0])
    return None


def _text(data: bytes, span: Span) -> str:
    try:
        return data[span[0] : span[1]].decode()
    except UnicodeDecodeError:
        raise InvalidPush("a text that is not UTF-8") from None


def _span(wire: int, place: int | Span) -> Span:
    if wire != LENGTH or not isinstance(place, tuple):
        raise InvalidPush(f"wire type {wire} in place of a message or a text")
    return place


def _fields(data: bytes, span: Span) -> list[Field]:
    """Return the fields of a message: the value of a varint, the place of others. Raises
    InvalidPush and LimitExceeded.
    """
    position, end = span
    found: list[Field] = []
    most = CLIENT_METRICS_FIELDS.value
    while position < end:
        tag, position = _read_varint(data, position, end)
        number, wire = tag >> 3, tag & 7
        value: int | Span
        if wire == LENGTH:
            size, position = _read_varint(data, position, end)
            value = (position, position + size)
            position += size
        elif wire == VARINT:
            value, position = _read_varint(data, position, end)
        elif wire == FIXED64:
            value = position
            position += 8
        elif wire == FIXED32:
            value = position
            position += 4
        else:
            raise InvalidPush(f"wire type {wire}")
        if position > end or number == 0:
            raise InvalidPush("a field that is longer than its message, or without a number")
        if len(found) >= most:
            raise LimitExceeded(CLIENT_METRICS_FIELDS, len(found) + 1)
        found.append((number, wire, value, position))
    return found


def _read_varint(data: bytes, position: int, end: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 7 * VARINT_BYTES, 7):
        if position >= end:
            raise InvalidPush("a number without an end")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, position
    raise InvalidPush("a number of more than ten bytes")
