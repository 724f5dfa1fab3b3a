"""The records of streams groups in __consumer_offsets, as Kafka 4.4 writes and reads them; all
values are flexible.

    17 group: its epoch    19 member: its own words       20 epoch of the targets
    21 member: its target tasks    22 member: its present tasks    23 topology

Knows no group and no rule.
"""

from typing import NamedTuple

from raftka.coordinator.machine import Record
from raftka.coordinator.modern.records import MemberState, RecordForm, Targets, Untyped
from raftka.coordinator.streams.tasks import (
    NOTHING_HELD,
    EpochMap,
    Held,
    TaskMap,
    Tasks,
)
from raftka.coordinator.streams.topology import (
    CopartitionGroup,
    Subtopology,
    TopicInfo,
    Topology,
)
from raftka.versions import STREAMS_GROUP
from raftka.wire.notation import parse_row
from raftka.wire.rows import Row

GROUP, MEMBER, TARGETS, TARGET, CURRENT, TOPOLOGY = 17, 19, 20, 21, 22, 23
KINDS = frozenset((GROUP, MEMBER, TARGETS, TARGET, CURRENT, TOPOLOGY))
# their keys have the id of the group alone, the others' that of a member too
OF_GROUP = (GROUP, TARGETS, TOPOLOGY)
NO_EPOCH = -1


class Endpoint(NamedTuple):
    """The address at which an application answers interactive queries."""

    host: str
    port: int


class Said(NamedTuple):
    """The member's own words: its client, process and addresses."""

    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int = -1
    topology_epoch: int = 0
    process_id: str = ""
    endpoint: Endpoint | None = None
    tags: tuple[tuple[str, str], ...] = ()  # sorted


class Current(NamedTuple):
    """The tasks of a member, and those that it has not given up yet."""

    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: Held = NOTHING_HELD
    revoking: Held = NOTHING_HELD


class Epoch(NamedTuple):
    """Of a group. `configs`: the settings of the last assignment. Epochs of descriptions are those
    of Kafka's plugin, and are kept as they are read.
    """

    epoch: int
    metadata_hash: int = 0  # of the topics that its topology needs
    validated_topology: int = NO_EPOCH  # epoch of the topology for which all topics are there
    configs: tuple[tuple[str, str], ...] | None = None
    stored_description: int = NO_EPOCH
    failed_description: int = NO_EPOCH


def group_record(group_id: str, group: Epoch) -> Record:
    configs = group.configs
    row = _GROUP(
        epoch=group.epoch,
        metadata_hash=group.metadata_hash,
        validated_topology=group.validated_topology,
        configs=None
        if configs is None
        else [_GROUP.configs(key=name, value=value) for name, value in configs],
        stored_description=group.stored_description,
        failed_description=group.failed_description,
    )
    return FORM.record(GROUP, group_id, row)


def member_record(group_id: str, member_id: str, said: Said) -> Record:
    endpoint = said.endpoint
    row = _MEMBER(
        instance_id=said.instance_id,
        rack_id=said.rack_id,
        client_id=said.client_id,
        client_host=said.client_host,
        rebalance_timeout_ms=said.rebalance_timeout_ms,
        topology_epoch=said.topology_epoch,
        process_id=said.process_id,
        endpoint=None
        if endpoint is None
        else _MEMBER.endpoint(host=endpoint.host, port=endpoint.port),
        tags=[_MEMBER.tags(key=name, value=value) for name, value in said.tags],
    )
    return FORM.record(MEMBER, group_id, row, member_id)


def targets_record(group_id: str, targets: Targets) -> Record:
    row = _TARGETS(epoch=targets.epoch, timestamp_ms=targets.timestamp_ms)
    return FORM.record(TARGETS, group_id, row)


def target_record(group_id: str, member_id: str, target: Tasks) -> Record:
    row = _TARGET(
        active=_task_rows(_TARGET.active, target.active),
        standby=_task_rows(_TARGET.active, target.standby),
        warmup=_task_rows(_TARGET.active, target.warmup),
    )
    return FORM.record(TARGET, group_id, row, member_id)


def current_record(group_id: str, member_id: str, current: Current) -> Record:
    has, gives = current.assigned, current.revoking
    row = _CURRENT(
        epoch=current.epoch,
        previous_epoch=current.previous_epoch,
        state=int(current.state),
        active=_epoch_rows(has.active),
        standby=_task_rows(_CURRENT.active, has.standby),
        warmup=_task_rows(_CURRENT.active, has.warmup),
        revoking_active=_epoch_rows(gives.active),
        revoking_standby=_task_rows(_CURRENT.active, gives.standby),
        revoking_warmup=_task_rows(_CURRENT.active, gives.warmup),
    )
    return FORM.record(CURRENT, group_id, row, member_id)


def topology_record(group_id: str, topology: Topology) -> Record:
    subtopologies = [
        _TOPOLOGY.subtopologies(
            subtopology_id=each.id,
            source_topics=list(each.source_topics),
            source_topic_regex=list(each.source_regex),
            changelog_topics=_topic_rows(each.changelog_topics),
            repartition_sink_topics=list(each.repartition_sink_topics),
            repartition_source_topics=_topic_rows(each.repartition_source_topics),
            copartition_groups=[
                _TOPOLOGY.subtopologies.copartition_groups(
                    source_topics=group.source_topics,
                    repartition_source_topics=group.repartition_source_topics,
                )
                for group in each.copartition_groups
            ],
        )
        for each in topology.subtopologies
    ]
    row = _TOPOLOGY(epoch=topology.epoch, subtopologies=subtopologies)
    return FORM.record(TOPOLOGY, group_id, row)


def read_value(what: int, value: bytes) -> Untyped:
    """Epoch, Said, Targets, Tasks, Current or Topology. Raises ValueError, NewerFormat."""
    return _READ[what](FORM.read_row(what, value))


def _read_group(row: Untyped) -> Epoch:
    configs = row.configs
    return Epoch(
        row.epoch,
        row.metadata_hash,
        row.validated_topology,
        None if configs is None else tuple([(each.key, each.value) for each in configs]),
        row.stored_description,
        row.failed_description,
    )


def _read_member(row: Untyped) -> Said:
    endpoint = row.endpoint
    return Said(
        row.instance_id,
        row.rack_id,
        row.client_id,
        row.client_host,
        row.rebalance_timeout_ms,
        row.topology_epoch,
        row.process_id,
        None if endpoint is None else Endpoint(endpoint.host, endpoint.port),
        tuple(sorted([(each.key, each.value) for each in row.tags])),
    )


def _read_target(row: Untyped) -> Tasks:
    return Tasks(_tasks(row.active), _tasks(row.standby), _tasks(row.warmup))


def _read_current(row: Untyped) -> Current:
    try:
        state = MemberState(row.state)
    except ValueError:
        state = MemberState.UNRELEASED  # of a later Kafka: reconciled anew
    has = Held(_epochs(row.active, row.epoch), _tasks(row.standby), _tasks(row.warmup))
    gives = Held(
        _epochs(row.revoking_active, row.epoch),
        _tasks(row.revoking_standby),
        _tasks(row.revoking_warmup),
    )
    return Current(row.epoch, row.previous_epoch, state, has, gives)


def _read_topology(row: Untyped) -> Topology:
    return Topology(
        row.epoch,
        tuple(
            [
                Subtopology(
                    each.subtopology_id,
                    tuple(each.source_topics),
                    tuple(each.repartition_sink_topics),
                    _topics(each.repartition_source_topics),
                    _topics(each.changelog_topics),
                    tuple(
                        [
                            CopartitionGroup(
                                tuple(group.source_topics), tuple(group.repartition_source_topics)
                            )
                            for group in each.copartition_groups
                        ]
                    ),
                    tuple(each.source_topic_regex),
                )
                for each in row.subtopologies
            ]
        ),
    )


# parts of values


def _tasks(rows: Untyped) -> TaskMap:
    return {row.subtopology_id: tuple(sorted(row.partitions)) for row in rows if row.partitions}


def _epochs(rows: Untyped, epoch: int) -> EpochMap:
    """Before Kafka 4.2 there are no epochs of tasks: then they count as given at the member's."""
    found = {}
    for row in rows:
        if not row.partitions:
            continue
        epochs = (
            row.epochs
            if row.epochs is not None and len(row.epochs) == len(row.partitions)
            else [epoch] * len(row.partitions)
        )
        found[row.subtopology_id] = dict(zip(row.partitions, epochs, strict=True))
    return found


def _task_rows(make: Untyped, tasks: TaskMap) -> list[Row]:
    return [
        make(subtopology_id=name, partitions=list(partitions))
        for name, partitions in sorted(tasks.items())
    ]


def _epoch_rows(tasks: EpochMap) -> list[Row]:
    ordered = [(name, sorted(epochs.items())) for name, epochs in sorted(tasks.items())]
    return [
        _CURRENT.active(
            subtopology_id=name,
            partitions=[partition for partition, _ in epochs],
            epochs=[epoch for _, epoch in epochs],
        )
        for name, epochs in ordered
    ]


def _topics(rows: Untyped) -> tuple[TopicInfo, ...]:
    return tuple(
        [
            TopicInfo(
                row.name,
                row.partitions,
                row.replication_factor,
                tuple([(each.key, each.value) for each in row.configs]),
            )
            for row in rows
        ]
    )


def _topic_rows(topics: tuple[TopicInfo, ...]) -> list[Row]:
    make = _TOPOLOGY.subtopologies.changelog_topics
    return [
        make(
            name=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            configs=[make.configs(key=name, value=value) for name, value in topic.configs],
        )
        for topic in topics
    ]


_GROUP = parse_row(
    "StreamsGroupMetadataValue",
    """
    epoch                   int32
    metadata_hash           int64
    validated_topology      int32=-1    @0
    configs LastAssignmentConfig[]?=null @1
        key                 string
        value               string
    stored_description      int32=-1    @2
    failed_description      int32=-1    @3
    """,
)
_MEMBER = parse_row(
    "StreamsGroupMemberMetadataValue",
    """
    instance_id             string?
    rack_id                 string?
    client_id               string
    client_host             string
    rebalance_timeout_ms    int32=-1
    topology_epoch          int32
    process_id              string
    endpoint Endpoint?
        host                string
        port                uint16
    tags KeyValue[]
        key                 string
        value               string
    """,
)
_TARGETS = parse_row(
    "StreamsGroupTargetAssignmentMetadataValue",
    """
    epoch                   int32
    timestamp_ms            int64       @0
    """,
)
_TARGET = parse_row(
    "StreamsGroupTargetAssignmentMemberValue",
    """
    active TaskIds[]
        subtopology_id      string
        partitions          int32[]
    standby                 TaskIds[]
    warmup                  TaskIds[]
    """,
)
_CURRENT = parse_row(
    "StreamsGroupCurrentMemberAssignmentValue",
    """
    epoch                   int32
    previous_epoch          int32
    state                   int8
    active TaskIds[]
        subtopology_id      string
        partitions          int32[]
        epochs              int32[]?=null @0
    standby                 TaskIds[]
    warmup                  TaskIds[]
    revoking_active         TaskIds[]
    revoking_standby        TaskIds[]
    revoking_warmup         TaskIds[]
    """,
)
_TOPOLOGY = parse_row(
    "StreamsGroupTopologyValue",
    """
    epoch                   int32
    subtopologies Subtopology[]
        subtopology_id      string
        source_topics       string[]
        source_topic_regex  string[]
        changelog_topics TopicInfo[]
            name            string
            partitions      int32
            replication_factor int16
            configs TopicConfig[]
                key         string
                value       string
        repartition_sink_topics string[]
        repartition_source_topics TopicInfo[]
        copartition_groups CopartitionGroup[]
            source_topics   int16[]
            source_topic_regex int16[]
            repartition_source_topics int16[]
    """,
)
_ROWS = {
    GROUP: _GROUP,
    MEMBER: _MEMBER,
    TARGETS: _TARGETS,
    TARGET: _TARGET,
    CURRENT: _CURRENT,
    TOPOLOGY: _TOPOLOGY,
}
_READ: dict[int, Untyped] = {
    GROUP: _read_group,
    MEMBER: _read_member,
    TARGETS: lambda row: Targets(row.epoch, row.timestamp_ms),
    TARGET: _read_target,
    CURRENT: _read_current,
    TOPOLOGY: _read_topology,
}
FORM = RecordForm("a streams group", STREAMS_GROUP, _ROWS, OF_GROUP)
read_key, tombstone = FORM.read_key, FORM.tombstone
