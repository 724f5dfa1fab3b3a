"""Several nodes: sessions move between them, every node shows the same, what fails is told as lost,
and nothing acknowledged goes.
"""

from collections.abc import Iterator

import pytest

from raftka.metadata.extension import of_package
from tests.zookeeper_bridge.cuts import cut_off_from_the_others, other_than
from tests.zookeeper_bridge.decisions import OPEN_TO_ALL
from tests.zookeeper_bridge.stage import BridgeStage, ZkClient
from zookeeper_bridge.edge import open_edge
from zookeeper_bridge.protocol import jute
from zookeeper_bridge.protocol.errors import Err
from zookeeper_bridge.protocol.opcodes import Op
from zookeeper_bridge.tree.rules import TOPS
from zookeeper_bridge.tree.store import PACKAGE
from zookeeper_bridge.tree.watches import EventType


@pytest.fixture
def stage() -> Iterator[BridgeStage]:
    with BridgeStage(3) as stage:
        yield stage
        assert not stage.world.failures


def trees_agree(stage: BridgeStage) -> bool:
    trees = [edge.bridge.tree for node_id, edge in stage.edges.items() if node_id in stage.nodes]
    parts = [vars(each) | {"_packed": 0, "quotas": each.quotas.in_force()} for each in trees]
    return all(each == parts[0] for each in parts)


def test_every_node_takes_writes_and_shows_them(stage: BridgeStage) -> None:
    clients = [stage.client(node_id) for node_id in (1, 2, 3)]
    for i, client in enumerate(clients):
        client.create(f"/n{i}", b"%d" % i)
        client.create("/s", flags=2)

    for client in clients:
        client.must(Op.SYNC, "/")
        assert [each for each in client.children("/") if each not in TOPS] == [
            "n0",
            "n1",
            "n2",
            "s0000000001",
            "s0000000003",
            "s0000000005",
            "zookeeper",
        ]
        assert client.get("/n0")[1].czxid == clients[0].get("/n0")[1].czxid
    stage.wait(lambda: trees_agree(stage))


def test_a_sync_shows_writes_acknowledged_by_other_nodes(stage: BridgeStage) -> None:
    leader = stage.controller()
    writer, reader = stage.client(leader), stage.client(other_than(leader))
    writer.create("/a")
    for i in range(20):
        writer.set("/a", b"%d" % i)
        reader.must(Op.SYNC, "/a")
        assert reader.get("/a")[0] == b"%d" % i


def test_watchers_on_all_nodes_hear_of_a_change(stage: BridgeStage) -> None:
    clients = [stage.client(node_id) for node_id in (1, 2, 3)]
    clients[0].create("/a")
    for each in clients:
        each.must(Op.SYNC, "/a")
        each.get("/a", watch=True)

    zxid = clients[1].set("/a", b"x").mzxid

    assert [each.wait_event() for each in clients] == [[(EventType.CHANGED, "/a", zxid)]] * 3


def test_a_session_moves_and_its_old_connection_may_read_and_not_write(stage: BridgeStage) -> None:
    old = stage.client(1)
    old.create("/e", flags=1)

    new = old.again(2)

    assert new.session == old.session
    assert new.get("/e")[1].ephemeral_owner == new.session.session_id  # type: ignore[union-attr]
    assert old.exists("/e")
    assert new.create("/x") == "/x"
    assert old.ask(Op.SET_DATA, "/e", b"", -1) is None
    assert old.wait_closed()
    new.set("/e", b"mine")
    new.must(Op.CLOSE_SESSION, body=b"")
    stage.wait(lambda: stage.bridge(3).tree.node("/e") is None)


def test_a_client_that_moves_to_a_node_behind_never_sees_an_older_state(stage: BridgeStage) -> None:
    leader = stage.controller()
    behind = other_than(leader)
    client = stage.client(leader)
    client.create("/a", b"0")
    stage.world.network.delay(f"n{leader}", f"n{behind}", 0.3)
    for i in range(5):
        client.set("/a", b"%d" % i)

    again = client.again(behind)

    assert again.get("/a")[0] == b"4"


def test_a_leader_dies_and_sessions_and_ephemerals_stay(stage: BridgeStage) -> None:
    leader = stage.controller()
    here, there = other_than(leader), other_than(leader, other_than(leader))
    client, lost = stage.client(here), stage.client(leader)
    client.create("/mine", flags=1)
    lost.create("/lost", flags=1)
    client.must(Op.SYNC, "/")
    client.get("/lost", watch=True)
    stage.kill(leader)
    killed_at = stage.world.now

    while (
        client.closed_because is None
        and client.ask(Op.CREATE, "/after", b"", OPEN_TO_ALL, 0) is None
    ):
        pass
    if client.closed_because is not None:  # its write was on its way as the leader died
        client = client.again(here)
        assert client.session is not None
        assert client.session.session_id
    assert client.error(Op.CREATE, "/more", b"", OPEN_TO_ALL, 0) is Err.OK
    assert stage.world.now - killed_at < 3.0
    again = lost.again(there)
    assert again.session == lost.session
    assert again.get("/lost")[1].ephemeral_owner == again.session.session_id  # type: ignore[union-attr]
    assert client.exists("/mine")
    for _ in range(10):
        client.ping()
        again.ping()
        stage.pass_time(1.0)
    assert client.exists("/mine")
    assert client.exists("/lost")


def test_a_session_whose_node_dies_ends_if_it_does_not_come_back(stage: BridgeStage) -> None:
    gone, watcher = stage.client(2), stage.client(1)
    gone.create("/e", flags=1)
    watcher.must(Op.SYNC, "/")
    watcher.exists("/e", watch=True)
    stage.kill(2)
    while not watcher.events:
        watcher.ping()
        stage.pass_time(0.5)

    assert watcher.events[0][:2] == (EventType.DELETED, "/e")
    assert gone.again(3).session == (0, 0, bytes(16), False)


def test_a_node_that_no_controller_answers_sends_its_clients_away(stage: BridgeStage) -> None:
    alone = other_than(stage.controller())
    client = stage.client(alone)
    client.create("/e", flags=1)
    for other in stage.nodes:
        if other != alone:
            stage.world.network.cut(f"n{alone}", f"n{other}")
    began = stage.world.now
    while client.closed_because is None:
        client.ping()
        stage.pass_time(0.5)

    assert stage.world.now - began < 7.0
    again = client.again(other_than(alone))
    assert again.exists("/e") or again.session == (0, 0, bytes(16), False)
    assert again.session is not None


def test_a_deposed_leader_acknowledges_nothing(stage: BridgeStage) -> None:
    """It takes a write that the majority never sees: its client is sent away without an answer, and
    what comes after is there once.
    """
    leader = stage.controller()
    client = stage.client(leader)
    client.create("/a", b"0")
    cut_off_from_the_others(stage, leader)
    xid = client.request(Op.SET_DATA, jute.SET_DATA.encode(("/a", b"lost", 0)))

    assert client.answer(xid) is None
    other = stage.client(other_than(leader))
    assert other.set("/a", b"kept", 0).version == 1
    stage.world.network.heal()
    back = stage.client(leader)
    back.must(Op.SYNC, "/a")
    assert back.get("/a")[0] == b"kept"
    stage.wait(lambda: trees_agree(stage))


def test_a_leader_that_does_not_know_of_the_next_one_answers_no_sync(stage: BridgeStage) -> None:
    leader = stage.controller()
    reader = stage.client(leader)
    reader.create("/a", b"old")
    cut_off_from_the_others(stage, leader)
    stage.wait(
        lambda: any(
            node_id != leader and stage._leads(node) for node_id, node in stage.nodes.items()
        )
    )
    stage.client(other_than(leader)).set("/a", b"new")
    assert stage._leads(stage.nodes[leader])

    sync = reader.request(Op.SYNC, jute.PATH.encode(("/a",)))
    get = reader.request(Op.GET_DATA, jute.PATH_WATCH.encode(("/a", False)))

    assert reader.answer(sync) is None
    assert reader.answer(get) is None


def test_a_restart_keeps_everything(stage: BridgeStage) -> None:
    client = stage.client(1, timeout_ms=40_000)
    client.create("/e", b"x", flags=1)
    client.create("/s")
    client.create("/s/n", flags=2)
    client.delete("/s/n0000000000")
    for node_id in (1, 2, 3):
        stage.kill(node_id, power_loss=True)
    for node_id in (1, 2, 3):
        stage.start(node_id)
    stage.wait(lambda: all(node.ready.is_set() for node in stage.nodes.values()))

    again = client.again(2)

    assert again.session == client.session
    assert again.get("/e")[0] == b"x"
    assert again.create("/s/n", flags=2) == "/s/n0000000001"
    stage.wait(lambda: trees_agree(stage))


def test_a_snapshot_brings_the_tree_to_a_node_that_was_away() -> None:
    with BridgeStage(3, metadata_log_max_record_bytes_between_snapshots="20000") as stage:
        away = other_than(stage.controller())
        stage.kill(away)
        client = stage.client(stage.controller(), timeout_ms=40_000)
        client.create("/big")
        for _ in range(100):
            client.set("/big", bytes(1000))
        stage.start(away)
        newest = stage.nodes[stage.controller()].image.offset
        stage.wait(lambda: stage.nodes[away].image.offset >= newest)

        assert stage.bridge(away).tree.nodes["/big"].version == 100
        stage.wait(lambda: trees_agree(stage))


def test_a_node_without_the_bridge_keeps_everything() -> None:
    with BridgeStage(3, without=(1,)) as stage:
        client = stage.client(2) if stage.controller() != 1 else None
        if client is None:
            stage.world.network.isolate("n1")
            stage.wait(
                lambda: any(
                    node_id != 1 and stage._leads(node) for node_id, node in stage.nodes.items()
                )
            )
            client = stage.client(2)
            stage.world.network.heal()
        client.create("/a", b"x")
        newest = stage.nodes[2].image.offset
        stage.wait(lambda: all(node.image.offset >= newest for node in stage.nodes.values()))

        entries = [of_package(node.image, PACKAGE).entries for node in stage.nodes.values()]
        assert entries[0] == entries[1] == entries[2]
        assert b"n/a" in entries[0]


def test_a_controller_without_the_bridge_refuses() -> None:
    with BridgeStage(1, without=(1,)) as stage:
        stage.controller()
        stage.edges[1] = open_edge(stage.nodes[1].services)  # too late: the controller has begun
        client = ZkClient(stage)
        client.connect()

        assert client.session is None
        assert "closed" in client.wait_closed()


@pytest.mark.parametrize("seed", range(5))
def test_compare_and_set_by_many_is_a_counter(seed: int) -> None:
    """Everybody adds one by versions while leaders die: what was acknowledged is in the sum, what
    was not may be.
    """
    with BridgeStage(3, seed) as stage:
        stage.client(1).create("/counter", b"0")
        acknowledged = unknown = 0
        for round_ in range(12):
            node_id = 1 + (seed + round_) % 3
            if round_ in (3, 7):
                victim = stage.controller()
                stage.kill(victim)
                client = stage.client(other_than(victim))
                stage.start(victim)
            else:
                client = stage.client(node_id)
                if client.session is None:
                    continue
            if client.error(Op.SYNC, "/counter") is not Err.OK:
                continue
            value, stat = client.get("/counter")
            reply = client.ask(
                Op.SET_DATA, "/counter", b"%d" % (int(value or b"0") + 1), stat.version
            )
            acknowledged += reply is not None and reply.error == 0
            unknown += reply is None
        stage.wait(lambda: all(node.ready.is_set() for node in stage.nodes.values()))
        reader = stage.client(1)
        reader.must(Op.SYNC, "/counter")

        assert acknowledged >= 8
        assert acknowledged <= int(reader.get("/counter")[0] or b"0") <= acknowledged + unknown


def test_a_write_with_unknown_result_is_not_done_twice(stage: BridgeStage) -> None:
    """The others have the entry, and the leader does not hear that they have: it is carried out
    under the next one.
    """
    leader = stage.controller()
    others = [node_id for node_id in (1, 2, 3) if node_id != leader]
    client = stage.client(leader, timeout_ms=40_000)
    client.create("/s")
    for other in others:
        stage.world.network.cut(f"n{other}", f"n{leader}", one_way=True)
    decided = stage.nodes[leader].image.offset
    client.request(Op.CREATE, jute.CREATE.encode(("/s/n", b"", OPEN_TO_ALL, 2)))
    stage.wait(lambda: all(stage.nodes[other].quorum.core.last_index > decided for other in others))  # type: ignore[union-attr]
    stage.world.network.isolate(f"n{leader}")
    stage.wait(lambda: any(stage._leads(stage.nodes[other]) for other in others))
    stage.world.network.heal()

    assert client.wait_closed()
    stage.pass_time(5.0)
    assert stage.client(leader).children("/s") == ["n0000000000"]
