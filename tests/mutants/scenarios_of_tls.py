"""Directed simulations of TLS and of the controller's door: see directed.py."""

from typing import Any

from raftka.limits import LOGIN_SECONDS
from tests.broker.stage import Stage
from tests.broker.tls import ALICE, AUTHORITY, NODE, SECURE, tls_wire, works
from tests.kit.broker.controller_security import CLIENT, NODES, TLS, Dialer, hello, sasl
from tests.mutants.directed import finds

ACLS: dict[str, Any] = {
    "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super_users": "User:CN=node;User:ANONYMOUS",
}


@finds
def any_certificate_of_the_authority_is_a_nodes() -> None:
    with Stage(**TLS, **ACLS) as stage:
        assert not Dialer(stage, hello(), CLIENT).is_in, (
            "a client comes in at the controller's listener"
        )


@finds
def certificate_of_a_node_is_good_for_all_nodes() -> None:
    with Stage(**TLS) as stage:
        assert Dialer(stage, hello(2), NODES[2]).is_in
        assert not Dialer(stage, hello(3), NODES[2]).is_in, "node 2 comes in as node 3"


@finds
def greeting_counts_as_a_login() -> None:
    with Stage(**sasl("SCRAM-SHA-256")) as stage:
        assert not Dialer(stage, hello(), tls=False).is_in, "a node comes in without a login"


@finds
def name_without_a_rule_is_anonymous() -> None:
    with Stage(
        **SECURE, ssl_client_auth="required", ssl_principal_mapping_rules="RULE:^CN=alice$/alice/"
    ) as stage:
        assert works(tls_wire(stage, ALICE))
        assert tls_wire(stage, AUTHORITY.issue("bob")).frame() is None, (
            "a name that no rule matches comes in"
        )


@finds
def certificates_are_read_once() -> None:
    given = SECURE | {
        "ssl_keystore_key": "",
        "ssl_keystore_certificate_chain": "",
        "ssl_keystore_location": "/node.pem",
    }
    with Stage(**given, files={"/node.pem": NODE.key_store}) as stage:
        stage.put("/node.pem", AUTHORITY.issue("node", ["n1"]).key_store)
        stage.world.run(stage.world.now + 30)
        loaded = [
            each for each in stage.events("certificate_loaded") if each["listener"] == "PLAINTEXT"
        ]
        assert len(loaded) == 2, "the new certificate is not taken"


@finds
def certificates_of_clients_are_not_required() -> None:
    with Stage(**SECURE, ssl_client_auth="required") as stage:
        assert tls_wire(stage).frame() is None, "a client without a certificate comes in"


@finds
def slow_handshakes_are_kept() -> None:
    with Stage(**SECURE) as stage:
        wire = stage.wire()
        wire.send(b"\x16\x03\x01\x40\x00")
        stage.world.run(stage.world.now + LOGIN_SECONDS.value + 30)
        assert wire.close_reason is not None, "its connection is kept"


@finds
def any_host_is_the_controller() -> None:
    """Node 3 has a certificate that is for another host."""
    elsewhere = AUTHORITY.issue("node", ["elsewhere"])
    with Stage(3, **TLS) as stage:
        stage.kill(3)
        stage.wait(lambda: 3 not in stage.nodes[1].image.alive_brokers())
        stage.start(
            3,
            {
                "listener.name.controller.ssl.keystore.key": elsewhere.key,
                "listener.name.controller.ssl.keystore.certificate.chain": elsewhere.chain,
            },
        )
        stage.world.run(stage.world.now + 10)
        quorum = stage.nodes[1].quorum
        assert not quorum.links[3].up, "a controller at another host is believed"
