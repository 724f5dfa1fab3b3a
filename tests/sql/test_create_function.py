"""CREATE FUNCTION in a real Spark: questions and queries call Python, and its errors are theirs."""

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip(
    "pyspark",
    reason="PySpark is not installed: ./run setup pipeline installs it into .venv/ (1 GB)",
)

from raftka.pipeline.errors import PipelineError
from raftka.sql.language import StatementError
from raftka.sql.session import Session
from raftka.testing import Cluster
from tests.kit.sql_server import wait_for
from tests.sql.conftest import NewSession

pytestmark = pytest.mark.filterwarnings("default")

DIVIDED = """import raftka.sql
@raftka.sql.function(returns="DECIMAL(9, 2)")
def divided(n, by):
    from decimal import Decimal
    return None if n is None else Decimal(n) / by
"""
PARTS = """from raftka.sql import function
@function(returns="STRUCT<first STRING, rest ARRAY<STRING>>")
def parts(text, letter="-"):
    first, *rest = text.split(letter)
    return {"first": first, "rest": rest}
"""
LOUD = """from raftka.sql import function
import pyarrow.compute as pc
@function(returns="STRING", arrow=True)
def loud(words):
    return pc.utf8_upper(words)
"""


@pytest.fixture
def name(cluster: Cluster) -> str:
    """Return a name that no topic has yet."""
    return cluster.create_topic().replace("-", "_") + "_s"


@pytest.fixture
def server(new_session: NewSession, tmp_path: Path) -> Session:
    return new_session(tmp_path / "state")


def create(name: str, code: str, words: str = "CREATE") -> str:
    escaped = code.replace("\\", "\\\\").replace("'", "''")
    return f"{words} FUNCTION {name} AS '{escaped}'"


def rows(session: Session, text: str) -> list[Any]:
    return [list(each) for each in session.execute(text).rows]


def column_of(session: Session, query: str, column: str) -> Any:
    answer = session.execute("SHOW QUERIES")
    names = [each.name for each in answer.columns]
    (row,) = [each for each in answer.rows if each[0] == query]
    return row[names.index(column)]


def test_questions_call_functions(session: Session) -> None:
    made = session.execute(create("divided", DIVIDED))
    assert made.note == "divided(n, by) DECIMAL(9, 2) is a function"
    session.execute(create("parts", PARTS))
    session.execute(create("loud", LOUD))
    (found,) = rows(
        session,
        "SELECT cast(divided(5, 2) AS STRING), Divided(NULL, 2), parts('a-b-c'), "
        "parts('a-b', 'b').first, loud('x')",
    )
    assert found == ["2.50", None, {"first": "a", "rest": ["b", "c"]}, "a-", "X"]
    assert ["loud(words) STRING", "Python"] in rows(session, "SHOW FUNCTIONS")
    assert rows(session, "DESCRIBE FUNCTION divided")[2][1] == "def divided(n, by):"
    assert rows(session, "DESCRIBE FUNCTION topk") == [["TOPK(a, b)", "max_by(a, a, b)"]]
    assert "abs" in rows(session, "DESCRIBE FUNCTION abs")[0][1]
    assert "loud" in session.words().functions
    with pytest.raises(PipelineError) as failed:
        rows(session, "SELECT divided(n, 0) FROM VALUES (1), (7) AS t(n)")
    assert "the function divided(" in str(failed.value)
    assert "line 5: DivisionByZero" in str(failed.value)
    with pytest.raises(PipelineError, match=r"loud\(words\) was given 2 arguments"):
        rows(session, "SELECT loud('a', 'b')")
    for each in ("divided", "parts", "loud"):
        session.execute(f"DROP FUNCTION {each}")
    with pytest.raises(StatementError, match="loud"):
        rows(session, "SELECT loud('a')")


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (create("broken", "raise KeyError(1)\n" + LOUD), "cannot be loaded: line 1: KeyError 1"),
        (create("broken", "x ="), "invalid syntax"),
        (create("abs", LOUD), "is a function of Spark"),
        (create("topk", LOUD), "is a function of ksqlDB"),
        ("CREATE FUNCTION f FROM 'f.py'", "the prompt reads the file"),
        ("DROP FUNCTION nothing", "there is no function nothing"),
        ("DESCRIBE FUNCTION nothing", "there is no function nothing"),
        ("DESCRIBE FUNCTION json_records", "Next step: from_json"),
    ],
)
def test_statements_that_are_refused(session: Session, statement: str, message: str) -> None:
    with pytest.raises((StatementError, PipelineError)) as refused:
        session.execute(statement)
    assert message in str(refused.value)


def test_a_query_calls_a_function_again_after_a_restart_and_its_error_is_its_own(
    server: Session, new_session: NewSession, name: str, cluster: Cluster, tmp_path: Path
) -> None:
    server.execute(f"CREATE STREAM {name} (n INT) WITH (PARTITIONS=1)")
    call = f"f_{name}"
    code = DIVIDED.replace("divided", call)
    server.execute(create(call, code))
    out, other = f"{name}_out", f"{name}_other"
    server.execute(
        f"CREATE STREAM {out} WITH (PARTITIONS=1) AS SELECT cast({call}(10, n) AS INT) AS n "
        f"FROM {name}"
    )
    server.execute(f"CREATE STREAM {other} WITH (PARTITIONS=1) AS SELECT n FROM {name}")
    server.execute(f"INSERT INTO {name} VALUES (5)")

    def numbers(topic: str) -> list[Any]:
        return [each["n"] for each in cluster.values(topic, json, read_committed=True)]

    wait_for(lambda: numbers(out) == [2])
    with pytest.raises(StatementError, match=f"csas_{out} calls {call}"):
        server.execute(f"DROP FUNCTION {call}")
    with pytest.raises(StatementError, match="is there already"):
        server.execute(create(call, code))
    server.close()
    server = new_session(tmp_path / "state")
    server.execute(f"INSERT INTO {name} VALUES (0)")
    query = f"csas_{out}"
    wait_for(lambda: f"the function {call}(10, 0) failed: line 5" in str(error(server, query)))
    wait_for(lambda: numbers(other) == [5, 0])  # others go on

    server.execute(create(call, code.replace("/ by", "/ (by or 10)"), "CREATE OR REPLACE"))
    wait_for(lambda: numbers(out) == [2, 1])
    for each in (query, f"csas_{other}"):
        server.execute(f"TERMINATE {each}")
    server.execute(f"DROP FUNCTION {call}")


def error(session: Session, query: str) -> Any:
    return column_of(session, query, "error")


def test_a_server_may_refuse_functions(
    spark: Any, session: Session, cluster: Cluster, tmp_path: Path
) -> None:
    session.execute(create("secret", LOUD))
    strict = Session(cluster.bootstrap_servers, start_spark=lambda held: spark, has_functions=False)
    try:
        with pytest.raises(StatementError, match="switched off"):
            strict.execute(create("other", LOUD))
        with pytest.raises(StatementError, match="switched off"):
            strict.execute("SELECT secret('a')")
        assert rows(strict, "SELECT 1 AS secret") == [[1]]
    finally:
        strict.close()
        session.execute("DROP FUNCTION secret")
