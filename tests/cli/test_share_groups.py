"""`raftka groups` and `raftka offsets` with share groups, against three live nodes."""

from typing import Any

import pytest

from raftka.client.blocking.client import Client
from raftka.client.blocking.connection import addresses_of
from raftka.versions import SUPPORTED
from raftka.wire.messages.share_groups import (
    SHARE_GROUP_HEARTBEAT,
    ShareGroupHeartbeatResponse,
)

pytestmark = pytest.mark.skipif("share.version" not in SUPPORTED, reason="it has no share groups")
MEMBER = "M" * 22


def beat(cluster: Any, group: str, epoch: int, *topics: str) -> ShareGroupHeartbeatResponse:
    with Client(addresses_of(cluster.bootstrap_servers), "test") as client:
        request = SHARE_GROUP_HEARTBEAT.request(
            group_id=group,
            member_id=MEMBER,
            member_epoch=epoch,
            subscribed_topic_names=list(topics) or None,
        )
        answer = client.ask_coordinator(group, SHARE_GROUP_HEARTBEAT, request)
    assert answer.error_code == 0, answer
    return answer


@pytest.fixture
def group(cluster: Any, topic: str) -> str:
    """A share group that a member has left, on a topic of three partitions with five records."""
    name = f"share-{topic}"
    epoch = beat(cluster, name, 0, topic).member_epoch
    beat(cluster, name, -1 if epoch else 0)
    return name


def test_share_groups_are_listed_moved_and_deleted(raftka: Any, topic: str, group: str) -> None:
    assert raftka(f"produce {topic} -p 0", "a\nb\nc\nd\ne\n").code == 0
    assert [group, "Empty", "share", "share"] in raftka("groups list").table

    done = raftka(f"groups reset-offsets {group} {topic} --to start -o json")
    assert done.code == 0, done.err
    assert {row["offset"] for row in done.rows} == {0}
    rows = raftka(f"groups describe {group} -o json").rows
    assert [(row["partition"], row["offset"], row["lag"]) for row in rows] == [
        (0, 0, 5),
        (1, 0, 0),
        (2, 0, 0),
    ]

    exported = raftka(f"offsets export {group} -o json").out.replace('"offset": 0', '"offset": 2')
    assert raftka("offsets import -", exported.splitlines()[0] + "\n").code == 0
    before = {
        row["partition"]: row["offset"] for row in raftka(f"groups describe {group} -o json").rows
    }
    assert before[0] == 2
    assert raftka(f"groups reset-offsets {group} --to end").code == 0
    assert raftka(f"offsets delete {group} {topic} -p 1").code == 1
    assert raftka(f"offsets delete {group} {topic}").code == 0
    assert raftka(f"groups delete {group}").code == 0
    assert raftka(f"groups describe {group}").code == 1


def test_share_groups_with_members_stay(raftka: Any, cluster: Any, topic: str, group: str) -> None:
    beat(cluster, group, 0, topic)
    (row,) = [
        row
        for row in raftka(f"groups describe {group} -o json").rows
        if row["partition"] in (0, None)
    ][:1]
    assert row["state"] == "Stable"
    assert raftka(f"groups reset-offsets {group} {topic} --to start").code == 1
    refused = raftka(f"groups delete {group}")
    assert (refused.code, "members" in refused.err) == (1, True)
    beat(cluster, group, -1)
