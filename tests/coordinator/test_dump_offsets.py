"""Apache Kafka's own DumpLogSegments reads the records of groups and offsets. Runs where java and
mvn are, and says so where not.
"""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

from raftka.coordinator.commands import Protocol
from raftka.coordinator.consumer.records import (
    CURRENT,
    Classic,
    Current,
    Epoch,
    Resolved,
    Said,
    current_record,
    member_record,
    regex_record,
    target_record,
    targets_record,
    tombstone,
)
from raftka.coordinator.consumer.records import group_record as epoch_record
from raftka.coordinator.machine import Record
from raftka.coordinator.modern.records import MemberState, Targets
from raftka.coordinator.records import (
    GroupMember,
    GroupMetadata,
    group_record,
    group_tombstone,
    offset_key,
    offset_prefix,
    offset_topic_prefix,
    offset_value,
)
from raftka.wire.records import build_batch
from tests.kit.kafka_jars import classpath, pytestmark

__all__ = ["classpath", "pytestmark"]

KEY = offset_key(offset_topic_prefix(offset_prefix("grüße"), "t"), 7)
MEMBER = GroupMember(
    "m-1",
    "i",
    "client",
    "/1.2.3.4",
    60000,
    45000,
    b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff",
    b"\0\0\0\0\0\1\0\1t\0\0\0\1\0\0\0\7\xff\xff\xff\xff",
)
RECORDS = [
    Record(KEY, offset_value(5, 3, "note", 1_700_000_000_000, topic_id=bytes(range(16)))),
    Record(KEY, offset_value(6, -1, "", 1_700_000_000_001, topic_id=bytes(range(16)))),
    Record(KEY, offset_value(7, -1, "n", 1_700_000_000_002, 1_700_000_000_003)),
    Record(KEY, None),
    group_record(
        "grüße", GroupMetadata("consumer", 3, "range", "m-1", 1_700_000_000_004, (MEMBER,))
    ),
    group_tombstone("grüße"),
]


TOPIC = bytes(range(16))
SAID = Said(
    "i",
    "r",
    "client",
    "/1.2.3.4",
    ("t", "u"),
    "t.*",
    60_000,
    "uniform",
    Classic(45_000, (Protocol("range", b"x"),)),
)
OF_CONSUMERS = [
    epoch_record("grüße", Epoch(4, -7)),
    member_record("grüße", "m", SAID),
    targets_record("grüße", Targets(4, 1_700_000_000_005)),
    target_record("grüße", "m", {TOPIC: (0, 2)}),
    current_record(
        "grüße", "m", Current(3, 2, MemberState.UNREVOKED, {TOPIC: {0: 1}}, {TOPIC: {1: 2}})
    ),
    regex_record("grüße", "t.*", Resolved(("t", "tt"), 9, 1_700_000_000_006)),
    tombstone(CURRENT, "grüße", "m"),
]


def test_kafkas_tool_reads_consumer_groups(tmp_path: Path, classpath: str) -> None:
    (group, said, targets, target, current, regex, gone), keys = _read_by_kafka(
        tmp_path, classpath, OF_CONSUMERS
    )

    member = {"groupId": "grüße", "memberId": "m"}
    assert keys == [
        {"groupId": "grüße"},
        member,
        {"groupId": "grüße"},
        member,
        member,
        {"groupId": "grüße", "regularExpression": "t.*"},
        member,
    ]
    assert group == {"epoch": 4, "metadataHash": -7}
    assert (
        said["instanceId"],
        said["rackId"],
        said["subscribedTopicNames"],
        said["subscribedTopicRegex"],
    ) == ("i", "r", ["t", "u"], "t.*")
    assert (said["rebalanceTimeoutMs"], said["serverAssignor"]) == (60_000, "uniform")
    assert said["classicMemberMetadata"]["sessionTimeoutMs"] == 45_000
    assert [each["name"] for each in said["classicMemberMetadata"]["supportedProtocols"]] == [
        "range"
    ]
    assert targets == {"assignmentEpoch": 4, "assignmentTimestamp": 1_700_000_000_005}
    assert [each["partitions"] for each in target["topicPartitions"]] == [[0, 2]]
    assert (current["memberEpoch"], current["previousMemberEpoch"], current["state"]) == (3, 2, 2)
    assert [
        (each["partitions"], each["assignmentEpochs"]) for each in current["assignedPartitions"]
    ] == [([0], [1])]
    assert [
        (each["partitions"], each["assignmentEpochs"])
        for each in current["partitionsPendingRevocation"]
    ] == [([1], [2])]
    assert regex == {"topics": ["t", "tt"], "version": 9, "timestamp": 1_700_000_000_006}
    assert gone is None


def test_kafkas_tool_reads_them(tmp_path: Path, classpath: str) -> None:
    values, keys = _read_by_kafka(tmp_path, classpath, RECORDS)

    assert keys == [{"group": "grüße", "topic": "t", "partition": 7}] * 4 + [{"group": "grüße"}] * 2
    assert [value and value["offset"] for value in values[:4]] == [5, 6, 7, None]
    assert [(value["leaderEpoch"], value["metadata"]) for value in values[:2]] == [
        (3, "note"),
        (-1, ""),
    ]
    assert (values[1]["commitTimestamp"], values[2]["expireTimestamp"]) == (
        1_700_000_000_001,
        1_700_000_000_003,
    )
    assert values[0]["topicId"] == "AAECAwQFBgcICQoLDA0ODw"
    group = values[4]
    assert (group["protocolType"], group["generation"], group["protocol"], group["leader"]) == (
        "consumer",
        3,
        "range",
        "m-1",
    )
    assert (
        group["members"][0]["memberId"],
        group["members"][0]["groupInstanceId"],
        group["members"][0]["sessionTimeout"],
    ) == ("m-1", "i", 45000)
    assert values[5] is None


def _read_by_kafka(
    tmp_path: Path, classpath: str, records: list[Record]
) -> tuple[list[Any], list[Any]]:
    """Values, keys."""
    log = tmp_path / "__consumer_offsets-0" / "00000000000000000000.log"
    log.parent.mkdir()
    log.write_bytes(build_batch([(key, value, (), 1_700_000_000_000) for key, value in records]))

    command = [
        "java",
        "-cp",
        classpath,
        "org.apache.kafka.tools.DumpLogSegments",
        "--files",
        str(log),
        "--offsets-decoder",
    ]
    told = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout

    read = re.findall(r"key: (\{.*\}) payload: (.*)", told)
    assert len(read) == len(records), told
    return [_data(value) for _, value in read], [_data(key) for key, _ in read]


def _data(text: str) -> Any:
    return None if text in ("<DELETE>", "null") else json.loads(text)["data"]
