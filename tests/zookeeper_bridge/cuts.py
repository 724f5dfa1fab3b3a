"""Cut nodes off from one another."""

from tests.zookeeper_bridge.stage import BridgeStage


def other_than(*nodes: int) -> int:
    return next(each for each in (1, 2, 3) if each not in nodes)


def cut_off_from_the_others(stage: BridgeStage, node_id: int) -> None:
    """Clients reach it, and it reaches nobody."""
    stage.world.network.isolate(f"n{node_id}")
    stage.world.network.mend("client", f"n{node_id}")
    stage.world.network.mend(f"n{node_id}", "client")
