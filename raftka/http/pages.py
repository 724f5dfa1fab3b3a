"""A site of pages, for GET, HEAD and OPTIONS; perhaps with logins, and with some pages for clients
without one.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from raftka.http.messages import TEXT, BadRequest, Reply, Request, Response
from raftka.http.request_reader import Bounds
from raftka.http.server import Admit
from raftka.limits import HTTP_CONNECTIONS, HTTP_REQUEST_BYTES, HTTP_SECONDS, LOGIN_SECONDS, Limit

Page = Callable[[Request, Reply], None]  # may reply at once or later

ALLOWED = ("GET", "HEAD", "OPTIONS")
ALLOW = f"Allow: {', '.join(ALLOWED)}"
SCHEMES = (b"basic", b"bearer")
BOUNDS = Bounds(HTTP_CONNECTIONS, HTTP_REQUEST_BYTES, HTTP_SECONDS, LOGIN_SECONDS)


class Report(Protocol):
    """The log and the metrics of a server."""

    def limit_hit(self, limit: Limit) -> None: ...

    def request_refused(self, peer: str, reason: str) -> None: ...

    def login_failed(self, peer: str, scheme: str) -> None: ...

    def page_failed(self, path: str, error: Exception) -> None: ...


class Stderr:
    """A report for programs without a log: failures of pages go to stderr, nothing else does."""

    def limit_hit(self, limit: Limit) -> None:
        pass

    def request_refused(self, peer: str, reason: str) -> None:
        pass

    def login_failed(self, peer: str, scheme: str) -> None:
        pass

    def page_failed(self, path: str, error: Exception) -> None:
        sys.stderr.write(f"{path} failed: {error!r}\n")


class Logins(Protocol):
    @property
    def challenges(self) -> Sequence[str]:
        """Return values for `WWW-Authenticate`."""

    def knows(self, authorization: bytes) -> bool:
        """Check the value of `Authorization`."""


@dataclass(frozen=True, slots=True)
class Guard:
    """The logins that pages need."""

    logins: Logins
    later: Callable[[float, Callable[[], None]], object]  # run an action after some seconds
    delay_s: float = 0.0  # before a failed login is answered: so guesses take their time
    open_pages: Mapping[str, Page] = field(default_factory=dict)  # for clients without a login


class Pages:
    def __init__(
        self,
        pages: Mapping[str, Page],
        report: Report,
        guard: Guard | None = None,
        headers: Sequence[str] = (),
    ) -> None:
        """`pages`: by path. `guard`: None where no client has to log in. `headers`: of all
        responses.
        """
        self.pages, self._report, self._guard = pages, report, guard
        self._headers = tuple(headers)

    def check_login(self, request: Request, admit: Admit) -> None:
        guard, shown = self._guard, request.headers.get(b"authorization")
        if guard is None:
            admit(None)
        elif shown is None:
            refusal = None if request.path in guard.open_pages else self._unauthorized(guard)
            guard.later(0.0, partial(admit, refusal)) if refusal is not None else admit(None)
        elif guard.logins.knows(shown):
            request.user = shown
            admit(None)
        else:
            scheme = shown.partition(b" ")[0].lower()
            self._report.login_failed(
                request.peer, scheme.decode() if scheme in SCHEMES else "another"
            )
            guard.later(guard.delay_s, partial(admit, self._unauthorized(guard)))

    @staticmethod
    def _unauthorized(guard: Guard) -> Response:
        challenges = [f"WWW-Authenticate: {each}" for each in guard.logins.challenges]
        return Response(401, TEXT, b"this page is for those who log in\n", challenges)

    def answer(self, request: Request, reply: Reply) -> None:
        if self._headers:
            bare, own = reply, self._headers

            def reply(response: Response) -> None:
                bare(response._replace(headers=(*response.headers, *own)))

        self._answer(request, reply)

    def _answer(self, request: Request, reply: Reply) -> None:
        if request.method not in ALLOWED:
            error = BadRequest(405, f"{', '.join(ALLOWED)} are all there is")
            reply(self._refusal(error, request.peer))
            return
        if request.method == "OPTIONS":
            reply(Response(200, TEXT, b"", [ALLOW]))
            return
        pages = self.pages
        if self._guard is not None and request.user is None:
            pages = self._guard.open_pages
        page = pages.get(request.path)
        if page is None:
            reply(Response(404, TEXT, f"there is {' '.join(pages)}\n".encode()))
            return
        try:
            page(request, reply)
        except Exception as error:  # a bug of ours ends this request alone
            self._report.page_failed(request.path, error)
            reply(Response(500, TEXT, b"this page failed: see the log\n"))

    def refuse(self, error: BadRequest, peer: str) -> Response:
        refusal = self._refusal(error, peer)
        return refusal._replace(headers=(*refusal.headers, *self._headers))

    def _refusal(self, error: BadRequest, peer: str) -> Response:
        self._report.request_refused(peer, str(error))
        if error.limit is not None:
            self._report.limit_hit(error.limit)
        headers = [ALLOW] if error.status == 405 else []
        return Response(error.status, TEXT, f"{error}\n".encode(), headers, close=True)

    def count_hit(self, limit: Limit) -> None:
        self._report.limit_hit(limit)
