"""One session of SQL on a cluster: its statements run in one Spark."""

import logging
from collections.abc import Mapping
from pathlib import Path

from raftka.pipeline.flows.streams import connection
from raftka.pipeline.sql import Places, run_query
from raftka.pipeline.topics.brokers import open_brokers
from raftka.pipeline.topics.options import PATIENCE_MS
from raftka.sql.answers import Answer, Column, Words

QUIET = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}
ROWS = 1_000_000  # of an answer without a limit: an answer is held in memory
FIELDS = ("key", "value", "partition", "offset", "timestamp")


class Session:
    """For many threads; Spark runs their statements side by side."""

    def __init__(
        self,
        bootstrap: str,
        config: Path | None = None,
        *,
        master: str | None = None,
        settings: Mapping[str, str] | None = None,
        log: Path | None = None,
    ) -> None:
        """Start Spark, which takes some seconds. `config`: a file with client properties.
        `settings`: Spark's. `log`: where Java's output goes. Raises PipelineError.
        """
        from raftka.pipeline.flows.runner import NOISY
        from raftka.pipeline.spark import session

        for each in NOISY:
            logging.getLogger(each).setLevel(logging.CRITICAL + 1)
        self._places = Places(bootstrap, config=config)
        self._spark = session("raftka sql", {**QUIET, **(settings or {})}, master=master, log=log)

    @property
    def has_queries(self) -> bool:
        """Return False: each statement ends with its answer."""
        return False

    def execute(self, text: str, limit: int | None = None) -> Answer:
        """Return at most `limit` rows. Raises PipelineError, and Spark's errors."""
        most = ROWS if limit is None else limit
        found = run_query(self._spark, text, self._places, most)
        note = "" if found.is_all else f"there are more than {most} rows"
        rows = ([row[name] for name in found.columns] for row in found.rows)
        return Answer([Column(name, "") for name in found.columns], rows, note)

    def words(self) -> Words:
        """Return names to complete. Raises PipelineError when no broker answers."""
        places = self._places
        options = connection(places.bootstrap, places.config)
        brokers = open_brokers(options, "raftka-sql", PATIENCE_MS / 1000)
        try:
            topics = brokers.names()
        finally:
            brokers.close()
        functions = [row[0] for row in self._spark.sql("show functions").collect()]
        return Words(topics, (), FIELDS, [name for name in functions if name[0].isalpha()])

    def close(self) -> None:
        """End Spark."""
        self._spark.stop()
