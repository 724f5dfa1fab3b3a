"""`raftka cluster recover` on real directories: what it says, asks and writes, and that the node
starts with it.
"""

from pathlib import Path

import pytest

from raftka.cli.recover import recover
from raftka.cluster.plan import plan_cluster, ports_from
from raftka.metadata.configs.settings import METADATA_DIRECTORY
from raftka.metadata.quorum.journal import Journal, Standing
from raftka.metadata.quorum.raft_types import REGULAR, Entry
from raftka.metadata.records import (
    BrokerRegistered,
    ClusterFormed,
    Record,
    TopicCreated,
    encode_batch,
)
from raftka.runtime.real.files import RealFiles

CLUSTER = "abcdefghijklmnopqrstuv"
RECORDS: list[Record] = [
    ClusterFormed(CLUSTER),
    BrokerRegistered(1, bytes(16), bytes(16), (("PLAINTEXT", "h", 1, "PLAINTEXT"),)),
    TopicCreated("t", b"t" * 16, (((1,), (1,), 1), ((1,), (1,), 1))),
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Node 1 of three, with a journal of three entries."""
    plan = plan_cluster(tmp_path, ports_from(9092, 3))[0]
    plan.write()
    journal = opened(plan.properties_file)
    journal.set_vote(4, 1)
    journal.set_standing(Standing.VOTER)
    journal.set_cluster_id(CLUSTER)
    for index, record in enumerate(RECORDS, 1):
        journal.append(Entry(REGULAR + encode_batch([record], index), index, 4))
    for each in journal.take_sync():
        each.sync()
    journal.synced()
    journal.close()
    return plan.properties_file


def opened(file: Path) -> Journal:
    return Journal.open(
        RealFiles(lambda done: done()), str(file.parent / "data" / METADATA_DIRECTORY), 1
    )


def test_it_explains_asks_and_writes_down_what_was_given_up(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []

    def answer(question: str) -> str:
        asked.append(question)
        return CLUSTER

    assert recover(str(file), yes=False, ask=answer) == 0

    said = " ".join(capsys.readouterr().out.split())
    assert asked == ["Type the cluster's id to go on: "]
    for words in (
        f"Cluster {CLUSTER} begins anew from what controller 1 has",
        "up to entry 3 of term 4",
        "1 topics with 2 partitions; brokers 1",
        "3 entries are newer than its snapshot",
        "records that were acknowledged without it are lost",
        "The new quorum: 1, 2, 3.",
        "Empty the metadata directory (__raftka_metadata) of 2, 3",
        "Set controller.quorum.voters=1@127.0.0.1:9192,2@127.0.0.1:9193,3@127.0.0.1:9194",
    ):
        assert words in said
    report = file.parent / "data" / METADATA_DIRECTORY / "recovery-3.txt"
    assert "What is given up" in report.read_text()
    journal = opened(file)
    assert (journal.standing, journal.recovery.voters, journal.cluster_id) == (
        Standing.SEED,
        (1, 2, 3),
        CLUSTER,
    )
    assert journal.last.index == 1_000_003
    journal.close()


@pytest.mark.parametrize("answer", ["yes", "", CLUSTER[:-1]])
def test_any_other_answer_changes_nothing(
    file: Path, answer: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.read_bytes() for path in file.parent.rglob("*") if path.is_file()}

    assert recover(str(file), yes=False, ask=lambda question: answer) == 1

    assert capsys.readouterr().err == "raftka: nothing was changed\n"
    assert {path: path.read_bytes() for path in file.parent.rglob("*") if path.is_file()} == before


def test_without_a_terminal_it_asks_in_vain(file: Path) -> None:
    def closed(question: str) -> str:
        raise EOFError

    assert recover(str(file), yes=False, ask=closed) == 1


def test_scripts_may_say_yes_and_run_it_again(file: Path) -> None:
    assert recover(str(file), yes=True) == 0
    assert recover(str(file), yes=True) == 0

    journal = opened(file)
    assert (journal.standing, journal.last.index) == (Standing.SEED, 2_000_003)
    journal.close()


def test_a_node_that_runs_is_left_alone(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    running = opened(file)

    assert recover(str(file), yes=True) == 1

    assert "is in use: stop node 1 first" in capsys.readouterr().err
    running.close()


def test_what_cannot_be_recovered(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "node-2" / "server.properties"
    other.parent.mkdir()
    other.write_text(file.read_text().replace("node.id=1", "node.id=2").replace("node-1", "node-2"))
    assert recover(str(other), yes=True) == 2
    assert f"there is no {tmp_path}/node-2/data/__raftka_metadata" in capsys.readouterr().err

    (other.parent / "data" / METADATA_DIRECTORY).mkdir(parents=True)
    assert recover(str(other), yes=True) == 1
    assert "is empty: there is nothing to begin with" in capsys.readouterr().err

    observer = tmp_path / "observer.properties"
    observer.write_text(
        "node.id=9\nprocess.roles=broker\ncontroller.quorum.voters=1@h:1\n"
        f"listeners=PLAINTEXT://h:2\nlog.dirs={tmp_path}\n"
    )
    assert recover(str(observer), yes=True) == 2
    assert "node 9 is no controller" in capsys.readouterr().err

    journal = opened(file)
    journal.set_standing(Standing.JOINING)
    for each in journal.take_sync():
        each.sync()
    journal.synced()
    journal.close()
    assert recover(str(file), yes=True) == 1
    assert "Take another voter's" in capsys.readouterr().err
