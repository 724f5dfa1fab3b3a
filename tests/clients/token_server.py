"""An issuer's token endpoint on a port of this machine, as clients ask it with their credentials
(RFC 6749, 4.4). It asks nobody for a password.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from tests.security.issuer import claims, token

LIFE_S = 600
# Path of the endpoint, and the tokens that it gives: good ones, and those that a broker refuses.
TOKENS: Mapping[str, Callable[[float], str]] = {
    "good": lambda now_s: token(claims(now_s, sub="alice")),
    "expired": lambda now_s: token(claims(now_s - 2 * LIFE_S, sub="alice")),
    "foreign": lambda now_s: token(claims(now_s, sub="alice"), key="not-the-issuers"),
}


class _Endpoint(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        answer = {
            "access_token": TOKENS[self.path[1:]](time.time()),
            "token_type": "Bearer",
            "expires_in": LIFE_S,
        }
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """It says nothing."""


@contextmanager
def token_server() -> Iterator[str]:
    """Its URL, to which a name of TOKENS is added."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Endpoint) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()
