"""The property files that `cluster start` writes: ids from 1, ports from a base, Kafka's property names. Starts nothing.

Node i listens on base_port + i - 1, its controller on base_port + 100 + i - 1, for scrapes on base_port + 200 + i - 1. Everything of node i lies in
DIR/node-i/. With a bridge port that of node i is bridge_port + i - 1.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from raftka.cluster import properties
from raftka.cluster.secured.keys import LISTENER, ClusterSecurity
from raftka.security.client_security import PLAINTEXT, ClientSecurity

HOST = "127.0.0.1"
CONTROLLER_PORTS = 100  # so many above the brokers' ports, and so many nodes at most
METRICS_PORTS = 200
PLANNED = ("node.id", "process.roles", "listeners", "advertised.listeners", "controller.quorum.voters", "log.dirs")
HEADING = """Written by raftka cluster start, which writes it again each time it is run.
This node alone: raftka broker start {path}"""


class PlanError(ValueError):
    """Such a cluster can not be; the text is for the user."""


@dataclass(frozen=True, slots=True)
class NodePlan:
    node_id: int
    directory: Path
    broker_port: int
    controller_port: int
    properties: Mapping[str, str]
    metrics_port: int | None = None
    bridge_port: int | None = None
    admin: ClientSecurity = PLAINTEXT  # how an administrator connects to it

    @property
    def address(self) -> str:
        return f"{HOST}:{self.broker_port}"

    @property
    def properties_file(self) -> Path:
        return self.directory / "server.properties"

    @property
    def log_file(self) -> Path:
        return self.directory / "raftka.log"

    @property
    def pid_file(self) -> Path:
        return self.directory / "raftka.pid"

    def write(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        heading = HEADING.format(path=self.properties_file)
        self.properties_file.touch(0o600)
        self.properties_file.chmod(0o600)  # it may hold passwords
        self.properties_file.write_text(properties.render(self.properties, heading), encoding="utf-8")


def ports_from(base_port: int, nodes: int) -> list[tuple[int, int]]:
    """(broker, controller) of each node."""
    if base_port < 1 or base_port + CONTROLLER_PORTS + nodes - 1 > 65535:
        raise PlanError(f"base port {base_port}: ports up to base + {CONTROLLER_PORTS + nodes - 1} are needed")
    return [(base_port + i, base_port + CONTROLLER_PORTS + i) for i in range(nodes)]


def metrics_ports_from(base_port: int, nodes: int) -> list[int]:
    if base_port + METRICS_PORTS + nodes - 1 > 65535:
        raise PlanError(f"base port {base_port}: ports up to base + {METRICS_PORTS + nodes - 1} are needed")
    return [base_port + METRICS_PORTS + i for i in range(nodes)]


def bridge_ports_from(bridge_port: int, nodes: int) -> list[int]:
    if bridge_port + nodes - 1 > 65535:
        raise PlanError(f"bridge port {bridge_port}: ports up to it + {nodes - 1} are needed")
    return [bridge_port + i for i in range(nodes)]


def plan_cluster(
    data: Path,
    ports: Sequence[tuple[int, int]],
    settings: Mapping[str, str] | None = None,
    metrics_ports: Sequence[int] = (),
    bridge_ports: Sequence[int] = (),
    security: ClusterSecurity | None = None,
) -> list[NodePlan]:
    """One node for each pair of ports. `settings` are added to every node's properties, and win over what is planned for metrics and security."""
    nodes, settings = len(ports), settings or {}
    if not 1 <= nodes <= CONTROLLER_PORTS:
        raise PlanError(f"a cluster here has 1 to {CONTROLLER_PORTS} nodes, not {nodes}")
    if taken := [name for name in settings if name in PLANNED]:
        raise PlanError(f"{taken[0]} differs from node to node: it can not be set for all")
    if (existing := _existing_nodes(data)) and existing != nodes:
        raise PlanError(f"{data} holds a cluster of {existing} nodes; its voters are fixed, start it with --nodes {existing}")
    voters = ",".join(f"{i}@{HOST}:{controller}" for i, (_, controller) in enumerate(ports, 1))
    metrics = [None] * nodes if "metrics.port" in settings or not metrics_ports else metrics_ports
    bridges: Sequence[int | None] = bridge_ports or [None] * nodes
    plans = []
    for i, (pair, scraped, bridge) in enumerate(zip(ports, metrics, bridges, strict=True), 1):
        plan = _plan_node(i, data.absolute() / f"node-{i}", pair, voters, nodes, settings, scraped, bridge)
        plans.append(plan if security is None else _secured(plan, security, nodes, settings))
    return plans


def _plan_node(
    node_id: int,
    directory: Path,
    ports: tuple[int, int],
    voters: str,
    nodes: int,
    settings: Mapping[str, str],
    metrics_port: int | None,
    bridge_port: int | None,
) -> NodePlan:
    broker_port, controller_port = ports
    defaults = {
        "process.roles": "broker,controller",
        "node.id": str(node_id),
        "listeners": f"PLAINTEXT://{HOST}:{broker_port},CONTROLLER://{HOST}:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{broker_port}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.quorum.voters": voters,
        "log.dirs": str(directory / "data"),
        "default.replication.factor": str(min(3, nodes)),
        "offsets.topic.replication.factor": str(min(3, nodes)),
        "transaction.state.log.replication.factor": str(min(3, nodes)),
        "transaction.state.log.min.isr": str(min(2, nodes)),
    }
    if nodes >= 3:
        defaults["min.insync.replicas"] = "2"
    if metrics_port is not None:
        defaults["metrics.port"] = str(metrics_port)
    if bridge_port is not None:
        defaults["zookeeper.bridge.port"] = str(bridge_port)
    return NodePlan(node_id, directory, broker_port, controller_port, {**defaults, **settings}, metrics_port, bridge_port)


def _secured(plan: NodePlan, security: ClusterSecurity, nodes: int, settings: Mapping[str, str]) -> NodePlan:
    listeners = {name: plan.properties[name].replace("PLAINTEXT://", f"{LISTENER}://") for name in ("listeners", "advertised.listeners")}
    changed = {**plan.properties, **listeners, **security.settings_of(plan.node_id, nodes), **settings}
    if (bridge := changed.pop("zookeeper.bridge.port", None)) is not None:
        changed["zookeeper.bridge.secure.port"] = bridge
    return replace(plan, properties=changed, admin=security.admin.security)


def _existing_nodes(data: Path) -> int:
    return sum(1 for path in data.glob("node-*") if path.name[5:].isdecimal()) if data.is_dir() else 0
