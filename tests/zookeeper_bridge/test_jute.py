"""The codec and the rules of paths: what is written is read again, the shapes of real clients, and
bytes that are nothing.
"""

from struct import pack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zookeeper_bridge.limits import PATH_BYTES, PATH_DEPTH
from zookeeper_bridge.protocol import jute
from zookeeper_bridge.protocol.errors import Err, ZooKeeperError
from zookeeper_bridge.protocol.jute import (
    Acl,
    ConnectRequest,
    ConnectResponse,
    Create,
    Malformed,
    SetWatches,
    Stat,
)
from zookeeper_bridge.protocol.opcodes import BODIES, IN_MULTI, Op
from zookeeper_bridge.protocol.paths import (
    ancestors,
    check_has_parent,
    check_new,
    check_path,
    child_of,
    name_of,
    parent_of,
)

OPEN = [Acl(31, "world", "anyone")]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (jute.CREATE, Create("/a", b"x", OPEN, 3)[:4]),
        (jute.CREATE_TTL, Create("/a", None, None, 5, 1 << 40)),
        (jute.SET_DATA, ("/a", None, -1)),
        (jute.SET_DATA, ("/a", b"", 7)),
        (jute.SET_ACL, (None, [], 0)),
        (jute.STAT, Stat(1, 2, 3, 4, 5, 6, 7, -8, 9, 10, 11)),
        (jute.SET_WATCHES, SetWatches(9, ["/a"], [], None)[:4]),
        (jute.SET_WATCHES_2, SetWatches(9, ["/a", None], [], None, ["/p"], ["/r"])),
        (jute.EVENT, (4, 3, "/ä")),
    ],
)
def test_encoded_values_are_decoded_again(kind: jute.Kind, value: Any) -> None:
    assert tuple(kind.decode(kind.encode(value)))[: len(value)] == tuple(value)


def test_null_is_not_empty() -> None:
    assert jute.BUFFER.encode(None) == b"\xff\xff\xff\xff"
    assert jute.BUFFER.encode(b"") == b"\0\0\0\0"
    assert [jute.ACLS.decode(each) for each in (b"\xff\xff\xff\xff", b"\0\0\0\0")] == [None, []]


def test_both_shapes_of_a_connect_are_known_and_answered_in_kind() -> None:
    old = pack(">iqiqi16s", 0, 5, 4000, 7, 16, b"p" * 16)

    assert (len(old), len(old + b"\x01")) == (jute.OLD_CONNECT_BYTES, 45)
    assert jute.decode_connect(old) == ConnectRequest(0, 5, 4000, 7, b"p" * 16, None)
    assert jute.decode_connect(old + b"\x01") == ConnectRequest(0, 5, 4000, 7, b"p" * 16, True)
    answers = [ConnectResponse(4000, 7, b"p" * 16, flag) for flag in (None, False)]
    assert [len(each.encode()) for each in answers] == [36, 37]
    assert [jute.decode_connected(each.encode()) for each in answers] == answers


def test_the_operations_of_a_multi() -> None:
    body = jute.encode_multi(
        [
            (Op.CREATE, jute.CREATE.encode(("/a", b"", OPEN, 0))),
            (Op.CHECK, jute.CHECK_VERSION.encode(("/a", 0))),
        ]
    )

    assert jute.decode_multi(body, 0, IN_MULTI, 2) == [
        (Op.CREATE, Create("/a", b"", OPEN, 0)),
        (Op.CHECK, ("/a", 0)),
    ]
    with pytest.raises(Malformed):
        jute.decode_multi(body, 0, IN_MULTI, 1)
    with pytest.raises(Malformed):
        jute.decode_multi(body[:-1], 0, IN_MULTI, 2)
    with pytest.raises(Malformed):
        jute.decode_multi(jute.encode_multi([(Op.GET_DATA, b"")]), 0, IN_MULTI, 2)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\0\0",
        pack(">i", -2),
        pack(">i", 1 << 30),
        pack(">i", 5) + b"/a",
        pack(">i", 2) + b"/a" + pack(">i", -7),
    ],
    ids=["nothing", "half a length", "negative", "huge", "too short", "negative, inside"],
)
def test_malformed_bytes_raise_one_kind_of_error(body: bytes) -> None:
    with pytest.raises(Malformed):
        jute.CREATE.decode(body)


def test_an_arrays_stated_length_is_not_trusted() -> None:
    with pytest.raises(Malformed, match="an array of"):
        jute.SET_WATCHES.decode(pack(">qi", 0, (1 << 31) - 1) + bytes(4000))


@given(st.binary(max_size=200), st.sampled_from(sorted(BODIES)))
def test_any_bytes_are_a_value_or_malformed(body: bytes, opcode: Op) -> None:
    for read in (
        BODIES[opcode].decode,
        jute.decode_connect,
        lambda data: jute.decode_multi(data, 0, IN_MULTI, 10),
    ):
        try:
            read(body)
        except Malformed:
            continue


GOOD = ["/", "/a", "/a/b", "/a/...", "/a/.b", "/a./..b", "/ä/ö", "/a b", "/brokers/ids", "/x" * 40]
BAD = [
    None,
    "",
    "a",
    "a/b",
    "/a/",
    "//",
    "/a//b",
    "/a\0",
    "/a\x1f",
    "/a\x7f",
    "/a\x9f",
    "/\ud800",
    "/\ue000",
    "/\uf8ff",
    "/\ufff0",
    "/\ufffd",
]
BAD += ["/.", "/..", "/a/.", "/a/./b", "/../a", "/\U0001f600"]


@pytest.mark.parametrize("path", GOOD)
def test_a_path(path: str) -> None:
    assert check_path(path) == path


@pytest.mark.parametrize("path", BAD)
def test_no_path(path: str | None) -> None:
    with pytest.raises(ZooKeeperError) as refused:
        check_path(path)
    assert refused.value.code is Err.BAD_ARGUMENTS


def test_a_path_has_a_parent_whatever_else_it_is() -> None:
    assert [check_has_parent(path) for path in ("/", "/a", "/a/", "a/b", "//")] == [
        "/",
        "/a",
        "/a/",
        "a/b",
        "//",
    ]
    for path in (None, "", "a", "/a\0"):
        with pytest.raises(ZooKeeperError):
            check_has_parent(path)


def test_bounds_of_created_paths() -> None:
    check_new("/" + "ä" * ((PATH_BYTES.value - 1) // 2))
    check_new("/a" * PATH_DEPTH.value)
    for path in ("/" + "ä" * (PATH_BYTES.value // 2), "/a" * (PATH_DEPTH.value + 1)):
        with pytest.raises(ZooKeeperError) as refused:
            check_new(path)
        assert refused.value.code is Err.QUOTA_EXCEEDED


def test_relations_of_paths() -> None:
    assert [parent_of(each) for each in ("/", "/a", "/a/b")] == ["/", "/", "/a"]
    assert [name_of(each) for each in ("/a", "/a/b")] == ["a", "b"]
    assert [child_of("/", "a"), child_of("/a", "b")] == ["/a", "/a/b"]
    assert ancestors("/a/b") == ["/a/b", "/a", "/"]
