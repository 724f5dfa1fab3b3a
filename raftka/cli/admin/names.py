"""Names of what a cluster has, for the completion in shells: a question each, without patience."""

from collections.abc import Callable, Mapping, Sequence

from raftka.client.blocking.client import Client
from raftka.client.blocking.every_broker import ask_brokers
from raftka.wire.messages.configs import DESCRIBE_CONFIGS
from raftka.wire.messages.groups import LIST_GROUPS
from raftka.wire.messages.scram import DESCRIBE_USER_SCRAM_CREDENTIALS
from raftka.wire.messages.transactions import LIST_TRANSACTIONS

WITHIN_S = 0.5  # for the answers of all brokers
TOPIC, BROKER = 2, 4  # types of resources


def topics(client: Client) -> list[str]:
    return [str(topic.name) for topic in client.refresh(None).topics]


def groups(client: Client) -> list[str]:
    rows = dict.fromkeys(client.brokers, LIST_GROUPS.request())
    answers = ask_brokers(client, LIST_GROUPS, rows, within_s=WITHIN_S)
    return [each.group_id for answer in answers.of.values() for each in answer.groups]


def transactional_ids(client: Client) -> list[str]:
    rows = dict.fromkeys(client.brokers, LIST_TRANSACTIONS.request(duration_filter=-1))
    answers = ask_brokers(client, LIST_TRANSACTIONS, rows, within_s=WITHIN_S)
    return [
        each.transactional_id
        for answer in answers.of.values()
        for each in answer.transaction_states
    ]


def brokers(client: Client) -> list[str]:
    return [str(node_id) for node_id in client.brokers]


def users(client: Client) -> list[str]:
    answer = client.ask_any(
        DESCRIBE_USER_SCRAM_CREDENTIALS, DESCRIBE_USER_SCRAM_CREDENTIALS.request(users=None)
    )
    return [each.user for each in answer.results]


def topic_settings(client: Client) -> list[str]:
    """Of any topic: all have the same."""
    names = topics(client)
    return _settings(client, TOPIC, names[0]) if names else []


def broker_settings(client: Client) -> list[str]:
    return _settings(client, BROKER, str(min(client.brokers)))


def _settings(client: Client, kind: int, name: str) -> list[str]:
    resource = DESCRIBE_CONFIGS.request.resources(
        resource_type=kind, resource_name=name, configuration_keys=None
    )
    answer = client.ask_at(
        client.brokers[min(client.brokers)],
        DESCRIBE_CONFIGS,
        DESCRIBE_CONFIGS.request(resources=[resource]),
    )
    return [
        f"{each.name}=" for found in answer.results for each in found.configs if not each.read_only
    ]


ASKED: Mapping[str, Callable[[Client], Sequence[str]]] = {
    "topics": topics,
    "groups": groups,
    "transactional ids": transactional_ids,
    "brokers": brokers,
    "users": users,
    "topic settings": topic_settings,
    "broker settings": broker_settings,
}
