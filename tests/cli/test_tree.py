"""The tree of commands: help in sections, an example for each command, and the whole as JSON."""

import json
import shlex
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from raftka.cli.commands import SECTIONS, root
from raftka.cli.tree.nodes import Noun, Verb


def verbs(group: click.Group = root, path: str = "raftka") -> Iterator[tuple[str, click.Command]]:
    """Yield the commands that are no groups, with their paths."""
    context = click.Context(group)
    for name in group.list_commands(context):
        each = group.get_command(context, name)
        if isinstance(each, click.Group):
            assert isinstance(each, Noun), f"{path} {name} is made without cls=Noun"
            yield from verbs(each, f"{path} {name}")
        elif each is not None:
            yield f"{path} {name}", each


VERBS = dict(verbs())


def test_every_command_stands_in_one_section_of_the_help() -> None:
    listed = [name for names in SECTIONS.values() for name in names]
    output = CliRunner().invoke(root, ["--help"], prog_name="raftka").output

    assert sorted(listed) == sorted(root.list_commands(click.Context(root)))
    assert "More:" not in output
    for title in SECTIONS:
        assert f"\n{title}:\n" in output


def test_a_command_of_no_section_is_shown_nevertheless(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(root, "sections", {"Some": ("topics",)})
    output = CliRunner().invoke(root, ["--help"], prog_name="raftka").output

    assert "\nMore:\n  acls" in output


@pytest.mark.parametrize("path", VERBS)
def test_a_command_has_an_example_that_it_understands(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    files = ("server.properties", "plan.json", "offsets.json", "token.hmac", "late.sql")
    for name in (*files, "console.pem", "sql.pem"):
        (tmp_path / name).touch()
    (tmp_path / "00000000000000000000.log").touch()
    (tmp_path / "run").mkdir()
    verb = VERBS[path]
    assert isinstance(verb, Verb), f"{path} is made without cls=Verb"
    assert verb.examples, f"{path} has no example"
    for example in verb.examples:
        assert called(example) is verb, example


def called(example: str) -> click.Command:
    """Return the command that a line of a shell calls; it is not run."""
    line = example.partition("raftka ")[2]
    if "(raftka " in example:
        line = line.partition(")")[0]
    with ExitStack() as contexts:
        context = contexts.enter_context(root.make_context("raftka", shlex.split(line)))
        while isinstance(command := context.command, click.Group):
            rest = [*context._protected_args, *context.args]
            name, below, rest = command.resolve_command(context, rest)
            assert below is not None
            context = contexts.enter_context(below.make_context(name, rest, parent=context))
        return context.command


def test_the_help_shows_the_example_and_the_connection_apart() -> None:
    output = CliRunner().invoke(root, ["topics", "create", "--help"], prog_name="raftka").output

    assert "Example:\n  raftka topics create orders -p 3" in output
    options, _, connection = output.partition("\nConnection:\n")
    assert "--partitions" in options
    assert "--bootstrap-server" not in options
    assert "--bootstrap-server" in connection


def test_all_commands_as_json() -> None:
    done = CliRunner().invoke(root, ["--print-tree"], prog_name="raftka")
    found: dict[str, dict[str, object]] = {}

    def walk(node: dict[str, object], path: str) -> None:
        for each in node.get("commands", ()):  # type: ignore[attr-defined]
            walk(each, f"{path} {each['name']}")
        if "commands" not in node:
            found[path] = node

    walk(json.loads(done.output), "raftka")
    assert set(found) == set(VERBS)
    assert found["raftka groups reset-offsets"]["arguments"] == [
        {"name": "GROUP", "is_required": True, "is_repeated": False},
        {"name": "[TOPIC...]", "is_required": False, "is_repeated": True},
    ]
    options = {
        name: each
        for each in found["raftka produce"]["options"]  # type: ignore[attr-defined]
        for name in each["names"]
    }
    assert options["--acks"]["choices"] == ["all", "1", "0"]
    assert options["--acks"]["default"] == "all"
    assert options["--quiet"]["type"] == "flag"
    assert options["-b"]["environment"] == "RAFTKA_BOOTSTRAP_SERVER"
    assert found["raftka produce"]["connects"] is True
    assert found["raftka log dump"]["connects"] is False
