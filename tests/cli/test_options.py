"""Options that the command line accepts, and its refusals: usage is exit code 2, a failure one line
and 1.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from raftka.cli.commands import root
from raftka.cluster import start


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, ...]]:
    calls: list[tuple[object, ...]] = []

    def stand_in(name: str) -> Callable[..., int]:
        def call(*given: object, console: bool) -> int:
            calls.append((name, *given, console))
            return 0

        return call

    monkeypatch.setattr(start, "start_processes", stand_in("processes"))
    monkeypatch.setattr(start, "start_in_process", stand_in("here"))
    return calls


def test_cluster_start_takes_its_options(started: list[tuple[object, ...]]) -> None:
    arguments = (
        "cluster start --nodes 5 --brokers-per-host 2 --data /d --base-port 0 --bridge-port "
        "2181 --secure --set a.b=c=d --set x= --api-ceiling 3.9"
    )

    assert CliRunner().invoke(root, arguments.split()).exit_code == 0
    for more in ([], ["--no-console"]):
        here = ["cluster", "start", "--data", "d", "--in-process", *more]
        assert CliRunner().invoke(root, here).exit_code == 0
    settings = {"a.b": "c=d", "x": "", "raftka.api.ceiling": "3.9"}
    assert started == [
        ("processes", 5, Path("/d"), 0, settings, 2181, True, (), 2, True),
        ("here", 3, Path("d"), 9092, {}, None, False, (), True),
        ("here", 3, Path("d"), 9092, {}, None, False, (), False),
    ]


@pytest.mark.parametrize(
    "arguments",
    [
        "cluster start",
        "cluster start --data d --nodes 0",
        "broker start FILE --no-console",
        "broker start FILE --api-ceiling 3.9",
        "cluster start --data d --api-ceiling 3.9.1",
        "cluster start --data d --nodes 101",
        "cluster start --data d --base-port 70000",
        "cluster start --data d --set nothing",
        "cluster start --data d --set =x",
        "cluster start --data d --brokers-per-host 0",
        "cluster start --data d --brokers-per-host 2 --in-process",
        "host start FILE",
        "host start FILE --brokers many",
        "host start --brokers 2",
        "broker start",
        "cluster recover",
        "topics create",
        "topics create t --config x",
        "produce",
        "consume t --count 0",
        "produce t --acks 2",
        "topics alter",
        "topics alter t -p 0",
        "configs alter nothing x",
        "configs alter topic t -c x",
        "reassign execute",
        "reassign execute no-such-file",
        "partitions elect t -p -1",
        "config show no-such-file",
        "completion tcsh",
    ],
)
def test_wrong_usage_is_reported_and_starts_nothing(
    arguments: str, started: list[tuple[object, ...]]
) -> None:
    result = CliRunner().invoke(root, arguments.split())

    assert result.exit_code == 2
    assert "Usage:" in result.output
    assert not started


def test_the_server_comes_from_the_environment_too() -> None:
    closed = "127.0.0.1:1"
    result = CliRunner().invoke(
        root, ["topics", "list", "--help"], env={"RAFTKA_BOOTSTRAP_SERVER": closed}
    )

    assert "RAFTKA_BOOTSTRAP_SERVER" in result.output


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_learns_to_complete(shell: str) -> None:
    result = CliRunner().invoke(root, ["completion", shell], prog_name="raftka")

    assert result.exit_code == 0
    assert f"_RAFTKA_COMPLETE={shell}_complete" in result.output


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("raftka topics a", {"alter"}),
        ("raftka configs describe b", {"broker", "broker-logger"}),
        ("raftka partitions elect --un", {"--unclean"}),
        ("raftka reassign ", {"plan", "execute", "status", "cancel"}),
    ],
)
def test_what_is_completed(typed: str, offered: set[str]) -> None:
    words = typed.split(" ")
    environment = {
        "_RAFTKA_COMPLETE": "bash_complete",
        "COMP_WORDS": typed,
        "COMP_CWORD": str(len(words) - 1),
    }
    result = CliRunner().invoke(root, [], prog_name="raftka", env=environment)

    assert {line.partition(",")[2] for line in result.output.splitlines()} == offered


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("-b [::1 topics list", "'[::1' is not host:port"),
        ("-b [::1:9092 topics list", "'[::1:9092' is not host:port"),
        ("-b []:9092 topics list", "'[]:9092' is not host:port"),
        ("-b , topics list", "there is no server"),
        ("-X nonsense=1 topics list", "-X nonsense: this command has no such property"),
        ("-X acks=all topics list", "-X acks: this command has no such property"),
    ],
)
def test_a_connection_that_cannot_be_is_refused_before_it_is_tried(
    arguments: str, told: str
) -> None:
    done = CliRunner().invoke(root, arguments.split())

    assert done.exit_code == 1
    assert told in done.stderr
