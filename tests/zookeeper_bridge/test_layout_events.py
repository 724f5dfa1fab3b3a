"""A cluster changed at random, through znodes and through Kafka: all nodes show the same, and
clients hear of all that changed and no more.
"""

import json
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from raftka.metadata.image import BROKER, TOPIC
from tests.kit.bridge_logins import SUPER
from tests.zookeeper_bridge.decisions import OPEN_TO_ALL
from tests.zookeeper_bridge.stage import BridgeStage, ZkClient
from zookeeper_bridge.protocol import jute
from zookeeper_bridge.protocol.errors import Err
from zookeeper_bridge.protocol.opcodes import Op
from zookeeper_bridge.tree.watches import EventType

TOPICS = ("a", "b", "c")
OFTEN = 40  # changes
Seen = dict[str, tuple[bytes | None, int]]


def shown(stage: BridgeStage, node_id: int) -> Seen:
    """All of Kafka's znodes, with data and version. What a node knows of the term apart, for it is
    no entry of the log.
    """
    layout = stage.bridge(node_id).layout
    found: Seen = {}
    pending = ["/brokers", "/config", "/admin", "/latest_producer_id_block", "/feature", "/cluster"]
    while pending:
        path = pending.pop()
        node = layout.node(path)
        assert node is not None, path
        data = (
            node.data
            if not path.endswith("/state")
            else json.dumps({**json.loads(node.data or b""), "controller_epoch": 0}).encode()
        )
        found[path] = data, node.version
        pending += [f"{path}/{name}" for name in layout.children(path)]
    return found


class Changes:
    def __init__(self, stage: BridgeStage, seed: int) -> None:
        self.stage = stage
        self.random = Random(seed)
        self.client = stage.client(1, timeout_ms=40_000)
        self.kinds: list[Callable[[str], None]] = [
            self._create,
            self._create,
            self._configure,
            self._configure,
            self._grow,
            self._move,
            self._delete,
        ]
        self.kinds += [
            self._kill_or_start,
            self._create_in_kafka,
            self._configure_in_kafka,
            self._delete_in_kafka,
            self._configure_all,
            self._seqid,
            self._hand_over,
        ]

    def one(self) -> None:
        self.random.choice(self.kinds)(self.random.choice(TOPICS))

    def _text(self, **fields: Any) -> bytes:
        return json.dumps({"version": 1, **fields}).encode()

    def _ask(self, opcode: Op, *fields: Any) -> None:
        """It may be refused, for it is there or is not, but for no other reason."""
        assert self.client.error(opcode, *fields) in (
            Err.OK,
            Err.NO_NODE,
            Err.NODE_EXISTS,
            Err.BAD_ARGUMENTS,
        )

    def _replicas(self) -> list[int]:
        return self.random.sample([1, 2, 3], self.random.randint(1, 3))

    def _create(self, topic: str) -> None:
        factor = self.random.randint(1, 3)
        partitions = {
            str(index): self.random.sample([1, 2, 3], factor)
            for index in range(self.random.randint(1, 3))
        }
        self._ask(
            Op.CREATE, f"/brokers/topics/{topic}", self._text(partitions=partitions), OPEN_TO_ALL, 0
        )

    def _configure(self, topic: str) -> None:
        configs = {
            name: str(self.random.randint(1, 9) * 1000)
            for name in self.random.sample(["retention.ms", "segment.ms", "flush.ms"], 2)
        }
        path = f"/config/topics/{topic}"
        self._ask(Op.CREATE, path, self._text(config=configs), OPEN_TO_ALL, 0)
        self._ask(Op.SET_DATA, path, self._text(config=configs), -1)

    def _grow(self, topic: str) -> None:
        path = f"/brokers/topics/{topic}"
        if self.client.exists(path):
            told = json.loads(self.client.get(path)[0] or b"")
            told["partitions"][str(len(told["partitions"]))] = self.random.sample(
                [1, 2, 3], len(told["partitions"]["0"])
            )
            self._ask(Op.SET_DATA, path, json.dumps(told).encode(), -1)

    def _move(self, topic: str) -> None:
        moves = self._text(
            partitions=[{"topic": topic, "partition": 0, "replicas": self._replicas()}]
        )
        path = "/admin/reassign_partitions"
        if self.random.random() < 0.2:
            self._ask(Op.DELETE, path, -1)
        else:
            self._ask(
                *self.random.choice(
                    ((Op.CREATE, path, moves, OPEN_TO_ALL, 0), (Op.SET_DATA, path, moves, -1))
                )
            )

    def _delete(self, topic: str) -> None:
        self._ask(Op.CREATE, f"/admin/delete_topics/{topic}", None, OPEN_TO_ALL, 0)

    def _seqid(self, topic: str) -> None:
        self._ask(Op.SET_DATA, "/brokers/seqid", None, -1)

    def _kill_or_start(self, topic: str) -> None:
        if 3 in self.stage.nodes:
            self.stage.kill(3)
        else:
            self.stage.start(3)

    def _hand_over(self, topic: str) -> None:
        """Nobody whose write was decided loses a connection by it."""
        self._ask(Op.DELETE, "/controller", -1)

    def _known(self, topic: str) -> bool:
        return self.stage.nodes[1].image.topic_named(topic) is not None

    def _create_in_kafka(self, topic: str) -> None:
        if not self._known(topic):
            self.stage.create(topic, partitions=2, replication_factor=2, opened=False)

    def _delete_in_kafka(self, topic: str) -> None:
        if self._known(topic):
            self.stage.delete(topic)

    def _configure_in_kafka(self, topic: str) -> None:
        if self._known(topic):
            self.stage.set(TOPIC, topic, retention_ms=self.random.choice(("5000", "6000", None)))

    def _configure_all(self, topic: str) -> None:
        self.stage.set(BROKER, "", log_cleaner_threads=self.random.choice(("2", "3", None)))


@pytest.mark.parametrize("seed", range(6))
def test_clients_get_events_of_all_changes_and_nodes_agree(seed: int) -> None:
    with BridgeStage(3, seed, zookeeper_bridge_super_digest=SUPER) as stage:
        changes = Changes(stage, seed)
        client = stage.client(2, timeout_ms=40_000)
        client.request(Op.AUTH, jute.AUTH.encode((0, "digest", b"super:secret")), xid=-4)
        client.must(Op.ADD_WATCH, "/", 1)
        for _ in range(OFTEN):
            settle(stage)
            client.log.clear()
            before = shown(stage, 2)
            changes.one()
            client.ping()
            changes.client.ping()
            settle(stage)
            compare(before, shown(stage, 2), client)
        assert shown(stage, 1) == shown(stage, 2)
        stage.restart(2)
        settle(stage)
        assert shown(stage, 1) == shown(stage, 2)
        assert not stage.world.failures


def settle(stage: BridgeStage) -> None:
    stage.pass_time(0.5)
    stage.wait(lambda: len({node.image.offset for node in stage.nodes.values()}) == 1)


def compare(before: Seen, after: Seen, client: ZkClient) -> None:
    heard: dict[str, list[EventType]] = {}
    for event in client.events:
        heard.setdefault(event.path, []).append(EventType(event.type))
    for path in before.keys() | after.keys() | heard.keys():
        was, now, told = before.get(path), after.get(path), heard.get(path, [])
        if path.startswith(("/controller", "/zookeeper")):
            continue
        there = was is not None
        for kind in told:  # each makes sense where the one before it has led to
            assert (kind is EventType.CREATED) != there, (path, told)
            there = kind is not EventType.DELETED
        assert there == (now is not None), (path, told)
        assert was == now or told, path
        assert was != now or not told or len(told) > 1, (path, told)


def test_garbage_is_refused_and_harms_nobody() -> None:
    random = Random(7)
    words: list[Any] = [
        None,
        True,
        0,
        -1,
        1,
        1e400,
        10**30,
        "",
        "0",
        "a",
        "\u0000",
        "x" * 300,
        [],
        {},
        [[1]],
        ["a"],
        {"0": [1]},
        {"config": {}},
    ]
    names = [
        "partitions",
        "config",
        "topic",
        "partition",
        "replicas",
        "block_start",
        "block_end",
        "version",
        "0",
        "1",
    ]

    def anything(depth: int = 0) -> Any:
        if depth > 3 or random.random() < 0.4:
            return random.choice(words)
        if random.random() < 0.4:
            return [anything(depth + 1) for _ in range(random.randint(0, 3))]
        return {random.choice(names): anything(depth + 1) for _ in range(random.randint(0, 4))}

    with BridgeStage() as stage:
        client = stage.client(timeout_ms=40_000)
        client.create("/brokers/topics/a", b'{"partitions": {"0": [1]}}')
        paths = [
            "/brokers/topics/a",
            "/brokers/topics/b",
            "/config/topics/a",
            "/config/topics/b",
            "/admin/reassign_partitions",
        ]
        paths += [
            "/admin/preferred_replica_election",
            "/latest_producer_id_block",
            "/admin/delete_topics/\u2603",
            "/config/topics/..\u2603",
        ]
        for _ in range(600):
            path, data = random.choice(paths), json.dumps(anything()).encode()
            error = client.error(
                *random.choice(
                    ((Op.CREATE, path, data, OPEN_TO_ALL, 0), (Op.SET_DATA, path, data, -1))
                )
            )
            assert error in (Err.OK, Err.BAD_ARGUMENTS, Err.NO_NODE, Err.NODE_EXISTS, Err.NO_AUTH)
        assert stage.counted("raftka_handler_errors_total") == 0
        assert set(stage.nodes[1].image.topic_ids) <= {"a", "b"}
        assert not stage.world.failures
