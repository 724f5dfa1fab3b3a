"""Confluent's Avro serializers for Java at the registry, together with confluent-kafka's for
Python: each reads what the other wrote.
"""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from raftka.registry.server import RegistryServer
from raftka.testing.cluster import Cluster
from tests.clients.truck_schemas import JSON_TRUCK, TRUCK
from tests.kit.toolchains import Program

NEWER = TRUCK.replace("]}", ',{"name":"load","type":"double","default":0}]}')
FLEET = (
    '{"type":"record","name":"Fleet","namespace":"fleet","fields":[{"name":"trucks",'
    '"type":{"type":"array","items":"fleet.Truck"}}]}'
)
SEVEN, EIGHT = {"number": 7, "at": "Köln"}, {"number": 8, "at": "x", "load": 1.5}
PROTO = 'syntax = "proto3"; package fleet; message Truck { int32 number = 1; }'


class Refused(AssertionError):
    """Java says why."""


@dataclass
class Java:
    """RegistryClient.java while it runs."""

    jvm: subprocess.Popen[str]

    def ask(self, *words: str) -> list[str]:
        """Raises Refused."""
        assert self.jvm.stdin is not None
        assert self.jvm.stdout is not None
        self.jvm.stdin.write("\t".join(words) + "\n")
        self.jvm.stdin.flush()
        verdict, _, text = self.jvm.stdout.readline().rstrip("\n").partition(" ")
        if verdict != "ok":
            raise Refused(text or "Java ended")
        return text.split("\t")


@contextmanager
def running(program: Program, **properties: str) -> Iterator[Java]:
    text = "".join(f"{name.replace('_', '.')}={value}\n" for name, value in properties.items())
    env = {
        **program.env,
        "CLIENT_PROPERTIES": text,
        "JAVA_TOOL_OPTIONS": "-Dfile.encoding=UTF-8 -Dstdout.encoding=UTF-8",
    }
    jvm = subprocess.Popen(
        program.command,
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )
    try:
        yield Java(jvm)
    finally:
        jvm.kill()
        jvm.communicate()


@dataclass
class Python:
    """The same with confluent-kafka."""

    servers: dict[str, Any]
    registry: SchemaRegistryClient
    reading: AvroDeserializer = field(init=False)

    def __post_init__(self) -> None:
        self.reading = AvroDeserializer(self.registry)

    def produce(self, topic: str, schema: Schema | str, value: object) -> None:
        errors: list[KafkaError | None] = []
        data = AvroSerializer(self.registry, schema)(
            value, SerializationContext(topic, MessageField.VALUE)
        )
        producer = Producer(self.servers)
        producer.produce(topic, data, on_delivery=lambda error, message: errors.append(error))
        assert producer.flush(20) == 0
        assert errors == [None]

    def read(self, topic: str, count: int) -> list[object]:
        consumer = Consumer(
            self.servers
            | {"group.id": f"readers-of-{topic}-{id(self)}", "auto.offset.reset": "earliest"}
        )
        consumer.subscribe([topic])
        found: list[object] = []
        while len(found) < count:
            found += [
                self.reading(message.value(), SerializationContext(topic, MessageField.VALUE))
                for message in consumer.consume(count - len(found), 10)
            ]
        consumer.close()
        return found

    def create(self, topic: str, **configs: str) -> str:
        admin = AdminClient(self.servers)
        for future in admin.create_topics([NewTopic(topic, 1, config=configs)]).values():
            future.result(10)
        return topic


@dataclass
class Scene:
    java: Java
    python: Python
    url: str
    servers: str


@pytest.fixture(scope="module")
def scene(confluent_avro: Program) -> Iterator[Scene]:
    """The registry is in the node."""
    with Cluster(1, properties={"registry.port": "0"}) as cluster:
        url = f"http://127.0.0.1:{cluster._embedded.nodes[1].edges['registry.port'].port}"
        with (
            running(
                confluent_avro, bootstrap_servers=cluster.bootstrap_servers, schema_registry_url=url
            ) as java,
            SchemaRegistryClient({"url": url}) as registry,
        ):
            yield Scene(
                java,
                Python({"bootstrap.servers": cluster.bootstrap_servers}, registry),
                url,
                cluster.bootstrap_servers,
            )


def read_by_java(java: Java, topic: str, count: int) -> list[object]:
    return [json.loads(each) for each in java.ask("read", topic, str(count))]


def test_each_reads_two_versions_of_the_other(scene: Scene) -> None:
    java, python = scene.java, scene.python
    topic = python.create("versions")

    java.ask("produce", topic, TRUCK, json.dumps(SEVEN))
    python.produce(topic, NEWER, EIGHT)
    python.produce(topic, TRUCK, SEVEN)
    java.ask("produce", topic, NEWER, json.dumps(EIGHT))

    assert python.registry.get_versions(f"{topic}-value") == [1, 2]
    assert python.read(topic, 4) == read_by_java(java, topic, 4) == [SEVEN, EIGHT, SEVEN, EIGHT]


def test_references(scene: Scene) -> None:
    """The record that is referred to is in neither schema's text."""
    java, python = scene.java, scene.python
    first, second = python.create("referring-1"), python.create("referring-2")
    value = {"trucks": [SEVEN, {"number": 8, "at": ""}]}
    java.ask("register", "truck", "AVRO", TRUCK)
    java.ask("register", f"{first}-value", "AVRO", FLEET, "fleet.Truck", "truck", "1")

    java.ask("produce", first, "latest", json.dumps(value))
    python.produce(
        second, Schema(FLEET, "AVRO", [SchemaReference("fleet.Truck", "truck", 1)]), value
    )

    assert python.read(first, 1) == read_by_java(java, second, 1) == [value]


def test_an_incompatible_schema_is_refused_with_the_reason(scene: Scene) -> None:
    topic = scene.python.create("incompatible")
    scene.java.ask("produce", topic, TRUCK, json.dumps(SEVEN))
    other = TRUCK.replace('"type":"int"', '"type":"string"')

    with pytest.raises(
        Refused,
        match=(
            r"is incompatible with an earlier schema for subject .*TYPE_MISMATCH.*error code: "
            r"409"
        ),
    ):
        scene.java.ask("produce", topic, other, json.dumps({"number": "7", "at": ""}))


@pytest.mark.parametrize(("kind", "text"), [("JSON", JSON_TRUCK), ("PROTOBUF", PROTO)])
def test_javas_client_registers_other_types(scene: Scene, kind: str, text: str) -> None:
    (number,) = scene.java.ask("register", f"other-{kind}", kind, text)

    assert scene.python.registry.get_schema(int(number)).schema_type == kind
    assert f"other-{kind}" in scene.java.ask("subjects")


def test_contexts(scene: Scene, confluent_avro: Program) -> None:
    """A writer has the context in its URL. Readers have it likewise, or find the id by the topic's
    name.
    """
    topic, url = scene.python.create("in-context"), f"{scene.url}/contexts/.java"
    with running(confluent_avro, bootstrap_servers=scene.servers, schema_registry_url=url) as java:
        # so the ids are not those of the context without a name
        java.ask("register", "any-value", "AVRO", '"string"')
        java.ask("produce", topic, NEWER, json.dumps(EIGHT))
        assert sorted(java.ask("subjects")) == [":.java:any-value", f":.java:{topic}-value"]
        assert java.ask("contexts") == [".", ".java"]
        assert read_by_java(java, topic, 1) == [EIGHT]

    assert read_by_java(scene.java, topic, 1) == [EIGHT]
    assert scene.python.read(topic, 1) == [EIGHT]
    with SchemaRegistryClient({"url": url}) as registry:
        assert Python(scene.python.servers, registry).read(f"{topic}", 1) == [EIGHT]
        assert registry.get_subjects() == [":.java:any-value", f":.java:{topic}-value"]


@pytest.mark.parametrize("payload", ["false", "true"])
def test_a_topic_with_validation_takes_javas_values(scene: Scene, payload: str) -> None:
    settings = {
        "confluent.value.schema.validation": "true",
        "raftka.value.schema.validation.payload": payload,
    }
    topic = scene.python.create(f"validated-{payload}", **settings)

    assert scene.java.ask("produce", topic, TRUCK, json.dumps(SEVEN)) == ["0"]
    assert scene.java.ask("produce", topic, NEWER, json.dumps(EIGHT)) == ["1"]
    assert scene.python.read(topic, 2) == [SEVEN, EIGHT]


def test_passwords(
    confluent_avro: Program,
    secured: Cluster,
    secured_registry: RegistryServer,
) -> None:
    """`reader` may look schemas up, and registers none."""
    for name, may in (("writer", True), ("reader", False)):
        settings = {
            "basic_auth_credentials_source": "USER_INFO",
            "basic_auth_user_info": f"{name}:{name}-secret",
        }
        with running(confluent_avro, schema_registry_url=secured_registry.url, **settings) as java:
            assert java.ask("subjects") == ["orders-value"]
            if may:
                assert java.ask("register", "orders-value", "AVRO", '"string"') == ["1"]
            else:
                with pytest.raises(
                    Refused,
                    match=r"denied operation write on subject orders-value; error code: 40301",
                ):
                    java.ask("register", "orders-value", "AVRO", '"string"')
