"""Stray logs: of topics that were deleted, and of replicas that were moved to other brokers, while
this broker was down. Removes them, some a turn. Opens no log.
"""

from raftka.broker.context import BrokerContext
from raftka.broker.work.slices import Slices
from raftka.log.manager import LogManager
from raftka.metadata.quorum.recovery import recoveries

LOOKED_AT_IN_A_TURN = 100  # each may be a small file to be read


class StrayLogs:
    def __init__(self, context: BrokerContext, logs: LogManager) -> None:
        self.context = context
        self.logs = logs
        self.waiting: Slices[tuple[str, int]] = Slices(
            context.runtime.clock, LOOKED_AT_IN_A_TURN, self._remove_strays
        )
        self.namesakes: Slices[tuple[tuple[str, int], bytes]] = Slices(
            context.runtime.clock, LOOKED_AT_IN_A_TURN, self._remove_namesakes
        )

    def remove(self) -> None:
        """Remove all logs that the image does not give to this broker."""
        for key, topic_id in list(self.logs.leftovers):
            if not self._is_mine(topic_id, key[1]):
                self.logs.drop_leftover(key, topic_id)
        self.namesakes.add(list(self.logs.namesakes))
        self.waiting.add(self.logs.lying_here())

    def _remove_strays(self, keys: list[tuple[str, int]]) -> None:
        for key, topic_id in self.logs.unopened(keys):
            if self._is_stray(key, topic_id):
                self.logs.remove([key])

    def _remove_namesakes(self, namesakes: list[tuple[tuple[str, int], bytes]]) -> None:
        self.logs.remove_namesakes(
            [each for each in namesakes if each in self.logs.namesakes and self._is_stray(*each)]
        )

    def _is_stray(self, key: tuple[str, int], topic_id: bytes) -> bool:
        """Return whether to remove the log; write an event if it is a stray."""
        if self._is_mine(topic_id, key[1]):
            return False
        partition, recovered = f"{key[0]}-{key[1]}", bool(recoveries(self.context.metadata.image))
        # the metadata may lack what the logs have: an operator must decide
        if recovered:
            self.context.events.warning(
                "stray_log_kept", partition=partition, because="the cluster was recovered"
            )
        else:
            self.context.events.info("stray_log_removed", partition=partition)
        return not recovered

    def _is_mine(self, topic_id: bytes, index: int) -> bool:
        partition = self.context.metadata.image.partition(topic_id, index)
        return partition is not None and self.context.node_id in partition.replicas
