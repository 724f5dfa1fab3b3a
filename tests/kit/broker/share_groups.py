"""Share groups of tests: clusters that serve them, and members that are made request by request."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from unittest.mock import patch

from raftka import versions
from raftka.broker.coordinators.partition import LOADED
from raftka.wire.messages.find_coordinator import FIND_COORDINATOR
from raftka.wire.messages.share_groups import (
    SHARE_GROUP_HEARTBEAT,
    ShareGroupHeartbeatResponse,
)
from tests.broker.stage import Stage, Wire

MEMBER = "A" * 22


@contextmanager
def serving_share_groups() -> Iterator[None]:
    """Clusters that are formed inside have share.version 2."""
    with (
        patch.dict(versions.SUPPORTED, {"share.version": (0, 2)}),
        patch.dict(versions.FORMED_WITH, {"share.version": 2}),
    ):
        yield


@contextmanager
def serving_no_share_groups() -> Iterator[None]:
    """Clusters that are formed inside have no share.version."""
    with patch.dict(versions.FORMED_WITH):
        versions.FORMED_WITH.pop("share.version", None)
        yield


def load_groups(stage: Stage, node_id: int = 1) -> None:
    """Have the topic of groups made, and wait until its coordinators serve."""
    stage.wire(node_id).ask(
        FIND_COORDINATOR, FIND_COORDINATOR.request(key_type=0, coordinator_keys=["g"])
    )
    stage.wait(
        lambda: (
            sum(len(node.groups.runtime.partitions) for node in stage.nodes.values())
            == int(stage.settings.get("offsets_topic_num_partitions", "50"))
            and all(
                each.state in LOADED
                for node in stage.nodes.values()
                for each in node.groups.runtime.partitions.values()
            )
        )
    )


def beat(
    wire: Wire,
    group: str,
    epoch: int,
    topics: Sequence[str] | None = None,
    member_id: str = MEMBER,
) -> ShareGroupHeartbeatResponse:
    return wire.ask(
        SHARE_GROUP_HEARTBEAT,
        SHARE_GROUP_HEARTBEAT.request(
            group_id=group,
            member_id=member_id,
            member_epoch=epoch,
            subscribed_topic_names=None if topics is None else list(topics),
        ),
    )


def join(stage: Stage, wire: Wire, group: str, *topics: str, member_id: str = MEMBER) -> int:
    """Join, and come again until the topics are assigned; return the member's epoch."""
    answer = beat(wire, group, 0, topics, member_id)
    assert answer.error_code == 0, answer
    for _ in range(20):
        if answer.assignment is not None and answer.assignment.topic_partitions:
            return answer.member_epoch
        stage.world.run(stage.world.now + 1.0)
        answer = beat(wire, group, answer.member_epoch, None, member_id)
        assert answer.error_code == 0, answer
    raise AssertionError("nothing was assigned")


def leave(wire: Wire, group: str, member_id: str = MEMBER) -> None:
    assert beat(wire, group, -1, None, member_id).error_code == 0
