"""Values of records in a plain script, in a real Spark: JSON, Avro of a folder, Avro and Protobuf
of a registry.
"""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip(
    "pyspark",
    reason="PySpark is not installed: ./run setup pipeline installs it into .venv/ (1 GB)",
)

from raftka.client.blocking.producer import Producer
from raftka.pipeline.errors import OptionRefused
from raftka.pipeline.topics.values import decode
from raftka.testing import Cluster
from tests.pipeline.framed_values import avro, framed
from tests.pipeline.players import Player
from tests.registry.rest import Rest, record

pytestmark = pytest.mark.filterwarnings("default")

FIELDS = {"truck": "int", "speed": "double?"}
TRUCK = record("Truck", truck="int", speed="double")


def rows(
    spark: Any, cluster: Cluster, player: Player, values: list[bytes], **how: Any
) -> list[tuple[Any, ...]]:
    topic = cluster.create_topic()
    producer = Producer(player.brokers)
    for value in values:
        producer.add((topic, 0), (None, value, (), 1_700_000_000_000))
    producer.flush()
    given = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "subscribe": topic}
    records = spark.read.format("raftka").options(**given).load()
    found = (
        records.select("offset", decode("value", FIELDS, **how).alias("decoded"))
        .select("offset", "decoded.*")
        .orderBy("offset")
    )
    return [tuple(row)[1:] for row in found.collect()]


def test_json(spark: Any, cluster: Cluster, player: Player) -> None:
    good, bad = rows(
        spark, cluster, player, [b'{"truck": 7, "speed": 52.5, "more": 1}', b'{"truck": "7"}']
    )

    assert good == (7, 52.5, None)
    assert bad[:2] == (None, None)
    assert "truck" in bad[2]


def test_avro_of_a_folder(spark: Any, cluster: Cluster, player: Player, tmp_path: Path) -> None:
    import json

    (tmp_path / "3.avsc").write_text(json.dumps(TRUCK))
    values = [framed(3, avro(TRUCK, {"truck": 7, "speed": 1.5})), framed(4, b"")]

    good, bad = rows(spark, cluster, player, values, format="avro", schemas=tmp_path)
    assert good == (7, 1.5, None)
    assert "Avro schema 4 is not known" in bad[2]


def test_records_of_a_registry_beside_json(spark: Any, cluster: Cluster, player: Player) -> None:
    with cluster.registry("values-schemas") as registry, Rest(registry) as rest:
        number = rest.register("trucks", TRUCK)
        values = [framed(number, avro(TRUCK, {"truck": 7, "speed": 1.5})), b'{"truck": 8}']

        assert rows(
            spark, cluster, player, values, format=["json", "avro"], registry=registry.url
        ) == [(7, 1.5, None), (8, None, None)]


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"format": "string"}, "format is 'string'"),
        ({"format": []}, "format is"),
        ({"format": "avro"}, "Avro needs a registry"),
        ({"format": "protobuf"}, "Protobuf needs a registry"),
        (
            {"registry": {"url": "http://x", "password": "s"}},
            "registry has password, which means nothing",
        ),
        ({"registry": "x"}, "is no URL of a registry"),
    ],
)
def test_mistakes_are_reported(how: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionRefused, match=said):
        decode("value", FIELDS, **how)
