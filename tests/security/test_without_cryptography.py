"""A node without raftka[security]: TLS with PEM files works, all else says what to install."""

import sys
from pathlib import Path

import pytest

from raftka.broker.refusal import REFUSALS
from raftka.cluster.secured.keys import ClusterSecurity
from raftka.metadata.configs.settings import NodeSettings
from raftka.metadata.configs.values import SettingError
from raftka.security import cryptography_package
from raftka.security.distinguished_names import subject_of
from raftka.security.node_certificates import nodes_of
from raftka.security.stores import StoreError, expires_s, read_store
from tests.security.tls_pair import AUTHORITY, CLIENT, SERVER, Pair, settings

HINT = r"not installed: pip install 'raftka\[security\]'"
TOKENS = "listener.name.clients.oauthbearer.sasl.oauthbearer.jwks.endpoint.url"
NODE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": "CLIENTS://h:9092,CONTROLLER://h:9093",
    "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "CLIENTS",
    "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@h:9093",
    "log.dirs": "/data",
    "listener.name.clients.sasl.enabled.mechanisms": "OAUTHBEARER",
    TOKENS: "file:///keys.json",
}


@pytest.fixture(autouse=True)
def without_cryptography(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [each for each in sys.modules if each.startswith("cryptography.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    assert not cryptography_package.is_installed()


def test_tls_with_pem_needs_it_not() -> None:
    pair = Pair(
        settings(SERVER.key + SERVER.chain, AUTHORITY.trusted, client_auth="required"),
        settings(CLIENT.key + CLIENT.chain, AUTHORITY.trusted),
    )

    assert pair.failures == []
    certificate = pair.server.tls.certificate
    assert certificate is not None
    assert subject_of(certificate) == "CN=alice"
    assert nodes_of(certificate) == frozenset()
    assert expires_s(CLIENT.chain) > 0


def test_a_pkcs12_store_says_what_to_install() -> None:
    with pytest.raises(StoreError, match=f"the key store x.p12 is not PEM, and PKCS12 .*{HINT}"):
        read_store(b"\x30\x82", "secret", "the key store x.p12")


def test_keys_of_an_issuer_say_what_to_install() -> None:
    with pytest.raises(SettingError, match=f"listener CLIENTS: OAUTHBEARER with .*{HINT}"):
        NodeSettings.from_properties(NODE)


def test_a_secured_cluster_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"a secured cluster .*{HINT}") as caught:
        ClusterSecurity(tmp_path / "security")
    assert isinstance(caught.value, REFUSALS)
    assert not (tmp_path / "security").exists()
