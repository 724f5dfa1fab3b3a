"""The console of a node: `console.port` opens a door, which tells the process how to connect."""

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import trio

import raftka.cluster
from raftka.cluster.embedded import EmbeddedNode
from raftka.cluster.secured.logins import ClusterLogins
from raftka.cluster.services import console
from raftka.cluster.services.console import Edge
from raftka.console import door, order
from raftka.json_values import JsonObject
from raftka.metadata.configs.settings import NodeSettings

STAND_IN = "tests.kit.console_stand_in"
VOTER = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@127.0.0.1:9093",
}


@pytest.fixture(autouse=True)
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    def make(*arguments: object, **options: object) -> door.Door:
        return door.Door(*arguments, **options, module=STAND_IN)  # type: ignore[arg-type]

    monkeypatch.setattr(console, "Door", make)


def ask(port: int) -> JsonObject:
    with socket.create_connection(("127.0.0.1", port), timeout=30) as sock:
        text = b""
        while more := sock.recv(4096):
            text += more
    answer: JsonObject = json.loads(text)
    return answer


async def order_of(node: EmbeddedNode) -> JsonObject:
    port = node.edges["console.port"].port
    assert port is not None
    answer = await trio.to_thread.run_sync(ask, port)
    order: JsonObject = answer["order"]
    return order


async def test_process_is_told_how_to_reach_the_brokers() -> None:
    properties = {
        "console.port": "0",
        "console.read.only": "true",
        "console.sql": "false",
        "console.records": "false",
        "console.masked.fields": "password,card",
        "console.allowed.hosts": "kafka.example.org",
        "confluent.schema.registry.url": "http://127.0.0.1:1/registry",
    }
    async with raftka.cluster.launch(nodes=1, properties=properties) as cluster:
        node = cluster.nodes[1]
        told = await order_of(node)

        host, _, port = cluster.bootstrap_servers.partition(":")
        assert told == {
            "bootstrap": [[host, int(port)]],
            "properties": {"security.protocol": "PLAINTEXT"},
            "login": "",
            "host": "127.0.0.1",
            "port": node.edges["console.port"].port,
            "certificate": None,
            "key": None,
            "registry": "http://127.0.0.1:1/registry",
            "registry_ca": None,
            "registry_login": None,
            "read_only": True,
            "show_records": False,
            "masked": ["password", "card"],
            "allowed_hosts": ["kafka.example.org"],
            "sql": False,
            "idle_s": 600.0,
        }


async def test_process_ends_with_the_node_also_when_it_is_killed() -> None:
    async with raftka.cluster.launch(nodes=1, properties={"console.port": "0"}) as cluster:
        node = cluster.nodes[1]
        for end in (node.kill, node.stop):
            await order_of(node)
            edge = node.edges["console.port"]
            assert isinstance(edge, Edge)
            process = edge._door._process
            assert process is not None
            await end()
            assert process.returncode is not None, end
            await cluster.start(1)
            await cluster.wait_ready()


async def test_node_goes_on_when_the_process_cannot_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Edge, "_order", lambda self: {"fail": "no pages"})
    async with raftka.cluster.launch(nodes=1, properties={"console.port": "0"}) as cluster:
        node = cluster.nodes[1]
        seen: list[tuple[str, dict[str, object]]] = []
        assert node.node is not None
        node.node.events.watch = lambda level, event, fields: seen.append((event, fields))
        port = node.edges["console.port"].port
        assert port is not None
        with pytest.raises(json.JSONDecodeError):
            await trio.to_thread.run_sync(ask, port)

        assert [fields["error"] for event, fields in seen if event == "console_failed"] == [
            "it ended with exit code 3: no pages"
        ]
        assert node.node.ready.is_set()


async def test_users_log_in_where_the_listener_has_logins() -> None:
    logins = ClusterLogins(None)
    async with raftka.cluster.launch(
        nodes=1,
        properties={"console.port": "0"},
        security=logins,
        first_users=logins.first_users,
    ) as cluster:
        told = await order_of(cluster.nodes[1])

        assert told["login"] == "SCRAM-SHA-256"
        assert told["properties"] == {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-256",
        }


def connection(**given: str) -> tuple[dict[str, str], str]:
    properties = {name.replace("_", "."): value for name, value in given.items()}
    settings = NodeSettings.from_properties({**VOTER, **properties})
    listener = order.listener_of_clients(settings)
    found, login = order.connection_of(settings, listener)
    return dict(found), login


TWO = "INSIDE://127.0.0.1:9092,OUTSIDE://127.0.0.1:9192,CONTROLLER://127.0.0.1:9093"
MAP = "INSIDE:PLAINTEXT,OUTSIDE:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT"


def with_logins(mechanisms: str, **more: str) -> tuple[dict[str, str], str]:
    return connection(
        listeners=TWO,
        listener_security_protocol_map=MAP,
        inter_broker_listener_name="INSIDE",
        sasl_enabled_mechanisms=mechanisms,
        **more,
    )


def test_listener_with_logins_goes_before_an_open_one() -> None:
    properties, login = with_logins("SCRAM-SHA-256,SCRAM-SHA-512")
    assert properties["security.protocol"] == "SASL_PLAINTEXT"
    assert login == "SCRAM-SHA-512"
    assert (
        with_logins("SCRAM-SHA-256,SCRAM-SHA-512", console_login_mechanism="SCRAM-SHA-256")[1]
        == "SCRAM-SHA-256"
    )


@pytest.mark.parametrize(
    ("mechanisms", "asked", "text"),
    [
        ("SCRAM-SHA-256", "SCRAM-SHA-512", "log in by SCRAM-SHA-256, not by SCRAM-SHA-512"),
        ("SCRAM-SHA-256", "none", "the listener OUTSIDE has logins; set console.client.config"),
    ],
)
def test_connection_that_no_user_could_make_is_refused(
    mechanisms: str, asked: str, text: str
) -> None:
    with pytest.raises(ValueError, match=text):
        with_logins(mechanisms, console_login_mechanism=asked)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"console.ssl.certificate.location": "/none"}, "location: No such file"),
        ({"console.ssl.key.location": "/none"}, "key.location: a key belongs to a certificate"),
        ({"console.masked.fields": "a b"}, "console.masked.fields: 'a b' is no field"),
        ({"console.client.config": "/none"}, "console.client.config=/none: No such file"),
        ({"console.sql": "true", "console.host": "0.0.0.0"}, "raftka console --sql-url"),
    ],
)
async def test_node_does_not_start_with_settings_that_its_console_would_refuse(
    given: dict[str, str], text: str
) -> None:
    with pytest.raises(ValueError, match=text):
        async with raftka.cluster.launch(nodes=1, properties={"console.port": "0", **given}):
            raise AssertionError("it started")


@pytest.mark.parametrize(
    ("sql", "host", "login", "has_sql"),
    [
        ("true", "127.0.0.1", "", True),
        ("false", "127.0.0.1", "", False),
        ("true", "127.0.0.1", "PLAIN", False),
        ("true", "0.0.0.0", "", False),
    ],
)
def test_sql_is_for_this_machine_without_logins(
    sql: str, host: str, login: str, *, has_sql: bool
) -> None:
    given = {"listeners": TWO, "listener.security.protocol.map": MAP.replace("SASL_", "")}
    given |= {"console.sql": sql, "console.host": host, "inter.broker.listener.name": "INSIDE"}
    settings = NodeSettings.from_properties({**VOTER, **given})
    told = order.order_of(settings, 1, [], {}, login, has_sql=settings["console.sql"])
    assert told["sql"] is has_sql


def test_file_of_client_properties_goes_before_the_listener(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\n")
    assert with_logins("SCRAM-SHA-256", console_client_config=str(file))[1] == "SCRAM-SHA-512"
    assert (
        with_logins(
            "SCRAM-SHA-256", console_client_config=str(file), console_login_mechanism="none"
        )[1]
        == ""
    )


def test_node_with_a_console_port_imports_the_door_alone() -> None:
    program = """
import sys
import raftka.cli.broker, raftka.cluster.services.console
found = {name for name in sys.modules if name.startswith("raftka.console")}
known = {f"raftka.console{each}" for each in ("", ".door", ".order", ".settings")}
assert found == known, found
assert "raftka.client.blocking.client" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_node_without_a_console_port_imports_nothing_of_it() -> None:
    program = """
import sys
import raftka.cli.broker
assert not [name for name in sys.modules if name.startswith("raftka.console")]
assert "raftka.cluster.services.console" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)
