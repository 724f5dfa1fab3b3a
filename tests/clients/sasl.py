"""A cluster with SASL, and its clients' settings."""

import subprocess
import sys

from raftka.testing import Cluster

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
USER, PASSWORD = "alice", "alice-secret"
NODE = 'username="node" password="node-secret" user_node="node-secret"'
USERS = (
    f"org.apache.kafka.common.security.plain.PlainLoginModule required {NODE} "
    f'user_{USER}="{PASSWORD}";'
)
PROPERTIES = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "sasl.enabled.mechanisms": ",".join(MECHANISMS),
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.plaintext.plain.sasl.jaas.config": USERS,
}


def librdkafka(cluster: Cluster, mechanism: str, password: str = PASSWORD) -> dict[str, str]:
    return {
        "bootstrap.servers": cluster.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": USER,
        "sasl.password": password,
    }


def python(cluster: Cluster, mechanism: str, password: str = PASSWORD) -> dict[str, str]:
    return {
        "bootstrap_servers": cluster.bootstrap_servers,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": USER,
        "sasl_plain_password": password,
    }


def raftka(cluster: Cluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "raftka.cli",
        *arguments,
        "--bootstrap-server",
        cluster.bootstrap_servers,
    ]
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=60
    )
