"""The pytest plugin. Every run of pytest loads it where raftka is installed, so it imports nothing
before a fixture is used.
"""

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from raftka.registry.server import RegistryServer
    from raftka.testing.cluster import Cluster

NODES = "raftka_nodes"
SETTINGS = "raftka_settings"
numbers = itertools.count(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("raftka")
    group.addoption(
        "--raftka-nodes", type=int, help="nodes of the cluster that the tests share (1)"
    )
    parser.addini(NODES, "nodes of the cluster that the tests share", default="1")
    parser.addini(
        SETTINGS, "settings of its nodes, name=value, one a line", type="linelist", default=[]
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_RUNNING] = None


_RUNNING: "pytest.StashKey[Cluster | None]" = pytest.StashKey()


@pytest.fixture(scope="session")
def raftka_cluster(pytestconfig: pytest.Config) -> "Iterator[Cluster]":
    """A real cluster that all tests share: `bootstrap_servers`, `kill`, `restart`, `pause`,
    `fail_next`, ... After each test it is healed.
    """
    from raftka.testing.cluster import Cluster

    nodes = pytestconfig.getoption("--raftka-nodes") or int(pytestconfig.getini(NODES))
    settings = dict(line.split("=", 1) for line in pytestconfig.getini(SETTINGS))
    with Cluster(
        nodes, properties={name.strip(): value.strip() for name, value in settings.items()}
    ) as cluster:
        pytestconfig.stash[_RUNNING] = cluster
        yield cluster
        pytestconfig.stash[_RUNNING] = None


@pytest.fixture
def raftka_topic(raftka_cluster: "Cluster", request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of a new topic with one partition, deleted after the test."""
    from raftka.testing.cluster import topic_name

    name = raftka_cluster.create_topic(f"{topic_name(request.node.name)}-{next(numbers)}")
    yield name
    raftka_cluster.delete_topic(name)


@pytest.fixture
def raftka_registry(raftka_cluster: "Cluster") -> "Iterator[RegistryServer]":
    """An empty schema registry on that cluster, with `url`; what it had is gone after the test.
    Needs raftka[registry].
    """
    topic = f"_schemas-{next(numbers)}"
    with raftka_cluster.registry(topic) as registry:
        yield registry
    raftka_cluster.delete_topic(topic)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    cluster = item.config.stash[_RUNNING]
    if cluster is not None:
        cluster.heal()
    yield
