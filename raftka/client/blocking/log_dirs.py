"""Log directories of brokers, and the bytes of the replicas in them, as brokers tell them."""

from collections.abc import Mapping
from typing import NamedTuple

from raftka.client.blocking.client import Where
from raftka.wire.errors import name_of_code
from raftka.wire.messages.log_dirs import DescribeLogDirsResponse


class Directory(NamedTuple):
    """A log directory. `total` and `usable`: bytes of its file system, -1 where the broker does
    not say. `sizes`: bytes by replica. `error`: Kafka's name, or None.
    """

    path: str
    total: int
    usable: int
    sizes: Mapping[Where, int]
    error: str | None


def read_directories(answer: DescribeLogDirsResponse) -> list[Directory]:
    """Replicas on their way to another directory are left out."""
    return [
        Directory(
            each.log_dir,
            each.total_bytes,
            each.usable_bytes,
            {
                (topic.name, one.partition_index): one.partition_size
                for topic in each.topics
                for one in topic.partitions
                if not one.is_future_key
            },
            name_of_code(each.error_code) if each.error_code else None,
        )
        for each in answer.results
    ]
