"""Versions of APIs and levels of features that earlier releases of Apache Kafka announce, for tests
of clients: a broker with a ceiling announces no more than its release did.

Sources: of 2.8 to 3.8 `clients/src/main/resources/common/message/*Request.json` (validVersions,
listeners, latestVersionUnstable) and `MetadataVersion.java` at the tags 2.8.2, 3.0.2, 3.1.2, 3.2.3,
3.3.2, 3.4.1, 3.5.2, 3.6.2, 3.7.1 and 3.8.0 of github.com/apache/kafka; of 3.9 to 4.3 the same
schemas in the jars of 3.9.2, 4.0.1, 4.1.2, 4.2.1 and 4.3.1. Versions that a release marks as
unstable are left out, and APIs that brokers alone use.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from raftka.wire.notation import parse_versions
from raftka.wire.rows import NO_VERSION, Versions

if TYPE_CHECKING:
    from raftka.wire.schema import AnyApi

RELEASES = (
    "2.8",
    "3.0",
    "3.1",
    "3.2",
    "3.3",
    "3.4",
    "3.5",
    "3.6",
    "3.7",
    "3.8",
    "3.9",
    "4.0",
    "4.1",
    "4.2",
    "4.3",
)

# key, name, and release:versions where they change. A broker announces Produce from 0 on although
# 4.x refuses 0 to 2: KAFKA-18659.
_APIS = """
0 Produce 2.8:0-9 3.7:0-10 3.8:0-11 4.0:0-12 4.1:0-13
1 Fetch 2.8:0-12 3.1:0-13 3.5:0-15 3.7:0-16 3.9:0-17 4.0:4-17 4.1:4-18
2 ListOffsets 2.8:0-6 3.0:0-7 3.5:0-8 3.9:0-9 4.0:1-10 4.2:1-11
3 Metadata 2.8:0-11 3.1:0-12 4.0:0-13
8 OffsetCommit 2.8:0-8 3.7:0-9 4.0:2-9 4.2:2-10
9 OffsetFetch 2.8:0-7 3.0:0-8 3.7:0-9 4.0:1-9 4.2:1-10
10 FindCoordinator 2.8:0-3 3.0:0-4 3.8:0-5 3.9:0-6
11 JoinGroup 2.8:0-7 3.2:0-9
12 Heartbeat 2.8:0-4
13 LeaveGroup 2.8:0-4 3.2:0-5
14 SyncGroup 2.8:0-5
15 DescribeGroups 2.8:0-5 4.0:0-6
16 ListGroups 2.8:0-4 3.8:0-5
17 SaslHandshake 2.8:0-1
18 ApiVersions 2.8:0-3 3.9:0-4
19 CreateTopics 2.8:0-7 4.0:2-7
20 DeleteTopics 2.8:0-6 4.0:1-6
21 DeleteRecords 2.8:0-2
22 InitProducerId 2.8:0-4 3.8:0-5
23 OffsetForLeaderEpoch 2.8:0-4 4.0:2-4
24 AddPartitionsToTxn 2.8:0-3 3.6:0-4 3.8:0-5
25 AddOffsetsToTxn 2.8:0-3 3.8:0-4
26 EndTxn 2.8:0-3 3.8:0-4 4.0:0-5
27 WriteTxnMarkers 2.8:0-1 4.0:1-1 4.2:1-2
28 TxnOffsetCommit 2.8:0-3 3.8:0-4 4.0:0-5
29 DescribeAcls 2.8:0-2 3.3:0-3 4.0:1-3
30 CreateAcls 2.8:0-2 3.3:0-3 4.0:1-3
31 DeleteAcls 2.8:0-2 3.3:0-3 4.0:1-3
32 DescribeConfigs 2.8:0-4 4.0:1-4
33 AlterConfigs 2.8:0-2
34 AlterReplicaLogDirs 2.8:0-2 4.0:1-2
35 DescribeLogDirs 2.8:0-2 3.2:0-3 3.3:0-4 4.0:1-4 4.3:1-5
36 SaslAuthenticate 2.8:0-2
37 CreatePartitions 2.8:0-3
38 CreateDelegationToken 2.8:0-2 3.3:0-3 4.0:1-3
39 RenewDelegationToken 2.8:0-2 4.0:1-2
40 ExpireDelegationToken 2.8:0-2 4.0:1-2
41 DescribeDelegationToken 2.8:0-2 3.3:0-3 4.0:1-3
42 DeleteGroups 2.8:0-2
43 ElectLeaders 2.8:0-2
44 IncrementalAlterConfigs 2.8:0-1
45 AlterPartitionReassignments 2.8:0-0 4.1:0-1
46 ListPartitionReassignments 2.8:0-0
47 OffsetDelete 2.8:0-0
48 DescribeClientQuotas 2.8:0-1
49 AlterClientQuotas 2.8:0-1
50 DescribeUserScramCredentials 2.8:0-0
51 AlterUserScramCredentials 2.8:0-0
55 DescribeQuorum 2.8:0-0 3.3:0-1 3.9:0-2
57 UpdateFeatures 2.8:0-0 3.3:0-1 4.0:0-2
60 DescribeCluster 2.8:0-0 3.7:0-1 4.0:0-2
61 DescribeProducers 2.8:0-0
64 UnregisterBroker 2.8:0-0 3.0:none 3.3:0-0
65 DescribeTransactions 3.0:0-0
66 ListTransactions 3.0:0-0 3.8:0-1 4.1:0-2
68 ConsumerGroupHeartbeat 3.7:0-0 4.0:0-1
69 ConsumerGroupDescribe 3.8:0-0 4.0:0-1
71 GetTelemetrySubscriptions 3.7:0-0
72 PushTelemetry 3.7:0-0
74 ListConfigResources 3.7:0-0 4.1:0-1
75 DescribeTopicPartitions 3.8:0-0
76 ShareGroupHeartbeat 4.1:1-1
77 ShareGroupDescribe 4.1:1-1
78 ShareFetch 4.1:1-1 4.2:1-2
79 ShareAcknowledge 4.1:1-1 4.2:1-2
80 AddRaftVoter 3.9:0-0 4.2:0-1
81 RemoveRaftVoter 3.9:0-0
83 InitializeShareGroupState 4.1:0-0
84 ReadShareGroupState 4.1:0-0
85 WriteShareGroupState 4.1:0-0 4.2:0-1
86 DeleteShareGroupState 4.1:0-0
87 ReadShareGroupStateSummary 4.1:0-0 4.2:0-1
88 StreamsGroupHeartbeat 4.2:0-0
89 StreamsGroupDescribe 4.2:0-0
90 DescribeShareGroupOffsets 4.1:0-0 4.2:0-1
91 AlterShareGroupOffsets 4.1:0-0
92 DeleteShareGroupOffsets 4.1:0-0
"""

# name, and release:highest level where it changes; before that a release does not have it
_FEATURES = """
metadata.version 3.3:7 3.4:8 3.5:11 3.6:14 3.7:19 3.8:20 3.9:21 4.0:25 4.1:27 4.2:29 4.3:30
kraft.version 3.9:1
transaction.version 4.0:2
group.version 4.0:1
eligible.leader.replicas.version 4.0:1
share.version 4.1:1
streams.version 4.2:1
"""


class Ceiling:
    """The APIs and features that one of RELEASES announces."""

    def __init__(self, release: str) -> None:
        self.release = release

    @cached_property
    def versions(self) -> Mapping[int, Versions]:
        """The range of each API that the release has, by API key."""
        found = {}
        for line in _APIS.strip().split("\n"):
            key, _, *changes = line.split()
            text = self._value(changes)
            if text is not None and text != "none":
                found[int(key)] = parse_versions(text)
        return found

    @cached_property
    def features(self) -> Mapping[str, int]:
        """The highest level of each feature that the release has, by name."""
        lines = [line.split() for line in _FEATURES.strip().split("\n")]
        levels = {name: self._value(changes) for name, *changes in lines}
        return {name: int(level) for name, level in levels.items() if level is not None}

    def announced(self, api: "AnyApi") -> Versions:
        """Return what ApiVersions shows of an API; NO_VERSION when the release does not have it."""
        theirs = self.versions.get(api.key, NO_VERSION)
        low, high = max(theirs.low, api.announced.low), min(theirs.high, api.announced.high)
        return Versions(low, high) if low <= high else NO_VERSION

    def _value(self, changes: list[str]) -> str | None:
        """Return the last of the `release:value` that is not of a later release."""
        upto = RELEASES[: RELEASES.index(self.release) + 1]
        values = dict(each.split(":") for each in changes)
        return next((values[each] for each in reversed(upto) if each in values), None)
