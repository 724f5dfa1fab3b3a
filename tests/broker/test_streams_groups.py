"""Streams groups at a broker: rights, limits, and the internal topics that it creates."""

from collections.abc import Iterator
from typing import Any

import pytest

from raftka.limits import (
    CLIENT_TAGS,
    TASKS_OF_GROUP,
    TOPICS_OF_TOPOLOGY,
    TOPOLOGY_DESCRIPTION_BYTES,
)
from raftka.metadata.configs.settings import NodeSettings
from raftka.metadata.configs.values import SettingError
from raftka.metadata.image import GROUP
from raftka.wire.errors import Code
from raftka.wire.messages.find_coordinator import FIND_COORDINATOR
from raftka.wire.messages.groups import LIST_GROUPS
from raftka.wire.messages.streams_groups import (
    STREAMS_GROUP_DESCRIBE,
    STREAMS_GROUP_HEARTBEAT,
    STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE,
    StreamsGroupHeartbeatResponse,
)
from raftka.wire.rows import Row
from tests.broker.conftest import Lower
from tests.broker.stage import Stage
from tests.kit.broker.grants import Grants
from tests.kit.broker.share_groups import load_groups

request = STREAMS_GROUP_HEARTBEAT.request
AT_ONCE: dict[str, Any] = {
    "streams_initial_rebalance_delay_ms": "0",
    "streams_assignment_interval_ms": "0",
}
READ, DESCRIBE = ("READ", "group", "g"), ("DESCRIBE", "topic", "t")
MISSING_INTERNAL_TOPICS = 3


@pytest.fixture
def stage() -> Iterator[Stage]:
    with Stage() as stage:
        stage.create("t", 3)
        stage.set(GROUP, "g", **AT_ONCE)
        asked = FIND_COORDINATOR.request(key_type=0, coordinator_keys=["g"])
        wire = stage.wire()
        stage.wait(lambda: wire.ask(FIND_COORDINATOR, asked).coordinators[0].error_code == 0)
        yield stage
        assert not stage.world.failures


def subtopology(changelog: str | None = None, **configs: str) -> Any:
    topics = [
        request.topology.subtopologies.state_changelog_topics(
            name=changelog or "",
            topic_configs=[
                request.topology.subtopologies.state_changelog_topics.topic_configs(
                    key=key.replace("_", "."), value=value
                )
                for key, value in configs.items()
            ],
        )
    ]
    return request.topology.subtopologies(
        subtopology_id="0",
        source_topics=["t"],
        state_changelog_topics=topics if changelog is not None else [],
    )


def join(stage: Stage, *subtopologies: Any, **fields: Any) -> StreamsGroupHeartbeatResponse:
    said: dict[str, Any] = {
        "rebalance_timeout_ms": 5000,
        "topology": request.topology(subtopologies=subtopologies or [subtopology()]),
        "active_tasks": [],
        "standby_tasks": [],
        "warmup_tasks": [],
        "process_id": "p",
    }
    row = request(group_id="g", member_id="m", **said | fields)
    return stage.wire().ask(STREAMS_GROUP_HEARTBEAT, row)


def beat(stage: Stage, epoch: int, **fields: Any) -> StreamsGroupHeartbeatResponse:
    row = request(group_id="g", member_id="m", member_epoch=epoch, **fields)
    return stage.wire().ask(STREAMS_GROUP_HEARTBEAT, row)


def described(stage: Stage) -> Row:
    asked = STREAMS_GROUP_DESCRIBE.request(group_ids=["g"])
    return stage.wire().ask(STREAMS_GROUP_DESCRIBE, asked).groups[0]


def grant(stage: Stage, *rights: tuple[str, str, str]) -> None:
    stage.nodes[1].dispatcher.authorizer = Grants(*rights)


# rights


def test_a_member_needs_its_group_and_its_topics(stage: Stage) -> None:
    codes = []
    for rights in ((), (READ,), (DESCRIBE,), (READ, DESCRIBE)):
        grant(stage, *rights)
        codes.append(join(stage).error_code)

    assert codes == [
        Code.GROUP_AUTHORIZATION_FAILED,
        Code.TOPIC_AUTHORIZATION_FAILED,
        Code.GROUP_AUTHORIZATION_FAILED,
        Code.NONE,
    ]


def test_a_group_is_described_with_its_topics_or_not_at_all(stage: Stage) -> None:
    join(stage)
    codes = []
    for rights in ((), (("DESCRIBE", "group", "g"),), (("DESCRIBE", "group", "g"), DESCRIBE)):
        grant(stage, *rights)
        codes.append(described(stage).error_code)  # type: ignore[attr-defined]

    assert codes == [
        Code.GROUP_AUTHORIZATION_FAILED,
        Code.TOPIC_AUTHORIZATION_FAILED,
        Code.NONE,
    ]


def test_a_topology_description_needs_the_group_and_a_plugin(stage: Stage) -> None:
    api, codes = STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE, []
    for rights in ((), (READ,)):
        grant(stage, *rights)
        codes.append(stage.wire().ask(api, api.request(group_id="g", member_id="m")).error_code)

    assert codes == [Code.GROUP_AUTHORIZATION_FAILED, Code.UNSUPPORTED_VERSION]


# internal topics


@pytest.mark.parametrize(
    "right", [("CREATE", "cluster", "kafka-cluster"), ("CREATE", "topic", "log")]
)
def test_internal_topics_are_created_by_the_broker(
    stage: Stage, right: tuple[str, str, str]
) -> None:
    log = ("DESCRIBE", "topic", "log")
    grant(stage, READ, DESCRIBE, log)
    answer = join(stage, subtopology("log", cleanup_policy="compact"))
    (status,) = answer.status or ()
    assert status.status_code == MISSING_INTERNAL_TOPICS
    assert status.status_detail.endswith("; Unauthorized to CREATE on topics log.")

    stage.world.run(lambda: False, at_most_s=1.0)
    assert "log" not in stage.nodes[1].image.topic_ids
    grant(stage, READ, DESCRIBE, log, right)
    (status,) = beat(stage, answer.member_epoch).status or ()
    assert status.status_detail == "Internal topics are missing: log"
    stage.wait(lambda: "log" in stage.nodes[1].image.topic_ids)
    topic = stage.nodes[1].image.topic_named("log")
    assert topic is not None
    assert len(topic.partitions) == 3
    assert stage.nodes[1].image.config(2, "log") == {"cleanup.policy": "compact"}
    answer = beat(stage, answer.member_epoch)
    assert not answer.status
    assert [list(each.partitions) for each in answer.active_tasks or ()] == [[0, 1, 2]]


def test_a_topic_that_cannot_be_created_is_named_with_the_reason(stage: Stage) -> None:
    answer = join(stage, subtopology("log", no_such="x"))
    stage.wait(
        lambda: bool(stage.nodes[1].groups.streams_topics.failures_of(["log"])), at_most_s=5.0
    )

    (status,) = beat(stage, answer.member_epoch).status or ()

    assert "; Creation failed: log (" in status.status_detail
    assert "no.such" in status.status_detail


# limits


def test_a_topology_with_very_many_topics_is_refused(stage: Stage, lowered: Lower) -> None:
    lowered(TOPICS_OF_TOPOLOGY, 2)

    assert join(stage, subtopology("log")).error_code == Code.STREAMS_INVALID_TOPOLOGY
    assert stage.counted(TOPICS_OF_TOPOLOGY.metric) == 1
    assert join(stage).error_code == Code.NONE


def test_a_group_with_very_many_tasks_is_refused(stage: Stage, lowered: Lower) -> None:
    lowered(TASKS_OF_GROUP, 2)

    assert join(stage).error_code == Code.STREAMS_INVALID_TOPOLOGY
    assert stage.counted(TASKS_OF_GROUP.metric) == 1
    assert described(stage).error_code == Code.GROUP_ID_NOT_FOUND  # type: ignore[attr-defined]
    lowered(TASKS_OF_GROUP, 3)
    epoch = join(stage).member_epoch
    many = [request.active_tasks(subtopology_id="0", partitions=[0, 1, 2])]
    codes = [
        beat(stage, epoch, active_tasks=many, standby_tasks=[], warmup_tasks=[]).error_code,
        beat(stage, epoch, task_offsets=[request.task_offsets()] * 4).error_code,
        beat(stage, epoch, task_offsets=[request.task_offsets()] * 3).error_code,
    ]
    assert codes == [Code.INVALID_REQUEST, Code.INVALID_REQUEST, Code.NONE]
    assert stage.counted(TASKS_OF_GROUP.metric) == 3


def test_a_member_with_very_many_tags_is_refused(stage: Stage, lowered: Lower) -> None:
    lowered(CLIENT_TAGS, 1)
    tags = [request.client_tags(key=key, value="x") for key in "ab"]

    assert join(stage, client_tags=tags).error_code == Code.INVALID_REQUEST
    assert stage.counted(CLIENT_TAGS.metric) == 1
    assert join(stage, client_tags=tags[:1]).error_code == Code.NONE


# lists


@pytest.mark.parametrize(
    ("states", "types", "listed"),
    [
        (["not_ready", "Dead"], [], True),
        (["Stable", "Assigning"], [], False),
        ([], ["share", "Streams"], True),
        ([], ["share", "consumer"], False),
    ],
)
def test_groups_are_listed_by_states_and_types(
    stage: Stage, states: list[str], types: list[str], listed: bool
) -> None:
    missing = request.topology.subtopologies(subtopology_id="0", source_topics=["absent"])
    join(stage, missing)

    asked = LIST_GROUPS.request(states_filter=states, types_filter=types)
    found = stage.wire().ask(LIST_GROUPS, asked).groups

    assert [(each.group_id, each.group_state) for each in found] == [("g", "NotReady")] * listed


# descriptions of topologies


def describe_topology(stage: Stage, epoch: int = 0) -> Code:
    make = STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE.request
    subtopology = make.topology_description.subtopologies
    node = subtopology.nodes(name="source", node_type=1, source_topics=["t"])
    row = make(
        group_id="g",
        member_id="m",
        topology_epoch=epoch,
        topology_description=make.topology_description(
            subtopologies=[subtopology(subtopology_id="0", nodes=[node])]
        ),
    )
    answer = stage.wire().ask(STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE, row)
    return Code(answer.error_code)


def known(stage: Stage) -> tuple[int, list[str]]:
    """Return the status of the topology's description, and the names of its nodes."""
    asked = STREAMS_GROUP_DESCRIBE.request(group_ids=["g"], include_topology_description=True)
    (group,) = stage.wire().ask(STREAMS_GROUP_DESCRIBE, asked).groups
    found = group.topology_description
    names = [each.name for part in found.subtopologies for each in part.nodes] if found else []
    return group.topology_description_status, names


def test_another_coordinator_asks_for_the_description_again() -> None:
    with Stage(group_streams_topology_description_plugin_class="memory") as stage:
        stage.create("t", 3)
        stage.set(GROUP, "g", **AT_ONCE)
        load_groups(stage)
        answer = join(stage)
        assert answer.topology_description_required
        assert describe_topology(stage) is Code.NONE
        assert known(stage) == (3, ["source"])
        stage.kill(1)
        stage.start(1)
        stage.wait(stage.nodes[1].ready.is_set)
        load_groups(stage)
        assert known(stage) == (1, [])
        assert beat(stage, answer.member_epoch).topology_description_required


def test_topology_description_bytes(lowered: Lower) -> None:
    with Stage(group_streams_topology_description_plugin_class="memory") as stage:
        stage.create("t", 3)
        load_groups(stage)
        join(stage)
        lowered(TOPOLOGY_DESCRIPTION_BYTES, 1000)
        refused = Code.STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED
        assert describe_topology(stage) is refused
        assert known(stage) == (1, [])
        assert stage.counted(TOPOLOGY_DESCRIPTION_BYTES.metric) == 1


# settings


def test_a_plugin_for_topology_descriptions_is_refused_by_name() -> None:
    name = "group.streams.topology.description.plugin.class"
    with pytest.raises(SettingError, match=f"{name}: raftka runs no Java"):
        NodeSettings.from_properties({"node.id": "1", name: "com.example.Plugin"})


def test_settings_of_a_group_hold_within_those_of_the_broker(stage: Stage) -> None:
    stage.set(
        GROUP,
        "g",
        streams_heartbeat_interval_ms="6000",
        streams_task_offset_interval_ms="20000",
        streams_acceptable_recovery_lag="7",
    )

    answer = join(stage)

    assert (
        answer.heartbeat_interval_ms,
        answer.task_offset_interval_ms,
        answer.acceptable_recovery_lag,
    ) == (6000, 20_000, 7)
