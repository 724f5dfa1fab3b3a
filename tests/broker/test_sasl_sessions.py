"""Sessions of clients that logged in by SASL, and the credentials behind them: renewals, restarts,
several nodes.
"""

import pytest

from raftka.metadata.image import BROKER, MetadataImage
from raftka.security.oauth.oauthbearer import OAUTHBEARER
from raftka.security.scram import SHA_256
from raftka.wire.errors import Code
from raftka.wire.messages.configs import INCREMENTAL_ALTER_CONFIGS
from raftka.wire.messages.metadata import METADATA
from raftka.wire.messages.produce import PRODUCE
from raftka.wire.messages.sasl import SASL_HANDSHAKE
from raftka.wire.messages.topics import CREATE_TOPICS
from tests.broker.oauth import KEYS, now_s
from tests.broker.oauth import SECURE as TOKENS
from tests.broker.requests import batch, produce, produced
from tests.broker.sasl import SECURE, add_users, log_in, logged_in, works
from tests.broker.stage import Stage
from tests.security.issuer import claims, token


def test_three_nodes_replicate_over_sasl() -> None:
    with Stage(3, **SECURE) as stage:
        assert works(logged_in(stage, node_id=2))


def test_session_is_renewed_as_the_same_user_with_the_same_mechanism() -> None:
    with Stage(**SECURE, connections_max_reauth_ms="3000") as stage:
        wire = stage.wire()
        assert log_in(wire, "PLAIN", "pat", "pat-secret").session_lifetime_ms == 3000
        assert (
            wire.ask(SASL_HANDSHAKE, SASL_HANDSHAKE.request(mechanism="PLAIN")).error_code
            == Code.ILLEGAL_SASL_STATE
        ), "within a second"
        for _ in range(3):
            stage.world.run(stage.world.now + 2)
            assert log_in(wire, "PLAIN", "pat", "pat-secret").error_code == 0
            assert works(wire)
        stage.world.run(stage.world.now + 2)
        answer = wire.ask(SASL_HANDSHAKE, SASL_HANDSHAKE.request(mechanism=SHA_256))
        assert answer.error_code == Code.UNSUPPORTED_SASL_MECHANISM
        assert wire.frame() is None


def test_late_login_still_renews_a_session() -> None:
    with Stage(**SECURE, connections_max_reauth_ms="3000") as stage:
        wire = logged_in(stage)
        stage.world.run(stage.world.now + 5)
        assert log_in(wire, "PLAIN", "pat", "pat-secret").error_code == 0
        assert works(wire)


def test_credentials_outlive_a_restart_and_a_snapshot() -> None:
    with Stage(**SECURE) as stage:
        add_users(stage)
        image = stage.nodes[1].image
        assert MetadataImage.from_snapshot(image.to_snapshot()).scram == image.scram
        stage.kill(1)
        stage.start(1)
        stage.wait(stage.nodes[1].ready.is_set)
        assert works(logged_in(stage, SHA_256, "alice", "alice-secret"))


def test_brokers_log_in_at_each_other_with_tokens_of_a_file() -> None:
    with_tokens = {
        "sasl_mechanism_inter_broker_protocol": OAUTHBEARER,
        "sasl_oauthbearer_token_endpoint_url": "file:///token",
    }
    with Stage(3, wait=False, **{**TOKENS, **with_tokens}) as stage:
        for node_id in (1, 2, 3):
            stage.put("/keys.json", KEYS, node_id)
            stage.put("/token", token(claims(now_s(stage), sub="node")) + "\n", node_id)
        stage.wait(lambda: all(node.ready.is_set() for node in stage.nodes.values()))
        request = CREATE_TOPICS.request
        topic = request.topics(name="t", num_partitions=1, replication_factor=3)
        created = logged_in(stage).ask(CREATE_TOPICS, request(topics=[topic])).topics[0]
        assert created.error_code == 0
        leader = stage.leader("t")
        written = logged_in(stage, node_id=leader).ask(
            PRODUCE, produce("t", batch(b"x"), acks=-1), 12
        )
        assert produced(written).error_code == 0, "acknowledged by followers that have logged in"
        assert stage.counted("raftka_authentications_total", leader) >= 3


OWN = "listener.name.plaintext"


def lifetime_ms(stage: Stage, mechanism: str = "PLAIN", user: str = "pat") -> int:
    return log_in(stage.wire(), mechanism, user, f"{user}-secret").session_lifetime_ms


@pytest.mark.parametrize(
    ("given", "of_plain", "of_scram"),
    [
        ({}, 0, 0),
        ({"connections.max.reauth.ms": "1000"}, 1000, 1000),
        ({f"{OWN}.connections.max.reauth.ms": "2000"}, 2000, 2000),
        ({f"{OWN}.plain.connections.max.reauth.ms": "3000"}, 3000, 0),
        (
            {
                "connections.max.reauth.ms": "1000",
                f"{OWN}.connections.max.reauth.ms": "2000",
                f"{OWN}.plain.connections.max.reauth.ms": "3000",
            },
            3000,
            2000,
        ),
        (
            {"connections.max.reauth.ms": "1000", f"{OWN}.plain.connections.max.reauth.ms": "0"},
            0,
            1000,
        ),
    ],
)
def test_session_lasts_as_long_as_the_strongest_setting_says(
    given: dict[str, str], of_plain: int, of_scram: int
) -> None:
    with Stage(**(SECURE | given)) as stage:
        add_users(stage)
        assert (lifetime_ms(stage), lifetime_ms(stage, SHA_256, "alice")) == (of_plain, of_scram)


def test_session_of_one_mechanism_ends() -> None:
    with Stage(**(SECURE | {f"{OWN}.plain.connections.max.reauth.ms": "3000"})) as stage:
        add_users(stage)
        plain, scram = logged_in(stage), logged_in(stage, SHA_256, "alice", "alice-secret")
        stage.world.run(stage.world.now + 4)
        plain.request(METADATA, METADATA.request(topics=[]))
        assert plain.frame() is None, "the session has ended"
        assert works(scram)


def test_lifetime_of_sessions_changes_while_the_node_runs() -> None:
    with Stage(**SECURE) as stage:
        request = INCREMENTAL_ALTER_CONFIGS.request
        names = [
            f"{OWN}.plain.connections.max.reauth.ms",
            f"{OWN}.plan.connections.max.reauth.ms",
            f"{OWN}.plain.ssl.client.auth",
        ]
        codes = []
        for name in names:
            config = request.resources.configs(
                name=name, config_operation=0, value="5000" if "reauth" in name else "required"
            )
            row = request(
                resources=[
                    request.resources(resource_type=BROKER, resource_name="1", configs=[config])
                ]
            )
            codes.append(
                logged_in(stage).ask(INCREMENTAL_ALTER_CONFIGS, row).responses[0].error_code
            )
        assert codes == [0, 0, Code.INVALID_REQUEST]
        assert lifetime_ms(stage) == 5000
        assert [event["name"] for event in stage.events("setting_not_used")] == names[1:2]


def test_unused_settings_with_a_prefix_are_told_when_the_node_starts() -> None:
    names = [
        f"{OWN}.gssapi.connections.max.reauth.ms",
        "listener.name.plaintxt.connections.max.reauth.ms",
        f"{OWN}.plain.sasl.server.max.receive.size",
    ]
    with Stage(**(SECURE | dict.fromkeys(names, "9000"))) as stage:
        assert [event["name"] for event in stage.events("setting_not_used")] == names
