"""A connection to a broker over a blocking socket. Knows no cluster and no retry."""

import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from random import SystemRandom
from typing import Generic

from raftka.client.connection import (
    ANOTHER_NODE,
    ANY_NODE,
    AUTHENTICATION,
    Address,
    ClientConnection,
    Intended,
    Secured,
    open_connection,
)
from raftka.runtime import interfaces
from raftka.runtime.memory import VARIABLE, poison
from raftka.runtime.real.files import lend
from raftka.security.client_security import PLAINTEXT, ClientSecurity, Outside
from raftka.security.tls_connection import Side, TlsConnection, at_once
from raftka.security.tls_context import StoreFiles, client_context, read_material
from raftka.wire.messages.metadata import METADATA
from raftka.wire.schema import AnyApi, Api, Req, Resp

CONNECT_S = 5.0
ANSWER_S = 40.0  # a broker may hold an answer for 30 s, as Kafka's request.timeout.ms has it
BUFFER_BYTES = 64 * 1024
HIGHEST_PORT, DIGITS = 65_535, 5  # of a port


class Broken(OSError):
    """A connection that has ended."""


class LoginRefused(Broken):
    """A connection that has ended because the broker did not take its login."""


class AnotherNode(Broken):
    """A connection that has ended because another node, or another cluster, is at its address."""


def broken(peer: str, reason: str | None) -> Broken:
    """Return the error for a connection that its core has closed for this reason."""
    begins = reason if reason is not None else ""
    kind = (
        LoginRefused
        if begins.startswith(AUTHENTICATION)
        else AnotherNode
        if begins.startswith(ANOTHER_NODE)
        else Broken
    )
    return kind(f"{peer}: {reason}")


class ClientError(Exception):
    """The client cannot go on. The text is for the user."""


class Unsupported(ClientError):
    """The broker and this client have no version of an API in common that carries the request."""


class Connection:
    """Several requests may be under way; answers come in their order. Network and `Transport` of
    its core; nothing happens by itself.
    """

    def __init__(
        self,
        address: Address,
        client_id: str,
        answer_s: float = ANSWER_S,
        security: ClientSecurity = PLAINTEXT,
        intended: Intended = ANY_NODE,
        on_closed: Callable[[str], None] | None = None,
    ) -> None:
        """`answer_s`: so long may the broker be silent. `on_closed` gets the reason of the end.
        Raises OSError.
        """
        self.address = address
        self.peer = name_of(address)
        self._answer_s = answer_s
        self._buffer = memoryview(bytearray(BUFFER_BYTES))
        self._poisons = os.environ.get(VARIABLE) == "1"
        self._security = security
        self._socket: socket.socket
        self._side: interfaces.Connection  # what the bytes go through: the core, or TLS around it
        secured = Secured(
            security.login(
                SystemRandom(),
                Outside(lambda path: Path(path).read_bytes(), lambda: time.time_ns() // 1_000_000),
            ),
            self._wrap if security.uses_tls else None,
        )
        self._core: ClientConnection = open_connection(
            self, address, client_id, on_closed=on_closed, secured=secured, intended=intended
        )

    def connect(self, host: str, port: int, connection: interfaces.Connection) -> None:
        self._socket = socket.create_connection((host, port), min(CONNECT_S, self._answer_s))
        self._socket.settimeout(self._answer_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._side = connection
        connection.opened(self)

    def wait_at_most(self, answer_s: float) -> None:
        """Change how long the broker may be silent."""
        self._socket.settimeout(answer_s)

    def wake(self) -> None:
        """Asked by the core; its output leaves at the next `_flush`."""

    def close(self, reason: str = "not needed any more") -> None:
        self._socket.close()
        if self._core.close_reason is None:
            self._core.closed(reason)

    drop = close

    def hold_reading(self, held: bool) -> None:
        """Never asked by a client's side."""

    def own_host(self) -> str:
        """Never asked by a client's side."""
        return ""

    def left(self) -> bool:
        """Never asked by a client's side."""
        return False

    def fileno(self) -> int:
        """For select: readable when `receive` does not block."""
        return self._socket.fileno()

    def version_of(self, api: AnyApi, cap: int | None = None) -> int:
        """The highest version that both sides know, not above `cap`. Raises OSError, and
        Unsupported.
        """
        while not self._core.ready:
            self.receive()
        version = self._core.version_of(api, cap)
        if version is None and METADATA.key not in self._core.versions:
            raise Unsupported(
                f"{self.peer} is a controller's port and has no {api.name}. Next step: give a "
                "broker's"
            )
        if version is None:
            raise Unsupported(
                f"{self.peer} knows no version of {api.name} that we know: brokers from Kafka "
                "0.11 on are supported"
            )
        return version

    def send(self, api: Api[Req, Resp], row: Req, version: int | None = None) -> "Reply[Resp]":
        """`version` caps the one that is chosen. Raises OSError, and Unsupported."""
        reply: Reply[Resp] = Reply(self)
        chosen = self.version_of(api, version)
        try:
            self._core.request(api, row, reply.came, chosen)
        except ValueError as error:
            raise Unsupported(f"{self.peer}: {error}") from None
        self._flush()
        return reply

    def receive(self) -> None:
        """Take what has come, or wait for it. Raises OSError."""
        if self._core.close_reason is not None:
            raise broken(self.peer, self._core.close_reason)
        self._flush()
        room = self._side.room()
        room = self._buffer if room is None else room
        if self._poisons:
            poison(self._buffer)
        size = self._socket.recv_into(room)
        self._side.receive(room[:size])
        self._flush()

    def _flush(self) -> None:
        while self._core.close_reason is None and (output := self._side.take_output()):
            if self._core.close_reason is not None:
                return  # TLS closes the socket with its last words
            # a client sends no files
            self._socket.sendall(b"".join(output))  # type: ignore[arg-type]

    def _wrap(self, connection: interfaces.Connection, host: str) -> TlsConnection:
        """Raises TlsError."""
        settings, files = self._security.tls, StoreFiles(lambda path: Path(path).read_bytes(), lend)
        return TlsConnection(
            connection,
            client_context(settings, read_material(settings, files), files),
            Side(host),
            at_once,
        )


class Reply(Generic[Resp]):
    """The answer to one request: there at once for a request that is never answered, then with
    `row` None and `why` None.
    """

    def __init__(self, connection: Connection) -> None:
        self.row: Resp | None = None
        self.why: str | None = None
        self.is_there = False
        self._connection = connection

    def came(self, row: Resp | None, why: str | None) -> None:
        self.row, self.why, self.is_there = row, why, True

    def wait(self) -> Resp:
        """Its record bytes are valid until the next answer is waited for. Raises OSError."""
        while not self.is_there:
            self._connection.receive()
        if self.row is None:
            raise broken(self._connection.peer, self.why)
        return self.row


def name_of(address: Address) -> str:
    return f"{address[0]}:{address[1]}"


def addresses_of(servers: str) -> list[Address]:
    """Of `host:port,host:port`. Raises ValueError with the server that is not one, or when there is
    none.
    """
    found = []
    for server in filter(None, map(str.strip, servers.split(","))):
        host, _, port = server.rpartition(":")
        if (
            not host.strip("[]")
            or host.startswith("[") != host.endswith("]")
            or not port.isdecimal()
            or len(port) > DIGITS
            or not 1 <= int(port) <= HIGHEST_PORT
        ):
            raise ValueError(f"{server!r} is not host:port")
        found.append((host.strip("[]"), int(port)))
    if not found:
        raise ValueError("there is no server")
    return found
