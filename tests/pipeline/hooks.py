"""An HTTP server for webhooks that answers as it is told and remembers what it got."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

Answered = tuple[int, Mapping[str, str], bytes]
OK: Answered = (200, {}, b"{}")


class Got(NamedTuple):
    path: str
    headers: Mapping[str, str]
    told: Any

    @property
    def key(self) -> str:
        return self.headers["Idempotency-Key"]


class Receiver:
    def __init__(self) -> None:
        self.got: list[Got] = []
        self.answers: list[Answered] = []  # the next ones; then OK
        self.decide: Callable[[Got], Answered] | None = None
        self.port = 0
        self.connections = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    def keys(self) -> list[str]:
        return [each.key for each in self.got]


@contextmanager
def receiver(context: Any = None) -> Iterator[Receiver]:
    """`context`: TLS, if any."""
    found = Receiver()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            super().setup()
            found.connections += 1

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            got = Got(self.path, dict(self.headers.items()), json.loads(body))
            found.got.append(got)
            status, headers, text = (
                found.decide(got) if found.decide else found.answers.pop(0) if found.answers else OK
            )
            self.send_response(status)
            for name, value in {"Content-Length": str(len(text)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: Any) -> None:
            """Print nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            """Clients that break off are part of the tests."""

    server = Server(("127.0.0.1", 0), Handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    found.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
