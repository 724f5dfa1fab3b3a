"""`raftka pipeline ...`: the tree of its commands. What each does stands in raftka/pipeline,
imported when it is called.
"""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import ParamSpec

import click

from raftka.cli.connection_options import chosen, cluster_options
from raftka.cli.options import AS, pairs
from raftka.cli.spark.cluster import given_cluster
from raftka.cli.tree.nodes import Noun

P = ParamSpec("P")


@click.group(cls=Noun)
def pipeline() -> None:
    """Spark on topics: docs/pipeline.md. Needs raftka[pipeline]."""


@pipeline.command("java-home", example="JAVA_HOME=$(raftka pipeline java-home) python job.py")
def java_home() -> None:
    """Print a JAVA_HOME for Spark: this machine's Java if it is 17 or newer, else the one that
    comes with raftka[pipeline].

    JAVA_HOME=$(raftka pipeline java-home) python job.py
    """
    from raftka.pipeline.errors import PipelineError
    from raftka.pipeline.java import java_home as find

    try:
        click.echo(find())
    except PipelineError as error:
        raise click.ClickException(str(error)) from None


def failing(verb: Callable[P, None]) -> Callable[P, None]:
    """Print an error as one line on standard error, with exit code 1."""

    @wraps(verb)
    def framed(*args: P.args, **kwargs: P.kwargs) -> None:
        from raftka.pipeline.errors import PipelineError

        try:
            verb(*args, **kwargs)
        except PipelineError as error:
            raise click.ClickException(str(error)) from None

    return framed


folder = click.argument("folder", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))


@pipeline.command("init", example="raftka pipeline init trucks project")
@click.argument("kind", metavar="KIND")
@folder
@cluster_options
@failing
def init(kind: str, folder: Path, bootstrap_server: str) -> None:
    """Write a project of Spark Declarative Pipelines definitions into DIR. KIND is trucks:
    positions of a topic to lakes, alerts and a map; or orders: changes of a PostgreSQL table, as
    Debezium writes them, to a lake that is like the table, sales and a page.

    With --command-config the project names that file. Properties of -X and --profile are not
    written anywhere: give them to `run`.
    """
    from raftka.pipeline.project import init

    file = chosen(click.get_current_context()).file
    init(kind, folder, bootstrap_server, None if file is None else Path(file).absolute())
    click.echo(
        f"{folder} is written. Look at {folder}/streams.yml, then: raftka pipeline run {folder}"
    )


@pipeline.command("run", example="raftka pipeline run project")
@folder
@click.option(
    "--every",
    "every_s",
    type=click.FloatRange(min=0),
    default=2.0,
    show_default=True,
    help="Seconds from one batch of a flow to the next.",
)
@click.option(
    "--page",
    "port",
    type=click.IntRange(0, 65535),
    default=8090,
    show_default=True,
    help="Port of the project's page; 0 takes a free one.",
)
@click.option("--no-page", is_flag=True, help="Without it.")
@click.option(
    "--metrics",
    type=click.IntRange(0, 65535),
    help="Port on 127.0.0.1 of /metrics, for Prometheus; 0 takes a free one. [default: none]",
)
@click.option(
    "--master", help="Of Spark, such as local[2] or spark://host:7077. [default: local[*]]"
)
@click.option(
    "--conf",
    "config",
    callback=pairs,
    metavar="NAME=VALUE",
    multiple=True,
    help="A setting of Spark's, before those of the spec. May be repeated.",
)
@cluster_options
@failing
def run(
    folder: Path,
    every_s: float,
    port: int,
    no_page: bool,
    metrics: int | None,
    master: str | None,
    config: dict[str, str],
    bootstrap_server: str,
) -> None:
    """Run the project in DIR until SIGTERM or Ctrl-C: all its flows, each started again when it
    fails. A line for each batch with rows.

    The same files run with `spark-pipelines run`, which ends when it has read what is there; each
    goes on where the other was. The cluster is that of streams.yml, unless these options or their
    environment say another one.
    """
    from raftka.pipeline.flows.runner import run
    from raftka.pipeline.flows.streams import set_cluster
    from raftka.pipeline.project import load_project

    page = None if no_page else port
    state = load_project(folder).state
    state.mkdir(exist_ok=True)
    with given_cluster(bootstrap_server, state) as cluster:  # not where other programs tidy up
        set_cluster(cluster.named_server, cluster.config)
        run(
            folder,
            every_s=every_s,
            port=page,
            master=master,
            config=config,
            say=lambda line: print(line, flush=True),
            metrics=metrics,
        )


@pipeline.command("status", example="raftka pipeline status project")
@folder
@AS
@failing
def status(folder: Path, output: str) -> None:
    """Show each flow: rows read and written, lag in offsets and seconds, its state, late rows that
    were dropped.

    Exit code 1 when it does not run, or a flow has failed.
    """
    from raftka.cli.pipeline_status import status

    raise SystemExit(status(folder, output))


@pipeline.command("stop", example="raftka pipeline stop project")
@folder
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0),
    default=90.0,
    show_default=True,
    help="Seconds to wait for its end.",
)
@failing
def stop(folder: Path, timeout_s: float) -> None:
    """End the process that runs DIR, between two batches of each flow, and wait until it is
    gone.
    """
    from raftka.cli.pipeline_status import stop

    stop(folder, timeout_s)


@pipeline.command("add", example="raftka pipeline add project late.sql")
@folder
@click.argument(
    "files",
    metavar="FILE.sql...",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
)
@failing
def add(folder: Path, files: tuple[Path, ...]) -> None:
    """Add CREATE STREAM, CREATE TABLE or CREATE SINK to the project in DIR, one a file, while it
    runs or not. The other flows go on.
    """
    from raftka.cli.spark.statements import add_files

    add_files(folder, files)


@pipeline.command("remove", example="raftka pipeline remove project late")
@folder
@click.argument("name")
@failing
def remove(folder: Path, name: str) -> None:
    """Stop and remove a stream, table or sink that was added: its checkpoint, and the rows of a
    table. What a sink has written stays.
    """
    from raftka.cli.spark.statements import remove

    remove(folder, name)


@pipeline.command("explain", example="raftka pipeline explain project late")
@folder
@click.argument("name")
@failing
def explain(folder: Path, name: str) -> None:
    """Print Spark's plan of a view or flow of the running pipeline in DIR."""
    from raftka.cli.spark.statements import explain

    explain(folder, name)


@pipeline.command("streams", example="raftka pipeline streams project")
@folder
@AS
@failing
def streams(folder: Path, output: str) -> None:
    """List the streams, tables and sinks that were added to the project in DIR, and whether they
    run.
    """
    from raftka.cli.spark.statements import list_streams

    list_streams(folder, output)
