"""A connection of a server: its states, and a client that leaves or is slow at any time."""

from collections.abc import Callable

import pytest

from raftka.http.messages import TEXT, BadRequest, Reply, Request, Response
from raftka.http.request_reader import Bounds
from raftka.http.server import NEXT, Admit, HttpConnection, HttpServer, State
from raftka.limits import Limit

SECONDS = Limit("seconds", 10, "")
BOUNDS = Bounds(
    Limit("connections", 2, ""),
    Limit("head", 1000, ""),
    SECONDS,
    Limit("login_seconds", 5, ""),
    body=Limit("body", 1000, ""),
)
GET = b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n"
POST = b"POST /a HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"


class Timer:
    def cancel(self) -> None:
        pass


class Clock:
    """Keeps what it shall do later."""

    def __init__(self) -> None:
        self.actions: list[tuple[float, Callable[[], None]]] = []

    def now(self) -> float:
        return 0.0

    def wall_ms(self) -> int:
        return 0

    def cpu_s(self) -> float:
        return 0.0

    def call_at(self, when: float, action: Callable[[], None]) -> Timer:
        self.actions.append((when, action))
        return Timer()

    def at_turn_end(self, action: Callable[[], None]) -> None:
        raise NotImplementedError


class Wire:
    peer = "client:1"

    def __init__(self) -> None:
        self.held, self.ended = False, ""

    def wake(self) -> None:
        pass

    def close(self, reason: str) -> None:
        self.ended = self.ended or reason

    def drop(self, reason: str) -> None:
        self.ended = reason

    def hold_reading(self, held: bool) -> None:
        self.held = held

    def left(self) -> bool:
        return False


class Application:
    """Keeps questions until the test answers them."""

    def __init__(self) -> None:
        self.admits: list[Admit] = []
        self.replies: list[Reply] = []
        self.hits: list[Limit] = []

    def check_login(self, request: Request, admit: Admit) -> None:
        self.admits.append(admit)

    def answer(self, request: Request, reply: Reply) -> None:
        self.replies.append(reply)

    def refuse(self, error: BadRequest, peer: str) -> Response:
        return Response(error.status, TEXT, str(error).encode())

    def count_hit(self, limit: Limit) -> None:
        self.hits.append(limit)


class Scene:
    def __init__(self, *, has_logins: bool = False) -> None:
        self.site, self.clock, self.wire = Application(), Clock(), Wire()
        self.server = HttpServer(self.site, BOUNDS, self.clock, has_logins=has_logins)
        accepted = self.server.accept()
        assert isinstance(accepted, HttpConnection)
        self.connection = accepted
        self.connection.opened(self.wire)

    def receive(self, data: bytes) -> None:
        self.connection.receive(memoryview(data))

    def take(self) -> bytes:
        return b"".join(self.connection.take_output())

    @property
    def state(self) -> State:
        return self.connection._state


OK = Response(200, TEXT, b"yes")


def reach(scene: Scene, state: State) -> None:
    """Bring the connection into a state."""
    steps: list[tuple[State, Callable[[], object]]] = [
        (State.READING, lambda: scene.receive(GET)),
        (State.CHECKING, lambda: scene.site.admits[0](None)),
        (State.ANSWERING, lambda: scene.site.replies[0](OK)),
        (State.SENDING, lambda: scene.receive(b"")),
    ]
    for reached, step in steps:
        assert scene.state is reached
        if reached is state:
            return
        step()
    assert scene.state is state


def test_connection_walks_through_all_states_and_begins_anew() -> None:
    scene = Scene()
    reach(scene, State.SENDING)
    assert scene.wire.held

    assert scene.take().endswith(b"\r\n\r\nyes")

    assert scene.state is State.READING
    assert not scene.wire.held


EVENTS: dict[str, Callable[[Scene], object]] = {
    "bytes": lambda scene: scene.receive(GET),
    "nonsense": lambda scene: scene.receive(b"NONSENSE\r\n\r\n"),
    "the end": lambda scene: scene.receive(b""),
    "output is taken": lambda scene: scene.take(),
    "the deadline": lambda scene: scene.clock.actions[-1][1](),
    "the end of the connection": lambda scene: scene.connection.closed("reset"),
    "a login is admitted": lambda scene: [admit(None) for admit in scene.site.admits],
    "a login is refused": lambda scene: [admit(OK) for admit in scene.site.admits],
    "an answer": lambda scene: [reply(OK) for reply in scene.site.replies],
}


@pytest.mark.parametrize("first", EVENTS)
@pytest.mark.parametrize("second", EVENTS)
@pytest.mark.parametrize("state", State)
def test_every_event_is_allowed_in_every_state(state: State, first: str, second: str) -> None:
    """`_enter` compares each step with the table; late answers and admissions change nothing."""
    scene = Scene()
    reach(scene, state)
    answered = scene.take().count(b"HTTP/1.1 200")

    EVENTS[first](scene)
    EVENTS[second](scene)
    EVENTS[first](scene)

    assert scene.state in NEXT
    answered += scene.take().count(b"HTTP/1.1 200")
    assert answered <= len(scene.site.replies) + len(scene.site.admits)


def test_client_that_left_gets_its_answer_and_the_end() -> None:
    scene = Scene()
    reach(scene, State.ANSWERING)
    scene.receive(b"")

    scene.site.replies[0](OK)

    assert not scene.wire.ended, "the answer would be lost"
    assert b"\r\nConnection: close\r\n" in scene.take()
    assert scene.wire.ended


def test_body_is_asked_for_once_and_after_the_login() -> None:
    scene = Scene(has_logins=True)
    scene.receive(POST)
    assert scene.take() == b""

    scene.site.admits[0](None)
    scene.receive(b"{")

    assert scene.take() == b"HTTP/1.1 100 Continue\r\n\r\n"
    scene.receive(b"}")
    assert len(scene.site.replies) == len(scene.site.admits) == 1


def test_body_without_a_login_is_not_taken() -> None:
    scene = Scene(has_logins=True)
    scene.receive(POST)

    scene.site.admits[0](Response(401, TEXT, b"no"))

    assert scene.take().startswith(b"HTTP/1.1 401 ")
    assert scene.wire.ended


@pytest.mark.parametrize("has_logins", [False, True])
def test_stranger_has_less_time_than_a_known_client(has_logins: bool) -> None:
    scene = Scene(has_logins=has_logins)
    assert scene.clock.actions[-1][0] == (5 if has_logins else 10)
    scene.receive(b"GET ")

    scene.clock.actions[-1][1]()

    assert scene.wire.ended == "idle"
    assert [limit.name for limit in scene.site.hits] == [
        "login_seconds" if has_logins else "seconds"
    ]


def test_connection_without_a_request_ends_without_a_count() -> None:
    scene = Scene()

    scene.clock.actions[-1][1]()

    assert scene.wire.ended == "idle"
    assert scene.site.hits == []


@pytest.mark.parametrize("has_logins", [False, True])
def test_stranger_makes_room_for_another_connection(has_logins: bool) -> None:
    scene = Scene(has_logins=has_logins)
    assert scene.server.accept() is not None

    third = scene.server.accept()

    assert (third is not None) is has_logins
    assert [limit.name for limit in scene.site.hits] == ["connections"]
    assert bool(scene.wire.ended) is has_logins
