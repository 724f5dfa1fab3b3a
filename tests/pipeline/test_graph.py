"""Definitions in one session: views found whatever their order, flows that go on where they were,
mistakes told; and what PySpark does not document of all that.
"""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip(
    "pyspark",
    reason="PySpark is not installed: ./run setup pipeline installs it into .venv/ (1 GB)",
)
pytest.importorskip("grpc", reason="needs raftka[pipeline]")

from pyspark.errors import StreamingQueryException
from pyspark.pipelines import output
from pyspark.pipelines.flow import Flow
from pyspark.pipelines.graph_element_registry import GraphElementRegistry

from raftka.pipeline.errors import OptionRefused
from raftka.pipeline.flows.graph import BY_FILE_SYSTEM, FILE_MANAGER, Graph, file_manager
from raftka.pipeline.flows.supervisor import Supervised
from raftka.pipeline.project import Project

pytestmark = pytest.mark.filterwarnings("default")

SOURCE = """
from pyspark import pipelines as dp

@dp.temporary_view
def numbers():
    return spark.readStream.schema("id long").json(FOLDER + "/in")

dp.create_sink("out", "json", {"path": FOLDER + "/out"})

@dp.append_flow(target="out", name="into", spark_conf={"spark.sql.shuffle.partitions": "3"})
def into():
    return spark.readStream.table("doubled")
"""
DOUBLED = "-- twice\nCREATE TEMPORARY VIEW doubled AS SELECT 2 * id AS id FROM STREAM numbers;"


class Definitions:
    def __init__(self, spark: Any, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        (folder / "in").mkdir()
        self.write("z.py", SOURCE.replace("FOLDER", repr(str(folder))))
        self.write("a.sql", DOUBLED)

    def write(self, name: str, text: str) -> None:
        path = self.folder / "transformations" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    def graph(self) -> Graph:
        for name in ("numbers", "doubled"):
            self.spark.catalog.dropTempView(name)
        graph = Graph(
            self.spark,
            Project(
                self.folder, "p", (self.folder / "storage").as_uri(), {}, ("transformations/**/*",)
            ),
        )
        graph.load()
        return graph

    def feed(self, *ids: int) -> None:
        (self.folder / "in" / f"{ids[0]}.json").write_text(
            "\n".join(json.dumps({"id": each}) for each in ids)
        )

    def run(self) -> str:
        graph = self.graph()
        (flow,) = graph.streams()
        query = graph.start(flow, 0)
        query.processAllAvailable()
        query.stop()
        return graph.checkpoint(flow)

    def rows(self) -> list[int]:
        return sorted(
            row["id"]
            for row in self.spark.read.schema("id long").json(str(self.folder / "out")).collect()
        )


@pytest.fixture
def definitions(spark: Any, tmp_path: Path) -> Definitions:
    return Definitions(spark, tmp_path)


def test_flows_go_on_where_they_were_and_where_spark_pipelines_has_them(
    definitions: Definitions,
) -> None:
    definitions.feed(1, 2)
    definitions.run()
    definitions.feed(3)
    checkpoint = definitions.run()

    assert definitions.rows() == [2, 4, 6]
    assert checkpoint.endswith("/storage/_checkpoints/out/into/0")
    settings = json.loads(
        (Path(checkpoint.removeprefix("file:")) / "offsets" / "0").read_text().splitlines()[1]
    )["conf"]
    assert settings["spark.sql.shuffle.partitions"] == "3"
    # the session's own is as it was
    assert definitions.spark.conf.get("spark.sql.shuffle.partitions") == "2"


def test_the_newest_checkpoint_is_taken(definitions: Definitions) -> None:
    definitions.feed(1)
    checkpoint = Path(definitions.run().removeprefix("file:"))
    checkpoint.rename(checkpoint.with_name("10"))

    definitions.run()

    assert definitions.rows() == [2]
    assert not checkpoint.exists()


class Files:
    """A folder as Spark sees it, which writes the files of a checkpoint."""

    def __init__(self, spark: Any, folder: Path) -> None:
        self.folder, self._path = folder, spark._jvm.org.apache.hadoop.fs.Path
        streaming = spark._jvm.org.apache.spark.sql.execution.streaming
        manager = streaming.checkpointing.FileSystemBasedCheckpointFileManager
        assert manager._fqn == BY_FILE_SYSTEM
        self.manager = manager(
            self._path(folder.as_uri()), spark._jsparkSession.sessionState().newHadoopConf()
        )

    def begin(self, text: str, *, is_new: bool) -> Any:
        stream = self.manager.createAtomic(self._path((self.folder / "7").as_uri()), not is_new)
        stream.write(bytearray(text, "ascii"))
        return stream

    def found(self) -> tuple[list[str], str]:
        """Return the present files, and those that Spark reads: Hadoop compares checksums."""
        stream = self.manager.open(self._path((self.folder / "7").as_uri()))
        try:
            return sorted(each.name for each in self.folder.iterdir()), bytes(
                stream.readAllBytes()
            ).decode()
        finally:
            stream.close()


@pytest.fixture
def files(spark: Any, tmp_path: Path) -> Files:
    made = Files(spark, tmp_path)
    made.begin("first", is_new=True).close()
    return made


def test_a_file_of_a_checkpoint_is_there_as_a_whole_and_replaced_as_a_whole(files: Files) -> None:
    stream = files.begin("second", is_new=False)
    stream.flush()
    assert files.found()[1] == "first"
    stream.close()

    assert files.found() == ([".7.crc", "7"], "second")


def test_a_file_of_a_checkpoint_that_is_to_be_new_replaces_none(files: Files) -> None:
    with pytest.raises(Exception, match="FAILED_RENAME_PATH"):
        files.begin("second", is_new=True).close()

    assert files.found()[1] == "first"


def test_a_file_of_a_checkpoint_that_is_given_up_leaves_nothing(files: Files) -> None:
    files.begin("second", is_new=False).cancel()

    assert files.found() == ([".7.crc", "7"], "first")


def test_files_of_a_local_checkpoint_are_renamed_without_further_processes(
    definitions: Definitions,
) -> None:
    graph, spark = definitions.graph(), definitions.spark
    (flow,) = graph.streams()
    query = graph.start(flow, 0)
    settings = query._jsq.streamingQuery().sparkSessionForStream().conf()
    query.stop()

    assert settings.get(FILE_MANAGER) == BY_FILE_SYSTEM
    assert spark.conf.get(FILE_MANAGER, None) is None


def test_spark_chooses_how_files_are_written_where_a_rename_may_replace_nothing(
    spark: Any,
    definitions: Definitions,
) -> None:
    graph, folder = definitions.graph(), definitions.folder.as_uri()
    assert file_manager(spark, folder) == {FILE_MANAGER: BY_FILE_SYSTEM}
    with graph._settings({FILE_MANAGER: "own"}):
        assert file_manager(spark, folder) == {}
    with graph._settings(
        {
            "fs.file.impl": "org.apache.hadoop.hive.ql.io.ProxyLocalFileSystem",
            "fs.file.impl.disable.cache": "true",
        }
    ):
        assert file_manager(spark, folder) == {}


def test_tables_and_the_flows_that_read_them(definitions: Definitions) -> None:
    definitions.write(
        "b.sql",
        "CREATE STREAMING TABLE odd;\nCREATE FLOW odds AS INSERT INTO odd BY NAME SELECT id FROM "
        "STREAM numbers WHERE id % 2 = 1;",
    )
    definitions.write(
        "c.sql",
        "CREATE STREAMING TABLE three AS SELECT id FROM STREAM odd WHERE id = 3;\nCREATE "
        "MATERIALIZED VIEW sums AS SELECT sum(id) AS s FROM odd",
    )
    definitions.feed(1, 2, 3)
    try:
        for _ in range(2):
            graph = definitions.graph()
            for flow in graph.streams():
                query = graph.start(flow, 0)
                query.processAllAvailable()
                query.stop()

        assert sorted(row["id"] for row in definitions.spark.table("odd").collect()) == [1, 3]
        assert [row["id"] for row in definitions.spark.table("three").collect()] == [3]
        # made at the second start, of what the first one left
        assert definitions.spark.table("sums").collect()[0]["s"] == 4
        assert definitions.spark.sql("SHOW TABLES LIKE 'doubled'").collect()[0]["isTemporary"]
    finally:
        for name in ("odd", "three", "sums"):
            definitions.spark.sql(f"DROP TABLE IF EXISTS {name}")


def unique(frame: str) -> str:
    """A view that remembers."""
    return (
        "from pyspark import pipelines as dp\n@dp.temporary_view\ndef doubled(): return "
        f"{frame}.dropDuplicates(['id'])"
    )


NUMBERS = "spark.readStream.table('numbers')"


@pytest.mark.parametrize(
    "changed", [f"{NUMBERS}.selectExpr('cast(id as string) as id')", f"{NUMBERS}.union({NUMBERS})"]
)
def test_a_changed_query_does_not_touch_an_old_checkpoint(
    definitions: Definitions, changed: str
) -> None:
    (definitions.folder / "transformations" / "a.sql").unlink()
    definitions.write("a.py", unique(NUMBERS))
    definitions.feed(1, 2)
    definitions.run()
    definitions.write("a.py", unique(changed))
    definitions.feed(3)
    graph = definitions.graph()
    (flow,) = graph.streams()
    kept = Supervised("out", lambda: graph.start(flow, 0), graph.checkpoint(flow))
    kept.check(0.0)
    with pytest.raises(StreamingQueryException):
        kept.query.processAllAvailable()
    (line,) = kept.check(1.0)

    assert "out: the query is another one than its checkpoint is of" in line
    assert f"move {graph.checkpoint(flow)} away" in line
    assert definitions.rows() == [1, 2]
    definitions.write("a.py", unique(NUMBERS))
    definitions.run()
    assert definitions.rows() == [1, 2, 3]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        (
            "b.sql",
            "CREATE TEMPORARY VIEW lost AS SELECT * FROM STREAM nowhere",
            r"lost \(transformations/b\.sql\): .*`nowhere` cannot be found",
        ),
        ("b.sql", DOUBLED, r"doubled is defined twice, the second time in transformations/b\.sql"),
        ("b.sql", "DROP TABLE doubled", r"transformations/b\.sql: DropTable is no definition"),
        ("b.txt", "", r"transformations/b\.txt: definitions are \.py and \.sql files"),
        (
            "b.sql",
            "CREATE FLOW f AS INSERT INTO nowhere BY NAME SELECT * FROM STREAM numbers",
            "flows into nowhere, but no such table, view or sink",
        ),
        (
            "b.py",
            "from pyspark import pipelines as dp\ndp.create_sink('s', 'noop')\n"
            "@dp.append_flow(target='s')\ndef f(): return spark.range(3)",
            r"f \(.*b\.py\) is no stream",
        ),
    ],
)
def test_mistakes_are_reported(definitions: Definitions, name: str, text: str, said: str) -> None:
    definitions.write(name, text)

    with pytest.raises(OptionRefused, match=said):
        definitions.graph().streams()


def test_undocumented_parts_of_spark_are_unchanged() -> None:
    """Beside what the tests above run through."""
    assert GraphElementRegistry.__abstractmethods__ == {
        "register_output",
        "register_flow",
        "register_auto_cdc_flow",
        "register_sql",
    }
    assert [each.name for each in dataclasses.fields(Flow)] == [
        "name",
        "target",
        "spark_conf",
        "source_code_location",
        "func",
    ]
    assert [each.name for each in dataclasses.fields(output.Sink)] == [
        "name",
        "comment",
        "source_code_location",
        "format",
        "options",
    ]
    assert [each.name for each in dataclasses.fields(output.StreamingTable)] == [
        "name",
        "comment",
        "source_code_location",
        "table_properties",
        "partition_cols",
        "cluster_by",
        "schema",
        "format",
    ]


def test_pysparks_server_of_counters_is_where_it_is_silenced(spark: Any) -> None:
    from raftka.pipeline.flows.runner import silence_counters

    server = spark.sparkContext._accumulatorServer
    own = server.handle_error
    silence_counters(spark)
    assert server.handle_error is not own
    del server.handle_error
