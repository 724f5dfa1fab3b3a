"""Spark's daemon of Python workers that has imported everything: it forks with one thread, or
leaves that to Spark's own.
"""

import gc
import os
import subprocess
import sys
import threading
from typing import Any

import pytest

from raftka.pipeline import workers

TOLD = """
import os, sys
from raftka.pipeline import workers
os.environ.update(workers.QUIET)
workers.preload(sys.argv[1])
names = ("pandas", "pyarrow.parquet", "pyspark_raftka_delta", "deltalake")
print(workers.is_single(), *(name in sys.modules for name in names))
"""


@pytest.mark.parametrize(
    ("worker", "loaded"),
    [("pyspark.worker", True), ("pyspark.sql.worker.write_into_data_source", False)],
)
def test_what_workers_import_starts_no_thread(worker: str, loaded: bool) -> None:
    pytest.importorskip(
        "pyspark",
        reason="PySpark is not installed: ./run setup pipeline installs it into .venv/ (1 GB)",
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COV")}

    told = subprocess.run(
        [sys.executable, "-c", TOLD, worker],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()

    assert told[0] == "True"
    assert told[3:] == ["True", "True"]
    assert loaded <= (told[1:3] == ["True", "True"])


def test_a_second_thread_is_seen() -> None:
    waiting = threading.Event()
    thread = threading.Thread(target=waiting.wait)
    thread.start()
    try:
        assert not workers.is_single()
    finally:
        waiting.set()
        thread.join()


def test_without_a_list_of_threads_nothing_is_certain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "THREADS", "/nowhere/task")
    assert not workers.is_single()


def test_sparks_own_daemon_takes_over_where_a_library_started_a_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Replaced(Exception):
        """The process is another program from here on."""

    def execv(_path: str, arguments: list[str]) -> None:
        raise Replaced(*arguments[1:])

    for name in workers.QUIET:
        monkeypatch.setenv(name, "as the user wants it")
    monkeypatch.setattr(workers, "preload", lambda _worker: None)
    monkeypatch.setattr(workers, "is_single", lambda: False)
    monkeypatch.setattr(os, "execv", execv)
    monkeypatch.setattr(sys, "argv", ["workers.py", "pyspark.worker"])
    with pytest.raises(Replaced) as replaced:
        workers.main()

    assert replaced.value.args == ("-m", "pyspark.daemon", "pyspark.worker")
    assert {os.environ[name] for name in workers.QUIET} == {"as the user wants it"}


def test_a_session_on_this_machine_has_it(spark: Any) -> None:
    assert spark.conf.get("spark.python.daemon.module") == "raftka.pipeline.workers"
    assert {
        row[0] for row in spark.range(1).mapInArrow(_started_as, "module string").collect()
    } == {"raftka.pipeline.workers"}


def test_java_reads_arrow_without_looking_twice(spark: Any) -> None:
    options = ("arrow.enable_unsafe_memory_access", "arrow.enable_null_check_for_get")
    assert [spark._jvm.java.lang.System.getProperty(each) for each in options] == ["true", "false"]


def _started_as(_batches: Any) -> Any:
    import pyarrow as pa

    yield pa.RecordBatch.from_pydict({"module": [sys.orig_argv[sys.orig_argv.index("-m") + 1]]})


def test_processes_that_plan_keep_what_they_have_imported(spark: Any) -> None:
    """Spark's daemon is theirs, whatever the setting says. Others keep nothing."""
    from pyspark.sql.datasource import DataSource

    class Probe(DataSource):  # type: ignore[misc]
        @classmethod
        def name(cls) -> str:
            return "probe"

        def schema(self) -> str:
            import gc
            import sys

            import pyspark_raftka  # noqa: F401

            return (
                f"`{sys.orig_argv[sys.orig_argv.index('-m') + 1]}` int, "
                f"`{gc.get_freeze_count() > 10_000}` int"
            )

    spark.dataSource.register(Probe)

    assert spark.read.format("probe").load().columns == ["pyspark.daemon", "True"]
    assert gc.get_freeze_count() == 0


def test_code_that_java_has_compiled_is_there_for_many_flows(spark: Any) -> None:
    """As many as Spark would keep are behind the first ones when these are asked for again."""
    compiled = spark._jvm.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME

    def ask(numbers: range) -> int:
        before = compiled().getCount()
        for number in numbers:
            spark.range(1).selectExpr(f"id + {number} as id")._jdf.queryExecution().toRdd().count()
        return int(compiled().getCount() - before)

    first = range(1_000_000, 1_000_005)
    assert ask(first)
    ask(range(2_000_000, 2_000_110))
    assert not ask(first)
