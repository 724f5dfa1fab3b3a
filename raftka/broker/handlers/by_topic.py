"""Requests that name partitions by topic: the rows of their answers, and the commands to the controller. Knows no API."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from raftka.broker.network.dispatch import Request
from raftka.broker.network.long_work import Steps
from raftka.metadata.commands import TopicPartitions
from raftka.wire.encoder import EncodedRows
from raftka.wire.schema import Row, Struct

PARTITIONS_OF_COMMAND = 500


def rows_by_topic(
    request: Request,
    struct: Struct,
    topics: Iterable[Any],
    partition: Callable[[Any, Any], Row],
    *,
    name: str = "name",
    by_id: bool = False,
    asked: Callable[[Any], Iterable[Any]] = lambda topic: topic.partitions,
) -> Steps[EncodedRows]:
    """Rows of `struct`: `partition(topic, asked)` makes those of its array `partitions`, for each that `asked(topic)` names.

    `name` is the field of the topic's name, in the request and in `struct`; `by_id`: both have a topic id too.
    """
    rows = request.encoded_rows(struct)
    for topic in topics:
        partitions = request.encoded_rows(struct.partitions)
        for each in asked(topic):
            partitions.add(partition(topic, each))
            yield
        row = struct(partitions=partitions)
        setattr(row, name, getattr(topic, name))
        if by_id:
            row.topic_id = topic.topic_id
        rows.add(row)
        yield
    return rows


def partition_commands(asked: Iterable[tuple[str, Sequence[int]]]) -> Steps[list[tuple[TopicPartitions, ...]]]:
    """The topics and partitions of a request as those of several commands: the controller decides on a command in one go."""
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
