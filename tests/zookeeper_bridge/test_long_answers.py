"""Answers that are larger than the bridge keeps for a client: lists of very many children, and many
reads on their way.
"""

from collections.abc import Iterator
from itertools import count

import pytest

from tests.zookeeper_bridge.decisions import OPEN_TO_ALL
from tests.zookeeper_bridge.stage import BridgeStage, Event, Reply
from zookeeper_bridge.limits import OUTPUT_BYTES, REPLY_BYTES
from zookeeper_bridge.protocol import jute
from zookeeper_bridge.protocol.long_list import LONG_BYTES, LongList, list_of
from zookeeper_bridge.protocol.opcodes import Op
from zookeeper_bridge.tree.watches import EventType

LONG_NAME = "n" * 4000


@pytest.fixture(scope="module")
def stage() -> Iterator[BridgeStage]:
    """/many has children whose names are more than the bound of other answers."""
    with BridgeStage() as stage:
        client = stage.client(timeout_ms=40_000)
        client.create("/many")
        names = [f"/many/{LONG_NAME}{i}" for i in range(REPLY_BYTES.value // len(LONG_NAME) + 1)]
        for first in range(0, len(names), 200):
            client.multi(
                *[(Op.CREATE, (name, b"", OPEN_TO_ALL, 0)) for name in names[first : first + 200]]
            )
        yield stage
        assert not stage.world.failures


def test_a_list_above_every_bound_is_answered_and_events_come_behind_it(stage: BridgeStage) -> None:
    client, writer = stage.client(timeout_ms=40_000), stage.client(timeout_ms=40_000)
    client.hold_reading(True)
    asked = client.request(Op.GET_CHILDREN_2, jute.PATH_WATCH.encode(("/many", True)))
    stage.wait(lambda: stage.bridge().watches.count == 1)
    before = len(stage.bridge().tree.children["/many"])
    writer.create("/many/later")
    second = client.request(Op.GET_CHILDREN, jute.PATH_WATCH.encode(("/many", False)))
    client.hold_reading(False)

    assert client.answer(second) is not None
    first, event, last = client.log
    assert isinstance(first, Reply)
    names, stat = jute.CHILDREN_STAT.decode(first.body)
    assert (first.xid, first.error) == (asked, 0)
    assert len(first.body) > REPLY_BYTES.value
    assert (len(names), stat[-2], "later" in names) == (before, before, False)
    assert isinstance(event, Event)
    assert event[:2] == (EventType.CHILD, "/many")
    assert isinstance(last, Reply)
    assert "later" in jute.STRINGS.decode(last.body)
    writer.delete("/many/later")


def test_a_client_that_reads_nothing_holds_one_long_list(stage: BridgeStage) -> None:
    client = stage.client(timeout_ms=40_000)
    connection = next(
        each
        for each in stage.bridge().connections
        if each.session_id == client.session.session_id  # type: ignore[union-attr]
    )
    client.hold_reading(True)
    body = jute.PATH_WATCH.encode(("/many", False))
    asked = [client.request(Op.GET_CHILDREN, body) for _ in range(5)]
    stage.pass_time(1.0)

    assert connection.outstanding == 4
    client.hold_reading(False)
    assert client.answer(asked[-1]) is not None
    assert [each.xid for each in client.replies] == asked
    assert len({each.body for each in client.replies}) == 1


def test_large_reads_on_their_way_wait_until_the_client_takes_them(stage: BridgeStage) -> None:
    """ZooKeeper answers as many as a client asks for; to keep all of them in memory would close the
    connection.
    """
    client = stage.client(timeout_ms=40_000)
    client.create("/large", bytes(900_000))
    client.log.clear()
    body = jute.PATH_WATCH.encode(("/large", False))
    asked = [client.request(Op.GET_DATA, body) for _ in range(3 * OUTPUT_BYTES.value // 900_000)]
    asked.append(client.request(Op.SET_DATA, jute.SET_DATA.encode(("/large", b"", -1))))

    assert client.answer(asked[-1]) is not None
    assert [(each.xid, each.error) for each in client.replies] == [(xid, 0) for xid in asked]


def test_the_end_of_a_session_does_not_cut_a_long_list_short(stage: BridgeStage) -> None:
    client = stage.client(timeout_ms=40_000)
    asked = client.request(Op.GET_CHILDREN, jute.PATH_WATCH.encode(("/many", False)))
    ended = client.request(Op.CLOSE_SESSION)
    client.wait_closed()

    assert [each.xid for each in client.replies] == [asked, ended]


@pytest.mark.parametrize("name", ["x" * 40, "é" * 20, "日本" * 10])
def test_a_long_list_is_what_an_array_of_strings_is(name: str) -> None:
    numbers = count()
    names = tuple(f"{name}{next(numbers)}" for _ in range(LONG_BYTES // 30))
    found = list_of(names)

    assert isinstance(found, LongList)
    body = b"".join(found.with_tail(b"tail").pieces())
    assert body == jute.STRINGS.encode(names) + b"tail"
    assert found.with_tail(b"tail").size == len(body)
    assert list_of(names[:10]) == jute.STRINGS.encode(names[:10])
    assert list_of(()) == jute.STRINGS.encode(())
