"""Produce in a transaction and consume, with aiokafka: `with_aiokafka.py [BOOTSTRAP_SERVERS]`."""

import asyncio
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

TOPIC = "hello-aiokafka"


async def main(bootstrap_servers: str) -> None:
    async with (
        AIOKafkaProducer(bootstrap_servers=bootstrap_servers, transactional_id="hello") as producer,
        producer.transaction(),
    ):
        for number in range(3):
            await producer.send_and_wait(TOPIC, key=b"key", value=b"value-%d" % number)

    async with AIOKafkaConsumer(
        TOPIC,
        bootstrap_servers=bootstrap_servers,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    ) as consumer:
        for _ in range(3):
            record = await consumer.getone()
            print(record.key.decode(), record.value.decode())


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:] or ["localhost:9092"]))
