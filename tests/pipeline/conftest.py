"""A cluster of three for the readers, what fills its topics, and the Spark that all tests share.
Records are years old, so they are kept for ever.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from raftka.pipeline.java import cache_folder, java_home, version_of
from raftka.testing import Cluster
from tests.kit.spark.fast_spark import SETTINGS, prepare
from tests.kit.toolchains import Missing, Toolchains
from tests.pipeline.players import Player


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3, log_retention_ms=-1, log_cleaner_backoff_ms=100) as started:
        yield started


@pytest.fixture
def player(cluster: Cluster) -> Iterator[Player]:
    cluster.heal()
    played = Player(cluster)
    yield played
    played.close()
    cluster.clear_faults()


@pytest.fixture(scope="session")
def kafka_jars(request: pytest.FixtureRequest) -> str:
    """Of Spark's own Kafka source, as spark.jars has them; else why there are none. Spark takes
    them when it starts, or never.
    """
    try:
        return ",".join(
            map(str, Toolchains(fetch=request.config.getoption("--all-clients")).spark_kafka())
        )
    except Missing as missing:
        return f"none: {missing}"


@pytest.fixture(scope="session")
def spark(kafka_jars: str) -> Iterator[Any]:
    pytest.importorskip(
        "pyspark",
        reason="PySpark is not installed: ./run setup pipeline installs it into .venv/ (1 GB)",
    )
    from raftka.pipeline.spark import session

    with pytest.MonkeyPatch.context() as patch:
        for name, value in prepare(cache_folder(), version_of(java_home()) or 0).items():
            patch.setenv(name, value)
        patch.setenv("JAVA_HOME", str(java_home()))
        jars = {} if kafka_jars.startswith("none") else {"spark.jars": kafka_jars}
        started = session("raftka's tests", {**SETTINGS, **jars}, master="local[2]")
        started.sparkContext.setLogLevel("OFF")
        yield started
        started.stop()
