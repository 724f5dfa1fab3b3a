"""Check that every request and member that waits on a living node has a cause to go on: looked at
now and then, in the nodes' own memory.

Fetch sessions, timers and members of groups, requests that wait in a coordinator, produces that
wait for the high watermark, commands that wait for the metadata log. What is not in order for a
moment may be under way: it counts when every look for some time finds the same.
"""

from collections.abc import Container, Iterator
from math import inf
from typing import Any

from raftka.broker.coordinators.commit_plan import CommitWait
from raftka.broker.coordinators.marker_sender import MarkerSender
from raftka.broker.coordinators.partition import ACTIVE, CLOSED, CoordinatorPartition
from raftka.broker.fetch.fetch import Fetch
from raftka.broker.fetch.fetch import State as FetchState
from raftka.broker.fetch.follower_plan import FollowWait
from raftka.broker.fetch.sessions import CachedPartition, FetchSession
from raftka.broker.handlers.coordinator_request import CoordinatorRequest
from raftka.broker.node import Node
from raftka.broker.replica.partition import Partition
from raftka.chaos.simulated.cluster import Cluster
from raftka.coordinator.classic.group import ClassicGroup, State
from raftka.coordinator.consumer.group import ConsumerGroup
from raftka.coordinator.groups import GroupCoordinator
from raftka.coordinator.modern.records import MemberState
from raftka.coordinator.modern.soft import REVOKE, SESSION
from raftka.coordinator.streams.group import StreamsGroup
from raftka.coordinator.streams.tasks import Task, each_task
from raftka.coordinator.timers import Timer
from raftka.coordinator.transactions.coordinator import TransactionCoordinator
from raftka.coordinator.transactions.records import State as TransactionState
from raftka.coordinator.transactions.transaction import ENDING
from raftka.metadata.image import MetadataImage, PartitionImage

EVERY_S = 0.1
SOON_S = 0.2  # so long the same must be found at every look
HEARTBEAT_S = 5.0  # within so long a member that sleeps is heard of again, or removed
LATE_S = 1.0  # of a timer: a node may have much to do
# what it is about, what is wrong with it, and how long that may be so
Found = tuple[object, str, float]

Asked = CoordinatorRequest[Any, Any] | CommitWait


class Waiting:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._since: dict[tuple[Node, object, str], float] = {}
        # requests that waited in each at the last check
        self._asked: dict[CoordinatorPartition, list[Asked]] = {}
        self._newest = 0  # offset of the metadata that any node has

    def begin(self) -> None:
        self.cluster.world.at(self.cluster.world.now + EVERY_S, self._check)

    def _check(self) -> None:
        """Raises AssertionError in the middle of the life, as Watch does."""
        before, self._since, now = self._since, {}, self.cluster.world.now
        self._newest = self.cluster.newest.image.offset
        for node_id, node in self.cluster.judged.items():
            process = self.cluster.world.machine(f"n{node_id}").node
            if process is None or process.is_busy or node.context.stopping:
                continue  # what is due may come when its turn ends
            for what, wrong, at_most_s in (
                *found_in(node),
                *self._moved(node),
                *self._unchanged(node),
            ):
                key = node, what, wrong
                since = self._since[key] = before.get(key, now)
                assert now <= since + at_most_s, f"n{node_id}: {wrong}"
        self.begin()

    def _moved(self, node: Node) -> Iterator[Found]:
        """Requests that waited in a coordinator that is not here any more."""
        coordinators = (
            list(node.groups.runtime.partitions.values()) if hasattr(node, "groups") else []
        )
        for coordinator in coordinators:
            self._asked[coordinator] = [
                each
                for each in coordinator.waiting
                if isinstance(each, CoordinatorRequest | CommitWait)
            ]
        for coordinator, asked in list(self._asked.items()):
            if (
                coordinator.state is CLOSED
                and coordinator.partition.manager.context is node.context
            ):
                left = self._asked[coordinator] = [each for each in asked if _waits(each)]
                if not left:
                    del self._asked[coordinator]
                for each in left:
                    yield (
                        each,
                        f"a request waits for a coordinator of {coordinator.partition.name} that "
                        "is gone",
                        SOON_S,
                    )

    def _unchanged(self, node: Node) -> Iterator[Found]:
        """Partitions whose leaders wait for another ISR, that nobody asks for, and that the
        metadata they have does not tell.
        """
        if (
            not hasattr(node, "replicas")
            or node.replicas.isr_requests._busy
            or node.image.offset < self._newest
        ):
            return
        for partition in node.replicas.partitions.values():
            leader = partition.leader
            if leader is not None and leader.pending is not None and leader.deadline() == inf:
                yield (
                    leader.pending,
                    f"{partition.name} waits for another ISR, without a request under way",
                    HEARTBEAT_S,
                )
            topic = node.image.topics.get(partition.topic_id)
            if (
                topic is not None
                and partition.log.failed is None
                and node.node_id not in topic.partitions[partition.index].offline
            ):
                for wrong in _role(partition, topic.partitions[partition.index], node.node_id):
                    yield partition, f"{partition.name} {wrong}", HEARTBEAT_S


def _waits(ticket: Asked) -> bool:
    answer = ticket if isinstance(ticket, CommitWait) else ticket.pending
    return answer is not None and not answer.over


def found_in(node: Node) -> Iterator[Found]:
    host = node.quorum.host
    if host is not None and host._delayed and not host.active:
        yield host, "commands wait for a controller that has resigned", SOON_S
    now = node.runtime.clock.now()
    for held in node.suspects._held:
        if not held.waits_for & node.suspects.suspected:
            yield held, "an answer is held for brokers that are not suspected", SOON_S
    if not hasattr(node, "replicas"):
        return
    for partition in node.replicas.partitions.values():
        yield from _partition(partition, now)
    sessions = node.fetch_sessions
    if sessions.partitions != (
        there := sum(len(session.partitions) for session in sessions.by_id.values())
    ):
        yield (
            sessions,
            f"{sessions.partitions} partitions are counted in sessions, there are {there}",
            SOON_S,
        )
    for session in sessions.by_id.values():
        yield from _session(session)
    for coordinator in node.groups.runtime.partitions.values():
        if coordinator.state is ACTIVE and not coordinator._records:
            yield from _coordinator(coordinator, now)
    for coordinator in node.transactions.runtime.partitions.values():
        if coordinator.state is ACTIVE and not coordinator._records:
            yield from _transactions(coordinator, node.transactions.sender, now)


# partitions


def _partition(partition: Partition, now: float) -> Iterator[Found]:
    leader = partition.leader
    by_commit, by_flush = partition.delayed_by_commit, partition.delayed_by_flush
    by_start = partition.delayed_by_low_watermark
    if leader is None:
        if by_commit.waiting or by_flush.waiting or by_start.waiting:
            yield partition, f"requests wait at {partition.name}, which is not led here", SOON_S
        return
    for purgatory, reached in (
        (by_commit, leader.high_watermark),
        (by_flush, partition.log.flushed_offset),
    ):
        if not purgatory.waiting:
            continue
        if purgatory.waiting[0][0] <= reached:
            yield (
                partition,
                f"requests wait at {partition.name} for {purgatory.waiting[0][0]}, it is at "
                f"{reached}",
                SOON_S,
            )
        if purgatory.deadline() < now - LATE_S:
            yield partition, f"requests wait at {partition.name} for longer than they may", SOON_S


def _role(partition: Partition, known: PartitionImage, node_id: int) -> Iterator[str]:
    leader = partition.leader
    if partition.image is not known and partition.image != known:
        yield f"goes by {partition.image}, the metadata says {known}"
    elif (leader is not None) != (known.leader == node_id):
        yield f"is{' not' * (leader is None)} led here, the metadata says {known}"
    elif (
        leader is not None
        and leader.partition_epoch == known.partition_epoch
        and set(leader.isr) != set(known.isr)
    ):
        yield f"is led with the ISR {leader.isr}, the metadata says {known}"


# fetch sessions


def _session(session: FetchSession) -> Iterator[Found]:
    parked = session.parked
    later: Container[CachedPartition] = parked.later if isinstance(parked, FollowWait) else ()
    told: Container[CachedPartition] = parked.rows if isinstance(parked, Fetch) else ()
    if isinstance(parked, Fetch) and parked.state is not FetchState.PARKED:
        return  # at work
    for cached in session.partitions.values():
        if cached not in session.dirty and cached not in told:
            for wrong in _idle(cached, is_told_later=cached in later):
                yield (
                    cached,
                    f"a {'follower' if session.follows else 'consumer'}'s session: {wrong}",
                    SOON_S,
                )


def _idle(cached: CachedPartition, *, is_told_later: bool) -> Iterator[str]:
    """Check a partition whose reader has got everything: a future event must lead to the next look
    at it.
    """
    partition = cached.partition
    if partition is None or not (
        cached in partition.idle_consumers or cached in partition.idle_followers
    ):
        yield f"nobody watches {cached.topic}-{cached.fetch_request.partition}"
    elif partition.leader is not None:
        end = partition.high_watermark
        if not cached.session.follows and (held := partition.log.held) is not None:
            if held.known_from:
                return  # held batches are being looked for
            end = partition.log.visible_end(end)
        readable = partition.log.written_offset if cached.session.follows else end
        if cached.fetch_request.fetch_offset < readable:
            yield f"there are records in {partition.name}, and it is not looked at"
        if is_told_later:
            return
        if cached.log_start != partition.log.start_offset:
            yield f"it is not told where {partition.name} starts"
        if cached.high_watermark != end:
            yield f"it is not told the high watermark of {partition.name}"


# coordinators


def _coordinator(coordinator: CoordinatorPartition, now: float) -> Iterator[Found]:
    machine = coordinator.machine
    assert isinstance(machine, GroupCoordinator)
    name, tickets = coordinator.partition.name, set()
    ringing = {(id(timer), when) for when, _, timer in machine._timers._heap}
    for group in machine.groups.values():
        if isinstance(group, ConsumerGroup):
            soft = machine.consumers.soft.get(group.group_id)
            of_members = soft.timers if soft is not None else {}
            timers = list(of_members.values())
            found = _consumers(group, of_members)
            if (
                coordinator.partition.leader is not None
                and not coordinator.partition.leader.under_min_isr
            ):
                for wrong in _shares(group, coordinator.partition.manager.context.metadata.image):
                    yield group, f"{group.group_id} in {name}: {wrong}", HEARTBEAT_S
        elif isinstance(group, StreamsGroup):
            streams_soft = machine.streams.soft.get(group.group_id)
            of_members = streams_soft.timers if streams_soft is not None else {}
            timers = list(of_members.values())
            found = _streams(group, of_members)
        else:
            timers = [
                group.join_phase,
                group.sync_phase,
                group.settling,
                *group.pending.values(),
                *(each.session for each in group.members.values()),
            ]
            tickets |= {
                each
                for member in group.members.values()
                for each in (member.join_ticket, member.sync_ticket)
            }
            found = _classic(group)
        for wrong in found:
            yield group, f"{group.group_id} in {name}: {wrong}", SOON_S
        for timer in timers:
            if timer.due < inf and not (
                timer._known <= timer.due and (id(timer), timer._known) in ringing
            ):
                yield timer, f"{group.group_id} in {name}: a timer is set and will not ring", SOON_S
    # administrators that wait for the share coordinator
    tickets |= {
        asked.ticket for soft in machine.shares.soft.values() for asked in soft.asked.values()
    }
    if coordinator.waiting.keys() - tickets:
        yield coordinator, f"a request waits in {name}, and nothing knows of it", SOON_S
    if coordinator._not_before <= now and machine.deadline() < now - LATE_S:
        yield coordinator, f"a timer of {name} is late", SOON_S


def _transactions(
    coordinator: CoordinatorPartition, sender: MarkerSender, now: float
) -> Iterator[Found]:
    machine = coordinator.machine
    assert isinstance(machine, TransactionCoordinator)
    name = coordinator.partition.name
    settled = coordinator.partition.high_watermark == coordinator.partition.log.end_offset
    for transactional_id, its in machine.transactions.items():
        what = transactional_id, its.producer_id, its.epoch
        timer, ending = machine._times.get(transactional_id), sender._endings.get(transactional_id)
        if its.state is TransactionState.ONGOING and (timer is None or not _is_set(timer)):
            yield what, f"{transactional_id} in {name} is open, without a time-out", SOON_S
        if its.state in ENDING and settled and (ending is None or not ending.wanted):
            yield (
                what,
                f"{transactional_id} in {name} ends, and nobody sends its markers",
                HEARTBEAT_S,
            )
        if its.state not in ENDING and machine._held.get(transactional_id):
            yield (
                what,
                f"requests of {transactional_id} in {name} wait for markers that are written",
                HEARTBEAT_S,
            )
    if any(
        not _is_set(held.timer)
        for held in (each for queue in machine._held.values() for each in queue)
    ):
        yield machine, f"a request waits for markers in {name}, without a timer", SOON_S
    if coordinator._not_before <= now and machine.deadline() < now - LATE_S:
        yield coordinator, f"a timer of {name} is late", SOON_S


def _is_set(timer: Timer) -> bool:
    return timer.due < inf


def _classic(group: ClassicGroup) -> Iterator[str]:
    if group.state is State.PREPARING and not _is_set(group.join_phase):
        yield "it prepares a rebalance without an end"
    if group.state is State.COMPLETING and group.syncing and not _is_set(group.sync_phase):
        yield "members do not ask for their assignments, without a timer"
    if group.state in (State.EMPTY, State.PREPARING) and _is_set(group.settling):
        yield "assignments of an earlier generation are held back"
    for member in group.members.values():
        waits = member.join_ticket is not None or member.sync_ticket is not None
        if not waits and not _is_set(member.session):
            yield f"{member.member_id} has no session"
        if waits and group.state in (State.STABLE, State.EMPTY):
            yield f"{member.member_id} waits in state {group.state}"
        if (
            member.instance_id is not None
            and group.static.get(member.instance_id) != member.member_id
        ):
            yield f"{member.instance_id} is not known to be {member.member_id}"
    if not set(group.static.values()) <= group.members.keys():
        yield "an instance is known of a member that is not there"
    if group.joining != {
        each.member_id for each in group.members.values() if each.join_ticket is not None
    }:
        yield "others are counted as joining than wait to join"
    if group.members and group.leader not in group.members and group.state is State.STABLE:
        yield f"{group.leader} leads and is not a member"


def _consumers(group: ConsumerGroup, timers: Any) -> Iterator[str]:
    owned: dict[tuple[bytes, int], str] = {}
    for member_id, member in group.members.items():
        session, revoking = timers.get((SESSION, member_id)), timers.get((REVOKE, member_id))
        if session is None or not _is_set(session):
            yield f"{member_id} has no session"
        if (
            member.said.classic is None
            and member.current.state is MemberState.UNREVOKED
            and (revoking is None or not _is_set(revoking))
        ):
            yield f"{member_id} has to give up partitions, without a timer"
        for held in (member.current.assigned, member.current.revoking):
            for topic_id, partitions in held.items():
                for partition in partitions:
                    other = owned.setdefault((topic_id, partition), member_id)
                    if other != member_id:
                        yield f"{other} and {member_id} have the same partition"
        instance = member.said.instance_id
        if instance is not None and group.static.get(instance) != member_id:
            yield f"{instance} is not known to be {member_id}"
    if owned != dict(group.owners):
        yield f"its owners are {dict(group.owners)}, its members have {owned}"
    if not group.target.keys() <= group.members.keys():
        yield "there is a target of a member that is not there"


def _streams(group: StreamsGroup, timers: Any) -> Iterator[str]:
    owned: dict[Task, str] = {}
    for member_id, member in group.members.items():
        session = timers.get((SESSION, member_id))
        if session is None or not _is_set(session):
            yield f"{member_id} has no session"
        for held in (member.current.assigned, member.current.revoking):
            for task in each_task(held.active):
                other = owned.setdefault(task, member_id)
                if other != member_id:
                    yield f"{other} and {member_id} have the same active task"
    if owned != dict(group.owners):
        yield f"its owners are {dict(group.owners)}, its members have {owned}"
    if not group.target.keys() <= group.members.keys():
        yield "there is a target of a member that is not there"


def _shares(group: ConsumerGroup, image: MetadataImage) -> Iterator[str]:
    """Each subscribed partition is assigned to exactly one member."""
    for name in group.subscribed if group.members else ():
        topic = image.topic_named(name)
        shared = (
            sorted(
                index
                for target in group.target.values()
                for index in target.get(topic.topic_id, ())
            )
            if topic is not None
            else []
        )
        if topic is not None and shared != list(range(len(topic.partitions))):
            yield f"{name} has {len(topic.partitions)} partitions, it shares out {shared}"
