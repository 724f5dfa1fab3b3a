"""Load on a cluster while it is backed up: producers, transactions with offsets, groups. Each notes
what was acknowledged, and when.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.structs import OffsetAndMetadata

from raftka.client.blocking.client import Client
from raftka.client.blocking.connection import addresses_of
from raftka.client.blocking.producer import Producer
from raftka.client.blocking.topics import create_topics
from raftka.client.connection import Address
from raftka.testing import Cluster

PLAIN, IN, OUT, SECOND, GROUP, PIPE = "plain", "in", "out", "second", "readers", "pipe"
PARTITIONS = {PLAIN: 3, IN: 1, OUT: 3, SECOND: 2}
SETTINGS = {"segment.bytes": "1048576", "min.insync.replicas": "2"}


@dataclass
class Load:
    servers: str
    # acknowledged records of PLAIN: partition, offset, value, when
    acked: list[tuple[int, int, bytes, float]] = field(default_factory=list)
    piped: int = 0  # records of IN whose transaction was acknowledged
    commits: int = 0  # of the group of PLAIN
    errors: list[BaseException] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    def produce(self) -> None:
        producer = KafkaProducer(bootstrap_servers=self.servers, acks="all", linger_ms=2)
        feed = KafkaProducer(bootstrap_servers=self.servers, acks="all", linger_ms=2)
        number = 0
        while not self.over.is_set():
            sent = []
            for _ in range(50):
                value = b"%d" % number
                sent.append((value, producer.send(PLAIN, value, partition=number % 3)))
                feed.send(IN, value)
                number += 1
            for value, future in sent:
                done = future.get(20)
                self.acked.append((done.partition, done.offset, value, time.time()))
        producer.close()
        feed.close()

    def pipe(self) -> None:
        """Each record of IN to OUT and SECOND, with the offset, in one transaction."""
        place = TopicPartition(IN, 0)
        consumer = KafkaConsumer(
            bootstrap_servers=self.servers, group_id=None, auto_offset_reset="earliest"
        )
        consumer.assign([place])
        producer = KafkaProducer(bootstrap_servers=self.servers, transactional_id=PIPE)
        producer.init_transactions()
        while not self.over.is_set():
            for record in consumer.poll(200, max_records=5).get(place, ()):
                producer.begin_transaction()
                producer.send(OUT, record.value, partition=record.offset % 3)
                producer.send(SECOND, record.value, partition=record.offset % 2)
                offsets = {place: OffsetAndMetadata(record.offset + 1, "", -1)}
                producer.send_offsets_to_transaction(offsets, PIPE)
                producer.commit_transaction()
                self.piped += 1
        producer.close()
        consumer.close()

    def read(self) -> None:
        consumer = KafkaConsumer(
            PLAIN,
            bootstrap_servers=self.servers,
            group_id=GROUP,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        while not self.over.is_set():
            if consumer.poll(100):
                consumer.commit()
                self.commits += 1
        consumer.close()

    def run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            self.errors.append(error)
            raise


def produce(client: Client, topic: str, values: list[bytes]) -> None:
    """Write the values to partition 0, each in a batch of its own every 50 records."""
    producer = Producer(client)
    for at, value in enumerate(values):
        producer.add((topic, 0), (None, value, (), time.time_ns() // 1_000_000))
        if at % 50 == 49:
            producer.flush()
    producer.flush()


def addresses(cluster: Cluster) -> list[Address]:
    return addresses_of(cluster.bootstrap_servers)


@contextmanager
def load_on(servers: str) -> Iterator[Load]:
    """Make the topics, and load them until the context ends."""
    with Client(addresses_of(servers)) as client:
        for name, count in PARTITIONS.items():
            assert create_topics(client, [name], count, 3, SETTINGS)[0].error_code == 0
    load = Load(servers)
    threads = [
        threading.Thread(target=load.run, args=(work,))
        for work in (load.produce, load.pipe, load.read)
    ]
    for thread in threads:
        thread.start()
    try:
        yield load
    finally:
        load.over.set()
        for thread in threads:
            thread.join()
    assert not load.errors
