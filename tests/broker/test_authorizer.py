"""A denying authorizer: each API's error code, and that an answer about what is there does not
differ from one about what is not.
"""

from collections.abc import Callable
from typing import Any

import pytest

from raftka.broker.network.access.authorizer import AllowAll, Resource
from raftka.broker.network.session import Session
from raftka.wire.errors import Code
from raftka.wire.messages.cluster import (
    DESCRIBE_CLUSTER,
    UNREGISTER_BROKER,
    UNREGISTER_CONTROLLER,
)
from raftka.wire.messages.configs import DESCRIBE_CONFIGS, DescribeConfigsRequest
from raftka.wire.messages.epochs import OFFSET_FOR_LEADER_EPOCH, OffsetForLeaderEpochRequest
from raftka.wire.messages.fetch import FETCH
from raftka.wire.messages.find_coordinator import FIND_COORDINATOR
from raftka.wire.messages.list_offsets import LATEST, LIST_OFFSETS
from raftka.wire.messages.metadata import METADATA, MetadataRequest
from raftka.wire.messages.partitions import (
    CREATE_PARTITIONS,
    ELECT_LEADERS,
    CreatePartitionsRequest,
)
from raftka.wire.messages.produce import PRODUCE
from raftka.wire.messages.producer_ids import INIT_PRODUCER_ID
from raftka.wire.messages.quorum import (
    ADD_RAFT_VOTER,
    DESCRIBE_QUORUM,
    REMOVE_RAFT_VOTER,
    UPDATE_FEATURES,
)
from raftka.wire.messages.reassignments import (
    ALTER_PARTITION_REASSIGNMENTS,
    LIST_PARTITION_REASSIGNMENTS,
)
from raftka.wire.messages.topics import (
    CREATE_TOPICS,
    DELETE_TOPICS,
    CreateTopicsRequest,
    DeleteTopicsRequest,
)
from raftka.wire.rows import Row
from raftka.wire.schema import AnyApi
from tests.broker.denying import Deny
from tests.broker.requests import batch, fetch, fetched, list_offsets, produce, produced
from tests.broker.stage import Stage, Wire


def configs_of(topic: str) -> DescribeConfigsRequest:
    request = DESCRIBE_CONFIGS.request
    return request(resources=[request.resources(resource_type=2, resource_name=topic)])


def epoch_of(topic: str) -> OffsetForLeaderEpochRequest:
    request = OFFSET_FOR_LEADER_EPOCH.request
    return request(
        topics=[request.topics(topic=topic, partitions=[request.topics.partitions(leader_epoch=0)])]
    )


def metadata_of(topic: str, *, create: bool = True) -> MetadataRequest:
    return METADATA.request(
        topics=[METADATA.request.topics(name=topic)], allow_auto_topic_creation=create
    )


def to_create(topic: str) -> CreateTopicsRequest:
    request = CREATE_TOPICS.request
    return request(topics=[request.topics(name=topic, num_partitions=1, replication_factor=1)])


def more_partitions(topic: str) -> CreatePartitionsRequest:
    return CREATE_PARTITIONS.request(
        topics=[CREATE_PARTITIONS.request.topics(name=topic, count=7, assignments=None)],
        timeout_ms=1000,
    )


def to_delete(topic: str) -> DeleteTopicsRequest:
    return DELETE_TOPICS.request(topics=[DELETE_TOPICS.request.topics(name=topic)], timeout_ms=1000)


BY_NAME: dict[str, Callable[[Wire, str], Any]] = {
    "Produce": lambda wire, topic: produced(wire.ask(PRODUCE, produce(topic, batch(b"1")))),
    "Fetch": lambda wire, topic: fetched(
        wire.ask(FETCH, fetch(topic, max_wait_ms=1000, min_bytes=1))
    ),
    "ListOffsets": lambda wire, topic: (
        wire.ask(LIST_OFFSETS, list_offsets(topic, LATEST)).topics[0].partitions[0]
    ),
    "OffsetForLeaderEpoch": lambda wire, topic: (
        wire.ask(OFFSET_FOR_LEADER_EPOCH, epoch_of(topic)).topics[0].partitions[0]
    ),
    "Metadata": lambda wire, topic: wire.ask(METADATA, metadata_of(topic)).topics[0],
    "DescribeConfigs": lambda wire, topic: wire.ask(DESCRIBE_CONFIGS, configs_of(topic)).results[0],
    "CreateTopics": lambda wire, topic: wire.ask(CREATE_TOPICS, to_create(topic)).topics[0],
    "DeleteTopics": lambda wire, topic: wire.ask(DELETE_TOPICS, to_delete(topic)).responses[0],
    "CreatePartitions": lambda wire, topic: wire.ask(
        CREATE_PARTITIONS, more_partitions(topic)
    ).results[0],
}

# What is asked of the cluster, and what for.
OF_THE_CLUSTER: list[tuple[AnyApi, str, Callable[[], Row]]] = [
    (ELECT_LEADERS, "ALTER", lambda: ELECT_LEADERS.request(topic_partitions=None)),
    (ALTER_PARTITION_REASSIGNMENTS, "ALTER", ALTER_PARTITION_REASSIGNMENTS.request),
    (LIST_PARTITION_REASSIGNMENTS, "DESCRIBE", LIST_PARTITION_REASSIGNMENTS.request),
    (DESCRIBE_QUORUM, "DESCRIBE", DESCRIBE_QUORUM.request),
    (UPDATE_FEATURES, "ALTER", UPDATE_FEATURES.request),
    (ADD_RAFT_VOTER, "ALTER", ADD_RAFT_VOTER.request),
    (REMOVE_RAFT_VOTER, "ALTER", REMOVE_RAFT_VOTER.request),
    (UNREGISTER_CONTROLLER, "ALTER", UNREGISTER_CONTROLLER.request),
    (UNREGISTER_BROKER, "ALTER", lambda: UNREGISTER_BROKER.request(broker_id=9)),
]


@pytest.mark.parametrize("api", BY_NAME)
def test_who_may_not_is_not_told_whether_a_topic_exists(api: str) -> None:
    with Stage() as stage:
        stage.create("here")
        stage.nodes[1].dispatcher.authorizer = Deny()

        answers = [BY_NAME[api](stage.wire(), topic) for topic in ("here", "gone")]

        assert [answer.error_code for answer in answers] == [Code.TOPIC_AUTHORIZATION_FAILED] * 2
        assert str(answers[0].as_dict()).replace("'here'", "'gone'") == str(answers[1].as_dict())
        assert stage.nodes[1].image.topic_ids.keys() == {"here"}  # nor is one made, or taken away


def test_what_is_allowed_still_works_for_the_topics_beside() -> None:
    class DenyOne(Deny):
        def allowed(self, session: Session, operation: str, resource: Resource) -> bool:
            return resource != ("topic", "secret")

    with Stage() as stage:
        for topic in ("open", "secret"):
            stage.create(topic)
        stage.nodes[1].dispatcher.authorizer = DenyOne()
        wire = stage.wire()
        row = produce("secret", batch(b"1"))
        row.topic_data = [*row.topic_data, *produce("open", batch(b"1")).topic_data]

        answer = {
            topic.name: topic.partition_responses[0] for topic in wire.ask(PRODUCE, row).responses
        }

        assert (answer["secret"].error_code, answer["open"].error_code) == (
            Code.TOPIC_AUTHORIZATION_FAILED,
            0,
        )
        assert [
            topic.name for topic in wire.ask(METADATA, METADATA.request(topics=None)).topics
        ] == ["open"]


def test_by_id_a_name_is_not_disclosed() -> None:
    with Stage() as stage:
        topic_id = stage.create("secret")
        stage.nodes[1].dispatcher.authorizer = Deny()
        wire = stage.wire()

        found = wire.ask(
            METADATA,
            METADATA.request(topics=[METADATA.request.topics(name=None, topic_id=topic_id)]),
        ).topics[0]
        assert (found.error_code, found.name, found.topic_id) == (
            Code.TOPIC_AUTHORIZATION_FAILED,
            None,
            topic_id,
        )
        assert (
            produced(wire.ask(PRODUCE, produce("", batch(b"1"), topic_id=topic_id), 13)).error_code
            == Code.TOPIC_AUTHORIZATION_FAILED
        )
        assert (
            fetched(wire.ask(FETCH, fetch("", topic_id=topic_id), 17)).error_code
            == Code.TOPIC_AUTHORIZATION_FAILED
        )
        doomed = DELETE_TOPICS.request.topics(name=None, topic_id=topic_id)
        (denied,) = wire.ask(DELETE_TOPICS, DELETE_TOPICS.request(topics=[doomed])).responses
        assert (denied.error_code, denied.name, denied.topic_id) == (
            Code.TOPIC_AUTHORIZATION_FAILED,
            None,
            topic_id,
        )


def test_a_short_way_taken_before_asks_again() -> None:
    with Stage() as stage:
        stage.create("t")
        wire = stage.wire()
        for _ in range(2):
            wire.ask(PRODUCE, produce("t", batch(b"1")))
            wire.ask(FETCH, fetch("t"))
        stage.nodes[1].dispatcher.authorizer = Deny()

        assert (
            produced(wire.ask(PRODUCE, produce("t", batch(b"1")))).error_code
            == Code.TOPIC_AUTHORIZATION_FAILED
        )
        assert fetched(wire.ask(FETCH, fetch("t"))).error_code == Code.TOPIC_AUTHORIZATION_FAILED
        assert stage.partition("t").log.end_offset == 2


def test_a_parked_fetch_is_asked_for_again_when_it_looks_again() -> None:
    with Stage() as stage:
        stage.create("t")
        wire = stage.wire()
        wire.request(FETCH, fetch("t", max_wait_ms=20_000, min_bytes=1))
        stage.wait(lambda: stage.nodes[1].metrics.parked_fetches == 1)
        stage.nodes[1].dispatcher.authorizer = Deny("READ")

        stage.wire().ask(PRODUCE, produce("t", batch(b"1")))

        assert fetched(wire.answer(FETCH)).error_code == Code.TOPIC_AUTHORIZATION_FAILED
        assert not stage.partition("t").idle_consumers


def test_a_topic_is_made_on_the_way_only_by_who_may_create() -> None:
    with Stage() as stage:
        stage.nodes[1].dispatcher.authorizer = Deny("CREATE")
        wire = stage.wire()

        assert (
            wire.ask(METADATA, metadata_of("t")).topics[0].error_code
            == Code.TOPIC_AUTHORIZATION_FAILED
        )
        assert (
            wire.ask(METADATA, metadata_of("t", create=False)).topics[0].error_code
            == Code.UNKNOWN_TOPIC_OR_PARTITION
        )
        stage.world.run(stage.world.now + 1.0)
        assert not stage.nodes[1].image.topics


def test_only_brokers_fetch_as_replicas() -> None:
    with Stage(3) as stage:
        stage.create("t")
        leader = stage.leader("t")
        follower = next(i for i in stage.nodes if i != leader)
        stage.nodes[leader].dispatcher.authorizer = Deny("CLUSTER_ACTION")
        as_replica = FETCH.request.replica_state(
            replica_id=follower, replica_epoch=stage.nodes[follower].lifecycle.broker_epoch
        )

        row = fetch("t", topic_id=stage.partition("t").topic_id, replica_state=as_replica)

        assert (
            fetched(stage.wire(leader).ask(FETCH, row, 17)).error_code
            == Code.TOPIC_AUTHORIZATION_FAILED
        )


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (0, Code.GROUP_AUTHORIZATION_FAILED),
        (1, Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        (2, Code.CLUSTER_AUTHORIZATION_FAILED),
    ],
)
def test_coordinators(kind: int, code: Code) -> None:
    with Stage() as stage:
        stage.nodes[1].dispatcher.authorizer = Deny()
        (found,) = (
            stage.wire()
            .ask(FIND_COORDINATOR, FIND_COORDINATOR.request(key_type=kind, coordinator_keys=["k"]))
            .coordinators
        )

    assert (found.error_code, found.node_id, found.port) == (code, -1, -1)


def test_producer_ids() -> None:
    with Stage() as stage:
        stage.nodes[1].dispatcher.authorizer = Deny()
        plain = stage.wire().ask(
            INIT_PRODUCER_ID, INIT_PRODUCER_ID.request(transaction_timeout_ms=1000)
        )
        transactional = stage.wire().ask(
            INIT_PRODUCER_ID,
            INIT_PRODUCER_ID.request(transactional_id="x", transaction_timeout_ms=1000),
        )

    assert (plain.error_code, plain.producer_id, plain.producer_epoch) == (
        Code.CLUSTER_AUTHORIZATION_FAILED,
        -1,
        -1,
    )
    assert transactional.error_code == Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_who_may_create_but_not_describe_sees_no_configs() -> None:
    with Stage() as stage:
        stage.nodes[1].dispatcher.authorizer = Deny("DESCRIBE_CONFIGS")
        (created,) = stage.wire().ask(CREATE_TOPICS, to_create("t")).topics

    assert (created.error_code, created.topic_config_error_code, created.num_partitions) == (
        0,
        Code.TOPIC_AUTHORIZATION_FAILED,
        -1,
    )
    assert not created.configs


def test_authorized_operations_are_those_that_are_allowed() -> None:
    with Stage() as stage:
        stage.create("t")
        stage.nodes[1].dispatcher.authorizer = Deny("WRITE", "ALTER")
        wire = stage.wire()
        row = METADATA.request(
            topics=None,
            include_topic_authorized_operations=True,
            include_cluster_authorized_operations=True,
        )
        metadata = wire.ask(METADATA, row, 10)
        cluster = wire.ask(
            DESCRIBE_CLUSTER, DESCRIBE_CLUSTER.request(include_cluster_authorized_operations=True)
        )

    assert metadata.topics[0].topic_authorized_operations == 3576 - (1 << 4) - (1 << 7)
    assert (
        metadata.cluster_authorized_operations
        == cluster.cluster_authorized_operations
        == 8096 - (1 << 7)
    )


def test_what_the_authorizer_is_asked() -> None:
    with Stage() as stage:
        stage.create("t")
        stage.nodes[1].dispatcher.authorizer = deny = Deny("nothing")
        wire = stage.wire()
        wire.ask(PRODUCE, produce("t", batch(b"1")))
        wire.ask(FETCH, fetch("t"))
        wire.ask(LIST_OFFSETS, list_offsets("t", LATEST))

    assert deny.asked == [
        (operation, ("topic", "t")) for operation in ("WRITE", "READ", "DESCRIBE")
    ]


@pytest.mark.parametrize(
    ("api", "operation", "row"), OF_THE_CLUSTER, ids=lambda each: getattr(each, "name", "")
)
def test_what_is_asked_of_the_cluster_needs_its_right(
    api: AnyApi, operation: str, row: Callable[[], Row]
) -> None:
    with Stage() as stage:
        stage.nodes[1].dispatcher.authorizer = deny = Deny(operation)
        answer = stage.wire().ask(api, row())

        assert answer.error_code == Code.CLUSTER_AUTHORIZATION_FAILED
        assert deny.asked == [(operation, ("cluster", "kafka-cluster"))]
        stage.nodes[1].dispatcher.authorizer = Deny("nothing")
        assert stage.wire().ask(api, row()).error_code != Code.CLUSTER_AUTHORIZATION_FAILED


def test_more_partitions_are_made_only_where_that_is_allowed() -> None:
    class Mine(AllowAll):
        def allowed(self, session: Session, operation: str, resource: Resource) -> bool:
            return resource != ("topic", "yours")

    with Stage() as stage:
        for name in ("mine", "yours"):
            stage.create(name)
        stage.nodes[1].dispatcher.authorizer = Mine()
        request = CREATE_PARTITIONS.request
        row = request(
            topics=[
                request.topics(name=name, count=2, assignments=None) for name in ("yours", "mine")
            ],
            timeout_ms=1000,
        )
        results = {
            each.name: each.error_code for each in stage.wire().ask(CREATE_PARTITIONS, row).results
        }

        assert results == {"mine": 0, "yours": Code.TOPIC_AUTHORIZATION_FAILED}
        assert [len(topic.partitions) for topic in stage.nodes[1].image.topics.values()] == [2, 1]
