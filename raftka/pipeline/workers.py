"""Spark's daemon of Python workers, with what workers import already there: `python -m
raftka.pipeline.workers`, as `spark.python.daemon.module`.

Spark starts a process for each task that finds no idle one, and for each plan, writer and commit of
a batch. Its own daemon imports nothing before it forks, because libraries may start threads, which
no child would have. Here libraries are told to start none, and when there is one all the same (or
nobody can say) Spark's own daemon takes the place of this one.
"""

import gc
import importlib
import os
import sys
from contextlib import suppress
from zipimport import zipimporter

QUIET = {  # libraries that would start threads when they are imported
    "OPENBLAS_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
    "_RJEM_MALLOC_CONF": "background_thread:false",
}
TASKS = "pyspark.worker"  # what Spark's tasks run; all else plans
DAEMON = "pyspark.daemon"
PLANNING = (
    "pyarrow.compute",
    "pyspark_raftka",
    "pyspark_raftka_stream",
    "pyspark_raftka_delta",
    "raftka.pipeline.topics.reader",
    "deltalake",
)
RUNNING = (
    "concurrent.futures.thread",
    "deltalake.fs",
    "encodings.idna",
    "pandas",
    "pyarrow.fs",
    "pyarrow.pandas_compat",
    "pyarrow.parquet",
    "pyspark.sql.streaming.proto.StateMessage_pb2",
    "pyspark.sql.streaming.stateful_processor_util",
    "pyspark.sql.worker.plan_data_source_read",
    "raftka.pipeline.projects.trucks.library.moves",
)
THREADS = "/proc/self/task"


def preload(worker: str) -> None:
    """Import the modules that this kind of worker needs. A missing one is reported when the worker
    imports it itself.
    """
    for name in (worker, *PLANNING, *(RUNNING if worker == TASKS else ())):
        with suppress(Exception):
            importlib.import_module(name)


def is_single() -> bool:
    """Return whether this process has one thread for certain."""
    try:
        return len(os.listdir(THREADS)) == 1
    except OSError:
        return False


def forget_archives() -> None:
    """Each worker tells importers that files may be new; those of archives would read theirs anew,
    which nobody changes.
    """
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimporter):
            del sys.path_importer_cache[path]


def keep_imports() -> None:
    """Spark plans and commits in processes of its own daemon, which look for garbage after each
    plan and commit. All that is imported by now stays, so they leave it out: 50 ms less.
    """
    spec = sys.modules["__main__"].__spec__
    if spec is not None and spec.name == DAEMON:
        gc.freeze()


def main() -> None:
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    preload(sys.argv[1] if len(sys.argv) > 1 and sys.argv[1].startswith("pyspark") else TASKS)
    if not is_single():
        os.execv(sys.executable, [sys.executable, "-m", DAEMON, *sys.argv[1:]])
    forget_archives()
    from pyspark.daemon import manager

    gc.collect()
    gc.freeze()  # collections in workers leave these pages as they are, shared
    manager()


if __name__ == "__main__":
    main()
