"""`raftka sql`: a question, the prompt, and the SQL server behind it."""

from pathlib import Path

import click

from raftka.cli.connection_options import cluster_options
from raftka.cli.options import AS, PASSWORD_LOGINS, Option, port_options
from raftka.cli.spark_commands import ask, on_spark
from raftka.cli.tree.nodes import Noun


class Asking(Noun):
    """A noun whose first word may be a question, or there is none: then it is the verb `ask`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, self._with_verb(args))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        return super().resolve_command(ctx, self._with_verb(args))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return super().get_command(ctx, cmd_name) or self.commands["ask"]

    def _with_verb(self, args: list[str]) -> list[str]:
        """Connection options, which take a value each, may stand before a verb."""
        names = {name for each in self.params for name in each.opts}
        at = 0
        while at < len(args) and args[at].partition("=")[0] in names:
            at += 1 if "=" in args[at] else 2
        return args if at < len(args) and args[at] in self.commands else ["ask", *args]


@click.group(cls=Asking)
def sql() -> None:
    """SQL on topics: a question, a prompt, a server that they share: docs/sql.md."""


sql.add_command(ask)


@sql.command("serve", example="raftka sql serve --host 10.0.0.5 --port 8088 --certificate sql.pem")
@port_options(8088)
@click.option(
    "--token-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The token that clients show; made where there is no such file. [default: a new one]",
)
@click.option(
    "--login",
    type=click.Choice(PASSWORD_LOGINS),
    help=(
        "Users log in with their names and passwords of the cluster by this mechanism, and ask "
        "what their ACLs allow. Queries that go on need the token."
    ),
)
@click.option(
    "--no-functions",
    is_flag=True,
    help="Refuse functions in Python, which run with the server's rights.",
)
@on_spark[0]
@on_spark[1]
@cluster_options
def serve(**options: Option) -> None:
    """Be the SQL server of this user and cluster until SIGTERM or Ctrl-C. Prints its URL when it
    answers. Programs elsewhere show the token: raftka.sql.connect(url=..., token=...).

    A client with the token may do all that this connection to the brokers may.
    """
    from raftka.cli.spark.sql_verbs import serve

    raise SystemExit(serve(**options))


@sql.command("status", example="raftka sql status")
@AS
@cluster_options
def status(**options: Option) -> None:
    """List the statements that run in the SQL server. Exit code 1 where there is no server."""
    from raftka.cli.spark.sql_verbs import status

    raise SystemExit(status(**options))


@sql.command("stop", example=["raftka sql stop", "raftka sql stop 7"])
@click.argument("id", required=False)
@cluster_options
def stop(**options: Option) -> None:
    """End the SQL server and all its statements; with ID, as `raftka sql status` shows it, that
    statement alone.
    """
    from raftka.cli.spark.sql_verbs import stop

    raise SystemExit(stop(**options))
