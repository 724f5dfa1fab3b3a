"""Kafka clients at the controllers' listener: their first bytes tell them from nodes; they come in
by the same certificates and logins, and have the rights that they have at brokers.
"""

from pathlib import Path
from typing import Any

import pytest

from raftka.broker.controller.voter_changes import check_answer
from raftka.limits import CONNECTIONS
from raftka.metadata.commands import AddVoter
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.acls import CREATE_ACLS
from raftka.wire.messages.api_versions import API_VERSIONS
from raftka.wire.messages.cluster import DESCRIBE_CLUSTER, UNREGISTER_CONTROLLER
from raftka.wire.messages.configs import DESCRIBE_CONFIGS, INCREMENTAL_ALTER_CONFIGS
from raftka.wire.messages.metadata import METADATA
from raftka.wire.messages.quorum import (
    ADD_RAFT_VOTER,
    DESCRIBE_QUORUM,
    UPDATE_FEATURES,
    UPDATE_RAFT_VOTER,
)
from raftka.wire.messages.topics import CREATE_TOPICS
from raftka.wire.schema import AnyApi
from tests.broker.golden import recorded
from tests.broker.sasl import log_in
from tests.broker.stage import CONTROLLER_PORT, Stage, Wire
from tests.broker.tls import wrapped
from tests.kit.broker.controller_security import (
    CLIENT,
    NODES,
    SHARED,
    TLS,
    Dialer,
    hello,
    sasl,
)

SOFTWARE = API_VERSIONS.request(client_software_name="test", client_software_version="1")
(RECORDED,) = recorded(Path(__file__).parent / "golden_controllers.jsonl")
# Kafka's own nodes ask these: fetches, votes, epochs, ISRs, forwarded requests, registrations,
# heartbeats, producer ids, directories
OF_NODES = {1, 52, 53, 54, 56, 58, 59, 62, 63, 67, 70, 73}
CONTROLLERS = DESCRIBE_CLUSTER.request(endpoint_type=2)
WITH_ACLS: dict[str, Any] = {
    "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super_users": "User:CN=node;User:admin",
}


def admin(stage: Stage, node_id: int = 1, own: Any = None) -> Wire:
    """A connection to the controllers' listener of a node, with a certificate where it has TLS."""
    wrap = None if own is None else wrapped(own)
    return Wire(stage.world, stage.runtime, f"n{node_id}", CONTROLLER_PORT, wrap)


def leader_of(stage: Stage) -> int:
    leader = stage.nodes[1].quorum.leader
    assert leader is not None
    return leader


def new_topic(name: str) -> Any:
    request = CREATE_TOPICS.request
    return request(topics=[request.topics(name=name, num_partitions=1, replication_factor=1)])


def ranges(answer: Any) -> dict[int, tuple[int, int]]:
    return {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}


def test_controllers_announce_what_kafkas_announce_to_clients() -> None:
    with Stage() as stage:
        found = ranges(admin(stage).ask(API_VERSIONS, SOFTWARE))

    kafkas = ranges(RECORDED.answer)
    assert found == {key: kafkas[key] for key in kafkas.keys() - OF_NODES}


def test_nodes_and_clients_are_told_apart_also_byte_by_byte() -> None:
    with Stage(3) as stage:
        wire = admin(stage)
        wire.request(API_VERSIONS, SOFTWARE)
        (frame,) = wire._output
        wire._output.clear()
        for at in range(len(frame)):
            wire.send(frame[at : at + 1])
            stage.world.run(stage.world.now + 0.01)
        assert wire.answer(API_VERSIONS).error_code == 0
        assert Dialer(stage, hello(), tls=False).is_in


def test_an_api_of_brokers_alone_ends_the_connection() -> None:
    with Stage() as stage:
        wire = admin(stage)
        wire.request(METADATA, METADATA.request(topics=[]))
        assert wire.frame() is None
        assert stage.counted("raftka_protocol_errors_total") == 1


def test_the_leader_carries_out_and_the_others_refuse() -> None:
    with Stage(3) as stage:
        leader = leader_of(stage)
        other = next(each for each in stage.nodes if each != leader)
        (created,) = admin(stage, leader).ask(CREATE_TOPICS, new_topic("t")).topics
        assert created.error_code == 0
        (refused,) = admin(stage, other).ask(CREATE_TOPICS, new_topic("u")).topics
        assert refused.error_code == Code.NOT_CONTROLLER
        unregister = UNREGISTER_CONTROLLER.request(controller_id=other)
        answer = admin(stage, other).ask(UNREGISTER_CONTROLLER, unregister)
        assert (answer.error_code, answer.error_message) == (
            Code.NOT_CONTROLLER,
            f"The active controller appears to be node {leader}.",
        )
        listed = admin(stage, other).ask(DESCRIBE_CLUSTER, CONTROLLERS)
        assert listed.controller_id == leader
        assert [(each.broker_id, each.host, each.port) for each in listed.brokers] == [
            (each, f"n{each}", CONTROLLER_PORT) for each in (1, 2, 3)
        ]
        assert admin(stage, leader).ask(UNREGISTER_CONTROLLER, unregister).error_code == 0
        listed = admin(stage, leader).ask(DESCRIBE_CLUSTER, CONTROLLERS)
        assert other not in [each.broker_id for each in listed.brokers]


def test_settings_are_changed_and_shown_and_the_level_is_raised() -> None:
    with Stage() as stage:
        wire, request = admin(stage), INCREMENTAL_ALTER_CONFIGS.request
        change = request.resources.configs(name="log.retention.ms", value="7")
        resource = request.resources(resource_type=4, resource_name="", configs=[change])
        (answer,) = wire.ask(INCREMENTAL_ALTER_CONFIGS, request(resources=[resource])).responses
        assert answer.error_code == 0
        row = DESCRIBE_CONFIGS.request
        asked = row(resources=[row.resources(resource_type=4, resource_name="1")])
        (shown,) = wire.ask(DESCRIBE_CONFIGS, asked).results
        assert {each.name: each.value for each in shown.configs}["log.retention.ms"] == "7"
        update = UPDATE_FEATURES.request
        level = update.feature_updates(feature="kraft.version", max_version_level=1)
        assert wire.ask(UPDATE_FEATURES, update(feature_updates=[level])).error_code == 0


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_client_logs_in_with_the_users_of_nodes(mechanism: str) -> None:
    with Stage(**sasl(mechanism)) as stage:
        stranger = admin(stage)
        assert stranger.ask(API_VERSIONS, SOFTWARE).error_code == 0
        stranger.request(DESCRIBE_CLUSTER, CONTROLLERS)
        assert stranger.frame() is None, "it has not logged in"
        refused = log_in(admin(stage), mechanism, "node", "wrong")
        assert refused.error_code == Code.SASL_AUTHENTICATION_FAILED
        wire = admin(stage)
        assert log_in(wire, mechanism, "node", "n-secret").error_code == 0
        assert wire.ask(DESCRIBE_CLUSTER, CONTROLLERS).error_code == 0
        assert stage.server_side().session.principal == "User:node"


def test_a_client_without_a_certificate_of_the_cluster_sends_no_byte() -> None:
    with Stage(**TLS, **WITH_ACLS) as stage:
        for own in (None, CLIENT):
            wire = Wire(stage.world, stage.runtime, "n1", CONTROLLER_PORT, wrapped(own))
            wire.request(API_VERSIONS, SOFTWARE)
            assert wire.frame() is None
        plain = admin(stage)
        plain.request(API_VERSIONS, SOFTWARE)
        assert plain.frame() is None, "the listener has TLS"
        assert not stage.nodes[1].dispatcher.connections

        wire = admin(stage, own=SHARED)
        assert wire.ask(DESCRIBE_CLUSTER, CONTROLLERS).error_code == 0
        assert stage.server_side().session.principal == "User:CN=node"


def test_rights_are_those_of_the_certificates_name() -> None:
    """The certificate of node 2 names the node: it comes in, and may do what ACLs say."""
    with Stage(**TLS, **WITH_ACLS) as stage:
        wire = admin(stage, own=NODES[2])
        for api, row in REQUESTS.items():
            assert code_of(wire.ask(api, row)) == Code.CLUSTER_AUTHORIZATION_FAILED, api.name
        creation = CREATE_ACLS.request.creations(
            resource_type=4,
            resource_name="kafka-cluster",
            resource_pattern_type=3,
            principal="User:CN=node-2",
            host="*",
            operation=8,
            permission_type=3,
        )
        allowed = admin(stage, own=SHARED).ask(
            CREATE_ACLS, CREATE_ACLS.request(creations=[creation])
        )
        assert [each.error_code for each in allowed.results] == [0]
        stage.wait(lambda: code_of(wire.ask(DESCRIBE_QUORUM, DESCRIBE_QUORUM.request())) == 0)


REQUESTS: dict[AnyApi, Any] = {
    api: api.request()
    for api in (
        ADD_RAFT_VOTER,
        UPDATE_RAFT_VOTER,
        DESCRIBE_QUORUM,
        UPDATE_FEATURES,
        UNREGISTER_CONTROLLER,
    )
}


def code_of(answer: Any) -> Code:
    return Code(answer.error_code)


def test_clients_count_among_the_connections_of_the_node() -> None:
    with Stage(max_connections="1") as stage:
        first = admin(stage)
        assert first.ask(API_VERSIONS, SOFTWARE).error_code == 0
        second = admin(stage)
        second.request(API_VERSIONS, SOFTWARE)
        assert second.frame() is None
        assert stage.counted(CONNECTIONS.metric) == 1
        assert Dialer(stage, hello(), tls=False).is_in, "nodes do not count"


STRANGE = {
    "an empty frame": bytes(5),
    "a negative size": b"\xff\xff\xff\xff\x00",
    "a frame without end": b"\x7f\xff\xff\xff\x00",
    "half a header": b"\x00\x00\x00\x02\x00\x52",
    "an API that is not there": b"\x00\x00\x00\x0a\x00\xf0" + bytes(8),
    "a body that is too short": b"\x00\x00\x00\x0c\x00\x52\x00\x00\x00\x00\x00\x01\xff\xff\x00\x05",
}


@pytest.mark.parametrize("name", STRANGE)
def test_a_client_that_breaks_the_protocol_harms_no_one_else(name: str) -> None:
    with Stage() as stage:
        neighbour, wire = admin(stage), admin(stage)
        assert neighbour.ask(API_VERSIONS, SOFTWARE).error_code == 0
        wire.send(STRANGE[name])
        assert wire.frame() is None
        assert neighbour.ask(DESCRIBE_CLUSTER, CONTROLLERS).controller_id == 1
        assert not stage.events("handler_failed")


def test_a_voter_whose_release_lacks_the_level_is_refused() -> None:
    command = AddVoter(None, 4, bytes(15) + b"\x04", (("CONTROLLER", "n4", 9093),))
    row = API_VERSIONS.response
    known = row.supported_features(name="kraft.version", min_version=0, max_version=1)
    check_answer(command, row(supported_features=[known]))
    for features in ([], [known.__class__(name="kraft.version", min_version=0, max_version=0)]):
        with pytest.raises(KafkaError) as refused:
            check_answer(command, row(supported_features=features))
        assert refused.value.code is Code.INVALID_REQUEST
        assert "the kraft.version range (min: 0, max: 0) doesn't support" in str(refused.value)
    with pytest.raises(KafkaError, match="BROKER_NOT_AVAILABLE"):
        check_answer(command, None)
