"""Settings from the environment: names, notices, refusals, and what a container gets unasked."""

from collections.abc import Mapping

import pytest

from raftka.metadata.configs.broker import BROKER_SETTINGS
from raftka.metadata.configs.environment import (
    FromEnvironment,
    is_secret,
    property_of,
    read_environment,
    variable_of,
)
from raftka.metadata.configs.settings import NodeSettings
from raftka.metadata.configs.values import SettingError
from raftka.metadata.image import Endpoint

NODE = {
    "KAFKA_NODE_ID": "2",
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@kafka-1:9093,2@kafka-2:9093,3@kafka-3:9093",
}


def read(
    environment: Mapping[str, str],
    below: Mapping[str, str] | None = None,
    files: Mapping[str, str] | None = None,
) -> FromEnvironment:
    def read_file(path: str) -> str:
        if path not in (files or {}):
            raise FileNotFoundError(2, "No such file or directory", path)
        return (files or {})[path]

    return read_environment(environment, below or {}, read_file)


def settings(
    environment: Mapping[str, str], below: Mapping[str, str] | None = None
) -> NodeSettings:
    return NodeSettings.from_properties(read(environment, below).properties)


@pytest.mark.parametrize(
    ("variable", "name"),
    [
        ("KAFKA_LOG_RETENTION_MS", "log.retention.ms"),
        ("KAFKA_CFG_LOG_RETENTION_MS", "log.retention.ms"),
        (
            "KAFKA_LISTENER_NAME_SASL__PLAINTEXT_SCRAM___SHA___512_SASL_JAAS_CONFIG",
            "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config",
        ),
        (
            "KAFKA_CFG_LISTENER_NAME_SASL_PLAINTEXT_PLAIN_SASL_JAAS_CONFIG",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config",
        ),
    ],
)
def test_names_follow_the_rule_of_each_image(variable: str, name: str) -> None:
    assert property_of(variable) == name


def test_every_property_has_a_variable_and_is_found_again() -> None:
    assert [property_of(variable_of(name)) for name in BROKER_SETTINGS] == list(BROKER_SETTINGS)
    values = {
        variable_of(name): setting.default
        for name, setting in BROKER_SETTINGS.items()
        if setting.default and not name.startswith("zookeeper.bridge.4lw")
    }
    found = read({**values, **NODE}).properties
    assert {name: found[name] for name in map(property_of, values) if name not in ("node.id",)}


def test_a_variable_is_stronger_than_the_file_below_it() -> None:
    found = read(
        {**NODE, "KAFKA_LOG_DIR": "/mine"},
        {"log.dirs": "/data", "broker.id": "7", "num.partitions": "4", "metrics.port": "9292"},
    ).properties

    assert (found["log.dir"], found["node.id"], found["num.partitions"]) == ("/mine", "2", "4")
    assert found.keys().isdisjoint({"log.dirs", "broker.id"})


@pytest.mark.parametrize(
    ("variable", "value", "why"),
    [
        ("KAFKA_HEAP_OPTS", "-Xmx1G", "there is no JVM"),
        ("KAFKA_OPTS", "-Dx=y", "there is no JVM"),
        ("KAFKA_JMX_PORT", "9101", "there is no JMX"),
        ("KAFKA_LOG4J_LOGGERS", "kafka=INFO", "there is no log4j"),
        ("KAFKA_LOG4J_ANYTHING", "x", "there is no log4j"),
        ("KAFKA_ENABLE_KRAFT", "yes", "there is nothing but KRaft"),
        ("ALLOW_PLAINTEXT_LISTENER", "yes", "listeners without TLS need no permission"),
        ("BITNAMI_DEBUG", "true", "KAFKA_RAFTKA_LOG_LEVEL"),
        ("KAFKA_CONFLUENT_SUPPORT_METRICS_ENABLE", "false", "it is a setting of Confluent's"),
        ("KAFKA_SERVICE_HOST", "10.0.0.1", "it is of a service"),
        ("KAFKA_HEADLESS_SERVICE_PORT_TCP_CLIENT", "9092", "it is of a service"),
        ("KAFKA_PORT_9092_TCP_ADDR", "10.0.0.1", "it is of a service"),
        ("KAFKA_PORT", "tcp://10.0.0.1:9092", "it is of a service"),
        ("KAFKA_CFG_LOG_RETENTION_MS", "", "it is empty"),
    ],
)
def test_what_means_nothing_here_is_passed_over_with_a_reason(
    variable: str, value: str, why: str
) -> None:
    found = read({**NODE, variable: value})

    (notice,) = found.notices
    assert notice.startswith(f"{variable} is passed over: {why}")
    assert found.properties == read(NODE).properties


@pytest.mark.parametrize(
    ("variable", "value", "why"),
    [
        ("KAFKA_LOG_RETENTON_MS", "1", r"did you mean log.retention.ms \(KAFKA_LOG_RETENTION_MS\)"),
        ("KAFKA_CFG_RETENTION", "1", "there is no setting retention"),
        ("KAFKA_ZOOKEEPER_CONNECT", "zk:2181", "there is no ZooKeeper: take out the variable"),
        ("KAFKA_CFG_ZOOKEEPER_CONNECT", "zk:2181", "there is no ZooKeeper"),
        ("KAFKA_ADVERTISED_HOST_NAME", "kafka", "give KAFKA_ADVERTISED_LISTENERS"),
        ("KAFKA_PORT", "9092", "give KAFKA_ADVERTISED_LISTENERS"),
        ("KAFKA_CLIENT_USERS", "a", "KAFKA_CFG_LISTENER_NAME_<LISTENER>_PLAIN_SASL_JAAS_CONFIG"),
        ("KAFKA_TLS_TYPE", "PEM", "KAFKA_CFG_SSL_KEYSTORE_LOCATION"),
        ("KAFKA_OPTS", "-Djava.security.auth.login.config=/x", "JAAS files are not read"),
        ("KAFKA_CREATE_TOPICS", "a:1", "'a:1' is not NAME:PARTITIONS:REPLICAS"),
        ("KAFKA_INITIAL_CONTROLLERS", "kafka:9093", "is not ID@HOST:PORT:DIRECTORY_ID"),
        ("KAFKA_SSL_KEYSTORE_CREDENTIALS", "creds", "cannot be read: No such file"),
        ("KAFKA_SSL_KEY_PASSWORD_FILE", "/run/secrets/x", "cannot be read: No such file"),
    ],
)
def test_what_would_be_lost_is_refused_by_name(variable: str, value: str, why: str) -> None:
    with pytest.raises(SettingError, match=f"^{variable}: .*{why}"):
        read({**NODE, variable: value})


def test_ten_thousand_refusals_are_told_in_a_line_that_can_be_read() -> None:
    with pytest.raises(SettingError, match=r"; and 9980 more$") as refused:
        read({f"KAFKA_NOBODY_{number}": "x" for number in range(10_000)})

    assert len(str(refused.value)) < 10_000


def test_a_file_without_a_name_is_told() -> None:
    with pytest.raises(SettingError, match="KAFKA_LOG_DIRS_FILE: the empty path cannot be read"):
        read({**NODE, "KAFKA_LOG_DIRS_FILE": ""})


def test_all_refusals_are_told_at_once() -> None:
    with pytest.raises(SettingError, match=r"^KAFKA_A_B: .*; KAFKA_ZOOKEEPER_CONNECT: "):
        read({"KAFKA_ZOOKEEPER_CONNECT": "a", "KAFKA_A_B": "b"})


def test_two_variables_of_one_property_must_agree() -> None:
    assert read({**NODE, "KAFKA_CFG_NODE_ID": "2"}).properties["node.id"] == "2"
    with pytest.raises(
        SettingError, match=r"KAFKA_CFG_NODE_ID and KAFKA_NODE_ID are both node\.id"
    ):
        read({**NODE, "KAFKA_CFG_NODE_ID": "3"})


def test_values_may_be_in_files() -> None:
    found = read(
        {
            **NODE,
            "KAFKA_SSL_KEYSTORE_FILENAME": "kafka.p12",
            "KAFKA_SSL_KEYSTORE_CREDENTIALS": "creds",
            "KAFKA_CFG_SSL_TRUSTSTORE_PASSWORD_FILE": "/run/secrets/trust",
        },
        files={"/etc/kafka/secrets/creds": "secret\n", "/run/secrets/trust": "other"},
    ).properties

    assert found["ssl.keystore.location"] == "/etc/kafka/secrets/kafka.p12"
    assert (found["ssl.keystore.password"], found["ssl.truststore.password"]) == ("secret", "other")


def test_passwords_are_known_as_such() -> None:
    assert is_secret("ssl.key.password")
    assert is_secret("listener.name.a.plain.sasl.jaas.config")
    assert not is_secret("listener.name.a.ssl.keystore.location")
    assert not is_secret("log.dirs")


def test_cluster_id_and_topics_are_translated() -> None:
    found = settings(
        {
            **NODE,
            "CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw",
            "KAFKA_CREATE_TOPICS": "a:1:1\nb:2:1",
            "KAFKA_CREATE_TOPICS_SEPARATOR": "\n",
        }
    )

    assert found["raftka.cluster.id"] == "4L6g3nShT-eMCtK--X86sw"
    assert found["raftka.topics"] == ("a:1:replication.factor=1", "b:2:replication.factor=1")
    with pytest.raises(SettingError, match="a cluster's id has 22 characters"):
        settings({**NODE, "KAFKA_KRAFT_CLUSTER_ID": "mine"})


# what nobody has given


def test_without_anything_it_is_a_single_node_for_the_machine_and_for_containers() -> None:
    found = settings({})

    assert (found.node_id, found.roles) == (1, frozenset({"broker", "controller"}))
    assert found.advertised_listeners == (
        Endpoint("PLAINTEXT_HOST", "localhost", 9092, "PLAINTEXT"),
        Endpoint("PLAINTEXT", "", 19092, "PLAINTEXT"),
    )
    assert found.automatic_listeners == {"PLAINTEXT"}
    assert found.inter_broker_listener == "PLAINTEXT"
    assert found["offsets.topic.replication.factor"] == 1
    (controller,) = found.controller_listeners
    assert (controller.host, controller.port) == ("127.0.0.1", 9093)


def test_listeners_follow_from_advertised_listeners() -> None:
    found = settings(
        {**NODE, "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://kafka-2:19092,SSL://[::1]:9094"}
    )

    assert [(each.listener, each.host, each.port) for each in found.listeners] == [
        ("PLAINTEXT", "", 19092),
        ("SSL", "", 9094),
    ]
    (controller,) = found.controller_listeners
    assert (controller.listener, controller.host, controller.port) == ("CONTROLLER", "", 9093)
    assert found["offsets.topic.replication.factor"] == 3  # three voters: Kafka's default


@pytest.mark.parametrize(
    ("listeners", "automatic"),
    [
        ("PLAINTEXT://:9092,CONTROLLER://:9093", {"PLAINTEXT"}),
        ("PLAINTEXT://0.0.0.0:9092,CONTROLLER://:9093", {"PLAINTEXT"}),
        ("PLAINTEXT://kafka-2:9092,CONTROLLER://kafka-2:9093", set()),
    ],
)
def test_listeners_at_every_address_are_advertised_automatically(
    listeners: str, automatic: set[str]
) -> None:
    assert settings({**NODE, "KAFKA_LISTENERS": listeners}).automatic_listeners == automatic


def test_one_controller_may_be_named_by_its_address_alone() -> None:
    one = {
        "KAFKA_NODE_ID": "4",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_CONTROLLER_QUORUM_BOOTSTRAP_SERVERS": "kafka:9093",
    }

    assert settings(one).voters[0] == (4, "kafka", 9093)
    with pytest.raises(SettingError, match="does not say the ids of the controllers"):
        settings({**one, "KAFKA_CONTROLLER_QUORUM_BOOTSTRAP_SERVERS": "a:1,b:1"})
    with pytest.raises(SettingError, match=r"give controller\.quorum\.voters too"):
        settings({**one, "KAFKA_PROCESS_ROLES": "broker"})


def test_initial_controllers_are_voters() -> None:
    found = settings(
        {
            "KAFKA_NODE_ID": "1",
            "KAFKA_PROCESS_ROLES": "broker,controller",
            "KAFKA_CONTROLLER_QUORUM_BOOTSTRAP_SERVERS": "a:9093,b:9093",
            "KAFKA_INITIAL_CONTROLLERS": f"1@a:9093:{'A' * 22},2@b:9093:{'B' * 22}",
        }
    )

    assert [voter.host for voter in found.voters] == ["a", "b"]


def test_a_forgotten_role_is_not_taken_for_a_single_node() -> None:
    with pytest.raises(SettingError, match=r"process\.roles must be"):
        settings({name: value for name, value in NODE.items() if name != "KAFKA_PROCESS_ROLES"})
