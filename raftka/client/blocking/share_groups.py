"""Start offsets of share groups (KIP-932), as an administrator sees and changes them."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from raftka.client.blocking.client import Client, Where, by_topic, check
from raftka.client.blocking.groups import (
    SHARES,
    commit_offsets,
    committed,
    describe_groups_by,
)
from raftka.wire.messages.share_offsets import (
    ALTER_SHARE_GROUP_OFFSETS,
    DELETE_SHARE_GROUP_OFFSETS,
    DESCRIBE_SHARE_GROUP_OFFSETS,
)

UNKNOWN = -1  # a start offset or a lag


class ShareOffset(NamedTuple):
    """Of a share partition. None: it is not known yet."""

    start: int | None  # the first offset that is not done
    lag: int | None  # records that are not done


def is_share_group(client: Client, group: str) -> bool:
    return group in describe_groups_by(client, SHARES, [group])[0]


def offsets_of_group(client: Client, group: str) -> dict[Where, int]:
    """Return the committed offsets of a group, or the start offsets of a share group."""
    if not is_share_group(client, group):
        return committed(client, group)
    starts = share_offsets(client, group).items()
    return {where: offset.start for where, offset in starts if offset.start is not None}


def move_offsets(
    client: Client, group: str, offsets: Mapping[Where, int], metadata: Mapping[Where, str]
) -> dict[Where, int]:
    """Commit offsets, or set the start offsets of a share group; return the error codes of the
    partitions that were refused.
    """
    if is_share_group(client, group):
        return alter_share_offsets(client, group, offsets)
    return commit_offsets(client, group, offsets, metadata)


def share_offsets(client: Client, group: str) -> dict[Where, ShareOffset]:
    """Return the offsets of the group's share partitions. Raises KafkaError."""
    row = DESCRIBE_SHARE_GROUP_OFFSETS.request.groups
    request = DESCRIBE_SHARE_GROUP_OFFSETS.request(groups=[row(group_id=group, topics=None)])
    found = {}
    for answer in client.ask_coordinator(group, DESCRIBE_SHARE_GROUP_OFFSETS, request).groups:
        check(answer.error_code, answer.error_message or group)
        for topic in answer.topics:
            for each in topic.partitions:
                check(each.error_code, f"{topic.topic_name}-{each.partition_index}")
                found[topic.topic_name, each.partition_index] = ShareOffset(
                    each.start_offset if each.start_offset != UNKNOWN else None,
                    each.lag if each.lag != UNKNOWN else None,
                )
    return found


def alter_share_offsets(
    client: Client, group: str, offsets: Mapping[Where, int]
) -> dict[Where, int]:
    """Set the start offsets of a group without members; return the error codes of the partitions
    that were refused. Raises KafkaError when the whole request is.
    """
    rows = ALTER_SHARE_GROUP_OFFSETS.request.topics
    topics = by_topic(
        (where, rows.partitions(partition_index=where[1], start_offset=offset))
        for where, offset in offsets.items()
    )
    request = ALTER_SHARE_GROUP_OFFSETS.request(
        group_id=group,
        topics=[rows(topic_name=name, partitions=own) for name, own in topics.items()],
    )
    answer = client.ask_coordinator(group, ALTER_SHARE_GROUP_OFFSETS, request)
    check(answer.error_code, answer.error_message or group)
    return {
        (topic.topic_name, each.partition_index): each.error_code
        for topic in answer.responses
        for each in topic.partitions
        if each.error_code
    }


def delete_share_offsets(client: Client, group: str, topics: Iterable[str]) -> dict[str, int]:
    """Delete the offsets of whole topics; return the error codes of those that were refused. Raises
    KafkaError when the whole request is.
    """
    rows = DELETE_SHARE_GROUP_OFFSETS.request.topics
    request = DELETE_SHARE_GROUP_OFFSETS.request(
        group_id=group, topics=[rows(topic_name=name) for name in topics]
    )
    answer = client.ask_coordinator(group, DELETE_SHARE_GROUP_OFFSETS, request)
    check(answer.error_code, answer.error_message or group)
    return {each.topic_name: each.error_code for each in answer.responses if each.error_code}
