"""The persistent queries of a server: each is kept running by a thread of this process, from its
checkpoint on.
"""

import os
import shutil
import socket
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from raftka.pipeline.flows.live import stop_between_batches
from raftka.pipeline.flows.supervisor import Reported, Supervised
from raftka.pipeline.running.lag import Ends, LagWatch
from raftka.pipeline.topics.brokers import Brokers, open_brokers
from raftka.pipeline.topics.options import PATIENCE_MS
from raftka.pipeline.topics.positions import Position
from raftka.sql.catalog import PersistentQuery, Stream
from raftka.sql.engine.analysis import EARLIEST, Analyzed, Asked, Sources, Start, analyze
from raftka.sql.engine.outputs import start
from raftka.sql.registered import registry_of
from raftka.sql.registration import ValueWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

CHECK_S = 0.25
BEGIN = Start(EARLIEST, 500_000)
FOLDER = "queries"  # of checkpoints


def beginning(kind: str, *, is_final: bool) -> Start:
    """Return the place where a query begins that writes to a stream or a table."""
    return BEGIN._replace(has_changes=kind == "TABLE" and not is_final, is_final=is_final)


class Queries:
    def __init__(
        self,
        spark: "SparkSession",
        folder: Path,
        connection: Mapping[str, str],
        sources: Callable[[Brokers], Sources],
    ) -> None:
        """`folder`: the server's state. `sources`: makes the place of a query's rows, with the
        brokers that are given.
        """
        self._spark, self._folder, self._connection = spark, folder / FOLDER, connection
        self._sources = sources
        self._flows: dict[str, Supervised] = {}
        self._changes = threading.RLock()
        self._stopping = threading.Event()
        self._lags = LagWatch(Ends({}, connection), self._positions)
        self._lags.start()
        self._thread = threading.Thread(target=self._run, name="queries", daemon=True)
        self._thread.start()

    def _positions(self) -> list[Position]:
        return [each for flow in list(self._flows.values()) for each in flow.committed or ()]

    @property
    def has_any(self) -> bool:
        return bool(self._flows)

    def add(self, query: PersistentQuery, target: Stream) -> None:
        """Start a query, and start it again whenever it fails."""
        checkpoint = self._checkpoint(query)
        flow = Supervised(
            query.name,
            partial(self._start, query, target),
            str(checkpoint),
            lag=self._lags.lag,
        )
        with self._changes:
            self._flows[query.name] = flow

    def _start(self, query: PersistentQuery, target: Stream) -> "StreamingQuery":
        checkpoint = self._checkpoint(query)
        brokers = open_brokers(self._connection, "raftka-sql", PATIENCE_MS / 1000)
        try:
            begin = beginning(target.kind, is_final=query.is_final)
            begin = begin._replace(checkpoint=checkpoint)
            frame = self.analyze(Asked(query.query, query.query, 0), brokers, begin).frame
            registry = self._sources(brokers).registry
        finally:
            brokers.close()
        writer = (
            None
            if query.schema_id is None
            else ValueWriter(registry_of(registry), target.format, query.schema_id)
        )
        remove_unfinished(checkpoint)
        return start(frame, target, query, checkpoint, self._connection, writer)

    def analyze(self, asked: Asked, brokers: Brokers, begin: Start) -> Analyzed:
        """Return the frame of a query that goes on. Raise StatementError and PipelineError."""
        return analyze(self._spark, asked, self._sources(brokers), begin)

    def _checkpoint(self, query: PersistentQuery) -> Path:
        return self._folder / query.run

    def stop(self, query: PersistentQuery, *, forget: bool) -> None:
        """Stop a query between two batches. `forget`: its checkpoint is removed."""
        with self._changes:
            flow = self._flows.pop(query.name, None)
            if flow is not None:
                stop_between_batches(flow.query)
        if forget:
            shutil.rmtree(self._checkpoint(query), ignore_errors=True)

    def forget_others(self, kept: Collection[PersistentQuery]) -> None:
        """Remove the checkpoints of queries that were terminated while a server was killed."""
        names = {self._checkpoint(each) for each in kept}
        for path in self._folder.glob("*"):
            if path not in names:
                shutil.rmtree(path, ignore_errors=True)

    def reported(self, name: str) -> Reported | None:
        """Return the state of a query; None: it does not run here."""
        flow = self._flows.get(name)
        return None if flow is None else flow.reported

    def _run(self) -> None:
        while not self._stopping.wait(CHECK_S):
            for flow in list(self._flows.values()):
                with self._changes:
                    if self._flows.get(flow.name) is flow:
                        flow.check(time.monotonic())

    def close(self) -> None:
        self._stopping.set()
        self._thread.join()
        self._lags.stop()
        with self._changes:
            for flow in self._flows.values():
                stop_between_batches(flow.query)
            self._flows.clear()


def remove_unfinished(checkpoint: Path) -> None:
    """Remove files that Spark had begun to write when the disk was full or the server was killed.
    It never starts a query again that has such files and no batch. Raise OSError.
    """
    for name in ("offsets", "commits"):
        for path in (checkpoint / name).glob(".*.tmp*"):
            path.unlink(missing_ok=True)


def hosts_without(spark: "SparkSession", folder: Path) -> Sequence[str]:
    """Return the machines whose tasks do not see a folder of this one. Raise Spark's errors,
    OSError.
    """
    marker = folder / f"seen-{uuid.uuid4().hex}"
    path = str(marker)

    def look(_rows: Iterator[int]) -> Iterator[str]:
        if not os.path.exists(path):
            yield socket.gethostname()

    marker.touch()
    try:
        tasks = max(2, spark.sparkContext.defaultParallelism)
        rows = spark.sparkContext.parallelize(range(tasks), tasks)
        return sorted(set(rows.mapPartitions(look).collect()))
    finally:
        marker.unlink()
