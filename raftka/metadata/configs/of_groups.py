"""Settings of a broker for groups of the new protocols: valid values, and meanings. A group may
have its own, within bounds (groups.py).
"""

from raftka.metadata.configs.values import Check, at_least, one_of, some_of

MIGRATION_POLICIES = ("disabled", "downgrade", "upgrade", "bidirectional")
LONGEST, SHORTEST = "Longest that a group may set.", "Shortest that a group may set."

IN_MEMORY = "memory"  # in place of a plugin


def _no_java_class(value: str) -> str | None:
    """Refuse the class of a plugin: it is written for Apache Kafka's brokers, in Java."""
    if value in ("", IN_MEMORY):
        return None
    return f"raftka runs no Java and cannot load {value}; {IN_MEMORY} keeps descriptions in memory"


USED_OF_GROUPS: dict[str, tuple[Check | None, str]] = {
    "group.consumer.assignment.interval.ms": (
        at_least(0),
        "Time between two assignments of a consumer group; what happens in between waits.",
    ),
    "group.consumer.assignors": (
        some_of("uniform", "range"),
        "How consumer groups may share partitions out; the first one when members name none.",
    ),
    "group.consumer.heartbeat.interval.ms": (
        at_least(1),
        "Time between the heartbeats that consumers are asked for.",
    ),
    "group.consumer.max.assignment.interval.ms": (at_least(0), LONGEST),
    "group.consumer.max.heartbeat.interval.ms": (at_least(1), LONGEST),
    "group.consumer.max.session.timeout.ms": (at_least(1), LONGEST),
    "group.consumer.max.size": (at_least(1), "Most members of a consumer group."),
    "group.consumer.migration.policy": (
        lambda value: one_of(*MIGRATION_POLICIES)(value.lower()),
        "Whether groups change between the classic and the new protocol while members are in them.",
    ),
    "group.consumer.min.assignment.interval.ms": (at_least(0), SHORTEST),
    "group.consumer.min.heartbeat.interval.ms": (at_least(1), SHORTEST),
    "group.consumer.min.session.timeout.ms": (at_least(1), SHORTEST),
    "group.consumer.session.timeout.ms": (
        at_least(1),
        "Silence after which a consumer is removed.",
    ),
    "group.streams.acceptable.recovery.lag": (
        at_least(0),
        "Records that a copy of a task may lack and still become active; members are told.",
    ),
    "group.streams.assignment.interval.ms": (
        at_least(0),
        "Time between two assignments of a streams group; what happens in between waits.",
    ),
    "group.streams.assignors": (some_of("sticky"), "How tasks are assigned; the first one."),
    "group.streams.heartbeat.interval.ms": (
        at_least(1),
        "Time between the heartbeats that streams clients are asked for.",
    ),
    "group.streams.initial.rebalance.delay.ms": (
        at_least(0),
        "How long the first assignment of a streams group without members waits for more of them.",
    ),
    "group.streams.max.assignment.interval.ms": (at_least(0), LONGEST),
    "group.streams.max.heartbeat.interval.ms": (at_least(1), LONGEST),
    "group.streams.max.session.timeout.ms": (at_least(1), LONGEST),
    "group.streams.max.size": (at_least(1), "Most members of a streams group."),
    "group.streams.max.standby.replicas": (at_least(0), "Most that a group may set."),
    "group.streams.min.assignment.interval.ms": (at_least(0), SHORTEST),
    "group.streams.min.heartbeat.interval.ms": (at_least(1), SHORTEST),
    "group.streams.min.session.timeout.ms": (at_least(1), SHORTEST),
    "group.streams.min.task.offset.interval.ms": (at_least(1), SHORTEST),
    "group.streams.num.standby.replicas": (at_least(0), "Standby replicas of each task."),
    "group.streams.rack.aware.assignment.tags": (
        None,
        "Tags that streams clients must have; a member without one of them is told so.",
    ),
    "group.streams.session.timeout.ms": (
        at_least(1),
        "Silence after which a streams client is removed.",
    ),
    "group.streams.task.offset.interval.ms": (
        at_least(1),
        "Time between two reports of the offsets of a client's tasks.",
    ),
    "group.streams.topology.description.plugin.class": (
        _no_java_class,
        "memory: streams clients are asked to describe their topologies, and coordinators keep it.",
    ),
}
