"""Debezium in Kafka Connect on raftka: rows of PostgreSQL are inserted, updated and deleted, and a
flow's lake is like the table.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip(
    "pyspark",
    reason="PySpark is not installed: ./run setup pipeline installs it into .venv/ (1 GB)",
)
psycopg = pytest.importorskip("psycopg", reason="needs raftka[jdbc]")

from raftka.cluster.ports import HeldPorts
from raftka.pipeline.flows.flows import bad, good
from raftka.pipeline.flows.streams import Declared, declared
from raftka.testing import Cluster
from tests.kit.kafka_connect import Connect
from tests.kit.toolchains import Missing, Program, Toolchains
from tests.pipeline.postgres import postgres, why_not

pytestmark = pytest.mark.filterwarnings("default")

PATIENCE_S = 120
FIELDS = {
    "id": "int",
    "state": "string",
    "price": "decimal(9,2)?",
    "due": "date?",
    "at": "timestamp?",
    "zoned": "timestamp?",
    "note": "string?",
    "blob": "binary?",
}
COLUMNS = (
    "id int PRIMARY KEY, state text NOT NULL, price numeric(9, 2), due date, at timestamp, "
    "zoned timestamptz, note text, blob bytea"
)
TABLE = f"""CREATE TABLE orders ({COLUMNS});
ALTER TABLE orders REPLICA IDENTITY FULL"""
INSERT = (
    "INSERT INTO orders VALUES (%s, %s, 12.30, '2026-01-31', '2026-01-31 10:20:30.000005', "
    "'2026-01-31 10:20:30.000006+02', %s, '\\xff00')"
)
LARGE = "".join(
    chr(97 + at * at % 23) for at in range(100_000)
)  # PostgreSQL keeps it apart from its row, and does not log it when it stays as it was
CONVERTERS = {
    "typed": {"schemas.enable": "true"},
    "plain": {"schemas.enable": "false"},
}
MODES = {
    "typed": {},
    "plain": {"decimal.handling.mode": "string", "time.precision.mode": "isostring"},
}


@pytest.fixture(scope="module")
def debezium(request: pytest.FixtureRequest) -> Program:
    try:
        return Toolchains(fetch=request.config.getoption("--all-clients")).debezium()
    except Missing as missing:
        pytest.skip(str(missing))


@pytest.fixture
def database() -> Iterator[Any]:
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    with postgres(wal_level="logical") as url, psycopg.connect(url, autocommit=True) as connection:
        connection.execute(TABLE)
        yield connection


class Flow:
    """A stream of change events, and a lake that follows it."""

    def __init__(self, spark: Any, cluster: Cluster, kind: str, folder: Path) -> None:
        self.spark, self.kind, self.folder = spark, kind, folder
        stream = {
            "topic": f"{kind}.public.orders",
            "envelope": "debezium",
            "key": "id",
            "fields": FIELDS,
            "options": {"maxOffsetsPerTrigger": 60},
        }
        output = {"from": "orders", "delta": "lake", "key": "id", "delete": "_deleted"}
        document = {
            "bootstrap": cluster.bootstrap_servers,
            "streams": {"orders": stream},
            "outputs": {"lake": output},
        }
        self.declared: Declared = declared(document, folder, {})

    def run(self) -> None:
        (output,) = self.declared.outputs
        writer = (
            good(self.declared, "orders")
            .drop("_topic", "_key")
            .writeStream.format("raftka_delta")
            .option("path", output.path)
        )
        query = (
            writer.options(**output.options)
            .option("checkpointLocation", str(self.folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(PATIENCE_S)

    def rows(self) -> list[tuple[Any, ...]]:
        if not Path(str(self.declared.outputs[0].path)).exists():
            return []
        found = (
            self.spark.read.format("raftka_delta")
            .option("columns", ",".join(FIELDS))
            .load(self.declared.outputs[0].path)
            .collect()
        )
        return sorted(
            tuple(bytes(each) if isinstance(each, bytearray) else each for each in row)
            for row in found
        )

    def dead_letters(self) -> int:
        return int(
            bad(
                self.declared,
                self.declared.streams[0],
                {"startingOffsets": "earliest", "endingOffsets": "latest"},
            ).count()
        )


def wait(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end


def start_connector(connect: Connect, database: Any, kind: str) -> None:
    its = database.info
    converters = {
        f"{side}.converter": "org.apache.kafka.connect.json.JsonConverter"
        for side in ("key", "value")
    }
    converters |= {
        f"{side}.converter.{name}": value
        for side in ("key", "value")
        for name, value in CONVERTERS[kind].items()
    }
    settings = {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "database.hostname": its.host,
        "database.port": its.port,
        "database.user": its.user,
        "database.dbname": its.dbname,
        "plugin.name": "pgoutput",
        "slot.name": kind,
        "publication.name": kind,
        "publication.autocreate.mode": "filtered",
        "table.include.list": "public.orders",
        "topic.prefix": kind,
        "topic.creation.default.partitions": 3,
        "topic.creation.default.replication.factor": 3,
        "exactly.once.support": "required",
    }
    connect.run(kind, **settings, **converters, **MODES[kind])


def table(database: Any) -> list[tuple[Any, ...]]:
    """As the lake has it: a time without a zone is of UTC."""
    columns = "id, state, price, due, at AT TIME ZONE 'UTC', zoned, note, blob"
    return [
        tuple(row)
        for row in database.execute(f"SELECT {columns} FROM orders ORDER BY id").fetchall()
    ]


def local(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Times as Spark's Python has them: without a zone, in that of the machine."""
    return [
        tuple(
            each.astimezone().replace(tzinfo=None)
            if getattr(each, "tzinfo", None) is not None
            else each
            for each in row
        )
        for row in rows
    ]


def test_a_lake_follows_a_table(
    spark: Any,
    cluster: Cluster,
    debezium: Program,
    database: Any,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    """Also when the worker of Connect is killed: what it tells again changes nothing."""
    for key in range(1, 21):
        database.execute(INSERT, [key, "NEW", None])
    ports = HeldPorts(1)
    request.addfinalizer(ports.release)
    flows = {}
    for kind in CONVERTERS:
        (tmp_path / kind).mkdir()
        cluster.create_topic(f"{kind}.public.orders", partitions=3)
        flows[kind] = Flow(spark, cluster, kind, tmp_path / kind)

    def followed() -> bool:
        for flow in flows.values():
            flow.run()
        return all(flow.rows() == local(table(database)) for flow in flows.values())

    with Connect(debezium, cluster.bootstrap_servers, tmp_path, ports.numbers) as connect:
        for kind in CONVERTERS:
            start_connector(connect, database, kind)
        wait(followed)
        for key in range(21, 41):
            database.execute(INSERT, [key, "NEW", LARGE])
            database.execute(
                "UPDATE orders SET state = 'PAID', price = price + id WHERE id <= %s AND id %% 3 "
                "= 0",
                [key],
            )
        database.execute("DELETE FROM orders WHERE id % 4 = 0")
        database.execute("UPDATE orders SET id = id + 100 WHERE id % 5 = 0")
        (worker,) = connect.workers
        connect.kill(worker)
        with database.transaction():
            database.execute("UPDATE orders SET state = 'SENT', due = NULL WHERE id % 7 = 0")
            database.execute("DELETE FROM orders WHERE id = 1")
            database.execute(INSERT, [1, "AGAIN", "x"])
        connect.start(worker)
        wait(followed)
        database.execute("DELETE FROM orders WHERE id > 100")
        wait(followed)

    assert {row[1] for row in table(database)} == {"NEW", "PAID", "SENT", "AGAIN"}
    assert [flow.dead_letters() for flow in flows.values()] == [0, 0]
