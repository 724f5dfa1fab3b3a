"""A registry of a secured cluster: passwords of the cluster's users, and what their ACLs allow at
the topics of the subjects.
"""

import pytest

from raftka.client.blocking.client import Client
from raftka.client.blocking.connection import addresses_of
from raftka.limits import Limit
from raftka.registry.access import User
from raftka.registry.broker_access import RIGHTS_S, BrokerAccess, as_user
from raftka.registry.server import RegistryServer
from raftka.testing import Cluster
from tests.kit.secured_registry import ADMIN, STRING, USERS, login
from tests.registry.rest import Rest


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Basic"},
        {"Authorization": "Basic !"},
        {"Authorization": "Bearer x"},
        {"Authorization": "Basic eA=="},
    ],
)
def test_nobody_gets_an_answer_without_a_password(
    secured_registry: RegistryServer, headers: dict[str, str]
) -> None:
    with Rest(secured_registry, headers) as rest:
        answer = rest.ask("GET", "/subjects")

    assert (answer.status, answer.code) == (401, 40101)


@pytest.mark.parametrize(
    ("name", "password"),
    [("admin", "wrong"), ("admin", ""), ("stranger", "x"), ("", "x"), ("admin", "admin-secret ")],
)
def test_wrong_passwords(secured_registry: RegistryServer, name: str, password: str) -> None:
    with login(secured_registry, "admin") as rest:
        assert rest.get("/subjects")  # the right one is known

    with login(secured_registry, name, password) as rest:
        assert rest.ask("GET", "/subjects").status == 401


CASES: list[tuple[str, str, object, set[str]]] = [  # with the users who may do it, beside admin
    ("GET", "/subjects/orders-value/versions", None, {"reader", "writer", "keeper"}),
    ("GET", "/subjects/orders-value/versions/1", None, {"reader", "writer", "keeper"}),
    ("GET", "/schemas/ids/1", None, {"reader", "writer", "keeper"}),
    ("GET", "/schemas/ids/2", None, set()),  # of a topic that is not there
    ("POST", "/subjects/orders-value", {"schema": STRING}, {"reader", "writer", "keeper"}),
    ("POST", "/subjects/orders-value/versions", {"schema": STRING}, {"writer"}),
    ("POST", "/subjects/orders-key/versions", {"schema": STRING}, {"writer"}),
    # not one that another subject has: maker may see it then
    ("POST", "/subjects/fresh-value/versions", {"schema": '"long"'}, {"maker"}),
    (
        "POST",
        "/compatibility/subjects/orders-value/versions/latest",
        {"schema": STRING},
        {"reader", "writer", "keeper"},
    ),
    ("PUT", "/config/orders-value", {"compatibility": "NONE"}, {"tuner"}),
    ("PUT", "/mode/orders-value", {"mode": "READWRITE"}, {"tuner"}),
    ("PUT", "/config", {"compatibility": "BACKWARD"}, set()),
    ("PUT", "/mode", {"mode": "READWRITE"}, set()),
    ("DELETE", "/subjects/orders-key", None, {"keeper"}),
]


@pytest.mark.parametrize(
    ("method", "target", "body", "allowed"),
    CASES,
    ids=lambda value: str(value) if isinstance(value, str) else "",
)
def test_acls_of_the_topic_decide(
    secured_registry: RegistryServer, method: str, target: str, body: object, allowed: set[str]
) -> None:
    """A user who is allowed may be told that there is nothing to do."""
    for user in (*(set(USERS) - {"admin"} - allowed), *allowed, "admin"):
        with login(secured_registry, user) as rest:
            answer = rest.ask(method, target, body)
        assert (answer.status == 403) == (user not in {*allowed, "admin"}), (user, answer)


def test_lists_have_only_what_a_user_may_see(secured_registry: RegistryServer) -> None:
    with login(secured_registry, "reader") as rest:
        assert "orders-value" in rest.get("/subjects")
        assert set(rest.get("/subjects?deleted=true")) <= {"orders-value", "orders-key"}
        assert {each["subject"] for each in rest.get("/schemas")} <= {"orders-value", "orders-key"}
        assert (
            rest.get("/schemas/ids/2/subjects?deleted=true")
            == rest.get("/schemas/ids/2/versions")
            == []
        )
    with login(secured_registry, "nobody") as rest:
        assert rest.get("/subjects") == rest.get("/schemas") == []


# how long a login is believed


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def access(secured: Cluster) -> tuple[BrokerAccess, Clock, list[str]]:
    """With the names of the users for whom a broker was asked."""
    clock, asked = Clock(), list[str]()
    brokers = addresses_of(secured.bootstrap_servers)

    def client_of(user: User) -> Client:
        asked.append(user.name)
        return Client(brokers, security=as_user(ADMIN, "PLAIN", user))

    return BrokerAccess(client_of, clock), clock, asked


async def test_a_login_is_kept_for_a_while_and_only_for_this_password(
    access: tuple[BrokerAccess, Clock, list[str]],
) -> None:
    logins, clock, asked = access
    reader = User("reader", "reader-secret")

    assert await logins(reader)
    assert await logins(reader)
    assert asked == ["reader"]
    assert not await logins(User("reader", "wrong"))
    assert await logins(reader)
    assert asked == ["reader", "reader"]
    clock.now = RIGHTS_S + 1
    assert await logins(reader)
    assert asked == ["reader"] * 3


async def test_the_users_that_are_kept_are_bounded(
    access: tuple[BrokerAccess, Clock, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("raftka.registry.broker_access.USERS", Limit("registry_users", 2, ""))
    logins, _, asked = access

    for name in ("reader", "writer", "keeper", "reader"):
        assert await logins(User(name, f"{name}-secret"))

    assert asked == ["reader", "writer", "keeper", "reader"]
    assert not logins.may(User("writer", ""), "see", "orders-value")
    assert logins.may(User("keeper", ""), "see", "orders-value")
