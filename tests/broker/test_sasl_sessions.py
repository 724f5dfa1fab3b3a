"""Sessions of clients that logged in by SASL, and the credentials behind them: renewals, restarts, several nodes."""

from raftka.metadata.image import MetadataImage
from raftka.security.scram import SHA_256
from raftka.wire.errors import Code
from raftka.wire.messages.sasl import SASL_HANDSHAKE
from tests.broker.sasl import SECURE, add_users, log_in, logged_in, works
from tests.broker.stage import Stage


def test_three_nodes_replicate_over_sasl() -> None:
    with Stage(3, **SECURE) as stage:
        assert works(logged_in(stage, node_id=2))


def test_session_is_renewed_as_the_same_user_with_the_same_mechanism() -> None:
    with Stage(**SECURE, connections_max_reauth_ms="3000") as stage:
        wire = stage.wire()
        assert log_in(wire, "PLAIN", "pat", "pat-secret").session_lifetime_ms == 3000
        assert wire.ask(SASL_HANDSHAKE, SASL_HANDSHAKE.request(mechanism="PLAIN")).error_code == Code.ILLEGAL_SASL_STATE, "within a second"
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
