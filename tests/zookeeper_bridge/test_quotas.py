"""Quotas of znodes, written as ZooKeeper 3.9's `setquota` writes them: what they count, and what
they keep clients from.
"""

from collections.abc import Iterator

import pytest

from tests.zookeeper_bridge.decisions import OPEN_TO_ALL
from tests.zookeeper_bridge.stage import BridgeStage, ZkClient
from zookeeper_bridge.protocol.errors import Err
from zookeeper_bridge.protocol.opcodes import Op
from zookeeper_bridge.tree.quotas import limits_of

FOLDER = "/zookeeper/quota"


@pytest.fixture
def stage() -> Iterator[BridgeStage]:
    with BridgeStage(zookeeper_bridge_enforce_quota="true") as stage:
        yield stage
        assert not stage.world.failures


@pytest.fixture
def client(stage: BridgeStage) -> ZkClient:
    client = stage.client(timeout_ms=40_000)
    client.create("/a", b"12345")
    client.create("/a/b", b"123")
    return client


def set_quota(client: ZkClient, path: str, limits: bytes) -> None:
    """As SetQuotaCommand does it: the folders, the limits, then the counts as 0."""
    folder = FOLDER
    for name in path[1:].split("/"):
        folder += f"/{name}"
        if not client.exists(folder):
            client.create(folder, None)
    client.create(f"{folder}/zookeeper_limits", limits)
    client.create(f"{folder}/zookeeper_stats", b"count=0,bytes=0")


def counted(client: ZkClient, path: str) -> str:
    return (client.get(f"{FOLDER}{path}/zookeeper_stats")[0] or b"").decode()


def limits(count: int = -1, bytes_: int = -1, hard_count: int = -1, hard_bytes: int = -1) -> bytes:
    return b"count=%d,bytes=%d=;byteHardLimit=%d;countHardLimit=%d" % (
        count,
        bytes_,
        hard_bytes,
        hard_count,
    )


def test_a_quota_counts_present_created_and_deleted_znodes(client: ZkClient) -> None:
    set_quota(client, "/a", limits(count=100))
    assert counted(client, "/a") == "count=2,bytes=8"
    client.create("/a/b/c", b"x" * 10)
    client.create("/a/e", b"1", flags=1)
    client.create("/ab", b"beside it")
    assert counted(client, "/a") == "count=4,bytes=19"
    client.set("/a/b", b"")
    client.set("/a", None)
    assert counted(client, "/a") == "count=4,bytes=11"
    client.delete("/a/b/c")
    client.multi(
        (Op.CREATE, ("/a/m", b"12", OPEN_TO_ALL, 0)),
        (Op.SET_DATA, ("/a/m", b"1234", -1)),
        (Op.DELETE, ("/a/e", -1)),
    )
    assert counted(client, "/a") == "count=3,bytes=4"


def test_counts_are_no_writes(client: ZkClient) -> None:
    set_quota(client, "/a", limits(count=100))
    stat = client.get(f"{FOLDER}/a/zookeeper_stats", watch=True)[1]
    client.create("/a/x", b"1")
    after = client.get(f"{FOLDER}/a/zookeeper_stats")[1]
    assert (after.version, after.mzxid) == (stat.version, stat.mzxid) == (0, stat.czxid)
    assert client.events == []
    client.set(f"{FOLDER}/a/zookeeper_stats", b"count=77,bytes=77")
    assert counted(client, "/a") == "count=3,bytes=9"


def test_a_hard_quota_refuses_writes_beyond_it(stage: BridgeStage, client: ZkClient) -> None:
    set_quota(client, "/a", limits(hard_count=3, hard_bytes=10))
    assert client.error(Op.SET_DATA, "/a", b"123456789", -1) is Err.QUOTA_EXCEEDED
    assert client.error(Op.CREATE, "/a/x", b"123", OPEN_TO_ALL, 0) is Err.QUOTA_EXCEEDED
    client.create("/a/x", b"12")
    assert client.error(Op.CREATE, "/a/b/y", b"", OPEN_TO_ALL, 0) is Err.QUOTA_EXCEEDED
    refused = client.multi(
        (Op.CREATE, ("/z", b"", OPEN_TO_ALL, 0)), (Op.CREATE, ("/a/y", b"", OPEN_TO_ALL, 0))
    )
    assert refused == [Err.OK, Err.QUOTA_EXCEEDED]
    assert not client.exists("/z")
    assert counted(client, "/a") == "count=3,bytes=10"
    assert client.set("/a/x", b"21").version == 1, "it does not grow"
    client.delete("/a/x")
    client.create("/a/y")
    told = stage.events("bridge_quota_exceeded")
    assert told[0]["message"] == "Quota exceeded: /a [current bytes=12, hardByteLimit=10]"


def test_a_soft_quota_is_logged_and_refuses_nothing(stage: BridgeStage, client: ZkClient) -> None:
    set_quota(client, "/a", limits(count=2))
    client.create("/a/x")

    assert counted(client, "/a") == "count=3,bytes=8"
    assert [each["message"] for each in stage.events("bridge_quota_exceeded")] == [
        "Quota exceeded: /a [current count=3, softCountLimit=2]"
    ]


def test_the_quota_nearest_above_holds(client: ZkClient) -> None:
    set_quota(client, "/a", limits(hard_count=3))
    set_quota(client, "/a/b", limits(hard_count=100))
    for i in range(4):
        client.create(f"/a/b/{i}")
    assert client.error(Op.CREATE, "/a/x", b"", OPEN_TO_ALL, 0) is Err.QUOTA_EXCEEDED
    assert (counted(client, "/a"), counted(client, "/a/b")) == (
        "count=6,bytes=8",
        "count=5,bytes=3",
    )


def test_a_quota_that_is_gone_holds_nothing(client: ZkClient) -> None:
    set_quota(client, "/a", limits(hard_count=2))
    client.set(f"{FOLDER}/a/zookeeper_limits", limits(hard_count=3))
    client.create("/a/x")
    assert client.error(Op.CREATE, "/a/y", b"", OPEN_TO_ALL, 0) is Err.QUOTA_EXCEEDED
    client.delete(f"{FOLDER}/a/zookeeper_limits")
    client.create("/a/y")
    client.create(f"{FOLDER}/a/zookeeper_limits", limits(hard_count=4))
    assert client.error(Op.CREATE, "/a/z", b"", OPEN_TO_ALL, 0) is Err.QUOTA_EXCEEDED
    client.delete("/a/y")
    assert counted(client, "/a") == "count=3,bytes=8"


@pytest.mark.parametrize(
    "data", [b"", b"nonsense", b"count=,bytes=-1", b"countHardLimit=x", b"countHardLimit=-1"]
)
def test_limits_that_say_nothing_hold_nothing(client: ZkClient, data: bytes) -> None:
    set_quota(client, "/a", data)
    client.create("/a/x")
    assert counted(client, "/a") == "count=3,bytes=8"


def test_limits_are_read_as_any_setquota_writes_them() -> None:
    assert limits_of(b"count=5,bytes=-1=;byteHardLimit=-1;countHardLimit=7") == {
        "count": 5,
        "bytes": -1,
        "byteHardLimit": -1,
        "countHardLimit": 7,
    }
    assert limits_of(b"count=5,bytes=9") == {"count": 5, "bytes": 9}
    assert limits_of(None) == {}


def test_quotas_are_counted_and_not_enforced_without_the_setting() -> None:
    with BridgeStage() as stage:
        client = stage.client()
        client.create("/a")
        set_quota(client, "/a", limits(hard_count=1))
        client.create("/a/x")
        assert counted(client, "/a") == "count=2,bytes=0"
        assert stage.events("bridge_quota_exceeded") == []


def test_every_node_counts_alike_also_after_its_restart() -> None:
    with BridgeStage(3, zookeeper_bridge_enforce_quota="true") as stage:
        client = stage.client(1, timeout_ms=40_000)
        for path in ("/a", "/a/b", "/a/b/c"):
            client.create(path, b"12")
        set_quota(client, "/a", limits(hard_count=4))
        client.create("/a/d", b"1")
        follower = next(
            node_id for node_id in stage.nodes if node_id not in (1, stage.controller())
        )
        stage.restart(follower)
        for node_id in stage.nodes:
            other = stage.client(node_id)
            other.must(Op.SYNC, "/")
            assert counted(other, "/a") == "count=4,bytes=7"
            assert other.error(Op.CREATE, "/a/e", b"", OPEN_TO_ALL, 0) is Err.QUOTA_EXCEEDED
