"""The client's side of a Kerberos login, with a scripted library: what it takes from a server, and
where its steps are taken.
"""

from collections.abc import Callable
from typing import Any

import pytest

from raftka.client.connection import ClientConnection
from raftka.security.client_security import client_security
from raftka.security.kerberos import logins
from raftka.security.kerberos.library import KerberosLogin
from raftka.security.kerberos.logins import client_login
from raftka.security.kerberos.mechanism import LAYERS, GssapiClient
from raftka.security.mechanism import GSSAPI, AuthenticationFailed
from raftka.wire.messages.api_versions import API_VERSIONS
from raftka.wire.messages.sasl import SASL_AUTHENTICATE, SASL_HANDSHAKE
from tests.client.played_broker import Broker

OFFERS = (LAYERS, b"\x07\0\xff\xff")


class Scripted:
    """A context of the client's side: complete when the server has said `proof`."""

    client, lifetime_s = "", 0

    def __init__(self) -> None:
        self.complete = False

    def step(self, token: bytes) -> bytes:
        if token not in (b"", b"proof"):
            raise AuthenticationFailed(reason="the server is not the service")
        self.complete = token == b"proof"
        return b"" if self.complete else b"ticket"

    def wrap(self, message: bytes) -> bytes:
        return message

    def unwrap(self, token: bytes) -> bytes:
        return token


@pytest.mark.parametrize("offer", OFFERS)
def test_client_chooses_no_layer_and_asks_to_be_nobody_else(offer: bytes) -> None:
    client = GssapiClient(Scripted)
    assert [client.first(), client.step(b"proof"), client.step(offer), client.step(b"")] == [
        b"ticket",
        b"",
        LAYERS,
        None,
    ]


@pytest.mark.parametrize("offer", [b"", b"\x01", b"\x06\0\xff\xff", b"\0\0\0\0", LAYERS + b"x"])
def test_server_that_insists_on_a_layer_is_left(offer: bytes) -> None:
    client = GssapiClient(Scripted)
    client.first()
    client.step(b"proof")
    with pytest.raises(AuthenticationFailed, match="insists"):
        client.step(offer)


def test_server_that_proves_nothing_is_left() -> None:
    client = GssapiClient(Scripted)
    client.first()
    with pytest.raises(AuthenticationFailed):
        client.step(LAYERS)


class Beside:
    """Work that waits until it is let go on."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Callable[[], Any], Callable[[Any], None]]] = []

    def run(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        self.waiting.append((work, done))

    def go_on(self) -> None:
        work, done = self.waiting.pop()
        try:
            result = work()
        except AuthenticationFailed as error:
            result = error
        done(result)


def dialing(*tokens: bytes) -> tuple[Broker, Beside]:
    """A client whose broker answers with these tokens."""
    beside, left = Beside(), list(tokens)
    broker = Broker(
        {API_VERSIONS: (0, 4), SASL_HANDSHAKE: (0, 1), SASL_AUTHENTICATE: (0, 2)},
        SaslHandshake=lambda version, row: SASL_HANDSHAKE.response(mechanisms=[GSSAPI]),
        SaslAuthenticate=lambda version, row: SASL_AUTHENTICATE.response(auth_bytes=left.pop(0)),
    )
    events = broker.events
    broker.client = ClientConnection(
        "tests",
        lambda: events.append("ready"),
        events.append,
        login=lambda: GssapiClient(Scripted),
        beside=beside.run,
    )
    broker.opened().answer()
    return broker, beside


def test_steps_are_taken_beside_the_loop() -> None:
    broker, beside = dialing(b"proof", LAYERS, b"")
    for _ in range(4):
        assert broker.events == []
        beside.go_on()
        broker.answer()
    assert broker.events == ["ready"]
    sent = [row.auth_bytes for _, row in broker.seen if hasattr(row, "auth_bytes")]
    assert [bytes(each) for each in sent] == [b"ticket", b"", LAYERS]


def test_what_the_library_refuses_ends_the_connection_with_its_reason() -> None:
    broker, beside = dialing(b"no proof")
    beside.go_on()
    broker.answer()
    beside.go_on()
    assert broker.events == ["authentication with GSSAPI: the server is not the service"]


def test_step_that_ends_after_the_connection_changes_nothing() -> None:
    broker, beside = dialing()
    broker.client.closed("the broker has gone")
    beside.go_on()
    assert broker.client.take_output() == []
    assert broker.events == ["the broker has gone"]


BASIS = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "GSSAPI"}
MODULE = "com.sun.security.auth.module.Krb5LoginModule required"


@pytest.mark.parametrize(
    ("properties", "login"),
    [
        ({"sasl.kerberos.service.name": "kafka"}, KerberosLogin("kafka")),
        (
            {"sasl.jaas.config": f'{MODULE} useTicketCache=true serviceName="kafka";'},
            KerberosLogin("kafka"),
        ),
        (
            {
                "sasl.kerberos.service.name": "kafka",
                "sasl.jaas.config": f'{MODULE} useKeyTab=true keyTab="/k" principal="alice@HOME";',
            },
            KerberosLogin("kafka", "alice@HOME", "/k"),
        ),
    ],
)
def test_client_has_a_keytab_or_tickets(
    monkeypatch: pytest.MonkeyPatch, properties: dict[str, str], login: KerberosLogin
) -> None:
    monkeypatch.setattr(logins, "is_installed", lambda: True)
    assert client_security(BASIS | properties).kerberos == login


@pytest.mark.parametrize(
    ("properties", "text"),
    [
        ({}, "sasl.kerberos.service.name"),
        (
            {
                "sasl.kerberos.service.name": "kafka",
                "sasl.jaas.config": f'{MODULE} useKeyTab=true keyTab="/k";',
            },
            "needs a principal",
        ),
        (
            {
                "sasl.kerberos.service.name": "kafka",
                "sasl.jaas.config": f'{MODULE} useKeyTab=true principal="a@B";',
            },
            "absolute path",
        ),
        (
            {
                "sasl.jaas.config": (
                    "org.apache.kafka.common.security.plain.PlainLoginModule required "
                    'username="a" password="b";'
                )
            },
            "not one for GSSAPI",
        ),
    ],
)
def test_client_that_could_not_log_in_is_told(
    monkeypatch: pytest.MonkeyPatch, properties: dict[str, str], text: str
) -> None:
    monkeypatch.setattr(logins, "is_installed", lambda: True)
    with pytest.raises(ValueError, match=text):
        client_security(BASIS | properties)


def test_client_without_the_extra_is_told_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(logins, "is_installed", lambda: False)
    with pytest.raises(ValueError, match=r"pip install 'raftka\[gssapi\]'"):
        client_login(None, "kafka")
