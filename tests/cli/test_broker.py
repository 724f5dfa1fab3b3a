"""`raftka broker start` where it cannot: exit code 1, a line for people and one in the log, with
what is wrong and what to do; no traceback.
"""

import fcntl
import json
import re
import socket
from collections.abc import Callable
from errno import EIO
from pathlib import Path

import pytest

from raftka.cli.broker import _trace, start
from raftka.cluster.plan import NodePlan, plan_cluster, ports_from
from raftka.log.checkpoints import META_PROPERTIES
from raftka.log.directory import LogDirectory
from raftka.metadata.configs.settings import METADATA_DIRECTORY
from raftka.metadata.quorum.journal import Journal
from raftka.runtime.real.files import RealFiles

DATA = "data"


def damaged(plan: NodePlan, data: Path) -> None:
    (data / METADATA_DIRECTORY / "journal").write_bytes(b"not a journal")


def of_another_node(plan: NodePlan, data: Path) -> None:
    (data / META_PROPERTIES).write_text(
        "node.id=7\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAA\nversion=1\n"
    )


def of_nobody(plan: NodePlan, data: Path) -> None:
    (data / META_PROPERTIES).write_text("anything\n")


def without_its_id(plan: NodePlan, data: Path) -> None:
    (data / META_PROPERTIES).write_text("node.id=1\ndirectory.id=x\n")


def with_the_quorum_of_another(plan: NodePlan, data: Path) -> None:
    (data / METADATA_DIRECTORY / "journal").unlink()
    journal = Journal.open(RealFiles(lambda done: done()), str(data / METADATA_DIRECTORY), 7)
    journal.set_vote(1, 7)
    for file in journal.take_sync():
        file.sync()
    journal.synced()
    journal.close()


def that_is_a_file(plan: NodePlan, data: Path) -> None:
    plan.properties_file.write_text(
        re.sub(
            r"log\.dirs=.*", f"log.dirs={plan.properties_file}", plan.properties_file.read_text()
        )
    )


@pytest.fixture
def plan(tmp_path: Path) -> NodePlan:
    """Node 1 of three; its directories have been used."""
    plan = plan_cluster(tmp_path, ports_from(9092, 3))[0]
    plan.write()
    directory = tmp_path / "node-1" / DATA / METADATA_DIRECTORY
    directory.mkdir(parents=True)
    (directory / "journal").touch()
    return plan


def said(capsys: pytest.CaptureFixture[str]) -> str:
    """The line for people; the one in the log says the same."""
    out, err = capsys.readouterr()
    assert out == ""
    logged, line = err.splitlines()
    event = json.loads(logged)
    assert (event["event"], event["level"]) == ("start_failed", "error")
    assert line.endswith(event["error"])
    return line


@pytest.mark.parametrize(
    ("harm", "wrong", "remedy"),
    [
        (
            damaged,
            f"{METADATA_DIRECTORY}: the journal's first record is damaged",
            "while a majority of the other controllers runs, move .* away",
        ),
        (
            of_another_node,
            f"{DATA} belongs to node 7, this is node 1",
            "change `node.id` or `log.dirs`",
        ),
        (of_nobody, f"{META_PROPERTIES} does not say whose directory this is", "mend it"),
        (without_its_id, f"{META_PROPERTIES} is damaged: no uuid: 'x'", "mend it"),
        (
            with_the_quorum_of_another,
            f"{METADATA_DIRECTORY} belongs to node 7, not to 1",
            "change `node.id` or `log.dirs`",
        ),
        (that_is_a_file, "server.properties: File exists", "`log.dirs` must name directories"),
    ],
)
def test_a_directory_that_will_not_do(
    plan: NodePlan,
    capsys: pytest.CaptureFixture[str],
    harm: Callable[[NodePlan, Path], None],
    wrong: str,
    remedy: str,
) -> None:
    harm(plan, plan.properties_file.parent / DATA)

    assert start(str(plan.properties_file)) == 1

    assert re.fullmatch(rf"raftka: node 1: .*{wrong}.*; {remedy}.*", said(capsys))


@pytest.mark.parametrize("others", [0, 1])
def test_directories_that_fail_while_they_are_searched(
    plan: NodePlan, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, others: int
) -> None:
    def fail(home: LogDirectory) -> None:
        raise OSError(EIO, "Input/output error")

    data = plan.properties_file.parent / DATA
    text = plan.properties_file.read_text()
    directories = ",".join([str(data), *(f"{data}-{each}" for each in range(others))])
    plan.properties_file.write_text(re.sub(r"log\.dirs=.*", f"log.dirs={directories}", text))
    monkeypatch.setattr(LogDirectory, "partitions", fail)

    assert start(str(plan.properties_file)) == 1

    told = "; ".join(
        [
            f"{data}: Input/output error",
            *(f"{data}-{each}: Input/output error" for each in range(others)),
        ]
    )
    assert said(capsys) == f"raftka: node 1: {told}"


@pytest.mark.parametrize(
    ("lock", "told"),
    [
        (".lock", "data is in use by another node; stop that one"),
        (f"{METADATA_DIRECTORY}/.lock", "; stop the"),
    ],
)
def test_a_directory_in_use(
    plan: NodePlan, capsys: pytest.CaptureFixture[str], lock: str, told: str
) -> None:
    with (plan.properties_file.parent / DATA / lock).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)

        assert start(str(plan.properties_file)) == 1

    assert told in said(capsys)


def test_an_address_in_use(plan: NodePlan, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        text = plan.properties_file.read_text()
        plan.properties_file.write_text(text.replace("9092", str(other.getsockname()[1])))

        assert start(str(plan.properties_file)) == 1

    assert (
        "Address already in use; stop the process that listens there, or change `listeners`"
        in said(capsys)
    )


def test_a_port_for_scrapes_in_use(plan: NodePlan, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        with plan.properties_file.open("a") as file:
            file.write(f"metrics.port={other.getsockname()[1]}\n")

        assert start(str(plan.properties_file)) == 1

    assert (
        "Address already in use; stop the process that listens there, or change `metrics.port`"
        in said(capsys)
    )


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "server.properties: No such file or directory: give the node's properties file"),
        (
            b"\xff\xfe\xfd",
            "server.properties is not text in UTF-8: give the node's properties file",
        ),
        (b"node.id=one\n", "server.properties: Invalid value one for configuration node.id"),
        (b"node.idd=1\n", "server.properties: there is no setting node.idd; did you mean node.id?"),
    ],
)
def test_a_file_that_will_not_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes | None, told: str
) -> None:
    file = tmp_path / "server.properties"
    if content is not None:
        file.write_bytes(content)

    assert start(str(file)) == 1

    assert told in said(capsys)


def test_a_mistake_is_reported_with_where_it_was_and_a_broken_disk_without() -> None:
    with pytest.raises(ValueError, match="a bug") as caught:
        raise ValueError("a bug")

    assert "test_broker.py" in _trace(caught.value)["trace"]
    assert _trace(OSError(5, "broken")) == {}
