"""aiokafka: every record of every key once and in order, while leaders are killed under it; offsets
of groups while coordinators move.
"""

import asyncio
from collections.abc import Callable

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from raftka.cluster.processes import Processes
from raftka.testing.cluster import Cluster
from raftka.testing.faults.fault import Fault
from tests.clients.workload import (
    PARTITIONS,
    TOPIC,
    UNDER_WAY,
    by_key,
    create_topic,
    expected,
    records,
)


async def produce(cluster: Processes) -> None:
    """Raises when a record is refused. A node that starts again holds up the client's loop as well:
    only this thread may start nodes.
    """
    slots, refused = asyncio.Semaphore(UNDER_WAY), list[BaseException]()

    def delivered(future: asyncio.Future) -> None:
        slots.release()
        if (error := future.exception()) is not None:
            refused.append(error)

    producer = AIOKafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers,
        acks="all",
        enable_idempotence=True,
        linger_ms=2,
    )
    await producer.start()
    try:
        for key, value in records(cluster):
            await slots.acquire()
            (await producer.send(TOPIC, key=key, value=value)).add_done_callback(delivered)
    finally:
        await producer.stop()
    assert refused == []


async def read_all(bootstrap_servers: str) -> list[tuple[bytes, bytes]]:
    where, read = [TopicPartition(TOPIC, p) for p in range(PARTITIONS)], []
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap_servers, group_id=None, auto_offset_reset="earliest"
    )
    await consumer.start()
    try:
        consumer.assign(where)
        ends = await consumer.end_offsets(where)
        while any([await consumer.position(p) < end for p, end in ends.items()]):
            for polled in (await consumer.getmany(timeout_ms=1000)).values():
                read += [(record.key, record.value) for record in polled]
    finally:
        await consumer.stop()
    return read


def test_keyed_records_survive_two_killed_leaders(three_processes: Processes) -> None:
    create_topic(three_processes)

    asyncio.run(produce(three_processes))

    assert by_key(asyncio.run(read_all(three_processes.bootstrap_servers))) == expected()


async def committed(servers: str, topic: str, fail: Callable[[], Fault]) -> tuple[int | None, int]:
    """Return the answers to a member while its coordinator says that it is none, and how often it
    said so.
    """
    where = TopicPartition(topic, 0)
    consumer = AIOKafkaConsumer(
        bootstrap_servers=servers, group_id="readers", enable_auto_commit=False
    )
    await consumer.start()
    try:
        consumer.assign([where])
        await consumer.commit({where: 7})
        with fail() as fault:
            return await consumer.committed(where), fault.hits
    finally:
        await consumer.stop()


@pytest.mark.parametrize("error", ["NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS"])
def test_a_coordinator_that_moves_is_not_taken_for_one_that_has_nothing(error: str) -> None:
    """aiokafka looks for the error in partitions alone. Apache Kafka has none there, and aiokafka
    says that nothing is committed.
    """
    with Cluster(1) as cluster:
        topic = cluster.create_topic("t")

        told, hits = asyncio.run(
            committed(
                cluster.bootstrap_servers,
                topic,
                lambda: cluster.fail_next("OffsetFetch", error, times=2),
            )
        )

    assert told == 7
    assert hits == 2
