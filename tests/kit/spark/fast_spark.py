"""A Spark that starts fast enough for tests: an archive of its classes, a home whose Python is the
installed one, and no frills.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from raftka.pipeline.java import cache_folder, java_home, version_of
from raftka.pipeline.spark import fast_home

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "512m",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.streaming.pollingDelay": "5ms",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.warehouse.dir": "file:/tmp/raftka-spark-warehouse",
}
FLAGS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def prepare(cache: Path, java: int) -> dict[str, str]:
    """The environment of the session. `cache` may stay from run to run: the first one fills it."""
    import pyspark

    home = fast_home(Path(pyspark.__file__).parent, cache / f"spark-{pyspark.__version__}")
    archive = cache / f"spark-{pyspark.__version__}-java-{java}.jsa"
    if archive.exists():
        flags = f"{FLAGS} -Xshare:auto -XX:SharedArchiveFile={archive}"
    else:
        flags = f"{FLAGS} -XX:ArchiveClassesAtExit={archive}"
    return {
        "SPARK_HOME": str(home),
        "SPARK_SUBMIT_OPTS": f"{flags} -Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:disable",
    }


@contextmanager
def fast_environment() -> Iterator[None]:
    """For processes that tests start: they find Java, this Python and the archive of Spark's
    classes.
    """
    with pytest.MonkeyPatch.context() as patch:
        for name, value in prepare(cache_folder(), version_of(java_home()) or 0).items():
            patch.setenv(name, value)
        patch.setenv("JAVA_HOME", str(java_home()))
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        yield
