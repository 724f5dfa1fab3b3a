"""No change of many things keeps the loop: topics, partitions, settings, offsets, ACLs. CPU time is
counted in calls (turns.py).

From the request to what follows on each node: the decision, its replay, the image, the log of
events, opened and removed logs.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from raftka.wire.errors import Code
from raftka.wire.messages.acls import CREATE_ACLS, DELETE_ACLS, DESCRIBE_ACLS
from raftka.wire.messages.configs import ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS
from raftka.wire.messages.find_coordinator import FIND_COORDINATOR
from raftka.wire.messages.offsets import OFFSET_COMMIT, OFFSET_DELETE
from raftka.wire.messages.partitions import CREATE_PARTITIONS, ELECT_LEADERS
from raftka.wire.messages.reassignments import ALTER_PARTITION_REASSIGNMENTS
from raftka.wire.messages.scram import ALTER_USER_SCRAM_CREDENTIALS
from raftka.wire.messages.topics import CREATE_TOPICS, DELETE_TOPICS
from raftka.wire.rows import Row
from raftka.wire.schema import AnyApi
from tests.broker.stage import Stage
from tests.broker.turns import counting, most_calls

# a slice of 10,000 calls with its writes, and one command that makes several topics
MOST_CALLS = 45_000
ENTRIES = 8_000
TOPICS, PARTITIONS = 500, 1000
ACLS = 1500
SUPER: dict[str, Any] = {
    "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super_users": "User:ANONYMOUS",
}


class Changes:
    """Each of its methods makes a request; together they create, change and delete many topics and
    what belongs to them.
    """

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.factor = min(3, stage.size)

    def create_topics(self) -> tuple[AnyApi, Row]:
        row = CREATE_TOPICS.request
        topics = [
            row.topics(name=f"t{i}", num_partitions=1, replication_factor=self.factor)
            for i in range(TOPICS)
        ]
        return CREATE_TOPICS, row(topics=topics, timeout_ms=60_000)

    def create_a_wide_topic(self) -> tuple[AnyApi, Row]:
        row = CREATE_TOPICS.request
        return CREATE_TOPICS, row(
            topics=[
                row.topics(name="wide", num_partitions=PARTITIONS, replication_factor=self.factor)
            ],
            timeout_ms=60_000,
        )

    def create_partitions(self) -> tuple[AnyApi, Row]:
        row = CREATE_PARTITIONS.request
        return CREATE_PARTITIONS, row(
            topics=[row.topics(name=f"t{i}", count=2, assignments=None) for i in range(TOPICS)],
            timeout_ms=60_000,
        )

    def alter_configs(self) -> tuple[AnyApi, Row]:
        row = INCREMENTAL_ALTER_CONFIGS.request
        change = [row.resources.configs(name="retention.ms", value="1000000", config_operation=0)]
        return INCREMENTAL_ALTER_CONFIGS, row(
            resources=[
                row.resources(resource_type=2, resource_name=f"t{i}", configs=change)
                for i in range(TOPICS)
            ]
        )

    def replace_configs(self) -> tuple[AnyApi, Row]:
        row = ALTER_CONFIGS.request
        change = [row.resources.configs(name="retention.ms", value="2000000")]
        return ALTER_CONFIGS, row(
            resources=[
                row.resources(resource_type=2, resource_name=f"t{i}", configs=change)
                for i in range(TOPICS)
            ]
        )

    def commit_offsets(self) -> tuple[AnyApi, Row]:
        of = OFFSET_COMMIT.request.topics
        topics = [
            of(
                name="wide",
                partitions=[
                    of.partitions(partition_index=i, committed_offset=1) for i in range(PARTITIONS)
                ],
            )
        ]
        topics += [
            of(name=f"t{i}", partitions=[of.partitions(partition_index=0, committed_offset=1)])
            for i in range(TOPICS)
        ]
        return OFFSET_COMMIT, OFFSET_COMMIT.request(group_id="g", topics=self._by_id(topics))

    def delete_offsets(self) -> tuple[AnyApi, Row]:
        of = OFFSET_DELETE.request.topics
        topics = [
            of(
                name="wide",
                partitions=[of.partitions(partition_index=i) for i in range(PARTITIONS)],
            )
        ]
        topics += [
            of(name=f"t{i}", partitions=[of.partitions(partition_index=0)]) for i in range(TOPICS)
        ]
        return OFFSET_DELETE, OFFSET_DELETE.request(group_id="g", topics=topics)

    def elect_leaders(self) -> tuple[AnyApi, Row]:
        row = ELECT_LEADERS.request
        return ELECT_LEADERS, row(
            topic_partitions=[
                row.topic_partitions(topic="wide", partitions=tuple(range(PARTITIONS)))
            ],
            timeout_ms=60_000,
        )

    def reassign(self) -> tuple[AnyApi, Row]:
        of = ALTER_PARTITION_REASSIGNMENTS.request.topics
        wide = self.stage.nodes[1].image.topic_named("wide")
        assert wide is not None
        moves = [
            of.partitions(partition_index=i, replicas=tuple(reversed(each.replicas)))
            for i, each in enumerate(wide.partitions)
        ]
        return ALTER_PARTITION_REASSIGNMENTS, ALTER_PARTITION_REASSIGNMENTS.request(
            topics=[of(name="wide", partitions=moves)], timeout_ms=60_000
        )

    def create_acls(self) -> tuple[AnyApi, Row]:
        row = CREATE_ACLS.request
        kinds: dict[str, Any] = {
            "resource_type": 2,
            "resource_pattern_type": 3,
            "operation": 3,
            "permission_type": 3,
        }
        return CREATE_ACLS, row(
            creations=[
                row.creations(resource_name=f"r{i}", principal="User:x", host="*", **kinds)
                for i in range(ACLS)
            ]
        )

    def describe_acls(self) -> tuple[AnyApi, Row]:
        return DESCRIBE_ACLS, DESCRIBE_ACLS.request(
            resource_type_filter=1, pattern_type_filter=1, operation=1, permission_type=1
        )

    def delete_acls(self) -> tuple[AnyApi, Row]:
        row = DELETE_ACLS.request
        kinds: dict[str, Any] = {
            "resource_type_filter": 2,
            "pattern_type_filter": 3,
            "operation": 3,
            "permission_type": 3,
        }
        some: dict[str, Any] = {"principal_filter": "User:x", "host_filter": "*"}
        return DELETE_ACLS, row(
            filters=[
                row.filters(resource_name_filter=f"r{i}", **some, **kinds) for i in range(ACLS)
            ]
        )

    def alter_credentials(self) -> tuple[AnyApi, Row]:
        row = ALTER_USER_SCRAM_CREDENTIALS.request
        some: dict[str, Any] = {
            "mechanism": 1,
            "iterations": 4096,
            "salt": b"salt",
            "salted_password": bytes(32),
        }
        return ALTER_USER_SCRAM_CREDENTIALS, row(
            upsertions=[row.upsertions(name=f"u{i}", **some) for i in range(TOPICS)]
        )

    def delete_topics(self) -> tuple[AnyApi, Row]:
        row = DELETE_TOPICS.request
        return DELETE_TOPICS, row(
            topics=[row.topics(name=f"t{i}") for i in range(TOPICS)], timeout_ms=60_000
        )

    def delete_a_wide_topic(self) -> tuple[AnyApi, Row]:
        return DELETE_TOPICS, DELETE_TOPICS.request(
            topics=[DELETE_TOPICS.request.topics(name="wide")], timeout_ms=60_000
        )

    def delete_one_name_with_many_ids(self) -> tuple[AnyApi, Row]:
        row = DELETE_TOPICS.request
        return DELETE_TOPICS, row(
            topics=[
                row.topics(name="t0", topic_id=i.to_bytes(16, "big")) for i in range(1, ENTRIES)
            ],
            timeout_ms=60_000,
        )

    def _by_id(self, topics: list[Any]) -> list[Any]:
        for each in topics:
            each.topic_id = self.stage.nodes[1].image.topic_ids[each.name]
        return topics


ON_ONE = [
    Changes.create_topics,
    Changes.create_a_wide_topic,
    Changes.create_partitions,
    Changes.alter_configs,
    Changes.replace_configs,
    Changes.commit_offsets,
    Changes.delete_offsets,
    Changes.elect_leaders,
    Changes.create_acls,
    Changes.describe_acls,
    Changes.delete_acls,
    Changes.alter_credentials,
    Changes.delete_one_name_with_many_ids,
    Changes.delete_topics,
    Changes.delete_a_wide_topic,
]
ON_THREE = [
    Changes.create_topics,
    Changes.create_a_wide_topic,
    Changes.reassign,
    Changes.delete_a_wide_topic,
    Changes.delete_topics,
]
CODES = {
    "delete_one_name_with_many_ids": {Code.INVALID_REQUEST},
    "elect_leaders": {Code.NONE, Code.ELECTION_NOT_NEEDED},
}


@pytest.mark.parametrize(
    ("nodes", "changes"),
    [pytest.param(1, ON_ONE, id="one node"), pytest.param(3, ON_THREE, id="three nodes")],
)
def test_no_change_of_many_things_keeps_the_loop(
    nodes: int, changes: list[Callable[[Changes], tuple[AnyApi, Row]]]
) -> None:
    with (
        counting() as calls,
        Stage(
            nodes, offsets_topic_num_partitions="1", auto_create_topics_enable="false", **SUPER
        ) as stage,
    ):
        wire = stage.wire()
        coordinator = FIND_COORDINATOR.request(coordinator_keys=["g"])
        stage.wait(lambda: not wire.ask(FIND_COORDINATOR, coordinator).coordinators[0].error_code)
        all_changes = Changes(stage)
        longest: dict[str, int] = {}
        for change in changes:
            api, row = change(all_changes)
            answer = most_calls(calls, stage, api, row, settle_s=20.0)
            assert answer is not None
            assert set(codes(answer)) == CODES.get(change.__name__, {Code.NONE}), (
                change.__name__,
                stage.events("handler_failed"),
            )
            longest[change.__name__] = calls.most
        assert max(longest.values()) <= MOST_CALLS, longest
        assert not stage.world.failures


def codes(row: Row) -> Iterator[int]:
    """All error codes of an answer."""
    for name in row.__slots__:
        value = getattr(row, name)
        if name == "error_code":
            yield value
        elif isinstance(value, list):
            for each in value:
                if isinstance(each, Row):
                    yield from codes(each)
