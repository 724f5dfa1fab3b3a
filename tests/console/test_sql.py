"""The page's API for SQL, in front of an SQL server without Spark."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from raftka.console.limits import SQL_CELL_CHARACTERS, SQL_ROWS
from raftka.console.server import ConsoleServer
from raftka.console.settings import ConsoleSettings, warnings_of
from raftka.console.sql.runs import Run, _cell
from raftka.console.sql.target import SqlTarget, wanted_of
from raftka.json_values import Json
from raftka.sql.client import Connection
from raftka.sql.server.folder import Address
from raftka.sql.server.server import Door, SqlServer
from tests.kit.console import Api, Event
from tests.kit.sql_server import TOKEN, FakeSession, wait_for

BROKERS = [("127.0.0.1", 1)]


@pytest.fixture
def fake() -> FakeSession:
    return FakeSession()


@pytest.fixture
def server(fake: FakeSession) -> Iterator[SqlServer]:
    with SqlServer(lambda: fake, Door(TOKEN), report=lambda *_: None) as server:
        wait_for(lambda: server.engine.health()["state"] == "ready")
        yield server
        fake.hanging.set()


@pytest.fixture
def target(server: SqlServer) -> SqlTarget:
    return SqlTarget(address=Address(server.url, TOKEN, 0))


@contextmanager
def console_of(target: SqlTarget | None, **settings: Json) -> Iterator[Api]:
    chosen = {"bootstrap": BROKERS, "port": 0, "sql": target, **settings}
    reports: list[str] = []
    with ConsoleServer(
        ConsoleSettings(**chosen), report=lambda subject, why: reports.append(why)
    ) as console:
        yield Api(console.url)
    assert reports == []


@pytest.fixture
def api(target: SqlTarget) -> Iterator[Api]:
    with console_of(target) as api:
        yield api


def run(api: Api, text: str, **more: Json) -> list[Event]:
    with api.stream("/api/sql/run", method="POST", body={"text": text, **more}) as events:
        return [each for each in events if each.name != "waiting"]


def test_functions_in_python_are_made_at_the_prompt_alone(api: Api) -> None:
    code = "CREATE OR REPLACE FUNCTION f AS 'def f(): pass'"
    refused = api.ask("POST", "/api/sql/run", body={"text": f"rows 1; {code}"})
    assert (refused.status, refused.json["error"]) == (403, "FUNCTION")


def test_statements_run_one_after_the_other_until_one_fails(api: Api) -> None:
    found = run(api, "rows 2; -- none\nselect; bad; rows 1")

    assert [each.name for each in found] == [
        *("statement", "columns", "rows", "done"),
        *("statement", "columns", "rows", "done"),
        *("statement", "failure"),
    ]
    assert [each.json["text"] for each in found if each.name == "statement"] == [
        *("rows 2", "-- none\nselect", "bad")
    ]
    assert found[1].json == {
        "columns": [{"name": "n", "type": "int"}, {"name": "text", "type": "string"}],
        "is_live": False,
    }
    assert found[2].json == [[0, "row 0"], [1, "row 1"]]
    assert (found[3].json["rows"], found[3].json["note"]) == (2, "")
    assert found[-1].json["message"] == "there is no such thing\nbad\n^"
    assert (found[-1].json["status"], found[-1].json["error"]) == (400, "STATEMENT_REFUSED")


def test_an_answer_has_as_many_rows_as_the_page_asks_for(api: Api) -> None:
    found = run(api, "rows 20", limit=3)

    assert sum(len(each.json) for each in found if each.name == "rows") == 3
    assert found[-1].json["note"] == "there are more than 3 rows"
    many = api.ask("POST", "/api/sql/run", body={"text": "x", "limit": SQL_ROWS.value + 1})
    assert many.status == 400
    assert api.ask("POST", "/api/sql/run", body={"text": " -- "}).json["message"] == (
        "there is no statement"
    )


def test_rows_come_as_they_are_made_and_end_with_the_page(
    api: Api, fake: FakeSession, server: SqlServer
) -> None:
    with api.stream("/api/sql/run", method="POST", body={"text": "live"}) as events:
        assert [events.next(), events.next()] == [
            Event("statement", {"text": "live"}),
            Event("columns", {"columns": [{"name": "n", "type": "int"}], "is_live": True}),
        ]
        for number in (1, 2):
            fake.feed.put(number)
            assert events.next() == Event("rows", [[number]])
        (listed,) = api.get("/api/sql")["statements"]
        assert (listed["text"], listed["is_live"]) == ("live", True)

    wait_for(lambda: fake.closed == ["live"])


def test_a_page_that_is_left_ends_a_statement_without_an_answer(
    api: Api, server: SqlServer
) -> None:
    with api.stream("/api/sql/run", method="POST", body={"text": "hang"}) as events:
        assert events.next() == Event("statement", {"text": "hang"})
        waiting = events.next()
        assert waiting is not None
        assert (waiting.name, waiting.json["state"]) == ("waiting", "ready")
        assert waiting.json["statement_seconds"] > 0

    wait_for(lambda: Connection(Address(server.url, TOKEN, 0)).statements() == [])


def test_a_statement_that_runs_is_ended(api: Api, fake: FakeSession) -> None:
    with api.stream("/api/sql/run", method="POST", body={"text": "ticks"}) as events:
        wait_for(lambda: api.get("/api/sql")["statements"])
        (listed,) = api.get("/api/sql")["statements"]
        assert api.ask("DELETE", f"/api/sql/statements/{listed['id']}").json == {}
        assert [each.name for each in events][-1] == "done"
    gone = api.ask("DELETE", "/api/sql/statements/99")
    assert (gone.status, gone.json["error"]) == (404, "NOT_FOUND")


def test_queries_are_paused_resumed_and_terminated(api: Api, fake: FakeSession) -> None:
    fake.queries = {"csas_fast": "running"}
    (shown,) = api.get("/api/sql")["queries"]
    assert (shown["name"], shown["state"], shown["rows"]) == ("csas_fast", "running", 7)
    for action, states in (("PAUSE", ["paused"]), ("RESUME", ["running"]), ("TERMINATE", [])):
        told = api.post("/api/sql/queries/csas_fast", action=action)
        assert told == {"note": f"csas_fast: {action.lower()}"}
        assert [each["state"] for each in api.get("/api/sql")["queries"]] == states
    refused = api.ask("POST", "/api/sql/queries/csas_fast", body={"action": "PAUSE"})
    assert (refused.status, refused.json["message"]) == (400, "there is no query csas_fast")


def test_words_are_completed_without_a_server_too(api: Api) -> None:
    words = api.get("/api/sql/words")["words"]
    assert {"`trucks.gps-1`", "late", "EMIT CHANGES", "upper"} < set(words)
    gone = SqlTarget(address=Address("http://127.0.0.1:1", TOKEN, 0))
    with console_of(gone) as alone:
        found = alone.get("/api/sql/words")["words"]
        assert "SELECT" in found
        assert "late" not in found
        assert alone.get("/api/sql")["state"] == "none"
        (_, failure) = run(alone, "rows 1")
        assert (failure.json["status"], failure.json["error"]) == (503, "NO_SERVER")


def test_a_token_that_is_not_the_servers_is_no_login_of_the_console(server: SqlServer) -> None:
    with console_of(SqlTarget(address=Address(server.url, "another", 0))) as api:
        (_, failure) = run(api, "rows 1")
        assert (failure.json["status"], failure.json["error"]) == (502, "UNAUTHORIZED")


def test_consoles_that_may_not_show_all_refuse_sql(target: SqlTarget) -> None:
    body = {"text": "rows 1"}
    for settings, error in (
        ({"read_only": True}, "READ_ONLY"),
        ({"show_records": False}, "NO_RECORDS"),
        ({"masked": ["card"]}, "MASKED"),
        ({"sql": None}, "NO_SQL"),
    ):
        with console_of(target, **settings) as api:
            assert api.ask("POST", "/api/sql/run", body=body).json["error"] == error
            if error == "READ_ONLY":
                assert api.get("/api/sql")["state"] == "ready"
                for method, path, sent in (
                    ("POST", "/api/sql/queries/x", {"action": "PAUSE"}),
                    ("DELETE", "/api/sql/statements/1", None),
                ):
                    assert api.ask(method, path, body=sent).json["error"] == error
            else:
                assert api.ask("GET", "/api/sql").json["error"] == error
            assert api.get("/api/me")["has_sql"] is (error == "READ_ONLY")


def test_the_page_uses_the_server_of_the_prompt() -> None:
    plain = wanted_of([("127.0.0.1", 9092)], {"security.protocol": "PLAINTEXT"})
    assert (plain.bootstrap, plain.properties) == ("localhost:9092", {})
    secured = wanted_of([("b", 1)], {"security.protocol": "SSL", "bootstrap.servers": "b:1"})
    assert (secured.bootstrap, secured.properties) == ("b:1", {"security.protocol": "SSL"})


def test_sql_for_other_machines_is_warned_of(target: SqlTarget) -> None:
    open_to_all = ConsoleSettings(BROKERS, host="0.0.0.0", sql=target)
    assert "SQL is for all" in warnings_of(open_to_all)[-1]


def test_values_are_those_of_a_page() -> None:
    assert [_cell(each) for each in (None, True, 1.5, 7, 2**60, [1, {"a": "é"}])] == [
        *(None, True, 1.5, 7, str(2**60), '[1, {"a": "é"}]')
    ]
    assert _cell("x" * (SQL_CELL_CHARACTERS.value + 1)).endswith(" ... of 10,001 characters")


def test_a_run_that_is_closed_before_it_is_sent_ends(target: SqlTarget, fake: FakeSession) -> None:
    gate = threading.Event()

    def connect() -> Connection:
        gate.wait()
        return target.connect()

    run = Run(connect, "ticks", 1)
    run.close()
    gate.set()

    assert run._over.wait(60)
    assert list(run.events(lambda: True)) == []
