"""Checks of a project without Spark and without brokers: they report within a second, before Java
starts.
"""

import difflib
import re
from collections.abc import Iterator
from pathlib import Path

from raftka.pipeline.errors import OptionRefused
from raftka.pipeline.flows.fences import load_fences
from raftka.pipeline.flows.statements import FOLDER, Statement, lake_of, statements
from raftka.pipeline.flows.streams import Declared, Output, StreamSpec, load
from raftka.pipeline.lake.options import WRITTEN, lake_options
from raftka.pipeline.project import Project
from raftka.pipeline.topics.options import source_options
from raftka.pipeline.topics.security import check_stores, security_of
from raftka.pipeline.topics.sink import sink_options
from raftka.schemas.values import Misfit, avro

STREAMS = "streams.yml"
TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
UNITS = "microsecond|millisecond|second|minute|hour|day|week"
DELAY = re.compile(rf"(?:interval\s+)?(?:\d+(?:\.\d+)?\s+(?:{UNITS})s?\s*)+", re.IGNORECASE)
# columns of a sink, when only its options are in question
RECORDS = {"key": "string", "value": "string"}


def check(project: Project) -> None:
    """Raises PipelineError."""
    definitions = list(project.definitions())
    wanted = (project.folder / STREAMS).exists() or any(
        f'"{STREAMS}"' in path.read_text(errors="replace") for path in definitions
    )
    found = load(project.folder / STREAMS) if wanted else None
    added = list(statements(project.folder))
    if not definitions and not added:
        raise OptionRefused(
            f"{project.folder} has no definitions: `libraries` of its spec names none that is there"
        )
    for path in definitions:
        _compiled(path)
    if found is not None:
        try:
            _declared(found, definitions, added)
        except OptionRefused as error:
            raise OptionRefused(f"{project.folder / STREAMS}: {error}") from None
    for each in added:
        try:
            _statement(project, found, each)
        except OptionRefused as error:
            raise OptionRefused(f"{project.folder / FOLDER / each.name}.sql: {error}") from None


def _compiled(path: Path) -> None:
    if path.suffix != ".py":
        return
    try:
        compile(path.read_bytes(), str(path), "exec")
    except (SyntaxError, ValueError) as error:
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) else ""
        raise OptionRefused(
            f"{path}{line}: {error.msg if isinstance(error, SyntaxError) else error}"
        ) from None


def _declared(found: Declared, definitions: list[Path], added: list[Statement]) -> None:
    kafka = {name.removeprefix("kafka."): value for name, value in found.connection.items()}
    check_stores(security_of(kafka))
    for stream in found.streams:
        try:
            _stream(found, stream)
        except OptionRefused as error:
            raise OptionRefused(f"{stream.name}: {error}") from None
    for output in found.outputs:
        try:
            _output(found, output)
        except OptionRefused as error:
            raise OptionRefused(f"{output.name}: {error}") from None
    _names(found, added)
    _views(found, definitions, added)
    if found.page is not None and found.page.fences is not None:
        load_fences(found.page.fences)


def _stream(found: Declared, stream: StreamSpec) -> None:
    _topic(stream.topic)
    source_options(
        {**found.connection, "subscribe": stream.topic, **stream.options}, streaming=True
    )
    for schema_id, schema in stream.schemas.items():
        try:
            avro.make_reader(schema, schema_id)
        except Misfit as misfit:
            raise OptionRefused(str(misfit)) from None
    if stream.watermark is None:
        return
    column, delay = stream.watermark
    kinds = {each.name: each.kind for each in stream.fields} | {"_timestamp": "timestamp"}
    if column not in kinds:
        raise OptionRefused(
            f"watermark names {column}, which is no field; there are {', '.join(kinds)}"
        )
    if kinds[column] != "timestamp":
        raise OptionRefused(f"watermark names {column}, which is no timestamp")
    if DELAY.fullmatch(delay.strip()) is None:
        raise OptionRefused(f"watermark: {delay!r} is no delay, such as 10 seconds")


def _output(found: Declared, output: Output) -> None:
    if output.topic is not None:
        _topic(output.topic)
        sink_options(
            {**found.connection, "topic": output.topic, **output.options}, RECORDS, streaming=True
        )
    elif output.path is not None:
        lake_options({"path": output.path, **output.options}, known=WRITTEN, streaming=True)
    elif output.sink is not None and output.sink.dead_letters is not None:
        _topic(output.sink.dead_letters)


def _topic(name: str) -> None:
    if TOPIC.fullmatch(name) is None or name in (".", ".."):
        raise OptionRefused(
            f"{name!r} is no name of a topic: letters, digits, '.', '_' and '-', at most 249"
        )


def _names(found: Declared, added: list[Statement]) -> None:
    """No view, output or statement may have the name of another one."""
    known: set[str] = set()
    for name in (
        *_views_of(found),
        *(each.name for each in found.outputs),
        *(each.name for each in added),
    ):
        if name.lower() in known:
            raise OptionRefused(
                f"{name} is there twice: views (NAME, NAME_raw and NAME_bad of a stream), outputs "
                "and statements have names of their own"
            )
        known.add(name.lower())


def _views_of(found: Declared) -> Iterator[str]:
    for stream in found.streams:
        yield from (stream.name, f"{stream.name}_raw", f"{stream.name}_bad")
    for source in found.sources:
        yield from (source.name, f"{source.name}_bad")


def _views(found: Declared, definitions: list[Path], added: list[Statement]) -> None:
    """A view that is not declared may be one of the definitions, whose words are looked at: only
    Spark knows for certain.
    """
    views = [*_views_of(found), *(each.name for each in added)]
    words = {
        word.lower()
        for path in definitions
        for word in re.findall(r"\w+", path.read_text(errors="replace"))
    }
    for output in found.outputs:
        name = output.source
        if name is None or name.lower() in {each.lower() for each in views} | words:
            continue
        near = difflib.get_close_matches(name, views, 1)
        raise OptionRefused(
            f"{output.name} is from {name}, and there is no such view"
            + (f": is it {near[0]}?" if near else f"; there are {', '.join(views)}")
        )


def _statement(project: Project, found: Declared | None, each: Statement) -> None:
    if each.topic is not None:
        _topic(each.topic)
        there = (
            found.connection if found is not None else {"kafka.bootstrap.servers": "localhost:9092"}
        )
        sink_options({**there, "topic": each.topic, **each.options}, RECORDS, streaming=True)
    elif each.kind != "STREAM":
        lake_options(
            {"path": lake_of(project.folder, each), **each.options}, known=WRITTEN, streaming=True
        )
