"""`raftka console`: a process of its own, with TLS where it is asked for, until SIGTERM."""

import os
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trustme
from click.testing import CliRunner

from raftka.cli.commands import root
from raftka.console.server import ConsoleServer
from raftka.console.settings import ConsoleSettings, read_tls
from raftka.console.sql.target import SqlTarget
from raftka.sql.server.folder import Address
from raftka.sql.server.launch import Wanted
from raftka.testing import Cluster
from tests.kit.console import Api

HOST = "127.0.0.1"
FROM_CHECKOUT = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
COMMAND = [sys.executable, "-m", "raftka", "console"]


@contextmanager
def running(*options: str, warned: str = "") -> Iterator[str]:
    """A console's process; yields its URL. `warned`: in what it says beside it."""
    with subprocess.Popen(
        [*COMMAND, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=FROM_CHECKOUT,
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("console: http"), (
                line,
                process.stderr and process.stderr.read(),
            )
            yield line.removeprefix("console: ").strip()
            process.send_signal(signal.SIGTERM)
            _, errors = process.communicate(timeout=60)
            assert warned in errors if warned else errors == ""
            assert process.returncode == 0
        finally:
            process.kill()


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, ssl.SSLContext]:
    """A key and its certificate in one file, and a context that trusts it."""
    authority, trusting = trustme.CA(), ssl.create_default_context()
    authority.configure_trust(trusting)
    file = tmp_path / "console.pem"
    authority.issue_cert(HOST).private_key_and_cert_chain_pem.write_to_path(file)
    return file, trusting


def test_console_answers_at_its_url_until_it_is_ended(raftka_cluster: Cluster) -> None:
    switches = ("--read-only", "--no-records", "--mask", "card", "--mask", "$.a.b")
    with running("-b", raftka_cluster.bootstrap_servers, "--port", "0", *switches) as url:
        assert Api(url).get("/api/me") == {
            **Api(url).get("/api/me"),
            "user": None,
            "login_needed": False,
            "read_only": True,
            "shows_records": False,
            "masked": ["card", "$.a.b"],
            "can_control": False,
        }


@pytest.mark.parametrize(
    ("options", "has_sql"),
    [
        ((), True),
        (("--no-sql",), False),
        (("--login", "PLAIN"), False),
        (("--host", "0.0.0.0"), False),
        (("--host", "0.0.0.0", "--sql-url", "http://a:1", "--sql-token-file", "{token}"), True),
    ],
)
def test_sql_is_there_where_this_machine_alone_looks_or_a_server_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], *, has_sql: bool
) -> None:
    token = tmp_path / "token"
    token.write_text("a token\n")
    given: list[SqlTarget | None] = []

    def serve(**settings: SqlTarget | None) -> int:
        given.append(settings["sql"])
        return 0

    monkeypatch.setattr("raftka.cli.console.serve", serve)
    command = ["console", "-b", "a:9", *(each.format(token=token) for each in options)]
    assert CliRunner().invoke(root, command).exit_code == 0
    assert [each is not None for each in given] == [has_sql]
    if "--sql-url" in options:
        assert given == [SqlTarget(address=Address("http://a:1", "a token", 0))]
    elif has_sql:
        assert given == [SqlTarget(Wanted("a:9"))]


def test_a_server_for_sql_needs_its_token() -> None:
    refused = CliRunner().invoke(root, ["console", "--sql-url", "http://a:1"])
    assert refused.exit_code == 2
    assert "--sql-url needs --sql-token-file" in refused.output


def test_console_with_tls_and_logins(certificate: tuple[Path, ssl.SSLContext]) -> None:
    file, trusting = certificate
    options = ("--port", "0", "--certificate", str(file), "--login", "SCRAM-SHA-512")
    with running("-b", f"{HOST}:1", *options) as url:
        assert url.startswith("https://")
        assert Api(url, trusting).get("/api/me")["login_needed"] is True


def test_cookie_of_a_console_with_tls_needs_tls(certificate: tuple[Path, ssl.SSLContext]) -> None:
    file, trusting = certificate
    with ConsoleServer(ConsoleSettings([(HOST, 1)], port=0, tls=read_tls(file, None))) as console:
        answer = Api(console.url, trusting).ask("POST", "/api/logout")
        assert "; Secure" in answer.headers["set-cookie"]
        with Api(console.url, trusting).stream("/api/me", {"every": 1}) as page:
            assert page.next() is not None


def test_connection_of_the_console_has_a_login_that_all_use(raftka_cluster: Cluster) -> None:
    login = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "viewer",
        "sasl.password": "secret",
    }
    options = [f"-X{name}={value}" for name, value in login.items()]
    warned = "all have the rights of its own login, viewer"
    with running("-b", f"{HOST}:1", "--port", "0", *options, warned=warned) as url:
        assert Api(url).get("/api/me")["login_needed"] is False


def refused(*options: str) -> str:
    """Return what a console says that does not start."""
    done = subprocess.run(
        [*COMMAND, *options], capture_output=True, text=True, env=FROM_CHECKOUT, check=False
    )
    assert done.returncode != 0
    assert done.stdout == ""
    return done.stderr


def test_bad_options_are_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "no.pem").write_text("nothing")
    with socket.create_server((HOST, 0)) as taken:
        port = str(taken.getsockname()[1])
        assert "--port 0 picks a free one" in refused("--port", port)
    assert "'a b' is no field to mask" in refused("--mask", "a b")
    assert "'localhost' is not host:port" in refused("-b", "localhost")
    assert "a key belongs to a certificate" in refused("--key", str(tmp_path / "no.pem"))
    assert "PEM" in refused("--certificate", str(tmp_path / "no.pem"), "--port", "0")


def test_console_takes_a_socket_that_listens_already() -> None:
    listening = socket.create_server((HOST, 0))
    with ConsoleServer(ConsoleSettings([(HOST, 1)], port=1), listening) as console:
        assert console.port == listening.getsockname()[1]
        assert Api(console.url).get("/api/me")["user"] is None
    assert listening.fileno() == -1
