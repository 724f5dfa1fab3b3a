"""The API of ACLs, quotas and SCRAM users, on a secured cluster and on an open one."""

from collections.abc import Iterator

import pytest

from raftka.client.blocking.access import list_acls
from raftka.client.blocking.client import Client
from raftka.client.blocking.connection import addresses_of
from raftka.console.view import view
from raftka.security.acls import Acl
from raftka.security.scram import SALT_BYTES, salted_password
from raftka.testing import Cluster
from raftka.wire.messages.acls import CREATE_ACLS
from raftka.wire.messages.client_quotas import ALTER_CLIENT_QUOTAS
from raftka.wire.messages.scram import ALTER_USER_SCRAM_CREDENTIALS
from tests.kit.console import Api, console_of
from tests.kit.secured_registry import ADMIN, RIGHTS, secured

__all__ = ["secured"]
SCRAM_SHA_256 = 1


@pytest.fixture(scope="module")
def api(secured: Cluster) -> Iterator[Api]:
    brokers = addresses_of(secured.bootstrap_servers)
    acl, quota, user = (
        CREATE_ACLS.request.creations,
        ALTER_CLIENT_QUOTAS.request.entries,
        ALTER_USER_SCRAM_CREDENTIALS.request.upsertions,
    )
    with Client(brokers, security=ADMIN) as client:
        nobody_deletes = acl(
            resource_type=2,
            resource_name="pay",
            resource_pattern_type=4,
            principal="User:*",
            host="*",
            operation=6,
            permission_type=2,
        )
        client.ask(CREATE_ACLS, CREATE_ACLS.request(creations=[nobody_deletes]))
        entries = [
            quota(
                entity=[quota.entity(entity_type=kind, entity_name=name)],
                ops=[quota.ops(key="producer_byte_rate", value=value, remove=False)],
            )
            for kind, name, value in (("user", "reader", 1_000.0), ("client-id", None, 2_000.0))
        ]
        client.ask(ALTER_CLIENT_QUOTAS, ALTER_CLIENT_QUOTAS.request(entries=entries))
        salt = b"s" * SALT_BYTES
        scram = user(
            name="scram-user",
            mechanism=SCRAM_SHA_256,
            iterations=4096,
            salt=salt,
            salted_password=salted_password("SCRAM-SHA-256", "secret", salt, 4096),
        )
        client.ask(
            ALTER_USER_SCRAM_CREDENTIALS,
            ALTER_USER_SCRAM_CREDENTIALS.request(upsertions=[scram]),
        )
    with console_of(secured, security=ADMIN) as console:
        yield Api(console.url)


def test_all_acls_are_listed_with_their_principals(api: Api) -> None:
    found = api.get("/api/access/acls")

    assert found["total"] == len(RIGHTS) + 1
    assert found["has_authorizer"]
    assert {"principal": "User:keeper", "acls": 2} in found["principals"]
    assert {
        "resource": "topic",
        "name": "pay",
        "pattern": "prefixed",
        "principal": "User:*",
        "host": "*",
        "operation": "delete",
        "permission": "deny",
    }.items() <= found["acls"][0].items()


def test_what_counts_for_a_principal_includes_what_counts_for_everybody(api: Api) -> None:
    found = api.get("/api/access/acls", principal="User:reader")

    assert [(row["principal"], row["operation"]) for row in found["acls"]] == [
        ("User:*", "delete"),
        ("User:reader", "read"),
    ]


def test_acls_are_filtered_sorted_and_paged(api: Api) -> None:
    assert api.get("/api/access/acls", resource="cluster")["total"] == 1
    assert api.get("/api/access/acls", operation="read")["total"] == 2
    assert api.get("/api/access/acls", search="PAY")["total"] == 1
    page = api.get("/api/access/acls", sort="-principal", size=2, page=2)
    names = [row["principal"] for row in api.get("/api/access/acls", sort="-principal")["acls"]]
    assert [row["principal"] for row in page["acls"]] == names[2:4]
    assert names == sorted(names, reverse=True)


def test_many_browsers_ask_brokers_once(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Client] = []

    def counted(client: Client) -> list[Acl]:
        asked.append(client)
        return list_acls(client)

    monkeypatch.setattr(view, "list_acls", counted)
    for _ in range(10):
        api.get("/api/access/acls")

    assert len(asked) <= 1, "each look asked all brokers' ACLs"


def test_quotas_have_their_entities(api: Api) -> None:
    found = api.get("/api/access/quotas")

    assert found == {
        "total": 2,
        "quotas": [
            {
                "name": "client-id <default>",
                "entity": {"client-id": "<default>"},
                "values": {"producer_byte_rate": 2_000.0},
            },
            {
                "name": "user reader",
                "entity": {"user": "reader"},
                "values": {"producer_byte_rate": 1_000.0},
            },
        ],
    }
    assert api.get("/api/access/quotas", search="READ")["total"] == 1


def test_users_are_told_without_a_secret(api: Api) -> None:
    assert api.get("/api/access/users") == {
        "total": 1,
        "users": [
            {
                "name": "scram-user",
                "credentials": [{"mechanism": "SCRAM-SHA-256", "iterations": 4096}],
            }
        ],
    }


def test_a_user_without_rights_is_refused(secured: Cluster) -> None:
    with console_of(secured, login="PLAIN") as console:
        api = Api(console.url)
        api.post("/api/login", user="nobody", password="nobody-secret")
        assert api.ask("GET", "/api/access/acls").status == 403


def test_a_cluster_without_an_authorizer_says_so() -> None:
    with Cluster(1) as cluster, console_of(cluster) as console:
        assert Api(console.url).get("/api/access/acls") == {
            "acls": [],
            "total": 0,
            "principals": [],
            "has_authorizer": False,
        }
