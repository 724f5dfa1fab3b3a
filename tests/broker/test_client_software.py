"""Connections by the software of their clients in a node's metrics (KIP-511)."""

from collections.abc import Iterator

import pytest

from raftka.limits import CLIENT_SOFTWARE, CLIENT_SOFTWARE_CHARACTERS
from raftka.security.scram import SHA_256
from raftka.wire.errors import Code
from raftka.wire.messages.api_versions import API_VERSIONS
from tests.broker.conftest import Lower
from tests.broker.sasl import SECURE, add_users, log_in
from tests.broker.stage import Stage, Wire
from tests.kit.broker.http import PORT, scraped

NAME = "kafka_server_socket_server_metrics_connections_software"
Told = dict[tuple[str, str], float]


@pytest.fixture
def stage() -> Iterator[Stage]:
    with Stage(metrics_port=str(PORT)) as stage:
        yield stage
        assert not stage.world.failures


def tell(wire: Wire, name: str, version: str, api_version: int = 3) -> int:
    row = API_VERSIONS.request(client_software_name=name, client_software_version=version)
    return wire.ask(API_VERSIONS, row, api_version).error_code


def shown(stage: Stage) -> Told:
    """Connections of clients by name and version; without the node's own."""
    return {
        (each.labels["clientSoftwareName"], each.labels["clientSoftwareVersion"]): each.value
        for each in scraped(stage)
        if each.name == NAME and each.labels["clientSoftwareName"] != "raftka"
    }


def test_connections_are_counted_by_name_and_version(stage: Stage) -> None:
    wires = [stage.wire() for _ in range(4)]
    for wire, version in zip(wires, ("4.3.1", "4.3.1", "3.9.0"), strict=False):
        assert tell(wire, "apache-kafka-java", version) == 0
    java = "apache-kafka-java"
    assert shown(stage) == {
        (java, "4.3.1"): 2,
        (java, "3.9.0"): 1,
        ("unknown", "unknown"): 1,
    }
    wires[0].close()
    stage.wait(lambda: shown(stage)[java, "4.3.1"] == 1)


def test_old_and_refused_api_versions_tell_no_software(stage: Stage) -> None:
    old, bad = stage.wire(), stage.wire()
    assert tell(old, "", "", 2) == 0
    assert tell(bad, "no name!", "1") == Code.INVALID_REQUEST
    assert shown(stage) == {("unknown", "unknown"): 2}
    assert tell(bad, "librdkafka", "2.5") == 0
    assert shown(stage) == {("unknown", "unknown"): 1, ("librdkafka", "2.5"): 1}


def test_software_is_kept_over_a_login() -> None:
    with Stage(**SECURE) as stage:
        add_users(stage)
        wire = stage.wire()
        assert tell(wire, "librdkafka", "2.5") == 0
        assert stage.server_side().session.software == ("librdkafka", "2.5")
        assert log_in(wire, SHA_256, "alice", "alice-secret").error_code == 0
        session = stage.server_side().session
        assert (session.principal, session.software) == ("User:alice", ("librdkafka", "2.5"))


def test_more_pairs_than_the_limit_are_one_line(stage: Stage, lowered: Lower) -> None:
    lowered(CLIENT_SOFTWARE, 2)
    for name in ("a", "a", "a", "b", "b", "b", "c", "d"):
        tell(stage.wire(), name, "1")
    assert shown(stage) == {("a", "1"): 3, ("b", "1"): 3, ("other", "other"): 2}
    assert stage.counted(CLIENT_SOFTWARE.metric) > 0


def test_a_long_name_is_not_kept(stage: Stage, lowered: Lower) -> None:
    lowered(CLIENT_SOFTWARE_CHARACTERS, 5)
    wire = stage.wire()
    assert tell(wire, "abcdef", "1") == 0
    assert shown(stage) == {("other", "other"): 1}
    assert stage.counted(CLIENT_SOFTWARE_CHARACTERS.metric) == 1
