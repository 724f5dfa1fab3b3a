"""deliveryGuarantee=exactly-once on Apache Kafka: the rules of exactly_once_rules.py, and a
driver of Spark's that is killed.

Needs Java and Kafka's jars from Maven, which `./run test --all-clients` fetches.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

pytest.importorskip(
    "pyspark",
    reason="PySpark is not installed: ./run setup pipeline installs it into .venv/ (1 GB)",
)

from bench.systems import Kafka
from raftka.testing import Cluster
from tests.kit.toolchains import Missing, Toolchains
from tests.pipeline.copying import Copy
from tests.pipeline.copying_job import PARTITIONS, Job
from tests.pipeline.exactly_once_rules import (
    test_a_batch_is_there_once_behind_whichever_step_its_first_run_ends,
    test_a_failed_task_aborts_the_batch_at_once,
    test_a_second_run_fences_the_first_one,
    test_batches_are_there_once,
    test_the_driver_aborts_a_batch_whose_tasks_did_not_all_end,
    test_the_second_attempt_of_a_task_fails_the_batch,
    test_two_tasks_that_write_to_one_partition_are_refused,
    topic,
)
from tests.pipeline.players import Player

__all__ = [
    "test_a_batch_is_there_once_behind_whichever_step_its_first_run_ends",
    "test_a_failed_task_aborts_the_batch_at_once",
    "test_a_second_run_fences_the_first_one",
    "test_batches_are_there_once",
    "test_the_driver_aborts_a_batch_whose_tasks_did_not_all_end",
    "test_the_second_attempt_of_a_task_fails_the_batch",
    "test_two_tasks_that_write_to_one_partition_are_refused",
    "topic",
]
pytestmark = pytest.mark.filterwarnings("default")

EACH = 40_000  # records of a partition, in one batch


class ApacheKafka:
    """One node, with the part of Cluster that these rules use."""

    wait_for = Cluster.wait_for

    def __init__(self, system: Kafka) -> None:
        self._system, self._topics = system, 0

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{host}:{port}" for host, port in self._system.addresses)

    def create_topic(self, partitions: int) -> str:
        self._topics += 1
        # records are years old
        self._system.create_topic(f"topic-{self._topics}", partitions, {"retention.ms": "-1"})
        return f"topic-{self._topics}"


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    try:
        Toolchains(fetch=request.config.getoption("--all-clients")).java_tools()
    except Missing as missing:
        pytest.skip(f"no Apache Kafka here: {missing}")
    with Kafka(1) as system:
        system.start()
        system.wait_ready()
        yield cast(Cluster, ApacheKafka(system))


@pytest.fixture
def player(cluster: Cluster) -> Iterator[Player]:
    played = Player(cluster)
    yield played
    played.close()


@pytest.fixture
def job(spark: Any, cluster: Cluster, player: Player, tmp_path: Path) -> Iterator[Job]:
    source, sink = (cluster.create_topic(partitions=PARTITIONS) for _ in range(2))
    copy = Copy(
        cluster.bootstrap_servers,
        source,
        sink,
        str(tmp_path / "checkpoint"),
        PARTITIONS,
        batch=EACH * PARTITIONS,
    )
    started = Job(spark, cluster, player, copy)
    yield started
    started.close()


def test_a_batch_is_there_once_whenever_its_driver_is_killed(job: Job) -> None:
    """Return the moments at which the first rows are there, all are, and Spark has not noted that
    the batch is done.
    """
    job.fill((50, 50, 50))
    job.run()
    job.fill((EACH, EACH, EACH))
    for new_rows in (1, EACH * PARTITIONS):
        least = job.written() + new_rows
        driver = job.driver()
        job.wait(partial(job.has, least))
        driver.kill()
    job.run()
    job.check()

    job.forget_last_commit()
    job.run()
    job.check()
