"""Users who log in at the SQL server with their passwords of the cluster."""

import json
from collections.abc import Iterator

import pytest

import raftka.sql
from raftka.limits import Limit
from raftka.pipeline.errors import PipelineError
from raftka.sql.client import Connection, SqlError
from raftka.sql.language import StatementError
from raftka.sql.login_file import LoginFile
from raftka.sql.server import logins
from raftka.sql.server.server import Door, SqlServer
from raftka.sql.session import Session
from raftka.testing import Cluster
from tests.kit.secured_registry import secured
from tests.kit.sql_server import TOKEN, FakeSession, wait_for
from tests.kit.sql_tables import no_spark

__all__ = ["secured"]


@pytest.fixture
def server(fake: FakeSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqlServer]:
    monkeypatch.setattr(logins, "REFUSED_S", 0.01)
    with SqlServer(lambda: fake, Door(TOKEN, login="PLAIN")) as server:
        yield server


def log_in(server: SqlServer, user: str, password: str | None = None) -> Connection:
    given = f"{user}-secret" if password is None else password
    return raftka.sql.connect(url=server.url, login=(user, given))


def test_a_user_has_a_session_of_the_own_login(server: SqlServer, fake: FakeSession) -> None:
    assert len(list(log_in(server, "ann").execute("rows 2"))) == 2
    list(log_in(server, "ann").execute("rows 1"))
    list(log_in(server, "bob").execute("rows 1"))

    assert sorted(fake.users) == ["ann", "bob"]
    wait_for(lambda: len(fake.closed + fake.users["ann"].closed + fake.users["bob"].closed) == 3)
    assert fake.closed == []
    assert fake.users["ann"].closed == ["rows 2", "rows 1"]
    list(raftka.sql.connect(url=server.url, token=TOKEN).execute("rows 1"))
    wait_for(lambda: fake.closed == ["rows 1"])


@pytest.mark.parametrize("password", ["", "bob-secret", "ann-secre", "ann-secrett"])
def test_a_wrong_password_does_nothing(server: SqlServer, fake: FakeSession, password: str) -> None:
    list(log_in(server, "ann").execute("rows 1"))
    before = fake.users["ann"]

    with pytest.raises(SqlError, match="log in with a user and a password") as caught:
        list(log_in(server, "ann", password).execute("rows 1"))

    assert caught.value.code == "UNAUTHORIZED"
    assert fake.users["ann"] is before
    assert before.closed == ["rows 1"]


def test_a_user_does_not_see_or_end_statements_of_others(server: SqlServer) -> None:
    ann, bob = log_in(server, "ann"), log_in(server, "bob")
    with ann.execute("ticks") as rows:
        next(rows)
        assert bob.statements() == []
        with pytest.raises(SqlError, match="no statement 1 runs"):
            bob.end(rows.id)
        assert [each["text"] for each in ann.statements()] == ["ticks"]
        owner = raftka.sql.connect(url=server.url, token=TOKEN)
        assert [each["text"] for each in owner.statements()] == ["ticks"]
        owner.end(rows.id)
        wait_for(lambda: ann.statements() == [])
        wait_for(lambda: owner.statements() == [])


def test_the_user_seen_last_longest_ago_makes_room(
    server: SqlServer, fake: FakeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logins, "USERS", Limit("sql_users", 1, ""))
    list(log_in(server, "ann").execute("rows 1"))
    list(log_in(server, "bob").execute("rows 1"))

    assert "session" in fake.users["ann"].closed
    assert "session" not in fake.users["bob"].closed
    assert server.hits["sql_users"] == 1


def test_without_logins_only_the_token_opens_the_door(fake: FakeSession) -> None:
    with (
        SqlServer(lambda: fake, Door(TOKEN)) as server,
        pytest.raises(SqlError, match="show the token"),
    ):
        log_in(server, "ann").execute("rows 1")
    assert fake.users == {}


def test_a_login_that_has_ended_is_never_that_of_another_user() -> None:
    first = LoginFile({"sasl.password": "of the server"}, "PLAIN", "ann", 'a "secret" \\ \n')
    assert json.loads(first.path.read_text()) == {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "ann",
        "sasl.password": 'a "secret" \\ \n',
    }
    first.close()
    second = LoginFile({"security.protocol": "SSL"}, "PLAIN", "bob", "x")
    assert not first.path.exists()
    assert first.path != second.path
    assert second.path.parent.stat().st_mode & 0o777 == 0o700
    assert json.loads(second.path.read_text())["security.protocol"] == "SASL_SSL"
    second.close()


@pytest.fixture
def owner(secured: Cluster) -> Iterator[Session]:
    session = Session(secured.bootstrap_servers, start_spark=no_spark)
    yield session
    session.close()


def test_brokers_decide_what_a_user_may_do(owner: Session) -> None:
    reader = owner.for_login("reader", "reader-secret", "PLAIN")
    nobody = owner.for_login("nobody", "nobody-secret", "PLAIN")
    assert reader is not None
    assert nobody is not None

    def topics(session: Session) -> list[str]:
        return [str(row[0]) for row in session.execute("SHOW TOPICS").rows]

    assert topics(reader) == ["orders"]
    assert topics(nobody) == []
    printed = reader.execute("PRINT 'orders' FROM BEGINNING LIMIT 1")
    printed.close()
    assert list(printed.rows) == []
    with pytest.raises((PipelineError, StatementError), match="orders"):
        nobody.execute("PRINT 'orders' FROM BEGINNING LIMIT 1")
    with pytest.raises(StatementError, match="with its own login"):
        reader.execute("CREATE STREAM o AS SELECT key FROM orders")
    for statement in ("CREATE FUNCTION f AS 'def f(): pass'", "DROP FUNCTION f"):
        with pytest.raises(StatementError, match="with the server's token"):
            reader.execute(statement)
    for each in (reader, nobody):
        each.close()


def test_a_server_without_functions_runs_none_for_users(
    owner: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner._context, "has_functions", False)
    reader = owner.for_login("reader", "reader-secret", "PLAIN")
    assert reader is not None
    assert not reader._context.has_functions
    reader.close()


def test_brokers_refuse_a_wrong_password(owner: Session) -> None:
    assert owner.for_login("reader", "writer-secret", "PLAIN") is None
    assert owner.for_login("stranger", "stranger-secret", "PLAIN") is None
