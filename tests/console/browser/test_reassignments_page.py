"""The page of reassignments: one is cancelled, and a preferred leader elected, by clicks."""

from raftka.client.blocking.client import Client
from raftka.client.blocking.connection import addresses_of
from raftka.client.blocking.reassignments import alter_reassignments
from raftka.testing import Cluster
from tests.console.browser.conftest import PHONE, OpenPage
from tests.kit.axe import TOO_WIDE, check_with_axe


def test_reassignment_is_cancelled_and_the_preferred_leader_elected(
    cluster: Cluster, open_page: OpenPage, axe: str
) -> None:
    stuck = cluster.create_topic("stuck", replication_factor=1)
    turned = cluster.create_topic("turned", replication_factor=3)
    leader = cluster.leader(turned)
    wanted = [*(each for each in (1, 2, 3) if each != leader), leader]
    target = next(each for each in (1, 2, 3) if each != cluster.leader(stuck))
    with Client(addresses_of(cluster.bootstrap_servers), "test") as client:
        alter_reassignments(client, {(turned, 0): wanted})
        page = open_page(f"/#/reassignments?search={turned}")
        page.click("button", "Elect 1 preferred")
        page.wait_for_text(f"raftka partitions elect {turned}")
        page.click_css("dialog button.primary")
        page.wait_for_text("The first replica leads each partition")
        assert cluster.leader(turned) == wanted[0]

        with cluster.killed(target):
            alter_reassignments(client, {(stuck, 0): [target]})
            page.evaluate(f"location.hash = '#/reassignments?search={stuck}'")
            page.wait_for_node("button", "Cancel stuck-0")
            page.resize(*PHONE)
            assert (check_with_axe(page, axe), page.evaluate(TOO_WIDE)) == ([], 0)
            page.click("button", "Cancel stuck-0")
            page.wait_for_text("raftka reassign cancel stuck")
            page.click_css("dialog button.danger")
            page.wait_for_text("No reassignment of such a topic")
