"""Pushes of clients: OTLP's MetricsData in Protobuf, made by hand."""

from struct import pack

DELTA, CUMULATIVE = 1, 2
Attributes = dict[str, str]


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def message(number: int, *content: bytes) -> bytes:
    data = b"".join(content)
    return varint(number << 3 | 2) + varint(len(data)) + data


def integer(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value)


def double(number: int, value: float) -> bytes:
    return varint(number << 3 | 1) + pack("<d", value)


def fixed(number: int, value: int) -> bytes:
    return varint(number << 3 | 1) + pack("<q", value)


def attributes(number: int, given: Attributes) -> bytes:
    return b"".join(
        [
            message(number, message(1, key.encode()), message(2, message(1, value.encode())))
            for key, value in given.items()
        ]
    )


def gauge(name: str, value: float, **given: str) -> bytes:
    point = message(1, double(4, value), attributes(7, given))
    return message(2, message(1, name.encode()), message(5, point))


def total(name: str, value: int, temporality: int = DELTA, **given: str) -> bytes:
    """Return a sum that only grows."""
    point = message(1, fixed(6, value), attributes(7, given))
    inside = [point, integer(2, temporality), integer(3, 1)]
    return message(2, message(1, name.encode()), message(7, *inside))


def histogram(name: str, count: int, sum_of: float) -> bytes:
    point = message(1, varint(4 << 3 | 1) + pack("<Q", count), double(5, sum_of))
    return message(2, message(1, name.encode()), message(9, point, integer(2, DELTA)))


def push(*metrics: bytes, **resource: str) -> bytes:
    return message(1, message(1, attributes(1, resource)), message(2, *metrics))
