"""Members of share groups on a stage, and the level of the feature that they need."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch

from raftka import versions
from raftka.broker.node import Node
from raftka.broker.share.partitions import Written
from raftka.metadata.commands import AlterReassignments, Move, MovedTopic
from raftka.metadata.image import GROUP
from raftka.share.state import NO_START, SharePartitionKey, ShareState, StateBatch
from raftka.versions import SHARE_VERSION
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.produce import PRODUCE
from raftka.wire.messages.share_acknowledge import SHARE_ACKNOWLEDGE, ShareAcknowledgeRequest
from raftka.wire.messages.share_fetch import SHARE_FETCH
from raftka.wire.records import iterate
from tests.broker.requests import batch, produce
from tests.broker.stage import Stage, Wire

Place = tuple[bytes, int]
Acks = Mapping[tuple[bytes, int], Sequence[tuple[int, int, Sequence[int]]]]


@contextmanager
def shares(level: int = 2) -> Iterator[None]:
    """Let clusters that are formed meanwhile have the feature at that level."""
    with (
        patch.dict(versions.SUPPORTED, {SHARE_VERSION: (0, 2)}),
        patch.dict(versions.FORMED_WITH, {SHARE_VERSION: level}),
    ):
        yield


class Found(NamedTuple):
    """A partition of an answer."""

    acquired: list[tuple[int, int, int]]
    batches: list[tuple[int, int]]
    code: Code
    acknowledged: Code


class ShareMember:
    """A member of a group, as the leaders of its partitions know it."""

    def __init__(self, stage: Stage, group: str, member: str = "A" * 22, node_id: int = 1) -> None:
        self.stage, self.group, self.member = stage, group, member
        self.node_id = node_id
        self.wire: Wire = stage.wire(node_id)
        self.epoch = 0

    def ask(
        self,
        *places: tuple[bytes, int],
        acks: Acks | None = None,
        forget: Sequence[tuple[bytes, int]] = (),
        version: int = 2,
        **given: Any,
    ) -> None:
        """Send a ShareFetch; the answer comes later."""
        request = SHARE_FETCH.request
        values: dict[str, Any] = {
            "group_id": self.group,
            "member_id": self.member,
            "share_session_epoch": self.epoch,
            "max_wait_ms": 500,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "max_records": 500,
            "batch_size": 500,
            **given,
        }
        named = {place: (acks or {}).get(place, ()) for place in (*places, *(acks or {}))}
        topics = [
            request.topics(topic_id=place[0], partitions=[_partition(request.topics, place[1], a)])
            for place, a in named.items()
        ]
        forgotten = [
            request.forgotten_topics_data(topic_id=topic_id, partitions=[index])
            for topic_id, index in forget
        ]
        row = request(topics=topics, forgotten_topics_data=forgotten, **values)
        self.wire.request(SHARE_FETCH, row, version)

    def answer(self, version: int = 2) -> Any:
        return self.wire.answer(SHARE_FETCH, version)

    def fetch(self, *places: tuple[bytes, int], **given: Any) -> dict[tuple[bytes, int], Found]:
        """Fetch, go on with the session, and return the partitions of the answer."""
        self.ask(*places, **given)
        answer = self.answer()
        assert answer.error_code == 0, Code(answer.error_code).name
        self.epoch += 1
        return found(answer)

    def acquire(self, place: tuple[bytes, int], **given: Any) -> list[tuple[int, int, int]]:
        """Fetch from one partition, and return the ranges."""
        result = self.fetch(*(() if self.epoch else (place,)), **given).get(place)
        return [] if result is None else result.acquired

    def acknowledge(
        self, acks: Acks, *, renews: bool = False, version: int = 2, epoch: int | None = None
    ) -> Any:
        """Return the answer to a ShareAcknowledge."""
        request = SHARE_ACKNOWLEDGE.request
        topics = [
            request.topics(topic_id=place[0], partitions=[_partition(request.topics, place[1], a)])
            for place, a in acks.items()
        ]
        row = request(
            group_id=self.group,
            member_id=self.member,
            share_session_epoch=self.epoch if epoch is None else epoch,
            is_renew_ack=renews,
            topics=topics,
        )
        answer = self.wire.ask(SHARE_ACKNOWLEDGE, row, version)
        if not answer.error_code and epoch is None:
            self.epoch += 1
        return answer

    def done(
        self, place: tuple[bytes, int], first: int, last: int, *types: int, renews: bool = False
    ) -> Code:
        """Acknowledge records of one partition; return its error."""
        answer = self.acknowledge({place: [(first, last, types or (1,))]}, renews=renews)
        assert answer.error_code == 0, Code(answer.error_code).name
        ((row,),) = (topic.partitions for topic in answer.responses)
        return Code(row.error_code)

    def close(self) -> None:
        self.wire.close()
        self.stage.wait(lambda: self.wire.close_reason is not None)


def _partition(topic: Any, index: int, acks: Sequence[tuple[int, int, Sequence[int]]]) -> Any:
    row = topic.partitions
    return row(
        partition_index=index,
        acknowledgement_batches=[
            row.acknowledgement_batches(
                first_offset=first, last_offset=last, acknowledge_types=list(types)
            )
            for first, last, types in acks
        ],
    )


def acknowledgement(
    member: ShareMember, place: tuple[bytes, int], first: int, last: int, kind: int
) -> ShareAcknowledgeRequest:
    """Return the member's next request for some records of one partition."""
    request = SHARE_ACKNOWLEDGE.request
    row = _partition(request.topics, place[1], [(first, last, [kind])])
    return request(
        group_id=member.group,
        member_id=member.member,
        share_session_epoch=member.epoch,
        topics=[request.topics(topic_id=place[0], partitions=[row])],
    )


def found(answer: Any) -> dict[tuple[bytes, int], Found]:
    """Return the partitions of an answer to ShareFetch."""
    return {
        (bytes(topic.topic_id), row.partition_index): Found(
            [(a.first_offset, a.last_offset, a.delivery_count) for a in row.acquired_records],
            [(head.base_offset, head.last_offset) for head, _ in iterate(memoryview(row.records))],
            Code(row.error_code),
            Code(row.acknowledge_error_code),
        )
        for topic in answer.responses
        for row in topic.partitions
    }


def fill(stage: Stage, topic: str, *sizes: int, partition: int = 0) -> None:
    """Append batches of so many records."""
    wire = stage.wire(stage.leader(topic, partition))
    for size in sizes:
        records = batch(*[b"v%d" % number for number in range(size)])
        answer = wire.ask(PRODUCE, produce(topic, records, partition))
        assert answer.responses[0].partition_responses[0].error_code == 0


def initialise(
    stage: Stage, group: str, *places: tuple[bytes, int], start: int = NO_START, epoch: int = 2
) -> None:
    """Do as the group coordinator does when a group subscribes to topics."""
    results: list[KafkaError | None] = []
    node = any_node(stage)
    for topic_id, index in places:
        key = SharePartitionKey(group, topic_id, index)
        node.share_persister.initialize(key, epoch, start, results.append)
    stage.wait(lambda: len(results) == len(places))
    assert results == [None] * len(places), results


def persisted(stage: Stage, group: str, place: tuple[bytes, int], epoch: int = 0) -> ShareState:
    """Return the state that the share coordinator has. `epoch`: of the partition's leader."""
    results: list[ShareState | KafkaError] = []
    key = SharePartitionKey(group, *place)
    any_node(stage).share_persister.read(key, epoch, results.append)
    stage.wait(lambda: bool(results))
    (result,) = results
    assert isinstance(result, ShareState), result
    return result


def any_node(stage: Stage) -> Node:
    return next(iter(stage.nodes.values()))


def configure(stage: Stage, group: str, **configs: Any) -> None:
    """Set configs of a group, with `_` for `.`."""
    stage.set(GROUP, group, **configs)


class Writes:
    """Writes to the share coordinator that are held back, and end as a test says."""

    def __init__(self, stage: Stage) -> None:
        self.held: list[Written] = []
        self.batches: list[Sequence[StateBatch]] = []
        any_node(stage).share_persister.write = self.write  # type: ignore[method-assign]

    def write(
        self,
        key: SharePartitionKey,
        state_epoch: int,
        leader_epoch: int,
        start: int,
        complete_count: int,
        batches: Sequence[StateBatch],
        done: Written,
    ) -> None:
        self.held.append(done)
        self.batches.append(batches)

    def end(self, error: KafkaError | None) -> None:
        self.held.pop(0)(error)


def set_up(stage: Stage, replicas: int = -1) -> Place:
    """One batch of ten records, for group g from its beginning."""
    place = stage.create("t", replication_factor=replicas), 0
    configure(stage, "g", share_auto_offset_reset="earliest")
    fill(stage, "t", 10)
    initialise(stage, "g", place)
    return place


def move(stage: Stage, to: int) -> None:
    """Let another broker have and lead the partition."""
    command = AlterReassignments((MovedTopic("t", (Move(0, (to,)),)),))
    any_node(stage).controller.call(command, lambda error, reply: None, 5.0)

    def leads() -> bool:
        replicas = {n: node.replicas.partitions.get(("t", 0)) for n, node in stage.nodes.items()}
        return all(
            (replica is not None and replica.leader is not None) == (node_id == to)
            for node_id, replica in replicas.items()
        )

    stage.wait(leads)
