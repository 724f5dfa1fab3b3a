"""Views that tests have of a node, without a client: the records of a log, and a group as its
coordinator has it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from raftka.broker.replica.partition import Partition
from raftka.client.blocking.client import ONE_KEY, Client, check
from raftka.client.connection import Address
from raftka.coordinator.protocol import read_assignment
from raftka.security.client_security import PLAINTEXT, ClientSecurity
from raftka.wire.messages.consumer_groups import CONSUMER_GROUP_DESCRIBE, MemberTopicPartitions
from raftka.wire.messages.find_coordinator import FIND_COORDINATOR
from raftka.wire.messages.groups import DESCRIBE_GROUPS
from raftka.wire.messages.offsets import OFFSET_FETCH
from raftka.wire.records import CONTROL, iterate, records_of

READ_BYTES = 1024 * 1024
ANSWER_S = 2.0
DESCRIBE_VERSION, OFFSETS_VERSION = 5, 7  # by name, one group in a request


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
    partitions: tuple[tuple[str, int], ...]  # (topic, partition) that it was given


@dataclass(frozen=True, slots=True)
class GroupView:
    group_id: str
    state: str  # Stable, Empty, PreparingRebalance, CompletingRebalance, Dead
    coordinator: int  # node id
    protocol: str = ""  # the assignor
    members: tuple[MemberView, ...] = ()
    # committed, by (topic, partition)
    offsets: dict[tuple[str, int], int] = field(default_factory=dict)


def committed_records(partition: Partition) -> Iterator[StoredRecord]:
    """Yield the records of a partition that consumers can read."""
    position, end = partition.log.start_offset, partition.high_watermark
    while position < end:
        spans, _ = partition.log.read(position, READ_BYTES, end)
        view = memoryview(b"".join(span.file.read(span.position, span.size) for span in spans))
        if not view:
            return
        for header, batch in iterate(view):
            position = header.last_offset + 1
            if not header.attributes & CONTROL:
                for record in records_of(batch):
                    if record.offset >= partition.log.start_offset:
                        yield StoredRecord(
                            partition.index,
                            record.offset,
                            record.timestamp,
                            record.key,
                            record.value,
                            tuple(record.headers),
                        )


def group_view(address: Address, group_id: str, security: ClientSecurity = PLAINTEXT) -> GroupView:
    """Asked of its coordinator. Raises KafkaError while there is none, and OSError."""
    with Client([address], answer_s=ANSWER_S, security=security) as client:
        found = client.ask_at(
            address, FIND_COORDINATOR, FIND_COORDINATOR.request(key=group_id, key_type=0), ONE_KEY
        )
        check(found.error_code)
        at = (found.host, found.port)
        state, protocol, members = _described(client, at, group_id)
        fetched = client.ask_at(
            at, OFFSET_FETCH, OFFSET_FETCH.request(group_id=group_id, topics=None), OFFSETS_VERSION
        )
    check(fetched.error_code)
    offsets = {
        (topic.name, p.partition_index): p.committed_offset
        for topic in fetched.topics
        for p in topic.partitions
    }
    return GroupView(group_id, state, found.node_id, protocol, tuple(members), offsets)


def _described(client: Client, at: Address, group_id: str) -> tuple[str, str, list[MemberView]]:
    """State, protocol or assignor, members; of a group of either protocol."""
    consumers = client.ask_at(
        at, CONSUMER_GROUP_DESCRIBE, CONSUMER_GROUP_DESCRIBE.request(group_ids=[group_id]), 0
    ).groups[0]
    if not consumers.error_code:
        members = [
            MemberView(
                m.member_id, m.client_id, m.instance_id, tuple(_held(m.assignment.topic_partitions))
            )
            for m in consumers.members
        ]
        return consumers.group_state, consumers.assignor_name, members
    described = client.ask_at(
        at, DESCRIBE_GROUPS, DESCRIBE_GROUPS.request(groups=[group_id]), DESCRIBE_VERSION
    ).groups[0]
    check(described.error_code)
    members = [
        MemberView(
            m.member_id, m.client_id, m.group_instance_id, tuple(_assigned(m.member_assignment))
        )
        for m in described.members
    ]
    return described.group_state, described.protocol_data, members


def _held(topics: Iterable[MemberTopicPartitions]) -> Iterator[tuple[str, int]]:
    return ((topic.topic_name, partition) for topic in topics for partition in topic.partitions)


def _assigned(assignment: bytes) -> Iterator[tuple[str, int]]:
    return (
        (topic, partition)
        for topic, partitions in read_assignment(bytes(assignment)).partitions.items()
        for partition in partitions
    )
