"""Kerberos logins on simulated nodes, with a scripted library: what a client may choose and ask
for, who it becomes, and for how long.
"""

from collections.abc import Iterator

import pytest

from raftka.limits import PRINCIPAL_LENGTH
from raftka.metadata.configs import logins
from raftka.metadata.configs.settings import NodeSettings, SettingError
from raftka.security.kerberos.library import KerberosLogin
from raftka.security.kerberos.mechanism import LAYERS
from raftka.security.mechanism import GSSAPI
from raftka.wire.errors import Code
from raftka.wire.messages.configs import INCREMENTAL_ALTER_CONFIGS
from raftka.wire.messages.metadata import METADATA
from raftka.wire.messages.sasl import SASL_AUTHENTICATE, SASL_HANDSHAKE
from tests.broker.kerberos import KERBEROS, LINE, WRAPPED, begun, kerberos_stage, log_in, ticket
from tests.broker.sasl import authenticate, logged_in, works
from tests.broker.stage import Stage

REFUSED = (
    "Authentication failed during authentication due to invalid credentials with SASL mechanism "
    "GSSAPI"
)
RULES = "sasl_kerberos_principal_to_local_rules"
JAAS = "listener.name.plaintext.gssapi.sasl.jaas.config"


@pytest.fixture(scope="module")
def shared() -> Iterator[Stage]:
    with kerberos_stage(
        **{
            RULES: (
                "RULE:[2:$1-$2@$0](.*@HOME)s/@.*//,RULE:[1:$1@$0](.*@ABROAD)s/@.*/-abroad/L,DEFAULT"
            )
        }
    ) as stage:
        yield stage
        assert not stage.world.failures


@pytest.mark.parametrize(
    ("principal", "user"),
    [
        ("alice@HOME", "alice"),
        ("web/host@HOME", "web-host"),
        ("short/cut@HOME", "short-cut"),
        ("Bob@ABROAD", "bob-abroad"),
    ],
)
def test_client_is_the_user_that_the_rules_make_of_its_principal(
    shared: Stage, principal: str, user: str
) -> None:
    wire = begun(shared)
    answer = log_in(wire, principal)
    assert (
        answer.error_code,
        answer.error_message,
        bytes(answer.auth_bytes),
        answer.session_lifetime_ms,
    ) == (0, "", b"", 0)
    session = shared.server_side().session
    assert (session.principal, session.mechanism, session.authenticated) == (
        f"User:{user}",
        GSSAPI,
        True,
    )
    assert works(wire)


@pytest.mark.parametrize(
    "asked", ["", "alice@HOME", "alice", "kafka@n1", "kafka@127.0.0.1", "kafka/n1@HOME"]
)
def test_authorization_id_may_be_the_client_or_the_service(shared: Stage, asked: str) -> None:
    wire = begun(shared)
    assert log_in(wire, "alice@HOME", asked).error_code == 0
    assert shared.server_side().session.principal == "User:alice"


@pytest.mark.parametrize(
    "asked",
    [
        "bob",
        "bob@HOME",
        "alice@ABROAD",
        "ALICE@HOME",
        "alice@HOME\0",
        "kafka-x@n1",
        "kafka/n2@HOME",
        " ",
    ],
)
def test_another_authorization_id_is_refused(shared: Stage, asked: str) -> None:
    wire = begun(shared)
    answer = log_in(wire, "alice@HOME", asked)
    assert (answer.error_code, answer.error_message) == (Code.SASL_AUTHENTICATION_FAILED, REFUSED)
    assert wire.frame() is None


@pytest.mark.parametrize(
    "choice",
    [
        b"",
        b"\x01",
        b"\x01\0\0",
        b"\0\0\0\0",
        b"\x02\0\xff\xff",
        b"\x03\0\0\0",
        b"\x05\0\0\0",
        b"\xff\0\0\0",
    ],
)
def test_only_the_layer_that_was_offered_may_be_chosen(shared: Stage, choice: bytes) -> None:
    wire = begun(shared)
    assert log_in(wire, "alice@HOME", choice=choice).error_code == Code.SASL_AUTHENTICATION_FAILED
    assert wire.frame() is None


@pytest.mark.parametrize(
    "principal",
    [
        "alice@ELSEWHERE",
        "Alice/root@ELSEWHERE",
        "a/b/c@HOME",
        "alice",
        "@HOME",
        "al\\/ice@HOME",
        "al ice@HOME",
        "WELLKNOWN/ANONYMOUS@HOME",
    ],
)
def test_principal_without_a_user_is_refused(shared: Stage, principal: str) -> None:
    wire = begun(shared)
    assert log_in(wire, principal).error_code == Code.SASL_AUTHENTICATION_FAILED
    assert wire.frame() is None


@pytest.mark.parametrize(
    "tokens",
    [
        [b"nonsense"],
        [b""],
        [ticket("alice@HOME"), b"a token too many"],
        [ticket("alice@HOME"), b"", LAYERS],
        [ticket("alice@HOME"), b"", WRAPPED + LAYERS + b"\xff"],
        [ticket("alice@HOME"), b"", ticket("alice@HOME")],
    ],
)
def test_message_out_of_its_place_is_refused(shared: Stage, tokens: list[bytes]) -> None:
    wire = begun(shared)
    for token in tokens[:-1]:
        assert authenticate(wire, token).error_code == 0
    assert authenticate(wire, tokens[-1]).error_code == Code.SASL_AUTHENTICATION_FAILED
    assert wire.frame() is None


def test_context_may_take_several_rounds(shared: Stage) -> None:
    wire = begun(shared)
    assert [bytes(authenticate(wire, b"again").auth_bytes) for _ in range(3)] == [b"again"] * 3
    assert log_in(wire, "alice@HOME").error_code == 0


def test_request_behind_a_step_waits_for_it(shared: Stage) -> None:
    """Steps are taken beside the loop: what comes meanwhile is for the state after them."""
    wire = begun(shared)
    for token in (ticket("alice@HOME"), b"", WRAPPED + LAYERS):
        wire.request(SASL_AUTHENTICATE, SASL_AUTHENTICATE.request(auth_bytes=token), 2)
    wire.request(METADATA, METADATA.request(topics=[]))
    assert [wire.answer(SASL_AUTHENTICATE, 2).error_code for _ in range(3)] == [0] * 3
    assert wire.answer(METADATA).brokers
    wire = begun(shared)
    wire.request(SASL_AUTHENTICATE, SASL_AUTHENTICATE.request(auth_bytes=ticket("alice@HOME")), 2)
    wire.request(METADATA, METADATA.request(topics=[]))
    assert wire.answer(SASL_AUTHENTICATE, 2).error_code == 0
    assert wire.frame() is None, "Metadata in the middle of a login"


def test_client_that_leaves_in_the_middle_of_a_step_holds_nobody_up(shared: Stage) -> None:
    leaving = [begun(shared) for _ in range(3)]
    for wire in leaving:
        wire.request(
            SASL_AUTHENTICATE, SASL_AUTHENTICATE.request(auth_bytes=ticket("alice@HOME")), 2
        )
        wire.close()
    assert log_in(begun(shared), "alice@HOME").error_code == 0


def test_bare_tokens_follow_a_handshake_of_version_0(shared: Stage) -> None:
    wire = shared.wire()
    wire.ask(SASL_HANDSHAKE, SASL_HANDSHAKE.request(mechanism=GSSAPI), 0)
    for token, reply in (
        (ticket("alice@HOME"), b"I am kafka"),
        (b"", WRAPPED + LAYERS),
        (WRAPPED + LAYERS, b""),
    ):
        wire.send_frame(token)
        assert wire.frame() == reply
    assert works(wire)


def test_principal_that_is_too_long_ends_the_connection(shared: Stage) -> None:
    counted = shared.counted(PRINCIPAL_LENGTH.metric)
    wire = begun(shared)
    assert log_in(wire, "a" * (PRINCIPAL_LENGTH.value - 5) + "@HOME").error_code == 0
    wire = begun(shared)
    for token in (ticket("a" * (PRINCIPAL_LENGTH.value - 4) + "@HOME"), b""):
        assert authenticate(wire, token).error_code == 0
    wire.request(SASL_AUTHENTICATE, SASL_AUTHENTICATE.request(auth_bytes=WRAPPED + LAYERS), 2)
    assert wire.frame() is None
    assert shared.counted(PRINCIPAL_LENGTH.metric) == counted + 1


def test_log_has_the_reason_and_the_client_has_not(shared: Stage) -> None:
    before = len(shared.events("authentication_failed"))
    answer = log_in(begun(shared), "alice@HOME", "bob@HOME")
    assert answer.error_message == REFUSED
    (event,) = shared.events("authentication_failed")[before:]
    assert (
        event["reason"]
        == "authentication with GSSAPI failed: alice@HOME asked to be another: 'bob@HOME'"
    )


def test_session_ends_with_the_ticket_where_sessions_end() -> None:
    with kerberos_stage(connections_max_reauth_ms="60000") as stage:
        wire = begun(stage)
        assert 0 < log_in(wire, "alice@HOME", life_s=5).session_lifetime_ms <= 5000
        stage.world.run(stage.world.now + 2)
        assert wire.ask(SASL_HANDSHAKE, SASL_HANDSHAKE.request(mechanism=GSSAPI)).error_code == 0
        assert log_in(wire, "bob@HOME").error_code == Code.SASL_AUTHENTICATION_FAILED, (
            "another user goes on with the session"
        )
        wire = begun(stage)
        assert log_in(wire, "alice@HOME", life_s=5).error_code == 0
        stage.world.run(stage.world.now + 2)
        assert wire.ask(SASL_HANDSHAKE, SASL_HANDSHAKE.request(mechanism=GSSAPI)).error_code == 0
        assert log_in(wire, "alice@HOME", life_s=3600).session_lifetime_ms == 60000
        stage.world.run(stage.world.now + 61)
        wire.request(METADATA, METADATA.request(topics=[]))
        assert wire.frame() is None, "the session has ended"
        assert (
            log_in(begun(stage), "alice@HOME", life_s=0).error_code
            == Code.SASL_AUTHENTICATION_FAILED
        ), "a ticket that has ended"


def test_keys_and_rules_change_while_the_node_runs() -> None:
    with kerberos_stage() as stage:
        request = INCREMENTAL_ALTER_CONFIGS.request

        def changed(name: str, value: str) -> int:
            config = request.resources.configs(name=name, config_operation=0, value=value)
            row = request(
                resources=[request.resources(resource_type=4, resource_name="1", configs=[config])]
            )
            return logged_in(stage).ask(INCREMENTAL_ALTER_CONFIGS, row).responses[0].error_code

        prefix = "listener.name.plaintext.gssapi.sasl"
        assert log_in(begun(stage), "alice@HOME").error_code == 0
        assert changed(f"{prefix}.kerberos.principal.to.local.rules", "RULE:[1:$1](a.*)/U") == 0
        assert log_in(begun(stage), "alice@HOME").error_code == 0
        assert stage.server_side().session.principal == "User:ALICE"
        assert log_in(begun(stage), "bob@HOME").error_code == Code.SASL_AUTHENTICATION_FAILED
        assert (
            changed(f"{prefix}.kerberos.principal.to.local.rules", "RULE:[3:$1]")
            == Code.INVALID_REQUEST
        )
        assert changed(f"{prefix}.jaas.config", LINE.replace("kafka/n1", "alice")) == 0
        answer = stage.wire().ask(SASL_HANDSHAKE, SASL_HANDSHAKE.request(mechanism=GSSAPI))
        assert (answer.error_code, answer.mechanisms) == (
            Code.UNSUPPORTED_SASL_MECHANISM,
            ["PLAIN", "GSSAPI"],
        )
        (event,) = stage.events("kerberos_refused")
        assert "with its realm" in event["reason"]
        assert works(logged_in(stage))


def settings(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, str | None], *, installed: bool = True
) -> NodeSettings:
    monkeypatch.setattr(logins, "is_installed", lambda: installed)
    basis = {
        "node.id": "1",
        "process.roles": "broker,controller",
        "listeners": "PLAINTEXT://h:9092,CONTROLLER://h:9093",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": "1@h:9093",
    }
    given = {
        name.replace("_", "."): value
        for name, value in {**KERBEROS, **changes}.items()
        if value is not None
    }
    return NodeSettings.from_properties(basis | given)


def test_node_without_the_extra_is_told_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        SettingError,
        match=(
            r"listener PLAINTEXT: GSSAPI .* not installed: pip install 'raftka\[gssapi\]'; or "
            r"set sasl.enabled.mech"
        ),
    ):
        settings(monkeypatch, {}, installed=False)
    assert settings(monkeypatch, {"sasl_enabled_mechanisms": "PLAIN"}, installed=False).node_id == 1


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {JAAS: None},
            "GSSAPI needs the node's keys: listener.name.plaintext.gssapi.sasl.jaas.config=com.sun",
        ),
        ({JAAS: LINE.replace("useKeyTab=true", "useTicketCache=true")}, "must have useKeyTab=true"),
        ({JAAS: LINE.replace("/keys", "keys")}, "must be an absolute path"),
        ({JAAS: LINE.replace("/keys", "MEMORY:keys")}, "must be an absolute path"),
        ({JAAS: LINE.replace("kafka/n1@HOME", "kafka@HOME")}, "with its realm"),
        ({JAAS: LINE.replace("kafka/n1@HOME", "kafka/n1")}, "with its realm"),
        (
            {JAAS: LINE.replace("Krb5LoginModule", "Krb6LoginModule")},
            "the login module is not one of",
        ),
        (
            {"sasl_kerberos_service_name": "broker"},
            "the principal kafka/n1@HOME is not one of sasl.kerberos.service.name, broker",
        ),
        ({RULES: "RULE:[1:$1](.*)(.*)"}, "Invalid value RULE:.* is not RULE:"),
        (
            {
                "listener_security_protocol_map": (
                    "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT"
                ),
                "listener.name.controller.sasl.enabled.mechanisms": "GSSAPI",
                "listener.name.controller.gssapi.sasl.jaas.config": LINE,
                "sasl_mechanism_controller_protocol": "GSSAPI",
            },
            "nodes do not log in at controllers with GSSAPI",
        ),
    ],
)
def test_settings_with_which_nobody_could_log_in_are_refused(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, str | None], text: str
) -> None:
    with pytest.raises(SettingError, match=text):
        settings(monkeypatch, changes)


@pytest.mark.parametrize("keytab", ["/keys", "file:/keys", "FILE:///keys"])
def test_keytab_is_a_path_or_javas_url_of_one(monkeypatch: pytest.MonkeyPatch, keytab: str) -> None:
    found = settings(
        monkeypatch,
        {JAAS: LINE.replace("/keys", keytab), "sasl_mechanism_inter_broker_protocol": "GSSAPI"},
    )
    assert found.between_brokers.kerberos == KerberosLogin("kafka", "kafka/n1@HOME", "/keys")
