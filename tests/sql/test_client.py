"""The client of the SQL server: it starts one where there is none, for many programs at once."""

import asyncio
import re
import threading
from pathlib import Path

import pytest
import trustme

import raftka.sql
from raftka.console.settings import read_tls
from raftka.sql.answers import Column, distinct_names
from raftka.sql.client import AsyncConnection, Connection, SqlError, connect_wanted
from raftka.sql.server.folder import Address, ServerFolder
from raftka.sql.server.launch import NoServer, Wanted, find_or_start
from raftka.sql.server.process import cause_of
from raftka.sql.server.server import Door, SqlServer
from tests.kit.documents import ROOT
from tests.kit.sql_server import TOKEN, FakeSession, kill, wait_for, wait_for_lock


def test_rows_are_dicts(connection: Connection) -> None:
    rows = connection.execute("rows 2", limit=1)

    assert list(rows) == [{"n": 0, "text": "row 0"}]
    assert rows.note == "there are more than 1 rows"
    assert connection.words().topics == ["trucks", "trucks.gps-1"]


def test_columns_of_one_name_are_numbered() -> None:
    columns = [Column(name, "int") for name in ("id", "x", "id", "id_2", "id")]

    assert distinct_names(columns) == ["id", "x", "id_2", "id_2_2", "id_3"]


def test_a_missing_package_is_a_next_step() -> None:
    told = cause_of(ModuleNotFoundError("No module named 'pyspark'", name="pyspark"))

    assert told == "the Python package pyspark is not installed: pip install 'raftka[pipeline]'"


def test_a_server_is_started_once_for_many_programs(wanted: Wanted) -> None:
    found: list[Connection] = []
    threads = [
        threading.Thread(target=lambda: found.append(connect_wanted(wanted))) for _ in "1234"
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()

    assert len({each.address for each in found}) == 1
    assert len(list(found[0].execute("rows 3"))) == 3


def test_its_files_are_for_its_user_alone(wanted: Wanted) -> None:
    folder = wanted.folder
    connect_wanted(wanted)

    assert folder.path.stat().st_mode & 0o777 == 0o700
    assert (folder.path / "server.json").stat().st_mode & 0o777 == 0o600


def test_each_cluster_and_login_has_a_server_of_its_own() -> None:
    folders = [
        ServerFolder.of("a:1,b:1", {}),
        ServerFolder.of("a:1", {}),
        ServerFolder.of("a:1,b:1", {"sasl.mechanism": "PLAIN"}),
    ]

    assert len({each.path for each in folders}) == 3
    assert ServerFolder.of("b:1, a:1", {}).path == folders[0].path


def test_a_server_that_was_killed_is_started_anew(wanted: Wanted) -> None:
    before = connect_wanted(wanted)
    rows = before.execute("ticks")
    next(rows)
    kill(wanted)
    with pytest.raises(SqlError, match="has ended before its answer did") as caught:
        for _ in rows:
            pass
    assert caught.value.code == "SERVER_LOST"

    after = connect_wanted(wanted)

    assert after.address.pid != before.address.pid
    for connection in (before, after):
        assert len(list(connection.execute("rows 3"))) == 3
    assert before.address == after.address


def test_the_next_statement_of_a_connection_starts_a_server_that_has_ended(wanted: Wanted) -> None:
    connection = connect_wanted(wanted)
    kill(wanted)
    with pytest.raises(SqlError):
        connection.health()

    assert len(list(connection.execute("rows 3"))) == 3
    assert connection.health()["state"] == "ready"


def test_a_server_whose_java_has_ended_starts_again_behind_the_same_door(wanted: Wanted) -> None:
    connection = connect_wanted(wanted)
    rows = connection.execute("ticks")
    next(rows)

    list(connection.execute("lose"))

    with pytest.raises(SqlError) as caught:
        for _ in rows:
            pass
    assert caught.value.code == "SERVER_LOST"
    after = connect_wanted(wanted)
    assert after.address == connection.address
    assert len(list(connection.execute("rows 3"))) == 3
    assert wanted.folder.try_lock() is None
    assert "starts again" in wanted.folder.log.read_text()


def test_a_server_without_use_ends(wanted: Wanted) -> None:
    idle = Wanted(wanted.bootstrap, idle_s=0.05, module=wanted.module)
    first = connect_wanted(idle)
    wait_for(lambda: idle.folder.address() is None)
    wait_for_lock(idle)

    assert connect_wanted(idle).address.pid != first.address.pid


def test_a_server_that_cannot_start_says_why(wanted: Wanted) -> None:
    with pytest.raises(NoServer, match="No module named"):
        find_or_start(Wanted(wanted.bootstrap, module="tests.kit.nothing"), lambda _: True)


def test_another_token_is_refused(server: SqlServer) -> None:
    connection = raftka.sql.connect(url=server.url, token="another")

    with pytest.raises(SqlError, match="show the token"):
        connection.execute("rows 1")


def test_a_door_with_tls_is_trusted_by_its_certificate(fake: FakeSession, tmp_path: Path) -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("sql.example")
    pem = tmp_path / "sql.pem"
    issued.private_key_and_cert_chain_pem.write_to_path(str(pem))
    with SqlServer(lambda: fake, Door(TOKEN, tls=read_tls(pem, None))) as server:
        assert server.url.startswith("https://")
        connection = raftka.sql.connect(url=server.url, token=TOKEN, certificate=str(pem))
        assert len(list(connection.execute("rows 3"))) == 3
        with pytest.raises(SqlError, match="certificate verify failed"):
            raftka.sql.connect(url=server.url, token=TOKEN).execute("rows 3")


def test_no_server_is_one_sentence() -> None:
    connection = Connection(Address("http://127.0.0.1:1", TOKEN, 0))

    with pytest.raises(SqlError, match="no SQL server answers at"):
        connection.execute("rows 1")


def test_rows_for_asyncio(connection: Connection) -> None:
    async def read() -> list[object]:
        return [row["n"] async for row in AsyncConnection(connection).execute("rows 1000")]

    assert asyncio.run(read()) == list(range(1000))


def test_a_cancelled_task_of_asyncio_ends_its_statement(
    connection: Connection, fake: FakeSession
) -> None:
    async def read(seen: asyncio.Event) -> None:
        async for _ in AsyncConnection(connection).execute("ticks"):
            seen.set()

    async def main() -> None:
        seen = asyncio.Event()
        task = asyncio.create_task(read(seen))
        await seen.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())

    wait_for(lambda: fake.closed == ["ticks"])


def test_connect_for_asyncio_starts_a_server_too(
    wanted: Wanted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("raftka.sql.client.Wanted", lambda *args: wanted)

    async def read() -> list[object]:
        connection = await raftka.sql.connect_async("localhost:1")
        return [row["n"] async for row in connection.execute("rows 3")]

    assert asyncio.run(read()) == [0, 1, 2]


def test_the_program_of_the_page_runs(
    wanted: Wanted, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program = re.search(r"```python\n(.*?)```", (ROOT / "docs/sql.md").read_text(), re.DOTALL)
    assert program is not None
    monkeypatch.setattr("raftka.sql.client.Wanted", lambda *args: wanted)

    exec(program[1], {})

    assert capsys.readouterr().out == "truck-7\n"


def test_a_log_has_the_reason_of_a_bug(wanted: Wanted) -> None:
    with pytest.raises(SqlError, match="see its log"):
        connect_wanted(wanted).execute("bug")

    assert "RuntimeError: a bug" in Path(wanted.folder.log).read_text()
