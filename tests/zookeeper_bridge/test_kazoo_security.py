"""kazoo with TLS, SASL and digests, as its users configure it, on living nodes."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner, Result
from kazoo.client import KazooClient
from kazoo.exceptions import AuthFailedError, NoAuthError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import WatchedEvent
from kazoo.retry import KazooRetry
from kazoo.security import make_acl, make_digest_acl

from raftka.cli.commands import root
from raftka.cluster.ports import HeldPorts
from raftka.cluster.secured.authority import Authority, Issued
from raftka.testing import Cluster

WAIT_S = 20.0
JAAS = (
    'org.apache.zookeeper.server.auth.DigestLoginModule required user_bob="bobs secret" '
    'user_root="roots";'
)


class Bridge(NamedTuple):
    hosts: str
    folder: Path
    authority: Authority

    def files(self, name: str, issued: Issued) -> dict[str, Any]:
        """As kazoo takes them."""
        for kind, text in (("key", issued.key), ("pem", issued.chain)):
            (self.folder / f"{name}.{kind}").write_text(text)
        return {
            "keyfile": str(self.folder / f"{name}.key"),
            "certfile": str(self.folder / f"{name}.pem"),
        }


@pytest.fixture(scope="module")
def bridge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bridge]:
    folder, authority = tmp_path_factory.mktemp("keys"), Authority()
    (folder / "node.pem").write_text(authority.issue("node", ["localhost", "127.0.0.1"]).key_store)
    (folder / "ca.pem").write_text(authority.trusted)
    with HeldPorts(1) as ports:
        properties = {
            "zookeeper.bridge.secure.port": str(ports.numbers[0]),
            "zookeeper.bridge.ssl.keystore.location": str(folder / "node.pem"),
            "zookeeper.bridge.ssl.truststore.location": str(folder / "ca.pem"),
            "zookeeper.bridge.ssl.client.auth": "want",
            "zookeeper.bridge.sasl.jaas.config": JAAS,
            "zookeeper.bridge.sasl.super.users": "root",
            "zookeeper.bridge.set.acl": "true",
        }
        with Cluster(bridge=True, properties=properties):
            yield Bridge(f"127.0.0.1:{ports.numbers[0]}", folder, authority)


@contextmanager
def connected(bridge: Bridge, wait_s: float = WAIT_S, **given: Any) -> Iterator[KazooClient]:
    ca = str(bridge.folder / "ca.pem")
    retry = KazooRetry(max_tries=2, delay=0.05)
    client = KazooClient(
        bridge.hosts, use_ssl=True, ca=ca, check_hostname=True, connection_retry=retry, **given
    )
    try:
        client.start(wait_s)
        yield client
    finally:
        client.stop()
        client.close()


def login(user: str, password: str) -> dict[str, Any]:
    return {"sasl_options": {"mechanism": "DIGEST-MD5", "username": user, "password": password}}


def test_users_of_sasl_over_tls(bridge: Bridge) -> None:
    with (
        connected(bridge, **login("bob", "bobs secret")) as bob,
        connected(bridge, **login("root", "roots")) as root,
        connected(bridge) as stranger,
    ):
        bob.create("/bobs", b"x", acl=[make_acl("sasl", "bob", all=True)])
        assert bob.get("/bobs")[0] == root.get("/bobs")[0] == b"x"
        with pytest.raises(NoAuthError):
            stranger.get("/bobs")
        with pytest.raises(NoAuthError):
            bob.create("/brokers/topics/t", b'{"version":1,"partitions":{"0":[1]}}')
        root.create("/brokers/topics/t", b'{"version":1,"partitions":{"0":[1]}}')
        assert "t" in stranger.get_children("/brokers/topics")


def test_a_wrong_password_is_a_failed_login(bridge: Bridge) -> None:
    with connected(bridge, **login("bob", "wrong")) as client, pytest.raises(AuthFailedError):
        client.get("/")


def test_a_certificate_is_an_identity(bridge: Bridge) -> None:
    alice = bridge.files("alice", bridge.authority.issue("alice"))
    with connected(bridge, **alice) as client, connected(bridge) as stranger:
        client.create("/alices", b"x", acl=[make_acl("x509", "CN=alice", all=True)])
        assert client.get("/alices")[0] == b"x"
        with pytest.raises(NoAuthError):
            stranger.get("/alices")
    foreign = bridge.files("foreign", Authority().issue("alice"))
    with pytest.raises(KazooTimeoutError), connected(bridge, 1.0, **foreign):
        pass


def test_the_command_line_speaks_tls(bridge: Bridge) -> None:
    (bridge.folder / "carl.pem").write_text(bridge.authority.issue("carl").key_store)
    with connected(bridge) as client:
        client.create("/carls", b"seen", acl=[make_acl("x509", "CN=carl", all=True)])
    ca = ["--tls-ca", str(bridge.folder / "ca.pem")]
    own = ["--tls-cert", str(bridge.folder / "carl.pem")]

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(root, ["bridge", *arguments, "--bridge", bridge.hosts])

    assert run("get", "/carls", *ca, *own).stdout == "seen"
    assert "not allowed" in run("get", "/carls", *ca).stderr
    assert "no bridge answers" in run("get", "/carls").stderr
    assert "--tls-cert needs --tls-ca" in run("get", "/carls", *own).stderr
    assert "No such file" in run("get", "/carls", "--tls-ca", "/none").stderr


def test_digests_watches_and_large_znodes_over_tls(bridge: Bridge) -> None:
    events: list[WatchedEvent] = []
    with (
        connected(bridge, auth_data=[("digest", "carol:c")]) as carol,
        connected(bridge) as stranger,
    ):
        carol.create("/carols", b"", acl=[make_digest_acl("carol", "c", all=True)])
        carol.get("/carols", watch=events.append)
        with pytest.raises(NoAuthError):
            stranger.get("/carols")
        carol.set("/carols", bytes(900_000))
        assert carol.get("/carols")[0] == bytes(900_000)
        assert [event.path for event in events] == ["/carols"]
