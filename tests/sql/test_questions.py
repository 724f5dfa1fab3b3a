"""Streams over topics in a real Spark: made, described, asked, shown as rows come, dropped."""

import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip(
    "pyspark",
    reason="PySpark is not installed: ./run setup pipeline installs it into .venv/ (1 GB)",
)

from raftka.client.blocking.producer import Producer
from raftka.pipeline.errors import PipelineError
from raftka.sql.language import StatementError
from raftka.sql.language.functions import ALIASES, OTHERS
from raftka.sql.session import Session
from raftka.testing import Cluster
from tests.pipeline.players import Player

pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture
def name(cluster: Cluster) -> str:
    """Return a name that no topic has yet."""
    return cluster.create_topic().replace("-", "_") + "_s"


def rows(session: Session, text: str, limit: int | None = None) -> list[Any]:
    answer = session.execute(text, limit)
    return [list(each) for each in answer.rows]


def send(player: Player, topic: str, *records: tuple[bytes | None, bytes | None]) -> None:
    producer = Producer(player.brokers)
    for at, (key, value) in enumerate(records):
        producer.add((topic, 0), (key, value, (), 1_700_000_000_000 + at))
    producer.flush()


def test_a_stream_is_made_written_asked_and_dropped(
    session: Session, name: str, cluster: Cluster
) -> None:
    made = session.execute(
        f"CREATE STREAM {name} (id STRING KEY, speed DOUBLE, tags ARRAY<STRING>) "
        f"WITH (KAFKA_TOPIC='{name}_t', PARTITIONS=2)"
    )
    assert made.note == f"{name} is a stream over the topic {name}_t"
    session.execute(
        f"INSERT INTO {name} VALUES ('a', 1.5, ARRAY['x', 'y']), ('b', 2, NULL), (NULL, 3, NULL)"
    )

    answer = session.execute(f"SELECT * FROM {name} ORDER BY speed")
    assert [each.name for each in answer.columns] == ["id", "speed", "tags"]
    assert [list(each) for each in answer.rows] == [
        ["a", 1.5, ["x", "y"]],
        ["b", 2.0, None],
        [None, 3.0, None],
    ]
    assert rows(session, f"SELECT speed, _topic FROM {name} WHERE id = 'a'") == [[1.5, f"{name}_t"]]
    assert [name, f"{name}_t", "json", "id"] in rows(session, "SHOW STREAMS")
    assert rows(session, f"DESCRIBE {name}") == [
        ["id", "STRING", "KEY"],
        ["speed", "DOUBLE", ""],
        ["tags", "ARRAY<STRING>", ""],
    ]

    session.execute(f"DROP STREAM {name} DELETE TOPIC")
    with pytest.raises(StatementError, match="there is no stream, table or topic"):
        session.execute(f"SELECT * FROM {name}")
    assert f"{name}_t" not in [row[0] for row in rows(session, "SHOW TOPICS")]


def test_a_topic_without_a_stream_is_text(
    session: Session, cluster: Cluster, player: Player
) -> None:
    topic = cluster.create_topic()
    send(player, topic, (b"k", b"v"))

    assert rows(session, f"SELECT key, value, offset FROM `{topic}`") == [["k", "v", 0]]
    assert rows(session, f"DESCRIBE `{topic}`")[1] == ["value", "STRING", ""]


def test_a_limit_says_that_there_are_more_rows(session: Session, name: str) -> None:
    session.execute(f"CREATE STREAM {name} (n INT) WITH (PARTITIONS=1)")
    session.execute(f"INSERT INTO {name} VALUES (1), (2), (3)")

    answer = session.execute(f"SELECT n FROM {name}", limit=2)
    assert (len(list(answer.rows)), answer.note) == (2, "there are more than 2 rows")
    assert len(rows(session, f"SELECT n FROM {name}", limit=3)) == 3


def test_records_that_do_not_fit_are_left_out(
    session: Session, cluster: Cluster, player: Player, name: str
) -> None:
    topic = cluster.create_topic()
    send(
        player,
        topic,
        (None, b'{"n": 1, "text": "a"}'),
        (None, b"no JSON"),
        (None, b'{"n": "2"}'),
        (b"7", b'{"n": 3}'),
        (b"no number", b'{"n": 4}'),
    )
    session.execute(
        f"CREATE STREAM {name} (k INT KEY, n INT NOT NULL, text STRING) "
        f"WITH (KAFKA_TOPIC='{topic}')"
    )

    assert rows(session, f"SELECT * FROM {name} ORDER BY n") == [
        [None, 1, "a"],
        [7, 3, None],
        [None, 4, None],
    ]


def test_lines_with_delimiters(
    session: Session, cluster: Cluster, player: Player, name: str
) -> None:
    topic = cluster.create_topic()
    session.execute(
        f"CREATE STREAM {name} (n INT, text STRING, price DECIMAL(9, 2)) "
        f"WITH (KAFKA_TOPIC='{topic}', VALUE_FORMAT='delimited', VALUE_DELIMITER='|')"
    )
    session.execute(f"""INSERT INTO {name} VALUES (1, 'a|"b"', 2.50), (2, NULL, -1)""")
    send(player, topic, (None, b"no number|x|1"), (None, b"3"))

    assert rows(session, f"SELECT n, text, cast(price AS STRING) FROM {name} ORDER BY n") == [
        [1, 'a|"b"', "2.50"],
        [2, None, "-1.00"],
    ]


def test_headers_and_times_are_columns(
    session: Session, cluster: Cluster, player: Player, name: str
) -> None:
    topic = cluster.create_topic()
    producer = Producer(player.brokers)
    headers = (("trace", b"1"), ("trace", b"2"))
    producer.add((topic, 0), (None, b'{"at": 1700000060000}', headers, 1_700_000_000_000))
    producer.flush()
    session.execute(
        f"CREATE STREAM {name} (at BIGINT, trace STRING HEADER('trace'), "
        "hs ARRAY<STRUCT<key STRING, value BYTES>> HEADERS) "
        f"WITH (KAFKA_TOPIC='{topic}', TIMESTAMP='at')"
    )

    assert rows(session, f"SELECT trace, size(hs), _timestamp, rowtime, _offset FROM {name}") == [
        ["2", 2, "2023-11-14T22:14:20", 1_700_000_060_000, 0]
    ]


def test_a_table_has_the_newest_row_of_each_key(
    session: Session, name: str, player: Player
) -> None:
    session.execute(
        f"CREATE TABLE {name} (id STRING PRIMARY KEY, n INT) "
        f"WITH (KAFKA_TOPIC='{name}', PARTITIONS=1)"
    )
    send(
        player,
        name,
        (b"a", b'{"n": 1}'),
        (b"b", b'{"n": 2}'),
        (b"a", b'{"n": 3}'),
        (b"c", b'{"n": 4}'),
        (b"c", None),
    )

    assert rows(session, f"SELECT * FROM {name} ORDER BY id") == [["a", 3], ["b", 2]]
    assert [name, name, "json", "id"] in rows(session, "SHOW TABLES")
    with pytest.raises(StatementError, match="id may not be null"):
        session.execute(f"INSERT INTO {name} (n) VALUES (1)")


def test_a_push_query_shows_rows_as_they_come(session: Session, name: str) -> None:
    session.execute(f"CREATE STREAM {name} (n INT) WITH (PARTITIONS=1)")
    session.execute(f"INSERT INTO {name} VALUES (1), (2)")

    answer = session.execute(f"SELECT n * 10 AS tens FROM {name} WHERE n > 1 EMIT CHANGES LIMIT 2")
    assert answer.is_live
    session.execute(f"INSERT INTO {name} VALUES (1), (3)")
    assert list(next(answer.rows)) == [30]
    session.execute(f"INSERT INTO {name} VALUES (4), (5)")
    assert [list(each) for each in answer.rows] == [[40]]

    whole = session.execute(f"SELECT n FROM {name} EMIT CHANGES FROM BEGINNING")
    assert [next(whole.rows)[0] for _ in range(6)] == [1, 2, 1, 3, 4, 5]
    whole.close()
    assert list(whole.rows) == []


def test_a_push_query_with_a_group_shows_the_changed_rows(session: Session, name: str) -> None:
    session.execute(f"CREATE STREAM {name} (k STRING, n INT) WITH (PARTITIONS=1)")
    answer = session.execute(f"SELECT k, sum(n) AS total FROM {name} GROUP BY k EMIT CHANGES")
    session.execute(f"INSERT INTO {name} VALUES ('a', 1)")
    assert list(next(answer.rows)) == ["a", 1]
    session.execute(f"INSERT INTO {name} VALUES ('a', 2)")
    assert list(next(answer.rows)) == ["a", 3]
    answer.close()


def test_a_push_query_that_fails_says_why(session: Session, name: str) -> None:
    session.execute(f"CREATE STREAM {name} (n INT) WITH (PARTITIONS=1)")
    answer = session.execute(f"SELECT 1 / n AS x FROM {name} EMIT CHANGES")
    session.execute(f"INSERT INTO {name} VALUES (0)")
    with pytest.raises(PipelineError, match="ivision by zero"):
        next(answer.rows)


def test_records_are_printed_as_they_come(
    session: Session, cluster: Cluster, player: Player
) -> None:
    topic = cluster.create_topic()
    send(player, topic, (b"k", b"v"), (None, b"\xff"))

    found = session.execute(f"PRINT '{topic}' FROM BEGINNING LIMIT 2")
    assert found.is_live
    assert [list(each)[2:] for each in found.rows] == [[0, "k", "v"], [1, None, "x'ff'"]]

    answer = session.execute(f"PRINT '{topic}'")
    send(player, topic, (b"n", b"new"))
    assert list(next(answer.rows))[2:] == [2, "n", "new"]
    answer.close()
    assert list(answer.rows) == []


@pytest.mark.parametrize(
    ("query", "message", "caret"),
    [
        ("SELECT nope FROM {name}", "nope", "nope"),
        ("SELECT n FROM nowhere", "there is no stream, table or topic nowhere", "nowhere"),
        ("SELECT n FRO {name} WHERE", "Syntax error", None),
        ("SELECT n FROM a.b", "stands in backticks: `a.b`", "a.b"),
        ("SELECT 1 EMIT CHANGES", "reads no stream", "SELECT"),
        ("SELECT topk(n, 2), nope FROM {name}", "nope", "nope"),
        ("SELECT 1 FROM {name} WINDOW SESSION (1 DAY) GROUP BY nope", "nope", "nope"),
        ("EXPLAIN SELECT nope FROM {name}", "nope", "nope"),
        (
            "WITH w AS (SELECT _timestamp, n FROM {name}) SELECT n FROM w WINDOW SESSION (1 DAY, "
            "GRACE PERIOD 1 DAY) GROUP BY n",
            "w is none",
            "WITH",
        ),
    ],
)
def test_errors_show_the_place(
    session: Session, name: str, query: str, message: str, caret: str | None
) -> None:
    session.execute(f"CREATE STREAM {name} (n INT) WITH (PARTITIONS=1)")
    with pytest.raises(StatementError) as caught:
        session.execute(query.format(name=name))
    first, line, mark = str(caught.value).splitlines()
    assert message in first
    if caret is not None:
        assert line.index(caret) == mark.index("^")


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("CREATE STREAM {name} (n INT)", "WITH (PARTITIONS=1) makes it"),
        ("CREATE STREAM {name} (n INT) WITH (PARTITIONS=1, TIMESTAMP='x')", "TIMESTAMP is x"),
        ("CREATE STREAM {name} (n INT) WITH (PARTITIONS=1, WATERMARK='soon')", "WATERMARK is"),
        ("CREATE STREAM {name} WITH (PARTITIONS=1)", "there is no registry"),
        ("CREATE STREAM {name} (n INT) WITH (PARTITIONS=1, VALUE_FORMAT='avro')", "a registry"),
        ("CREATE STREAM {name} WITH (PARTITIONS=1, VALUE_FORMAT='delimited')", "has no names"),
        ("DROP STREAM {name}", "there is no stream"),
        ("DESCRIBE {name}", "there is no stream, table or topic"),
        ("PRINT {name}", "there is no topic"),
        ("INSERT INTO {name} VALUES (1)", "there is no stream"),
        ("CREATE STREAM {name}_2 AS SELECT 1", "run by a server"),
        ("TERMINATE {name}", "run by a server"),
        ("EXPLAIN {name}", "there is no query"),
    ],
)
def test_statements_that_cannot_be_done(
    session: Session, name: str, statement: str, message: str
) -> None:
    with pytest.raises((StatementError, PipelineError), match=re.escape(message)):
        session.execute(statement.format(name=name))


def test_rows_that_do_not_fit_are_refused_before_one_is_written(
    session: Session, name: str
) -> None:
    session.execute(f"CREATE STREAM {name} (n INT, t TIMESTAMP) WITH (PARTITIONS=1)")
    for values, message in (
        ("(1), (2)", "1 values for 2 columns"),
        ("(1, NULL), ('x', NULL)", "row 2: n is 'x'"),
        ("(1, 'no time')", "t is 'no time'"),
    ):
        with pytest.raises(StatementError, match=message):
            session.execute(f"INSERT INTO {name} VALUES {values}")
    with pytest.raises(StatementError, match="has no column z"):
        session.execute(f"INSERT INTO {name} (z) VALUES (1)")
    assert rows(session, f"SELECT * FROM {name}") == []


def test_a_second_session_knows_the_streams(session: Session, new_session: Any, name: str) -> None:
    session.execute(f"CREATE STREAM {name} (n INT NOT NULL, o STRUCT<a INT>) WITH (PARTITIONS=1)")
    other = new_session()
    assert rows(other, f"DESCRIBE {name}") == [["n", "INT", ""], ["o", "STRUCT<`a` INT>", ""]]
    with pytest.raises(StatementError, match="is there already"):
        other.execute(f"CREATE STREAM {name} (n INT) WITH (PARTITIONS=1)")
    assert "already" in other.execute(f"CREATE STREAM IF NOT EXISTS {name} (n INT)").note
    other.execute(f"CREATE OR REPLACE STREAM {name} (m INT)")
    assert rows(session, f"DESCRIBE {name}") == [["m", "INT", ""]]
    words = other.words()
    assert name in words.names
    assert "m" in words.fields


def test_functions_are_shown(session: Session) -> None:
    shown = rows(session, "SHOW FUNCTIONS")
    assert ["abs", ""] in shown
    assert ["ARRAY_LENGTH(a)", "array_size(a)"] in shown
    assert {"abs", "ARRAY_LENGTH"} <= set(session.words().functions)
    own = {name.upper() for name, meaning in shown if not meaning}
    assert not own & (ALIASES.keys() | OTHERS.keys())


def test_functions_of_ksqldb_have_its_results(session: Session, name: str) -> None:
    session.execute(f"CREATE STREAM {name} (k STRING, n INT, t TIMESTAMP) WITH (PARTITIONS=1)")
    session.execute(
        f"INSERT INTO {name} VALUES ('a', 3, '2026-01-02T03:04:05Z'), ('a', 9, NULL), "
        "('a', 9, NULL), ('a', NULL, NULL)"
    )
    (groups,) = rows(
        session,
        "SELECT LATEST_BY_OFFSET(n), EARLIEST_BY_OFFSET(n), TOPK(n, 2), TOPKDISTINCT(n, 5), "
        f"COUNT_DISTINCT(n) FROM {name} GROUP BY k",
    )
    assert groups == [9, 3, [9, 9], [9, 3], 2]
    moment = 1767323045000
    for call, value in (
        ("ARRAY_LENGTH(array(1, 2))", 2),
        ("AS_VALUE(n)", 3),
        ("CONVERT_TZ(t, 'UTC', 'Asia/Tokyo')", "2026-01-02T12:04:05"),
        ("DATETOSTRING(1, 'yyyy-MM-dd')", "1970-01-02"),
        ("EXTRACTJSONFIELD('{\"a\": {\"b\": 1}}', '$.a.b')", "1"),
        ("FORMAT_DATE(FROM_DAYS(1), 'yyyy/MM/dd')", "1970/01/02"),
        ("FORMAT_TIMESTAMP(t, 'yyyy-MM-dd''T''HH:mm')", "2026-01-02T03:04"),
        ("FORMAT_TIMESTAMP(t, 'HH', 'Asia/Tokyo')", "12"),
        ("GENERATE_SERIES(3, 1)", [3, 2, 1]),
        ("GENERATE_SERIES(1, 5, 2)", [1, 3, 5]),
        ("JSON_KEYS('{\"a\": 1}')", ["a"]),
        ("PARSE_DATE('02.01.2026', 'dd.MM.yyyy')", "2026-01-02"),
        ("PARSE_TIMESTAMP('2026-01-02 03', 'yyyy-MM-dd HH')", "2026-01-02T03:00:00"),
        ("PARSE_TIMESTAMP('2026-01-02 09', 'yyyy-MM-dd HH', 'Asia/Tokyo')", "2026-01-02T00:00:00"),
        ("STRINGTODATE('1970-01-03', 'yyyy-MM-dd')", 2),
        ("STRINGTODATE('soon', 'yyyy-MM-dd')", None),
        ("STRINGTOTIMESTAMP('1970-01-01 00:00:01', 'yyyy-MM-dd HH:mm:ss')", 1000),
        ("STRINGTOTIMESTAMP('1970-01-01 09', 'yyyy-MM-dd HH', 'Asia/Tokyo')", 0),
        (f"TIMESTAMPTOSTRING({moment}, 'yyyy-MM-dd HH:mm:ss.SSS')", "2026-01-02 03:04:05.000"),
        (f"TIMESTAMPTOSTRING({moment}, 'HH', 'Asia/Tokyo')", "12"),
        ("URL_EXTRACT_HOST('http://a.b:1/c')", "a.b"),
        ("URL_EXTRACT_PROTOCOL('http://a.b:1/c')", "http"),
    ):
        assert rows(session, f"SELECT {call} FROM {name} WHERE t IS NOT NULL") == [[value]], call


def test_windows_of_ksqldb_are_counted(session: Session, name: str) -> None:
    session.execute(
        f"CREATE STREAM {name} (k STRING, at BIGINT) WITH (PARTITIONS=1, TIMESTAMP='at')"
    )
    session.execute(f"INSERT INTO {name} VALUES ('a', 601000), ('a', 605000), ('a', 661000)")

    def counts(window: str) -> list[list[int]]:
        return rows(
            session,
            f"SELECT WINDOWSTART, WINDOWEND, count(*) AS n FROM {name} WINDOW {window} "
            "WHERE k = 'a' GROUP BY k HAVING WINDOWEND > 0 ORDER BY 1",
        )

    assert counts("TUMBLING (SIZE 1 MINUTE)") == [[600_000, 660_000, 2], [660_000, 720_000, 1]]
    assert counts("HOPPING (SIZE 1 MINUTE, ADVANCE BY 30 SECONDS)") == [
        [570_000, 630_000, 2],
        [600_000, 660_000, 2],
        [630_000, 690_000, 1],
        [660_000, 720_000, 1],
    ]
    assert counts("SESSION (4 SECONDS)") == [[601_000, 605_000, 2], [661_000, 661_000, 1]]
    answer = session.execute(
        f"SELECT k, WINDOWSTART, count(*) AS n FROM {name} WINDOW SESSION (10 SECONDS, "
        "GRACE PERIOD 1 SECOND) GROUP BY k EMIT CHANGES FROM BEGINNING LIMIT 1"
    )
    assert [each.name for each in answer.columns] == ["k", "WINDOWSTART", "n"]
    assert [list(each) for each in answer.rows] == [["a", 601_000, 2]]


def test_queries_are_explained(session: Session, name: str) -> None:
    session.execute(f"CREATE STREAM {name} (k STRING, n INT) WITH (PARTITIONS=1)")
    for end in ("", " EMIT CHANGES"):
        answer = session.execute(f"EXPLAIN SELECT k, topk(n, 3) AS t FROM {name} GROUP BY k{end}")
        (first, *_, last) = [row[0] for row in answer.rows]
        assert first.startswith("Aggregate [k], [k, max_by(")
        assert "raftka" in last
        assert answer.note == f"reads {name.lower()}"


def test_groups_of_a_tables_changes_are_refused(session: Session, name: str) -> None:
    session.execute(f"CREATE TABLE {name} (id STRING PRIMARY KEY, x INT) WITH (PARTITIONS=1)")
    for query in (
        f"SELECT count(*) FROM {name}",
        f"SELECT id FROM (SELECT DISTINCT id FROM {name})",
    ):
        with pytest.raises(StatementError, match=f"{name} is a table: .* its changes, not its"):
            session.execute(f"{query} EMIT CHANGES")
        assert session.execute(query).columns
    live = session.execute(f"SELECT * FROM {name} EMIT CHANGES")
    assert live.is_live
    live.close()


def test_an_error_of_an_expression_is_a_sentence(session: Session) -> None:
    with pytest.raises(PipelineError) as failed:
        rows(session, "SELECT 1/0", 1)
    assert str(failed.value).startswith("Division by zero. Use `try_divide`")
    assert "SQL" not in str(failed.value)
    with pytest.raises(StatementError) as refused:
        session.execute("SELECT y FROM (SELECT 1 AS x)")
    assert "line 1" not in str(refused.value)


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("SELECT TRANSFORM(k) USING 'cat' AS (x STRING) FROM {s}", "runs a program"),
        ("WITH a AS (SELECT TRANSFORM(k) USING 'cat' FROM {s}) SELECT * FROM a", "runs a program"),
        (
            "SELECT 1 FROM {s} WHERE k IN (SELECT TRANSFORM(k) USING 'cat' FROM {s})",
            "runs a program",
        ),
        ("SELECT reflect('java.lang.System', 'gc')", "any class of Java"),
        ("SELECT system.builtin.`java_method` ('java.lang.System', 'gc')", "any class of Java"),
        (
            "WITH a AS (SELECT 1) INSERT OVERWRITE LOCAL DIRECTORY '{f}' USING csv SELECT * FROM a",
            "a query reads",
        ),
        (
            "FROM {s} INSERT OVERWRITE LOCAL DIRECTORY '{f}' USING csv SELECT k",
            r"a query reads|is no statement|begins",
        ),
        ("SELECT * FROM text.`/etc/hostname`", "there is no table"),
        ("SELECT * FROM csv.`{f}`", "there is no table"),
    ],
)
def test_a_query_does_nothing_on_the_servers_machine(
    session: Session, name: str, tmp_path: Path, query: str, told: str
) -> None:
    session.execute(f"CREATE STREAM {name} (k STRING) WITH (PARTITIONS=1)")
    for end in ("", " EMIT CHANGES"):
        with pytest.raises((StatementError, PipelineError), match=told):
            session.execute(query.format(s=name, f=tmp_path / "written") + end)
    assert not (tmp_path / "written").exists()


def test_the_function_transform_is_none_of_these(session: Session) -> None:
    assert rows(session, "SELECT transform(array(1, 2), x -> x + 1), struct(1 AS a)") == [
        [[2, 3], {"a": 1}]
    ]
