"""Findings about certificates, ACLs and tokens, in a cluster with TLS and logins."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from raftka.cluster.secured.authority import Authority
from raftka.cluster.secured.keys import ClusterSecurity
from raftka.testing.cluster import Cluster
from tests.clients.workload import wait
from tests.kit.live import Shell, live


@pytest.fixture(scope="module")
def logins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    with Cluster(1, security="SASL_SSL", delegation_token_secret_key="secret") as cluster:
        folder = tmp_path_factory.mktemp("logins")
        options = cluster.client("admin").java()
        file = folder / "client.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in options.items()))
        shell = Shell(folder, cluster.bootstrap_servers, file)
        assert shell.doctor() == (0, {}, ""), "it is sound at first"
        yield shell


def test_acls_for_everybody(logins: Shell) -> None:
    logins.do("raftka acls create --cluster --principal 'User:*' --operation alter")
    found = logins.doctor().found
    assert "acl-for-everybody" in found
    assert "User:*" in logins.do(found["acl-for-everybody"]["next"])
    logins.do("raftka acls delete --cluster --principal 'User:*' --operation alter")


def test_a_token_that_ends(logins: Shell) -> None:
    logins.do("raftka tokens create --max-lifetime-ms 60000")
    found = logins.doctor().found
    assert "token-expires" in found
    logins.do(found["token-expires"]["next"])


def test_a_certificate_that_ends_within_days(tmp_path: Path) -> None:
    keys = ClusterSecurity(tmp_path / "keys")
    with live(tmp_path, 1, {}, keys) as cluster:
        ready = dict(keys.admin.write(cluster.servers))
        file = next(path for path in ready.values() if path.suffix == ".properties")
        cluster.log_in(file)
        assert cluster.doctor().found == {}
        keys.issue_node(1, days=10)
        wait(lambda: "certificate-expires" in cluster.doctor().found)
        finding = cluster.doctor().found["certificate-expires"]
        assert "in 9 days" in finding["text"] or "in 10 days" in finding["text"]
        assert "notAfter" in cluster.do(finding["next"])


@contextmanager
def tls_server(folder: Path, hosts: list[str], days: float) -> Iterator[str]:
    """A server that has a certificate and speaks no Kafka; yield its address."""
    issued = Authority("test").issue("node", hosts, days)
    file = folder / "node.pem"
    file.write_text(issued.key_store)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        ended = threading.Event()

        def serve() -> None:
            while not ended.is_set():
                connection, _ = listening.accept()
                try:
                    context.wrap_socket(connection, server_side=True).close()
                except OSError:
                    connection.close()

        thread = threading.Thread(target=serve)
        thread.start()
        address = listening.getsockname()
        yield f"127.0.0.1:{address[1]}"
        ended.set()
        socket.create_connection(address).close()
        thread.join()


@pytest.mark.parametrize(
    ("hosts", "days", "kind"),
    [
        (["127.0.0.1"], -1, "certificate-expired"),
        (["elsewhere.example", "10.0.0.1"], 100, "certificate-name"),
    ],
)
def test_certificates_that_keep_clients_out(
    tmp_path: Path, hosts: list[str], days: float, kind: str
) -> None:
    """No client connects, and the doctor says why: exit code 2, with the finding."""
    with tls_server(tmp_path, hosts, days) as server:
        shell = Shell(tmp_path, server)
        done = shell.doctor("-X security.protocol=SSL")
        assert (done.code, set(done.found)) == (2, {kind})
        assert "notAfter" in shell.do(done.found[kind]["next"])


def test_a_server_that_is_not_there_is_not_reachable(tmp_path: Path) -> None:
    done = Shell(tmp_path, "127.0.0.1:1").doctor()
    assert (done.code, set(done.found)) == (2, {"address-unreachable"})
    assert "no process listens at 127.0.0.1:1" in done.errors
