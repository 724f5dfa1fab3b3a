"""deliveryGuarantee=exactly-once in a real Spark: the order of its calls, its processes killed in a
batch, a second run, a batch that fails.
"""

import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip(
    "pyspark",
    reason="PySpark is not installed: ./run setup pipeline installs it into .venv/ (1 GB)",
)

from raftka.pipeline.topics import decisions
from raftka.testing import Cluster
from raftka.testing.faults.fault import Fault
from tests.kit.processes import processes
from tests.kit.spark.standalone import SETTINGS as STANDALONE
from tests.kit.spark.standalone import Standalone, plain_environment
from tests.pipeline.copying import Copy
from tests.pipeline.copying_job import ALWAYS, HELD, PARTITIONS, Job
from tests.pipeline.exactly_once import committed
from tests.pipeline.players import Player

pytestmark = pytest.mark.filterwarnings("default")

# records of each partition: a batch each, of which every partition is a task
FIRST, SECOND = (20, 20, 20), (30, 20, 10)


@pytest.fixture
def job(spark: Any, cluster: Cluster, player: Player, tmp_path: Path) -> Iterator[Job]:
    source = cluster.create_topic(partitions=PARTITIONS)
    topic = cluster.create_topic(partitions=PARTITIONS)
    if decisions.TOPIC not in player.brokers.topics([decisions.TOPIC]):
        decisions.ensure_topic(player.brokers)
    while cluster.leader(topic, HELD) == cluster.leader(decisions.TOPIC):
        topic = cluster.create_topic(partitions=PARTITIONS)
    (tmp_path / "notes").mkdir()
    started = Job(
        spark,
        cluster,
        player,
        Copy(cluster.bootstrap_servers, source, topic, str(tmp_path / "checkpoint"), PARTITIONS),
    )
    yield started
    started.close()


def test_a_batch_that_spark_does_again_is_there_once(job: Job) -> None:
    job.fill(FIRST)
    job.fill(SECOND)
    job.run()
    job.forget_last_commit()
    job.fill((7, 7, 7))
    job.run()

    job.check()


# the driver is killed


def hold_claims(job: Job) -> Fault:
    return job.cluster.fail_next("AddPartitionsToTxn", "COORDINATOR_LOAD_IN_PROGRESS", times=ALWAYS)


def hold_rows(job: Job) -> Fault:
    return job.hold_rows()


def hold_end(job: Job) -> Fault:
    return job.cluster.fail_next("EndTxn", "COORDINATOR_LOAD_IN_PROGRESS", times=ALWAYS)


def lose_answer_of_end(job: Job) -> Fault:
    return job.cluster.lose_answers("EndTxn", times=ALWAYS)


def test_a_batch_is_there_once_whenever_its_driver_is_killed(job: Job) -> None:
    """One batch, whose driver is killed each time that it comes one step further. What it leaves is
    there for the next one.
    """
    job.fill(FIRST)
    job.run()
    job.fill(SECOND)
    job.fill((5, 5, 5))
    for hold, new_rows in (
        (hold_claims, 0),
        (hold_rows, 1),
        (hold_end, 1),
        (lose_answer_of_end, 1),
    ):
        least = job.written() + new_rows
        with hold(job) as fault:
            driver = job.driver()
            job.wait(partial(job.is_held, fault, least))
            driver.kill()
    job.run()

    job.check()
    assert job.written() > sum(job.filled)  # there were rows to abort


def test_a_second_run_with_the_same_checkpoint_fences_the_first_one(job: Job) -> None:
    """The first one sleeps when it has written all of its batch, and wakes when the second one has
    done it.
    """
    job.fill(FIRST)
    with hold_end(job) as fault:
        first = job.driver()
        job.wait(lambda: fault.hits)
        first.stop()
    job.fill((4, 4, 4))
    job.run()
    first.resume()

    assert "another run of this query has begun, with the same checkpoint" in first.ended()
    job.check()


# an executor is killed


@pytest.fixture
def standalone(tmp_path: Path) -> Iterator[Standalone]:
    with Standalone(tmp_path) as started:
        yield started


def kill_executor(executor: int) -> None:
    os.kill(executor, signal.SIGKILL)


def kill_python_workers(executor: int) -> None:
    running = processes()
    daemons = {each.pid for each in running if each.parent == executor}
    for each in running:
        if each.parent in daemons:
            os.kill(each.pid, signal.SIGKILL)


@pytest.mark.parametrize("kill", [kill_executor, kill_python_workers])
def test_a_task_whose_process_was_killed_ends_the_batch_and_the_next_run_does_it(
    job: Job, standalone: Standalone, tmp_path: Path, kill: Callable[[int], None]
) -> None:
    job.fill(FIRST)
    job.copy = replace(job.copy, notes=str(tmp_path / "notes"))
    with job.hold_rows() as fault:
        driver = job.driver(
            settings=STANDALONE, master=standalone.master, environment=plain_environment()
        )
        job.wait(partial(job.is_held, fault, 1))
        kill(int((tmp_path / "notes" / str(HELD)).read_text()))
        said = driver.ended()

    assert "was begun before" in said
    assert committed(job.cluster, job.copy.topic) == []
    job.fill(SECOND)
    job.run()
    job.check()


# a batch that fails


def test_rows_of_a_batch_that_fails_are_not_read(job: Job) -> None:
    job.fill(FIRST)
    job.run()
    job.fill(SECOND)
    last = f"partition = {PARTITIONS - 1}"  # its task is the last one to begin
    with pytest.raises(Exception, match="a task of the test's fails"):
        job.run(
            value=f"if({last}, cast(raise_error('a task of the test\\'s fails') as binary), value)"
        )

    assert job.written() > sum(FIRST)
    assert len(committed(job.cluster, job.copy.topic)) == sum(FIRST)
    job.run()
    job.check()
