"""Topics as the controller makes, grows and deletes them. Answers come with their errors, a row a
topic. Knows no raftka: any Kafka does.
"""

from collections.abc import Iterable, Mapping, Sequence

from raftka.client.blocking.client import Client
from raftka.wire.messages.partitions import CREATE_PARTITIONS, CreatePartitionsTopicResult
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
