"""One answer out of the bytes of a client's connection, sans-IO."""

import re

import httptools

from raftka.limits import Limit, LimitExceeded

HEAD_BYTES = 16 * 1024
END_OF_HEAD = b"\r\n\r\n"
STATUS_LINE = re.compile(rb"HTTP/1\.[01] ([1-9][0-9]{2})(?: [^\r\n]*)?")


class HttpFailed(Exception):
    """There is no answer, or another one than was wanted. The text is for the operator's log."""


class AnswerReader:
    """Reader of one answer. Its methods raise HttpFailed, and LimitExceeded for a body that is too
    long.
    """

    def __init__(self, limit: Limit) -> None:
        """`limit`: of the body's bytes."""
        self.status = 0  # once its head has come
        self.body = bytearray()
        self.is_whole = False
        self.has_end = False  # the head says where the body ends; else the connection ends it
        self._limit = limit
        self._head = bytearray()  # until it is whole
        self._taken = 0  # bytes behind the head
        self._encoding = b""
        self._parser = httptools.HttpResponseParser(self)

    def feed(self, data: bytes | memoryview) -> None:
        """Take received bytes. Bytes behind the answer are ignored."""
        if not self.status:
            self._head += data
            data = self._read_head()
        if data and not self.is_whole:
            self._taken += len(data)
            self._parse(data)
            most = self._limit.value
            # sizes of chunks count too
            if len(self.body) > most or self._taken > HEAD_BYTES + 2 * most:
                raise LimitExceeded(self._limit, max(len(self.body), self._taken))

    def end(self) -> None:
        """Take the end of the connection: the server sends no more."""
        if not self.status or (self.has_end and not self.is_whole):
            raise HttpFailed("the answer ends too early")
        self.is_whole = True

    def _read_head(self) -> bytes:
        """Return the bytes behind the head, once it is whole; empty before. Heads of the kind 1xx,
        which come before the answer's own, are dropped.
        """
        while (end := self._head.find(END_OF_HEAD, 0, HEAD_BYTES)) >= 0:
            end += len(END_OF_HEAD)
            match = STATUS_LINE.fullmatch(self._head[: self._head.find(b"\r\n")])
            if match is None:
                raise HttpFailed("this is no HTTP/1.1")
            head = self._head[:end]
            del self._head[:end]
            if int(match[1]) >= 200:
                self.status = int(match[1])
                self._parse(head)
                if self._encoding.lower() not in (b"", b"identity"):
                    raise HttpFailed("the answer is compressed, which was not asked for")
                return bytes(self._head)
        if len(self._head) >= HEAD_BYTES:
            raise HttpFailed("the head of the answer is too long")
        return b""

    def _parse(self, data: bytes | bytearray | memoryview) -> None:
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if not self.is_whole:
                raise HttpFailed(f"this is no HTTP/1.1: {error}") from None

    # the parser's side

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name in (b"content-length", b"transfer-encoding"):
            self.has_end = True
        elif name == b"content-encoding":
            self._encoding = value.strip()

    def on_body(self, data: bytes) -> None:
        self.body += data

    def on_message_complete(self) -> None:
        self.is_whole = True
