"""Requests of a node's clients to the machine beside the controller: gathered over a turn, one
batch under way at a time, results in order.

One at a time, because a batch without an answer may have been carried out or not, and no later
batch may be carried out before that is known. The clients whose writes were in it lose their
connection, as with a ZooKeeper whose leader died, and must find out. Idempotent requests are sent
again. A result is handed out when this node has applied all changes that it depends on. Knows no
session's rules and no znode.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from raftka.broker.purgatory import Purgatory
from raftka.limits import Limit
from raftka.metadata.commands import Command, ExtensionCommand, read_reply
from raftka.runtime.interfaces import Clock
from raftka.wire.errors import Code, KafkaError
from zookeeper_bridge.limits import BATCH_BYTES
from zookeeper_bridge.machine.wire import (
    Request,
    Result,
    Write,
    pack_rows,
    row_of,
    row_of_write,
    unpack_answer,
)
from zookeeper_bridge.protocol.errors import Err
from zookeeper_bridge.tree.acl import Identity
from zookeeper_bridge.tree.store import PACKAGE

RETRY_S = 0.02
# as Quorum.ask_controller
Ask = Callable[[Command, Callable[[KafkaError | None, Any], None]], bool]


class Submission:
    """A request, and the receiver of its result. `identities`: of a write."""

    __slots__ = ("identities", "request")

    def __init__(self, request: Request, identities: tuple[Identity, ...] = ()) -> None:
        self.request = request
        self.identities = identities

    def done(self, zxid: int, result: Result) -> None:
        """The request was carried out, and this node has applied its changes."""

    def lost(self) -> None:
        """It is unknown whether the request was carried out."""

    def wanted(self) -> bool:
        """Return whether a client still waits for the result."""
        return True

    @property
    def size_bytes(self) -> int:
        return 64 + (len(self.request.body) if type(self.request) is Write else 64)


class Submissions:
    def __init__(
        self,
        origin: bytes,
        clock: Clock,
        ask: Ask,
        answer_s: float,
        unreachable: Callable[[], None],
        hit: Callable[[Limit], None],
    ) -> None:
        """`unreachable` is called when no controller has answered for `answer_s`, `hit` when a
        limit is reached.
        """
        self._hit = hit
        self._origin = origin
        self._clock = clock
        self._ask = ask
        self._answer_s = answer_s
        self._unreachable = unreachable
        self._pending: deque[Submission] = deque()
        self._in_flight: Sequence[Submission] = ()
        self._flight = 0  # number of the batch under way: answers to others come too late
        self._scheduled = False
        self._since: float | None = None  # time of the first request after the last answer
        self._watching = False  # a timer runs that compares `_since` with `answer_s`
        # results, by the zxid of the controller's tree that ours must come to
        self._delayed = Purgatory()
        self.applied = 0

    @property
    def outstanding(self) -> int:
        return len(self._pending) + len(self._in_flight)

    def put(self, submission: Submission) -> None:
        self._pending.append(submission)
        self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled and not self._in_flight and self._pending:
            self._scheduled = True
            self._clock.at_turn_end(self._send)

    def _send(self) -> None:
        self._scheduled = False
        batch = self._gather()
        if not batch:
            return
        now = self._clock.now()
        if self._since is None:
            self._since = now
            self._watch()
        self._flight += 1
        flight, self._in_flight = self._flight, batch
        if (
            not self._ask(
                self._command(batch), lambda error, reply: self._on_answer(flight, error, reply)
            )
            and self._flight == flight
        ):
            self._in_flight = ()
            self._pending.extendleft(reversed(batch))
            self._clock.call_at(now + RETRY_S, self._schedule)

    def _gather(self) -> list[Submission]:
        batch: list[Submission] = []
        size = 0
        while self._pending:
            if batch and size + self._pending[0].size_bytes > BATCH_BYTES.value:
                self._hit(BATCH_BYTES)
                break
            each = self._pending.popleft()
            if each.wanted():
                batch.append(each)
                size += each.size_bytes
        return batch

    def _command(self, batch: Sequence[Submission]) -> ExtensionCommand:
        """Encode a batch. Identities that several writes share are in it once."""
        numbers: dict[tuple[Identity, ...], int] = {}
        rows: list[tuple[Any, ...]] = []
        for each in batch:
            request = each.request
            if type(request) is Write:
                rows.append(
                    row_of_write(request, numbers.setdefault(each.identities, len(numbers)))
                )
            else:
                rows.append(row_of(request))
        return ExtensionCommand(PACKAGE, pack_rows(self._origin, list(numbers), rows))

    def _on_answer(self, flight: int, error: KafkaError | None, reply: object) -> None:
        if flight != self._flight or not self._in_flight:
            return
        batch, self._in_flight = self._in_flight, ()
        if error is not None:
            if error.code is Code.NOT_CONTROLLER:
                self._pending.extendleft(reversed(batch))  # none of it was decided
            else:
                self._failed(batch)
            self._clock.call_at(self._clock.now() + RETRY_S, self._schedule)
            return
        self._since = None
        zxid, results = unpack_answer(read_reply(ExtensionCommand(PACKAGE, b""), reply))
        to_retry = []
        for submission, result in zip(batch, results, strict=True):
            if result.error == Err.AGAIN:
                to_retry.append(submission)
            else:
                self._delayed.add(zxid, _Done(submission, zxid, result))
        self._pending.extendleft(reversed(to_retry))
        self.release(self.applied)
        self._schedule()

    def _failed(self, batch: Sequence[Submission]) -> None:
        for each in batch:
            if type(each.request) is Write:
                each.lost()
        self._pending.extendleft(
            reversed([each for each in batch if type(each.request) is not Write])
        )

    def _watch(self) -> None:
        if not self._watching and self._since is not None:
            self._watching = True
            self._clock.call_at(self._since + self._answer_s, self._check)

    def _check(self) -> None:
        """Give up the batch when the controller has been silent for too long."""
        self._watching = False
        if self._since is None or self._clock.now() < self._since + self._answer_s:
            self._watch()
            return
        self._since = None
        self._flight += 1
        batch, self._in_flight = self._in_flight, ()
        self._failed(batch)
        self._unreachable()
        self._schedule()

    def release(self, applied: int) -> None:
        """Hand out results: this node has applied the metadata up to offset `applied`."""
        self.applied = applied
        self._delayed.reached(applied)


class _Done:
    """A submission that the controller has carried out."""

    __slots__ = ("_result", "_submission", "_zxid")

    def __init__(self, submission: Submission, zxid: int, result: Result) -> None:
        self._submission = submission
        self._zxid = zxid
        self._result = result

    def complete(self, _code: Code) -> None:
        self._submission.done(self._zxid, self._result)
