"""The schema registry as other people's clients and serializers use it: confluent-kafka, franz-go,
KafkaJS.
"""

import json
import re
from collections.abc import Iterator

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from raftka.registry.server import RegistryServer
from tests.clients.truck_schemas import JSON_TRUCK, TRUCK, truck_class
from tests.clients.workload import run
from tests.kit.toolchains import Program

VALUE = SerializationContext("trucks", MessageField.VALUE)


@pytest.fixture
def client(raftka_registry: RegistryServer) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": raftka_registry.url}) as client:
        yield client


def test_avro(client: SchemaRegistryClient) -> None:
    data = AvroSerializer(client, TRUCK)({"number": 7, "at": "x"}, VALUE)

    assert data is not None
    assert data[:5] == b"\0\0\0\0\1"
    assert AvroDeserializer(client)(data, VALUE) == {"number": 7, "at": "x"}
    assert client.get_latest_version("trucks-value").version == 1


def test_json_schema(client: SchemaRegistryClient) -> None:
    data = JSONSerializer(JSON_TRUCK, client)({"number": 7}, VALUE)

    assert JSONDeserializer(None, schema_registry_client=client)(data, VALUE) == {"number": 7}
    with pytest.raises(Exception, match="number"):
        JSONSerializer(JSON_TRUCK, client)({}, VALUE)


def test_protobuf(client: SchemaRegistryClient) -> None:
    """It sends descriptors in base64, and those that they import first."""
    kind, settings = truck_class(), {"use.deprecated.format": False}
    message = kind(at={"latitude": 52.5}, since={"seconds": 7})

    data = ProtobufSerializer(kind, client, settings)(message, VALUE)

    assert ProtobufDeserializer(kind, settings, client)(data, VALUE) == message
    stored = client.get_latest_version("trucks-value").schema
    assert stored.schema_type == "PROTOBUF"
    # Google's own are everywhere
    assert [each.name for each in stored.references] == ["tests/place.proto"]
    assert "message Truck {" in stored.schema_str


def test_all_that_the_client_can_ask(client: SchemaRegistryClient) -> None:
    schema = Schema(TRUCK, "AVRO")
    number = client.register_schema("a-value", schema)

    assert client.get_schema(number) == schema
    assert client.lookup_schema("a-value", schema).schema_id == number
    assert client.get_subjects() == ["a-value"]
    assert client.get_versions("a-value") == [1]
    assert client.get_version("a-value", 1).schema == schema
    assert client.test_compatibility("a-value", Schema('"string"', "AVRO")) is False
    client.set_compatibility("a-value", "NONE")
    assert client.get_compatibility("a-value") == "NONE"
    assert client.test_compatibility("a-value", Schema('"string"', "AVRO")) is True
    assert client.delete_version("a-value", 1) == 1
    assert client.delete_subject("a-value", permanent=True) == [1]


def test_references(client: SchemaRegistryClient) -> None:
    client.register_schema("truck", Schema(TRUCK, "AVRO"))
    fleet = Schema(
        '{"type":"array","items":"fleet.Truck"}',
        "AVRO",
        [SchemaReference("fleet.Truck", "truck", 1)],
    )

    data = AvroSerializer(client, fleet)([{"number": 1, "at": ""}], VALUE)

    assert AvroDeserializer(client)(data, VALUE) == [{"number": 1, "at": ""}]


def test_what_is_refused_is_told(client: SchemaRegistryClient) -> None:
    client.register_schema("t", Schema(TRUCK, "AVRO"))

    with pytest.raises(SchemaRegistryError, match=re.escape("incompatible")) as refused:
        client.register_schema("t", Schema('"string"', "AVRO"))
    assert refused.value.http_status_code == 409
    with pytest.raises(SchemaRegistryError) as refused:
        client.get_schema(99)
    assert refused.value.error_code == 40403


def test_a_new_version_is_read_by_readers_of_the_old_one(client: SchemaRegistryClient) -> None:
    newer = TRUCK.replace("]}", ',{"name":"load","type":"double","default":0}]}')
    old, new = (
        AvroSerializer(client, TRUCK)({"number": 1, "at": ""}, VALUE),
        AvroSerializer(client, newer)({"number": 2, "at": "", "load": 1.5}, VALUE),
    )

    read = AvroDeserializer(client, newer)

    assert [read(old, VALUE), read(new, VALUE)] == [
        {"number": 1, "at": "", "load": 0.0},
        {"number": 2, "at": "", "load": 1.5},
    ]


def test_franz_go(franz_go: Program, raftka_registry: RegistryServer) -> None:
    assert run(
        [*franz_go.command, "registry", raftka_registry.url, "trucks-value", TRUCK], franz_go.env
    ).split() == [
        "7",
        "x",
        "1",
        "1",
        "false",
        "[1]",
    ]


def test_kafkajs(kafkajs_registry: Program, raftka_registry: RegistryServer) -> None:
    found = json.loads(
        run(
            [*kafkajs_registry.command, raftka_registry.url, "trucks-value", TRUCK],
            kafkajs_registry.env,
        )
    )

    assert found == {
        "id": 1,
        "latest": 1,
        "found": {"number": 7, "at": "x"},
        "header": "0000000001",
    }
