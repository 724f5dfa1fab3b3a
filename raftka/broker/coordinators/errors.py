"""Reports of bugs in a coordinator's machine and of records that it cannot read."""

from raftka.broker.context import BrokerContext
from raftka.versions import NewerFormat


class CoordinatorErrors:
    """Each takes the name of the coordinator's partition."""

    __slots__ = ("_context",)

    def __init__(self, context: BrokerContext) -> None:
        self._context = context

    def command_failed(self, partition: str, error: Exception) -> None:
        """Report a bug of the broker: this one command fails."""
        self._context.metrics.count("raftka_handler_errors_total")
        self._context.events.error("coordinator_failed", partition=partition, error=repr(error))

    def record_newer(self, partition: str, error: NewerFormat) -> None:
        """Report a record of a later release: this node does not coordinate the partition."""
        self._context.events.error("coordinator_refused", partition=partition, error=str(error))

    def record_unreadable(self, partition: str, offset: int, error: Exception) -> None:
        self._context.metrics.count("raftka_coordinator_unreadable_records_total")
        self._context.events.error(
            "coordinator_record_unreadable", partition=partition, offset=offset, error=str(error)
        )
