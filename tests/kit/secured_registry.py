"""A secured cluster, and a registry that asks it for its users' rights."""

import base64
from collections.abc import Iterator

import pytest

from raftka.client.blocking.client import Client
from raftka.client.blocking.connection import addresses_of
from raftka.registry.access import User
from raftka.registry.broker_access import as_user
from raftka.registry.server import Port, RegistryServer
from raftka.security.client_security import ClientSecurity
from raftka.testing import Cluster
from raftka.wire.messages.acls import CREATE_ACLS
from tests.registry.rest import Rest

ADMIN = ClientSecurity("SASL_PLAINTEXT", "PLAIN", "admin", "admin-secret")
READ, WRITE, CREATE, DELETE, DESCRIBE, ALTER_CONFIGS = 3, 4, 5, 6, 8, 11
TOPIC, CLUSTER = 2, 4
LITERAL, ALLOW = 3, 3
RIGHTS = [
    ("reader", TOPIC, "orders", READ),
    ("writer", TOPIC, "orders", WRITE),
    ("keeper", TOPIC, "orders", DELETE),
    ("keeper", TOPIC, "orders", READ),
    ("tuner", TOPIC, "orders", ALTER_CONFIGS),
    ("tuner", TOPIC, "orders", DESCRIBE),
    ("maker", CLUSTER, "kafka-cluster", CREATE),
]
USERS = sorted({"admin", *(user for user, *_ in RIGHTS), "nobody"})
STRING, INT = '"string"', '"int"'


@pytest.fixture(scope="module")
def secured() -> Iterator[Cluster]:
    users = " ".join(f'user_{name}="{name}-secret"' for name in USERS)
    jaas = (
        'org.apache.kafka.common.security.plain.PlainLoginModule required username="admin" '
        f'password="admin-secret" {users};'
    )
    settings = {
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.plaintext.plain.sasl.jaas.config": jaas,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin;User:ANONYMOUS",
    }
    with Cluster(properties=settings) as cluster:
        cluster.create_topic("orders")
        rows = [
            CREATE_ACLS.request.creations(
                resource_type=kind,
                resource_name=name,
                resource_pattern_type=LITERAL,
                principal=f"User:{user}",
                host="*",
                operation=operation,
                permission_type=ALLOW,
            )
            for user, kind, name, operation in RIGHTS
        ]
        with Client(addresses_of(cluster.bootstrap_servers), security=ADMIN) as client:
            answer = client.ask(CREATE_ACLS, CREATE_ACLS.request(creations=rows))
            assert {each.error_code for each in answer.results} == {0}
        yield cluster


@pytest.fixture(scope="module")
def secured_registry(secured: Cluster) -> Iterator[RegistryServer]:
    brokers = addresses_of(secured.bootstrap_servers)

    def client_of(user: User) -> Client:
        return Client(brokers, security=as_user(ADMIN, "PLAIN", user))

    with RegistryServer(
        lambda: Client(brokers, security=ADMIN), Port(number=0), client_of=client_of
    ) as registry:
        with login(registry, "admin") as rest:
            rest.register("orders-value", STRING)
            rest.register("hidden-value", INT)
        yield registry


def login(registry: RegistryServer, name: str, password: str | None = None) -> Rest:
    shown = base64.b64encode(
        f"{name}:{f'{name}-secret' if password is None else password}".encode()
    ).decode()
    return Rest(registry, {"Authorization": f"Basic {shown}"})
