"""Much of one kind at once: sessions that nobody keeps alive, watchers of the same znodes, levels,
bad paths. Everybody else goes on.
"""

from collections.abc import Iterator
from struct import pack

import pytest

from tests.zookeeper_bridge.decisions import OPEN_TO_ALL
from tests.zookeeper_bridge.stage import BridgeStage, ZkClient
from zookeeper_bridge.limits import CONNECTIONS, PATH_DEPTH, WAITING_CONNECTS
from zookeeper_bridge.protocol import jute
from zookeeper_bridge.protocol.errors import Err
from zookeeper_bridge.protocol.opcodes import BODIES, Op
from zookeeper_bridge.tree.watches import EventType

WAVE, WAVES = 900, 3  # in all more than a node has connections at a time
WATCHERS, WATCHED = 100, 20


@pytest.fixture
def stage() -> Iterator[BridgeStage]:
    with BridgeStage() as stage:
        yield stage
        assert not stage.world.failures
        assert stage.client().create("/others")


def test_thousands_of_silent_sessions_expire(stage: BridgeStage) -> None:
    """Each leaves its connection, and an ephemeral. They go, a part with each entry, and those that
    are kept alive notice nothing.
    """
    assert WAVE < WAITING_CONNECTS.value < CONNECTIONS.value < WAVE * WAVES
    kept = stage.client(timeout_ms=40_000)
    kept.create("/kept", flags=1)
    kept.create("/silent")
    for wave in range(WAVES):
        for number in range(WAVE):
            silent = ZkClient(stage)
            silent.send(connect_frame(40_000))
            silent.request(
                Op.CREATE,
                BODIES[Op.CREATE].encode((f"/silent/{wave * WAVE + number}", b"", OPEN_TO_ALL, 1)),
            )
        stage.wait(
            lambda wave=wave: stage.bridge().tree.child_count("/silent") == (wave + 1) * WAVE  # type: ignore[misc]
        )
        for connection in [
            each
            for each in stage.bridge().connections
            if each.session_id != kept.session.session_id  # type: ignore[union-attr]
        ]:
            connection.end("its client is gone without a word")
    before = stage.bridge().tree.offset

    kept.exists("/silent/0", watch=True)
    while stage.bridge().tree.session_count > 1:
        kept.ping()
        stage.pass_time(1.0)

    assert kept.wait_event()[0][:2] == (EventType.DELETED, "/silent/0")
    assert kept.children("/silent") == []
    assert kept.exists("/kept")
    assert stage.bridge().tree.offset - before < WAVE * WAVES / 10  # many at a time


def connect_frame(timeout_ms: int) -> bytes:
    body = pack(">iqiqi16s", 0, 0, timeout_ms, 0, 16, bytes(16))
    return pack(">i", len(body)) + body


def test_each_of_many_watchers_gets_one_event_in_order(stage: BridgeStage) -> None:
    writer = stage.client()
    paths = [f"/n{number:02}" for number in range(WATCHED)]
    for path in paths:
        writer.create(path)
    watchers = [stage.client() for _ in range(WATCHERS)]
    for number, watcher in enumerate(watchers):
        for path in paths:
            watcher.must(*((Op.GET_DATA, path, True) if number % 2 else (Op.ADD_WATCH, path, 0)))

    writer.multi(*[(Op.SET_DATA, (path, b"x", -1)) for path in paths])
    writer.multi(*[(Op.DELETE, (path, -1)) for path in paths])
    for watcher in watchers:
        watcher.must(Op.SYNC, "/")

    changed, deleted = (
        [(kind, path) for path in paths] for kind in (EventType.CHANGED, EventType.DELETED)
    )
    for number, watcher in enumerate(watchers):
        assert [each[:2] for each in watcher.events] == (
            changed if number % 2 else changed + deleted
        )
    assert stage.bridge().watches.count == WATCHERS // 2 * WATCHED  # the persistent ones
    for watcher in watchers:
        watcher.drop()
    stage.wait(lambda: stage.bridge().watches.count == 0)


def test_a_deep_tree(stage: BridgeStage) -> None:
    client, watcher = stage.client(timeout_ms=40_000), stage.client(timeout_ms=40_000)
    watcher.must(Op.ADD_WATCH, "/a", 1)
    paths = ["/a" * depth for depth in range(1, PATH_DEPTH.value + 1)]
    for path in paths:
        client.create(path)

    assert client.error(Op.CREATE, paths[-1] + "/a", b"", OPEN_TO_ALL, 0) is Err.QUOTA_EXCEEDED
    assert jute.INT.decode(client.must(Op.GET_ALL_CHILDREN_NUMBER, "/a")) == len(paths) - 1
    client.set(paths[-1], b"x")
    watcher.must(Op.SYNC, "/")
    assert [each[1] for each in watcher.events] == [*paths, paths[-1]]
    for path in reversed(paths):
        client.delete(path)
    assert not client.exists("/a")


@pytest.mark.parametrize("made", ["/{}", "/there/{}x", "/there{}"])
def test_every_character_that_no_path_has(stage: BridgeStage, made: str) -> None:
    client = stage.client()
    client.create("/there")
    forbidden = [
        *range(0x20),
        *range(0x7F, 0xA0),
        0xE000,
        0xF000,
        0xF8FF,
        0xFFF0,
        0xFFFD,
        0xFFFF,
        0x10000,
        0x1F600,
        0x10FFFF,
    ]
    before = stage.bridge().tree.node_count

    asked = [
        client.request(
            Op.CREATE, BODIES[Op.CREATE].encode((made.format(chr(code)), b"", OPEN_TO_ALL, 0))
        )
        for code in forbidden
    ]
    client.answer(asked[-1])

    assert {each.error for each in client.replies[1:]} == {Err.BAD_ARGUMENTS}
    assert stage.bridge().tree.node_count == before


def test_an_expired_sessions_ephemerals_do_not_come_back_with_a_leader_that_was_cut_off() -> None:
    with BridgeStage(3) as stage:
        leader = stage.controller()
        gone = stage.client(leader)
        gone.create("/mine", flags=1)
        other = stage.client(1 + leader % 3, timeout_ms=40_000)
        other.must(Op.SYNC, "/")
        stage.world.network.isolate(f"n{leader}")
        watching = other.exists("/mine", watch=True)
        stage.wait(lambda: stage.bridge(1 + leader % 3).tree.node("/mine") is None, 20.0)
        stage.world.network.heal()
        stage.wait(
            lambda: stage.bridge(leader).tree.offset >= stage.bridge(1 + leader % 3).tree.offset
        )

        assert watching
        assert all(edge.bridge.tree.node("/mine") is None for edge in stage.edges.values())
        assert gone.again(leader).session == (0, 0, bytes(16), False)
        assert not stage.client(leader).exists("/mine")
