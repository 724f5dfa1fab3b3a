"""Topics as the controller makes, grows and deletes them. Answers come with their errors, a row a
topic. Knows no raftka: any Kafka does.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from raftka.client.blocking.client import Client, Where
from raftka.client.blocking.connection import Unsupported
from raftka.wire.messages.partitions import CREATE_PARTITIONS, CreatePartitionsTopicResult
from raftka.wire.messages.topic_partitions import DESCRIBE_TOPIC_PARTITIONS
from raftka.wire.messages.topics import (
    CREATE_TOPICS,
    DELETE_TOPICS,
    CreatableTopicResult,
    DeletableTopicResult,
)

TIMEOUT_MS = 30_000  # for the controller, to do what it is asked
BY_NAME = 5  # the last version of DeleteTopics with a list of names


def create_topics(
    client: Client,
    names: Iterable[str],
    partitions: int,
    replication_factor: int,
    settings: Mapping[str, str],
    *,
    validate_only: bool = False,
) -> Sequence[CreatableTopicResult]:
    """Create topics that are alike. -1 partitions or replicas: the brokers' default."""
    topic = CREATE_TOPICS.request.topics
    configs = [topic.configs(name=name, value=value) for name, value in settings.items()]
    wanted = [
        topic(
            name=name,
            num_partitions=partitions,
            replication_factor=replication_factor,
            configs=configs,
        )
        for name in dict.fromkeys(names)
    ]
    request = CREATE_TOPICS.request(
        topics=wanted, timeout_ms=TIMEOUT_MS, validate_only=validate_only
    )
    return client.ask_controller(CREATE_TOPICS, request).topics


def add_partitions(
    client: Client, names: Iterable[str], count: int, *, validate_only: bool = False
) -> Sequence[CreatePartitionsTopicResult]:
    """Let topics have `count` partitions, those that they have included."""
    rows = [
        CREATE_PARTITIONS.request.topics(name=name, count=count, assignments=None)
        for name in dict.fromkeys(names)
    ]
    request = CREATE_PARTITIONS.request(
        topics=rows, timeout_ms=TIMEOUT_MS, validate_only=validate_only
    )
    return client.ask_controller(CREATE_PARTITIONS, request).results


def delete_topics(client: Client, names: Sequence[str]) -> Sequence[DeletableTopicResult]:
    """Delete topics with all their records."""
    request = DELETE_TOPICS.request(topic_names=names, timeout_ms=TIMEOUT_MS)
    return client.ask_controller(DELETE_TOPICS, request, BY_NAME).responses


class EligibleReplicas(NamedTuple):
    """Brokers that have all committed records of a partition outside of its ISR (KIP-966), and
    those that had them when the partition lost its last eligible replica.
    """

    elr: Sequence[int] = ()
    last_known: Sequence[int] = ()


def find_eligible_replicas(client: Client, names: Collection[str]) -> dict[Where, EligibleReplicas]:
    """Return those of the topics' partitions that have such replicas: none where the brokers do not
    know them. Raises OSError.
    """
    api = DESCRIBE_TOPIC_PARTITIONS
    found: dict[Where, EligibleReplicas] = {}
    rest, cursor = sorted(names), None
    while rest:
        topics = [api.request.topics(name=name) for name in rest]
        try:
            answer = client.ask_any(api, api.request(topics=topics, cursor=cursor))
        except Unsupported:
            return {}
        for topic in answer.topics:
            for each in topic.partitions:
                replicas = each.eligible_leader_replicas or (), each.last_known_elr or ()
                if any(replicas):
                    found[str(topic.name), each.partition_index] = EligibleReplicas(*replicas)
        after = answer.next_cursor
        if after is None:
            break
        rest = [name for name in rest if name >= after.topic_name]
        cursor = api.request.cursor(
            topic_name=after.topic_name, partition_index=after.partition_index
        )
    return found
