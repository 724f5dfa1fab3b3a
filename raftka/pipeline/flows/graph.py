"""A project's definitions in one classic session: each flow a streaming query that goes on until it
is stopped. The same files, and the same checkpoints, as `spark-pipelines run`, which hands them to
Spark Connect and ends when it has read what is there.

Spark documents neither the registry nor the parser that are used here: tests/pipeline/test_graph.py
watches them.
"""

import importlib.util
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException
from pyspark.pipelines.flow import Flow
from pyspark.pipelines.graph_element_registry import (
    GraphElementRegistry,
    graph_element_registration_context,
)
from pyspark.pipelines.output import MaterializedView, Output, Sink, StreamingTable, TemporaryView
from pyspark.pipelines.source_code_location import SourceCodeLocation
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from raftka.pipeline.errors import OptionRefused
from raftka.pipeline.flows.spark_statements import register, register_all
from raftka.pipeline.flows.statements import Statement
from raftka.pipeline.flows.supervisor import WRITTEN
from raftka.pipeline.lake.record_batches import COUNT, ONE_BY_ONE, rows_of
from raftka.pipeline.project import Project
from raftka.pipeline.spark import LOCAL_FILES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

MISSING = "TABLE_OR_VIEW_NOT_FOUND"
# How Spark writes the files of a checkpoint. Its own choice, Hadoop's FileContext, starts seven
# processes (`readlink`, `chmod`) for each file where Hadoop has no native library, as in PySpark;
# Hadoop's FileSystem starts two.
FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
BY_FILE_SYSTEM = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
TABLES = {
    "CreateStreamingTable": StreamingTable,
    "CreateStreamingTableAsSelect": StreamingTable,
    "CreateMaterializedViewAsSelect": MaterializedView,
}


class Graph(GraphElementRegistry):  # type: ignore[misc]
    def __init__(self, spark: "SparkSession", project: Project) -> None:
        self._spark, self._project = spark, project
        self._outputs: dict[str, Output] = {}
        self.flows: list[Flow] = []
        self._frames: dict[str, DataFrame] = {}
        self._loading = ""

    # what definitions call

    def register_output(self, output: Output) -> None:
        if output.name in self._outputs:
            raise OptionRefused(
                f"{output.name} is defined twice, the second time in {self._loading}"
            )
        self._outputs[output.name] = output

    def register_flow(self, flow: Flow) -> None:
        if any((each.name, each.target) == (flow.name, flow.target) for each in self.flows):
            raise OptionRefused(
                f"the flow {flow.name} is defined twice, the second time in {self._loading}"
            )
        self.flows.append(flow)

    def register_auto_cdc_flow(self, flow: Any) -> None:
        raise OptionRefused(
            f"{self._loading}: an Auto CDC flow needs a table that can be merged into. Only "
            "`spark-pipelines run` has them, given such a catalog"
        )

    def register_sql(self, sql_text: str, file_path: Path) -> None:
        jvm = self._spark._jvm.org.apache.spark.sql.pipelines.graph

        def plan(at: int) -> Any:
            """Return the frame of a flow, made anew each time: a plan made before its tables never
            finds them.
            """
            return statements().apply(at).plan()

        def statements() -> Any:
            return jvm.SqlGraphRegistrationContext.splitSqlFileIntoQueries(
                self._spark._jsparkSession, sql_text, str(file_path)
            )

        for at in range(statements().length()):
            self._statement(partial(plan, at), str(file_path))

    # loading

    def load(self) -> None:
        """Read the definitions. Raise PipelineError, and the errors of the files."""
        for path in self._project.definitions():
            self._loading = str(path.relative_to(self._project.folder))
            if path.suffix == ".sql":
                self.register_sql(path.read_text(), path.relative_to(self._project.folder))
            elif path.suffix == ".py":
                self._import(path)
            else:
                raise OptionRefused(f"{self._loading}: definitions are .py and .sql files")
        self._loading = "sql"
        register_all(self, self._spark, self._project)
        flows = {flow.target for flow in self.flows} - self._outputs.keys()
        if flows:
            raise OptionRefused(
                f"there are flows into {', '.join(sorted(flows))}, but no such table, view or sink"
            )
        self._in_order(
            [flow for flow in self.flows if isinstance(self._outputs[flow.target], TemporaryView)],
            self._view,
        )

    def _import(self, path: Path) -> None:
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        module.__dict__["spark"] = self._spark
        with in_folder(self._project.folder), graph_element_registration_context(self):
            spec.loader.exec_module(module)

    def _statement(self, plan: Callable[[], DataFrame], where: str) -> None:
        kind, at = plan().getClass().getSimpleName(), SourceCodeLocation(where, None)
        if kind == "CreateViewCommand":
            name = str(plan().name().table())
            self.register_output(TemporaryView(name, None, at))
            self._flow(name, name, lambda: plan().plan(), at)
        elif kind == "CreateFlowCommand":
            self._flow(
                _name(plan().name()),
                _name(plan().flowOperation().table()),
                lambda: plan().flowOperation().query(),
                at,
            )
        elif kind in TABLES:
            name, provider = _name(plan().name()), plan().tableSpec().provider()
            self.register_output(
                TABLES[kind](
                    name,
                    None,
                    at,
                    {},
                    None,
                    None,
                    None,
                    provider.get() if provider.isDefined() else None,
                )
            )
            if kind != "CreateStreamingTable":
                self._flow(name, name, lambda: plan().query(), at)
        else:
            raise OptionRefused(
                f"{where}: {kind} is no definition: CREATE TEMPORARY VIEW, STREAMING TABLE, "
                "MATERIALIZED VIEW or FLOW is"
            )

    def _flow(
        self, name: str, target: str, query: Callable[[], DataFrame], at: SourceCodeLocation
    ) -> None:
        def frame() -> DataFrame:
            return DataFrame(
                self._spark._jvm.org.apache.spark.sql.classic.Dataset.ofRows(
                    self._spark._jsparkSession, query()
                ),
                self._spark,
            )

        self.register_flow(Flow(name, target, {}, at, frame))

    # while it runs

    def add(self, found: Statement) -> None:
        """Add a definition: then its view is there, or its flow can be started. Raise
        PipelineError, and Spark's errors of its query; then nothing has changed.
        """
        if any(found.name.lower() == name.lower() for name in self._outputs):
            raise OptionRefused(f"{found.name} is there already")
        try:
            self._loading = found.name
            register(self, self._spark, self._project, found)
            flow = self.flows[-1]
            self._view(flow) if found.kind == "STREAM" else self._prepare(flow, [])
        except Exception:
            self.remove(found.name)
            raise

    def remove(self, name: str) -> None:
        """Forget a view, or a sink and its flow, which does not run any more."""
        if isinstance(self._outputs.pop(name, None), TemporaryView):
            self._spark.catalog.dropTempView(name)
        self.flows = [flow for flow in self.flows if flow.name != name]
        self._frames.pop(name, None)

    def remove_checkpoints(self, name: str) -> None:
        """Of a sink: one of the same name begins anew."""
        path = self._spark._jvm.org.apache.hadoop.fs.Path(
            f"{self._project.storage}/_checkpoints/{name}"
        )
        path.getFileSystem(self._spark._jsparkSession.sessionState().newHadoopConf()).delete(
            path, True
        )

    def explain(self, name: str) -> str:
        """Spark's plan of a view, or of a flow into a sink. Raises OptionRefused."""
        if isinstance(self._outputs.get(name), TemporaryView):
            frame = self._spark.table(name)
        elif name in self._frames:
            frame = self._frames[name]
        else:
            known = sorted(
                {
                    name
                    for name, output in self._outputs.items()
                    if isinstance(output, TemporaryView)
                }
                | self._frames.keys()
            )
            raise OptionRefused(f"there is no {name}; there are {', '.join(known)}")
        return str(
            self._spark._jvm.PythonSQLUtils.explainString(frame._jdf.queryExecution(), "extended")
        )

    # running

    def _in_order(self, flows: list[Flow], use: Callable[[Flow], None]) -> None:
        """Use each flow after the flows whose views or tables it reads."""
        while flows:
            left, why = [], None
            for flow in flows:
                try:
                    use(flow)
                except AnalysisException as error:
                    if error.getCondition() != MISSING:
                        raise
                    left.append(flow)
                    why = error
            if len(left) == len(flows):
                raise OptionRefused(
                    f"{flows[0].name} ({flows[0].source_code_location.filename}): "
                    f"{str(why).splitlines()[0]}"
                )
            flows = left

    def _view(self, flow: Flow) -> None:
        with in_folder(self._project.folder):
            flow.func().createOrReplaceTempView(flow.name)

    def streams(self) -> list[Flow]:
        """Flows into topics, lakes and tables, those first that others read."""
        ordered: list[Flow] = []
        self._in_order(
            [
                flow
                for flow in self.flows
                if not isinstance(self._outputs[flow.target], TemporaryView)
            ],
            lambda flow: self._prepare(flow, ordered),
        )
        return ordered

    def _prepare(self, flow: Flow, ordered: list[Flow]) -> None:
        with in_folder(self._project.folder):
            frame = flow.func()
        target = self._outputs[flow.target]
        if isinstance(target, MaterializedView):
            frame.write.mode("overwrite").format(target.format or "parquet").saveAsTable(
                target.name
            )
            return
        if not frame.isStreaming:
            raise OptionRefused(
                f"{flow.name} ({flow.source_code_location.filename}) is no stream: it reads with "
                "`spark.readStream` or `FROM STREAM`"
            )
        if isinstance(target, StreamingTable) and not self._spark.catalog.tableExists(target.name):
            self._spark.createDataFrame([], frame.schema).write.format(
                target.format or "parquet"
            ).saveAsTable(target.name)
        self._frames[flow.name] = frame
        ordered.append(flow)

    def start(self, flow: Flow, every_s: float) -> "StreamingQuery":
        """A streaming query that goes on where this flow was."""
        target = self._outputs[flow.target]
        writer = (
            counted(self._frames[flow.name])
            .writeStream.queryName(flow.name)
            .outputMode("append")
            .trigger(processingTime=f"{round(every_s * 1000)} milliseconds")
        )
        checkpoint = self.checkpoint(flow)
        writer = writer.option("checkpointLocation", checkpoint)
        is_batched = rows_of(self._frames[flow.name].schema) is not None
        with self._settings(
            {
                **file_manager(self._spark, checkpoint),
                **flow.spark_conf,
                **(ONE_BY_ONE if is_batched else {}),
            }
        ):
            if isinstance(target, Sink):
                return writer.format(target.format).options(**target.options).start()
            return writer.format(target.format or "parquet").toTable(target.name)

    def checkpoint(self, flow: Flow) -> str:
        """The checkpoint folder that spark-pipelines uses, which begins a new one with
        --full-refresh.
        """
        name = (
            flow.target
            if isinstance(self._outputs[flow.target], Sink)
            else f"spark_catalog/default/{flow.target}"
        )
        path = self._spark._jvm.org.apache.hadoop.fs.Path(
            f"{self._project.storage}/_checkpoints/{name}/{flow.name}"
        )
        graph = self._spark._jvm.org.apache.spark.sql.pipelines.graph
        return str(graph.SystemMetadata.getLatestCheckpointDir(path, False))

    @contextmanager
    def _settings(self, wanted: Mapping[str, str]) -> Iterator[None]:
        """A query keeps the session's settings as they are when it starts."""
        before = {name: self._spark.conf.get(name, None) for name in wanted}
        for name, value in wanted.items():
            self._spark.conf.set(name, value)
        try:
            yield
        finally:
            for name, value in before.items():
                self._spark.conf.unset(name) if value is None else self._spark.conf.set(name, value)


def file_manager(spark: "SparkSession", checkpoint: str) -> dict[str, str]:
    """The setting for the files of a checkpoint. Only where a rename is atomic, and replaces a file
    that is there: else Spark chooses.
    """
    own = spark._jsparkSession.sessionState().newHadoopConf()
    place = spark._jvm.org.apache.hadoop.fs.Path(checkpoint)
    files = place.getFileSystem(own).getClass().getName()
    # else tasks write states elsewhere
    is_here = files == LOCAL_FILES and bool(spark.sparkContext._jsc.sc().isLocal())
    return {FILE_MANAGER: BY_FILE_SYSTEM} if is_here and own.get(FILE_MANAGER) is None else {}


def counted(frame: DataFrame) -> DataFrame:
    """The same rows. Of parcels Spark's reports have the number of the rows inside then; of others
    they have it anyway.
    """
    return (
        frame
        if rows_of(frame.schema) is None
        else frame.observe(WRITTEN, f.sum(COUNT).alias(WRITTEN)).drop(COUNT)
    )


def _name(plan: Any) -> str:
    parts = (
        plan.multipartIdentifier()
        if plan.getClass().getSimpleName() == "UnresolvedRelation"
        else plan.nameParts()
    )
    return ".".join(parts.apply(at) for at in range(parts.length()))


@contextmanager
def in_folder(folder: Path) -> Iterator[None]:
    """Files of a project name others by paths from its folder."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
