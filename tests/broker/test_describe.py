"""DescribeTopicPartitions page by page, and DescribeProducers, as Kafka was seen to answer; what
was recorded is in golden.jsonl.
"""

from collections.abc import Iterator, Sequence

import pytest

from raftka.broker.network.access.authorizer import AllowAll, Resource
from raftka.broker.network.session import Session
from raftka.wire.errors import Code
from raftka.wire.messages.produce import PRODUCE
from raftka.wire.messages.producers import DESCRIBE_PRODUCERS, PartitionResponse
from raftka.wire.messages.topic_partitions import (
    DESCRIBE_TOPIC_PARTITIONS,
    DescribeTopicPartitionsResponse,
)
from tests.broker.requests import batch, produce, produced
from tests.broker.stage import Stage

ALL: list[str] = []
Page = tuple[dict[str, list[int]], tuple[str, int] | None]


class Hides(AllowAll):
    def __init__(self, topic: str) -> None:
        self.topic = topic

    def allowed(self, session: Session, operation: str, resource: Resource) -> bool:
        return resource[1] != self.topic


@pytest.fixture
def stage() -> Iterator[Stage]:
    """Topics t with two partitions, u and unc with one."""
    with Stage() as stage:
        for name, partitions in (("unc", 1), ("t", 2), ("u", 1)):
            stage.create(name, partitions)
        yield stage
        assert not stage.world.failures


def ask(
    stage: Stage, topics: Sequence[str], limit: int = 2000, cursor: tuple[str, int] | None = None
) -> DescribeTopicPartitionsResponse:
    request = DESCRIBE_TOPIC_PARTITIONS.request
    where = request.cursor(topic_name=cursor[0], partition_index=cursor[1]) if cursor else None
    return stage.wire().ask(
        DESCRIBE_TOPIC_PARTITIONS,
        request(
            topics=[request.topics(name=name) for name in topics],
            response_partition_limit=limit,
            cursor=where,
        ),
    )


def page(
    stage: Stage, topics: Sequence[str], limit: int = 2000, cursor: tuple[str, int] | None = None
) -> Page:
    answer = ask(stage, topics, limit, cursor)
    assert [topic.name for topic in answer.topics] == sorted(
        str(topic.name) for topic in answer.topics
    )
    following = answer.next_cursor
    found = {
        str(topic.name): [partition.partition_index for partition in topic.partitions]
        for topic in answer.topics
        if not topic.error_code
    }
    return found, None if following is None else (following.topic_name, following.partition_index)


def errors(answer: DescribeTopicPartitionsResponse) -> dict[str, Code]:
    return {str(topic.name): Code(topic.error_code) for topic in answer.topics}


@pytest.mark.parametrize(
    ("topics", "limit", "cursor", "expected"),
    [
        (ALL, 2000, None, ({"t": [0, 1], "u": [0], "unc": [0]}, None)),
        (ALL, 3, None, ({"t": [0, 1], "u": [0]}, ("unc", 0))),
        (ALL, 1, None, ({"t": [0]}, ("t", 1))),
        (ALL, 10, ("t", 7), ({"t": [], "u": [0], "unc": [0]}, None)),
        (ALL, 10, ("tt", 1), ({"u": [0], "unc": [0]}, None)),
        (ALL, 10, ("zz", 0), ({}, None)),
        (["t"], -5, None, ({"t": [0]}, ("t", 1))),
        (["t", "t"], 2000, None, ({"t": [0, 1]}, None)),
        (["u", "t"], 2, None, ({"t": [0, 1]}, ("u", 0))),
        (["t", "u"], 10, ("t", 1), ({"t": [1], "u": [0]}, None)),
        (["t", "u"], 10, ("t", 5), ({"t": [], "u": [0]}, None)),
        (["nope", "t"], 10, ("nope", 3), ({"t": [0, 1]}, None)),
        (["nope", "t", "u"], 1, None, ({"t": [0]}, ("t", 1))),
        (["nope", "u"], 1, None, ({"u": [0]}, None)),
    ],
)
def test_a_page(
    stage: Stage, topics: list[str], limit: int, cursor: tuple[str, int] | None, expected: Page
) -> None:
    assert page(stage, topics, limit, cursor) == expected


@pytest.mark.parametrize("cursor", [("s", 0), ("tt", 0), ("t", -1), ("", 0)])
def test_a_cursor_that_is_no_place_among_the_asked(stage: Stage, cursor: tuple[str, int]) -> None:
    assert errors(ask(stage, ["t", "u"], 10, cursor)) == {
        "t": Code.INVALID_REQUEST,
        "u": Code.INVALID_REQUEST,
    }


def test_walking_page_by_page_meets_every_partition_once(stage: Stage) -> None:
    met: list[tuple[str, int]] = []
    cursor: tuple[str, int] | None = None
    for _ in range(10):
        found, cursor = page(stage, ALL, 1, cursor)
        met += [(name, index) for name, indexes in found.items() for index in indexes]
        if cursor is None:
            break

    assert met == [("t", 0), ("t", 1), ("u", 0), ("unc", 0)]


def test_a_page_has_no_more_than_the_broker_allows() -> None:
    with Stage(max_request_partition_size_limit="1") as stage:
        stage.create("t", 2)
        assert page(stage, ALL) == ({"t": [0]}, ("t", 1))


def test_what_is_not_there_and_what_may_not_be_seen(stage: Stage) -> None:
    stage.nodes[1].dispatcher.authorizer = Hides("u")

    assert errors(ask(stage, ["bad/name", "nope", "t", "u"])) == {
        "bad/name": Code.INVALID_TOPIC_EXCEPTION,
        "nope": Code.UNKNOWN_TOPIC_OR_PARTITION,
        "t": Code.NONE,
        "u": Code.TOPIC_AUTHORIZATION_FAILED,
    }
    assert page(stage, ALL) == ({"t": [0, 1], "unc": [0]}, None)


def producers(
    stage: Stage, topic: str, *partitions: int, node_id: int = 1
) -> list[PartitionResponse]:
    request = DESCRIBE_PRODUCERS.request
    asked = request(topics=[request.topics(name=topic, partition_indexes=partitions)])
    (found,) = stage.wire(node_id).ask(DESCRIBE_PRODUCERS, asked).topics
    return list(found.partitions)


def test_every_replica_knows_its_producers() -> None:
    with Stage(3) as stage:
        stage.create("t", replication_factor=3)
        stage.create("one", replication_factor=1)
        wire = stage.wire(stage.leader("t"))
        records = batch(b"a", b"b", producer_id=7, producer_epoch=2, base_sequence=0)
        assert produced(wire.ask(PRODUCE, produce("t", records))).error_code == 0

        for node_id in stage.nodes:
            (row,) = producers(stage, "t", 0, node_id=node_id)
            (producer,) = row.active_producers
            assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (
                7,
                2,
                1,
            )
            assert (
                producer.last_timestamp,
                producer.coordinator_epoch,
                producer.current_txn_start_offset,
            ) == (1_700_000_000_000, -1, -1)
        elsewhere = next(node_id for node_id in stage.nodes if node_id != stage.leader("one"))
        assert (
            producers(stage, "one", 0, node_id=elsewhere)[0].error_code
            == Code.NOT_LEADER_OR_FOLLOWER
        )


def test_partitions_of_which_nobody_can_tell(stage: Stage) -> None:
    stage.nodes[1].dispatcher.authorizer = Hides("u")

    found = [
        (Code(row.error_code), row.error_message)
        for name in ("t", "nope", "bad/name", "u")
        for row in producers(stage, name, 9)
    ]

    wrong = (
        "Topic name is invalid: 'bad/name' contains one or more characters other than ASCII "
        "alphanumerics, '.', '_' and '-'"
    )
    assert found == [
        (Code.UNKNOWN_TOPIC_OR_PARTITION, None),
        (Code.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."),
        (Code.INVALID_TOPIC_EXCEPTION, wrong),
        (Code.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed."),
    ]
