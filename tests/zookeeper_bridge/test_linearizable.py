"""Registers in znodes under crashes and cuts: writes, compare-and-sets by version, and reads behind
a sync, judged by the linearizability checker.
"""

from random import Random

import pytest

from raftka.chaos.history import COMPARE_AND_SET, FAIL, INFO, OK, READ, WRITE, History
from raftka.chaos.linearizable import Linearizable, judge
from tests.zookeeper_bridge.stage import BridgeStage, Reply, ZkClient
from zookeeper_bridge.protocol import jute
from zookeeper_bridge.protocol.errors import Err
from zookeeper_bridge.protocol.opcodes import Op

PATH = "/register"
ACTORS, RUN_S, STEPS = 4, 10.0, 2_000_000


class Actor:
    """One operation after the other, over whichever node takes it; a connection that is lost makes
    an operation's end unknown.
    """

    def __init__(self, scene: "Scene", number: int) -> None:
        self.scene = scene
        self.number = number
        self.known: tuple[int, int] | None = None  # value and version, as last read
        self.process = -1  # of the operation under way
        self.wire: Wire | None = None
        self.connect()

    def connect(self) -> None:
        scene = self.scene
        if not scene.over:
            self.wire = Wire(scene.stage, self, scene.random.choice([1, 2, 3]))
            self.wire.send_connect()

    def next(self) -> None:
        if self.scene.over or self.wire is None:
            return
        random = self.scene.random
        verb = random.choice([READ, READ, WRITE, COMPARE_AND_SET] if self.known else [READ, WRITE])
        self.process = self.scene.next_process()
        value = self.process  # unique
        if verb == READ:
            self._invoke(verb)
            self.wire.request(Op.SYNC, jute.PATH.encode((PATH,)))
            self.wire.request(Op.GET_DATA, jute.PATH_WATCH.encode((PATH, False)))
            return
        version = -1
        if verb == COMPARE_AND_SET and self.known is not None:
            expected, version = self.known
            self._invoke(verb, value=value, expected=expected)
        else:
            self._invoke(verb, value=value)
        self.wire.request(Op.SET_DATA, jute.SET_DATA.encode((PATH, b"%d" % value, version)))

    def _invoke(self, verb: str, **body: int) -> None:
        self.verb = verb
        self.scene.history.invoke(self.process, verb, self.scene.now, key="r", **body)

    def replied(self, reply: Reply, op: Op) -> None:
        if op is Op.SYNC:
            return
        if op is Op.GET_DATA:
            data, stat = jute.DATA_STAT.decode(reply.body)
            self.known = int(data), stat.version
            self._end(OK, value=int(data))
        elif reply.error == Err.BAD_VERSION:
            self._end(OK, matched=False)
        else:
            assert reply.error == 0, Err(reply.error)
            self._end(OK)
        pause = self.scene.random.random() * 0.01
        self.scene.after(pause, self.next)

    def lost(self) -> None:
        self.wire = None
        if self.process in self.scene.history.under_way:
            self._end(FAIL if self.verb == READ else INFO)
        self.scene.after(0.05 + self.scene.random.random() * 0.3, self.connect)

    def _end(self, outcome: str, **body: int) -> None:
        self.scene.history.end(self.process, outcome, self.scene.now, **body)


class Wire(ZkClient):
    def __init__(self, stage: BridgeStage, actor: Actor, node_id: int) -> None:
        self.actor = actor
        self.asked: dict[int, Op] = {}
        super().__init__(stage, node_id)
        actor.scene.after(5.0, self._give_up)

    def send_connect(self) -> None:
        # the protocol's version, then what a new session says
        body = jute.record(tuple, jute.INT).encode((0,))
        body += (
            jute.LONG.encode(0)
            + jute.INT.encode(10_000)
            + jute.LONG.encode(0)
            + jute.BUFFER.encode(bytes(16))
            + b"\0"
        )
        self.send(jute.INT.encode(len(body)) + body)

    def request(self, opcode: int, body: bytes = b"", xid: int | None = None) -> int:
        xid = super().request(opcode, body, xid)
        self.asked[xid] = Op(opcode)
        return xid

    def _packet(self, packet: bytes) -> None:
        begins, count = self.session is None, len(self.log)
        super()._packet(packet)
        if begins:
            self.actor.next()
        for each in self.log[count:]:
            assert isinstance(each, Reply)
            self.actor.replied(each, self.asked.pop(each.xid))

    def _give_up(self) -> None:
        """As a client does that hears nothing; sometimes it only wants to be elsewhere."""
        if self.closed_because is None:
            self.drop()

    def closed(self, reason: str) -> None:
        super().closed(reason)
        self.actor.lost()


class Scene:
    def __init__(self, stage: BridgeStage, seed: int) -> None:
        self.stage = stage
        self.random = Random(seed)
        self.history = History()
        self.over = False
        self._processes = 0

    @property
    def now(self) -> float:
        return self.stage.world.now

    def next_process(self) -> int:
        self._processes += 1
        return self._processes

    def after(self, seconds: float, action: object) -> None:
        clock = self.stage.runtime.clock
        clock.call_at(clock.now() + seconds, action)  # type: ignore[arg-type]

    def trouble(self) -> None:
        """One thing goes wrong, for a while."""
        stage = self.stage
        leaders = [node.node_id for node in stage.nodes.values() if stage._leads(node)]
        victim = self.random.choice([1, 2, 3, *leaders * 4])
        match self.random.randrange(2):
            case 0 if len(stage.nodes) == 3:
                stage.kill(victim, power_loss=self.random.random() < 0.5)
                stage.pass_time(self.random.random())
                stage.start(victim)
            case 1:
                other = self.random.choice([each for each in (1, 2, 3) if each != victim])
                stage.world.network.cut(
                    f"n{victim}", f"n{other}", one_way=self.random.random() < 0.5
                )
            case 2:
                for other in (1, 2, 3):
                    if other != victim:
                        stage.world.network.cut(f"n{victim}", f"n{other}")
            case _:
                stage.world.network.delay(
                    f"n{victim}", f"n{1 + victim % 3}", self.random.random() / 5
                )
        stage.pass_time(self.random.random() * 2)
        stage.world.network.heal()


@pytest.mark.parametrize("seed", range(2))
def test_registers_are_linearizable(seed: int) -> None:
    with BridgeStage(3, seed) as stage:
        stage.client(1).create(PATH, b"0")
        scene = Scene(stage, seed)
        actors = [Actor(scene, number) for number in range(ACTORS)]
        while stage.world.now < RUN_S:
            stage.pass_time(scene.random.random())
            scene.trouble()
        stage.pass_time(3.0)
        scene.over = True
        stage.pass_time(6.0)

        done = [each for each in scene.history.operations if each.outcome == OK]
        assert len(actors) == ACTORS
        assert len(done) > 100, f"{len(done)} of {len(scene.history.operations)}"
        assert {each.verb for each in done} == {READ, WRITE, COMPARE_AND_SET}
        assert any(each.verb == COMPARE_AND_SET and each.matched for each in done)
        assert judge(scene.history.operations, STEPS, 0).linearizable is Linearizable.YES
        assert not stage.world.failures
        assert not any(stage.events("bridge_failed", node_id) for node_id in stage.nodes)
