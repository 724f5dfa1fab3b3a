"""A Trio program with its cluster inside: `python app.py`. One of three nodes is killed on the way.

The nodes share the program's event loop. A client that blocks belongs in a thread.
"""

import trio
from kafka import KafkaConsumer, KafkaProducer

import raftka.cluster

TOPIC = "orders"


def produce(bootstrap_servers: str, first: int) -> None:
    with KafkaProducer(bootstrap_servers=bootstrap_servers, acks="all") as producer:
        for number in range(first, first + 5):
            producer.send(TOPIC, b"order-%d" % number).get(30)


def consume(bootstrap_servers: str, count: int) -> list[str]:
    with KafkaConsumer(
        TOPIC, bootstrap_servers=bootstrap_servers, auto_offset_reset="earliest"
    ) as consumer:
        return [record.value.decode() for _, record in zip(range(count), consumer, strict=False)]


async def main() -> None:
    async with raftka.cluster.launch(nodes=3, default_replication_factor=3) as cluster:
        servers = cluster.bootstrap_servers
        await trio.to_thread.run_sync(produce, servers, 0)
        await cluster.kill(1)  # as SIGKILL does: nothing is written or said any more
        await trio.to_thread.run_sync(produce, servers, 5)
        print(*await trio.to_thread.run_sync(consume, servers, 10))


if __name__ == "__main__":
    trio.run(main)
