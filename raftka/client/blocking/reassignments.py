"""Reassignments under way, begun and cancelled, and elections of leaders. Knows no raftka."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from raftka.client.blocking.client import Client, Where, by_topic, check
from raftka.wire.messages.partitions import ELECT_LEADERS
from raftka.wire.messages.reassignments import (
    ALTER_PARTITION_REASSIGNMENTS,
    LIST_PARTITION_REASSIGNMENTS,
)

TIMEOUT_MS = 30_000  # for the controller, to do what it is asked
PREFERRED, UNCLEAN = 0, 1  # kinds of elections


class Reassignment(NamedTuple):
    """`replicas`: all of now, those that come and those that go among them."""

    where: Where
    replicas: Sequence[int]
    adding: Sequence[int]
    removing: Sequence[int]


class Elected(NamedTuple):
    """`code`: of Kafka's errors, ELECTION_NOT_NEEDED among them."""

    where: Where
    code: int
    message: str | None


def list_reassignments(client: Client) -> list[Reassignment]:
    """Return those under way, in the order of their partitions. Raises KafkaError."""
    answer = client.ask_controller(
        LIST_PARTITION_REASSIGNMENTS,
        LIST_PARTITION_REASSIGNMENTS.request(timeout_ms=TIMEOUT_MS, topics=None),
    )
    check(answer.error_code, answer.error_message)
    found = (
        Reassignment(
            (topic.name, each.partition_index),
            each.replicas,
            each.adding_replicas,
            each.removing_replicas,
        )
        for topic in answer.topics
        for each in topic.partitions
    )
    return sorted(found, key=lambda each: each.where)


def alter_reassignments(
    client: Client, wanted: Mapping[Where, list[int] | None]
) -> list[tuple[Where, int]]:
    """Begin reassignments; None cancels one. Return the error codes in the order of the partitions.
    Raises KafkaError.
    """
    request = ALTER_PARTITION_REASSIGNMENTS.request
    topics = by_topic(
        (where, request.topics.partitions(partition_index=where[1], replicas=replicas))
        for where, replicas in wanted.items()
    )
    rows = [request.topics(name=name, partitions=partitions) for name, partitions in topics.items()]
    answer = client.ask_controller(
        ALTER_PARTITION_REASSIGNMENTS, request(timeout_ms=TIMEOUT_MS, topics=rows)
    )
    check(answer.error_code, answer.error_message)
    return sorted(
        ((topic.name, p.partition_index), p.error_code)
        for topic in answer.responses
        for p in topic.partitions
    )


def elect_leaders(client: Client, wheres: Iterable[Where], kind: int = PREFERRED) -> list[Elected]:
    """Raises KafkaError."""
    request = ELECT_LEADERS.request
    topics = by_topic((where, where[1]) for where in wheres)
    rows = [request.topic_partitions(topic=name, partitions=own) for name, own in topics.items()]
    answer = client.ask_controller(
        ELECT_LEADERS,
        request(election_type=kind, topic_partitions=rows, timeout_ms=TIMEOUT_MS),
    )
    check(answer.error_code, "the election")
    return [
        Elected((each.topic, p.partition_id), p.error_code, p.error_message)
        for each in answer.replica_election_results
        for p in each.partition_result
    ]
