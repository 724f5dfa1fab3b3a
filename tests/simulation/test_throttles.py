"""Replicas that catch up no faster than they may (KIP-73), while those in sync are not held up."""

import pytest

from raftka.chaos.simulated.cluster import CLIENT_PORT
from raftka.chaos.simulated.scene import TOPIC as NAME
from raftka.chaos.simulated.scene import Scene
from raftka.metadata.image import BROKER, TOPIC
from raftka.runtime.simulated.world import World
from raftka.wire.messages.configs import INCREMENTAL_ALTER_CONFIGS
from tests.simulation.reassigning import others, reassign, settled

RATE = 20_000  # bytes a second
FOREVER_MANY = "1000000000"


def configure(scene: Scene, kind: int, name: str, **values: str) -> None:
    request = INCREMENTAL_ALTER_CONFIGS.request
    configs = [
        request.resources.configs(name=key.replace("_", "."), config_operation=0, value=value)
        for key, value in values.items()
    ]
    row = request(
        resources=[request.resources(resource_type=kind, resource_name=name, configs=configs)]
    )
    # a broker's own is asked of that broker
    address = (f"n{name or 1}" if kind == BROKER else "n1", CLIENT_PORT)
    answer = scene.cluster.do(
        scene.client, lambda: scene.client.ask(address, INCREMENTAL_ALTER_CONFIGS, row)
    )
    assert answer.responses[0].error_code == 0


def fill(scene: Scene, size_bytes: int) -> None:
    async def run() -> None:
        for number in range(size_bytes // 10_000):
            value = b"%06d" % number + bytes(9_900)
            await scene.client.produce(
                NAME, 0, [value], scene.producer_id, len(scene.acknowledged[0])
            )
            scene.acknowledged[0].append(value)

    scene.cluster.do(scene.client, run)


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_replica_that_catches_up_keeps_to_both_rates(side: str) -> None:
    settings = {"replica.fetch.response.max.bytes": "20000", "replica.fetch.max.bytes": "20000"}
    with World(1) as world:
        scene = Scene(world, nodes=4, voters=3, replication_factor=3, settings=settings)
        fill(scene, 400_000)
        (new,) = others(scene)
        target = [*scene.replicas[:2], new]
        throttled = scene.leader if side == "leader" else new
        configure(
            scene, TOPIC, NAME, **{f"{side}_replication_throttled_replicas": f"0:{throttled}"}
        )
        configure(
            scene, BROKER, str(throttled), **{f"{side}_replication_throttled_rate": str(RATE)}
        )
        began = world.now
        assert reassign(scene, target) == 0
        assert scene.cluster.settled(lambda: new in scene.cluster.partitions(NAME, 0))
        world.run(began + 10.0)
        assert 0.7 * RATE * 10 < scene.partition(new).log.end_offset * 10_000 < 1.2 * RATE * 10
        produced = world.now
        fill(scene, 100_000)
        assert world.now - produced < 1.0, "those in sync were held up"

        configure(
            scene, BROKER, str(throttled), **{f"{side}_replication_throttled_rate": FOREVER_MANY}
        )
        raised = world.now
        settled(scene, set(target))
        assert world.now - raised < 5.0
        scene.wait_whole()
        scene.assert_nothing_lost()


def test_an_unnamed_replica_is_not_throttled() -> None:
    with World(2) as world:
        scene = Scene(world, nodes=4, voters=3, replication_factor=3)
        fill(scene, 300_000)
        (new,) = others(scene)
        configure(
            scene,
            TOPIC,
            NAME,
            leader_replication_throttled_replicas="1:1,0:99",
            follower_replication_throttled_replicas="7:1",
        )
        configure(
            scene,
            BROKER,
            "",
            leader_replication_throttled_rate="1",
            follower_replication_throttled_rate="1",
        )
        began = world.now
        target = [*scene.replicas[:2], new]
        assert reassign(scene, target) == 0
        settled(scene, set(target))
        assert world.now - began < 3.0
