"""The API of clients: members of groups of both protocols, by client id and host."""

from collections.abc import Iterator

import pytest

from raftka.client.blocking.client import Client
from raftka.client.blocking.connection import addresses_of
from raftka.client.blocking.member import Member
from raftka.client.connection import SOFTWARE_VERSION
from raftka.console.cluster import node_metrics
from raftka.console.groups import clients as module
from raftka.json_values import Json
from raftka.limits import Limit
from raftka.testing import Cluster
from tests.kit.console import Api, console_of
from tests.kit.groups import ConsumerMember, commit


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(1) as cluster:
        cluster.create_topic("orders", partitions=4)
        yield cluster


@pytest.fixture
def busy(cluster: Cluster) -> Iterator[Api]:
    """A console of a cluster with members of three groups and a group without any."""
    brokers = addresses_of(cluster.bootstrap_servers)
    with (
        Client(brokers, "shop") as shop,
        Client(brokers, "audit") as audit,
        Member(shop, "billing", "orders") as one,
        Member(shop, "mail", "orders") as two,
        console_of(cluster) as console,
    ):
        assert one.poll()
        assert two.poll()
        new = ConsumerMember(audit, "audits", ["orders"]).join()
        new.take(new.beat())
        commit(shop, "away", {("orders", 0): 0})
        yield Api(console.url)
        new.leave()


def found(cluster: Cluster, api: Api, **query: object) -> Json:
    """The answer, when all members are in it: the list of groups is some seconds old."""

    def read() -> Json:
        answer = api.get("/api/clients", **query)
        return answer if api.get("/api/clients")["members"] == 3 else None

    return cluster.wait_for(read)


def test_clients_are_the_members_of_groups(cluster: Cluster, busy: Api) -> None:
    answer = found(cluster, busy)
    audit, shop = answer["clients"]
    assert (audit["client"], audit["members"], audit["groups"]) == ("audit", 1, ["audits"])
    assert audit["host"] == "127.0.0.1"
    assert (shop["client"], shop["members"], shop["partitions"], shop["groups"]) == (
        "shop",
        2,
        8,
        ["billing", "mail"],
    )
    assert (answer["total"], answer["is_cut"], answer["missing"]) == (2, False, {})


def test_clients_are_found_by_client_group_and_host_sorted_and_paged(
    cluster: Cluster, busy: Api
) -> None:
    found(cluster, busy)

    def names(**query: object) -> list[str]:
        return [each["client"] for each in busy.get("/api/clients", **query)["clients"]]

    assert names(search="MAIL") == ["shop"]
    assert names(search="aud") == ["audit"]
    assert names(search="127.0") == ["audit", "shop"]
    assert names(search="away") == []
    assert names(sort="-members") == names(sort="-client") == ["shop", "audit"]
    assert names(sort="-members", size=1, page=2) == ["audit"]


def test_more_groups_than_may_be_asked_are_told(
    cluster: Cluster, busy: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "DESCRIBED_GROUPS", Limit("few", 1, "of the test"))
    assert cluster.wait_for(lambda: busy.get("/api/clients")["is_cut"])
    assert busy.get("/api/clients")["members"] == 1


def test_software_of_connections_is_told_with_the_nodes_that_have_them(
    cluster: Cluster, busy: Api
) -> None:
    told: Json = None

    def read() -> bool:
        nonlocal told
        told = busy.get("/api/clients/software")
        return bool(told["software"])

    assert cluster.wait_for(read)
    (row,) = told["software"]
    assert (row["name"], row["version"], row["nodes"]) == ("raftka", SOFTWARE_VERSION, [1])
    assert row["connections"] >= 3
    assert (told["total"], told["without"], told["is_too_large"]) == (1, [], False)


def test_nodes_without_metrics_are_named_beside_the_software() -> None:
    with Cluster(1, properties={"metrics.port": "0"}) as guarded, console_of(guarded) as console:
        api = Api(console.url)
        assert guarded.wait_for(lambda: api.get("/api/clients/software")["software"] is not None)
        told = api.get("/api/clients/software")
        assert (told["software"], told["without"]) == ([], [1])


def test_metrics_of_many_partitions_are_not_read(
    busy: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_metrics, "METRICS_PARTITIONS", Limit("few", 1, "of the test"))
    told = busy.get("/api/clients/software")
    assert (told["software"], told["is_too_large"]) == ([], True)
