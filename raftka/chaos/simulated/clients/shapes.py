"""Request shapes of client libraries: the versions that each sends to a broker of Kafka 4.3, and
the typical contents of its requests.

One table, by which the clients of a life speak: which library a client is its seed decides. Knows
no connection.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from raftka.wire.messages.fetch import FETCH
from raftka.wire.messages.find_coordinator import (
    FIND_COORDINATOR,
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from raftka.wire.messages.groups import HEARTBEAT, JOIN_GROUP, LEAVE_GROUP, SYNC_GROUP
from raftka.wire.messages.list_offsets import LIST_OFFSETS
from raftka.wire.messages.metadata import METADATA
from raftka.wire.messages.offsets import (
    OFFSET_COMMIT,
    OFFSET_FETCH,
    OffsetFetchRequest,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from raftka.wire.messages.produce import PRODUCE
from raftka.wire.messages.producer_ids import INIT_PRODUCER_ID
from raftka.wire.schema import AnyApi

APIS: tuple[AnyApi, ...] = (
    PRODUCE,
    FETCH,
    LIST_OFFSETS,
    METADATA,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    FIND_COORDINATOR,
    JOIN_GROUP,
    HEARTBEAT,
    LEAVE_GROUP,
    SYNC_GROUP,
    INIT_PRODUCER_ID,
)
# versions: FindCoordinator with several keys, OffsetFetch of several groups, by a member and its
# epoch
MANY_KEYS, MANY_GROUPS, OF_MEMBERS = 4, 8, 9
INSTANCE_SINCE = {OFFSET_COMMIT.key: 7, HEARTBEAT.key: 3, SYNC_GROUP.key: 3, JOIN_GROUP.key: 5}


@dataclass(frozen=True)
class Shape:
    """`versions`: by API key; of others the highest that both sides know."""

    name: str  # its client id
    versions: Mapping[int, int]
    sessions: bool = True  # fetches in sessions
    isolation: int = 0  # 1: read committed
    max_wait_ms: int = 500
    max_bytes: int = 0x7FFFFFFF  # of an answer to Fetch
    commit_metadata: str | None = ""
    names_epochs: bool = True  # of leaders, in Fetch and OffsetCommit
    reason: str | None = None  # why it joins a group

    def version(self, api: AnyApi) -> int | None:
        """None: the highest."""
        return self.versions.get(api.key)

    def instance(self, api: AnyApi, instance_id: str | None) -> str | None:
        """The instance id, if this version of the API has a field for it."""
        return instance_id if self.versions.get(api.key, 99) >= INSTANCE_SINCE[api.key] else None

    @property
    def asks_for_many(self) -> bool:
        """Coordinators of several groups at once."""
        return self.versions.get(FIND_COORDINATOR.key, 99) >= MANY_KEYS

    def find_coordinator(self, groups: Sequence[str]) -> FindCoordinatorRequest:
        """`groups`: one where the version knows no more."""
        if not self.asks_for_many:
            (key,) = groups
            return FIND_COORDINATOR.request(key=key)
        return FIND_COORDINATOR.request(coordinator_keys=list(groups))

    def coordinators(
        self, answer: FindCoordinatorResponse
    ) -> Sequence[Coordinator | FindCoordinatorResponse]:
        """In the order of the groups that were asked for: node_id, host, port, error_code."""
        return answer.coordinators if self.asks_for_many else (answer,)

    def fetch_offsets(
        self,
        group: str,
        topics: Mapping[str, Sequence[int]] | None,
        ids: Mapping[str, bytes],
        member_id: str | None = None,
        epoch: int = -1,
    ) -> OffsetFetchRequest:
        """`topics`: None are all; partitions by name. `ids`: of topics, where the version knows no
        names.
        """
        request, version = OFFSET_FETCH.request, self.versions.get(OFFSET_FETCH.key, 99)
        if version < MANY_GROUPS:
            rows = (
                None
                if topics is None
                else [
                    request.topics(name=name, partition_indexes=list(each))
                    for name, each in topics.items()
                ]
            )
            return request(group_id=group, topics=rows)
        asked = (
            None
            if topics is None
            else [self._asked(name, each, ids) for name, each in topics.items()]
        )
        row = request.groups(group_id=group, topics=asked)
        if version >= OF_MEMBERS:
            row.member_id, row.member_epoch = member_id, epoch
        return request(groups=[row])

    @staticmethod
    def _asked(
        name: str, partitions: Sequence[int], ids: Mapping[str, bytes]
    ) -> OffsetFetchRequestTopics:
        return OFFSET_FETCH.request.groups.topics(
            name=name, topic_id=ids.get(name, bytes(16)), partition_indexes=list(partitions)
        )

    def offsets(self, answer: OffsetFetchResponse) -> Any:
        """The answer for the one group that was asked for: error_code, topics."""
        return answer if self.versions.get(OFFSET_FETCH.key, 99) < MANY_GROUPS else answer.groups[0]


def _shape(name: str, versions: Sequence[int], **fields: Any) -> Shape:
    return Shape(
        name, {api.key: version for api, version in zip(APIS, versions, strict=True)}, **fields
    )


# Versions in the order of APIS. The highest of each API that the library knows, and that Kafka 4.3
# announces.
SHAPES = (
    _shape("kafka-python-3.0.12", (9, 12, 11, 13, 8, 8, 6, 7, 4, 5, 5, 4), max_bytes=52_428_800),
    _shape("rdkafka", (10, 16, 7, 13, 9, 9, 2, 5, 3, 1, 3, 4), sessions=False, isolation=1, max_bytes=52_428_800, commit_metadata=None),
    _shape("aiokafka-0.14.0", (7, 11, 3, 5, 3, 3, 1, 5, 1, 1, 3, 0), sessions=False, max_bytes=52_428_800, names_epochs=False),
    _shape("java-4.3", (13, 18, 11, 13, 10, 10, 6, 9, 4, 5, 5, 5), max_bytes=52_428_800, reason="rebalance enforced by user"),
    _shape("kgo", (13, 18, 11, 13, 10, 10, 6, 9, 4, 5, 5, 5), max_wait_ms=5_000, max_bytes=52_428_800),
    _shape("kafkajs", (7, 11, 3, 6, 5, 4, 2, 5, 3, 3, 3, 1), sessions=False, isolation=1, max_wait_ms=5_000, max_bytes=10_485_760,
           commit_metadata=None, names_epochs=False),
)  # fmt: skip
# the newest versions that know names
PLAIN = Shape(
    "simulated", {PRODUCE.key: 12, FETCH.key: 12, OFFSET_COMMIT.key: 9, OFFSET_FETCH.key: 9}
)


# know static members
STATIC = tuple(
    shape
    for shape in SHAPES
    if shape.versions[OFFSET_COMMIT.key] >= INSTANCE_SINCE[OFFSET_COMMIT.key]
)
# commit as members of the new protocol
NEW_GROUPS = tuple(shape for shape in SHAPES if shape.versions[OFFSET_COMMIT.key] >= OF_MEMBERS)
