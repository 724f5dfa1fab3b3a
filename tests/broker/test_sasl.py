"""Login by SASL on simulated nodes: what is answered before the client is known, and what ends the
connection.
"""

from collections.abc import Iterator

import pytest

from raftka.limits import LOGIN_BYTES
from raftka.security.scram import SHA_256, SHA_512
from raftka.wire.errors import Code
from raftka.wire.messages.api_versions import API_VERSIONS
from raftka.wire.messages.metadata import METADATA
from raftka.wire.messages.sasl import SASL_AUTHENTICATE, SASL_HANDSHAKE
from raftka.wire.messages.scram import (
    ALTER_USER_SCRAM_CREDENTIALS,
    DESCRIBE_USER_SCRAM_CREDENTIALS,
    ScramCredentialUpsertion,
)
from tests.broker.sasl import SECURE, add_users, authenticate, log_in, logged_in, works
from tests.broker.stage import Stage

GENERIC = (
    "Authentication failed during authentication due to invalid credentials with SASL mechanism {}"
)


@pytest.fixture(scope="module")
def shared() -> Iterator[Stage]:
    with Stage(**SECURE) as stage:
        add_users(stage)
        yield stage


@pytest.mark.parametrize("mechanism", [SHA_256, SHA_512])
@pytest.mark.parametrize("user", ["alice", "a,b=c", "üser"])
def test_scram_lets_in_users_of_the_metadata(shared: Stage, mechanism: str, user: str) -> None:
    wire = logged_in(shared, mechanism, user, f"{user}-secret")
    assert works(wire)
    session = shared.server_side().session
    assert (session.principal, session.mechanism, session.authenticated) == (
        f"User:{user}",
        mechanism,
        True,
    )


@pytest.mark.parametrize(("user", "password"), [("alice", "wrong"), ("nobody", "alice-secret")])
def test_wrong_password_and_unknown_user_look_alike(
    shared: Stage, user: str, password: str
) -> None:
    wire = shared.wire()
    answer = log_in(wire, SHA_256, user, password)
    assert (answer.error_code, answer.error_message) == (
        Code.SASL_AUTHENTICATION_FAILED,
        GENERIC.format(SHA_256),
    )
    assert wire.frame() is None


def test_unknown_user_has_the_same_salt_each_time(shared: Stage) -> None:
    salts = []
    for _ in range(2):
        wire = shared.wire()
        wire.ask(SASL_HANDSHAKE, SASL_HANDSHAKE.request(mechanism=SHA_256))
        server_first = bytes(authenticate(wire, b"n,,n=nobody,r=abc").auth_bytes).decode()
        salts.append(server_first.split(",")[1])
        assert server_first.endswith("i=4096")
    assert salts[0] == salts[1]


@pytest.mark.parametrize(
    ("token", "message"),
    [
        (b"\0pat\0nope", "Authentication failed: Invalid username or password"),
        (b"\0nobody\0nope", "Authentication failed: Invalid username or password"),
        (b"\0\0nope", "Authentication failed: username not specified"),
        (b"\0pat\0", "Authentication failed: password not specified"),
        (b"pat-secret", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (
            b"alice\0pat\0pat-secret",
            "Authentication failed: Client requested an authorization id that is different from "
            "username",
        ),
    ],
)
def test_plain_is_refused_with_kafkas_words(shared: Stage, token: bytes, message: str) -> None:
    wire = shared.wire()
    wire.ask(SASL_HANDSHAKE, SASL_HANDSHAKE.request(mechanism="PLAIN"))
    began = shared.world.now
    answer = authenticate(wire, token)
    assert (answer.error_code, answer.error_message, bytes(answer.auth_bytes)) == (
        Code.SASL_AUTHENTICATION_FAILED,
        message,
        b"",
    )
    assert shared.world.now - began >= 0.1
    assert wire.frame() is None


def test_nothing_but_the_login_is_answered_before_it(shared: Stage) -> None:
    wire = shared.wire()
    wire.request(METADATA, METADATA.request(topics=[]))
    assert wire.frame() is None
    wire = shared.wire()
    wire.ask(SASL_HANDSHAKE, SASL_HANDSHAKE.request(mechanism="PLAIN"))
    wire.request(METADATA, METADATA.request(topics=[]))
    assert wire.frame() is None


def test_versions_are_answered_once(shared: Stage) -> None:
    wire = shared.wire()
    row = API_VERSIONS.request(client_software_name="test", client_software_version="1")
    refused = wire.ask(
        API_VERSIONS,
        API_VERSIONS.request(client_software_name="no good", client_software_version="1"),
    )
    assert refused.error_code == Code.INVALID_REQUEST
    row.cluster_id, row.node_id = shared.nodes[1].image.cluster_id, 2
    assert wire.ask(API_VERSIONS, row).error_code == Code.REBOOTSTRAP_REQUIRED
    row.node_id = 1
    keys = {each.api_key for each in wire.ask(API_VERSIONS, row).api_keys}
    assert {SASL_HANDSHAKE.key, SASL_AUTHENTICATE.key} <= keys
    wire.request(API_VERSIONS, row)
    assert wire.frame() is None


def test_unknown_mechanism_is_told_which_there_are(shared: Stage) -> None:
    wire = shared.wire()
    answer = wire.ask(SASL_HANDSHAKE, SASL_HANDSHAKE.request(mechanism="scram-sha-256"))
    assert (answer.error_code, answer.mechanisms) == (
        Code.UNSUPPORTED_SASL_MECHANISM,
        ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"],
    )
    assert wire.frame() is None


def test_second_handshake_ends_the_connection(shared: Stage) -> None:
    wire = shared.wire()
    wire.ask(SASL_HANDSHAKE, SASL_HANDSHAKE.request(mechanism="PLAIN"))
    assert (
        wire.ask(SASL_HANDSHAKE, SASL_HANDSHAKE.request(mechanism="PLAIN")).error_code
        == Code.ILLEGAL_SASL_STATE
    )
    assert wire.frame() is None


def test_bare_tokens_follow_a_handshake_of_version_0(shared: Stage) -> None:
    wire = shared.wire()
    wire.ask(SASL_HANDSHAKE, SASL_HANDSHAKE.request(mechanism="PLAIN"), 0)
    wire.send_frame(b"\0pat\0pat-secret")
    assert wire.frame() == b""
    assert works(wire)
    wire = shared.wire()
    wire.ask(SASL_HANDSHAKE, SASL_HANDSHAKE.request(mechanism="PLAIN"), 0)
    wire.send_frame(b"\0pat\0wrong")
    assert wire.frame() is None


def test_login_after_the_login_is_refused_and_the_connection_stays(shared: Stage) -> None:
    wire = logged_in(shared)
    answer = authenticate(wire, b"\0pat\0pat-secret")
    assert (answer.error_code, answer.error_message) == (
        Code.ILLEGAL_SASL_STATE,
        "SaslAuthenticate request received after successful authentication",
    )
    assert (
        wire.ask(SASL_HANDSHAKE, SASL_HANDSHAKE.request(mechanism="PLAIN")).error_code
        == Code.ILLEGAL_SASL_STATE
    )
    assert works(wire)


def test_large_frame_before_the_login_is_refused_by_its_size(shared: Stage) -> None:
    wire = shared.wire()
    wire.send((LOGIN_BYTES.value + 1).to_bytes(4, "big"))
    assert wire.frame() is None
    assert "a frame of 65537 bytes" in shared.events("connection_refused")[-1]["reason"]


def test_requests_in_one_write_are_served_in_order(shared: Stage) -> None:
    wire = shared.wire()
    wire.request(SASL_HANDSHAKE, SASL_HANDSHAKE.request(mechanism="PLAIN"))
    wire.request(SASL_AUTHENTICATE, SASL_AUTHENTICATE.request(auth_bytes=b"\0pat\0pat-secret"))
    wire.request(METADATA, METADATA.request(topics=[]))
    assert wire.answer(SASL_HANDSHAKE).error_code == 0
    assert wire.answer(SASL_AUTHENTICATE).error_code == 0
    assert wire.answer(METADATA).brokers


def test_client_that_never_logs_in_is_closed(shared: Stage) -> None:
    wire = shared.wire()
    shared.wait(lambda: wire.close_reason is not None)


def test_describe_shows_iterations_and_no_key(shared: Stage) -> None:
    row = DESCRIBE_USER_SCRAM_CREDENTIALS.request
    answer = logged_in(shared).ask(DESCRIBE_USER_SCRAM_CREDENTIALS, row(users=None))
    assert {each.user for each in answer.results} == {"alice", "a,b=c", "üser"}
    assert [(each.mechanism, each.iterations) for each in answer.results[0].credential_infos] == [
        (1, 4096),
        (2, 4096),
    ]


def test_bad_credentials_are_refused_and_the_others_kept(shared: Stage) -> None:
    row, admin = ALTER_USER_SCRAM_CREDENTIALS.request, logged_in(shared)

    def upsertion(
        name: str, mechanism: int = 1, iterations: int = 4096, salt: bytes = b"salt", size: int = 32
    ) -> ScramCredentialUpsertion:
        return row.upsertions(
            name=name,
            mechanism=mechanism,
            iterations=iterations,
            salt=salt,
            salted_password=bytes(size),
        )

    upsertions = [
        upsertion("few", iterations=4095),
        upsertion("many", iterations=16385),
        upsertion("salt", salt=b""),
        upsertion("short", size=1),
        upsertion("odd", mechanism=3),
        upsertion("", 1),
        upsertion("twice", 1),
        upsertion("twice", 2, size=64),
        upsertion("good"),
    ]
    results = admin.ask(
        ALTER_USER_SCRAM_CREDENTIALS,
        row(upsertions=upsertions, deletions=[row.deletions(name="gone", mechanism=1)]),
    ).results
    assert {each.user: each.error_code for each in results} == {
        **dict.fromkeys(("few", "many", "salt", "short", ""), Code.UNACCEPTABLE_CREDENTIAL),
        "odd": Code.UNSUPPORTED_SASL_MECHANISM,
        "twice": Code.DUPLICATE_RESOURCE,
        "gone": Code.RESOURCE_NOT_FOUND,
        "good": Code.NONE,
    }
    deleted = admin.ask(
        ALTER_USER_SCRAM_CREDENTIALS, row(deletions=[row.deletions(name="good", mechanism=1)])
    ).results
    assert [each.error_code for each in deleted] == [0]
