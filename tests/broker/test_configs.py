"""Settings that change while nodes run hold on every node without a restart, and after one; a
client without the right is refused.
"""

from collections.abc import Iterator

import pytest

from raftka.broker.network.access.authorizer import AllowAll, Resource
from raftka.broker.network.session import Session
from raftka.limits import DESCRIBED_SETTINGS
from raftka.metadata.configs.topic import TOPIC_SETTINGS
from raftka.metadata.image import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from raftka.metadata.quorum.raft_types import Snapshot
from raftka.metadata.records import ConfigSet
from raftka.wire.errors import Code
from raftka.wire.messages.configs import (
    ALTER_CONFIGS,
    DESCRIBE_CONFIGS,
    INCREMENTAL_ALTER_CONFIGS,
    LIST_CONFIG_RESOURCES,
    DescribeConfigsResourceResult,
)
from raftka.wire.messages.produce import PRODUCE
from tests.broker.conftest import Lower
from tests.broker.requests import batch, produce, produced
from tests.broker.stage import Stage

SETTING = {
    TOPIC: "retention.ms",
    BROKER: "log.retention.ms",
    BROKER_LOGGER: "root",
    CLIENT_METRICS: "interval.ms",
    GROUP: "consumer.session.timeout.ms",
}


@pytest.fixture
def three() -> Iterator[Stage]:
    with Stage(3) as stage:
        yield stage
        assert not stage.world.failures


def described(
    stage: Stage, kind: int, name: str, node_id: int = 1
) -> dict[str, DescribeConfigsResourceResult]:
    request = DESCRIBE_CONFIGS.request
    (result,) = (
        stage.wire(node_id)
        .ask(
            DESCRIBE_CONFIGS,
            request(resources=[request.resources(resource_type=kind, resource_name=name)]),
        )
        .results
    )
    assert result.error_code == 0, result
    return {row.name: row for row in result.configs}


def refusal(
    stage: Stage,
    kind: int,
    name: str,
    setting: str,
    value: str | None,
    operation: int = 0,
    node_id: int = 1,
) -> tuple[Code, str | None]:
    request = INCREMENTAL_ALTER_CONFIGS.request
    change = request.resources.configs(name=setting, config_operation=operation, value=value)
    resource = request.resources(resource_type=kind, resource_name=name, configs=[change])
    (answer,) = (
        stage.wire(node_id).ask(INCREMENTAL_ALTER_CONFIGS, request(resources=[resource])).responses
    )
    return Code(answer.error_code), answer.error_message


# they hold


def test_a_topics_settings_hold_on_every_replica_at_once(three: Stage) -> None:
    three.create("t", replication_factor=3)
    records = batch(b"x" * 5000)
    wire = three.wire(three.leader("t"))
    assert produced(wire.ask(PRODUCE, produce("t", records))).error_code == 0

    three.set(TOPIC, "t", max_message_bytes="1000", retention_ms="77", min_insync_replicas="3")

    assert produced(wire.ask(PRODUCE, produce("t", records))).error_code == Code.MESSAGE_TOO_LARGE
    for node_id in three.nodes:
        config = three.partition("t", node_id=node_id).log.config
        assert (config.max_message_bytes, config.retention_ms) == (1000, 77)
        assert described(three, TOPIC, "t", node_id)["retention.ms"].value == "77"
    leader = three.partition("t").leader
    assert leader is not None
    assert leader.min_isr == 3
    three.set(TOPIC, "t", max_message_bytes=None)
    assert produced(wire.ask(PRODUCE, produce("t", records))).error_code == 0


def test_what_is_set_for_all_brokers_is_every_topics_default_on_every_node(three: Stage) -> None:
    three.create("t", replication_factor=3)
    three.create("own", replication_factor=3, configs={"retention_ms": "5"})

    three.set(
        BROKER,
        "",
        node_id=2,
        log_retention_ms="77",
        min_insync_replicas="3",
        log_segment_delete_delay_ms="11",
        producer_id_expiration_ms="12",
    )

    for node_id, node in three.nodes.items():
        config = three.partition("t", node_id=node_id).log.config
        assert (config.retention_ms, config.producer_id_expiration_ms) == (77, 12)
        assert three.partition("own", node_id=node_id).log.config.retention_ms == 5
        assert node.settings["log.segment.delete.delay.ms"] == 11
    for name in ("t", "own"):
        leader = three.partition(name).leader
        assert leader is not None
        assert leader.min_isr == 3
    three.set(BROKER, "", log_retention_ms=None)
    assert {
        three.partition("t", node_id=node_id).log.config.retention_ms for node_id in three.nodes
    } == {7 * 86_400_000}


def test_what_is_set_for_one_broker_holds_there_alone(three: Stage) -> None:
    three.create("t", replication_factor=3)

    three.set(BROKER, "2", node_id=2, log_retention_ms="77", log_segment_delete_delay_ms="11")

    assert [
        three.partition("t", node_id=node_id).log.config.retention_ms for node_id in three.nodes
    ] == [7 * 86_400_000, 77, 7 * 86_400_000]
    assert [node.settings["log.segment.delete.delay.ms"] for node in three.nodes.values()] == [
        60_000,
        11,
        60_000,
    ]
    assert described(three, BROKER, "2", 2)["log.retention.ms"].config_source == 2


def test_they_outlive_a_power_loss() -> None:
    with Stage() as stage:
        stage.create("t")
        stage.set(BROKER, "", log_retention_ms="77", log_segment_delete_delay_ms="11")
        stage.set(TOPIC, "t", retention_bytes="5")

        stage.kill(1, power_loss=True)
        stage.start(1)
        stage.wait(stage.nodes[1].ready.is_set)

        config = stage.partition("t").log.config
        assert (config.retention_ms, config.retention_bytes) == (77, 5)
        assert stage.nodes[1].settings["log.segment.delete.delay.ms"] == 11


def test_a_running_broker_that_gets_a_snapshot_in_place_of_entries_has_them_too() -> None:
    with Stage() as stage:
        stage.create("t")
        node = stage.nodes[1]
        settings = [
            ConfigSet(TOPIC, "t", "retention.ms", "77"),
            ConfigSet(BROKER, "", "log.segment.delete.delay.ms", "11"),
        ]
        later, _ = node.image.apply(node.image.offset + 1, settings)

        node.apply(Snapshot(later.offset, 1, later.to_snapshot()))

        assert stage.partition("t").log.config.retention_ms == 77
        assert node.settings["log.segment.delete.delay.ms"] == 11


def test_the_level_of_the_log_is_the_nodes_own_and_is_forgotten_with_it() -> None:
    with Stage() as stage:
        stage.set(BROKER_LOGGER, "1", root="ERROR")
        assert described(stage, BROKER_LOGGER, "1")["root"].value == "ERROR"
        before = len(stage.logs[1].getvalue())
        stage.nodes[1].events.warning("nobody_reads_this")
        assert len(stage.logs[1].getvalue()) == before

        stage.set(BROKER_LOGGER, "1", root="DEBUG")
        stage.nodes[1].events.debug("somebody_reads_this")
        assert stage.events("somebody_reads_this")

        stage.kill(1)
        stage.start(1)
        stage.wait(stage.nodes[1].ready.is_set)
        assert described(stage, BROKER_LOGGER, "1")["root"].value == "INFO"


# what is refused before the controller is asked


@pytest.mark.parametrize(
    ("kind", "name", "setting", "value", "operation", "expected"),
    [
        (
            BROKER,
            "2",
            "log.cleaner.threads",
            "2",
            0,
            "Unexpected broker id, expected 1, but received 2",
        ),
        (BROKER, "x", "log.cleaner.threads", "2", 0, "Node id must be an integer, but it is: x"),
        (BROKER_LOGGER, "2", "root", "INFO", 0, "Unexpected node id. Expected 1, but received 2"),
        (BROKER_LOGGER, "", "root", "INFO", 0, "Node id must be an integer, but it is: "),
        (
            BROKER_LOGGER,
            "1",
            "root",
            None,
            1,
            "Removing the log level of the root logger is not allowed",
        ),
        (
            BROKER_LOGGER,
            "1",
            "root",
            "INFO",
            2,
            "APPEND operation is not allowed for the BROKER_LOGGER resource",
        ),
        (
            BROKER_LOGGER,
            "1",
            "root",
            "INFO",
            9,
            "9 operation is not allowed for the BROKER_LOGGER resource",
        ),
        (BROKER_LOGGER, "1", "root", None, 0, "Null value not supported for : root"),
        (3, "x", "a", "b", 0, "Unknown resource type 3"),
    ],
)
def test_what_is_no_request(
    kind: int, name: str, setting: str, value: str | None, operation: int, expected: str
) -> None:
    with Stage() as stage:
        assert refusal(stage, kind, name, setting, value, operation) == (
            Code.INVALID_REQUEST,
            expected,
        )


def test_levels_that_there_are_not() -> None:
    with Stage() as stage:
        code, message = refusal(stage, BROKER_LOGGER, "1", "root", "LOUD")

    wrong = "Cannot set the log level of root to LOUD as it is not a supported log level."
    assert (code, message) == (
        Code.INVALID_CONFIG,
        f"{wrong} Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN",
    )


def test_alter_configs_knows_no_loggers() -> None:
    request = ALTER_CONFIGS.request
    resource = request.resources(resource_type=BROKER_LOGGER, resource_name="1")
    with Stage() as stage:
        (answer,) = (
            stage.wire().ask(ALTER_CONFIGS, request(resources=[resource, resource])).responses[:1]
        )
        assert (answer.error_code, answer.error_message) == (
            Code.INVALID_REQUEST,
            "Each resource must appear at most once.",
        )
        (answer,) = stage.wire().ask(ALTER_CONFIGS, request(resources=[resource])).responses
        assert (answer.error_code, answer.error_message) == (
            Code.INVALID_REQUEST,
            "Unknown resource type 8",
        )


class Forbids(AllowAll):
    def __init__(self, operation: str) -> None:
        self.operation = operation

    def allowed(self, session: Session, operation: str, resource: Resource) -> bool:
        return operation != self.operation


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "t", Code.TOPIC_AUTHORIZATION_FAILED),
        (TOPIC, "not-there", Code.TOPIC_AUTHORIZATION_FAILED),
        (BROKER, "1", Code.CLUSTER_AUTHORIZATION_FAILED),
        (BROKER_LOGGER, "1", Code.CLUSTER_AUTHORIZATION_FAILED),
        (CLIENT_METRICS, "m", Code.CLUSTER_AUTHORIZATION_FAILED),
        (GROUP, "g", Code.GROUP_AUTHORIZATION_FAILED),
    ],
)
def test_who_may_not_is_told_so(kind: int, name: str, code: Code) -> None:
    with Stage() as stage:
        stage.create("t")
        stage.nodes[1].dispatcher.authorizer = Forbids("ALTER_CONFIGS")
        offset = stage.nodes[1].image.offset
        assert refusal(stage, kind, name, SETTING[kind], "50000")[0] is code
        assert stage.nodes[1].image.offset == offset

        stage.nodes[1].dispatcher.authorizer = Forbids("DESCRIBE_CONFIGS")
        request = DESCRIBE_CONFIGS.request
        asked = request(resources=[request.resources(resource_type=kind, resource_name=name)])
        (result,) = stage.wire().ask(DESCRIBE_CONFIGS, asked).results
        assert (result.error_code, result.configs) == (code, [])
        assert (
            stage.wire().ask(LIST_CONFIG_RESOURCES, LIST_CONFIG_RESOURCES.request()).error_code
            == Code.CLUSTER_AUTHORIZATION_FAILED
        )


def test_an_answer_has_so_many_settings_and_no_more(lowered: Lower) -> None:
    lowered(DESCRIBED_SETTINGS, 2 * len(TOPIC_SETTINGS) + 4)
    request = DESCRIBE_CONFIGS.request
    with Stage() as stage:
        stage.create("t")
        asked = [
            request.resources(resource_type=kind, resource_name=name)
            for kind, name in ((TOPIC, "t"), (TOPIC, "t"), (GROUP, "g"), (TOPIC, "t"))
        ]
        asked.append(
            request.resources(
                resource_type=TOPIC, resource_name="t", configuration_keys=["retention.ms"]
            )
        )

        answer = stage.wire().ask(DESCRIBE_CONFIGS, request(resources=asked))

        refused, granted = Code.POLICY_VIOLATION, Code.NONE
        assert [row.error_code for row in answer.results] == [
            granted,
            granted,
            refused,
            refused,
            granted,
        ]
        assert str(answer.results[2].error_message).startswith(
            "described_settings: 95 asked, 78 allowed"
        )
        assert stage.counted(DESCRIBED_SETTINGS.metric) == 2


def test_resources_are_listed_by_type() -> None:
    with Stage() as stage:
        stage.create("t")
        stage.set(GROUP, "g", consumer_session_timeout_ms="50000")
        stage.set(CLIENT_METRICS, "m", interval_ms="1000")
        wire = stage.wire()

        def listed(*kinds: int, version: int = 1) -> list[tuple[int, str]]:
            answer = wire.ask(
                LIST_CONFIG_RESOURCES, LIST_CONFIG_RESOURCES.request(resource_types=kinds), version
            )
            return [(row.resource_type, row.resource_name) for row in answer.config_resources]

        assert listed() == [
            (GROUP, "g"),
            (CLIENT_METRICS, "m"),
            (BROKER_LOGGER, "1"),
            (BROKER, "1"),
            (TOPIC, "t"),
        ]
        assert listed(TOPIC, TOPIC, GROUP) == [(GROUP, "g"), (TOPIC, "t")]
        assert listed(version=0) == [(CLIENT_METRICS, "m")]
        stage.set(GROUP, "g", consumer_session_timeout_ms=None)
        assert listed(GROUP) == []
