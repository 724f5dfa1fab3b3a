"""Attacks on a secured node that must come to nothing, and clients that go on working meanwhile."""

import tracemalloc
from collections.abc import Iterator
from random import Random
from ssl import OP_NO_RENEGOTIATION

import pytest

from raftka.limits import LOGIN_BYTES, LOGIN_SECONDS
from raftka.runtime.real.files import lend
from raftka.security import acls
from raftka.security.scram import SHA_256, salted_password
from raftka.security.tls_context import StoreFiles, read_material, server_context
from raftka.security.tls_settings import StoreSettings, TlsSettings
from raftka.wire.errors import Code
from raftka.wire.messages.find_coordinator import FIND_COORDINATOR
from raftka.wire.messages.metadata import METADATA
from raftka.wire.messages.sasl import SASL_AUTHENTICATE, SASL_HANDSHAKE
from raftka.wire.messages.scram import ALTER_USER_SCRAM_CREDENTIALS
from raftka.wire.messages.topics import CREATE_TOPICS
from tests.broker import tls
from tests.broker.rights import WITH_ACLS, admin_of, create_acls, delete_acl, topic_acl, written
from tests.broker.sasl import SECURE, log_in, logged_in, works
from tests.broker.stage import Stage, Wire

FORGED = 'x\n{"event": "forged", "level": "error"}\r\n\u2028\x85\x0b{"event": "forged"}\x00'


@pytest.fixture
def stage() -> Iterator[Stage]:
    with Stage(**WITH_ACLS) as stage:
        stage.wire = lambda node_id=1: admin_of(stage, node_id)  # type: ignore[method-assign]
        yield stage
        assert not stage.world.failures


def add_user(admin: Wire, name: str, password: str) -> int:
    row, salt = ALTER_USER_SCRAM_CREDENTIALS.request, b"some salt"
    salted = salted_password(SHA_256, password, salt, 4096)
    upsertion = row.upsertions(
        name=name, mechanism=1, iterations=4096, salt=salt, salted_password=salted
    )
    (result,) = admin.ask(ALTER_USER_SCRAM_CREDENTIALS, row(upsertions=[upsertion])).results
    return result.error_code


# what clients call themselves and others


def test_names_with_line_ends_forge_no_line_of_the_log(stage: Stage) -> None:
    """As the name of a user, a group, a topic, a client and a mechanism."""
    name = FORGED.replace("\x00", "")  # SCRAM's names have none
    assert add_user(stage.wire(), name, "secret") == 0
    wire = Stage.wire(stage)
    assert log_in(wire, SHA_256, name, "secret").error_code == 0
    assert (
        wire.ask(FIND_COORDINATOR, FIND_COORDINATOR.request(coordinator_keys=[FORGED]))
        .coordinators[0]
        .error_code
    )
    row = CREATE_TOPICS.request
    assert (
        wire.ask(
            CREATE_TOPICS,
            row(topics=[row.topics(name=FORGED, num_partitions=1, replication_factor=1)]),
        )
        .topics[0]
        .error_code
    )
    Stage.wire(stage).ask(SASL_HANDSHAKE, SASL_HANDSHAKE.request(mechanism=FORGED))

    text = stage.logs[1].getvalue()
    assert not stage.events("forged")  # every line is one JSON object
    assert {f"User:{name}"} == {each["principal"] for each in stage.events("authorization_refused")}
    assert not set("\r\u2028\x85\x0b\x00") & set(text)


@pytest.mark.parametrize(
    "other",
    [
        "Alice",
        "alice ",
        " alice",
        "ａlice",
        "alic\u0435",
        "ali\u00adce",
        "alice\u0000",
        "alice\ufeff",
        "*",
    ],
)
def test_name_that_looks_like_another_is_another(stage: Stage, other: str) -> None:
    """There is no normalisation, of names or of what ACLs say."""
    admin = stage.wire()
    stage.create("t")
    assert create_acls(stage, topic_acl(acls.WRITE)._replace(principal="User:alice")) == [0]
    assert add_user(admin, "alice", "secret") == add_user(admin, other, "other") == 0
    wire = Stage.wire(stage)
    assert log_in(wire, SHA_256, other, "secret").error_code != 0
    wire = Stage.wire(stage)
    if log_in(wire, SHA_256, other, "other").error_code == 0:
        assert stage.server_side().session.principal == f"User:{other}"
        assert written(wire) == Code.TOPIC_AUTHORIZATION_FAILED
    wire = Stage.wire(stage)
    assert log_in(wire, SHA_256, "alice", "secret").error_code == 0
    assert written(wire) == 0


# before the login


def test_nothing_behind_a_wrong_login_is_served() -> None:
    with Stage(**SECURE) as stage:
        wire = stage.wire()
        wire.request(SASL_HANDSHAKE, SASL_HANDSHAKE.request(mechanism="PLAIN"))
        wire.request(SASL_AUTHENTICATE, SASL_AUTHENTICATE.request(auth_bytes=b"\0pat\0wrong"))
        for _ in range(20):
            wire.request(METADATA, METADATA.request(topics=None))
        assert wire.answer(SASL_HANDSHAKE).error_code == 0
        assert wire.answer(SASL_AUTHENTICATE).error_code == Code.SASL_AUTHENTICATION_FAILED
        assert wire.frame() is None


def test_requests_and_a_renewed_login_in_one_write_are_served_in_order() -> None:
    with Stage(**SECURE, connections_max_reauth_ms="3000") as stage:
        wire = logged_in(stage)
        stage.world.run(stage.world.now + 1.5)
        wire.request(METADATA, METADATA.request(topics=[]))
        wire.request(SASL_HANDSHAKE, SASL_HANDSHAKE.request(mechanism="PLAIN"))
        wire.request(SASL_AUTHENTICATE, SASL_AUTHENTICATE.request(auth_bytes=b"\0pat\0pat-secret"))
        wire.request(METADATA, METADATA.request(topics=[]))
        assert wire.answer(METADATA).brokers
        assert wire.answer(SASL_HANDSHAKE).error_code == 0
        assert wire.answer(SASL_AUTHENTICATE).session_lifetime_ms == 3000
        assert wire.answer(METADATA).brokers


def test_strangers_that_announce_much_cost_little() -> None:
    """More than a login needs is refused by its size; what is announced and does not come takes no
    memory.
    """
    with Stage(**SECURE) as stage:
        stage.world.network.delay("client", "n1", 0.0)
        client = logged_in(stage)
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            large = [stage.wire() for _ in range(300)]
            for wire in large:
                wire.send((500 * 1024).to_bytes(4))
            assert all(wire.frame() is None for wire in large)
            waiting = [stage.wire() for _ in range(300)]
            for wire in waiting:
                wire.send(LOGIN_BYTES.value.to_bytes(4))
            assert works(client)
            after, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert (after - before) / 300 < LOGIN_BYTES.value
        assert not any(wire.close_reason for wire in waiting)


def test_a_thousand_slow_handshakes_do_not_hold_up_a_client() -> None:
    with Stage(**tls.SECURE) as stage:
        client = tls.tls_wire(stage)
        assert tls.works(client)
        random, slow = Random(1), [stage.wire() for _ in range(1000)]
        for at, wire in enumerate(slow):
            wire.send(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[: 1 + at % 11])
        for _ in range(5):
            for wire in random.sample(slow, 100):
                wire.send(b"\x00")
            began = stage.world.now
            assert tls.works(client)
            assert stage.world.now - began < 0.5
        assert tls.works(tls.tls_wire(stage))
        stage.wait(
            lambda: all(wire.close_reason is not None for wire in slow),
            at_most_s=LOGIN_SECONDS.value + 30,
        )
        assert tls.works(client)


def test_renegotiation_is_refused_by_the_context() -> None:
    """OpenSSL's own refusal: it answers one with an alert."""
    settings = TlsSettings(
        StoreSettings(text=tls.NODE.key_store), StoreSettings(text=tls.AUTHORITY.trusted)
    )
    files = StoreFiles(lambda path: b"", lend)

    assert (
        server_context(settings, read_material(settings, files), files).options
        & OP_NO_RENEGOTIATION
    )


# what was revoked while a node was away


def attempts(stage: Stage, node_id: int) -> list[int]:
    """Return the answers that a SCRAM user without a credential, and a user without a right, get
    from a node as it comes back; none where it is not there yet.
    """
    told: list[int] = []
    for user, mechanism in (("alice", SHA_256), ("pat", "PLAIN")):
        wire = Stage.wire(stage, node_id)
        wire.request(SASL_HANDSHAKE, SASL_HANDSHAKE.request(mechanism=mechanism))
        stage.world.run(
            lambda wire=wire: bool(wire.frames) or wire.close_reason is not None,  # type: ignore[misc]
            at_most_s=1.0,
        )
        wire.close()
        if wire.frames:
            wire = Stage.wire(stage, node_id)
            told.append(log_in(wire, mechanism, user, f"{user}-secret").error_code)
            if told[-1] == 0:
                told.append(written(wire))
    return told


@pytest.mark.parametrize("seed", range(6))
def test_node_that_was_away_lets_in_nothing_that_was_revoked_meanwhile(seed: int) -> None:
    """An ACL and a password, from the first connection that it takes; however it went, and whether
    it was the controller.
    """
    with Stage(3, seed=seed, **WITH_ACLS) as stage:
        away = 2 + seed % 2
        stage.wire = lambda node_id=1: admin_of(stage, node_id)  # type: ignore[method-assign]
        stage.create("t")
        assert add_user(stage.wire(), "alice", "alice-secret") == 0
        mine = [topic_acl(acls.WRITE), topic_acl(acls.WRITE)._replace(principal="User:alice")]
        assert create_acls(stage, *mine) == [0, 0]
        stage.wait(
            lambda: all(
                len(node.image.acls) == 2 and node.image.scram for node in stage.nodes.values()
            )
        )
        allowed = attempts(stage, away)
        assert Code.TOPIC_AUTHORIZATION_FAILED not in allowed
        assert allowed[0] == allowed[2] == 0
        stage.kill(away, power_loss=seed % 3 == 0)
        stage.wait(lambda: all(node.image.alive(away) is False for node in stage.nodes.values()))
        row = ALTER_USER_SCRAM_CREDENTIALS.request
        gone = row(deletions=[row.deletions(name="alice", mechanism=1)])
        assert [
            each.error_code for each in stage.wire().ask(ALTER_USER_SCRAM_CREDENTIALS, gone).results
        ] == [0]
        assert [delete_acl(stage, each) for each in mine] == [1, 1]

        node, told = stage.start(away), list[int]()
        for _ in range(600):
            told += attempts(stage, away)
            if node.ready.is_set():
                break
            stage.world.run(stage.world.now + 0.01)
        told += attempts(stage, away)

        assert node.ready.is_set()
        assert len(told) >= 3
        assert set(told) == {0, Code.SASL_AUTHENTICATION_FAILED, Code.TOPIC_AUTHORIZATION_FAILED}, (
            "a password, and a right"
        )
        assert [told[at + 1] for at, code in enumerate(told[:-1]) if code == 0] == [
            Code.TOPIC_AUTHORIZATION_FAILED
        ] * told.count(0)
        assert not stage.world.failures


@pytest.mark.parametrize("seed", range(3))
def test_node_that_was_cut_off_is_unfenced_when_it_knows_what_was_revoked(seed: int) -> None:
    """Clients reach it all the time; as long as it is fenced it cannot know."""
    with Stage(3, seed=seed, **WITH_ACLS) as stage:
        stage.wire = lambda node_id=1: admin_of(stage, node_id)  # type: ignore[method-assign]
        stage.create("t")
        assert add_user(stage.wire(), "alice", "alice-secret") == 0
        mine = [topic_acl(acls.WRITE), topic_acl(acls.WRITE)._replace(principal="User:alice")]
        assert create_acls(stage, *mine) == [0, 0]
        away = next(node_id for node_id in (3, 2) if not is_controller(stage, node_id))
        stage.wait(
            lambda: all(
                len(node.image.acls) == 2 and node.image.scram for node in stage.nodes.values()
            )
        )
        others = [node_id for node_id in stage.nodes if node_id != away]
        for other in others:
            stage.world.network.cut(f"n{away}", f"n{other}")
        stage.wait(lambda: not any(stage.nodes[other].image.alive(away) for other in others))
        row = ALTER_USER_SCRAM_CREDENTIALS.request
        gone = row(deletions=[row.deletions(name="alice", mechanism=1)])
        answer = stage.wire(others[0]).ask(ALTER_USER_SCRAM_CREDENTIALS, gone)
        assert [each.error_code for each in answer.results] == [0]
        assert [delete_acl(stage, each) for each in mine] == [1, 1]
        assert Code.SASL_AUTHENTICATION_FAILED not in attempts(stage, away), (
            "it is cut off and does not know"
        )

        stage.world.network.heal()
        stage.wait(lambda: any(stage.nodes[other].image.alive(away) for other in others))

        assert attempts(stage, away) == [
            Code.SASL_AUTHENTICATION_FAILED,
            0,
            Code.TOPIC_AUTHORIZATION_FAILED,
        ]
        assert not stage.world.failures


def is_controller(stage: Stage, node_id: int) -> bool:
    host = stage.nodes[node_id].quorum.host
    return host is not None and host.active
