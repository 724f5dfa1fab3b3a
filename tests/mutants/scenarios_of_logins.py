"""Directed simulations of logins: see directed.py."""

import hashlib
import hmac
from base64 import b64decode, b64encode
from random import Random

from raftka.security.client_security import ClientSecurity
from raftka.security.delegation_tokens import password_of
from raftka.security.oauth.jwt import unsecured_jwt
from raftka.security.scram import SHA_256, salted_password
from raftka.wire.messages.metadata import METADATA
from raftka.wire.messages.quorum import DESCRIBE_QUORUM
from raftka.wire.messages.sasl import SASL_AUTHENTICATE, SASL_HANDSHAKE
from tests.broker import kerberos, tokens
from tests.broker.kerberos import kerberos_stage
from tests.broker.oauth import KEYS, LATER_KEYS, now_s, present, stage_with_keys
from tests.broker.oauth import begun as begun_with_token
from tests.broker.rights import admin_of, pat
from tests.broker.sasl import SECURE, USER, add_users, authenticate, log_in, logged_in, works
from tests.broker.stage import CONTROLLER_PORT, Stage, Wire
from tests.broker.tokens import SECURE as WITH_TOKENS
from tests.kit.broker.controller_security import sasl
from tests.mutants.directed import finds
from tests.security.issuer import claims, token


def begun(stage: Stage, mechanism: str = SHA_256) -> Wire:
    wire = stage.wire()
    assert wire.ask(SASL_HANDSHAKE, SASL_HANDSHAKE.request(mechanism=mechanism)).error_code == 0
    return wire


def last_message(first: bytes, server_first: bytes, binding: bytes, nonce: str) -> bytes:
    """With this header and this nonce, and a proof over both."""
    parts = dict(part.split("=", 1) for part in server_first.decode().split(","))
    salted = salted_password(SHA_256, f"{USER}-secret", b64decode(parts["s"]), int(parts["i"]))
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    bare = f"c={b64encode(binding).decode()},r={nonce or parts['r']}"
    message = f"{first.decode()[3:]},{server_first.decode()},{bare}".encode()
    signature = hmac.digest(hashlib.sha256(client_key).digest(), message, "sha256")
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    return f"{bare},p={b64encode(proof).decode()}".encode()


def answered(stage: Stage, binding: bytes = b"n,,", nonce: str = "") -> int:
    """The error of a login whose last message has these."""
    wire, first = begun(stage), b"n,,n=alice,r=abcdef"
    server_first = bytes(authenticate(wire, first).auth_bytes)
    return authenticate(wire, last_message(first, server_first, binding, nonce)).error_code


@finds
def requests_pass_before_the_login() -> None:
    """Metadata in place of the login."""
    with Stage(**SECURE) as stage:
        wire = stage.wire()
        wire.request(METADATA, METADATA.request(topics=[]))
        assert wire.frame() is None, "a request before the login is answered"


@finds
def kafka_client_needs_no_login_at_controllers() -> None:
    """A question about the quorum in place of the login."""
    with Stage(**sasl("PLAIN")) as stage:
        wire = Wire(stage.world, stage.runtime, "n1", CONTROLLER_PORT)
        wire.request(DESCRIBE_QUORUM, DESCRIBE_QUORUM.request())
        assert wire.frame() is None, "a request before the login is answered"


@finds
def binding_is_not_compared() -> None:
    """The proof is right for the other header."""
    with Stage(**SECURE) as stage:
        add_users(stage)
        assert answered(stage) == 0
        assert answered(stage, binding=b"y,,"), "another header than at the beginning is accepted"


@finds
def nonce_is_not_compared() -> None:
    """The proof is right for the other nonce."""
    with Stage(**SECURE) as stage:
        add_users(stage)
        assert answered(stage) == 0
        assert answered(stage, nonce="abcdefghi"), (
            "another nonce than that of the login is accepted"
        )


@finds
def unknown_user_has_another_salt_each_time() -> None:
    with Stage(**SECURE) as stage:
        salts = {
            bytes(authenticate(begun(stage), b"n,,n=nobody,r=abc").auth_bytes).split(b",")[1]
            for _ in range(3)
        }
        assert len(salts) == 1, "a user that does not exist is told from one that does"


@finds
def authorization_id_names_the_user() -> None:
    with Stage(**SECURE) as stage:
        answer = authenticate(begun(stage, "PLAIN"), b"node\0pat\0pat-secret")
        assert answer.error_code, "let in as another user"


@finds
def another_user_takes_over_a_session() -> None:
    with Stage(**SECURE, connections_max_reauth_ms="5000") as stage:
        wire = logged_in(stage)
        stage.world.run(stage.world.now + 2)
        assert log_in(wire, "PLAIN", "node", "n-secret").error_code, (
            "another user goes on with the session"
        )


@finds
def session_never_ends() -> None:
    with Stage(**SECURE, connections_max_reauth_ms="3000") as stage:
        wire = logged_in(stage)
        assert works(wire)
        stage.world.run(stage.world.now + 4)
        wire.request(METADATA, METADATA.request(topics=[]))
        assert wire.frame() is None, "answered after the end of the session"


def lets_in(stage: Stage, text: str) -> bool:
    return not present(begun_with_token(stage), text).auth_bytes


@finds
def invalid_token_may_be_followed_by_another() -> None:
    with stage_with_keys() as stage:
        wire = begun_with_token(stage)
        assert present(wire, "a.b.c").auth_bytes
        assert present(wire, token(claims(now_s(stage)))).error_code, "a second token is taken"


@finds
def token_may_name_no_algorithm() -> None:
    with stage_with_keys() as stage:
        assert not lets_in(stage, unsecured_jwt(claims(now_s(stage), sub="admin"))), (
            "let in without a signature"
        )


@finds
def expired_token_is_taken_within_the_skew() -> None:
    with stage_with_keys() as stage:
        assert not lets_in(stage, token(claims(now_s(stage) - 700, exp=int(now_s(stage)) - 5))), (
            "let in with a token that has expired"
        )


@finds
def name_in_a_token_is_trimmed() -> None:
    with stage_with_keys() as stage:
        assert not lets_in(stage, token(claims(now_s(stage), sub=" admin "))), (
            "let in as another user"
        )


@finds
def keys_are_read_for_every_stranger() -> None:
    """The second look comes too early; that it takes place shows by the key that it finds."""
    with stage_with_keys() as stage:
        for keys in (KEYS, LATER_KEYS):
            stage.put("/keys.json", keys)
            lets_in(stage, token(claims(now_s(stage)), kid="k3"))
            stage.world.run(stage.world.now + 1)
        assert not lets_in(stage, token(claims(now_s(stage)), key="k2", kid="k2")), (
            "the keys are read again and again"
        )


@finds
def everybody_renews_tokens() -> None:
    with Stage(**WITH_TOKENS) as stage:
        token = tokens.create(admin_of(stage))
        assert tokens.renew(pat(stage), bytes(token.hmac))[0], "renewed by a stranger"


@finds
def token_makes_tokens() -> None:
    with Stage(**WITH_TOKENS) as stage:
        wire = tokens.with_token(stage, tokens.create(pat(stage)))
        assert tokens.create(wire).error_code, "a token has made another one"


@finds
def removed_token_lets_in() -> None:
    """Between the two messages of the login."""
    with Stage(**WITH_TOKENS) as stage:
        token = tokens.create(pat(stage))
        begin = ClientSecurity(
            "SASL_PLAINTEXT",
            SHA_256,
            token.token_id,
            password_of(bytes(token.hmac)),
            token_auth=True,
        ).login(Random(1))
        assert begin is not None
        wire, client = begun(stage), begin("")
        last = client.step(bytes(authenticate(wire, client.first()).auth_bytes))
        assert last is not None
        assert tokens.expire(pat(stage), bytes(token.hmac))[0] == 0
        assert authenticate(wire, last).error_code, "let in with a token that is gone"


@finds
def token_logs_in_as_any_user() -> None:
    with Stage(**WITH_TOKENS) as stage:
        token = tokens.create(pat(stage))
        assert tokens.log_in(
            stage.wire(), token.token_id, bytes(token.hmac), token_auth=False
        ).error_code, "a token's id is a user"


@finds
def kerberos_client_asks_to_be_another() -> None:
    with kerberos_stage() as stage:
        assert kerberos.log_in(kerberos.begun(stage), "alice@HOME", "bob@HOME").error_code, (
            "let in though it asks to be another"
        )


@finds
def layer_that_was_not_offered_is_taken() -> None:
    with kerberos_stage() as stage:
        choice = b"\x02\0\xff\xff"
        assert kerberos.log_in(kerberos.begun(stage), "alice@HOME", choice=choice).error_code, (
            "let in with a layer that is not there"
        )


@finds
def realm_of_a_principal_is_ignored() -> None:
    with kerberos_stage() as stage:
        assert kerberos.log_in(kerberos.begun(stage), "alice@ABROAD").error_code, (
            "let in as the user of another realm's name"
        )


@finds
def refusal_beside_the_loop_is_forgotten() -> None:
    with kerberos_stage() as stage:
        wire = kerberos.begun(stage)
        wire.request(SASL_AUTHENTICATE, SASL_AUTHENTICATE.request(auth_bytes=b"no ticket"), 2)
        stage.world.run(stage.world.now + 5)
        assert wire.close_reason is not None, "a client that was refused keeps its connection"


@finds
def sessions_of_a_mechanism_never_end() -> None:
    with Stage(
        **(SECURE | {"listener.name.plaintext.plain.connections.max.reauth.ms": "3000"})
    ) as stage:
        wire = logged_in(stage)
        stage.world.run(stage.world.now + 4)
        wire.request(METADATA, METADATA.request(topics=[]))
        assert wire.frame() is None, "the session goes on"
