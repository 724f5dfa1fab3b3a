"""Topics, partitions, groups and transactional ids are found in the messages of all APIs."""

from collections.abc import Iterator

import pytest

import raftka.broker.node  # noqa: F401  # registers all APIs
from raftka.broker.network.dispatch import HANDLERS
from raftka.testing.faults.places import (
    COORDINATED,
    GROUP,
    PARTITION,
    TOPIC,
    TRANSACTION,
    Leaf,
    Message,
    answer_places,
    named_kinds,
    places_errors,
)
from raftka.wire.schema import AnyApi

TOPIC_ID = bytes(range(16))
LEAF = Leaf("orders", 3, "g", "x", TOPIC_ID)
APIS = [registration.api for registration in HANDLERS.values()]


def answers_with_places() -> Iterator[tuple[AnyApi, int]]:
    for api in APIS:
        for version in range(api.min_version, api.max_version + 1):
            if places_errors(api, version, LEAF):
                yield api, version


def test_most_apis_with_topics_or_groups_have_places_for_their_errors() -> None:
    without = {api.name for api in APIS if named_kinds(api)} - {
        api.name for api, _ in answers_with_places()
    }
    assert without == WHOLE


@pytest.mark.parametrize(
    ("api", "version"), list(answers_with_places()), ids=lambda value: getattr(value, "name", value)
)
def test_an_error_of_a_part_is_found_again_in_the_encoded_answer(api: AnyApi, version: int) -> None:
    answer = Message(api.response(), answer_places(api, version), lambda _: "orders")
    answer.put_error(LEAF, 6)
    answer.put_error(LEAF._replace(partition=4, topic_id=TOPIC_ID), 7)
    encoded = api.encode_response(version, answer.row)
    decoded, _ = api.decode_response(version, memoryview(encoded))

    found = Message(decoded, answer_places(api, version), lambda _: "orders")
    leaves = list(found.leaves())
    assert leaves
    assert all(
        LEAF._replace(partition=leaf.partition, topic_id=leaf.topic_id).within(leaf)
        for leaf in leaves
    )
    partitions = [leaf.partition for leaf in leaves if leaf.partition is not None]
    assert partitions in ([], [3, 4])
    assert found.fail_leaves(Leaf(), 9)


WHOLE = {  # their answers have one error for all
    "JoinGroup",
    "Heartbeat",
    "LeaveGroup",
    "SyncGroup",
    "InitProducerId",
    "AddOffsetsToTxn",
    "EndTxn",
    "DescribeLogDirs",
    "ListPartitionReassignments",
    "WriteTxnMarkers",  # of brokers, never hit
    "ConsumerGroupHeartbeat",
    "ShareGroupHeartbeat",
    "StreamsGroupHeartbeat",
    "StreamsGroupTopologyDescriptionUpdate",
}
KINDS = {
    "Produce": {TOPIC, PARTITION, TRANSACTION},
    "Fetch": {TOPIC, PARTITION},
    "Metadata": {TOPIC},
    "OffsetCommit": {GROUP, TOPIC, PARTITION},
    "OffsetFetch": {GROUP, TOPIC, PARTITION},
    "TxnOffsetCommit": {GROUP, TRANSACTION, TOPIC, PARTITION},
    "FindCoordinator": {GROUP, TRANSACTION},
    "JoinGroup": {GROUP},
    "ConsumerGroupHeartbeat": {GROUP, TOPIC, PARTITION},
    "AddPartitionsToTxn": {TRANSACTION, TOPIC, PARTITION},
    "AddOffsetsToTxn": {TRANSACTION, GROUP},
    "EndTxn": {TRANSACTION},
    "InitProducerId": {TRANSACTION},
    "CreateTopics": {TOPIC},
    "DeleteTopics": {TOPIC},
    "DescribeGroups": {GROUP},
    "DeleteGroups": {GROUP},
    "ElectLeaders": {TOPIC, PARTITION},
    "ApiVersions": set(),
    "DescribeCluster": set(),
    "CreateAcls": set(),
    "DescribeConfigs": set(),
}


@pytest.mark.parametrize("name", KINDS)
def test_what_requests_of_an_api_name(name: str) -> None:
    (api,) = [each for each in APIS if each.name == name]
    assert named_kinds(api) == KINDS[name]
    assert COORDINATED not in named_kinds(api)
