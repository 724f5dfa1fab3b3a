"""Threads behind the door: one for each statement. The loop serves all connections meanwhile."""

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import NamedTuple, TypeVar

import trio

from raftka.http.messages import EVENTS, Reply, Request, Response
from raftka.http.streams import HEARTBEAT, Handoff, pump
from raftka.json_values import Json, encode_json
from raftka.sql.limits import ROWS_BYTES, STATEMENTS, UNREAD_SECONDS
from raftka.sql.server.engine import SqlSession
from raftka.sql.server.refusals import (
    HEADERS,
    JSON_TYPE,
    Refusal,
    Report,
    refusal_of,
    refuse,
    respond,
)
from raftka.sql.server.statements import (
    Statement,
    Statements,
    document_of,
    events_of,
    pieces_of,
)

T = TypeVar("T")

BEAT_S = 20.0  # between two heartbeats of rows that keep coming
LOOK_S = 0.5  # between two looks whether a client that waits for its answer has left


class Asked(NamedTuple):
    """A statement as a client asks for it."""

    text: str
    limit: int | None  # of rows
    wants_events: bool


class Work:
    def __init__(
        self, session: Callable[[str | None], SqlSession], report: Report, hits: Counter[str]
    ) -> None:
        """`session`: returns that of a user, of the server's owner for None. Raises EngineFailed,
        Refusal. Blocks.
        """
        self._session, self._report, self._hits = session, report, hits
        self.statements = Statements(hits)

    async def execute(self, request: Request, asked: Asked, user: str | None, reply: Reply) -> None:
        """Answer POST /statements."""
        statement = self.statements.begin(asked.text, user)
        if statement is None:
            reply(refuse(Refusal(503, "TOO_BUSY", f"{STATEMENTS.value} statements run: end one")))
            return
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._end_with_client, request, statement)
            begun = await _in_thread(partial(self._begin, statement, asked))
            nursery.cancel_scope.cancel()
        if isinstance(begun, Refusal):
            reply(refuse(begun))
        elif statement.has_reader:
            await self._send(statement, begun, asked.wants_events, reply)
        else:
            reply(respond(200, encode_json({**statement.head, "rows": [], "note": ""})))
            await self._end_unread(statement)

    async def send_rows(self, statement: Statement, reply: Reply) -> None:
        """Answer GET /statements/{id}/rows; the caller has taken them."""
        assert statement.answer is not None
        await self._send(statement, pieces_of(statement.answer), True, reply)

    async def end(self, statement: Statement, reply: Reply) -> None:
        """Answer DELETE /statements/{id}."""
        await _in_thread(partial(self.statements.end, statement))
        reply(respond(200, b"{}"))

    async def send_words(self, user: str | None, reply: Reply) -> None:
        """Answer GET /words."""

        def work() -> Response:
            try:
                return respond(200, encode_json(self._session(user).words()._asdict()))
            except Exception as error:
                return refuse(refusal_of(error, self._report, "words"))

        reply(await _in_thread(work))

    def _begin(self, statement: Statement, asked: Asked) -> "Iterator[bytes] | Refusal":
        """Run a statement until its first rows are there: an error until then has a status."""
        try:
            answer = self._session(statement.user).execute(asked.text, asked.limit)
            has_reader = asked.wants_events or not answer.is_live
            self.statements.set_answer(statement, answer, has_reader=has_reader)
            pieces = pieces_of(answer)
            if answer.is_live:
                return pieces
            return chain(filter(None, (next(pieces, None),)), pieces)
        except Exception as error:
            self.statements.end(statement)
            return refusal_of(error, self._report, statement.text)

    async def _send(
        self, statement: Statement, pieces: Iterator[bytes], wants_events: bool, reply: Reply
    ) -> None:
        handoff = Handoff(lambda: None, ROWS_BYTES)
        if wants_events:
            body = events_of(statement, pieces, self._failure_of(statement))
        else:
            body = document_of(statement, pieces)
        kind = EVENTS if wants_events else JSON_TYPE
        reply(Response(200, kind, b"", HEADERS, source=handoff))
        work = partial(pump, body, handoff, self._failure_of(statement))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._end_with_handoff, handoff, statement)
            if wants_events:
                nursery.start_soon(_beat, handoff)
            try:
                await _in_thread(work)
            except trio.Cancelled:  # the server ends
                handoff.abandon()
                raise
            nursery.cancel_scope.cancel()
        await _in_thread(partial(self.statements.end, statement))

    def _failure_of(self, statement: Statement) -> Callable[[Exception], Json]:
        def failed(error: Exception) -> Json:
            told = refusal_of(error, self._report, statement.text)
            return {"status": told.status, "error": told.code, "message": str(told)}

        return failed

    async def _end_with_client(self, request: Request, statement: Statement) -> None:
        """Look for the client until the caller cancels this; end the statement when it has left."""
        while True:
            await trio.sleep(LOOK_S)
            if request.has_left():
                await _in_thread(partial(self.statements.end, statement))

    async def _end_with_handoff(self, handoff: Handoff, statement: Statement) -> None:
        await handoff.gone.wait()
        await _in_thread(partial(self.statements.end, statement))

    async def _end_unread(self, statement: Statement) -> None:
        await trio.sleep(UNREAD_SECONDS.value)
        if self.statements.take_rows(statement.id) is not None:
            self._hits[UNREAD_SECONDS.name] += 1
            await _in_thread(partial(self.statements.end, statement))


async def _in_thread(work: Callable[[], T]) -> T:
    """Run what blocks. `Statements` bounds how many threads there are."""
    return await trio.to_thread.run_sync(
        work, abandon_on_cancel=True, limiter=trio.CapacityLimiter(1)
    )


async def _beat(handoff: Handoff) -> None:
    """Show a client that the work behind quiet rows goes on."""
    while True:
        await trio.sleep(BEAT_S)
        handoff.put_now(HEARTBEAT)
