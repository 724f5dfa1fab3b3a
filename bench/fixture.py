"""The fixture of tests, in this process: the time until it is ready, and until it is clean again
after a test has used it.
"""

import statistics
import time
from collections.abc import Iterator

from bench.faults import Figure
from raftka.client.blocking.client import Client
from raftka.client.blocking.connection import addresses_of
from raftka.testing import Cluster
from raftka.wire.messages.offsets import OFFSET_COMMIT
from raftka.wire.messages.producer_ids import INIT_PRODUCER_ID

TRANSACTION = 1  # type of a coordinator's key


def rows(rounds: int) -> Iterator[str]:
    yield f"| the fixture, {rounds} rounds | best ms | median ms | worst ms |"
    yield "|---|---|---|---|"
    for nodes in (1, 3):
        yield _row(f"ready, nodes: {nodes}", [start(nodes)["ms"] for _ in range(rounds)])
        with Cluster(nodes) as cluster:
            yield _row(f"clean after a use, nodes: {nodes}", clean_times(cluster, rounds))
            idle = [_clean(cluster) for _ in range(rounds)]
            yield _row(f"clean after nothing, nodes: {nodes}", idle)


def start(nodes: int) -> Figure:
    began = time.perf_counter()
    cluster = Cluster(nodes).start()
    taken = time.perf_counter() - began
    cluster.stop()
    return {"ms": taken * 1000}


def clean_times(cluster: Cluster, rounds: int) -> list[float]:
    times = []
    for _ in range(rounds):
        use(cluster)
        times.append(_clean(cluster))
    return times


def use(cluster: Cluster) -> None:
    """Two topics, a group with an offset, a transactional id: three topics more, with the internal
    ones.
    """
    cluster.create_topics("orders:3", "payments:1:compact")
    commit = OFFSET_COMMIT.request.topics
    offset = commit.partitions(partition_index=0, committed_offset=1)
    with Client(addresses_of(cluster.bootstrap_servers)) as client:
        client.ask_coordinator(
            "billing",
            OFFSET_COMMIT,
            OFFSET_COMMIT.request(
                group_id="billing", topics=[commit(name="orders", partitions=[offset])]
            ),
            8,
        )
        client.ask_coordinator(
            "shop",
            INIT_PRODUCER_ID,
            INIT_PRODUCER_ID.request(transactional_id="shop", transaction_timeout_ms=60_000),
            kind=TRANSACTION,
        )


def _clean(cluster: Cluster) -> float:
    began = time.perf_counter()
    cluster.clean()
    return (time.perf_counter() - began) * 1000


def _row(title: str, times: list[float]) -> str:
    return f"| {title} | {min(times):.1f} | {statistics.median(times):.1f} | {max(times):.1f} |"
