"""The bridge beside a real ZooKeeper 3.9.3: the same plays on both, every answer and every event
compared.

    python -m tests.zookeeper_bridge.side_by_side [SEEDS [OPERATIONS [FIRST [NODES]]]]      50 seeds
        of 400 operations, one node each

With three nodes each client is at another one, and sessions move between them.

What is meant to differ stands in docs/bridge.md; DIFFERENCES says how the plays and the players
allow for each.
"""

import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple
from unittest.mock import patch

from bench.zookeepers import ZooKeepers
from raftka.testing import Cluster
from tests.zookeeper_bridge.players import BROKEN_OFF, Player
from tests.zookeeper_bridge.plays import SUPER, Play, Step
from zookeeper_bridge import edge
from zookeeper_bridge.protocol.opcodes import WRITES, Op
from zookeeper_bridge.server.bridge import Bridge
from zookeeper_bridge.tree.acl import digest_of
from zookeeper_bridge.tree.rules import TOPS

TICK_MS = 1000
NEVER_S = 3600  # empty containers go when nobody looks
DIFFERENCES = {  # as docs/bridge.md has them: how each is allowed for
    (
        "a zxid is an offset of the metadata log: writes at the same moment share one, and "
        "there are gaps"
    ): "they are names; one write a burst",
    "a write that fails takes no zxid": (
        "a zxid counts where something has been written with it; it never falls"
    ),
    (
        "a client with a higher zxid than the cluster is closed after the cluster was asked, "
        "not at once"
    ): "it is closed",
    (
        "sync never shows the past, and a node without an answer of a controller for two ticks "
        "closes its connections"
    ): "not met",
    (
        "when the controller changes, connections with writes under way are closed, all others stay"
    ): "not met",
    (
        "in Kafka's layout times are 0, and the pzxid of a list is the one that this node has seen"
    ): "the plays are beside it",
    "the root has Kafka's folders as children": (
        "they are left out, and so is how many children it has"
    ),
    "a wrong password closes no connection but its own": (
        "the session's own connection is closed before"
    ),
    "an operation for a time to live without a flag for one is refused": "it is not played",
    (
        "a path has at most 4096 bytes and 256 levels, and a tree, a session and a connection "
        "have bounds: `compat/zookeeper_bridge/limits.py`"
    ): "-",
}


class Difference(NamedTuple):
    seed: int
    number: int
    step: Step
    zookeeper: str
    bridge: str


class Stage:
    """Two servers that run."""

    def __init__(
        self, zookeepers: Sequence[int], bridges: Sequence[int], pool: ThreadPoolExecutor
    ) -> None:
        """Ports."""
        self._ports = zookeepers, bridges
        self._pool = pool

    def compare(self, seed: int, operations: int) -> tuple[list[Step], list[Difference]]:
        steps = Play(seed, f"/d{seed}").steps(operations)
        players = [Player(self._ports[0]), Player(self._ports[1], TOPS)]
        zookeeper, bridge = self._pool.map(lambda player: player.play(steps), players)
        pairs = zip(steps, zookeeper, bridge, strict=False)  # who stops early has said why
        found = [
            Difference(seed, number, step, one, other)
            for number, (step, one, other) in enumerate(pairs)
            if one != other or BROKEN_OFF in one
        ]
        return steps, found


@contextmanager
def stage(nodes: int = 1) -> Iterator[Stage]:
    """So many of each; raises BenchFailed where there is no ZooKeeper to be had."""
    super_digest = digest_of(SUPER)[1]
    options = (
        f"-Dznode.container.checkIntervalMs={NEVER_S * 1000}",
        f"-Dzookeeper.DigestAuthenticationProvider.superDigest={super_digest}",
    )
    properties = {
        "zookeeper.bridge.tick.ms": str(TICK_MS),
        "zookeeper.bridge.super.digest": super_digest,
    }
    with (
        ZooKeepers(nodes, {"tickTime": TICK_MS}, options) as zookeepers,
        patch.object(edge, "Bridge", partial(Bridge, look_s=float(NEVER_S))),
        Cluster(nodes, bridge=True, properties=properties) as cluster,
        ThreadPoolExecutor(2) as pool,
    ):
        zookeepers.start()
        yield Stage(
            zookeepers.ports,
            [int(address.rpartition(":")[2]) for address in cluster.zookeeper_connect.split(",")],
            pool,
        )


def counted(steps: list[Step]) -> Counter[str]:
    """Operations by name, and `writes`; what is in a multi counts as one."""
    found: Counter[str] = Counter()
    for step in steps:
        requests = (
            step.given[0]
            if step.verb == "burst"
            else [step.given]
            if step.verb == "ask"
            else [(step.verb,)]
        )
        for request in requests:
            found[request[0].name if isinstance(request[0], Op) else request[0]] += 1
            found["writes"] += request[0] in WRITES or request[0] in (
                "multi",
                "close",
                "connect",
                "expire",
            )
            found["operations"] += 1
    return found


def main(seeds: int = 50, operations: int = 400, first: int = 0, nodes: int = 1) -> int:
    began, total, differing = time.monotonic(), Counter[str](), 0
    with stage(nodes) as both:
        for seed in range(first, first + seeds):
            steps, found = both.compare(seed, operations)
            total += counted(steps)
            differing += len(found)
            for difference in found[:3]:
                print(
                    f"seed {seed}, step {difference.number}: {difference.step}\n  ZooKeeper: "
                    f"{difference.zookeeper}\n  bridge:    {difference.bridge}"
                )
    kinds = ", ".join(
        f"{name} {count}"
        for name, count in sorted(total.items())
        if name not in ("operations", "writes")
    )
    print(
        f"{seeds} seeds, {total['operations']} operations "
        f"({100 * total['writes'] / total['operations']:.0f} % writes): {differing} differences,",
        end=" ",
    )
    print(f"{time.monotonic() - began:.0f} s\n{kinds}")
    return 1 if differing else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that servers go with it
    sys.exit(main(*map(int, sys.argv[1:])))
