"""SQL on streams: statements that the console's users give, and the queries that go on."""

from collections.abc import Iterator
from typing import Literal

from raftka.console.call import ApiError, Call, Event
from raftka.console.control.administrators import check_administrator
from raftka.console.limits import SQL_ROWS
from raftka.console.parameters import Field, refusal
from raftka.console.routes import route
from raftka.console.sql.runs import refusal_of, run_all
from raftka.console.sql.target import SqlTarget
from raftka.json_values import Json, JsonObject
from raftka.sql.answers import Words
from raftka.sql.client import Connection, SqlError
from raftka.sql.language import StatementError, parse
from raftka.sql.language.statements import CreateFunction
from raftka.sql.prompt.texts import is_empty, statements_of
from raftka.sql.prompt.words import completions

READY = "ready"
QUERIES = "SHOW QUERIES"  # of each page, again and again: not a statement of a user
NOTHING: JsonObject = {"state": "none", "seconds": None, "message": "", "failure": None}


@route(
    "GET",
    "/api/sql",
    "The SQL server, the queries that go on, and the statements that run",
    records=True,
    answer=(
        "state: none (the first statement starts a server), starting (since seconds), ready, "
        "failed (message), ended; queries and statements, empty unless it is ready; failure: why "
        "queries are not there, or null"
    ),
)
def sql(call: Call) -> Json:
    connection = _target(call).running()
    found = {**NOTHING, "queries": [], "statements": []}
    if connection is None:
        return found
    try:
        health = connection.health()
    except SqlError:  # it has ended, and was not the one to say so
        return found
    found |= {"state": health["state"], "message": health["message"]}
    if health["state"] == "starting":
        found["seconds"] = round(health["seconds"])
    if health["state"] == READY:
        try:
            found["queries"] = list(connection.execute(QUERIES))
            running = connection.statements()
            found["statements"] = [each for each in running if each["text"] != QUERIES]
        except SqlError as error:
            found["failure"] = str(error)
    return found


@route(
    "GET",
    "/api/sql/words",
    "Names to complete",
    records=True,
    answer="words: names, keywords and functions; without a server keywords alone",
)
def words(call: Call) -> Json:
    connection = _target(call).running()
    found = Words()
    try:
        if connection is not None and connection.health()["state"] == READY:
            found = connection.words()
    except SqlError:
        """The server ends, or its brokers are away."""
    return {"words": list(completions(found))}


@route(
    "POST",
    "/api/sql/run",
    "Run statements, one after the other",
    body={"text": Field(str), "limit": Field(int, 500, least=1, most=SQL_ROWS.value)},
    writes=True,
    records=True,
    stream=True,
    answer=(
        "Events: statement (its text), waiting (the state of Spark), columns, rows (a list each; "
        "of EMIT CHANGES until the browser leaves), done (note, rows, seconds); the first one "
        "that fails ends it. limit: of the rows of an answer that ends"
    ),
)
def run(call: Call) -> Iterator[Event]:
    target = _target(call)
    found, rest = statements_of(call.body["text"])
    texts = [*(each.text for each in found), *([] if is_empty(rest) else [rest])]
    if not texts:
        raise refusal("there is no statement")
    if any(map(_makes_function, texts)):
        raise ApiError(
            403,
            "FUNCTION",
            "functions in Python run with the server's rights: CREATE FUNCTION at the prompt of "
            "`raftka sql`",
        )
    yield from run_all(target.connect, texts, call.body["limit"], call.is_gone)


def _makes_function(text: str) -> bool:
    try:
        return isinstance(parse(text), CreateFunction)
    except StatementError:
        return False  # the server says what is wrong


@route(
    "POST",
    "/api/sql/queries/{query}",
    "Pause, resume or terminate a query that goes on",
    body={"action": Field(Literal["PAUSE", "RESUME", "TERMINATE"])},
    writes=True,
    records=True,
    answer="note: a sentence about it",
)
def control(call: Call) -> Json:
    name = call.path["query"].replace("`", "``")
    try:
        rows = _running(_target(call)).execute(f"{call.body['action']} `{name}`")
        rows.take()
    except SqlError as error:
        raise refusal_of(error) from None
    return {"note": rows.note}


@route(
    "DELETE",
    "/api/sql/statements/{id}",
    "End a statement that runs",
    writes=True,
    records=True,
    answer="An empty object",
)
def end(call: Call) -> Json:
    try:
        _running(_target(call)).end(call.path["id"])
    except SqlError as error:
        raise refusal_of(error) from None
    return {}


def _running(target: SqlTarget) -> Connection:
    """Raises ApiError."""
    found = target.running()
    if found is None:
        raise ApiError(404, "NOT_FOUND", "no SQL server runs")
    return found


def _target(call: Call) -> SqlTarget:
    """Return the server, for a user who may use all of it. Raises ApiError."""
    settings = call.settings
    if settings.sql is None:
        raise ApiError(
            404,
            "NO_SQL",
            "this console has no SQL: `raftka console` on this machine's own address has, and "
            "--sql-url gives it to another one",
        )
    if settings.masked:
        raise ApiError(403, "MASKED", "this console masks fields, which SQL would show")
    check_administrator(call, "so SQL, which has the rights of its server, is not open here")
    return settings.sql
