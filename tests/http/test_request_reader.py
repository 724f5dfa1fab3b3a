"""Requests out of bytes: the same ones however the bytes are cut, and within the limits."""

import pytest

from raftka.http.messages import BadRequest, Request
from raftka.http.request_reader import Bounds, RequestReader
from raftka.limits import Limit

HEAD, BODY = Limit("head", 1000, ""), Limit("body", 5000, "")
SECONDS = Limit("seconds", 10, "")
BOUNDS = Bounds(Limit("connections", 10, ""), HEAD, SECONDS, SECONDS, body=BODY)
CHUNKED = b"POST /t?a=b HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNKS = b"4;a=b\r\n\r\n\r\n\r\n6\r\n{\r\n\r\n}\r\n0\r\nX: y\r\nAuthorization: Basic eDp5\r\n\r\n"


def read_all(data: bytes, size: int = 1 << 20) -> list[Request]:
    """Requests of these bytes in pieces of this size. Raises BadRequest."""
    reader, found = RequestReader(BOUNDS), list[Request]()
    for at in range(0, len(data), size):
        reader.feed(data[at : at + size])
        reader.advance()
        while reader.is_whole:
            found.append(reader.take())
            reader.advance()
    return found


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 1 << 20])
def test_requests_are_the_same_however_their_bytes_are_cut(size: int) -> None:
    get = b"\r\nGET /first HTTP/1.1\r\nHost: x\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n"
    put = b"PUT /second HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n\r\n\r\n"
    brew = b"BREW http://y HTTP/1.0\r\nA:\r\nA: \t b \r\n\r\n"

    found = read_all(get + CHUNKED + CHUNKS + put + brew, size)

    assert [(each.method, each.target, each.body, each.keep_alive) for each in found] == [
        ("GET", "/first", b"", True),
        ("POST", "/t?a=b", b"\r\n\r\n{\r\n\r\n}", True),
        ("PUT", "/second", b"\r\n\r\n", True),
        ("BREW", "/", b"", False),
    ]
    assert found[3].headers == {b"a": b"b"}
    assert (found[1].path, found[1].query) == ("/t", "a=b")


def test_trailers_are_no_headers() -> None:
    (request,) = read_all(CHUNKED + CHUNKS)

    assert request.headers == {b"host": b"x", b"transfer-encoding": b"chunked"}


def test_no_byte_of_the_next_request_is_parsed() -> None:
    reader = RequestReader(BOUNDS)
    reader.feed(CHUNKED + CHUNKS + b"NONSENSE\r\n\r\n")
    reader.advance()

    assert reader.take().body == b"\r\n\r\n{\r\n\r\n}"
    with pytest.raises(BadRequest, match=r"this is not HTTP/1\.1"):
        reader.advance()


LONG = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5001\r\n\r\n"
REFUSED = {
    "no Host": (b"GET / HTTP/1.1\r\n\r\n", 400, None),
    "two hosts": (b"GET / HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n", 400, None),
    "TLS": (b"\x16\x03\x01", 400, None),
    "a long head": (b"GET /" + b"x" * HEAD.value, 431, HEAD),
    "a long head at once": (b"GET /" + b"x" * HEAD.value + b" HTTP/1.1\r\n\r\n", 431, HEAD),
    "a long body": (LONG + b"x" * 5001, 413, BODY),
    "a long chunk": (CHUNKED + b"2000\r\n" + b"x" * 6000, 413, BODY),
    "tiny chunks": (CHUNKED + b"1\r\nx\r\n" * 2000, 413, BODY),
    "a long trailer": (CHUNKED + b"0\r\nX: " + b"x" * 7000, 413, BODY),
    "many trailers": (CHUNKED + b"0\r\n" + b"X: y\r\n" * 2000, 413, BODY),
    "a size of a chunk that is none": (CHUNKED + b"zz\r\n\r\n", 400, None),
    "data behind a chunk": (CHUNKED + b"1\r\nxy\r\n0\r\n\r\n", 400, None),
}


@pytest.mark.parametrize("size", [1, 100, 1 << 20])
@pytest.mark.parametrize("name", REFUSED)
def test_ambiguous_or_too_large_requests_are_refused(name: str, size: int) -> None:
    data, status, limit = REFUSED[name]

    with pytest.raises(BadRequest) as refused:
        read_all(data, size)

    assert (refused.value.status, refused.value.limit) == (status, limit)


def test_body_in_many_empty_lines_costs_few_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, parse = list[int](), RequestReader._parse

    def counted(self: RequestReader, data: bytes | bytearray) -> None:
        calls.append(len(data))
        parse(self, data)

    monkeypatch.setattr(RequestReader, "_parse", counted)

    (request,) = read_all(CHUNKED + b"fa0\r\n" + b"\r\n" * 2000 + b"\r\n0\r\n\r\n")

    assert len(request.body) == 4000
    assert len(calls) < 1100  # one for each four bytes, at most
