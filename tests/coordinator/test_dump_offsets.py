"""Apache Kafka's own DumpLogSegments reads the records of groups and offsets. Runs where java and mvn are, and says so where not."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

from raftka.coordinator.machine import Record
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
from tests.log.test_dump_log_segments import classpath, pytestmark

__all__ = ["classpath", "pytestmark"]

KEY = offset_key(offset_topic_prefix(offset_prefix("grüße"), "t"), 7)
MEMBER = GroupMember(
    "m-1", "i", "client", "/1.2.3.4", 60000, 45000, b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff", b"\0\0\0\0\0\1\0\1t\0\0\0\1\0\0\0\7\xff\xff\xff\xff"
)
RECORDS = [
    Record(KEY, offset_value(5, 3, "note", 1_700_000_000_000, topic_id=bytes(range(16)))),
    Record(KEY, offset_value(6, -1, "", 1_700_000_000_001, topic_id=bytes(range(16)))),
    Record(KEY, offset_value(7, -1, "n", 1_700_000_000_002, 1_700_000_000_003)),
    Record(KEY, None),
    group_record("grüße", GroupMetadata("consumer", 3, "range", "m-1", 1_700_000_000_004, (MEMBER,))),
    group_tombstone("grüße"),
]


def test_kafkas_tool_reads_them(tmp_path: Path, classpath: str) -> None:
    log = tmp_path / "__consumer_offsets-0" / "00000000000000000000.log"
    log.parent.mkdir()
    log.write_bytes(build_batch([(key, value, (), 1_700_000_000_000) for key, value in RECORDS]))

    command = ["java", "-cp", classpath, "org.apache.kafka.tools.DumpLogSegments", "--files", str(log), "--offsets-decoder"]
    told = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout

    read = re.findall(r"key: (\{.*\}) payload: (.*)", told)
    assert len(read) == len(RECORDS), told
    keys, values = [_data(key) for key, _ in read], [_data(value) for _, value in read]
    assert keys == [{"group": "grüße", "topic": "t", "partition": 7}] * 4 + [{"group": "grüße"}] * 2
    assert [value and value["offset"] for value in values[:4]] == [5, 6, 7, None]
    assert [(value["leaderEpoch"], value["metadata"]) for value in values[:2]] == [(3, "note"), (-1, "")]
    assert (values[1]["commitTimestamp"], values[2]["expireTimestamp"]) == (1_700_000_000_001, 1_700_000_000_003)
    assert values[0]["topicId"] == "AAECAwQFBgcICQoLDA0ODw"
    group = values[4]
    assert (group["protocolType"], group["generation"], group["protocol"], group["leader"]) == ("consumer", 3, "range", "m-1")
    assert (group["members"][0]["memberId"], group["members"][0]["groupInstanceId"], group["members"][0]["sessionTimeout"]) == ("m-1", "i", 45000)
    assert values[5] is None


def _data(text: str) -> Any:
    return None if text in ("<DELETE>", "null") else json.loads(text)["data"]
