"""Threads and tasks that work at calls: one answer, a stream of events, a download, a page that is
kept live. The loop serves all connections meanwhile.
"""

import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain
from typing import NamedTuple, TypeVar
from urllib.parse import quote

import trio

from raftka.console.answers import NO_STORE, document_of, refusal_of
from raftka.console.call import ApiError, Call, Download, Event
from raftka.console.errors import api_error, is_refused_login
from raftka.console.limits import (
    AT_WORK,
    EVERY_S,
    LOGINS,
    STREAM_BYTES,
    STREAMS,
    WATCHES,
    WATCHES_AT_WORK,
)
from raftka.console.parameters import Number
from raftka.console.protection import HEADERS
from raftka.console.routes import Route
from raftka.console.sessions import Session, SessionOver
from raftka.http.messages import EVENTS, Reply, Request, Response
from raftka.http.streams import HEARTBEAT, Handoff, close_all, event, pump
from raftka.json_values import encode_json
from raftka.limits import Limit

T = TypeVar("T")

LOGIN = "/api/login"
FAILED_LOGIN_S = 1.0  # before a wrong password is answered: so guesses take their time
EVERY = {"every": Number(2, least=1, most=EVERY_S.value)}  # seconds between two readings of a watch
BEAT_S = 20.0  # between two heartbeats of a stream of events
LOOK_S = 1.0  # between two looks whether a client that waits for its answer has left
TOO_BUSY, INTERNAL = "TOO_BUSY", "INTERNAL"

Report = Callable[[str, str], None]  # of a failure: its subject, and its reason


def report_to_stderr(subject: str, reason: str) -> None:
    sys.stderr.write(f"{subject} failed: {reason}\n")


class Gone:
    """Set when nobody waits for a call any more."""

    __slots__ = ("is_set",)

    def __init__(self) -> None:
        self.is_set = False

    def set(self) -> None:
        self.is_set = True

    def __call__(self) -> bool:
        return self.is_set


class Asked(NamedTuple):
    """A request that has found its route."""

    request: Request
    route: Route
    session: Session
    make_call: Callable[[Gone], Call]  # parses the query and the body. Raises ApiError


class Begun(NamedTuple):
    """A stream whose first piece is there."""

    content_type: str
    headers: tuple[str, ...]
    pieces: Iterator[bytes]


class Workers:
    def __init__(self, report: Report, hits: Counter[str]) -> None:
        self._report, self._hits = report, hits
        self.watches = 0  # pages that are kept live
        self._threads = trio.CapacityLimiter(AT_WORK.value)
        self._watching = trio.CapacityLimiter(WATCHES_AT_WORK.value)
        self._logins = trio.CapacityLimiter(LOGINS.value)
        self._streams = trio.CapacityLimiter(STREAMS.value)
        self._calls: set[Gone] = set()

    def stop(self) -> None:
        """Tell the calls that are under way that nobody waits for them. In any thread."""
        for each in list(self._calls):
            each.set()

    def _hit(self, limit: Limit) -> None:
        self._hits[limit.name] += 1

    @contextmanager
    def _awaited(self) -> Iterator[Gone]:
        gone = Gone()
        self._calls.add(gone)
        try:
            yield gone
        finally:
            gone.set()
            self._calls.discard(gone)

    # one answer

    async def answer(self, asked: Asked, reply: Reply) -> None:
        is_login = asked.route.path == LOGIN
        limiter, limit = (self._logins, LOGINS) if is_login else (self._threads, AT_WORK)
        if not limiter.available_tokens:
            self._hit(limit)
        with self._awaited() as gone:

            def work() -> Response | Download:
                try:
                    found = asked.route.handler(asked.make_call(gone))
                    if isinstance(found, Download):
                        return found
                    return document_of(found, asked.request)
                except Exception as error:
                    return self._failure(asked, error)

            found = await self._in_thread(asked.request, gone, work, limiter)
            if isinstance(found, Download):
                await self._send(asked, gone, reply, lambda: begin_download(found, asked.session))
                return
        if is_login and found.status == 401:
            await trio.sleep(FAILED_LOGIN_S)
        reply(found)

    async def _in_thread(
        self, request: Request, gone: Gone, work: Callable[[], T], limiter: trio.CapacityLimiter
    ) -> T:
        """Run `work`, which does not raise; `gone` is set when the client leaves."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_look_for_client, request, gone)
            found = await trio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=limiter)
            nursery.cancel_scope.cancel()
        return found

    # streams and downloads

    async def stream(self, asked: Asked, reply: Reply) -> None:
        with self._awaited() as gone:

            def begin() -> Begun:
                events: Iterator[Event] = asked.route.handler(asked.make_call(gone))
                first = next(events, None)
                pieces = self._events(asked, first, events)
                return Begun(EVENTS, (), pieces)

            await self._send(asked, gone, reply, begin)

    def _events(
        self, asked: Asked, first: Event | None, events: Iterator[Event]
    ) -> Iterator[bytes]:
        try:
            for name, value in chain(() if first is None else (first,), events):
                _keep_or_end(asked.session)
                yield event(name, encode_json(value))
            _keep_or_end(asked.session)  # its end may have been that of the work
        except Exception as error:
            yield self._failed_event(asked, error)
        finally:
            close_all(events)

    async def _send(
        self, asked: Asked, gone: Gone, reply: Reply, begin: Callable[[], Begun]
    ) -> None:
        """`begin` runs in a thread, up to the first piece: an error until then has a status."""
        if not self._streams.available_tokens:
            self._hit(STREAMS)
            reply(_too_busy(f"{STREAMS.value} searches and exports are under way: wait for one"))
            return

        def begun_or_refused() -> Begun | Response:
            try:
                return begin()
            except Exception as error:
                return self._failure(asked, error)

        async with self._streams:
            own_thread = trio.CapacityLimiter(1)
            begun = await self._in_thread(asked.request, gone, begun_or_refused, own_thread)
            if isinstance(begun, Response):
                reply(begun)
                return
            handoff = Handoff(gone.set, STREAM_BYTES)
            headers = (*begun.headers, NO_STORE, *HEADERS)
            reply(Response(200, begun.content_type, b"", headers, source=handoff))
            work = partial(pump, begun.pieces, handoff, partial(self._failure, asked))
            async with trio.open_nursery() as nursery:
                if begun.content_type == EVENTS:
                    nursery.start_soon(_beat, handoff)
                try:
                    await trio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=own_thread)
                except trio.Cancelled:  # the console ends
                    handoff.abandon()
                    raise
                nursery.cancel_scope.cancel()

    # pages that are kept live

    def watch(self, asked: Asked, reply: Reply) -> "tuple[Handoff, Gone] | None":
        """Begin the answer; `keep_live` goes on with what is returned."""
        if self.watches >= WATCHES.value:
            self._hit(WATCHES)
            reply(_too_busy(f"{WATCHES.value} pages are kept live: close one"))
            return None
        gone = Gone()
        handoff = Handoff(gone.set, STREAM_BYTES)
        reply(Response(200, EVENTS, b"", (NO_STORE, *HEADERS), source=handoff))
        return handoff, gone

    async def keep_live(self, asked: Asked, handoff: Handoff, gone: Gone, every_s: float) -> None:
        """Send the answer when it has changed, as fast as the browser takes it."""

        def work() -> bytes:
            try:
                return event("", encode_json(asked.route.handler(asked.make_call(gone))))
            except Exception as error:
                return self._failed_event(asked, error)

        last = b""
        self.watches += 1
        self._calls.add(gone)
        try:
            while not gone.is_set:
                found = await trio.to_thread.run_sync(
                    work, abandon_on_cancel=True, limiter=self._watching
                )
                handoff.put_now(found if found != last else HEARTBEAT)
                last = found
                if asked.session.is_over:
                    handoff.end()
                    return
                asked.session.last_used = time.monotonic()
                await handoff.taken.wait()
                with trio.move_on_after(every_s):
                    await handoff.gone.wait()
        finally:
            self.watches -= 1
            self._calls.discard(gone)
            gone.set()

    # failures

    def _failure(self, asked: Asked, error: BaseException) -> Response:
        request, session = asked.request, asked.session
        if session.user is not None and is_refused_login(error):
            session.end()
        found = api_error(error)
        if found is None:
            lines = traceback.format_exception(error)
            self._report(f"{request.method} {request.path}", "".join(lines))
            found = ApiError(500, INTERNAL, "this request failed: see the console's own output")
        return refusal_of(found)

    def _failed_event(self, asked: Asked, error: Exception) -> bytes:
        """Return the event `failure`: the head of the answer has been sent."""
        failed = self._failure(asked, error)
        return event("failure", b'{"status":%d,' % failed.status + failed.body[1:])


async def _beat(handoff: Handoff) -> None:
    """Show a browser that the work behind a quiet stream goes on."""
    while True:
        await trio.sleep(BEAT_S)
        handoff.put_now(HEARTBEAT)


async def _look_for_client(request: Request, gone: Gone) -> None:
    while not gone.is_set:
        await trio.sleep(LOOK_S)
        if request.has_left():
            gone.set()


def _too_busy(message: str) -> Response:
    return refusal_of(ApiError(503, TOO_BUSY, message))


def _keep_or_end(session: Session) -> None:
    """Note that the session is in use; raise SessionOver when it has ended: its stream, which may
    go on for hours, ends with it.
    """
    if session.is_over:
        raise SessionOver
    session.last_used = time.monotonic()


def begin_download(found: Download, session: Session) -> Begun:
    """Wait for the first bytes of a file, which is cut when the session ends. Raises what its maker
    raises.
    """
    first = next(found.chunks, b"")
    plain = "".join(each if each.isalnum() or each in "._-" else "_" for each in found.file_name)
    plain = plain.encode("ascii", "replace").decode().replace("?", "_")
    name = f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(found.file_name, safe='')}"
    return Begun(
        found.content_type, (f"Content-Disposition: {name}",), _rest(first, found.chunks, session)
    )


def _rest(first: bytes, chunks: Iterator[bytes], session: Session) -> Iterator[bytes]:
    try:
        for each in chain((first,), chunks):
            _keep_or_end(session)
            yield each
        _keep_or_end(session)
    finally:
        close_all(chunks)
