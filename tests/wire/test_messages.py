"""Every version of every message against an independent codec, both ways."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import raftka.broker.handlers  # noqa: F401  # registers them
from raftka.broker.network.dispatch import CONTROLLER_HANDLERS, HANDLERS
from raftka.wire.codec import varint
from raftka.wire.errors import ProtocolError
from raftka.wire.messages.configs import DESCRIBE_CONFIGS
from raftka.wire.messages.fetch import FETCH
from raftka.wire.messages.find_coordinator import FIND_COORDINATOR
from raftka.wire.messages.list_offsets import LIST_OFFSETS
from raftka.wire.messages.metadata import METADATA
from raftka.wire.messages.produce import PRODUCE
from raftka.wire.messages.topics import CREATE_TOPICS, DELETE_TOPICS
from raftka.wire.rows import Row
from raftka.wire.schema import AnyApi, Api
from tests.wire.oracle import APIS, CASES, SIDES, Oracle, Values, row_of

EXAMPLES = settings(max_examples=6, deadline=None, derandomize=True, database=None)


def encode(api: AnyApi, side: str, version: int, row: Row) -> bytes:
    return (
        api.encode_request(version, row) if side == "Request" else api.encode_response(version, row)
    )


def decode(api: AnyApi, side: str, version: int, data: bytes) -> Any:
    view = memoryview(data)
    row, end = (
        api.decode_request(version, view)
        if side == "Request"
        else api.decode_response(version, view)
    )
    assert end == len(data)
    return row


def assert_same(row: Row, values: Values) -> None:
    """The row has these values, and defaults where the version has no field."""
    for field in row.struct.fields:
        mine = getattr(row, field.name)
        if field.name not in values:
            assert mine == field.default, field.name
            continue
        theirs = values[field.name]
        pairs: list[tuple[Any, Any]] = (
            list(zip(mine, theirs, strict=True)) if isinstance(theirs, list) else [(mine, theirs)]
        )
        for inner, value in pairs:
            if isinstance(value, dict):
                assert_same(inner, value)
            else:
                assert inner == value, field.name


@pytest.mark.parametrize(
    ("api", "side", "version"), CASES, ids=lambda v: v.name if isinstance(v, Api) else str(v)
)
def test_same_bytes_and_values_as_the_oracle(api: AnyApi, side: str, version: int) -> None:
    oracle = Oracle(api, side, version)
    row = api.request if side == "Request" else api.response

    @EXAMPLES
    @given(oracle.values())
    def check(values: Values) -> None:
        theirs = oracle.encode(values)
        assert_same(decode(api, side, version, theirs), values)
        ours = encode(api, side, version, row_of(row.struct, values))
        assert ours == theirs
        assert oracle.decode(ours) == values

    check()


VERSIONS = {  # the lowest and the highest that we know, and those that we announce
    "AddOffsetsToTxn": (0, 4, (0, 4)),
    "AddPartitionsToTxn": (0, 5, (0, 5)),
    "AlterClientQuotas": (0, 1, (0, 1)),
    "AlterConfigs": (0, 2, (0, 2)),
    "AlterPartitionReassignments": (0, 1, (0, 1)),
    "AlterReplicaLogDirs": (1, 2, (1, 2)),
    "AlterShareGroupOffsets": (0, 0, (0, 0)),
    "AlterUserScramCredentials": (0, 0, (0, 0)),
    "ApiVersions": (0, 5, (0, 5)),
    "ConsumerGroupDescribe": (0, 1, (0, 1)),
    "ConsumerGroupHeartbeat": (0, 1, (0, 1)),
    "CreateAcls": (1, 3, (1, 3)),
    "CreatePartitions": (0, 3, (0, 3)),
    "CreateTopics": (2, 7, (2, 7)),
    "CreateDelegationToken": (1, 3, (1, 3)),
    "RenewDelegationToken": (1, 2, (1, 2)),
    "ExpireDelegationToken": (1, 2, (1, 2)),
    "DescribeDelegationToken": (1, 3, (1, 3)),
    "DeleteAcls": (1, 3, (1, 3)),
    "DeleteGroups": (0, 3, (0, 3)),
    "DeleteRecords": (0, 2, (0, 2)),
    "DeleteShareGroupOffsets": (0, 0, (0, 0)),
    "DeleteShareGroupState": (0, 0, (0, 0)),
    "DeleteTopics": (1, 6, (1, 6)),
    "DescribeAcls": (1, 3, (1, 3)),
    "DescribeClientQuotas": (0, 1, (0, 1)),
    "DescribeCluster": (0, 2, (0, 2)),
    "DescribeConfigs": (1, 4, (1, 4)),
    "DescribeGroups": (0, 6, (0, 6)),
    "DescribeLogDirs": (1, 5, (1, 5)),
    "DescribeProducers": (0, 0, (0, 0)),
    "DescribeQuorum": (0, 2, (0, 2)),
    "DescribeShareGroupOffsets": (0, 1, (0, 1)),
    "DescribeTopicPartitions": (0, 0, (0, 0)),
    "DescribeTransactions": (0, 0, (0, 0)),
    "DescribeUserScramCredentials": (0, 0, (0, 0)),
    "ElectLeaders": (0, 2, (0, 2)),
    "EndTxn": (0, 5, (0, 5)),
    "Fetch": (4, 18, (4, 18)),
    "FindCoordinator": (0, 6, (0, 6)),
    "Heartbeat": (0, 4, (0, 4)),
    "IncrementalAlterConfigs": (0, 1, (0, 1)),
    "GetTelemetrySubscriptions": (0, 0, (0, 0)),
    "InitProducerId": (0, 5, (0, 5)),
    "InitializeShareGroupState": (0, 0, (0, 0)),
    "JoinGroup": (0, 9, (0, 9)),
    "LeaveGroup": (0, 5, (0, 5)),
    "ListConfigResources": (0, 1, (0, 1)),
    "ListGroups": (0, 5, (0, 5)),
    "ListOffsets": (1, 11, (1, 11)),
    "ListPartitionReassignments": (0, 0, (0, 0)),
    "ListTransactions": (0, 2, (0, 2)),
    "Metadata": (0, 13, (0, 13)),
    "OffsetCommit": (2, 10, (2, 10)),
    "OffsetDelete": (0, 0, (0, 0)),
    "OffsetFetch": (1, 10, (1, 10)),
    "OffsetForLeaderEpoch": (2, 4, (2, 4)),
    "Produce": (3, 13, (0, 13)),
    "PushTelemetry": (0, 0, (0, 0)),
    "ReadShareGroupState": (0, 0, (0, 0)),
    "ReadShareGroupStateSummary": (0, 1, (0, 1)),
    "SaslAuthenticate": (0, 2, (0, 2)),
    "SaslHandshake": (0, 1, (0, 1)),
    "ShareGroupDescribe": (1, 1, (1, 1)),
    "ShareGroupHeartbeat": (1, 1, (1, 1)),
    "ShareAcknowledge": (1, 2, (1, 2)),
    "ShareFetch": (1, 2, (1, 2)),
    "StreamsGroupDescribe": (0, 1, (0, 1)),
    "StreamsGroupHeartbeat": (0, 1, (0, 1)),
    "StreamsGroupTopologyDescriptionUpdate": (0, 0, (0, 0)),
    "SyncGroup": (0, 5, (0, 5)),
    "TxnOffsetCommit": (0, 6, (0, 6)),
    "UnregisterBroker": (0, 0, (0, 0)),
    "UpdateFeatures": (0, 2, (0, 2)),
    "WriteShareGroupState": (0, 1, (0, 1)),
    "AddRaftVoter": (0, 1, (0, 1)),
    "RemoveRaftVoter": (0, 0, (0, 0)),
    "UpdateRaftVoter": (0, 0, (0, 0)),
    "UnregisterController": (0, 0, (0, 0)),
    "WriteTxnMarkers": (1, 2, (1, 2)),
}


def test_all_versions_of_kafka_4_4_are_there() -> None:
    known = {api.name: (api.min_version, api.max_version, api.announced) for api in APIS}

    assert known == VERSIONS
    assert (METADATA.flexible.low, FETCH.flexible.low) == (9, 12)


def test_nothing_that_is_served_is_left_out() -> None:
    """Every version of every registered API is compared above, both sides, within the versions that
    the oracle knows.
    """
    served = {
        (api, side, version)
        for api in (each.api for each in (*HANDLERS.values(), *CONTROLLER_HANDLERS.values()))
        for side in SIDES
        for version in range(api.versions.low, api.versions.high + 1)
    }

    assert served <= set(CASES)
    assert all(Oracle(api, side, version).knows for api, side, version in served)


@EXAMPLES
@given(
    st.lists(st.integers(-(2**31), 2**31 - 1), min_size=100, max_size=300), st.sampled_from([2, 5])
)
def test_arrays_longer_than_a_byte_counts(brokers: list[int], version: int) -> None:
    values: Values = {
        "topics": [
            {
                "name": "t",
                "num_partitions": -1,
                "replication_factor": -1,
                "assignments": [
                    {"partition_index": at, "broker_ids": brokers[:at]}
                    for at in range(len(brokers))
                ],
                "configs": [],
            }
        ],
        "timeout_ms": 1,
        "validate_only": True,
    }

    ours = encode(CREATE_TOPICS, "Request", version, row_of(CREATE_TOPICS.request.struct, values))

    assert ours == Oracle(CREATE_TOPICS, "Request", version).encode(values)
    assert_same(CREATE_TOPICS.decode_request(version, memoryview(ours))[0], values)


def test_defaults_are_kafkas() -> None:
    partition = FETCH.request.topics.partitions()

    assert (
        partition.current_leader_epoch,
        partition.last_fetched_epoch,
        partition.high_watermark,
    ) == (-1, -1, 2**63 - 1)
    assert FETCH.request().replica_state.replica_id == -1
    assert METADATA.request().allow_auto_topic_creation is True
    assert METADATA.response.topics().topic_authorized_operations == -(2**31)
    assert PRODUCE.response.responses.partition_responses().current_leader.leader_epoch == -1


def test_records_are_handed_out_without_a_copy() -> None:
    request = PRODUCE.request
    partition = request.topic_data.partition_data(records=b"abcdef")
    frame = bytearray(
        PRODUCE.encode_request(
            9, request(topic_data=[request.topic_data(name="t", partition_data=[partition])])
        )
    )

    row, _ = PRODUCE.decode_request(9, memoryview(frame))
    records = row.topic_data[0].partition_data[0].records
    frame[frame.index(b"abc")] = ord("X")

    assert records is not None
    assert bytes(records) == b"Xbcdef"
    assert not records.readonly


def test_a_version_that_lacks_a_field_leaves_it_out_or_refuses() -> None:
    assert METADATA.encode_response(
        0, METADATA.response(cluster_id="c")
    ) == METADATA.encode_response(0, METADATA.response())
    with pytest.raises(ValueError, match="FindCoordinatorRequest v0 has no key_type"):
        FIND_COORDINATOR.encode_request(0, FIND_COORDINATOR.request(key="k", key_type=1))
    with pytest.raises(ValueError, match="v5 has no topics"):
        DELETE_TOPICS.encode_request(
            5, DELETE_TOPICS.request(topics=[DELETE_TOPICS.request.topics(name="t")])
        )
    assert FIND_COORDINATOR.encode_request(1, FIND_COORDINATOR.request(key="k", key_type=1))


def test_unknown_versions_are_refused() -> None:
    with pytest.raises(ProtocolError, match="Produce v2: versions 3 to 13"):
        PRODUCE.decode_request(2, memoryview(bytes(100)))
    with pytest.raises(ValueError, match="Produce v14"):
        PRODUCE.encode_response(14, PRODUCE.response())


def test_a_string_too_long_for_its_length_is_refused() -> None:
    for version in (1, 4):
        resource = DESCRIBE_CONFIGS.request.resources(resource_name="x" * 32768)
        with pytest.raises(ValueError, match="32768 bytes"):
            DESCRIBE_CONFIGS.encode_request(version, DESCRIBE_CONFIGS.request(resources=[resource]))


def test_rows_compare_print_and_refuse_unknown_names() -> None:
    topic = METADATA.response.topics(
        name="a", partitions=[METADATA.response.topics.partitions(leader_id=3)]
    )

    assert topic == METADATA.response.topics(
        name="a", partitions=(METADATA.response.topics.partitions(leader_id=3),)
    )
    assert topic != METADATA.response.topics(name="a")
    assert (
        repr(topic)
        == "MetadataResponseTopic(name='a', partitions=[MetadataResponsePartition(leader_id=3)])"
    )
    with pytest.raises(TypeError, match="leder_id"):
        METADATA.response.topics.partitions(leder_id=3)  # type: ignore[call-arg]
    with pytest.raises(AttributeError, match="no attribute 'partition'"):
        _ = METADATA.response.topics.partition  # type: ignore[attr-defined]
    with pytest.raises(AttributeError):
        topic.nmae = "b"  # type: ignore[attr-defined]


@pytest.mark.parametrize("version", range(FETCH.min_version, FETCH.max_version + 1))
def test_the_position_of_a_field_is_where_its_value_begins(version: int) -> None:
    request = FETCH.request
    partitions = [request.topics.partitions(partition=0, fetch_offset=offset) for offset in (0, 7)]
    topics = [
        request.topics(topic="t", partitions=partitions),
        request.topics(topic="u", partitions=partitions[:1]),
    ]
    data = FETCH.encode_request(
        version, request(topics=topics, max_bytes=0, session_epoch=5, replica_id=-1)
    )

    offsets, epochs = FETCH.request_positions(
        version, memoryview(b"??" + data), 2, "topics.partitions.fetch_offset", "session_epoch"
    )

    assert [int.from_bytes(data[at - 2 : at + 6]) for at in offsets] == [0, 7, 0]
    assert [int.from_bytes(data[at - 2 : at + 2]) for at in epochs] == ([5] if version >= 7 else [])
    changed = bytearray(data)
    changed[offsets[0] - 2 : offsets[0] + 6] = (99).to_bytes(8)
    row, _ = FETCH.decode_request(version, memoryview(changed))
    assert [partition.fetch_offset for topic in row.topics for partition in topic.partitions] == [
        99,
        7,
        0,
    ]


@pytest.mark.parametrize("version", [3, 9, 13])
def test_the_position_of_records_is_that_of_their_length(version: int) -> None:
    request = PRODUCE.request
    data = PRODUCE.encode_request(
        version,
        request(
            topic_data=[
                request.topic_data(
                    name="t", partition_data=[request.topic_data.partition_data(records=bytes(200))]
                )
            ]
        ),
    )
    ((at,),) = PRODUCE.request_positions(
        version, memoryview(data), 0, "topic_data.partition_data.records"
    )

    assert data[at:].startswith(varint(201) if version >= 9 else (200).to_bytes(4))


def test_a_cut_message_has_no_positions() -> None:
    data = LIST_OFFSETS.encode_request(
        4, LIST_OFFSETS.request(topics=[LIST_OFFSETS.request.topics(name="t")])
    )
    with pytest.raises(ProtocolError):
        LIST_OFFSETS.request_positions(4, memoryview(data)[:-1], 0, "topics.partitions.timestamp")
