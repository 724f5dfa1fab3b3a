"""The routes of the door: statements, words, health. All but two need the token."""

import hmac
import json
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from raftka.http.messages import EVENTS, BadRequest, Reply, Request, Response
from raftka.http.request_reader import Bounds
from raftka.http.server import Admit
from raftka.json_values import Json, encode_json
from raftka.limits import Limit
from raftka.runtime.interfaces import Runtime
from raftka.sql.limits import (
    ALL,
    BODIES_BYTES,
    CONNECTIONS,
    HEAD_BYTES,
    REQUEST_BYTES,
    SECONDS,
    STRANGER_SECONDS,
)
from raftka.sql.server.engine import Engine, SqlSession
from raftka.sql.server.logins import Logins, User, basic_login
from raftka.sql.server.openapi import OPEN_PATHS, describe
from raftka.sql.server.refusals import Refusal, Report, refusal_of, refuse, respond
from raftka.sql.server.statements import Statement
from raftka.sql.server.work import Asked, Work

BOUNDS = Bounds(
    CONNECTIONS, HEAD_BYTES, SECONDS, STRANGER_SECONDS, body=REQUEST_BYTES, bodies=BODIES_BYTES
)
BAD = "BAD_REQUEST"
NO_TOKEN = "show the token of the SQL server's file: Authorization: Bearer TOKEN"
NO_LOGIN = "log in with a user and a password of the cluster, or show the SQL server's token"
CHALLENGE = 'WWW-Authenticate: Basic realm="SQL server"'
OWNER = object()  # the user of a request that shows the token
LARGEST_LIMIT = 2**31 - 1


class Route(NamedTuple):
    method: str
    path: re.Pattern[str]  # its group `id` is that of a statement
    answer: Callable[["SqlSite", Request, str, Reply], None]


class SqlSite:
    def __init__(
        self,
        runtime: Runtime,
        engine: Engine,
        token: str,
        report: Report,
        hits: Counter[str],
        login: str = "",
    ) -> None:
        """`report`: of failures that are bugs. `hits`: of limits, by name. `login`: the mechanism
        by which users log in at the brokers; none: only the token opens the door.
        """
        self._runtime, self._engine, self._report, self._hits = runtime, engine, report, hits
        self._expected = f"Bearer {token}".encode()
        self._last_request = time.monotonic()
        self._mechanism = login
        self.logins = Logins(self._open_session, hits) if login else None
        self.work = Work(self._session_of, report, hits)

    @property
    def idle_s(self) -> float:
        """Return the seconds since the last request; 0 while a statement or a query runs."""
        is_busy = len(self.work.statements) > 0 or self._engine.has_queries
        return 0.0 if is_busy else time.monotonic() - self._last_request

    # the server's side

    def check_login(self, request: Request, admit: Admit) -> None:
        if request.path in OPEN_PATHS:
            admit(None)
        elif hmac.compare_digest(request.headers.get(b"authorization", b""), self._expected):
            request.user = OWNER
            self._last_request = time.monotonic()
            admit(None)
        elif self.logins is not None and (user := basic_login(request)) is not None:
            work = partial(self._log_in, self.logins, user, request, admit)
            self._runtime.spawn(work, "login")
        else:
            admit(refuse(self._unauthorized()))

    async def _log_in(self, logins: Logins, user: User, request: Request, admit: Admit) -> None:
        try:
            is_known = await logins.log_in(user)
        except Exception as error:
            admit(refuse(refusal_of(error, self._report, "a login")))
            return
        if is_known:
            request.user = user.name
            self._last_request = time.monotonic()
        admit(None if is_known else refuse(self._unauthorized()))

    def _unauthorized(self) -> Refusal:
        if self.logins is None:
            return Refusal(401, "UNAUTHORIZED", NO_TOKEN, "WWW-Authenticate: Bearer")
        return Refusal(401, "UNAUTHORIZED", NO_LOGIN, CHALLENGE)

    def _open_session(self, user: User) -> SqlSession | None:
        return self._engine.session().for_login(user.name, user.password, self._mechanism)

    def _session_of(self, user: str | None) -> SqlSession:
        """Raises EngineFailed, Refusal. Blocks."""
        if user is None:
            return self._engine.session()
        session = None if self.logins is None else self.logins.session(user)
        if session is None:
            raise self._unauthorized()
        return session

    def answer(self, request: Request, reply: Reply) -> None:
        try:
            if request.method == "OPTIONS":
                reply(respond(200, b"{}", f"Allow: {', '.join(_methods(request.path))}"))
                return
            route, id = _find(request)
            route.answer(self, request, id, reply)
        except Refusal as error:
            reply(refuse(error))

    def refuse(self, error: BadRequest, peer: str) -> Response:
        if error.limit is not None:
            self.count_hit(error.limit)
        return refuse(Refusal(error.status, BAD, str(error)))

    def count_hit(self, limit: Limit) -> None:
        self._hits[limit.name] += 1

    # routes

    def show_health(self, _request: Request, _id: str, reply: Reply) -> None:
        statements = len(self.work.statements)
        hits = self._hits + self._engine.limit_hits
        limits = {each.name: {"value": each.value, "hits": hits[each.name]} for each in ALL}
        health = {**self._engine.health(), "statements": statements, "limits": limits}
        reply(respond(200, encode_json(health)))

    def show_openapi(self, _request: Request, _id: str, reply: Reply) -> None:
        reply(respond(200, encode_json(describe())))

    def list_statements(self, request: Request, _id: str, reply: Reply) -> None:
        reply(respond(200, encode_json(self.work.statements.rows(_user_of(request)))))

    def execute(self, request: Request, _id: str, reply: Reply) -> None:
        """Raises Refusal."""
        asked = _asked_of(request)
        self._runtime.spawn(
            lambda: self.work.execute(request, asked, _user_of(request), reply), "statement"
        )

    def send_rows(self, request: Request, id: str, reply: Reply) -> None:
        """Raises Refusal."""
        self._statement(id, request)
        statement = self.work.statements.take_rows(id)
        if statement is None:
            raise Refusal(409, "HAS_A_READER", f"another client reads the rows of statement {id}")
        self._runtime.spawn(lambda: self.work.send_rows(statement, reply), "rows")

    def end(self, request: Request, id: str, reply: Reply) -> None:
        """Raises Refusal."""
        statement = self._statement(id, request)
        self._runtime.spawn(lambda: self.work.end(statement, reply), "end")

    def send_words(self, request: Request, _id: str, reply: Reply) -> None:
        self._runtime.spawn(lambda: self.work.send_words(_user_of(request), reply), "words")

    def _statement(self, id: str, request: Request) -> Statement:
        """Return one that the client may see. Raises Refusal."""
        found = self.work.statements.find(id, _user_of(request))
        if found is None:
            raise Refusal(404, "NOT_FOUND", f"no statement {id[:80]} runs: it has ended")
        return found


def _user_of(request: Request) -> str | None:
    """Return the user who has logged in; None: the server's owner, who has shown the token."""
    if isinstance(request.user, str):
        return request.user
    assert request.user is OWNER, "it has logged in"
    return None


ROUTES = (
    Route("GET", re.compile("/health"), SqlSite.show_health),
    Route("GET", re.compile("/openapi.json"), SqlSite.show_openapi),
    Route("GET", re.compile("/words"), SqlSite.send_words),
    Route("GET", re.compile("/statements"), SqlSite.list_statements),
    Route("POST", re.compile("/statements"), SqlSite.execute),
    Route("GET", re.compile("/statements/(?P<id>[^/]+)/rows"), SqlSite.send_rows),
    Route("DELETE", re.compile("/statements/(?P<id>[^/]+)"), SqlSite.end),
)


def _find(request: Request) -> tuple[Route, str]:
    """Return the route, and the id in its path. Raises Refusal."""
    method = "GET" if request.method == "HEAD" else request.method
    for each in ROUTES:
        match = each.path.fullmatch(request.path)
        if match is not None and each.method == method:
            return each, match.groupdict().get("id", "")
    methods = ", ".join(_methods(request.path))
    message = f"this path takes {methods}"
    raise Refusal(405, "METHOD_NOT_ALLOWED", message, f"Allow: {methods}")


def _methods(path: str) -> list[str]:
    """Return the methods that a path takes; of "*", those of all paths. Raises Refusal."""
    found = {each.method for each in ROUTES if path == "*" or each.path.fullmatch(path)}
    if not found:
        raise Refusal(
            404, "NOT_FOUND", "there is no such path: /openapi.json lists those there are"
        )
    return sorted({*found, "OPTIONS"} | ({"HEAD"} if "GET" in found else set()))


def _asked_of(request: Request) -> Asked:
    """Read the body of POST /statements. Raises Refusal."""
    try:
        body: Json = json.loads(request.body.decode())
    except (ValueError, RecursionError):
        raise Refusal(400, BAD, "the body is no JSON in UTF-8") from None
    if not isinstance(body, Mapping):
        raise Refusal(400, BAD, "the body is a JSON object with `text`")
    if unknown := [name for name in body if name not in ("text", "limit")]:
        raise Refusal(400, BAD, f"there is no field {unknown[0][:80]}; there are text and limit")
    text, limit = body.get("text"), body.get("limit")
    if not isinstance(text, str) or not text.strip():
        raise Refusal(400, BAD, "the field text is the text of one statement")
    if limit is not None and (type(limit) is not int or not 1 <= limit <= LARGEST_LIMIT):
        raise Refusal(400, BAD, f"the field limit is a whole number, 1 to {LARGEST_LIMIT}")
    events = EVENTS.encode() in request.headers.get(b"accept", b"").lower()
    return Asked(text, limit, events)
