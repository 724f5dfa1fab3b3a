"""Asks the controller for other ISRs (AlterPartition): what gathers while one request is on its way
goes with the next. Decides nothing.

A broker that comes back joins thousands of ISRs at once; one entry in the metadata log for each
would cost seconds.
"""

from collections.abc import Callable

from raftka.broker.context import BrokerContext
from raftka.broker.controller.broker_lifecycle import BrokerLifecycle
from raftka.broker.replica.partition import Partition
from raftka.metadata.commands import AlteredPartition, AlterPartition, Change
from raftka.replication.partition import Altered, AlterIsr
from raftka.wire.errors import Code, KafkaError

CHANGES_OF_REQUEST = 500  # one entry of the metadata log, some milliseconds of the controller

Asked = tuple[Partition, AlterIsr]
Answered = Callable[[Partition, AlterIsr, Altered | Code], None]


class AlterPartitionManager:
    def __init__(
        self,
        context: BrokerContext,
        lifecycle: BrokerLifecycle,
        answered: Answered,
        finished: Callable[[], None],
    ) -> None:
        self._context = context
        self._lifecycle = lifecycle
        self._answered = answered  # one change
        self._finished = finished  # a request, after all its changes
        self._waiting: list[Asked] = []
        self._busy = False  # a request is on its way, or will be at the end of this turn

    def ask(self, partition: Partition, effect: AlterIsr) -> None:
        self._context.events.debug(
            "isr_change_asked", partition=partition.name, isr=[replica for replica, _ in effect.isr]
        )
        self._waiting.append((partition, effect))
        if not self._busy:
            self._busy = True
            self._context.runtime.clock.at_turn_end(self._send)

    def _send(self) -> None:
        asked = self._waiting[:CHANGES_OF_REQUEST]
        self._waiting = self._waiting[CHANGES_OF_REQUEST:]
        self._busy = bool(asked)
        if asked:
            changes = [
                Change(
                    partition.topic_id,
                    partition.index,
                    effect.leader_epoch,
                    effect.partition_epoch,
                    effect.isr,
                )
                for partition, effect in asked
            ]
            command = AlterPartition(
                self._context.node_id, self._lifecycle.broker_epoch, tuple(changes)
            )
            self._lifecycle.controller.call(
                command, lambda error, reply: self._came_back(asked, error, reply)
            )

    def _came_back(
        self,
        asked: list[Asked],
        error: KafkaError | None,
        reply: tuple[AlteredPartition, ...] | None,
    ) -> None:
        if error is None and (reply is None or len(reply) != len(asked)):
            error = KafkaError(Code.UNKNOWN_SERVER_ERROR)
        for (partition, effect), row in zip(asked, reply or [None] * len(asked), strict=False):
            if error is not None or row is None:
                self._answered(
                    partition,
                    effect,
                    error.code if error is not None else Code.UNKNOWN_SERVER_ERROR,
                )
            else:
                self._answered(
                    partition,
                    effect,
                    Code(row.error)
                    if row.error
                    else Altered(row.isr, row.partition_epoch, row.elr),
                )
        self._finished()
        self._send()
