"""One node's bridge as its clients see it: connecting, the order of a session, reads, watches, bad
input.
"""

from collections.abc import Iterator
from struct import pack
from typing import Any

import pytest

from tests.zookeeper_bridge.decisions import OPEN_TO_ALL
from tests.zookeeper_bridge.stage import BridgeStage, Event, Reply, ZkClient
from zookeeper_bridge.protocol import jute
from zookeeper_bridge.protocol.errors import Err
from zookeeper_bridge.protocol.jute import Acl
from zookeeper_bridge.protocol.opcodes import BODIES, Op
from zookeeper_bridge.tree.acl import digest_of
from zookeeper_bridge.tree.tree import FROM_THE_BEGINNING
from zookeeper_bridge.tree.watches import EventType

CREATED, DELETED, CHANGED, CHILD = EventType


@pytest.fixture
def stage() -> Iterator[BridgeStage]:
    with BridgeStage() as stage:
        yield stage
        assert not stage.world.failures


@pytest.fixture
def client(stage: BridgeStage) -> ZkClient:
    return stage.client()


# connecting


def test_a_session_begins(stage: BridgeStage, client: ZkClient) -> None:
    assert client.session is not None
    assert client.session.session_id > 0
    assert (client.session.timeout_ms, len(client.session.password), client.session.read_only) == (
        4000,
        16,
        False,
    )
    old = stage.client(old=True, timeout_ms=100_000)
    assert old.session is not None
    assert (old.session.timeout_ms, old.session.read_only) == (40_000, None)


def test_a_session_continues_on_another_connection(stage: BridgeStage, client: ZkClient) -> None:
    client.create("/e", flags=1)

    again = client.again()

    assert again.session == client.session
    assert client.wait_closed()
    assert again.get("/e")[1].ephemeral_owner == again.session.session_id  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "given", [{"password": b"x" * 16}, {"session_id": 12345}, {"password": bytes(16)}]
)
def test_a_wrong_password_gets_no_session(
    stage: BridgeStage, client: ZkClient, given: dict[str, Any]
) -> None:
    hijacker = client.again(**given)

    assert hijacker.session == (0, 0, bytes(16), False)
    assert hijacker.wait_closed()
    assert client.create("/still") == "/still"


def test_a_client_with_a_higher_zxid_is_refused(stage: BridgeStage, client: ZkClient) -> None:
    other = client.again(last_zxid=1 << 40)

    assert other.wait_closed()
    assert other.session is None


def test_a_session_ends_when_its_client_says_so(stage: BridgeStage, client: ZkClient) -> None:
    client.create("/e", flags=1)
    watcher = stage.client()
    watcher.exists("/e", watch=True)

    assert client.ask(Op.CLOSE_SESSION, body=b"") == Reply(2, stage.bridge().tree.offset, 0, b"")
    assert client.wait_closed()
    assert watcher.wait_event()[0][:2] == (DELETED, "/e")
    assert client.again().session == (0, 0, bytes(16), False)


def test_a_silent_session_expires_and_hears_of_it(stage: BridgeStage, client: ZkClient) -> None:
    client.create("/e", flags=1)
    client.exists("/e", watch=True)
    began = stage.world.now

    assert client.wait_closed()
    assert 4.0 <= stage.world.now - began <= 6.0
    assert [each[:2] for each in client.events] == [(DELETED, "/e")]


def test_pings_keep_a_session(stage: BridgeStage, client: ZkClient) -> None:
    client.create("/e", flags=1)
    for _ in range(10):
        client.ping()
        stage.pass_time(1.3)

    assert client.exists("/e")
    assert [each.xid for each in client.replies].count(-2) == 10


# the order of a session


def test_replies_come_in_the_order_of_requests_and_reads_see_the_writes_before_them(
    client: ZkClient,
) -> None:
    client.create("/a", b"0")
    asked = []
    for i in range(1, 6):
        asked += [
            client.request(Op.SET_DATA, jute.SET_DATA.encode(("/a", b"%d" % i, -1))),
            client.request(Op.GET_DATA, jute.PATH_WATCH.encode(("/a", False))),
        ]
    asked.append(client.request(Op.PING, xid=-2))
    client.answer(-2)

    replies = client.replies[1:]
    assert [each.xid for each in replies] == asked
    assert [jute.DATA_STAT.decode(each.body)[0] for each in replies[1::2]] == [
        b"1",
        b"2",
        b"3",
        b"4",
        b"5",
    ]
    assert [each.zxid for each in replies] == sorted(each.zxid for each in replies)


def test_writes_that_lie_one_behind_the_other_are_one_entry(
    stage: BridgeStage, client: ZkClient
) -> None:
    client.create("/a")
    before = stage.nodes[1].image.offset

    asked = [client.request(Op.SET_DATA, jute.SET_DATA.encode(("/a", b"x", i))) for i in range(50)]

    assert client.answer(asked[-1]).error == 0  # type: ignore[union-attr]
    assert stage.nodes[1].image.offset - before == 1
    assert client.get("/a")[1].version == 50


def test_an_event_comes_before_the_reply_that_caused_it(client: ZkClient) -> None:
    client.create("/a")
    client.get("/a", watch=True)
    client.children("/", watch=True)
    del client.log[:]

    stat = client.set("/a", b"x")
    client.create("/b")

    assert [type(each) for each in client.log] == [Event, Reply, Event, Reply]
    assert client.events == [(CHANGED, "/a", stat.mzxid), (CHILD, "/", client.last_zxid)]


def test_a_write_counts_although_its_client_is_gone(stage: BridgeStage, client: ZkClient) -> None:
    """C's client says goodbye and goes."""
    leaving = stage.client()
    for path in ("/a", "/b"):
        leaving.request(Op.CREATE, jute.CREATE.encode((path, b"", OPEN_TO_ALL, 0)))
        leaving.request(Op.GET_DATA, jute.PATH_WATCH.encode((path, False)))
    leaving.request(Op.CLOSE_SESSION)
    leaving.drop()

    stage.wait(lambda: len(stage.bridge().tree.sessions) == 1)
    assert stage.world.now < 3.0
    assert client.exists("/a")
    assert client.exists("/b")


# reads


def test_reads(stage: BridgeStage, client: ZkClient) -> None:
    client.create("/a", None)
    client.create("/a/b", b"")
    client.create("/a/c", b"x")

    data, stat = client.get("/a")
    assert (data, stat.num_children, stat.cversion, stat.data_length) == (None, 2, 2, 0)
    assert client.get("/a/b")[0] == b""
    names, same = jute.CHILDREN_STAT.decode(client.must(Op.GET_CHILDREN_2, "/a", False))
    assert (sorted(names), same) == (["b", "c"], stat)
    assert jute.ACLS_STAT.decode(client.must(Op.GET_ACL, "/a")) == (OPEN_TO_ALL, stat)
    assert jute.INT.decode(client.must(Op.GET_ALL_CHILDREN_NUMBER, "/a")) == 2
    projected = stage.bridge().layout.computed_count
    assert projected == 11
    assert (
        jute.INT.decode(client.must(Op.GET_ALL_CHILDREN_NUMBER, "/"))
        == len(FROM_THE_BEGINNING) - 1 + 3 + projected
    )
    assert jute.STRING.decode(client.must(Op.SYNC, "/not/there")) == "/not/there"
    assert client.error(Op.SYNC, body=b"\0\0\0\x09/a") is Err.MARSHALLING
    assert jute.BUFFER.decode(client.must(Op.SASL, b"token")) is None
    assert client.error(Op.GET_DATA, "/none", True) is Err.NO_NODE
    # what is no path is looked for as any other
    assert client.error(Op.GET_CHILDREN, "none", True) is Err.NO_NODE
    assert client.error(Op.EXISTS, "/a\0", True) is Err.BAD_ARGUMENTS
    assert client.get("") == client.get("/")
    assert stage.bridge().watches.count == 0


def test_ephemerals_are_shown_to_their_own_session(stage: BridgeStage, client: ZkClient) -> None:
    other = stage.client()
    for each, path in ((client, "/x1"), (client, "/y1"), (other, "/x2")):
        each.create(path, flags=1)

    assert jute.STRINGS.decode(client.must(Op.GET_EPHEMERALS, "/")) == ["/x1", "/y1"]
    assert jute.STRINGS.decode(client.must(Op.GET_EPHEMERALS, "/x")) == ["/x1"]


def test_many_reads_in_one(client: ZkClient) -> None:
    client.create("/a", b"x")
    body = jute.encode_multi(
        [(Op.GET_DATA, BODIES[Op.GET_DATA].encode((path, False))) for path in ("/a", "/none")]
    )

    answer = client.must(Op.MULTI_READ, body=body)

    kind, done, error = jute.MULTI_HEADER.unpack_from(answer)
    assert (kind, done, error) == (Op.GET_DATA, False, 0)
    (data, _), at = jute.DATA_STAT.read(answer, jute.MULTI_HEADER.size)
    assert data == b"x"
    assert (
        answer[at:]
        == jute.MULTI_HEADER.pack(-1, False, Err.NO_NODE)
        + jute.INT.encode(Err.NO_NODE)
        + jute.MULTI_END
    )


def test_a_long_list_of_children_is_packed_once(stage: BridgeStage, client: ZkClient) -> None:
    client.create("/p")
    for _ in range(20):
        client.multi(*[(Op.CREATE, ("/p/", b"", OPEN_TO_ALL, 2)) for _ in range(10)])
    assert len(client.children("/p")) == 200
    kept = stage.bridge().tree.packed_children("/p")

    assert stage.bridge().tree.packed_children("/p") is kept
    client.delete("/p/0000000007")
    assert len(client.children("/p")) == 199


# watches


def test_one_shot_watches(stage: BridgeStage, client: ZkClient) -> None:
    other = stage.client()
    client.exists("/a", watch=True)
    other.create("/a")
    assert client.wait_event()[-1][:2] == (CREATED, "/a")
    client.get("/a", watch=True)
    client.exists("/a", watch=True)
    client.children("/a", watch=True)
    other.must(Op.SET_ACL, "/a", OPEN_TO_ALL, -1)
    other.set("/a", b"")
    other.set("/a", b"")
    other.create("/a/b")
    other.delete("/a/b")
    client.exists("/a", watch=True)
    client.children("/a", watch=True)
    other.delete("/a")

    stage.pass_time(0.5)
    assert [each[:2] for each in client.events] == [
        (CREATED, "/a"),
        (CHANGED, "/a"),
        (CHILD, "/a"),
        (DELETED, "/a"),
    ]


def test_persistent_and_recursive_watches(stage: BridgeStage, client: ZkClient) -> None:
    recursive, writer = stage.client(), stage.client()
    assert jute.INT.decode(client.must(Op.ADD_WATCH, "/p", 0)) == 0
    recursive.must(Op.ADD_WATCH, "/p", 1)
    assert client.error(Op.ADD_WATCH, "/p", 2) is Err.MARSHALLING
    writer.create("/p")
    writer.create("/p/c")
    writer.set("/p/c", b"x")
    writer.delete("/p/c")
    writer.set("/p", b"x")
    stage.pass_time(0.5)

    assert [each[:2] for each in client.events] == [
        (CREATED, "/p"),
        (CHILD, "/p"),
        (CHILD, "/p"),
        (CHANGED, "/p"),
    ]
    assert [each[:2] for each in recursive.events] == [
        (CREATED, "/p"),
        (CREATED, "/p/c"),
        (CHANGED, "/p/c"),
        (DELETED, "/p/c"),
        (CHANGED, "/p"),
    ]


def test_events_of_a_multi_come_in_its_order(stage: BridgeStage, client: ZkClient) -> None:
    client.must(Op.ADD_WATCH, "/m", 1)

    client.multi(
        (Op.CREATE, ("/m", b"", OPEN_TO_ALL, 0)),
        (Op.SET_DATA, ("/m", b"x", 0)),
        (Op.DELETE, ("/m", 1)),
    )

    assert [each.type for each in client.events] == [CREATED, CHANGED, DELETED]
    assert len({each.zxid for each in client.events}) == 1


def test_watches_are_looked_for_and_removed(client: ZkClient) -> None:
    client.create("/a")
    client.get("/a", watch=True)
    assert [client.error(Op.CHECK_WATCHES, "/a", kind) for kind in (1, 2, 3)] == [
        Err.NO_WATCHER,
        Err.OK,
        Err.OK,
    ]
    assert client.error(Op.REMOVE_WATCHES, "/a", 2) is Err.OK
    assert client.error(Op.REMOVE_WATCHES, "/a", 3) is Err.NO_WATCHER
    client.set("/a", b"x")
    assert not client.events


def test_watches_are_set_again_after_a_reconnect(stage: BridgeStage, client: ZkClient) -> None:
    for path in ("/gone", "/changed", "/same", "/parent", "/quiet"):
        client.create(path)
    since, writer = client.last_zxid, stage.client()
    writer.delete("/gone")
    writer.set("/changed", b"x")
    writer.create("/parent/c")
    writer.create("/born")
    again = client.again()
    again.request(
        Op.SET_WATCHES,
        jute.SET_WATCHES.encode(
            (
                since,
                ["/gone", "/changed", "/same"],
                ["/born", "/unborn"],
                ["/parent", "/quiet", "/gone"],
            )
        ),
        xid=-8,
    )
    again.answer(-8)

    assert [type(each) for each in again.log] == [Event] * 5 + [Reply]
    assert again.events == [
        (DELETED, "/gone", -1),
        (CHANGED, "/changed", -1),
        (CREATED, "/born", -1),
        (CHILD, "/parent", -1),
        (DELETED, "/gone", -1),
    ]
    writer.set("/same", b"x")
    writer.create("/unborn")
    writer.create("/quiet/c")
    assert [each[:2] for each in again.wait_event(8)[5:]] == [
        (CHANGED, "/same"),
        (CREATED, "/unborn"),
        (CHILD, "/quiet"),
    ]


# who may


def test_authentication_grants_permissions(stage: BridgeStage, client: ZkClient) -> None:
    client.request(Op.AUTH, jute.AUTH.encode((0, "digest", b"alice:a")), xid=-4)
    assert client.answer(-4) == Reply(-4, 0, 0, b"")
    client.must(Op.CREATE, "/mine", b"x", [Acl(31, "auth", "")], 0)
    client.must(
        Op.CREATE, "/seen", b"x", [Acl(30, *digest_of(b"alice:a")), Acl(1, "world", "anyone")], 0
    )
    stranger = stage.client()

    assert stranger.error(Op.GET_DATA, "/mine", False) is Err.NO_AUTH
    assert stranger.error(Op.SET_DATA, "/mine", b"", -1) is Err.NO_AUTH
    assert stranger.error(Op.EXISTS, "/mine", True) is Err.NO_AUTH
    assert stranger.error(Op.EXISTS, "/none", False) is Err.NO_NODE
    assert jute.ACLS_STAT.decode(stranger.must(Op.GET_ACL, "/seen"))[0][0] == Acl(
        30, "digest", "alice:x"
    )
    assert (
        jute.ACLS_STAT.decode(client.must(Op.GET_ACL, "/seen"))[0][0].id == digest_of(b"alice:a")[1]
    )
    assert jute.IDENTITIES.decode(client.must(Op.WHO_AM_I, body=b"")) == [
        ("ip", "client"),
        ("digest", "alice"),
    ]


def test_no_event_without_read_permission(stage: BridgeStage, client: ZkClient) -> None:
    client.request(Op.AUTH, jute.AUTH.encode((0, "digest", b"alice:a")), xid=-4)
    client.create("/a")
    stranger = stage.client()
    for each in (client, stranger):
        each.must(Op.ADD_WATCH, "/a", 1)
    client.must(Op.CREATE, "/a/mine", b"", [Acl(31, "auth", "")], 0)
    client.set("/a/mine", b"x")
    client.delete("/a/mine")
    client.create("/a/all")
    stranger.must(Op.SYNC, "/")

    assert [each[:2] for each in client.events] == [
        (CREATED, "/a/mine"),
        (CHANGED, "/a/mine"),
        (DELETED, "/a/mine"),
        (CREATED, "/a/all"),
    ]
    assert [each[:2] for each in stranger.events] == [(CREATED, "/a/all")]


def test_the_super_user_may_everything() -> None:
    with BridgeStage(zookeeper_bridge_super_digest=digest_of(b"super:s")[1]) as stage:
        owner, root = stage.client(), stage.client()
        owner.must(Op.CREATE, "/mine", b"x", [Acl(31, *digest_of(b"a:a"))], 0)
        root.request(Op.AUTH, jute.AUTH.encode((0, "digest", b"super:s")), xid=-4)

        assert root.get("/mine")[0] == b"x"
        assert root.set("/mine", b"y").version == 1


@pytest.mark.parametrize("xid", [-4, 1, 77, 0])
def test_auth_is_answered_with_the_xid_of_its_request(client: ZkClient, xid: int) -> None:
    """go-zookeeper numbers AUTH like any other request, and waits for that number."""
    client.request(Op.AUTH, jute.AUTH.encode((0, "digest", b"alice:a")), xid=xid)
    assert client.answer(xid) == Reply(xid, 0, 0, b"")
    client.request(Op.AUTH, jute.AUTH.encode((0, "nobody", b"")), xid=xid + 1)
    assert client.answer(xid + 1) == Reply(xid + 1, 0, Err.AUTH_FAILED, b"")


@pytest.mark.parametrize("scheme", ["world", "kerberos", "", None])
def test_an_unknown_scheme_ends_the_connection(client: ZkClient, scheme: str | None) -> None:
    client.request(Op.AUTH, jute.AUTH.encode((0, scheme, b"x")), xid=-4)

    assert client.answer(-4) == Reply(-4, 0, Err.AUTH_FAILED, b"")
    assert client.wait_closed()


# bad input


def test_an_unknown_operation_is_answered_and_ends_the_connection(
    stage: BridgeStage, client: ZkClient
) -> None:
    client.request(Op.CREATE, jute.CREATE.encode(("/first", b"", OPEN_TO_ALL, 0)))
    xid = client.request(4711)

    assert client.answer(xid) == Reply(xid, -1, Err.UNIMPLEMENTED, b"")
    assert client.wait_closed()
    assert client.again().exists("/first")


def test_a_body_that_can_not_be_read_is_an_error_and_no_more(client: ZkClient) -> None:
    for op in sorted(BODIES):
        if op not in (Op.AUTH, Op.SASL, Op.SYNC, Op.RECONFIG):
            assert client.error(op, body=b"\0\0\0\x7f/") is Err.MARSHALLING
    assert client.error(Op.RECONFIG, None, None, None, -1) is Err.RECONFIG_DISABLED
    assert client.create("/fine") == "/fine"


@pytest.mark.parametrize("size", [1_048_576, (1 << 31) - 1, -1])
def test_a_packet_that_is_too_long_ends_the_connection_and_not_the_session(
    stage: BridgeStage, client: ZkClient, size: int
) -> None:
    client.create("/e", flags=1)
    client.send(pack(">i", size))

    assert client.wait_closed()
    assert client.again().exists("/e")


def test_the_longest_packet(client: ZkClient) -> None:
    room = 1_048_575 - 8 - len(jute.SET_DATA.encode(("/a", b"", -1)))
    client.create("/a")

    assert client.set("/a", bytes(room)).data_length == room
    assert len(client.get("/a")[0] or b"") == room


@pytest.mark.parametrize("first", [b"\0\0\0\x04abcd", b"\0\0\0\0", b"\0\0\0\x2c" + b"\xff" * 44])
def test_a_first_packet_that_is_no_connect(stage: BridgeStage, first: bytes) -> None:
    stranger = ZkClient(stage)
    stranger.send(first)

    assert stranger.wait_closed()
    assert stage.client().create("/fine")
