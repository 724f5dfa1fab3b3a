"""Groups of a secured cluster: the brokers' ACLs hold for what a login sees and changes."""

from raftka.client.blocking.client import Client
from raftka.client.blocking.connection import addresses_of
from raftka.client.blocking.groups import committed
from raftka.testing import Cluster
from tests.kit.console import Api, console_of
from tests.kit.groups import commit, produce
from tests.kit.secured_registry import ADMIN, secured

__all__ = ["secured"]


def test_a_login_sees_and_changes_only_the_groups_that_it_may(secured: Cluster) -> None:
    at = addresses_of(secured.bootstrap_servers)
    with Client(at, "test", security=ADMIN) as client, console_of(secured, login="PLAIN") as site:
        produce(client, ("orders", 0), [1_000, 2_000])
        commit(client, "billing", {("orders", 0): 1})
        admin, nobody = Api(site.url), Api(site.url)
        for api, user in ((admin, "admin"), (nobody, "nobody")):
            api.post("/api/login", user=user, password=f"{user}-secret")

        assert [row["name"] for row in admin.get("/api/groups")["rows"]] == ["billing"]
        assert admin.get("/api/groups/billing")["lag"] == 1
        assert nobody.get("/api/groups")["rows"] == []
        offsets = [{"topic": "orders", "partition": 0, "offset": 0}]
        for method, path, body in [
            ("GET", "", None),
            ("POST", "/reset/preview", {"to": "earliest"}),
            ("POST", "/reset", {"offsets": offsets}),
            ("POST", "/offsets/delete", {"topics": ["orders"]}),
            ("POST", "/delete", None),
        ]:
            answer = nobody.ask(method, f"/api/groups/billing{path}", body=body)
            assert answer.status == 403, (path, answer.status, answer.body)
        assert committed(client, "billing") == {("orders", 0): 1}
        assert admin.post("/api/groups/billing/reset", offsets=offsets)["changed"] == 1
        assert committed(client, "billing") == {("orders", 0): 0}
