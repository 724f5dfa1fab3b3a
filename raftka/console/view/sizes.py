"""Bytes of replicas in the brokers' log directories."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from raftka.client.blocking.client import Where
from raftka.console.view.brokers import Brokers
from raftka.console.view.cached import Effort
from raftka.console.view.metadata import Metadata
from raftka.wire.errors import Code, name_of_code
from raftka.wire.messages.log_dirs import (
    DESCRIBE_LOG_DIRS,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)


class Directory(NamedTuple):
    """A log directory of a broker. `total` and `usable` are bytes of its file system, -1 where the
    broker does not say; `used` are those of replicas. `error`: Kafka's name, or None.
    """

    node_id: int
    path: str
    total: int
    usable: int
    used: int
    replicas: int
    error: str | None


class Replica(NamedTuple):
    """`lag`: records behind the high watermark. `future`: on its way to another directory."""

    node_id: int
    path: str
    size: int
    lag: int
    future: bool


class Sizes(NamedTuple):
    """`by_partition`: bytes of the largest replica; `by_topic`: their sums. `missing`: brokers
    whose replicas are not counted, and why.
    """

    by_partition: Mapping[Where, int]
    by_topic: Mapping[str, int]
    by_broker: Mapping[int, int]
    directories: Sequence[Directory]
    missing: Mapping[int, str]


def read_sizes(brokers: Brokers, metadata: Metadata, effort: Effort) -> Sizes:
    """Ask every broker for all its replicas."""
    row = DESCRIBE_LOG_DIRS.request(topics=None)
    rows = dict.fromkeys(metadata.brokers, row)
    answers, missing = _ask(brokers, metadata, rows, effort, bulk=True)
    largest: dict[Where, int] = {}
    by_broker: dict[int, int] = {}
    directories = []
    for node_id, answer in answers.items():
        by_broker[node_id] = 0
        for each in answer.results:
            used = replicas = 0
            for topic in each.topics:
                name = topic.name
                for partition in topic.partitions:
                    size, where = partition.partition_size, (name, partition.partition_index)
                    used += size
                    replicas += 1
                    if size >= largest.get(where, 0) and not partition.is_future_key:
                        largest[where] = size
            error = name_of_code(each.error_code) if each.error_code else None
            space = each.total_bytes, each.usable_bytes
            directories.append(Directory(node_id, each.log_dir, *space, used, replicas, error))
            by_broker[node_id] += used
    by_topic: dict[str, int] = {}
    for (name, _), size in largest.items():
        by_topic[name] = by_topic.get(name, 0) + size
    return Sizes(largest, by_topic, by_broker, directories, missing)


class Replicas(NamedTuple):
    """The replicas of one topic by partition index."""

    by_partition: Mapping[int, Sequence[Replica]]
    missing: Mapping[int, str]


def read_replicas(brokers: Brokers, metadata: Metadata, topic: str, effort: Effort) -> Replicas:
    """Ask the brokers that have replicas of the topic."""
    known = metadata.topics.get(topic)
    of_broker: dict[int, list[int]] = {}
    for partition in known.partitions if known is not None else ():
        for node_id in partition.replicas:
            of_broker.setdefault(node_id, []).append(partition.index)
    rows = {
        node_id: DESCRIBE_LOG_DIRS.request(
            topics=[DESCRIBE_LOG_DIRS.request.topics(topic=topic, partitions=indexes)]
        )
        for node_id, indexes in of_broker.items()
    }
    answers, missing = _ask(brokers, metadata, rows, effort)
    found: dict[int, list[Replica]] = {}
    for node_id, answer in answers.items():
        for each in answer.results:
            for row in each.topics:
                for one in row.partitions:
                    found.setdefault(one.partition_index, []).append(
                        Replica(
                            node_id,
                            each.log_dir,
                            one.partition_size,
                            one.offset_lag,
                            one.is_future_key,
                        )
                    )
    return Replicas(found, missing)


def _ask(
    brokers: Brokers,
    metadata: Metadata,
    rows: Mapping[int, DescribeLogDirsRequest],
    effort: Effort,
    *,
    bulk: bool = False,
) -> tuple[dict[int, DescribeLogDirsResponse], dict[int, str]]:
    """Answers by broker; why others have none, the login's lack of rights among the reasons."""
    asked = brokers.ask_each(metadata.addresses, DESCRIBE_LOG_DIRS, rows, effort, bulk=bulk)
    missing = {**metadata.missing, **asked.missing}
    answers = {}
    for node_id, answer in asked.of.items():
        if answer.error_code:
            missing[node_id] = name_of_code(answer.error_code)
        elif not answer.results:  # before Kafka 3.2 there is no error code
            missing[node_id] = Code.CLUSTER_AUTHORIZATION_FAILED.name
        else:
            answers[node_id] = answer
    return answers, missing
