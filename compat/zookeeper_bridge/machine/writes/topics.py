"""/brokers/topics and /admin/delete_topics: topics are created, get more partitions, are deleted.
Knows no settings but those kept for one.
"""

from typing import Any

from raftka.metadata.commands import (
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    DoomedTopic,
    MorePartitions,
    NewTopic,
)
from raftka.wire.errors import Code
from zookeeper_bridge.machine.writes.configs import adopted, topic_gone
from zookeeper_bridge.machine.writes.parse import assignment_of, bad
from zookeeper_bridge.machine.writes.write_request import Written, come_and_go


def create(written: Written) -> None:
    """With the settings that were written down for it."""
    assignment = assignment_of(written.data)
    configs = adopted(written.layer, written.name, written.caller)
    topic = NewTopic(
        written.name, assignments=tuple(sorted(assignment.items())), configs=tuple(configs.items())
    )
    written.caller.controls.decide(CreateTopics((topic,)), _codes)


def grow(written: Written) -> None:
    """Add partitions. Omitted fields stay as they are: the topic's id above all, which tools before
    Kafka 2.8 do not know.
    """
    asked = assignment_of(written.data)
    topic = written.caller.controls.draft.image.topic_named(written.name)
    assert topic is not None
    there = len(topic.partitions)
    if len(asked) < there:
        raise bad(f"there are {there} partitions, and none is taken away")
    if any(asked[index] != partition.replicas for index, partition in enumerate(topic.partitions)):
        raise bad("partitions that are there are moved by /admin/reassign_partitions")
    if len(asked) > there:
        more = MorePartitions(
            written.name, len(asked), tuple(asked[index] for index in range(there, len(asked)))
        )
        written.caller.controls.decide(CreatePartitions((more,)), _codes)


def delete(written: Written) -> None:
    """A marker for a topic that is not there goes as it came."""
    doomed = DeleteTopics((DoomedTopic(written.name),))
    written.caller.controls.decide(doomed, _codes, harmless=(Code.UNKNOWN_TOPIC_OR_PARTITION,))
    topic_gone(written.layer, written.name, written.caller.zxid)
    come_and_go(written)


def _codes(reply: Any) -> list[int]:
    return [each.error for each in reply]
