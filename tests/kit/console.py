"""A client of a console's API, as a page of its own would be, and a console of a cluster."""

import json
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import NamedTuple
from urllib.parse import urlencode, urlsplit

from raftka.client.blocking.connection import addresses_of
from raftka.console.server import ConsoleServer
from raftka.console.settings import ConsoleSettings
from raftka.json_values import Json
from raftka.testing import Cluster

TIMEOUT_S = 60
OWN = {"X-Raftka-Console": "1"}
Query = Mapping[str, object] | Sequence[tuple[str, object]]


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]  # by lower-case name
    body: bytes

    @property
    def json(self) -> Json:
        return json.loads(self.body)


class Event(NamedTuple):
    name: str  # empty for the answer of a watched page
    json: Json


class Events:
    """A stream of events, read one by one."""

    def __init__(self, connection: HTTPConnection, response: HTTPResponse) -> None:
        self._connection, self._response = connection, response

    def __enter__(self) -> "Events":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Event]:
        while (found := self.next()) is not None:
            yield found

    def next(self) -> Event | None:
        """Return the next event, without heartbeats; None at the end of the stream."""
        name, data = "", None
        while line := self._response.readline():
            text = line.decode().rstrip("\n")
            if text.startswith("event: "):
                name = text.removeprefix("event: ")
            elif text.startswith("data: "):
                data = text.removeprefix("data: ")
            elif not text and data is not None:
                return Event(name, json.loads(data))
        return None

    def line(self) -> bytes:
        """Return the next line as it is, that of a heartbeat among them."""
        return self._response.readline()

    def close(self) -> None:
        """Leave, as a browser does whose page is closed."""
        self._response.close()
        self._connection.close()


class Api:
    """Keeps the cookie of its session."""

    def __init__(self, url: str, trusting: ssl.SSLContext | None = None) -> None:
        self.url, self._trusting = url, trusting
        self.cookie = ""

    def ask(
        self,
        method: str,
        path: str,
        query: Query = (),
        body: Json = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """`body`: bytes are sent as they are, anything else as JSON. `headers`: instead of those
        of the console's own pages; one that is empty is left out.
        """
        connection, response = self.open(method, path, query, body, headers)
        try:
            found = Answer(
                response.status,
                {name.lower(): value for name, value in response.getheaders()},
                response.read(),
            )
        finally:
            connection.close()
        if "set-cookie" in found.headers:
            self.cookie = found.headers["set-cookie"].partition(";")[0]
        return found

    def get(self, path: str, **query: object) -> Json:
        """Raises AssertionError for another status than 200."""
        return self._document(self.ask("GET", path, query))

    def post(self, path: str, **body: object) -> Json:
        return self._document(self.ask("POST", path, body=body or None))

    def stream(
        self, path: str, query: Query = (), method: str = "GET", body: Json = None
    ) -> Events:
        """Watch a page, or read a stream. Raises AssertionError for another status than 200."""
        events = {"Accept": "text/event-stream"}
        connection, response = self.open(method, path, query, body, events)
        if response.status != 200:
            text = response.read()
            connection.close()
            raise AssertionError((response.status, text))
        return Events(connection, response)

    @staticmethod
    def _document(answer: Answer) -> Json:
        assert answer.status == 200, (answer.status, answer.body[:2000])
        return answer.json

    def open(
        self,
        method: str,
        path: str,
        query: Query = (),
        body: Json = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[HTTPConnection, HTTPResponse]:
        """Send a request, and read the head of its answer. The caller closes the connection."""
        target = f"{path}?{urlencode(query, doseq=True)}" if query else path
        sent = {**(OWN if method != "GET" else {}), **(headers or {})}
        if self.cookie:
            sent.setdefault("Cookie", self.cookie)
        if body is not None and not isinstance(body, bytes):
            sent.setdefault("Content-Type", "application/json")
            body = json.dumps(body).encode()
        parts = urlsplit(self.url)
        host, port = parts.hostname or "", parts.port
        connection: HTTPConnection = (
            HTTPConnection(host, port, timeout=TIMEOUT_S)
            if parts.scheme == "http"
            else HTTPSConnection(host, port, timeout=TIMEOUT_S, context=self._trusting)
        )
        try:
            connection.request(
                method, target, body, {name: value for name, value in sent.items() if value}
            )
            return connection, connection.getresponse()
        except (OSError, HTTPException):
            connection.close()
            raise


@contextmanager
def console_of(cluster: Cluster, **settings: Json) -> Iterator[ConsoleServer]:
    """A console in front of a cluster; `settings`: of ConsoleSettings. A failure that is a bug of
    the console's fails the test.
    """
    failures: list[str] = []
    report: Callable[[str, str], None] = lambda subject, reason: failures.append(  # noqa: E731
        f"{subject}: {reason}"
    )
    chosen = {"bootstrap": addresses_of(cluster.bootstrap_servers), "port": 0, **settings}
    with ConsoleServer(ConsoleSettings(**chosen), report=report) as console:
        yield console
    assert failures == []
