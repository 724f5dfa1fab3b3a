"""A cluster whose nodes reach each other through the proxy alone, and clients reach directly.
Starts nothing.

Each node has a voters' list of its own, in which all other controllers are behind the proxy;
followers dial what the leader advertises for nodes, and that is the proxy too.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from raftka.chaos.live.proxy import HOST, Route
from raftka.cluster.plan import NodePlan, plan_cluster
from raftka.cluster.secured.keys import ClusterSecurity

VOTERS = 3  # of four nodes three; of five, five
SETTINGS = {
    "broker.session.timeout.ms": "3000",  # so that a round sees more than one change
    "replica.lag.time.max.ms": "3000",
    "metadata.log.max.record.bytes.between.snapshots": "100000",
    "auto.create.topics.enable": "false",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
}


class Plan(NamedTuple):
    nodes: list[NodePlan]  # the last one is a spare: a broker without a vote that comes and goes
    routes: list[Route]
    voters: tuple[int, ...]
    spare: int


def ports_needed(nodes: int) -> int:
    """Four ports for each node, and one from each node to each controller."""
    return 4 * (nodes + 1) + (nodes + 1) * nodes


def plan(
    folder: Path,
    nodes: int,
    ports: list[int],
    settings: Mapping[str, str],
    security: ClusterSecurity | None = None,
) -> Plan:
    """With `security` all connections have TLS and certificates on both sides, and an authorizer
    decides.
    """
    everyone = range(1, nodes + 2)
    voters = tuple(range(1, (VOTERS if nodes < 5 else 5) + 1))
    clients, inner, controllers, advertised = (
        dict(zip(everyone, ports[i * len(everyone) :], strict=False)) for i in range(4)
    )
    rest = iter(ports[4 * len(everyone) :])
    routes = [Route(advertised[target], inner[target], target) for target in everyone]
    routes += [
        Route(next(rest), controllers[target], target, source)
        for source in everyone
        for target in voters
        if source != target
    ]
    planned = plan_cluster(
        folder,
        [(clients[i], controllers[i]) for i in everyone],
        {**SETTINGS, **settings},
        security=security,
    )
    protocol = "PLAINTEXT" if security is None else "SSL"
    made = [
        _of_node(each, inner[each.node_id], advertised[each.node_id], routes, voters, protocol)
        for each in planned
    ]
    return Plan(made, routes, voters, nodes + 1)


def _of_node(
    node: NodePlan,
    inner: int,
    advertised: int,
    routes: list[Route],
    voters: tuple[int, ...],
    protocol: str,
) -> NodePlan:
    me = node.node_id
    behind = {route.target: route.port for route in routes if route.source == me} | {
        me: node.controller_port
    }
    listeners = f"CLIENTS://{HOST}:{node.broker_port},NODES://{HOST}:{inner}"
    mine = {
        "process.roles": "broker,controller" if me in voters else "broker",
        "listeners": listeners
        + (f",CONTROLLER://{HOST}:{node.controller_port}" if me in voters else ""),
        "advertised.listeners": f"CLIENTS://{HOST}:{node.broker_port},NODES://{HOST}:{advertised}",
        "inter.broker.listener.name": "NODES",
        "listener.security.protocol.map": ",".join(
            f"{name}:{protocol}" for name in ("CLIENTS", "NODES", "CONTROLLER")
        ),
        "controller.quorum.voters": ",".join(f"{voter}@{HOST}:{behind[voter]}" for voter in voters),
    }
    return replace(node, properties={**node.properties, **mine})
