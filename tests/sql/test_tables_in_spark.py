"""Lookups of materialised tables have the columns and rows that a real Spark has."""

from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip(
    "pyspark",
    reason="PySpark is not installed: ./run setup pipeline installs it into .venv/ (1 GB)",
)

from raftka.sql.session import Session
from raftka.sql.tables import view
from raftka.testing import Cluster
from tests.kit.sql_server import wait_for
from tests.kit.sql_tables import rows, send
from tests.pipeline.players import Player

pytestmark = pytest.mark.filterwarnings("default")

COLUMNS = (
    "yes BOOLEAN, i INT, l BIGINT, x FLOAT, d DOUBLE, s STRING, Day DATE, t TIMESTAMP, "
    "p DECIMAL(9, 2), q DECIMAL(30, 1), tags ARRAY<FLOAT>, o STRUCT<a INT, At TIMESTAMP>, "
    "m MAP<STRING, INT>"
)
VALUES = (
    b'{"yes": true, "i": -1, "l": 9007199254740993, "x": 0.1, "d": 0.1,'
    b' "s": "\\u00e9\\ud83d\\ude00", "Day": "2024-05-06",'
    b' "t": "2024-05-06T07:08:09.123456+02:00", "p": 1.5, "q": "1.0",'
    b' "tags": [0.1, 1e40], "o": {"a": 1, "At": 1700000000123}, "m": {"k": 2}}',
    b'{"t": "2024-05-06T07:08:09", "o": {}, "tags": [], "m": {}}',
    b"{}",
    b'{"i": "no number"}',
    b"no JSON",
    None,
)


@pytest.mark.parametrize(("kind", "key"), [("STRING", "'7'"), ("BIGINT", "7"), ("INT", "-7")])
def test_a_lookup_is_answered_as_spark_answers_it(
    new_session: Callable[..., Session],
    cluster: Cluster,
    player: Player,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    key: str,
) -> None:
    monkeypatch.setattr(view, "PATIENCE_S", 60.0)
    session = new_session(tmp_path / "state")
    topic = cluster.create_topic()
    table = topic.replace("-", "_")
    session.execute(
        f"CREATE TABLE {table} (k {kind} PRIMARY KEY, {COLUMNS}) WITH (KAFKA_TOPIC='{topic}')"
    )
    for value in VALUES:
        send(player.brokers, topic, (key.strip("'").encode(), value), (b" 7\t", b"{}"))
        for columns in ("*", "K, s, DAY"):
            question = f"SELECT {columns} FROM {table} WHERE k = {key}"
            by_spark = session.execute(f"{question} AND TRUE")
            assert by_spark.note == ""
            expected = sorted((list(each) for each in by_spark.rows), key=str)
            assert sorted(rows(session, question), key=str) == expected
            assert session.execute(question).columns == by_spark.columns
    session.close()


def test_a_table_of_a_query_is_materialised(
    new_session: Callable[..., Session],
    cluster: Cluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(view, "PATIENCE_S", 60.0)
    session = new_session(tmp_path / "state")
    name = cluster.create_topic().replace("-", "_")
    session.execute(f"CREATE STREAM {name}_s (id STRING KEY, n INT) WITH (PARTITIONS=2)")
    session.execute(
        f"CREATE TABLE {name}_t AS SELECT id, count(*) AS times FROM {name}_s GROUP BY id"
    )
    question = f"SELECT times FROM {name}_t WHERE id = 'a'"
    for times in (1, 2):
        session.execute(f"INSERT INTO {name}_s VALUES ('a', 1)")
        wait_for(lambda times=times: rows(session, question) == [[times]])  # type: ignore[misc]
    session.execute(f"TERMINATE ctas_{name}_t")
    session.close()
