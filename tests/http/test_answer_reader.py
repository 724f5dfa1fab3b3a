"""Answers out of bytes: the same however the bytes are cut, and failures for all that is none."""

import pytest

from raftka.http.answer_reader import HEAD_BYTES, AnswerReader, HttpFailed
from raftka.limits import Limit, LimitExceeded

LIMIT = Limit("document", 100, "")
OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"

ANSWERS = {
    "a length": (OK + b"Content-Length: 2\r\n\r\n{}", 200, b"{}"),
    "a length and more": (OK + b"Content-Length: 2\r\n\r\n{}HTTP", 200, b"{}"),
    "chunks": (CHUNKED + b"1;a=b\r\n{\r\n1\r\n}\r\n0\r\nX: y\r\n\r\n", 200, b"{}"),
    "until the end": (OK + b"\r\n{}", 200, b"{}"),
    "hints before it": (b"HTTP/1.1 103 Hints\r\nA: b\r\n\r\n" * 2 + OK + b"\r\n{}", 200, b"{}"),
    "no content": (b"HTTP/1.1 204\r\n\r\n", 204, b""),
    "HTTP/1.0": (b"HTTP/1.0 404 Not Found\r\nContent-Length: 0\r\n\r\n", 404, b""),
}


def read(data: bytes, size: int = 1 << 20) -> AnswerReader:
    reader = AnswerReader(LIMIT)
    for at in range(0, len(data), size):
        reader.feed(data[at : at + size])
    reader.end()
    return reader


@pytest.mark.parametrize("size", [1, 3, 1 << 20])
@pytest.mark.parametrize("name", ANSWERS)
def test_answers_are_the_same_however_their_bytes_are_cut(name: str, size: int) -> None:
    data, status, body = ANSWERS[name]

    reader = read(data, size)

    assert (reader.status, bytes(reader.body), reader.is_whole) == (status, body, True)


NONE = {
    "nothing": (b"", "ends too early"),
    "half a head": (OK, "ends too early"),
    "half a body": (OK + b"Content-Length: 2\r\n\r\n{", "ends too early"),
    "half a chunk": (CHUNKED + b"2\r\n{", "ends too early"),
    "a long head": (OK + b"A: b\r\n" * HEAD_BYTES, "head of the answer is too long"),
    "many hints": (b"HTTP/1.1 103 Hints\r\n\r\n" * 9999, "ends too early"),
    "another protocol": (b"220 mail\r\n\r\n", "no HTTP"),
    "another status": (b"HTTP/1.1 0200 OK\r\n\r\n", "no HTTP"),
    "two lengths": (OK + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", "no HTTP"),
    "a length that is none": (OK + b"Content-Length: many\r\n\r\n", "Content-Length"),
    "a size that is none": (CHUNKED + b"zz\r\n", "chunk size"),
    "an encoding": (OK + b"Content-Encoding: gzip\r\n\r\n", "compressed"),
}


@pytest.mark.parametrize("size", [7, 1 << 20])
@pytest.mark.parametrize("name", NONE)
def test_other_bytes_are_a_failure(name: str, size: int) -> None:
    data, reason = NONE[name]

    with pytest.raises(HttpFailed, match=reason):
        read(data, size)


@pytest.mark.parametrize(
    "data", [OK + b"\r\n" + b"x" * 101, CHUNKED + b"1\r\nx\r\n" * 3000], ids=["long", "tiny chunks"]
)
def test_long_bodies_are_given_up(data: bytes) -> None:
    with pytest.raises(LimitExceeded):
        read(data, 10)
