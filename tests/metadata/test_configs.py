"""Decisions on settings that the scripts in tests/scripts/controller do not reach: limits, and
invalid patterns of client metrics.
"""

from random import Random
from typing import cast

import pytest

from raftka import limits
from raftka.metadata.commands import (
    SET,
    AlterConfigs,
    AlteredConfigs,
    ConfigChange,
    ConfigResource,
)
from raftka.metadata.configs.settings import NodeSettings
from raftka.metadata.controller import configs
from raftka.metadata.controller.configs import decide_alter_configs
from raftka.metadata.controller.draft import Draft, Environment
from raftka.metadata.controller.topic_names import TopicNames
from raftka.metadata.image import BROKER, CLIENT_METRICS, GROUP, TOPIC, MetadataImage
from raftka.metadata.records import BrokerRegistered, ConfigSet, Record, TopicCreated
from raftka.wire.errors import Code
from tests.scripts.controller.stage import PROPERTIES

SETTINGS = NodeSettings.from_properties(PROPERTIES)
THERE: list[Record] = [
    BrokerRegistered(1, b"", b"", ()),
    TopicCreated("t", b"t" * 16, ((((1,), (1,), 1)),)),
]


def image(*records: Record) -> MetadataImage:
    return MetadataImage().apply(1, [*THERE, *records])[0]


def resource(kind: int, name: str, **values: str) -> ConfigResource:
    return ConfigResource(
        kind,
        name,
        tuple(ConfigChange(key.replace("_", "."), SET, value) for key, value in values.items()),
    )


def alter(
    now: MetadataImage, *resources: ConfigResource
) -> tuple[list[Record], tuple[AlteredConfigs, ...]]:
    environment = Environment(
        SETTINGS, Random(1), 0, [], lambda topic: False, lambda image: [], None
    )
    draft = Draft(now, TopicNames(now), now.offset + 1, environment)
    records, results = decide_alter_configs(draft, AlterConfigs(resources))
    return records, cast("tuple[AlteredConfigs, ...]", results)


def test_settings_of_many_resources_are_not_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        configs, "CONFIGURED_RESOURCES", limits.Limit("configured_resources", 2, "here")
    )
    groups = [resource(GROUP, name, consumer_session_timeout_ms="46000") for name in "abc"]

    records, answers = alter(image(), *groups)

    assert [Code(each.error) for each in answers] == [Code.NONE, Code.NONE, Code.POLICY_VIOLATION]
    assert "configured_resources: 3 asked, 2 allowed" in str(answers[2].message)
    full = image(*records)
    records, answers = alter(
        full,
        resource(GROUP, "a", consumer_session_timeout_ms="47000"),
        resource(TOPIC, "t", retention_ms="1"),
    )
    assert [each.error for each in answers] == [0, 0], (
        "what has settings may change them, and topics have a limit of their own"
    )


def test_unknown_names_are_kept_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        configs, "SETTINGS_OF_RESOURCE", limits.Limit("settings_of_resource", 2, "here")
    )
    now = image(ConfigSet(BROKER, "1", "a", "1"), ConfigSet(BROKER, "1", "b", "1"))

    records, answers = alter(now, resource(BROKER, "1", c="1"))

    assert (records, Code(answers[0].error)) == ([], Code.POLICY_VIOLATION)
    assert alter(now, resource(BROKER, "1", b="2"))[1] == (AlteredConfigs(0, None),)


@pytest.mark.parametrize(
    "pattern",
    ["nope=.*", "client_id", "client_id=[", "client_id=a=b", "=x", "", "client_id=" + "(" * 10_000],
)
def test_patterns_that_match_no_client(pattern: str) -> None:
    expected = Code.NONE if not pattern else Code.INVALID_CONFIG

    assert (
        Code(alter(image(), resource(CLIENT_METRICS, "m", match=pattern))[1][0].error) is expected
    )


def test_patterns_that_do() -> None:
    assert alter(
        image(), resource(CLIENT_METRICS, "m", match="client_id=a.*,client_source_port=[0-9]+")
    )[1] == (AlteredConfigs(0, None),)
