"""Faults that `raftka doctor` names, each planted in a live cluster of three brokers, and removed
again.
"""

import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from raftka.client.blocking.every_broker import fenced_brokers
from raftka.client.blocking.groups import commit_offsets
from raftka.client.blocking.member import Member
from raftka.client.blocking.producer import Producer
from raftka.client.blocking.reassignments import alter_reassignments
from raftka.cluster.ports import HeldPorts
from raftka.cluster.properties import parse
from raftka.console.cluster.findings import SILENT_MS
from raftka.doctor.gathering.cluster import Questions
from raftka.wire.messages.share_groups import SHARE_GROUP_HEARTBEAT
from tests.clients.hanging import UNVERIFIED, hang
from tests.clients.workload import wait
from tests.kit.live import Live

SETTINGS = {
    **UNVERIFIED,
    "offsets.topic.num.partitions": "3",
    "share.coordinator.state.topic.num.partitions": "3",
    "auto.leader.rebalance.enable": "false",
}
MENDED = True
STDIN = {"scram-without-users": "a-good-password\na-good-password\n"}  # that a next step asks for
Planting = Callable[[Live], Iterator[None]]
Plant = Callable[[Live], AbstractContextManager[object]]


class Planted(NamedTuple):
    plant: Plant
    is_mended: bool  # by the next step


PLANTED: dict[str, Planted] = {}


def plants(kind: str, is_mended: bool = False) -> Callable[[Planting], None]:
    def register(plant: Planting) -> None:
        PLANTED[kind] = Planted(contextmanager(plant), is_mended)

    return register


# topics and their settings


def topic_with(cluster: Live, name: str, partitions: int, factor: int, *settings: str) -> None:
    flags = " ".join(f"-c {each}" for each in settings)
    cluster.do(f"raftka topics create {name} -p {partitions} -r {factor} {flags}")


@plants("one-replica", MENDED)
def one_replica(cluster: Live) -> Iterator[None]:
    topic_with(cluster, "single", 1, 1)
    yield
    cluster.do("raftka topics delete single")


@plants("min-isr-one", MENDED)
def min_isr_one(cluster: Live) -> Iterator[None]:
    topic_with(cluster, "weak", 1, 3, "min.insync.replicas=1")
    yield
    cluster.do("raftka topics delete weak")


@plants("min-isr-all", MENDED)
def min_isr_all(cluster: Live) -> Iterator[None]:
    topic_with(cluster, "strict", 1, 3, "min.insync.replicas=3")
    yield
    cluster.do("raftka topics delete strict")


@plants("unclean-election", MENDED)
def unclean_election(cluster: Live) -> Iterator[None]:
    topic_with(cluster, "unclean", 1, 3, "unclean.leader.election.enable=true")
    yield
    cluster.do("raftka topics delete unclean")


@plants("disk-below-retention", MENDED)
def disk_below_retention(cluster: Live) -> Iterator[None]:
    topic_with(cluster, "endless", 1, 3, f"retention.bytes={10**16}")
    yield
    cluster.do("raftka topics delete endless")


@plants("too-many-partitions")
def too_many_partitions(cluster: Live) -> Iterator[None]:
    topic_with(cluster, "wide", 301, 1)
    yield
    cluster.do("raftka topics delete wide wide-smaller")


@plants("records-from-the-future")
def records_from_the_future(cluster: Live) -> Iterator[None]:
    topic_with(cluster, "future", 1, 3, f"message.timestamp.after.max.ms={10**12}")
    with cluster.client() as client:
        producer = Producer(client)
        producer.add(("future", 0), (None, b"v", (), round(time.time() * 1000) + 10**9))
        producer.flush()
    yield
    cluster.do("raftka topics delete future")


@plants("internal-topic-replicas", MENDED)
def internal_topic_replicas(cluster: Live) -> Iterator[None]:
    with cluster.client() as client:
        (topic,) = client.metadata(["__consumer_offsets"]).topics
    before = {each.partition_index: list(each.replica_nodes) for each in topic.partitions}
    cluster.assign("__consumer_offsets", {index: own[:1] for index, own in before.items()})
    yield
    cluster.assign("__consumer_offsets", before)
    cluster.settle()


@plants("settings-differ")
def settings_differ(cluster: Live) -> Iterator[None]:
    cluster.do("raftka configs alter broker 1 -c unclean.leader.election.enable=true")
    yield
    cluster.do("raftka configs alter broker 1 -d unclean.leader.election.enable")


@plants("quota-for-everyone", MENDED)
def quota_for_everyone(cluster: Live) -> Iterator[None]:
    cluster.do("raftka quotas set consumer_byte_rate=1000 --default user")
    yield


# leaders and moves


@plants("leaders-not-preferred", MENDED)
def leaders_not_preferred(cluster: Live) -> Iterator[None]:
    topic_with(cluster, "turned", 1, 3)
    cluster.assign("turned", {0: [1, 2, 3]})
    cluster.do("raftka partitions elect turned")
    cluster.assign("turned", {0: [2, 1, 3]})
    yield
    cluster.do("raftka topics delete turned")


@plants("leaders-unbalanced")
def leaders_unbalanced(cluster: Live) -> Iterator[None]:
    cluster.create("skewed", 30, [1, 2, 3])
    yield
    cluster.do("raftka topics delete skewed")


@plants("reassignment-stuck")
def reassignment_stuck(cluster: Live) -> Iterator[None]:
    """The throttle lets nothing through."""
    cluster.create("moving", 1, [1, 2])
    cluster.do("raftka produce moving", f"{'x' * 1000}\n" * 5000)
    rates = "leader.replication.throttled.rate=1 -c follower.replication.throttled.rate=1"
    lists = "leader.replication.throttled.replicas=* -c follower.replication.throttled.replicas=*"
    cluster.do(f"raftka topics alter moving -c {lists}")
    for each in (1, 2, 3):
        cluster.do(f"raftka configs alter broker {each} -c {rates}")
    with cluster.client() as client:
        where = ("moving", 0)
        alter_reassignments(client, {where: [1, 3]})
        # what the throttle lets through at once has come
        wait(lambda: bool(Questions(client).sizes([where], [3]).get((3, where))))
    yield
    for each in (1, 2, 3):
        cluster.do(
            f"raftka configs alter broker {each} -d leader.replication.throttled.rate "
            "-d follower.replication.throttled.rate"
        )
    cluster.do("raftka topics delete moving")


# groups and transactions


@plants("group-without-members")
def group_without_members(cluster: Live) -> Iterator[None]:
    with cluster.client() as client:
        assert not commit_offsets(client, "slow", {("orders", 0): 0}, {})
        cluster.do("raftka produce orders -p 0", "one more\n")
    yield
    cluster.do("raftka groups delete slow")


@plants("group-offsets-outside")
def group_offsets_outside(cluster: Live) -> Iterator[None]:
    with cluster.client() as client:
        assert not commit_offsets(client, "outside", {("orders", 1): 10**9}, {})
    yield
    cluster.do("raftka groups delete outside")


@plants("group-without-offsets")
def group_without_offsets(cluster: Live) -> Iterator[None]:
    with cluster.client() as client, Member(client, "forgetful", "orders") as member:
        wait(member.poll)
        yield
    cluster.do("raftka groups delete forgetful")


@plants("share-group-stands")
def share_group_stands(cluster: Live) -> Iterator[None]:
    """Its member has locked nothing and fetches nothing."""

    def beat(epoch: int) -> int:
        row = SHARE_GROUP_HEARTBEAT.request(
            group_id="sharing",
            member_id="M" * 22,
            member_epoch=epoch,
            subscribed_topic_names=["orders"] if epoch == 0 else None,
        )
        answer = client.ask_coordinator("sharing", SHARE_GROUP_HEARTBEAT, row)
        assert answer.error_code == 0
        return answer.member_epoch

    with cluster.client() as client:
        beat(0)
        beat(-1)
        cluster.do("raftka groups reset-offsets sharing orders --to start")
        beat(0)
        yield
        beat(-1)
    cluster.do("raftka groups delete sharing")


@plants("transactions-hanging", MENDED)
def transactions_hanging(cluster: Live) -> Iterator[None]:
    topic_with(cluster, "hung", 1, 3)
    with cluster.client() as client:
        hang(client, "hung", 0)
    yield
    cluster.do("raftka topics delete hung")


# brokers


@plants("open-file-limit")
def open_file_limit(cluster: Live) -> Iterator[None]:
    pid = cluster.cluster.nodes[1].pid
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (1000, before[1]))
    yield
    resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


@plants("broker-gone")
def broker_gone(cluster: Live) -> Iterator[None]:
    with killed(cluster, 3):
        yield


@plants("partitions-under-replicated")
def partitions_under_replicated(cluster: Live) -> Iterator[None]:
    with killed(cluster, 3):
        yield


@plants("partitions-under-min-isr")
def partitions_under_min_isr(cluster: Live) -> Iterator[None]:
    topic_with(cluster, "careful", 1, 3, "min.insync.replicas=3")
    with killed(cluster, 3):
        yield
    cluster.do("raftka topics delete careful")


@plants("partitions-offline")
def partitions_offline(cluster: Live) -> Iterator[None]:
    cluster.create("alone", 1, [3])
    with killed(cluster, 3):
        yield
    cluster.do("raftka topics delete alone")


@plants("voters-silent")
def voters_silent(cluster: Live) -> Iterator[None]:
    with killed(cluster, 3):
        time.sleep(SILENT_MS / 1000)
        yield


@contextmanager
def killed(cluster: Live, node_id: int) -> Iterator[None]:
    cluster.cluster.kill(node_id)
    with cluster.client() as client:
        wait(lambda: fenced_brokers(client) == [node_id])
    yield
    cluster.cluster.start(node_id)
    assert cluster.cluster.wait_ready()
    cluster.settle()


@plants("no-controller")
def no_controller(cluster: Live) -> Iterator[None]:
    for each in (2, 3):
        cluster.cluster.kill(each, signal.SIGKILL)
    yield
    for each in (2, 3):
        cluster.cluster.start(each)
    assert cluster.cluster.wait_ready()
    cluster.settle()


@plants("clock-differs")
def clock_differs(cluster: Live) -> Iterator[None]:
    with cluster.changed(3, {}, "tests.doctor.ahead"):
        yield


@plants("versions-mixed")
def versions_mixed(cluster: Live) -> Iterator[None]:
    with cluster.changed(3, {"raftka.api.ceiling": "3.9"}):
        yield


@plants("default-replicas")
def default_replicas(cluster: Live) -> Iterator[None]:
    with cluster.changed(3, {"default.replication.factor": "1"}):
        yield


@plants("racks-missing")
def racks_missing(cluster: Live) -> Iterator[None]:
    with cluster.changed(3, {"broker.rack": "a"}):
        yield


@plants("replicas-in-one-rack", MENDED)
def replicas_in_one_rack(cluster: Live) -> Iterator[None]:
    with (
        cluster.changed(1, {"broker.rack": "a"}),
        cluster.changed(2, {"broker.rack": "a"}),
        cluster.changed(3, {"broker.rack": "b"}),
    ):
        cluster.create("together", 1, [1, 2])
        yield
        cluster.do("raftka topics delete together")


@plants("flush-off-one-replica", MENDED)
def flush_off_one_replica(cluster: Live) -> Iterator[None]:
    with cluster.changed(3, {"raftka.log.flush": "os"}):
        topic_with(cluster, "quick", 1, 1)
        yield
        cluster.do("raftka topics delete quick")


def advertised(cluster: Live, address: str) -> AbstractContextManager[None]:
    return cluster.changed(3, {"advertised.listeners": f"PLAINTEXT://{address}"})


@plants("address-unreachable")
def address_unreachable(cluster: Live) -> Iterator[None]:
    with advertised(cluster, "127.0.0.1:1"):
        yield


@plants("address-shared")
def address_shared(cluster: Live) -> Iterator[None]:
    with advertised(cluster, cluster.cluster.nodes[1].plan.address):
        yield


@plants("address-of-another")
def address_of_another(cluster: Live) -> Iterator[None]:
    with advertised(cluster, cluster.cluster.nodes[1].plan.address):
        yield


@plants("disk-nearly-full")
def disk_nearly_full(cluster: Live) -> Iterator[None]:
    with small_disk(cluster) as folder:
        (folder / "filler").write_bytes(bytes(15 << 20))
        yield


@plants("disk-failed")
def disk_failed(cluster: Live) -> Iterator[None]:
    """The disk is full, and the broker writes to it."""
    with small_disk(cluster) as folder:
        cluster.create("there", 8, [3, 1, 2])
        subprocess.run(["cp", "/dev/zero", str(folder / "filler")], check=False)
        cluster.shell("raftka produce there --acks 1", f"{'x' * 10_000}\n" * 200)
        yield


@contextmanager
def small_disk(cluster: Live) -> Iterator[Path]:
    """Broker 3 with a second log directory, on a disk of its own."""
    if os.geteuid() != 0:
        pytest.skip("only root mounts a disk")
    folder = cluster.folder / "disk"
    folder.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(folder)], check=True)
    file = cluster.cluster.nodes[3].plan.properties_file
    first = parse(file.read_text(encoding="utf-8"))["log.dirs"]
    try:
        with cluster.changed(3, {"log.dirs": f"{first},{folder}/data"}):
            yield folder
            (folder / "filler").unlink(missing_ok=True)
            cluster.shell("raftka topics delete there")
    finally:
        subprocess.run(["umount", str(folder)], check=True)


# logins and rights


def with_logins(cluster: Live) -> AbstractContextManager[None]:
    """Let broker 3 have a listener for logins with SCRAM; there is no user and no authorizer."""
    properties = parse(cluster.cluster.nodes[3].plan.properties_file.read_text(encoding="utf-8"))
    names = ("listeners", "advertised.listeners")
    with HeldPorts(1) as ports:
        own = f"SASL_PLAINTEXT://127.0.0.1:{ports.numbers[0]}"
    return cluster.changed(
        3,
        {
            **{name: f"{properties[name]},{own}" for name in names},
            "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT,"
            + properties["listener.security.protocol.map"],
            "inter.broker.listener.name": "PLAINTEXT",
            "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        },
    )


@plants("authorizer-off")
def authorizer_off(cluster: Live) -> Iterator[None]:
    with with_logins(cluster):
        yield


@plants("scram-without-users")
def scram_without_users(cluster: Live) -> Iterator[None]:
    with with_logins(cluster):
        yield
    cluster.do("raftka users delete alice")


# the quorum


@contextmanager
def without_voters(cluster: Live, *node_ids: int) -> Iterator[None]:
    cluster.do("raftka features upgrade -f kraft.version=1")
    for each in node_ids:
        cluster.do(f"raftka controllers remove {each}")
    yield
    for each in node_ids:
        port = cluster.cluster.nodes[each].plan.controller_port
        cluster.do(f"raftka controllers add {each} --at 127.0.0.1:{port}")


@plants("voters-even")
def voters_even(cluster: Live) -> Iterator[None]:
    with without_voters(cluster, 3):
        yield


@plants("voter-alone")
def voter_alone(cluster: Live) -> Iterator[None]:
    with without_voters(cluster, 3, 2):
        yield
