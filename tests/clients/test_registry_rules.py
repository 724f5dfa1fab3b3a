"""Data contracts as confluent-kafka runs them: its own executors of rules, with schemas of the
registry.

They need `cel-python` (CEL) and `tink` (encryption), which are in `confluent-kafka[rules]`.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.schema_registry import (
    Metadata,
    MetadataProperties,
    Rule,
    RuleKind,
    RuleMode,
    RuleParams,
    RuleSet,
    Schema,
    SchemaRegistryClient,
    ServerConfig,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.common.schema_registry_client import (
    ConfigCompatibilityLevel,
)
from confluent_kafka.schema_registry.rule_registry import RuleRegistry
from confluent_kafka.serialization import MessageField, SerializationContext, SerializationError

from raftka.registry.server import RegistryServer

PERSON = (
    '{"type":"record","name":"Person","fields":[{"name":"name","type":"string"},'
    '{"name":"number","type":"string","confluent:tags":["PII"]}]}'
)
VALUE = SerializationContext("people", MessageField.VALUE)
LATEST = {"auto.register.schemas": False, "use.latest.version": True}
SECRET = "4111-1111"


def library(name: str) -> Any:
    return pytest.importorskip(name, reason=f"{name} is not there: it is in confluent-kafka[rules]")


def rule(kind: RuleKind, name: str, **more: Any) -> Rule:
    given = {"tags": None, "params": None, "expr": None, **more}
    return Rule(
        name,
        "",
        kind,
        RuleMode.WRITEREAD,
        given["type"],
        given["tags"],
        given["params"],
        given["expr"],
        None,
        None,
        False,
    )


@pytest.fixture
def client(raftka_registry: RegistryServer) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": raftka_registry.url}) as client:
        yield client


def test_rules_and_metadata_come_back_as_they_were_sent(client: SchemaRegistryClient) -> None:
    rules = RuleSet([], [rule(RuleKind.CONDITION, "long", type="CEL", expr="true")])
    metadata = Metadata(None, MetadataProperties({"owner": "fleet"}), [])
    schema = Schema(PERSON, "AVRO", [], metadata, rules)

    number = client.register_schema("people-value", schema)

    found = client.get_schema(number)
    assert found.metadata == metadata
    assert [each.name for each in found.rule_set.domain_rules] == ["long"]
    assert client.lookup_schema("people-value", schema).schema_id == number
    latest = client.get_latest_with_metadata("people-value", {"owner": "fleet"})
    assert latest.schema_id == number


def test_settings_that_the_client_sends_leave_the_level(client: SchemaRegistryClient) -> None:
    client.set_config("people-value", ServerConfig(compatibility=ConfigCompatibilityLevel.FULL))

    client.set_config("people-value", ServerConfig(compatibility_group="major"))

    found = client.get_config("people-value")
    assert (found.compatibility_level, found.compatibility_group) == ("FULL", "major")


def test_a_condition_in_cel_keeps_a_record_from_being_sent(client: SchemaRegistryClient) -> None:
    library("celpy")
    from confluent_kafka.schema_registry.rules.cel.cel_executor import CelExecutor

    rules = RuleSet(
        [], [rule(RuleKind.CONDITION, "long", type="CEL", expr="size(message.name) > 2")]
    )
    client.register_schema("people-value", Schema(PERSON, "AVRO", [], None, rules))
    registry = RuleRegistry()
    registry.register_executor(CelExecutor())
    serializer = AvroSerializer(client, conf=LATEST, rule_registry=registry)

    assert serializer({"name": "Ann", "number": SECRET}, VALUE)
    with pytest.raises(SerializationError) as refused:
        serializer({"name": "A", "number": SECRET}, VALUE)
    assert "size(message.name) > 2" in str(refused.value.__cause__)


def test_a_tagged_field_is_sent_encrypted(client: SchemaRegistryClient) -> None:
    """With the client's own KMS for tests, and its own store of keys: this registry keeps none."""
    library("tink")
    from confluent_kafka.schema_registry.rules.encryption.dek_registry.mock_dek_registry_client import (  # noqa: E501
        MockDekRegistryClient,
    )
    from confluent_kafka.schema_registry.rules.encryption.encrypt_executor import (
        FieldEncryptionExecutor,
    )
    from confluent_kafka.schema_registry.rules.encryption.localkms.local_driver import (
        LocalKmsDriver,
    )

    LocalKmsDriver.register()
    params = RuleParams(
        {
            "encrypt.kek.name": "key",
            "encrypt.kms.type": "local-kms",
            "encrypt.kms.key.id": "mine",
        }
    )
    encrypt = rule(RuleKind.TRANSFORM, "encrypt", type="ENCRYPT", tags=["PII"], params=params)
    client.register_schema("people-value", Schema(PERSON, "AVRO", [], None, RuleSet([], [encrypt])))
    executor = FieldEncryptionExecutor()
    executor.executor.client = MockDekRegistryClient(client.config())
    registry = RuleRegistry()
    registry.register_executor(executor)
    secret = {"secret": "of this test"}

    data = AvroSerializer(client, conf=LATEST, rule_conf=secret, rule_registry=registry)(
        {"name": "Ann", "number": SECRET}, VALUE
    )

    assert data is not None
    assert b"Ann" in data
    assert SECRET.encode() not in data
    read = AvroDeserializer(client, rule_conf=secret, rule_registry=registry)(data, VALUE)
    assert read == {"name": "Ann", "number": SECRET}


def test_nothing_is_sent_where_the_registry_would_have_to_keep_the_keys(
    client: SchemaRegistryClient,
) -> None:
    library("tink")
    from confluent_kafka.schema_registry.rules.encryption.encrypt_executor import (
        FieldEncryptionExecutor,
    )

    params = RuleParams(
        {"encrypt.kek.name": "key", "encrypt.kms.type": "local-kms", "encrypt.kms.key.id": "mine"}
    )
    encrypt = rule(RuleKind.TRANSFORM, "encrypt", type="ENCRYPT", tags=["PII"], params=params)
    client.register_schema("people-value", Schema(PERSON, "AVRO", [], None, RuleSet([], [encrypt])))
    registry = RuleRegistry()
    executor = FieldEncryptionExecutor()
    registry.register_executor(executor)
    serializer = AvroSerializer(client, conf=LATEST, rule_registry=registry)

    with pytest.raises(SerializationError) as refused:
        serializer({"name": "Ann", "number": SECRET}, VALUE)
    assert "could not register kek" in str(refused.value.__cause__)
    executor.executor.close()
