"""Connectors in a real Spark: folders of files to topics and back, rows to webhooks. What needs no
Spark is tested without.
"""

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip(
    "pyspark",
    reason="PySpark is not installed: ./run setup pipeline installs it into .venv/ (1 GB)",
)
pytest.importorskip("grpc", reason="needs raftka[pipeline]")
pytest.importorskip(
    "pyiceberg.catalog.sql", reason="needs raftka[iceberg]: ./run setup pipeline installs it"
)

import yaml

from raftka.pipeline.errors import OptionRefused
from raftka.pipeline.flows.graph import Graph
from raftka.pipeline.project import Project
from raftka.testing import Cluster
from tests.pipeline.hooks import receiver

pytestmark = pytest.mark.filterwarnings("default")


class Flows:
    """A project that has no code: one Python file that declares its streams.yml."""

    def __init__(self, spark: Any, folder: Path, declared: dict[str, Any]) -> None:
        self.spark, self.folder = spark, folder
        (folder / "flows").mkdir()
        (folder / "flows" / "all.py").write_text(
            'from raftka.pipeline.flows.flows import declare\n\ndeclare("streams.yml")\n'
        )
        (folder / "streams.yml").write_text(yaml.safe_dump(declared, sort_keys=False))
        self._views = [
            *declared["streams"],
            *(f"{name}_{part}" for name in declared["streams"] for part in ("bad", "raw")),
        ]

    def run(self, *, forget: tuple[str, ...] = ()) -> None:
        """Each flow up to where its source ends. `forget`: flows whose last batch is done again, as
        if the driver had died before Spark noted it.
        """
        for name in self._views:
            self.spark.catalog.dropTempView(name)
        graph = Graph(
            self.spark,
            Project(self.folder, "p", (self.folder / "storage").as_uri(), {}, ("flows/*",)),
        )
        graph.load()
        for flow in graph.streams():
            if flow.name in forget:
                commits = Path(graph.checkpoint(flow).removeprefix("file:")) / "commits"
                last = max(commits.glob("[0-9]*"), key=lambda each: int(each.name))
                last.unlink()
                last.with_name(f".{last.name}.crc").unlink(missing_ok=True)
            query = graph.start(flow, 0)
            query.processAllAvailable()
            query.stop()


def declared_for(bootstrap: str, topic: str, refused: str, url: str) -> dict[str, Any]:
    fields = {"id": "int", "price": "double", "note": "string?"}
    return {
        "bootstrap": bootstrap,
        "streams": {
            "inbox": {"files": "inbox", "format": "csv", "fields": fields},
            "lines": {
                "files": "lines/*.json",
                "fields": {"id": "int", "tags": ["string"], "at": "timestamp?"},
            },
            "orders": {"topic": topic, "fields": fields},
        },
        "outputs": {
            "a_in": {
                "from": "inbox",
                "topic": topic,
                "key": "id",
                "columns": ["id", "price", "note"],
            },
            "b_bad": {
                "from": "inbox_bad",
                "files": "bad",
                "columns": [
                    "cast(value as string) as row",
                    "cast(headers[1].value as string) as why",
                ],
            },
            "b_lines": {
                "from": "lines",
                "files": "tags",
                "columns": ["id", "size(tags) as tags", "cast(at as string) as at"],
            },
            "b_odd": {
                "from": "lines_bad",
                "files": "odd",
                "columns": ["cast(value as string) as row"],
            },
            "c_out": {
                "from": "orders",
                "files": "archive",
                "format": "parquet",
                "columns": ["id", "price", "note", "_offset"],
            },
            "d_hook": {
                "from": "orders",
                "webhook": url,
                "columns": ["id", "price"],
                "dead_letters": refused,
            },
        },
    }


def test_files_to_a_topic_to_files_and_a_webhook_without_code(
    spark: Any, cluster: Cluster, tmp_path: Path
) -> None:
    topic, refused = cluster.create_topic(), cluster.create_topic()
    with receiver() as server:
        server.decide = lambda got: (
            (422, {}, b"too dear") if got.told["price"] == 9.5 else (200, {}, b"")
        )
        declared = declared_for(cluster.bootstrap_servers, topic, refused, server.url)
        flows = Flows(spark, tmp_path, declared)
        with pytest.raises(
            OptionRefused, match=r"inbox: there is no folder .*/inbox to read files from"
        ):
            flows.run()
        (tmp_path / "inbox").mkdir()
        (tmp_path / "lines").mkdir()
        (tmp_path / "inbox" / "1.csv").write_text("id,price,note\n1,2.5,a\n2,9.5,\nx,1,b\n4,,c\n")
        good = '{"id": 1, "tags": ["x", "y"], "at": "2026-01-02T03:04:05Z"}'
        odd = ['{"id": "2", "tags": []}', '{"id": 3', '{"id": 4, "tags": "x"}']
        (tmp_path / "lines" / "1.json").write_text("\n".join([good, *odd]))
        flows.run()
        (tmp_path / "inbox" / "2.csv").write_text("id,price,note\n5,1.0,e\n")
        flows.run(forget=("d_hook",))

    archive = spark.read.parquet(str(tmp_path / "archive")).orderBy("_offset").collect()
    bad = spark.read.schema("row string, why string").json(str(tmp_path / "bad")).collect()
    assert [tuple(row) for row in archive] == [
        (1, 2.5, "a", 0),
        (2, 9.5, None, 1),
        (5, 1.0, "e", 2),
    ]
    assert sorted(tuple(row) for row in bad) == [
        ("x,1,b", "it is no csv of these fields"),
        ('{"id":4,"note":"c"}', "there is no price"),
    ]
    assert [
        tuple(row)
        for row in spark.read.json(str(tmp_path / "tags")).select("id", "tags", "at").collect()
    ] == [(1, 2, "2026-01-02 03:04:05")]
    assert sorted(row["row"] for row in spark.read.json(str(tmp_path / "odd")).collect()) == sorted(
        odd
    )
    assert [json.loads(each.value or b"")["id"] for each in cluster.records(topic)] == [1, 2, 5]
    # at least once
    assert [json.loads(each.value or b"") for each in cluster.records(refused)] == [
        {"id": 2, "price": 9.5}
    ] * 2
    first = [each.key for each in server.got if each.told["id"] == 1]
    assert len(first) == 2  # the first batch was done again,
    assert len(set(first)) == 1  # under the same key
    assert [each.told["id"] for each in server.got] == [1, 2, 1, 2, 5]


def test_a_table_into_a_table_and_iceberg_with_the_last_batches_done_again(
    spark: Any, tmp_path: Path
) -> None:
    shop = sqlite3.connect(tmp_path / "shop.db")
    shop.execute("CREATE TABLE orders (id integer PRIMARY KEY, customer text, price float)")
    shop.execute("CREATE TABLE newest (customer text PRIMARY KEY, id bigint, price float)")
    shop.executemany(
        "INSERT INTO orders VALUES (?, ?, ?)",
        [(1, "a", 1.5), (2, "b", 2.5), (3, "a", 3.5), (4, None, 0.0)],
    )
    shop.commit()
    url = "sqlite:///shop.db"
    catalog = {"type": "sql", "uri": "sqlite:///catalog.db", "warehouse": "warehouse"}
    declared = {
        "streams": {
            "orders": {
                "table": {"url": url, "name": "orders", "column": "id", "rows_per_batch": 2},
                "fields": {"id": "bigint", "customer": "string", "price": "double"},
            }
        },
        "outputs": {
            "newest": {
                "from": "orders",
                "table": {"url": url, "name": "newest", "key": ["customer"], "order": "id"},
            },
            "all": {"from": "orders", "iceberg": {"table": "shop.orders", "catalog": catalog}},
        },
    }
    flows = Flows(spark, tmp_path, declared)
    flows.run()
    shop.execute("UPDATE newest SET price = -1 WHERE customer = 'a'")
    shop.execute("INSERT INTO orders VALUES (5, 'b', 5.5)")
    shop.commit()
    flows.run(forget=("newest", "all"))

    assert shop.execute("SELECT customer, id, price FROM newest ORDER BY id").fetchall() == [
        ("a", 3, -1.0),
        ("b", 5, 5.5),
    ]
    assert [row[0] for row in shop.execute("SELECT batch FROM raftka_batches")] == [2]
    shop.close()
    there = {
        "catalog.type": "sql",
        "catalog.uri": f"sqlite:///{tmp_path}/catalog.db",
        "catalog.warehouse": str(tmp_path / "warehouse"),
    }
    rows = spark.read.format("raftka_iceberg").options(table="shop.orders", **there).load()
    assert rows.dtypes == [("id", "bigint"), ("customer", "string"), ("price", "double")]
    assert [row["id"] for row in rows.orderBy("id").collect()] == [1, 2, 3, 5]
