"""The cluster of a session: its brokers, the statements that are known, and the one session of
Spark. All parts of a session share it.
"""

import logging
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from raftka.pipeline.errors import PipelineError
from raftka.pipeline.flows.streams import REGISTRY_URL, connection, registry_access
from raftka.pipeline.records.registry_client import RegistryAccess
from raftka.pipeline.topics.brokers import Brokers, no_answer, open_brokers
from raftka.sql import topics
from raftka.sql.catalog import Catalog, Stream
from raftka.sql.class_archive import java_options
from raftka.sql.language import StatementError
from raftka.sql.language.statements import Statement
from raftka.sql.statement_log import Change, StatementLog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from raftka.sql.engine.analysis import Sources

PATIENCE_S = 30.0  # for brokers
COMPACTED = {"cleanup.policy": "compact"}
KINDS_OF_TIME = ("timestamp", "bigint")  # of the column that TIMESTAMP names; a bigint is ms
DELAY = re.compile(r"[0-9]{1,9} +(millisecond|second|minute|hour|day)s?", re.IGNORECASE)
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.streaming.numRecentProgressUpdates": "20",
    "spark.sql.streaming.noDataProgressEventInterval": "2000",
    # a question has few rows: each task costs more than they do
    "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
}

StartSpark = Callable[[int | None], "SparkSession"]


class Context:
    """May be used by several threads."""

    def __init__(
        self,
        bootstrap: str,
        config: Path | None,
        registry: RegistryAccess | None,
        start_spark: StartSpark,
        *,
        has_functions: bool = True,
    ) -> None:
        """The arguments are those of the session."""
        self.has_functions = has_functions
        self.connection = connection(bootstrap, config)
        self.registry = registry or _registry_of_environment()
        self._start_spark = start_spark
        self._log = StatementLog(self.open_brokers())
        self._changes = threading.RLock()  # of the log
        self._starting = threading.Lock()
        self._spark: SparkSession | None = None

    def close(self) -> None:
        """Spark stays: another session may use it."""
        with self._changes:
            self._log.close()

    @property
    def spark_if_started(self) -> "SparkSession | None":
        return self._spark

    @property
    def has_lost_java(self) -> bool:
        """Return whether Java was started and has ended."""
        spark = self._spark
        java = None if spark is None else getattr(spark.sparkContext._gateway, "proc", None)
        return java is not None and java.poll() is not None

    def open_brokers(self) -> Brokers:
        return open_brokers(self.connection, "raftka-sql", PATIENCE_S, no_answer)

    @contextmanager
    def brokers(self) -> Iterator[Brokers]:
        """The brokers for one statement."""
        brokers = self.open_brokers()
        try:
            yield brokers
        finally:
            brokers.close()

    @contextmanager
    def changing(self) -> Iterator[Change]:
        """A change of the catalog; other statements of this session wait."""
        with self._changes:
            yield self._log.begin()

    def catalog(self) -> Catalog:
        """Return the present entries, as a copy."""
        with self._changes:
            return Catalog(dict(self._log.read().entries))

    def spark(self, held: int | None = None) -> "SparkSession":
        """Return the one session of Spark; start it where it is not there yet. Raise
        PipelineError.
        """
        with self._starting:
            if self._spark is None:
                self._spark = self._start_spark(held)
            if self.has_lost_java:
                raise PipelineError(
                    "Java has ended; spark.log may say why. Next step: give the statement again "
                    "when the server has started again, which takes some seconds. Queries go on "
                    "from their checkpoints"
                )
            return self._spark

    def sources(self, brokers: Brokers) -> "Sources":
        from raftka.sql.engine.analysis import Sources

        return Sources(self.connection, self.registry, brokers, self.catalog(), self.has_functions)

    # streams that statements make and write to

    def check_options(self, stream: Stream, statement: Statement) -> None:
        """Raises StatementError."""

        def refuse(message: str) -> StatementError:
            return StatementError(message, statement.text, statement.at)

        options = stream.options
        if stream.format.has_schema and self.registry is None:
            raise refuse(
                f"{stream.format} needs a registry. Next step: start with "
                "RAFTKA_REGISTRY_URL=http://localhost:8081"
            )
        if options.watermark is not None and DELAY.fullmatch(options.watermark) is None:
            raise refuse(f"WATERMARK is {options.watermark!r}: it is to be like '10 seconds'")
        if options.timestamp is None:
            return
        wanted = options.timestamp.lower()
        column = next((each for each in stream.columns if each.name.lower() == wanted), None)
        if column is None or column.kind not in KINDS_OF_TIME:
            raise refuse(
                f"TIMESTAMP is {options.timestamp}: it is to be a column of the type TIMESTAMP, "
                "or BIGINT with milliseconds"
            )

    def make_topic(self, brokers: Brokers, stream: Stream) -> None:
        """Make the topic of a stream where it is not there."""
        topics.make_topic(
            brokers,
            stream.topic,
            stream.options.partitions or -1,
            stream.options.replicas or -1,
            COMPACTED if stream.kind == "TABLE" else {},
        )

    def target(self, catalog: Catalog, name: str, statement: Statement) -> Stream:
        """Return the stream that a statement writes to. Raise StatementError."""
        found = catalog.stream(name)
        if found is None:
            known = [each.name for kind in ("STREAM", "TABLE") for each in catalog.streams(kind)]
            raise StatementError(
                f"there is no stream {name} to write to. There are: {', '.join(known) or 'none'}",
                statement.text,
                statement.at,
            )
        return found


def _registry_of_environment() -> RegistryAccess | None:
    url = os.environ.get(REGISTRY_URL)
    return None if not url else registry_access(url, REGISTRY_URL, Path(), os.environ)


def start_java(
    log: Path | None, master: str | None, settings: Mapping[str, str] | None, held: int | None
) -> "SparkSession":
    """Start Spark in this process. `log`: where Java prints; None: a file in the user's cache.
    `held`: a descriptor that Java has open as long as it lives.
    """
    from raftka.pipeline.flows.runner import NOISY
    from raftka.pipeline.java import cache_folder
    from raftka.pipeline.spark import session

    for each in NOISY:
        logging.getLogger(each).setLevel(logging.CRITICAL + 1)
    log = log or cache_folder() / "sql.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    own = {**SETTINGS, **java_options(), **(settings or {})}
    return session("raftka sql", own, master=master, log=log, held=held)
