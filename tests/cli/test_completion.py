"""Completion in shells: names that a cluster has, asked of it in time, and nothing else said."""

import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from raftka.cli.tree import completion
from raftka.client.blocking.client import Client
from raftka.client.blocking.connection import addresses_of
from raftka.client.blocking.transaction import begin
from raftka.testing import Cluster
from tests.kit.checkout import FROM_CHECKOUT


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(1) as cluster:
        cluster.create_topic("orders")
        cluster.create_topic("payments")
        with Client(addresses_of(cluster.bootstrap_servers), "test") as client:
            begin(client, "writer-1", 10_000)
        yield cluster


def offered(line: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Complete the last word of a line in a process of its own, as a shell does."""
    words = line.split(" ")
    program = (
        "from raftka.cli.tree import completion; completion.ASK_S = 30.0; "
        "from raftka.cli import main; main()"
    )
    return subprocess.run(
        [sys.executable, "-c", program],
        env={
            **FROM_CHECKOUT,
            **environment,
            "_RAFTKA_COMPLETE": "bash_complete",
            "COMP_WORDS": line,
            "COMP_CWORD": str(len(words) - 1),
        },
        capture_output=True,
        text=True,
        check=False,
    )


def names(done: subprocess.CompletedProcess[str]) -> list[str]:
    assert done.stderr == ""
    return [line.partition(",")[2] for line in done.stdout.splitlines() if line]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("raftka -b {} topics describe ", ["orders", "payments"]),
        ("raftka -b {} topics delete o", ["orders"]),
        ("raftka topics delete -b {} orders ", ["payments"]),
        ("raftka -b {} consume p", ["payments"]),
        ("raftka -b {} configs describe topic o", ["orders"]),
        ("raftka -b {} configs describe broker ", ["1"]),
        ("raftka -b {} topics create t -c retention.m", ["retention.ms="]),
        (
            "raftka -b {} configs alter broker -c log.retention.m",
            ["log.retention.ms="],
        ),
        ("raftka -b {} transactions describe w", ["writer-1"]),
        ("raftka -b {} reassign plan --broker ", ["1"]),
        ("raftka -b {} configs describe nothing ", []),
    ],
)
def test_names_are_asked_of_the_cluster(cluster: Cluster, line: str, expected: list[str]) -> None:
    done = offered(line.format(cluster.bootstrap_servers))

    found = [name for name in names(done) if not name.startswith("__")]
    assert found == expected


def test_groups_are_completed(cluster: Cluster) -> None:
    from raftka.cli.admin.groups import commit

    with Client(addresses_of(cluster.bootstrap_servers), "test") as client:
        assert commit(client, "billing", {("orders", 0): 0}, {}) == []
    done = offered("raftka groups describe b", RAFTKA_BOOTSTRAP_SERVER=cluster.bootstrap_servers)

    assert names(done) == ["billing"]


def test_names_can_be_switched_off(cluster: Cluster) -> None:
    line = f"raftka -b {cluster.bootstrap_servers} topics describe "

    assert names(offered(line, RAFTKA_COMPLETE_NAMES="0")) == []
    assert names(offered(f"{line}--prof", RAFTKA_COMPLETE_NAMES="0")) == ["--profile"]


@pytest.mark.parametrize("server", ["127.0.0.1:1", "nonsense", "h:99999"])
def test_a_cluster_that_is_not_there_completes_nothing(server: str) -> None:
    done = offered(f"raftka -b {server} topics describe ")

    assert (names(done), done.returncode) == ([], 0)


def test_a_cluster_that_does_not_answer_is_not_waited_for() -> None:
    """It takes connections and says nothing."""
    import click

    from raftka.cli.commands import root

    with socket.create_server(("127.0.0.1", 0)) as silent:
        context = click.Context(root, info_name="raftka")
        context.params["bootstrap_server"] = f"127.0.0.1:{silent.getsockname()[1]}"
        assert list(completion._ask(context, "topics")) == []
