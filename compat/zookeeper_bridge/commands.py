"""`raftka bridge`: its part of the tree of commands. What a command does stands in files of its own, imported when it is called."""

import click


@click.group()
def group() -> None:
    """What ZooKeeper clients see of a cluster whose nodes run the bridge."""
