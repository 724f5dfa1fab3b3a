"""The property files that `cluster start` writes: ids from 1, ports from a base, Kafka's property
names. Starts nothing.

Node i listens on base_port + i - 1, its controller on base_port + 100 + i - 1, for scrapes on
base_port + 200 + i - 1. Everything of node i lies in DIR/node-i/. With a bridge port that of node i
is bridge_port + i - 1. The console of all is on base_port + 300.

With K brokers per host it is the same with hosts in the nodes' place: the brokers of host i have
the ids (i - 1) * K + 1 and up, and the ports base_port + their id - 1. The first of them has the
controller, the bridge and the vote. Everything of host i lies in DIR/host-i/.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from raftka.cluster import properties
from raftka.cluster.host.plan import plan_host, ports_of_host
from raftka.limits import HOST_BROKERS
from raftka.metadata.configs.broker import BROKER_SETTINGS
from raftka.metadata.configs.settings import NodeSettings
from raftka.metadata.configs.used_ports import OTHER_PORTS, PortsCollide, UsedPort, check_distinct
from raftka.metadata.configs.values import SettingError
from raftka.security.client_security import PLAINTEXT, ClientSecurity, uses_tls

if TYPE_CHECKING:
    from raftka.cluster.secured.keys import ClusterSecurity
    from raftka.cluster.secured.logins import ClusterLogins

HOST = "127.0.0.1"
CONTROLLER_PORTS = 100  # so many above the brokers' ports, and so many nodes at most
METRICS_PORTS = 200
CONSOLE_PORT = 300
PLANNED = (
    "node.id",
    "process.roles",
    "listeners",
    "advertised.listeners",
    "controller.quorum.voters",
    "log.dirs",
)
HEADING = """Written by raftka cluster start, which writes it again each time it is run.
This {kind} alone: raftka {command}"""


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
    brokers: int = 0  # 0: one node; else a host of so many brokers, of which this is the first

    @property
    def title(self) -> str:
        return self.directory.name.replace("-", " ") if self.brokers else f"node {self.node_id}"

    @property
    def arguments(self) -> list[str]:
        """Of raftka, which runs it."""
        kind = "host" if self.brokers else "broker"
        return [
            kind,
            "start",
            str(self.properties_file),
            *(["--brokers", str(self.brokers)] if self.brokers else []),
        ]

    @property
    def address(self) -> str:
        return f"{HOST}:{self.broker_port}"

    @property
    def addresses(self) -> list[str]:
        """Of all its brokers."""
        return [f"{HOST}:{self.broker_port + each}" for each in range(max(1, self.brokers))]

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
        heading = HEADING.format(
            kind="host" if self.brokers else "node", command=" ".join(self.arguments)
        )
        self.properties_file.touch(0o600)
        self.properties_file.chmod(0o600)  # it may hold passwords
        self.properties_file.write_text(
            properties.render(self.properties, heading), encoding="utf-8"
        )


def ports_from(base_port: int, nodes: int, brokers: int = 1) -> list[tuple[int, int]]:
    """(broker, controller) of each node, or of the first broker of each host."""
    if base_port < 1 or base_port + CONTROLLER_PORTS + nodes - 1 > 65535:
        raise PlanError(
            f"base port {base_port}: ports up to base + {CONTROLLER_PORTS + nodes - 1} are needed"
        )
    return [(base_port + i * brokers, base_port + CONTROLLER_PORTS + i) for i in range(nodes)]


def metrics_ports_from(base_port: int, nodes: int) -> list[int]:
    if base_port + METRICS_PORTS + nodes - 1 > 65535:
        raise PlanError(
            f"base port {base_port}: ports up to base + {METRICS_PORTS + nodes - 1} are needed"
        )
    return [base_port + METRICS_PORTS + i for i in range(nodes)]


def console_port_from(base_port: int) -> int:
    """Return the port of the cluster's console. Raises PlanError."""
    if base_port + CONSOLE_PORT > 65535:
        raise PlanError(
            f"base port {base_port}: ports up to base + {CONSOLE_PORT} are needed; without a "
            "console (--no-console) less"
        )
    return base_port + CONSOLE_PORT


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
    security: "ClusterSecurity | ClusterLogins | None" = None,
    brokers: int = 0,
    console_port: int | None = None,
) -> list[NodePlan]:
    """One node for each pair of ports, or one host of `brokers`. `settings` are added to every
    node's properties, and win over the planned ones of metrics and security. `console_port`: of
    the launcher; no node may have it.
    """
    nodes, settings, kind = len(ports), settings or {}, "host" if brokers else "node"
    each = max(1, brokers)
    _check_size(data, nodes, brokers)
    if taken := [
        name for name in settings if name in PLANNED or (brokers and name == "broker.rack")
    ]:
        raise PlanError(f"{taken[0]} differs from {kind} to {kind}: it can not be set for all")
    voters = ",".join(
        f"{i * each + 1}@{HOST}:{controller}" for i, (_, controller) in enumerate(ports)
    )
    metrics = [None] * nodes if "metrics.port" in settings or not metrics_ports else metrics_ports
    bridges: Sequence[int | None] = bridge_ports or [None] * nodes
    plans = []
    for i, (pair, scraped, bridge) in enumerate(zip(ports, metrics, bridges, strict=True), 1):
        directory = data.absolute() / f"{kind}-{i}"
        plan = _plan_node(
            (i - 1) * each + 1, directory, pair, voters, nodes, settings, scraped, bridge
        )
        if brokers:
            plan = replace(
                plan, properties={**plan.properties, "broker.rack": directory.name}, brokers=brokers
            )
        plans.append(plan if security is None else _secured(plan, security, nodes, settings))
    _check_ports(plans, settings, console_port)
    return plans


def _check_ports(
    plans: Sequence[NodePlan], settings: Mapping[str, str], console_port: int | None
) -> None:
    """Raise PlanError for a port that two of all nodes, or of their settings, would use. Other
    mistakes in settings are told by the nodes.
    """
    used: list[UsedPort] = []
    if console_port:
        used.append(UsedPort(HOST, console_port, "console.port", "the console (--base-port)"))
    try:
        for plan in plans:
            used += [
                each._replace(whose=f"{each.whose} of {plan.title} ({_option(each, settings)})")
                for each in _ports_of(plan)
            ]
        check_distinct(used)
    except PortsCollide as error:
        raise PlanError(str(error)) from None
    except SettingError:
        return


def _ports_of(plan: NodePlan) -> list[UsedPort]:
    """The ports of one node are not compared with each other yet, so that the text has the options
    of the command line.
    """
    given = dict(plan.properties)
    if plan.brokers:
        host = plan_host(given, plan.brokers, plan.directory.name)
        return ports_of_host(host.settings, host.brokers)
    others = {name: given.pop(name) for name in (*OTHER_PORTS, "metrics.port") if name in given}
    parsed = NodeSettings.from_properties(given)
    rest = {name: BROKER_SETTINGS[name].parse(text) for name, text in others.items()}
    return replace(parsed, values={**parsed.values, **rest}).used_ports


def _option(used: UsedPort, settings: Mapping[str, str]) -> str:
    if used.setting in settings:
        return f"--set {used.setting}"
    return "--bridge-port" if used.setting.startswith("zookeeper.bridge.") else "--base-port"


def _check_size(data: Path, nodes: int, brokers: int) -> None:
    """The sizes are possible, and those of the cluster that lies there already."""
    if not 1 <= nodes <= CONTROLLER_PORTS:
        raise PlanError(f"a cluster here has 1 to {CONTROLLER_PORTS} nodes, not {nodes}")
    if brokers > HOST_BROKERS.value or nodes * brokers > CONTROLLER_PORTS:
        raise PlanError(
            f"a host has at most {HOST_BROKERS.value} brokers, and a cluster here "
            f"{CONTROLLER_PORTS}: {nodes} hosts of {brokers} are too many"
        )
    kind, other = ("host", "node") if brokers else ("node", "host")
    if _existing(data, other):
        raise PlanError(
            f"{data} holds a cluster of {other}s: start it {'without' if brokers else 'with'} "
            "--brokers-per-host"
        )
    if (existing := _existing(data, kind)) and existing != nodes:
        raise PlanError(
            f"{data} holds a cluster of {existing} {kind}s; its voters are fixed, start it with "
            f"--nodes {existing}"
        )
    second = data / "host-2" / "server.properties"
    if (
        brokers
        and second.exists()
        and (before := int(properties.parse(second.read_text(encoding="utf-8"))["node.id"]) - 1)
        != brokers
    ):
        raise PlanError(
            f"{data} holds a cluster of hosts with other broker ids: start it with "
            f"--brokers-per-host {before}"
        )


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
        "share.coordinator.state.topic.replication.factor": str(min(3, nodes)),
        "share.coordinator.state.topic.min.isr": str(min(2, nodes)),
    }
    if nodes >= 3:
        defaults["min.insync.replicas"] = "2"
    if metrics_port is not None:
        defaults["metrics.port"] = str(metrics_port)
    if bridge_port is not None:
        defaults["zookeeper.bridge.port"] = str(bridge_port)
    return NodePlan(
        node_id,
        directory,
        broker_port,
        controller_port,
        {**defaults, **settings},
        metrics_port,
        bridge_port,
    )


def _secured(
    plan: NodePlan,
    security: "ClusterSecurity | ClusterLogins",
    nodes: int,
    settings: Mapping[str, str],
) -> NodePlan:
    listeners = {
        name: plan.properties[name].replace("PLAINTEXT://", f"{security.listener}://")
        for name in ("listeners", "advertised.listeners")
    }
    changed = {
        **plan.properties,
        **listeners,
        **security.settings_of(plan.node_id, nodes, max(1, plan.brokers)),
        **settings,
    }
    if uses_tls(security.listener) and "zookeeper.bridge.port" in changed:
        changed["zookeeper.bridge.secure.port"] = changed.pop("zookeeper.bridge.port")
    return replace(plan, properties=changed, admin=security.admin.security)


def _existing(data: Path, kind: str) -> int:
    return (
        sum(1 for path in data.glob(f"{kind}-*") if path.name[5:].isdecimal())
        if data.is_dir()
        else 0
    )
