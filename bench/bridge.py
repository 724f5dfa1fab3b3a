"""Rows about the ZooKeeper bridge: three raftka nodes beside an ensemble of three real ZooKeepers,
in turns.
"""

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Protocol

from bench.zookeeper_client import (
    EPHEMERAL,
    EXISTS,
    GET_CHILDREN,
    GET_DATA,
    PATIENCE_SECONDS,
    SET_DATA,
    Client,
    Closed,
    Session,
    last_told,
    on_path,
    to_set,
)
from bench.zookeepers import VERSION, ZooKeepers, word
from raftka.cluster.ask import ask_any, call
from raftka.cluster.processes import Processes, running
from raftka.wire.messages.topics import CREATE_TOPICS

VALUE = bytes(100)
SESSIONS, CHILDREN, IN_FLIGHT = 200, 10_000, 64
FAILOVERS = 5
Figure = Callable[["Ensemble"], float]


class Ensemble(Protocol):
    """Three servers that speak ZooKeeper's protocol; ids count from 1."""

    ports: list[int]

    def kill(self, node_id: int) -> None: ...

    def restart(self, node_id: int) -> None:
        """Returns when it serves."""


class Real:
    def __init__(self, zookeepers: ZooKeepers) -> None:
        self.ports = zookeepers.ports
        self._zookeepers = zookeepers

    def kill(self, node_id: int) -> None:
        self._zookeepers.kill(node_id)

    def restart(self, node_id: int) -> None:
        self._zookeepers.restart(node_id)
        self._zookeepers.wait_ready()


class Bridges:
    def __init__(self, processes: Processes) -> None:
        self.ports = [node.plan.bridge_port or 0 for node in processes.nodes.values()]
        self.processes = processes

    def kill(self, node_id: int) -> None:
        self.processes.kill(node_id)

    def restart(self, node_id: int) -> None:
        self.processes.start(node_id)
        self.processes.wait_ready()


def rows(runs: int, seconds: float) -> Iterator[str]:
    yield (
        f"| three nodes, flushed | ZooKeeper {VERSION} | raftka's bridge | ratio, the better "
        "the higher | goal of the bridge |"
    )
    yield "|---|---|---|---|---|"
    with ExitStack() as stack:
        zookeepers = stack.enter_context(ZooKeepers(3))
        zookeepers.start()
        processes = stack.enter_context(running(nodes=3, bridge=True))
        bridges = Bridges(processes)
        both: list[Ensemble] = [Real(zookeepers), bridges]
        for ensemble in both:
            _fill(ensemble)
        for title, figure, unit, goal, rounds in _figures(seconds):
            yield _row(
                title, _in_turns(figure, both, runs if rounds is None else rounds), unit, goal
            )
        for title, taken in (
            ("a topic made by creating a znode: Kafka's clients see it", _seen_by_kafka),
            ("by Kafka's clients: watchers of", _seen),
        ):
            ms = statistics.median(taken(bridges, turn) for turn in range(4 * runs))
            yield (
                f"| {title}{' /brokers/topics hear of it' if taken is _seen else ''}, ms |  | "
                f"{ms:.1f} |  | 50 |"
            )


def _figures(seconds: float) -> Iterator[tuple[str, Figure, str, str, int | None]]:
    for where, of_leader in (("at the leader", True), ("at a follower", False)):
        yield (
            f"gets a second, {IN_FLIGHT} in flight, {where}",
            _rate(GET_DATA, of_leader, seconds),
            "per_s",
            "17,000",
            None,
        )
        yield (
            f"sets a second, {IN_FLIGHT} in flight, {where}",
            _rate(SET_DATA, of_leader, seconds),
            "per_s",
            "10,000",
            None,
        )
        yield (
            f"set, one in flight, {where}: p50, ms",
            _latency(SET_DATA, of_leader, seconds),
            "ms",
            "as ZooKeeper",
            None,
        )
    yield (
        f"a set that {SESSIONS} sessions watch, till the last hears of it, ms",
        _fan_out,
        "ms",
        "15",
        None,
    )
    yield f"getChildren of {CHILDREN:,} znodes, ms", _many_children, "ms", "3", None
    yield (
        "the leader is killed: till a write on another node in the same session, its ephemeral "
        "there, s",
        _failover,
        "s",
        "1",
        FAILOVERS,
    )


def _in_turns(figure: Figure, both: Sequence[Ensemble], rounds: int) -> list[float]:
    """Medians; the first round warms up, where there are many."""
    taken = [[figure(ensemble) for ensemble in both] for _ in range(rounds + 1)][1:]
    return [statistics.median(each) for each in zip(*taken, strict=True)]


def _row(title: str, medians: Sequence[float], unit: str, goal: str) -> str:
    zookeeper, raftka = medians
    ratio = raftka / zookeeper if unit == "per_s" else zookeeper / raftka
    shown = [f"{value:,.0f}" if unit == "per_s" else f"{value:.2f}" for value in medians]
    return f"| {title} | {shown[0]} | {shown[1]} | **{ratio:.2f}** | {goal} |"


def _fill(ensemble: Ensemble) -> None:
    with Client(ensemble.ports[0]) as client:
        client.create("/bench", VALUE)
        client.create("/many")
        client.create_all([f"/many/child-{i}" for i in range(CHILDREN)])


def _leader(ensemble: Ensemble) -> int:
    """Its id."""
    return next(
        node_id
        for node_id, port in enumerate(ensemble.ports, 1)
        if "Mode: leader" in word(port, "srvr")
    )


def _port(ensemble: Ensemble, of_leader: bool) -> int:
    leader = _leader(ensemble)
    return ensemble.ports[(leader if of_leader else leader % 3 + 1) - 1]


def _body(opcode: int) -> bytes:
    return on_path("/bench") if opcode == GET_DATA else to_set("/bench", VALUE)


def _rate(opcode: int, of_leader: bool, seconds: float) -> Figure:
    def figure(ensemble: Ensemble) -> float:
        with Client(_port(ensemble, of_leader)) as client:
            return client.rate(opcode, _body(opcode), IN_FLIGHT, seconds)["per_s"]

    return figure


def _latency(opcode: int, of_leader: bool, seconds: float) -> Figure:
    def figure(ensemble: Ensemble) -> float:
        with Client(_port(ensemble, of_leader)) as client:
            return client.rate(opcode, _body(opcode), 1, seconds)["p50_ms"]

    return figure


def _fan_out(ensemble: Ensemble) -> float:
    """They are at one node, and the writer as well."""
    port = _port(ensemble, of_leader=False)
    with ExitStack() as stack:
        writer = stack.enter_context(Client(port))
        watchers = [stack.enter_context(Client(port)) for _ in range(SESSIONS)]
        for watcher in watchers:
            watcher.ask(GET_DATA, on_path("/bench", watch=True))
        began = time.perf_counter()
        writer.ask(SET_DATA, to_set("/bench", VALUE))
        return last_told(watchers, began) * 1000


def _many_children(ensemble: Ensemble) -> float:
    with Client(_port(ensemble, of_leader=False)) as client:
        taken = []
        for _ in range(20):
            began = time.perf_counter()
            client.ask(GET_CHILDREN, on_path("/many"))
            taken.append(time.perf_counter() - began)
        return statistics.median(taken) * 1000


def _failover(ensemble: Ensemble) -> float:
    leader = _leader(ensemble)
    other = leader % 3 + 1
    port = ensemble.ports[other - 1]
    client = Client(port)
    client.create("/mine", flags=EPHEMERAL)
    client.ask(SET_DATA, to_set("/bench", VALUE))
    ensemble.kill(leader)
    began = time.perf_counter()
    client = _until_written(client, [port, ensemble.ports[other % 3]], began)
    taken = time.perf_counter() - began
    found = client.ask(EXISTS, on_path("/mine"))
    owner = int.from_bytes(found.body[44:52]) if not found.error else 0
    assert owner == client.session.session_id, "the ephemeral is gone"
    client.ask(-11, b"")
    client.close()
    ensemble.restart(leader)
    return taken


def _until_written(client: Client, ports: Sequence[int], began: float) -> Client:
    """With the session taken up again as often as its connection breaks."""
    session: Session = client.session
    turn = 0
    while time.perf_counter() < began + PATIENCE_SECONDS:
        try:
            if client.sock.fileno() < 0:
                turn += 1
                client = Client(ports[turn % len(ports)], session)
            client.ask(SET_DATA, to_set("/bench", VALUE))
            return client
        except (Closed, OSError):
            client.close()
            time.sleep(0.01)
    raise AssertionError("no write was taken any more")


def _seen_by_kafka(bridges: Bridges, turn: int) -> float:
    topic = f"by-znode-{turn}"
    addresses = bridges.processes.addresses
    with Client(bridges.ports[turn % 3]) as client:
        began = time.perf_counter()
        client.create(f"/brokers/topics/{topic}", b'{"version":1,"partitions":{"0":[1,2,3]}}')
        while not _has_leader(addresses[(turn + 1) % 3], topic):
            pass
        return (time.perf_counter() - began) * 1000


def _has_leader(address: tuple[str, int], topic: str) -> bool:
    try:
        return any(partition.leader > 0 for partition in ask_any([address], [topic]).of(topic))
    except KeyError:
        return False


def _seen(bridges: Bridges, turn: int) -> float:
    new = CREATE_TOPICS.request.topics(
        name=f"by-kafka-{turn}", num_partitions=1, replication_factor=3, assignments=[], configs=[]
    )
    with Client(bridges.ports[turn % 3]) as client:
        client.ask(GET_CHILDREN, on_path("/brokers/topics", watch=True))
        began = time.perf_counter()
        address = bridges.processes.addresses[(turn + 1) % 3]
        call(
            address,
            CREATE_TOPICS,
            CREATE_TOPICS.request(topics=[new], timeout_ms=10_000, validate_only=False),
            timeout=15,
        )
        return last_told([client], began) * 1000
