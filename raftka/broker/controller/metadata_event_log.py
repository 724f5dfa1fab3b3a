"""Log lines and counters for changes of the metadata: one line an event, and the counters of
elections.

The active controller logs events of the cluster, every node those of itself.
"""

from collections.abc import Callable

from raftka.broker.context import BrokerContext
from raftka.metadata.image import NO_LEADER, TOPIC, Delta, MetadataImage

NAMES = 10  # of partitions in one line; it has their count as well


def some(names: list[str]) -> list[str]:
    return names if len(names) <= NAMES else [*names[:NAMES], "..."]


class MetadataEventLog:
    def __init__(self, context: BrokerContext, leads: Callable[[], bool]) -> None:
        """`leads`: whether this node is the active controller."""
        self.context = context
        self._leads = leads
        self.events = context.events

    def publish(self, before: MetadataImage, after: MetadataImage, delta: Delta) -> None:
        leads = self._leads()
        for broker_id in sorted(delta.brokers_changed):
            if leads or broker_id == self.context.node_id:
                self._broker(before, after, broker_id)
        if not leads:
            return
        for topic_id in delta.topics_deleted:
            topic = before.topics[topic_id]
            self.events.info("topic_deleted", topic=topic.name, partitions=len(topic.partitions))
        for topic_id in delta.topics_changed:
            if topic_id not in before.topics:
                created = after.topics[topic_id]
                replicas = len(created.partitions[0].replicas)
                self.events.info(
                    "topic_created",
                    topic=created.name,
                    partitions=len(created.partitions),
                    replication_factor=replicas,
                )
        self._leaders(before, after, delta)
        for kind, resource in sorted(delta.configs_changed):
            if kind != TOPIC or resource in after.topic_ids:
                changed = sorted(
                    dict(
                        set(after.config(kind, resource).items())
                        ^ set(before.config(kind, resource).items())
                    )
                )
                self.events.info(
                    "config_changed",
                    resource_type=kind,
                    resource=resource or "all brokers",
                    names=changed,
                )

    def _broker(self, before: MetadataImage, after: MetadataImage, broker_id: int) -> None:
        was, now = before.brokers.get(broker_id), after.brokers.get(broker_id)
        if now is None:
            self.events.warning("broker_unregistered", broker=broker_id)
        elif was is None or was.epoch != now.epoch:
            self.events.info("broker_registered", broker=broker_id, epoch=now.epoch, rack=now.rack)
        elif was.fenced and not now.fenced:
            self.events.info("broker_unfenced", broker=broker_id, epoch=now.epoch)
        elif now.fenced and not was.fenced:
            self.events.warning("broker_fenced", broker=broker_id, epoch=now.epoch)
        elif now.shutting_down and not was.shutting_down:
            self.events.info("broker_shutting_down", broker=broker_id, epoch=now.epoch)

    def _leaders(self, before: MetadataImage, after: MetadataImage, delta: Delta) -> None:
        moved: list[str] = []
        lost: list[str] = []
        for topic_id, index in delta.partitions_changed:
            was, now = before.partition(topic_id, index), after.partition(topic_id, index)
            if was is None or now is None or was.leader == now.leader:
                continue
            name = f"{after.topics[topic_id].name}-{index}"
            if now.leader == NO_LEADER:
                lost.append(name)
                continue
            moved.append(name)
            completed = bool(was.adding or was.removing) and not (now.adding or now.removing)
            # a replica that joined last may lead: the leader that proposed it has waited for it
            joined = completed and any(after.alive(each) for each in was.isr)
            if now.leader not in was.eligible and not joined:
                self.context.metrics.count(
                    "kafka_controller_controllerstats_uncleanleaderelections_total"
                )
                self.events.warning(
                    "unclean_election", partition=name, leader=now.leader, isr_before=was.isr
                )
        if moved:
            self.context.metrics.count("raftka_leader_elections_total", len(moved))
            self.events.info("leaders_changed", count=len(moved), partitions=some(moved))
        if lost:
            self.events.warning("partitions_offline", count=len(lost), partitions=some(lost))


class IsrChanges:
    """Changes of the ISRs that this broker leads: one line for the shrinks of a turn, one for its
    expansions.
    """

    def __init__(self, context: BrokerContext) -> None:
        self.context = context
        self._shrunk: list[str] = []
        self._expanded: list[str] = []

    def note(self, partition: str, before: tuple[int, ...], after: tuple[int, ...]) -> None:
        if before == after:
            return
        left, joined = set(before) - set(after), set(after) - set(before)
        if left:
            self._shrunk.append(f"{partition} -{','.join(map(str, sorted(left)))}")
        if joined:
            self._expanded.append(f"{partition} +{','.join(map(str, sorted(joined)))}")

    def publish(self) -> None:
        if self._shrunk:
            self.context.metrics.count(
                "kafka_server_replicamanager_isrshrinks_total", len(self._shrunk)
            )
            self.context.events.warning(
                "isr_shrunk", count=len(self._shrunk), partitions=some(self._shrunk)
            )
            self._shrunk = []
        if self._expanded:
            self.context.metrics.count(
                "kafka_server_replicamanager_isrexpands_total", len(self._expanded)
            )
            self.context.events.info(
                "isr_expanded", count=len(self._expanded), partitions=some(self._expanded)
            )
            self._expanded = []
