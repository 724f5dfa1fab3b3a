"""Submissions of a node's clients to the controller: in order, and none behind one that may be
lost.
"""

from collections.abc import Callable
from typing import Any

import pytest

from raftka.wire.errors import Code, KafkaError
from zookeeper_bridge.machine.wire import Result, Sync, Write, pack_answer, unpack_batch
from zookeeper_bridge.protocol.opcodes import Op
from zookeeper_bridge.server.bridge import Latency, _OfClient
from zookeeper_bridge.server.connection import ABANDONED, ConnectionState
from zookeeper_bridge.server.submissions import Submissions


class Turns:
    """A clock whose turns end when the test says so."""

    def __init__(self) -> None:
        self.due: list[Callable[[], None]] = []

    def now(self) -> float:
        return 0.0

    def at_turn_end(self, work: Callable[[], None]) -> None:
        self.due.append(work)

    def call_at(self, when: float, work: Callable[[], None]) -> None:
        self.due.append(work)

    def end(self) -> None:
        due, self.due = self.due, []
        for work in due:
            work()


class Idle:
    """The clock of a bridge."""

    latency = Latency()
    clock = Turns()


BRIDGE = Idle()


class Connection:
    identities = (("ip", "127.0.0.1"),)

    def __init__(self) -> None:
        self.state: ConnectionState | None = None
        self.over = False
        self.results: list[tuple[int, int]] = []

    def end(self, reason: str) -> None:
        self.over = True

    def abandon(self, reason: str) -> None:
        self.state = ABANDONED
        self.end(reason)

    def result(self, zxid: int, result: Result, body: bytes) -> None:
        self.results.append((zxid, result.error))


class Stage:
    def __init__(self) -> None:
        self.turns = Turns()
        self.asked: list[tuple[list[Any], Callable[[KafkaError | None, Any], None]]] = []
        clock: Any = self.turns
        self.submissions = Submissions(
            b"node", clock, self.ask, 4.0, lambda: None, lambda limit: None
        )

    def ask(self, command: Any, done: Callable[[KafkaError | None, Any], None]) -> bool:
        self.asked.append((list(unpack_batch(command.payload).requests), done))
        return True

    def put(self, connection: Connection, *bodies: bytes | None) -> None:
        """None: a sync."""
        for body in bodies:
            request = Sync() if body is None else Write(1, 1, 0, Op.CREATE, body)
            self.submissions.put(_OfClient(BRIDGE, connection, request))  # type: ignore[arg-type]

    def sent(self) -> list[bytes]:
        self.turns.end()  # the pause after a refusal
        self.turns.end()
        return [each.body for each in self.asked[-1][0] if isinstance(each, Write)]


def test_one_batch_is_under_way_at_a_time() -> None:
    stage, connection = Stage(), Connection()
    stage.put(connection, b"1", b"2")
    assert stage.sent() == [b"1", b"2"]
    stage.put(connection, b"3")
    assert stage.sent() == [b"1", b"2"]

    stage.asked[-1][1](None, pack_answer(7, [Result(0), Result(-101)]))

    assert connection.results == []
    stage.submissions.release(7)
    assert connection.results == [(7, 0), (7, -101)]
    assert stage.sent() == [b"3"]


@pytest.mark.parametrize("again", [True, False])
def test_nothing_behind_a_write_that_may_be_lost_is_done_and_others_are(again: bool) -> None:
    """NOT_CONTROLLER: nothing was decided, so all of it is asked again."""
    stage, unlucky, other = Stage(), Connection(), Connection()
    stage.put(unlucky, b"1")
    assert stage.sent() == [b"1"]
    stage.put(unlucky, b"2", None)
    stage.put(other, b"other", None)

    stage.asked[-1][1](KafkaError(Code.NOT_CONTROLLER if again else Code.NETWORK_EXCEPTION), None)

    assert stage.sent() == ([b"1", b"2", b"other"] if again else [b"other"])
    assert (unlucky.over, other.over) == (not again, False)
    assert len(stage.asked[-1][0]) == (5 if again else 2)


def test_requests_that_did_not_fit_are_asked_again_first() -> None:
    stage, connection = Stage(), Connection()
    stage.put(connection, b"1", b"2", b"3")
    stage.sent()
    stage.put(connection, b"4")

    stage.asked[-1][1](None, pack_answer(7, [Result(0), Result(1), Result(1)]))

    assert stage.sent() == [b"2", b"3", b"4"]
