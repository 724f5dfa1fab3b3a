"""A Spark that starts fast enough for tests: an archive of its classes, a home whose Python is the installed one, and no frills."""

from pathlib import Path

from raftka.pipeline.home import fast_home

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
    return {"SPARK_HOME": str(home), "SPARK_SUBMIT_OPTS": f"{flags} -Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:disable"}
