"""Changes of a group's offsets, with a preview: offsets that would move, members in the way."""

import shlex
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from raftka.client.blocking.client import Client, Where, check
from raftka.client.blocking.connection import ClientError
from raftka.client.blocking.groups import (
    committed,
    delete_group,
    delete_offsets,
    describe_groups,
    find_targets,
)
from raftka.client.blocking.positions import Position
from raftka.client.blocking.share_groups import (
    delete_share_offsets,
    is_share_group,
    move_offsets,
    offsets_of_group,
    share_offsets,
)
from raftka.console.groups.history import name_member
from raftka.wire.errors import Code, KafkaError, name_of_code

PLACES = ("earliest", "latest", "offset", "back", "time", "shift", "duration")
WITHOUT_VALUE = ("earliest", "latest")


class BadChange(ClientError):
    """A change that cannot be asked for so. The text says why."""


class Move(NamedTuple):
    where: Where
    before: int | None
    after: int


class Preview(NamedTuple):
    moves: Sequence[Move]
    members: Sequence[str]  # that must leave first
    command: str  # that does the same


def position_of(to: str, value: int | None, now_s: float) -> tuple[Position, list[str]]:
    """Return the place, and the options of the command that mean it. `value`: an offset; records
    before the end, for `back`; records to go on, for `shift`; ms since 1970, for `time`; seconds
    ago, for `duration`. Raises BadChange.
    """
    if (value is None) != (to in WITHOUT_VALUE):
        raise BadChange(f"to {to} has {'no' if to in WITHOUT_VALUE else 'a'} value")
    number = value or 0
    if number < 0 and to != "shift":
        raise BadChange(f"the value of {to} is not below 0")
    match to:
        case "earliest":
            return Position("start"), ["--to", "start"]
        case "latest":
            return Position("end"), ["--to", "end"]
        case "back":
            return Position("back", number), ["--to", f"-{number}"]
        case "shift":
            return Position("by", number), ["--by", str(number)]
        case "duration":
            return Position("time", round((now_s - number) * 1000)), ["--to", f"{number}s"]
        case "time":
            try:
                moment = datetime.fromtimestamp(number / 1000, UTC)
            except (ValueError, OverflowError, OSError):
                raise BadChange(f"{number} is no time in ms since 1970") from None
            return Position("time", number), ["--to", moment.isoformat(timespec="milliseconds")]
        case _:
            return Position("offset", number), ["--to", str(number)]


def preview_reset(
    client: Client,
    group_id: str,
    topics: Sequence[str],
    partitions: Sequence[int],
    to: str,
    value: int | None,
) -> Preview:
    """Return the offsets that a reset would move. `topics`: empty for all of the group's topics.
    `partitions`: empty for all of them. Raises BadChange, KafkaError, OSError.
    """
    position, options = position_of(to, value, time.time())
    before = offsets_of_group(client, group_id)
    names = list(dict.fromkeys(topics)) or sorted({topic for topic, _ in before})
    if not names:
        raise BadChange(f"{group_id} has no offsets: name the topics")
    there = []
    for topic in client.metadata(names).topics:
        check(topic.error_code, topic.name)
        there += [(str(topic.name), each.partition_index) for each in topic.partitions]
    wanted = sorted(where for where in there if not partitions or where[1] in partitions)
    if lacking := sorted(set(partitions) - {partition for _, partition in wanted}):
        raise BadChange(f"there is no partition {lacking[0]}")
    after = find_targets(client, wanted, position, before)
    words = ["raftka", "groups", "reset-offsets", group_id, *topics]
    for partition in partitions:
        words += ["--partition", str(partition)]
    return Preview(
        [Move(where, before.get(where), after[where]) for where in wanted],
        members_in_the_way(client, group_id),
        shlex.join([*words, *options]),
    )


def members_in_the_way(client: Client, group_id: str) -> list[str]:
    described, _ = describe_groups(client, [group_id])
    group = described.get(group_id)
    return [name_member(each) for each in group.members] if group is not None else []


def reset(client: Client, group_id: str, offsets: Mapping[Where, int]) -> dict[Where, str]:
    """Move the group's offsets; return why partitions were refused. Raises KafkaError for a group
    with members.
    """
    try:
        refused = move_offsets(client, group_id, offsets, {})
    except KafkaError as error:
        if error.code is not Code.NON_EMPTY_GROUP:
            raise
        raise _has_members(client, group_id) from None
    return _refusals(client, group_id, refused, len(offsets))


def delete_some(
    client: Client, group_id: str, topics: Sequence[str], partitions: Sequence[int]
) -> tuple[int, dict[Where, str]]:
    """Delete the offsets of these topics, or of some partitions of them; return how many were asked
    for, and why some were refused. Raises KafkaError.
    """
    is_share = is_share_group(client, group_id)
    offsets = share_offsets(client, group_id) if is_share else committed(client, group_id)
    wheres = [
        where
        for where in sorted(offsets)
        if where[0] in topics and (not partitions or where[1] in partitions)
    ]
    if not wheres:
        raise KafkaError(Code.RESOURCE_NOT_FOUND, f"{group_id} has no offset there")
    if is_share:
        if partitions:
            text = f"{group_id} is a share group: offsets of whole topics are deleted"
            raise KafkaError(Code.INVALID_REQUEST, text)
        bad = delete_share_offsets(client, group_id, topics)
        refused = {where: bad[where[0]] for where in wheres if where[0] in bad}
    else:
        refused = delete_offsets(client, group_id, wheres)
    return len(wheres), {
        where: name_of_code(code)
        if code != Code.GROUP_SUBSCRIBED_TO_TOPIC
        else "a member of the group reads the topic: stop its consumers first"
        for where, code in refused.items()
    }


def delete(client: Client, group_id: str) -> None:
    """Delete the group with its offsets. Raises KafkaError."""
    code = delete_group(client, group_id)
    if code == Code.NON_EMPTY_GROUP:
        raise _has_members(client, group_id)
    check(code, group_id)


def _refusals(
    client: Client, group_id: str, refused: Mapping[Where, int], asked: int
) -> dict[Where, str]:
    # brokers refuse commits from outside so, while a group has members
    if len(refused) == asked and set(refused.values()) & {
        Code.UNKNOWN_MEMBER_ID,
        Code.NON_EMPTY_GROUP,
    }:
        raise _has_members(client, group_id)
    return {where: name_of_code(code) for where, code in refused.items()}


def _has_members(client: Client, group_id: str) -> KafkaError:
    names = ", ".join(members_in_the_way(client, group_id)[:5])
    return KafkaError(
        Code.NON_EMPTY_GROUP,
        f"{group_id} has members{f' ({names})' if names else ''}: stop its consumers first",
    )
