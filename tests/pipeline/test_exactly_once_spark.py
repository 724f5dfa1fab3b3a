"""deliveryGuarantee=exactly-once in a real Spark: the order of its calls, its processes killed in a
batch, a second run, a batch that fails.
"""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
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
from raftka.testing.faults import Fault
from tests.pipeline.copying import SECONDS, Copy, Driver, processes
from tests.pipeline.exactly_once import committed, found
from tests.pipeline.fast_spark import SETTINGS
from tests.pipeline.players import Player
from tests.pipeline.standalone import SETTINGS as STANDALONE
from tests.pipeline.standalone import Standalone, plain_environment

pytestmark = pytest.mark.filterwarnings("default")

PARTITIONS = 3
# records of each partition: a batch each, of which every partition is a task
FIRST, SECOND = (20, 20, 20), (30, 20, 10)
ALWAYS = 1_000_000
HELD = 2  # a partition whose leader is not that of the decisions


class Job:
    """From a topic to another one with as many partitions."""

    def __init__(self, spark: Any, cluster: Cluster, player: Player, copy: Copy) -> None:
        self.spark, self.cluster, self.player, self.copy = spark, cluster, player, copy
        self.filled = [0] * PARTITIONS
        self._drivers = ExitStack()

    def fill(self, counts: tuple[int, ...]) -> None:
        for partition, count in enumerate(counts):
            self.player.fill(self.copy.source, count, partition, first=self.filled[partition])
            self.filled[partition] += count

    def run(self, value: str = "value") -> None:
        assert replace(self.copy, value=value).start(self.spark).awaitTermination(SECONDS)

    def driver(
        self,
        *,
        settings: dict[str, str] = SETTINGS,
        master: str = "local[2]",
        environment: dict[str, str] | None = None,
    ) -> Driver:
        started = Driver(self.copy, settings, master, environment)
        self._drivers.callback(started.close)
        return started

    def wait(self, condition: Callable[[], object]) -> None:
        self.cluster.wait_for(condition, SECONDS)

    def written(self) -> int:
        """Rows, those of no committed transaction among them."""
        return len(found(self.cluster, self.copy.topic, "read_uncommitted"))

    def is_held(self, fault: Fault, least: int) -> bool:
        """Whether a request was held, and there are so many rows."""
        return fault.hits > 0 and self.has(least)

    def has(self, least: int) -> bool:
        return self.written() >= least

    def hold_rows(self) -> Fault:
        """Rows of one partition are not taken; those of others are, and so are claims."""
        leader = self.cluster.leader(self.copy.topic, HELD)
        return self.cluster.fail_next(
            "Produce", "NOT_LEADER_OR_FOLLOWER", times=ALWAYS, nodes=[leader]
        )

    def forget_last_commit(self) -> None:
        """As if the driver had died between EndTxn and Spark's own note that the batch is done."""
        last = max(
            Path(self.copy.folder, "commits").glob("[0-9]*"), key=lambda each: int(each.name)
        )
        last.unlink()
        last.with_name(f".{last.name}.crc").unlink(missing_ok=True)

    def check(self) -> None:
        keys = (
            f"{partition}-k{number:09}"
            for partition, count in enumerate(self.filled)
            for number in range(count)
        )
        assert committed(self.cluster, self.copy.topic) == sorted(keys)

    def close(self) -> None:
        self._drivers.close()


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
