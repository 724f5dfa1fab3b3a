"""Statements of docs/bridge.md about paths and commands are true."""

from collections.abc import Iterator

import click

from tests.kit.documents import ROOT, rows
from zookeeper_bridge.commands import group
from zookeeper_bridge.tree.rules import RULES

DOCUMENT = (ROOT / "docs" / "bridge.md").read_text()


def test_every_rule_stands_in_the_table() -> None:
    told = [row for row in rows("## Kafka's layout", DOCUMENT) if len(row) == 3][1:]

    assert told == [[f"`{rule.pattern}`", rule.shows, rule.written] for rule in RULES]


def test_every_command_stands_in_the_table() -> None:
    told = [row for row in rows("## Commands", DOCUMENT) if len(row) == 2][1:]

    assert told == [
        [f"`{name}`", " ".join(help.split())] for name, help in commands(group, "raftka bridge")
    ]


def commands(within: click.Group, name: str) -> Iterator[tuple[str, str]]:
    for each in within.commands.values():
        if isinstance(each, click.Group):
            yield from commands(each, f"{name} {each.name}")
        else:
            yield f"{name} {each.name}", each.help or ""
