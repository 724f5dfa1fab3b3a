"""Identities of the bridge's clients: by SASL, by a certificate, and the requests that are allowed
before a login.
"""

from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import pytest
from cryptography.x509 import Name

from raftka.broker.network.access.authentication import FAILURES, SUCCESSES
from raftka.limits import LOGIN_SECONDS
from raftka.metadata.configs.settings import NodeSettings
from raftka.metadata.configs.values import SettingError
from tests.broker.tls import ALICE, AUTHORITY, STRANGER
from tests.kit.bridge_logins import (
    IN_THE_OPEN,
    SASL,
    SECURE_PORT,
    TLS,
    log_in,
    response,
    sasl,
    tls_client,
)
from tests.zookeeper_bridge.decisions import OPEN_TO_ALL
from tests.zookeeper_bridge.stage import BridgeStage, ZkClient
from zookeeper_bridge.limits import CONNECT_SECONDS, LOGIN_PACKET_BYTES
from zookeeper_bridge.protocol import jute
from zookeeper_bridge.protocol.errors import Err
from zookeeper_bridge.protocol.jute import Acl
from zookeeper_bridge.protocol.opcodes import Op
from zookeeper_bridge.server.digest_md5 import DigestMd5, LoginRefused


def who(client: ZkClient) -> list[Any]:
    return list(jute.IDENTITIES.decode(client.must(Op.WHO_AM_I, body=b"")))


@pytest.fixture
def stage() -> Iterator[BridgeStage]:
    with BridgeStage(**IN_THE_OPEN) as stage:
        yield stage
        assert not stage.world.failures


# SASL


def test_a_user_logs_in_and_acls_know_it(stage: BridgeStage) -> None:
    bob, stranger = stage.client(), stage.client()
    error, proof = log_in(bob, "bob", "bobs secret") or (None, None)
    assert error == 0
    assert (proof or b"").startswith(b"rspauth=")
    assert who(bob) == [("ip", "client"), ("sasl", "bob")]
    bob.must(Op.CREATE, "/mine", b"x", [Acl(31, "auth", "")], 0)
    assert jute.ACLS_STAT.decode(bob.must(Op.GET_ACL, "/mine"))[0] == [Acl(31, "sasl", "bob")]
    assert stranger.error(Op.GET_DATA, "/mine", False) is Err.NO_AUTH
    root = stage.client()
    log_in(root, "root", "roots", authzid="root")
    assert root.get("/mine")[0] == b"x"
    assert stage.counted(SUCCESSES) == 2


WRONG: dict[str, tuple[str, str, dict[str, str]]] = {
    "another password": ("bob", "bobs secre", {}),
    "no password": ("bob", "", {}),
    "an unknown user": ("eve", "bobs secret", {}),
    "no user": ("", "", {}),
    "a user by the setting's name": ("user_bob", "bobs secret", {}),
    "another identity": ("bob", "bobs secret", {"authzid": "root"}),
    "an empty identity": ("bob", "bobs secret", {"authzid": ""}),
    "another realm": ("bob", "bobs secret", {"realm": "elsewhere"}),
    "another nonce": ("bob", "bobs secret", {"nonce": "0" * 48}),
    "a counter of a resumed login": ("bob", "bobs secret", {"nc": "00000002"}),
    "another service": ("bob", "bobs secret", {"digest_uri": "kafka/zk-sasl-md5"}),
    "no instance": ("bob", "bobs secret", {"digest_uri": "zookeeper/"}),
    "no host part": ("bob", "bobs secret", {"digest_uri": "zookeeper"}),
    "a protection that is not there": ("bob", "bobs secret", {"qop": "auth-conf"}),
    "no cnonce": ("bob", "bobs secret", {"cnonce": ""}),
    "an empty proof": ("bob", "bobs secret", {"response": '""'}),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_login_that_is_wrong_is_answered_and_ends_the_connection(
    stage: BridgeStage, what: str
) -> None:
    user, password, changed = WRONG[what]
    client = stage.client()
    assert log_in(client, user, password, **changed) == (Err.AUTH_FAILED, None)
    assert client.wait_closed()
    assert stage.counted(FAILURES) == stage.bridge().auth_failures == 1
    assert stage.events("bridge_authentication_failed")[0]["scheme"] == "sasl"
    assert "secret" not in stage.logs[1].getvalue()


@pytest.mark.parametrize("token", [b"x", b"\0bob\0bobs secret"])
def test_a_first_message_that_is_not_empty_is_no_login(stage: BridgeStage, token: bytes) -> None:
    assert sasl(stage.client(), token) == (Err.AUTH_FAILED, None)


@pytest.mark.parametrize(
    "token",
    [
        None,
        b"",
        b"a" * 5000,
        b"username",
        b'username="bob',
        b'username="bob",username="root"',
        b"\xff\xfe",
        b"=,=",
        b",,",
    ],
)
def test_a_response_that_is_none_is_refused(stage: BridgeStage, token: bytes | None) -> None:
    client = stage.client()
    assert sasl(client, b"") is not None
    assert sasl(client, token) == (Err.AUTH_FAILED, None)


def test_a_login_is_over_when_it_is_over(stage: BridgeStage) -> None:
    client = stage.client()
    log_in(client, "bob", "bobs secret")
    assert sasl(client, b"") == (Err.AUTH_FAILED, None)


def test_a_response_cannot_be_used_twice() -> None:
    """Each login has a nonce of its own."""
    first, second = DigestMd5({"bob": "b"}, b"1" * 24), DigestMd5({"bob": "b"}, b"2" * 24)
    answer = response(first.step(b""), "bob", "b")
    assert first.step(answer)
    second.step(b"")
    with pytest.raises(LoginRefused, match="a wrong nonce"):
        second.step(answer)


def test_requests_behind_a_failed_login_are_not_carried_out(stage: BridgeStage) -> None:
    client = stage.client()
    client.request(Op.SASL, jute.BUFFER.encode(b"wrong"))
    client.request(Op.CREATE, jute.CREATE.encode(("/behind", b"", OPEN_TO_ALL, 0)))
    assert client.wait_closed()
    assert not stage.client().exists("/behind")


def test_sasl_is_for_tls_alone_unless_a_setting_allows_it() -> None:
    with BridgeStage(**SASL) as stage:
        assert sasl(stage.client(), b"") == (Err.AUTH_FAILED, None)
    with BridgeStage(**SASL, **TLS, zookeeper_bridge_ssl_client_auth="none") as stage:
        client = tls_client(stage)
        assert (log_in(client, "bob", "bobs secret") or (1,))[0] == 0
        assert who(client) == [("ip", "client"), ("sasl", "bob")]


def test_a_server_without_users_answers_as_one_without_sasl() -> None:
    with BridgeStage() as stage:
        client = stage.client()
        assert sasl(client, b"") == (0, None)
        assert client.error(Op.CREATE, "/x", b"", [Acl(31, "sasl", "bob")], 0) is Err.INVALID_ACL


# what is required


@pytest.mark.parametrize(
    "opcode",
    [
        Op.CREATE,
        Op.GET_DATA,
        Op.EXISTS,
        Op.MULTI,
        Op.MULTI_READ,
        Op.SYNC,
        Op.ADD_WATCH,
        Op.WHO_AM_I,
        Op.SET_WATCHES,
    ],
)
def test_requests_before_the_login_that_is_required_end_the_connection(opcode: Op) -> None:
    with BridgeStage(**IN_THE_OPEN, zookeeper_bridge_enforce_auth_schemes="sasl") as stage:
        client = stage.client()
        client.request(Op.AUTH, jute.AUTH.encode((0, "digest", b"bob:bobs secret")), xid=-4)
        xid = client.request(opcode, jute.CREATE.encode(("/x", b"", OPEN_TO_ALL, 0)))
        reply = client.answer(xid)
        assert reply is not None
        assert (reply.error, reply.zxid) == (-124, 0)
        assert client.wait_closed()

        bob = stage.client()
        bob.ping()
        log_in(bob, "bob", "bobs secret")
        assert not bob.exists("/x")
        bob.create("/y")


def test_a_write_that_is_left_behind_has_to_be_allowed_too() -> None:
    with BridgeStage(**IN_THE_OPEN, zookeeper_bridge_enforce_auth_schemes="sasl") as stage:
        client = stage.client()
        client.request(Op.CREATE, jute.CREATE.encode(("/x", b"", OPEN_TO_ALL, 0)))
        client.drop()
        bob = stage.client()
        log_in(bob, "bob", "bobs secret")
        assert not bob.exists("/x")


def test_one_of_several_schemes_is_enough() -> None:
    with BridgeStage(**IN_THE_OPEN, zookeeper_bridge_enforce_auth_schemes="sasl,digest") as stage:
        client = stage.client()
        client.request(Op.AUTH, jute.AUTH.encode((0, "ip", b"")), xid=-4)
        client.request(Op.AUTH, jute.AUTH.encode((0, "digest", b"alice:a")), xid=-5)
        assert not client.exists("/x")


def test_a_client_that_does_not_log_in_is_closed_and_may_send_little() -> None:
    with BridgeStage(**IN_THE_OPEN, zookeeper_bridge_enforce_auth_schemes="sasl") as stage:
        silent, loud = stage.client(timeout_ms=40_000), stage.client()
        bob = stage.client(timeout_ms=40_000)
        log_in(bob, "bob", "bobs secret")
        loud.send((LOGIN_PACKET_BYTES.value * 2).to_bytes(4) + bytes(LOGIN_PACKET_BYTES.value + 1))
        assert loud.wait_closed()
        assert stage.counted(LOGIN_PACKET_BYTES.metric) == 1
        bob.create("/large", bytes(LOGIN_PACKET_BYTES.value * 2))
        for _ in range(10):
            for each in (silent, bob):
                each.ping()
            stage.pass_time(LOGIN_SECONDS.value / 10)
        assert silent.wait_closed()
        assert bob.closed_because is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"zookeeper.bridge.enforce.auth.schemes": "sasl"},
            "zookeeper.bridge.sasl.jaas.config is not set",
        ),
        (
            {"zookeeper.bridge.enforce.auth.schemes": "x509"},
            "zookeeper.bridge.secure.port is not set",
        ),
        ({"zookeeper.bridge.enforce.auth.schemes": "ip"}, "must be one of"),
        (
            {"zookeeper.bridge.sasl.jaas.config": 'com.evil.Module required user_a="b";'},
            "the login module is not one of",
        ),
        (
            {
                "zookeeper.bridge.sasl.jaas.config": (
                    "org.apache.zookeeper.server.auth.DigestLoginModule required;"
                )
            },
            "it has no users",
        ),
        (
            {
                "zookeeper.bridge.sasl.jaas.config": (
                    'org.apache.zookeeper.server.auth.DigestLoginModule required user_a="";'
                )
            },
            "no password",
        ),
        (
            {
                "zookeeper.bridge.sasl.jaas.config": (
                    'org.apache.zookeeper.server.auth.DigestLoginModule required user_="b";'
                )
            },
            "no name",
        ),
    ],
)
def test_settings_with_which_nobody_could_log_in_are_refused(
    given: dict[str, str], message: str
) -> None:
    properties = {
        "node.id": "1",
        "process.roles": "broker,controller",
        "listeners": "PLAINTEXT://n1:9092,CONTROLLER://n1:9093",
    }
    properties |= {
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": "1@n1:9093",
    }
    with pytest.raises(SettingError, match=message) as refused:
        NodeSettings.from_properties(properties | given)
    assert "user_" not in str(refused.value).replace('user_NAME="PASSWORD"', "")


# TLS


def test_a_certificate_is_an_identity() -> None:
    with BridgeStage(**TLS, zookeeper_bridge_x509_super_user="CN=root") as stage:
        alice, stranger = tls_client(stage, ALICE), stage.client()
        assert who(alice) == [("ip", "client"), ("x509", "CN=alice")]
        alice.must(Op.CREATE, "/mine", b"x", [Acl(31, "auth", "")], 0)
        assert jute.ACLS_STAT.decode(alice.must(Op.GET_ACL, "/mine"))[0] == [
            Acl(31, "x509", "CN=alice")
        ]
        assert stranger.error(Op.GET_DATA, "/mine", False) is Err.NO_AUTH
        assert tls_client(stage, AUTHORITY.issue("root")).get("/mine")[0] == b"x"
        assert stage.events("certificate_loaded")[-1]["listener"] == "bridge"


def test_who_has_no_valid_certificate_does_not_come_in() -> None:
    with BridgeStage(**TLS) as stage:
        for own in (None, STRANGER, AUTHORITY.issue("alice", days=-1)):
            client = tls_client(stage, own)
            assert client.session is None
        assert len(stage.events("tls_handshake_failed")) == 3
        assert len(stage.bridge().connections) == 0


@pytest.mark.parametrize("asked", ["want", "requested"])
def test_a_certificate_may_be_wanted(asked: str) -> None:
    with BridgeStage(**TLS, zookeeper_bridge_ssl_client_auth=asked) as stage:
        assert who(tls_client(stage)) == [("ip", "client")]
        assert who(tls_client(stage, ALICE)) == [("ip", "client"), ("x509", "CN=alice")]
        assert tls_client(stage, STRANGER).session is None


def test_a_certificate_without_a_name_is_nobody() -> None:
    with BridgeStage(**TLS) as stage:
        nameless = tls_client(stage, AUTHORITY.issue(Name([])))
        assert who(nameless) == [("ip", "client")]


def test_a_certificate_can_be_all_that_is_required() -> None:
    with BridgeStage(**TLS, zookeeper_bridge_enforce_auth_schemes="x509") as stage:
        assert not tls_client(stage, ALICE).exists("/x")
        assert stage.client().error(Op.EXISTS, "/x", False) is Err.SESSION_CLOSED_REQUIRE_SASL_AUTH


def test_plain_bytes_at_the_secure_port_end_the_connection_and_the_reverse() -> None:
    with BridgeStage(**TLS) as stage:
        client = ZkClient(stage, port=SECURE_PORT)
        client.connect()
        assert client.session is None
        raw = ZkClient(stage)
        raw.send(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
        assert raw.wait_closed()


def test_who_is_slow_with_the_handshake_is_closed() -> None:
    with BridgeStage(**TLS) as stage:
        silent = [ZkClient(stage, port=SECURE_PORT) for _ in range(20)]
        for each in silent:
            each.send(b"\x16\x03\x01\x40\x00")  # the head of a record, and nothing more
        assert not tls_client(stage, ALICE).exists("/x"), "others are not held up"
        stage.pass_time(CONNECT_SECONDS.value + 1)
        assert all(each.closed_because is not None for each in silent)


def test_events_and_large_answers_travel_over_tls() -> None:
    with BridgeStage(**TLS) as stage:
        client = tls_client(stage, ALICE)
        client.create("/large", bytes(900_000))
        client.create("/many")
        for number in range(50):
            client.create(f"/many/{number:0200d}")
        client.must(Op.ADD_WATCH, "/large", 0)
        assert client.get("/large")[0] == bytes(900_000)
        assert len(client.children("/many")) == 50
        client.set("/large", b"")
        assert client.wait_event()[0].path == "/large"
        client.must(Op.CLOSE_SESSION, body=b"")


def test_the_secure_port_alone_is_enough() -> None:
    with BridgeStage(**TLS, plain=False) as stage:
        assert stage.edges[1].port is None
        assert not tls_client(stage, ALICE).exists("/x")


def test_what_is_basic_is_not_shown() -> None:
    with BridgeStage(**IN_THE_OPEN, raftka_log_level="debug") as stage:
        client = stage.client()
        log_in(client, "bob", "bobs secret")
        client.request(Op.AUTH, jute.AUTH.encode((0, "digest", b"alice:hush")), xid=-4)
        assert client.answer(-4) is not None
        log = stage.logs[1].getvalue()
        assert "bobs secret" not in log
        assert "hush" not in log
        assert b64encode(b"hush").decode() not in log
