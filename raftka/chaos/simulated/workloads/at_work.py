"""The workloads that a run can have alone, each with the moments that a nemesis waits for, and a
plan that may have scheduled faults beside it.
"""

from collections.abc import Callable, Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import NamedTuple

from raftka.chaos.simulated.faults.nemeses import (
    OF_COMPACTION,
    OF_COORDINATORS,
    OF_DELIVERY,
    OF_SHARES,
    OF_THE_QUORUM,
    OF_TRANSACTIONS,
)
from raftka.chaos.simulated.swarm import AT_WORK, BUSY_AT_WORK, SECURED, Plan
from raftka.chaos.simulated.workloads.bursts import BurstWork
from raftka.chaos.simulated.workloads.cold_reads import ArchiveWork
from raftka.chaos.simulated.workloads.compaction import CompactionWork
from raftka.chaos.simulated.workloads.consumer_group import ConsumerGroupWork
from raftka.chaos.simulated.workloads.delayed import DelayedWork
from raftka.chaos.simulated.workloads.group import GroupWork
from raftka.chaos.simulated.workloads.left_alone import LeftAloneWork
from raftka.chaos.simulated.workloads.security import SecurityWork
from raftka.chaos.simulated.workloads.share import ShareWork
from raftka.chaos.simulated.workloads.streams import StreamsWork
from raftka.chaos.simulated.workloads.transactions import TransactionWork
from raftka.chaos.simulated.workloads.workload import Workload

# packages beside raftka register more here: name = module:class, a Workload; its clusters' quorum
# is struck
ENTRY_POINTS = "raftka.workloads"


class Alone(NamedTuple):
    """A workload that a run has alone."""

    make: Callable[[], Workload]
    moments: Sequence[str]
    plan: Plan = AT_WORK


def _made_by(entry_point: EntryPoint) -> Callable[[], Workload]:
    def make() -> Workload:
        work: Workload = entry_point.load()()
        return work

    return make


WORKS: dict[str, Alone] = {
    "groups": Alone(GroupWork, OF_COORDINATORS),
    "consumer-groups": Alone(ConsumerGroupWork, OF_COORDINATORS),
    "streams": Alone(StreamsWork, OF_COORDINATORS),
    "share": Alone(ShareWork, OF_SHARES),
    "delayed": Alone(DelayedWork, OF_DELIVERY),
    "compaction": Alone(CompactionWork, OF_COMPACTION),
    "archive": Alone(ArchiveWork, OF_COMPACTION),
    "left-alone": Alone(LeftAloneWork, OF_COMPACTION),
    "transactions": Alone(TransactionWork, OF_TRANSACTIONS),
    "bursts": Alone(BurstWork, OF_TRANSACTIONS, BUSY_AT_WORK),
    "security": Alone(SecurityWork, OF_THE_QUORUM, SECURED),
    **{
        each.name: Alone(_made_by(each), OF_THE_QUORUM) for each in entry_points(group=ENTRY_POINTS)
    },
}
