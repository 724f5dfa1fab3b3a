"""Tests of the shop against a real cluster, with the fixtures of raftka's pytest plugin."""

from shop import send_order

from raftka.testing import Cluster


def test_an_order_is_written_under_its_customer(raftka_cluster: Cluster, raftka_topic: str) -> None:
    send_order(raftka_cluster.bootstrap_servers, raftka_topic, "customer-7", "order-1")

    (record,) = raftka_cluster.records(raftka_topic)
    assert (record.key, record.value) == (b"customer-7", b"order-1")


def test_an_order_survives_a_lost_answer(raftka_cluster: Cluster, raftka_topic: str) -> None:
    """The idempotent producer sends again, and the broker has the order once."""
    raftka_cluster.lose_answers("Produce", times=1)

    send_order(raftka_cluster.bootstrap_servers, raftka_topic, "customer-7", "order-1")

    assert len(raftka_cluster.records(raftka_topic)) == 1
