"""OffsetFetch: v1-10; one group, from version 8 on several (KIP-709), topics by id from version 10 on. A group that is not there has no offsets."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from raftka.broker.authorizer import TOPIC
from raftka.broker.dispatch import Pending, Request, handles
from raftka.broker.handlers.asking import Asking, check_group
from raftka.broker.shards import Gathered
from raftka.coordinator.commands import FetchedPartition, FetchedTopic, FetchOffsets, FetchTopic, OffsetsFetched
from raftka.metadata.image import MetadataImage
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.offsets import OFFSET_FETCH
from raftka.wire.schema import ZERO_UUID, Row

if TYPE_CHECKING:
    from raftka.broker.node import Node

response = OFFSET_FETCH.response


def _refused(request: Request, code: Code) -> Row:
    return _answer(request, [KafkaError(code)] * len(_groups(request)))


@handles(OFFSET_FETCH, refused=_refused)
def offset_fetch(request: Request, node: "Node") -> Row | Pending:
    groups = _groups(request)
    asking = Asking(request, _answer)
    gathered = Gathered(len(groups), asking)
    for place, group in enumerate(groups):
        ticket = gathered.place(place)
        try:
            check_group(request, "DESCRIBE", group.group_id)
            one = _OneGroup(request, node.image, group)
            node.groups.shards.submit(group.group_id, one.command(), lambda answer, one=one, ticket=ticket: ticket(one.merged(answer)))
        except KafkaError as error:
            ticket(error)
    return asking.result()


def _groups(request: Request) -> Sequence[Row]:
    """Until version 7 the request itself is the only one. All that a group has is told once, however often it is asked for in one request."""
    if request.version < 8:
        return (request.body,)
    whole: set[str] = set()
    groups = []
    for group in request.body.groups:
        if group.topics is not None or group.group_id not in whole:
            groups.append(group)
        if group.topics is None:
            whole.add(group.group_id)
    return groups


class _OneGroup:
    """What is asked of one group: the coordinator's part, and what the asker may not know."""

    def __init__(self, request: Request, image: MetadataImage, group: Row) -> None:
        self.request = request
        self.image = image
        self.group = group
        self.names: list[str | None] = []  # by place, as the request has them; None: nobody's id
        for topic in group.topics or ():
            known = image.topics.get(topic.topic_id) if request.version >= 10 else None
            self.names.append(topic.name if request.version < 10 else known.name if known is not None else None)
        self.allowed = [name is None or request.may("DESCRIBE", (TOPIC, name)) for name in self.names]

    def command(self) -> FetchOffsets:
        group = self.group
        member = (group.member_id, group.member_epoch) if self.request.version >= 9 else (None, -1)
        if group.topics is None:
            return FetchOffsets(group.group_id, None, self.request.body.require_stable, *member)
        asked = zip(self.names, self.allowed, group.topics, strict=True)
        topics = [FetchTopic(name, tuple(topic.partition_indexes)) for name, allowed, topic in asked if allowed]
        return FetchOffsets(group.group_id, tuple(topics), self.request.body.require_stable, *member)

    def merged(self, answer: OffsetsFetched | KafkaError) -> "list[tuple[FetchedTopic, bytes]] | KafkaError":
        """In the order of the request, each with its id."""
        if isinstance(answer, KafkaError):  # of a record of its own consumers know nothing; asked again, another broker may coordinate (KAFKA-17267)
            return KafkaError(Code.NOT_COORDINATOR) if answer.code is Code.COORDINATOR_NOT_AVAILABLE else answer
        if self.group.topics is None:
            return self._everything(answer)
        found = iter(answer.topics)
        rows = []
        for name, allowed, topic in zip(self.names, self.allowed, self.group.topics, strict=True):
            denied = [FetchedPartition(index, error=Code.TOPIC_AUTHORIZATION_FAILED) for index in topic.partition_indexes]
            rows.append((next(found) if allowed else FetchedTopic(name, tuple(denied)), topic.topic_id if self.request.version >= 10 else ZERO_UUID))
        return rows

    def _everything(self, answer: OffsetsFetched) -> list[tuple[FetchedTopic, bytes]]:
        """What may be known; by id only what there still is."""
        seen = [topic for topic in answer.topics if topic.name is not None and self.request.may("DESCRIBE", (TOPIC, topic.name))]
        ids = self.image.topic_ids
        return [(topic, ids.get(topic.name or "", ZERO_UUID)) for topic in seen if self.request.version < 10 or topic.name in ids]


def _answer(request: Request, answers: list[Any]) -> Row:
    if request.version >= 8:
        return response(groups=[_group(group, answer) for group, answer in zip(_groups(request), answers, strict=True)])
    (answer,) = answers
    if not isinstance(answer, KafkaError):
        return response(topics=_topics(response.topics, answer))
    failed = [  # Kafka says it once from version 2 on; aiokafka 0.14 looks at partitions alone, and takes none for nothing committed
        (FetchedTopic(topic.name, tuple([FetchedPartition(index, error=answer.code) for index in topic.partition_indexes])), ZERO_UUID)
        for topic in request.body.topics or ()
    ]
    return response(error_code=int(answer.code), topics=_topics(response.topics, failed))


def _group(group: Row, answer: Any) -> Row:
    if isinstance(answer, KafkaError):
        return response.groups(group_id=group.group_id, error_code=int(answer.code))
    return response.groups(group_id=group.group_id, topics=_topics(response.groups.topics, answer))


def _topics(row: Any, topics: list[tuple[FetchedTopic, bytes]]) -> list[Row]:
    by_id = row is response.groups.topics
    return [
        row(
            name=topic.name or "",
            partitions=[_partition(row.partitions, each) for each in topic.partitions],
            **({"topic_id": topic_id} if by_id else {}),
        )
        for topic, topic_id in topics
    ]


def _partition(row: Any, found: FetchedPartition) -> Row:
    made: Row = row(
        partition_index=found.partition,
        committed_offset=found.offset,
        committed_leader_epoch=found.leader_epoch,
        metadata=found.metadata,
        error_code=int(found.error),
    )
    return made
