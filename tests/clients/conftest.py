"""Live clusters for real clients: processes on free ports, gone when the test is. And the clients
that are programs, or a skip that says why not.
"""

import gc
import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from weakref import WeakSet

import pytest

from raftka.cluster.processes import Processes, running
from tests.clients.kdc import Kdc
from tests.clients.kdc import running as kerberos_running
from tests.clients.kdc import there as kerberos_there
from tests.kit.secured_registry import secured, secured_registry
from tests.kit.toolchains import Missing, Program, Toolchains

__all__ = ["secured", "secured_registry"]


@pytest.fixture
def three_processes() -> Iterator[Processes]:
    with running(nodes=3) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def toolchains(request: pytest.FixtureRequest) -> Toolchains:
    return Toolchains(fetch=request.config.getoption("--all-clients"))


@pytest.fixture(scope="session")
def kcat(toolchains: Toolchains) -> Program:
    return or_skip(toolchains.kcat)


@pytest.fixture(scope="session")
def old_confluent_kafka(toolchains: Toolchains) -> Program:
    return or_skip(toolchains.old_confluent_kafka)


@pytest.fixture(scope="session")
def java_tools(toolchains: Toolchains) -> Program:
    return or_skip(toolchains.java_tools)


@pytest.fixture(scope="session")
def java_share(toolchains: Toolchains) -> Program:
    return or_skip(toolchains.java_share)


@pytest.fixture(scope="session")
def java(toolchains: Toolchains) -> Program:
    return or_skip(toolchains.java)


@pytest.fixture(scope="session")
def kafka_apps(toolchains: Toolchains) -> Program:
    return or_skip(toolchains.kafka_apps)


@pytest.fixture(scope="session")
def kafka_connect(toolchains: Toolchains) -> Program:
    return or_skip(toolchains.kafka_connect)


@pytest.fixture(scope="session")
def mirror_maker(toolchains: Toolchains) -> Program:
    return or_skip(toolchains.mirror_maker)


@pytest.fixture(scope="session")
def kafka_2_8(toolchains: Toolchains) -> Program:
    return or_skip(toolchains.kafka_2_8)


@pytest.fixture(scope="session")
def confluent_avro(toolchains: Toolchains) -> Program:
    return or_skip(toolchains.confluent_avro)


@pytest.fixture(scope="session")
def curator(toolchains: Toolchains) -> Program:
    return or_skip(toolchains.curator)


@pytest.fixture(scope="session")
def zookeeper_go(toolchains: Toolchains) -> Program:
    return or_skip(toolchains.zookeeper_go)


@pytest.fixture(scope="session")
def zookeeper_node(toolchains: Toolchains) -> Program:
    return or_skip(toolchains.zookeeper_node)


@pytest.fixture(scope="session")
def franz_go(toolchains: Toolchains) -> Program:
    return or_skip(toolchains.franz_go)


@pytest.fixture(scope="session")
def kafka_go(toolchains: Toolchains) -> Program:
    return or_skip(toolchains.kafka_go)


@pytest.fixture(scope="session")
def sarama(toolchains: Toolchains) -> Program:
    return or_skip(toolchains.sarama)


@pytest.fixture(scope="session")
def old_sarama(toolchains: Toolchains) -> Program:
    return or_skip(toolchains.old_sarama)


@pytest.fixture(scope="session")
def franz_go_tests(toolchains: Toolchains) -> Program:
    return or_skip(toolchains.franz_go_tests)


@pytest.fixture(scope="session")
def java_transactions(toolchains: Toolchains) -> Program:
    return or_skip(toolchains.java_transactions)


@pytest.fixture(scope="session")
def kafkajs(toolchains: Toolchains) -> Program:
    return or_skip(toolchains.kafkajs)


@pytest.fixture(scope="session")
def platformatic(toolchains: Toolchains) -> Program:
    return or_skip(toolchains.platformatic)


@pytest.fixture(scope="session")
def platformatic_roundtrip(toolchains: Toolchains) -> Program:
    return or_skip(toolchains.platformatic_roundtrip)


@pytest.fixture(scope="session")
def krafka(toolchains: Toolchains) -> Program:
    return or_skip(toolchains.krafka)


@pytest.fixture(scope="session")
def rskafka(toolchains: Toolchains) -> Program:
    return or_skip(toolchains.rskafka)


@pytest.fixture(scope="session")
def quix_copy(toolchains: Toolchains) -> Program:
    return or_skip(toolchains.quix_copy)


@pytest.fixture(scope="session")
def faust_copy(toolchains: Toolchains) -> Program:
    return or_skip(toolchains.faust_copy)


@pytest.fixture(scope="session")
def kafkajs_registry(toolchains: Toolchains) -> Program:
    return or_skip(toolchains.kafkajs_registry)


@pytest.fixture(scope="module")
def kdc() -> Iterator[Kdc]:
    or_skip(kerberos_there)
    with kerberos_running() as kdc:
        yield kdc


def or_skip(client: Callable[[], Program]) -> Program:
    try:
        return client()
    except Missing as missing:
        pytest.skip(str(missing))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Pass over TLS sockets that kafka-python left to the garbage collector: their warning would
    fail a later test of this folder, by chance.
    """
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(
                pytest.mark.filterwarnings("ignore:unclosed <ssl.SSLSocket:ResourceWarning")
            )


@pytest.fixture
def forgotten_sockets() -> Iterator[None]:
    """For a client that forgets sockets whose connecting failed: they are closed here, else their
    warning fails whatever runs next.
    """
    before = WeakSet(_sockets())
    yield
    for sock in _sockets():
        if sock not in before:
            sock.close()


def _sockets() -> list[socket.socket]:
    return [thing for thing in gc.get_objects() if type(thing) in {socket.socket, ssl.SSLSocket}]
