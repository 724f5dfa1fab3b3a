"""Joins, tables of tables and tables with windows in a real Spark: late rows, deleted rows, nulls,
servers that are killed, and planted bugs that these rules find.
"""

import json
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytest.importorskip(
    "pyspark",
    reason="PySpark is not installed: ./run setup pipeline installs it into .venv/ (1 GB)",
)

from raftka.client.blocking.producer import Producer
from raftka.pipeline.errors import PipelineError
from raftka.sql.engine import outputs, persistent, table_joins
from raftka.sql.engine.analysis import _Analysis
from raftka.sql.hosting import ELSEWHERE
from raftka.sql.language import StatementError
from raftka.sql.language.going_on import Prepared
from raftka.sql.session import Session
from raftka.testing import Cluster
from tests.kit import sql_queries
from tests.kit.sql_children import Child
from tests.kit.sql_queries import wait
from tests.pipeline.players import Player
from tests.sql.conftest import NewSession

pytestmark = pytest.mark.filterwarnings("default")

NUMBERS = count()


class Setup(NamedTuple):
    """Streams and tables, of names that nothing has yet; statements have {} in place of theirs."""

    session: Session
    cluster: Cluster
    player: Player
    name: str

    def execute(self, *statements: str) -> None:
        for each in statements:
            self.session.execute(each.replace("@", self.name))

    def rows(self, text: str, limit: int | None = None) -> list[Any]:
        answer = self.session.execute(text.replace("@", self.name), limit)
        return [list(each) for each in answer.rows]

    def values(self, topic: str) -> list[Any]:
        return list(self.cluster.values(topic.replace("@", self.name), json, read_committed=True))

    def delete(self, topic: str, key: bytes) -> None:
        producer = Producer(self.player.brokers)
        producer.add((topic.replace("@", self.name), 0), (key, None, (), 1_700_000_000_000))
        producer.flush()


@pytest.fixture
def setup(
    new_session: NewSession, cluster: Cluster, player: Player, tmp_path: Path
) -> Iterator[Setup]:
    session = new_session(tmp_path / "own state")
    yield Setup(session, cluster, player, f"j{next(NUMBERS)}")
    for name, state, *_ in list(session.execute("SHOW QUERIES").rows):
        if state != ELSEWHERE:
            session.execute(f"TERMINATE {name}")


STREAM = "CREATE STREAM @s (k STRING, n INT) WITH (PARTITIONS=2)"
TABLE = "CREATE TABLE @t (id STRING PRIMARY KEY, m INT) WITH (PARTITIONS=1)"


# streams with tables


def a_row_has_the_newest_row_of_the_table(setup: Setup) -> None:
    setup.execute(STREAM, TABLE)
    setup.execute("INSERT INTO @t VALUES ('a', 1), ('b', 2), ('a', 3)")
    setup.execute("INSERT INTO @s VALUES ('a', 10), ('b', 20), ('c', 30), (NULL, 40)")
    setup.execute(
        "CREATE STREAM @in WITH (PARTITIONS=1) AS SELECT s.k, n, m FROM @s s JOIN @t t "
        "ON s.k = t.id",
        "CREATE STREAM @left WITH (PARTITIONS=1) AS SELECT s.k, n, t.id AS id, m FROM @s s "
        "LEFT JOIN @t t ON t.id = s.k WHERE n > 10",
    )

    def seen(topic: str) -> list[Any]:
        return sorted(setup.values(topic), key=lambda each: each["n"])

    wait(lambda: len(setup.values("@in")) >= 2 and len(setup.values("@left")) >= 3)
    assert seen("@in") == [{"k": "a", "n": 10, "m": 3}, {"k": "b", "n": 20, "m": 2}]
    assert seen("@left") == [{"k": "b", "n": 20, "id": "b", "m": 2}, {"k": "c", "n": 30}, {"n": 40}]
    setup.delete("@t", b"b")
    setup.execute("INSERT INTO @t VALUES ('c', 5)", "INSERT INTO @s VALUES ('b', 50), ('c', 60)")
    wait(lambda: len(setup.values("@left")) >= 5)
    assert seen("@left")[3:] == [{"k": "b", "n": 50}, {"k": "c", "n": 60, "id": "c", "m": 5}]
    wait(lambda: len(setup.values("@in")) >= 3)
    assert seen("@in")[2:] == [{"k": "c", "n": 60, "m": 5}]


def test_a_row_of_a_stream_has_the_newest_row_of_a_table(setup: Setup) -> None:
    a_row_has_the_newest_row_of_the_table(setup)


def test_a_stream_is_joined_with_several_tables_by_any_expression(setup: Setup) -> None:
    setup.execute(
        STREAM, TABLE, "CREATE TABLE @u (id INT PRIMARY KEY, x ARRAY<STRING>) WITH (PARTITIONS=1)"
    )
    setup.execute("INSERT INTO @t VALUES ('A', 7)", "INSERT INTO @u VALUES (7, ARRAY['y'])")
    setup.execute("INSERT INTO @s VALUES ('a', 1), ('b', 2)")
    setup.execute(
        "CREATE STREAM @o WITH (PARTITIONS=1) AS SELECT @s.*, t.id AS tid, x[0] AS x FROM @s "
        "LEFT JOIN @t AS t ON (upper(@s.k) = t.id) LEFT JOIN @u ON t.m = @u.id PARTITION BY k"
    )
    wait(lambda: len(setup.values("@o")) >= 2)
    assert setup.rows("SELECT * FROM @o ORDER BY k") == [["a", 1, "A", "y"], ["b", 2, None, None]]


def test_rows_of_a_join_with_a_table_come_as_they_are_written(setup: Setup) -> None:
    setup.execute(STREAM, TABLE, "INSERT INTO @t VALUES ('a', 1)", "INSERT INTO @s VALUES ('a', 2)")
    text = "FROM @s s JOIN @t t ON s.k = t.id EMIT CHANGES FROM BEGINNING LIMIT 1"
    assert setup.rows(f"SELECT * {text}") == [["a", 2, "a", 1]]
    assert setup.rows(f"SELECT m, count(*) AS c {text.replace('EMIT', 'GROUP BY m EMIT')}") == [
        [1, 1]
    ]


# two tables


def rows_leave_a_join_of_tables(setup: Setup) -> None:
    setup.execute(
        TABLE,
        "CREATE TABLE @u (id STRING PRIMARY KEY, v STRING) WITH (PARTITIONS=1)",
        "INSERT INTO @t VALUES ('a', 1), ('b', 2), ('c', 3)",
        "INSERT INTO @u VALUES ('a', 'x'), ('d', 'y')",
        "CREATE TABLE @in WITH (PARTITIONS=1) AS SELECT t.id, m, v FROM @t t JOIN @u u "
        "ON t.id = u.id",
        "CREATE TABLE @left WITH (PARTITIONS=1) AS SELECT t.id AS id, m, v FROM @t t "
        "LEFT JOIN @u u ON u.id = t.id WHERE m > 1 OR v IS NOT NULL",
        "CREATE TABLE @full WITH (PARTITIONS=1) AS SELECT coalesce(t.id, u.id) AS id, m, v "
        "FROM @t t FULL OUTER JOIN @u u ON t.id = u.id",
        "CREATE TABLE @right WITH (PARTITIONS=1) AS SELECT m, u.id, v FROM @t t RIGHT JOIN @u u "
        "ON t.id = u.id",
    )

    def table(name: str) -> list[Any]:
        return setup.rows(f"SELECT * FROM @{name} ORDER BY id")

    wait(lambda: table("in") == [["a", 1, "x"]])
    wait(lambda: table("left") == [["a", 1, "x"], ["b", 2, None], ["c", 3, None]])
    full = [["a", 1, "x"], ["b", 2, None], ["c", 3, None], ["d", None, "y"]]
    wait(lambda: table("full") == full)
    setup.delete("@u", b"a")
    setup.execute("INSERT INTO @u VALUES ('b', 'z')", "INSERT INTO @t VALUES ('b', 9), ('c', 0)")
    setup.delete("@u", b"d")
    wait(lambda: table("in") == [["b", 9, "z"]])
    wait(lambda: table("left") == [["b", 9, "z"]])
    wait(lambda: table("full") == [["a", 1, None], ["b", 9, "z"], ["c", 0, None]])
    wait(lambda: table("right") == [[9, "b", "z"]])
    assert setup.rows("SELECT t.id, v FROM @t t JOIN @u u ON t.id = u.id EMIT CHANGES LIMIT 1") == [
        ["b", "z"]
    ]


def test_rows_leave_a_join_of_tables(setup: Setup) -> None:
    rows_leave_a_join_of_tables(setup)


def test_a_row_of_a_table_follows_the_row_that_it_names(setup: Setup) -> None:
    setup.execute(
        "CREATE TABLE @o (id BIGINT PRIMARY KEY, who STRING) WITH (PARTITIONS=1)",
        "CREATE TABLE @c (name STRING PRIMARY KEY, city STRING) WITH (PARTITIONS=1)",
        "INSERT INTO @o VALUES (1, 'a'), (2, 'a'), (3, 'b'), (4, NULL)",
        "INSERT INTO @c VALUES ('a', 'Bern'), ('c', 'Rom')",
        "CREATE TABLE @in WITH (PARTITIONS=1) AS SELECT o.id, city FROM @o o JOIN @c c "
        "ON o.who = c.name",
        "CREATE TABLE @left WITH (PARTITIONS=1) AS SELECT o.id, city FROM @o o LEFT JOIN @c c "
        "ON o.who = c.name",
    )

    def table(name: str) -> list[Any]:
        return setup.rows(f"SELECT * FROM @{name} ORDER BY id")

    wait(lambda: table("in") == [[1, "Bern"], [2, "Bern"]])
    wait(lambda: table("left") == [[1, "Bern"], [2, "Bern"], [3, None], [4, None]])
    setup.execute("INSERT INTO @c VALUES ('a', 'Oslo')", "INSERT INTO @o VALUES (2, 'c')")
    wait(lambda: table("in") == [[1, "Oslo"], [2, "Rom"]])
    setup.delete("@o", b"1")
    setup.delete("@c", b"c")
    wait(lambda: table("in") == [])
    wait(lambda: table("left") == [[2, None], [3, None], [4, None]])


# tables of tables, HAVING


def rows_leave_a_table_of_a_table(setup: Setup) -> None:
    setup.execute(
        TABLE,
        "INSERT INTO @t VALUES ('a', 1), ('b', 20), ('c', 30)",
        "CREATE TABLE @o WITH (PARTITIONS=1) AS SELECT *, m * 2 AS twice FROM @t WHERE m > 10",
        "CREATE STREAM @s (k STRING, n INT) WITH (PARTITIONS=1)",
        "INSERT INTO @s VALUES ('a', 1), ('a', 1), ('b', 1)",
        "CREATE TABLE @h WITH (PARTITIONS=1) AS SELECT k, sum(n) AS total FROM @s GROUP BY k "
        "HAVING total > 1 AND sum(n) < 3",
    )
    wait(lambda: setup.rows("SELECT * FROM @o ORDER BY id") == [["b", 20, 40], ["c", 30, 60]])
    wait(lambda: setup.rows("SELECT * FROM @h ORDER BY k") == [["a", 2]])
    setup.delete("@t", b"c")
    setup.execute(
        "INSERT INTO @t VALUES ('b', 5), ('a', 11)", "INSERT INTO @s VALUES ('a', 1), ('b', 1)"
    )
    wait(lambda: setup.rows("SELECT * FROM @o ORDER BY id") == [["a", 11, 22]])
    wait(lambda: setup.rows("SELECT * FROM @h ORDER BY k") == [["b", 2]])


def test_rows_leave_a_table_of_a_table_and_groups_leave_having(setup: Setup) -> None:
    rows_leave_a_table_of_a_table(setup)


def behind_on_stands_no_class_of_java(setup: Setup) -> None:
    setup.execute(STREAM, TABLE)
    for call in ("reflect('java.lang.System', 'getenv', s.k)", "(SELECT java_method('x', 'y'))"):
        message = ""
        try:
            setup.execute(f"CREATE STREAM @o AS SELECT k FROM @s s JOIN @t t ON {call} = t.id")
        except StatementError as error:
            message = str(error)
        assert "any class of Java" in message
        _, line, mark = message.splitlines()
        assert line[mark.index("^") :].startswith(("reflect", "java_method"))


def test_words_behind_on_are_checked_as_all_others(setup: Setup) -> None:
    behind_on_stands_no_class_of_java(setup)


def test_behind_on_stand_columns_of_the_record_and_functions_in_python(setup: Setup) -> None:
    call = f"lower_{setup.name}"
    setup.session.execute(
        f"CREATE FUNCTION {call} AS 'import raftka.sql\n\n\n"
        f'@raftka.sql.function(returns="STRING")\ndef {call}(text):\n    return text.lower()\n\''
    )
    setup.execute(
        "CREATE STREAM @s (k STRING KEY, n INT) WITH (PARTITIONS=1)",
        TABLE,
        "INSERT INTO @t VALUES ('a', 1)",
        "INSERT INTO @s VALUES ('a', 10), ('A', 20)",
    )
    for name, on in (("@o", "s._key"), ("@p", f"{call}(s.k)")):
        setup.execute(
            f"CREATE STREAM {name} WITH (PARTITIONS=1) AS SELECT s.n, t.m FROM @s s "
            f"LEFT JOIN @t t ON {on} = t.id"
        )
    wait(lambda: len(setup.values("@o")) >= 2 and len(setup.values("@p")) >= 2)
    assert setup.values("@o") == [{"n": 10, "m": 1}, {"n": 20}]
    assert setup.values("@p") == [{"n": 10, "m": 1}, {"n": 20, "m": 1}]


def test_a_table_of_a_table_with_windows_has_its_key(setup: Setup) -> None:
    setup.execute(
        "CREATE STREAM @s (k STRING, n INT, at BIGINT) WITH (PARTITIONS=1, TIMESTAMP='at')",
        "CREATE TABLE @w WITH (PARTITIONS=1) AS SELECT k, sum(n) AS total FROM @s "
        "WINDOW TUMBLING (SIZE 1 MINUTE) GROUP BY k",
        "CREATE TABLE @few WITH (PARTITIONS=1) AS SELECT WINDOWSTART AS at, total, k AS name "
        "FROM @w WHERE total < 10",
        "INSERT INTO @s VALUES ('a', 1, 0), ('a', 2, 60000), ('b', 3, 0)",
    )
    rows = [["a", 0, 1], ["a", 60000, 2], ["b", 0, 3]]
    question = "SELECT name, at, total FROM @few ORDER BY name, at"
    wait(lambda: setup.rows(question) == rows)
    setup.execute("INSERT INTO @s VALUES ('a', 50, 0)")
    wait(lambda: setup.rows(question) == rows[1:])
    with pytest.raises(StatementError, match="the key of the table is windowstart"):
        setup.execute("CREATE TABLE @o AS SELECT k, total FROM @w")


# tables with windows


EVENTS = "CREATE STREAM @s (k STRING, at BIGINT) WITH (PARTITIONS=1, TIMESTAMP='at')"


def test_open_windows_are_updated_and_late_rows_left_out(setup: Setup) -> None:
    setup.execute(
        EVENTS,
        "INSERT INTO @s VALUES ('a', 1000), ('b', 2000), ('a', 61000)",
        "CREATE TABLE @w WITH (PARTITIONS=1) AS SELECT k, count(*) AS n FROM @s "
        "WINDOW TUMBLING (SIZE 1 MINUTE, GRACE PERIOD 1 SECOND) GROUP BY k",
    )
    question = "SELECT k, WINDOWSTART, WINDOWEND, n FROM @w ORDER BY WINDOWSTART, k"
    first = [["a", 0, 60000, 1], ["b", 0, 60000, 1], ["a", 60000, 120000, 1]]
    wait(lambda: setup.rows(question) == first)
    setup.execute("INSERT INTO @s VALUES ('a', 62000)")
    second = [*first[:2], ["a", 60000, 120000, 2]]
    wait(lambda: setup.rows(question) == second)
    setup.execute("INSERT INTO @s VALUES ('b', 2500)", "INSERT INTO @s VALUES ('a', 63000)")
    wait(lambda: setup.rows(question) == [*first[:2], ["a", 60000, 120000, 3]])
    keys = {each.key for each in setup.cluster.records(f"{setup.name}w", read_committed=True)}
    assert b'{"k":"a","WINDOWSTART":60000}' in keys
    assert setup.rows("DESCRIBE @w")[0] == ["k", "STRING", "PRIMARY KEY"]


def test_final_windows_and_sessions_are_written_once(setup: Setup) -> None:
    setup.execute(
        EVENTS,
        "CREATE TABLE @w WITH (PARTITIONS=1) AS SELECT WINDOWSTART AS begin, k, count(*) AS n "
        "FROM @s WINDOW SESSION (10 SECONDS, GRACE PERIOD 1 SECOND) GROUP BY k "
        "HAVING count(*) > 1 EMIT FINAL",
        "INSERT INTO @s VALUES ('b', 900), ('a', 1000), ('a', 5000), ('a', 60000)",
        "INSERT INTO @s VALUES ('a', 60001)",
    )
    wait(lambda: len(setup.values("@w")) >= 1)
    assert setup.rows("SELECT * FROM @w") == [["a", 1000, 2, 5000]]
    assert [each.key for each in setup.cluster.records(f"{setup.name}w", read_committed=True)] == [
        b'{"k":"a","begin":1000}'
    ]


def test_several_columns_of_group_by_are_the_key(setup: Setup) -> None:
    setup.execute(
        STREAM,
        "INSERT INTO @s VALUES ('a', 1), ('a', 1), ('b', 1), (NULL, 1)",
        "CREATE TABLE @c WITH (PARTITIONS=1) AS SELECT count(*) AS c, n, k FROM @s GROUP BY k, n",
    )
    wait(lambda: setup.rows("SELECT k, n, c FROM @c ORDER BY k") == [["a", 1, 2], ["b", 1, 1]])
    setup.execute("INSERT INTO @c (k, n, c) VALUES ('a', 1, 7)")
    assert setup.rows("SELECT c FROM @c WHERE k = 'a'") == [[7]]


# two streams


def test_streams_are_joined_within_a_time(setup: Setup) -> None:
    setup.execute(
        "CREATE STREAM @a (x STRING, at BIGINT) WITH (PARTITIONS=1, TIMESTAMP='at')",
        "CREATE STREAM @b (y STRING, at BIGINT) WITH (PARTITIONS=1, TIMESTAMP='at')",
        "CREATE STREAM @in WITH (PARTITIONS=1) AS SELECT x, a.at AS t, b.at AS u FROM @a a JOIN "
        "@b b WITHIN (5 SECONDS, 10 SECONDS) GRACE PERIOD 1 SECOND ON a.x = b.y",
        "CREATE STREAM @left WITH (PARTITIONS=1) AS SELECT x, a.at AS t, b.at AS u FROM @a a "
        "LEFT JOIN @b b WITHIN 10 SECONDS GRACE PERIOD 1 SECOND ON a.x = b.y",
        "INSERT INTO @a VALUES ('k', 100000), ('only', 100000), (NULL, 100000)",
        "INSERT INTO @b VALUES ('k', 94000), ('k', 95000), ('k', 110000), ('k', 111000)",
    )
    wait(lambda: len(setup.values("@in")) >= 2)
    for second in (200, 300, 400):
        setup.execute(f"INSERT INTO @a VALUES ('z', {second}000)")
        setup.execute(f"INSERT INTO @b VALUES ('z', {second + 50}000)")
    wait(lambda: any(each.get("x") == "z" for each in setup.values("@left")))

    def seen(topic: str) -> list[Any]:
        rows = [
            (each.get("x"), each.get("u")) for each in setup.values(topic) if each["t"] == 100000
        ]
        return sorted(rows, key=str)

    assert seen("@in") == [("k", 110000), ("k", 95000)]
    assert seen("@left") == [
        ("k", 110000), ("k", 94000), ("k", 95000), ("only", None), (None, None)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (
            "CREATE STREAM @o AS SELECT s.k FROM @s s LEFT JOIN @s2 b WITHIN 1 MINUTE ON s.k = b.k",
            "GRACE PERIOD 1 MINUTE",
        ),
        ("CREATE STREAM @o AS SELECT k FROM @s JOIN @t WITHIN 1 DAY ON k = id", "leave WITHIN out"),
        ("CREATE STREAM @o AS SELECT k FROM @s JOIN @t ON k = m", "ON its key"),
        ("CREATE STREAM @o AS SELECT k FROM @s JOIN @t ON nope = id", "`nope` cannot be resolved"),
        ("CREATE STREAM @o AS SELECT k FROM missing JOIN @t ON k = id", "topic missing. There are"),
        ("CREATE STREAM @o AS SELECT s.k FROM @s s JOIN @s2 b ON s.k = b.k", "WITHIN 10 MINUTES"),
        ("CREATE STREAM @o AS SELECT k FROM @s RIGHT JOIN @t ON k = id", "RIGHT JOIN"),
        ("CREATE STREAM @o AS SELECT id FROM @t", "is a table"),
        ("CREATE STREAM @o AS SELECT m FROM @t JOIN @t2 ON @t.id = @t2.id", "is a table"),
        ("CREATE TABLE @o AS SELECT m, count(*) AS c FROM @t GROUP BY m", "GROUP BY of a table"),
        ("CREATE TABLE @o AS SELECT DISTINCT id FROM @t", "leave other words out"),
        ("CREATE TABLE @o AS SELECT m FROM @t", "the key of the table is id"),
        ("CREATE TABLE @o AS SELECT m FROM @t a JOIN @t2 b ON a.id = b.id", "a.id. Next step"),
        ("CREATE TABLE @o AS SELECT @t.id FROM @t FULL JOIN @t2 ON @t.m = @t2.id", "no key"),
        (
            "CREATE TABLE @o AS SELECT k, count(*) AS c FROM @s WINDOW SESSION (1 DAY) GROUP BY k",
            "EMIT FINAL",
        ),
        (
            "SELECT m, count(*) FROM @t a JOIN @t2 b ON a.id = b.id GROUP BY m EMIT CHANGES",
            "would count its changes",
        ),
    ],
)
def test_joins_that_would_be_wrong_are_refused(setup: Setup, statement: str, message: str) -> None:
    setup.execute(
        STREAM,
        TABLE,
        "CREATE STREAM @s2 (k STRING) WITH (PARTITIONS=1)",
        "CREATE TABLE @t2 (id STRING PRIMARY KEY, v INT) WITH (PARTITIONS=1)",
    )
    with pytest.raises((StatementError, PipelineError)) as caught:
        setup.execute(statement)
    sentence, *place = str(caught.value).splitlines()
    assert message in sentence
    assert len(place) in (0, 2)


# servers that are killed


def test_a_killed_server_has_its_tables_and_each_row_once(
    setup: Setup, start_child: Callable[[], Child]
) -> None:
    keys = ", ".join(f"('{key}', {key % 3})" for key in range(20))
    setup.execute(
        STREAM,
        TABLE,
        "CREATE TABLE @u (id INT PRIMARY KEY, v STRING) WITH (PARTITIONS=1)",
        f"INSERT INTO @t VALUES {keys}",
        "INSERT INTO @u VALUES (0, 'x'), (1, 'y'), (2, 'z')",
    )
    child = start_child()
    for text in (
        "CREATE STREAM @o WITH (PARTITIONS=2) AS SELECT n, m FROM @s s LEFT JOIN @t t "
        "ON s.k = t.id",
        "CREATE TABLE @j WITH (PARTITIONS=1) AS SELECT t.id, v FROM @t t JOIN @u u ON t.m = u.id",
        "CREATE TABLE @w WITH (PARTITIONS=1) AS SELECT k, count(*) AS c FROM @s "
        "WINDOW TUMBLING (SIZE 3650 DAYS) GROUP BY k",
    ):
        assert "writes to" in child.execute(text.replace("@", setup.name))
    total = 0

    def insert(count: int) -> None:
        nonlocal total
        rows = ", ".join(f"('{each % 25}', {each})" for each in range(total, total + count))
        setup.execute(f"INSERT INTO @s VALUES {rows}")
        total += count

    for _ in range(2):
        seen = len(setup.values("@o"))
        insert(200)
        wait(lambda seen=seen: len(setup.values("@o")) > seen)  # type: ignore[misc]
        insert(200)
        child.kill()
        insert(100)
        child = start_child()
    wait(lambda: len(setup.values("@o")) >= total)
    assert sorted((each["n"], each.get("m")) for each in setup.values("@o")) == [
        (n, n % 25 % 3 if n % 25 < 20 else None) for n in range(total)
    ]
    setup.execute("INSERT INTO @u VALUES (1, 'new')", "INSERT INTO @t VALUES ('0', 1)")
    expected = [[str(key), ("x", "new", "z")[key % 3] if key else "new"] for key in range(20)]
    wait(lambda: setup.rows("SELECT id, v FROM @j ORDER BY int(id)") == expected)
    counts = [[str(key), total // 25] for key in range(25)]
    wait(lambda: setup.rows("SELECT k, c FROM @w ORDER BY int(k)") == counts)
    for query in ("csas_@o", "ctas_@j", "ctas_@w"):
        assert "terminated" in child.execute(f"TERMINATE {query}".replace("@", setup.name))


def test_a_query_whose_tables_are_lost_does_not_go_on(tmp_path: Path) -> None:
    file = table_joins._file(tmp_path, "_joined_0")
    assert file.is_file()
    (tmp_path / "commits").mkdir()
    (tmp_path / "commits" / "0").touch()
    assert table_joins._file(tmp_path, "_joined_0") == file
    file.unlink()
    with pytest.raises(PipelineError, match="create it anew"):
        table_joins._file(tmp_path, "_joined_0")


# planted bugs: a rule that waits does so for a while only


def rows_that_leave_stay(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(outputs, "IS_ROW", "no such column")


def tables_are_read_in_pieces(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(persistent, "BEGIN", persistent.BEGIN._replace(at_once=1))
    changes = _Analysis.changes
    patch.setattr(
        _Analysis, "changes", lambda found, name, at_once: changes(found, name, at_once=False)
    )


def words_behind_on_are_hidden(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Prepared, "unjoined", Prepared.text)


@pytest.mark.parametrize(
    ("bug", "rule"),
    [
        (words_behind_on_are_hidden, behind_on_stands_no_class_of_java),
        (rows_that_leave_stay, rows_leave_a_table_of_a_table),
        (tables_are_read_in_pieces, a_row_has_the_newest_row_of_the_table),
    ],
    ids=lambda each: each.__name__,
)
def test_a_planted_bug_is_found(
    setup: Setup,
    bug: Callable[[pytest.MonkeyPatch], None],
    rule: Callable[[Setup], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bug(monkeypatch)
    monkeypatch.setattr(sql_queries, "PATIENCE_S", 30.0)
    with pytest.raises(AssertionError):
        rule(setup)
