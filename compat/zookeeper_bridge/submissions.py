"""What a node's clients ask of the machine beside the controller: gathered over a turn, two batches under way at most, results in order.

A batch that got no answer may have been carried out or not, and nothing behind it may be before that is told: the clients whose writes were in it
lose their connection, as they would with a ZooKeeper whose leader died, and find out. What does no harm twice is asked again. So a batch that leaves
while another is under way says which: it is done right behind that one or not at all, and is asked again when both are answered. Results are handed
out when this node has applied all that they speak of. Knows no session's rules and no znode.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from raftka.limits import Limit
from raftka.metadata.commands import Command, ExtensionCommand, read_reply
from raftka.runtime.door import Clock
from raftka.wire.errors import Code, KafkaError
from zookeeper_bridge.acl import Identity
from zookeeper_bridge.errors import Err
from zookeeper_bridge.limits import BATCH_BYTES
from zookeeper_bridge.store import PACKAGE
from zookeeper_bridge.wire import Request, Result, Write, pack_rows, row_of, row_of_write, unpack_answer

RETRY_S = 0.02
AT_ONCE = 2  # batches: what comes while one is away need not wait for its return
Ask = Callable[[Command, Callable[[KafkaError | None, Any], None]], bool]  # as Quorum.ask_controller


class Submission:
    """What is asked, and who is told. `identities`: of a write."""

    __slots__ = ("identities", "request")

    def __init__(self, request: Request, identities: tuple[Identity, ...] = ()) -> None:
        self.request = request
        self.identities = identities

    def done(self, zxid: int, result: Result) -> None:
        """It was carried out, and this node has applied what it did."""

    def lost(self) -> None:
        """Nobody knows whether it was carried out."""

    def wanted(self) -> bool:
        """Whether anybody still waits."""
        return True

    @property
    def size_bytes(self) -> int:
        return 64 + (len(self.request.body) if type(self.request) is Write else 64)


class Flight:
    """A batch under way."""

    __slots__ = ("answer", "batch", "number")

    def __init__(self, number: int, batch: Sequence[Submission]) -> None:
        self.number = number
        self.batch = batch
        self.answer: tuple[KafkaError | None, Any] | None = None


class Submissions:
    def __init__(self, origin: bytes, clock: Clock, ask: Ask, answer_s: float, unreachable: Callable[[], None], hit: Callable[[Limit], None]) -> None:
        """`unreachable`: no controller has answered for `answer_s`. `hit` is told of limits."""
        self._hit = hit
        self._origin = origin
        self._clock = clock
        self._ask = ask
        self._answer_s = answer_s
        self._unreachable = unreachable
        self._pending: deque[Submission] = deque()
        self._flights: deque[Flight] = deque()
        self._number = 0  # of the last flight
        self._again: list[Submission] = []  # of flights that are over; nothing leaves before they can, behind those that are still under way
        self._scheduled = False
        self._since: float | None = None  # when a controller was asked that has not answered
        self._watching = False  # a timer runs that looks how long that is ago
        self._answered: deque[tuple[int, Submission, Result]] = deque()  # in the tree of the controller, not yet in ours
        self.applied = 0

    @property
    def outstanding(self) -> int:
        return len(self._pending) + len(self._again) + sum([len(flight.batch) for flight in self._flights])

    def put(self, submission: Submission) -> None:
        self._pending.append(submission)
        self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled and self._pending:
            self._scheduled = True
            self._clock.at_turn_end(self._send)

    def _send(self) -> None:
        self._scheduled = False
        if self._again or len(self._flights) >= AT_ONCE:
            return
        batch = self._gather()
        if not batch:
            return
        now = self._clock.now()
        if self._since is None:
            self._since = now
            self._watch()
        self._number += 1
        flight = Flight(self._number, batch)
        command = self._command(flight, self._flights[-1].number if self._flights else 0)
        self._flights.append(flight)
        if not self._ask(command, lambda error, reply: self._come(flight, error, reply)) and flight in self._flights:
            self._flights.remove(flight)
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

    def _command(self, flight: Flight, behind: int) -> ExtensionCommand:
        """Identities are said once for all who share them."""
        numbers: dict[tuple[Identity, ...], int] = {}
        rows: list[tuple[Any, ...]] = []
        for each in flight.batch:
            request = each.request
            if type(request) is Write:
                rows.append(row_of_write(request, numbers.setdefault(each.identities, len(numbers))))
            else:
                rows.append(row_of(request))
        return ExtensionCommand(PACKAGE, pack_rows(self._origin, flight.number, behind, list(numbers), rows))

    def _come(self, flight: Flight, error: KafkaError | None, reply: Any) -> None:
        if flight not in self._flights:
            return  # too late
        flight.answer = error, reply
        refused = False
        while self._flights and self._flights[0].answer is not None:
            first = self._flights.popleft()
            error, reply = first.answer or (None, None)
            if error is None:
                self._take(first, reply)
            else:
                refused = True
                # NOT_CONTROLLER: none of it was decided
                self._again += first.batch if error.code is Code.NOT_CONTROLLER else self._failed(first.batch)
        self.release(self.applied)
        self._go_on(RETRY_S if refused else 0.0)

    def _take(self, flight: Flight, reply: Any) -> None:
        self._since = self._clock.now() if self._flights else None
        zxid, results = unpack_answer(read_reply(ExtensionCommand(PACKAGE, b""), reply))
        for submission, result in zip(flight.batch, results, strict=True):
            if result.error == Err.AGAIN:
                self._again.append(submission)
            else:
                self._answered.append((zxid, submission, result))

    def _go_on(self, pause_s: float) -> None:
        if self._again and not self._flights:
            self._pending.extendleft(reversed(self._again))
            self._again.clear()
        if pause_s:
            self._clock.call_at(self._clock.now() + pause_s, self._schedule)
        else:
            self._schedule()

    @staticmethod
    def _failed(batch: Sequence[Submission]) -> list[Submission]:
        """What of it may be asked again."""
        for each in batch:
            if type(each.request) is Write:
                each.lost()
        return [each for each in batch if type(each.request) is not Write]

    def _watch(self) -> None:
        if not self._watching and self._since is not None:
            self._watching = True
            self._clock.call_at(self._since + self._answer_s, self._check)

    def _check(self) -> None:
        """Whether a controller has been silent for too long."""
        self._watching = False
        if self._since is None or self._clock.now() < self._since + self._answer_s:
            self._watch()
            return
        self._since = None
        while self._flights:
            self._again += self._failed(self._flights.popleft().batch)
        self._unreachable()
        self._go_on(0.0)

    def release(self, applied: int) -> None:
        """This node has applied the metadata up to there."""
        self.applied = applied
        while self._answered and self._answered[0][0] <= applied:
            zxid, submission, result = self._answered.popleft()
            submission.done(zxid, result)
