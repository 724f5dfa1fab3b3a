"""format("raftka") in a real Spark on a cluster with TLS, certificates and ACLs: the sink and the source come in, and a stranger does not."""

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: ./run setup pipeline installs it into .venv/ (1 GB)")

from raftka.testing import Cluster

pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture(scope="module")
def secured() -> Iterator[Cluster]:
    with Cluster(security=True) as cluster:
        yield cluster


def options(cluster: Cluster, user: str) -> dict[str, str]:
    security = {f"kafka.{name}": value for name, value in cluster.client_files(user).java().items()}
    return {"kafka.bootstrap.servers": cluster.bootstrap_servers, **security}


def test_sink_and_source_come_in_by_certificate(spark: Any, secured: Cluster) -> None:
    topic, given = secured.create_topic(partitions=2), options(secured, "admin")
    frame = spark.range(100).selectExpr("CAST(id AS STRING) AS value")
    frame.write.format("raftka").mode("append").options(**given, topic=topic).save()

    rows = spark.read.format("raftka").options(**given, subscribe=topic).load().collect()

    assert sorted(int(row["value"]) for row in rows) == list(range(100))


def test_user_without_rights_is_told_what_it_needs(spark: Any, secured: Cluster) -> None:
    topic = secured.create_topic(partitions=1)
    with pytest.raises(Exception, match="needs DESCRIBE and READ"):
        spark.read.format("raftka").options(**options(secured, "nobody"), subscribe=topic).load().collect()
