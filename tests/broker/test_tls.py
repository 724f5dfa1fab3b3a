"""Listeners with TLS in the simulation: who comes in as whom, who does not, and how certificates
are replaced.
"""

from functools import partial
from operator import contains
from ssl import PROTOCOL_TLS_SERVER, SSLContext

from raftka.broker.network.access.tls import (
    DAY_S,
    FAILURES,
    HANDSHAKES,
    WATCH_S,
    watch_certificates,
)
from raftka.limits import LOGIN_SECONDS
from raftka.metadata.configs.settings import NodeSettings
from raftka.security.client_security import ClientSecurity
from raftka.security.tls_context import TlsContexts
from raftka.wire.messages.configs import INCREMENTAL_ALTER_CONFIGS
from raftka.wire.messages.fetch import FETCH
from raftka.wire.messages.produce import PRODUCE
from raftka.wire.messages.topics import CREATE_TOPICS
from tests.broker.requests import batch, fetch, fetched, produce, produced
from tests.broker.sasl import USERS, log_in
from tests.broker.stage import Stage, Wire
from tests.broker.tls import ALICE, AUTHORITY, NODE, SECURE, STRANGER, principal, tls_wire, works

BROKER = 4  # the kind of resource


def test_three_nodes_replicate_over_tls() -> None:
    with Stage(3, **SECURE, ssl_client_auth="required") as stage:
        assert all(works(tls_wire(stage, ALICE, node_id)) for node_id in (1, 2, 3))
        assert {each["listener"] for each in stage.events("certificate_loaded")} == {
            "PLAINTEXT",
            "outgoing",
        }


def test_the_same_seed_gives_the_same_run_with_tls_too() -> None:
    def run() -> str:
        with Stage(3, 7, **SECURE) as stage:
            assert works(tls_wire(stage))
            return stage.world.trace_hash

    assert run() == run()


def test_a_certificate_names_the_client() -> None:
    with Stage(**SECURE, ssl_client_auth="requested") as stage:
        assert principal(stage, tls_wire(stage, ALICE)) == "User:CN=alice"
        assert principal(stage, tls_wire(stage)) == "User:ANONYMOUS"


def test_rules_make_users_of_names_and_turn_others_away() -> None:
    with Stage(
        **SECURE, ssl_client_auth="required", ssl_principal_mapping_rules="RULE:^CN=(alice)$/$1/U"
    ) as stage:
        assert principal(stage, tls_wire(stage, ALICE)) == "User:ALICE"
        wire = tls_wire(stage, AUTHORITY.issue("bob"))
        assert wire.frame() is None
        assert "no rule" in stage.events("tls_handshake_failed")[-1]["reason"]


def test_who_has_no_valid_certificate_does_not_come_in() -> None:
    with Stage(**SECURE, ssl_client_auth="required") as stage:
        for own in (None, STRANGER, AUTHORITY.issue("alice", days=-1)):
            assert tls_wire(stage, own).frame() is None
        assert stage.counted(FAILURES) == len(stage.events("tls_handshake_failed")) == 3
        assert principal(stage, tls_wire(stage, ALICE)) == "User:CN=alice"


def test_plain_bytes_at_a_listener_with_tls_end_the_connection_and_the_reverse() -> None:
    with Stage(**SECURE) as stage:
        wire = stage.wire()
        wire.send_frame(bytes(100))
        assert wire.frame() is None
    with Stage() as stage:
        assert tls_wire(stage).frame() is None


def test_a_login_counts_on_sasl_ssl_and_not_the_certificate() -> None:
    secure = SECURE | {
        "listener_security_protocol_map": "PLAINTEXT:SASL_SSL,CONTROLLER:PLAINTEXT",
        "ssl_client_auth": "required",
    }
    secure |= {
        "sasl_enabled_mechanisms": "PLAIN",
        "sasl_mechanism_inter_broker_protocol": "PLAIN",
        "sasl_jaas_config": USERS,
    }
    with Stage(3, **secure) as stage:
        wire = tls_wire(stage)  # ssl.client.auth is not inherited: no certificate is asked for
        assert log_in(wire, "PLAIN", "pat", "pat-secret").error_code == 0
        assert principal(stage, wire) == "User:pat"
        wire = tls_wire(stage, ALICE)
        wire.send_frame(bytes(20))
        assert wire.frame() is None, "a request before the login"


def with_topic(stage: Stage) -> Wire:
    """A client's connection that has created the topic t."""
    wire, row = tls_wire(stage), CREATE_TOPICS.request.topics
    (created,) = wire.ask(
        CREATE_TOPICS,
        CREATE_TOPICS.request(topics=[row(name="t", num_partitions=1, replication_factor=1)]),
    ).topics
    assert created.error_code == 0
    stage.wait(lambda: ("t", 0) in stage.nodes[1].replicas.partitions)
    return wire


def test_records_of_every_size_come_and_go() -> None:
    values = [bytes([n]) * size for n, size in enumerate((1, 16_384, 300_000))]
    with Stage(**SECURE) as stage:
        wire = with_topic(stage)
        for value in values:
            assert produced(wire.ask(PRODUCE, produce("t", batch(value)))).error_code == 0
        records = bytes(fetched(wire.ask(FETCH, fetch("t"))).records or b"")
        assert all(value in records for value in values)


def test_large_request_may_follow_the_handshake_at_once() -> None:
    with Stage(**SECURE) as stage:
        with_topic(stage)
        wires = [tls_wire(stage) for _ in range(20)]
        for wire in wires:
            wire.request(PRODUCE, produce("t", batch(bytes(900_000))))
        for wire in wires:
            assert wire.frame() is not None
        assert stage.events("tls_handshake_failed") == []


def test_files_are_read_again_when_they_change() -> None:
    given = SECURE | {
        "ssl_keystore_key": "",
        "ssl_keystore_certificate_chain": "",
        "ssl_keystore_location": "/node.pem",
    }
    with Stage(**given, files={"/node.pem": NODE.key_store}) as stage:
        before = tls_wire(stage)
        assert works(before)

        stage.put("/node.pem", AUTHORITY.issue("node", ["another"]).key_store)
        stage.world.run(stage.world.now + 11)
        assert tls_wire(stage).frame() is None, "the new certificate is not for n1"
        stage.put("/node.pem", "nothing of use")
        stage.world.run(stage.world.now + 11)
        assert tls_wire(stage).frame() is None, "the last one that can be used stays"
        stage.put("/node.pem", AUTHORITY.issue("node", ["n1"]).key_store)
        stage.world.run(stage.world.now + 11)

        assert works(tls_wire(stage))
        assert works(before), "connections that are open keep theirs"
        assert stage.nodes[1].metrics.certificates.keys() == {"PLAINTEXT", "outgoing"}
        for where in ("PLAINTEXT", "outgoing"):
            assert (
                len(
                    [
                        each
                        for each in stage.events("certificate_loaded")
                        if each["listener"] == where
                    ]
                )
                == 3
            )
        assert len(stage.events("certificate_refused")) >= 1


def test_the_end_of_a_certificate_is_announced_once_a_day_from_30_days_before() -> None:
    class Ending(TlsContexts):
        def __init__(self, left_days: int) -> None:
            self.expires_s = context.runtime.clock.wall_ms() // 1000 + left_days * DAY_S + 3600

        def current(self) -> SSLContext:
            self.on_looked()
            return SSLContext(PROTOCOL_TLS_SERVER)

    with Stage() as stage:
        context = stage.nodes[1].context
        watch_certificates(context, Ending(31), "FAR")
        watch_certificates(context, Ending(20), "NEAR")
        stage.world.run(stage.world.now + 3 * WATCH_S)
        assert [
            (each["listener"], each["expires_in_days"])
            for each in stage.events("certificate_expires")
        ] == [("NEAR", 20)]


def test_a_node_does_not_start_with_keys_that_cannot_be_used() -> None:
    for wrong, words in (
        ({"ssl_keystore_certificate_chain": AUTHORITY.trusted}, "does not take the key"),
        (
            {"ssl_truststore_certificates": "", "ssl_client_auth": "required"},
            "ssl.client.auth=required needs",
        ),
        ({"ssl_keystore_key": "", "ssl_keystore_certificate_chain": ""}, "needs a private key"),
    ):
        with Stage(**(SECURE | wrong), wait=False) as stage:
            stage.wait(partial(contains, stage.refused, 1))
            assert words in str(stage.refused[1]), stage.refused[1]
            assert "PRIVATE" not in stage.logs[1].getvalue()


def test_who_is_slow_with_the_handshake_is_closed() -> None:
    with Stage(**SECURE) as stage:
        wires = [stage.wire() for _ in range(50)]
        for wire in wires:
            wire.send(b"\x16\x03\x01\x40\x00")  # the head of a record, and nothing more
        assert works(tls_wire(stage)), "others are not held up"
        stage.wait(
            lambda: all(wire.close_reason is not None for wire in wires),
            at_most_s=LOGIN_SECONDS.value + 30,
        )


def test_handshakes_at_once_all_succeed() -> None:
    with Stage(**SECURE) as stage:
        before = stage.counted(HANDSHAKES)
        wires = [tls_wire(stage) for _ in range(100)]
        assert all(works(wire) for wire in wires)
        assert stage.counted(HANDSHAKES) - before == 100


def test_passwords_and_keys_are_not_shown() -> None:
    properties = {name.replace("_", "."): str(value) for name, value in SECURE.items()} | {
        "node.id": "1",
        "process.roles": "broker,controller",
        "listeners": "PLAINTEXT://n1:9092,CONTROLLER://n1:9093",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": "1@n1:9093",
        "ssl.key.password": "a-secret",
    }
    between = NodeSettings.from_properties(properties).between_brokers
    assert isinstance(between, ClientSecurity)
    assert between.uses_tls
    assert "PRIVATE" not in repr(between)
    assert "a-secret" not in repr(between)


def test_key_store_is_changed_while_the_node_runs() -> None:
    """By the setting of one broker with its listener's prefix, as Kafka's tools do it; a store that
    cannot be used leaves the one before.
    """
    given = SECURE | {
        "ssl_keystore_key": "",
        "ssl_keystore_certificate_chain": "",
        "ssl_keystore_location": "/node.pem",
    }
    files = {
        "/node.pem": NODE.key_store,
        "/new.pem": AUTHORITY.issue("new", ["n1"]).key_store,
        "/bad.pem": "nothing of use",
    }
    with Stage(**given, files=files) as stage:
        admin, row = tls_wire(stage), INCREMENTAL_ALTER_CONFIGS.request.resources

        def point_to(path: str) -> int:
            config = row.configs(
                name="listener.name.plaintext.ssl.keystore.location", config_operation=0, value=path
            )
            request = INCREMENTAL_ALTER_CONFIGS.request(
                resources=[row(resource_type=BROKER, resource_name="1", configs=[config])]
            )
            return int(admin.ask(INCREMENTAL_ALTER_CONFIGS, request).responses[0].error_code)

        for path, loaded in (("/new.pem", 2), ("/bad.pem", 2), ("/node.pem", 3)):
            assert point_to(path) == 0
            stage.world.run(stage.world.now + 12)
            assert works(tls_wire(stage))
            assert (
                len(
                    [
                        each
                        for each in stage.events("certificate_loaded")
                        if each["listener"] == "PLAINTEXT"
                    ]
                )
                == loaded
            )
