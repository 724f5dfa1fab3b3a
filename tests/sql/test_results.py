"""Rows of queries in Avro, Protobuf and JSON Schema, in a real Spark: their schemas are registered
by themselves, and clients of Confluent and of raftka read them back.
"""

from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip(
    "pyspark",
    reason="PySpark is not installed: ./run setup pipeline installs it into .venv/ (1 GB)",
)
pytest.importorskip("jsonschema_rs", reason="needs raftka[registry]")

from raftka.pipeline.records.registry_client import RegistryAccess
from raftka.pipeline.records.schema_readers import RegistryReader
from raftka.sql.language import StatementError
from raftka.sql.session import Session
from raftka.testing import Cluster
from tests.kit.sql_server import wait_for
from tests.registry.rest import Rest
from tests.sql.conftest import NewSession

pytestmark = pytest.mark.filterwarnings("default")

FORMS = ("avro", "protobuf", "json_sr")
COLUMNS = (
    "k STRING KEY, yes BOOLEAN, i INT, l BIGINT, x FLOAT, d DOUBLE, s STRING, t TIMESTAMP, "
    "day DATE, p DECIMAL(9, 2), q DECIMAL(30, 1), tags ARRAY<STRING>, m MAP<STRING, INT>, "
    "o STRUCT<a INT, at TIMESTAMP, inner STRUCT<z STRING>>, os ARRAY<STRUCT<a INT>>"
)
ROW = (
    "('a', TRUE, -1, 9007199254740993, 0.5, 0.25, 'é', '2026-01-02T03:04:05.678901Z', "
    "'2026-01-02', -1.50, '12345678901234567890.5', ARRAY['x', 'y'], MAP('n' := 7), "
    "STRUCT(a := 1, at := '2026-01-02T03:04:05Z', inner := STRUCT(z := 'deep')), "
    "ARRAY[STRUCT(a := 2)])"
)
MOMENT = datetime(2026, 1, 2, 3, 4, 5, 678901, UTC)
# of a row as Spark's answers show it
SHOWN = [
    *("a", True, -1, 9007199254740993, 0.5, 0.25, "é", "2026-01-02T03:04:05.678901"),
    *("2026-01-02", "-1.50", "12345678901234567890.5", ["x", "y"], {"n": 7}),
    *({"a": 1, "at": "2026-01-02T03:04:05", "inner": {"z": "deep"}}, [{"a": 2}]),
]


@pytest.fixture(scope="module")
def registry(cluster: Cluster) -> Iterator[str]:
    with cluster.registry() as started:
        yield started.url


@pytest.fixture
def rest(registry: str) -> Iterator[Rest]:
    with Rest(registry) as found:
        yield found


@pytest.fixture
def server(new_session: NewSession, registry: str, tmp_path: Path) -> Session:
    return new_session(tmp_path / "state", registry)


@pytest.fixture
def name(cluster: Cluster) -> str:
    """Return a name that no topic has yet."""
    return cluster.create_topic().replace("-", "_") + "_s"


def rows(session: Session, text: str) -> list[Any]:
    return [list(each) for each in session.execute(text).rows]


@pytest.mark.parametrize("form", FORMS)
def test_rows_of_a_query_have_a_schema_of_its_columns(
    server: Session, name: str, cluster: Cluster, registry: str, rest: Rest, form: str
) -> None:
    server.execute(f"CREATE STREAM {name} ({COLUMNS}) WITH (PARTITIONS=1)")
    server.execute(f"INSERT INTO {name} VALUES {ROW}")
    server.execute(f"INSERT INTO {name} (k, m) VALUES ('b', MAP())")
    out = f"{name}_{form}"
    server.execute(
        f"CREATE STREAM {out} WITH (VALUE_FORMAT='{form}', PARTITIONS=1) AS "
        f"SELECT *, cast(i AS TINYINT) AS small FROM {name} PARTITION BY k"
    )
    columns = "k, yes, i, l, x, d, s, t, day, cast(p AS STRING), cast(q AS STRING), tags, m, o, os"
    question = f"SELECT {columns}, small FROM {out} WHERE k = 'a' OR k = 'b' ORDER BY k"
    wait_for(lambda: len(rows(server, question)) == 2)
    full, empty = rows(server, question)
    assert full == [*SHOWN, -1]
    # Protobuf has no null in place of a list
    nothing: list[Any] | None = [] if form == "protobuf" else None
    assert empty == ["b", *[None] * 10, nothing, {}, None, nothing, None]

    # the same columns without naming them, but for what Protobuf does not tell
    server.execute(f"CREATE STREAM {out}_2 WITH (KAFKA_TOPIC='{out}', VALUE_FORMAT='{form}')")
    described = rows(server, f"DESCRIBE {out}_2")
    expected = [each for each in rows(server, f"DESCRIBE {out}") if each[2] == ""]
    if form == "protobuf":
        expected = [[a, "DECIMAL(38, 9)" if "DEC" in b else b, c] for a, b, c in expected]
    assert described == expected

    latest = rest.get(f"/subjects/{out}-value/versions/latest")
    assert rest.ask(
        "POST",
        f"/compatibility/subjects/{out}-value/versions/latest",
        {"schema": latest["schema"], "schemaType": latest.get("schemaType", "AVRO")},
    ).body == {"is_compatible": True}
    records = cluster.records(out, read_committed=True)
    values = [each.value or b"" for each in records]
    assert [each[:5] for each in values] == [b"\0" + int(latest["id"]).to_bytes(4)] * 2
    assert [each.key for each in records] == [b"a", b"b"]
    check_by_confluent(registry, out, form, values)
    server.execute(f"TERMINATE csas_{out}")


def check_by_confluent(registry: str, topic: str, form: str, values: list[bytes]) -> None:
    """Check the values by the deserialisers of confluent-kafka, where they are installed."""
    clients = pytest.importorskip("confluent_kafka.schema_registry")
    serialization = pytest.importorskip("confluent_kafka.serialization")
    context = serialization.SerializationContext(topic, serialization.MessageField.VALUE)
    with clients.SchemaRegistryClient({"url": registry}) as client:
        check_deserialised(client, context, form, values[0])


def check_deserialised(client: Any, context: Any, form: str, value: bytes) -> None:
    if form == "avro":
        from confluent_kafka.schema_registry.avro import AvroDeserializer

        found = AvroDeserializer(client)(value, context)
        assert found["t"] == MOMENT
        assert found["day"] == date(2026, 1, 2)
        assert (found["p"], found["q"]) == (Decimal("-1.50"), Decimal("12345678901234567890.5"))
        assert found["o"]["inner"] == {"z": "deep"}
    elif form == "json_sr":
        from confluent_kafka.schema_registry.json_schema import JSONDeserializer

        text = client.get_latest_version(f"{context.topic}-value").schema.schema_str
        found = JSONDeserializer(text, schema_registry_client=client)(value, context)
        assert found["t"] == "2026-01-02T03:04:05.678901Z"
        assert (found["p"], found["q"]) == (-1.5, "12345678901234567890.5")


def test_a_group_of_a_table_has_a_schema(
    server: Session, name: str, registry: str, cluster: Cluster
) -> None:
    server.execute(f"CREATE STREAM {name} (k STRING, n INT) WITH (PARTITIONS=1)")
    server.execute(f"INSERT INTO {name} VALUES ('a', 1), ('a', 2)")
    server.execute(
        f"CREATE TABLE {name}_t WITH (VALUE_FORMAT='avro', PARTITIONS=1) AS "
        f"SELECT k, sum(n) AS total FROM {name} GROUP BY k"
    )
    question = f"SELECT k, total FROM {name}_t WHERE k IS NOT NULL"
    wait_for(lambda: rows(server, question) == [["a", 3]])
    reader = RegistryReader.of(RegistryAccess((registry,)), ("avro",))
    (record,) = cluster.records(f"{name}_t", read_committed=True)[-1:]
    assert reader.value(record.value or b"") == {"total": 3}
    server.execute(
        f"CREATE STREAM {name}_k WITH (VALUE_FORMAT='avro', PARTITIONS=1) AS SELECT k FROM {name} "
        "PARTITION BY k"
    )
    wait_for(lambda: rows(server, f"SELECT * FROM {name}_k") == [["a"], ["a"]])
    assert reader.value(cluster.records(f"{name}_k", read_committed=True)[0].value or b"") == {}
    for query in (f"ctas_{name}_t", f"csas_{name}_k"):
        server.execute(f"TERMINATE {query}")


def test_a_query_writes_with_the_schema_that_the_topic_has(
    server: Session, name: str, rest: Rest, registry: str, cluster: Cluster
) -> None:
    schema = {
        "type": "record",
        "name": "Truck",
        "namespace": "fleet",
        "fields": [
            {"name": "n", "type": "int"},
            {"name": "note", "type": "string", "default": "none"},
        ],
    }
    schema_id = rest.register(f"{name}_t-value", schema)
    server.execute(
        f"CREATE STREAM {name}_t WITH (VALUE_FORMAT='avro', PARTITIONS=1, KAFKA_TOPIC='{name}_t')"
    )
    server.execute(f"CREATE STREAM {name} (n INT) WITH (PARTITIONS=1)")
    server.execute(f"INSERT INTO {name} VALUES (5)")
    server.execute(f"INSERT INTO {name}_t SELECT n FROM {name}")
    wait_for(lambda: len(cluster.records(f"{name}_t", read_committed=True)) == 1)
    (record,) = cluster.records(f"{name}_t", read_committed=True)
    assert record.value == b"\0" + schema_id.to_bytes(4) + b"\x0a\x08none"
    # a row that does not fit stops the query and says why
    server.execute(f"INSERT INTO {name} VALUES (NULL)")
    query = f"insert_{name}_t"

    def error() -> str:
        answer = server.execute("SHOW QUERIES")
        names = [each.name for each in answer.columns]
        (row,) = [each for each in answer.rows if each[0] == query]
        return str(row[names.index("error")])

    wait_for(lambda: "does not fit Avro schema" in error())
    server.execute(f"TERMINATE {query}")


@pytest.mark.parametrize(
    ("columns", "form", "message"),
    [
        ("n AS `a-b`", "avro", "has a name that Avro has not"),
        ("array(array(n)) AS a", "protobuf", "lists or maps within a list"),
        ("cast(s AS BINARY) AS b", "json_sr", "has bytes"),
        ("n AS same", "avro", "the registry refuses the schema of"),
    ],
)
def test_columns_that_no_schema_has_are_refused_and_nothing_is_made(
    server: Session, name: str, rest: Rest, columns: str, form: str, message: str
) -> None:
    server.execute(f"CREATE STREAM {name} (n INT, s STRING) WITH (PARTITIONS=1)")
    if form == "avro":
        other = {"type": "record", "name": "Other", "fields": [{"name": "same", "type": "string"}]}
        rest.register(f"{name}_2-value", other)
    with pytest.raises(StatementError, match=message):
        server.execute(
            f"CREATE STREAM {name}_2 WITH (VALUE_FORMAT='{form}', PARTITIONS=1) AS "
            f"SELECT {columns} FROM {name}"
        )
    assert f"{name}_2" not in [row[0] for row in rows(server, "SHOW STREAMS")]
    assert f"{name}_2" not in [row[0] for row in rows(server, "SHOW TOPICS")]
