"""All commands as one JSON document, for programs that call them: `raftka --print-tree`."""

import json

import click

from raftka.cli.connection_options import ConnectionOption
from raftka.cli.tree.nodes import Verb
from raftka.json_values import Json, JsonObject


def print_tree(context: click.Context, _option: click.Parameter, is_given: bool) -> None:
    """The callback of an eager flag: print the tree, and end."""
    if is_given and not context.resilient_parsing:
        click.echo(json.dumps(described(context, context.command, "raftka"), indent=1))
        context.exit()


def described(context: click.Context, node: click.Command, name: str) -> JsonObject:
    """Return a command with all below it: name, help, and either commands or arguments, options,
    examples.
    """
    found: JsonObject = {"name": name, "help": " ".join((node.help or "").split())}
    if isinstance(node, click.Group):
        below = {each: node.get_command(context, each) for each in node.list_commands(context)}
        found["commands"] = [
            described(context, each, name) for name, each in below.items() if each is not None
        ]
        return found
    arguments = [each for each in node.params if isinstance(each, click.Argument)]
    options = [each for each in node.params if isinstance(each, click.Option)]
    found["arguments"] = [
        {
            "name": each.make_metavar(click.Context(node)),
            "is_required": each.required,
            "is_repeated": each.nargs < 0,
            **_choices(each),
        }
        for each in arguments
    ]
    found["options"] = [_option(each) for each in options]
    found["connects"] = any(isinstance(each, ConnectionOption) for each in options)
    found["examples"] = list(node.examples) if isinstance(node, Verb) else []
    return found


def _option(option: click.Option) -> JsonObject:
    default = option.to_info_dict().get("default")
    return {
        "names": [*option.opts, *option.secondary_opts],
        "help": option.help or "",
        "type": "flag" if option.is_flag else option.type.name,
        "is_required": option.required,
        "is_repeated": option.multiple,
        "default": default if isinstance(default, str | int | float | bool) else None,
        "environment": option.envvar if isinstance(option.envvar, str) else None,
        **_choices(option),
    }


def _choices(param: click.Parameter) -> dict[str, Json]:
    return {"choices": list(param.type.choices)} if isinstance(param.type, click.Choice) else {}
