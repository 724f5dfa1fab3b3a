"""Views that tests have of a cluster, without a client: the records of a log, and a group as its
coordinator has it. Called where the nodes run, so no fault and no ACL of a test stands in the way.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, NamedTuple

import trio

from raftka.broker.coordinators.group_service import TOPIC
from raftka.broker.coordinators.partition import CoordinatorPartition
from raftka.broker.node import Node
from raftka.broker.replica.partition import Partition
from raftka.coordinator.commands import DescribeGroup, FetchOffsets
from raftka.coordinator.consumer.commands import DescribeConsumerGroup
from raftka.coordinator.protocol import read_assignment
from raftka.log.segments.transaction_index import AbortedTransaction
from raftka.wire.errors import Code, KafkaError
from raftka.wire.records import CONTROL, TRANSACTIONAL, BatchHeader, iterate, records_of

READ_BYTES = 1024 * 1024
ANSWER_S = 2.0
DEAD = "Dead"  # the state of a group that is not there
NO_NODE = -1

Where = tuple[str, int]  # topic, partition
Value = Any  # of a record, as a test reads it
# how: bytes, str, a module with `loads` such as json, or a function
Reading = type[bytes] | type[str] | ModuleType | Callable[[bytes], Value]


class StoredRecord(NamedTuple):
    partition: int
    offset: int
    timestamp: int  # ms
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class MemberView:
    member_id: str
    client_id: str
    instance_id: str | None
    partitions: tuple[Where, ...]  # that it was given


@dataclass(frozen=True, slots=True)
class GroupView:
    group_id: str
    # Stable, Empty, Dead; of the classic protocol PreparingRebalance, CompletingRebalance; of the
    # new one Assigning, Reconciling
    state: str
    coordinator: int  # node id; NO_NODE before the first group
    protocol: str = ""  # the assignor
    members: tuple[MemberView, ...] = ()
    offsets: dict[Where, int] = field(default_factory=dict)  # committed

    def __str__(self) -> str:
        """The state and the members, in one line."""
        members = "; ".join(
            f"{member.member_id}: "
            + (", ".join(f"{topic}-{partition}" for topic, partition in member.partitions) or "-")
            for member in self.members
        )
        count = len(self.members)
        return f"{self.state} with {count} member{'s' * (count != 1)}" + (
            f" ({members})" if members else ""
        )


# records


def committed_records(
    partition: Partition, start: int = 0, *, read_committed: bool = False
) -> Iterator[StoredRecord]:
    """Yield the records of a partition that consumers can read, from an offset on. Under
    `read_committed` without those of open and aborted transactions.
    """
    log = partition.log
    position = start = max(start, log.start_offset)
    end = partition.last_stable_offset if read_committed else partition.high_watermark
    aborted = log.aborted.find(position, end) if read_committed and position < end else []
    while position < end:
        spans, _ = log.read(position, READ_BYTES, end)
        view = memoryview(b"".join(span.file.read(span.position, span.size) for span in spans))
        if not view:
            return
        for header, batch in iterate(view):
            position = header.last_offset + 1
            if header.attributes & CONTROL or _is_aborted(header, aborted):
                continue
            for record in records_of(batch):
                if record.offset >= start:
                    yield StoredRecord(
                        partition.index,
                        record.offset,
                        record.timestamp,
                        record.key,
                        record.value,
                        tuple(record.headers),
                    )


def _is_aborted(header: BatchHeader, aborted: Sequence[AbortedTransaction]) -> bool:
    return bool(header.attributes & TRANSACTIONAL) and any(
        each.producer_id == header.producer_id
        and each.first_offset <= header.base_offset < each.last_offset
        for each in aborted
    )


def describe_count(records: Sequence[StoredRecord], topic: str) -> str:
    """Say how many records there are, and how many in each partition that has some."""
    by_partition = sorted(Counter(record.partition for record in records).items())
    return f"{len(records)}" + "".join(
        f", {topic}-{index}: {number}" for index, number in by_partition
    )


def as_values(records: Iterable[StoredRecord], topic: str, as_: Reading) -> list[Value]:
    """Raises ValueError for a value that cannot be read."""
    read = _reader(as_)
    values = []
    for record in records:
        try:
            values.append(None if record.value is None else read(record.value))
        except ValueError as error:
            raise ValueError(
                f"{topic}-{record.partition} at offset {record.offset}: {error}"
            ) from error
    return values


def _reader(as_: Reading) -> Callable[[bytes], Value]:
    if as_ is bytes:
        return bytes
    if as_ is str:
        return bytes.decode
    if isinstance(as_, ModuleType):
        loads: Callable[[bytes], Value] = as_.loads
        return loads
    return as_


# groups


async def read_group(nodes: Iterable[Node], group_id: str) -> GroupView:
    """Ask the group's coordinator; before the first group of the cluster, and its topic, all groups
    are Dead. Raises KafkaError while there is no coordinator, or while it cannot commit its answer.
    """
    nodes = list(nodes)
    if not any(TOPIC in node.image.topic_ids for node in nodes):
        return GroupView(group_id, DEAD, NO_NODE)
    node, coordinator = _coordinator(nodes, group_id)
    try:
        consumers = await _ask(coordinator, DescribeConsumerGroup(group_id))
    except KafkaError as error:
        if error.code is not Code.GROUP_ID_NOT_FOUND:
            raise
        state, protocol, members = await _read_classic(coordinator, group_id)
    else:
        topics = node.image.topics
        state, protocol = consumers.state, consumers.assignor
        members = tuple(
            MemberView(
                member.member_id,
                member.client_id,
                member.instance_id,
                tuple(
                    (topics[topic_id].name, partition)
                    for topic_id, partitions in member.assignment.items()
                    if topic_id in topics
                    for partition in partitions
                ),
            )
            for member in consumers.members
        )
    fetched = await _ask(coordinator, FetchOffsets(group_id, None))
    offsets = {
        (topic.name, each.partition): each.offset
        for topic in fetched.topics
        for each in topic.partitions
    }
    return GroupView(group_id, state, node.node_id, protocol, members, offsets)


async def _read_classic(
    coordinator: CoordinatorPartition, group_id: str
) -> tuple[str, str, tuple[MemberView, ...]]:
    """Return state, assignor and members; Dead for a group that is not there."""
    try:
        described = await _ask(coordinator, DescribeGroup(group_id))
    except KafkaError as error:
        if error.code is not Code.GROUP_ID_NOT_FOUND:
            raise
        return DEAD, "", ()
    members = tuple(
        MemberView(
            member.member_id,
            member.client_id,
            member.instance_id,
            tuple(
                (topic, partition)
                for topic, partitions in read_assignment(member.assignment).partitions.items()
                for partition in partitions
            ),
        )
        for member in described.members
    )
    return described.state, described.protocol_name, members


def _coordinator(nodes: Iterable[Node], group_id: str) -> tuple[Node, CoordinatorPartition]:
    """Return the node that coordinates the group, by the latest leader's epoch of those that claim
    it. Raises COORDINATOR_NOT_AVAILABLE.
    """
    found = []
    for node in nodes:
        try:
            found.append((node, node.groups.runtime.find(group_id)))
        except KafkaError:
            continue
    if not found:
        raise KafkaError(
            Code.COORDINATOR_NOT_AVAILABLE, f"no node coordinates the group {group_id!r}"
        )
    return max(found, key=lambda pair: pair[1].epoch)


async def _ask(coordinator: CoordinatorPartition, command: object) -> Value:
    """Raises KafkaError: the coordinator's, or that it was silent for ANSWER_S seconds."""
    answers: list[object] = []
    answered = trio.Event()

    def take(answer: object) -> None:
        answers.append(answer)
        answered.set()

    coordinator.submit(command, take)
    with trio.move_on_after(ANSWER_S):
        await answered.wait()
    if not answers:
        raise KafkaError(Code.REQUEST_TIMED_OUT, f"no answer for {ANSWER_S:g} s")
    if isinstance(answers[0], KafkaError):
        raise answers[0]
    return answers[0]
