"""A connection of a server: its states, and a client that leaves or is slow at any time."""

from collections.abc import Callable

import pytest

from raftka.http.messages import TEXT, BadRequest, BodyFailed, Reply, Request, Response
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
    def __init__(self) -> None:
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class Clock:
    """Keeps what it shall do later."""

    def __init__(self) -> None:
        self.actions: list[tuple[float, Callable[[], None]]] = []
        self._timers: list[tuple[Timer, float, Callable[[], None]]] = []

    @property
    def running(self) -> list[Callable[[], None]]:
        """Return the deadlines that would be kept."""
        return [act for timer, when, act in self._timers if when > 0 and not timer.is_cancelled]

    def now(self) -> float:
        return 0.0

    def wall_ms(self) -> int:
        return 0

    def cpu_s(self) -> float:
        return 0.0

    def call_at(self, when: float, action: Callable[[], None]) -> Timer:
        self.actions.append((when, action))
        timer = Timer()
        self._timers.append((timer, when, action))
        return timer

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

    def own_host(self) -> str:
        return "server"

    def left(self) -> bool:
        return False


class Application:
    """Keeps questions until the test answers them."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.admits: list[Admit] = []
        self.replies: list[Reply] = []
        self.hits: list[Limit] = []

    def check_login(self, request: Request, admit: Admit) -> None:
        self.requests.append(request)
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


class Pieces:
    """A body that the test makes piece by piece."""

    def __init__(self) -> None:
        self.pieces: list[bytes | None] = []  # None: it is whole
        self.error = ""
        self.ready: Callable[[], None] = lambda: None
        self.stops = 0

    def start(self, ready: Callable[[], None]) -> None:
        self.ready = ready

    def take(self) -> bytes | None:
        if self.error:
            raise BodyFailed(self.error)
        return self.pieces.pop(0) if self.pieces else b""

    def stop(self) -> None:
        self.stops += 1

    def put(self, *pieces: bytes | None) -> None:
        self.pieces += pieces
        self.ready()

    @property
    def response(self) -> Response:
        return Response(200, TEXT, b"", source=self)


def reach(scene: Scene, state: State) -> None:
    """Bring the connection into a state."""
    if state is State.STREAMING:
        reach(scene, State.ANSWERING)
        scene.site.replies[0](Pieces().response)
        assert scene.state is state
        return
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
    "a stream": lambda scene: [reply(Pieces().response) for reply in scene.site.replies],
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


def stream(request: bytes = GET) -> tuple[Scene, Pieces]:
    """A connection that sends a body, its head taken."""
    scene, body = Scene(), Pieces()
    scene.receive(request)
    scene.site.admits[0](None)
    scene.site.replies[0](body.response)
    head = scene.take()
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"Content-Length" not in head
    assert (b"\r\nTransfer-Encoding: chunked\r\n" in head) is (b"HTTP/1.1" in request)
    return scene, body


def test_streamed_body_leaves_in_chunks_and_the_next_request_follows() -> None:
    scene, body = stream()
    assert not scene.wire.held, "the end of the client would not be noticed"

    body.put(b"one", b"x" * 17, None)

    assert scene.take() == b"3\r\none\r\n"
    assert scene.take() == b"11\r\n" + b"x" * 17 + b"\r\n"
    assert (scene.take(), body.stops) == (b"0\r\n\r\n", 1)
    assert scene.state is State.READING
    scene.receive(GET)
    assert len(scene.site.admits) == 2


def test_request_behind_a_stream_waits_in_the_network() -> None:
    scene, body = stream()

    scene.receive(GET)

    assert scene.wire.held
    assert len(scene.site.admits) == 1
    body.put(None)
    scene.take()
    assert len(scene.site.admits) == 2


def test_old_client_gets_a_body_that_ends_with_its_connection() -> None:
    scene, body = stream(b"GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")

    body.put(b"one", None)

    assert scene.take() == b"one"
    before = scene.wire.ended
    assert scene.take() == b""
    assert (before, scene.wire.ended) == ("", "answered")


def test_stream_ends_when_its_client_leaves() -> None:
    scene, body = stream()

    scene.receive(b"")

    assert scene.wire.ended
    scene.connection.closed("gone")
    body.put(b"late")
    assert (scene.take(), body.stops) == (b"", 1)


def test_head_is_answered_without_the_body() -> None:
    scene, body = Scene(), Pieces()
    scene.receive(GET.replace(b"GET", b"HEAD"))
    scene.site.admits[0](None)

    scene.site.replies[0](body.response)

    assert body.stops == 1
    assert scene.take().endswith(b"\r\n\r\n")
    assert scene.state is State.READING


def test_body_that_fails_is_cut() -> None:
    scene, body = stream()
    body.error = "a disk"

    body.ready()
    taken = scene.take()

    assert b"0\r\n\r\n" not in taken
    assert scene.wire.ended == "a body is not whole: a disk"
    assert body.stops == 1


def test_quiet_stream_has_no_deadline_and_a_slow_reader_has_one() -> None:
    scene, body = stream()
    scene.clock.actions.pop()[1]()  # asks whether the head has left
    assert scene.take() == b""
    assert scene.clock.running == []

    body.put(b"one")

    (deadline,) = scene.clock.running
    deadline()
    assert scene.wire.ended == "idle"
    assert [limit.name for limit in scene.site.hits] == ["seconds"]


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


def test_a_request_that_has_logged_in_has_the_time_of_a_known_client() -> None:
    scene = Scene(has_logins=True)
    scene.receive(GET)
    scene.site.requests[0].user = "a user"

    scene.site.admits[0](None)

    assert [when for when, _ in scene.clock.actions] == [5, 10]
    assert len(scene.clock.running) == 1


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
