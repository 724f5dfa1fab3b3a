"""Answers that Apache Kafka 4.3.1 was asked for side by side, beside those that were recorded
(golden.jsonl).
"""

from collections.abc import Iterator
from typing import Any

import pytest

from raftka.broker.network.access.authorizer import AllowAll, Resource
from raftka.broker.network.session import Session
from raftka.chaos.simulated.cluster import Cluster
from raftka.runtime.simulated.world import World
from raftka.wire.errors import Code
from raftka.wire.messages.configs import DESCRIBE_CONFIGS, INCREMENTAL_ALTER_CONFIGS
from raftka.wire.messages.fetch import FETCH
from raftka.wire.messages.list_offsets import LIST_OFFSETS
from raftka.wire.messages.metadata import METADATA
from raftka.wire.messages.partitions import CREATE_PARTITIONS
from raftka.wire.messages.produce import PRODUCE
from raftka.wire.messages.producer_ids import INIT_PRODUCER_ID
from raftka.wire.messages.quorum import DESCRIBE_QUORUM
from raftka.wire.messages.topic_partitions import DESCRIBE_TOPIC_PARTITIONS
from raftka.wire.messages.topics import CREATE_TOPICS, DELETE_TOPICS
from raftka.wire.schema import ZERO_UUID
from tests.broker.requests import batch, fetch, fetched, list_offsets, produce, produced
from tests.broker.stage import Stage

SOME_ID = b"q" * 16
NOT_TOLD = -(1 << 31)  # authorized operations
TOPIC_OPERATIONS = 3576  # all of them


@pytest.fixture
def stage() -> Iterator[Stage]:
    with Stage() as stage:
        stage.create("t")
        yield stage
        assert not stage.world.failures


@pytest.mark.parametrize("transactional_id", [None, "t"])
@pytest.mark.parametrize(("producer_id", "epoch"), [(5, -1), (-1, 5), (-2, -1), (-1, -2)])
def test_half_of_a_producers_identity_is_an_invalid_request(
    stage: Stage, transactional_id: str | None, producer_id: int, epoch: int
) -> None:
    asked = INIT_PRODUCER_ID.request(
        transactional_id=transactional_id,
        transaction_timeout_ms=1000,
        producer_id=producer_id,
        producer_epoch=epoch,
    )
    answer = stage.wire().ask(INIT_PRODUCER_ID, asked)

    assert (Code(answer.error_code), answer.producer_id, answer.producer_epoch) == (
        Code.INVALID_REQUEST,
        -1,
        -1,
    )


@pytest.mark.parametrize(("timestamp", "since"), [(-3, 7), (-4, 8), (-5, 9), (-6, 11), (-7, 12)])
@pytest.mark.parametrize("topic", ["t", "nosuch"])
def test_a_special_timestamp_of_a_later_version_is_refused_before_its_partition_is_looked_for(
    stage: Stage, timestamp: int, since: int, topic: str
) -> None:
    for version in range(LIST_OFFSETS.min_version, LIST_OFFSETS.max_version + 1):
        ((row,),) = [
            each.partitions
            for each in stage.wire()
            .ask(LIST_OFFSETS, list_offsets(topic, timestamp), version)
            .topics
        ]
        expected = (
            Code.UNSUPPORTED_VERSION
            if version < since
            else Code.NONE
            if topic == "t"
            else Code.UNKNOWN_TOPIC_OR_PARTITION
        )
        assert Code(row.error_code) is expected, version


@pytest.mark.parametrize("isolated", [False, True])
@pytest.mark.parametrize(
    ("topic", "fields", "code", "aborted"),
    [
        ("t", {"fetch_offset": 99}, Code.OFFSET_OUT_OF_RANGE, None),
        ("t", {"current_leader_epoch": 5}, Code.UNKNOWN_LEADER_EPOCH, None),
        ("t", {"partition": 7}, Code.UNKNOWN_TOPIC_OR_PARTITION, []),
        ("nosuch", {}, Code.UNKNOWN_TOPIC_OR_PARTITION, []),
    ],
)
def test_aborted_transactions_of_an_error(
    stage: Stage,
    isolated: bool,
    topic: str,
    fields: dict[str, Any],
    code: Code,
    aborted: list[object] | None,
) -> None:
    row = fetched(
        stage.wire().ask(FETCH, fetch(topic, **fields, isolation_level=int(isolated)), 12)
    )

    assert (Code(row.error_code), row.aborted_transactions) == (code, aborted)


def test_a_topic_that_does_not_exist_is_not_deleted_and_the_answer_says_so(stage: Stage) -> None:
    request = DELETE_TOPICS.request
    rows: list[dict[str, Any]] = [
        {"name": "nosuch"},
        {"name": None, "topic_id": SOME_ID},
        *[{"name": "t", "topic_id": SOME_ID}] * 2,
        *[{"name": None}] * 2,
    ]
    answer = stage.wire().ask(
        DELETE_TOPICS, request(topics=[request.topics(**row) for row in rows], timeout_ms=1000)
    )

    both = "You may not specify both topic name and topic id."
    neither = "Neither topic name nor id were specified."
    assert sorted(
        (Code(row.error_code).name, row.error_message, row.name or "") for row in answer.responses
    ) == sorted(
        [
            (
                "UNKNOWN_TOPIC_OR_PARTITION",
                "This server does not host this topic-partition.",
                "nosuch",
            ),
            ("UNKNOWN_TOPIC_ID", "This server does not host this topic ID.", ""),
            *[("INVALID_REQUEST", both, "t")] * 2,
            *[("INVALID_REQUEST", neither, "")] * 2,
        ]
    )


# how the next tables write the ids of topics; `?`: no topic's, `0`: none given
IDS = {"t": "T", "u": "U"}
BY_ID_ALONE = [  # Metadata from version 12 on
    ("t:T", ["NONE t"]),
    ("t:U", ["NONE u"]),  # the id counts: the name may be that of a topic that was made anew
    ("t:?", ["UNKNOWN_TOPIC_ID -"]),
    ("nosuch:T", ["NONE t"]),
    ("nosuch:?", ["UNKNOWN_TOPIC_ID -"]),
    (":T", ["NONE t"]),
    ("bad/name:?", ["UNKNOWN_TOPIC_ID -"]),
    ("-:T", ["NONE t"]),
    ("-:?", ["UNKNOWN_TOPIC_ID -"]),
    ("-:0", ["UNKNOWN_SERVER_ERROR "]),
    (":0", ["INVALID_TOPIC_EXCEPTION "]),
    ("t:U u:T", ["NONE u", "NONE t"]),
    ("t:T -:T", ["NONE t"]),
    ("t:? u:?", ["UNKNOWN_TOPIC_ID -"]),
    ("t:T t:0", ["NONE t"]),
    ("t:0 -:T", ["NONE t"]),
    # Kafka leaves out what is asked by name as soon as an id is there
    ("t:0 -:U", ["NONE t", "NONE u"]),
]


def named(stage: Stage, text: str) -> list[dict[str, Any]]:
    """Return names and ids of a table's entry; `-` is a null name."""
    topics = stage.nodes[1].image
    ids = {
        "0": ZERO_UUID,
        "?": SOME_ID,
        **{
            IDS[name]: topic.topic_id
            for name in IDS
            if (topic := topics.topic_named(name)) is not None
        },
    }
    pairs = [each.split(":") for each in text.split(" ")]
    return [
        {"name": None if name == "-" else name, "topic_id": ids[topic_id]}
        for name, topic_id in pairs
    ]


@pytest.mark.parametrize(("asked", "told"), BY_ID_ALONE)
def test_metadata_for_an_id_is_that_of_the_id(stage: Stage, asked: str, told: list[str]) -> None:
    stage.create("u")
    rows = named(stage, asked)
    request = METADATA.request
    row = request(topics=[request.topics(**each) for each in rows], allow_auto_topic_creation=False)

    for version in (12, 13):
        answer = stage.wire().ask(METADATA, row, version)
        assert [
            f"{Code(each.error_code).name} {'-' if each.name is None else each.name}"
            for each in answer.topics
        ] == told, version
    has_id = any(each["topic_id"] != ZERO_UUID for each in rows)
    for version in (10, 11):
        answer = stage.wire().ask(METADATA, row, version)
        codes = {Code(each.error_code) for each in answer.topics}
        if has_id or any(each["name"] is None for each in rows):
            assert (codes, list(answer.brokers), answer.controller_id) == (
                {Code.INVALID_REQUEST},
                [],
                -1,
            ), version
            assert [each.topic_id for each in answer.topics] == [each["topic_id"] for each in rows]
        else:
            assert codes == {Code.INVALID_TOPIC_EXCEPTION}


def test_an_id_beside_a_name_makes_no_topic(stage: Stage) -> None:
    request = METADATA.request
    row = request(
        topics=[request.topics(name="made", topic_id=SOME_ID)], allow_auto_topic_creation=True
    )
    for version in (10, 12):
        stage.wire().ask(METADATA, row, version)
    stage.world.run(stage.world.now + 1.0)
    assert stage.nodes[1].image.topic_named("made") is None


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (
            "t:0 -:T",
            [("t", "T", "The provided topic name maps to an ID that was already supplied.")],
        ),
        (
            "-:T t:0",
            [("t", "T", "The provided topic name maps to an ID that was already supplied.")],
        ),
        ("t:0 t:0", [("t", "0", "Duplicate topic name.")]),
        ("-:T -:T", [(None, "T", "Duplicate topic id.")]),
        ("t:U", [("t", "U", "You may not specify both topic name and topic id.")]),
    ],
)
def test_topic_that_is_named_twice_for_removal_stays(
    stage: Stage, asked: str, told: list[tuple[str | None, str, str]]
) -> None:
    stage.create("u")
    request = DELETE_TOPICS.request
    answer = stage.wire().ask(
        DELETE_TOPICS,
        request(topics=[request.topics(**each) for each in named(stage, asked)], timeout_ms=1000),
    )

    ids = {letter: named(stage, f"-:{letter}")[0]["topic_id"] for letter in "TU0"}
    assert [(each.name, each.topic_id, each.error_message) for each in answer.responses] == [
        (name, ids[letter], text) for name, letter, text in told
    ]
    assert {Code(each.error_code) for each in answer.responses} == {Code.INVALID_REQUEST}
    assert stage.nodes[1].image.topic_named("t") is not None


def test_authorized_operations_are_told_of_names_that_no_topic_has(stage: Stage) -> None:
    names = ("t", "nosuch", "bad/name")
    request = METADATA.request
    asked = request(
        topics=[request.topics(name=name) for name in names],
        include_topic_authorized_operations=True,
        allow_auto_topic_creation=False,
    )
    by_id = request(
        topics=[request.topics(name=None, topic_id=SOME_ID)],
        include_topic_authorized_operations=True,
    )

    told = {
        row.name: row.topic_authorized_operations
        for row in stage.wire().ask(METADATA, asked).topics
    }
    assert told == dict.fromkeys(names, TOPIC_OPERATIONS)
    assert [
        row.topic_authorized_operations for row in stage.wire().ask(METADATA, by_id).topics
    ] == [NOT_TOLD]
    described = DESCRIBE_TOPIC_PARTITIONS.request
    page = described(
        topics=[described.topics(name=name) for name in names], response_partition_limit=9
    )
    answer = stage.wire().ask(DESCRIBE_TOPIC_PARTITIONS, page)
    assert {row.topic_authorized_operations for row in answer.topics} == {TOPIC_OPERATIONS}


class Denies(AllowAll):
    def __init__(self, topic: str) -> None:
        self.topic = topic

    def allowed(self, session: Session, operation: str, resource: Resource) -> bool:
        return resource[1] != self.topic


def test_authorized_operations_are_not_told_of_a_topic_that_the_client_may_not_describe(
    stage: Stage,
) -> None:
    stage.nodes[1].dispatcher.authorizer = Denies("t")
    request = METADATA.request
    ((row,),) = [
        stage.wire()
        .ask(
            METADATA,
            request(topics=[request.topics(name="t")], include_topic_authorized_operations=True),
        )
        .topics
    ]

    assert (Code(row.error_code), row.topic_authorized_operations) == (
        Code.TOPIC_AUTHORIZATION_FAILED,
        NOT_TOLD,
    )


@pytest.mark.parametrize("types", [(0,), (2, 0), (0, 2), (2, 3), (99, 4)])
def test_one_resource_of_an_unknown_type_spoils_the_whole_description(
    stage: Stage, types: tuple[int, ...]
) -> None:
    request = DESCRIBE_CONFIGS.request
    asked = request(
        resources=[request.resources(resource_type=each, resource_name="t") for each in types]
    )
    answer = stage.wire().ask(DESCRIBE_CONFIGS, asked)

    assert [row.resource_type for row in answer.results] == list(types)
    assert {
        (Code(row.error_code), str(row.error_message)[:32], len(row.configs))
        for row in answer.results
    } == {(Code.INVALID_REQUEST, "This most likely occurs because ", 0)}


@pytest.mark.parametrize("operation", [2, 3])
@pytest.mark.parametrize(
    ("kind", "resource", "name", "text"),
    [
        (
            2,
            "bad/name",
            "retention.ms",
            "Can't {} to key retention.ms because its type is not LIST.",
        ),
        (2, "", "retention.ms", "Can't {} to key retention.ms because its type is not LIST."),
        (
            32,
            "",
            "consumer.session.timeout.ms",
            "Can't {} to key consumer.session.timeout.ms because its type is not LIST.",
        ),
        (16, "", "interval.ms", "Can't {} to key interval.ms because its type is not LIST."),
        (4, "", "nosuch", "Unknown config name: nosuch"),
    ],
)
def test_a_change_of_what_is_no_list_is_refused_before_the_name_of_its_resource(
    stage: Stage, operation: int, kind: int, resource: str, name: str, text: str
) -> None:
    request = INCREMENTAL_ALTER_CONFIGS.request
    change = request.resources.configs(name=name, config_operation=operation, value="5")
    asked = request(
        resources=[request.resources(resource_type=kind, resource_name=resource, configs=[change])]
    )
    ((row,),) = [stage.wire().ask(INCREMENTAL_ALTER_CONFIGS, asked).responses]

    assert (Code(row.error_code), row.error_message) == (
        Code.INVALID_CONFIG,
        text.format(("APPEND", "SUBTRACT")[operation - 2]),
    )


def test_a_brokers_id_is_checked_before_its_changes(stage: Stage) -> None:
    request = INCREMENTAL_ALTER_CONFIGS.request
    change = request.resources.configs(name="log.retention.ms", config_operation=3, value="5")
    asked = request(
        resources=[request.resources(resource_type=4, resource_name="x", configs=[change])]
    )
    ((row,),) = [stage.wire().ask(INCREMENTAL_ALTER_CONFIGS, asked).responses]

    assert (Code(row.error_code), row.error_message) == (
        Code.INVALID_REQUEST,
        "Node id must be an integer, but it is: x",
    )


@pytest.mark.parametrize("validate_only", [False, True])
def test_the_metadata_log_is_not_created_as_a_topic(stage: Stage, validate_only: bool) -> None:
    request = CREATE_TOPICS.request
    topic = request.topics(name="__cluster_metadata", num_partitions=1, replication_factor=1)
    ((row,),) = [
        stage.wire().ask(CREATE_TOPICS, request(topics=[topic], validate_only=validate_only)).topics
    ]

    assert (Code(row.error_code), row.error_message) == (
        Code.INVALID_REQUEST,
        "Creation of internal topic __cluster_metadata is prohibited.",
    )
    wanted = METADATA.request(
        topics=[METADATA.request.topics(name="__cluster_metadata")], allow_auto_topic_creation=True
    )
    for _ in range(3):
        ((found,),) = [stage.wire().ask(METADATA, wanted).topics]
        assert Code(found.error_code) is Code.UNKNOWN_TOPIC_OR_PARTITION
        stage.world.run(stage.world.now + 1.0)


def test_topics_named_twice_are_refused_once_and_the_others_are_created(stage: Stage) -> None:
    request = CREATE_TOPICS.request
    topics = [
        request.topics(name=name, num_partitions=1, replication_factor=1)
        for name in ("twice", "other", "twice")
    ]
    created = stage.wire().ask(CREATE_TOPICS, request(topics=topics, timeout_ms=1000)).topics

    assert [(each.name, Code(each.error_code), each.error_message) for each in created] == [
        ("twice", Code.INVALID_REQUEST, "Duplicate topic name."),
        ("other", Code.NONE, None),
    ]
    assert stage.nodes[1].image.topic_named("twice") is None


def test_too_many_partitions_of_all_topics_together_are_refused(stage: Stage) -> None:
    request = CREATE_TOPICS.request
    topics = [
        request.topics(name=name, num_partitions=5001, replication_factor=1) for name in ("f", "g")
    ]
    created = stage.wire().ask(CREATE_TOPICS, request(topics=topics, timeout_ms=1000)).topics

    assert [(each.name, Code(each.error_code)) for each in created] == [
        ("f", Code.POLICY_VIOLATION),
        ("g", Code.POLICY_VIOLATION),
    ]
    assert stage.nodes[1].image.topic_named("f") is None


def test_partitions_of_a_topic_named_twice_are_refused_once(stage: Stage) -> None:
    request = CREATE_PARTITIONS.request
    topics = [request.topics(name=name, count=9) for name in ("t", "nosuch", "t")]
    results = stage.wire().ask(CREATE_PARTITIONS, request(topics=topics, timeout_ms=1000)).results

    assert [(each.name, Code(each.error_code), each.error_message) for each in results] == [
        ("t", Code.INVALID_REQUEST, "Duplicate topic name."),
        ("nosuch", Code.UNKNOWN_TOPIC_OR_PARTITION, None),
    ]


def of_version(magic: int) -> bytes:
    made = bytearray(batch(b"x"))
    made[16] = magic
    return bytes(made)


@pytest.mark.parametrize(
    ("records", "code", "text"),
    [
        (of_version(3), Code.CORRUPT_MESSAGE, "Invalid magic found in record: 3"),
        (of_version(3) + batch(b"x"), Code.CORRUPT_MESSAGE, "Invalid magic found in record: 3"),
        (batch(b"x") + of_version(3), Code.CORRUPT_MESSAGE, None),
        (of_version(3)[:40], Code.CORRUPT_MESSAGE, "Invalid magic found in record: 3"),
        (of_version(3)[:16], Code.INVALID_RECORD, None),
        (of_version(1), Code.INVALID_RECORD, None),
    ],
)
def test_a_batch_of_another_version_is_corrupt_and_one_of_an_older_version_is_invalid(
    stage: Stage, records: bytes, code: Code, text: str | None
) -> None:
    row = produced(stage.wire().ask(PRODUCE, produce("t", records), 9))

    assert (Code(row.error_code), row.error_message, row.log_start_offset) == (code, text, -1)


def test_an_observer_of_the_quorum_is_described_with_the_id_of_its_directory() -> None:
    with World(1) as world:
        cluster = Cluster(world, nodes=2, voters=1)
        cluster.wait_ready()
        request = DESCRIBE_QUORUM.request
        asked = request(
            topics=[
                request.topics(
                    topic_name="__cluster_metadata",
                    partitions=[request.topics.partitions(partition_index=0)],
                )
            ]
        )
        client = cluster.client()
        answer = cluster.do(client, lambda: client.anybody(DESCRIBE_QUORUM, asked))

        ((observer,),) = [answer.topics[0].partitions[0].observers]
        assert (observer.replica_id, observer.replica_directory_id) == (
            2,
            cluster.nodes[2].logs.directory_ids[0],
        )
        assert [
            voter.replica_directory_id for voter in answer.topics[0].partitions[0].current_voters
        ] == [ZERO_UUID]
