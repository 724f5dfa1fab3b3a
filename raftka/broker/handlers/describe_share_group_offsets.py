"""DescribeShareGroupOffsets: v0-1 (KIP-932, KIP-1226); start offsets, from version 1 on lags. A
group that is not there, or is of another kind, has no offsets. One that is named several times
without topics is answered once.
"""

from collections.abc import Callable
from functools import partial

from raftka.broker.context import MetadataCache
from raftka.broker.coordinators.runtime import Gathered
from raftka.broker.coordinators.share_offsets import ShareOffset
from raftka.broker.handlers.coordinator_request import (
    UNAVAILABLE,
    CoordinatorRequest,
    check_group,
)
from raftka.broker.handlers.parts import CoordinatorParts
from raftka.broker.handlers.share_group_heartbeat import check_served
from raftka.broker.network.access.authorizer import TOPIC
from raftka.broker.network.dispatch import handles
from raftka.broker.network.request import Delayed, Request
from raftka.broker.work.long_work import Steps
from raftka.coordinator.share.commands import ListSharePartitions, Place
from raftka.coordinator.share.records import Topics as SharePartitions
from raftka.metadata.image import MetadataImage
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.share_offsets import (
    DESCRIBE_SHARE_GROUP_OFFSETS,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
)
from raftka.wire.rows import ZERO_UUID

response = DESCRIBE_SHARE_GROUP_OFFSETS.response
# topics of an answer: name, id, partitions
Done = Callable[[object], None]
Topics = list[tuple[str, bytes, tuple[int, ...]]]


def _refused(
    request: Request[DescribeShareGroupOffsetsRequest], code: Code
) -> Steps[DescribeShareGroupOffsetsResponse]:
    groups = request.encoded_rows(response.groups)
    for group in request.body.groups:
        groups.add(response.groups(group_id=group.group_id, error_code=int(code)))
        yield
    return response(groups=groups)


@handles(DESCRIBE_SHARE_GROUP_OFFSETS, refused=_refused)
def describe_share_group_offsets(
    request: Request[DescribeShareGroupOffsetsRequest],
    metadata: MetadataCache,
    coordinators: CoordinatorParts,
) -> Steps[DescribeShareGroupOffsetsResponse | Delayed]:
    check_served(metadata)
    whole: set[str] = set()  # groups all of whose topics are wanted
    groups = []
    for asked in request.body.groups:
        if asked.topics is not None or asked.group_id not in whole:
            groups.append(_OneGroup(request, metadata.image, coordinators, asked))
        if asked.topics is None:
            whole.add(asked.group_id)
        yield
    coordinator_request = CoordinatorRequest(request, request.dispatcher.long_work, _answer)
    request.stays = True
    gathered = Gathered(len(groups), partial(_all, coordinator_request, groups))
    for place, group in enumerate(groups):
        group.begin(gathered.place(place))
        yield
    return coordinator_request.result()


def _all(ticket: Done, groups: "list[_OneGroup]", answers: list[object]) -> None:
    ticket(list(zip(groups, answers, strict=True)))


def _answer(
    request: Request[DescribeShareGroupOffsetsRequest],
    answers: "list[tuple[_OneGroup, dict[Place, ShareOffset] | KafkaError]]",
) -> Steps[DescribeShareGroupOffsetsResponse]:
    groups = request.encoded_rows(response.groups)
    for group, found in answers:
        groups.add((yield from group.row(found)))
        yield
    return response(groups=groups)


class _OneGroup:
    """One group of a request: its share partitions, then their offsets."""

    def __init__(
        self,
        request: Request[DescribeShareGroupOffsetsRequest],
        image: MetadataImage,
        coordinators: CoordinatorParts,
        asked: DescribeShareGroupOffsetsRequestGroup,
    ) -> None:
        self._request = request
        self._image = image
        self._groups = coordinators.groups
        self._asked = asked
        self._topics: Topics = []
        self._refused: set[str] = set()  # topics that the client may not describe
        self._done: Done

    def begin(self, done: Done) -> None:
        """Call `done` with the offsets of the group's partitions, or an error."""
        self._done = done
        group_id = self._asked.group_id
        try:
            check_group(self._request, "DESCRIBE", group_id)
            self._groups.runtime.submit(group_id, ListSharePartitions(group_id), self._listed)
        except KafkaError as error:
            done(error.with_traceback(None))

    def _listed(self, answer: SharePartitions | KafkaError) -> None:
        if isinstance(answer, KafkaError):
            self._done(answer)
            return
        work = self._request.dispatcher.long_work
        work.run("share partitions of a group", self._select(answer), self._selected)

    def _select(self, there: SharePartitions) -> Steps[dict[Place, str]]:
        """Return the share partitions whose offsets are wanted, with their topics' names."""
        yield from self._select_topics(there)
        wanted = {}
        for name, topic_id, partitions in self._topics:
            known = there[topic_id].partitions if topic_id in there else frozenset()
            wanted.update({(topic_id, each): name for each in partitions if each in known})
            yield
        return wanted

    def _select_topics(self, there: SharePartitions) -> Steps[None]:
        if self._asked.topics is None:
            for topic_id, (name, partitions) in there.items():
                if topic_id in self._image.topics and self._may(name):
                    self._topics.append((name, topic_id, tuple(sorted(partitions))))
                yield
            return
        for asked in self._asked.topics:
            name = asked.topic_name
            topic_id = self._image.topic_ids.get(name, ZERO_UUID)
            if not self._may(name):
                self._refused.add(name)
                topic_id = ZERO_UUID
            self._topics.append((name, topic_id, tuple(asked.partitions)))
            yield

    def _may(self, name: str) -> bool:
        return self._request.may("DESCRIBE", (TOPIC, name))

    def _selected(self, wanted: dict[Place, str] | Exception) -> None:
        if isinstance(wanted, Exception):
            self._done(KafkaError(Code.UNKNOWN_SERVER_ERROR))
        else:
            self._groups.share_offsets.find(self._asked.group_id, wanted, self._done)

    def row(
        self, found: dict[Place, ShareOffset] | KafkaError
    ) -> Steps[DescribeShareGroupOffsetsResponseGroup]:
        group_row = response.groups
        group_id = self._asked.group_id
        if isinstance(found, KafkaError):
            text = UNAVAILABLE.get(found.code, found.message)
            return group_row(group_id=group_id, error_code=int(found.code), error_message=text)
        topics = self._request.encoded_rows(group_row.topics)
        for name, topic_id, indexes in self._topics:
            partitions = self._request.encoded_rows(group_row.topics.partitions)
            for index in indexes:
                offset = found.get((topic_id, index), ShareOffset())
                if name in self._refused:
                    offset = ShareOffset(error=KafkaError(Code.TOPIC_AUTHORIZATION_FAILED))
                partitions.add(self._partition(index, offset))
                yield
            topics.add(group_row.topics(topic_name=name, topic_id=topic_id, partitions=partitions))
            yield
        return group_row(group_id=group_id, topics=topics)

    def _partition(
        self, index: int, offset: ShareOffset
    ) -> DescribeShareGroupOffsetsResponsePartition:
        row = response.groups.topics.partitions(
            partition_index=index, start_offset=offset.start, leader_epoch=offset.leader_epoch
        )
        if self._request.version >= 1:
            row.lag = offset.lag
        if offset.error is not None:
            row.error_code, row.error_message = int(offset.error.code), offset.error.message
        return row
