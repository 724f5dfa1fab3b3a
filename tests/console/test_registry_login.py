"""A schema registry that wants a login, or has a certificate of an authority of its own, in front
of a console: pages of schemas and decoding get through, and the password is shown nowhere.
"""

import json
import struct
from pathlib import Path

import pytest
import trustme

from raftka.client.blocking.client import Client
from raftka.client.blocking.connection import addresses_of
from raftka.client.blocking.producer import Producer
from raftka.console.order import check_console
from raftka.console.settings import ConsoleSettings, read_registry_login, read_tls
from raftka.metadata.configs.settings import NodeSettings
from raftka.registry.server import Port, RegistryServer
from raftka.testing import Cluster
from tests.kit.console import Api, console_of
from tests.kit.secured_registry import ADMIN, login, secured, secured_registry

__all__ = ["secured", "secured_registry"]


@pytest.fixture
def console_settings(secured_registry: RegistryServer) -> dict[str, object]:
    return {"registry": secured_registry.url, "security": ADMIN}


def test_pages_of_schemas_are_those_of_the_login(
    secured: Cluster, console_settings: dict[str, object]
) -> None:
    with console_of(
        secured, **console_settings, registry_login=("reader", "reader-secret")
    ) as console:
        api = Api(console.url)
        names = [each["name"] for each in api.get("/api/schemas")["subjects"]]
        assert names == ["orders-value"], "what the login may not see is not there"
        for path in ("/api/schemas", "/api/me", "/api/limits", "/api/brokers/1/settings"):
            assert b"reader-secret" not in api.ask("GET", path).body


@pytest.mark.parametrize("shown", [None, ("reader", "wrong")])
def test_refused_login_is_told_with_the_setting(
    secured: Cluster, console_settings: dict[str, object], shown: tuple[str, str] | None
) -> None:
    with console_of(secured, **console_settings, registry_login=shown) as console:
        answer = Api(console.url).ask("GET", "/api/schemas")
        assert answer.status == 403
        assert "--registry-login" in answer.json["message"]
        assert b"wrong" not in answer.body


def test_values_are_decoded_with_the_login(
    secured: Cluster, secured_registry: RegistryServer, console_settings: dict[str, object]
) -> None:
    with login(secured_registry, "admin") as rest:
        schema_id = rest.register("decoded-value", '"string"')
    topic = secured.create_topic("decoded", partitions=1)
    value = b"\0" + struct.pack(">i", schema_id) + b"\x0ahello"
    with Client(addresses_of(secured.bootstrap_servers), security=ADMIN) as client:
        producer = Producer(client)
        producer.add((topic, 0), (None, value, (), 1))
        producer.flush()
    for shown, kind in (("admin", "avro"), (None, "hex")):
        access = (shown, f"{shown}-secret") if shown else None
        with console_of(secured, **console_settings, registry_login=access) as console:
            (record,) = Api(console.url).get(f"/api/topics/{topic}/records")["records"]
            assert record["value"]["kind"] == kind
            assert b"secret" not in json.dumps(record).encode()


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """An authority's certificate, and key and certificate of 127.0.0.1 by it."""
    authority = trustme.CA()
    ca, own = tmp_path / "ca.pem", tmp_path / "own.pem"
    authority.cert_pem.write_to_path(str(ca))
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(own))
    return ca, own


def test_registry_with_tls_is_trusted_by_its_own_authority(files: tuple[Path, Path]) -> None:
    ca, own = files
    with Cluster(1) as cluster:
        brokers = addresses_of(cluster.bootstrap_servers)
        with RegistryServer(
            lambda: Client(brokers), Port(number=0, tls=read_tls(own, None))
        ) as registry:
            assert registry.url.startswith("https://")
            for authority, status in ((str(ca), 200), (None, 503)):
                with console_of(cluster, registry=registry.url, registry_ca=authority) as console:
                    answer = Api(console.url).ask("GET", "/api/schemas")
                    assert (answer.status, b"certificate" in answer.body) == (
                        status,
                        status == 503,
                    )


@pytest.mark.parametrize("text", ["", "name", "name:", ":secret", "a:secret\nb:secret"])
def test_file_of_no_use_is_refused_without_its_content(tmp_path: Path, text: str) -> None:
    file = tmp_path / "login"
    file.write_text(text)
    with pytest.raises(ValueError, match="one line, NAME:PASSWORD") as refused:
        read_registry_login(file)
    assert "secret" not in str(refused.value)


def test_login_is_read_and_in_no_text(tmp_path: Path) -> None:
    file = tmp_path / "login"
    file.write_text("me:a:secret\n")
    assert read_registry_login(file) == ("me", "a:secret")
    assert read_registry_login(None) is None
    settings = ConsoleSettings([], registry="http://r", registry_login=("me", "a:secret"))
    assert "secret" not in repr(settings)
    with pytest.raises(ValueError, match="no name and password in it"):
        ConsoleSettings([], registry="http://me:secret@r")


@pytest.mark.parametrize(
    "name", ["console.registry.login.location", "console.registry.ca.location"]
)
def test_node_refuses_a_file_that_is_not_there(tmp_path: Path, name: str) -> None:
    settings = NodeSettings.from_properties(
        {
            "node.id": "1",
            "process.roles": "broker,controller",
            "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": "1@127.0.0.1:9093",
            "log.dirs": str(tmp_path),
            name: str(tmp_path / "gone"),
        }
    )
    with pytest.raises(ValueError, match=f"{name}: No such file"):
        check_console(settings)
