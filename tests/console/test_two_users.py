"""Two users at one console at the same time, and sessions that end while a stream is open."""

from collections.abc import Callable, Iterator
from http.client import HTTPException

import pytest

from raftka.console.call import Call, Download, Event
from raftka.console.routes import route
from raftka.console.server import ConsoleServer
from raftka.json_values import Json
from raftka.testing import Cluster
from tests.console.scene import own_routes
from tests.kit.console import Api, Events, console_of
from tests.kit.secured_registry import secured

__all__ = ["secured"]


def endless_events(call: Call) -> Iterator[Event]:
    while not call.is_gone():
        yield "tick", {}


def endless_file(_: Call) -> Json:
    def chunks() -> Iterator[bytes]:
        while True:
            yield bytes(1000)

    return Download("x", "text/plain", chunks())


@pytest.fixture
def console(secured: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[ConsoleServer]:
    with own_routes(monkeypatch):
        route("POST", "/api/test/events", "", stream=True)(endless_events)
        route("GET", "/api/test/file", "")(endless_file)
        with console_of(secured, login="PLAIN") as console:
            yield console


def log_in(console: ConsoleServer, user: str) -> Api:
    api = Api(console.url)
    api.post("/api/login", user=user, password=f"{user}-secret")
    return api


def names(answer: Json, rows: str, name: str = "name") -> set[str]:
    return {row[name] for row in answer[rows]}


def until(events: Events, condition: Callable[[Json], bool]) -> Json:
    for event in events:
        assert event.name == "", event
        if condition(event.json):
            return event.json
    raise AssertionError("the stream has ended")


def test_neither_of_two_users_sees_what_the_other_may(
    secured: Cluster, console: ConsoleServer
) -> None:
    topic = secured.create_topic("for-admins")
    reader, admin, nobody = (log_in(console, user) for user in ("reader", "admin", "nobody"))
    query: dict[str, object] = {"every": 1, "internal": "true"}
    with (
        admin.stream("/api/topics", query) as of_admin,
        reader.stream("/api/topics", query) as of_reader,
        nobody.stream("/api/topics", query) as of_nobody,
    ):
        until(of_admin, lambda found: {"orders", topic} <= names(found, "topics"))
        assert names(until(of_reader, lambda found: True), "topics") == {"orders"}
        assert names(until(of_nobody, lambda found: True), "topics") == set()
        # a change by one is not shown to the other
        later = secured.create_topic("for-admins-too")
        until(of_admin, lambda found: later in names(found, "topics"))
        assert names(reader.get("/api/topics"), "topics") == {"orders"}
    for path in (f"/api/topics/{topic}", f"/api/topics/{topic}/records"):
        assert admin.ask("GET", path).status == 200
        assert reader.ask("GET", path).status in (403, 404)
        assert admin.ask("GET", path).status == 200


def test_stream_of_events_ends_with_its_session(console: ConsoleServer) -> None:
    first, second = log_in(console, "reader"), log_in(console, "reader")
    with (
        first.stream("/api/test/events", method="POST") as ending,
        second.stream("/api/test/events", method="POST") as going_on,
    ):
        assert ending.next() is not None
        first.post("/api/logout")
        for event in ending:
            if event.name == "failure":
                break
        assert event.json["status"] == 401
        assert ending.next() is None
        again = going_on.next()
        assert again is not None
        assert again.name == "tick"


def test_file_is_cut_when_its_session_ends(console: ConsoleServer) -> None:
    api = log_in(console, "reader")
    connection, response = api.open("GET", "/api/test/file")
    try:
        assert response.read(1000) == bytes(1000)
        api.post("/api/logout")
        with pytest.raises(HTTPException):
            response.read()
    finally:
        connection.close()


def test_session_that_expires_ends_its_streams(console: ConsoleServer) -> None:
    api = log_in(console, "reader")
    with api.stream("/api/topics", {"every": 1}) as events:
        assert events.next() is not None
        (session,) = console._sessions._by_token.values()
        session.end()  # as `end_idle` does
        for event in events:
            if event.name == "failure":
                break
        assert event.json["status"] == 401
        assert events.next() is None
