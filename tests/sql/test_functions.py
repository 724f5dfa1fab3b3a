"""Functions of ksqlDB in a real Spark have the values of ksqlDB's documentation."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip(
    "pyspark",
    reason="PySpark is not installed: ./run setup pipeline installs it into .venv/ (1 GB)",
)

from raftka.sql.session import Session
from raftka.testing import Cluster
from tests.kit.sql_server import wait_for
from tests.sql.conftest import NewSession

pytestmark = pytest.mark.filterwarnings("default")

URL = "'http://a.b:81/x%20y+z?q=1%202&r=3#f%20g'"
VALUES: dict[str, Any] = {
    "ARRAY_CONCAT(array(1, 2), array(2))": [1, 2, 2],
    "ARRAY_CONCAT(array(1), CAST(NULL AS ARRAY<INT>))": [1],
    "ARRAY_CONCAT(CAST(NULL AS ARRAY<INT>), CAST(NULL AS ARRAY<INT>))": None,
    "DATESUB(DAY, 3, DATE'2026-01-10')": "2026-01-07",
    "TIMESTAMPSUB(HOUR, 2, TIMESTAMP'2026-01-10 01:00:00')": "2026-01-09T23:00:00",
    "ENTRIES(map('b', 1, 'a', 2), true)": [{"K": "a", "V": 2}, {"K": "b", "V": 1}],
    "ENTRIES(map('b', 1))": [{"K": "b", "V": 1}],
    "FIELD('b', 'a', 'b', 'c')": 2,
    "FIELD('z', 'a', 'b')": 0,
    "FIELD(CAST(NULL AS STRING), 'a', 'b')": 0,
    "FROM_BYTES(TO_BYTES('é!', 'utf8'), 'hex')": "C3A921",
    "FROM_BYTES(TO_BYTES('21', 'hex'), 'ascii')": "!",
    "FROM_BYTES(TO_BYTES('IQ==', 'base64'), 'utf8')": "!",
    "length(FROM_BYTES(TO_BYTES(repeat('a', 100), 'ascii'), 'base64'))": 136,
    # London and New York
    "round(GEO_DISTANCE(51.5074, -0.1278, 40.7128, -74.0060), 1)": 5570.2,
    "round(GEO_DISTANCE(51.5074, -0.1278, 40.7128, -74.0060, 'MI'), 1)": 3461.4,
    "IS_JSON_STRING('[1, 2]')": True,
    "IS_JSON_STRING('[1')": False,
    "IS_JSON_STRING(CAST(NULL AS STRING))": False,
    "MAP_UNION(map('a', 1, 'b', 2), map('b', 3))": {"a": 1, "b": 3},
    "MAP_UNION(map('a', 1), CAST(NULL AS MAP<STRING, INT>))": {"a": 1},
    "MASK_KEEP_LEFT('My Test $123', 4)": "My Txxx--nnn",
    "MASK_KEEP_RIGHT('My Test $123', 4)": "Xx-Xxxx-$123",
    "MASK_KEEP_RIGHT('abc', 9)": "abc",
    "MASK_LEFT('My Test $123', 4)": "Xx-Xest $123",
    "MASK_RIGHT('My Test $123', 4)": "My Test -nnn",
    "MASK_RIGHT('abc', 9)": "xxx",
    "URL_DECODE_PARAM('url%20encoded+x')": "url encoded x",
    "URL_DECODE_PARAM('%zz')": None,
    "URL_ENCODE_PARAM('url encoded')": "url+encoded",
    f"URL_EXTRACT_FRAGMENT({URL})": "f g",
    f"URL_EXTRACT_PARAMETER({URL}, 'q')": "1 2",
    f"URL_EXTRACT_PARAMETER({URL}, 'none')": None,
    f"URL_EXTRACT_PATH({URL})": "/x y+z",
    f"URL_EXTRACT_PORT({URL})": 81,
    "URL_EXTRACT_PORT('http://a.b/c')": None,
    f"URL_EXTRACT_QUERY({URL})": "q=1 2&r=3",
    "FILTER(array(1, 2, 3), x => x > 1)": [2, 3],
    "TRANSFORM(array(1, 2), x => x * 2)": [2, 4],
    "REDUCE(array(1, 2), 10, (s, x) => s + x)": 13,
    "REGEXP_REPLACE('a1b', '[0-9]', '')": "ab",
    "IFNULL(CAST(NULL AS INT), 1)": 1,
    "NULLIF(1, 1)": None,
    "CASE WHEN 1 > 2 THEN 'a' ELSE 'b' END": "b",
    "JSON_ARRAY_LENGTH('[1, 2]')": 2,
    "INITCAP('hello WORLD')": "Hello World",
    "LPAD('a', 3, '*')": "**a",
    "ARRAY_SORT(array(2, 1))": [1, 2],
}


@pytest.fixture
def name(cluster: Cluster) -> str:
    """Return a name that no topic has yet."""
    return cluster.create_topic().replace("-", "_") + "_s"


def rows(session: Session, text: str) -> list[Any]:
    return [list(each) for each in session.execute(text).rows]


def test_scalar_functions_have_ksqldbs_values(session: Session) -> None:
    (found,) = rows(session, f"SELECT {', '.join(VALUES)}")
    assert dict(zip(VALUES, found, strict=True)) == VALUES


def test_aggregates_have_ksqldbs_values(session: Session, name: str) -> None:
    session.execute(f"CREATE STREAM {name} (n INT, s STRING) WITH (PARTITIONS=1)")
    session.execute(
        f"INSERT INTO {name} VALUES (3, 'x'), (1, 'y'), (9, 'x'), (4, NULL), (NULL, 'x')"
    )
    wanted: dict[str, Any] = {
        "LATEST_BY_OFFSET(n)": 4,
        "LATEST_BY_OFFSET(n, false)": None,
        "LATEST_BY_OFFSET(n, true)": 4,
        "LATEST_BY_OFFSET(n, 2)": [9, 4],
        "LATEST_BY_OFFSET(n, 2, false)": [4, None],
        "EARLIEST_BY_OFFSET(n)": 3,
        "EARLIEST_BY_OFFSET(s, 2)": ["x", "y"],
        "EARLIEST_BY_OFFSET(s, 4, false)": ["x", "y", "x", None],
        "TOPK(n, 2)": [9, 4],
        "TOPK(n, 9)": [9, 4, 3, 1],
        "TOPKDISTINCT(s, 5)": ["y", "x"],
        "HISTOGRAM(s)": {"x": 3, "y": 1},
        "COUNT_DISTINCT(s)": 2,
        "ATTR(n)": None,
        "ATTR(1)": 1,
        "SUM(n)": 17,
        "AVG(n)": 4.25,
        "MIN(s)": "x",
        "MAX(n)": 9,
        "round(STDDEV(n), 3)": 3.403,
        "COLLECT_LIST(n)": [3, 1, 9, 4],
        "array_sort(COLLECT_SET(s))": ["x", "y"],
    }
    (found,) = rows(session, f"SELECT {', '.join(wanted)} FROM {name}")
    assert dict(zip(wanted, found, strict=True)) == wanted
    exploded = rows(session, f"SELECT n, EXPLODE(array(n, n + 1)) FROM {name} WHERE n < 2")
    assert exploded == [[1, 1], [1, 2]]
    lateral = f"SELECT e FROM {name} LATERAL VIEW EXPLODE(split(s, ',')) AS e WHERE n = 1"
    assert rows(session, lateral) == [["y"]]


def test_the_state_of_an_aggregate_goes_on(
    new_session: NewSession, name: str, tmp_path: Path
) -> None:
    server = new_session(tmp_path / "state")
    server.execute(f"CREATE STREAM {name} (k STRING, n INT) WITH (PARTITIONS=1)")
    server.execute(
        f"CREATE TABLE {name}_t WITH (PARTITIONS=1) AS SELECT k, LATEST_BY_OFFSET(n, 2) AS last, "
        f"TOPK(n, 2) AS top, HISTOGRAM(n) AS counts FROM {name} GROUP BY k"
    )
    question = f"SELECT last, top, counts FROM {name}_t WHERE k = 'a' OR k = 'b'"
    server.execute(f"INSERT INTO {name} VALUES ('a', 5), ('a', 1)")
    wait_for(lambda: rows(server, question) == [[[5, 1], [5, 1], {"5": 1, "1": 1}]])
    server.execute(f"INSERT INTO {name} VALUES ('a', 5)")
    wait_for(lambda: rows(server, question) == [[[1, 5], [5, 5], {"5": 2, "1": 1}]])
    server.execute(f"TERMINATE ctas_{name}_t")
