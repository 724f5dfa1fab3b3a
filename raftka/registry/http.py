"""The registry's REST API as a site of `raftka.http`: JSON documents, logins, and threads for slow
requests. Knows no subject.
"""

import binascii
import json
from base64 import b64decode
from collections.abc import Callable, Iterable
from functools import partial
from typing import Protocol

import trio

from raftka.http.messages import BadRequest, Reply, Response
from raftka.http.messages import Request as HttpRequest
from raftka.http.request_reader import Bounds
from raftka.http.server import Admit
from raftka.json_values import Json
from raftka.limits import Limit
from raftka.registry.access import User
from raftka.registry.errors import LimitReached, RegistryError
from raftka.registry.limits import (
    AT_WORK,
    BODIES_BYTES,
    CONNECTIONS,
    HEAD_BYTES,
    IDLE_SECONDS,
    REQUEST_BYTES,
)
from raftka.registry.metrics import RegistryMetrics
from raftka.registry.rest.api import Api, Raw
from raftka.registry.rest.requests import Request
from raftka.runtime.interfaces import Runtime

JSON_TYPE = "application/vnd.schemaregistry.v1+json"
UNAUTHORIZED, NO_METHOD, INTERNAL = 40101, 405, 50001
CHALLENGE = 'WWW-Authenticate: Basic realm="schema registry"'
BOUNDS = Bounds(
    CONNECTIONS, HEAD_BYTES, IDLE_SECONDS, IDLE_SECONDS, body=REQUEST_BYTES, bodies=BODIES_BYTES
)


class Login(Protocol):
    async def __call__(self, user: User) -> bool:
        """Return whether this is the user's password. Raises RegistryError."""


Report = Callable[[str, str], None]  # of a failure: its subject, and its reason


class RegistrySite:
    def __init__(
        self,
        runtime: Runtime,
        api: Api,
        metrics: RegistryMetrics,
        login: Login | None,
        report: Report,
    ) -> None:
        """`login`: None where no client has to log in."""
        self.api = api
        self._runtime, self._metrics = runtime, metrics
        self._login, self._report = login, report
        self._threads = trio.CapacityLimiter(AT_WORK.value)

    # logins

    def check_login(self, request: HttpRequest, admit: Admit) -> None:
        user = _basic(request.headers.get(b"authorization", b""))
        request.user = user
        if self._login is None:
            admit(None)
        else:
            self._runtime.spawn(partial(self._log_in, self._login, user, admit), "login")

    async def _log_in(self, login: Login, user: User | None, admit: Admit) -> None:
        try:
            known = user is not None and await login(user)
        except RegistryError as error:
            admit(self._refusal(error))
            return
        except Exception as error:
            admit(self._failure("a login", error))
            return
        if known:
            admit(None)
        else:
            self._metrics.count_refused_login()
            admit(self._refusal(RegistryError(UNAUTHORIZED, "Unauthorized"), [CHALLENGE]))

    # requests

    def answer(self, request: HttpRequest, reply: Reply) -> None:
        """A thread answers a slow request, and one that has to wait for the lock: this loop serves
        all connections.
        """
        user = request.user if isinstance(request.user, User) else None
        method = "GET" if request.method == "HEAD" else request.method
        asked = Request.of(method, request.target, request.body, user)
        try:
            if asked.path == "/metrics" and method == "GET":
                content_type, page = self._metrics.page()
                reply(self._counted(Response(200, content_type, page)))
                return
            if method == "OPTIONS":
                allow = [_allowed(self.api.methods(asked))]
                reply(self._counted(Response(200, JSON_TYPE, b"{}", allow)))
                return
            route, routed, parts = self.api.route(asked)
        except Exception as error:
            reply(self._error(asked, error))
            return
        run = partial(route.answer, routed, *parts)
        if route.slow or not self.api.lock.acquire(blocking=False):
            self._runtime.spawn(partial(self._answer_in_thread, asked, run, reply), asked.path)
            return
        try:
            response = self._document(run())
        except Exception as error:
            response = self._error(asked, error)
        finally:
            self.api.lock.release()
        reply(response)

    async def _answer_in_thread(self, asked: Request, run: "partial[Json]", reply: Reply) -> None:
        if not self._threads.available_tokens:
            self._metrics.hit(AT_WORK)
        try:
            response = await trio.to_thread.run_sync(
                lambda: self._document(run()), limiter=self._threads
            )
        except Exception as error:
            response = self._error(asked, error)
        reply(response)

    def _document(self, found: Json) -> Response:
        return self._counted(Response(200, JSON_TYPE, _encode(found)))

    def _error(self, asked: Request, error: Exception) -> Response:
        if not isinstance(error, RegistryError):
            return self._failure(f"{asked.method} {asked.path}", error)
        return self._refusal(
            error, [_allowed(self.api.methods(asked))] if error.code == NO_METHOD else []
        )

    def _failure(self, request: str, error: Exception) -> Response:
        """A bug of ours ends this request alone, and so does a format whose package is missing."""
        self._report(request, repr(error))
        complaint = "this request failed: see the registry's log"
        if isinstance(error, ModuleNotFoundError):
            complaint = f"{error}: the registry needs it, pip install 'raftka[registry]'"
        return self._refusal(RegistryError(INTERNAL, complaint))

    def refuse(self, error: BadRequest, peer: str) -> Response:
        if error.limit is not None:
            return self._refusal(LimitReached(error.limit, error.status, str(error)))
        return self._refusal(RegistryError(error.status, str(error)))

    def _refusal(self, error: RegistryError, headers: Iterable[str] = ()) -> Response:
        if isinstance(error, LimitReached):
            self._metrics.hit(error.limit)
        document = _encode({"error_code": error.code, "message": str(error)})
        return self._counted(Response(error.status, JSON_TYPE, document, tuple(headers)))

    def _counted(self, response: Response) -> Response:
        self._metrics.count_answer(response.status)
        return response

    def count_hit(self, limit: Limit) -> None:
        self._metrics.hit(limit)


def _basic(value: bytes) -> User | None:
    scheme, _, rest = value.partition(b" ")
    try:
        name, colon, password = b64decode(rest.strip(), validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None
    return User(name, password) if scheme.lower() == b"basic" and colon else None


def _encode(found: Json) -> bytes:
    """Half of a surrogate pair, which another writer of the topic may have left, harms no
    answer.
    """
    return (
        found.encode("utf-8", "backslashreplace")
        if isinstance(found, Raw)
        else json.dumps(found, separators=(",", ":")).encode()
    )


def _allowed(methods: Iterable[str]) -> str:
    return f"Allow: {', '.join(methods)}"
