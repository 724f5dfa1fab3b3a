"""Ask a cluster for the leader of a partition."""

from raftka.cluster.ask import ask_any
from raftka.cluster.processes import Processes


def leader(cluster: Processes, topic: str, partition: int = 0) -> int:
    alive = [
        address
        for node, address in zip(cluster.nodes.values(), cluster.addresses, strict=True)
        if node.alive
    ]
    return ask_any(alive, [topic]).of(topic)[partition].leader
