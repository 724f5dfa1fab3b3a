"""OffsetFetch: v1-10; one group, from version 8 on several (KIP-709), topics by id from version 10
on. A group that is not there has no offsets.
"""

from collections.abc import Sequence
from functools import partial
from itertools import chain, islice
from typing import Any

from raftka.broker.context import MetadataCache
from raftka.broker.handlers.coordinator_request import PARTITIONS_OF_COMMAND, Question, ask_all
from raftka.broker.handlers.parts import CoordinatorParts
from raftka.broker.network.access.authorizer import TOPIC
from raftka.broker.network.dispatch import handles
from raftka.broker.network.request import Delayed, Request
from raftka.broker.work.long_work import Steps
from raftka.coordinator.commands import FetchedPartition, FetchOffsets, FetchTopic, OffsetsFetched
from raftka.metadata.image import MetadataImage
from raftka.wire.encoder import EncodedRows
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.offsets import (
    OFFSET_FETCH,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseTopics,
)
from raftka.wire.schema import ZERO_UUID, Element

response = OFFSET_FETCH.response


def _refused(request: Request[OffsetFetchRequest], code: Code) -> Steps[OffsetFetchResponse]:
    """Kafka says it once from version 2 on; aiokafka 0.14 looks at partitions alone, and takes none
    for nothing committed.
    """
    if request.version >= 8:
        groups = request.encoded_rows(response.groups)
        for group in request.body.groups:
            groups.add(response.groups(group_id=group.group_id, error_code=int(code)))
            yield
        return response(groups=groups)
    topics = request.encoded_rows(response.topics)
    for topic in request.body.topics or ():
        partitions = request.encoded_rows(response.topics.partitions)
        for index in topic.partition_indexes:
            partitions.add(
                _partition(response.topics.partitions, FetchedPartition(index, error=code))
            )
            yield
        topics.add(response.topics(name=topic.name, partitions=partitions))
        yield
    return response(error_code=int(code), topics=topics)


@handles(OFFSET_FETCH, refused=_refused)
def offset_fetch(
    request: Request[OffsetFetchRequest], metadata: MetadataCache, coordinators: CoordinatorParts
) -> Steps[OffsetFetchResponse | Delayed]:
    groups: list[_OneGroup] = []
    questions: list[Question] = []
    for group in (yield from _groups(request)):
        groups.append(one := _OneGroup(request, metadata.image, group))
        questions += [
            (group.group_id, command, "DESCRIBE", _size(command))
            for command in (yield from one.commands())
        ]
        yield
    return (
        yield from ask_all(
            request, coordinators, len(questions), questions, partial(_answer, groups)
        )
    )


def _groups(
    request: Request[OffsetFetchRequest],
) -> Steps[Sequence[OffsetFetchRequest | OffsetFetchRequestGroup]]:
    """Return the groups of the request; until version 7 the request itself is the only one. A group
    that is named several times without topics is answered once.
    """
    if request.version < 8:
        return (request.body,)
    whole: set[str] = set()
    groups = []
    for group in request.body.groups:
        if group.topics is not None or group.group_id not in whole:
            groups.append(group)
        if group.topics is None:
            whole.add(group.group_id)
        yield
    return groups


def _size(command: FetchOffsets) -> int:
    """Return the number of partitions, at least 1."""
    return 1 + sum([len(topic.partitions) for topic in command.topics or ()])


class _OneGroup:
    """One group of a request: the commands to its coordinator, and the topics that the client may
    not describe. A request may have 100,000 topics.
    """

    __slots__ = ("allowed", "group", "image", "names", "questions", "request")

    def __init__(
        self,
        request: Request[OffsetFetchRequest],
        image: MetadataImage,
        group: OffsetFetchRequest | OffsetFetchRequestGroup,
    ) -> None:
        self.request = request
        self.image = image
        self.group = group
        # by place, as the request has them; None: an unknown id
        self.names: Sequence[str | None] = ()
        self.allowed: Sequence[bool] = ()
        self.questions = 0

    def commands(self) -> Steps[list[FetchOffsets]]:
        """One, or several for very many partitions."""
        request, group = self.request, self.group
        member = (
            (group.member_id, group.member_epoch)
            if isinstance(group, OffsetFetchRequestGroup)
            else (None, -1)
        )
        stable = request.body.require_stable
        if group.topics is None:
            self.questions = 1
            return [FetchOffsets(group.group_id, None, stable, *member)]
        if not group.topics:
            self.questions = 1
            return [FetchOffsets(group.group_id, (), stable, *member)]
        commands: list[FetchOffsets] = []
        topics: list[FetchTopic] = []
        self.names, self.allowed = names, may = list[str | None](), list[bool]()
        room = PARTITIONS_OF_COMMAND
        for topic in group.topics:
            name = self._name(topic)
            allowed = name is None or request.may("DESCRIBE", (TOPIC, name))
            names.append(name)
            may.append(allowed)
            indexes = topic.partition_indexes if allowed else ()
            for first in range(0, len(indexes), PARTITIONS_OF_COMMAND) or (0,):
                part = tuple(indexes[first : first + PARTITIONS_OF_COMMAND])
                if topics and len(part) > room:
                    commands.append(FetchOffsets(group.group_id, tuple(topics), stable, *member))
                    topics, room = [], PARTITIONS_OF_COMMAND
                if allowed:
                    topics.append(FetchTopic(name, part))
                    room -= 1 + len(part)
                yield
        commands.append(FetchOffsets(group.group_id, tuple(topics), stable, *member))
        self.questions = len(commands)
        return commands

    def _name(self, topic: OffsetFetchRequestTopic | OffsetFetchRequestTopics) -> str | None:
        if isinstance(topic, OffsetFetchRequestTopic) or self.request.version < 10:
            return topic.name
        known = self.image.topics.get(topic.topic_id)
        return known.name if known is not None else None

    def topics(self, row: Any, answers: Sequence[OffsetsFetched]) -> Steps[EncodedRows[Any]]:
        """In the order of the request, each with its id."""
        asked: Sequence[OffsetFetchRequestTopic | OffsetFetchRequestTopics] = (
            self.group.topics or ()
        )
        rows = self.request.encoded_rows(row)
        found = chain.from_iterable(
            topic.partitions for answer in answers for topic in answer.topics
        )
        for name, allowed, topic in zip(self.names, self.allowed, asked, strict=True):
            partitions = self.request.encoded_rows(row.partitions)
            for index in topic.partition_indexes:
                each = (
                    next(found)
                    if allowed
                    else FetchedPartition(index, error=Code.TOPIC_AUTHORIZATION_FAILED)
                )
                partitions.add(_partition(row.partitions, each))
                yield
            rows.add(
                _topic(
                    row,
                    name,
                    ZERO_UUID if isinstance(topic, OffsetFetchRequestTopic) else topic.topic_id,
                    partitions,
                )
            )
            yield
        return rows

    def everything(self, row: Any, answer: OffsetsFetched) -> Steps[EncodedRows[Any]]:
        """Return all topics that the client may describe; from version 10 on those that exist."""
        request, ids = self.request, self.image.topic_ids
        rows = request.encoded_rows(row)
        for topic in answer.topics:
            name = topic.name or ""
            if request.may("DESCRIBE", (TOPIC, name)) and (request.version < 10 or name in ids):
                partitions = request.encoded_rows(row.partitions)
                for each in topic.partitions:
                    partitions.add(_partition(row.partitions, each))
                    yield
                rows.add(_topic(row, name, ids.get(name, ZERO_UUID), partitions))
            yield
        return rows


def _answer(
    asked: list[_OneGroup], request: Request[OffsetFetchRequest], answers: list[Any]
) -> Steps[OffsetFetchResponse]:
    rest = iter(answers)
    if request.version < 8:
        (group,) = asked
        found = list(rest)
        if (error := _error(found)) is not None:
            return (yield from _refused(request, error.code))
        whole = (
            group.everything(response.topics, found[0])
            if group.group.topics is None
            else group.topics(response.topics, found)
        )
        return response(topics=(yield from whole))
    groups = request.encoded_rows(response.groups)
    for group in asked:
        found = list(islice(rest, group.questions))
        row = response.groups(group_id=group.group.group_id)
        if (error := _error(found)) is not None:
            row.error_code = int(error.code)
        elif group.group.topics is None:
            row.topics = yield from group.everything(response.groups.topics, found[0])
        else:
            row.topics = yield from group.topics(response.groups.topics, found)
        groups.add(row)
        yield
    return response(groups=groups)


def _error(answers: list[object]) -> KafkaError | None:
    """The first. Of a record of its own consumers know nothing; asked again, another broker may
    coordinate (KAFKA-17267).
    """
    error = next((each for each in answers if isinstance(each, KafkaError)), None)
    return (
        KafkaError(Code.NOT_COORDINATOR)
        if error is not None and error.code is Code.COORDINATOR_NOT_AVAILABLE
        else error
    )


def _topic(
    row: type[Element], name: str | None, topic_id: bytes, partitions: EncodedRows[Any]
) -> Element:
    made = row(name=name or "", partitions=partitions)
    if isinstance(made, OffsetFetchResponseTopics):
        made.topic_id = topic_id
    return made


def _partition(row: type[Element], found: FetchedPartition) -> Element:
    return row(
        partition_index=found.partition,
        committed_offset=found.offset,
        committed_leader_epoch=found.leader_epoch,
        metadata=found.metadata,
        error_code=int(found.error),
    )
