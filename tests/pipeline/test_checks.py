"""Errors of a project are told in a sentence, before Spark starts; and a start ends when it is told
to. No Spark.
"""

import copy
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

pytest.importorskip("yaml", reason="needs raftka[pipeline]")
pytest.importorskip("fastavro", reason="needs raftka[pipeline]")

from raftka.cli.commands import root
from raftka.json_values import Json
from raftka.pipeline.errors import OptionRefused, PipelineError
from raftka.pipeline.project import held, init, load_project
from raftka.pipeline.running.checks import check

Change = Callable[[str], str]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    init("trucks", tmp_path / "p", "localhost:9092")
    return tmp_path / "p"


def changed(folder: Path, name: str, old: str, new: str) -> None:
    path = folder / name
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))


def refusal(folder: Path) -> str:
    with pytest.raises(PipelineError) as raised:
        check(load_project(folder))
    return str(raised.value)


@pytest.mark.parametrize("kind", ["trucks", "orders"])
def test_the_projects_to_begin_with_are_right(kind: str, tmp_path: Path) -> None:
    init(kind, tmp_path / "p", "localhost:9092")

    check(load_project(tmp_path / "p"))


STREAMS = {
    "streams:": ("stream:", "it has stream, which means nothing: is it streams"),
    "    topic: trucks_gps": (
        "    topc: trucks_gps",
        "trucks has topc, which means nothing: is it topic",
    ),
    "topic: trucks_gps": ("topic: trucks gps", "trucks: 'trucks gps' is no name of a topic"),
    "truck: int": ("truck: integer", "trucks.fields"),
    "seconds: double?": ("seconds: double?\n      seconds: int", "line 15: seconds is there twice"),
    "maxOffsetsPerTrigger: 1000000": (
        "maxOffsetPerTrigger: 1",
        "trucks: there is no option maxoffsetpertrigger: is it maxOffsetsPerTrigger",
    ),
    "{maxOffsetsPerTrigger: 1000000}": (
        "{kafka.security.protokoll: SSL}",
        "no property security.protokoll",
    ),
    "watermark: 10 seconds": (
        "watermark: ten seconds",
        "trucks: watermark: 'ten seconds' is no delay",
    ),
    "    watermark: 10 seconds": (
        "    watermark: {column: sent, delay: 1 minute}",
        "watermark names sent, which is no field",
    ),
    "{from: trucks_raw, delta": (
        "{from: truck_raw, delta",
        "bronze is from truck_raw, and there is no such view: is it trucks_raw",
    ),
    "silver: {from: trucks,": ("trucks_bad: {from: trucks,", "trucks_bad is there twice"),
    "delta: lake/bronze}": (
        "delta: lake/bronze, options: {compactEvry: 3}}",
        "bronze: there is no option compactevry: is it compactEvery",
    ),
    "deliveryGuarantee: exactly-once": (
        "deliveryGuarantee: exactly-twice",
        "alerts: deliveryGuarantee is 'exactly-twice'",
    ),
    "partitions: 1": ("partitions: one", "dead_letters.partitions is 'one'"),
    "fences: fences.geojson": ("fences: nowhere.geojson", "nowhere.geojson is no GeoJSON"),
    "history: {from: minutes,": (
        "history: {from: minutes, too: 1,",
        "page.history has too, which means nothing",
    ),
    "{from: minutes,": (
        "{from: [minutes],",
        "page.history.from is ['minutes']: one of the outputs",
    ),
    "page:": ("page: [", "is no YAML"),
    "# security: client.properties": (
        "security: nowhere.properties",
        "nowhere.properties cannot be read",
    ),
}


@pytest.mark.parametrize("old", STREAMS)
def test_mistakes_in_streams_are_found(folder: Path, old: str) -> None:
    new, said = STREAMS[old]
    changed(folder, "streams.yml", old, new)

    assert said in refusal(folder)


def _places(value: Json, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for name, each in items:
        yield from _places(each, (*path, name))


@pytest.mark.parametrize("odd", [None, 7, [{}], {"a": []}], ids=str)
@pytest.mark.parametrize("name", ["streams.yml", "spark-pipeline.yml"])
def test_a_value_of_another_kind_is_refused_in_a_sentence_wherever_it_stands(
    folder: Path, name: str, odd: Json
) -> None:
    import yaml

    good = yaml.safe_load((folder / name).read_text())
    for *path, last in filter(None, _places(good)):
        told = copy.deepcopy(good)
        within = told
        for each in path:
            within = within[each]
        within[last] = odd
        (folder / name).write_text(yaml.safe_dump(told))
        with suppress(PipelineError):  # some places take it
            check(load_project(folder))


def test_mistakes_in_the_spec_are_found(folder: Path) -> None:
    spec = folder / "spark-pipeline.yml"
    good = spec.read_text()
    for text, said in {
        good.replace(
            "configuration:", "configurations:"
        ): "has configurations, which means nothing: is it configuration",
        good.replace("include: transformations/**", "includes: x"): "libraries are to be a list of",
        good.replace("include: transformations/**", "include: nowhere/**"): "has no definitions",
        good.replace(
            "include: transformations/**", "include: /elsewhere/**"
        ): "the pattern '/elsewhere/**/*' cannot be used",
        good.replace(
            "include: transformations/**", "include: trans**"
        ): "the pattern 'trans**' cannot be used",
        f"{good}catalog: hive\n": (
            "has the catalog hive: `raftka pipeline run` has spark_catalog alone"
        ),
        good.replace("name: trucks", "name: [trucks]"): "name is ['trucks']",
        f"{good}name: other\n": "name is there twice",
    }.items():
        spec.write_text(text)
        assert said in refusal(folder)


def test_mistakes_in_definitions_are_found(folder: Path) -> None:
    (folder / "sql").mkdir()
    statement = folder / "sql" / "fast.sql"
    statement.write_text("CREATE SINK fast INTO TOPIC 'a b' AS SELECT 1")
    assert "fast.sql: 'a b' is no name of a topic" in refusal(folder)
    statement.write_text("CREATE SINK fast INTO TOPIC 'a' WITH ('topics' = 'x') AS SELECT 1")
    assert "fast.sql: there is no option topics: is it topic" in refusal(folder)
    statement.write_text("CREATE STREAM trucks AS SELECT 1")
    assert "has the statement of trucks" in refusal(folder)
    statement.rename(folder / "sql" / "trucks.sql")
    assert "trucks is there twice" in refusal(folder)
    (folder / "sql" / "trucks.sql").unlink()
    (folder / "transformations" / "moves.py").write_text("def broken(:\n")
    assert "moves.py, line 1: invalid syntax" in refusal(folder)
    (folder / "schemas" / "1.avsc").write_text('{"type": "recrd"}')
    (folder / "transformations" / "moves.py").write_text("")
    assert "trucks: Avro schema 1 can not be used" in refusal(folder)


def test_a_broken_project_starts_no_java(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip(
        "pyspark",
        reason="PySpark is not installed: ./run setup pipeline installs it into .venv/ (1 GB)",
    )
    monkeypatch.setattr(
        "raftka.pipeline.flows.runner.session", lambda *_, **__: pytest.fail("Spark was started")
    )
    changed(folder, "streams.yml", "topic: trucks_gps", "topc: trucks_gps")

    for page in ((), ("--no-page",)):
        done = CliRunner().invoke(root, ["pipeline", "run", str(folder), *page])
        assert done.exit_code == 1
        assert (
            done.output
            == f"Error: {folder}/streams.yml: trucks has topc, which means nothing: is it topic?\n"
        )
    assert not (folder / ".raftka" / "status.json").exists()


def test_a_project_whose_declarations_are_missing_is_refused(folder: Path) -> None:
    (folder / "streams.yml").unlink()

    assert "streams.yml is not there" in refusal(folder)


@pytest.mark.parametrize("place", ["storage", "project"])
def test_folders_that_cannot_be_written_to_are_told_in_a_sentence(folder: Path, place: str) -> None:
    (folder / "file").touch()
    if place == "storage":
        project = replace(load_project(folder), storage=(folder / "file" / "storage").as_uri())
    else:
        project = replace(load_project(folder), folder=folder / "file")

    with (
        pytest.raises(PipelineError, match=r"cannot be written to: .*Not a directory"),
        held(project),
    ):
        pass


def test_the_check_imports_no_spark(folder: Path) -> None:
    """Importing PySpark alone takes longer than all of it."""
    script = (
        "import sys; from pathlib import Path; from raftka.pipeline.running.checks import check; "
        "from raftka.pipeline.project import load_project\n"
        "check(load_project(Path(sys.argv[1]))); print(sorted({'pyspark', 'pandas', 'pyarrow'} & "
        "sys.modules.keys()))"
    )

    assert (
        subprocess.run(
            [sys.executable, "-c", script, folder], capture_output=True, text=True, check=True
        ).stdout
        == "[]\n"
    )


def test_a_view_of_a_definition_is_left_to_spark(folder: Path) -> None:
    (folder / "transformations" / "more.sql").write_text(
        "CREATE TEMPORARY VIEW fast_trucks AS SELECT * FROM STREAM trucks"
    )
    changed(
        folder, "streams.yml", "outputs:", "outputs:\n  fast: {from: fast_trucks, delta: lake/fast}"
    )

    check(load_project(folder))


def test_a_name_that_is_twice_is_refused_at_every_level(tmp_path: Path) -> None:
    from raftka.pipeline.yaml_text import read_yaml

    path = tmp_path / "x.yml"
    for text, line in {
        "a: 1\nb: 2\na: 3": 3,
        "a:\n  b: {c: 1, c: 2}": 2,
        "- {x: 1}\n- {x: 1, 'x': 2}": 2,
    }.items():
        path.write_text(text)
        with pytest.raises(OptionRefused, match=rf"x\.yml, line {line}: \w is there twice"):
            read_yaml(path)
    path.write_text("base: &b {x: 1, y: 2}\nmore: {<<: *b, x: 3}\nagain: {<<: *b}")
    assert read_yaml(path) == {
        "base": {"x": 1, "y": 2},
        "more": {"x": 3, "y": 2},
        "again": {"x": 1, "y": 2},
    }
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(OptionRefused, match="is no YAML"):
        read_yaml(path)
