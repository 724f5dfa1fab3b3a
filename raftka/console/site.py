"""The console as a site of `raftka.http`: sessions by cookie, routes, files. Knows no topic and no
group.

A GET whose `Accept` is text/event-stream is *watched*: its handler is called again and again, and
the answer is sent when it differs from the last (workers.py).
"""

import json
import re
import time
import traceback
from collections import Counter

from raftka.console.answers import refusal_of, respond
from raftka.console.call import ApiError, Call
from raftka.console.errors import LOG_IN, UNAUTHORIZED
from raftka.console.limits import (
    BODIES_BYTES,
    CONNECTIONS,
    HEAD_BYTES,
    REQUEST_BYTES,
    SECONDS,
    STRANGER_SECONDS,
)
from raftka.console.parameters import parse_body, parse_query, refusal
from raftka.console.protection import Hosts, check_origin
from raftka.console.routes import SAFE, Route, Routes
from raftka.console.sessions import Session, Sessions, cookie_name
from raftka.console.settings import ConsoleSettings
from raftka.console.static import Static
from raftka.console.workers import EVERY, INTERNAL, Asked, Gone, Report, Workers
from raftka.http.messages import EVENTS, BadRequest, Reply, Request, Response
from raftka.http.request_reader import Bounds
from raftka.http.server import Admit
from raftka.json_values import Json
from raftka.limits import Limit
from raftka.runtime.interfaces import Runtime

API = "/api/"
BOUNDS = Bounds(
    CONNECTIONS, HEAD_BYTES, SECONDS, STRANGER_SECONDS, body=REQUEST_BYTES, bodies=BODIES_BYTES
)


class ConsoleSite:
    def __init__(
        self,
        runtime: Runtime,
        settings: ConsoleSettings,
        sessions: Sessions,
        routes: Routes,
        static: Static,
        report: Report,
        hits: Counter[str],
    ) -> None:
        """`settings`: their port is the one that listens. `report`: of failures that are bugs.
        `hits`: of limits, by name.
        """
        self._runtime, self._settings, self._sessions = runtime, settings, sessions
        self._routes, self._static, self._report, self._hits = routes, static, report, hits
        self._hosts, self._cookie = Hosts(settings), cookie_name(settings.port)
        self._last_request = time.monotonic()
        self.workers = Workers(report, hits)

    @property
    def idle_s(self) -> float:
        """Return the seconds since the last request; 0 while a page is kept live."""
        return 0.0 if self.workers.watches else time.monotonic() - self._last_request

    # the server's side

    def check_login(self, request: Request, admit: Admit) -> None:
        self._last_request = time.monotonic()
        try:
            self._hosts.check(request)
            if request.path.startswith(API):
                check_origin(request)
            request.user = self._sessions.find(cookie_of(request, self._cookie))
        except ApiError as error:
            admit(refusal_of(error))
        else:
            admit(None)

    def answer(self, request: Request, reply: Reply) -> None:
        try:
            if request.path.startswith(API):
                self._answer_call(request, reply)
            else:
                reply(self._file(request))
        except ApiError as error:
            headers = [self._allow(request)] if error.status == 405 else []
            reply(refusal_of(error, headers))
        except Exception as error:  # a bug of ours ends this request alone
            self._report(
                f"{request.method} {request.path}", "".join(traceback.format_exception(error))
            )
            reply(refusal_of(ApiError(500, INTERNAL, "this page failed")))

    def refuse(self, error: BadRequest, peer: str) -> Response:
        if error.limit is not None:
            self.count_hit(error.limit)
        return refusal_of(ApiError(error.status, "BAD_REQUEST", str(error)))

    def count_hit(self, limit: Limit) -> None:
        self._hits[limit.name] += 1

    # files

    def _file(self, request: Request) -> Response:
        """Raises ApiError, OSError."""
        if request.target == "*":
            return respond(200, b"", [self._allow(request)])
        if not self._static.has(request.path):
            raise ApiError(404, "NOT_FOUND", f"there is no page {request.path[:200]}")
        if request.method not in SAFE:
            raise ApiError(405, "METHOD_NOT_ALLOWED", f"a page takes {', '.join(SAFE)}")
        if request.method == "OPTIONS":
            return respond(200, b"", [self._allow(request)])
        return self._static.answer(request)

    def _allow(self, request: Request) -> str:
        is_call = request.path.startswith(API)
        return f"Allow: {', '.join(self._routes.methods(request.path) if is_call else SAFE)}"

    # calls

    def _answer_call(self, request: Request, reply: Reply) -> None:
        """Raises ApiError."""
        method = "GET" if request.method == "HEAD" else request.method
        if method == "OPTIONS" and len(self._routes.methods(request.path)) > 1:
            reply(respond(200, b"{}", [self._allow(request)]))
            return
        route, names = self._routes.find(method, request.path)
        session = request.user if isinstance(request.user, Session) else None
        self._check_switches(route, session)
        watched = not route.is_stream and method == "GET" and wants_events(request)

        def make_call(gone: Gone) -> Call:
            return Call(
                names,
                parse_query({**route.query, **(EVERY if watched else {})}, request.query),
                body_of(request, route),
                asked.session,
                self._settings,
                lambda: gone() or (session is not None and session.is_over),
                self._sessions.log_in,
                self._hits,
            )

        asked = Asked(request, route, session or self._sessions.nobody, make_call)
        if watched:
            self._watch(asked, reply)
            return
        work = self.workers.stream if route.is_stream else self.workers.answer
        self._runtime.spawn(lambda: work(asked, reply), request.path)

    def _check_switches(self, route: Route, session: Session | None) -> None:
        """Raises ApiError."""
        if session is None and not route.needs.open:
            raise ApiError(401, UNAUTHORIZED, LOG_IN)
        if route.needs.writes and self._settings.read_only:
            raise ApiError(403, "READ_ONLY", "this console is read-only")
        if route.needs.records and not self._settings.show_records:
            raise ApiError(403, "NO_RECORDS", "this console shows no records")

    def _watch(self, asked: Asked, reply: Reply) -> None:
        """Raises ApiError."""
        query = parse_query({**asked.route.query, **EVERY}, asked.request.query)
        begun = self.workers.watch(asked, reply)
        if begun is not None:
            handoff, gone = begun
            every_s: int = query["every"]
            self._runtime.spawn(
                lambda: self.workers.keep_live(asked, handoff, gone, every_s), "watch"
            )


def cookie_of(request: Request, wanted: str) -> str | None:
    """Return the token of a session that a browser shows."""
    for each in request.headers.get(b"cookie", b"").decode("latin-1").split(";"):
        name, _, value = each.strip().partition("=")
        if name == wanted:
            return value
    return None


def wants_events(request: Request) -> bool:
    return EVENTS.encode() in request.headers.get(b"accept", b"").lower()


def body_of(request: Request, route: Route) -> dict[str, Json]:
    """Return the fields of the body. Raises ApiError."""
    if route.body is None:
        if request.body:
            raise refusal("a request here has no body")
        return {}
    content_type = request.headers.get(b"content-type", b"").lower()
    if not re.fullmatch(rb"application/json(\s*;.*)?", content_type):
        raise ApiError(415, "UNSUPPORTED_MEDIA_TYPE", "the body is application/json")
    try:
        found = json.loads(request.body.decode())
    except (ValueError, RecursionError):
        raise refusal("the body is no JSON in UTF-8") from None
    return parse_body(route.body, found)
