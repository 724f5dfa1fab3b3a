"""Nodes whose listener has SASL, and clients that log in there by hand."""

from random import Random
from typing import Any

from raftka.security.client_security import ClientSecurity
from raftka.security.scram import NUMBERS, salted_password
from raftka.wire.messages.metadata import METADATA
from raftka.wire.messages.sasl import SASL_AUTHENTICATE, SASL_HANDSHAKE, SaslAuthenticateResponse
from raftka.wire.messages.scram import ALTER_USER_SCRAM_CREDENTIALS
from tests.broker.stage import Stage, Wire

USER = "alice"
NAMES = (USER, "a,b=c", "üser")  # with SCRAM; the password is the name and `-secret`
USERS = (
    'org.apache.kafka.common.security.plain.PlainLoginModule required username="node" '
    'password="n-secret" user_node="n-secret" user_pat="pat-secret";'
)
SECURE: dict[str, Any] = {
    "listener_security_protocol_map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "sasl_enabled_mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "sasl_mechanism_inter_broker_protocol": "PLAIN",
    "listener.name.plaintext.plain.sasl.jaas.config": USERS,
}


def authenticate(wire: Wire, token: bytes, version: int = 2) -> SaslAuthenticateResponse:
    return wire.ask(SASL_AUTHENTICATE, SASL_AUTHENTICATE.request(auth_bytes=token), version)


def log_in(wire: Wire, mechanism: str, user: str, password: str) -> SaslAuthenticateResponse:
    """The last answer of the login."""
    begin = ClientSecurity("SASL_PLAINTEXT", mechanism, user, password).login(Random(1))
    assert begin is not None
    assert wire.ask(SASL_HANDSHAKE, SASL_HANDSHAKE.request(mechanism=mechanism)).error_code == 0
    client = begin("")
    token: bytes | None = client.first()
    while token is not None:
        answer = authenticate(wire, token)
        if answer.error_code:
            return answer
        token = client.step(bytes(answer.auth_bytes))
    return answer


def logged_in(
    stage: Stage,
    mechanism: str = "PLAIN",
    user: str = "pat",
    password: str = "pat-secret",
    node_id: int = 1,
) -> Wire:
    wire = stage.wire(node_id)
    assert log_in(wire, mechanism, user, password).error_code == 0
    return wire


def works(wire: Wire) -> bool:
    return bool(wire.ask(METADATA, METADATA.request(topics=[])).brokers)


def add_users(stage: Stage) -> None:
    admin, row = logged_in(stage), ALTER_USER_SCRAM_CREDENTIALS.request
    for number, mechanism in NUMBERS.items():
        upsertions = []
        for name in NAMES:
            salt = b"salt of " + name.encode()
            salted = salted_password(mechanism, f"{name}-secret", salt, 4096)
            upsertions.append(
                row.upsertions(
                    name=name, mechanism=number, iterations=4096, salt=salt, salted_password=salted
                )
            )
        results = admin.ask(ALTER_USER_SCRAM_CREDENTIALS, row(upsertions=upsertions)).results
        assert [each.error_code for each in results] == [0] * len(NAMES), results
