"""The log starts of a partition's replicas: no loss of power may take back one that is on disk, and
acknowledged DeleteRecords rely on them.

As with Kafka, DeleteRecords is acknowledged when every replica that lives has moved its start, in
memory. The start is written down with the next checkpoint of each. Until then a loss of power may
bring the records back, and a replica that was away may lead with them.
"""

from raftka.chaos.simulated.cluster import Cluster
from raftka.log.checkpoints import START_OFFSETS

Before = tuple[int, dict[int, object]]


class LogStarts:
    """The log starts of one partition."""

    def __init__(self, cluster: Cluster, topic: str, partition: int) -> None:
        self._cluster, self._key = cluster, (topic, partition)
        # by replica, the highest that is known to be on its disk
        self._written: dict[int, int] = {}

    def least(self) -> int:
        """The least start that all replicas have on disk: no reader may be told of an earlier start
        from now on. 0: unknown.
        """
        replicas = self._cluster.replicas_of(*self._key)
        self._written = {
            node_id: start for node_id, start in self._written.items() if node_id in replicas
        }
        for node_id, partition in self._cluster.partitions(*self._key).items():
            logs = self._cluster.nodes[node_id].logs
            if (
                node_id in replicas
                and partition.log.failed is None
                and not logs._checkpoints._under_way
            ):
                start = partition.home.offsets[START_OFFSETS].get(self._key, 0)
                self._written[node_id] = max(self._written.get(node_id, 0), start)
        if self._cluster.rotten() in replicas:
            return 0
        return min((self._written.get(node_id, 0) for node_id in replicas), default=0)

    # around a DeleteRecords

    def before(self) -> Before:
        return self._epoch(), dict(self._cluster.partitions(*self._key))

    def behind(self, before: Before, address: tuple[str, int], offset: int) -> list[int]:
        """Replicas that start earlier although they were in the ISR all the time, and the leader is
        who answered, at `address`.

        A leader that does not know yet that another leads counts what followers have told it, also
        those that have forgotten it since.
        """
        epoch, replicas = before
        if self._epoch() != epoch or address[0] != f"n{self._cluster.leader_of(*self._key)}":
            return []
        isr, now = self._cluster.isr_of(*self._key), self._cluster.partitions(*self._key)
        return [
            node_id
            for node_id in isr
            if node_id in now
            and replicas.get(node_id) is now[node_id]
            and now[node_id].log.start_offset < offset
        ]

    def _epoch(self) -> int:
        topic = self._cluster.newest.image.topic_named(self._key[0])
        return topic.partitions[self._key[1]].partition_epoch if topic is not None else -1
