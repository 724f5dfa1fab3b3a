"""`raftka audit` and `raftka sql`: commands that are Spark jobs. raftka/pipeline implements them,
imported when they are called.
"""

import json
import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from raftka.cli.connection_options import cluster_options
from raftka.cli.options import Option, client_options, pairs
from raftka.cli.spark.cluster import Given, given_cluster
from raftka.cli.tree.nodes import Verb

if TYPE_CHECKING:
    from raftka.pipeline.flows.streams import Declared

CLEAN, DEFECTS, NOT_DONE = 0, 1, 2  # exit codes
LISTED = ["kind", "producer", "seq", "copies", "partition", "offset"]  # of a defect
QUIET = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}

on_spark = [
    click.option(
        "--master",
        "--cluster",
        "master",
        help="Of Spark, such as local[2] or spark://host:7077. [default: local[*]]",
    ),
    click.option(
        "--conf",
        "config",
        callback=pairs,
        metavar="NAME=VALUE",
        multiple=True,
        help="A setting of Spark's. May be repeated.",
    ),
]


def _with_spark(command: Any) -> Any:
    for option in reversed(on_spark):
        command = option(command)
    return command


@click.command("audit", cls=Verb, example="raftka audit --topic trucks --ledger acked.jsonl")
@click.option(
    "--ledger",
    "ledgers",
    metavar="FILE",
    multiple=True,
    required=True,
    help="JSON lines, a folder of them, or a URL. May be repeated.",
)
@click.option("--topic", help="Where the records are to be.")
@click.option("--delta", metavar="PATH", help="Or a Delta table.")
@click.option(
    "--producer",
    metavar="SQL",
    help="SQL for the producer of a record. [default: the key; the column producer of a table]",
)
@click.option(
    "--seq",
    metavar="SQL",
    help="Its number there. [default: $.seq of the value; the column seq of a table]",
)
@click.option(
    "--limit",
    type=click.IntRange(0),
    default=100,
    show_default=True,
    help="List so many of each kind; 0: all.",
)
@click.option(
    "--option",
    "options",
    callback=pairs,
    metavar="NAME=VALUE",
    multiple=True,
    help="Of the source, such as startingOffsets=... or storage.aws_region=...",
)
@_with_spark
@client_options
def audit(**options: Option) -> None:
    """Compare acknowledged records with stored ones: lost, duplicated, phantom (never sent) or
    reordered records.

    Exit codes: 0 all is well, 1 something is not, 2 it could not be told. The ledger's lines are
    {"producer": "truck-7", "seq": 41, "acked": true}; docs/pipeline/tools.md has the rest.
    """
    with given_cluster(options.pop("bootstrap_server")) as cluster:
        code = _audit(**options, cluster=cluster)
    raise SystemExit(code)


def _audit(
    ledgers: tuple[str, ...],
    topic: str | None,
    delta: str | None,
    producer: str | None,
    seq: str | None,
    limit: int,
    options: Mapping[str, str],
    master: str | None,
    config: Mapping[str, str],
    cluster: Given,
    output: str,
) -> int:
    from raftka.cli.output import fail
    from raftka.pipeline.errors import PipelineError

    if (topic is None) == (delta is None):
        return fail("either --topic or --delta says where the records are to be", NOT_DONE)
    try:
        spark = _session("audit", config, master)
        from raftka.pipeline.audit import audit, in_lake, in_topic
        from raftka.pipeline.flows.streams import connection

        if topic is not None:
            found = in_topic(
                spark,
                cluster.server,
                topic,
                producer,
                seq,
                {**connection(cluster.server, cluster.config), **options},
            )
        else:
            found = in_lake(spark, str(delta), producer, seq, options)
        return _print_report(audit(spark, ledgers, found, limit=limit), output)
    except PipelineError as error:
        return fail(str(error), NOT_DONE)
    except ModuleNotFoundError:
        raise  # the root names the extra
    except Exception as error:
        return fail(_cause(error), NOT_DONE)


@click.command(
    "ask",
    cls=Verb,
    example=[
        "raftka sql 'select partition, count(*) from trucks group by all'",
        "raftka sql",
        "raftka sql -f late.sql -o csv",
    ],
)
@click.argument("question", required=False)
@click.option("-e", "statement", metavar="STATEMENTS", help="Run them in the SQL server.")
@click.option(
    "-f",
    "file",
    type=click.Path(dir_okay=False, allow_dash=True),
    metavar="FILE",
    help="Run the statements of a file; -: stdin.",
)
@click.option(
    "--streams",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="A streams.yml, or the project it is in: its streams and lakes are tables.",
)
@click.option(
    "--pipeline",
    "project",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help=(
        "A project: as --streams, with its tables; and CREATE STREAM, TABLE, SINK and DROP "
        "change it, while it runs or not."
    ),
)
@click.option(
    "--last", type=click.IntRange(1), help="Only the last so many records of each partition."
)
@click.option(
    "--rows", "limit", type=click.IntRange(1), default=100, show_default=True, help="Print so many."
)
@click.option(
    "--option",
    "options",
    callback=pairs,
    metavar="NAME=VALUE",
    multiple=True,
    help="Of the source, such as startingTimestamp=1700000000000.",
)
@_with_spark
@click.option(
    "--idle",
    type=click.FloatRange(min=0, min_open=True),
    default=600.0,
    show_default=True,
    help="Seconds without a statement, then the SQL server ends that this command starts.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "table", "json", "csv"]),
    default="text",
    show_default=True,
    help="How the answer is printed; text is a table.",
)
@cluster_options
def ask(**options: Option) -> None:
    """Ask what topics hold, from their beginning to where they end now: raftka sql 'select
    partition, count(*) from trucks group by all'. Without a question: a prompt.

    A topic is a table with key, value (both as text), partition, offset and timestamp. Names with
    dots or dashes stand in `backticks`. The prompt, -e and -f use the SQL server of this user and
    cluster, and start it where none runs: raftka sql serve, status, stop.
    """
    raise SystemExit(_ask(**options))


def _ask(
    question: str | None,
    statement: str | None,
    file: str | None,
    idle: float,
    output: str,
    bootstrap_server: str,
    **options: Option,
) -> int:
    """Return the exit code."""
    output = "text" if output == "table" else output
    if len([each for each in (question, statement, file) if each is not None]) > 1:
        raise click.UsageError("give one of: a question, -e, -f")
    if question is not None and not options["project"] and _needs_server(question):
        question, statement = None, question
    if question is not None:
        if output == "csv":
            raise click.UsageError("-o csv is for the SQL server: give the question with -e")
        with given_cluster(bootstrap_server) as cluster:
            return _sql(question, **options, cluster=cluster, output=output)
    from raftka.cli.output import fail
    from raftka.cli.spark.sql_verbs import read_text, run

    for name in ("streams", "project", "last", "options"):
        if options.pop(name):
            option = {"project": "pipeline", "options": "option"}.get(name, name)
            raise click.UsageError(f"--{option} is for a single question: give it with one")
    try:
        text = statement if file is None else read_text(file)
    except (OSError, UnicodeDecodeError) as error:
        return fail(f"{file}: {error}", 1)
    return run(bootstrap_server, text, "table" if output == "text" else output, idle, **options)


def _sql(
    query: str,
    streams: Path | None,
    project: Path | None,
    last: int | None,
    limit: int,
    options: Mapping[str, str],
    master: str | None,
    config: Mapping[str, str],
    cluster: Given,
    output: str,
) -> int:
    from raftka.cli.output import fail, show
    from raftka.pipeline.errors import PipelineError
    from raftka.sql.language import StatementError

    try:
        if project is not None and streams is not None:
            return fail("either --pipeline or --streams says whose tables there are", 1)
        if project is not None and _change(project, query):
            return 0
        if project is None and streams is None and _is_statement(query):
            return _execute(query, limit, config, master, cluster, output)
        from raftka.pipeline.sql import Places, run_query

        declared = _declared(project or streams)
        if declared is not None:
            declared = declared.at(cluster.named_server, cluster.config)
        places = Places(cluster.server, declared, last, options, cluster.config)
        found = run_query(_session("sql", config, master), query, places, limit)
    except (PipelineError, StatementError) as error:
        return fail(str(error), 1)
    except ModuleNotFoundError:
        raise  # the root names the extra
    except Exception as error:
        return fail(_cause(error), 1)
    show(found.rows, found.columns, output, own=True)
    if not found.is_all:
        fail(f"there are more than {limit} rows: --rows prints more", 0)
    return 0


def _change(project: Path, text: str) -> bool:
    """Return whether the text was CREATE or DROP; it is done then. Raises PipelineError."""
    word = text.split(maxsplit=1)[0].upper() if text.strip() else ""
    if word not in ("CREATE", "DROP"):
        return False
    from raftka.cli.spark.statements import add, remove
    from raftka.pipeline.flows.statements import parse_drop

    add(project, text) if word == "CREATE" else remove(project, parse_drop(text))
    return True


def _is_statement(text: str) -> bool:
    """Return whether the text is no question of Spark's: SHOW STREAMS, PRINT, EMIT CHANGES."""
    from raftka.sql.language import StatementError, parse
    from raftka.sql.language.statements import Describe, Query

    try:
        found = parse(text)
    except StatementError:
        return False
    return not isinstance(found, Query | Describe) or (isinstance(found, Query) and found.is_push)


def _needs_server(text: str) -> bool:
    """Return whether a server alone can do the statement: a query goes on without a client, and so
    does a function for all clients.
    """
    from raftka.sql.language import StatementError, parse
    from raftka.sql.language.statements import Control, CreateAs, CreateFunction, InsertQuery

    try:
        return isinstance(parse(text), CreateAs | CreateFunction | InsertQuery | Control)
    except StatementError:
        return False


def _execute(
    text: str,
    limit: int,
    config: Mapping[str, str],
    master: str | None,
    cluster: Given,
    output: str,
) -> int:
    """Do a statement; rows of a live answer are printed as they come. Raise PipelineError."""
    from raftka.cli.output import show
    from raftka.sql.session import Session

    session = Session(cluster.server, cluster.config, master=master, settings=config)
    try:
        answer = session.execute(text, limit)
        names = [each.name for each in answer.columns]
        rows = ({name: each[at] for at, name in enumerate(names)} for each in answer.rows)
        if answer.is_live:
            for row in rows:
                click.echo(json.dumps(row, default=str))
        elif names:
            show(list(rows), names, output, own=True)
        if answer.note:
            click.echo(answer.note, err=True)
    finally:
        session.close()
    return 0


def _declared(path: Path | None) -> "Declared | None":
    """Of a project, or of a streams.yml. Raises PipelineError."""
    from raftka.pipeline.flows.statements import lakes
    from raftka.pipeline.flows.streams import load

    if path is None:
        return None
    found = load(path / "streams.yml" if path.is_dir() else path)
    return replace(found, outputs=(*found.outputs, *lakes(path if path.is_dir() else path.parent)))


def _session(name: str, config: Mapping[str, str], master: str | None) -> Any:
    """Start Spark with Java's output in a file: standard output is for the answer."""
    from raftka.pipeline.flows.runner import NOISY
    from raftka.pipeline.java import cache_folder
    from raftka.pipeline.spark import session

    for each in NOISY:
        logging.getLogger(each).setLevel(logging.CRITICAL + 1)
    log = Path(cache_folder()) / f"{name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    return session(f"raftka {name}", {**QUIET, **config}, master=master, log=log)


def _cause(error: Exception) -> str:
    """Spark wraps what went wrong in a task into pages."""
    from raftka.pipeline.flows.supervisor import explained

    return explained(str(error))


def _print_report(report: Any, output: str) -> int:
    from raftka.cli.output import show

    show([report.counts], list(report.counts), output, own=True)
    if report.listed:
        if output == "text":
            print()
        show(report.listed, LISTED, output, own=True)
    return CLEAN if report.is_clean else DEFECTS
