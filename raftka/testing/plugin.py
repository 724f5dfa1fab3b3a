"""The pytest plugin. Every run of pytest loads it where raftka is installed, so it imports nothing
before a fixture is used.
"""

import itertools
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, NoReturn

import pytest

from raftka.runtime.supported import NO_WINDOWS
from raftka.testing.options import Kind, read_lines, read_pairs, topic_name
from raftka.testing.timeline import report

if TYPE_CHECKING:
    from raftka.registry.server import RegistryServer
    from raftka.testing.aio import AsyncCluster
    from raftka.testing.cluster import Cluster

NODES = "raftka_nodes"
SECURITY = "raftka_security"
API_CEILING = "raftka_api_ceiling"
SETTINGS = "raftka_settings"
CLEAN = "raftka_clean"
CLUSTER = "raftka_cluster"  # the fixture
MARK = (
    "raftka(nodes=1, security='PLAINTEXT', api_ceiling=None, **settings): the kind of cluster that "
    "the test gets from raftka_cluster"
)
OUR_PACKAGES = frozenset({"raftka", "zookeeper_bridge"})  # those that a cluster imports
numbers = itertools.count(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("raftka")
    group.addoption(
        "--raftka-nodes", type=int, help="nodes of the cluster that the tests share (1)"
    )
    group.addoption(
        "--raftka-security",
        metavar="PROTOCOL",
        help="its security: plaintext, tls, sasl, sasl_ssl (plaintext)",
    )
    group.addoption(
        "--raftka-api-ceiling",
        metavar="RELEASE",
        help="the release of Kafka whose versions of APIs clients see at most, as 3.9 (none)",
    )
    group.addoption(
        "--raftka-clean",
        action="store_true",
        help="remove all topics, groups and settings behind each test",
    )
    group.addoption(
        "--kafka-cluster",
        metavar="NAME=VALUE,...",
        action="append",
        default=[],
        help="nodes, security, api_ceiling and Kafka's settings, as nodes=3,security=tls",
    )
    parser.addini(NODES, "nodes of the cluster that the tests share", default="1")
    parser.addini(SECURITY, "its security protocol", default="PLAINTEXT")
    parser.addini(API_CEILING, "the release whose versions clients see at most", default="")
    parser.addini(
        SETTINGS, "settings of its nodes, name=value, one a line", type="linelist", default=[]
    )
    parser.addini(
        CLEAN, "remove all topics, groups and settings behind each test", type="bool", default=False
    )


def pytest_configure(config: pytest.Config) -> None:
    _keep_compiled(config)
    config.pluginmanager.register(report, "raftka_timeline")
    config.addinivalue_line("markers", MARK)
    config.stash[_RUNNING] = {}


_RUNNING: "pytest.StashKey[dict[Kind, Cluster]]" = pytest.StashKey()


def _keep_compiled(config: pytest.Config) -> None:
    """Take raftka out of the packages whose assertions pytest rewrites: all of a distribution with
    a plugin. Rewriting 400 modules takes a second of the first run in an environment, and of each
    run where pytest may not write to it. pytest has no public name for this: without these names
    the run is slower.
    """
    marked = getattr(getattr(config.pluginmanager, "rewrite_hook", None), "_must_rewrite", None)
    if isinstance(marked, set):
        marked -= {name for name in marked if name.partition(".")[0] in OUR_PACKAGES}


def _refuse(complaint: str) -> NoReturn:
    """Report a mistake in an option, a mark or the configuration as one sentence, without the
    plugin's source.
    """
    raise pytest.fail.Exception(complaint, pytrace=False) from None


# the kind of cluster


def _shared_kind(config: pytest.Config) -> Kind:
    """Of the tests without a mark. An option of its own goes before --kafka-cluster, which goes
    before the configuration.
    """
    single = {"nodes": config.getoption("--raftka-nodes")}
    single["security"] = config.getoption("--raftka-security")
    single["api_ceiling"] = config.getoption("--raftka-api-ceiling")
    try:
        kind = Kind().changed({"nodes": config.getini(NODES), "security": config.getini(SECURITY)})
        kind = kind.changed(read_lines(config.getini(SETTINGS)))
        if ceiling := config.getini(API_CEILING):
            kind = kind.changed({"api_ceiling": ceiling})
        kind = kind.changed(read_pairs(config.getoption("--kafka-cluster")))
        return kind.changed({name: value for name, value in single.items() if value is not None})
    except ValueError as error:
        _refuse(f"raftka: {error}")


def _marked_kind(item: "pytest.Item | pytest.Function", config: pytest.Config) -> Kind | None:
    """Of the marks of a test, its class and its module, the nearest first; None: it has none."""
    marks = list(item.iter_markers("raftka"))
    if not marks:
        return None
    kind = _shared_kind(config)
    for mark in reversed(marks):
        if mark.args:
            _refuse(f"{item.nodeid}: the mark raftka takes names: nodes=3")
        try:
            kind = kind.changed(mark.kwargs)
        except ValueError as error:
            _refuse(f"{item.nodeid}: {error}")
    return kind


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Hand the kind of a marked test to the fixture, which has no access to marks: its scope is the
    session's. The test's name stays.
    """
    if CLUSTER not in metafunc.fixturenames:
        return
    kind = _marked_kind(metafunc.definition, metafunc.config)
    if kind is not None:
        hidden = getattr(pytest, "HIDDEN_PARAM", f"{kind.nodes}-{kind.security}")
        metafunc.parametrize(CLUSTER, [kind], indirect=True, ids=[hidden], scope="session")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Refuse a mark that has no effect: on a test without the fixture, and in classes of unittest,
    which take no parameters. The mark of a module or class may stand above tests without it.
    """
    if item.get_closest_marker("raftka") is None:
        return
    callspec = getattr(item, "callspec", None)
    if callspec is not None and CLUSTER in callspec.params:
        return
    is_own = any(mark.name == "raftka" for mark in item.own_markers)
    if is_own or CLUSTER in getattr(item, "fixturenames", ()):
        _refuse(
            f"{item.nodeid}: the mark raftka needs the fixture raftka_cluster among the arguments "
            "of the test or of its fixtures, in a function or a class that is not unittest's"
        )


# the fixtures


@pytest.fixture(scope="session")
def raftka_clusters(pytestconfig: pytest.Config) -> "Iterator[dict[Kind, Cluster]]":
    """All clusters of this process, by kind; raftka_cluster adds to them."""
    if sys.platform == "win32":
        pytest.skip(NO_WINDOWS)
    running = pytestconfig.stash[_RUNNING]
    yield running
    while running:
        running.popitem()[1].stop()


@pytest.fixture(scope="session")
def raftka_cluster(
    raftka_clusters: "dict[Kind, Cluster]", request: pytest.FixtureRequest
) -> "Cluster":
    """A real cluster that all tests of its kind share: `bootstrap_servers`, `kill`, `restart`,
    `pause`, `fail_next`, ... After each test it is healed.
    """
    from raftka.metadata.configs.values import SettingError
    from raftka.testing.cluster import Cluster

    kind: Kind = getattr(request, "param", None) or _shared_kind(request.config)
    if kind not in raftka_clusters:
        nodes, security, settings = kind
        try:
            cluster = Cluster(nodes, security=security, properties=dict(settings))
        except ValueError as error:
            _refuse(f"raftka: {error}")
        try:
            raftka_clusters[kind] = cluster.start()
        except SettingError as error:
            cluster.stop()
            _refuse(f"raftka: {error}")
    return raftka_clusters[kind]


@pytest.fixture
def raftka_clean_cluster(raftka_cluster: "Cluster") -> "Cluster":
    """The shared cluster as it was at its start: no topic, no group, no changed setting."""
    raftka_cluster.clean()
    return raftka_cluster


@pytest.fixture
def raftka_async_cluster(raftka_cluster: "Cluster") -> "Iterator[AsyncCluster]":
    """The shared cluster for coroutines, under asyncio, Trio or anyio."""
    from raftka.testing.aio import AsyncCluster

    cluster = AsyncCluster(raftka_cluster)
    yield cluster
    cluster.close()


@pytest.fixture
def raftka_topic(raftka_cluster: "Cluster", request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of a new topic with one partition, deleted after the test."""
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
    """Heal before the fixtures of the test end, so that their clients find a cluster that works;
    clean behind them.
    """
    running = item.config.stash[_RUNNING]
    for cluster in running.values():
        cluster.heal()
    try:
        yield
    finally:
        if item.config.getoption("--raftka-clean") or item.config.getini(CLEAN):
            for cluster in running.values():
                cluster.clean()
