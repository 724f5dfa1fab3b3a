"""A Spark session that finds Java by itself. Nothing of it is needed where there is a session
already: `format("raftka")` works in any.
"""

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from raftka.pipeline.errors import PipelineError, sentence_in
from raftka.pipeline.java import cache_folder, java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TIME_ZONE = "spark.sql.session.timeZone"
DAEMON, WORKERS = "spark.python.daemon.module", "raftka.pipeline.workers"
# Java reads what pyarrow has written, by its own row counts and null flags: to check each value for
# them once more takes a fifth of its time.
ARROW = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
# Hive's, which PySpark has among its jars, refuses to rename a file over another one: flows let
# Spark rename with this one only (flows/graph.py).
LOCAL_FILES = "org.apache.hadoop.fs.LocalFileSystem"
# Spark puts its extraJavaOptions behind them
JAVA = {f"spark.{role}.defaultJavaOptions": ARROW for role in ("driver", "executor")}
DEFAULTS = {
    # timestamps of records are moments; printed they should look the same everywhere
    TIME_ZONE: "UTC",
    # Spark's own, and what logins and TLS have
    "spark.redaction.regex": "(?i)secret|password|token|access[.]?key|jaas|keystore[.]key",
    # seven flows have 80 to 100: Spark keeps 100, and compiles others anew in each batch
    "spark.sql.codegen.cache.maxEntries": "1000",
}


def session(
    app_name: str = "raftka",
    config: Mapping[str, str] | None = None,
    *,
    master: str | None = None,
    remote: str | None = None,
    log: Path | None = None,
    held: int | None = None,
) -> "SparkSession":
    """The running session, or a new one; `config` are Spark's settings. JAVA_HOME is set in this
    process, and PYSPARK_PYTHON where it is not. `log`: where all goes that Java and its workers
    print; `held`: a descriptor that Java is to have open as long as it lives. `remote`: a Spark
    Connect server, such as sc://host:15002, which runs all in place of this process; nothing of
    Java is needed here then. Raises PipelineError.
    """
    end_with_the_sentence()
    try:
        from pyspark.sql import SparkSession
    except ModuleNotFoundError:
        raise PipelineError(
            "PySpark is not installed. Next step: pip install 'raftka[pipeline]'"
        ) from None
    if remote is not None:
        if master is not None or log is not None or held is not None:
            raise PipelineError(
                "a session with `remote` has no master and no Java of its own: the Spark Connect "
                "server has them"
            )
        return _configured(
            SparkSession.builder.appName(app_name).remote(remote),
            {TIME_ZONE: DEFAULTS[TIME_ZONE], **(config or {})},
        )
    if SparkSession.getActiveSession() is None:
        os.environ["JAVA_HOME"] = str(java_home())
        # Spark looks for raftka in the driver with this Python, and runs the same path in
        # executors; else it takes the first python3 of PATH.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        if is_local({**(config or {}), **({"spark.master": master} if master else {})}):
            _set_home()
            config = {DAEMON: WORKERS, "spark.hadoop.fs.file.impl": LOCAL_FILES, **(config or {})}
        config = {**JAVA, **(config or {})}
    if log is not None:
        _launch({**DEFAULTS, **(config or {})}, log, held)
    builder = SparkSession.builder.appName(app_name)
    if master is not None:
        builder = builder.master(master)
    return _configured(builder, {**DEFAULTS, **(config or {})})


def _configured(builder: "SparkSession.Builder", config: Mapping[str, str]) -> "SparkSession":
    for name, value in config.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _set_home() -> None:
    """Set SPARK_HOME where the environment does not."""
    import pyspark

    if "SPARK_HOME" not in os.environ:
        try:
            os.environ["SPARK_HOME"] = str(
                fast_home(
                    Path(pyspark.__file__).parent, cache_folder() / f"spark-{pyspark.__version__}"
                )
            )
        except OSError:
            """No cache folder: Spark's own does as well, slower."""


def _launch(config: Mapping[str, str], log: Path, held: int | None) -> None:
    """Java before there is a session, started as sessions do it: they take the one that is there.
    Its memory and class path are settings that count now or never.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    if log.exists():
        log.replace(log.with_suffix(".log.1"))
    with log.open("ab") as out:
        descriptors = {"pass_fds": (held,)} if held is not None else {}
        gateway = launch_gateway(
            SparkConf(loadDefaults=False).setAll(list(config.items())),
            {"stdout": out, "stderr": out, **descriptors},
        )
    SparkContext._ensure_initialized(gateway=gateway)


class LastWords:
    """Print the error's sentence after the traceback of a failed script: Spark hides it among its
    own lines.
    """

    def __init__(
        self, before: Callable[[type[BaseException], BaseException, TracebackType | None], object]
    ) -> None:
        self._before = before

    def __call__(
        self, kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        self._before(kind, error, trace)
        sentence = sentence_in(str(error))
        if sentence is not None and not isinstance(error, PipelineError):
            sys.stderr.write(f"\n{sentence}\n")


def end_with_the_sentence() -> None:
    """For this process, once."""
    if not isinstance(sys.excepthook, LastWords):
        sys.excepthook = LastWords(sys.excepthook)


def is_local(config: Mapping[str, str], environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether workers start on this machine: no setting says otherwise, and this process was
    not started by spark-submit.
    """
    return (
        config.get("spark.master", environment.get("MASTER", "local")).startswith("local")
        and "PYSPARK_GATEWAY_PORT" not in environment
    )


def fast_home(installed: Path, home: Path) -> Path:
    """Make a SPARK_HOME of links to the files in `installed`, where they are missing. Return it.
    Raise OSError.

    Its Python is the installed one. Spark's own puts pyspark.zip first on its workers' path:
    modules without byte code, which each worker compiles anew, a second of CPU each.
    """
    places = {home / name: installed / name for name in ("bin", "sbin", "jars")}
    places |= {
        home / "python" / "lib" / each.name: each
        for each in (installed / "python" / "lib").glob("py4j-*-src.zip")
    }
    for place, target in places.items():
        place.parent.mkdir(parents=True, exist_ok=True)
        if os.path.realpath(place) != os.path.realpath(target):
            fresh = place.with_name(f"{place.name}.{os.getpid()}")
            fresh.unlink(missing_ok=True)
            fresh.symlink_to(target)
            fresh.replace(place)  # whole at once: another process may be about to use it
    return home
