"""CREATE STREAM, TABLE and SINK without Spark: what is parsed, what is refused, the files of a
project, and the requests to its process.
"""

import json
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("yaml", reason="needs raftka[pipeline]")
from click.testing import CliRunner

from raftka.cli.commands import root
from raftka.json_values import JsonObject
from raftka.pipeline.errors import OptionRefused, PipelineError
from raftka.pipeline.flows import requests
from raftka.pipeline.flows.requests import ask, clear, serve
from raftka.pipeline.flows.statements import (
    LONGEST,
    check_unused,
    lakes,
    parse,
    parse_drop,
    statements,
    write,
)
from raftka.pipeline.project import Project, held, init, load_project

FAST = "CREATE STREAM fast AS SELECT truck, speed_kmh FROM trucks WHERE speed_kmh > 90"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    init("trucks", tmp_path / "t", "a:1")
    return load_project(tmp_path / "t")


def test_forms() -> None:
    stream = parse(f"-- those above the limit\n{FAST} ;\n")
    given = "'a.b' = 'c', 'deliveryGuarantee' = 'exactly-once'"
    sink = parse(
        f"create sink s /* to */ into topic 'it''s' key truck with ({given}) as with x as (select "
        "1) select 2"
    )
    lake = parse("CREATE SINK kept INTO DELTA 's3://b/x' AS SELECT * FROM fast")
    newest = parse(
        "CREATE SINK newest INTO DELTA 'lake' KEY id , day WITH ('order' = 'at', 'delete' = "
        "'gone') AS SELECT * FROM fast"
    )
    table = parse(
        "CREATE TABLE n AS SELECT count(*) FROM trucks GROUP BY window(_timestamp, '1 minute')"
    )

    assert (stream.kind, stream.name, stream.query) == ("STREAM", "fast", FAST.partition(" AS ")[2])
    assert (sink.topic, sink.key, sink.options) == (
        "it's",
        "truck",
        {"a.b": "c", "deliveryGuarantee": "exactly-once"},
    )
    assert sink.query == "with x as (select 1) select 2"
    assert (lake.path, lake.target, table.target) == (
        "s3://b/x",
        "delta s3://b/x",
        "delta tables/n",
    )
    assert (newest.key, newest.options) == (
        None,
        {"order": "at", "delete": "gone", "key": "id,day"},
    )
    assert parse_drop(" drop stream fast; ") == "fast"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "line 1: CREATE should be where 'the end' is"),
        (
            "CREATE\nVIEW x AS SELECT 1",
            "line 2: STREAM or TABLE or SINK should be where 'VIEW x AS SELECT 1' is",
        ),
        ("CREATE STREAM ../x AS SELECT 1", "the name of the stream"),
        ("CREATE STREAM x-y AS SELECT 1", "AS should be where '-y"),
        ("CREATE STREAM été AS SELECT 1", "the name of the stream"),
        (f"CREATE STREAM {'x' * 101} AS SELECT 1", "the name of the stream"),
        ("CREATE STREAM x AS INSERT INTO y SELECT 1", "SELECT or WITH should be where"),
        ("CREATE STREAM x AS DROP TABLE y", "SELECT or WITH should be where"),
        ("CREATE STREAM x KEY y AS SELECT 1", "AS should be where"),
        ("CREATE SINK x AS SELECT 1", "INTO should be where"),
        ("CREATE SINK x INTO TOPIC t AS SELECT 1", "the topic in single quotes"),
        ("CREATE SINK x INTO TOPIC 't' WITH ('a' 'b') AS SELECT 1", "= should be where"),
        ("CREATE SINK x INTO TOPIC 't' WITH ('a' = 'b' AS SELECT 1", r", or \) should be where"),
        ("CREATE SINK x INTO DELTA 'p' KEY y, AS SELECT 1", "SELECT 1"),
        ("CREATE SINK x INTO DELTA 'p' KEY 'y' AS SELECT 1", "a column"),
        ("CREATE SINK x INTO DELTA 'p' KEY y WITH ('Key' = 'z') AS SELECT 1", "key stands twice"),
        ("/* CREATE STREAM x", "CREATE should be where"),
        (f"{FAST} AND '{'x' * LONGEST}' > ''", "more than 65536 bytes"),
    ],
)
def test_what_is_none_is_refused(text: str, why: str) -> None:
    with pytest.raises(OptionRefused, match=why):
        parse(text)


def test_statements_are_files_of_the_project(project: Project) -> None:
    write(project.folder, parse(FAST))
    write(project.folder, parse("CREATE TABLE per_minute AS SELECT 1 FROM fast"))
    write(project.folder, parse("CREATE SINK kept INTO DELTA 'lake/x' AS SELECT 1 FROM trucks"))

    assert [each.name for each in statements(project.folder)] == ["fast", "kept", "per_minute"]
    assert {each.name: each.path for each in lakes(project.folder)} == {
        "kept": str(project.folder / "lake" / "x"),
        "per_minute": str(project.folder / "tables" / "per_minute"),
    }
    # spark-pipelines does not see them
    assert [path.name for path in project.definitions()] == [
        "minutes.sql",
        "moves.py",
        "streams.py",
    ]
    with pytest.raises(PipelineError, match="FAST is there already"):
        write(project.folder, parse(FAST.replace("fast", "FAST")))
    with pytest.raises(PipelineError, match="per_minute may read fast: remove it first"):
        check_unused(project.folder, "fast")
    (project.folder / "sql" / "other.sql").write_text(FAST)
    with pytest.raises(OptionRefused, match=r"other\.sql has the statement of fast"):
        list(statements(project.folder))


def test_a_project_that_does_not_run_is_changed_in_its_files(
    project: Project, tmp_path: Path
) -> None:
    def run(*arguments: str) -> str:
        done = CliRunner().invoke(root, arguments)
        return f"{done.exit_code} {done.output}"

    folder, file = str(project.folder), tmp_path / "x.sql"
    file.write_text(FAST)

    assert "0 fast is written. trucks is not running" in run("pipeline", "add", folder, str(file))
    assert "0 kept is written" in run(
        "sql", "--pipeline", folder, "CREATE SINK kept INTO TOPIC 'fast' AS SELECT * FROM fast"
    )
    listed = (
        CliRunner().invoke(root, ["pipeline", "streams", folder, "-o", "json"]).output.splitlines()
    )
    assert [
        (row["name"], row["kind"], row["into"], row["state"]) for row in map(json.loads, listed)
    ] == [
        ("fast", "STREAM", "", "stopped"),
        ("kept", "SINK", "topic fast", "stopped"),
    ]
    assert "kept may read fast: remove it first" in run("pipeline", "remove", folder, "fast")
    (project.folder / "storage" / "_checkpoints" / "kept" / "kept" / "0").mkdir(parents=True)
    assert run("sql", "--pipeline", folder, "DROP SINK kept") == "0 kept: removed\n"
    assert not (project.folder / "storage" / "_checkpoints" / "kept").exists()
    assert "no statement of this project has the name kept; there are: fast" in run(
        "pipeline", "remove", folder, "kept"
    )
    assert "is not running" in run("pipeline", "explain", folder, "fast")
    assert "1 Error: 'a.b' is no name" in run("pipeline", "remove", folder, "a.b")


# requests


def refuse(request: JsonObject) -> JsonObject:
    if request.get("do") != "add":
        raise PipelineError("no such thing")
    return {"name": request["with"]}


def asked(
    project: Project, request: JsonObject, answer: Callable[[JsonObject], JsonObject] = refuse
) -> JsonObject:
    """With a process that serves until the answer is there."""
    done = threading.Event()

    def serving() -> None:
        while not done.is_set():
            serve(project, answer)

    thread = threading.Thread(target=serving)
    with held(project):
        thread.start()
        try:
            return ask(project, request, 30)
        finally:
            done.set()
            thread.join()


def test_answers_and_refusals_come_back(project: Project) -> None:
    assert asked(project, {"do": "add", "with": "x" * LONGEST}) == {"name": "x" * LONGEST}
    with pytest.raises(PipelineError, match="no such thing"):
        asked(project, {"do": "remove"})
    assert [list((project.state / name).iterdir()) for name in ("requests", "answers")] == [[], []]
    assert {
        stat.S_IMODE((project.state / name).stat().st_mode) for name in ("requests", "answers")
    } == {0o700}


def test_requests_have_bounds(project: Project) -> None:
    with pytest.raises(PipelineError, match="the request has more than"):
        ask(project, {"with": "x" * requests.LARGEST}, 1)
    seen: list[JsonObject] = []
    clear(project)
    for number in range(requests.AT_ONCE + 1):
        (project.state / "requests" / f"{number:02}.json").write_text(
            "{" if number % 2 else json.dumps({"with": "x" * requests.LARGEST})
        )

    def take(request: JsonObject) -> JsonObject:
        seen.append(request)
        return {}

    serve(project, take)

    assert seen == [{}] * requests.AT_ONCE  # neither torn nor huge ones are read
    assert len(list((project.state / "requests").iterdir())) == 1


def test_nobody_answers(project: Project) -> None:
    with pytest.raises(PipelineError, match="trucks has not answered"):
        ask(project, {"do": "add"}, 30)
    assert list((project.state / "requests").iterdir()) == []


def test_answers_that_nobody_fetched_go(project: Project) -> None:
    clear(project)
    old = project.state / "answers" / "1.json"
    old.write_text("{}")
    os.utime(old, (1, 1))

    serve(project, refuse)

    assert not old.exists()
