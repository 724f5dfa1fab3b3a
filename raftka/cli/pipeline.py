"""`raftka pipeline ...`: the tree of its commands. What each does stands in raftka/pipeline, imported when it is called."""

import click


@click.group()
def pipeline() -> None:
    """Spark on topics: docs/pipeline.md. Needs raftka[pipeline]."""


@pipeline.command("java-home")
def java_home() -> None:
    """Print a JAVA_HOME for Spark: this machine's Java if it is 17 or newer, else the one that comes with raftka[pipeline].

    JAVA_HOME=$(raftka pipeline java-home) python job.py
    """
    from raftka.pipeline.errors import PipelineError
    from raftka.pipeline.java import java_home as find

    try:
        click.echo(find())
    except PipelineError as error:
        raise click.ClickException(str(error)) from None
