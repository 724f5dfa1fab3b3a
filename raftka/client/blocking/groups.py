"""Groups as an administrator sees and changes them: members, committed offsets, ends of partitions,
new offsets. Offsets of share groups are in share_groups.py.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from raftka.client.blocking.client import (
    NOT_COORDINATOR,
    Client,
    Patience,
    Where,
    by_topic,
    check,
    is_retriable,
    list_offsets_request,
)
from raftka.client.blocking.connection import Broken, ClientError, Unsupported
from raftka.client.blocking.coordinators import ANSWER_S, ask_coordinators, find_coordinators
from raftka.client.blocking.every_broker import ask_brokers
from raftka.client.blocking.member import BY_NAME, commit_request
from raftka.client.blocking.positions import Bounds, Position, offsets_at
from raftka.coordinator.protocol import read_assignment, read_subscription
from raftka.wire.errors import Code, name_of_code
from raftka.wire.messages import consumer_groups, share_groups, streams_groups
from raftka.wire.messages.groups import (
    DELETE_GROUPS,
    DESCRIBE_GROUPS,
    DescribedGroupMember,
)
from raftka.wire.messages.list_offsets import LATEST, LIST_OFFSETS
from raftka.wire.messages.offsets import (
    OFFSET_COMMIT,
    OFFSET_DELETE,
    OFFSET_FETCH,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from raftka.wire.schema import AnyApi

MOST_NAMED = 5  # partitions of a sentence
# types of groups, as ListGroups has them
CLASSIC, CONSUMER, SHARE, STREAMS = "classic", "consumer", "share", "streams"
DEAD = "Dead"  # the state of a classic group that is not there
OLD_MEMBER = 0  # member_type of a group of the new protocol: the member speaks the classic one


class Tasks(NamedTuple):
    """Of a member of a streams group: ids of tasks, such as 0_3 of subtopology 0 and partition
    3.
    """

    active: Sequence[str]
    standby: Sequence[str]
    warmup: Sequence[str]


class Subtopology(NamedTuple):
    """Names of topics: those that its tasks read and write, and those of its state."""

    id: str
    source_topics: Sequence[str]
    repartition_sources: Sequence[str]
    sinks: Sequence[str]  # repartition topics that it writes
    changelogs: Sequence[str]

    @property
    def sources(self) -> list[str]:
        return [*self.source_topics, *self.repartition_sources]


@dataclass(frozen=True, slots=True)
class GroupMember:
    member_id: str
    host: str
    client_id: str = ""
    instance_id: str | None = None  # of a static member
    assigned: Sequence[Where] = ()
    subscribed: Sequence[str] = ()  # topics, or one regular expression
    # of the new protocols only
    rack: str | None = None
    epoch: int | None = None
    target: Sequence[Where] | None = None  # that the coordinator wants it to have
    speaks_classic: bool = False
    # of a streams group only
    tasks: Tasks | None = None
    process_id: str | None = None
    endpoint: tuple[str, int] | None = None  # where it answers interactive queries


@dataclass(frozen=True, slots=True)
class DescribedGroup:
    type: str  # CLASSIC, CONSUMER, SHARE or STREAMS
    state: str
    assignor: str
    members: Sequence[GroupMember]
    coordinator: int
    # of the new protocols only: of the group, and of the assignment that was made last
    epoch: int | None = None
    assignment_epoch: int | None = None
    topology: Sequence[Subtopology] = ()  # of a streams group

    @property
    def owners(self) -> dict[Where, GroupMember]:
        """The member of each assigned partition; of a share group one of them."""
        return {where: member for member in self.members for where in member.assigned}

    @property
    def readers(self) -> dict[Where, list[GroupMember]]:
        """All members of each assigned partition: a share group may have several."""
        found: dict[Where, list[GroupMember]] = {}
        for member in self.members:
            for where in member.assigned:
                found.setdefault(where, []).append(member)
        return found


class Committed(NamedTuple):
    offset: int
    metadata: str


class UnknownPlace(ClientError):
    """A partition, or an offset to count from, that a reset needs and that is not there."""


# members


class Description(NamedTuple):
    """The request that describes groups of one type, and readers of a group's row in its answer."""

    type: str
    api: AnyApi
    members: Callable[..., list[GroupMember]]
    topology: Callable[..., list[Subtopology]] = lambda row: []


def describe_groups(
    client: Client, groups: Sequence[str]
) -> tuple[dict[str, DescribedGroup], dict[str, str]]:
    """Return the groups that there are, and why others may be missing. Raises KafkaError and
    OSError.
    """
    found, lost = _classic_groups(client, groups)
    for description in DESCRIPTIONS:
        others = [each for each in groups if each not in found and each not in lost]
        found_others, lost_others = describe_groups_by(client, description, others)
        found |= found_others
        lost |= lost_others
    return found, lost


def _classic_groups(
    client: Client, groups: Sequence[str]
) -> tuple[dict[str, DescribedGroup], dict[str, str]]:
    asked = ask_coordinators(
        client, DESCRIBE_GROUPS, groups, lambda own: DESCRIBE_GROUPS.request(groups=list(own))
    )
    found = {}
    for node_id, answer in asked.answers.items():
        for each in answer.groups:
            if each.error_code == Code.GROUP_ID_NOT_FOUND or (
                each.group_state == DEAD and not each.error_code
            ):
                continue
            check(each.error_code, each.group_id)
            found[each.group_id] = DescribedGroup(
                CLASSIC,
                each.group_state,
                each.protocol_data,
                [_classic_member(one) for one in each.members],
                node_id,
            )
    return found, dict(asked.lost)


def describe_groups_by(
    client: Client, description: Description, groups: Sequence[str]
) -> tuple[dict[str, DescribedGroup], Mapping[str, str]]:
    """Return those of the groups that are of the type, and why others may be missing: none is where
    the brokers do not know the type. Raises KafkaError and OSError.
    """
    if not groups:
        return {}, {}
    api = description.api
    try:
        asked = ask_coordinators(client, api, groups, lambda own: api.request(group_ids=list(own)))
    except Unsupported:
        return {}, {}
    found = {}
    for node_id, answer in asked.answers.items():
        for each in answer.groups:
            if not each.error_code:
                found[each.group_id] = DescribedGroup(
                    description.type,
                    each.group_state,
                    each.assignor_name or "",
                    description.members(each),
                    node_id,
                    each.group_epoch,
                    each.assignment_epoch,
                    description.topology(each),
                )
    return found, asked.lost


def _classic_member(row: DescribedGroupMember) -> GroupMember:
    """Its assignment and subscription are empty where the group is none of consumers."""
    try:
        assigned = [
            (topic, index)
            for topic, indexes in read_assignment(bytes(row.member_assignment)).partitions.items()
            for index in indexes
        ]
    except ValueError:
        assigned = []
    try:
        subscribed: Sequence[str] = read_subscription(bytes(row.member_metadata)).topics
    except ValueError:
        subscribed = ()
    return GroupMember(
        row.member_id, row.client_host, row.client_id, row.group_instance_id, assigned, subscribed
    )


def _consumer_members(group: consumer_groups.DescribedGroup) -> list[GroupMember]:
    return [
        GroupMember(
            row.member_id,
            row.client_host,
            row.client_id,
            row.instance_id,
            _wheres(row.assignment),
            [*row.subscribed_topic_names, *filter(None, [row.subscribed_topic_regex])],
            row.rack_id,
            row.member_epoch,
            _wheres(row.target_assignment),
            row.member_type == OLD_MEMBER,
        )
        for row in group.members
    ]


def _share_members(group: share_groups.DescribedGroup) -> list[GroupMember]:
    return [
        GroupMember(
            row.member_id,
            row.client_host,
            row.client_id,
            assigned=_wheres(row.assignment),
            subscribed=row.subscribed_topic_names,
            rack=row.rack_id,
            epoch=row.member_epoch,
        )
        for row in group.members
    ]


def _streams_members(group: streams_groups.DescribedGroup) -> list[GroupMember]:
    """A member has the partitions that its active tasks read."""
    sources = {each.id: each.sources for each in _subtopologies(group)}

    def wheres(tasks: streams_groups.Assignment) -> list[Where]:
        return [
            (name, index)
            for task in tasks.active_tasks
            for name in sources.get(task.subtopology_id, ())
            for index in task.partitions
        ]

    subscribed = sorted({name for names in sources.values() for name in names})
    return [
        GroupMember(
            row.member_id,
            row.client_host,
            row.client_id,
            row.instance_id,
            wheres(row.assignment),
            subscribed,
            row.rack_id,
            row.member_epoch,
            wheres(row.target_assignment),
            tasks=Tasks(
                _tasks(row.assignment.active_tasks),
                _tasks(row.assignment.standby_tasks),
                _tasks(row.assignment.warmup_tasks),
            ),
            process_id=row.process_id,
            endpoint=(row.user_endpoint.host, row.user_endpoint.port)
            if row.user_endpoint is not None
            else None,
        )
        for row in group.members
    ]


def _subtopologies(group: streams_groups.DescribedGroup) -> list[Subtopology]:
    rows = group.topology.subtopologies or () if group.topology is not None else ()
    return [
        Subtopology(
            row.subtopology_id,
            row.source_topics,
            [topic.name for topic in row.repartition_source_topics],
            row.repartition_sink_topics,
            [topic.name for topic in row.state_changelog_topics],
        )
        for row in rows
    ]


def _tasks(rows: Sequence[streams_groups.DescribedTaskIds]) -> list[str]:
    return [f"{row.subtopology_id}_{index}" for row in rows for index in row.partitions]


def subtopology_of(task: str) -> str:
    """Return the id of a task's subtopology."""
    return task.rpartition("_")[0]


def _wheres(
    assignment: consumer_groups.MemberAssignment | share_groups.MemberAssignment,
) -> list[Where]:
    return [
        (topic.topic_name, index)
        for topic in assignment.topic_partitions
        for index in topic.partitions
    ]


CONSUMERS = Description(CONSUMER, consumer_groups.CONSUMER_GROUP_DESCRIBE, _consumer_members)
STREAMS_GROUPS = Description(
    STREAMS, streams_groups.STREAMS_GROUP_DESCRIBE, _streams_members, _subtopologies
)
SHARES = Description(SHARE, share_groups.SHARE_GROUP_DESCRIBE, _share_members)
DESCRIPTIONS = (CONSUMERS, STREAMS_GROUPS, SHARES)


# committed offsets


def committed(client: Client, group: str) -> dict[Where, int]:
    """A group's offsets."""
    answer = client.ask_coordinator(
        group, OFFSET_FETCH, _of_group(group), BY_NAME[OFFSET_FETCH.key]
    )
    return {where: each.offset for where, each in _read_offsets(group, answer).items()}


def fetch_offsets(
    client: Client, groups: Iterable[str]
) -> tuple[dict[str, dict[Where, Committed]], dict[str, str]]:
    """Return what each group has committed, and why others have none: their coordinator is
    asked once.
    """
    owners, lost = find_coordinators(client, groups)
    found: dict[str, dict[Where, Committed]] = {}
    for node_id, own in owners.items():
        for group in own:
            try:
                answer = _fetch_offsets(client, node_id, group)
            except OSError as error:
                text = f"its coordinator, broker {node_id}, has not answered ({error})"
                lost |= dict.fromkeys((each for each in own if each not in found), text)
                break
            found[group] = _read_offsets(group, answer)
    return found, lost


def _fetch_offsets(client: Client, node_id: int, group: str) -> OffsetFetchResponse:
    """Ask a coordinator, until it has loaded the group. Raises OSError."""
    if node_id not in client.brokers:
        raise Broken("it is not alive")
    patience = Patience(ANSWER_S, f"the offsets of {group}", Broken)
    version = BY_NAME[OFFSET_FETCH.key]
    while True:
        answer = client.ask_at(
            client.brokers[node_id], OFFSET_FETCH, _of_group(group), version, ANSWER_S
        )
        if answer.error_code not in NOT_COORDINATOR:
            return answer
        patience.wait(name_of_code(answer.error_code))


def _of_group(group: str) -> OffsetFetchRequest:
    return OFFSET_FETCH.request(group_id=group, topics=None)


def _read_offsets(group: str, answer: OffsetFetchResponse) -> dict[Where, Committed]:
    check(answer.error_code, group)
    found = {}
    for topic in answer.topics:
        for each in topic.partitions:
            check(each.error_code, f"{topic.name}-{each.partition_index}")
            if each.committed_offset >= 0:
                found[topic.name, each.partition_index] = Committed(
                    each.committed_offset, each.metadata or ""
                )
    return found


# ends of partitions


def find_ends(client: Client, wheres: Iterable[Where]) -> tuple[dict[Where, int], list[str]]:
    """Return the end offsets of those partitions that exist, and sentences: partitions whose end is
    not known, and why.
    """
    wanted = set(wheres)
    topics = client.metadata({topic for topic, _ in wanted}).topics if wanted else ()
    led: dict[int, list[Where]] = {}
    for topic in topics:
        for each in topic.partitions:
            where = (str(topic.name), each.partition_index)
            if where in wanted:
                led.setdefault(each.leader_id, []).append(where)
    lacks = []
    if homeless := led.pop(-1, []):
        lacks.append(f"{name_some(homeless)}: no broker leads, so the lag is not known")
    answers = ask_brokers(
        client,
        LIST_OFFSETS,
        {node_id: list_offsets_request(dict.fromkeys(own, LATEST)) for node_id, own in led.items()},
        passing=is_retriable,
        within_s=ANSWER_S,
    )
    lacks += [
        f"broker {node_id} has not answered ({why}): ends and lags of {name_some(led[node_id])} "
        "are missing"
        for node_id, why in sorted(answers.missing.items())
    ]
    return {
        (topic.name, each.partition_index): each.offset
        for answer in answers.of.values()
        for topic in answer.topics
        for each in topic.partitions
        if not each.error_code
    }, lacks


def name_some(wheres: Sequence[Where]) -> str:
    """Name the partitions, or count them where they are many."""
    if len(wheres) > MOST_NAMED:
        return f"{len(wheres)} partitions"
    return ", ".join(f"{topic}-{partition}" for topic, partition in sorted(wheres))


# changes


def find_targets(
    client: Client, wheres: Sequence[Where], position: Position, before: Mapping[Where, int]
) -> dict[Where, int]:
    """Return the offset that each partition is moved to: always one that is there, or the end.
    `before`: the committed offsets. Raises UnknownPlace.
    """
    bounds = Bounds.of(client, wheres)
    match position.kind:
        case "by":
            if not before.keys() >= set(wheres):
                topic, partition = min(set(wheres) - before.keys())
                raise UnknownPlace(f"{topic}-{partition} has no offset that --by could go from")
            found = {where: before[where] + position.value for where in wheres}
        case "current":
            found = {where: before.get(where, bounds.ends[where]) for where in wheres}
        case _:
            return offsets_at(client, position, bounds)
    return {
        where: max(bounds.begins[where], min(offset, bounds.ends[where]))
        for where, offset in found.items()
    }


def commit_offsets(
    client: Client, group: str, offsets: Mapping[Where, int], metadata: Mapping[Where, str]
) -> dict[Where, int]:
    """Commit the offsets; return the error codes of the partitions that were refused."""
    answer = client.ask_coordinator(
        group,
        OFFSET_COMMIT,
        commit_request(group, offsets, metadata=metadata),
        BY_NAME[OFFSET_COMMIT.key],
    )
    return {
        (topic.name, each.partition_index): each.error_code
        for topic in answer.topics
        for each in topic.partitions
        if each.error_code
    }


def delete_offsets(client: Client, group: str, wheres: Iterable[Where]) -> dict[Where, int]:
    """Delete committed offsets; return the error codes of the partitions that were refused. Raises
    KafkaError when the whole request is.
    """
    rows = OFFSET_DELETE.request.topics
    topics = by_topic((where, rows.partitions(partition_index=where[1])) for where in wheres)
    answer = client.ask_coordinator(
        group,
        OFFSET_DELETE,
        OFFSET_DELETE.request(
            group_id=group,
            topics=[rows(name=name, partitions=own) for name, own in topics.items()],
        ),
    )
    check(answer.error_code, group)
    return {
        (topic.name, each.partition_index): each.error_code
        for topic in answer.topics
        for each in topic.partitions
        if each.error_code
    }


def delete_group(client: Client, group: str) -> int:
    """Delete a group with its offsets; return the error code."""
    request = DELETE_GROUPS.request(groups_names=[group])
    return client.ask_coordinator(group, DELETE_GROUPS, request).results[0].error_code
