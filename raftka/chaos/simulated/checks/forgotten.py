"""Notes which batches of idempotent producers recovery may leave out of a replica's memory: no
others may a leader refuse when they come again.

As with Apache Kafka a snapshot tells a producer's last batch alone, and recovery reads only some of
the log before it again. So of several batches that were under way when a node died, it may know the
last one, and refuse the first as out of order although it has it. The judge derives that from the
batches themselves, and does not disturb the log.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import ModuleType
from typing import NamedTuple

from raftka.chaos.simulated.checks.logs import far_back, memories, scan_of
from raftka.log.producers.snapshots import Snapshots
from raftka.log.producers.state import ProducerState
from raftka.log.segments.segment import Segment
from raftka.runtime.simulated.disk import NodeFiles
from raftka.runtime.simulated.world import Node

Rebuild = Callable[[Sequence[Segment], Snapshots, int, int], ProducerState]


class Forgotten(NamedTuple):
    """A batch that the log of one node has, and of which its memory of producers need not tell."""

    machine: str
    partition: str  # as its directory is called
    producer_id: int
    epoch: int
    sequence: int  # the first


@contextmanager
def noted(forgotten: set[Forgotten], users: Iterable[ModuleType]) -> Iterator[None]:
    """While it holds, every batch that a memory is rebuilt without, and may be, is added. `users`:
    the modules that call rebuild(), of each release that runs.
    """
    originals: dict[ModuleType, Rebuild] = {module: module.__dict__["rebuild"] for module in users}
    for module, original in originals.items():
        setattr(module, "rebuild", partial(_noting, forgotten, original))  # noqa: B010
    try:
        yield
    finally:
        for module, original in originals.items():
            setattr(module, "rebuild", original)  # noqa: B010


def _noting(
    forgotten: set[Forgotten],
    rebuild: Rebuild,
    segments: Sequence[Segment],
    snapshots: Snapshots,
    trusted_up_to: int,
    now_ms: int,
) -> ProducerState:
    state = rebuild(segments, snapshots, trusted_up_to, now_ms)
    files = segments[0]._files
    # else it is a copy, which no client asks
    if isinstance(files, NodeFiles) and isinstance(files.node, Node):
        partition = segments[0].directory.rpartition("/")[2]
        forgotten.update(
            Forgotten(files.node.machine.name, partition, *each)
            for each in _left_out(state, segments, snapshots, trusted_up_to)
        )
    return state


def _left_out(
    state: ProducerState, segments: Sequence[Segment], snapshots: Snapshots, end: int
) -> Iterator[tuple[int, int, int]]:
    """(producer id, epoch, first sequence) of what the last batches before `end` tell, the state
    does not, and lies far before its snapshot.
    """
    snapshot = max(
        (offset for offset in snapshots.offsets if segments[0].base_offset <= offset <= end),
        default=None,
    )
    if snapshot is None:
        return
    for producer_id, memory in memories(scan_of(segments), end).items():
        known = state.producers.get(producer_id)
        for batch in memory.batches:
            if (
                known is not None
                and known.epoch == memory.epoch
                and batch not in known.batches
                and far_back(segments, batch[2], snapshot)
            ):
                yield producer_id, memory.epoch, batch[0]
