"""The page of a project: the newest record of each key of a compacted topic on a map and in a
table, as records arrive. Reads topics by itself, with no group and no Spark; keeps only the rows
that it shows.
"""

import json
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from math import isfinite
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from raftka.json_values import Json, JsonObject
from raftka.pipeline.errors import PipelineError
from raftka.pipeline.flows.streams import Shown, connection, load
from raftka.pipeline.history import Past
from raftka.pipeline.topics.brokers import Brokers
from raftka.pipeline.topics.options import SourceOptions, source_options
from raftka.pipeline.topics.source import Stream

HTML = Path(__file__).with_name("page.html")
HOST = "127.0.0.1"
KEYS = 20_000  # so many are kept; the one that was heard of longest ago goes first
ALERTS = 200
POLL_S, AFTER_FAILURE_S = 0.25, 2.0
PATIENCE_S = 5.0
ALLOWED = ("GET", "HEAD", "OPTIONS")
TEXT = "text/plain; charset=utf-8"


class Kept:
    """The content of the page, numbered in order of arrival: a browser asks for everything newer
    than what it has.
    """

    def __init__(self, keys: int = KEYS) -> None:
        self._room, self._lock = keys, threading.Lock()
        # in the order of their numbers; None: gone
        self._positions: dict[str, tuple[int, Json]] = {}
        self._alerts: deque[tuple[int, Json]] = deque(maxlen=ALERTS)
        self._number = 0
        self._troubles: dict[str, str] = {}  # by topic

    def tell(self, topic: str, trouble: str | None) -> None:
        """Show the reason why a topic cannot be read; None: it can be read."""
        with self._lock:
            self._troubles.pop(topic, None)
            if trouble is not None:
                self._troubles[topic] = trouble

    def position(self, key: str, value: object) -> None:
        with self._lock:
            self._number += 1
            self._positions.pop(key, None)
            self._positions[key] = (self._number, value)
            if len(self._positions) > self._room:
                self._positions.pop(next(iter(self._positions)))

    def alert(self, value: object) -> None:
        with self._lock:
            self._number += 1
            self._alerts.append((self._number, value))

    def since(self, number: int) -> JsonObject:
        with self._lock:
            new: JsonObject = {}
            for key, (own, value) in reversed(self._positions.items()):
                if own <= number:
                    break
                new[key] = value
            alerts = [value for own, value in self._alerts if own > number]
            return {
                "number": self._number,
                "positions": new,
                "alerts": alerts,
                "trouble": "; ".join(f"{topic}: {text}" for topic, text in self._troubles.items())
                or None,
            }


class Reading:
    """A thread that follows a topic from its beginning."""

    def __init__(
        self,
        connection: Mapping[str, str],
        topic: str,
        take: Callable[[str, Json], None],
        kept: Kept,
    ) -> None:
        given = {
            **connection,
            "subscribe": topic,
            "startingOffsets": "earliest",
            "failOnDataLoss": "false",
        }
        given["kafka.isolation.level"] = "read_committed"  # what was written exactly once
        self._options: SourceOptions = source_options(given, streaming=True)
        self._topic, self._take, self._kept = topic, take, kept
        self._position: Mapping[str, Json] | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"page-{topic}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._follow()
            # of brokers, or of a record that nobody has thought of: a thread that ended would look
            # like a quiet topic
            except Exception as error:
                self._kept.tell(
                    self._topic,
                    str(error) if isinstance(error, (PipelineError, OSError)) else repr(error),
                )
                self._stopping.wait(AFTER_FAILURE_S)

    def _follow(self) -> None:
        """From where it was, until it is to stop. Raises PipelineError and OSError."""
        brokers = Brokers(
            self._options.bootstrap,
            "raftka-page",
            PATIENCE_S,
            read_committed=True,
            security=self._options.security,
        )
        try:
            stream = Stream(self._options, brokers)
            position = self._position or stream.initial()
            while not self._stopping.wait(POLL_S):
                end = stream.latest(position)
                if end != position:
                    self._read(brokers, stream, position, end)
                    self._position = position = end
                self._kept.tell(self._topic, None)
        finally:
            brokers.close()

    def _read(
        self, brokers: Brokers, stream: Stream, begin: Mapping[str, Any], end: Mapping[str, Any]
    ) -> None:
        from raftka.pipeline.topics.reader import read

        for ranges in stream.tasks(begin, end):
            for each in ranges:
                for batch in read(brokers, each, self._options):
                    for key, value in zip(
                        batch.column("key").to_pylist(),
                        batch.column("value").to_pylist(),
                        strict=True,
                    ):
                        self._take((key or b"").decode("utf-8", "replace"), _json(value))


def _json(value: bytes | None) -> Json:
    """Return a value as JSON; None for values that browsers cannot read: JSON that is nested too
    deeply, and numbers that are none.
    """
    try:
        return (
            None
            if value is None
            else json.loads(value, parse_float=_finite, parse_constant=_finite)
        )
    except (ValueError, RecursionError):
        return None


def _finite(text: str) -> float:
    found = float(text)
    if not isfinite(found):
        raise ValueError(text)
    return found


class Page:
    def __init__(self, bootstrap: str, shown: Shown, port: int, config: Path | None = None) -> None:
        """`config`: the client properties of the cluster. Raises PipelineError when the port is
        another's. Port 0 takes a free one.
        """
        self.kept, told = Kept(), connection(bootstrap, config)
        self._readings = [Reading(told, shown.positions, self.kept.position, self.kept)]
        if shown.alerts is not None:
            self._readings.append(
                Reading(told, shown.alerts, lambda _, value: self.kept.alert(value), self.kept)
            )
        fences = shown.fences.read_bytes() if shown.fences is not None else b"null"
        try:
            past = Past(shown.history) if shown.history is not None else None
            self._server = Server((HOST, port), handler_of(self.kept, fences, past, shown))
        except OSError as error:
            raise PipelineError(
                f"the page can not have port {port}: {error}. Next step: --page another one, or "
                "--no-page"
            ) from None
        self.url = f"http://{HOST}:{self._server.server_address[1]}/"
        self._thread = threading.Thread(target=self._server.serve_forever, name="page", daemon=True)

    def start(self) -> None:
        self._thread.start()
        for reading in self._readings:
            reading.start()

    def stop(self) -> None:
        for reading in self._readings:
            reading.stop()
        self._server.shutdown()
        self._server.server_close()


class Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that has gone before it was answered is no error, and nothing to print among
        the lines of the pipeline.
        """
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


def page_of(folder: Path, port: int) -> Page | None:
    """None: the project has none."""
    path = folder / "streams.yml"
    if not path.is_file():
        return None
    found = load(path)
    return None if found.page is None else Page(found.bootstrap, found.page, port, found.security)


def handler_of(
    kept: Kept, fences: bytes, past: Past | None = None, shown: Shown | None = None
) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """One request of a connection. The connection ends with the answer, so that a body cannot
        be taken for the next request.
        """

        protocol_version = "HTTP/1.1"

        def parse_request(self) -> bool:
            if not super().parse_request():
                return False
            fault = fault_of(self.headers)
            if fault is not None:
                self._answer(400, TEXT, f"{fault}\n".encode())
            elif self.command not in ALLOWED:
                self._answer(405, TEXT, b"GET and HEAD are all there is\n")
            return fault is None and self.command in ALLOWED

        def do_OPTIONS(self) -> None:
            self._answer(200, TEXT, b"")

        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            asked = urlsplit(self.path)
            for path, kind, body in pages(kept, fences, past, shown, asked.query):
                if path == asked.path:
                    self._answer(200, kind, body())
                    return
            self._answer(404, TEXT, b"not here\n")

        def _answer(self, status: int, kind: str, body: bytes) -> None:
            self.close_connection = True
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.send_header("Connection", "close")
            if status == 405 or self.command == "OPTIONS":
                self.send_header("Allow", ", ".join(ALLOWED))
            self.send_header(
                "Content-Security-Policy",
                "default-src 'self'; style-src 'unsafe-inline'; script-src 'unsafe-inline'",
            )
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    return Handler


def fault_of(headers: Message) -> str | None:
    """Return the reason to refuse a request whose end two readers might see at different places;
    None: there is none.
    """
    for name in ("Host", "Content-Length"):
        if len(headers.get_all(name, [])) > 1:
            return f"there is more than one {name}"
    if headers.defects or any("\n" in str(value) for value in headers.values()):
        return "a header is folded or malformed"
    if "Transfer-Encoding" in headers or headers.get("Content-Length", "0").strip() != "0":
        return "a request here has no body"
    return None


def pages(
    kept: Kept, fences: bytes, past: Past | None, shown: Shown | None, query: str
) -> Iterator[tuple[str, str, Callable[[], bytes]]]:
    number, minutes = (parse_qs(query).get(name, ["0"])[0][:15] for name in ("after", "minutes"))
    yield "/", "text/html; charset=utf-8", HTML.read_bytes
    yield (
        "/latest",
        "application/json",
        lambda: json.dumps(kept.since(int(number) if number.isdecimal() else 0)).encode(),
    )
    yield "/fences", "application/json", lambda: fences
    if shown is not None:
        yield (
            "/names",
            "application/json",
            json.dumps({"title": shown.title, "noun": shown.noun}).encode,
        )
    if past is not None:
        yield (
            "/history",
            "application/json",
            lambda: json.dumps(past.of(int(minutes) if minutes.isdecimal() else 0)).encode(),
        )
