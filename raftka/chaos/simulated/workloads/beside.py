"""Further workloads of a life of the swarm: none, one or two that have clients of their own, and
settings that differ between nodes.

Drawn from streams of chance of its own, so that a life without any of it is the life that its seed
always had.
"""

from collections.abc import Callable, Sequence
from functools import partial
from random import Random

from raftka.chaos.simulated.workloads.bursts import BurstWork
from raftka.chaos.simulated.workloads.cold_reads import ArchiveWork
from raftka.chaos.simulated.workloads.compaction import CompactionWork
from raftka.chaos.simulated.workloads.config import ConfigWork
from raftka.chaos.simulated.workloads.consumer_group import ConsumerGroupWork
from raftka.chaos.simulated.workloads.group import GroupWork
from raftka.chaos.simulated.workloads.left_alone import LeftAloneWork
from raftka.chaos.simulated.workloads.many_partitions import WideWork
from raftka.chaos.simulated.workloads.metadata_queries import AskingWork
from raftka.chaos.simulated.workloads.recreation import RecreationWork
from raftka.chaos.simulated.workloads.share import ShareWork
from raftka.chaos.simulated.workloads.streams import StreamsWork
from raftka.chaos.simulated.workloads.transactions import TransactionWork
from raftka.chaos.simulated.workloads.workload import Workload

SLOWER = 2.5  # than where they are alone: a life costs what it shows
BESIDE: dict[str, Callable[[], Workload]] = {
    "recreation": RecreationWork,
    "configs": ConfigWork,
    "wide": WideWork,
    "archive": ArchiveWork,
    "compaction": partial(CompactionWork, SLOWER),
    "groups": partial(GroupWork, SLOWER),
    "consumer-groups": partial(ConsumerGroupWork, SLOWER),
    "left-alone": LeftAloneWork,
    "asking": AskingWork,
    "transactions": partial(TransactionWork, SLOWER),
    "bursts": BurstWork,
    "share": partial(ShareWork, SLOWER),
    "streams": partial(StreamsWork, SLOWER),
}
# Of those without a share a seed has chosen otherwise (swarm.py).
ALWAYS = ("asking",)  # it costs next to nothing
SHARES = {
    "archive": 8,
    "configs": 3,
    "wide": 3,
    "recreation": 3,
    "compaction": 2,
    "left-alone": 6,
    "groups": 4,
    "consumer-groups": 4,
}
# of each node its own settings, names and values
Mixed = tuple[tuple[int, tuple[tuple[str, str], ...]], ...]
EACH_NODE: dict[str, Sequence[str]] = {
    "num.replica.fetchers": ("1", "2", "3"),
    "replica.fetch.wait.max.ms": ("100", "500"),
    "replica.fetch.response.max.bytes": ("2000", "10485760"),
    "max.incremental.fetch.session.cache.slots": ("3", "1000"),
    "log.index.interval.bytes": ("100", "1000", "4096"),
    "log.retention.check.interval.ms": ("400", "300000"),
    "log.segment.delete.delay.ms": ("0", "60000"),
}


def works(chance: Random) -> tuple[str, ...]:
    """But for those that there are always. In a sixth of the lives none, in a third two, or one
    that is drawn twice.
    """
    found: dict[str, None] = {}
    for _ in range(chance.choice((0, 1, 1, 1, 2, 2))):
        found[chance.choices(list(SHARES), list(SHARES.values()))[0]] = None
    return tuple(found)


def mixed_settings(chance: Random, nodes: int) -> Mixed:
    """A third of the lives has nodes that are set alike."""
    if chance.random() < 1 / 3:
        return ()
    return tuple(
        (
            node_id,
            tuple(
                (name, chance.choice(values))
                for name, values in EACH_NODE.items()
                if chance.random() < 0.4
            ),
        )
        for node_id in range(1, nodes + 1)
    )
