"""Facts that the cluster tells: brokers, topics, the quorum, rights, quotas. Speaks Kafka's
protocol alone; a subject about which no broker tells is noted, and the others are asked.
"""

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TypeVar

from raftka.cli.admin.features import read_features
from raftka.client.blocking.access import list_scram_users
from raftka.client.blocking.client import (
    Client,
    Unreachable,
    Where,
    by_topic,
    check,
    list_offsets_request,
)
from raftka.client.blocking.connection import ClientError, Unsupported
from raftka.client.blocking.every_broker import ask_brokers
from raftka.client.blocking.log_dirs import read_directories
from raftka.client.blocking.quorum import LEADER, Quorum, read_quorum
from raftka.client.connection import SOFTWARE_VERSION
from raftka.console.cluster.node_metrics import read_page
from raftka.doctor.facts import Broker, Partition, Settings, Token, Topic
from raftka.wire.errors import Code, KafkaError, name_of_code
from raftka.wire.messages.api_versions import API_VERSIONS
from raftka.wire.messages.cluster import DESCRIBE_CLUSTER
from raftka.wire.messages.configs import DESCRIBE_CONFIGS, DescribeConfigsResult
from raftka.wire.messages.delegation_tokens import DESCRIBE_DELEGATION_TOKEN
from raftka.wire.messages.list_offsets import LIST_OFFSETS, MAX_TIMESTAMP
from raftka.wire.messages.log_dirs import DESCRIBE_LOG_DIRS
from raftka.wire.schema import Api, Req, Resp

T = TypeVar("T")

SOFTWARE = "raftka-doctor"  # not raftka: brokers show it what they show to any client
OF_TOPIC, OF_BROKER = 2, 4  # types of resources with settings
TOPICS_OF_REQUEST = 500
PARTITIONS_OF_REQUEST = 5_000
ANSWER_S = 10.0  # of a broker with many replicas
NOT_THERE = {  # answers of a cluster without ACLs or delegation tokens
    Code.SECURITY_DISABLED,
    Code.DELEGATION_TOKEN_AUTH_DISABLED,
    Code.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
}
SAMPLE = re.compile(rb"^(process_\w+_fds|raftka_wall_clock_seconds) ([0-9.e+]+)$", re.MULTILINE)
OTHER_NODE = re.compile(r"Unexpected broker id, expected (\d+)")  # the answer of Kafka, and ours
BROKER_SETTINGS = (
    "authorizer.class.name",
    "auto.create.topics.enable",
    "default.replication.factor",
    "listener.security.protocol.map",
    "listeners",
    "metrics.host",
    "metrics.port",
    "min.insync.replicas",
    "offsets.topic.replication.factor",
    "raftka.log.flush",
    "sasl.enabled.mechanisms",
    "share.coordinator.state.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "unclean.leader.election.enable",
)
TOPIC_SETTINGS = (
    "flush.messages",
    "min.insync.replicas",
    "retention.bytes",
    "unclean.leader.election.enable",
)


class Questions:
    """The questions to one cluster. `unknown`: subjects without an answer, and why. `silent`: those
    to which nobody answered in time.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self.silent: set[str] = set()
        self.unknown: dict[str, str] = {}

    def try_to(self, subject: str, ask: Callable[[], T]) -> T | None:
        """Return what `ask` returns; None, and note why, where the cluster does not tell."""
        try:
            return ask()
        except (OSError, ClientError, KafkaError) as error:
            if isinstance(error, Unreachable):
                self.silent.add(subject)
            if not (isinstance(error, KafkaError) and error.code in NOT_THERE):
                self.unknown[subject] = str(error)
            return None

    def each(
        self, subject: str, api: Api[Req, Resp], rows: Mapping[int, Req]
    ) -> Mapping[int, Resp]:
        """Return the answers of brokers, each to its own question; note those that lack."""
        answers = self.try_to(
            subject, lambda: ask_brokers(self._client, api, rows, within_s=ANSWER_S)
        )
        if answers is None:
            return {}
        for node_id, why in answers.missing.items():
            self.unknown[f"{subject} of broker {node_id}"] = why
        return answers.of

    def topics(self) -> dict[str, Topic]:
        """Return all topics, internal ones among them, with their settings."""
        found = {
            topic.name or "": Topic(
                topic.name or "",
                {
                    each.partition_index: Partition(
                        each.leader_id, each.replica_nodes, each.isr_nodes
                    )
                    for each in topic.partitions
                },
            )
            for topic in self._client.metadata(None).topics
            if not topic.error_code
        }
        names = sorted(found)
        settings = self.try_to("settings of topics", lambda: dict(self._topic_settings(names)))
        return {
            name: each._replace(settings=(settings or {}).get(name, {}))
            for name, each in found.items()
        }

    def _topic_settings(self, names: Sequence[str]) -> Iterator[tuple[str, Settings]]:
        resource = DESCRIBE_CONFIGS.request.resources
        for some in portions(names, TOPICS_OF_REQUEST):
            rows = [
                resource(
                    resource_type=OF_TOPIC, resource_name=name, configuration_keys=TOPIC_SETTINGS
                )
                for name in some
            ]
            for each in self._client.ask(
                DESCRIBE_CONFIGS, DESCRIBE_CONFIGS.request(resources=rows)
            ).results:
                if not each.error_code:
                    yield each.resource_name, _values(each)

    def brokers(self) -> dict[int, Broker]:
        """Return all registered brokers, with everything that each tells about itself."""
        found = self._registered()
        alive = [each.node_id for each in found.values() if each.is_alive]
        resource = DESCRIBE_CONFIGS.request.resources
        settings = self.each(
            "settings",
            DESCRIBE_CONFIGS,
            {
                node_id: DESCRIBE_CONFIGS.request(
                    resources=[
                        resource(
                            resource_type=OF_BROKER,
                            resource_name=str(node_id),
                            configuration_keys=BROKER_SETTINGS,
                        )
                    ]
                )
                for node_id in alive
            },
        )
        for node_id, answer in settings.items():
            (result,) = answer.results
            if result.error_code:
                self.unknown[f"settings of broker {node_id}"] = name_of_code(result.error_code)
                other = OTHER_NODE.match(result.error_message or "")
                found[node_id] = found[node_id]._replace(other_node=other[1] if other else None)
                continue
            found[node_id] = found[node_id]._replace(settings=_values(result))
        self._add_versions(found, alive)
        self._add_directories(found, alive)
        for node_id in alive:
            found[node_id] = _with_metrics(found[node_id])
        return found

    def _registered(self) -> dict[int, Broker]:
        request = DESCRIBE_CLUSTER.request
        for asked in (request(include_fenced_brokers=True), request()):
            try:
                answer = self._client.ask(DESCRIBE_CLUSTER, asked)
            except Unsupported:
                continue
            check(answer.error_code, answer.error_message)
            return {
                each.broker_id: Broker(
                    each.broker_id, each.host, each.port, each.rack, not each.is_fenced
                )
                for each in answer.brokers
            }
        return {
            each.node_id: Broker(each.node_id, each.host, each.port, each.rack)
            for each in self._client.metadata(()).brokers
        }

    def _add_versions(self, found: dict[int, Broker], alive: Iterable[int]) -> None:
        row = API_VERSIONS.request(
            client_software_name=SOFTWARE, client_software_version=SOFTWARE_VERSION
        )
        for node_id, answer in self.each(
            "versions", API_VERSIONS, dict.fromkeys(alive, row)
        ).items():
            found[node_id] = found[node_id]._replace(
                apis={
                    each.api_key: (each.min_version, each.max_version) for each in answer.api_keys
                },
                levels={
                    each.name: (each.min_version, each.max_version)
                    for each in answer.supported_features
                },
            )

    def _add_directories(self, found: dict[int, Broker], alive: Iterable[int]) -> None:
        row = DESCRIBE_LOG_DIRS.request(topics=None)
        answers = self.each("log directories", DESCRIBE_LOG_DIRS, dict.fromkeys(alive, row))
        for node_id, answer in answers.items():
            if answer.error_code:
                self.unknown["log directories"] = name_of_code(answer.error_code)
                continue
            found[node_id] = found[node_id]._replace(directories=read_directories(answer))

    def levels(self) -> dict[str, int]:
        return {name: each.level for name, each in read_features(self._client).items()}

    def quorum(self) -> tuple[Quorum | None, int | None]:
        """Return the quorum, and by how many ms its leader's clock is ahead of ours."""
        before_ms = now_ms()
        quorum = read_quorum(self._client)
        after_ms = now_ms()
        leader_ms = max(
            (each.fetched_ms for each in quorum.nodes if each.role == LEADER) if quorum else (),
            default=-1,
        )
        return quorum, ahead_ms(leader_ms, before_ms, after_ms) if leader_ms > 0 else None

    def sizes(
        self, wheres: Iterable[Where], node_ids: Iterable[int]
    ) -> dict[tuple[int, Where], int]:
        """Return bytes of replicas by broker and partition."""
        topics = by_topic((where, where[1]) for where in wheres)
        row = DESCRIBE_LOG_DIRS.request.topics
        request = DESCRIBE_LOG_DIRS.request(
            topics=[row(topic=name, partitions=indexes) for name, indexes in topics.items()]
        )
        answers = self.each("sizes", DESCRIBE_LOG_DIRS, dict.fromkeys(node_ids, request))
        return {
            (node_id, where): size
            for node_id, answer in answers.items()
            for each in read_directories(answer)
            for where, size in each.sizes.items()
        }

    def scram_users(self) -> list[str]:
        return [each.user for each in list_scram_users(self._client)]

    def tokens(self) -> list[Token]:
        """Raises KafkaError where the cluster has no delegation tokens."""
        answer = self._client.ask(
            DESCRIBE_DELEGATION_TOKEN, DESCRIBE_DELEGATION_TOKEN.request(owners=None)
        )
        check(answer.error_code)
        return [Token(each.token_id, each.expiry_timestamp) for each in answer.tokens]

    def newest_ms(self, topics: Mapping[str, Topic]) -> dict[Where, int]:
        """Return the latest time among the records of each partition, where it has some."""
        led: dict[int, list[Where]] = {}
        for topic in topics.values():
            for index, each in topic.partitions.items():
                led.setdefault(each.leader, []).append((topic.name, index))
        led.pop(-1, None)
        found: dict[Where, int] = {}
        while led:
            rows = {
                node_id: list_offsets_request(
                    dict.fromkeys(own[:PARTITIONS_OF_REQUEST], MAX_TIMESTAMP)
                )
                for node_id, own in led.items()
            }
            for answer in self.each("times of records", LIST_OFFSETS, rows).values():
                found |= {
                    (topic.name, each.partition_index): each.timestamp
                    for topic in answer.topics
                    for each in topic.partitions
                    if not each.error_code and each.timestamp >= 0
                }
            led = {
                node_id: own[PARTITIONS_OF_REQUEST:]
                for node_id, own in led.items()
                if own[PARTITIONS_OF_REQUEST:]
            }
        return found


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def ahead_ms(told_ms: int, before_ms: int, after_ms: int) -> int:
    """Return by how much a clock that was read between two moments of ours differs at least."""
    if before_ms <= told_ms <= after_ms:
        return 0
    return told_ms - after_ms if told_ms > after_ms else told_ms - before_ms


def portions(items: Sequence[T], size: int) -> Iterator[list[T]]:
    rest = iter(items)
    while some := list(islice(rest, size)):
        yield some


def _values(result: DescribeConfigsResult) -> Settings:
    return {each.name: each.value for each in result.configs if each.value is not None}


def _with_metrics(broker: Broker) -> Broker:
    """Add numbers of the broker's own page of metrics, where it has one that needs no login."""
    port = broker.settings.get("metrics.port") or ""
    if not port.isdecimal() or not 0 < int(port) < 65536:
        return broker
    before_ms = now_ms()
    page = read_page((broker.settings.get("metrics.host") or broker.host, int(port)))
    after_ms = now_ms()
    metrics = {name.decode(): float(value) for name, value in SAMPLE.findall(page)}
    clock_s = metrics.get("raftka_wall_clock_seconds")
    ahead = ahead_ms(round(clock_s * 1000), before_ms, after_ms) if clock_s is not None else None
    return broker._replace(metrics=metrics, clock_ahead_ms=ahead)
