"""Share coordinators in a simulated cluster: made, loaded, and asked by the persister of a node."""

from collections.abc import Callable
from typing import Any

from raftka.broker.coordinators.partition import LOADED
from raftka.broker.coordinators.share_state_service import TOPIC
from raftka.share.state import SharePartitionKey
from raftka.wire.messages.find_coordinator import FIND_COORDINATOR
from tests.broker.stage import Stage


def is_coordinated(stage: Stage) -> bool:
    """Return whether all share coordinators are loaded; asks for the topic."""
    node = next(iter(stage.nodes.values()))
    topic = node.image.topic_named(TOPIC)
    if topic is None:
        key = SharePartitionKey("g", bytes(16), 0).coordinator_key()
        request = FIND_COORDINATOR.request(key_type=2, coordinator_keys=[key])
        stage.wire(node.node_id).ask(FIND_COORDINATOR, request)
        return False
    loaded = [
        coordinator.state in LOADED
        for each in stage.nodes.values()
        for coordinator in each.share_states.runtime.partitions.values()
    ]
    return len(loaded) == len(topic.partitions) and all(loaded)


def call(stage: Stage, node_id: int, ask: Callable[[Callable[[Any], None]], None]) -> list[Any]:
    """Run `ask(done)` in a turn of the node; return the list that gets the result."""
    results: list[Any] = []
    runtime: Any = stage.nodes[node_id].runtime
    runtime.take(lambda _: ask(results.append), None)
    return results


def result(stage: Stage, node_id: int, ask: Callable[[Callable[[Any], None]], None]) -> Any:
    """Return the result of one call of a persister."""
    results = call(stage, node_id, ask)
    stage.wait(lambda: bool(results))
    (found,) = results
    return found


def initialize(
    stage: Stage, key: SharePartitionKey, state_epoch: int, start: int, node_id: int = 1
) -> None:
    persister = stage.nodes[node_id].share_persister
    error = result(stage, node_id, lambda done: persister.initialize(key, state_epoch, start, done))
    assert error is None, error
