"""An archive of Java's classes, with which Spark starts in half the time. A process of low priority
makes it once for each PySpark and Java: it starts Spark, asks a question, and ends.
"""

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from zlib import crc32

from raftka.pipeline.errors import PipelineError
from raftka.pipeline.java import cache_folder, java_home
from raftka.pipeline.spark import ARROW

MODULE = "raftka.sql.server.training"
JAVA_OPTIONS = "spark.driver.defaultJavaOptions"
OWN_FLAGS = "SPARK_SUBMIT_OPTS"  # in the environment: the user chooses Java's flags
QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"


def archive() -> Path:
    """Return its path, whether it is there or not. Raise PipelineError without Java, OSError."""
    import pyspark

    java, jars = java_home() / "bin" / "java", Path(pyspark.__file__).parent / "jars"
    made = [(str(each.resolve()), each.stat().st_mtime_ns) for each in (java, jars)]
    return cache_folder() / f"spark-classes-{crc32(repr(made).encode()):08x}.jsa"


def java_options() -> dict[str, str]:
    """Return the setting of Spark's that names the archive; none where it is not there yet."""
    with suppress(PipelineError, OSError):
        path = archive()
        if path.exists() and OWN_FLAGS not in os.environ:
            return {JAVA_OPTIONS: f'{ARROW} -Xshare:auto {QUIET} "-XX:SharedArchiveFile={path}"'}
    return {}


def make_later(bootstrap: str, config: Path | None) -> None:
    """Start the process that makes the archive, where it is not there. `config`: client
    properties.
    """
    with suppress(PipelineError, OSError):
        if archive().exists() or OWN_FLAGS in os.environ:
            return
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", MODULE],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        assert process.stdin is not None
        with process.stdin as into:
            into.write(json.dumps([bootstrap, str(config) if config else None]).encode())
