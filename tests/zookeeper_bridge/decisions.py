"""The bridge's machine on a stage: what is asked is decided, appended, and committed at once or
when the test says so. With a client.
"""

from collections import deque
from collections.abc import Sequence
from random import Random
from typing import Any

from raftka.metadata.controller.decision import Context, Outcome
from raftka.metadata.controller.draft import Draft
from raftka.metadata.controller.topic_names import TopicNames
from raftka.metadata.image import MetadataImage
from raftka.metadata.records import Record
from zookeeper_bridge.machine.machine import Machine
from zookeeper_bridge.machine.wire import (
    Attach,
    Batch,
    Open,
    Request,
    Result,
    Write,
    pack_batch,
    unpack_answer,
)
from zookeeper_bridge.protocol import jute
from zookeeper_bridge.protocol.errors import Err
from zookeeper_bridge.protocol.jute import Acl, Stat
from zookeeper_bridge.protocol.opcodes import BODIES, Op
from zookeeper_bridge.tree.acl import Identity
from zookeeper_bridge.tree.store import PACKAGE, stat_of
from zookeeper_bridge.tree.tree import Tree

OPEN_TO_ALL = [Acl(31, "world", "anyone")]
SECRET = b"s" * 32
HERE: tuple[Identity, ...] = (("ip", "127.0.0.1"),)


class Decisions:
    def __init__(self, tick_ms: int = 2000, look_s: float = 60.0) -> None:
        self.now = 0.0
        self.wall_ms = 1_000_000
        self.image = MetadataImage()
        self.tree = Tree()
        self.tick_ms, self.look_s = tick_ms, look_s
        self.uncommitted: deque[tuple[int, Sequence[Record]]] = deque()
        self.offset = 10
        # the machine sees records that are equal to what it has decided, and not the same
        self.copying = False
        self.holding = False  # entries are appended and not committed
        self.machine = Machine(self.tree, self.now, tick_ms, look_s)

    def lead_anew(self) -> None:
        """Another controller begins, on all that is committed; what is not is lost."""
        self.uncommitted.clear()
        self.offset = self.image.offset + 5
        self.machine = Machine(self.tree, self.now, self.tick_ms, self.look_s)

    def ask(
        self,
        *requests: Request,
        origin: bytes = b"node",
        identities: Sequence[Sequence[Identity]] = (HERE,),
    ) -> list[Result]:
        outcome = self.machine.decide(
            pack_batch(Batch(origin, identities, requests)), self._context(), self._draft()
        )
        self.append(outcome)
        self.zxid, results = unpack_answer(outcome.reply)
        assert self.zxid == self.offset
        return results

    def tick_until(self, now: float) -> None:
        """Time goes on, and the machine ticks whenever it wants to."""
        while self.machine.deadline() <= now:
            self.now = max(self.now, self.machine.deadline())
            self.append(self.machine.tick(self._context()))
        self.wall_ms += int((now - self.now) * 1000)
        self.now = now

    def append(self, outcome: Outcome) -> None:
        if outcome.records:
            self.offset += 1
            self.machine.replay(
                self.offset, list(outcome.records) if self.copying else outcome.records
            )
            self.uncommitted.append((self.offset, outcome.records))
        if not self.holding:
            self.commit()

    def commit(self) -> None:
        while self.uncommitted:
            self.image, delta = self.image.apply(*self.uncommitted.popleft())
            for key, value in delta.extensions_changed[PACKAGE]:
                self.tree.replay(key, value)
            self.tree.offset = self.image.offset

    def _draft(self) -> Draft:
        """Of a controller's own commands none is asked for here."""
        nothing: Any = None
        return Draft(self.image, TopicNames(self.image), self.offset + 1, nothing)

    def _context(self) -> Context:
        return Context(self.now, self.wall_ms, Random(1), self.offset + 1)


class Client:
    """A session, and its writes by their names. An error is returned as such."""

    def __init__(
        self,
        stage: Decisions,
        timeout_ms: int = 4000,
        connection: int = 1,
        identities: Sequence[Identity] = HERE,
    ) -> None:
        self.stage = stage
        self.connection = connection
        self.identities = identities
        (self.opened,) = stage.ask(Open(connection, timeout_ms, SECRET))
        self.session_id = self.opened.session_id

    def ask(self, opcode: Op, body: bytes) -> Result:
        (result,) = self.stage.ask(self.request(opcode, body), identities=(self.identities,))
        return result

    def request(self, opcode: Op, body: bytes) -> Write:
        return Write(self.session_id, self.connection, 0, opcode, body)

    def attach(self, connection: int, password: bytes | None = None) -> Result:
        (result,) = self.stage.ask(
            Attach(
                connection,
                4000,
                self.session_id,
                self.opened.password if password is None else password,
            )
        )
        self.connection = connection
        return result

    def create(
        self, path: str, data: bytes | None = b"", flags: int = 0, acl: Any = OPEN_TO_ALL
    ) -> str | Err:
        result = self.ask(Op.CREATE, jute.CREATE.encode((path, data, acl, flags)))
        return Err(result.error) if result.error else jute.STRING.decode(result.body)

    def delete(self, path: str, version: int = -1) -> Err:
        return Err(self.ask(Op.DELETE, jute.DELETE.encode((path, version))).error)

    def set(self, path: str, data: bytes | None, version: int = -1) -> Stat | Err:
        return self._stat(self.ask(Op.SET_DATA, jute.SET_DATA.encode((path, data, version))))

    def set_acl(self, path: str, acl: Any, version: int = -1) -> Stat | Err:
        return self._stat(self.ask(Op.SET_ACL, jute.SET_ACL.encode((path, acl, version))))

    def multi(self, *operations: tuple[Op, tuple[Any, ...]]) -> list[Any]:
        """(opcode, what its answer is) of each, or the error codes."""
        result = self.ask(
            Op.MULTI,
            jute.encode_multi([(op, BODIES[op].encode(fields)) for op, fields in operations]),
        )
        assert result.error == 0
        return multi_results(result.body)

    def close(self) -> None:
        assert self.ask(Op.CLOSE_SESSION, b"").error == 0

    @staticmethod
    def _stat(result: Result) -> Stat | Err:
        return Err(result.error) if result.error else Stat(*jute.STAT.decode(result.body))


ANSWERS = {Op.CREATE: jute.STRING, Op.CREATE_2: jute.PATH_STAT, Op.SET_DATA: jute.STAT}


def multi_results(body: bytes) -> list[Any]:
    found: list[Any] = []
    at = 0
    while True:
        kind, done, code = jute.MULTI_HEADER.unpack_from(body, at)
        at += jute.MULTI_HEADER.size
        if done:
            assert (kind, code, at) == (-1, -1, len(body))
            return found
        if kind == -1:
            told, at = jute.INT.read(body, at)
            assert told == code
            found.append(Err(code))
        else:
            answer, at = ANSWERS[Op(kind)].read(body, at) if kind in ANSWERS else (None, at)
            found.append((Op(kind), answer))


def stat(tree: Tree, path: str) -> Stat:
    node = tree.node(path)
    assert node is not None
    return stat_of(node, tree.family(path), tree.child_count(path))
