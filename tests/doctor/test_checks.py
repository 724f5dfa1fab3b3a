"""Checks as functions of facts, findings about a node's file and machine, and the table of all."""

import csv
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from raftka.client.blocking.quorum import LEADER, VOTER, Quorum, QuorumNode
from raftka.cluster.plan import plan_cluster
from raftka.cluster.properties import parse, render
from raftka.cluster.secured.keys import AUTHORIZER
from raftka.doctor.checks.finding import CHECKS, Finding
from raftka.doctor.checks.security import is_valid_for
from raftka.doctor.checks.table import by_subject, examine
from raftka.doctor.facts import Broker, Endpoint, Facts, Partition, Topic
from raftka.doctor.gathering.cluster import ahead_ms
from raftka.doctor.gathering.node import read_node
from raftka.metadata.configs.settings import METADATA_DIRECTORY
from tests.doctor.plants import PLANTED
from tests.kit.documents import ROOT
from tests.kit.live import Shell

OTHERS = {  # kinds that other tests plant, those of this file among them
    "acl-for-everybody",
    "address-loopback",
    "address-not-listening",
    "certificate-expired",
    "certificate-expires",
    "certificate-name",
    "directory-not-writable",
    "everyone-without-acl",
    "features-not-finalised",
    "file-refused",
    "machine-files",
    "machine-limits",
    "settings-not-used",
    "snapshot-old",
    "super-user-anybody",
    "token-expires",
    "voter-lagging",
}


def kinds(facts: Facts) -> set[str]:
    return {each.kind for each in examine(facts)}


def test_every_kind_is_planted_by_a_test() -> None:
    assert {each.kind for each in CHECKS} == PLANTED.keys() | OTHERS
    assert len(CHECKS) == len({each.kind for each in CHECKS}) == len(list(by_subject()))


def test_the_page_lists_every_kind() -> None:
    with open(ROOT / "docs/doctor.csv", encoding="utf-8", newline="") as file:
        rows = [(row["finding"], row["level"], row["about"]) for row in csv.DictReader(file)]
    assert rows == [(each.kind, each.level, subject) for subject, each in by_subject()]
    assert f"{len(rows)} kinds" in (ROOT / "docs/doctor.md").read_text(encoding="utf-8")


def test_nothing_known_is_nothing_found() -> None:
    assert examine(Facts()) == []


@pytest.mark.parametrize(
    ("replicas", "isr", "found"), [([1], [1], False), ([1, 2], [1], True), ([1, 2], [1, 2], False)]
)
def test_more_replicas_in_sync_than_there_are_replicas_are_not_needed(
    replicas: list[int], isr: list[int], found: bool
) -> None:
    topic = Topic("t", {0: Partition(1, replicas, isr)}, {"min.insync.replicas": "2"})
    assert ("partitions-under-min-isr" in kinds(Facts(topics={"t": topic}))) is found


def test_a_voter_that_answers_and_lags() -> None:
    nodes = [
        QuorumNode(1, LEADER, 9000, 0, 10**12, 10**12),
        QuorumNode(2, VOTER, 10, 8990, 10**12, 10**12),
        QuorumNode(3, VOTER, 9000, 0, 10**12, 10**12),
    ]
    facts = Facts(controller=1, quorum=Quorum(1, 1, 9000, nodes))
    (finding,) = examine(facts)
    assert finding.kind == "voter-lagging"
    assert "Node 2 is 8,990 entries behind" in finding.text


def test_an_address_of_loopback_is_wrong_where_clients_come_from_elsewhere() -> None:
    broker = Broker(1, "127.0.0.1", 9092)
    endpoint = Endpoint("127.0.0.1", 9092, ["127.0.0.1"])
    here = Facts([("localhost", 9092)], 1, {1: broker}, endpoints=[endpoint])
    assert kinds(here) == set()
    there = Facts([("192.0.2.7", 9092)], 1, {1: broker}, endpoints=[endpoint])
    assert kinds(there) == {"address-loopback"}


@pytest.mark.parametrize(
    ("hosts", "host", "holds"),
    [
        (("kafka-1.example",), "KAFKA-1.example", True),
        (("*.example",), "kafka-1.example", True),
        (("*.example",), "a.kafka-1.example", False),
        (("10.0.0.1",), "10.0.0.1", True),
        (("10.0.0.1",), "10.0.0.2", False),
        (("*.1",), "10.0.0.1", False),
        ((), "kafka-1", False),
    ],
)
def test_names_of_certificates(hosts: tuple[str, ...], host: str, holds: bool) -> None:
    assert is_valid_for(hosts, host) is holds


def test_a_clock_that_is_read_between_two_moments() -> None:
    assert ahead_ms(150, 100, 200) == 0
    assert ahead_ms(90, 100, 200) == -10
    assert ahead_ms(203, 100, 200) == 3


# a node's file and machine


def properties_of(tmp_path: Path, changes: Mapping[str, str]) -> Path:
    (plan,) = plan_cluster(tmp_path / "data", [(19092, 19093)])
    plan.directory.mkdir(parents=True)
    file = tmp_path / "server.properties"
    file.write_text(render({**plan.properties, **changes}, ""), encoding="utf-8")
    return file


def of_file(tmp_path: Path, **changes: str) -> tuple[Shell, dict[str, dict[str, str]]]:
    """Return the findings about the file alone: no cluster answers."""
    named = {name.replace("_", "."): value for name, value in changes.items()}
    file = properties_of(tmp_path, named)
    shell = Shell(tmp_path, "127.0.0.1:1")
    done = shell.doctor(f"--config {file}")
    assert done.code == 2
    del done.found["address-unreachable"]
    return shell, done.found


def test_a_sound_file(tmp_path: Path) -> None:
    assert of_file(tmp_path)[1] == {}


def test_settings_that_were_copied(tmp_path: Path) -> None:
    shell, found = of_file(tmp_path, num_network_threads="8", socket_send_buffer_bytes="102400")
    assert found.keys() == {"settings-not-used"}
    shell.do(found["settings-not-used"]["next"])


def test_a_file_that_no_node_takes(tmp_path: Path) -> None:
    shell, found = of_file(tmp_path, num_partitons="3")
    assert found.keys() == {"file-refused"}
    assert "num.partitons" in found["file-refused"]["text"]
    done = shell.shell(found["file-refused"]["next"])
    assert (done.returncode, "num.partitons" in done.stderr) == (1, True)


def test_rights_of_everybody(tmp_path: Path) -> None:
    shell, found = of_file(
        tmp_path,
        authorizer_class_name=AUTHORIZER,
        super_users="User:admin;User:ANONYMOUS",
        allow_everyone_if_no_acl_found="true",
    )
    assert found.keys() == {"super-user-anybody", "everyone-without-acl"}
    assert "has User:ANONYMOUS:" in found["super-user-anybody"]["text"]
    for each in found.values():
        shell.do(each["next"])


def test_a_directory_on_a_disk_that_is_read_only(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root mounts a disk")
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", str(disk)], check=True)
    try:
        shell, found = of_file(tmp_path, log_dirs=str(disk / "data"))
        assert found.keys() == {"directory-not-writable"}
        assert "Read-only" in found["directory-not-writable"]["text"]
        shell.do(found["directory-not-writable"]["next"])
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_a_port_that_is_advertised_and_not_listened_at(tmp_path: Path) -> None:
    shell, found = of_file(tmp_path, advertised_listeners="PLAINTEXT://127.0.0.1:1")
    assert found.keys() == {"address-not-listening"}
    shell.do(found["address-not-listening"]["next"])


def test_a_limit_of_open_files(tmp_path: Path) -> None:
    file = properties_of(tmp_path, {})
    shell = Shell(tmp_path, "127.0.0.1:1")
    done = shell.shell(f"ulimit -n 1000; raftka doctor -o json --config {file}")
    assert '"finding": "machine-files"' in done.stdout


def test_a_metadata_log_without_a_new_snapshot(tmp_path: Path) -> None:
    file = properties_of(tmp_path, {})
    settings = parse(file.read_text(encoding="utf-8"))
    folder = Path(settings["log.dirs"]) / METADATA_DIRECTORY
    node = read_node(file)
    assert node.journal_bytes == 0
    folder.mkdir(parents=True)
    with open(folder / "journal", "wb") as journal:
        journal.truncate(600 << 20)
    assert kinds(Facts(node=read_node(file))) == {"snapshot-old"}


def machine(tmp_path: Path, **numbers: str) -> list[Finding]:
    """Findings about a machine whose kernel shows these numbers."""
    proc, cgroup = tmp_path / "proc", tmp_path / "cgroup"
    (proc / "sys/fs").mkdir(parents=True)
    (proc / str(os.getpid())).mkdir()
    cgroup.mkdir()
    file = properties_of(tmp_path, {})
    (tmp_path / "raftka.pid").write_text(str(os.getpid()))
    places = {
        "aio": proc / "sys/fs/aio-nr",
        "aio_max": proc / "sys/fs/aio-max-nr",
        "memory": cgroup / "memory.current",
        "memory_max": cgroup / "memory.max",
        "status": proc / str(os.getpid()) / "status",
        "limits": proc / str(os.getpid()) / "limits",
    }
    for name, text in numbers.items():
        places[name].write_text(text)
    return examine(Facts(node=read_node(file, proc, cgroup)))


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ({"aio": "65000", "aio_max": "65536"}, "raise fs.aio-max-nr"),
        ({"memory": str(95 << 20), "memory_max": str(100 << 20)}, "uses 95 of 100 MiB"),
        ({"status": "Name:\tx\nVmSwap:\t  20480 kB\n"}, "21 MiB of the node are swapped out"),
        ({"limits": "Max open files            1024  1024  files\n"}, "may open 1,024 files"),
        ({"aio": "10", "aio_max": "65536", "memory": "100", "memory_max": "max"}, ""),
    ],
)
def test_limits_of_the_machine(tmp_path: Path, numbers: dict[str, str], said: str) -> None:
    found = machine(tmp_path, **numbers)
    assert [said in each.text for each in found] == ([True] if said else [])
