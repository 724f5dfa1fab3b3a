"""`raftka features`: which levels a command line asks for."""

import json
from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from raftka.cli.commands import root
from raftka.testing import Cluster


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with Cluster() as cluster:
        yield cluster.bootstrap_servers


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("-f raftka.version=32768", "a level is a number up to 32767"),
        ("-f raftka.version=-1", "a level is a number up to 32767"),
        (f"-f raftka.version={'9' * 5000}", "a level is a number up to 32767"),
        ("--release-version 999.0", "this release knows the levels of 0.1.0 to"),
        ("--release-version 0.0.9", "this release knows the levels of 0.1.0 to"),
        # the level that is named is stronger than the release's
        ("--release-version 0.1.0 -f raftka.version=32767", "only supports versions"),
    ],
)
def test_levels_that_nobody_knows_are_refused(servers: str, options: str, told: str) -> None:
    done = CliRunner().invoke(root, f"features upgrade --dry-run -b {servers} {options}")

    assert done.exit_code == 1
    assert told in done.stderr


def test_example_of_a_downgrade_works(servers: str) -> None:
    shown = CliRunner().invoke(root, "features downgrade --help").output
    _, _, command = shown.rpartition("raftka features ")

    done = CliRunner().invoke(root, f"-b {servers} features {command}")

    assert (done.exit_code, done.stderr) == (0, "")


def test_a_level_that_stays_is_no_change(servers: str) -> None:
    shown = CliRunner().invoke(root, f"features describe -o json -b {servers}").stdout.splitlines()
    level = next(
        row["level"] for row in map(json.loads, shown) if row["feature"] == "raftka.version"
    )

    done = CliRunner().invoke(
        root, f"features downgrade -f raftka.version={level} -o json -b {servers}"
    )

    assert (done.exit_code, json.loads(done.stdout)["changed"]) == (0, "no"), done.stderr
