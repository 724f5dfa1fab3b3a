"""Topics with schema validation as other people's producers and serializers meet them, with the
registry in the node.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from raftka.client.blocking.client import Client
from raftka.client.blocking.connection import addresses_of
from raftka.cluster.secured.authority import Authority
from raftka.registry.access import User
from raftka.registry.broker_access import as_user
from raftka.registry.server import Port, RegistryServer, port_tls
from raftka.testing.cluster import Cluster
from tests.clients.truck_schemas import JSON_TRUCK, TRUCK, truck_class
from tests.kit.secured_registry import ADMIN

ON = {"confluent.value.schema.validation": "true"}
PAYLOAD = ON | {"raftka.value.schema.validation.payload": "true"}
PLACE = '{"type":"record","name":"Place","fields":[{"name":"latitude","type":"double"}]}'
Serialize = Callable[[SchemaRegistryClient, SerializationContext], Any]


class Scene:
    def __init__(self, cluster: Cluster, registry: SchemaRegistryClient, url: str = "") -> None:
        self.registry, self.url = registry, url
        self.servers = {"bootstrap.servers": cluster.bootstrap_servers}

    def create(self, topic: str, **configs: str) -> None:
        admin = AdminClient(self.servers)
        for future in admin.create_topics([NewTopic(topic, 1, config=configs)]).values():
            future.result(10)

    def send(self, topic: str, *values: bytes, **settings: Any) -> list[KafkaError | None]:
        errors: list[KafkaError | None] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            errors.append(error)

        producer = Producer(self.servers | settings)
        for value in values:
            producer.produce(topic, value, on_delivery=delivered)
        assert producer.flush(20) == 0
        return errors

    def read(self, topic: str, count: int) -> list[Message]:
        consumer = Consumer(
            self.servers | {"group.id": f"readers-of-{topic}", "auto.offset.reset": "earliest"}
        )
        consumer.subscribe([topic])
        found: list[Message] = []
        while len(found) < count:
            found += consumer.consume(count - len(found), 10)
        consumer.close()
        return found


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    with Cluster(1, properties={"registry.port": "0"}) as cluster:
        port = cluster._embedded.nodes[1].edges["registry.port"].port
        url = f"http://127.0.0.1:{port}"
        with SchemaRegistryClient({"url": url}) as client:
            yield Scene(cluster, client, url)


def avro(client: SchemaRegistryClient, context: SerializationContext) -> Any:
    return AvroSerializer(client, TRUCK)({"number": 7, "at": "x"}, context)


def json_schema(client: SchemaRegistryClient, context: SerializationContext) -> Any:
    return JSONSerializer(JSON_TRUCK, client)({"number": 7}, context)


def protobuf(client: SchemaRegistryClient, context: SerializationContext) -> Any:
    kind = truck_class()
    return ProtobufSerializer(kind, client, {"use.deprecated.format": False})(
        kind(at={"latitude": 52.5}, since={"seconds": 7}), context
    )


@pytest.mark.parametrize("serialize", [avro, json_schema, protobuf])
@pytest.mark.parametrize(
    "settings",
    [{}, {"enable.idempotence": True, "compression.type": "zstd"}],
    ids=["plain", "idempotent"],
)
def test_values_of_serializers_are_taken_and_their_damage_is_not(
    scene: Scene, serialize: Serialize, settings: dict[str, Any]
) -> None:
    topic = f"{serialize.__name__}-{len(settings)}"
    scene.create(topic, **PAYLOAD)
    value = serialize(scene.registry, SerializationContext(topic, MessageField.VALUE))
    assert value is not None
    assert scene.send(topic, value, value, **settings) == [None, None]
    (error,) = scene.send(topic, value[:-1], **settings)
    assert error is not None
    assert error.code() == KafkaError.INVALID_RECORD
    (error,) = scene.send(topic, b"no schema at all", **settings)
    assert error is not None
    assert error.code() == KafkaError.INVALID_RECORD
    assert [message.value() for message in scene.read(topic, 2)] == [value, value]


def test_damaged_values_become_dead_letters_and_the_producer_goes_on(scene: Scene) -> None:
    scene.create("dead")
    scene.create("letters", **PAYLOAD, **{"raftka.schema.validation.dead.letter.topic": "dead"})
    value = avro(scene.registry, SerializationContext("letters", MessageField.VALUE))
    assert value is not None
    sent = [value, value[:-1], value, b"none", value]
    assert (
        scene.send("letters", *sent, **{"enable.idempotence": True, "linger.ms": 100}) == [None] * 5
    )
    assert [(message.offset(), message.value()) for message in scene.read("letters", 3)] == [
        (0, value),
        (2, value),
        (4, value),
    ]
    letters = scene.read("dead", 2)
    assert [message.value() for message in letters] == [value[:-1], b"none"]
    headers = dict(letters[0].headers() or ())
    assert headers["raftka.dead.letter.topic"] == b"letters"
    number = int.from_bytes(value[1:5])
    assert (
        headers["raftka.dead.letter.reason"]
        == f"it is no value of schema {number}: it ends too early".encode()
    )


def test_a_brokers_url_may_name_a_context_of_the_registry(scene: Scene) -> None:
    """Numbers are those of the context: the same one may be another schema elsewhere."""
    registry_url = f"{scene.url}/contexts/.fleet"
    settings = {"confluent.schema.registry.url": registry_url}
    with (
        Cluster(1, properties=settings) as cluster,
        SchemaRegistryClient({"url": registry_url}) as client,
    ):
        inside = Scene(cluster, client)
        inside.create("trucks", **PAYLOAD)
        client.register_schema("others-value", Schema('"string"', "AVRO"))
        client.register_schema("place", Schema(PLACE, "AVRO"))
        text = '{"type":"record","name":"Truck","fields":[{"name":"at","type":"Place"}]}'
        schema = Schema(text, "AVRO", [SchemaReference("Place", "place", 1)])
        value = AvroSerializer(client, schema)(
            {"at": {"latitude": 52.5}}, SerializationContext("trucks", MessageField.VALUE)
        )
        assert value is not None

        assert inside.send("trucks", value) == [None]
        (error,) = inside.send("trucks", value[:4] + b"\1" + value[5:])  # of others-value
        assert error is not None
        assert error.code() == KafkaError.INVALID_RECORD


# a registry with TLS that asks for passwords


class Guarded(NamedTuple):
    registry: RegistryServer
    trusted: Path

    def client(self, user: str) -> SchemaRegistryClient:
        return SchemaRegistryClient(
            {
                "url": self.registry.url,
                "basic.auth.user.info": f"{user}:{user}-secret",
                "ssl.ca.location": str(self.trusted),
            }
        )

    def settings(self, info: str, trusted: Path | None = None) -> dict[str, str]:
        """Of a broker that asks this registry."""
        return {
            "confluent.schema.registry.url": self.registry.url,
            "confluent.basic.auth.user.info": info,
            "confluent.ssl.truststore.location": str(trusted or self.trusted),
            "confluent.ssl.truststore.type": "PEM",
        }


@pytest.fixture(scope="module")
def guarded(secured: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """The registry of another cluster, which has the passwords and the rights."""
    folder, brokers = tmp_path_factory.mktemp("guarded"), addresses_of(secured.bootstrap_servers)
    authority = Authority()
    own = authority.issue("registry", ["127.0.0.1"])
    for name, text in (
        ("trusted", authority.trusted),
        ("chain", own.chain),
        ("key", own.key),
        ("stranger", Authority("stranger").trusted),
    ):
        (folder / f"{name}.pem").write_text(text)
    port = Port(number=0, tls=port_tls(folder / "chain.pem", folder / "key.pem"))

    def client_of(user: User) -> Client:
        return Client(brokers, security=as_user(ADMIN, "PLAIN", user))

    with RegistryServer(
        lambda: Client(brokers, security=ADMIN), port, "_schemas-guarded", client_of=client_of
    ) as registry:
        yield Guarded(registry, folder / "trusted.pem")


def test_the_broker_logs_in_at_a_registry_with_tls(guarded: Guarded) -> None:
    with (
        Cluster(1, properties=guarded.settings("reader:reader-secret")) as cluster,
        guarded.client("writer") as client,
    ):
        scene = Scene(cluster, client)
        scene.create("orders", **PAYLOAD)
        value = avro(client, SerializationContext("orders", MessageField.VALUE))
        assert value is not None

        assert scene.send("orders", value) == [None]
        for wrong in (value[:-1], b"no schema at all", b"\0\0\0\0\x63" + value[5:]):
            (error,) = scene.send("orders", wrong)
            assert error is not None
            assert error.code() == KafkaError.INVALID_RECORD
        assert [message.value() for message in scene.read("orders", 1)] == [value]


@pytest.mark.parametrize(
    ("info", "store", "code"),
    [
        ("reader:wrong", "trusted", KafkaError._MSG_TIMED_OUT),
        ("reader:reader-secret", "stranger", KafkaError._MSG_TIMED_OUT),
        # a user that sees no schema
        ("nobody:nobody-secret", "trusted", KafkaError.INVALID_RECORD),
    ],
)
def test_nothing_is_taken_where_the_broker_is_not_let_in(
    guarded: Guarded, info: str, store: str, code: int
) -> None:
    """Producers try again until their own patience ends."""
    settings = guarded.settings(info, guarded.trusted.with_name(f"{store}.pem"))
    with Cluster(1, properties=settings) as cluster, guarded.client("writer") as client:
        scene = Scene(cluster, client)
        scene.create("orders", **ON)
        value = avro(client, SerializationContext("orders", MessageField.VALUE))
        assert value is not None

        (error,) = scene.send("orders", value, **{"message.timeout.ms": 1500})

        assert error is not None
        assert error.code() == code
        assert cluster.records("orders") == []
