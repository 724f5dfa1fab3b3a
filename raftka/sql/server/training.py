"""The process that makes the archive of Java's classes: it starts Spark, asks a question, and ends
it. Standard input has the brokers and the path of client properties, in JSON.
"""

import json
import os
import sys
from contextlib import suppress
from pathlib import Path

from pyspark.sql import SparkSession

from raftka.pipeline.locks import locked
from raftka.pipeline.spark import ARROW
from raftka.sql.class_archive import JAVA_OPTIONS, QUIET, archive
from raftka.sql.session import Session

NICENESS = 19
END_S = 120.0  # for Java to write the archive


def main() -> None:
    """Make the archive, for the cluster that standard input names."""
    bootstrap, config = json.loads(sys.stdin.read())
    os.nice(NICENESS)
    path = archive()
    lock = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
    if not locked(lock) or path.exists():
        return
    part = path.with_suffix(".part")
    part.unlink(missing_ok=True)
    session = Session(
        bootstrap,
        Path(config) if config else None,
        settings={JAVA_OPTIONS: f'{ARROW} {QUIET} "-XX:ArchiveClassesAtExit={part}"'},
        log=path.with_suffix(".log"),
    )
    session.ask_one_row()
    session.close()
    spark = SparkSession.builder.getOrCreate()
    java = spark.sparkContext._gateway.proc
    spark.stop()
    java.stdin.close()  # then it writes the archive
    java.wait(END_S)
    with suppress(FileNotFoundError):
        part.replace(path)


if __name__ == "__main__":
    main()
