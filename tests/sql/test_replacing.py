"""CREATE OR REPLACE ... AS SELECT in a real Spark: the checkpoint stays where it can, and each row
is written once, by the old query or by the new one.
"""

import json
import threading
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip(
    "pyspark",
    reason="PySpark is not installed: ./run setup pipeline installs it into .venv/ (1 GB)",
)

from raftka.sql.engine import persistent
from raftka.sql.language import StatementError
from raftka.sql.session import Session
from raftka.testing import Cluster
from tests.kit.sql_server import wait_for
from tests.sql.conftest import NewSession

pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture
def name(cluster: Cluster) -> str:
    """Return a name that no topic has yet."""
    return cluster.create_topic().replace("-", "_") + "_s"


@pytest.fixture
def server(new_session: NewSession, tmp_path: Path) -> Session:
    return new_session(tmp_path / "state")


def values(cluster: Cluster, topic: str) -> list[Any]:
    return list(cluster.values(topic, json, read_committed=True))


def rows(session: Session, text: str) -> list[Any]:
    return [list(each) for each in session.execute(text).rows]


def replace_while_rows_come(server: Session, name: str, cluster: Cluster) -> None:
    """Check that each row is written once, whichever query writes it."""
    server.execute(f"CREATE STREAM {name} (n INT) WITH (PARTITIONS=2)")
    out = f"{name}_out"
    server.execute(f"CREATE STREAM {out} WITH (PARTITIONS=2) AS SELECT n FROM {name}")
    over = threading.Event()
    total = 0

    def insert() -> None:
        nonlocal total
        while not over.is_set():
            numbers = ", ".join(f"({each})" for each in range(total, total + 50))
            server.execute(f"INSERT INTO {name} VALUES {numbers}")
            total += 50

    thread = threading.Thread(target=insert)
    thread.start()
    try:
        for version in (1, 2, 3):
            seen = len(values(cluster, out))
            wait_for(lambda seen=seen: len(values(cluster, out)) > seen + 50)  # type: ignore[misc]
            added = "".join(f", {each} AS v{each}" for each in range(1, version + 1))
            made = server.execute(
                f"CREATE OR REPLACE STREAM {out} AS SELECT n{added} FROM {name} WHERE n >= 0"
            )
            assert made.note == f"csas_{out} is replaced and writes to the topic {out}"
        wait_for(lambda: any("v3" in each for each in values(cluster, out)))
    finally:
        over.set()
        thread.join()
    wait_for(lambda: len(values(cluster, out)) >= total)
    found = values(cluster, out)
    server.execute(f"TERMINATE csas_{out}")
    assert sorted(each["n"] for each in found) == list(range(total))
    assert {len(each) for each in found} >= {1, 4}


def test_a_query_is_replaced_while_rows_come(server: Session, name: str, cluster: Cluster) -> None:
    replace_while_rows_come(server, name, cluster)


def test_a_planted_bug_is_found_the_new_query_begins_anew(
    server: Session, name: str, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = persistent.Queries.stop
    monkeypatch.setattr(
        persistent.Queries, "stop", lambda self, query, forget: stop(self, query, forget=True)
    )
    with pytest.raises(AssertionError):
        replace_while_rows_come(server, name, cluster)


SUM = "sum(CASE WHEN n < 5000 THEN n END)"


def test_groups_go_on_under_another_filter(
    server: Session, name: str, cluster: Cluster, new_session: NewSession, tmp_path: Path
) -> None:
    server.execute(f"CREATE STREAM {name} (k STRING, n INT) WITH (PARTITIONS=1)")
    create = f"TABLE {name}_t WITH (PARTITIONS=1) AS SELECT k, {SUM} AS total"
    question = f"SELECT * FROM {name}_t WHERE k IS NOT NULL ORDER BY k"
    server.execute(f"CREATE {create} FROM {name} GROUP BY k")
    server.execute(f"INSERT INTO {name} VALUES ('a', 1), ('b', 2)")
    wait_for(lambda: rows(server, question) == [["a", 1], ["b", 2]])
    query = f"ctas_{name}_t"
    server.execute(f"PAUSE {query}")
    server.execute(
        f"CREATE OR REPLACE {create}, upper(k) AS name FROM {name} WHERE n < 100 GROUP BY k "
        f"HAVING {SUM} > 0"
    )
    assert rows(server, "SHOW QUERIES")[0][:2] == [query, "paused"]
    server.close()
    again = new_session(tmp_path / "state")
    again.execute(f"RESUME {query}")
    again.execute(f"INSERT INTO {name} VALUES ('a', 10), ('a', 1000)")
    wait_for(lambda: rows(again, question) == [["a", 11, "A"], ["b", 2, None]])
    again.execute(f"TERMINATE {query}")


REFUSED = [
    ("STREAM {s}_o AS SELECT k FROM {s}", "the column n of {s}_o would go"),
    ("STREAM {s}_o AS SELECT k, cast(n AS BIGINT) AS n FROM {s}", "INT, and would be BIGINT"),
    ("STREAM {s}_o AS SELECT k, n FROM {s} PARTITION BY k", "STRING, and would be STRING KEY"),
    ("STREAM {s}_o AS SELECT k, n FROM {s}_2", "offsets are kept in that order"),
    (
        "STREAM {s}_o AS SELECT a.k, a.n FROM {s} a JOIN {s}_2 b WITHIN 1 DAY ON a.k = b.k",
        "rows for Join",
    ),
    (
        "STREAM {s}_o WITH (KAFKA_TOPIC='{s}_9') AS SELECT k, n FROM {s}",
        "cannot be replaced by",
    ),
    ("STREAM {s} AS SELECT k FROM {s}_2", "no query of its own"),
    ("TABLE {s}_o AS SELECT k, count(*) AS n FROM {s} GROUP BY k", "is a stream"),
    (
        "TABLE {s}_t AS SELECT k, max(n) AS total FROM {s} GROUP BY k",
        "the groups or their aggregates are other ones",
    ),
    (
        "TABLE {s}_w AS SELECT k, sum(n) AS total FROM {s} WINDOW TUMBLING (SIZE 2 MINUTES) "
        "GROUP BY k",
        "the groups or their aggregates are other ones",
    ),
    (
        "TABLE {s}_w AS SELECT k, sum(n) AS total FROM {s} "
        "WINDOW HOPPING (SIZE 1 MINUTE, ADVANCE BY 10 SECONDS) GROUP BY k",
        "the groups or their aggregates are other ones",
    ),
]


def test_queries_that_cannot_go_on_are_not_replaced(server: Session, name: str) -> None:
    for stream in (name, f"{name}_2"):
        server.execute(f"CREATE STREAM {stream} (k STRING, n INT) WITH (PARTITIONS=1)")
    server.execute(f"CREATE STREAM {name}_o WITH (PARTITIONS=1) AS SELECT k, n FROM {name}")
    server.execute(
        f"CREATE TABLE {name}_t WITH (PARTITIONS=1) AS SELECT k, min(n) AS total FROM {name} "
        "GROUP BY k"
    )
    server.execute(
        f"CREATE TABLE {name}_w WITH (PARTITIONS=1) AS SELECT k, sum(n) AS total FROM {name} "
        "WINDOW HOPPING (SIZE 1 MINUTE, ADVANCE BY 30 SECONDS) GROUP BY k"
    )
    before = rows(server, "SHOW QUERIES")
    for statement, message in REFUSED:
        with pytest.raises(StatementError) as caught:
            server.execute(f"CREATE OR REPLACE {statement.format(s=name)}")
        assert message.format(s=name) in str(caught.value)
        assert "Next step" in str(caught.value)
    assert [each[0] for each in rows(server, "SHOW QUERIES")] == [each[0] for each in before]
    kept = server.execute(f"CREATE STREAM IF NOT EXISTS {name}_o AS SELECT k FROM {name}")
    assert kept.note == f"{name}_o is there already"
    for query in (f"csas_{name}_o", f"ctas_{name}_t", f"ctas_{name}_w"):
        server.execute(f"TERMINATE {query}")
