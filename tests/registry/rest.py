"""Requests to a registry, and what it answers."""

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from types import TracebackType
from typing import NamedTuple, Self
from urllib.parse import quote, urlsplit

from raftka.json_values import Json
from raftka.registry.server import RegistryServer


class Answer(NamedTuple):
    status: int
    body: Json

    @property
    def code(self) -> int:
        """Of a refusal."""
        assert isinstance(self.body, dict) and "error_code" in self.body, self  # noqa: PT018
        return int(self.body["error_code"])


class Rest:
    """One connection."""

    def __init__(
        self, registry: RegistryServer | str, headers: dict[str, str] | None = None
    ) -> None:
        """`registry`: or its URL."""
        url = registry if isinstance(registry, str) else registry.url
        self._connection = HTTPConnection(urlsplit(url).netloc, timeout=60)
        self._headers = headers or {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._connection.close()

    def ask(self, method: str, target: str, body: Json = None) -> Answer:
        data = (
            None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        )
        self._connection.request(method, target, data, self._headers)
        with self._connection.getresponse() as answer:
            return Answer(answer.status, json.loads(answer.read()))

    def get(self, target: str) -> Json:
        answer = self.ask("GET", target)
        assert answer.status == 200, answer
        return answer.body

    def put(self, target: str, body: Json) -> Json:
        answer = self.ask("PUT", target, body)
        assert answer.status == 200, answer
        return answer.body

    def delete(self, target: str) -> Json:
        answer = self.ask("DELETE", target)
        assert answer.status == 200, answer
        return answer.body

    def register(self, subject: str, schema: Json, **more: Json) -> int:
        answer = self.try_register(subject, schema, **more)
        assert answer.status == 200, answer
        return int(answer.body["id"])

    def try_register(self, subject: str, schema: Json, **more: Json) -> Answer:
        return self.ask(
            "POST",
            f"/subjects/{quote(subject, safe='')}/versions",
            {"schema": text_of(schema), **more},
        )


def text_of(schema: Json) -> str:
    return schema if isinstance(schema, str) else json.dumps(schema)


def record(name: str, **fields: Json) -> Json:
    """An Avro record; a field is a type, or a type and a default."""
    return {
        "type": "record",
        "name": name,
        "fields": [
            {"name": each, "type": kind[0], "default": kind[1]}
            if isinstance(kind, tuple)
            else {"name": each, "type": kind}
            for each, kind in fields.items()
        ],
    }


@contextmanager
def connected(registry: RegistryServer) -> Iterator[socket.socket]:
    host, port = urlsplit(registry.url).netloc.split(":")
    with socket.create_connection((host, int(port)), 60) as connection:
        yield connection


def talk(registry: RegistryServer, data: bytes) -> bytes:
    """Return all bytes that come back until the registry closes."""
    with connected(registry) as connection:
        connection.sendall(data)
        return b"".join(iter(lambda: connection.recv(65536), b""))
