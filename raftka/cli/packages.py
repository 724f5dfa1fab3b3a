"""Groups of commands that packages beside raftka bring: found by name, imported when they are asked
for. Imports none of them.
"""

from importlib import import_module

import click

PACKAGES = {"bridge": "zookeeper_bridge.commands"}  # group: module with `group`


class WithPackages(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(
            [*super().list_commands(ctx), *[name for name in PACKAGES if _found(name) is not None]]
        )

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return super().get_command(ctx, cmd_name) or _found(cmd_name)


def _found(name: str) -> click.Command | None:
    """None: its package is not installed."""
    if name not in PACKAGES:
        return None
    try:
        group: click.Command = import_module(PACKAGES[name]).group
        return group
    except ModuleNotFoundError as error:
        if error.name == PACKAGES[name].partition(".")[0]:
            return None
        raise
