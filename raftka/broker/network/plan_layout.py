"""Positions of the fields that plans read in requests and write into answers. Knows no API."""

from raftka.wire.frame import decode_response_header
from raftka.wire.schema import AnyApi

HEAD_END = 8  # key, version, correlation id


def positions_in_answer(
    api: AnyApi, version: int, sample: bytes, *paths: str
) -> tuple[list[int], ...]:
    """Return `Api.response_positions` of an encoded answer with its size and header."""
    _, position = decode_response_header(memoryview(sample)[4:], api, version)
    return api.response_positions(version, memoryview(sample), 4 + position, *paths)


def varint_at(view: memoryview, position: int) -> tuple[int, int]:
    """Read an unsigned varint; return (position behind it, value), value 0 when it does not end."""
    value = shift = 0
    while shift < 35 and position < len(view):
        byte = view[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return position, value
        shift += 7
    return position, 0
