"""Reading of pushes that are made to cost much: no step is long, and nothing is multiplied."""

from collections.abc import Iterator
from itertools import count

import pytest

from raftka.broker.client_metrics import otlp
from raftka.broker.client_metrics.otlp import Kind, Point, read_points, with_attributes
from raftka.limits import (
    CLIENT_METRICS_FIELDS,
    CLIENT_METRICS_LABEL_BYTES,
    OTLP_WAITING_BYTES,
    LimitExceeded,
)
from tests.broker.otlp import attributes, double, gauge, histogram, integer, message, push

FIELDS = 2_000  # of each message
MANY = 100  # messages
EMPTY = integer(15, 0) * FIELDS  # fields that nobody knows
# numbers that are read in one go: a tag and a value for each field of one message, some more
MOST_NUMBERS = 3 * FIELDS
SHAPES = {
    "resources": message(1, *[message(1, EMPTY)] * MANY),
    "one resource": message(1, message(1, *[message(1, EMPTY)] * MANY)),
    "values of an attribute": message(1, message(1, message(1, *[message(2, EMPTY)] * MANY))),
    "scopes": message(1, *[message(2, EMPTY)] * MANY),
    "metrics": message(1, message(2, *[message(2, EMPTY)] * MANY)),
    "kinds": message(1, message(2, message(2, *[message(5, EMPTY)] * MANY))),
    "points": message(1, message(2, message(2, message(5, *[message(1, EMPTY)] * MANY)))),
    "attributes of a point": message(
        1, message(2, message(2, message(5, message(1, *[message(7, EMPTY)] * MANY))))
    ),
}


@pytest.fixture
def numbers(monkeypatch: pytest.MonkeyPatch) -> "count[int]":
    """The count of numbers that are read."""
    read, counted = otlp._read_varint, count()

    def counting(data: bytes, position: int, end: int) -> tuple[int, int]:
        next(counted)
        return read(data, position, end)

    monkeypatch.setattr(otlp, "_read_varint", counting)
    return counted


def longest_step(steps: Iterator[object], numbers: "count[int]") -> int:
    longest, before = 0, next(numbers)
    for _ in steps:
        now = next(numbers)
        longest, before = max(longest, now - before - 1), now
    return max(longest, next(numbers) - before - 1)


@pytest.mark.parametrize("shape", SHAPES)
def test_no_step_is_long(shape: str, numbers: "count[int]") -> None:
    assert CLIENT_METRICS_FIELDS.value > FIELDS
    assert longest_step(read_points(SHAPES[shape]), numbers) < MOST_NUMBERS
    assert next(numbers) > MANY * FIELDS


def test_no_step_of_an_export_is_long(numbers: "count[int]") -> None:
    data = message(1, EMPTY) * MANY
    assert longest_step(with_attributes(data, [("broker_id", "1")]), numbers) < MOST_NUMBERS


def points(data: bytes) -> list[Point]:
    return [each for each in read_points(data) if each is not None]


def test_attributes_of_a_resource_are_not_multiplied() -> None:
    most = CLIENT_METRICS_LABEL_BYTES.value
    many = {f"{number:04}": "v" for number in range(3_000)}
    found = points(push(*[gauge("g", 1.0)] * 50, **many))

    assert len(found) == 50
    assert len({id(each.of_resource) for each in found}) == 1
    assert most < sum(len(key) + len(value) for key, value in found[0].of_resource) <= most + 5


def test_attributes_of_a_point_end_where_no_series_keeps_them() -> None:
    many = {f"{number:04}": "v" for number in range(3_000)}
    (point,) = points(push(gauge("g", 1.0, **many)))
    assert len(point.attributes) == CLIENT_METRICS_LABEL_BYTES.value // 5 + 1


def test_a_long_name_is_not_copied_for_each_point() -> None:
    found = points(push(histogram("n" * 100_000, 1, 2.0)))
    assert [each.kind for each in found] == [Kind.DELTA, Kind.DELTA]
    assert {len(each.name) for each in found} <= {
        CLIENT_METRICS_LABEL_BYTES.value + 1 + len(each) for each in (".sum", ".count")
    }


def test_an_export_is_not_much_longer_than_its_push() -> None:
    data = message(1, message(2)) * 3_000
    with pytest.raises(LimitExceeded) as refused:
        list(with_attributes(data, [("client_id", "c" * 30_000)]))
    assert refused.value.limit is OTLP_WAITING_BYTES


def test_a_push_keeps_its_metrics_beside_the_attributes() -> None:
    data = message(1, message(1, attributes(1, {"rack": "r"})), double(9, 1.0))
    steps = with_attributes(data, [("broker_id", "1")])
    while True:
        try:
            next(steps)
        except StopIteration as done:
            made: bytes = done.value
            break
    assert made == message(
        1, message(1, attributes(1, {"rack": "r", "broker_id": "1"})), double(9, 1.0)
    )
