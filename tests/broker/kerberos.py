"""Nodes whose listener takes Kerberos logins, without a realm: a scripted library stands for the
real one, whose tokens say in clear what they are.

A ticket is `ticket of PRINCIPAL, SECONDS`; `again` asks for another round; what is wrapped begins
with `wrapped `.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from raftka.broker.network.access import mechanisms
from raftka.metadata.configs import logins
from raftka.security.kerberos.library import KerberosLogin
from raftka.security.kerberos.mechanism import LAYERS
from raftka.security.mechanism import GSSAPI, AuthenticationFailed
from raftka.wire.messages.sasl import SASL_HANDSHAKE, SaslAuthenticateResponse
from tests.broker.sasl import SECURE, authenticate
from tests.broker.stage import Stage, Wire

LINE = (
    "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true "
    'keyTab="/keys" principal="kafka/n1@HOME";'
)
KERBEROS = SECURE | {
    "sasl_enabled_mechanisms": "PLAIN,GSSAPI",
    "listener.name.plaintext.gssapi.sasl.jaas.config": LINE,
}
WRAPPED = b"wrapped "


class Scripted:
    """A context of the server's side."""

    def __init__(self, login: KerberosLogin) -> None:
        self.login = login
        self.complete = False
        self.client = ""
        self.lifetime_s = 0

    def step(self, token: bytes) -> bytes:
        if token == b"again":
            return b"again"
        kind, _, rest = token.decode().partition(" of ")
        if kind != "ticket":
            raise AuthenticationFailed(reason="no ticket")
        self.client, life = rest.rsplit(", ", 1)
        self.lifetime_s = int(life)
        self.complete = True
        return b"" if self.client.startswith("short/") else b"I am kafka"

    def wrap(self, message: bytes) -> bytes:
        return WRAPPED + message

    def unwrap(self, token: bytes) -> bytes:
        if not token.startswith(WRAPPED):
            raise AuthenticationFailed(reason="not wrapped")
        return token.removeprefix(WRAPPED)


@contextmanager
def kerberos_stage(**settings: str) -> Iterator[Stage]:
    with (
        patch.object(logins, "is_installed", lambda: True),
        patch.object(mechanisms, "accept", Scripted),
        Stage(**KERBEROS | settings) as stage,
    ):
        yield stage


def begun(stage: Stage) -> Wire:
    wire = stage.wire()
    assert wire.ask(SASL_HANDSHAKE, SASL_HANDSHAKE.request(mechanism=GSSAPI)).error_code == 0
    return wire


def ticket(principal: str, life_s: int = 3600) -> bytes:
    return f"ticket of {principal}, {life_s}".encode()


def log_in(
    wire: Wire, principal: str, asked: str = "", choice: bytes = LAYERS, life_s: int = 3600
) -> SaslAuthenticateResponse:
    """The last answer of a login of that principal, whose last message has this choice of layers
    and this authorization id.
    """
    answer = authenticate(wire, ticket(principal, life_s))
    if bytes(answer.auth_bytes) == b"I am kafka":
        answer = authenticate(wire, b"")
    if answer.error_code:
        return answer
    assert bytes(answer.auth_bytes) == WRAPPED + b"\x01\0\0\0"
    return authenticate(wire, WRAPPED + choice + asked.encode())
