"""Read-only mode: what a node that no controller answers does for its clients, as a ZooKeeper 3.9.3
with readonlymode.enabled was seen to do.
"""

from collections.abc import Iterator

import pytest

from tests.zookeeper_bridge.cuts import cut_off_from_the_others, other_than
from tests.zookeeper_bridge.decisions import OPEN_TO_ALL
from tests.zookeeper_bridge.stage import BridgeStage, ZkClient
from zookeeper_bridge.protocol import jute
from zookeeper_bridge.protocol.errors import Err
from zookeeper_bridge.protocol.opcodes import Op

EXPIRED = (0, 0, bytes(16), True)


@pytest.fixture
def stage() -> Iterator[BridgeStage]:
    with BridgeStage(3, zookeeper_bridge_readonlymode_enabled="true") as stage:
        stage.client().create("/a", b"x")
        yield stage
        assert not stage.world.failures


def cut_off(stage: BridgeStage) -> int:
    """A node that then is in the mode; it had no clients."""
    alone = other_than(stage.controller())
    stage.client(alone).must(Op.SYNC, "/")
    cut_off_from_the_others(stage, alone)
    stage.wait(lambda: stage.bridge(alone).read_only)
    return alone


def word(stage: BridgeStage, node_id: int, text: str) -> str:
    stranger = ZkClient(stage, node_id)
    stranger.raw = True
    stranger.send(text.encode())
    stranger.wait_closed()
    return stranger.data.decode()


def test_a_read_only_client_reads_and_is_refused_every_write(stage: BridgeStage) -> None:
    alone = cut_off(stage)
    client = stage.client(alone, read_only=True, timeout_ms=100_000)

    assert client.session is not None
    assert (client.session.read_only, client.session.timeout_ms) == (True, 40_000)
    assert client.get("/a", watch=True)[0] == b"x"
    assert client.children("/brokers/ids") == ["1", "2", "3"]
    assert client.error(Op.EXISTS, "/none", True) is Err.NO_NODE
    writes = (
        (Op.SET_DATA, ("/a", b"y", -1)),
        (Op.CREATE, ("/b", b"", OPEN_TO_ALL, 0)),
        (Op.CREATE_2, ("/b", b"", OPEN_TO_ALL, 1)),
        (Op.DELETE, ("/a", -1)),
        (Op.SET_ACL, ("/a", OPEN_TO_ALL, -1)),
        (Op.SYNC, ("/a",)),
    )
    assert [client.error(op, *fields) for op, fields in writes] == [Err.NOT_READ_ONLY] * len(writes)
    assert client.error(Op.MULTI, body=jute.encode_multi([])) is Err.NOT_READ_ONLY
    client.ping()
    closed = client.request(Op.CLOSE_SESSION)
    assert client.answer(closed).error == 0  # type: ignore[union-attr]
    assert client.wait_closed()
    assert client.again(alone, read_only=True).session == EXPIRED


def test_a_client_that_is_no_read_only_client_is_closed_and_keeps_its_session(
    stage: BridgeStage,
) -> None:
    member = stage.client(other_than(stage.controller()), timeout_ms=40_000)
    member.create("/mine", flags=1)
    alone = cut_off(stage)

    for given in ({}, {"old": True}):
        stranger = stage.client(alone, **given)
        assert (stranger.session, bool(stranger.closed_because)) == (None, True)
    returning = member.again(alone, read_only=True)
    assert (returning.session, bool(returning.closed_because)) == (None, True)
    ahead = stage.client(alone, read_only=True, last_zxid=1 << 40)
    assert (ahead.session, bool(ahead.closed_because)) == (None, True)

    again = member.again(other_than(alone))
    assert again.session is not None
    assert again.session.session_id == member.session.session_id  # type: ignore[union-attr]
    assert again.exists("/mine")


def test_a_session_of_the_mode_moves_to_another_connection_and_expires(stage: BridgeStage) -> None:
    alone = cut_off(stage)
    client = stage.client(alone, read_only=True)
    again = client.again(alone, read_only=True)
    assert again.session == client.session
    assert client.wait_closed()
    assert client.again(alone, read_only=True, password=b"x" * 16).session == EXPIRED
    for _ in range(8):
        again.ping()
        stage.pass_time(1.0)
    assert again.closed_because is None
    again.ping()
    began = stage.world.now
    assert again.wait_closed()
    assert 4.0 <= stage.world.now - began <= 7.0
    assert again.again(alone, read_only=True).session == EXPIRED


def test_the_mode_ends_when_a_controller_answers_and_shows_what_was_missed(
    stage: BridgeStage,
) -> None:
    alone = cut_off(stage)
    client = stage.client(alone, read_only=True, timeout_ms=40_000)
    writer = stage.client(other_than(alone), timeout_ms=40_000)
    writer.set("/a", b"later")
    assert client.get("/a")[0] == b"x", "it is of the past, as the client allowed"
    assert (word(stage, alone, "isro"), "Mode: read-only\n" in word(stage, alone, "srvr")) == (
        "ro",
        True,
    )
    assert "READ-ONLY mode; serving only read-only clients\n" in word(stage, alone, "srvr")

    stage.world.network.heal()
    assert client.wait_closed()
    assert word(stage, alone, "isro") == "rw"
    again = stage.client(alone, read_only=True, last_zxid=writer.last_zxid)
    assert again.session is not None
    assert again.session.read_only is False
    assert again.get("/a")[0] == b"later"
    assert again.set("/a", b"mine").version == 2
    assert client.again(alone).session == (0, 0, bytes(16), False)


def test_a_leader_that_is_cut_off_goes_read_only_too(stage: BridgeStage) -> None:
    leader = stage.controller()
    cut_off_from_the_others(stage, leader)

    stage.wait(lambda: stage.bridge(leader).read_only)
    assert stage.client(leader, read_only=True).get("/a")[0] == b"x"


def test_without_the_setting_a_node_that_is_cut_off_serves_nobody() -> None:
    with BridgeStage(3) as stage:
        stage.client().create("/a", b"x")
        alone = other_than(stage.controller())
        cut_off_from_the_others(stage, alone)
        client = stage.client(alone, read_only=True)
        assert (client.session, bool(client.closed_because)) == (None, True)
        assert (
            word(stage, alone, "isro")
            == "isro is not executed because it is not in the whitelist.\n"
        )
