"""Directed simulations of what clients are allowed to do: see directed.py."""

from raftka.metadata.commands import Heartbeat
from raftka.metadata.security_commands import CreateAcls
from raftka.security import acls
from raftka.wire.errors import Code
from tests.broker.rights import (
    WITH_ACLS,
    admin_of,
    create_acls,
    delete_acl,
    pat,
    topic_acl,
    written,
)
from tests.broker.sasl import log_in
from tests.broker.stage import Stage, Wire
from tests.kit.broker.committing import Committer
from tests.kit.broker.transactions import Client, write
from tests.kit.broker.transactions import DenyOnResource as Deny
from tests.metadata.world import fenced_for_silence
from tests.mutants.directed import finds


@finds
def an_acl_that_denies_is_beaten() -> None:
    with Stage(**WITH_ACLS) as stage:
        topic_of(stage)
        create_acls(stage, topic_acl(acls.WRITE), topic_acl(acls.WRITE, acls.DENY, name="*"))
        assert written(pat(stage)) == Code.TOPIC_AUTHORIZATION_FAILED, (
            "what an ACL denies is allowed"
        )


@finds
def denial_by_prefix_is_by_name() -> None:
    with Stage(**WITH_ACLS) as stage:
        topic_of(stage)
        create_acls(
            stage,
            topic_acl(acls.WRITE, name="*"),
            topic_acl(acls.WRITE, acls.DENY, name="topi", pattern=acls.PREFIXED),
        )
        assert written(pat(stage), "topic") == Code.TOPIC_AUTHORIZATION_FAILED, (
            "what an ACL denies by its prefix is allowed"
        )


@finds
def denial_by_network_is_by_address() -> None:
    with Stage(**WITH_ACLS) as stage:
        topic_of(stage)
        allowed, denied = (
            topic_acl(acls.WRITE),
            topic_acl(acls.WRITE, acls.DENY, host="10.1.0.0/16"),
        )
        create_acls(stage, allowed, denied)
        wire = Wire(stage.world, stage.world.node("10.1.2.3"), "n1")
        log_in(wire, "PLAIN", "pat", "pat-secret")
        assert written(wire) == Code.TOPIC_AUTHORIZATION_FAILED, (
            "what an ACL denies to a network is allowed"
        )


@finds
def change_of_acls_counts_for_new_connections_alone() -> None:
    with Stage(**WITH_ACLS) as stage:
        topic_of(stage)
        create_acls(stage, topic_acl(acls.WRITE))
        wire = pat(stage)
        assert written(wire) == 0
        delete_acl(stage, topic_acl(acls.WRITE))
        assert written(wire) == Code.TOPIC_AUTHORIZATION_FAILED, (
            "an old connection keeps what was revoked"
        )


@finds
def node_that_comes_back_forgets_what_was_revoked() -> None:
    with Stage(3, **WITH_ACLS) as stage:
        topic_of(stage)
        create_acls(stage, topic_acl(acls.WRITE))
        stage.wait(lambda: all(node.image.acls for node in stage.nodes.values()))
        stage.kill(3)
        delete_acl(stage, topic_acl(acls.WRITE))
        node = stage.start(3)
        stage.wait(node.ready.is_set)
        wire = Stage.wire(stage, 3)
        assert log_in(wire, "PLAIN", "pat", "pat-secret").error_code == 0
        assert written(wire) == Code.TOPIC_AUTHORIZATION_FAILED, (
            "a node that was away allows what was revoked meanwhile"
        )


@finds
def returning_broker_is_unfenced_at_once() -> None:
    world, epoch = fenced_for_silence()
    world.decide(CreateAcls((topic_acl(acls.WRITE),)))
    assert world.decide(Heartbeat(1, epoch, epoch)).fenced, (
        "a node that was away is unfenced before it knows what was revoked"
    )


@finds
def short_way_does_not_ask_for_the_id() -> None:
    with Stage(transaction_state_log_num_partitions="1") as stage:
        stage.create("t", 2)
        client = Client(stage)
        assert client.init().error_code == 0
        assert client.add(("t", 0)) == [0]
        wire = stage.wire()
        assert [write(client, wire, sequence) for sequence in range(5)] == [0] * 5
        stage.nodes[1].dispatcher.authorizer = Deny("WRITE", "transactional-id", "x")
        assert write(client, wire, 5) == Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, (
            "a producer without the right on its id goes on"
        )


@finds
def short_way_does_not_ask_for_topics() -> None:
    with Stage(offsets_topic_num_partitions="1") as stage:
        stage.create("t")
        client = Committer(stage)
        assert [client.commit(offset) for offset in range(3)] == [0] * 3
        stage.nodes[1].dispatcher.authorizer = Deny("READ", "topic", "t")
        assert client.commit(3) == Code.TOPIC_AUTHORIZATION_FAILED, (
            "a consumer without the right to read goes on"
        )


def topic_of(stage: Stage) -> None:
    stage.wire = lambda node_id=1: admin_of(stage, node_id)  # type: ignore[method-assign]
    stage.create("t")
    stage.create("topic")
