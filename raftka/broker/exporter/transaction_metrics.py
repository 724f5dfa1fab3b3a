"""The metrics of transactions that this broker coordinates, as plain values."""

from collections import Counter
from typing import NamedTuple

from raftka.broker.coordinators.partition import LOADED, CoordinatorPartition
from raftka.broker.coordinators.runtime import CoordinatorRuntime
from raftka.broker.handlers.services import Services
from raftka.coordinator.transactions.coordinator import TransactionCoordinator
from raftka.coordinator.transactions.records import State


class TransactionNumbers(NamedTuple):
    ids: Counter[State]  # transactional ids
    markers_queued: int  # for other brokers, behind a request in flight
    # tried again later: their partition has no leader, or the leader has refused them for now
    markers_parked: int
    completing: int  # transactions whose markers are all written, and whose last record is not


def count_ids(coordinator: CoordinatorPartition, ids: Counter[State]) -> int:
    """Add its transactional ids to those that were counted; returns how many there are."""
    machine = coordinator.machine
    assert isinstance(machine, TransactionCoordinator)
    if coordinator.state not in LOADED:
        return 0
    ids.update([each.state for each in machine.transactions.values()])
    return len(machine.transactions)


def transactions_of(services: Services, ids: Counter[State]) -> TransactionNumbers:
    sender = services.transactions.sender
    return TransactionNumbers(ids, sender.queued, sender.parked, sender.completing)


def load_times_of(runtime: CoordinatorRuntime) -> list[int]:
    """Milliseconds that each coordinator which serves here has loaded for."""
    return [
        coordinator.load_ms
        for coordinator in runtime.partitions.values()
        if coordinator.state in LOADED
    ]
