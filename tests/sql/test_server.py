"""The SQL server's door: statements, rows, refusals, limits."""

import json
import threading
from http.client import HTTPConnection
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest
from openapi_spec_validator import validate

from raftka.limits import Limit
from raftka.sql.client import Connection, SqlError
from raftka.sql.limits import ALL
from raftka.sql.server.engine import NEXT, Engine, EngineFailed, State
from raftka.sql.server.server import Door, SqlServer
from raftka.sql.server.site import ROUTES
from tests.kit.sql_server import TOKEN, FakeSession, wait_for
from tests.kit.transitions import changes_of, recorded


class Told(NamedTuple):
    status: int
    value: Any


def ask(
    server: SqlServer,
    method: str,
    path: str,
    body: object = None,
    token: str | None = TOKEN,
) -> Told:
    http = HTTPConnection("127.0.0.1", urlsplit(server.url).port or 0, timeout=60)
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    try:
        text = None if body is None else body if isinstance(body, str) else json.dumps(body)
        http.request(method, path, text, headers)
        response = http.getresponse()
        return Told(response.status, json.loads(response.read()))
    finally:
        http.close()


def test_a_statement_is_answered_in_json(server: SqlServer) -> None:
    told = ask(server, "POST", "/statements", {"text": "rows 2", "limit": 1})

    assert told == (
        200,
        {
            "id": "1",
            "columns": [{"name": "n", "type": "int"}, {"name": "text", "type": "string"}],
            "is_live": False,
            "rows": [[0, "row 0"]],
            "note": "there are more than 1 rows",
        },
    )


def test_a_hundred_thousand_rows_do_not_keep_the_loop(server: SqlServer) -> None:
    begun, done = threading.Event(), threading.Event()
    found: list[Told] = []

    def read() -> None:
        begun.set()
        found.append(ask(server, "POST", "/statements", {"text": "rows 100000"}))
        done.set()

    thread = threading.Thread(target=read)
    thread.start()
    begun.wait()
    answered = 0
    while not done.is_set():
        assert ask(server, "GET", "/health").status == 200
        answered += 1
    thread.join()

    assert len(found[0].value["rows"]) == 100_000
    assert answered >= 3  # meanwhile


@pytest.mark.parametrize("token", [None, "", "another", TOKEN[:-1], TOKEN + "x"])
def test_without_the_token_nothing_is_done(server: SqlServer, token: str | None) -> None:
    for route in ROUTES:
        path = route.path.pattern.replace("(?P<id>[^/]+)", "1")
        told = ask(server, route.method, path, token=token)
        if path in ("/health", "/openapi.json"):
            assert told.status == 200
        else:
            assert told.status == 401, path
            assert told.value["error"] == "UNAUTHORIZED"


def test_rows_of_a_live_answer_come_by_its_id(
    server: SqlServer, connection: Connection, fake: FakeSession
) -> None:
    told = ask(server, "POST", "/statements", {"text": "live"})
    assert told.value["is_live"]
    assert [each["text"] for each in connection.statements()] == ["live"]
    http = HTTPConnection("127.0.0.1", urlsplit(server.url).port or 0, timeout=60)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    http.request("GET", f"/statements/{told.value['id']}/rows", headers=headers)
    response = http.getresponse()
    fake.feed.put(7)
    lines = [response.readline() for _ in range(6)]

    assert lines[3:5] == [b"event: rows\n", b"data: [[7]]\n"]
    assert ask(server, "GET", f"/statements/{told.value['id']}/rows").status == 409
    assert ask(server, "DELETE", f"/statements/{told.value['id']}").status == 200
    assert b"event: end\n" in response.read()
    assert fake.closed == ["live"]
    assert ask(server, "DELETE", f"/statements/{told.value['id']}").status == 404
    http.close()


def test_a_client_that_leaves_ends_its_statement(connection: Connection, fake: FakeSession) -> None:
    rows = connection.execute("ticks")
    assert next(rows) == {"n": 0}

    rows.close()

    wait_for(lambda: fake.closed == ["ticks"])
    wait_for(lambda: connection.statements() == [])
    assert list(rows) == []


def test_a_client_that_leaves_before_its_answer_ends_it(
    server: SqlServer, fake: FakeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("raftka.sql.server.work.LOOK_S", 0.01)
    http = HTTPConnection("127.0.0.1", urlsplit(server.url).port or 0, timeout=60)
    http.request(
        "POST", "/statements", json.dumps({"text": "hang"}), {"Authorization": f"Bearer {TOKEN}"}
    )
    wait_for(lambda: ask(server, "GET", "/statements").value)
    http.close()
    wait_for(lambda: not ask(server, "GET", "/statements").value)

    fake.hanging.set()

    wait_for(lambda: fake.closed == ["hang"])


def test_a_live_answer_that_no_client_reads_ends(
    server: SqlServer, fake: FakeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("raftka.sql.server.work.UNREAD_SECONDS", Limit("sql_unread_seconds", 0, ""))
    ask(server, "POST", "/statements", {"text": "live"})

    wait_for(lambda: fake.closed == ["live"])
    assert server.hits["sql_unread_seconds"] == 1


def test_too_many_statements_are_refused(
    server: SqlServer, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("raftka.sql.server.statements.STATEMENTS", Limit("sql_statements", 1, ""))
    with connection.execute("ticks"), pytest.raises(SqlError) as caught:
        connection.execute("rows 1")

    assert caught.value.code == "TOO_BUSY"
    assert connection.health()["limits"]["sql_statements"]["hits"] == 1


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("{", "the body is no JSON in UTF-8"),
        ("[" * 100_000, "the body is no JSON in UTF-8"),
        ([], "the body is a JSON object with `text`"),
        ({"txt": ""}, "there is no field txt; there are text and limit"),
        ({"text": " "}, "the field text is the text of one statement"),
        ({"text": "rows 1", "limit": 0}, "the field limit is a whole number, 1 to 2147483647"),
        ({"text": "rows 1", "limit": True}, "the field limit is a whole number, 1 to 2147483647"),
    ],
)
def test_a_body_that_is_none_is_refused(server: SqlServer, body: object, told: str) -> None:
    assert ask(server, "POST", "/statements", body) == (
        400,
        {"error": "BAD_REQUEST", "message": told},
    )


def test_a_body_beyond_its_limit_is_refused_and_counted(
    server: SqlServer, connection: Connection
) -> None:
    assert ask(server, "POST", "/statements", {"text": "x" * (1 << 20)}).status == 413
    assert connection.health()["limits"]["sql_request_bytes"]["hits"] == 1
    assert set(connection.health()["limits"]) == {limit.name for limit in ALL}


def test_limits_of_the_session_are_counted_too(connection: Connection, fake: FakeSession) -> None:
    list(connection.execute("rows 1"))
    fake.limit_hits["sql_tables"] = 3
    assert connection.health()["limits"]["sql_tables"] == {"value": 20, "hits": 3}


def test_paths_and_methods_that_are_none_are_refused(server: SqlServer) -> None:
    assert ask(server, "GET", "/nothing").status == 404
    told = ask(server, "PUT", "/statements")
    assert told == (
        405,
        {"error": "METHOD_NOT_ALLOWED", "message": "this path takes GET, HEAD, OPTIONS, POST"},
    )


def test_errors_of_statements_are_sentences(connection: Connection, reports: list[str]) -> None:
    with pytest.raises(SqlError, match="there is no such thing\nbad\n\\^") as caught:
        connection.execute("bad")
    assert caught.value.code == "STATEMENT_REFUSED"
    rows = connection.execute("broken")
    assert [next(rows), next(rows)] == [{"n": 0}, {"n": 1}]
    with pytest.raises(SqlError, match="the third row is gone"):
        next(rows)
    assert reports == []
    with pytest.raises(SqlError, match="see its log"):
        connection.execute("bug")
    assert reports == ["bug"]


def test_the_description_is_openapi_and_has_every_route(server: SqlServer) -> None:
    found = ask(server, "GET", "/openapi.json", token=None).value
    validate(found)

    described = {
        (method.upper(), path) for path, methods in found["paths"].items() for method in methods
    }
    routes = {(each.method, each.path.pattern.replace("(?P<id>[^/]+)", "{id}")) for each in ROUTES}
    assert described == routes


def test_a_session_that_does_not_open_is_tried_again() -> None:
    tries = []

    def open_session() -> FakeSession:
        tries.append(1)
        if len(tries) == 1:
            raise OSError("no Java")
        return FakeSession()

    engine = Engine(open_session)
    with pytest.raises(EngineFailed, match="no Java"):
        engine.session()
    assert engine.health()["state"] == "failed"
    assert isinstance(engine.session(), FakeSession)
    engine.close()
    with pytest.raises(EngineFailed, match="ends"):
        engine.session()


def test_a_session_is_warmed_up_and_told_whether_a_statement_waits(fake: FakeSession) -> None:
    engine = Engine(lambda: fake)
    engine.start()
    wait_for(lambda: fake.warmed == [False])
    asked = Engine(lambda: fake)
    asked.session()
    wait_for(lambda: fake.warmed == [False, True])


def test_a_server_that_stops_closes_its_session(fake: FakeSession) -> None:
    with SqlServer(lambda: fake, Door(TOKEN)) as server:
        wait_for(lambda: server.engine.health()["state"] == State.READY.value)

    assert fake.closed == ["session"]


def test_a_statement_keeps_the_server_from_being_idle(
    server: SqlServer, connection: Connection
) -> None:
    with connection.execute("ticks") as rows:
        next(rows)
        assert server.idle_s == 0.0
    wait_for(lambda: server.idle_s > 0.0)
    idle = server.idle_s
    ask(server, "GET", "/health", token=None)

    assert server.idle_s > idle  # health is no use of it


def test_a_query_that_goes_on_keeps_the_server_from_being_idle(
    server: SqlServer, connection: Connection, fake: FakeSession
) -> None:
    connection.words()  # Spark is up
    wait_for(lambda: server.idle_s > 0.0)

    fake.has_queries = True

    assert server.idle_s == 0.0


def test_the_engine_makes_every_change_of_its_table() -> None:
    gate = threading.Event()

    def open_session() -> FakeSession:
        gate.wait()
        raise OSError("no Java")

    with recorded(Engine, "_state") as found:
        Engine(FakeSession).close()
        ready = Engine(FakeSession)
        ready.session()
        ready.close()
        starting = Engine(open_session)
        starting.start()
        starting.close()
        gate.set()
        for closes in (False, True):
            failed = Engine(open_session)
            with pytest.raises(EngineFailed):
                failed.session()
            failed.close() if closes else failed.start()

    assert found == changes_of(NEXT)
