"""Offsets of groups: committed, fetched, deleted, expired. A commit to a group that nobody has
joined makes a *simple* group, of offsets alone.

Knows no log; what changes offsets is records that are replayed.
"""

from collections.abc import Collection, Iterable, Iterator

from raftka.coordinator.classic.group import CONSUMER, ClassicGroup, State
from raftka.coordinator.classic.members import check_member
from raftka.coordinator.commands import (
    NO_RETENTION_MS,
    CommitOffsets,
    CommitTopic,
    DeleteOffsets,
    FetchedPartition,
    FetchedTopic,
    FetchOffsets,
    FetchTopic,
    GroupSettings,
    OffsetsCommitted,
    OffsetsDeleted,
    OffsetsFetched,
)
from raftka.coordinator.consumer.group import ConsumerGroup
from raftka.coordinator.machine import Context, Outcome, Record, Steps, Ticket, Topics
from raftka.coordinator.offset_checks import (
    check_consumer_commit,
    check_member_fetch,
    check_streams_commit,
)
from raftka.coordinator.records import (
    LONGEST_STRING,
    NO_TIME,
    CommittedOffset,
    offset_key,
    offset_prefix,
    offset_topic_prefix,
    offset_value,
)
from raftka.coordinator.streams.group import StreamsGroup
from raftka.coordinator.timers import Timers
from raftka.wire.errors import Code, KafkaError
from raftka.wire.rows import ZERO_UUID

Group = ClassicGroup | ConsumerGroup | StreamsGroup

AT_ONCE = 10  # offsets

# A tombstone of what can not be committed: no topic is without a name.
NOTHING = Record(offset_key(offset_topic_prefix(offset_prefix(""), ""), 0), None)

# committing


def commit(
    group: Group | None,
    command: CommitOffsets,
    ticket: Ticket,
    settings: GroupSettings,
    context: Context,
    timers: Timers,
) -> Outcome:
    check = check_commit if command.producer is None else check_transactional_commit
    try:
        check(group, command, timers, context.now, context.topics)
    except KafkaError as error:
        return Outcome((), ((ticket, refuse_commit(command, error.code, context.topics)),))
    records: list[Record] = []
    prefix = offset_prefix(command.group_id) if group is None else group.offset_prefix
    expire_ms = (
        NO_TIME
        if command.retention_ms == NO_RETENTION_MS
        else context.wall_ms + command.retention_ms
    )
    most = settings.offset_metadata_max_bytes
    errors = tuple(
        [
            _commit_topic(prefix, topic, expire_ms, most, context, records)
            for topic in command.topics
        ]
    )
    return Outcome(records, ((ticket, OffsetsCommitted(errors)),), producer=command.producer)


def _commit_topic(
    prefix: bytes,
    topic: CommitTopic,
    expire_ms: int,
    most: int,
    context: Context,
    records: list[Record],
) -> tuple[Code, ...]:
    """Hot: what all its partitions have in common is made once."""
    name, partitions = topic
    if name is None:
        return (Code.UNKNOWN_TOPIC_ID,) * len(partitions)
    count = context.topics.partition_count(name)
    topic_id = context.topics.topic_id(name) or ZERO_UUID
    prefix = offset_topic_prefix(prefix, name)
    codes = []
    for partition, offset, leader_epoch, metadata in partitions:
        if not 0 <= partition < count:
            codes.append(Code.UNKNOWN_TOPIC_OR_PARTITION)
        elif metadata and (len(metadata) > most or len(metadata.encode()) > LONGEST_STRING):
            codes.append(Code.OFFSET_METADATA_TOO_LARGE)
        else:
            value = offset_value(
                offset, leader_epoch, metadata or "", context.wall_ms, expire_ms, topic_id
            )
            records.append(Record(offset_key(prefix, partition), value))
            codes.append(Code.NONE)
    return tuple(codes)


def check_commit(
    group: Group | None, command: CommitOffsets, timers: Timers, now: float, topics: Topics
) -> None:
    """Raises KafkaError. A member's commit says that it is alive, in a classic group."""
    if isinstance(group, ConsumerGroup):
        check_consumer_commit(group, command, topics)
        return
    if isinstance(group, StreamsGroup):
        check_streams_commit(group, command)
        return
    if group is None:
        if command.generation_id >= 0:
            raise KafkaError(
                Code.GROUP_ID_NOT_FOUND if command.may_say_not_found else Code.ILLEGAL_GENERATION
            )
        return
    if command.generation_id < 0 and group.state is State.EMPTY:
        return
    if command.generation_id < 0 and not command.member_id and command.instance_id is None:
        raise KafkaError(Code.UNKNOWN_MEMBER_ID)
    member = check_member(group, command.member_id, command.instance_id)
    if command.generation_id != group.generation_id:
        raise KafkaError(Code.ILLEGAL_GENERATION)
    if group.state is State.COMPLETING:
        raise KafkaError(Code.REBALANCE_IN_PROGRESS)
    timers.set(member.session, now + member.session_timeout_ms / 1000)


def check_transactional_commit(
    group: Group | None, command: CommitOffsets, timers: Timers, now: float, topics: Topics
) -> None:
    """Raises KafkaError. A producer may name a member of the group, which is then checked
    (KIP-447); it may commit while members are assigned.
    """
    if group is None:
        if command.generation_id >= 0:
            raise KafkaError(
                Code.GROUP_ID_NOT_FOUND if command.may_say_not_found else Code.ILLEGAL_GENERATION
            )
        return
    if command.generation_id < 0 and not command.member_id and command.instance_id is None:
        return
    if not isinstance(group, ClassicGroup):
        try:
            check_commit(group, command, timers, now, topics)
        except KafkaError as error:
            raise (
                KafkaError(Code.ILLEGAL_GENERATION)
                if error.code is Code.STALE_MEMBER_EPOCH and not command.may_say_not_found
                else error
            ) from None
        return
    member = check_member(group, command.member_id, command.instance_id)
    if command.generation_id != group.generation_id:
        raise KafkaError(Code.ILLEGAL_GENERATION)
    timers.set(member.session, now + member.session_timeout_ms / 1000)


def refuse_commit(command: CommitOffsets, code: Code, topics: Topics) -> OffsetsCommitted:
    """Return the answer to a commit that is refused as a whole: `code` for each partition, or its
    own error for one that no group could commit.
    """
    return OffsetsCommitted(
        tuple(
            [
                tuple(
                    [
                        _of_no_topic(topic, each.partition, topics) or code
                        for each in topic.partitions
                    ]
                )
                for topic in command.topics
            ]
        )
    )


def _of_no_topic(topic: CommitTopic, partition: int, topics: Topics) -> Code:
    if topic.name is None:
        return Code.UNKNOWN_TOPIC_ID
    return (
        Code.NONE
        if 0 <= partition < topics.partition_count(topic.name)
        else Code.UNKNOWN_TOPIC_OR_PARTITION
    )


# fetching


def fetch(
    group: Group | None,
    command: FetchOffsets,
    ticket: Ticket,
    context: Context,
    pending: Collection[tuple[str, int]] = (),
) -> Steps[Outcome]:
    """A coordinator that nobody vouches for asks its ISR, by a record: were another the coordinator
    by now, that would never be committed.
    """
    offsets = yield from _offsets(group, command, context.topics)
    if command.require_stable and pending:
        offsets = OffsetsFetched(tuple([_stable(topic, pending) for topic in offsets.topics]))
    return Outcome((), ((ticket, offsets),), confirm=None if context.vouched_for else NOTHING)


def _offsets(group: Group | None, command: FetchOffsets, topics: Topics) -> Steps[OffsetsFetched]:
    """Never an error of a classic group's; who has not committed reads -1."""
    if isinstance(group, ConsumerGroup | StreamsGroup):
        check_member_fetch(group, command)
    if command.topics is None:
        return OffsetsFetched(
            tuple((yield from _all_of(group, topics))) if group is not None else ()
        )
    return OffsetsFetched(tuple([_fetched(group, topic, topics) for topic in command.topics]))


def _all_of(group: Group, topics: Topics) -> Steps[list[FetchedTopic]]:
    all_topics = []
    for name, partitions in group.offsets.items():
        topic_id = topics.topic_id(name)
        found = []
        for partition, committed in partitions.items():
            if _is_current(committed, topic_id):
                found.append(_shown(partition, committed))
            if len(found) % AT_ONCE == 0:
                yield
        if found:
            all_topics.append(FetchedTopic(name, tuple(found)))
    return all_topics


def _fetched(group: Group | None, topic: FetchTopic, topics: Topics) -> FetchedTopic:
    name, partitions = topic
    if name is None:
        return FetchedTopic(
            None,
            tuple([FetchedPartition(each, error=Code.UNKNOWN_TOPIC_ID) for each in partitions]),
        )
    known = group.offsets.get(name) if group is not None else None
    if known is None:
        return FetchedTopic(name, tuple([FetchedPartition(each) for each in partitions]))
    topic_id = topics.topic_id(name)
    found = [(each, known.get(each)) for each in partitions]
    return FetchedTopic(
        name,
        tuple(
            [
                FetchedPartition(each)
                if committed is None or not _is_current(committed, topic_id)
                else _shown(each, committed)
                for each, committed in found
            ]
        ),
    )


def _stable(topic: FetchedTopic, pending: Collection[tuple[str, int]]) -> FetchedTopic:
    """Return the topic with UNSTABLE_OFFSET_COMMIT for partitions whose offset a transaction has
    pending.
    """
    partitions = [
        FetchedPartition(each.partition, error=Code.UNSTABLE_OFFSET_COMMIT)
        if (topic.name, each.partition) in pending
        else each
        for each in topic.partitions
    ]
    return FetchedTopic(topic.name, tuple(partitions))


def _is_current(committed: CommittedOffset, topic_id: bytes | None) -> bool:
    """Not of an earlier topic of that name, whose deletion is about to take the offset away."""
    return topic_id is None or committed.topic_id in (topic_id, ZERO_UUID)


def _shown(partition: int, committed: CommittedOffset) -> FetchedPartition:
    return FetchedPartition(partition, committed.offset, committed.leader_epoch, committed.metadata)


# deleting


def delete(
    group: Group | None,
    command: DeleteOffsets,
    topics: Topics,
    pending: Collection[tuple[str, int]] = (),
) -> tuple[list[Record], OffsetsDeleted]:
    """Raises KafkaError."""
    if not command.group_id:
        raise KafkaError(Code.INVALID_GROUP_ID)
    if group is None:
        raise KafkaError(Code.GROUP_ID_NOT_FOUND)
    if (
        isinstance(group, ClassicGroup)
        and group.state is not State.EMPTY
        and group.protocol_type != CONSUMER
    ):
        raise KafkaError(Code.NON_EMPTY_GROUP)  # what its members read cannot be told
    records: list[Record] = []
    errors = [
        tuple([_delete(group, name, each, topics, records, pending) for each in partitions])
        for name, partitions in command.topics
    ]
    return records, OffsetsDeleted(tuple(errors))


def _delete(
    group: Group,
    name: str,
    partition: int,
    topics: Topics,
    records: list[Record],
    pending: Collection[tuple[str, int]],
) -> Code:
    if not 0 <= partition < topics.partition_count(name):
        return Code.UNKNOWN_TOPIC_OR_PARTITION
    if group.subscribes(name):
        return Code.GROUP_SUBSCRIBED_TO_TOPIC
    if partition in group.offsets.get(name, ()) or (name, partition) in pending:
        records.append(tombstone(group, name, partition))
    return Code.NONE


def tombstone(group: Group, name: str, partition: int) -> Record:
    return Record(offset_key(offset_topic_prefix(group.offset_prefix, name), partition), None)


def tombstones(group: Group, partitions: Iterable[tuple[str, int]]) -> Steps[list[Record]]:
    records = []
    for name, partition in partitions:
        records.append(tombstone(group, name, partition))
        if len(records) % AT_ONCE == 0:
            yield
    return records


def all_partitions(group: Group) -> Iterator[tuple[str, int]]:
    return (
        (name, partition) for name, partitions in group.offsets.items() for partition in partitions
    )


def of_deleted_topic(
    group: Group, topic_ids: Collection[bytes], name: str
) -> Iterator[tuple[str, int]]:
    """A topic of the same name may be there again, with offsets of its own."""
    gone = {*topic_ids, ZERO_UUID}
    return (
        (name, partition)
        for partition, committed in group.offsets.get(name, {}).items()
        if committed.topic_id in gone
    )


# expiring


def expired(
    group: Group, settings: GroupSettings, wall_ms: int, pending: Collection[tuple[str, int]] = ()
) -> Steps[list[tuple[str, int]]]:
    """An empty group keeps its offsets from the time when it became empty, a simple one each from
    its commit; a stable group of consumers keeps those of the topics it subscribes to. A version 1
    commit has brought its own time.
    """
    gone, looked_at = [], 0
    for name, partitions in group.offsets.items():
        if not _may_expire(group, name):
            continue
        for partition, committed in partitions.items():
            if committed.expire_timestamp_ms != NO_TIME:
                over = wall_ms >= committed.expire_timestamp_ms
            else:
                over = wall_ms - _since(group, committed) >= settings.offsets_retention_ms
            if over and (name, partition) not in pending:
                gone.append((name, partition))
            looked_at += 1
            if looked_at % AT_ONCE == 0:
                yield
    return gone


def _may_expire(group: Group, topic: str) -> bool:
    if not isinstance(group, ClassicGroup):
        return not group.subscribes(topic)
    if group.protocol_type is None or group.state is State.EMPTY:
        return True
    return (
        group.state is State.STABLE
        and group.subscribed is not None
        and topic not in group.subscribed
    )


def _since(group: Group, committed: CommittedOffset) -> int:
    if (
        isinstance(group, ClassicGroup)
        and group.state is State.EMPTY
        and group.protocol_type is not None
        and group.state_timestamp_ms != NO_TIME
    ):
        return group.state_timestamp_ms
    return committed.commit_timestamp_ms
