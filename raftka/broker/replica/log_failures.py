"""Failed writes and flushes: give up a directory, a replica, or the node."""

from collections.abc import Callable, Mapping

from raftka.broker.context import BrokerContext
from raftka.broker.controller.broker_lifecycle import BrokerLifecycle
from raftka.broker.replica.housekeeping import Directories
from raftka.broker.replica.partition import Partition
from raftka.log.directory import LogDirectory


class LogFailures:
    def __init__(
        self,
        context: BrokerContext,
        lifecycle: BrokerLifecycle,
        partitions: Mapping[tuple[str, int], Partition],
        stop: Callable[[Partition], None],
    ) -> None:
        """`partitions`: all of this broker. `stop` ends a replica whose log has failed."""
        self._context = context
        self._lifecycle = lifecycle
        self._partitions = partitions
        self._stop = stop
        self.directories: Directories  # the node sets it

    def flush_failed(self, partition: Partition, error: OSError) -> None:
        """Give the directory up; end the node if it cannot be spared."""
        if not self.directories.failed(partition.home, error):
            self.fail_node(error)

    def log_failed(self, partition: Partition, error: OSError) -> None:
        """Give the directory up, because the disk is full or broken; if it cannot be spared, stop
        this replica and withdraw the broker, so that others lead. A controller on this node goes
        on.
        """
        if not self.directories.failed(partition.home, error):
            self._withdraw(partition.name, error)
            self._stop(partition)

    def open_failed(self, name: str, home: LogDirectory, error: OSError) -> bool:
        """Return whether another directory is left for the partition; else the broker withdraws."""
        if self.directories.failed(home, error):
            return True
        self._withdraw(name, error)
        return False

    def _withdraw(self, name: str, error: OSError) -> None:
        self._context.events.error(
            "log_failed", partition=name, error=str(error), until="the node is started again"
        )
        self._context.metrics.count("raftka_log_failures_total")
        self._lifecycle.withdraw("a log failed")

    def fail_node(self, error: OSError) -> None:
        """End the node after a failed flush: the state of the disk is unknown, and the kernel says
        that the next flush succeeds.
        """
        self._context.events.error("flush_failed", error=str(error))
        for partition in self._partitions.values():
            partition.log.abandon()
        self._context.runtime.fail(error)
