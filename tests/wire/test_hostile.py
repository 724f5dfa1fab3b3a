"""Bytes of strangers: whatever they are, decoding ends in a row or in ProtocolError, in memory that
the bytes received explain.

What Apache Kafka lets pass, passes here too: clients live on it.
"""

import tracemalloc
from random import Random
from typing import Any

import pytest

from raftka.limits import DECODED_OBJECTS
from raftka.wire.errors import ProtocolError
from raftka.wire.messages.api_versions import API_VERSIONS
from raftka.wire.messages.fetch import FETCH
from raftka.wire.messages.metadata import METADATA
from raftka.wire.messages.produce import PRODUCE
from raftka.wire.rows import FIXED, Row, Struct
from raftka.wire.schema import AnyApi, Api, Req, Resp
from tests.wire.oracle import APIS, CASES

ENDLESS = b"\xff" * 16


def full(struct: Struct, version: int) -> Row:
    """A row with something in every field that the version has."""
    values: dict[str, Any] = {}
    for field in struct.fields:
        if version not in field.versions:
            continue
        value: Any
        if field.struct is not None:
            value = full(field.struct, version)
        elif field.kind in FIXED:
            value = b"0123456789abcdef" if field.kind == "uuid" else 1
        else:
            value = "text" if field.kind == "string" else b"bytes"
        values[field.name] = [value, value] if field.array else value
    return struct.row(**values)


def frame_of(api: AnyApi, side: str, version: int) -> bytes:
    if side == "Request":
        return api.encode_request(version, full(api.request.struct, version))
    return api.encode_response(version, full(api.response.struct, version))


def decode(api: AnyApi, side: str, version: int, data: bytes) -> Row | None:
    """None for a ProtocolError; nothing else may come."""
    view = memoryview(data)
    try:
        row: Row = (
            api.decode_request(version, view)
            if side == "Request"
            else api.decode_response(version, view)
        )[0]
        return row
    except ProtocolError:
        return None


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
def test_every_cut_is_noticed(api: AnyApi) -> None:
    for side, version in [(side, version) for a, side, version in CASES if a is api]:
        whole = frame_of(api, side, version)
        assert decode(api, side, version, whole) is not None
        for size in range(len(whole)):
            assert decode(api, side, version, whole[:size]) is None, (side, version, size)


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
def test_lengths_and_varints_anywhere(api: AnyApi) -> None:
    for side, version in [(side, version) for a, side, version in CASES if a is api]:
        whole = frame_of(api, side, version)
        for at in range(len(whole)):
            for bomb in (
                b"\x7f\xff\xff\xff",
                b"\x80\x00\x00\x00",
                b"\xff\xff\xff\xff\x07",
                b"\x80\x80\x80\x80\x08",
                ENDLESS,
            ):
                decode(api, side, version, whole[:at] + bomb + whole[at + len(bomb) :])


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
def test_random_mutations(api: AnyApi) -> None:
    random = Random(api.name)
    for side, version in [(side, version) for a, side, version in CASES if a is api]:
        whole = frame_of(api, side, version)
        for _ in range(60):
            data = bytearray(whole)
            for _ in range(random.randint(1, 4)):
                at = random.randrange(len(data) + 1)
                data[at : at + random.randint(0, 3)] = random.randbytes(random.randint(0, 5))
            decode(api, side, version, bytes(data))


def peak_of(api: AnyApi, version: int, data: bytes) -> int:
    decode(api, "Request", version, b"")  # compiled
    tracemalloc.start()
    try:
        decode(api, "Request", version, data)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("api", "version", "data"),
    [
        (METADATA, 1, b"\x7f\xff\xff\xff"),
        (METADATA, 12, b"\xff\xff\xff\xff\x07"),
        (METADATA, 12, b"\x80\x80\x80\x80\x08"),  # 2^31: one less is the largest count
        (METADATA, 12, b"\x01\x01\x00" + b"\xff\xff\xff\xff\x07"),  # tagged fields
        (METADATA, 12, b"\x01\x01\x00" + b"\x01\x09\xff\xff\xff\xff\x07"),  # one, of that size
        (PRODUCE, 9, b"\x00\xff\xff\x00\x00\x00\x00\xff\xff\xff\xff\x07"),
        # records
        (
            PRODUCE,
            9,
            b"\x00\xff\xff\x00\x00\x00\x00\x02\x02t\x02\x00\x00\x00\x00\xff\xff\xff\xff\x07",
        ),
    ],
)
def test_an_announced_length_costs_nothing(api: AnyApi, version: int, data: bytes) -> None:
    assert decode(api, "Request", version, data + bytes(8)) is None
    assert peak_of(api, version, data + bytes(8)) < 20_000


def test_memory_is_linear_in_the_bytes_received() -> None:
    names = (40_000).to_bytes(4, "big") + b"\0\0" * 40_000
    partitions = b"\0" * 20 + b"\0\0\0\1" + b"\0\1t" + (5_000).to_bytes(4, "big") + b"\0" * 80_000

    cases: tuple[tuple[AnyApi, int, bytes], ...] = (
        (METADATA, 1, names),
        (FETCH, 4, b"\0" * 13 + partitions[16:]),
    )
    for api, version, data in cases:
        assert decode(api, "Request", version, data + bytes(8)) is not None, api
        assert peak_of(api, version, data + bytes(8)) < 100 * len(data)


def test_the_objects_of_a_request_are_limited() -> None:
    count = DECODED_OBJECTS.value // 2 + 1  # a topic is a row and two fields: three objects
    data = count.to_bytes(4, "big") + b"\0\0" * count

    with pytest.raises(ProtocolError, match="more than 1000000 values") as caught:
        METADATA.decode_request(1, memoryview(data))

    assert caught.value.limit is DECODED_OBJECTS
    brokers = METADATA.encode_response(
        0, METADATA.response(brokers=[METADATA.response.brokers(host="h")] * 250_000)
    )
    # our own cluster's answer is not limited so
    assert len(METADATA.decode_response(0, memoryview(brokers))[0].brokers) == 250_000


# What passes


def request(api: Api[Req, Resp], version: int, data: bytes) -> Req:
    return api.decode_request(version, memoryview(data))[0]


def test_bytes_behind_the_message_are_left_alone() -> None:
    _, end = API_VERSIONS.decode_request(0, memoryview(b"12345"), 0)
    assert end == 0


@pytest.mark.parametrize(
    ("version", "data"),
    [
        (1, b"\xff\xff\xff\xfe"),
        (1, b"\x80\x00\x00\x00"),
        (12, b"\xff\xff\xff\xff\x0f\1\0\0"),
        (12, b"\0\1\0\0"),
    ],
)
def test_negative_array_lengths_are_null(version: int, data: bytes) -> None:
    assert request(METADATA, version, data).topics is None


@pytest.mark.parametrize(
    ("length", "value"), [(b"\xff\xfe", None), (b"\xff\xff", None), (b"\0\0", "")]
)
def test_negative_string_lengths_are_null(length: bytes, value: str | None) -> None:
    assert request(PRODUCE, 3, length + b"\0\1" + bytes(8)).transactional_id == value


def test_any_boolean_but_0_is_true() -> None:
    assert request(METADATA, 4, b"\xff\xff\xff\xff\x07").allow_auto_topic_creation is True


def test_broken_utf8_is_replaced() -> None:
    row = request(METADATA, 1, b"\0\0\0\1" + b"\0\3a\xff\xfe")
    assert (row.topics or ())[0].name == "a�" + "�"


@pytest.mark.parametrize(
    "tags",
    [
        b"\1\x63\3abc",  # unknown
        b"\2\x63\1a\x63\1b",  # the same twice
        b"\2\x63\1a\x05\1b",  # descending
        b"\x88\x27" + b"\x63\0" * 5000,  # many
        b"\1\xff\xff\xff\xff\x0f\0",  # the highest number
        b"\xff\xff\xff\xff\x0f",  # minus one of them: none
    ],
)
def test_unknown_tags_are_skipped(tags: bytes) -> None:
    row = request(API_VERSIONS, 3, b"\2a\2b" + tags)
    assert (row.client_software_name, row.client_software_version) == ("a", "b")


def test_unknown_tags_between_known_ones_are_skipped() -> None:
    state = b"\x0d" + (7).to_bytes(4, "big") + (9).to_bytes(8, "big") + b"\0"
    body = bytes(8) + b"\x7f\xff\xff\xff" + b"\0" + bytes(8) + b"\1\1\1"
    data = body + b"\3" + b"\x63\2??" + b"\1" + state + b"\x05\1?"
    row, end = FETCH.decode_request(15, memoryview(data))
    assert end == len(data)
    assert (row.replica_state.replica_id, row.replica_state.replica_epoch) == (7, 9)


# What does not


@pytest.mark.parametrize(
    ("api", "version", "data", "says"),
    [
        (METADATA, 1, b"\0\0\0\1\xff\xff", "null where a value must be"),
        (METADATA, 9, b"\2\0\0\1\0\0\0", "null where a value must be"),
        (PRODUCE, 3, b"\xff\xff\0\1\0\0\0\0\xff\xff\xff\xff", "null where a value must be"),
        (METADATA, 12, b"\x80\x80\x80\x80\x80\x01" + bytes(8), "a varint of more than 5 bytes"),
        (METADATA, 12, b"\xff" * 30, "a varint of more than 5 bytes"),
        (METADATA, 12, b"\x03" + bytes(20), "2 elements announced with 20 bytes to come"),
        (API_VERSIONS, 3, b"\xff\xff\x03" + bytes(65535), "a string of 65534 bytes"),
        (API_VERSIONS, 3, b"\2a\2b\1\x63\5abc", "a field ends at byte 12 of 10"),
        (API_VERSIONS, 3, b"\2a\5b", "the message ends inside a field"),
        (
            FETCH,
            15,
            bytes(8) + b"\x7f\xff\xff\xff" + b"\0" + bytes(8) + b"\1\1\1" + b"\1\1\5" + bytes(40),
            "a field ends at byte",
        ),
    ],
)
def test_refused(api: AnyApi, version: int, data: bytes, says: str) -> None:
    with pytest.raises(ProtocolError, match=says):
        api.decode_request(version, memoryview(data))


@pytest.mark.parametrize("version", [1, 9])
def test_a_name_that_is_no_utf8_is_taken_where_it_can_be_said_again(version: int) -> None:
    """Each of its bytes is three when an answer repeats it."""
    for size in (10_922, 10_923, 32_767):
        frame = METADATA.encode_request(
            version, METADATA.request(topics=[METADATA.request.topics(name="x" * size)])
        )
        frame = frame.replace(b"x" * size, b"\xff" * size)
        if size > 10_922:
            with pytest.raises(ProtocolError):
                METADATA.decode_request(version, memoryview(frame), 0)
        else:
            row, _ = METADATA.decode_request(version, memoryview(frame), 0)
            assert METADATA.encode_request(version, row)
