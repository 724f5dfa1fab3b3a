"""Markers that end transactions, written by the leaders of the partitions. In `__consumer_offsets`
the group's coordinator writes them, so that the offsets of the transaction count, or are dropped,
in the same step. Knows no coordinator of transactions.
"""

from collections.abc import Callable

from raftka.broker.context import BrokerContext
from raftka.broker.coordinators.group_service import TOPIC, GroupCoordinatorService
from raftka.broker.replica.manager import ReplicaManager
from raftka.log.producers.markers import Marker
from raftka.wire.errors import Code, KafkaError

# after which a marker that is not committed counts as refused; its sender sends it again
COMMIT_S = 30.0


class MarkerWriter:
    def __init__(
        self, context: BrokerContext, replicas: ReplicaManager, groups: GroupCoordinatorService
    ) -> None:
        self._context = context
        self._replicas = replicas
        self._groups = groups

    def write(
        self, marker: Marker, topic: str, partition: int, done: Callable[[Code], None]
    ) -> None:
        """Append the marker as leader; `done` is called once, perhaps at once, with NONE when it is
        committed here, or an error.
        """
        try:
            found = self._replicas.find(topic, partition)
        except KafkaError:
            done(Code.UNKNOWN_TOPIC_OR_PARTITION)
            return
        if topic == TOPIC:
            coordinator = self._groups.runtime.partitions.get(partition)
            if coordinator is None:
                done(Code.NOT_LEADER_OR_FOLLOWER)
            else:
                coordinator.write_marker(marker, done)
            return
        clock = self._context.runtime.clock
        try:
            end = found.append_marker(marker, clock.wall_ms(), self)
        except KafkaError as error:
            done(error.code)
            return
        if end < 0 or found.leader is None:
            done(Code.NONE if end < 0 else Code.NOT_LEADER_OR_FOLLOWER)
        else:
            found.wait_for_commit(end, clock.now() + COMMIT_S, _Wait(done))

    def abort(self, reason: str) -> None:
        """Do nothing: the log has failed, and completes the operations that wait for it with an
        error.
        """


class _Wait:
    __slots__ = ("complete",)

    def __init__(self, done: Callable[[Code], None]) -> None:
        self.complete = done
