"""kazoo, as its users use it, on three living nodes; and the leader killed under it."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import BadVersionError, NoAuthError, NodeExistsError, NoNodeError
from kazoo.retry import KazooRetry
from kazoo.security import make_digest_acl

from raftka.testing import Cluster
from tests.zookeeper_bridge.kazoo_client import WAIT_S, connected


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(
        nodes=3,
        bridge=True,
        properties={
            "zookeeper.bridge.tick.ms": "500",
            "zookeeper.bridge.4lw.commands.whitelist": "envi, ruok",
        },
    ) as cluster:
        yield cluster


@pytest.fixture
def client(cluster: Cluster) -> Iterator[KazooClient]:
    with connected(cluster.zookeeper_connect) as client:
        yield client


@pytest.fixture
def patient(cluster: Cluster) -> Iterator[KazooClient]:
    """A client whose session outlives a machine that is busy with much else."""
    with connected(cluster.zookeeper_connect, timeout=30.0) as client:
        yield client


@pytest.fixture
def folder(client: KazooClient, request: pytest.FixtureRequest) -> str:
    path = f"/tests/{request.node.name}"
    client.ensure_path(path)
    return path


def at(cluster: Cluster, node_id: int) -> str:
    return cluster.zookeeper_connect.split(",")[node_id - 1]


def test_znodes(client: KazooClient, folder: str) -> None:
    assert client.create(f"{folder}/a", b"x") == f"{folder}/a"
    assert client.get(f"{folder}/a")[0] == b"x"
    stat = client.set(f"{folder}/a", b"y", version=0)
    assert (stat.version, stat.data_length) == (1, 1)
    assert client.get_children(folder) == ["a"]
    path, created = client.create(f"{folder}/b", b"", include_data=True)
    assert (path, created.version) == (f"{folder}/b", 0)
    with pytest.raises(NodeExistsError):
        client.create(f"{folder}/a")
    with pytest.raises(BadVersionError):
        client.set(f"{folder}/a", b"", version=0)
    client.delete(folder, recursive=True)
    assert client.exists(folder) is None
    with pytest.raises(NoNodeError):
        client.get(folder)


def test_numbers_and_ephemerals(cluster: Cluster, client: KazooClient, folder: str) -> None:
    with connected(at(cluster, 2)) as other:
        names = [
            each.create(f"{folder}/n-", ephemeral=True, sequence=True)
            for each in (client, other, client)
        ]
        assert names == [f"{folder}/n-000000000{i}" for i in range(3)]
    client.sync(folder)
    assert sorted(client.get_children(folder)) == ["n-0000000000", "n-0000000002"]


def test_watches(cluster: Cluster, client: KazooClient, folder: str) -> None:
    seen: list[bytes | None] = []
    changed = threading.Semaphore(0)

    def watch(data: bytes | None, stat: object) -> None:
        seen.append(data)
        changed.release()

    watching: Any = client.DataWatch
    watching(f"{folder}/a", watch)
    with connected(at(cluster, 3)) as other:
        assert changed.acquire(timeout=WAIT_S)
        for step, data in ((other.create, b"1"), (other.set, b"2"), (other.delete, -1)):
            step(f"{folder}/a", data)
            assert changed.acquire(timeout=WAIT_S)

    assert seen == [None, b"1", b"2", None]


def test_transactions(client: KazooClient, folder: str) -> None:
    transaction = client.transaction()
    transaction.create(f"{folder}/a", b"1")
    transaction.set_data(f"{folder}/a", b"2", version=0)
    transaction.check(f"{folder}/a", version=1)
    assert [type(each).__name__ for each in transaction.commit()] == ["str", "ZnodeStat", "bool"]

    refused = client.transaction()
    refused.delete(f"{folder}/a")
    refused.check(f"{folder}/a", version=7)
    assert [type(each).__name__ for each in refused.commit()] == ["RolledBackError", "NoNodeError"]
    assert client.get(f"{folder}/a")[0] == b"2"


def test_a_lock_is_one_holders(cluster: Cluster, folder: str) -> None:
    inside: list[int] = []
    most: list[int] = []

    def work(node_id: int) -> None:
        with connected(at(cluster, node_id)) as mine:
            for _ in range(5):
                with mine.Lock(f"{folder}/lock"):
                    inside.append(node_id)
                    most.append(len(inside))
                    inside.pop()

    threads = [threading.Thread(target=work, args=(node_id,)) for node_id in (1, 2, 3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()

    assert most == [1] * 15


def test_recipes(cluster: Cluster, client: KazooClient, folder: str) -> None:
    counter = client.Counter(f"{folder}/counter")
    for _ in range(5):
        counter += 2
    assert counter.value == 10

    queue = client.LockingQueue(f"{folder}/queue")
    queue.put_all([b"1", b"2", b"3"])
    assert [(queue.get(WAIT_S), queue.consume())[0] for _ in range(3)] == [b"1", b"2", b"3"]

    with connected(at(cluster, 2)) as other:
        party = [
            each.Party(f"{folder}/party", name) for each, name in ((client, "a"), (other, "b"))
        ]
        for each in party:
            each.join()
        client.sync(folder)  # the other has joined elsewhere
        assert sorted(party[0]) == ["a", "b"]

        barrier = [each.DoubleBarrier(f"{folder}/barrier", 2) for each in (client, other)]
        entering = threading.Thread(target=barrier[1].enter)
        entering.start()
        barrier[0].enter()
        entering.join(WAIT_S)
        assert not entering.is_alive()

        led: list[str] = []
        client.Election(f"{folder}/election", "a").run(led.append, "a")
        other.Election(f"{folder}/election", "b").run(led.append, "b")
        assert led == ["a", "b"]


def test_acls(cluster: Cluster, client: KazooClient, folder: str) -> None:
    client.add_auth("digest", "alice:secret")
    client.create(f"{folder}/mine", b"x", acl=[make_digest_acl("alice", "secret", all=True)])
    with connected(at(cluster, 1)) as stranger:
        with pytest.raises(NoAuthError):
            stranger.get(f"{folder}/mine")
        stranger.add_auth("digest", "alice:secret")
        assert stranger.get(f"{folder}/mine")[0] == b"x"


def test_versions_and_words(client: KazooClient) -> None:
    assert client.server_version()[:2] == (3, 9)
    assert client.command(b"ruok") == "imok"
    assert "Mode: " in client.command(b"srvr")


def test_a_session_moves_to_another_node(cluster: Cluster, folder: str) -> None:
    with connected(at(cluster, 1), timeout=10) as first:
        first.create(f"{folder}/e", ephemeral=True)
        with_session = KazooClient(at(cluster, 2), client_id=first.client_id, timeout=10)
        with_session.start(WAIT_S)
        try:
            assert with_session.client_id == first.client_id
            assert with_session.get(f"{folder}/e")[1].ephemeralOwner == first.client_id[0]
        finally:
            with_session.stop()
            with_session.close()


def test_the_leader_is_killed_and_the_session_stays(
    cluster: Cluster, patient: KazooClient, folder: str
) -> None:
    client, states = patient, list[str]()
    client.add_listener(states.append)
    client.create(f"{folder}/mine", ephemeral=True)
    session = client.client_id
    leader = next(node_id for node_id in cluster.alive if "leader" in _mode(cluster, node_id))

    cluster.kill(leader)

    retry = KazooRetry(max_tries=-1, delay=0.05, backoff=1, deadline=WAIT_S)
    retry(lambda: client.exists(f"{folder}/after") or client.create(f"{folder}/after"))
    cluster.restart(leader)
    assert client.client_id == session
    assert retry(client.exists, f"{folder}/mine").ephemeralOwner == session[0]
    assert KazooState.LOST not in states


def _mode(cluster: Cluster, node_id: int) -> str:
    with connected(at(cluster, node_id)) as client:
        return str(client.command(b"srvr"))
