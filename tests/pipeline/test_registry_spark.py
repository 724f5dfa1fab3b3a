"""A stream of `streams.yml` with a registry in a real Spark: a new version while the query runs,
columns of all kinds, a registry that goes away.
"""

from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip(
    "pyspark",
    reason="PySpark is not installed: ./run setup pipeline installs it into .venv/ (1 GB)",
)

from pyspark.errors import StreamingQueryException

from raftka.client.blocking.producer import Producer
from raftka.pipeline.flows.flows import bad, good
from raftka.pipeline.flows.streams import load
from raftka.testing import Cluster
from tests.pipeline.framed_values import avro, framed
from tests.pipeline.players import Player
from tests.pipeline.protobuf_values import KEY_PROTO, PROTO, in_protobuf
from tests.registry.rest import Rest, record

pytestmark = pytest.mark.filterwarnings("default")

STREAMS = """
bootstrap: {bootstrap}
registry: {registry}
streams:
  trucks:
    topic: {topic}
    format: [json, avro]
    fields:
      {{truck: int, price: "decimal(9,2)?", day: "date?", tags: {{"*": int}}, speed: "double?"}}
"""
MAP = {"type": "map", "values": "int"}
FIRST = record(
    "Truck",
    truck="int",
    price={"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
    tags=MAP,
)
SECOND = record(
    "Truck", truck="int", day={"type": "int", "logicalType": "date"}, tags=MAP, speed="double"
)


def produce(player: Player, topic: str, *values: bytes) -> None:
    producer = Producer(player.brokers)
    for value in values:
        producer.add((topic, 0), (None, value, (), 1_700_000_000_000))
    producer.flush()


def test_versions_come_while_the_query_runs_and_the_registry_goes(
    spark: Any, cluster: Cluster, player: Player, tmp_path: Path
) -> None:
    topic = cluster.create_topic()
    with cluster.registry(f"{topic}-schemas") as registry, Rest(registry) as rest:
        rest.put("/config", {"compatibility": "NONE"})
        (tmp_path / "streams.yml").write_text(
            STREAMS.format(bootstrap=cluster.bootstrap_servers, registry=registry.url, topic=topic)
        )
        found = load(tmp_path / "streams.yml")
        first = rest.register("trucks", FIRST)
        query = (
            good(found, "trucks")
            .writeStream.format("memory")
            .queryName("registered")
            .option("checkpointLocation", str(tmp_path / "c"))
            .start()
        )
        try:
            produce(
                player,
                topic,
                framed(
                    first, avro(FIRST, {"truck": 1, "price": Decimal("1.50"), "tags": {"a": 1}})
                ),
                b'{"truck": 2, "tags": {}}',
            )
            query.processAllAvailable()
            second = rest.register("trucks", SECOND)
            newer = avro(SECOND, {"truck": 3, "day": date(2026, 1, 2), "tags": {}, "speed": 1.5})
            produce(
                player,
                topic,
                framed(second, newer),
                framed(99, b""),
                b'{"truck": 4, "price": "2.5", "day": "2026-01-03", "tags": {"b": 2}}',
            )
            query.processAllAvailable()

            rows = spark.sql(
                "select truck, price, day, tags, speed from registered order by truck"
            ).collect()
            letters = bad(found, found.stream("trucks"), {"endingOffsets": "latest"}).collect()
        finally:
            query.stop()
    assert [tuple(row) for row in rows] == [
        (1, Decimal("1.50"), None, {"a": 1}, None),
        (2, None, None, {}, None),
        (3, None, date(2026, 1, 2), {}, 1.5),
        (4, Decimal("2.50"), date(2026, 1, 3), {"b": 2}, None),
    ]
    assert [dict(letter["headers"])["error"] for letter in letters] == [
        b"schema 99: the registry has no schema 99"
    ]

    produce(player, topic, framed(100, b""))
    again = (
        good(found, "trucks")
        .writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path / "c"))
        .trigger(availableNow=True)
        .start()
    )
    with pytest.raises(StreamingQueryException, match="RegistryAway: no registry answers"):
        again.awaitTermination()


CHANGES = """
bootstrap: {bootstrap}
registry: {registry}
streams:
  orders:
    topic: {topic}
    format: protobuf
    envelope: debezium
    key: [id]
    fields: {{id: bigint, state: string, price: "decimal(9,2)?", due: "date?", at: "timestamp?"}}
"""


def test_debeziums_events_in_protobuf_change_a_lake(
    spark: Any, cluster: Cluster, player: Player, tmp_path: Path
) -> None:
    """Each batch is a query of its own on one checkpoint; the last one has an older event, sent
    again by a connector that died.
    """
    pytest.importorskip("grpc_tools", reason="needs raftka[registry]")
    topic, lake = cluster.create_topic(), tmp_path / "lake"
    with cluster.registry(f"{topic}-schemas") as registry:
        (tmp_path / "streams.yml").write_text(
            CHANGES.format(bootstrap=cluster.bootstrap_servers, registry=registry.url, topic=topic)
        )
        found = load(tmp_path / "streams.yml")
        key = in_protobuf(registry, "orders-key", KEY_PROTO, "Key")
        value = in_protobuf(registry, "orders-value", PROTO, "Envelope")

        def batch(*records: tuple[int, bytes | None]) -> list[tuple[object, ...]]:
            producer = Producer(player.brokers)
            for number, event in records:
                producer.add((topic, 0), (key(id=number), event, (), 1_700_000_000_000))
            producer.flush()
            options = {
                "path": str(lake),
                "key": "id",
                "order": "_changed",
                "delete": "_deleted",
                "checkpointLocation": str(tmp_path / "c"),
            }
            good(found, "orders").writeStream.format("raftka_delta").options(**options).trigger(
                availableNow=True
            ).start().awaitTermination()
            return [
                tuple(row)
                for row in spark.read.format("raftka_delta")
                .load(str(lake))
                .select("id", "state", "price", "due")
                .orderBy("id")
                .collect()
            ]

        def event(op: str, at: int, row: dict[str, object]) -> bytes:
            return bytes(
                value(
                    op=op,
                    source={"ts_ms": at, "lsn": at},
                    **({"before": row} if op == "d" else {"after": row}),
                )
            )

        new = {"id": 1, "state": "NEW"}
        paid = {"id": 1, "state": "PAID", "price": "9.50", "due": 20000}
        two = {"id": 2, "state": "NEW"}
        assert batch(
            (1, event("c", 1000, new)), (2, event("r", 1000, two)), (1, event("u", 2000, paid))
        ) == [
            (1, "PAID", Decimal("9.50"), date(2024, 10, 4)),
            (2, "NEW", None, None),
        ]
        assert batch((1, event("d", 3000, paid)), (1, None)) == [(2, "NEW", None, None)]
        assert batch(
            (1, event("u", 2000, paid)), (2, event("u", 4000, {**two, "state": "SENT"}))
        ) == [(2, "SENT", None, None)]
