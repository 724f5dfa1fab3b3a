"""The imports of a command before it does anything: a help text needs no client library, a broker
no command line.
"""

import os
import resource
import subprocess
import sys

import pytest

FROM_CHECKOUT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def imported_by(*arguments: str) -> set[str]:
    """Top packages, and raftka's own modules."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *arguments],
        capture_output=True,
        text=True,
        env=FROM_CHECKOUT,
        check=True,
    )
    names = [
        line.rpartition("|")[2].strip()
        for line in done.stderr.splitlines()
        if line.startswith("import time:")
    ]
    return {name if name.startswith("raftka") else name.split(".", maxsplit=1)[0] for name in names}


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["topics", "--help"],
        ["cluster", "start", "--help"],
        ["--version"],
        ["configs", "alter", "--help"],
        ["completion", "zsh"],
    ],
)
def test_help_needs_click_alone(arguments: list[str]) -> None:
    imported = imported_by("-m", "raftka.cli", *arguments)

    assert "click" in imported
    assert not imported & {
        "kafka",
        "rich",
        "prometheus_client",
        "trio",
        "pysyncobj",
        "structlog",
        "raftka.broker.node",
        "raftka.wire.codec",
    }


def test_the_help_of_no_command_needs_more() -> None:
    program = """
import sys
import click
from raftka.cli.commands import root

def walk(group, context):
    for name in group.list_commands(context):
        each = group.get_command(context, name)
        with click.Context(each, info_name=name, parent=context) as below:
            assert each.get_help(below)
            if isinstance(each, click.Group):
                walk(each, below)

walk(root, click.Context(root, info_name="raftka"))
print(*sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env=FROM_CHECKOUT,
        check=True,
    )
    imported = set(done.stdout.split())

    assert "raftka.cli.tree.nodes" in imported
    assert not imported & {
        *("kafka", "rich", "prometheus_client", "trio", "pysyncobj", "structlog", "asyncio"),
        *("raftka.broker", "raftka.client", "raftka.wire.codec", "raftka.cli.progress"),
    }


def test_help_answers_in_time() -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-m", "raftka.cli", "--help"],
        stdout=subprocess.DEVNULL,
        env=FROM_CHECKOUT,
        check=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)

    # processor time, for a busy machine must not fail it
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 0.3


@pytest.mark.parametrize(
    "module",
    [
        "admin.topics",
        "admin.configs",
        "admin.groups",
        "admin.reassign",
        "cluster",
        "records.produce",
        "records.consume",
    ],
)
def test_a_command_carries_no_client_library_and_no_node(module: str) -> None:
    imported = imported_by("-c", f"import raftka.cli.{module}")

    assert "raftka.client.blocking.client" in imported
    assert not imported & {
        "kafka",
        "trio",
        "pysyncobj",
        "cramjam",
        "asyncio",
        "raftka.broker.node",
        "raftka.metadata.image",
    }


def test_a_broker_carries_no_command_line() -> None:
    imported = imported_by("-c", "import raftka.cli.broker")

    assert "raftka.broker.node" in imported
    assert not imported & {
        "click",
        "rich",
        "kafka",
        "prometheus_client",
        "structlog",
        "cramjam",
        "asyncio",
        "hypothesis",
        "raftka.client.blocking",
    }
