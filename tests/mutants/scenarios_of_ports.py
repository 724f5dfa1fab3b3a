"""Directed simulations of ports that speak no Kafka: see directed.py."""

import json

from tests.broker.stage import Stage
from tests.kit.bridge_logins import AUTHORIZER, IN_THE_OPEN, SASL, TLS, log_in, tls_client
from tests.kit.broker.http import GET, PORT, Browser
from tests.mutants.directed import finds
from tests.zookeeper_bridge.decisions import OPEN_TO_ALL
from tests.zookeeper_bridge.stage import BridgeStage
from tests.zookeeper_bridge.test_guard import (
    test_settings_of_brokers_are_read_by_all_but_for_secrets,
)
from zookeeper_bridge.protocol import jute
from zookeeper_bridge.protocol.errors import Err
from zookeeper_bridge.protocol.jute import Acl
from zookeeper_bridge.protocol.opcodes import Op
from zookeeper_bridge.tree.acl import digest_of

OWNER = digest_of(b"alice:a")
PRIVATE = [Acl(31, *OWNER)]


@finds
def health_tells_strangers_everything() -> None:
    with Stage(metrics_port=str(PORT), metrics_auth_bearer_token="token") as stage:
        assert json.loads(Browser(stage).answer_to(GET)[2]) == {"status": "ok"}, (
            "a stranger is told more than the status"
        )


@finds
def certificates_are_asked_for_as_on_listeners() -> None:
    with BridgeStage(**TLS) as stage:
        assert tls_client(stage).session is None, "a client without a certificate comes in"


@finds
def watch_fires_without_an_acl_check() -> None:
    with BridgeStage() as stage:
        owner, stranger = stage.client(), stage.client()
        stranger.must(Op.ADD_WATCH, "/", 1)
        owner.must(Op.CREATE, "/mine", b"", PRIVATE, 0)
        stranger.must(Op.SYNC, "/")
        assert not stranger.events, "an event of a znode that the client may not read"


@finds
def watches_set_again_tell_without_an_acl_check() -> None:
    with BridgeStage() as stage:
        stage.client().must(Op.CREATE, "/mine", b"", PRIVATE, 0)
        stranger = stage.client()
        stranger.must(Op.SET_WATCHES, 0, ["/mine"], ["/mine"], ["/mine"])
        assert not stranger.events, "an event of a znode that the client may not read"


@finds
def digests_are_shown() -> None:
    with BridgeStage() as stage:
        client = stage.client()
        client.must(Op.CREATE, "/seen", b"", [*PRIVATE, Acl(1, "world", "anyone")], 0)
        shown = jute.ACLS_STAT.decode(client.must(Op.GET_ACL, "/seen"))[0]
        assert OWNER[1] not in [each.id for each in shown], "a reader sees the digest of a password"


@finds
def requests_pass_before_the_required_login() -> None:
    with BridgeStage(**IN_THE_OPEN, zookeeper_bridge_enforce_auth_schemes="sasl") as stage:
        found = stage.client().error(Op.EXISTS, "/x", False)
        assert found is Err.SESSION_CLOSED_REQUIRE_SASL_AUTH, (
            "a request before the login is carried out"
        )


@finds
def another_identity_is_given_that_is_asked_for() -> None:
    with BridgeStage(**IN_THE_OPEN) as stage:
        found = log_in(stage.client(), "bob", "bobs secret", authzid="root")
        assert found == (Err.AUTH_FAILED, None), "a user is let in as another"


@finds
def digest_md5_is_offered_in_the_open() -> None:
    with BridgeStage(**SASL) as stage:
        found = log_in(stage.client(), "bob", "bobs secret")
        assert found == (Err.AUTH_FAILED, None), "a login without TLS"


@finds
def bridge_is_a_way_around_acls() -> None:
    with BridgeStage(**AUTHORIZER) as stage:
        stage.create("t")
        found = stage.client().error(Op.CREATE, "/admin/delete_topics/t", b"", OPEN_TO_ALL, 0)
        assert found is Err.NO_AUTH, "a stranger deletes a topic"


@finds
def settings_of_brokers_are_shown_with_passwords() -> None:
    with BridgeStage(**AUTHORIZER, **IN_THE_OPEN) as stage:
        test_settings_of_brokers_are_read_by_all_but_for_secrets(stage, "<default>")
