"""Requests about groups of the new protocols: consumer, share and streams groups. Knows none of
them.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from raftka.broker.handlers.coordinator_request import UNAVAILABLE, ask_of_each
from raftka.broker.handlers.parts import CoordinatorParts
from raftka.broker.network.access.authorizer import TOPIC
from raftka.broker.network.request import Delayed, Request
from raftka.broker.work.long_work import Steps
from raftka.coordinator.consumer.commands import ConsumerBeat, Target
from raftka.coordinator.share.commands import ShareBeat
from raftka.limits import SUBSCRIBED_NAMES
from raftka.metadata.image import MetadataImage
from raftka.wire.errors import Code, KafkaError, check_limit
from raftka.wire.schema import Resp, Row

MAY_NOT_DESCRIBE = "The group has described topic(s) that the client is not authorized to describe."

Found = TypeVar("Found")  # a group, as the coordinator describes it
Assignment = TypeVar("Assignment", bound=Row)  # of a member: its partitions by topic
Describe = Request[Any]  # names `group_ids`, and is answered with `groups`


# heartbeats


def read_subscription(
    request: Request[Row], names: Sequence[str] | None
) -> Steps[tuple[str, ...] | None]:
    """Return the topics that a member subscribes to; None: the same as before. Raises
    INVALID_REQUEST, TOPIC_AUTHORIZATION_FAILED.
    """
    if names is None:
        return None
    check_limit(SUBSCRIBED_NAMES, len(names), code=Code.INVALID_REQUEST)
    for name in names:
        if not request.may("DESCRIBE", (TOPIC, name)):
            raise KafkaError(Code.TOPIC_AUTHORIZATION_FAILED)
        yield
    return tuple(names)


def beat_row(response: type[Resp], answer: ConsumerBeat | ShareBeat | KafkaError) -> Resp:
    if isinstance(answer, KafkaError):
        return response(error_code=int(answer.code), error_message=answer.message)
    assignment = None
    if answer.assignment is not None:
        make = response.struct.inner["assignment"].row
        row = make.struct.inner["topic_partitions"].row
        assignment = make(
            topic_partitions=[
                row(topic_id=topic_id, partitions=list(partitions))
                for topic_id, partitions in answer.assignment.items()
            ]
        )
    return response(
        member_id=answer.member_id,
        member_epoch=answer.epoch,
        heartbeat_interval_ms=answer.interval_ms,
        assignment=assignment,
    )


# descriptions


def refuse_each(request: Describe, code: Code) -> Steps[Any]:
    """Return the answer to a request that failed as a whole."""
    make = request.api.response
    groups = request.encoded_rows(make.groups)
    for group_id in request.body.group_ids:
        groups.add(make.groups(group_id=group_id, error_code=int(code)))
        yield
    return make(groups=groups)


def describe_each(
    request: Describe,
    response: type[Resp],
    coordinators: CoordinatorParts,
    command: Callable[[str], object],
    group_row: Callable[[Found], Steps[Row]],
) -> Steps[Resp | Delayed]:
    """Return the answer: for each group the row that `group_row` makes of the coordinator's answer,
    or that of the error that it raises. A group that is named twice is described once.
    """
    asked = dict.fromkeys(request.body.group_ids)
    make = response.struct.inner["groups"].row

    def checked_command(group_id: str) -> object:
        if not group_id:
            raise KafkaError(Code.INVALID_GROUP_ID)
        return command(group_id)

    def row(group_id: str, found: Found | KafkaError) -> Steps[Row]:
        if isinstance(found, KafkaError):
            return _error_row(make, group_id, found)
        try:
            return (yield from group_row(found))
        except KafkaError as error:
            return _error_row(make, group_id, error)

    def answer(request: Describe, answers: list[Found | KafkaError]) -> Steps[Resp]:
        groups = request.encoded_rows(make)
        for group_id, found in zip(asked, answers, strict=True):
            groups.add((yield from row(group_id, found)))
            yield
        return response(groups=groups)

    return (
        yield from ask_of_each(request, coordinators, asked, "DESCRIBE", checked_command, answer)
    )


def _error_row(make: type[Row], group_id: str, error: KafkaError) -> Row:
    text = UNAVAILABLE.get(error.code, error.message)
    return make(group_id=group_id, error_code=int(error.code), error_message=text)


def check_topics(request: Describe, names: Iterable[str], text: str) -> Steps[None]:
    """Raise TOPIC_AUTHORIZATION_FAILED with `text` if the client may not describe a topic."""
    for name in names:
        if not request.may("DESCRIBE", (TOPIC, name)):
            raise KafkaError(Code.TOPIC_AUTHORIZATION_FAILED, text)
        yield


def assignment_row(make: type[Assignment], image: MetadataImage, target: Target) -> Assignment:
    """Return the row of an assignment, without topics that are deleted."""
    row = make.struct.inner["topic_partitions"].row
    found = [(image.topics.get(topic_id), partitions) for topic_id, partitions in target.items()]
    return make(
        topic_partitions=[
            row(topic_id=topic.topic_id, topic_name=topic.name, partitions=list(partitions))
            for topic, partitions in found
            if topic is not None
        ]
    )
