"""Tokens of the real Kerberos library, from a client that does as it likes, at a simulated node
with real keys.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from raftka.security.kerberos.mechanism import LAYERS
from raftka.security.mechanism import GSSAPI
from raftka.wire.errors import Code
from raftka.wire.messages.sasl import SASL_HANDSHAKE, SaslAuthenticateResponse
from tests.broker.sasl import SECURE, authenticate, works
from tests.broker.stage import Stage, Wire
from tests.clients.kdc import CLOCK_SKEW_MS, HOST, REALM, Kdc

NODE = f"kafka/{HOST}"
MODULE = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true"


@pytest.fixture(scope="module")
def keytab(kdc: Kdc) -> Path:
    return kdc.add(NODE)


@pytest.fixture(scope="module")
def alice(kdc: Kdc) -> Iterator[None]:
    """The user of the clients. Her tickets end after a minute."""
    with kdc.as_client(kdc.add("alice", "-maxlife", "1min")):
        yield


@pytest.fixture
def stage(keytab: Path, alice: None) -> Iterator[Stage]:
    with Stage(**settings(keytab)) as stage:
        yield stage
        assert not stage.world.failures


def settings(keytab: Path, principal: str = NODE) -> dict[str, Any]:
    line = f'{MODULE} keyTab="{keytab}" principal="{principal}@{REALM}";'
    return SECURE | {
        "sasl_enabled_mechanisms": "PLAIN,GSSAPI",
        "listener.name.plaintext.gssapi.sasl.jaas.config": line,
    }


def context(service: str = f"kafka@{HOST}", *, mutual: bool = True, spnego: bool = False) -> Any:
    """The client's side, of the library alone."""
    import gssapi
    from gssapi.raw import OID, MechType

    flags = gssapi.RequirementFlag
    mechanism = OID.from_int_seq("1.3.6.1.5.5.2") if spnego else MechType.kerberos
    name = gssapi.Name(service, gssapi.NameType.hostbased_service)
    wanted = flags.integrity | (flags.mutual_authentication if mutual else flags.integrity)
    return gssapi.SecurityContext(name=name, mech=mechanism, flags=wanted, usage="initiate")


def begun(stage: Stage) -> Wire:
    wire = stage.wire()
    assert wire.ask(SASL_HANDSHAKE, SASL_HANDSHAKE.request(mechanism=GSSAPI)).error_code == 0
    return wire


def established(wire: Wire, mutual: bool = True) -> tuple[Any, bytes]:
    """The context, and the node's offer."""
    client = context(mutual=mutual)
    answer = authenticate(wire, client.step())
    assert answer.error_code == 0
    if mutual:
        assert client.step(bytes(answer.auth_bytes)) is None
        answer = authenticate(wire, b"")
    assert client.complete
    return client, client.unwrap(bytes(answer.auth_bytes)).message


def refused(answer: SaslAuthenticateResponse, wire: Wire) -> bool:
    return (
        answer.error_code == Code.SASL_AUTHENTICATION_FAILED
        and not answer.auth_bytes
        and wire.frame() is None
    )


@pytest.mark.parametrize("mutual", [True, False])
@pytest.mark.parametrize("encrypted", [True, False])
def test_client_logs_in_with_or_without_mutual_authentication(
    stage: Stage, mutual: bool, encrypted: bool
) -> None:
    wire = begun(stage)
    client, offer = established(wire, mutual)
    assert offer == b"\x01\0\0\0"
    answer = authenticate(wire, client.wrap(LAYERS + f"alice@{REALM}".encode(), encrypted).message)
    assert (answer.error_code, bytes(answer.auth_bytes), answer.session_lifetime_ms) == (0, b"", 0)
    assert stage.server_side().session.principal == "User:alice"
    assert works(wire)


@pytest.mark.parametrize("choice", [b"\x02\0\xff\xff", b"\x04\0\xff\xff", b"\0\0\0\0", b"\x01\0\0"])
def test_security_layers_are_refused(stage: Stage, choice: bytes) -> None:
    wire = begun(stage)
    client, _ = established(wire)
    assert refused(authenticate(wire, client.wrap(choice, False).message), wire)


def test_client_cannot_ask_to_be_another(stage: Stage) -> None:
    wire = begun(stage)
    client, _ = established(wire)
    assert refused(
        authenticate(wire, client.wrap(LAYERS + f"bob@{REALM}".encode(), False).message), wire
    )


def test_choice_that_was_not_wrapped_by_this_context_is_refused(stage: Stage) -> None:
    wire, other = begun(stage), begun(stage)
    established(wire)
    client, _ = established(other)
    message = client.wrap(LAYERS, False).message
    assert refused(authenticate(wire, message), wire)
    changed = message[:-1] + bytes([message[-1] ^ 1])
    assert refused(authenticate(other, changed), other)


def test_token_is_taken_once(stage: Stage) -> None:
    token = context().step()
    assert authenticate(begun(stage), token).error_code == 0
    again = begun(stage)
    assert refused(authenticate(again, token), again)
    assert "Request is a replay" in stage.events("authentication_failed")[-1]["reason"]


def test_token_that_was_changed_is_refused(stage: Stage) -> None:
    token = context().step()
    # the authenticator, and before it the end of the ticket
    for at in range(len(token) - 240, len(token), 20):
        wire = begun(stage)
        assert refused(
            authenticate(wire, token[:at] + bytes([token[at] ^ 1]) + token[at + 1 :]), wire
        )
    for size in (0, 1, 10, len(token) - 1):
        wire = begun(stage)
        assert refused(authenticate(wire, token[:size]), wire)


def test_another_mechanism_within_gssapi_is_refused(stage: Stage) -> None:
    wire = begun(stage)
    assert refused(authenticate(wire, context(spnego=True).step()), wire)


def test_ticket_for_another_service_is_refused(kdc: Kdc, stage: Stage) -> None:
    kdc.add(f"other/{HOST}")
    wire = begun(stage)
    assert refused(authenticate(wire, context(f"other@{HOST}").step()), wire)


def test_session_ends_with_the_ticket_where_sessions_end(keytab: Path, alice: None) -> None:
    with Stage(**settings(keytab), connections_max_reauth_ms="3600000") as stage:
        wire = begun(stage)
        client, _ = established(wire)
        lifetime_ms = authenticate(wire, client.wrap(LAYERS, False).message).session_lifetime_ms
        assert 0 < lifetime_ms <= 60_000 + CLOCK_SKEW_MS


def test_node_whose_keys_cannot_be_used_refuses_and_says_why(
    keytab: Path, alice: None, tmp_path: Path
) -> None:
    garbage = tmp_path / "garbage"
    garbage.write_bytes(b"no keys")
    for given, principal in (
        (tmp_path / "none", NODE),
        (garbage, NODE),
        (keytab, f"kafka/elsewhere.{HOST}"),
    ):
        with Stage(**settings(given, principal)) as stage:
            wire = begun(stage)
            assert refused(authenticate(wire, context().step()), wire)
            reason = stage.events("authentication_failed")[-1]["reason"]
            assert "keytab" in reason.lower() or "key table" in reason.lower(), reason


def test_keys_that_are_changed_count_without_a_restart(kdc: Kdc, alice: None) -> None:
    keytab = kdc.add(f"later/{HOST}")
    with Stage(**settings(keytab, f"later/{HOST}")) as stage:
        for _ in range(2):
            wire = begun(stage)
            assert authenticate(wire, context(f"later@{HOST}").step()).error_code == 0
            kdc.change(f"later/{HOST}", keytab)
