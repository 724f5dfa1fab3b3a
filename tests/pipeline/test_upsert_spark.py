"""Change events into a lake by key in a real Spark: a batch that is done again, and drivers that
are killed in the middle.
"""

import json
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip(
    "pyspark",
    reason="PySpark is not installed: ./run setup pipeline installs it into .venv/ (1 GB)",
)

from deltalake import DeltaTable

from raftka.client.blocking.producer import Producer
from raftka.pipeline.lake.upsert import STAGE
from raftka.testing import Cluster
from tests.kit.spark.fast_spark import SETTINGS
from tests.pipeline.copying import SECONDS, Driver
from tests.pipeline.following import Follow
from tests.pipeline.players import Player

pytestmark = pytest.mark.filterwarnings("default")

PARTITIONS, KEYS = 2, 30


class Table:
    """Rows of a database that change, and the events that tell it. A key's events are in one
    partition.
    """

    def __init__(self, player: Player, topic: str) -> None:
        self.rows: dict[int, tuple[str, int]] = {}
        self._topic, self._producer = topic, Producer(player.brokers)
        self._chance, self._n = random.Random(25), 0

    def change(self, times: int) -> None:
        for _ in range(times):
            key = self._chance.randrange(KEYS)
            self._n += 1
            before = self._told(key)
            if key in self.rows and self._chance.random() < 0.3:
                del self.rows[key]
                self._add(key, {"op": "d", "before": before, "after": None})
                self._add(key, None)
                continue
            self.rows[key] = (self._chance.choice(["NEW", "PAID", "SENT"]), self._n)
            self._add(
                key, {"op": "u" if before else "c", "before": before, "after": self._told(key)}
            )
        self._producer.flush()

    def _told(self, key: int) -> dict[str, Any] | None:
        return (
            None
            if key not in self.rows
            else {"id": key, "state": self.rows[key][0], "n": self.rows[key][1]}
        )

    def _add(self, key: int, event: dict[str, Any] | None) -> None:
        value = None if event is None else json.dumps(event).encode()
        self._producer.add(
            (self._topic, key % PARTITIONS),
            (json.dumps({"id": key}).encode(), value, (), 1_795_000_000_000 + self._n),
        )


class Job:
    def __init__(self, spark: Any, cluster: Cluster, player: Player, follow: Follow) -> None:
        self.spark, self.cluster, self.follow = spark, cluster, follow
        self.table = Table(player, follow.source)
        self._drivers = ExitStack()

    def run(self) -> None:
        assert self.follow.start(self.spark).awaitTermination(SECONDS)

    def driver(self) -> Driver:
        started = Driver(self.follow, SETTINGS, "local[2]", module="tests.pipeline.following")
        self._drivers.callback(started.close)
        return started

    def close(self) -> None:
        self._drivers.close()

    def staged(self) -> set[str]:
        return {each.name for each in (self.follow.lake / STAGE).rglob("*.parquet")}

    def entries(self) -> set[str]:
        return {each.name for each in (self.follow.lake / "_delta_log").glob("*.json")}

    def forget_last_commit(self) -> None:
        """As if the driver had died between the lake's log and Spark's."""
        last = max(
            Path(self.follow.folder, "commits").glob("[0-9]*"), key=lambda each: int(each.name)
        )
        last.unlink()
        last.with_name(f".{last.name}.crc").unlink(missing_ok=True)

    def batches(self) -> int:
        return len(list(Path(self.follow.folder, "commits").glob("[0-9]*")))

    def check(self) -> None:
        """The lake is like the table, each batch is in its log once, and nothing is left over."""
        rows = self.spark.read.format("raftka_delta").load(str(self.follow.lake)).collect()
        assert sorted((row["id"], row["state"], row["n"]) for row in rows) == sorted(
            (key, *row) for key, row in self.table.rows.items()
        )
        merges = [
            each for each in DeltaTable(self.follow.lake).history() if each["operation"] == "MERGE"
        ]
        assert len(merges) == self.batches()
        assert self.staged() == set()


@pytest.fixture
def job(spark: Any, cluster: Cluster, player: Player, tmp_path: Path) -> Iterator[Job]:
    source = cluster.create_topic(partitions=PARTITIONS)
    started = Job(
        spark,
        cluster,
        player,
        Follow(cluster.bootstrap_servers, source, str(tmp_path / "checkpoint")),
    )
    yield started
    started.close()


def test_a_batch_that_spark_does_again_changes_nothing(job: Job) -> None:
    job.table.change(100)
    job.run()
    job.check()
    entries = job.entries()
    job.forget_last_commit()
    job.run()
    assert job.entries() == entries
    job.check()
    job.table.change(60)
    job.run()
    job.check()


def test_every_change_is_there_once_whenever_its_driver_is_killed(job: Job) -> None:
    """The driver is killed when tasks have staged rows, and when the lake's log has a new entry
    that Spark may not know of.
    """
    job.table.change(40)
    job.run()
    job.table.change(200)
    steps: list[Callable[[], set[str]]] = [job.staged, job.entries, job.entries]
    for seen in steps:
        before, driver = seen(), job.driver()
        job.cluster.wait_for(lambda seen=seen, before=before: seen() - before, SECONDS)  # type: ignore[misc]
        assert driver.process.poll() is None
        driver.kill()
    done = job.batches()
    job.run()

    assert job.batches() > done, "no driver was killed in the middle"
    job.check()
