"""The page of a project: the newest record of each key of a compacted topic on a map and in a
table, as records arrive. Reads topics by itself, with no group and no Spark; keeps only the rows
that it shows.
"""

import json
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from raftka.http.messages import TEXT, Request, Response
from raftka.http.pages import BOUNDS, Page, Pages, Stderr
from raftka.http.server import HttpServer
from raftka.http.thread import ServerThread, page_in_thread
from raftka.json_values import Json, JsonObject
from raftka.limits import Limit
from raftka.pipeline.errors import PipelineError
from raftka.pipeline.flows.streams import Shown, connection, load
from raftka.pipeline.history import Past
from raftka.pipeline.topics.brokers import Brokers
from raftka.pipeline.topics.options import SourceOptions, source_options
from raftka.pipeline.topics.source import Stream
from raftka.runtime.interfaces import Runtime

HTML = Path(__file__).with_name("page.html")
HOST = "127.0.0.1"
KEYS = 20_000  # so many are kept; the one that was heard of longest ago goes first
ALERTS = 200
POLL_S, AFTER_FAILURE_S = 0.25, 2.0
PATIENCE_S = 5.0
CONNECTIONS = Limit("page_connections", 200, "a browser keeps up to six for each tab")
HEADERS = (
    "Cache-Control: no-store",
    "Content-Security-Policy: default-src 'self'; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'",
)


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


class ProjectPage:
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
            self._server = ServerThread(
                (HOST, port),
                lambda runtime: HttpServer(
                    site_of(runtime, self.kept, fences, past, shown),
                    replace(BOUNDS, connections=CONNECTIONS),
                    runtime.clock,
                ),
                "page",
            )
        except OSError as error:
            raise PipelineError(
                f"the page can not have port {port}: {error}. Next step: --page another one, or "
                "--no-page"
            ) from None
        self.url = f"{self._server.url}/"

    def start(self) -> None:
        self._server.start()
        for reading in self._readings:
            reading.start()

    def stop(self) -> None:
        for reading in self._readings:
            reading.stop()
        self._server.stop()


def page_of(folder: Path, port: int) -> ProjectPage | None:
    """None: the project has none."""
    path = folder / "streams.yml"
    if not path.is_file():
        return None
    found = load(path)
    return (
        None
        if found.page is None
        else ProjectPage(found.bootstrap, found.page, port, found.security)
    )


def site_of(
    runtime: Runtime,
    kept: Kept,
    fences: bytes,
    past: Past | None = None,
    shown: Shown | None = None,
) -> Pages:
    """Return the paths of the page; another thread reads the history."""

    def latest(request: Request) -> bytes:
        return json.dumps(kept.since(_number(request, "after"))).encode()

    found: dict[str, Page] = {
        "/": _page("text/html; charset=utf-8", lambda request: HTML.read_bytes()),
        "/latest": _page("application/json", latest),
        "/fences": _page("application/json", lambda request: fences),
    }
    if shown is not None:
        names = json.dumps({"title": shown.title, "noun": shown.noun}).encode()
        found["/names"] = _page("application/json", lambda request: names)
    if past is not None:

        def history(request: Request) -> Response:
            try:
                body = json.dumps(past.of(_number(request, "minutes"))).encode()
            except Exception as error:  # of a lake that nobody has thought of
                Stderr().page_failed(request.path, error)
                return Response(500, TEXT, b"the history can not be read: see the log\n")
            return Response(200, "application/json", body)

        found["/history"] = page_in_thread(runtime, history)
    return Pages(found, Stderr(), headers=HEADERS)


def _page(content_type: str, body: Callable[[Request], bytes]) -> Page:
    return lambda request, reply: reply(Response(200, content_type, body(request)))


def _number(request: Request, name: str) -> int:
    text = parse_qs(request.query).get(name, ["0"])[0][:15]
    return int(text) if text.isdecimal() else 0
