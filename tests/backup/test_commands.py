"""`raftka backup` as a user calls it: tables, JSON, failures in one line, exit codes."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from raftka.cli.columns import COLUMNS
from raftka.cli.commands import root
from raftka.client.blocking.client import Client
from raftka.cluster.plan import plan_cluster, ports_from
from raftka.testing import Cluster
from tests.backup.load import addresses, produce


def run(*arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(root, ["backup", *arguments])
    assert result.exit_code == code, result.output
    return result


def rows(*arguments: str) -> list[dict[str, object]]:
    found = [json.loads(line) for line in run(*arguments, "-o", "json").stdout.splitlines()]
    for row in found:
        assert row.keys() <= COLUMNS.keys()
    return found


@pytest.fixture
def place(raftka_cluster: Cluster, tmp_path: Path) -> str:
    """A place with one backup."""
    topic = raftka_cluster.create_topic(partitions=2)
    with Client(addresses(raftka_cluster)) as client:
        produce(client, topic, [b"value"] * 100)
    where = str(tmp_path / "place")
    (made,) = rows("create", where, "--name", "first", "-b", raftka_cluster.bootstrap_servers)
    assert made["backup"] == "first"
    assert made["offsets"] >= 100  # type: ignore[operator]
    assert made["known"] == made["copied"] == 0
    return where


def test_create_list_verify_and_drill(place: str) -> None:
    assert [row["backup"] for row in rows("list", place)] == ["first"]
    (verified,) = rows("verify", place)
    assert verified["records"] >= 100  # type: ignore[operator]
    (drilled,) = rows("drill", place, "first", "--nodes", "1", "-q")
    assert drilled["differing"] == 0
    assert drilled["rto_s"] > 0  # type: ignore[operator]
    assert "first" in run("list", place).stdout


def test_what_was_broken_off_is_named_and_ignored(place: str) -> None:
    (Path(place) / "unfinished" / "torn").touch()

    result = run("list", place)

    assert "torn is not finished" in result.stderr
    assert "torn" not in result.stdout


def test_restore_fills_the_directories_of_a_new_cluster(place: str, tmp_path: Path) -> None:
    plans = plan_cluster(tmp_path / "new", ports_from(9092, 2))
    for plan in plans:
        plan.write()
    nodes = [word for plan in plans for word in ("--node", str(plan.properties_file))]

    text = run("restore", place, *nodes).stdout

    assert "first is restored" in text
    assert "start all nodes: 1, 2" in text
    assert "2 of these nodes were whole before" in run("restore", place, *nodes, "-q").stdout


def test_failures_are_one_line(place: str, tmp_path: Path) -> None:
    plan = plan_cluster(tmp_path / "new", ports_from(9092, 1))[0]
    plan.write()
    for arguments, text in (
        (("verify", place, "second"), "has no backup second: see `raftka backup list`"),
        (("verify", str(tmp_path / "nothing")), "has no backup"),
        (("list", "ftp://x"), "ftp://x: a place is a folder, or a URL with s3://"),
        (
            ("restore", place, "--node", str(plan.properties_file), "--topics", "no"),
            "the backup has no topic no",
        ),
        (
            ("restore", place, "--node", str(plan.properties_file), "--brokers", "2,3"),
            "name all brokers of the new cluster with --brokers",
        ),
    ):
        result = run(*arguments, code=1)
        assert text in result.stderr
        assert len(result.stderr.splitlines()) == 1
