"""Keys, certificates and settings of a secured cluster on this machine: for `cluster start
--secure` and for tests.

All connections have TLS, clients and nodes are known by their certificates, and ACLs decide what
clients may do. A folder keeps the authority that signs certificates; those of nodes are issued anew
at each start. Files with keys can be read by their owner alone.
"""

import json
import os
import ssl
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from raftka.cluster import properties
from raftka.security import cryptography_package
from raftka.security.client_security import ClientSecurity
from raftka.security.node_certificates import node_uri
from raftka.security.tls_settings import StoreSettings, TlsSettings

if TYPE_CHECKING:
    from raftka.cluster.secured.authority import Authority

HOSTS = ("127.0.0.1", "localhost", "::1")
ADMIN, CLIENT = "admin", "client"
LISTENER = "SSL"  # the brokers', in place of PLAINTEXT
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


@dataclass(frozen=True, slots=True)
class ClientFiles:
    """One user's key and certificates, and what each family of clients is configured with."""

    user: str
    folder: Path

    @property
    def store(self) -> Path:
        """Key and certificates in one file, as Java's clients take them."""
        return self.folder / f"{self.user}.pem"

    @property
    def key(self) -> Path:
        return self.folder / f"{self.user}.key"

    @property
    def certificate(self) -> Path:
        return self.folder / f"{self.user}.crt"

    @property
    def authority(self) -> Path:
        return self.folder / "ca.pem"

    @property
    def security(self) -> ClientSecurity:
        """For raftka's own client."""
        return ClientSecurity(
            "SSL",
            tls=TlsSettings(StoreSettings(str(self.store)), StoreSettings(str(self.authority))),
        )

    def java(self) -> dict[str, str]:
        """Client properties of Java's clients, and of `raftka`."""
        return {
            "security.protocol": "SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.store),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority),
        }

    def librdkafka(self) -> dict[str, str]:
        """For confluent-kafka, kcat and all other clients on librdkafka."""
        return {
            "security.protocol": "ssl",
            "ssl.ca.location": str(self.authority),
            "ssl.certificate.location": str(self.certificate),
            "ssl.key.location": str(self.key),
        }

    def kafka_python(self) -> dict[str, str]:
        """Arguments of KafkaProducer, KafkaConsumer and KafkaAdminClient."""
        return {
            "security_protocol": "SSL",
            "ssl_cafile": str(self.authority),
            "ssl_certfile": str(self.certificate),
            "ssl_keyfile": str(self.key),
        }

    def aiokafka(self) -> dict[str, object]:
        """Arguments of AIOKafkaProducer, AIOKafkaConsumer and AIOKafkaAdminClient."""
        return {"security_protocol": "SSL", "ssl_context": self.context()}

    def context(self) -> ssl.SSLContext:
        """For clients that wrap their sockets themselves."""
        context = ssl.create_default_context(cafile=str(self.authority))
        context.load_cert_chain(self.certificate, self.key)
        return context

    def write(self, bootstrap_servers: str) -> list[tuple[str, Path]]:
        """Write a file for each family of clients; return families and files."""
        found = []
        for family, suffix, text in self._texts(bootstrap_servers):
            path = self.folder / f"{self.user}.{suffix}"
            path.write_text(text, encoding="utf-8")
            found.append((family, path))
        return found

    def _texts(self, bootstrap_servers: str) -> Iterable[tuple[str, str, str]]:
        rdkafka = [("bootstrap.servers", bootstrap_servers), *self.librdkafka().items()]
        python = {"bootstrap_servers": bootstrap_servers.split(","), **self.kafka_python()}
        java = properties.render(
            {"bootstrap.servers": bootstrap_servers, **self.java()},
            f"Client properties of {self.user}",
        )
        yield "raftka --command-config, Java", "properties", java
        yield (
            "kcat -F, librdkafka",
            "librdkafka.conf",
            "".join(f"{name}={value}\n" for name, value in rdkafka),
        )
        yield "confluent-kafka", "confluent.json", json.dumps(dict(rdkafka), indent=2) + "\n"
        yield "kafka-python", "kafka-python.json", json.dumps(python, indent=2) + "\n"
        yield (
            "aiokafka",
            "aiokafka.py",
            AIOKAFKA.format(files=self, servers=json.dumps(bootstrap_servers)),
        )
        yield (
            "kafkajs",
            "kafkajs.cjs",
            KAFKAJS.format(files=self, servers=json.dumps(bootstrap_servers.split(","))),
        )
        yield (
            "franz-go",
            "franz-go.go",
            FRANZ_GO.format(
                files=self, servers=", ".join(map(json.dumps, bootstrap_servers.split(",")))
            ),
        )


class ClusterSecurity:
    listener = LISTENER  # name and protocol of the listener for clients

    def __init__(self, folder: Path) -> None:
        """Make the authority in that folder, or take the one that is there. Raises OSError and
        ValueError.
        """
        if not cryptography_package.is_installed():
            raise ValueError(f"a secured cluster {cryptography_package.NEEDS_IT}")
        self.folder = folder.absolute()
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._authority = self._find_authority()
        self.admin = self.issue(ADMIN)

    def _find_authority(self) -> "Authority":
        from raftka.cluster.secured.authority import Authority

        key, certificate = self.folder / "ca.key", self.folder / "ca.pem"
        if key.exists() and certificate.exists():
            return Authority.restore(key.read_text(), certificate.read_text())
        authority = Authority("raftka cluster")
        _write_secret(key, authority.key)
        certificate.write_text(authority.trusted)
        return authority

    def issue(self, user: str, days: float = 825) -> ClientFiles:
        """A certificate for a user, whose principal is `User:` and that name."""
        issued, files = self._authority.issue(user, days=days), ClientFiles(user, self.folder)
        _write_secret(files.key, issued.key)
        _write_secret(files.store, issued.key_store)
        files.certificate.write_text(issued.chain)
        return files

    def issue_node(self, node_id: int, days: float = 825, brokers: int = 1) -> Path:
        """A certificate for a node, which no other node can use; a node that runs takes it within
        seconds. `brokers`: of the host, from this one.
        """
        issued = self._authority.issue(
            f"node-{node_id}", HOSTS, days, [node_uri(node_id + each) for each in range(brokers)]
        )
        path = self.folder / f"node-{node_id}.pem"
        _write_secret(path, issued.key_store)
        return path

    def settings_of(self, node_id: int, nodes: int, brokers: int = 1) -> dict[str, str]:
        """Return the settings of a node, or of a host of so many brokers, of which it is the first;
        make its key.
        """
        supers = [ADMIN, *(f"node-{each}" for each in range(1, nodes * brokers + 1, brokers))]
        return {
            "listener.security.protocol.map": f"{LISTENER}:SSL,CONTROLLER:SSL",
            "ssl.client.auth": "required",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.issue_node(node_id, brokers=brokers)),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.folder / "ca.pem"),
            "ssl.principal.mapping.rules": "RULE:^CN=([^,]+)$/$1/",
            "raftka.controller.node.certificates": "true",
            "metrics.ssl.enable": "true",
            "metrics.ssl.client.auth": "required",
            "zookeeper.bridge.x509.super.user": f"CN={ADMIN}",
            "authorizer.class.name": AUTHORIZER,
            "super.users": ";".join(f"User:{each}" for each in supers),
        }


def _write_secret(path: Path, text: str) -> None:
    """For the owner's eyes, whole at any time: a node may read it meanwhile."""
    new = path.with_name(f"{path.name}.new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "w", encoding="ascii") as file:
        file.write(text)
    new.replace(path)


AIOKAFKA = """# AIOKafkaProducer(**options()), and alike for AIOKafkaConsumer
import ssl


def options():
    context = ssl.create_default_context(cafile="{files.authority}")
    context.load_cert_chain("{files.certificate}", "{files.key}")
    return {{"bootstrap_servers": {servers}, "security_protocol": "SSL", "ssl_context": context}}
"""

KAFKAJS = """// new Kafka(require('./{files.user}.kafkajs.cjs'))
const fs = require('fs');

module.exports = {{
  brokers: {servers},
  ssl: {{
    ca: [fs.readFileSync('{files.authority}', 'utf-8')],
    key: fs.readFileSync('{files.key}', 'utf-8'),
    cert: fs.readFileSync('{files.certificate}', 'utf-8'),
  }},
}};
"""

FRANZ_GO = """// kgo.NewClient(options()...)
package main

import (
	"crypto/tls"
	"crypto/x509"
	"os"

	"github.com/twmb/franz-go/pkg/kgo"
)

func options() []kgo.Opt {{
	authority, err := os.ReadFile("{files.authority}")
	if err != nil {{
		panic(err)
	}}
	pair, err := tls.LoadX509KeyPair("{files.certificate}", "{files.key}")
	if err != nil {{
		panic(err)
	}}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(authority)
	return []kgo.Opt{{
		kgo.SeedBrokers({servers}),
		kgo.DialTLSConfig(&tls.Config{{RootCAs: trusted, Certificates: []tls.Certificate{{pair}}}}),
	}}
}}
"""
