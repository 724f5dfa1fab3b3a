"""Writes and sessions as ZooKeeper has them, decided beside the controller; and what every node
sees of it.
"""

from random import Random
from typing import Any

import pytest

from tests.zookeeper_bridge.decisions import (
    HERE,
    OPEN_TO_ALL,
    Client,
    Decisions,
    multi_results,
    stat,
)
from zookeeper_bridge import limits
from zookeeper_bridge.machine.sessions import clamped, password_of
from zookeeper_bridge.machine.wire import Attach, Open, Sync, Touch
from zookeeper_bridge.protocol import jute
from zookeeper_bridge.protocol.errors import Err
from zookeeper_bridge.protocol.jute import Acl, Stat
from zookeeper_bridge.protocol.opcodes import BODIES, Op
from zookeeper_bridge.protocol.paths import parent_of
from zookeeper_bridge.tree.acl import SUPER, digest_of
from zookeeper_bridge.tree.store import PACKAGE, NodeKind
from zookeeper_bridge.tree.tree import FROM_THE_BEGINNING, Tree


@pytest.fixture
def stage() -> Decisions:
    return Decisions()


@pytest.fixture
def client(stage: Decisions) -> Client:
    return Client(stage)


def fails(code: Err, *results: Any) -> bool:
    return all(result is code for result in results)


# znodes


def test_a_znode_and_its_stat(stage: Decisions, client: Client) -> None:
    born, first = stage.wall_ms, stage.offset + 1

    assert client.create("/a", b"xy") == "/a"
    stage.wall_ms += 7
    changed = client.set("/a", b"z")

    assert changed == Stat(first, first + 1, born, born + 7, 1, 0, 0, 0, 1, 0, first)
    assert stat(stage.tree, "/a") == changed
    assert client.delete("/a") is Err.OK
    assert stage.tree.node("/a") is None


def test_null_data_is_kept_as_such(stage: Decisions, client: Client) -> None:
    for path, data in (("/null", None), ("/empty", b"")):
        client.create(path, data)

    assert [stage.tree.nodes[path].data for path in ("/null", "/empty")] == [None, b""]
    client.set("/empty", None)
    assert stage.tree.nodes["/empty"].data is None


def test_children_are_counted_as_zookeeper_counts(stage: Decisions, client: Client) -> None:
    client.create("/p")
    client.create("/p/a")
    client.create("/p/b")
    deleted = stage.offset + 1
    client.delete("/p/a")
    client.set("/p/b", b"new")

    seen = stat(stage.tree, "/p")
    assert (seen.cversion, seen.num_children, seen.pzxid) == (3, 1, deleted)
    there = sum(parent_of(path) == "/" != path for path in FROM_THE_BEGINNING)
    assert stat(stage.tree, "/").cversion == 2 * 1 - (there + 1)  # nobody has created those
    assert client.create("/p/s-", flags=2) == "/p/s-0000000002"
    assert client.create("/p/", flags=3) == "/p/0000000003"


def test_a_parent_that_comes_back_counts_from_the_beginning(
    stage: Decisions, client: Client
) -> None:
    for _ in range(2):
        client.create("/p")
        assert client.create("/p/s", flags=2) == "/p/s0000000000"
        client.delete("/p/s0000000000")
        client.delete("/p")


@pytest.mark.parametrize(
    ("path", "flags", "code"),
    [
        ("a", 0, Err.BAD_ARGUMENTS),
        ("/there/", 0, Err.BAD_ARGUMENTS),
        ("/a/", 0, Err.NO_NODE),
        ("/there/.", 0, Err.BAD_ARGUMENTS),
        ("", 0, Err.BAD_ARGUMENTS),
        (None, 0, Err.BAD_ARGUMENTS),
        ("/", 0, Err.NODE_EXISTS),
        ("/there", 0, Err.NODE_EXISTS),
        ("/no/such", 0, Err.NO_NODE),
        ("/no/./such", 0, Err.NO_NODE),
        ("/mine/child", 0, Err.NO_CHILDREN_FOR_EPHEMERALS),
        ("/x", 5, Err.BAD_ARGUMENTS),
        ("/x", 6, Err.BAD_ARGUMENTS),
        ("/x", 7, Err.BAD_ARGUMENTS),
        ("/" + "x" * limits.PATH_BYTES.value, 0, Err.QUOTA_EXCEEDED),
    ],
)
def test_invalid_creates_are_refused(client: Client, path: str, flags: int, code: Err) -> None:
    client.create("/there")
    client.create("/mine", flags=1)

    assert client.create(path, flags=flags) is code


def test_invalid_deletes_and_sets_are_refused(client: Client) -> None:
    client.create("/p")
    client.create("/p/c")

    assert fails(
        Err.NO_NODE,
        client.delete("/none"),
        client.set("/none", b""),
        client.set_acl("/none", OPEN_TO_ALL),
    )
    assert fails(Err.NOT_EMPTY, client.delete("/p"))
    assert fails(
        Err.BAD_VERSION,
        client.delete("/p", 1),
        client.set("/p", b"", 1),
        client.set("/p", b"", -2),
        client.set_acl("/p", OPEN_TO_ALL, 1),
    )
    assert fails(
        Err.BAD_ARGUMENTS, client.delete("/"), client.delete("/zookeeper/quota"), client.delete("x")
    )
    assert fails(
        Err.INVALID_ACL,
        client.create("/q", acl=None),
        client.create("/q", acl=[]),
        client.set_acl("/p", []),
    )
    assert isinstance(client.set("/", b"even the root"), Stat)


def test_a_refused_write_writes_nothing_and_has_the_last_zxid(
    stage: Decisions, client: Client
) -> None:
    client.create("/a")
    before = stage.offset

    assert client.create("/a") is Err.NODE_EXISTS
    assert (stage.offset, stage.zxid) == (before, before)


def own_names(stage: Decisions) -> list[str]:
    """Of what clients have put below the root."""
    return sorted(name for name in stage.tree.children["/"] if f"/{name}" not in FROM_THE_BEGINNING)


def test_containers_and_times_to_live_go_by_themselves(stage: Decisions, client: Client) -> None:
    for path in ("/new", "/used"):
        client.ask(Op.CREATE_CONTAINER, jute.CREATE.encode((path, b"", OPEN_TO_ALL, 4)))
    client.create("/used/c")
    client.delete("/used/c")
    created = client.ask(
        Op.CREATE_TTL, jute.CREATE_TTL.encode(("/short", b"", OPEN_TO_ALL, 5, 30_000))
    )
    client.ask(Op.CREATE_TTL, jute.CREATE_TTL.encode(("/long", b"", OPEN_TO_ALL, 5, 90_000)))
    assert jute.PATH_STAT.decode(created.body)[1].ephemeral_owner == 0
    assert (
        client.ask(Op.CREATE_TTL, jute.CREATE_TTL.encode(("/x", b"", OPEN_TO_ALL, 5, 0))).error
        == Err.BAD_ARGUMENTS
    )

    stage.wall_ms += 60_000
    stage.tick_until(61.0)

    assert own_names(stage) == ["long", "new"]


# multi


def test_a_multi_sees_its_own_changes(stage: Decisions, client: Client) -> None:
    results = client.multi(
        (Op.CREATE, ("/m", None, OPEN_TO_ALL, 0)),
        (Op.SET_DATA, ("/m", b"x", 0)),
        (Op.CHECK, ("/m", 1)),
        (Op.CREATE_2, ("/m/s", b"", OPEN_TO_ALL, 2)),
        (Op.DELETE, ("/m/s0000000000", -1)),
    )

    assert [each[0] for each in results] == [
        Op.CREATE,
        Op.SET_DATA,
        Op.CHECK,
        Op.CREATE_2,
        Op.DELETE,
    ]
    assert results[1][1].version == 1
    seen = stat(stage.tree, "/m")
    assert (seen.czxid, seen.mzxid, seen.pzxid, seen.version) == (
        stage.offset,
        stage.offset,
        stage.offset,
        1,
    )


def test_a_multi_that_fails_has_changed_nothing(stage: Decisions, client: Client) -> None:
    before = stage.offset

    results = client.multi(
        (Op.CREATE, ("/m", b"", OPEN_TO_ALL, 0)), (Op.CHECK, ("/m", 5)), (Op.DELETE, ("/m", -1))
    )

    assert results == [Err.OK, Err.BAD_VERSION, Err.RUNTIME_INCONSISTENCY]
    assert stage.tree.node("/m") is None
    assert stage.offset == before


def test_an_empty_multi_and_a_read_inside_one(client: Client) -> None:
    assert client.multi() == []
    assert (
        client.ask(
            Op.MULTI, jute.encode_multi([(Op.GET_DATA, jute.PATH_WATCH.encode(("/", False)))])
        ).error
        == Err.MARSHALLING
    )
    assert client.ask(Op.SET_DATA, b"\0\0\0\x09/").error == Err.MARSHALLING


def test_a_multi_may_not_write_more_than_an_entry_holds(
    stage: Decisions, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "zookeeper_bridge.machine.requests.MULTI_BYTES", limits.MULTI_BYTES.__class__("x", 1000, "")
    )
    client.create("/big", bytes(400))

    again = (Op.SET_DATA, ("/big", bytes(400), -1))

    assert len(client.multi(again, again)) == 2
    assert client.multi(again, again, again) == [Err.OK, Err.OK, Err.QUOTA_EXCEEDED]


# who may


def test_acls(stage: Decisions) -> None:
    alice, bob = digest_of(b"alice:a"), digest_of(b"bob:b")
    owner = Client(stage, identities=(*HERE, alice))
    other = Client(stage, identities=(*HERE, bob))
    root = Client(stage, identities=(*HERE, SUPER))

    assert owner.create("/mine", acl=[Acl(31, "auth", "")]) == "/mine"
    assert (
        owner.create("/here", acl=[Acl(1, "ip", "127.0.0.0/8"), Acl(2, "ip", "10.0.0.1")])
        == "/here"
    )

    assert fails(
        Err.NO_AUTH,
        other.set("/mine", b""),
        other.create("/mine/c"),
        other.set_acl("/mine", OPEN_TO_ALL),
        other.set("/here", b""),
    )
    assert isinstance(owner.set("/mine", b""), Stat)
    assert isinstance(root.set("/here", b""), Stat)
    assert owner.create("/mine/c") == "/mine/c"
    assert other.delete("/mine/c") is Err.NO_AUTH
    check = jute.CHECK_VERSION.encode(("/mine", -1))
    assert [each.ask(Op.CHECK, check).error for each in (owner, other)] == [0, Err.NO_AUTH]


@pytest.mark.parametrize(
    "acl",
    [
        ("world", "me"),
        ("digest", "x"),
        ("ip", "nowhere"),
        ("kerberos", "x"),
        ("auth", ""),
        (None, "x"),
    ],
)
def test_invalid_acls_are_refused(client: Client, acl: tuple[Any, Any]) -> None:
    assert client.create("/x", acl=[Acl(31, *acl)]) is Err.INVALID_ACL


# sessions


@pytest.mark.parametrize(
    ("asked", "given"), [(0, 4000), (-5, 4000), (100_000, 40_000), (7000, 7000)]
)
def test_a_time_out_is_clamped(asked: int, given: int) -> None:
    assert clamped(asked, 2000) == given


def test_ephemerals_go_with_their_session_in_one_entry(stage: Decisions, client: Client) -> None:
    other = Client(stage)
    for i in range(3):
        client.create(f"/e{i}", flags=1)
    other.create("/other", flags=1)
    assert stat(stage.tree, "/e0").ephemeral_owner == client.session_id
    before = stage.offset

    client.close()

    assert stage.offset == before + 1
    assert own_names(stage) == ["other"]
    assert client.create("/x") is Err.SESSION_EXPIRED


def test_a_silent_session_expires_and_one_that_is_touched_does_not(
    stage: Decisions, client: Client
) -> None:
    other = Client(stage)
    for each in (client, other):
        each.create(f"/{each.session_id}", flags=1)
    for now in (2.0, 4.0, 5.9):
        stage.tick_until(now)
        stage.ask(Touch([other.session_id]))

    assert set(stage.tree.sessions) == {other.session_id}
    assert stage.tree.node(f"/{client.session_id}") is None
    assert client.attach(2).error == Err.SESSION_EXPIRED


def test_a_new_controller_gives_every_session_a_full_time_out(
    stage: Decisions, client: Client
) -> None:
    stage.tick_until(3.9)
    stage.lead_anew()
    stage.tick_until(7.8)
    assert client.session_id in stage.tree.sessions

    stage.tick_until(9.0)
    assert client.session_id not in stage.tree.sessions


def test_a_password_is_needed_to_come_back(stage: Decisions, client: Client) -> None:
    assert client.opened.password == password_of(stage.tree.secret, client.session_id)
    assert client.attach(2, b"x" * 16).error == Err.SESSION_EXPIRED
    assert client.attach(2, b"").error == Err.SESSION_EXPIRED

    again = client.attach(2)

    assert (again.error, again.session_id, again.password) == (
        0,
        client.session_id,
        client.opened.password,
    )


def test_a_connection_whose_session_moved_cannot_write(stage: Decisions, client: Client) -> None:
    client.attach(2)
    client.connection = 1

    assert client.create("/x") is Err.SESSION_MOVED
    client.connection = 2
    assert client.create("/x") == "/x"


def test_more_ephemerals_than_an_entry_holds_go_in_several(
    stage: Decisions, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "zookeeper_bridge.machine.machine.CLOSED_BYTES", limits.CLOSED_BYTES.__class__("x", 500, "")
    )
    for i in range(200):
        client.create(f"/e{i}", flags=1)
    before = stage.offset

    client.close()
    assert client.create("/late", flags=1) is Err.SESSION_EXPIRED
    assert stage.tree.sessions[client.session_id].closing
    stage.lead_anew()  # the next one goes on with it
    stage.offset = before + 1
    stage.tick_until(stage.now)

    assert stage.offset > before + 3
    assert own_names(stage) == []
    assert not stage.tree.sessions


# entries


def test_many_requests_are_one_entry(stage: Decisions, client: Client) -> None:
    before = stage.offset
    bodies = [jute.CREATE.encode((f"/n{i % 3}", b"", OPEN_TO_ALL, 0)) for i in range(4)]

    results = stage.ask(*[client.request(Op.CREATE, body) for body in bodies], Sync())

    assert stage.offset == before + 1
    assert [each.error for each in results] == [0, 0, 0, Err.NODE_EXISTS, 0]


def test_requests_beyond_an_entry_are_to_be_asked_again(
    stage: Decisions, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "zookeeper_bridge.machine.machine.DECIDED_BYTES",
        limits.DECIDED_BYTES.__class__("x", 1000, ""),
    )
    bodies = [jute.CREATE.encode((f"/n{i}", bytes(400), OPEN_TO_ALL, 0)) for i in range(4)]

    results = stage.ask(*[client.request(Op.CREATE, body) for body in bodies])

    assert [each.error for each in results] == [0, 0, Err.AGAIN, Err.AGAIN]


def test_the_machine_decides_on_uncommitted_changes(stage: Decisions, client: Client) -> None:
    stage.holding = True
    client.create("/a")
    assert client.create("/a") is Err.NODE_EXISTS
    assert client.create("/a/s", flags=2) == "/a/s0000000000"
    assert client.create("/a/s", flags=2) == "/a/s0000000001"
    assert client.delete("/a") is Err.NOT_EMPTY
    client.delete("/a/s0000000000")
    client.create("/e", flags=1)
    assert stage.tree.node("/a") is None

    stage.commit()

    assert client.create("/a/s", flags=2) == "/a/s0000000002"
    stage.commit()
    assert stat(stage.tree, "/a").num_children == 2
    assert list(stage.tree.ephemerals(client.session_id)) == ["/e"]


def test_a_controller_that_was_replaced_leaves_nothing(stage: Decisions, client: Client) -> None:
    stage.holding = True
    client.create("/lost")
    stage.lead_anew()
    stage.holding = False

    assert client.create("/lost/child") is Err.NO_NODE


def test_limits_of_the_tree(
    stage: Decisions, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = limits.ZNODES.__class__
    monkeypatch.setattr(
        "zookeeper_bridge.machine.operations.ZNODES", limit("x", len(FROM_THE_BEGINNING) + 1, "")
    )
    assert client.create("/a") == "/a"
    assert client.create("/b") is Err.QUOTA_EXCEEDED
    monkeypatch.setattr(
        "zookeeper_bridge.machine.operations.TREE_BYTES", limit("x", stage.tree.size_bytes + 10, "")
    )
    assert client.set("/a", bytes(11)) is Err.QUOTA_EXCEEDED
    assert isinstance(client.set("/a", bytes(10)), Stat)
    monkeypatch.setattr("zookeeper_bridge.machine.machine.SESSIONS", limit("x", 1, ""))
    assert [each.error for each in stage.ask(Open(9, 4000, b""))] == [Err.QUOTA_EXCEEDED]


# every node


def random_write(random: Random, clients: list[Client]) -> tuple[Client, Op, bytes]:
    client = random.choice(clients)
    path = "/" + "/".join(random.choice("abc") for _ in range(random.randrange(1, 4)))
    version = random.choice([-1, -1, 0, 1])
    choices: list[tuple[Op, tuple[Any, ...]]] = [
        (Op.CREATE, (path, random.choice([None, b"", b"x"]), OPEN_TO_ALL, random.randrange(5))),
        (Op.CREATE_2, (path, b"", OPEN_TO_ALL, random.randrange(4))),
        (Op.DELETE, (path, version)),
        (Op.SET_DATA, (path, random.randbytes(2), version)),
        (Op.CHECK, (path, version)),
    ]
    if random.random() < 0.2:
        return (
            client,
            Op.MULTI,
            jute.encode_multi(
                [(op, BODIES[op].encode(fields)) for op, fields in random.sample(choices, 3)]
            ),
        )
    op, fields = random.choice(choices)
    return client, op, BODIES[op].encode(fields)


@pytest.mark.parametrize("seed", range(10))
def test_every_node_replays_the_decided_changes(seed: int) -> None:
    """The same writes on a machine whose entries are committed late, and on one where each is
    committed at once: equal answers, equal trees.
    """
    random, stages = Random(seed), (Decisions(), Decisions())
    clients = [[Client(stage, connection=i) for i in range(3)] for stage in stages]
    for writer in (clients[0][0], clients[1][0]):
        for path in ("/a", "/b", "/b/c"):
            writer.create(f"/zookeeper/quota{path}")
        for path in ("/a", "/b/c"):
            writer.create(f"/zookeeper/quota{path}/zookeeper_limits", b"count=1,bytes=1")
            writer.create(f"/zookeeper/quota{path}/zookeeper_stats", b"count=0,bytes=0")
    for _ in range(300):
        stages[1].holding = random.random() < 0.8
        stages[1].copying = random.random() < 0.5
        client, op, body = random_write(random, clients[0])
        twin = clients[1][clients[0].index(client)]
        one, other = client.ask(op, body), twin.ask(op, body)
        assert one == other
        if op is Op.MULTI and not one.error:
            multi_results(one.body)
        if random.random() < 0.01:
            # a second time: it has expired
            assert client.ask(Op.CLOSE_SESSION, b"") == twin.ask(Op.CLOSE_SESSION, b"")
    stages[1].commit()

    snapshots = []
    for stage in stages:
        loaded = Tree()
        loaded.load(stage.image.extensions[PACKAGE].entries, stage.image.offset)
        assert parts(loaded) == parts(stage.tree)
        assert set(loaded.quotas.in_force()) == {"/a", "/b/c"}
        assert loaded.size_bytes == sum(
            node.size_bytes + len(path)
            for path, node in loaded.nodes.items()
            if path not in FROM_THE_BEGINNING
        )
        snapshots.append(parts(loaded))
    assert snapshots[0] == snapshots[1]


def parts(tree: Tree) -> dict[str, Any]:
    return {**vars(tree), "quotas": tree.quotas.in_force()}


def test_a_client_without_permission_does_not_learn_whether_a_znode_exists(client: Client) -> None:
    client.create("/p", acl=[Acl(1, "world", "anyone")])

    assert client.delete("/p/none") is Err.NO_AUTH


def test_a_multi_with_flags_that_are_none_can_not_be_read(client: Client) -> None:
    for flags, acl in ((7, OPEN_TO_ALL), (5, OPEN_TO_ALL), (0, None)):
        creates = [("/a", b"", OPEN_TO_ALL, 0), ("/b", b"", acl, flags)]
        body = jute.encode_multi([(Op.CREATE, BODIES[Op.CREATE].encode(each)) for each in creates])
        assert client.ask(Op.MULTI, body).error == Err.MARSHALLING


def test_a_container_in_a_multi_is_answered_as_one_and_is_one_whatever_its_flags_say(
    client: Client,
) -> None:
    (one,) = client.multi((Op.CREATE, ("/c", b"", OPEN_TO_ALL, 4)))
    client.ask(
        Op.CREATE_CONTAINER, BODIES[Op.CREATE_CONTAINER].encode(("/d-", b"", OPEN_TO_ALL, 3))
    )

    assert one[1][0] == "/c"
    assert [client.stage.tree.nodes[path].kind for path in ("/c", "/d-0000000001")] == [
        NodeKind.CONTAINER
    ] * 2
    assert client.stage.tree.nodes["/d-0000000001"].owner == 0


def test_a_sessions_identity_can_change_within_a_payload(client: Client) -> None:
    """Its connection is looked at once for many writes, and again after what may have changed
    it.
    """
    write = client.request(Op.CREATE, BODIES[Op.CREATE].encode(("/n", b"", OPEN_TO_ALL, 2)))
    close = client.request(Op.CLOSE_SESSION, b"")
    moved = Attach(2, 4000, client.session_id, client.opened.password)

    told = client.stage.ask(
        write,
        moved,
        write,
        write._replace(connection=2),
        close._replace(connection=2),
        write._replace(connection=2),
    )

    assert [each.error for each in told] == [
        Err.OK,
        Err.OK,
        Err.SESSION_MOVED,
        Err.OK,
        Err.OK,
        Err.SESSION_EXPIRED,
    ]


def test_decided_changes_count_the_same_room_as_applied_ones(client: Client) -> None:
    stage = client.stage
    client.create("/a", b"x")
    stage.holding = True
    client.set("/a", bytes(1000))
    client.set_acl("/a", [Acl(31, *digest_of(b"a:a"))])
    client.create("/a/b", b"y")
    decided = stage.machine._view().size_bytes
    before = stage.tree.size_bytes

    stage.commit()

    assert stage.tree.size_bytes == decided > before + 1000
