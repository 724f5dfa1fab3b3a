"""Requests that name partitions by topic: the rows of their answers, and the commands to the
controller. Knows no API.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from raftka.broker.network.request import Request
from raftka.broker.work.long_work import Steps
from raftka.metadata.commands import TopicPartitions
from raftka.wire.encoder import EncodedRows
from raftka.wire.schema import Element, Row

PARTITIONS_OF_COMMAND = 200

Asked = TypeVar("Asked", bound=Row)  # a topic of the request


def rows_by_topic(
    request: Request[Row],
    row: type[Element],
    topics: Iterable[Asked],
    partition: Callable[[Asked, Any], Row],
    *,
    name: str = "name",
    asked: Callable[[Any], Iterable[object]] = lambda topic: topic.partitions,
) -> Steps[EncodedRows[Element]]:
    """Return rows of class `row`: `partition(topic, asked)` makes those of its array `partitions`,
    for each that `asked(topic)` names.

    `name` is the field of the topic's name, in the request and in `row`.
    """
    rows = request.encoded_rows(row)
    partition_row = row.struct.inner["partitions"].row
    for topic in topics:
        partitions = request.encoded_rows(partition_row)
        for each in asked(topic):
            partitions.add(partition(topic, each))
            yield
        rows.add(row(**{name: getattr(topic, name), "partitions": partitions}))
        yield
    return rows


def partition_commands(
    asked: Iterable[tuple[str, Sequence[int]]],
) -> Steps[list[tuple[TopicPartitions, ...]]]:
    """Return the topics and partitions of a request as those of several commands: the controller
    decides on a command in one go.
    """
    commands: list[tuple[TopicPartitions, ...]] = []
    command: list[TopicPartitions] = []
    room = PARTITIONS_OF_COMMAND
    for name, indexes in asked:
        for first in range(0, len(indexes), PARTITIONS_OF_COMMAND) or (0,):
            part = tuple(indexes[first : first + PARTITIONS_OF_COMMAND])
            if command and len(part) > room:
                commands.append(tuple(command))
                command, room = [], PARTITIONS_OF_COMMAND
            command.append(TopicPartitions(name, part))
            room -= 1 + len(part)
            yield
    return [*commands, tuple(command)]
