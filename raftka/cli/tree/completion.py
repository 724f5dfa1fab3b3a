"""Completion in shells: `raftka completion bash`, and the names of things in the cluster.

A name is asked of the cluster that the typed options select, for at most ASK_S; a cluster that does
not answer completes nothing and says nothing. RAFTKA_COMPLETE_NAMES=0 asks no cluster.
"""

import os
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from raftka.cli.tree.nodes import Verb

if TYPE_CHECKING:
    pass

ASK_S = 0.7  # for the answer: with the start of the process a completion takes less than a second
SWITCH = "RAFTKA_COMPLETE_NAMES"

Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


@click.command(cls=Verb, example="source <(raftka completion bash)")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print what makes the shell complete our commands: `source <(raftka completion bash)`, in fish
    `raftka completion fish | source`.

    Names of topics, groups and others are asked of the cluster; RAFTKA_COMPLETE_NAMES=0 asks none.
    """
    from click.shell_completion import get_completion_class

    made = get_completion_class(shell)
    assert made is not None
    click.echo(made(context.find_root().command, {}, "raftka", "_RAFTKA_COMPLETE").source())


def names_of(kind: str) -> Completer:
    """Make the completer of names of a kind, one of ASKED in cli/admin/names.py."""

    def complete(
        context: click.Context, parameter: click.Parameter, typed: str
    ) -> list[CompletionItem]:
        return _offered(context, parameter, kind, typed)

    return complete


def names_of_configs(
    context: click.Context, parameter: click.Parameter, typed: str
) -> list[CompletionItem]:
    """Complete the names of `raftka configs VERB KIND NAME...`: of the kind that was typed."""
    kind = _typed_kind(context)
    kinds = {"topic": "topics", "broker": "brokers", "broker-logger": "brokers", "group": "groups"}
    return _offered(context, parameter, kinds[kind], typed) if kind in kinds else []


def _typed_kind(context: click.Context) -> str:
    """Return the argument KIND. Behind an option that lacks its value click reads no argument: the
    words are in `args` then.
    """
    kind = context.params.get("kind")
    return kind if isinstance(kind, str) else next(iter(context.args), "")


def settings_of(kind: str = "") -> Completer:
    """Make the completer of NAME=VALUE with a setting's name; `kind`: topic, or as it was typed."""

    def complete(
        context: click.Context, parameter: click.Parameter, typed: str
    ) -> list[CompletionItem]:
        of_kind = kind or _typed_kind(context)
        if of_kind not in ("topic", "broker") or "=" in typed:
            return []
        return _offered(context, parameter, f"{of_kind} settings", typed)

    return complete


def _offered(
    context: click.Context, parameter: click.Parameter, kind: str, typed: str
) -> list[CompletionItem]:
    given = context.params.get(parameter.name or "") or ()
    already = {given} if isinstance(given, str) else set(map(str, given))
    return [
        CompletionItem(name)
        for name in _ask(context, kind)
        if name.startswith(typed) and name not in already
    ]


def _ask(context: click.Context, kind: str) -> Sequence[str]:
    """Return the names, or none where the cluster does not answer in time."""
    if os.environ.get(SWITCH) == "0":
        return ()
    found: list[str] = []
    # a thread, because the name of a host may take longer to look up than we wait
    asking = threading.Thread(target=lambda: found.extend(_asked(context, kind)), daemon=True)
    asking.start()
    asking.join(ASK_S)
    return () if asking.is_alive() else sorted(found)


def _asked(context: click.Context, kind: str) -> Sequence[str]:
    from raftka.cli.admin.client import security_of
    from raftka.cli.admin.names import ASKED
    from raftka.cli.output import CommandFailed
    from raftka.client.blocking.client import Client
    from raftka.client.blocking.connection import ClientError, addresses_of
    from raftka.wire.errors import KafkaError

    server = str(context.params.get("bootstrap_server"))
    try:
        with Client(
            addresses_of(server),
            "raftka-completion",
            0.0,
            answer_s=ASK_S,
            security=security_of(context),
        ) as client:
            client.refresh([])
            return ASKED[kind](client)
    except (CommandFailed, ClientError, KafkaError, OSError, ValueError):
        return ()  # a shell that completes has no place for an error
