"""Consumer groups of the new protocol (KIP-848) as librdkafka speaks it, on three live processes;
what both protocols can do is in test_groups.py.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupState, ConsumerGroupType
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from kafka import KafkaAdminClient

from raftka.cluster.processes import Processes, running
from tests.clients.group_topics import PARTITIONS, RECORDS, committed, fill, read_up_to
from tests.clients.members import Member, wait_settled
from tests.clients.workload import wait

NEW, CLASSIC = "KIP-848", "kafka-python"

pytestmark = [
    pytest.mark.usefixtures("forgotten_sockets"),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Processes]:
    with running(nodes=3, settings={"group.initial.rebalance.delay.ms": "0"}) as processes:
        yield processes


@pytest.fixture(scope="module")
def admin(cluster: Processes) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})


def owned(member: Member) -> Any:
    """Of all topics."""
    client: Any = member.do(lambda client: client)
    return member.do(lambda _: client.consumer.assignment())


def test_a_regular_expression_stands_for_topics_that_come_later_too(cluster: Processes) -> None:
    fill(cluster, "regex-1", 2)
    with Member(NEW, cluster.bootstrap_servers, "^regex-.*", "regex") as member:
        wait(lambda: len(owned(member)) == 2)

        fill(cluster, "regex-2", 3)
        wait(lambda: len(owned(member)) == 5)
        assert {each.topic for each in owned(member)} == {"regex-1", "regex-2"}


def test_a_group_is_shown_as_what_it_is(cluster: Processes, admin: AdminClient) -> None:
    topic = fill(cluster, "shown")
    with Member(NEW, cluster.bootstrap_servers, topic, topic) as member:
        wait_settled([member], PARTITIONS)
        listed = {
            each.group_id: each
            for each in admin.list_consumer_groups(request_timeout=10).result().valid
        }
        assert (listed[topic].type, listed[topic].state) == (
            ConsumerGroupType.CONSUMER,
            ConsumerGroupState.STABLE,
        )

    wait(
        lambda: (
            {each.group_id: each.state for each in admin.list_consumer_groups().result().valid}[
                topic
            ]
            is ConsumerGroupState.EMPTY
        )
    )


def test_a_group_may_have_an_interval_of_its_own(cluster: Processes, admin: AdminClient) -> None:
    topic = fill(cluster, "interval")
    entry = ConfigEntry(
        "consumer.assignment.interval.ms", "0", incremental_operation=AlterConfigOpType.SET
    )
    for future in admin.incremental_alter_configs(
        [ConfigResource(ResourceType.GROUP, topic, incremental_configs=[entry])]
    ).values():
        future.result()

    with (
        Member(NEW, cluster.bootstrap_servers, topic, topic) as first,
        Member(NEW, cluster.bootstrap_servers, topic, topic) as second,
    ):
        wait_settled([first, second], PARTITIONS)
        assert {len(first.owned), len(second.owned)} == {PARTITIONS // 2}


@pytest.mark.parametrize("cooperative", [False, True])
def test_a_classic_group_moves_to_the_new_protocol_and_back(
    cluster: Processes, cooperative: bool
) -> None:
    topic = fill(cluster, f"moves-{cooperative}")
    with Member(CLASSIC, cluster.bootstrap_servers, topic, topic, cooperative=cooperative) as old:
        wait_settled([old], PARTITIONS)
        read_up_to([old], RECORDS)
        told = committed(old)
        with Member(NEW, cluster.bootstrap_servers, topic, topic) as new:
            wait_settled([old, new], PARTITIONS)
            assert kind(cluster, topic) == "consumer"
            assert {len(old.owned), len(new.owned)} == {PARTITIONS // 2}
            assert not any(new.read.values())  # all was committed
            assert new.committed(told) == told
        wait_settled([old], PARTITIONS)
        assert kind(cluster, topic) == "classic"


def kind(cluster: Processes, group: str) -> str:
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
    try:
        return (
            "classic"
            if admin.describe_groups([group])[group]["group_state"] != "Dead"
            else "consumer"
        )
    finally:
        admin.close()
