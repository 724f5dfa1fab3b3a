"""A workload with clients and rules of its own: groups, compacted topics, logs that are deleted
from. In a run alone, or beside others.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from random import Random
from typing import ClassVar, Protocol

from raftka.broker.coordinators import partition as coordinator_partition
from raftka.broker.coordinators import share_persister
from raftka.broker.replica import manager as replica_manager
from raftka.broker.work import long_work
from raftka.chaos.simulated.cluster import Cluster
from raftka.runtime.simulated import clock


class Awaited(Protocol):
    """A client, or several, that must go on when all is healed."""

    @property
    def counts(self) -> Sequence[int]:
        """Each must grow when all is healed."""

    def end(self) -> None:
        """Begin nothing more."""


class Workload(Awaited, Protocol):
    settings: ClassVar[Mapping[str, str]]  # of the nodes
    topics: Sequence[tuple[str, int]]  # name, partitions: their replicas must be equal in the end

    def begin(self, cluster: Cluster, chance: Random) -> None:
        """Topics are made, clients begin."""

    @property
    def wrong(self) -> list[str]: ...

    @property
    def ended(self) -> bool: ...

    def check(self, cluster: Cluster) -> list[str]: ...


@contextmanager
def often() -> Iterator[None]:
    """Checkpoints are written ten times as often, because cleaners go by them, and coordinators
    load a little at a time: a life is short.
    """
    before = replica_manager.CHECKPOINT_EVERY_S, coordinator_partition.SLICE_BYTES
    replica_manager.CHECKPOINT_EVERY_S, coordinator_partition.SLICE_BYTES = 0.5, 400
    try:
        yield
    finally:
        replica_manager.CHECKPOINT_EVERY_S, coordinator_partition.SLICE_BYTES = before


@contextmanager
def restored() -> Iterator[None]:
    """A workload may change how often share coordinators are asked, until the life's end."""
    before = share_persister.TRIES
    try:
        yield
    finally:
        share_persister.TRIES = before


@contextmanager
def busy() -> Iterator[None]:
    """A slice of long work is over after a dozen steps, so that requests for a few items already go
    on in later turns.
    """
    before = long_work.FIRST_STEPS, long_work.STEPS, clock.READING_S
    long_work.FIRST_STEPS, long_work.STEPS, clock.READING_S = 4, 2, 0.001
    try:
        yield
    finally:
        long_work.FIRST_STEPS, long_work.STEPS, clock.READING_S = before
