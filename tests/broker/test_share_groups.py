"""Share groups through nodes: whether they are served, rights, limits, lags of partitions that
other brokers lead, and coordinators that change.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from raftka.broker.exporter.group_metrics import groups_of
from raftka.limits import SHARE_STATE_BYTES_OF_GROUP, SUBSCRIBED_NAMES
from raftka.security import acls
from raftka.security.acls import Acl
from raftka.wire.errors import Code
from raftka.wire.messages.produce import PRODUCE
from raftka.wire.messages.share_groups import SHARE_GROUP_DESCRIBE
from raftka.wire.messages.share_offsets import (
    ALTER_SHARE_GROUP_OFFSETS,
    DELETE_SHARE_GROUP_OFFSETS,
    DESCRIBE_SHARE_GROUP_OFFSETS,
    DescribeShareGroupOffsetsResponseGroup,
)
from tests.broker.conftest import Lower
from tests.broker.requests import batch, produce, produced
from tests.broker.rights import WITH_ACLS, admin_of, create_acls, pat, topic_acl
from tests.broker.stage import BY_NAME, Stage, Wire
from tests.kit.broker.share_groups import (
    MEMBER,
    beat,
    join,
    leave,
    load_groups,
    serving_no_share_groups,
    serving_share_groups,
)

ONE: dict[str, Any] = {
    "offsets_topic_num_partitions": "1",
    "group_share_assignment_interval_ms": "0",
}


@pytest.fixture
def stage() -> Iterator[Stage]:
    with serving_share_groups(), Stage(**ONE) as stage:
        stage.create("t", 2)
        load_groups(stage)
        yield stage
        assert not stage.world.failures


def offsets(wire: Wire, group: str, *topics: str) -> DescribeShareGroupOffsetsResponseGroup:
    row = DESCRIBE_SHARE_GROUP_OFFSETS.request.groups
    asked = [row.topics(topic_name=name, partitions=[0, 1]) for name in topics]
    request = DESCRIBE_SHARE_GROUP_OFFSETS.request(
        groups=[row(group_id=group, topics=asked if topics else None)]
    )
    return wire.ask(DESCRIBE_SHARE_GROUP_OFFSETS, request).groups[0]


def alter(wire: Wire, group: str, topic: str, *starts: int) -> list[int]:
    """Returns the code of the group, then those of the partitions."""
    row = ALTER_SHARE_GROUP_OFFSETS.request.topics
    partitions = [
        row.partitions(partition_index=index, start_offset=start)
        for index, start in enumerate(starts)
    ]
    request = ALTER_SHARE_GROUP_OFFSETS.request(
        group_id=group, topics=[row(topic_name=topic, partitions=partitions)]
    )
    answer = wire.ask(ALTER_SHARE_GROUP_OFFSETS, request)
    return [
        answer.error_code,
        *[each.error_code for topic in answer.responses for each in topic.partitions],
    ]


def delete(wire: Wire, group: str, topic: str) -> list[int]:
    row = DELETE_SHARE_GROUP_OFFSETS.request.topics
    request = DELETE_SHARE_GROUP_OFFSETS.request(group_id=group, topics=[row(topic_name=topic)])
    answer = wire.ask(DELETE_SHARE_GROUP_OFFSETS, request)
    return [answer.error_code, *[each.error_code for each in answer.responses]]


def describe(wire: Wire, group: str) -> int:
    request = SHARE_GROUP_DESCRIBE.request(group_ids=[group])
    return wire.ask(SHARE_GROUP_DESCRIBE, request).groups[0].error_code


def test_a_cluster_without_the_feature_serves_none() -> None:
    with serving_no_share_groups(), Stage(**ONE) as stage:
        wire = stage.wire()
        assert beat(wire, "g", 0, ["t"]).error_code == Code.UNSUPPORTED_VERSION
        assert describe(wire, "g") == Code.UNSUPPORTED_VERSION
        assert offsets(wire, "g").error_code == Code.UNSUPPORTED_VERSION


def test_too_many_names_are_refused_and_counted(stage: Stage, lowered: Lower) -> None:
    lowered(SUBSCRIBED_NAMES, 2)
    wire = stage.wire()

    assert beat(wire, "g", 0, ["a", "b", "c"]).error_code == Code.INVALID_REQUEST
    assert beat(wire, "g", 0, ["a", "b"]).error_code == Code.NONE
    assert stage.counted(SUBSCRIBED_NAMES.metric) == 1


def test_too_many_share_partitions_are_refused_and_counted(stage: Stage, lowered: Lower) -> None:
    wire = stage.wire()
    stage.create("wide", 30)
    lowered(SHARE_STATE_BYTES_OF_GROUP, 100)

    assert beat(wire, "g", 0, ["wide"]).error_code == Code.INVALID_REQUEST
    assert alter(wire, "g", "wide", *range(30)) == [Code.INVALID_REQUEST]
    assert stage.counted(SHARE_STATE_BYTES_OF_GROUP.metric) == 2
    join(stage, wire, "other", "t")


def test_share_groups_are_counted_with_the_others(stage: Stage) -> None:
    join(stage, stage.wire(), "g", "t")
    node = stage.nodes[1]

    (found,) = groups_of(node.services, node.groups.runtime.partitions[0])
    assert (found.group_id, found.state, found.members) == ("g", "Stable", 1)


def test_partitions_that_a_topic_gets_are_assigned(stage: Stage) -> None:
    wire = stage.wire()
    epoch = join(stage, wire, "g", "t", "later")
    stage.create("later")
    stage.world.run(stage.world.now + 1.0)
    beat(wire, "g", epoch)
    stage.world.run(stage.world.now + 1.0)
    answer = beat(wire, "g", epoch)

    assert answer.assignment is not None
    assert len(answer.assignment.topic_partitions) == 2


@pytest.fixture
def secured() -> Iterator[Stage]:
    with serving_share_groups(), Stage(**WITH_ACLS, **ONE) as stage:
        stage.wire = lambda node_id=1: admin_of(stage, node_id)  # type: ignore[method-assign]
        stage.create("t")
        load_groups(stage)
        yield stage
        assert not stage.world.failures


def group_acl(operation: int, name: str = "g") -> Acl:
    return Acl(acls.GROUP, name, acls.LITERAL, "User:pat", "*", operation, acls.ALLOW)


def test_members_need_rights_for_group_and_topics(secured: Stage) -> None:
    wire = pat(secured)
    assert beat(wire, "g", 0, ["t"]).error_code == Code.GROUP_AUTHORIZATION_FAILED
    create_acls(secured, group_acl(acls.READ))
    assert beat(wire, "g", 0, ["t"]).error_code == Code.TOPIC_AUTHORIZATION_FAILED
    create_acls(secured, topic_acl(acls.DESCRIBE))
    assert beat(wire, "g", 0, ["t"]).error_code == Code.NONE


def test_administrators_need_rights_for_group_and_topics(secured: Stage) -> None:
    wire, admin = pat(secured), secured.wire()
    denied, no_topic = Code.GROUP_AUTHORIZATION_FAILED, Code.TOPIC_AUTHORIZATION_FAILED
    assert alter(admin, "g", "t", 0) == [0, 0]
    assert (describe(wire, "g"), offsets(wire, "g").error_code) == (denied, denied)
    assert (alter(wire, "g", "t", 5), delete(wire, "g", "t")) == ([denied], [denied])

    create_acls(secured, group_acl(acls.DESCRIBE))
    assert describe(wire, "g") == 0
    assert offsets(wire, "g").topics == []
    assert offsets(wire, "g", "t").topics[0].partitions[0].error_code == no_topic
    create_acls(secured, group_acl(acls.READ), group_acl(acls.DELETE))
    assert (alter(wire, "g", "t", 5), delete(wire, "g", "t")) == ([0, no_topic], [0, no_topic])
    create_acls(secured, topic_acl(acls.READ))
    assert alter(wire, "g", "t", 5) == [0, 0]
    assert offsets(wire, "g", "t").topics[0].partitions[0].start_offset == 5
    assert delete(wire, "g", "t") == [0, 0]


def test_lags_of_partitions_that_other_brokers_lead_are_known() -> None:
    with serving_share_groups(), Stage(3, **ONE) as stage:
        stage.create("t", 3)
        for index in range(3):
            answer = stage.wire(stage.leader("t", index)).ask(
                PRODUCE,
                produce("t", batch(b"1", b"2", b"3"), partition=index),
                BY_NAME[PRODUCE.key],
            )
            assert produced(answer).error_code == 0
        load_groups(stage)
        wire = stage.wire(stage.leader("__consumer_offsets"))
        assert len({stage.leader("t", index) for index in range(3)}) == 3
        assert alter(wire, "g", "t", 1, 2, 0) == [0, 0, 0, 0]

        (topic,) = offsets(wire, "g").topics
        assert [(each.start_offset, each.lag) for each in topic.partitions] == [
            (1, 2),
            (2, 1),
            (0, 3),
        ]


def test_a_group_that_is_named_again_is_described_once(stage: Stage) -> None:
    """Its share partitions may be many thousand: else a small request would have a long answer."""
    wire = stage.wire()
    assert alter(wire, "g", "t", 3, 4) == [0, 0, 0]
    row = DESCRIBE_SHARE_GROUP_OFFSETS.request.groups
    named = row(group_id="g", topics=[row.topics(topic_name="t", partitions=[1])])
    whole = row(group_id="g", topics=None)

    request = DESCRIBE_SHARE_GROUP_OFFSETS.request(groups=[whole, named, whole, named])
    groups = wire.ask(DESCRIBE_SHARE_GROUP_OFFSETS, request).groups

    starts = [[each.start_offset for each in group.topics[0].partitions] for group in groups]
    assert starts == [[3, 4], [4], [4]]


def test_a_group_goes_on_with_another_coordinator() -> None:
    with serving_share_groups(), Stage(3, **ONE) as stage:
        stage.create("t", 2)
        load_groups(stage)
        first = stage.leader("__consumer_offsets")
        epoch = join(stage, stage.wire(first), "g", "t")
        stage.kill(first)
        stage.wait(lambda: stage.leader("__consumer_offsets") not in (first, -1))
        wire = stage.wire(stage.leader("__consumer_offsets"))
        stage.wait(lambda: beat(wire, "g", epoch).error_code != Code.COORDINATOR_LOAD_IN_PROGRESS)

        assert beat(wire, "g", epoch).member_epoch == epoch
        leave(wire, "g", MEMBER)
