"""CREATE STREAM, TABLE and SINK as elements of a pipeline: views, sinks and flows. Spark parses and
plans their queries.
"""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException, ParseException
from pyspark.pipelines.flow import Flow
from pyspark.pipelines.graph_element_registry import GraphElementRegistry
from pyspark.pipelines.output import Sink, TemporaryView
from pyspark.pipelines.source_code_location import SourceCodeLocation
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from raftka.pipeline.errors import OptionRefused
from raftka.pipeline.flows.statements import FOLDER, Statement, lake_of, statements
from raftka.pipeline.flows.streams import Declared, declared, load
from raftka.pipeline.flows.supervisor import explained
from raftka.pipeline.lake.options import WRITTEN, lake_options
from raftka.pipeline.project import Project
from raftka.pipeline.topics.brokers import open_brokers
from raftka.pipeline.topics.creation import create_topic
from raftka.pipeline.topics.options import PATIENCE_MS
from raftka.pipeline.topics.sink import EXACTLY_ONCE, sink_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def declared_of(folder: Path) -> Declared:
    """Return the declarations of streams.yml; without one, the cluster of the environment. Raise
    PipelineError.
    """
    path = folder / "streams.yml"
    return load(path) if path.is_file() else declared({}, folder)


def register_all(registry: GraphElementRegistry, spark: "SparkSession", project: Project) -> None:
    """The statements of the project. Topics that they write to are made. Raises PipelineError."""
    for each in statements(project.folder):
        make_topic(project, each)
        register(registry, spark, project, each)


def register(
    registry: GraphElementRegistry, spark: "SparkSession", project: Project, found: Statement
) -> None:
    """Raises PipelineError when its name is another's, or for its options."""
    at = SourceCodeLocation(f"{FOLDER}/{found.name}.sql", None)
    if found.kind == "STREAM":
        registry.register_output(TemporaryView(found.name, None, at))
    elif found.topic is not None:
        options = {**declared_of(project.folder).connection, "topic": found.topic, **found.options}
        # else Spark would look at them with the first batch
        sink_options(options, {"key": "string", "value": "string"}, streaming=True)
        registry.register_output(Sink(found.name, None, at, "raftka", options))
    else:
        options = {"path": lake_of(project.folder, found), **found.options}
        lake_options(options, known=WRITTEN, streaming=True)
        registry.register_output(Sink(found.name, None, at, "raftka_delta", options))
    registry.register_flow(Flow(found.name, found.name, {}, at, partial(frame_of, spark, found)))


def make_topic(project: Project, found: Statement, patience_s: float = PATIENCE_MS / 1000) -> None:
    """The topic of a sink, unless it is there. Raises PipelineError."""
    if found.topic is None:
        return
    brokers = open_brokers(declared_of(project.folder).connection, "raftka-pipeline", patience_s)
    try:
        if found.topic not in brokers.topics([found.topic]):
            create_topic(brokers, found.topic, -1, {})
    finally:
        brokers.close()


def frame_of(spark: "SparkSession", found: Statement) -> DataFrame:
    """Return the rows of a statement's query, for a topic as JSON. `parseQuery` takes only queries.
    Raise Spark's errors.
    """
    plan = spark._jsparkSession.sessionState().sqlParser().parseQuery(found.query)
    frame = DataFrame(
        spark._jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, plan), spark
    )
    if not frame.isStreaming:
        raise OptionRefused(
            f"{found.name} is no stream: its query reads none of the project's streams"
        )
    if found.topic is None:
        return frame
    value = f.to_json(f.struct("*")).alias("value")
    frame = (
        frame.select(value)
        if found.key is None
        else frame.select(f.col(found.key).cast("string").alias("key"), value)
    )
    is_exactly_once = any(
        name.lower() == "deliveryguarantee" and each == EXACTLY_ONCE
        for name, each in found.options.items()
    )
    # one task writes: each partition of a topic must have one writer
    return frame.repartition(1) if is_exactly_once else frame


def sentence(error: Exception) -> str:
    """Spark's words, without the plan and the query that follow them."""
    if isinstance(error, ParseException):
        return str(error).split("== SQL")[0].strip()
    if isinstance(error, AnalysisException):
        return str(error).split(";\n")[0].strip()
    return explained(str(error))
