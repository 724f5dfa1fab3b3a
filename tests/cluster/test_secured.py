"""A cluster that `cluster start --secure` makes: what its files are, that clients come in with
them, and that no door is left open.
"""

import json
import socket
import ssl
import stat
import urllib.request
from pathlib import Path

import pytest
from kafka import KafkaAdminClient

from raftka.cluster.plan import plan_cluster, ports_from
from raftka.cluster.processes import running
from raftka.cluster.secured.keys import ClusterSecurity
from raftka.metadata.configs.settings import NodeSettings

OPEN_TO_GROUPS = stat.S_IRWXG | stat.S_IRWXO


def test_files_with_keys_are_their_owners_alone(tmp_path: Path) -> None:
    security = ClusterSecurity(tmp_path / "security")
    plans = plan_cluster(tmp_path, ports_from(19000, 3), security=security)
    for plan in plans:
        plan.write()
        assert not plan.properties_file.stat().st_mode & OPEN_TO_GROUPS
    security.issue("client").write("127.0.0.1:1")
    assert not security.folder.stat().st_mode & OPEN_TO_GROUPS
    with_keys = [path for path in security.folder.iterdir() if "PRIVATE KEY" in path.read_text()]
    assert {path.name for path in with_keys} >= {
        "ca.key",
        "admin.key",
        "admin.pem",
        "client.key",
        "client.pem",
        "node-1.pem",
    }
    assert [path.name for path in with_keys if path.stat().st_mode & OPEN_TO_GROUPS] == []


def test_authority_stays_when_the_cluster_is_started_again(tmp_path: Path) -> None:
    before = ClusterSecurity(tmp_path)
    trusted, key = before.admin.authority.read_text(), before.admin.key.read_text()
    after = ClusterSecurity(tmp_path)
    assert after.admin.authority.read_text() == trusted
    assert after.admin.key.read_text() != key


def test_every_door_asks_for_a_certificate(tmp_path: Path) -> None:
    (plan, *_) = plan_cluster(
        tmp_path,
        ports_from(19000, 3),
        {},
        [1, 2, 3],
        [4, 5, 6],
        ClusterSecurity(tmp_path / "security"),
    )
    settings = NodeSettings.from_properties(dict(plan.properties))

    assert {
        each.security_protocol for each in (*settings.listeners, *settings.controller_listeners)
    } == {"SSL"}
    assert settings["ssl.client.auth"] == "required"
    assert (settings["metrics.ssl.enable"], settings["metrics.ssl.client.auth"]) == (
        True,
        "required",
    )
    assert (settings["zookeeper.bridge.port"], settings["zookeeper.bridge.secure.port"]) == (
        None,
        4,
    )


def test_processes_serve_the_administrator_and_no_stranger(tmp_path: Path) -> None:
    security = ClusterSecurity(tmp_path / "security")
    with running(3, {"metrics.port": "0"}, tmp_path, security=security) as cluster:
        written = dict(security.admin.write(cluster.bootstrap_servers))
        admin = KafkaAdminClient(**json.loads(written["kafka-python"].read_text()))
        assert len(admin.describe_cluster()["brokers"]) == 3
        admin.close()
        started = [
            json.loads(line) for line in cluster.nodes[1].plan.log_file.read_text().splitlines()
        ]
        (port,) = [line["metrics_port"] for line in started if line["event"] == "started"]
        trusting = ssl.create_default_context(cafile=str(security.admin.authority))
        with (
            socket.create_connection(("127.0.0.1", port), 10) as plain,
            trusting.wrap_socket(plain, server_hostname="127.0.0.1") as stranger,
        ):
            stranger.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            with pytest.raises(OSError, match="certificate required"):
                stranger.recv(1)
        trusting.load_cert_chain(security.admin.certificate, security.admin.key)
        with urllib.request.urlopen(
            f"https://127.0.0.1:{port}/metrics", context=trusting, timeout=10
        ) as page:
            assert b"raftka_certificate_expiry_timestamp_seconds" in page.read()
