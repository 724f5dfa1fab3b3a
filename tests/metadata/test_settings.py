"""Settings: a node's file, every way to get it wrong, a topic's values and where they come from."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

import raftka
from raftka.broker.coordinators.group_service import OF_GROUP
from raftka.broker.share.dead_letters import MAY_CREATE, PREFIX, TAKES_LETTERS
from raftka.metadata.configs.broker import BROKER_SETTINGS, LISTED_SETTINGS, USED
from raftka.metadata.configs.describe import (
    ConfigRow,
    Synonym,
    TopicRows,
    describe_all_brokers,
    describe_broker,
    describe_client_metrics,
    describe_group,
)
from raftka.metadata.configs.dynamic import check_dynamic_configs
from raftka.metadata.configs.names import OURS
from raftka.metadata.configs.prefixes import JAAS, REAUTH, SERVICE, TOKEN_ENDPOINT
from raftka.metadata.configs.settings import (
    DIFFERENCES,
    NodeSettings,
    SettingError,
    TopicConfigs,
    Voter,
    check_topic_configs,
)
from raftka.metadata.configs.topic import TOPIC_SETTINGS
from raftka.metadata.image import BROKER, CLIENT_METRICS, GROUP, TOPIC, Endpoint, MetadataImage
from raftka.metadata.records import ConfigSet, Record
from raftka.properties_file import parse_properties
from raftka.security.tls_settings import NAMES as TLS_NAMES

BOTH = {
    "node.id": "1",
    "process.roles": "broker,controller",
    "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@127.0.0.1:9093,2@[::1]:9094",
    "log.dirs": "/a, /b",
}
BROKER_ONLY = {
    "node.id": "5",
    "process.roles": "broker",
    "listeners": "PLAINTEXT://:9092",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@host:9093",
}


MAP = "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"

OF_SHARE = ("record.lock.duration.ms", "delivery.count.limit", "partition.max.record.locks")


def node(
    changes: Mapping[str, str | None] | None = None, base: Mapping[str, str] = BOTH
) -> NodeSettings:
    given = {**base, **(changes or {})}
    return NodeSettings.from_properties(
        {name: value for name, value in given.items() if value is not None}
    )


def image(*records: Record) -> MetadataImage:
    return MetadataImage().apply(1, records)[0]


def test_a_node_of_both_roles() -> None:
    settings = node({"broker.rack": "r1", "replica.lag.time.max.ms": "1500"})

    assert (settings.node_id, settings.is_broker, settings.is_controller, settings.rack) == (
        1,
        True,
        True,
        "r1",
    )
    assert (
        settings.listeners
        == settings.advertised_listeners
        == (Endpoint("PLAINTEXT", "127.0.0.1", 9092, "PLAINTEXT"),)
    )
    assert settings.controller_listener == Endpoint("CONTROLLER", "127.0.0.1", 9093, "PLAINTEXT")
    assert settings.voters == (Voter(1, "127.0.0.1", 9093), Voter(2, "::1", 9094))
    assert settings.log_dirs == ("/a", "/b")
    assert settings.inter_broker_listener == "PLAINTEXT"
    assert (settings["replica.lag.time.max.ms"], settings.seconds("replica.lag.time.max.ms")) == (
        1500,
        1.5,
    )
    assert (
        settings["num.partitions"],
        settings["auto.create.topics.enable"],
        settings["raftka.log.flush"],
    ) == (1, True, "fsync")
    assert settings.unused == ()


def test_a_node_that_is_a_broker_alone() -> None:
    settings = node(base=BROKER_ONLY)

    assert (settings.is_broker, settings.is_controller, settings.controller_listener) == (
        True,
        False,
        None,
    )
    assert settings.advertised_listeners == (Endpoint("PLAINTEXT", "localhost", 9092, "PLAINTEXT"),)
    assert settings.log_dirs == ("/tmp/kafka-logs",)


def test_a_node_that_is_a_controller_alone() -> None:
    settings = node({"process.roles": "controller", "listeners": "CONTROLLER://127.0.0.1:9093"})

    assert (settings.is_broker, settings.listeners, settings.inter_broker_listener) == (
        False,
        (),
        "",
    )


def test_a_controller_may_name_the_listener_between_its_brokers() -> None:
    alone = {"process.roles": "controller", "listeners": "CONTROLLER://127.0.0.1:9093"}
    named = {
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,INTERNAL:PLAINTEXT",
        "inter.broker.listener.name": "INTERNAL",
    }

    assert node({**alone, **named}).inter_broker_listener == "INTERNAL"
    assert (
        node({**alone, "inter.broker.listener.name": "PLAINTEXT"}).inter_broker_listener
        == "PLAINTEXT"
    )
    with pytest.raises(SettingError, match="listener of controllers"):
        node({**alone, "inter.broker.listener.name": "CONTROLLER"})


def test_a_file_may_advertise_the_controllers_listener() -> None:
    both = node({"advertised.listeners": "PLAINTEXT://a:1,CONTROLLER://a:2"})
    controller = node(
        {
            "process.roles": "controller",
            "listeners": "CONTROLLER://127.0.0.1:9093",
            "advertised.listeners": "CONTROLLER://a:2",
        }
    )

    assert both.advertised_listeners == (Endpoint("PLAINTEXT", "a", 1, "PLAINTEXT"),)
    assert controller.advertised_listeners == ()


def test_listener_names_may_be_in_lower_case() -> None:
    settings = node(
        {
            "listeners": "internal://127.0.0.1:9092,controller://127.0.0.1:9093",
            "advertised.listeners": "Internal://a:1",
            "listener.security.protocol.map": "internal:plaintext,controller:PLAINTEXT",
            "inter.broker.listener.name": "internal",
        }
    )

    assert settings.advertised_listeners == (Endpoint("INTERNAL", "a", 1, "PLAINTEXT"),)
    assert (
        settings.inter_broker_listener,
        settings.controller_listener and settings.controller_listener.listener,
    ) == ("INTERNAL", "CONTROLLER")


def test_several_listeners_each_with_its_advertised_address() -> None:
    settings = node(
        {
            "listeners": "INSIDE://0.0.0.0:19092,OUTSIDE://0.0.0.0:9092,CONTROLLER://:9093",
            "advertised.listeners": "OUTSIDE://example.org:9092,INSIDE://10.0.0.1:19092",
            "listener.security.protocol.map": (
                "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT"
            ),
            "inter.broker.listener.name": "INSIDE",
        }
    )

    assert [each.listener for each in settings.listeners] == ["INSIDE", "OUTSIDE"]
    assert settings.advertised_listeners[0] == Endpoint("OUTSIDE", "example.org", 9092, "PLAINTEXT")
    assert settings.inter_broker_listener == "INSIDE"


def test_limits_of_one_listener() -> None:
    name = "max.connections"
    settings = node(
        {f"listener.name.plaintext.{name}": "5", f"listener.name.controller.{name}": "6"}
    )

    assert (settings.of_listener("PLAINTEXT", name), settings.of_listener("OTHER", name)) == (
        5,
        None,
    )
    assert settings.unused == (f"listener.name.controller.{name}",), (
        "controllers have a limit of their own"
    )
    with pytest.raises(SettingError, match="at least 0"):
        node({f"listener.name.plaintext.{name}": "-1"})


def test_unused_settings_of_kafka_are_accepted_and_named() -> None:
    settings = node(
        {
            "num.io.threads": "8",
            "ssl.protocol": "x",
            "listener.name.plaintext.ssl.provider": "y",
            "log.dir": "/c",
            "ssl.client.auth": "none",
        }
    )

    assert settings.unused == (
        "num.io.threads",
        "ssl.protocol",
        "listener.name.plaintext.ssl.provider",
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num.partition": "3"}, r"no setting num.partition; did you mean num.partitions\?"),
        ({"raftka.flush": "os"}, r"did you mean raftka.log.flush\?"),
        ({"qqqqqq": "1"}, "there is no setting qqqqqq$"),
        ({"num.partitions": "many"}, "num.partitions: Not a number of type INT"),
        ({"log.dirs": ""}, "log.dirs has an empty name"),
        ({"log.dirs": "/a,"}, "log.dirs has an empty name"),
        ({"num.partitions": "0"}, "num.partitions: Value must be at least 1"),
        ({"num.partitions": "2147483648"}, "Not a number of type INT"),
        ({"num.partitions": "1_0"}, "Not a number of type INT"),
        ({"num.partitions": "٣"}, "Not a number of type INT"),
        ({"num.io.threads": "many"}, "num.io.threads: Not a number"),
        ({"raftka.log.flush": "never"}, "String must be one of: fsync, os"),
        ({"auto.create.topics.enable": "yes"}, "either true or false"),
        ({"node.id": None}, "node.id is missing"),
        ({"broker.id": "2"}, "node.id is 1 and broker.id is 2"),
        ({"process.roles": None}, "process.roles must be"),
        ({"process.roles": "broker,zookeeper"}, "String must be one of: broker, controller"),
        ({"controller.quorum.voters": None}, "controller.quorum.voters is missing"),
        ({"controller.quorum.voters": "1@host"}, "'1@host' is not"),
        ({"controller.quorum.voters": "1@host:99999"}, "'1@host:99999' is not"),
        ({"controller.quorum.voters": "1@a:1,1@b:1"}, "a node twice"),
        ({"node.id": "3"}, "does not have node 3"),
        (
            {"process.roles": "broker", "listeners": "PLAINTEXT://:9092"},
            "has node 1, but its process.roles",
        ),
        ({"listeners": None}, "a controller needs listeners"),
        ({"controller.listener.names": None}, "a controller needs listeners"),
        (
            {"listeners": "PLAINTEXT://:9092"},
            "listeners must have those of controller.listener.names for a controller",
        ),
        ({"listeners": "CONTROLLER://:9093"}, "others for a broker"),
        ({"listeners": "PLAINTEXT://:1,PLAINTEXT://:2,CONTROLLER://:3"}, "a name twice"),
        ({"listeners": "PLAINTEXT:9092,CONTROLLER://:9093"}, "'PLAINTEXT:9092' is not"),
        ({"listeners": "PLAINTEXT://:70000,CONTROLLER://:9093"}, "'PLAINTEXT://:70000' is not"),
        (
            {"listeners": "INSIDE://:9092,CONTROLLER://:9093"},
            "protocol.map does not have the listener INSIDE",
        ),
        (
            {"listener.security.protocol.map": "PLAINTEXT:TLS,CONTROLLER:PLAINTEXT"},
            "TLS is not a security protocol",
        ),
        (
            {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT"},
            "does not have the listener CONTROLLER",
        ),
        ({"listener.security.protocol.map": "PLAINTEXT"}, "NAME:PROTOCOL"),
        (
            {"listeners": "PLAINTEXT://0.0.0.0:9092,CONTROLLER://:9093"},
            "no client can connect to 0.0.0.0",
        ),
        ({"advertised.listeners": "OTHER://h:1"}, "does not have the listener OTHER"),
        (
            {"advertised.listeners": "SSL://h:1"},
            "has the listener SSL, which listeners does not have",
        ),
        (
            {
                "ssl.enabled.protocols": "TLSv1.1",
                "listener.security.protocol.map": "PLAINTEXT:SSL,CONTROLLER:PLAINTEXT",
            },
            "ssl.enabled.protocols",
        ),
        ({"advertised.listeners": "CONTROLLER://h:1"}, "must have a listener of the broker"),
        (
            {
                "listener.security.protocol.map": f"{MAP},MORE:PLAINTEXT",
                "advertised.listeners": "MORE://h:1",
            },
            "MORE, which listeners does not have",
        ),
        (
            {"inter.broker.listener.name": "OTHER"},
            "OTHER, which listener.security.protocol.map does not have",
        ),
        ({"inter.broker.listener.name": "SSL"}, "SSL, which is not in advertised.listeners"),
        (
            {"inter.broker.listener.name": "CONTROLLER"},
            "CONTROLLER, which is a listener of controllers",
        ),
        ({"broker.session.timeout.ms": "400"}, "must be less than"),
        ({"replica.lag.time.max.ms": "400"}, "replica.fetch.wait.max.ms should always be less"),
        ({"log.retention.minutes": "0"}, r"must be unlimited \(-1\) or, greater than"),
        ({"cordoned.log.dirs": "*,/data"}, "it must not contain other values"),
        ({"group.share.max.share.sessions": "199"}, "than or equal to group.share.max.size"),
        (
            {"group.consumer.session.timeout.ms": "6000"},
            "session.timeout.ms must be greater than or equal to group.consumer.min.session",
        ),
        (
            {"group.share.delivery.count.limit": "11"},
            "max.delivery.count.limit must be greater than or equal to group.share.delivery",
        ),
        (
            {"group.share.min.record.lock.duration.ms": "40000"},
            "record.lock.duration.ms must be greater than or equal to group.share.min.record",
        ),
        (
            {"group.streams.num.standby.replicas": "3"},
            "max.standby.replicas must be greater than or equal to group.streams.num.standby",
        ),
        (
            {"group.streams.max.heartbeat.interval.ms": "45000"}
            | {"group.streams.heartbeat.interval.ms": "45000"},
            "heartbeat.interval.ms must be less than group.streams.session.timeout.ms",
        ),
        ({"group.streams.rack.aware.assignment.tags": "zone,zone"}, "duplicate tag keys"),
        ({"transaction.two.phase.commit.enable": "true"}, "two-phase commit .* is not there"),
    ],
)
def test_an_invalid_file_is_refused_with_the_reason(
    changes: Mapping[str, str | None], message: str
) -> None:
    with pytest.raises(SettingError, match=message):
        node(changes)


def test_a_properties_file() -> None:
    text = (
        "# comment\n! another\n\nnode.id=1\n log.dirs = /a,\\\n   /b\nlisteners: "
        "PLAINTEXT://h:1=2\nempty=\nbroker.rack r\n"
    )

    assert parse_properties(text) == {
        "node.id": "1",
        "log.dirs": "/a,/b",
        "listeners": "PLAINTEXT://h:1=2",
        "empty": "",
        "broker.rack": "r",
    }


def test_kafkas_names_are_all_there() -> None:
    assert len(LISTED_SETTINGS) == 351 + len(OURS.split("\n")) - 2
    assert len(TOPIC_SETTINGS) == 37
    assert list(TOPIC_SETTINGS) == sorted(TOPIC_SETTINGS)


def test_every_default_is_valid_and_every_used_name_exists() -> None:
    for setting in (*BROKER_SETTINGS.values(), *TOPIC_SETTINGS.values()):
        setting.parse(setting.default)
    assert USED.keys() <= BROKER_SETTINGS.keys()
    assert all(setting.doc for setting in TOPIC_SETTINGS.values())


def test_a_setting_counts_as_used_if_code_reads_it() -> None:
    """Else a user is told that a name does nothing, or is not told."""
    tables = ("configs/broker.py", "configs/topic.py")
    folders = (Path(raftka.__file__).parent, Path(raftka.__file__).parent.parent / "compat")
    source = "".join(
        path.read_text()
        for folder in folders
        for path in folder.rglob("*.py")
        if not path.as_posix().endswith(tables)
    )
    read = set(
        re.findall(
            r'(?:(?:settings|values)(?:\[|\.seconds\()|\.(?:number|text|names)\()\s*"([a-z0-9.]+)"',
            source,
        )
    )
    # TlsSettings and AtListener read these
    read |= {*TLS_NAMES, JAAS, REAUTH, SERVICE, TOKEN_ENDPOINT}
    read |= {MAY_CREATE, PREFIX, TAKES_LETTERS}  # ShareDeadLetters
    # group_service.py and share/group_settings.py put the kind and the bound before these
    read |= {
        f"group.{kind}.{bound}.{name}"
        for kind in ("consumer", "share")
        for bound in ("min", "max")
        for name in OF_GROUP
    }
    read |= {f"group.share.{bound}{name}" for bound in ("", "min.", "max.") for name in OF_SHARE}
    by_topics = {
        synonym
        for setting in TOPIC_SETTINGS.values()
        if setting.used
        for synonym in setting.synonyms
    }

    assert {name for name, setting in BROKER_SETTINGS.items() if setting.used} - by_topics == (
        read & BROKER_SETTINGS.keys()
    ) - by_topics
    assert {
        name for name, setting in TOPIC_SETTINGS.items() if setting.used
    } == read & TOPIC_SETTINGS.keys()


def test_each_default_that_differs_has_its_reason() -> None:
    settings = node()

    for each in DIFFERENCES:
        assert each.kafka != each.raftka
        assert str(settings[each.name]) == each.raftka
        assert each.reason


def row(rows: list[ConfigRow], name: str) -> ConfigRow:
    return next(each for each in rows if each.name == name)


def test_a_topic_that_sets_nothing_shows_kafkas_defaults_with_the_brokers_names() -> None:
    rows = TopicRows().of(node(), image(), "t")

    assert [each.name for each in rows] == list(TOPIC_SETTINGS)
    assert {each.source for each in rows} == {5}
    policy = row(rows, "cleanup.policy")
    assert policy[:6] == (
        "cleanup.policy",
        "delete",
        5,
        False,
        False,
        (Synonym("log.cleanup.policy", "delete", 5),),
    )
    assert policy.type == 7
    retention = row(rows, "retention.ms")  # the broker's 168 hours are not the same setting
    assert (retention.value, retention.synonyms) == ("604800000", ())


def test_synonyms_are_listed_strongest_first_and_the_first_one_holds() -> None:
    settings = node({"min.insync.replicas": "2", "log.retention.ms": "5000"})
    changed = image(
        ConfigSet(BROKER, "", "min.insync.replicas", "3"),
        ConfigSet(BROKER, "1", "min.insync.replicas", "4"),
        ConfigSet(BROKER, "7", "x", "9"),
    )

    rows = TopicRows().of_one_with(settings, changed, {"min.insync.replicas": "5"})

    name = "min.insync.replicas"
    expected = [(name, "5", 1), (name, "4", 2), (name, "3", 3), (name, "2", 4), (name, "1", 5)]
    assert row(rows, name).synonyms == tuple(Synonym(*each) for each in expected)
    assert (row(rows, name).value, row(rows, name).source) == ("5", 1)
    retention = row(rows, "retention.ms")
    assert (retention.value, retention.source) == ("5000", 4)
    assert retention.synonyms == (
        Synonym("log.retention.ms", "5000", 4),
        Synonym("log.retention.hours", "168", 5),
    )


def test_hours_and_minutes_stand_in_for_milliseconds_which_stand_before_them() -> None:
    def retention(**given: str) -> int:
        settings = node({name.replace("_", "."): value for name, value in given.items()})
        return TopicConfigs(settings).of(image(), "t").log.retention_ms

    assert retention(log_retention_hours="2") == 7_200_000
    assert retention(log_retention_hours="2", log_retention_minutes="3") == 180_000
    assert retention(log_retention_hours="2", log_retention_minutes="3", log_retention_ms="4") == 4
    assert retention(log_retention_hours="-1") == -1


@pytest.mark.parametrize(
    "name",
    [
        "num.network.threads",
        "num.io.threads",
        "num.recovery.threads.per.data.dir",
        "num.replica.fetchers",
    ],
)
def test_unused_settings_are_validated_too(name: str) -> None:
    with pytest.raises(SettingError, match="Value must be at least 1"):
        check_dynamic_configs({name: "0"}, one_broker=True)
    check_dynamic_configs({name: "2"}, one_broker=True)


def test_a_rate_is_not_negative() -> None:
    with pytest.raises(SettingError, match="Value must be at least 0"):
        check_dynamic_configs(
            {"replica.alter.log.dirs.io.max.bytes.per.second": "-1"}, one_broker=True
        )


def test_a_topics_settings_follow_every_change() -> None:
    configs = TopicConfigs(node({"log.segment.bytes": "2000000"}))
    none = image()

    common = configs.of(none, "t")
    assert (
        common.log.segment_bytes,
        common.log.flush,
        common.min_insync_replicas,
        common.unclean_leader_election,
    ) == (2_000_000, "fsync", 1, False)
    # 10,000 topics without settings of their own share one
    assert configs.of(none, "other") is common

    own: list[Record] = [
        ConfigSet(TOPIC, "t", "internal.segment.bytes", "100"),
        ConfigSet(TOPIC, "t", "cleanup.policy", "compact, delete"),
    ]
    assert configs.of(image(*own), "t").log.segment_bytes == 100
    assert configs.of(image(*own), "t").log.cleanup_policy == "compact,delete"
    assert configs.of(image(*own), "other").log.segment_bytes == 2_000_000

    dynamic = image(
        ConfigSet(BROKER, "", "min.insync.replicas", "2"),
        ConfigSet(BROKER, "1", "unclean.leader.election.enable", "true"),
    )
    assert configs.of(dynamic, "t").min_insync_replicas == 2
    assert configs.of(dynamic, "t").unclean_leader_election
    assert configs.of(none, "t").min_insync_replicas == 1
    assert (
        configs.of(
            image(ConfigSet(BROKER, "1", "min.insync.replicas", "3")), "t"
        ).min_insync_replicas
        == 3
    )


@pytest.mark.parametrize("value", ["*", "0:1,1:2", ""])
def test_throttled_replicas_may_be(value: str) -> None:
    check_topic_configs({"leader.replication.throttled.replicas": value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("leader.replication.throttled.replicas", "1"),
        ("compression.gzip.level", "0"),
        ("compression.gzip.level", "10"),
        ("compression.lz4.level", "18"),
        ("cleanup.policy", "shred"),
        ("min.cleanable.dirty.ratio", "1.1"),
        ("min.cleanable.dirty.ratio", "half"),
        ("min.insync.replicas", "0"),
        ("segment.bytes", "1048575"),
    ],
)
def test_topic_values_that_are_refused(name: str, value: str) -> None:
    with pytest.raises(SettingError, match=name):
        check_topic_configs({name: value})


def test_a_brokers_settings_hide_what_is_secret_and_say_what_can_be_changed() -> None:
    rows = describe_broker(node({"ssl.key.password": "secret", "super.users": "User:a"}), image())

    assert len(rows) == len(LISTED_SETTINGS)
    for name in ("ssl.key.password", "super.users"):
        secret = row(rows, name)
        assert (secret.value, secret.is_sensitive, secret.source) == (None, True, 4)
        assert all(each.value is None for each in secret.synonyms)
    assert row(rows, "node.id")[1:4] == ("1", 4, True)
    assert not row(rows, "log.cleaner.threads").read_only
    assert row(rows, "log.retention.ms")[1:3] == (None, 5)


def test_the_settings_of_all_brokers_are_those_that_were_set() -> None:
    rows = describe_all_brokers(
        image(
            ConfigSet(BROKER, "", "min.insync.replicas", "2"),
            ConfigSet(BROKER, "1", "num.io.threads", "2"),
        )
    )

    assert [(each.name, each.value, each.source) for each in rows] == [
        ("min.insync.replicas", "2", 3)
    ]
    assert rows[0].synonyms == (Synonym("min.insync.replicas", "2", 3),)


def test_a_broker_shows_what_was_set_at_run_time_and_never_what_may_be_secret() -> None:
    changed = image(
        ConfigSet(BROKER, "1", "sasl.jaas.config", "hush"),
        ConfigSet(BROKER, "1", "listener.name.a.ssl.key.password", "hush"),
        ConfigSet(BROKER, "1", "listener.name.a.ssl.keystore.location", "/x"),
        ConfigSet(BROKER, "", "plugin.of.somebody", "hush"),
        ConfigSet(BROKER, "", "leader.replication.throttled.rate", "1000"),
        ConfigSet(BROKER, "", "log.retention.ms", "6"),
    )

    for rows in (describe_broker(node(), changed), describe_all_brokers(changed)):
        assert "hush" not in str(rows)
    rows = describe_broker(node(), changed)
    assert [
        row(rows, name).is_sensitive
        for name in ("sasl.jaas.config", "listener.name.a.ssl.key.password", "plugin.of.somebody")
    ] == [True] * 3
    assert row(rows, "listener.name.a.ssl.keystore.location")[1:5] == ("/x", 2, True, False)
    assert row(rows, "leader.replication.throttled.rate").synonyms == (
        Synonym("leader.replication.throttled.rate", "1000", 3),
    )
    assert row(rows, "log.retention.ms").synonyms == (
        Synonym("log.retention.ms", "6", 3),
        Synonym("log.retention.hours", "168", 5),
    )
    assert row(rows, "broker.id").synonyms == (
        Synonym("broker.id", "1", 4),
        Synonym("broker.id", "-1", 5),
    )


def test_rows_of_topics_follow_every_change() -> None:
    rows, settings = TopicRows(), node()
    first, none = image(ConfigSet(BROKER, "", "log.retention.ms", "6")), image()

    assert row(rows.of(settings, none, "t"), "retention.ms").value == "604800000"
    assert rows.of(settings, none, "t") == rows.of(settings, none, "u")
    assert row(rows.of(settings, first, "t"), "retention.ms").value == "6"
    assert (
        row(
            rows.of(settings, image(ConfigSet(BROKER, "1", "log.retention.ms", "7")), "t"),
            "retention.ms",
        ).value
        == "7"
    )
    assert row(rows.of(node({"log.retention.ms": "8"}), none, "t"), "retention.ms").value == "8"


def test_values_are_shown_as_kafka_writes_them() -> None:
    given = {
        "cleanup.policy": " compact , delete ",
        "retention.ms": " 5 ",
        "preallocate": "TRUE",
        "internal.segment.bytes": "+100",
    }

    rows = TopicRows().of_one_with(node(), image(), given)

    assert [row(rows, name).value for name in given] == ["compact,delete", "5", "true", "100"]
    assert len(rows) == len(TOPIC_SETTINGS) + 1


def test_a_groups_settings_begin_with_the_brokers() -> None:
    settings = node({"group.consumer.session.timeout.ms": "50000"})
    changed = image(ConfigSet(GROUP, "g", "consumer.session.timeout.ms", "46000"))

    name, of_broker = "consumer.session.timeout.ms", "group.consumer.session.timeout.ms"
    defaults = (Synonym(of_broker, "50000", 4), Synonym(of_broker, "45000", 5))
    assert row(describe_group(settings, changed, "g"), name)[1:3] == ("46000", 8)
    assert row(describe_group(settings, changed, "g"), name).synonyms == (
        Synonym(name, "46000", 8),
        *defaults,
    )
    assert row(describe_group(settings, changed, "other"), name).synonyms == defaults
    assert row(describe_group(settings, changed, "g"), "share.isolation.level").synonyms == (
        Synonym("share.isolation.level", "read_uncommitted", 5),
    )


def test_client_metrics_show_their_settings() -> None:
    rows = describe_client_metrics(
        image(ConfigSet(CLIENT_METRICS, "m", "interval.ms", "1000")), "m"
    )

    assert [(each.name, each.value, each.source) for each in rows] == [
        ("interval.ms", "1000", 7),
        ("match", "", 5),
        ("metrics", "", 5),
    ]


def test_dynamic_settings_apply_by_precedence() -> None:
    name = "log.segment.delete.delay.ms"
    settings = node({name: "5"})
    everyone, own = ConfigSet(BROKER, "", name, "6"), ConfigSet(BROKER, "1", name, "7")

    now = settings.with_dynamic(image(everyone, own))

    assert now[name] == 7
    assert now.with_dynamic(image(everyone))[name] == 6
    assert now.with_dynamic(image())[name] == 5
    assert (
        settings.with_dynamic(
            image(ConfigSet(BROKER, "2", name, "8"), ConfigSet(BROKER, "1", name, "nonsense"))
        )[name]
        == 5
    )
    assert (
        settings.with_dynamic(image(ConfigSet(BROKER, "", "num.partitions", "9")))["num.partitions"]
        == 1
    )


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"metrics.port": "9092"}, "port 9092 is for the listener PLAINTEXT and for metrics.port"),
        ({"metrics.port": "9093"}, "port 9093 is for the listener CONTROLLER and for metrics.port"),
        (
            {"listeners": "PLAINTEXT://127.0.0.1:9093,CONTROLLER://:9093"},
            "port 9093 is for the listener PLAINTEXT and for the listener CONTROLLER",
        ),
        (
            {"registry.port": "9092"},
            "port 9092 is for the listener PLAINTEXT and for registry.port",
        ),
        (
            {"registry.port": "8081", "metrics.port": "8081"},
            "port 8081 is for metrics.port and for registry.port",
        ),
        (
            {"zookeeper.bridge.port": "2181", "zookeeper.bridge.admin.port": "2181"},
            "for zookeeper.bridge.port and for zookeeper.bridge.admin.port",
        ),
        (
            {"zookeeper.bridge.port": "9092", "zookeeper.bridge.host": "localhost"},
            "for the listener PLAINTEXT and for zookeeper.bridge.port",
        ),
        (
            {"zookeeper.bridge.port": "9092", "zookeeper.bridge.host": "0.0.0.0"},
            "for the listener PLAINTEXT and for zookeeper.bridge.port",
        ),
    ],
)
def test_a_port_that_two_settings_name_is_refused(changes: dict[str, str], text: str) -> None:
    with pytest.raises(SettingError, match=text):
        node(changes)


def test_equal_ports_of_other_hosts_and_those_chosen_later_are_no_mistake() -> None:
    assert node({"metrics.port": "9092", "metrics.host": "10.0.0.1"})["metrics.port"] == 9092
    assert (
        node({"metrics.port": "0", "registry.port": "0", "zookeeper.bridge.port": "0"})[
            "registry.port"
        ]
        == 0
    )
