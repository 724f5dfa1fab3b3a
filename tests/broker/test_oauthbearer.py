"""Login with tokens (OAUTHBEARER) on simulated nodes: keys from a file or by HTTP, sessions as long
as tokens, tokens without signatures.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from raftka.cluster.secured.authority import Authority, Issued
from raftka.http.answer_reader import HEAD_BYTES
from raftka.limits import KEY_SET_BYTES, KEY_SET_SECONDS
from raftka.metadata.configs.oauth import SECURED, UNSECURED, oauth_of
from raftka.metadata.configs.settings import NodeSettings, SettingError
from raftka.metadata.image import BROKER
from raftka.runtime.interfaces import Buffer, Connection, Transport
from raftka.runtime.real.files import lend
from raftka.security.oauth.jwt import unsecured_jwt
from raftka.security.oauth.oauthbearer import INVALID_TOKEN, OAUTHBEARER, OAuthBearerClient
from raftka.security.tls_connection import Side, TlsConnection, at_once
from raftka.security.tls_context import StoreFiles, read_material, server_context
from raftka.security.tls_settings import StoreSettings, TlsSettings
from raftka.wire.errors import Code
from raftka.wire.messages.configs import INCREMENTAL_ALTER_CONFIGS
from raftka.wire.messages.metadata import METADATA
from raftka.wire.messages.sasl import SASL_AUTHENTICATE, SASL_HANDSHAKE
from tests.broker.oauth import (
    KEYS,
    LATER_KEYS,
    OURS,
    SECURE,
    TRUSTING,
    begun,
    now_s,
    present,
    stage_with_keys,
)
from tests.broker.sasl import authenticate, logged_in, works
from tests.broker.stage import Stage
from tests.broker.tls import AUTHORITY
from tests.security.issuer import claims, jwks, rsa_row, token

CALLBACKS = "sasl.server.callback.handler.class"


@pytest.fixture(scope="module")
def shared() -> Iterator[Stage]:
    with stage_with_keys() as stage:
        yield stage


def test_token_lets_in_its_subject_as_long_as_it_is_valid(shared: Stage) -> None:
    wire = begun(shared)
    answer = present(wire, token(claims(now_s(shared))))
    assert (answer.error_code, bytes(answer.auth_bytes)) == (0, b"")
    assert 598_000 <= answer.session_lifetime_ms <= 600_000
    assert works(wire)
    session = shared.server_side().session
    assert (session.principal, session.mechanism) == ("User:olivia", OAUTHBEARER)


def test_invalid_token_is_answered_twice_and_then_the_connection_ends(shared: Stage) -> None:
    wire = begun(shared)
    answer = present(wire, token(claims(now_s(shared), aud="elsewhere")))
    assert (answer.error_code, bytes(answer.auth_bytes), answer.session_lifetime_ms) == (
        0,
        INVALID_TOKEN.encode(),
        0,
    )
    answer = authenticate(wire, b"\x01")
    assert (answer.error_code, answer.error_message, bytes(answer.auth_bytes)) == (
        Code.SASL_AUTHENTICATION_FAILED,
        INVALID_TOKEN,
        b"",
    )
    assert wire.frame() is None
    assert shared.events("authentication_failed")[-1]["reason"].endswith(
        "the token is invalid: it is for another audience (aud)"
    )


def test_no_second_token_after_an_invalid_one(shared: Stage) -> None:
    wire = begun(shared)
    assert bytes(present(wire, "a.b.c").auth_bytes) == INVALID_TOKEN.encode()
    answer = present(wire, token(claims(now_s(shared))))
    assert answer.error_code == Code.SASL_AUTHENTICATION_FAILED
    assert wire.frame() is None


def test_expired_token_never_gives_a_session_without_an_end(shared: Stage) -> None:
    """Also one that has expired within the skew: session_lifetime_ms 0 would mean never."""
    now = now_s(shared)
    answer = present(begun(shared), token(claims(now - 60, exp=int(now) - 5)))
    assert bytes(answer.auth_bytes) == INVALID_TOKEN.encode()


@pytest.mark.parametrize("session_ms", ["0", "3600000"])
def test_token_renews_a_session(session_ms: str) -> None:
    with stage_with_keys(connections_max_reauth_ms=session_ms) as stage:
        wire = begun(stage)
        assert (
            present(
                wire, token(claims(now_s(stage), exp=int(now_s(stage)) + 8))
            ).session_lifetime_ms
            <= 8000
        )
        stage.world.run(stage.world.now + 5)
        assert (
            wire.ask(SASL_HANDSHAKE, SASL_HANDSHAKE.request(mechanism=OAUTHBEARER)).error_code == 0
        )
        assert present(wire, token(claims(now_s(stage)))).session_lifetime_ms > 500_000
        stage.world.run(stage.world.now + 5)
        assert works(wire)
        assert (
            wire.ask(SASL_HANDSHAKE, SASL_HANDSHAKE.request(mechanism=OAUTHBEARER)).error_code == 0
        )
        answer = present(wire, token(claims(now_s(stage), sub="admin")))
        assert (answer.error_code, answer.error_message) == (
            Code.SASL_AUTHENTICATION_FAILED,
            "Cannot change principals during re-authentication",
        )


def test_request_after_the_end_of_the_token_ends_the_connection(shared: Stage) -> None:
    wire = begun(shared)
    present(wire, token(claims(now_s(shared), exp=int(now_s(shared)) + 3)))
    shared.world.run(shared.world.now + 4)
    wire.request(METADATA, METADATA.request(topics=[]))
    assert wire.frame() is None


def test_login_waits_for_the_keys_by_coming_again() -> None:
    with Stage(wait=False, **SECURE) as stage:
        stage.wait(stage.nodes[1].ready.is_set)
        wire = begun(stage)
        wire.request(
            SASL_AUTHENTICATE,
            SASL_AUTHENTICATE.request(
                auth_bytes=OAuthBearerClient(token(claims(now_s(stage)))).first()
            ),
        )
        assert wire.frame() is None, "neither let in nor refused"
        assert stage.counted("raftka_failed_authentications_total") == 0
        assert stage.events("issuer_keys_failed")
        stage.put("/keys.json", KEYS)
        stage.wait(lambda: bool(stage.events("issuer_keys_loaded")))
        assert present(begun(stage), token(claims(now_s(stage)))).error_code == 0


def test_unknown_key_has_the_keys_read_again_once_a_minute() -> None:
    with stage_with_keys() as stage:
        stage.put("/keys.json", LATER_KEYS)
        new = token(claims(now_s(stage)), key="k2", kid="k2")
        assert bytes(present(begun(stage), new).auth_bytes) == INVALID_TOKEN.encode()
        stage.world.run(stage.world.now + 1)
        assert bytes(present(begun(stage), new).auth_bytes) == b""
        stage.put("/keys.json", KEYS)
        for _ in range(3):
            present(begun(stage), token(claims(now_s(stage)), kid="k3"))
            stage.world.run(stage.world.now + 1)
        assert bytes(present(begun(stage), new).auth_bytes) == b"", (
            "keys are read once a minute, not for each stranger"
        )


def test_keys_are_kept_while_new_ones_cannot_be_read() -> None:
    with stage_with_keys(**{f"{OURS}jwks.endpoint.refresh.ms": "5000"}) as stage:
        stage.put("/keys.json", "no keys")
        stage.wait(lambda: bool(stage.events("issuer_keys_failed")))
        assert bytes(present(begun(stage), token(claims(now_s(stage)))).auth_bytes) == b""
        stage.put("/keys.json", jwks(rsa_row("k2")).decode())
        stage.world.run(stage.world.now + 20)
        assert (
            bytes(present(begun(stage), token(claims(now_s(stage)))).auth_bytes)
            == INVALID_TOKEN.encode()
        ), "a key that is gone"


class HttpServer:
    """Answers every request with the same bytes, after it has come."""

    def __init__(self, answer: bytes, requests: list[bytes], *, close: bool) -> None:
        self.answer, self.requests, self.close = answer, requests, close
        self._transport: Transport
        self._output: list[Buffer] = []

    def opened(self, transport: Transport) -> None:
        self._transport = transport

    def room(self) -> memoryview | None:
        return None

    def receive(self, view: memoryview) -> None:
        if view:
            self.requests.append(bytes(view))
            self._output = [self.answer] if self.answer else []
            self._transport.wake()
            if self.close:
                self._transport.close("answered")

    def take_output(self) -> Sequence[Buffer]:
        output, self._output = self._output, []
        return output

    def closed(self, reason: str) -> None:
        pass


def http(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", *headers, "", ""]).encode() + body


def chunked(body: bytes) -> bytes:
    return (
        b"".join(b"%x;a=b\r\n%b\r\n" % (len(part), part) for part in (body[:100], body[100:]))
        + b"0\r\n\r\n"
    )


def stage_with_server(
    answer: bytes, *, close: bool = True, own: Issued | None = None
) -> tuple[Stage, list[bytes]]:
    """`own`: the server's certificate, and it speaks TLS."""
    url = f"{'http' if own is None else 'https'}://issuer:8080/keys?a=b"
    line = (
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
        f'ssl.truststore.certificates="{AUTHORITY.trusted}";'
    )
    jaas = {"listener.name.plaintext.oauthbearer.sasl.jaas.config": line}
    settings: dict[str, Any] = {
        **SECURE,
        **(jaas if own is not None else {}),
        f"{OURS}jwks.endpoint.url": url,
    }
    stage = Stage(wait=False, **settings)
    requests: list[bytes] = []

    def accept() -> Connection:
        server = HttpServer(answer, requests, close=close)
        return server if own is None else with_tls(server, own)

    stage.world.node("issuer").network.listen("issuer", 8080, accept)
    stage.wait(stage.nodes[1].ready.is_set)
    return stage, requests


def with_tls(server: HttpServer, own: Issued) -> TlsConnection:
    settings = TlsSettings(StoreSettings(text=own.key_store))
    files = StoreFiles(lambda path: b"", lend)
    return TlsConnection(
        server, server_context(settings, read_material(settings, files), files), Side(None), at_once
    )


BODY = KEYS.encode()
ANSWERS = {
    "with its length": (http(BODY, f"Content-Length: {len(BODY)}"), False),
    "until the end": (http(BODY), True),
    "in chunks": (http(chunked(BODY), "transfer-encoding: Chunked"), False),
}


@pytest.mark.parametrize("case", ANSWERS)
def test_keys_come_by_http(case: str) -> None:
    answer, close = ANSWERS[case]
    stage, requests = stage_with_server(answer, close=close)
    with stage:
        stage.wait(lambda: bool(stage.events("issuer_keys_loaded")))
        assert requests[-1].startswith(b"GET /keys?a=b HTTP/1.1\r\nHost: issuer:8080\r\n")
        assert bytes(present(begun(stage), token(claims(now_s(stage)))).auth_bytes) == b""


def test_keys_come_by_https_from_the_host_that_the_url_names() -> None:
    stage, _ = stage_with_server(http(BODY), own=AUTHORITY.issue("issuer", ["issuer"]))
    with stage:
        stage.wait(lambda: bool(stage.events("issuer_keys_loaded")))
    for stranger in (
        AUTHORITY.issue("other", ["other"]),
        Authority("another", edwards=True).issue("issuer", ["issuer"]),
    ):
        stage, requests = stage_with_server(http(BODY), own=stranger)
        with stage:
            stage.wait(lambda: bool(stage.events("issuer_keys_failed")))  # noqa: B023
            assert "CERTIFICATE_VERIFY_FAILED" in stage.events("issuer_keys_failed")[0][
                "reason"
            ].upper().replace(" ", "_")
            assert requests == []


REFUSED = {
    "redirect": (
        http(b"", "Location: http://n1:9092/", status="302 Found"),
        "redirects are not followed",
    ),
    "not there": (http(b"", status="404 Not Found"), "the answer is 404"),
    "too short": (http(BODY[:50], f"Content-Length: {len(BODY)}"), "ends too early"),
    "too long": (http(b"", f"Content-Length: {KEY_SET_BYTES.value + 1}"), "ends too early"),
    "endless": (http(b"x" * (2 * KEY_SET_BYTES.value + HEAD_BYTES + 1)), KEY_SET_BYTES.name),
    "long head": (b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 4000, "head of the answer is too long"),
    "compressed": (http(BODY, "Content-Encoding: gzip"), "compressed"),
    "odd chunks": (http(b"zz\r\n", "Transfer-Encoding: chunked"), "chunk size"),
    "odd length": (http(b"", "Content-Length: many"), "Content-Length"),
    "no HTTP": (b"220 mail\r\n\r\n", "no HTTP"),
    "no keys": (http(b"{}"), "no JSON object"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_answer_without_keys_is_told_and_asked_again(case: str) -> None:
    answer, reason = REFUSED[case]
    stage, requests = stage_with_server(answer)
    with stage:
        stage.wait(lambda: len(stage.events("issuer_keys_failed")) > 2)
        assert reason in stage.events("issuer_keys_failed")[0]["reason"]
        assert len(requests) > 1
        assert bool(stage.counted(KEY_SET_BYTES.metric)) is (case == "endless")


def test_issuer_that_does_not_answer_is_given_up() -> None:
    stage, _ = stage_with_server(b"", close=False)
    with stage:
        stage.wait(
            lambda: bool(stage.events("issuer_keys_failed")), at_most_s=2 * KEY_SET_SECONDS.value
        )
        assert KEY_SET_SECONDS.name in stage.events("issuer_keys_failed")[0]["reason"]
        assert stage.counted(KEY_SET_SECONDS.metric) == 1


def test_token_without_a_signature_is_taken_where_that_is_asked_for() -> None:
    with Stage(**TRUSTING) as stage:
        assert stage.events("unsecured_tokens")
        now = int(now_s(stage))
        wire = begun(stage)
        assert (
            0
            < present(wire, unsecured_jwt({"sub": "anybody", "exp": now + 60})).session_lifetime_ms
            <= 60_000
        )
        assert works(wire)
        for refused in (
            token(claims(now)),
            unsecured_jwt({"sub": "x", "exp": now - 1}),
            unsecured_jwt({"sub": "x", "exp": now + 60}) + "AAAA",
        ):
            assert bytes(present(begun(stage), refused).auth_bytes) == INVALID_TOKEN.encode()


def settings(**changes: str | None) -> NodeSettings:
    properties = {
        name.replace("_", "."): value
        for name, value in {**SECURE, **changes}.items()
        if value is not None
    }
    basis = {
        "node.id": "1",
        "process.roles": "broker,controller",
        "listeners": "PLAINTEXT://h:9092,CONTROLLER://h:9093",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": "1@h:9093",
    }
    return NodeSettings.from_properties({**basis, **properties})


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({f"{OURS}jwks.endpoint.url": None}, "OAUTHBEARER needs the keys of the tokens' issuer"),
        ({f"{OURS}jwks.endpoint.url": "ftp://h/keys"}, "must be file:///path, https://"),
        ({f"{OURS}jwks.endpoint.url": "https:///keys"}, "must be file:///path, https://"),
        (
            {f"{OURS}jwks.endpoint.url": "https://user:secret@h/keys"},
            "must be file:///path, https://",
        ),
        ({f"{OURS}jwks.endpoint.url": "http://h/a b"}, "must be file:///path, https://"),
        ({f"{OURS}jwks.endpoint.url": "file://h/keys"}, "must be file:///path, https://"),
        ({f"{OURS}expected.audience": None}, "allow.unverified.audience=true to take tokens"),
        ({f"{OURS}expected.issuer": ""}, "set sasl.oauthbearer.expected.issuer, or"),
        ({f"{OURS}sub.claim.name": ""}, "String must be non-empty"),
        ({"sasl_server_callback_handler_class": UNSECURED}, "remove one of them"),
        ({"sasl_server_callback_handler_class": "com.example.Handler"}, "String must be one of"),
        (
            {f"listener.name.plaintext.plain.{CALLBACKS}": "com.example.Handler"},
            "String must be one of",
        ),
        ({"sasl_oauthbearer_jwt_validator_class": "com.example.Validator"}, "no class is loaded"),
        ({"sasl_enabled_mechanisms": "GSSAPI"}, "GSSAPI"),
    ],
)
def test_settings_with_which_nobody_is_safe_are_refused(
    changes: dict[str, str | None], text: str
) -> None:
    with pytest.raises(SettingError, match=text):
        settings(**changes)


def test_audience_and_issuer_may_be_left_out_by_name() -> None:
    unverified = {f"{OURS}expected.{name}": None for name in ("audience", "issuer")} | {
        f"sasl_oauthbearer_allow_unverified_{name}": "true" for name in ("audience", "issuer")
    }
    given = settings(**unverified)
    expected = oauth_of(given.values, "PLAINTEXT", None).expected
    assert (expected.audiences, expected.issuer) == ((), None)


def test_kafkas_class_for_signed_tokens_may_be_named() -> None:
    assert settings(sasl_server_callback_handler_class=SECURED).node_id == 1


def test_who_issues_tokens_cannot_be_changed_while_the_node_runs(shared: Stage) -> None:
    request = INCREMENTAL_ALTER_CONFIGS.request
    for name in (
        f"{OURS}jwks.endpoint.url",
        "listener.name.plaintext.oauthbearer.sasl.server.callback.handler.class",
    ):
        config = request.resources.configs(
            name=name, config_operation=0, value="file:///other.json"
        )
        resource = request.resources(resource_type=BROKER, resource_name="1", configs=[config])
        (answer,) = (
            logged_in(shared)
            .ask(INCREMENTAL_ALTER_CONFIGS, request(resources=[resource]))
            .responses
        )
        assert answer.error_code == Code.INVALID_REQUEST
        assert "Cannot update these configs dynamically" in (answer.error_message or "")
