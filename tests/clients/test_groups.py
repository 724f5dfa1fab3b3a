"""Consumer groups of real clients on three live processes: members come, leave, restart, and their
coordinator is killed under them.
"""

from collections.abc import Iterator

import pytest

from raftka.broker.coordinators.runtime import partition_for
from raftka.cluster.ask import ask_any
from raftka.cluster.processes import Processes, running
from tests.clients.group_topics import PARTITIONS, RECORDS, committed, fill, produce, read_up_to
from tests.clients.members import KINDS, Member, wait_settled
from tests.clients.workload import wait

OFFSETS = "__consumer_offsets"
EVERY_WAY = [
    ("kafka-python", False),
    ("kafka-python", True),
    ("confluent-kafka", False),
    ("confluent-kafka", True),
    ("aiokafka", False),
    ("KIP-848", True),
]

pytestmark = [
    pytest.mark.usefixtures("forgotten_sockets"),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Processes]:
    """A cluster that no test kills."""
    with running(nodes=3, settings={"group.initial.rebalance.delay.ms": "0"}) as processes:
        yield processes


@pytest.mark.parametrize(("kind", "cooperative"), EVERY_WAY)
def test_members_share_the_partitions_and_the_next_goes_on_where_they_have_been(
    cluster: Processes, kind: str, cooperative: bool
) -> None:
    topic = fill(cluster, f"shared-{kind}-{cooperative}")
    with Member(kind, cluster.bootstrap_servers, topic, topic, cooperative=cooperative) as first:
        wait_settled([first], PARTITIONS)
        with Member(
            kind, cluster.bootstrap_servers, topic, topic, cooperative=cooperative
        ) as second:
            wait_settled([first, second], PARTITIONS)
        wait_settled([first], PARTITIONS)
        read_up_to([first], RECORDS)
        first.commit()
    produce(cluster, topic)

    with Member(kind, cluster.bootstrap_servers, topic, topic, cooperative=cooperative) as third:
        read_up_to([third], 2 * RECORDS)

        assert dict(third.read) == {
            partition: list(range(RECORDS, 2 * RECORDS)) for partition in range(PARTITIONS)
        }


@pytest.mark.parametrize("kind", KINDS)
def test_a_static_member_that_restarts_finds_its_place_and_nobody_notices(
    cluster: Processes, kind: str
) -> None:
    topic = fill(cluster, f"static-{kind}")
    with Member(kind, cluster.bootstrap_servers, topic, topic, instance="a") as first:
        second = Member(kind, cluster.bootstrap_servers, topic, topic, instance="b")
        # so it knows the topic, and has no reason of its own to join again
        read_up_to([first, second], RECORDS)
        wait_settled([first, second], PARTITIONS)
        seen, owned = first.rebalances, second.owned
        second.close()

        with Member(kind, cluster.bootstrap_servers, topic, topic, instance="b") as again:
            wait_settled([first, again], PARTITIONS)
            wait(lambda: all(again.read[partition] for partition in owned))

            assert again.owned == owned
            assert first.rebalances == seen


@pytest.mark.parametrize(("kind", "cooperative"), EVERY_WAY)
def test_ten_members(cluster: Processes, kind: str, cooperative: bool) -> None:
    topic = fill(cluster, f"ten-{kind}-{cooperative}", partitions=20)
    members = [
        Member(kind, cluster.bootstrap_servers, topic, topic, cooperative=cooperative)
        for _ in range(10)
    ]
    try:
        wait_settled(members, 20)
        read_up_to(members, RECORDS, partitions=20)
    finally:
        for member in members:
            member.stop()
        for member in members:
            member.close()


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_committed_is_never_taken_back_when_the_coordinator_is_killed(kind: str) -> None:
    with running(nodes=3, settings={"group.initial.rebalance.delay.ms": "0"}) as cluster:
        topic = fill(cluster, "t")
        with (
            Member(kind, cluster.bootstrap_servers, topic, "g") as first,
            Member(kind, cluster.bootstrap_servers, topic, "g") as second,
        ):
            wait_settled([first, second], PARTITIONS)
            read_up_to([first, second], RECORDS)
            told = dict.fromkeys(range(PARTITIONS), RECORDS)
            # who was given a partition that the other has read reads it again
            wait(lambda: committed(first) | committed(second) == told)

            cluster.kill(coordinator(cluster, "g"))
            produce(cluster, topic)
            read_up_to([first, second], 2 * RECORDS)

            found = first.committed(range(PARTITIONS))
            assert all((found[partition] or 0) >= offset for partition, offset in told.items())
            wait_settled([first, second], PARTITIONS)
            wait(
                lambda: (
                    committed(first) | committed(second)
                    == dict.fromkeys(range(PARTITIONS), 2 * RECORDS)
                )
            )
            assert first.committed(range(PARTITIONS)) == dict.fromkeys(
                range(PARTITIONS), 2 * RECORDS
            )


def coordinator(cluster: Processes, group: str) -> int:
    alive = [
        address
        for node, address in zip(cluster.nodes.values(), cluster.addresses, strict=True)
        if node.alive
    ]
    partitions = ask_any(alive, [OFFSETS]).of(OFFSETS)
    return partitions[partition_for(group, len(partitions))].leader
