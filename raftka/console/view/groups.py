"""Groups, the offsets that they have committed, and their lag."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from raftka.client.blocking.client import Where
from raftka.client.blocking.groups import CLASSIC, SHARE
from raftka.console.limits import GROUPS_OF_REQUEST
from raftka.console.view.brokers import Brokers
from raftka.console.view.cached import Effort
from raftka.console.view.ends import Offsets
from raftka.console.view.metadata import Metadata
from raftka.wire.errors import name_of_code
from raftka.wire.messages.groups import LIST_GROUPS
from raftka.wire.messages.offsets import OFFSET_FETCH, OffsetFetchRequest

BY_NAME = 9  # the last version of OffsetFetch with names of topics


class Group(NamedTuple):
    """`type`: classic, consumer, share or streams. `coordinator`: the id of its broker."""

    group_id: str
    type: str
    state: str
    protocol: str
    coordinator: int


class Groups(NamedTuple):
    of: Mapping[str, Group]
    missing: Mapping[int, str]  # brokers whose groups are not there, and why


class Committed(NamedTuple):
    """Offsets by group and partition. `failed`: groups whose offsets are not known, and why."""

    of: Mapping[str, Mapping[Where, int]]
    failed: Mapping[str, str]
    missing: Mapping[int, str]


class Lags(NamedTuple):
    """Records between what groups have committed and the ends, by group, by topic (the sum of its
    groups), and by topic and group. Only what has been committed counts.
    """

    by_group: Mapping[str, int]
    by_topic: Mapping[str, int]
    of_topic: Mapping[str, Mapping[str, int]]
    missing: Mapping[int, str]


def read_groups(brokers: Brokers, metadata: Metadata, effort: Effort) -> Groups:
    """Ask every broker for the groups that it coordinates."""
    rows = dict.fromkeys(metadata.brokers, LIST_GROUPS.request())
    answers = brokers.ask_each(metadata.addresses, LIST_GROUPS, rows, effort)
    missing = {**metadata.missing, **answers.missing}
    found: dict[str, Group] = {}
    for node_id, answer in answers.of.items():
        if answer.error_code:
            missing[node_id] = name_of_code(answer.error_code)
        for each in answer.groups:
            found[each.group_id] = Group(
                each.group_id,
                each.group_type.lower() or CLASSIC,
                each.group_state,
                each.protocol_type,
                node_id,
            )
    return Groups(found, missing)


def read_committed(
    brokers: Brokers,
    metadata: Metadata,
    groups: Groups,
    group_ids: Iterable[str] | None,
    effort: Effort,
) -> Committed:
    """Ask the coordinators of these groups, or of all, some hundred groups at once. Share groups
    commit no offsets.
    """
    wanted = groups.of if group_ids is None else dict.fromkeys(group_ids)
    found: dict[str, Mapping[Where, int]] = {}
    failed: dict[str, str] = {}
    missing = dict(groups.missing)
    waiting: dict[int, list[str]] = {}
    for group_id in wanted:
        group = groups.of.get(group_id)
        if group is None:
            failed[group_id] = "GROUP_ID_NOT_FOUND"
        elif group.type != SHARE:
            waiting.setdefault(group.coordinator, []).append(group_id)
    size = GROUPS_OF_REQUEST.value
    while waiting:
        rows = {node_id: _question(own[:size]) for node_id, own in waiting.items()}
        answers = brokers.ask_each(
            metadata.addresses, OFFSET_FETCH, rows, effort, BY_NAME, bulk=group_ids is None
        )
        missing |= answers.missing
        for answer in answers.of.values():
            for one in answer.groups:
                if one.error_code:
                    failed[one.group_id] = name_of_code(one.error_code)
                    continue
                found[one.group_id] = {
                    (topic.name, each.partition_index): each.committed_offset
                    for topic in one.topics
                    for each in topic.partitions
                    if each.committed_offset >= 0 and not each.error_code
                }
        waiting = {
            node_id: own[size:]
            for node_id, own in waiting.items()
            if len(own) > size and node_id in answers.of
        }
    return Committed(found, failed, missing)


def _question(group_ids: Sequence[str]) -> OffsetFetchRequest:
    groups = [OFFSET_FETCH.request.groups(group_id=each, topics=None) for each in group_ids]
    return OFFSET_FETCH.request(groups=groups)


def lags_of(committed: Committed, ends: Offsets) -> Lags:
    """Compare offsets with ends that were read after them. A partition without a known end is left
    out.
    """
    by_group: dict[str, int] = {}
    by_topic: dict[str, int] = {}
    of_topic: dict[str, dict[str, int]] = {}
    last = ends.of
    for group_id, offsets in committed.of.items():
        total = 0
        for where, offset in offsets.items():
            if (end := last.get(where)) is None:
                continue
            lag = end - offset if end > offset else 0
            total += lag
            groups = of_topic.setdefault(where[0], {})
            groups[group_id] = groups.get(group_id, 0) + lag
            by_topic[where[0]] = by_topic.get(where[0], 0) + lag
        by_group[group_id] = total
    return Lags(by_group, by_topic, of_topic, {**committed.missing, **ends.missing})
