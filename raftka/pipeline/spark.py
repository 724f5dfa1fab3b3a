"""A Spark session that finds Java by itself. Nothing of it is needed where there is a session already: `format("raftka")` works in any."""

import os
import sys
from collections.abc import Mapping
from typing import Any

from raftka.pipeline.errors import PipelineError
from raftka.pipeline.java import java_home

DEFAULTS = {"spark.sql.session.timeZone": "UTC"}  # timestamps of records are moments; printed they should look the same everywhere


def session(app_name: str = "raftka", config: Mapping[str, str] | None = None, *, master: str | None = None) -> Any:
    """The running session, or a new one; `config` are Spark's settings. JAVA_HOME and, where all runs on this machine, PYSPARK_PYTHON are set in this
    process. Raises PipelineError."""
    try:
        from pyspark.sql import SparkSession
    except ModuleNotFoundError:
        raise PipelineError("PySpark is not installed. Next step: pip install 'raftka[pipeline]'") from None
    if SparkSession.getActiveSession() is None:
        os.environ["JAVA_HOME"] = str(java_home())
        if is_local({**(config or {}), **({"spark.master": master} if master else {})}):
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else workers run the first python3 of PATH, which may have no raftka
    builder = SparkSession.builder.appName(app_name)
    if master is not None:
        builder = builder.master(master)
    for name, value in {**DEFAULTS, **(config or {})}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def is_local(config: Mapping[str, str], environment: Mapping[str, str] = os.environ) -> bool:
    """Whether workers are started on this machine: nobody said otherwise, and spark-submit, who might have, did not start this process."""
    return config.get("spark.master", environment.get("MASTER", "local")).startswith("local") and "PYSPARK_GATEWAY_PORT" not in environment
