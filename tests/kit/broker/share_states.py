"""Share coordinators in a simulated cluster: made, loaded, and asked by the persister of a node."""

from collections.abc import Callable
from typing import Any

from raftka.broker.coordinators.partition import LOADED
from raftka.broker.coordinators.share_state_service import TOPIC
from raftka.share.state import NO_COUNT, SharePartitionKey, ShareState, StateBatch
from raftka.wire.errors import KafkaError
from raftka.wire.messages.find_coordinator import FIND_COORDINATOR
from tests.broker.stage import Stage


def coordinated(stage: Stage) -> None:
    """Wait until all share coordinators are loaded. The first question makes their topic."""
    node = next(iter(stage.nodes.values()))
    key = SharePartitionKey("g", bytes(16), 0).coordinator_key()
    request = FIND_COORDINATOR.request(key_type=2, coordinator_keys=[key])
    stage.wire(node.node_id).ask(FIND_COORDINATOR, request)
    stage.wait(lambda: _are_loaded(stage))


def _are_loaded(stage: Stage) -> bool:
    topic = next(iter(stage.nodes.values())).image.topic_named(TOPIC)
    loaded = [
        coordinator.state in LOADED
        for each in stage.nodes.values()
        for coordinator in each.share_states.runtime.partitions.values()
    ]
    return topic is not None and len(loaded) == len(topic.partitions) and all(loaded)


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


def read(
    stage: Stage, key: SharePartitionKey, leader_epoch: int, node_id: int = 1
) -> ShareState | KafkaError:
    persister = stage.nodes[node_id].share_persister
    found: ShareState | KafkaError = result(
        stage, node_id, lambda done: persister.read(key, leader_epoch, done)
    )
    return found


def write(
    stage: Stage,
    key: SharePartitionKey,
    state_epoch: int,
    leader_epoch: int,
    start: int,
    *batches: StateBatch,
    node_id: int = 1,
) -> KafkaError | None:
    persister = stage.nodes[node_id].share_persister
    found: KafkaError | None = result(
        stage,
        node_id,
        lambda done: persister.write(
            key, state_epoch, leader_epoch, start, NO_COUNT, batches, done
        ),
    )
    return found
