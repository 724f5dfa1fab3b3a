"""The SQL server on a standalone Spark: a master and two workers, each a process of its own."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip(
    "pyspark",
    reason="PySpark is not installed: ./run setup pipeline installs it into .venv/ (1 GB)",
)

from raftka.sql.client import connect_wanted
from raftka.sql.engine.persistent import hosts_without
from raftka.sql.hosting import QueryHost
from raftka.sql.language import StatementError
from raftka.sql.server.launch import Wanted
from raftka.sql.session import Session
from raftka.testing import Cluster
from tests.kit.spark.standalone import SECONDS, SETTINGS, Standalone, plain_environment
from tests.sql.conftest import NewSession

Execute = Callable[[str], list[dict[str, Any]]]


@pytest.fixture(scope="module")
def execute(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Execute]:
    """Statements of a server whose executors are the workers."""
    folder = tmp_path_factory.mktemp("sql")
    with pytest.MonkeyPatch.context() as patch, Standalone(folder) as spark:
        for name in os.environ.keys() - plain_environment().keys():
            patch.delenv(name)
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        wanted = Wanted(cluster.bootstrap_servers, master=spark.master, settings=SETTINGS)
        yield lambda text: list(connect_wanted(wanted).execute(text))
        address = wanted.folder.address()
        assert address is not None
        os.kill(address.pid, signal.SIGKILL)


def wait_for(execute: Execute, text: str, rows: list[dict[str, Any]]) -> None:
    deadline = time.monotonic() + SECONDS
    while (found := execute(text)) != rows:
        assert time.monotonic() < deadline, found
        time.sleep(0.5)


def test_statements_of_all_kinds_run_on_the_workers(execute: Execute) -> None:
    execute("CREATE STREAM s (k STRING KEY, n INT, at BIGINT) WITH (PARTITIONS=2, TIMESTAMP='at')")
    execute("CREATE STREAM others (n INT) WITH (PARTITIONS=1)")
    execute("INSERT INTO s VALUES ('a', 1, 1000), ('b', 20, 1500), ('a', 30, 90000)")
    execute("CREATE STREAM big WITH (PARTITIONS=1) AS SELECT k, n FROM s WHERE n > 10")
    execute("CREATE TABLE sums WITH (PARTITIONS=1) AS SELECT k, sum(n) AS t FROM s GROUP BY k")
    execute(
        "CREATE STREAM minutes WITH (PARTITIONS=1) AS SELECT k, count(*) AS c FROM s "
        "WINDOW TUMBLING (SIZE 1 MINUTE, GRACE PERIOD 1 SECOND) GROUP BY k"
    )
    execute("INSERT INTO others SELECT n FROM s WHERE n < 10")

    big = [{"k": "a", "n": 30}, {"k": "b", "n": 20}]
    wait_for(execute, "SELECT k, n FROM big ORDER BY k", big)
    wait_for(
        execute, "SELECT k, t FROM sums ORDER BY k", [{"k": "a", "t": 31}, {"k": "b", "t": 20}]
    )
    wait_for(execute, "SELECT t FROM sums WHERE k = 'a'", [{"t": 31}])
    wait_for(execute, "SELECT n FROM others", [{"n": 1}])
    wait_for(
        execute, "SELECT k, c FROM minutes ORDER BY k", [{"k": "a", "c": 1}, {"k": "b", "c": 1}]
    )
    assert execute("SELECT n FROM big EMIT CHANGES FROM BEGINNING LIMIT 1")
    assert execute("EXPLAIN csas_big")
    for text in ("PAUSE csas_big", "RESUME csas_big", "TERMINATE csas_big"):
        execute(text)
    assert len(execute("SHOW QUERIES")) == 3


def test_a_folder_that_executors_do_not_see_is_found(spark: Any, tmp_path: Path) -> None:
    assert hosts_without(spark, tmp_path) == []
    descriptor = os.open(tmp_path, os.O_DIRECTORY)
    try:
        assert len(hosts_without(spark, Path(f"/proc/self/fd/{descriptor}"))) == 1
    finally:
        os.close(descriptor)


def test_queries_whose_checkpoints_executors_do_not_see_are_refused(
    new_session: NewSession, cluster: Cluster, tmp_path: Path
) -> None:
    session: Session = new_session(tmp_path / "state")
    host = session._host
    assert isinstance(host, QueryHost)
    session.execute("CREATE STREAM unseen (n INT) WITH (PARTITIONS=1)")
    host._blind_hosts = ["far-away"]
    with pytest.raises(StatementError, match=r"far-away of Spark's machines cannot see.*Next"):
        session.execute("CREATE STREAM u AS SELECT n FROM unseen")
