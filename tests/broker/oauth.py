"""Nodes that take tokens (OAUTHBEARER), and clients that bring them by hand."""

from typing import Any

from raftka.metadata.configs.oauth import UNSECURED
from raftka.security.oauth.oauthbearer import OAUTHBEARER, OAuthBearerClient
from raftka.wire.messages.sasl import SASL_HANDSHAKE, SaslAuthenticateResponse
from tests.broker.sasl import USERS, authenticate
from tests.broker.stage import Stage, Wire
from tests.security.issuer import AUDIENCE, ISSUER, jwks, rsa_row

OURS = "listener.name.plaintext.oauthbearer.sasl.oauthbearer."
KEYS, LATER_KEYS = jwks(rsa_row()).decode(), jwks(rsa_row(), rsa_row("k2")).decode()
SECURE: dict[str, Any] = {
    "listener_security_protocol_map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "sasl_enabled_mechanisms": "PLAIN,OAUTHBEARER",
    "sasl_mechanism_inter_broker_protocol": "PLAIN",
    "listener.name.plaintext.plain.sasl.jaas.config": USERS,
    f"{OURS}jwks.endpoint.url": "file:///keys.json",
    f"{OURS}expected.audience": AUDIENCE,
    f"{OURS}expected.issuer": ISSUER,
}
TRUSTING = {
    **{name: value for name, value in SECURE.items() if not name.startswith(OURS)},
    "listener.name.plaintext.oauthbearer.sasl.server.callback.handler.class": UNSECURED,
}


def stage_with_keys(text: str = KEYS, **changes: str) -> Stage:
    stage = Stage(wait=False, **{**SECURE, **changes})
    stage.put("/keys.json", text)
    stage.wait(stage.nodes[1].ready.is_set)
    stage.wait(
        lambda: (
            bool(stage.events("issuer_keys_loaded"))
            or not changes.get("sasl_enabled_mechanisms", OAUTHBEARER).count(OAUTHBEARER)
        )
    )
    return stage


def now_s(stage: Stage) -> float:
    return stage.nodes[1].runtime.clock.wall_ms() / 1000


def begun(stage: Stage, node_id: int = 1) -> Wire:
    wire = stage.wire(node_id)
    assert wire.ask(SASL_HANDSHAKE, SASL_HANDSHAKE.request(mechanism=OAUTHBEARER)).error_code == 0
    return wire


def present(wire: Wire, text: str) -> SaslAuthenticateResponse:
    return authenticate(wire, OAuthBearerClient(text).first())
