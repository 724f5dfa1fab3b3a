"""The controller's listener with TLS and with a login: only nodes of the cluster come in; a cluster
is moved there and back by rolling restarts.
"""

from typing import Any

import pytest

from raftka.broker.controller.peer_login import DialingLogin
from raftka.cluster.secured.authority import Authority, Issued
from raftka.metadata.configs.settings import NodeSettings, SettingError
from raftka.security.client_security import ClientSecurity
from raftka.wire.messages.produce import PRODUCE
from tests.broker.requests import batch, produce, produced
from tests.broker.stage import CONTROLLER_PORT, Stage
from tests.broker.tls import AUTHORITY, HOSTS, STRANGER
from tests.kit.broker.controller_security import (
    CLIENT,
    MODULES,
    NODES,
    SHARED,
    TLS,
    Dialer,
    hello,
    sasl,
)


def works(stage: Stage, topic: str) -> bool:
    stage.create(topic)
    return all(
        produced(stage.wire(node_id).ask(PRODUCE, produce(topic, batch(b"v")))).error_code in {0, 6}
        for node_id in stage.nodes
    )


def test_nodes_replicate_and_elect_over_mutual_tls() -> None:
    with Stage(3, **TLS) as stage:
        assert works(stage, "t")
        leader = stage.nodes[1].quorum.leader
        assert leader is not None
        stage.kill(leader)
        stage.wait(
            lambda: all(node.quorum.leader not in {None, leader} for node in stage.nodes.values())
        )
        stage.start(leader)
        stage.wait(lambda: all(node.ready.is_set() for node in stage.nodes.values()))
        assert works(stage, "u")


@pytest.mark.parametrize("mechanism", MODULES)
def test_nodes_log_in_at_controllers(mechanism: str) -> None:
    with Stage(3, **sasl(mechanism)) as stage:
        assert works(stage, "t")
        assert not Dialer(stage, hello(), tls=False).is_in, "it has not logged in"
        for user, password, comes_in in (
            ("node", "n-secret", True),
            ("node", "wrong", False),
            ("nobody", "n-secret", False),
        ):
            begin = ClientSecurity("SASL_PLAINTEXT", mechanism, user, password).login(
                stage.world.random("dialer")
            )
            assert begin is not None
            dialer = Dialer(stage, hello(), tls=False, login=DialingLogin(begin("")))
            assert dialer.is_in == comes_in, (user, dialer.reason)
            assert comes_in or "does not let this node in: invalid credentials" in str(
                dialer.reason
            )
        assert all(
            "n-secret" not in log.getvalue() and "wrong" not in log.getvalue()
            for log in stage.logs.values()
        )


def test_password_of_nodes_is_changed_by_a_rolling_restart() -> None:
    with Stage(3, **sasl("SCRAM-SHA-512")) as stage:
        for node_id in (1, 2, 3):
            roll(stage, node_id, sasl("SCRAM-SHA-512", "next", "next-secret"))
            assert works(stage, f"t{node_id}")


def test_certificates_without_a_node_count_only_for_super_users_where_clients_have_some_too() -> (
    None
):
    acls: dict[str, Any] = {
        "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super_users": "User:CN=node;User:ANONYMOUS",
    }
    with Stage(3, **TLS, **acls) as stage:
        assert works(stage, "t")
        dialer = Dialer(stage, hello(), CLIENT)
        assert not dialer.is_in
        assert dialer.hello is None, "nothing of the cluster is told"
        assert "none of super.users" in stage.events("tls_handshake_failed")[-1]["reason"]
        assert Dialer(stage, hello(), SHARED).is_in


def test_certificate_of_one_node_is_of_no_use_to_another() -> None:
    with Stage(1, **TLS | {"raftka.controller.node.certificates": "true"}) as stage:
        assert Dialer(stage, hello(2), NODES[2]).is_in
        assert not Dialer(stage, hello(3), NODES[2]).is_in
        assert (
            "is for node 2, not for node 3"
            in stage.events("controller_connection_refused")[-1]["reason"]
        )
        assert not Dialer(stage, hello(2), SHARED).is_in, "this one names no node"


@pytest.mark.parametrize(
    "own", [None, STRANGER, AUTHORITY.issue("node", days=-1)], ids=["none", "foreign", "expired"]
)
def test_strangers_do_not_reach_the_controller(own: Issued | None) -> None:
    with Stage(1, **TLS) as stage:
        dialer = Dialer(stage, hello(), own)
        assert not dialer.is_in
        assert dialer.hello is None
        assert not Dialer(stage, hello(), tls=False).is_in


def test_node_does_not_join_controllers_of_another_authority() -> None:
    other = Authority("other", edwards=True)
    mine = other.issue("node", HOSTS)
    theirs = TLS | {
        "ssl_keystore_key": mine.key,
        "ssl_keystore_certificate_chain": mine.chain,
        "ssl_truststore_certificates": other.trusted,
    }
    with Stage(3, **TLS) as stage:
        stage.kill(3)
        stage.start(3, {name.replace("_", "."): value for name, value in theirs.items()})
        stage.wait(lambda: 3 not in stage.nodes[1].image.alive_brokers())
        stage.world.run(stage.world.now + 30)
        assert not stage.nodes[3].ready.is_set()
        assert 3 not in stage.nodes[1].image.alive_brokers()


def roll(stage: Stage, node_id: int, settings: dict[str, Any]) -> None:
    stage.kill(node_id)
    stage.start(node_id, {name.replace("_", "."): value for name, value in settings.items()})
    stage.wait(
        lambda: all(
            node.ready.is_set() and len(node.image.alive_brokers()) == 3
            for node in stage.nodes.values()
        )
    )


def test_cluster_moves_to_tls_and_back_by_rolling_restarts() -> None:
    """Three rounds: also listen with TLS; connect there; no longer listen without."""

    def listeners(*names: str) -> dict[str, Any]:
        ports = {"CONTROLLER": CONTROLLER_PORT, "SECURE": CONTROLLER_PORT + 1000}
        return TLS | {
            "listener_security_protocol_map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SSL",
            "listener.name.secure.ssl.client.auth": "required",
            "controller_listener_names": ",".join(names),
            "listeners": ",".join(
                ["PLAINTEXT://n{}:9092", *(f"{name}://n{{}}:{ports[name]}" for name in names)]
            ),
            "controller_quorum_voters": ",".join(f"{i}@n{i}:{ports[names[0]]}" for i in (1, 2, 3)),
        }

    rounds = [
        ("CONTROLLER", "SECURE"),
        ("SECURE", "CONTROLLER"),
        ("SECURE",),
        ("SECURE", "CONTROLLER"),
        ("CONTROLLER", "SECURE"),
        ("CONTROLLER",),
    ]
    with Stage(3) as stage:
        for number, names in enumerate(rounds):
            for node_id in (1, 2, 3):
                settings = listeners(*names)
                roll(
                    stage,
                    node_id,
                    settings | {"listeners": settings["listeners"].replace("{}", str(node_id))},
                )
                assert works(stage, f"t-{number}-{node_id}")
            assert stage.nodes[1].settings.between_controllers.uses_tls == (names[0] == "SECURE")


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (
            TLS | {"listener.name.controller.ssl.client.auth": "none"},
            "ssl.client.auth must be required",
        ),
        (
            sasl("PLAIN") | {"sasl_mechanism_controller_protocol": "SCRAM-SHA-256"},
            "which sasl.enabled.mechanisms does not have",
        ),
        (sasl("PLAIN") | {"listener.name.controller.sasl.enabled.mechanisms": "GSSAPI"}, "GSSAPI"),
    ],
)
def test_settings_that_let_strangers_in_or_nobody_are_refused(
    wrong: dict[str, Any], words: str
) -> None:
    with Stage() as stage:
        properties = stage.properties(1) | {
            name.replace("_", "."): value for name, value in wrong.items()
        }
    with pytest.raises(SettingError, match=words):
        NodeSettings.from_properties(properties)
