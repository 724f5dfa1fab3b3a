"""Calls of the API: declarations, errors, pages that are kept live, streams, downloads. The routes
here are the test's own; the cluster is not asked.
"""

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Literal

import pytest
import trio

from raftka.client.blocking.client import Unreachable
from raftka.client.blocking.connection import Broken, LoginRefused, Unsupported
from raftka.console import routes
from raftka.console.call import ApiError, Call, Download, Event
from raftka.console.limits import STREAM_BYTES, STREAMS
from raftka.console.parameters import (
    REQUIRED,
    Choice,
    Field,
    Flag,
    Number,
    Numbers,
    Parameter,
    Text,
    Texts,
)
from raftka.console.server import ConsoleServer
from raftka.console.settings import ConsoleSettings
from raftka.http.streams import Handoff, pump
from raftka.json_values import Json
from raftka.limits import Limit
from raftka.testing.waits import wait_until
from raftka.wire.errors import Code, KafkaError
from tests.console.scene import own_routes
from tests.kit.console import Api, Events


class Scene:
    """Routes of a test, and a console that has them beside its own."""

    def __init__(self) -> None:
        self.value: Json = 0
        self.gone = threading.Event()
        self.go_on = threading.Event()
        self.failures: list[str] = []
        self.sent = 0

    def routes(self) -> None:
        query: dict[str, Parameter] = {
            "text": Text("x"),
            "number": Number(7, least=1, most=9),
            "choice": Choice("a", ("a", "b")),
            "flag": Flag(),
            "texts": Texts(2),
            "numbers": Numbers(),
            "needed": Text(REQUIRED),
        }
        body = {
            "text": Field(str),
            "numbers": Field(list[int] | None, None, least=0, most=9),
            "names": Field(dict[str, str], {}),
            "kind": Field(Literal["a", "b"], "a"),
        }
        routes.route("GET", "/api/test/query", "", query=query)(lambda call: call.query)
        routes.route("GET", "/api/test/of/{name}", "")(lambda call: call.path)
        routes.route("GET", "/api/test/of/me", "")(lambda call: "me")
        routes.route("POST", "/api/test/body", "", body=body)(lambda call: call.body)
        routes.route("GET", "/api/test/value", "")(lambda call: self._value())
        routes.route("GET", "/api/test/wait", "")(self._wait)
        routes.route("GET", "/api/test/counted", "", stream=True, query={"to": Number(3)})(
            self._counted
        )
        routes.route("GET", "/api/test/quiet", "", stream=True)(self._quiet)
        routes.route("GET", "/api/test/file", "")(self._file)

    def _value(self) -> Json:
        if isinstance(self.value, Exception):
            raise self.value
        return self.value

    def _wait(self, call: Call) -> Json:
        self.go_on.set()
        while not call.is_gone():
            self.gone.wait(0.01)
        self.gone.set()

    def _counted(self, call: Call) -> Iterator[Event]:
        try:
            if call.query["to"] == 0:
                raise ApiError(404, "NOTHING", "nothing to count")
            for self.sent in range(call.query["to"]):
                yield "count", "x" * 1000 if call.query["to"] > 1000 else self.sent
            if call.query["to"] == 4:
                raise ApiError(409, "LATE", "too late")
            yield "end", {}
        finally:
            self.gone.set()

    def _quiet(self, call: Call) -> Iterator[Event]:
        yield "begun", {}
        self.go_on.wait(60)
        yield "end", {}

    def _file(self, call: Call) -> Json:
        def chunks() -> Iterator[bytes]:
            yield b"one\n"
            if self.value == "fails":
                raise ValueError("a planted failure")
            yield b"two\n"

        return Download('räksmörgås"\r\nX: y.txt', "text/plain", chunks())


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    with own_routes(monkeypatch):
        scene = Scene()
        scene.routes()
        yield scene


@pytest.fixture
def console(scene: Scene) -> Iterator[ConsoleServer]:
    def report(subject: str, reason: str) -> None:
        scene.failures.append(f"{subject}: {reason}")

    settings = ConsoleSettings([("127.0.0.1", 1)], port=0)
    with ConsoleServer(settings, report=report) as console:
        yield console


@pytest.fixture
def api(console: ConsoleServer) -> Api:
    return Api(console.url)


def test_query_has_the_types_and_defaults_of_its_declaration(api: Api) -> None:
    assert api.get("/api/test/query", needed="") == {
        "text": "x",
        "number": 7,
        "choice": "a",
        "flag": False,
        "texts": [],
        "numbers": [],
        "needed": "",
    }
    given = {
        "text": "ä&=",
        "number": 9,
        "choice": "b",
        "flag": "true",
        "texts": ["a", "b"],
        "numbers": [3, 4],
        "needed": "n",
    }
    assert api.get("/api/test/query", **given) == {**given, "flag": True}


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("", "the parameter needed is missing"),
        ("needed=&other=1", "there is no parameter 'other' here"),
        ("needed=&number=0", "number is 1 to 9, not 0"),
        ("needed=&number=1e0", "number is a whole number, not '1e0'"),
        ("needed=&number=%D9%A1", "number is a whole number"),
        ("needed=&number=1&number=2", "number is given 2 times"),
        ("needed=&choice=c", "choice is a or b, not 'c'"),
        ("needed=&flag=1", "flag is true or false"),
        ("needed=&texts=1&texts=2&texts=3", "texts is given 3 times, 2 are allowed"),
        ("needed=%FF", "the query is not"),
        ("needed", "the query is not"),
        (f"needed={'x' * 4097}", "needed has 4,097 characters, 4,096 are allowed"),
    ],
)
def test_query_that_is_not_as_declared_is_refused_by_name(
    api: Api, query: str, message: str
) -> None:
    answer = api.ask("GET", f"/api/test/query?{query}")

    assert (answer.status, answer.json["error"]) == (400, "BAD_REQUEST")
    assert message in answer.json["message"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "the field text is missing"),
        ({"text": 1}, "the field text is a text"),
        ({"text": "", "other": 1}, "there is no field 'other' here"),
        ({"text": "", "numbers": [1, "2"]}, "numbers is a list, each item a whole number or null"),
        ({"text": "", "numbers": [True]}, "numbers is"),
        ({"text": "", "names": {"a": 1}}, "names is an object, each value a text"),
        ({"text": "", "kind": "c"}, "kind is a or b"),
        ({"text": "", "numbers": [1, 10]}, "numbers of the field numbers are 0 to 9"),
        ({"text": "", "numbers": [2**70]}, "numbers of the field numbers are 0 to 9"),
        ([], "the body is a JSON object"),
        (b"{", "the body is no JSON"),
        (b"[" * 100_000, "the body is no JSON"),
        (b'{"text": "\xff"}', "the body is no JSON"),
    ],
    ids=str,
)
def test_body_that_is_not_as_declared_is_refused_by_name(
    api: Api, body: Json, message: str
) -> None:
    answer = api.ask("POST", "/api/test/body", body=body, headers=JSON)

    assert (answer.status, answer.json["error"]) == (400, "BAD_REQUEST")
    assert message in answer.json["message"]


JSON = {"Content-Type": "application/json"}


def test_body_as_declared(api: Api) -> None:
    assert api.post("/api/test/body", text="a", numbers=[1]) == {
        "text": "a",
        "numbers": [1],
        "names": {},
        "kind": "a",
    }
    assert api.ask("POST", "/api/test/body", body=b"{}").status == 415
    assert api.ask("GET", "/api/test/value", body={"a": 1}).status == 400


def test_names_of_a_path_are_decoded_and_its_own_words_come_first(api: Api) -> None:
    assert api.get("/api/test/of/a%2Fb%20%C3%A4") == {"name": "a/b ä"}
    assert api.get("/api/test/of/me") == "me"
    assert api.ask("GET", "/api/test/of/%FF").status == 400
    assert api.ask("GET", "/api/test/of/").status == 400
    assert api.ask("GET", "/api/test/of/a/b").status == 404


def test_other_methods_are_refused_with_those_that_there_are(api: Api) -> None:
    answer = api.ask("DELETE", "/api/test/value")
    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD, OPTIONS")
    answer = api.ask("OPTIONS", "/api/test/body")
    assert (answer.status, answer.headers["allow"]) == (200, "POST, OPTIONS")
    answer = api.ask("HEAD", "/api/test/value")
    assert (answer.status, answer.body, answer.headers["content-length"]) == (200, b"", "1")


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (ApiError(418, "TEA", "a pot"), 418, "TEA"),
        (KafkaError(Code.TOPIC_AUTHORIZATION_FAILED), 403, "TOPIC_AUTHORIZATION_FAILED"),
        (KafkaError(Code.GROUP_ID_NOT_FOUND, "no g"), 404, "GROUP_ID_NOT_FOUND"),
        (KafkaError(Code.NON_EMPTY_GROUP), 409, "NON_EMPTY_GROUP"),
        (KafkaError(Code.INVALID_CONFIG), 400, "INVALID_CONFIG"),
        (KafkaError(Code.NOT_COORDINATOR), 503, "NOT_COORDINATOR"),
        (KafkaError(Code.CORRUPT_MESSAGE), 502, "CORRUPT_MESSAGE"),
        (KafkaError(Code.UNKNOWN_SERVER_ERROR), 502, "UNKNOWN_SERVER_ERROR"),
        (KafkaError(Code.UNSUPPORTED_VERSION), 501, "UNSUPPORTED_VERSION"),
        (Unsupported("too old"), 501, "UNSUPPORTED"),
        (Unreachable("nobody"), 503, "UNREACHABLE"),
        (Broken("ended"), 503, "UNREACHABLE"),
        (TimeoutError("late"), 503, "UNREACHABLE"),
        (LoginRefused("a wrong password"), 401, "UNAUTHORIZED"),
        (Unreachable("of topic authentication-events"), 503, "UNREACHABLE"),
    ],
    ids=str,
)
def test_errors_of_brokers_have_a_status_and_a_code(
    api: Api, scene: Scene, error: Exception, status: int, code: str
) -> None:
    scene.value = error

    answer = api.ask("GET", "/api/test/value")

    assert (answer.status, answer.json["error"]) == (status, code)
    assert answer.json["message"]
    assert scene.failures == []


def test_bug_ends_its_request_alone_and_shows_nothing_of_the_code(api: Api, scene: Scene) -> None:
    scene.value = ZeroDivisionError("secret")

    answer = api.ask("GET", "/api/test/value")

    assert (answer.status, answer.json["error"]) == (500, "INTERNAL")
    assert b"secret" not in answer.body
    assert len(scene.failures) == 1
    assert "ZeroDivisionError: secret" in scene.failures[0]
    scene.value = 1
    assert api.get("/api/test/value") == 1


def test_large_answers_are_compressed_for_browsers_that_take_it(api: Api, scene: Scene) -> None:
    scene.value = ["a"] * 1000
    packed = {"Accept-Encoding": "br, gzip;q=0.5"}

    answer = api.ask("GET", "/api/test/value", headers=packed)
    assert answer.headers["content-encoding"] == "gzip"
    assert len(answer.body) < 100
    for none in ({}, {"Accept-Encoding": "gzip;q=0"}):
        answer = api.ask("GET", "/api/test/value", headers=none)
        assert answer.json == scene.value
    scene.value = ["a"]
    assert "content-encoding" not in api.ask("GET", "/api/test/value", headers=packed).headers


def test_numbers_that_json_has_not_are_texts(api: Api, scene: Scene) -> None:
    scene.value = {"a": [float("nan"), float("-inf"), 1.5, "\ud800"]}

    assert api.get("/api/test/value") == {"a": ["nan", "-inf", 1.5, "\ud800"]}


def test_watched_page_is_sent_again_when_it_has_changed(api: Api, scene: Scene) -> None:
    with api.stream("/api/test/value", {"every": 1}) as events:
        assert events.next() == ("", 0)
        scene.value = KafkaError(Code.NOT_COORDINATOR)
        failure = events.next()
        assert failure is not None
        assert (failure.name, failure.json["status"], failure.json["error"]) == (
            "failure",
            503,
            "NOT_COORDINATOR",
        )
        scene.value = 2
        assert events.next() == ("", 2)


def test_watch_of_a_bad_query_has_a_status(api: Api) -> None:
    with pytest.raises(AssertionError, match="every is 1 to 60, not 61"):
        api.stream("/api/test/value", {"every": 61})
    with pytest.raises(AssertionError, match="the parameter needed is missing"):
        api.stream("/api/test/query")


def test_stream_sends_its_events_and_ends(api: Api) -> None:
    with api.stream("/api/test/counted") as events:
        assert list(events) == [("count", 0), ("count", 1), ("count", 2), ("end", {})]


def test_quiet_stream_has_heartbeats(
    api: Api, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("raftka.console.workers.BEAT_S", 0.01)
    with api.stream("/api/test/quiet") as events:
        assert events.next() == ("begun", {})
        assert events.line() == b":\n"
        scene.go_on.set()
        assert list(events) == [("end", {})]


def test_failed_stream_has_a_status_before_its_first_event_and_an_event_later(
    api: Api, scene: Scene
) -> None:
    answer = api.ask("GET", "/api/test/counted", {"to": 0})
    assert (answer.status, answer.json["error"]) == (404, "NOTHING")
    with api.stream("/api/test/counted", {"to": 4}) as events:
        *_, last = events
    assert (last.name, last.json["status"], last.json["error"]) == ("failure", 409, "LATE")
    assert scene.failures == []


def test_stream_ends_when_its_reader_leaves(api: Api, scene: Scene) -> None:
    with api.stream("/api/test/counted", {"to": 10**9}) as events:
        for _ in range(1000):
            assert events.next() is not None
        assert not scene.gone.is_set()

    assert scene.gone.wait(30), "the generator was not closed"


def waits_for_room(handoff: Handoff) -> bool:
    waiters: object = vars(handoff._changed)["_waiters"]  # of the standard library, and private
    return bool(waiters)


async def test_work_behind_a_stream_waits_for_its_reader() -> None:
    limit = Limit("stream", 10_000, "")
    handoff, held, over = Handoff(lambda: None, limit), list[int](), threading.Event()

    failures: list[Exception] = []

    def pieces() -> Iterator[bytes]:
        for _ in range(100):
            held.append(handoff._held_bytes)
            yield b"x" * 1000
        over.set()

    taken = 0
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.to_thread.run_sync, pump, pieces(), handoff, failures.append)
        while (piece := handoff.take()) is not None:
            taken += len(piece)
            with trio.fail_after(60):
                while not over.is_set() and not waits_for_room(handoff):  # noqa: ASYNC110
                    await trio.sleep(0.001)

    assert failures == []
    assert taken == 100_000
    assert max(held) < 11_000


def test_two_hundred_pages_are_live_at_once_and_leave_nothing_behind(
    api: Api, scene: Scene, console: ConsoleServer
) -> None:
    with ExitStack() as open_pages:
        pages: list[Events] = [
            open_pages.enter_context(api.stream("/api/test/value", {"every": 1}))
            for _ in range(200)
        ]
        assert {page.next() for page in pages} == {("", 0)}
        scene.value = 1
        assert {page.next() for page in pages} == {("", 1)}
        assert console.idle_s == 0
        assert api.get("/api/test/value") == 1

    site = console._site
    assert site is not None
    wait_until("pages are still kept live", lambda: site.workers.watches, (0).__eq__, str, 60)
    assert console.idle_s > 0


async def test_piece_for_a_client_that_has_left_is_not_waited_for() -> None:
    gone: list[bool] = []
    handoff = Handoff(lambda: gone.append(True), STREAM_BYTES)
    handoff.start(lambda: None)
    handoff.put_now(b"first")
    assert not handoff.taken.is_set()

    handoff.stop()
    handoff.put_now(b"second")

    assert handoff.taken.is_set()
    assert not handoff.put(b"third")
    assert gone == [True]


def test_pages_and_streams_over_their_limits_are_refused(
    api: Api, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("raftka.console.workers.WATCHES", Limit("console_watches", 1, ""))
    with api.stream("/api/test/value") as page:
        page.next()
        answer = api.ask("GET", "/api/test/value", headers={"Accept": "text/event-stream"})
    assert (answer.status, answer.json["error"]) == (503, "TOO_BUSY")

    with ExitStack() as streams:
        for _ in range(STREAMS.value):
            streams.enter_context(api.stream("/api/test/counted", {"to": 10**9}))
        answer = api.ask("GET", "/api/test/counted")
        assert (answer.status, answer.json["error"]) == (503, "TOO_BUSY")
    hits = {each["name"]: each["hits"] for each in api.get("/api/limits")["limits"]}
    assert {name: count for name, count in hits.items() if count} == {
        "console_watches": 1,
        "console_streams": 1,
    }


def test_call_knows_that_its_browser_has_left(api: Api, scene: Scene) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.kit.console.TIMEOUT_S", 0.5)
        with pytest.raises(TimeoutError):
            api.ask("GET", "/api/test/wait")

    assert scene.go_on.is_set()
    assert scene.gone.wait(30)


def test_download_has_its_name_and_its_bytes(api: Api) -> None:
    answer = api.ask("GET", "/api/test/file")

    assert (answer.status, answer.body) == (200, b"one\ntwo\n")
    assert answer.headers["content-type"] == "text/plain"
    assert "x" not in answer.headers
    assert answer.headers["content-disposition"].endswith(
        "filename*=UTF-8''r%C3%A4ksm%C3%B6rg%C3%A5s%22%0D%0AX%3A%20y.txt"
    )


def test_download_that_fails_is_not_taken_for_a_whole_one(api: Api, scene: Scene) -> None:
    scene.value = "fails"

    with pytest.raises(Exception, match=r"IncompleteRead|reset"):
        api.ask("GET", "/api/test/file")

    assert "a planted failure" in scene.failures[0]
