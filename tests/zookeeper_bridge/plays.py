"""Plays: what ZooKeeper clients might do, by a seed. A few clients, few paths, every operation; a
step names no number that only a server knows.

Knows no server and no answer; what a client has seen is named by a symbol (SEEN), and becomes a
number on the stage.
"""

from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

from zookeeper_bridge.protocol.jute import Acl
from zookeeper_bridge.protocol.opcodes import BODIES, Op
from zookeeper_bridge.tree import acl

CLIENTS = 3
SEEN = "the last zxid that this client has seen"
HOUR_MS = 3_600_000
ALICE, BOB, SUPER = b"alice:pw", b"bob:pw", b"super:secret"
BEYOND = 1 << 60  # a zxid of no server
NAMES = ("a", "b", "c")
ODD_NAMES = ("é", "😀", "-", "x y", ".", "..", "a" * 200)
BAD_ENDS = ("/", "//a", "/\0", "/\x01", "/\x7f", "/\x9f", "/\ue000", "/\uf8ff", "/\ufff0", "/a/")
SUFFIXES = ("0000000000", "0000000001", "0000000003")


class Step(NamedTuple):
    client: int
    verb: str  # of players.py
    given: tuple[Any, ...] = ()


Request = tuple[Op, tuple[Any, ...]]


class Play:
    """`folder`: all of it happens below."""

    def __init__(self, seed: int, folder: str) -> None:
        self._random = Random(f"play {seed}")
        self._folder = folder
        self._verbs: list[tuple[float, Callable[[], tuple[str, tuple[Any, ...]]]]] = [
            (60, lambda: ("ask", self._write())),
            (36, lambda: ("ask", self._read())),
            (12, lambda: ("ask", self._watch())),
            (
                8,
                lambda: (
                    "multi",
                    (tuple(self._in_multi() for _ in range(self._random.randint(0, 5))),),
                ),
            ),
            (
                3,
                lambda: (
                    "multi_read",
                    (tuple(self._in_multi_read() for _ in range(self._random.randint(0, 4))),),
                ),
            ),
            (3, lambda: ("burst", (self._burst(),))),
            (
                3,
                lambda: (
                    "authenticate",
                    self._random.choice(
                        [("digest", ALICE), ("digest", BOB), ("digest", ALICE), ("digest", SUPER)]
                    ),
                ),
            ),
            (3, lambda: ("again", (self._random.random() < 0.3,))),
            (2, lambda: ("drop", ())),
            (1, lambda: ("close", ())),
            (
                1,
                lambda: (
                    "connect",
                    (self._random.choice([20_000, 40_000, 1_000_000]), self._random.random() < 0.3),
                ),
            ),
            (0.7, lambda: ("strange", (self._random.randrange(6),))),
            (0.5, lambda: ("broken", self._broken())),
            (
                0.5,
                lambda: ("hijack", (self._random.choice([b"x" * 16, bytes(16), b"", b"short"]),)),
            ),
            (0.3, lambda: ("from_the_future", (BEYOND,))),
            (
                0.3,
                lambda: (
                    "authenticate",
                    self._random.choice(
                        [("world", b"anyone"), ("nobody", b"x"), ("ip", b"1.2.3.4")]
                    ),
                ),
            ),
            (0.25, lambda: ("expire", (f"{folder}/mark",))),
        ]

    def steps(self, count: int) -> list[Step]:
        first = [Step(client, "connect", (20_000, client == 1)) for client in range(CLIENTS)]
        first.append(Step(0, "ask", (Op.CREATE, (self._folder, None, [acl.ANYONE], 0))))
        weights, verbs = zip(*self._verbs, strict=True)
        for _ in range(count):
            (make,) = self._random.choices(verbs, weights)
            first.append(Step(self._random.randrange(CLIENTS), *make()))
        return first

    # requests

    def _burst(self) -> tuple[Request, ...]:
        """One write; two could share an entry, and sync and sasl have an order of their own."""
        reads = [
            (self._random.choice([Op.GET_DATA, Op.EXISTS, Op.GET_CHILDREN]), (self._path(), False))
            for _ in range(3)
        ]
        return (reads[0], self._write(), reads[1], (Op.PING, ()), reads[2])

    def _write(self) -> Request:
        random = self._random
        kind = random.choices(
            [
                Op.CREATE,
                Op.CREATE_2,
                Op.CREATE_CONTAINER,
                Op.CREATE_TTL,
                Op.DELETE,
                Op.SET_DATA,
                Op.SET_ACL,
                Op.RECONFIG,
            ],
            [22, 8, 3, 4, 14, 14, 5, 0.5],
        )[0]
        match kind:
            case Op.DELETE:
                return kind, (self._path(), self._version())
            case Op.SET_DATA:
                return kind, (self._path(), self._data(), self._version())
            case Op.SET_ACL:
                return kind, (self._path(), self._acl(), self._version())
            case Op.RECONFIG:
                return kind, (None, None, "server.1=localhost:1:2", -1)
        return self._create(kind)

    def _create(self, kind: Op) -> Request:
        random = self._random
        flags = random.choices([0, 1, 2, 3, 4, 5, 6, 7, -1], [40, 14, 10, 8, 3, 1, 1, 0.5, 0.5])[0]
        if kind is Op.CREATE_CONTAINER and random.random() < 0.9:
            flags = 4
        if kind is Op.CREATE_TTL:
            flags = random.choice([5, 6])  # with others a real ZooKeeper stops serving
        path = self._path()
        if flags in (2, 3, 6) and random.random() < 0.3:
            path += "/"
        given = (path, self._data(), self._acl(), flags)
        return kind, (
            *given,
            random.choice([HOUR_MS] * 8 + [0, -1, 1 << 40]),
        ) if kind is Op.CREATE_TTL else given

    def _read(self) -> Request:
        random = self._random
        kinds = [Op.GET_DATA, Op.EXISTS, Op.GET_CHILDREN, Op.GET_CHILDREN_2, Op.GET_ACL, Op.SYNC]
        kinds += [Op.GET_EPHEMERALS, Op.GET_ALL_CHILDREN_NUMBER, Op.WHO_AM_I, Op.PING, Op.SASL]
        kind = random.choices(kinds, [9, 8, 5, 5, 4, 2, 2, 2, 1, 1, 0.3])[0]
        match kind:
            case Op.WHO_AM_I | Op.PING:
                return kind, ()
            case Op.SASL:
                return kind, (random.choice([b"", b"token"]),)
            case Op.SYNC:
                # Java's echo of what needs two units of UTF-16 is not UTF-8
                return kind, (self._path(plain=True),)
            case Op.GET_DATA | Op.EXISTS | Op.GET_CHILDREN | Op.GET_CHILDREN_2:
                return kind, (self._path(), random.random() < 0.45)
        return kind, (self._path(),)

    def _watch(self) -> Request:
        random = self._random
        kind = random.choices(
            [Op.ADD_WATCH, Op.CHECK_WATCHES, Op.REMOVE_WATCHES, Op.SET_WATCHES, Op.SET_WATCHES_2],
            [6, 3, 3, 2, 3],
        )[0]
        match kind:
            case Op.ADD_WATCH:
                return kind, (self._path(), random.choices([0, 1, 2, -1], [5, 5, 0.3, 0.3])[0])
            case Op.CHECK_WATCHES | Op.REMOVE_WATCHES:
                return kind, (
                    self._path(),
                    random.choices([1, 2, 3, 4, 5, 0, 9], [3, 3, 5, 3, 3, 0.2, 0.2])[0],
                )
        lists = 3 if kind is Op.SET_WATCHES else 5
        return kind, (
            random.choice([SEEN, SEEN, 0]),
            *([self._path(plain=True) for _ in range(random.randrange(3))] for _ in range(lists)),
        )

    def _in_multi(self) -> Request:
        random = self._random
        kind = random.choices(
            [
                Op.CREATE,
                Op.CREATE_2,
                Op.DELETE,
                Op.SET_DATA,
                Op.CHECK,
                Op.CREATE_CONTAINER,
                Op.GET_DATA,
            ],
            [8, 3, 4, 6, 3, 1, 0.1],
        )[0]
        match kind:
            case Op.CHECK | Op.DELETE:
                return kind, (self._path(), self._version())
            case Op.SET_DATA:
                return kind, (self._path(), self._data(), self._version())
            case Op.GET_DATA:
                return kind, (self._path(), False)
        return self._create(kind)

    def _in_multi_read(self) -> Request:
        return self._random.choice([Op.GET_DATA, Op.GET_CHILDREN]), (self._path(), False)

    def _broken(self) -> tuple[Op, bytes]:
        """A body that ends too early, or says that there is more than there is."""
        random = self._random
        kind = random.choice([op for op in BODIES if op not in (Op.AUTH, Op.CHECK, Op.SASL)])
        return kind, random.choice([b"", b"\0\0\0", b"\x7f\xff\xff\xff", b"\0\0\0\x09/d"])

    # what is in them

    def _path(self, *, plain: bool = False) -> str:
        random, folder = self._random, self._folder
        if not plain and random.random() < 0.03:
            return random.choice(
                [
                    folder + random.choice(BAD_ENDS),
                    "a",
                    "relative/path",
                    "//",
                    "/zookeeper",
                    "/zookeeper/quota",
                    "/",
                ]
            )
        depth = random.choices([0, 1, 2, 3], [2, 10, 8, 3])[0]
        names = [
            random.choice(ODD_NAMES if not plain and random.random() < 0.02 else NAMES)
            for _ in range(depth)
        ]
        path = "/".join([folder, *names])
        return path + random.choice(SUFFIXES) if random.random() < 0.1 else path

    def _data(self) -> bytes | None:
        return self._random.choice(
            [
                b"",
                None,
                b"x",
                b"%d" % self._random.randrange(100),
                self._random.randbytes(self._random.randrange(200)),
            ]
        )

    def _version(self) -> int:
        return self._random.choices([-1, 0, 1, 2, 7, -2], [10, 4, 2, 1, 0.5, 0.3])[0]

    def _acl(self) -> list[Acl] | None:
        random = self._random
        some = random.randrange(32)
        return random.choices(
            [
                [acl.ANYONE],
                [Acl(31, "auth", "")],
                [Acl(some, "world", "anyone")],
                [Acl(31, *acl.digest_of(ALICE)), Acl(acl.READ, "world", "anyone")],
                [Acl(31, *acl.digest_of(BOB))],
                [Acl(31, "ip", random.choice(["127.0.0.0/8", "127.0.0.1", "10.0.0.0/8"]))],
                [Acl(31, "auth", ""), Acl(some, "world", "anyone"), Acl(some, "world", "anyone")],
                [],
                None,
                [Acl(31, "world", "somebody")],
                [Acl(31, "strange", "id")],
                [Acl(31, "digest", "no colon")],
                [Acl(31, "ip", "300.1.1.1")],
            ],
            [50, 2, 3, 2, 1, 1.5, 1, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3],
        )[0]
