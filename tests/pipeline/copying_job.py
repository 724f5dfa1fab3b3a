"""A copy of a topic by a driver of Spark's, which may be killed."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from raftka.testing import Cluster
from raftka.testing.faults.fault import Fault
from tests.kit.spark.fast_spark import SETTINGS
from tests.pipeline.copying import SECONDS, Copy, Driver
from tests.pipeline.exactly_once import committed, found
from tests.pipeline.players import Player

PARTITIONS = 3
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
        """Return True if a request was held, and there are so many rows."""
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
