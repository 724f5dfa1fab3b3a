"""Every limit of the bridge, hit through a node: its counter moves, and what is refused is refused
to that one alone.
"""

from collections.abc import Callable, Iterator
from random import Random
from struct import pack

import pytest
from prometheus_client import generate_latest

from raftka.broker.exporter.exposition import Page
from raftka.limits import Limit
from raftka.wire.messages.configs import INCREMENTAL_ALTER_CONFIGS
from tests.zookeeper_bridge.decisions import OPEN_TO_ALL
from tests.zookeeper_bridge.stage import BridgeStage, ZkClient
from zookeeper_bridge import limits
from zookeeper_bridge.limits import (
    ACL_ENTRIES,
    ANNOUNCEMENTS,
    AUTHS_OF_CONNECTION,
    BATCH_BYTES,
    CLOSED_BYTES,
    COMMANDS_OF_ENTRY,
    CONNECT_SECONDS,
    CONNECTIONS,
    DECIDED_BYTES,
    LOGIN_PACKET_BYTES,
    MULTI_BYTES,
    OPERATIONS_OF_MULTI,
    OUTPUT_BYTES,
    PACKET_BYTES,
    PATH_BYTES,
    PATH_DEPTH,
    READS_OF_MULTI,
    REPLY_BYTES,
    REQUEST_BYTES_IN_HAND,
    REQUESTS_IN_HAND,
    SESSIONS,
    TREE_BYTES,
    WAITING_CONNECTS,
    WATCHES,
    WATCHES_OF_CONNECTION,
    ZNODES,
)
from zookeeper_bridge.protocol import jute
from zookeeper_bridge.protocol.errors import Err
from zookeeper_bridge.protocol.jute import Acl
from zookeeper_bridge.protocol.opcodes import BODIES, Op

Lower = Callable[[Limit, int], None]
ALL = [each for each in vars(limits).values() if isinstance(each, Limit)]


@pytest.fixture
def stage() -> Iterator[BridgeStage]:
    with BridgeStage() as stage:
        yield stage
        assert not stage.world.failures
        assert stage.client().create("/others")


@pytest.fixture
def client(stage: BridgeStage) -> ZkClient:
    client = stage.client(timeout_ms=40_000)
    client.create("/a", b"x")
    return client


@pytest.fixture
def lowered() -> Iterator[Lower]:
    before = {limit: limit.value for limit in ALL}
    yield lambda limit, value: object.__setattr__(limit, "value", value)
    for limit, value in before.items():
        object.__setattr__(limit, "value", value)


def hit(stage: BridgeStage, limit: Limit, times: int = 1) -> bool:
    return stage.counted(limit.metric) >= times


def test_packet_bytes(stage: BridgeStage, client: ZkClient) -> None:
    client.send(pack(">i", PACKET_BYTES.value + 1))

    assert client.wait_closed()
    assert hit(stage, PACKET_BYTES)


def test_connections(stage: BridgeStage, client: ZkClient, lowered: Lower) -> None:
    lowered(CONNECTIONS, 1)

    assert ZkClient(stage).wait_closed()
    assert hit(stage, CONNECTIONS)
    lowered(CONNECTIONS, 10)


def test_connect_seconds(stage: BridgeStage) -> None:
    silent = ZkClient(stage)
    silent.send(b"\0\0")
    began = stage.world.now

    assert silent.wait_closed()
    assert stage.world.now - began >= CONNECT_SECONDS.value
    assert hit(stage, CONNECT_SECONDS)


def test_waiting_connects(stage: BridgeStage, lowered: Lower) -> None:
    lowered(WAITING_CONNECTS, 2)
    clients = [ZkClient(stage) for _ in range(5)]
    for each in clients:
        each.send(pack(">iiqiqi16s", 44, 0, 0, 4000, 0, 16, bytes(16)))
    stage.wait(
        lambda: all(each.session is not None or each.closed_because is not None for each in clients)
    )

    assert sum(each.session is not None for each in clients) == 2
    assert hit(stage, WAITING_CONNECTS, 3)


def test_requests_in_hand(stage: BridgeStage, client: ZkClient, lowered: Lower) -> None:
    lowered(REQUESTS_IN_HAND, 10)
    body = jute.SET_DATA.encode(("/a", b"x", -1))

    asked = [client.request(Op.SET_DATA, body) for _ in range(50)]

    assert client.answer(asked[-1]).error == 0  # type: ignore[union-attr]
    assert [each.xid for each in client.replies[-50:]] == asked
    assert hit(stage, REQUESTS_IN_HAND)


def test_request_bytes_in_hand(stage: BridgeStage, client: ZkClient, lowered: Lower) -> None:
    lowered(REQUEST_BYTES_IN_HAND, 1000)
    write = jute.SET_DATA.encode(("/a", bytes(400), -1))
    read = jute.PATH_WATCH.encode(("/a", False))
    asked = [
        client.request(op, body)
        for _ in range(10)
        for op, body in ((Op.SET_DATA, write), (Op.GET_DATA, read))
    ]

    assert client.answer(asked[-1]).error == 0  # type: ignore[union-attr]
    assert hit(stage, REQUEST_BYTES_IN_HAND)


def test_output_bytes(stage: BridgeStage, client: ZkClient, lowered: Lower) -> None:
    lowered(OUTPUT_BYTES, 20_000)
    slow = stage.client(timeout_ms=40_000)
    slow.must(Op.ADD_WATCH, "/a", 0)
    slow.hold_reading(True)
    for _ in range(100):
        for _ in range(100):
            client.request(Op.SET_DATA, jute.SET_DATA.encode(("/a", b"", -1)))
        if hit(stage, OUTPUT_BYTES):
            break
        client.set("/a", b"")

    assert hit(stage, OUTPUT_BYTES)
    stage.wait(lambda: len(stage.bridge().connections) == 1)


def test_watches(stage: BridgeStage, client: ZkClient, lowered: Lower) -> None:
    lowered(WATCHES_OF_CONNECTION, 2)
    client.get("/a", watch=True)
    client.children("/a", watch=True)
    assert client.error(Op.EXISTS, "/b", True) is Err.QUOTA_EXCEEDED
    client.get("/a", watch=True)
    assert hit(stage, WATCHES_OF_CONNECTION)
    lowered(WATCHES, 2)
    assert stage.client().error(Op.ADD_WATCH, "/b", 0) is Err.QUOTA_EXCEEDED
    assert hit(stage, WATCHES)


def test_auths_of_connection(stage: BridgeStage, client: ZkClient, lowered: Lower) -> None:
    lowered(AUTHS_OF_CONNECTION, 3)
    for i in range(3):
        client.request(Op.AUTH, jute.AUTH.encode((0, "digest", b"u%d:p" % i)), xid=-4)

    assert client.wait_closed()
    assert [each.error for each in client.replies[-3:]] == [0, 0, Err.AUTH_FAILED]
    assert hit(stage, AUTHS_OF_CONNECTION)


def test_sessions(stage: BridgeStage, client: ZkClient, lowered: Lower) -> None:
    lowered(SESSIONS, 1)

    assert stage.client().wait_closed()
    assert hit(stage, SESSIONS)
    lowered(SESSIONS, 5)


def test_znodes_and_bytes_of_the_tree(stage: BridgeStage, client: ZkClient, lowered: Lower) -> None:
    tree = stage.bridge().tree
    lowered(ZNODES, tree.node_count)
    assert client.error(Op.CREATE, "/b", b"", OPEN_TO_ALL, 0) is Err.QUOTA_EXCEEDED
    assert hit(stage, ZNODES)
    lowered(ZNODES, 100)
    lowered(TREE_BYTES, tree.size_bytes + 10)
    assert client.error(Op.SET_DATA, "/a", bytes(20), -1) is Err.QUOTA_EXCEEDED
    assert hit(stage, TREE_BYTES)
    client.delete("/a")


def test_paths(stage: BridgeStage, client: ZkClient, lowered: Lower) -> None:
    lowered(PATH_BYTES, 10)
    lowered(PATH_DEPTH, 1)
    for path, limit in (("/0123456789", PATH_BYTES), ("/a/b", PATH_DEPTH)):
        assert client.error(Op.CREATE, path, b"", OPEN_TO_ALL, 0) is Err.QUOTA_EXCEEDED
        assert hit(stage, limit)


def test_acl_entries(stage: BridgeStage, client: ZkClient, lowered: Lower) -> None:
    lowered(ACL_ENTRIES, 2)

    assert (
        client.error(Op.SET_ACL, "/a", [Acl(i, "world", "anyone") for i in (1, 2, 3)], -1)
        is Err.INVALID_ACL
    )
    assert hit(stage, ACL_ENTRIES)


def test_multis(stage: BridgeStage, client: ZkClient, lowered: Lower) -> None:
    lowered(OPERATIONS_OF_MULTI, 2)
    lowered(READS_OF_MULTI, 2)
    lowered(MULTI_BYTES, 500)
    check = (Op.CHECK, BODIES[Op.CHECK].encode(("/a", -1)))
    read = (Op.GET_DATA, BODIES[Op.GET_DATA].encode(("/a", False)))
    for op, part, limit in (
        (Op.MULTI, check, OPERATIONS_OF_MULTI),
        (Op.MULTI_READ, read, READS_OF_MULTI),
    ):
        assert client.error(op, body=jute.encode_multi([part] * 2)) is Err.OK
        assert client.error(op, body=jute.encode_multi([part] * 3)) is Err.QUOTA_EXCEEDED
        assert hit(stage, limit)
    assert client.multi((Op.SET_DATA, ("/a", bytes(600), -1))) == [Err.QUOTA_EXCEEDED]
    assert hit(stage, MULTI_BYTES)


def test_reply_bytes(stage: BridgeStage, client: ZkClient, lowered: Lower) -> None:
    lowered(REPLY_BYTES, 300)
    client.set("/a", bytes(200))
    read = (Op.GET_DATA, BODIES[Op.GET_DATA].encode(("/a", False)))

    assert client.error(Op.MULTI_READ, body=jute.encode_multi([read] * 2)) is Err.QUOTA_EXCEEDED
    assert hit(stage, REPLY_BYTES)
    assert client.get("/a")[0] == bytes(200)


def test_the_bytes_of_one_entry_are_limited(
    stage: BridgeStage, client: ZkClient, lowered: Lower
) -> None:
    lowered(BATCH_BYTES, 1000)
    lowered(DECIDED_BYTES, 300)
    asked = [
        client.request(Op.CREATE, jute.CREATE.encode((f"/e{i}", bytes(100), OPEN_TO_ALL, 1)))
        for i in range(30)
    ]
    assert client.answer(asked[-1]).error == 0  # type: ignore[union-attr]
    assert [each.xid for each in client.replies[-30:]] == asked
    assert hit(stage, BATCH_BYTES)
    assert hit(stage, DECIDED_BYTES)

    lowered(CLOSED_BYTES, 300)
    client.must(Op.CLOSE_SESSION, body=b"")
    stage.wait(
        lambda: not [each for each in stage.bridge().tree.children["/"] if each.startswith("e")]
    )
    assert hit(stage, CLOSED_BYTES)


def test_the_commands_of_one_entry_are_limited(
    stage: BridgeStage, client: ZkClient, lowered: Lower
) -> None:
    lowered(COMMANDS_OF_ENTRY, 3)
    topic = b'{"version": 1, "partitions": {"0": [1]}}'
    asked = [
        client.request(
            Op.CREATE, jute.CREATE.encode((f"/brokers/topics/t{i}", topic, OPEN_TO_ALL, 0))
        )
        for i in range(20)
    ]
    assert client.answer(asked[-1]).error == 0  # type: ignore[union-attr]
    assert [each.xid for each in client.replies[-20:]] == asked
    assert hit(stage, COMMANDS_OF_ENTRY)
    assert len({each.created_at for each in stage.nodes[1].image.topics.values()}) >= 6

    lowered(ANNOUNCEMENTS, 1)
    (row, entry) = (
        INCREMENTAL_ALTER_CONFIGS.request.resources,
        INCREMENTAL_ALTER_CONFIGS.request.resources.configs,
    )
    kind = 2
    changes = [
        row(
            resource_type=kind,
            resource_name=f"t{i}",
            configs=[entry(name="retention.ms", value="5")],
        )
        for i in range(3)
    ]
    stage.wire().ask(
        INCREMENTAL_ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS.request(resources=changes)
    )
    assert hit(stage, ANNOUNCEMENTS)
    assert len(client.children("/config/changes")) == 1
    assert [client.get(f"/config/topics/t{i}")[1].version for i in range(3)] == [1, 1, 1]


def test_a_full_tree_does_not_stop_changes_of_topics_and_settings(
    stage: BridgeStage, client: ZkClient, lowered: Lower
) -> None:
    created = b'{"version": 1, "partitions": {"0": [1]}}'
    for name in "t", "u":
        client.must(Op.CREATE, f"/brokers/topics/{name}", created, OPEN_TO_ALL, 0)
    lowered(ZNODES, 1)
    (row, entry) = (
        INCREMENTAL_ALTER_CONFIGS.request.resources,
        INCREMENTAL_ALTER_CONFIGS.request.resources.configs,
    )
    kind = 2
    asked = [
        row(resource_type=kind, resource_name="t", configs=[entry(name="retention.ms", value="5")])
    ]
    answer = stage.wire().ask(
        INCREMENTAL_ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS.request(resources=asked)
    )
    assert [each.error_code for each in answer.responses] == [0]
    assert hit(stage, ZNODES)
    assert client.children("/config/changes") == []

    client.must(Op.CREATE, "/admin/delete_topics/u", None, OPEN_TO_ALL, 0)
    assert client.children("/brokers/topics") == ["t"]


def test_bytes_before_a_login_that_is_required(lowered: Lower) -> None:
    lowered(LOGIN_PACKET_BYTES, 1000)
    with BridgeStage(zookeeper_bridge_enforce_auth_schemes="digest") as stage:
        loud, alice = stage.client(), stage.client()
        loud.send((5000).to_bytes(4) + bytes(2000))
        assert loud.wait_closed()
        assert hit(stage, LOGIN_PACKET_BYTES)
        alice.request(Op.AUTH, jute.AUTH.encode((0, "digest", b"alice:a")), xid=-4)
        alice.create("/large", bytes(5000))


def test_each_limit_has_its_test() -> None:
    with open(__file__, encoding="utf-8") as source:
        tests = source.read().partition("Lower = ")[2]

    constants = {name for name, each in vars(limits).items() if isinstance(each, Limit)}
    assert {
        name for name in constants if f"{name})" not in tests and f"{name}, " not in tests
    } == set()


def test_the_metrics_page_shows_them() -> None:
    page = Page()

    page.add(PACKET_BYTES.metric, 3)

    assert "raftka_limit_bridge_packet_bytes_total 3.0" in generate_latest(page).decode()


# bytes that are nothing


@pytest.mark.parametrize("seed", range(8))
def test_garbage_harms_no_other_session(seed: int) -> None:
    with BridgeStage(seed=seed) as stage:
        random, good = Random(seed), stage.client(timeout_ms=40_000)
        good.create("/mine", b"x", flags=1)
        for _ in range(30):
            bad = stage.client() if random.random() < 0.7 else ZkClient(stage)
            bad.raw = True
            for _ in range(random.randrange(1, 6)):
                bad.send(garbage(random))
            stage.pass_time(random.random() / 10)
            if random.random() < 0.5:
                bad.drop()

        assert good.set("/mine", b"y").version == 1
        assert not stage.world.failures
        assert not stage.events("bridge_failed")


def garbage(random: Random) -> bytes:
    body = random.randbytes(random.choice([0, 3, 20, 200]))
    opcode = random.choice([*Op, random.randrange(-200, 200)])
    match random.randrange(5):
        case 0:
            return body
        case 1:
            return pack(">i", random.choice([-1, 0, 5, 1 << 20, (1 << 31) - 1])) + body
        case 2:
            fields = {
                Op.CREATE: (
                    "/" + "x/" * random.randrange(300),
                    None,
                    None,
                    random.randrange(-2, 9),
                ),
                Op.SET_WATCHES: (0, ["/", None], None, [""]),
            }
            op, given = random.choice(list(fields.items()))
            body = BODIES[op].encode(given)
            return pack(">iii", 8 + len(body), random.randrange(-9, 9), op) + body
    return pack(">iii", 8 + len(body), random.randrange(-9, 9), int(opcode)) + body
