"""Queries that go on in a real Spark: exactly once into the topic of their stream, through pauses,
a server that ends and servers that are killed.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip(
    "pyspark",
    reason="PySpark is not installed: ./run setup pipeline installs it into .venv/ (1 GB)",
)

from raftka.pipeline.errors import PipelineError
from raftka.pipeline.topics.exactly_once import Part
from raftka.sql.language import StatementError
from raftka.sql.session import Session
from raftka.testing import Cluster
from tests.kit.sql_children import Child
from tests.kit.sql_queries import state_of, values, wait
from tests.sql.conftest import NewSession

pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture
def name(cluster: Cluster) -> str:
    """Return a name that no topic has yet."""
    return cluster.create_topic().replace("-", "_") + "_s"


@pytest.fixture
def server(new_session: NewSession, tmp_path: Path) -> Session:
    return new_session(tmp_path / "state")


def test_a_stream_with_a_query_is_written_paused_resumed_and_terminated(
    server: Session, name: str, cluster: Cluster
) -> None:
    server.execute(f"CREATE STREAM {name} (id STRING KEY, n INT) WITH (PARTITIONS=2)")
    server.execute(f"INSERT INTO {name} VALUES ('a', 1), ('b', 20)")
    out, query = f"{name}_big", f"csas_{name}_big"
    made = server.execute(
        f"CREATE STREAM {out} WITH (PARTITIONS=1) AS SELECT id, n * 2 AS twice FROM {name} "
        "WHERE n > 10 PARTITION BY id EMIT CHANGES"
    )
    assert made.note == f"{query} writes to the topic {out}"
    wait(lambda: values(cluster, out) == [{"twice": 40}])
    server.execute(f"INSERT INTO {name} VALUES ('c', 30)")
    wait(lambda: values(cluster, out) == [{"twice": 40}, {"twice": 60}])
    assert [list(each) for each in server.execute(f"SELECT * FROM {out} ORDER BY id").rows] == [
        ["b", 40],
        ["c", 60],
    ]
    wait(lambda: state_of(server, query)["lag"] == 0)
    assert state_of(server, query)["state"] == "running"

    server.execute(f"PAUSE {query}")
    assert state_of(server, query)["state"] == "paused"
    server.execute(f"INSERT INTO {name} VALUES ('d', 40)")
    with pytest.raises(StatementError, match=f"{query} uses {name}"):
        server.execute(f"DROP STREAM {name}")
    server.execute(f"RESUME {query}")
    wait(lambda: len(values(cluster, out)) == 3)

    server.execute(f"TERMINATE {query}")
    assert query not in [each[0] for each in server.execute("SHOW QUERIES").rows]
    server.execute(f"DROP STREAM {out} DELETE TOPIC")
    server.execute(f"DROP STREAM {name}")


def test_names_may_have_dots_dashes_and_capitals(
    server: Session, name: str, cluster: Cluster
) -> None:
    source, table = f"`{name}.A-b`", f"`{name}.T-t`"
    server.execute(f"CREATE STREAM {source} (`K.k` STRING KEY, `n-N` INT) WITH (PARTITIONS=1)")
    server.execute(
        f"CREATE TABLE {table} WITH (PARTITIONS=1) AS SELECT `K.k`, count(*) AS `c.C`, "
        f"max(`n-N`) AS `m-M` FROM {source} GROUP BY `K.k`"
    )
    server.execute(
        f"CREATE STREAM `{name}.J-j` WITH (PARTITIONS=1) AS SELECT s.`K.k`, s.`n-N`, t.`c.C` "
        f"FROM {source} s LEFT JOIN {table} t ON s.`K.k` = t.`K.k` PARTITION BY `K.k`"
    )
    server.execute(f"INSERT INTO {source} VALUES ('a', 1), ('a', 2)")
    wait(lambda: values(cluster, f"{name}.T-t")[-1:] == [{"c.C": 2, "m-M": 2}])
    wait(lambda: [each["n-N"] for each in values(cluster, f"{name}.J-j")] == [1, 2])
    with pytest.raises(StatementError, match="Is it ") as unknown:
        server.execute(f"DESCRIBE `{name}.A-c`")
    assert "csas_" not in str(unknown.value)
    with pytest.raises(StatementError) as used:
        server.execute(f"DROP STREAM {source}")
    step = str(used.value).splitlines()[0].partition("Next step: ")[2]
    assert step.startswith("TERMINATE `")
    server.execute(step)


def test_a_server_goes_on_where_the_last_one_ended(
    server: Session, new_session: NewSession, name: str, cluster: Cluster, tmp_path: Path
) -> None:
    server.execute(f"CREATE STREAM {name} (n INT) WITH (PARTITIONS=1)")
    server.execute(f"CREATE STREAM {name}_out (n INT) WITH (PARTITIONS=1)")
    server.execute(f"INSERT INTO {name} VALUES (1)")
    server.execute(f"INSERT INTO {name}_out SELECT n FROM {name}")
    wait(lambda: values(cluster, f"{name}_out") == [{"n": 1}])
    server.close()
    stranger = new_session(tmp_path / "other state")
    stranger.execute(f"INSERT INTO {name} VALUES (2)")
    assert state_of(stranger, f"insert_{name}_out")["state"] == "elsewhere"
    with pytest.raises(StatementError, match="another server"):
        stranger.execute(f"TERMINATE insert_{name}_out")

    again = new_session(tmp_path / "state")
    wait(lambda: values(cluster, f"{name}_out") == [{"n": 1}, {"n": 2}])
    again.execute(f"TERMINATE insert_{name}_out")


def test_closed_windows_are_written(server: Session, name: str, cluster: Cluster) -> None:
    server.execute(
        f"CREATE STREAM {name} (k STRING, at TIMESTAMP) "
        "WITH (PARTITIONS=1, TIMESTAMP='at', WATERMARK='1 second')"
    )
    server.execute(
        f"CREATE STREAM {name}_counts WITH (PARTITIONS=1) AS SELECT window.start AS minute, k, "
        f"count(*) AS n FROM {name} GROUP BY window(at, '1 minute'), k"
    )
    for second in ("00:10", "00:20", "05:00", "05:01"):
        server.execute(f"INSERT INTO {name} VALUES ('a', '2026-01-01T00:{second}Z')")
    wait(
        lambda: (
            values(cluster, f"{name}_counts")
            == [{"minute": "2026-01-01T00:00:00.000Z", "k": "a", "n": 2}]
        )
    )
    server.execute(f"TERMINATE csas_{name}_counts")


def test_windows_of_ksqldb_are_written_after_their_grace(
    server: Session, name: str, cluster: Cluster
) -> None:
    server.execute(
        f"CREATE STREAM {name} (k STRING, at BIGINT) WITH (PARTITIONS=1, TIMESTAMP='at')"
    )
    query = f"csas_{name}_counts"
    server.execute(
        f"CREATE STREAM {name}_counts WITH (PARTITIONS=1) AS SELECT k, WINDOWSTART, count(*) AS n "
        f"FROM {name} WINDOW TUMBLING (SIZE 1 MINUTE, GRACE PERIOD 1 SECOND) GROUP BY k"
    )
    explained = server.execute(f"EXPLAIN {query}")
    assert explained.note == f"reads {name.lower()}, writes {name}_counts"
    assert any("EventTimeWatermark" in row[0] for row in explained.rows)
    for milliseconds in (1000, 2000, 300_000, 300_001):
        server.execute(f"INSERT INTO {name} VALUES ('a', {milliseconds})")
    wait(lambda: values(cluster, f"{name}_counts") == [{"k": "a", "WINDOWSTART": 0, "n": 2}])
    server.execute(f"TERMINATE {query}")


def test_a_table_has_the_newest_row_of_each_group(
    server: Session, name: str, cluster: Cluster
) -> None:
    server.execute(f"CREATE STREAM {name} (k STRING, n INT) WITH (PARTITIONS=2)")
    server.execute(f"INSERT INTO {name} VALUES ('a', 1), ('b', 2), (NULL, 9)")
    made = server.execute(
        f"CREATE TABLE {name}_sums WITH (PARTITIONS=2) AS SELECT sum(n) AS total, upper(k) AS id, "
        f"LATEST_BY_OFFSET(n) AS newest, AS_VALUE(upper(k)) AS copy FROM {name} "
        "GROUP BY upper(k) EMIT CHANGES"
    )
    assert made.note == f"ctas_{name}_sums writes to the topic {name}_sums"

    def table() -> list[Any]:
        found = server.execute(f"SELECT id, total, newest, copy FROM {name}_sums ORDER BY id")
        return [list(each) for each in found.rows]

    wait(lambda: table() == [["A", 1, 1, "A"], ["B", 2, 2, "B"]])
    server.execute(f"INSERT INTO {name} VALUES ('a', 10)")
    wait(lambda: table() == [["A", 11, 10, "A"], ["B", 2, 2, "B"]])
    assert {each.key for each in cluster.records(f"{name}_sums", read_committed=True)} == {
        b"A",
        b"B",
    }
    server.execute(f"TERMINATE ctas_{name}_sums")
    server.execute(f"DROP TABLE {name}_sums DELETE TOPIC")


def write_batches_twice(spark: Any, cluster: Cluster) -> None:
    from raftka.pipeline.topics.sink import sink_options
    from raftka.sql.engine.outputs import write_changes

    topic = cluster.create_topic()
    options = {
        "kafka.bootstrap.servers": cluster.bootstrap_servers,
        "kafka.transactional.id": f"{topic}-changes",
        "topic": topic,
        "deliveryguarantee": "exactly-once",
    }
    sink = sink_options(options, {"key": "string", "value": "string"}, streaming=True)
    for number, value in ((7, 1), (7, 1), (8, 2), (8, 2)):
        rows = spark.createDataFrame([("k", str(value))], "key string, value string")
        write_changes(sink, rows, number)
    assert values(cluster, topic) == [1, 2]
    with pytest.raises(PipelineError, match="the checkpoint is older"):
        write_changes(sink, rows, 7)


def test_a_batch_of_changes_that_spark_does_again_is_there_once(
    spark: Any, cluster: Cluster
) -> None:
    write_batches_twice(spark, cluster)


def test_a_planted_bug_is_found_decided_batches_are_written_again(
    spark: Any, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Part, "is_decided", False)
    with pytest.raises(AssertionError):
        write_batches_twice(spark, cluster)


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("CREATE TABLE {s}_2 AS SELECT k FROM {s}", "ends with GROUP BY"),
        ("CREATE TABLE {s}_2 AS SELECT count(*) AS c FROM {s} GROUP BY k", "each of them too"),
        (
            "CREATE TABLE {s}_2 AS SELECT k, count(*) AS c FROM {s} WINDOW SESSION (1 DAY) "
            "GROUP BY k",
            "EMIT FINAL",
        ),
        (
            "CREATE STREAM {s}_2 AS SELECT k, count(*) AS n FROM {s} WINDOW SESSION (1 DAY) "
            "GROUP BY k",
            "GRACE PERIOD 10 SECONDS",
        ),
        ("CREATE STREAM {s}_2 AS SELECT id FROM {s}_t", "is a table"),
        ("INSERT INTO {s}_t SELECT n, k AS id FROM {s}", "n is INT here"),
        (
            "INSERT INTO {s}_t SELECT count(*) AS n, max(k) AS id FROM {s} GROUP BY n",
            "each of them too",
        ),
        (
            "CREATE STREAM {s}_2 AS SELECT k, count(*) AS n FROM {s} GROUP BY k",
            "CREATE TABLE ... AS",
        ),
        (
            "CREATE STREAM {s}_2 AS SELECT count(*) AS n FROM {s} GROUP BY window(_timestamp, "
            "'1 minute')",
            "WATERMARK='10 seconds'",
        ),
        ("CREATE STREAM {s}_2 AS SELECT 1 AS n", "reads no stream"),
        ("CREATE STREAM {s}_2 AS SELECT k, k FROM {s}", "is there twice"),
        ("CREATE STREAM {s}_2 AS SELECT _offset FROM {s}", "record's own"),
        ("CREATE STREAM {s}_2 AS SELECT k FROM {s} PARTITION BY z", "no column z"),
        ("CREATE STREAM {s}_2 AS SELECT cast(k AS BINARY) AS b FROM {s}", "has bytes"),
        (
            "CREATE STREAM {s}_2 WITH (VALUE_FORMAT='avro') AS SELECT k FROM {s}",
            "needs a registry",
        ),
        ("CREATE STREAM {s} AS SELECT k FROM {s}", "is there already"),
        ("INSERT INTO {s} SELECT n AS k FROM {s}", "k is INT here and STRING in"),
        ("INSERT INTO {s} SELECT n AS z FROM {s}", "has no column z"),
        ("INSERT INTO {s} SELECT k, n FROM {s}", "it would never end"),
        ("INSERT INTO nowhere SELECT n FROM {s}", "there is no stream nowhere"),
        ("PAUSE nothing", "there is no query nothing"),
    ],
)
def test_queries_that_cannot_go_on_are_refused_and_nothing_is_made(
    server: Session, name: str, statement: str, message: str
) -> None:
    server.execute(f"CREATE STREAM {name} (k STRING, n INT) WITH (PARTITIONS=1)")
    server.execute(f"CREATE TABLE {name}_t (id STRING PRIMARY KEY, n BIGINT) WITH (PARTITIONS=1)")
    with pytest.raises((StatementError, PipelineError)) as caught:
        server.execute(statement.format(s=name))
    assert message in str(caught.value)
    streams = [row[0] for row in server.execute("SHOW STREAMS").rows]
    assert f"{name}_2" not in [*streams, *(row[0] for row in server.execute("SHOW TABLES").rows)]
    assert f"{name}_2" not in [row[0] for row in server.execute("SHOW TOPICS").rows]


# a server that is killed


def test_a_killed_server_goes_on_and_each_row_is_there_once(
    session: Session, name: str, cluster: Cluster, start_child: Callable[[], Child]
) -> None:
    session.execute(f"CREATE STREAM {name} (n INT) WITH (PARTITIONS=3)")
    child = start_child()
    assert child.execute(f"CREATE STREAM {name}_out WITH (PARTITIONS=2) AS SELECT n FROM {name}")
    sums = f"{name}_sums"
    assert child.execute(
        f"CREATE TABLE {sums} WITH (PARTITIONS=2) AS SELECT cast(n % 10 AS STRING) AS digit, "
        f"count(*) AS c FROM {name} GROUP BY cast(n % 10 AS STRING)"
    )
    question = f"SELECT digit, c FROM {sums} ORDER BY digit"
    total = 0

    def insert(count: int) -> None:
        nonlocal total
        rows = ", ".join(f"({each})" for each in range(total, total + count))
        session.execute(f"INSERT INTO {name} VALUES {rows}")
        total += count

    for _ in range(2):
        seen = len(values(cluster, f"{name}_out"))
        insert(500)
        wait(lambda seen=seen: len(values(cluster, f"{name}_out")) > seen)  # type: ignore[misc]
        insert(500)
        child.kill()
        insert(100)
        child = start_child()
    wait(lambda: len(values(cluster, f"{name}_out")) >= total)
    assert sorted(each["n"] for each in values(cluster, f"{name}_out")) == list(range(total))
    newest = [[str(digit), total // 10] for digit in range(10)]
    wait(lambda: [list(row) for row in session.execute(question).rows] == newest)
    assert "terminated" in child.execute(f"TERMINATE csas_{name}_out")
    assert "terminated" in child.execute(f"TERMINATE ctas_{sums}")
