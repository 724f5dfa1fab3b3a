"""Move a partition of a simulated cluster."""

from collections.abc import Sequence
from typing import Any

from raftka.chaos.simulated.scene import TOPIC, Scene
from raftka.wire.errors import Code
from raftka.wire.messages.reassignments import ALTER_PARTITION_REASSIGNMENTS


def reassign(scene: Scene, target: Sequence[int] | None, partition: int = 0) -> Code:
    request = ALTER_PARTITION_REASSIGNMENTS.request
    move = request.topics.partitions(partition_index=partition, replicas=target)
    row = request(timeout_ms=5000, topics=[request.topics(name=TOPIC, partitions=[move])])
    answer = ask(scene, ALTER_PARTITION_REASSIGNMENTS, row)
    return Code(answer.responses[0].partitions[0].error_code)


def ask(scene: Scene, api: Any, row: Any) -> Any:
    return scene.cluster.do(scene.client, lambda: scene.client.anybody(api, row))


def settled(scene: Scene, replicas: set[int]) -> None:
    def there() -> bool:
        return set(scene.replicas) == scene.isr == replicas and all(
            node.image == scene.cluster.newest.image for node in scene.cluster.living.values()
        )

    assert scene.cluster.settled(there), (scene.replicas, scene.isr)


def others(scene: Scene) -> list[int]:
    return [node_id for node_id in scene.cluster.nodes if node_id not in scene.replicas]
