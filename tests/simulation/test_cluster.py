"""The three-node cluster in the simulation: unmodified nodes, acks=all through
client/connection.py, a leader that loses power, all read back.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from raftka.chaos.simulated.clients.client import NoAnswer, produce_row
from raftka.chaos.simulated.cluster import CLIENT_PORT, Cluster
from raftka.runtime.simulated.world import World
from raftka.wire.errors import Code
from raftka.wire.messages.metadata import METADATA
from raftka.wire.messages.produce import PRODUCE
from raftka.wire.records import build_batch

ROOT = Path(__file__).parent.parent.parent
TOPIC = "trucks_gps"
SEEDS = 100
SCRIPT = f"""
from tests.simulation.test_cluster import run
for seed in range({SEEDS}):
    trace_hash, acknowledged, read = run(seed, batches=4)
    assert read == acknowledged, seed
    print(trace_hash)
"""


def run(
    seed: int, batches: int = 12, extra_delay_s: float = 0.0
) -> tuple[str, list[bytes], list[bytes]]:
    """(trace hash, acknowledged, read). The leader loses power in the middle, and comes back."""
    with World(seed) as world:
        cluster = Cluster(world)
        cluster.wait_ready()
        if extra_delay_s:
            world.network.delay("n1", "n2", 0.0002 + extra_delay_s, 0.001 + extra_delay_s)
        client = cluster.client()
        cluster.do(client, lambda: client.create_topic(TOPIC, 1, 3))
        producer_id = cluster.do(client, client.producer_id)
        acknowledged: list[bytes] = []

        async def produce() -> None:
            for number in range(batches):
                values = [b"%d-%d" % (number, i) for i in range(3)]
                await client.produce(TOPIC, 0, values, producer_id, len(acknowledged))
                acknowledged.extend(values)

        client.runtime.spawn(produce, "produce")
        assert world.run(lambda: len(acknowledged) >= 3 * batches // 2, at_most_s=30)
        leader = cluster.leader_of(TOPIC, 0)
        assert leader is not None
        cluster.kill(leader, power_loss=True)
        world.run(world.now + world.random("test").uniform(0.0, 3.0))
        cluster.start(leader)
        assert world.run(lambda: len(acknowledged) == 3 * batches, at_most_s=60), (
            "produces did not go on"
        )
        reader = cluster.client("reader")
        read = cluster.do(reader, lambda: reader.read_all(TOPIC, 0))
        assert not world.failures
        return world.trace_hash, acknowledged, read


@pytest.mark.parametrize("seed", range(5))
def test_acknowledged_records_are_read_back_once_and_in_order(seed: int) -> None:
    _, acknowledged, read = run(seed)

    assert read == acknowledged


def test_100_seeds_are_100_runs_each_the_same_in_every_process() -> None:
    processes = [_hashes(hash_seed) for hash_seed in ("1", "2")]
    first, second = [process.communicate()[0].split() for process in processes]

    assert [process.returncode for process in processes] == [0, 0]
    assert len(set(first)) == SEEDS
    assert first == second


def _hashes(hash_seed: str) -> "subprocess.Popen[str]":
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
    )


@pytest.mark.parametrize("seed", [7, 107])
def test_a_millisecond_makes_another_run(seed: int) -> None:
    trace_hash, _, _ = run(seed, batches=4)

    assert run(seed, batches=4)[0] == trace_hash
    assert run(seed, batches=4, extra_delay_s=0.001)[0] != trace_hash


def test_a_broker_without_metadata_serves_no_client() -> None:
    """Alone after a power loss of all it cannot know which topics there are: that its image is
    empty is no answer.
    """
    with World(3) as world:
        cluster = Cluster(world)
        cluster.wait_ready()
        client = cluster.client()
        cluster.do(client, lambda: client.create_topic(TOPIC, 1, 3))
        cluster.power_loss()
        address = client.bootstrap[0]
        wanted = METADATA.request(
            topics=[METADATA.request.topics(name=TOPIC)], allow_auto_topic_creation=False
        )
        told: list[int] = []

        async def ask() -> None:
            while True:
                try:
                    answer = await client.ask(address, METADATA, wanted, 1.0)
                except NoAnswer:
                    await trio.sleep(0.01)
                else:
                    told.append(answer.topics[0].error_code)

        cluster.start(1)
        client.runtime.spawn(ask, "ask")
        world.run(world.now + 5.0)
        assert not told

        for node_id in (2, 3):
            cluster.start(node_id)
        assert world.run(lambda: len(told) >= 10, at_most_s=30)
        assert Code.UNKNOWN_TOPIC_OR_PARTITION not in told


def test_no_bytes_are_written_after_a_clean_end() -> None:
    """A follower has closed its logs, and its process goes on for a moment, while its leader takes
    records.
    """
    with World(4) as world:
        cluster = Cluster(world)
        cluster.wait_ready()
        client = cluster.client()
        cluster.do(client, lambda: client.create_topic(TOPIC, 1, 3))
        leader, follower, _ = cluster.replicas_of(TOPIC, 0)
        address = (f"n{leader}", CLIENT_PORT)
        row = produce_row(TOPIC, 0, build_batch([(None, b"value", (), 0)]), acks=1)
        codes: list[int] = []

        async def produce() -> None:
            while True:
                answer = await client.ask(address, PRODUCE, row)
                codes.append(answer.responses[0].partition_responses[0].error_code)

        client.runtime.spawn(produce, "produce")
        assert world.run(lambda: len(codes) > 5, at_most_s=5.0)
        node = cluster.nodes[follower]
        node.runtime.spawn(node.shutdown, "stop")
        assert world.run(lambda: bool(cluster.log.saying("stopped")), at_most_s=10.0)
        before = len(codes)
        assert world.run(lambda: len(codes) > before + 50, at_most_s=5.0)

        assert set(codes) == {Code.NONE}
        assert cluster.log.saying("log_failed") == []
