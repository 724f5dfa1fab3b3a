"""Kafka's limits on connections: who comes beyond one is closed at once, counted and told of once;
nobody else feels it, least of all brokers.
"""

from collections.abc import Iterator
from typing import Any

import pytest
import trio

from raftka.broker.network.connection_quotas import Rate, overrides
from raftka.cluster import launch
from raftka.limits import (
    CONNECTION_RATE,
    CONNECTIONS,
    CONNECTIONS_OF_ADDRESS,
    CONNECTIONS_OF_LISTENER,
    Limit,
)
from raftka.metadata.configs.dynamic import check_dynamic_configs
from raftka.metadata.configs.settings import SettingError
from raftka.metadata.image import BROKER
from raftka.wire.frame import encode_request
from raftka.wire.messages.api_versions import API_VERSIONS
from tests.broker.conftest import Lower
from tests.broker.stage import Stage, Wire

CLIENT = API_VERSIONS.request(client_software_name="test", client_software_version="1")
BROKERS_PORT = 9094


@pytest.fixture
def stage() -> Iterator[Stage]:
    """Clients and brokers have listeners of their own."""
    listeners = f"CLIENTS://n1:9092,BROKERS://n1:{BROKERS_PORT},CONTROLLER://n1:9093"
    protocols = "CLIENTS:PLAINTEXT,BROKERS:PLAINTEXT,CONTROLLER:PLAINTEXT"
    with Stage(
        listeners=listeners,
        inter_broker_listener_name="BROKERS",
        listener_security_protocol_map=protocols,
    ) as stage:
        yield stage
        assert not stage.world.failures


def of_broker(stage: Stage) -> Wire:
    return Wire(stage.world, stage.runtime, "n1", BROKERS_PORT)


def served(wire: Wire) -> bool:
    wire.request(API_VERSIONS, CLIENT)
    return wire.frame() is not None


def refused(stage: Stage, limit: Limit) -> int:
    lines = stage.events("limit_hit")
    assert len([line for line in lines if line["limit"] == limit.name]) <= 1, (
        "a line for each would fill the disk"
    )
    return stage.counted(limit.metric)


def gone(stage: Stage, *wires: Wire) -> None:
    """They leave, and the broker has heard of it."""
    left = len(stage.nodes[1].dispatcher.connections) - len(wires)
    for wire in wires:
        wire.close()
    stage.wait(lambda: len(stage.nodes[1].dispatcher.connections) == left)


def limit(stage: Stage, **settings: Any) -> None:
    """On this broker, by a connection that then leaves."""
    stage.set(BROKER, "1", **settings)
    for connection in tuple(stage.nodes[1].dispatcher.connections):
        connection.abort("the test is done with it")
    stage.wait(lambda: not stage.nodes[1].dispatcher.connections)


def test_a_node_has_so_many_and_brokers_find_room(stage: Stage) -> None:
    limit(stage, max_connections="2")
    first = stage.wire()
    assert served(first)
    second = stage.wire()
    assert served(second)

    assert [served(stage.wire()) for _ in range(5)] == [False] * 5
    assert refused(stage, CONNECTIONS) == 5
    assert served(first)
    assert served(second)

    stage.world.run(stage.world.now + 45.0)
    assert served(first)
    broker = of_broker(stage)
    assert served(broker)
    assert second.frame() is None, "who has been silent longest gives way"
    assert served(first)
    assert refused(stage, CONNECTIONS) == 6


def test_brokers_come_however_many_clients_there_are_but_no_node_has_more_than_it_can_hold(
    stage: Stage, lowered: Lower
) -> None:
    lowered(CONNECTIONS, 3)
    clients = [stage.wire() for _ in range(3)]
    assert all(map(served, clients))

    assert [served(of_broker(stage)) for _ in range(4)] == [True, True, True, False]

    assert [client.frame() for client in clients] == [None] * 3
    assert len(stage.nodes[1].dispatcher.connections) == 3


def test_with_one_listener_nobody_gives_way(lowered: Lower) -> None:
    with Stage(max_connections="1") as stage:
        first = stage.wire()
        assert served(first)
        assert not served(stage.wire())
        assert served(first)


def test_a_limit_that_is_lowered_holds_for_those_that_are_there(stage: Stage) -> None:
    busy, idle, broker = stage.wire(), stage.wire(), of_broker(stage)
    for wire in (busy, idle, broker):  # one comes after the other
        assert served(wire)
    stage.world.run(stage.world.now + 45.0)
    assert served(busy)

    stage.set(BROKER, "", max_connections="3")  # by a fourth

    assert idle.frame() is None
    assert served(busy)
    assert served(broker)


def test_a_listener_has_so_many_whoever_comes(stage: Stage) -> None:
    limit(
        stage, listener_name_brokers_max_connections="1", listener_name_clients_max_connections="2"
    )
    broker, clients = of_broker(stage), [stage.wire(), stage.wire()]
    assert all(map(served, [broker, *clients]))

    assert not served(of_broker(stage))
    assert not served(stage.wire())
    assert refused(stage, CONNECTIONS_OF_LISTENER) == 2
    assert stage.events("limit_hit")[0]["allowed"] == 1
    gone(stage, broker, clients[0])
    assert served(of_broker(stage))
    assert served(stage.wire())


def test_a_setting_that_is_taken_back_holds_no_more(stage: Stage) -> None:
    limit(stage, listener_name_clients_max_connections="1")
    wire = stage.wire()
    assert served(wire)
    gone(stage, wire)
    limit(stage, listener_name_clients_max_connections=None)

    assert all(map(served, [stage.wire(), stage.wire()]))


def test_an_address_has_so_many_over_all_listeners(stage: Stage) -> None:
    limit(stage, max_connections_per_ip="2")
    first, second = stage.wire(), of_broker(stage)
    assert served(first)
    assert served(second)
    elsewhere = stage.world.node("elsewhere")

    assert not served(stage.wire())
    assert not served(of_broker(stage))
    assert served(Wire(stage.world, elsewhere, "n1"))
    assert refused(stage, CONNECTIONS_OF_ADDRESS) == 2
    assert "client" in stage.events("limit_hit")[0]["reason"]
    gone(stage, first)
    assert served(stage.wire())


def test_so_many_come_in_a_second(stage: Stage) -> None:
    limit(stage, max_connection_creation_rate="3")
    stage.world.run(stage.world.now + 2.0)

    assert [served(stage.wire()) for _ in range(5)] == [True] * 3 + [False] * 2
    assert all(served(of_broker(stage)) for _ in range(5)), "brokers have a listener of their own"
    assert refused(stage, CONNECTION_RATE) == 2
    stage.world.run(stage.world.now + 0.4)
    assert [served(stage.wire()) for _ in range(2)] == [True, False]


def test_so_many_come_in_a_second_to_one_listener(stage: Stage) -> None:
    limit(stage, listener_name_brokers_max_connection_creation_rate="1")
    stage.world.run(stage.world.now + 2.0)

    assert [served(of_broker(stage)) for _ in range(3)] == [True, False, False]
    assert all(served(stage.wire()) for _ in range(3))


def test_what_is_refused_counts_in_no_other_rate() -> None:
    rate = Rate()
    assert rate.left(10.0, 2)
    rate.take()
    rate.take()

    assert not rate.left(10.4, 2)
    assert rate.left(10.5, 2)


def test_addresses_are_compared_as_numbers() -> None:
    assert overrides("127.0.0.1:5,::0:1:3, [fe80::1]:7") == {"127.0.0.1": 5, "::1": 3, "fe80::1": 7}
    assert overrides("") == {}


@pytest.mark.parametrize(
    "text", ["localhost:3", "127.0.0.1", "127.0.0.1:", "127.0.0.1:-1", "127.0.0.1:1,,"]
)
def test_overrides_that_are_none(text: str) -> None:
    with pytest.raises(SettingError, match="is not address:count"):
        check_dynamic_configs({"max.connections.per.ip.overrides": text}, one_broker=True)


def test_nobody_can_be_locked_out_by_address() -> None:
    with pytest.raises(SettingError, match="can be set to zero only if"):
        check_dynamic_configs({"max.connections.per.ip": "0"}, one_broker=True)

    check_dynamic_configs(
        {"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "10.0.0.1:5"},
        one_broker=True,
    )


async def test_addresses_of_real_sockets() -> None:
    settings = {"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "127.0.0.1:2"}
    async with launch(nodes=1, properties=settings) as cluster:
        node = cluster.nodes[1].node
        assert node is not None
        assert node.broker_port is not None
        request = encode_request(API_VERSIONS, 0, 1, "test", API_VERSIONS.request())
        answers = []
        with trio.fail_after(30):
            streams = [await trio.open_tcp_stream("127.0.0.1", node.broker_port) for _ in range(3)]
            for stream in streams:
                try:
                    await stream.send_all(request)
                    answers.append(bool(await stream.receive_some()))
                except trio.BrokenResourceError:
                    answers.append(False)
            for stream in streams:
                await stream.aclose()
        assert answers == [True, True, False]
