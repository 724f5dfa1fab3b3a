"""The SQL server with real Spark: a process that programs start, on a real cluster."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip(
    "pyspark",
    reason="PySpark is not installed: ./run setup pipeline installs it into .venv/ (1 GB)",
)

import raftka.sql
from raftka.console.sql.target import SqlTarget
from raftka.sql.client import Connection, Rows, SqlError
from raftka.sql.server.launch import Wanted
from raftka.testing import Cluster
from tests.kit.checkout import FROM_CHECKOUT
from tests.kit.console import Api, console_of
from tests.kit.sql_server import kill

RECORDS = 50


@pytest.fixture(scope="module")
def trucks(raftka_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A topic; at the end the server of the cluster is gone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        raftka_cluster.create_topic("trucks", partitions=2)
        records = "".join(f"truck {n}\n" for n in range(RECORDS))
        command = [sys.executable, "-m", "raftka.cli", "produce", "trucks", "-b"]
        subprocess.run(
            [*command, raftka_cluster.bootstrap_servers],
            input=records,
            text=True,
            check=True,
            env=FROM_CHECKOUT,
        )
        yield
        address = Wanted(raftka_cluster.bootstrap_servers).folder.address()
        assert address is not None
        os.kill(address.pid, signal.SIGTERM)


@pytest.fixture
def connection(trucks: None, raftka_cluster: Cluster) -> Connection:
    """To the server that is there: another test may have killed the one before it."""
    return raftka.sql.connect(raftka_cluster.bootstrap_servers)


def test_a_topic_is_asked_in_sql(connection: Connection) -> None:
    rows = connection.execute("select count(*) as n, max(offset) as last from `trucks`")

    assert [row["n"] for row in rows] == [RECORDS]
    assert [each.name for each in rows.columns] == ["n", "last"]
    assert connection.health()["state"] == "ready"
    assert "trucks" in connection.words().topics
    assert "upper" in connection.words().functions


def test_values_of_all_kinds_are_json(connection: Connection) -> None:
    (row,) = connection.execute(
        "select 1.5bd as d, date'2026-01-02' as day, array(1, 2) as a, named_struct('x', null) "
        "as s, cast('NaN' as double) as nan, x'00ff' as b"
    )

    assert row == {
        "d": "1.5",
        "day": "2026-01-02",
        "a": [1, 2],
        "s": {"x": None},
        "nan": "nan",
        "b": "x'00ff'",
    }


def test_errors_of_spark_are_sentences(connection: Connection) -> None:
    with pytest.raises(SqlError, match=r"topic nothing\. There are: .*trucks\n.*\n +\^$"):
        connection.execute("select * from nothing")


def test_a_server_that_was_killed_goes_on_with_the_next_program(
    connection: Connection, raftka_cluster: Cluster
) -> None:
    kill(Wanted(raftka_cluster.bootstrap_servers))

    after = raftka.sql.connect(raftka_cluster.bootstrap_servers)

    assert [row["n"] for row in after.execute("select count(*) as n from `trucks`")] == [RECORDS]


def test_the_log_of_java_is_in_the_folder(connection: Connection, raftka_cluster: Cluster) -> None:
    list(raftka.sql.connect(raftka_cluster.bootstrap_servers).execute("select 1"))

    folder: Path = Wanted(raftka_cluster.bootstrap_servers).folder.path
    assert (folder / "spark.log").exists()


def test_streams_go_on_with_a_server_that_was_killed(
    connection: Connection, raftka_cluster: Cluster
) -> None:
    def execute(text: str) -> Rows:
        return raftka.sql.connect(raftka_cluster.bootstrap_servers).execute(text)

    for text in (
        "create stream speeds (truck int, speed double) with (kafka_topic='speeds', partitions=1)",
        "create stream fast with (partitions=1) as select * from speeds where speed > 80",
    ):
        list(execute(text))
    live = execute("select truck from fast emit changes from beginning")
    assert live.is_live
    list(execute("insert into speeds values (1, 81.5), (2, 60.0)"))
    assert next(live) == {"truck": 1}
    live.close()

    kill(Wanted(raftka_cluster.bootstrap_servers))

    list(execute("insert into speeds values (3, 99.0)"))
    with execute("select truck from fast emit changes from beginning") as rows:
        assert [next(rows)["truck"], next(rows)["truck"]] == [1, 3]
    with pytest.raises(SqlError, match="\\^"):
        execute("creat stream x")


def test_the_page_of_the_console_asks_the_same_server(
    connection: Connection, raftka_cluster: Cluster
) -> None:
    texts = (
        *("create stream seen (n int) with (partitions=1)", "insert into seen values (7)"),
        "create stream copied with (partitions=1) as select n from seen",
        *("select n from seen", "select n from nowhere"),
    )
    target = SqlTarget(Wanted(raftka_cluster.bootstrap_servers))
    with console_of(raftka_cluster, sql=target) as console:
        api = Api(console.url)
        body = {"text": "; ".join(texts)}
        with api.stream("/api/sql/run", method="POST", body=body) as events:
            found = [each for each in events if each.name not in ("statement", "waiting")]
        state = api.get("/api/sql")
        words = api.get("/api/sql/words")["words"]
        paused = api.post("/api/sql/queries/csas_copied", action="PAUSE")

    assert [each.json for each in found if each.name == "rows"] == [[[7]]]
    assert found[-1].json["message"].endswith(f"\n{texts[-1]}\n              ^")
    assert (state["state"], state["failure"]) == ("ready", None)
    assert "csas_copied" in [each["name"] for each in state["queries"]]
    assert {"seen", "copied", "csas_copied"} < set(words)
    assert paused == {"note": "csas_copied is paused"}
