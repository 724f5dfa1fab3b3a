"""Voters, the controllers' listener and its answers as Apache Kafka 4.4.0 recorded them
(tests/broker/golden_quorum.jsonl): the same steps with the same answers, with this cluster's
addresses, directories and epochs in the place of those.
"""

import json
import re
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import pytest

from raftka.broker.network.dispatch import CONTROLLER_HANDLERS, HANDLERS
from raftka.chaos.simulated.cluster import CLIENT_PORT, CONTROLLER_PORT
from raftka.chaos.simulated.scene import Scene
from raftka.runtime.simulated.world import World
from raftka.versions import RAFTKA_VERSION
from raftka.wire.frame import decode_request_header
from raftka.wire.messages.api_versions import API_VERSIONS
from raftka.wire.messages.quorum import UPDATE_FEATURES
from raftka.wire.rows import Row
from raftka.wire.schema import AnyApi
from tests.broker.golden import Differences, not_meant, numbers_of
from tests.broker.stage import Wire, decoded
from tests.kit.broker.kafka_differences import VOTERS
from tests.simulation.voters import add, directory_of, quorum, raise_level

GOLDEN = Path(__file__).parents[1] / "broker" / "golden_quorum.jsonl"
APIS: dict[int, AnyApi] = {key: each.api for key, each in (HANDLERS | CONTROLLER_HANDLERS).items()}
# of the nodes of the two clusters
DIRECTORIES = {
    1: "c36a1c89-e0da-4411-9504-f2b0a9f3892d",
    2: "2c69a4a5-0f55-04f2-beba-e878bdbc5d37",
    3: "fcc1b3ec-706f-5e5d-42a0-544a86382883",
}
OF_SECOND = {
    1: "da67e5ae-86d7-4c17-a136-2e3d64244166",
    2: "b1b72a48-a2cc-64ea-f18a-ed5a2fbd4177",
}
ANOTHER_LEADS = 73  # the recorded second epoch
SECOND = 85  # the first exchange of the second cluster
KAFKAS_CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"
BROKERS_AT, CONTROLLERS_AT = 26200, 26300  # ports of node 1; those of the others follow
CONNECTIONS = {
    "main": (1, CLIENT_PORT),
    "broker2": (2, CLIENT_PORT),
    "ctrl1": (1, CONTROLLER_PORT),
    "ctrl2": (2, CONTROLLER_PORT),
    "kc": (3, CONTROLLER_PORT),
    "k": (3, CLIENT_PORT),
    "p1": (1, CLIENT_PORT),
    "p2": (1, CLIENT_PORT),
    "raw": (1, CLIENT_PORT),
}
OF_RUN = (  # lengths of logs, times
    "log_end_offset",
    "high_watermark",
    "finalized_features_epoch",
    "last_fetch_timestamp",
    "last_caught_up_timestamp",
)
UNRESOLVED = re.compile(r"([\d.]+)/<unresolved>:(\d+)")
KEY = re.compile(r"ReplicaKey\([^)]*\)")


class Exchange(NamedTuple):
    n: int
    conn: str
    comment: str
    key: int
    version: int
    request: str
    outcome: str
    response: str | None


EXCHANGES = [Exchange(**json.loads(line)) for line in GOLDEN.read_text().splitlines()]


class Replay:
    """Exchanges with one cluster, in order; `before` has what was done before some of them."""

    def __init__(
        self,
        scene: Scene,
        directories: Mapping[int, str],
        before: Mapping[int, Callable[[Scene], object]],
    ) -> None:
        self.scene, self.before = scene, before
        self.cluster_id = str(scene.cluster.newest.image.cluster_id)
        self.ours = {
            UUID(theirs).bytes: directory_of(scene.cluster, node)
            for node, theirs in directories.items()
        }
        # to be added to a recorded epoch
        self.since = scene.cluster.newest.quorum.term - 1

    def run(self, exchanges: list[Exchange]) -> dict[int, Differences]:
        found: dict[int, Differences] = {}
        waiting: list[tuple[Exchange, Wire]] = []
        for exchange in exchanges:
            if exchange.n in self.before:
                self.before[exchange.n](self.scene)
            if exchange.n == ANOTHER_LEADS:
                self.since = self.scene.cluster.newest.quorum.term - 2
            node, port = CONNECTIONS[exchange.conn]
            wire = Wire(self.scene.world, self.scene.client.runtime, f"n{node}", port)
            wire.send_frame(self.request(exchange))
            waiting.append((exchange, wire))
            if exchange.conn == "p1":  # the next one is sent at the same time
                continue
            for each, asked in waiting:
                found[each.n] = self.compare(each, asked.frame())
            waiting.clear()
        return found

    def request(self, exchange: Exchange) -> bytes:
        frame, api = memoryview(bytes.fromhex(exchange.request)), APIS[exchange.key]
        if exchange.conn == "raw":
            return bytes(frame)
        _, position = decode_request_header(frame, flexible=True)
        row, _ = api.decode_request(exchange.version, frame, position)
        self.to_ours(row)
        return bytes(frame[:position]) + api.encode_request(exchange.version, row)

    def compare(self, exchange: Exchange, data: bytes | None) -> Differences:
        outcome = "closed" if data is None else "answer"
        if data is None or exchange.response is None:
            return {} if outcome == exchange.outcome else {"outcome": (exchange.outcome, outcome)}
        api = APIS[exchange.key]
        theirs = decoded(api, exchange.version, bytes.fromhex(exchange.response))
        mine = decoded(api, exchange.version, data)
        self.to_ours(theirs)
        if api is API_VERSIONS:
            _leave_out_of_run(theirs)
            _leave_out_of_run(mine)
        return dict(differences("", plain(theirs), plain(mine)))

    def to_ours(self, row: Row) -> None:
        """Put this cluster's ids, addresses and epochs in the place of those recorded."""
        for name in row.__slots__:
            value = getattr(row, name)
            if isinstance(value, Row):
                self.to_ours(value)
            elif isinstance(value, list):
                for each in value:
                    if isinstance(each, Row):
                        self.to_ours(each)
            elif isinstance(value, bytes):
                setattr(row, name, self.ours.get(value, value))
            elif name == "cluster_id" and value == KAFKAS_CLUSTER:
                row.cluster_id = self.cluster_id  # type: ignore[attr-defined]
            elif name == "error_message" and value is not None:
                row.error_message = self.text(value)  # type: ignore[attr-defined]
            elif name in ("leader_epoch", "current_leader_epoch") and self.has_epoch(row):
                setattr(row, name, value + self.since)
        if "port" in row.__slots__:
            row.host, row.port = address(row.host, row.port)  # type: ignore[attr-defined]

    @staticmethod
    def has_epoch(row: Row) -> bool:
        return getattr(row, "leader_id", 1) > 0

    def text(self, message: str) -> str:
        message = message.replace(KAFKAS_CLUSTER, self.cluster_id)
        message = UNRESOLVED.sub(
            lambda found: "{}/<unresolved>:{}".format(*address(found[1], int(found[2]))), message
        )
        for theirs, ours in self.ours.items():
            message = message.replace(base64(theirs), base64(ours))
        return message


def address(host: str, port: int) -> tuple[str, int]:
    for first, ours in ((BROKERS_AT, CLIENT_PORT), (CONTROLLERS_AT, CONTROLLER_PORT)):
        if first <= port < first + 3:
            return f"n{port - first + 1}", ours
    return ("n1" if host == "127.0.0.1" else host), port


def base64(directory: bytes) -> str:
    return urlsafe_b64encode(directory).decode().rstrip("=")


def in_order(message: str) -> str:
    """Kafka prints a set in no order."""
    if "[" not in message:
        return message
    head, _, rest = message.partition("[")
    keys, _, tail = rest.rpartition("]")
    return f"{head}[{', '.join(sorted(KEY.findall(keys)))}]{tail}"


def _leave_out_of_run(row: Any) -> None:
    """Features of our own, and those that each cluster has finalised."""
    row.supported_features = [
        each for each in row.supported_features if each.name != RAFTKA_VERSION
    ]
    row.finalized_features = [
        each for each in row.finalized_features if each.name == "kraft.version"
    ]


def plain(value: Any) -> Any:
    """Return rows as dictionaries, arrays of rows by what tells them apart."""
    if isinstance(value, Row):
        return {
            name: (type(found) if name in OF_RUN else plain(found))
            for name in value.__slots__
            for found in [getattr(value, name)]
        }
    if isinstance(value, list):
        names = ("replica_id", "node_id", "broker_id", "api_key", "name")
        return {
            next((getattr(each, name) for name in names if hasattr(each, name)), place): plain(each)
            for place, each in enumerate(value)
        }
    return in_order(value) if isinstance(value, str) else value


def differences(path: str, theirs: Any, mine: Any) -> Any:
    if isinstance(theirs, dict) and isinstance(mine, dict):
        for key in sorted(theirs.keys() | mine.keys(), key=str):
            yield from differences(f"{path}.{key}", theirs.get(key), mine.get(key))
    elif theirs != mine:
        yield path, (theirs, mine)


def voters_and_observers(scene: Scene, voters: int, observers: int) -> None:
    def are_so() -> bool:
        found = quorum(scene)
        return (len(found.current_voters), len(found.observers)) == (voters, observers)

    assert scene.cluster.settled(are_so, 30.0)


def third_leads(scene: Scene) -> None:
    """Node 1 has handed over to node 2."""
    cluster = scene.cluster
    assert cluster.settled(lambda: cluster.controller == 2, 10.0)
    cluster.nodes[2].quorum.core.transfer(3)  # type: ignore[union-attr]
    cluster.nodes[2].quorum.poke()
    assert cluster.settled(lambda: cluster.controller == 3, 10.0)
    voters_and_observers(scene, 2, 1)


def one_is_left(scene: Scene) -> None:
    assert scene.cluster.controller == 3
    for node_id in (1, 2):
        scene.cluster.kill(node_id, power_loss=False)


def leader_has_resigned(scene: Scene) -> None:
    assert scene.cluster.settled(lambda: scene.cluster.nodes[3].quorum.leader is None, 10.0)


FIRST_STEPS: dict[int, Callable[[Scene], object]] = {
    # the tool has added it
    71: partial(add, node_id=3),
    ANOTHER_LEADS: third_leads,
    80: one_is_left,
    81: leader_has_resigned,
}
SECOND_STEPS: dict[int, Callable[[Scene], object]] = {
    88: lambda scene: scene.cluster.start(2),
    90: partial(voters_and_observers, voters=2, observers=0),
    94: partial(voters_and_observers, voters=2, observers=0),
}


def enable_eligible_leaders(scene: Scene) -> None:
    request = UPDATE_FEATURES.request
    update = request.feature_updates(
        feature="eligible.leader.replicas.version", max_version_level=1
    )
    row = request(feature_updates=[update])
    client = scene.client
    assert not scene.cluster.do(client, lambda: client.anybody(UPDATE_FEATURES, row)).error_code


@cache
def replayed() -> dict[int, Differences]:
    with World(7) as world:
        scene = Scene(world, nodes=3, voters=1, later_voters=(2, 3))
        raise_level(scene)
        first = [each for each in EXCHANGES if each.n < SECOND]
        found = Replay(scene, DIRECTORIES, FIRST_STEPS).run(first)
    with World(8) as world:
        scene = Scene(
            world,
            nodes=2,
            voters=1,
            later_voters=(2,),
            settings={"controller.quorum.auto.join.enable": "true"},
            replication_factor=1,
        )
        replay = Replay(scene, OF_SECOND, SECOND_STEPS)
        scene.cluster.kill(2, power_loss=False)
        enable_eligible_leaders(scene)
        raise_level(scene)
        voters_and_observers(scene, 1, 0)
        return found | replay.run([each for each in EXCHANGES if each.n >= SECOND])


@pytest.mark.parametrize("exchange", EXCHANGES, ids=lambda each: str(each.n))
def test_the_answer_is_kafkas(exchange: Exchange) -> None:
    assert not_meant(VOTERS, exchange.n, replayed()[exchange.n]) == {}, exchange.comment


def test_every_difference_that_is_said_is_there() -> None:
    assert [n for n in numbers_of(VOTERS) if not replayed()[n]] == []
