"""The notation of messages: every type and mark in bytes written by hand, and what is no
notation.
"""

import pytest

from raftka.wire.notation import parse_struct, parse_versions
from raftka.wire.rows import Versions
from raftka.wire.schema import api

EVERYTHING = api(
    "Everything",
    99,
    versions="0-1",
    flexible="1+",
    request="""
    # comments and empty lines are nothing

    flag        bool
    tiny        int8        # so is this
    port        uint16
    count       uint32
    ratio       float64
    name        string?1+
    blob        bytes
    ids         uuid[]
    flags       bool[]?
    names       string[]
    blobs       bytes[]
    inner Inner
        a       int16=7
        deeper Deeper[]
            b   string?
    maybe Maybe?
        c       int32
    added       int8=-3     1
    removed     int8        0
    tagged Tagged           1+ @2
        d       int64
    """,
    response="",
)
REQUEST = EVERYTHING.request
ROW = REQUEST(
    flag=True,
    tiny=-1,
    port=65535,
    count=2**32 - 1,
    ratio=0.5,
    name="n",
    blob=b"bb",
    ids=[b"i" * 16],
    flags=[True, False],
    names=["x", ""],
    blobs=[b"y"],
    inner=REQUEST.inner(deeper=[REQUEST.inner.deeper(b="z"), REQUEST.inner.deeper()]),
    maybe=REQUEST.maybe(c=5),
    removed=9,
)

PLAIN = (
    b"\1\xff\xff\xff\xff\xff\xff\xff"
    + b"\x3f\xe0"
    + bytes(6)
    + b"\0\1n"
    + b"\0\0\0\2bb"
    + b"\0\0\0\1"
    + b"i" * 16
    + b"\0\0\0\2\1\0"
    b"\0\0\0\2\0\1x\0\0"
    + b"\0\0\0\1\0\0\0\1y"
    + b"\0\7\0\0\0\2\0\1z\xff\xff"
    + b"\1\0\0\0\5"
    + b"\x09"
)
FLEXIBLE = (
    b"\1\xff\xff\xff\xff\xff\xff\xff"
    + b"\x3f\xe0"
    + bytes(6)
    + b"\2n"
    + b"\3bb"
    + b"\2"
    + b"i" * 16
    + b"\3\1\0"
    b"\3\2x\1" + b"\2\2y" + b"\0\7\3\2z\0\0\0\0" + b"\1\0\0\0\5\0" + b"\xfd" + b"\0"
)


@pytest.mark.parametrize(("version", "data"), [(0, PLAIN), (1, FLEXIBLE)])
def test_every_type(version: int, data: bytes) -> None:
    assert EVERYTHING.encode_request(version, ROW) == data

    row, end = EVERYTHING.decode_request(version, memoryview(data))

    assert end == len(data)
    expected = ROW.as_dict() | ({"added": -3} if version == 0 else {"removed": 0})
    assert row.as_dict() == expected


def test_null_where_it_may_be() -> None:
    data = EVERYTHING.encode_request(1, REQUEST(flags=None))
    row, _ = EVERYTHING.decode_request(1, memoryview(data))
    assert (row.name, row.flags, row.maybe) == (None, None, None)
    assert (data[16], data[19], data[26]) == (0, 0, 0xFF)


def test_a_tagged_field_is_written_when_it_says_something() -> None:
    data = EVERYTHING.encode_request(1, REQUEST(tagged=REQUEST.tagged(d=3)))
    assert data.endswith(b"\1\2\x09" + (3).to_bytes(8, "big") + b"\0")
    assert EVERYTHING.decode_request(1, memoryview(data))[0].tagged.d == 3
    assert EVERYTHING.encode_request(
        1, REQUEST(tagged=REQUEST.tagged())
    ) == EVERYTHING.encode_request(1, REQUEST())


def test_an_empty_message() -> None:
    assert EVERYTHING.encode_response(0, EVERYTHING.response()) == b""
    assert EVERYTHING.encode_response(1, EVERYTHING.response()) == b"\0"


def test_an_api_that_is_never_flexible() -> None:
    handshake = api(
        "SaslHandshake",
        17,
        versions="0-1",
        flexible=None,
        request="mechanism string",
        response="error_code int16",
    )
    assert handshake.encode_request(1, handshake.request(mechanism="PLAIN")) == b"\0\5PLAIN"


@pytest.mark.parametrize(
    ("text", "versions"), [("3", (3, 3)), ("3-5", (3, 5)), ("3+", (3, 32767)), ("0+", (0, 32767))]
)
def test_versions(text: str, versions: tuple[int, int]) -> None:
    parsed = parse_versions(text)
    assert parsed == versions
    assert versions[0] in parsed
    assert versions[1] + 1 not in parsed
    assert versions[0] - 1 not in parsed
    assert None not in Versions(0, 1)


@pytest.mark.parametrize(
    "text",
    [
        "a int33",
        "a string??",
        "a []",
        "a Topic[]",
        "a int32\n b int8",
        "a A\n b int8\nc A\n d int8",
        "a int32 v3",
        "a int32 3-",
        "a int32=x",
        "a",
    ],
)
def test_what_is_no_notation(text: str) -> None:
    with pytest.raises(
        ValueError, match=r"no such type|not a range|invalid literal|not enough values"
    ):
        parse_struct("Message", text)
