"""`raftka acls`, `users`, `quotas` and `tokens`: their part of the tree. A command stands in a file
of that name, imported when it is called.
"""

from collections.abc import Callable

import click

from raftka.cli.options import Command, Option, client_options, pairs
from raftka.cli.tree.completion import names_of
from raftka.cli.tree.nodes import Noun
from raftka.security.acls import OPERATION_NAMES

MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")


@click.group(cls=Noun)
def acls() -> None:
    """List, create and delete ACLs: the rights of clients."""


def _resource_options(command: Command) -> Command:
    """Options that name a resource; one of the first four."""
    options: list[Callable[[Command], Command]] = [
        click.option(
            "-t",
            "--topic",
            metavar="NAME",
            shell_complete=names_of("topics"),
            help="A topic; * for all.",
        ),
        click.option(
            "-g",
            "--group",
            metavar="NAME",
            shell_complete=names_of("groups"),
            help="A group; * for all.",
        ),
        click.option("--transactional-id", metavar="NAME", help="A transactional id; * for all."),
        click.option("--cluster", is_flag=True, help="The cluster."),
        click.option("--delegation-token", metavar="ID", help="A delegation token; * for all."),
        click.option(
            "--user",
            metavar="User:NAME",
            help="A user, for whom others make or see tokens; * for all.",
        ),
        click.option("--prefixed", is_flag=True, help="All names that begin with the given one."),
        click.option(
            "--principal", metavar="User:NAME", help="Whom it is about; User:* for everybody."
        ),
        click.option(
            "--host",
            metavar="ADDRESS",
            help="From which address or network, as 10.0.0.0/8; * for all.",
        ),
        click.option(
            "--operation",
            "operations",
            type=click.Choice(OPERATION_NAMES, case_sensitive=False),
            multiple=True,
            help="May be repeated.",
        ),
        click.option("--deny", is_flag=True, help="An ACL that denies."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@acls.command("list", example="raftka acls list --topic orders")
@_resource_options
@client_options
def acls_list(**options: Option) -> None:
    """ACLs that exist, all or those that have what is given."""
    from raftka.cli.admin.security.acls import list_all

    raise SystemExit(list_all(**options))


@acls.command(
    "create", example="raftka acls create --topic orders --principal User:alice --operation read"
)
@_resource_options
@client_options
def acls_create(**options: Option) -> None:
    """Allow (or with --deny, deny) a principal operations on a resource. What is there already
    stays.
    """
    from raftka.cli.admin.security.acls import create

    raise SystemExit(create(**options))


@acls.command("delete", example="raftka acls delete --topic orders --principal User:alice")
@_resource_options
@client_options
def acls_delete(**options: Option) -> None:
    """Delete the ACLs of a resource that have what is given."""
    from raftka.cli.admin.security.acls import delete

    raise SystemExit(delete(**options))


@click.group(cls=Noun)
def users() -> None:
    """Users that log in with SCRAM: list them, set passwords, delete them."""


@users.command("list", example="raftka users list")
@client_options
def users_list(**options: Option) -> None:
    """All users, with mechanisms and iterations."""
    from raftka.cli.admin.security.users import list_all

    raise SystemExit(list_all(**options))


@users.command("set", example="raftka users set alice --mechanism SCRAM-SHA-512")
@click.argument("name", shell_complete=names_of("users"))
@click.option(
    "--mechanism", type=click.Choice(MECHANISMS), default=MECHANISMS[1], show_default=True
)
@click.option("--iterations", type=click.IntRange(4096, 16384), default=8192, show_default=True)
@click.option(
    "--password-file",
    type=click.File(),
    help=(
        "A file with the password in its first line, - for the standard input; asked for unless "
        "given."
    ),
)
@client_options
def users_set(**options: Option) -> None:
    """Set a user's password; it never leaves this process."""
    from raftka.cli.admin.security.users import set_password

    raise SystemExit(set_password(**options))


@users.command("delete", example="raftka users delete alice")
@click.argument("name", shell_complete=names_of("users"))
@click.option(
    "--mechanism",
    type=click.Choice(MECHANISMS),
    help="Only this credential; all of the user unless given.",
)
@client_options
def users_delete(**options: Option) -> None:
    """Delete a user's credentials. Connections that are open go on."""
    from raftka.cli.admin.security.users import delete

    raise SystemExit(delete(**options))


@click.group(cls=Noun)
def quotas() -> None:
    """List, set and delete quotas of clients."""


def _entity_options(command: Command) -> Command:
    """Options that name a user, a client id, both, or an address."""
    options: list[Callable[[Command], Command]] = [
        click.option("--user", metavar="NAME", help="A user, without User:."),
        click.option(
            "--client-id",
            metavar="NAME",
            help="A client id; with a user, that user's client of this id.",
        ),
        click.option("--ip", metavar="ADDRESS", help="An address."),
        click.option(
            "--default",
            "defaults",
            type=click.Choice(("user", "client-id", "ip")),
            multiple=True,
            help="All that have none; may be repeated.",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@quotas.command("list", example="raftka quotas list --user alice")
@_entity_options
@client_options
def quotas_list(**options: Option) -> None:
    """Quotas that exist, all or those of what is named."""
    from raftka.cli.admin.security.quotas import list_all

    raise SystemExit(list_all(**options))


@click.group(cls=Noun)
def tokens() -> None:
    """Delegation tokens: make, list, renew and end them."""


@tokens.command("create", example="raftka tokens create --renewer bob")
@click.option(
    "--owner", metavar="NAME", help="For another user; unless given, for the one that asks."
)
@click.option(
    "--renewer",
    "renewers",
    metavar="NAME",
    multiple=True,
    help="A user that may renew it. May be repeated.",
)
@click.option(
    "--max-lifetime-ms",
    type=int,
    default=-1,
    help="How long it lasts at most; unless given, as long as the cluster allows.",
)
@client_options
def tokens_create(**options: Option) -> None:
    """Make a token and print its id and HMAC: user and password of a login by SCRAM."""
    from raftka.cli.admin.security.tokens import create

    raise SystemExit(create(**options))


@tokens.command("list", example="raftka tokens list --owner alice")
@click.option(
    "--owner", "owners", metavar="NAME", multiple=True, help="Only this user's. May be repeated."
)
@click.option("--hmac", "hmacs", is_flag=True, help="With HMACs, which are passwords.")
@client_options
def tokens_list(**options: Option) -> None:
    """The tokens that one may see."""
    from raftka.cli.admin.security.tokens import list_all

    raise SystemExit(list_all(**options))


@quotas.command("set", example="raftka quotas set producer_byte_rate=1048576 --user alice")
@click.argument("quotas", nargs=-1, required=True, callback=pairs, metavar="QUOTA=NUMBER...")
@_entity_options
@client_options
def quotas_set(**options: Option) -> None:
    """Set producer_byte_rate, consumer_byte_rate, request_percentage, controller_mutation_rate; of
    an address connection_creation_rate.
    """
    from raftka.cli.admin.security.quotas import alter

    raise SystemExit(alter(**options))


@quotas.command("delete", example="raftka quotas delete producer_byte_rate --user alice")
@click.argument("keys", nargs=-1, metavar="[QUOTA...]")
@_entity_options
@client_options
def quotas_delete(**options: Option) -> None:
    """Delete quotas of what is named, all of them unless some are given."""
    from raftka.cli.admin.security.quotas import delete

    raise SystemExit(delete(**options))


_hmac_file = click.option(
    "--hmac-file",
    type=click.File(),
    default="-",
    help="A file with the HMAC in its first line; the standard input unless given.",
)


@tokens.command("renew", example="raftka tokens renew --hmac-file token.hmac")
@_hmac_file
@click.option(
    "--period-ms",
    type=int,
    default=-1,
    help="How long it is to last from now on; unless given, as long as a new one.",
)
@client_options
def tokens_renew(**options: Option) -> None:
    """Let a token last longer, up to its greatest age."""
    from raftka.cli.admin.security.tokens import renew

    raise SystemExit(renew(**options))


@tokens.command("expire", example="raftka tokens expire --hmac-file token.hmac")
@_hmac_file
@click.option(
    "--period-ms", type=int, default=-1, help="In how long it is to end; now unless given."
)
@client_options
def tokens_expire(**options: Option) -> None:
    """End a token."""
    from raftka.cli.admin.security.tokens import expire

    raise SystemExit(expire(**options))
