"""A broker that answers a client connection from handlers."""

from collections.abc import Callable
from typing import Any

from raftka.client.connection import ClientConnection
from raftka.wire.frame import FrameBuffer, RequestHeader, decode_request_header, encode_response
from raftka.wire.messages.api_versions import API_VERSIONS
from raftka.wire.messages.produce import PRODUCE
from raftka.wire.schema import AnyApi, Row
from tests.wire.oracle import APIS

BY_KEY = {api.key: api for api in APIS}
Handler = Callable[[int, Any], Row]  # version, request -> response


class Broker:
    """Both ends: the network that drives the client, and a broker that answers from handlers, all
    frames at once or byte by byte.
    """

    peer = "broker:9092"

    def __init__(self, versions: dict[AnyApi, tuple[int, int]], **handlers: Handler) -> None:
        self.versions = versions
        self.handlers: dict[str, Handler] = handlers
        self.seen: list[tuple[RequestHeader, Any]] = []
        self.events: list[Any] = []
        self.wakes = 0
        self.client = ClientConnection(
            "tests", on_ready=lambda: self.events.append("ready"), on_closed=self.events.append
        )
        self._frames = FrameBuffer()

    def wake(self) -> None:
        self.wakes += 1

    def close(self, reason: str) -> None:
        self.client.closed(reason)

    def drop(self, reason: str) -> None:
        self.client.closed(reason)

    def hold_reading(self, held: bool) -> None:
        raise AssertionError("a client reads")

    def own_host(self) -> str:
        return "client"

    def left(self) -> bool:
        return False

    def opened(self) -> "Broker":
        self.client.opened(self)
        return self

    def answer(self, step: int = 1_000_000) -> None:
        """Take what the client wants to send, and answer; again, until it is silent."""
        while output := b"".join(self.client.take_output()):
            replies = b"".join(
                self._answer(frame) for frame in self._frames.feed(memoryview(output))
            )
            for at in range(0, len(replies), step):
                self.client.receive(memoryview(bytearray(replies[at : at + step])))

    def _answer(self, frame: memoryview) -> bytes:
        key, version = (int.from_bytes(frame[at : at + 2], "big") for at in (0, 2))
        api = BY_KEY[key]
        header, position = decode_request_header(frame, flexible=version in api.flexible)
        row, _ = api.decode_request(version, frame, position)
        self.seen.append((header, row))
        if api is API_VERSIONS:
            answer, version = self._api_versions(version)
        elif api is PRODUCE and row.acks == 0:
            return b""
        else:
            answer = self.handlers[api.name](version, row)
        return b"".join(
            bytes(piece)
            for piece in encode_response(api, version, header.correlation_id, answer)
            if isinstance(piece, bytes | memoryview)
        )

    def _api_versions(self, version: int) -> tuple[Row, int]:
        entry = API_VERSIONS.response.api_keys
        low, high = self.versions[API_VERSIONS]
        if not low <= version <= high:
            return API_VERSIONS.response(
                error_code=35, api_keys=[entry(api_key=18, min_version=low, max_version=high)]
            ), 0
        entries = [
            entry(api_key=api.key, min_version=low, max_version=high)
            for api, (low, high) in self.versions.items()
        ]
        return API_VERSIONS.response(api_keys=entries), version

    def note(self, row: Row | None, error: str | None) -> None:
        self.events.append(error if row is None else row)
