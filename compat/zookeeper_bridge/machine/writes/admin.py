"""/admin, /controller and /latest_producer_id_block: moves, elections, who leads, and producer ids.
Knows no topic's life and no settings.
"""

from typing import Any

from raftka.metadata.commands import (
    AlterReassignments,
    ElectLeaders,
    Move,
    MovedTopic,
    TopicPartitions,
)
from raftka.metadata.controller.elections import PREFERRED
from raftka.metadata.records import ProducerIdsAllocated
from raftka.wire.errors import Code
from zookeeper_bridge.machine.writes.parse import bad, block_of, partitions_of
from zookeeper_bridge.machine.writes.write_request import Written, come_and_go
from zookeeper_bridge.tree.projection import BLOCK, moving_in

# a producer id block is some broker's; which, and in which of its lives, nothing depends on
NOBODY = -1
DONE_ANYWAY = (Code.ELECTION_NOT_NEEDED, Code.PREFERRED_LEADER_NOT_AVAILABLE)


def move(written: Written) -> None:
    """Move partitions; a move that changes nothing is done at once."""
    move_more(written)
    if not moving_in(written.caller.controls.draft.image):
        come_and_go(written)


def move_more(written: Written) -> None:
    asked = partitions_of(written.data, with_replicas=True)
    topics = tuple(
        MovedTopic(name, tuple(Move(*each) for each in moves.items()))
        for name, moves in asked.items()
    )
    if topics:
        written.caller.controls.decide(AlterReassignments(topics), _codes)


def call_off(written: Written) -> None:
    image = written.caller.controls.draft.image
    names: dict[str, list[Move]] = {}
    for topic_id, index in moving_in(image):
        names.setdefault(image.topics[topic_id].name, []).append(Move(index, None))
    topics = tuple(MovedTopic(name, tuple(moves)) for name, moves in names.items())
    written.caller.controls.decide(AlterReassignments(topics), _codes)


def elect(written: Written) -> None:
    asked = partitions_of(written.data, with_replicas=False)
    topics = tuple(TopicPartitions(name, tuple(indexes)) for name, indexes in asked.items())
    if topics:
        written.caller.controls.decide(
            ElectLeaders(PREFERRED, topics), _codes, harmless=DONE_ANYWAY
        )
    come_and_go(written)


def hand_over(written: Written) -> None:
    controls = written.caller.controls
    if len(controls.draft.environment.voters) < 2:
        raise bad("nobody else can lead")
    controls.hand_over = True


def take_producer_ids(written: Written) -> None:
    """The next block, and no other: nobody gets an id twice."""
    first, last = block_of(written.data)
    draft = written.caller.controls.draft
    if first != draft.image.next_producer_id or last != first + BLOCK - 1:
        raise bad(f"the next block is of {BLOCK} ids from {draft.image.next_producer_id} on")
    draft.write([ProducerIdsAllocated(NOBODY, NOBODY, last + 1)])
    written.caller.controls.count()


def _codes(reply: Any) -> list[int]:
    return [each.error for topic in reply for each in topic.partitions]
