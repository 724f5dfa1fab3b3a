"""Java's clients of ZooKeeper at a bridge with security: kafka-acls and zookeeper-shell of Kafka
2.8, by DIGEST-MD5 and over TLS.
"""

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from raftka.cluster.ports import HeldPorts
from raftka.cluster.secured.authority import Authority
from raftka.testing import Cluster
from tests.kit.toolchains import Program

SHELL, ACLS = "org.apache.zookeeper.ZooKeeperMainWithTlsSupportForKafka", "kafka.admin.AclCommand"
LOGIN = (
    'Client {{ org.apache.zookeeper.server.auth.DigestLoginModule required username="{}" '
    'password="{}"; }};\n'
)
PROPERTIES = {
    "zookeeper.bridge.ssl.client.auth": "want",
    "zookeeper.bridge.sasl.jaas.config": (
        'org.apache.zookeeper.server.auth.DigestLoginModule required user_kafka="kafkas";'
    ),
    "zookeeper.bridge.sasl.plaintext.enable": "true",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@dataclass
class Tools:
    kafka: Program
    folder: Path
    plain: str
    secure: str

    def run(self, tool: str, *arguments: str, password: str | None = None) -> str:
        """As the user kafka with that password; None: without a login."""
        env = dict(os.environ)
        if password is not None:
            (self.folder / "jaas.conf").write_text(LOGIN.format("kafka", password))
            env["JDK_JAVA_OPTIONS"] = (
                f"-Djava.security.auth.login.config={self.folder / 'jaas.conf'}"
            )
        command = [*self.kafka.command, tool, *arguments]
        return subprocess.run(
            command,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        ).stdout

    def acls(self, *arguments: str, password: str | None = None) -> str:
        return self.run(
            ACLS,
            "--authorizer-properties",
            f"zookeeper.connect={self.plain}",
            *arguments,
            password=password,
        )


@pytest.fixture
def tools(kafka_2_8: Program, tmp_path: Path) -> Iterator[Tools]:
    authority = Authority()
    (tmp_path / "node.pem").write_text(
        authority.issue("node", ["localhost", "127.0.0.1"]).key_store
    )
    (tmp_path / "client.pem").write_text(authority.issue("alice").key_store)
    (tmp_path / "ca.pem").write_text(authority.trusted)
    stores = {
        "ssl.keystore.location": str(tmp_path / "node.pem"),
        "ssl.truststore.location": str(tmp_path / "ca.pem"),
    }
    with HeldPorts(1) as ports:
        own = {"zookeeper.bridge.secure.port": str(ports.numbers[0])}
        with Cluster(bridge=True, properties=PROPERTIES | stores | own) as cluster:
            yield Tools(
                kafka_2_8, tmp_path, cluster.zookeeper_connect, f"127.0.0.1:{ports.numbers[0]}"
            )


def test_kafka_acls_writes_the_clusters_acls_as_sasl_kafka(tools: Tools) -> None:
    read = ("--allow-principal", "User:alice", "--operation", "Read", "--topic", "t")
    tools.acls("--add", *read, password="kafkas")
    tools.acls(
        "--add",
        "--deny-principal",
        "User:bob",
        "--operation",
        "All",
        "--group",
        "g-",
        "--resource-pattern-type",
        "prefixed",
        password="kafkas",
    )
    listed = tools.acls("--list", password="kafkas")
    assert "(principal=User:alice, host=*, operation=READ, permissionType=ALLOW)" in listed
    assert "ResourcePattern(resourceType=GROUP, name=g-, patternType=PREFIXED)" in listed
    tools.acls("--remove", *read, "--force", password="kafkas")
    assert "alice" not in tools.acls("--list", password="kafkas")
    assert "NoAuth" in tools.acls("--list")


def test_the_shell_logs_in(tools: Tools) -> None:
    shell = (SHELL, "-server", tools.plain)
    assert "Created /mine" in tools.run(
        *shell, "create", "/mine", "hidden", "sasl:kafka:cdrwa", password="kafkas"
    )
    assert "hidden" in tools.run(*shell, "get", "/mine", password="kafkas")
    assert "NoAuth for /mine" in tools.run(*shell, "get", "/mine")
    assert "AuthFailed" in tools.run(*shell, "get", "/mine", password="wrong")


def test_the_shell_over_tls_with_a_certificate(tools: Tools) -> None:
    config = {
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
        "zookeeper.ssl.keystore.location": str(tools.folder / "client.pem"),
        "zookeeper.ssl.truststore.location": str(tools.folder / "ca.pem"),
    }
    (tools.folder / "tls.properties").write_text(
        "".join(f"{name}={value}\n" for name, value in config.items())
    )
    shell = (
        SHELL,
        "-server",
        tools.secure,
        "-zk-tls-config-file",
        str(tools.folder / "tls.properties"),
    )
    assert "Created /alices" in tools.run(
        *shell, "create", "/alices", "hidden", "x509:CN=alice:cdrwa"
    )
    assert "hidden" in tools.run(*shell, "get", "/alices", password="kafkas")
    assert "NoAuth" in tools.run(SHELL, "-server", tools.plain, "get", "/alices")
