"""Twenty thousand keyed records through three processes whose leaders are killed: the part that all clients share. Knows no client."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from kafka import KafkaAdminClient

from raftka.cluster.ask import ask_any
from raftka.cluster.processes import Processes

TOPIC, PARTITIONS = "keyed", 6
RECORDS, KEYS = 21_000, 50
UNDER_WAY = 1_000  # sent and not acknowledged at any time: so records are in flight when a leader dies, and most are not
KILLS = (RECORDS // 3, 2 * RECORDS // 3)
RESTARTS = (RECORDS // 2, 5 * RECORDS // 6)


def create_topic(cluster: Processes) -> None:
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
    try:
        admin.create_topics({TOPIC: {"num_partitions": PARTITIONS, "replication_factor": 3}}, wait_for_metadata=True)
    finally:
        admin.close()


def records(cluster: Processes) -> Iterator[tuple[bytes, bytes]]:
    """Keys in turn, values count up within each key. A leader dies at a third and at two thirds, and comes back between."""
    dead = 0
    for i in range(RECORDS):
        if i in KILLS:
            dead = leader(cluster, partition=i % PARTITIONS)
            cluster.kill(dead)
        if i in RESTARTS:
            cluster.start(dead)
            cluster.wait_ready()
        yield b"key-%02d" % (i % KEYS), b"%d" % (i // KEYS)


def leader(cluster: Processes, partition: int) -> int:
    alive = [address for node, address in zip(cluster.nodes.values(), cluster.addresses, strict=True) if node.alive]
    return ask_any(alive, [TOPIC]).of(TOPIC)[partition].leader


def by_key(read: Iterable[tuple[bytes, bytes]]) -> dict[bytes, list[int]]:
    sequences: dict[bytes, list[int]] = defaultdict(list)
    for key, value in read:
        sequences[key].append(int(value))
    return sequences


EXPECTED = {b"key-%02d" % key: list(range(RECORDS // KEYS)) for key in range(KEYS)}
