"""The page of clients with a member of a group."""

from raftka.client.blocking.client import Client
from raftka.client.blocking.connection import addresses_of
from raftka.client.blocking.member import Member
from raftka.testing import Cluster
from tests.console.browser.conftest import PHONE, OpenPage
from tests.kit.axe import TOO_WIDE, check_with_axe


def test_member_is_shown_with_its_group_and_goes_when_it_leaves(
    cluster: Cluster, open_page: OpenPage, axe: str
) -> None:
    page = open_page("/#/clients")
    page.wait_for_text("No group has a member now")
    with (
        Client(addresses_of(cluster.bootstrap_servers), "shop-7") as client,
        Member(client, "a group/1", "orders") as member,
    ):
        assert member.poll()
        page.wait_for_text("shop-7")
        assert page.texts("td .badge") == ["a group/1"]
        page.resize(*PHONE)
        assert (check_with_axe(page, axe), page.evaluate(TOO_WIDE)) == ([], 0)
    page.wait_for_text("No group has a member now")


def test_software_of_clients_is_shown_with_its_connections(open_page: OpenPage, axe: str) -> None:
    page = open_page("/#/clients")
    page.wait_for_text("as each client named itself")
    rows = page.texts("h2 ~ data-table tbody tr")
    assert any(each.split()[0] == "raftka" for each in rows)
    page.resize(*PHONE)
    assert (check_with_axe(page, axe), page.evaluate(TOO_WIDE)) == ([], 0)
