"""Corrections of command lines: what was meant by an option or a command that is not there. Knows
Kafka's spellings, and reads the tree of commands for the others.
"""

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches

import click

# Kafka's names of options, and other common ones, with ours. One that a command does not have is
# not proposed.
OPTIONS: Mapping[str, str] = {
    "--bootstrap-servers": "--bootstrap-server",
    "--bootstrap": "--bootstrap-server",
    "--bootstrap.servers": "--bootstrap-server",
    "--broker-list": "--bootstrap-server",
    "--brokers": "--bootstrap-server",
    "--server": "--bootstrap-server",
    "--zookeeper": "--bootstrap-server",
    "--commandconfig": "--command-config",
    "--config-file": "--command-config",
    "--consumer.config": "--command-config",
    "--consumer-config": "--command-config",
    "--producer.config": "--command-config",
    "--producer-config": "--command-config",
    "--command-property": "-X",
    "--consumer-property": "-X",
    "--producer-property": "-X",
    "--add-config": "--config",
    "--replication": "--replication-factor",
    "--from-beginning": "--from start",
    "--from-offset": "--from OFFSET",
    "--offset": "--from OFFSET",
    "--max-messages": "--count",
    "--limit": "--count",
    "--tail": "--follow",
    "--filter": "--grep",
    "--include": "--pattern",
    "--whitelist": "--pattern",
    "--to-earliest": "--to start",
    "--to-latest": "--to end",
    "--to-current": "--to current",
    "--to-offset": "--to OFFSET",
    "--to-datetime": "--to TIME",
    "--by-duration": "--to DURATION",
    "--shift-by": "--by",
    "--execute": "leave it out; --dry-run changes nothing",
    "--compression-codec": "--compression",
    "--request-required-acks": "--acks",
    "--allow-principal": "--principal",
    "--deny-principal": "--principal NAME --deny",
    "--allow-host": "--host",
    "--deny-host": "--host ADDRESS --deny",
    "--json": "-o json",
    "--format": "--output",
}
# Kafka's names of what stands without an option here: names of the argument that is meant.
ARGUMENTS: Mapping[str, Sequence[str]] = {
    "--topic": ("topic", "topics", "names"),
    "--topics": ("topic", "topics", "names"),
    "--group": ("group", "groups"),
    "--transactional-id": ("ids",),
    "--entity-type": ("kind",),
    "--entity-name": ("names",),
    "--files": ("files",),
    "--from-file": ("file",),
    "--reassignment-json-file": ("file",),
    "--user": ("name",),
}
# Other names of commands, with those of the tree.
COMMANDS: Mapping[str, str] = {
    "add": "create",
    "change": "alter",
    "cat": "consume",
    "console-consumer": "consume",
    "console-producer": "produce",
    "consumer-groups": "groups",
    "delegation-tokens": "tokens",
    "dump-log": "log dump",
    "generate": "plan",
    "get": "describe",
    "info": "describe",
    "leader-election": "partitions elect",
    "ls": "list",
    "metadata-quorum": "cluster describe",
    "new": "create",
    "read": "consume",
    "reassign-partitions": "reassign",
    "remove": "delete",
    "rm": "delete",
    "server-start": "broker start",
    "show": "describe",
    "storage": "broker format",
    "update": "alter",
    "verify": "status",
    "write": "produce",
}
PREFIX, SUFFIX = "kafka-", ".sh"
CLOSE = 0.75  # difflib's likeness: --partition is like --partitions, --group not like --output


def correct_option(context: click.Context, given: str, words: Sequence[str]) -> str | None:
    """Return a sentence that says what was meant by an option, or None. `words`: of the command
    line, behind the command of `context`.
    """
    path, node = context.command_path, context.command
    if isinstance(node, click.Group):
        verb = given.lstrip("-")
        if verb in node.list_commands(context):
            return f"Verbs stand without dashes: {path} {verb}"
        return _of_command_behind(context, given, words)
    if (named := _argument(node, given, path)) is not None:
        return named
    if (meant := OPTIONS.get(given.lower())) is not None and _has(node, meant):
        return f"Did you mean {meant}?"
    if given in ("-b", "--profile", "--command-config", "-X") or (
        meant == "--bootstrap-server" or given == "--bootstrap-server"
    ):
        return f"{path} connects to no cluster."
    names = [name for name in _names(node) if name.startswith("--")]
    if close := get_close_matches(given, names, cutoff=CLOSE):
        return f"Did you mean {' or '.join(close)}?"
    return None


def _has(node: click.Command, meant: str) -> bool:
    """Return whether a command has the option that a correction begins with."""
    option = meant.partition(" ")[0]
    return option in _names(node) or not option.startswith("-")


def _names(node: click.Command) -> Iterator[str]:
    for each in node.params:
        if isinstance(each, click.Option):
            yield from (*each.opts, *each.secondary_opts)


def _argument(node: click.Command, given: str, path: str) -> str | None:
    wanted = ARGUMENTS.get(given.lower(), ())
    for each in node.params:
        if isinstance(each, click.Argument) and each.name in wanted:
            shown = each.make_metavar(click.Context(node))
            return f"{shown} stands without an option: {path} {shown}"
    return None


def _of_command_behind(context: click.Context, given: str, words: Sequence[str]) -> str | None:
    """An option in front of a command: either it is one of the command's, or one of Kafka's."""
    node, path = context.command, context.command_path
    for word in words:
        below = node.get_command(context, word) if isinstance(node, click.Group) else None
        if below is not None:
            node, path = below, f"{path} {word}"
    if (meant := OPTIONS.get(given.lower())) is not None and _has(context.command, meant):
        return f"Did you mean {meant}?"
    for below_path, verb in _verbs(context, node, path):
        if given in _names(verb):
            return f"It stands behind the command: {below_path} {given}"
        if (named := _argument(verb, given, below_path)) is not None:
            return named
    names = [name for name in _names(context.command) if name.startswith("--")]
    close = get_close_matches(given, names, cutoff=CLOSE)
    return f"Did you mean {' or '.join(close)}?" if close else None


def _verbs(
    context: click.Context, node: click.Command, path: str
) -> Iterator[tuple[str, click.Command]]:
    """Yield the commands of a tree that are no groups, with their paths."""
    if not isinstance(node, click.Group):
        yield path, node
        return
    for name in node.list_commands(context):
        if (below := node.get_command(context, name)) is not None:
            yield from _verbs(context, below, f"{path} {name}")


def correct_command(context: click.Context, words: Sequence[str]) -> str:
    """Return a sentence that says what was meant by the first word, or an empty text."""
    group, path = context.command, context.command_path
    if not isinstance(group, click.Group):
        return ""
    name = words[0].lower().removeprefix(PREFIX).removesuffix(SUFFIX)
    known = group.list_commands(context)
    meant = COMMANDS.get(name, name)
    for each in (meant, f"{meant}s", f"{meant}es"):
        if each.partition(" ")[0] in known:
            return f"Did you mean {path} {each}?"
    for noun in words[1:]:
        below = _noun(context, group, noun)
        if below is not None and meant in below.list_commands(context):
            return f"The noun comes first: {path} {below.name} {meant}"
    if close := get_close_matches(name, known, cutoff=CLOSE):
        return f"Did you mean {' or '.join(f'{path} {each}' for each in close)}?"
    return f"{path} --help shows all commands."


def _noun(context: click.Context, group: click.Group, word: str) -> click.Group | None:
    """Return the group of a noun, also in the singular."""
    for name in (word, f"{word}s"):
        found = group.get_command(context, name)
        if isinstance(found, click.Group):
            return found
    return None
