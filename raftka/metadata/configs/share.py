"""The settings of share groups that something reads: valid values and meaning, as USED of broker.py
has them.
"""

from raftka.metadata.configs.values import Check, at_least, between

SHARE_SETTINGS: dict[str, tuple[Check | None, str]] = {
    "errors.deadletterqueue.auto.create.topics.enable": (
        None,
        "Are dead-letter topics of share groups created when they are needed?",
    ),
    "errors.deadletterqueue.topic.name.prefix": (
        None,
        "How the name of a share group's dead-letter topic begins; empty: any name.",
    ),
    "group.share.assignment.interval.ms": (
        at_least(0),
        "Time between two assignments of a share group.",
    ),
    "group.share.heartbeat.interval.ms": (
        at_least(1),
        "Time between the heartbeats that share consumers are asked for.",
    ),
    "group.share.initialize.retry.interval.ms": (
        at_least(1),
        "Silence of the share coordinator after which share partitions are initialised anew.",
    ),
    "group.share.max.assignment.interval.ms": (at_least(0), "Longest that a group may set."),
    "group.share.max.heartbeat.interval.ms": (at_least(1), "Longest that a group may set."),
    "group.share.max.session.timeout.ms": (at_least(1), "Longest that a group may set."),
    "group.share.max.size": (at_least(1), "Most members of a share group."),
    "group.share.min.assignment.interval.ms": (at_least(0), "Shortest that a group may set."),
    "group.share.min.heartbeat.interval.ms": (at_least(1), "Shortest that a group may set."),
    "group.share.min.session.timeout.ms": (at_least(1), "Shortest that a group may set."),
    "group.share.session.timeout.ms": (
        at_least(1),
        "Silence after which a share consumer is removed.",
    ),
    "group.share.delivery.count.limit": (at_least(2), "How often a record is given out."),
    "group.share.max.delivery.count.limit": (at_least(2), "Most that a group may set."),
    "group.share.max.partition.max.record.locks": (at_least(100), "Most that a group may set."),
    "group.share.max.record.lock.duration.ms": (at_least(1000), "Longest that a group may set."),
    "group.share.max.share.sessions": (at_least(1), "Most share sessions of a broker."),
    "group.share.min.delivery.count.limit": (at_least(2), "Least that a group may set."),
    "group.share.min.partition.max.record.locks": (at_least(100), "Least that a group may set."),
    "group.share.min.record.lock.duration.ms": (at_least(1000), "Shortest that a group may set."),
    "group.share.partition.max.record.locks": (
        at_least(100),
        "Records of a share partition that are in flight: acquired, or done above the first one "
        "that is not.",
    ),
    "group.share.record.lock.duration.ms": (
        at_least(1000),
        "How long a member holds a record that it has acquired.",
    ),
    "share.coordinator.cold.partition.snapshot.interval.ms": (
        at_least(1),
        "Age at which the state of a share partition that does not change is written anew, so that "
        "its old record can be deleted.",
    ),
    "share.coordinator.snapshot.update.records.per.snapshot": (
        between(0, 500),
        "Changes of a share partition's state that are written before its whole state is.",
    ),
    "share.coordinator.state.topic.compression.codec": (
        between(0, 4),
        "How batches of __share_group_state are compressed: none, gzip, snappy, lz4, zstd.",
    ),
    "share.coordinator.state.topic.min.isr": (
        at_least(1),
        "min.insync.replicas of __share_group_state, when it is created.",
    ),
    "share.coordinator.state.topic.num.partitions": (
        at_least(1),
        "Partitions of __share_group_state, when it is created.",
    ),
    "share.coordinator.state.topic.prune.interval.ms": (
        at_least(1),
        "Time between two looks for records of __share_group_state that no state needs any more; "
        "they are deleted then.",
    ),
    "share.coordinator.state.topic.replication.factor": (
        at_least(1),
        "Its replicas; it is not created before there are so many brokers.",
    ),
    "share.coordinator.state.topic.segment.bytes": (at_least(1), "Its segments' size."),
    "share.coordinator.write.timeout.ms": (
        at_least(1),
        "Longest wait of a write until its record is committed.",
    ),
}
