"""Notes of a node for the time line: committed changes of leaders and ISRs, rebalances, errors that
clients are sent, and warnings of its log. Called where the nodes run.
"""

import re
from collections.abc import Iterator, Mapping
from typing import cast

from raftka.coordinator.classic.group import ClassicGroup
from raftka.coordinator.commands import Join, Leave, Rebalance, Sync
from raftka.coordinator.consumer.commands import ConsumerHeartbeat, SetTargets
from raftka.coordinator.consumer.groups import Group
from raftka.coordinator.groups import GroupCoordinator
from raftka.coordinator.machine import Machine
from raftka.coordinator.streams.commands import StreamsHeartbeat
from raftka.metadata.image import BrokerImage, Delta, MetadataImage, PartitionImage
from raftka.testing.timeline.errors import Found, WatchedEncoder, finder_of
from raftka.testing.timeline.recorder import Timeline
from raftka.wire.encoder import EncodedRows
from raftka.wire.errors import Code
from raftka.wire.schema import AnyApi, Element, Row

NAMES = 10  # partitions or members in one line; it has their count as well
OF_BROKERS = re.compile(r"broker-\d+-.+")  # client ids of brokers
REASONS: Mapping[type, str] = {  # commands that can change the members or the state of a group
    Join: "JoinGroup",
    Sync: "SyncGroup",
    Leave: "LeaveGroup",
    ConsumerHeartbeat: "ConsumerGroupHeartbeat",
    StreamsHeartbeat: "StreamsGroupHeartbeat",
    Rebalance: "a forced rebalance",
    SetTargets: "a forced assignment",
    type(None): "a session or a phase of the rebalance ended",
}
# Events of the log at level info that belong to a time line; warnings and errors all do.
SHOWN = {"controller_active", "controller_resigned", "coordinator_loaded", "truncated"}
# Warnings that the metadata tell of, too.
TOLD_ELSEWHERE = {"isr_shrunk", "broker_fenced", "broker_unregistered", "partitions_offline"}


class ClusterObserver:
    """The part that the observers of all nodes of a cluster share: each entry of the metadata is
    noted once, and so is each state of a group.
    """

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self.image = MetadataImage()
        self._groups: dict[str, GroupState] = {}

    def on_metadata(self, before: MetadataImage, after: MetadataImage, delta: Delta) -> None:
        if after.offset <= self.image.offset:
            return
        self.image = after
        for text in (
            *_brokers(before, after, delta),
            *_topics(before, after, delta),
            *some(list(_partitions(before, after, delta))),
        ):
            self.timeline.note(text)

    def on_group(self, group_id: str, group: "Group | None", reason: str, node: int) -> None:
        before = self._groups.get(group_id, NO_GROUP)
        after = state_of(group)
        if after == before:
            return
        if group is None:
            self._groups.pop(group_id, None)
        else:
            self._groups[group_id] = after
        changes = [
            f"{verb}: {', '.join(some(sorted(members)))}"
            for verb, members in (
                ("joined", after.members - before.members),
                ("left", before.members - after.members),
            )
            if members
        ]
        self.timeline.note(
            f"group {group_id!r}: {after.state}, generation {after.generation}, "
            f"{len(after.members)} members"
            f"{''.join(f'; {each}' for each in changes)} ({reason}, node {node})"
        )


class GroupState:
    """State, generation or epoch, and members of a group at one moment."""

    __slots__ = ("generation", "members", "state")

    def __init__(self, state: str, generation: int, members: frozenset[str]) -> None:
        self.state = state
        self.generation = generation
        self.members = members

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, GroupState)
            and self.generation == other.generation
            and self.state == other.state
            and self.members == other.members
        )

    __hash__ = None  # type: ignore[assignment]  # it is compared, never looked up


NO_GROUP = GroupState("Dead", 0, frozenset())


def state_of(group: "Group | None") -> GroupState:
    if group is None:
        return NO_GROUP
    generation = group.generation_id if isinstance(group, ClassicGroup) else group.epoch.epoch
    return GroupState(str(group.state), generation, frozenset(group.members))


class NodeObserver:
    """Observes one node for the time line of its cluster."""

    def __init__(self, cluster: ClusterObserver, node_id: int) -> None:
        self._cluster = cluster
        self._node_id = node_id
        self._own_groups: set[str] = set()  # that this node has coordinated

    def on_metadata(self, before: MetadataImage, after: MetadataImage, delta: Delta) -> None:
        self._cluster.on_metadata(before, after, delta)

    def on_decided(self, machine: Machine, command: object) -> None:
        reason = REASONS.get(type(command))
        if reason is None or not isinstance(machine, GroupCoordinator):
            return
        if command is None:
            for group_id, group in tuple(machine.groups.items()):
                self._cluster.on_group(group_id, group, reason, self._node_id)
        else:
            group_id = cast(Join, command).group_id  # all of these commands have it
            self._cluster.on_group(group_id, machine.groups.get(group_id), reason, self._node_id)

    def on_rows(self, rows: EncodedRows[Element], row: type[Element]) -> None:
        finder = finder_of(row.struct)
        if finder is not None:
            rows.encode = WatchedEncoder(rows.encode, finder)  # type: ignore[arg-type]

    def on_answer(self, api: AnyApi, row: Row, client: str | None, peer: str) -> None:
        finder = finder_of(row.struct)
        if finder is None:
            return
        found: list[Found] = []
        finder.find(row, found)
        if found and not OF_BROKERS.fullmatch(client or ""):
            for each in found:
                self._note_error(api.name, each, client or peer)

    def _note_error(self, api: str, found: Found, client: str) -> None:
        about = "-".join(self._name(each) for each in found.about)
        try:
            code = Code(found.code).name
        except ValueError:
            code = f"error {found.code}"
        self._cluster.timeline.note(
            f"{api}{' of ' + about if about else ''}: {code} to {client!r} (node {self._node_id})",
            key=(api, about, code, client, self._node_id),
        )

    def _name(self, part: object) -> str:
        if not isinstance(part, bytes):
            return str(part)
        topic = self._cluster.image.topics.get(part)
        return topic.name if topic is not None else part.hex()

    def on_event(self, level: str, event: str, fields: dict[str, object]) -> None:
        """Note an event of the node's log."""
        if event in SHOWN or (level in ("warning", "error") and event not in TOLD_ELSEWHERE):
            shown = ", ".join(f"{name}={value}" for name, value in fields.items() if name != "node")
            self._cluster.timeline.note(
                f"node {self._node_id}: {event}{' (' + shown + ')' if shown else ''}"
            )


def some(names: list[str]) -> list[str]:
    return names if len(names) <= NAMES else [*names[:NAMES], f"and {len(names) - NAMES} more"]


def _brokers(before: MetadataImage, after: MetadataImage, delta: Delta) -> Iterator[str]:
    for broker_id in sorted(delta.brokers_changed):
        change = _change_of_broker(before.brokers.get(broker_id), after.brokers.get(broker_id))
        if change is not None:
            yield f"node {broker_id}: {change}"


def _change_of_broker(was: BrokerImage | None, now: BrokerImage | None) -> str | None:
    if now is None:
        return "unregistered"
    if was is None or was.epoch != now.epoch:
        return f"registered, broker epoch {now.epoch}"
    if was.fenced != now.fenced:
        return "fenced" if now.fenced else "unfenced"
    return "shuts down" if now.shutting_down and not was.shutting_down else None


def _topics(before: MetadataImage, after: MetadataImage, delta: Delta) -> Iterator[str]:
    for topic in delta.topics_deleted.values():
        yield f"topic {topic.name!r} deleted"
    for topic_id in delta.topics_changed:
        if topic_id not in before.topics and topic_id in after.topics:
            topic = after.topics[topic_id]
            leaders = some([str(each.leader) for each in topic.partitions])
            yield (
                f"topic {topic.name!r} created: {len(topic.partitions)} partitions, leaders "
                f"{' '.join(leaders)}"
            )


def _partitions(before: MetadataImage, after: MetadataImage, delta: Delta) -> Iterator[str]:
    for topic_id, index in delta.partitions_changed:
        was, now = before.partition(topic_id, index), after.partition(topic_id, index)
        if was is not None and now is not None:
            text = _change_of_partition(was, now)
            if text:
                yield f"{after.topics[topic_id].name}-{index}: {text}"


def _change_of_partition(was: PartitionImage, now: PartitionImage) -> str:
    changes = []
    if was.leader != now.leader:
        changes.append(f"leader {was.leader} -> {now.leader}, epoch {now.leader_epoch}")
    if was.isr != now.isr:
        changes.append(f"ISR {list(was.isr)} -> {list(now.isr)}")
    if was.replicas != now.replicas:
        changes.append(f"replicas {list(was.replicas)} -> {list(now.replicas)}")
    return ", ".join(changes)
