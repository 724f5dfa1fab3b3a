"""What a node's clients ask of the controller: in order, and nothing behind what may be lost."""

from collections.abc import Callable
from typing import Any

import pytest

from raftka.wire.errors import Code, KafkaError
from zookeeper_bridge.errors import Err
from zookeeper_bridge.figures import Latency
from zookeeper_bridge.opcodes import Op
from zookeeper_bridge.server import _OfClient
from zookeeper_bridge.submissions import Submissions
from zookeeper_bridge.wire import Batch, Result, Sync, Write, pack_answer, unpack_batch


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
    """What a bridge knows of time."""

    latency = Latency()
    clock = Turns()


BRIDGE = Idle()


class Connection:
    identities = (("ip", "127.0.0.1"),)

    def __init__(self) -> None:
        self.abandoned = self.over = False
        self.results: list[tuple[int, int]] = []

    def end(self, reason: str) -> None:
        self.over = True

    def result(self, zxid: int, result: Result, body: bytes) -> None:
        self.results.append((zxid, result.error))


class Stage:
    def __init__(self) -> None:
        self.turns = Turns()
        self.asked: list[tuple[Batch, Callable[[KafkaError | None, Any], None]]] = []
        clock: Any = self.turns
        self.submissions = Submissions(b"node", clock, self.ask, 4.0, lambda: None, lambda limit: None)

    def ask(self, command: Any, done: Callable[[KafkaError | None, Any], None]) -> bool:
        self.asked.append((unpack_batch(command.payload), done))
        return True

    def put(self, connection: Connection, *bodies: bytes | None) -> None:
        """None: a sync."""
        for body in bodies:
            request = Sync() if body is None else Write(1, 1, 0, Op.CREATE, body)
            self.submissions.put(_OfClient(BRIDGE, connection, request))  # type: ignore[arg-type]

    def sent(self) -> list[tuple[list[bytes | None], int]]:
        """Batches so far, and which each must be right behind."""
        self.turns.end()  # the pause after a refusal
        self.turns.end()
        return [([each.body if isinstance(each, Write) else None for each in batch.requests], batch.behind) for batch, _ in self.asked]

    def answer(self, number: int, *errors: int) -> None:
        self.asked[number][1](None, pack_answer(10 * number, [Result(error) for error in errors]))

    def refuse(self, number: int, code: Code) -> None:
        self.asked[number][1](KafkaError(code), None)


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_two_batches_are_under_way_the_second_right_behind_the_first(stage: Stage) -> None:
    connection = Connection()
    stage.put(connection, b"1", b"2")
    assert stage.sent() == [([b"1", b"2"], 0)]
    stage.put(connection, b"3")
    assert stage.sent()[1:] == [([b"3"], 1)]
    stage.put(connection, b"4", b"5")
    assert len(stage.sent()) == 2

    stage.answer(0, 0, -101)

    assert stage.sent()[2:] == [([b"4", b"5"], 2)]
    stage.submissions.release(0)
    assert connection.results == [(0, 0), (0, -101)]
    stage.answer(1, 0)
    stage.answer(2, 0, 0)
    stage.put(connection, b"6")
    assert stage.sent()[3:] == [([b"6"], 0)]


def test_answers_are_handed_out_in_the_order_of_the_questions(stage: Stage) -> None:
    connection = Connection()
    stage.put(connection, b"1")
    stage.sent()
    stage.put(connection, b"2")
    stage.sent()

    stage.answer(1, -101)
    stage.submissions.release(100)
    assert connection.results == []

    stage.answer(0, 0)
    assert connection.results == [(0, 0), (10, -101)]


@pytest.mark.parametrize("again", [True, False])
def test_nothing_behind_a_write_that_may_be_lost_is_done_and_others_are(stage: Stage, again: bool) -> None:
    """NOT_CONTROLLER: nothing was decided, so all of it is asked again."""
    unlucky, other = Connection(), Connection()
    stage.put(unlucky, b"1")
    stage.sent()
    stage.put(unlucky, b"2", None)
    stage.put(other, b"other", None)
    stage.sent()
    stage.put(unlucky, b"3")
    stage.put(other, b"and more")

    stage.refuse(0, Code.NOT_CONTROLLER if again else Code.NETWORK_EXCEPTION)
    assert len(stage.sent()) == 2 + (not again), "what is asked again waits for the batch behind it"
    stage.answer(1, *[Err.AGAIN] * 4)
    if not again:
        stage.answer(2, Err.AGAIN)

    assert stage.sent()[-1] == (([b"1", b"2", None, b"other", None, b"3", b"and more"] if again else [b"other", None, b"and more"]), 0)
    assert (unlucky.over, other.over) == (not again, False)


@pytest.mark.parametrize("behind", [True, False])
def test_what_did_not_fit_into_an_entry_is_asked_again_before_all_else(stage: Stage, behind: bool) -> None:
    connection = Connection()
    stage.put(connection, b"1", b"2", b"3")
    stage.sent()
    stage.put(connection, b"4")
    if behind:
        stage.sent()

    stage.answer(0, 0, Err.AGAIN, Err.AGAIN)
    if behind:
        assert len(stage.sent()) == 2
        stage.answer(1, Err.AGAIN)

    assert stage.sent()[-1] == ([b"2", b"3", b"4"], 0)


def test_who_is_not_answered_gives_up_all_that_is_under_way(stage: Stage) -> None:
    first, second = Connection(), Connection()
    stage.put(first, b"1")
    stage.sent()
    stage.put(second, b"2", None)
    stage.sent()

    stage.submissions._since = -4.0
    stage.submissions._check()

    assert (first.over, second.over) == (True, True)
    assert stage.submissions.outstanding == 1, "a sync does no harm twice"
    stage.answer(0, 0)
    assert first.results == []
