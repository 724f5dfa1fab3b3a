"""The broker's log directories: when one of several fails, its replicas are given up and reported
to the controller; the rest goes on.

The last directory, and the one with the metadata log, cannot be spared: then the caller stops the
node.
"""

from raftka.broker.replica.manager import ReplicaManager
from raftka.log.directory import LogDirectory
from raftka.metadata.commands import HeldReplicas, ReplicasOffline, TopicReplicas, by_topic
from raftka.wire.errors import Code, KafkaError

RETRY_S = 1.0


class LogDirectories:
    def __init__(self, replicas: ReplicaManager) -> None:
        self.replicas = replicas
        self.context = replicas.context
        self.logs = replicas.logs
        # since the node was started
        self._failed: dict[LogDirectory, tuple[TopicReplicas, ...]] = {}
        self.logs.on_directory_failed = self.failed
        for path, error in self.logs.offline.items():
            self.context.events.error(
                "log_directory_failed",
                path=path,
                error=str(error),
                until="the node is started again",
            )

    def failed(self, home: LogDirectory, error: OSError) -> bool:
        """Give the directory up; return whether the node goes on without it."""
        if home in self._failed:
            return True
        if len(
            self.logs.usable
        ) == 1 or self.context.metadata.settings.metadata_directory.startswith(f"{home.path}/"):
            return False
        keys = self.logs.fail(home, error)
        self.context.events.error(
            "log_directory_failed",
            path=home.path,
            error=str(error),
            partitions=len(keys),
            until="the node is started again",
        )
        self.context.metrics.count("raftka_log_failures_total")
        for key in keys:
            if key in self.replicas.partitions:
                self.replicas.stop(self.replicas.partitions[key])
        image = self.context.metadata.image
        known = [
            (topic.topic_id, index)
            for name, index in keys
            if (topic := image.topic_named(name)) is not None
        ]
        self._failed[home] = by_topic(known)
        self._report(home)
        return True

    def report(self) -> None:
        """The broker was registered, perhaps with directories that failed meanwhile. The controller
        knows when it has been told already.
        """
        for home in self._failed:
            self._report(home)

    def _report(self, home: LogDirectory) -> None:
        lifecycle = self.replicas.lifecycle
        if lifecycle.broker_epoch >= 0:
            command = ReplicasOffline(
                self.context.node_id, lifecycle.broker_epoch, home.directory_id, self._failed[home]
            )
            lifecycle.controller.call(command, lambda error, _: self._reported(home, error))

    def _reported(self, home: LogDirectory, error: KafkaError | None) -> None:
        # then it registers anew
        if error is not None and error.code not in (
            Code.STALE_BROKER_EPOCH,
            Code.BROKER_ID_NOT_REGISTERED,
        ):
            self.context.events.warning(
                "log_directory_not_reported", path=home.path, error=str(error)
            )
            clock = self.context.runtime.clock
            clock.call_at(clock.now() + RETRY_S, lambda: self._report(home))

    def held(self) -> tuple[HeldReplicas, ...]:
        """For a controller that asks what lies where."""
        return tuple(
            [
                HeldReplicas(directory_id, by_topic(replicas))
                for directory_id, replicas in self.logs.held().items()
            ]
        )
