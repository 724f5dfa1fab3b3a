"""Questions of a view to brokers, on connections that stay open: a client for each broker, so that
a silent one holds up no other, and one for questions that any broker answers.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Generic

from raftka.client.blocking.client import Client
from raftka.client.blocking.connection import ClientError, Unsupported
from raftka.client.blocking.every_broker import Answers
from raftka.client.connection import Address
from raftka.console.limits import (
    ANSWER_SECONDS,
    BULK_ANSWER_SECONDS,
    FIRST_ANSWER_MS,
    SILENT_ANSWER_MS,
)
from raftka.console.view.cached import Effort
from raftka.wire.schema import Api, Req, Resp

SILENT = "it does not answer"
LOOK_S = 0.25  # between two looks at whether a broker has turned out to be silent


class Brokers:
    """For many threads."""

    def __init__(self, make_client: Callable[[], Client]) -> None:
        """`make_client`: with the login of the view; it connects when it is first used."""
        self._make_client = make_client
        self._lock = threading.Lock()
        self._any = _Line(make_client)
        self._lines: dict[int, _Line] = {}
        self._closed = False

    @contextmanager
    def any_broker(self) -> Iterator[Client]:
        """Yield the client for questions that any broker answers. Others wait for it."""
        with self._any.hold() as client:
            yield client

    def ask_each(
        self,
        addresses: Mapping[int, Address],
        api: Api[Req, Resp],
        rows: Mapping[int, Req],
        effort: Effort,
        version: int | None = None,
        *,
        bulk: bool = False,
    ) -> Answers[Resp]:
        """Ask each broker of `rows` its own question, all at once. `version` caps the API's.
        `bulk`: the answers are about all partitions or groups, and may take their time.

        A broker that is silent counts as missing after FIRST_ANSWER_MS, and from then on after
        SILENT_ANSWER_MS, until it answers a question, be it late: a page that asks it several times
        is there in five seconds. Raises Unsupported when a broker does not know the API.
        """
        began = time.monotonic()
        end = began + (BULK_ANSWER_SECONDS if bulk else ANSWER_SECONDS).value
        answers: Answers[Resp] = Answers()
        questions = {}
        for node_id, row in sorted(rows.items()):
            if (address := addresses.get(node_id)) is None:
                answers.missing[node_id] = "it is not alive"
                continue
            question = questions[node_id] = _Question(
                self._line(node_id), address, api, row, version, end, is_bulk=bulk
            )
            question.thread.start()
        answered = began
        for node_id, question in questions.items():
            question.wait()
            answer, why = question.answer, question.why
            if isinstance(why, Unsupported):
                raise why
            if answer is None:
                answers.missing[node_id] = SILENT if why is None else str(why) or SILENT
            else:
                answers.of[node_id] = answer
                answered = max(answered, question.answered)
        effort.waited_s += time.monotonic() - answered
        return answers

    def close(self) -> None:
        with self._lock:
            self._closed = True
            lines = [self._any, *self._lines.values()]
        for line in lines:
            line.close()

    def _line(self, node_id: int) -> "_Line":
        with self._lock:
            if self._closed:
                raise OSError("the session has ended")
            if node_id not in self._lines:
                self._lines[node_id] = _Line(self._make_client)
            return self._lines[node_id]


class _Line:
    """A client, for one thread at a time."""

    def __init__(self, make_client: Callable[[], Client]) -> None:
        self._lock = threading.Lock()
        self._client = make_client()
        self._closed = False
        self.is_silent = False  # its last question was not answered in time

    @contextmanager
    def hold(self, within_s: float = -1) -> Iterator[Client]:
        """Yield the client. Raises OSError when others hold it for too long, or it was closed.
        `within_s`: -1 for any time.
        """
        if not self._lock.acquire(timeout=within_s):
            raise OSError(SILENT)  # it has not answered an earlier question yet
        try:
            if self._closed:
                raise OSError("the session has ended")
            yield self._client
        finally:
            self._lock.release()
            if self._closed:
                self.close()

    def close(self) -> None:
        """A question that is under way closes the client when it ends."""
        self._closed = True
        if self._lock.acquire(blocking=False):
            self._client.close()
            self._lock.release()


class _Question(Generic[Req, Resp]):
    def __init__(
        self,
        line: _Line,
        address: Address,
        api: Api[Req, Resp],
        row: Req,
        version: int | None,
        end: float,
        *,
        is_bulk: bool,
    ) -> None:
        self.answer: Resp | None = None
        self.answered = 0.0  # monotonic time
        self.why: Exception | None = None
        self._line, self._address, self._api, self._row = line, address, api, row
        self._version, self._end, self._is_bulk = version, end, is_bulk
        self._began = time.monotonic()
        self.thread = threading.Thread(target=self._run, daemon=True, name="console question")

    @property
    def _patience_s(self) -> float:
        """Return how long a page waits, from the begin of the question."""
        if self._line.is_silent:
            return SILENT_ANSWER_MS.value / 1000
        return self._end - self._began if self._is_bulk else FIRST_ANSWER_MS.value / 1000

    def wait(self) -> None:
        """Wait until there is an answer, or for as long as a page does."""
        while self.thread.is_alive():
            left_s = self._began + self._patience_s - time.monotonic()
            if left_s <= 0:
                self._line.is_silent = True
                return
            self.thread.join(min(left_s, LOOK_S))

    def _run(self) -> None:
        try:
            with self._line.hold(self._patience_s) as client:
                left_s = max(0.01, self._end - time.monotonic())
                self.answer = client.ask_at(
                    self._address, self._api, self._row, self._version, left_s
                )
                self.answered = time.monotonic()
                self._line.is_silent = False
        except (OSError, ClientError) as error:
            self.why = error
