"""A blocking client for raw bytes and for requests of any version: whatever a stranger may do to a
live node. Knows no limits and no retries.
"""

import socket
from struct import pack
from types import TracebackType

from raftka.wire.frame import decode_response_header, encode_request
from raftka.wire.schema import Api, Req, Resp

GUARD_S = 30.0  # so that no test waits for ever; never what a test is about

Address = tuple[str, int]


class Line:
    def __init__(self, address: Address) -> None:
        self.sock = socket.create_connection(address, GUARD_S)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.correlation_id = 0

    def __enter__(self) -> "Line":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.sock.close()

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def send_frame(self, body: bytes) -> None:
        self.send(pack(">i", len(body)) + body)

    def end(self) -> None:
        """Say that nothing more will come."""
        self.sock.shutdown(socket.SHUT_WR)

    def frame(self) -> bytes | None:
        """The next answer without its size, None when the other side has closed instead."""
        size = self._exactly(4)
        return None if size is None else self._exactly(int.from_bytes(size))

    def closed(self) -> bool:
        """The other side closes without another byte."""
        return self.frame() is None

    def _exactly(self, size: int) -> bytes | None:
        data = bytearray()
        while len(data) < size:
            try:
                part = self.sock.recv(min(size - len(data), 1 << 20))
            except ConnectionError:
                part = b""
            if not part:
                return None
            data += part
        return bytes(data)

    def request(self, api: Api[Req, Resp], row: Req, version: int | None = None) -> int:
        """Send; returns the correlation id."""
        self.correlation_id += 1
        self.send(
            encode_request(
                api,
                api.max_version if version is None else version,
                self.correlation_id,
                "test",
                row,
            )
        )
        return self.correlation_id

    def answer(self, api: Api[Req, Resp], version: int | None = None) -> Resp:
        """The next answer, which must be one to the request sent longest ago."""
        version = api.max_version if version is None else version
        data = self.frame()
        assert data is not None, "closed instead of an answer"
        _, position = decode_response_header(memoryview(data), api, version)
        row, end = api.decode_response(version, memoryview(data), position)
        assert end == len(data)
        return row

    def ask(self, api: Api[Req, Resp], row: Req, version: int | None = None) -> Resp:
        self.request(api, row, version)
        return self.answer(api, version)
