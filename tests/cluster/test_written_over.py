"""A real node that writes a segment over a deleted one is killed: it starts with the records that
it has acknowledged, and with no other.
"""

from pathlib import Path

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from raftka.cluster.processes import running

SETTINGS = {
    "log.segment.bytes": "1048576",
    "log.retention.bytes": "2000000",
    "log.retention.check.interval.ms": "20",
    "log.segment.delete.delay.ms": "0",
}
MOST = 2000  # records


def has_old_bytes(log: Path) -> bool:
    """Behind the last batch of the file lies something."""
    data, position = log.read_bytes(), 0
    while length := int.from_bytes(data[position + 8 : position + 12]):
        position += 12 + length
    return any(data[position:])


def value(number: int) -> bytes:
    return b"%060000d" % number


def test_it_has_what_it_acknowledged(tmp_path: Path) -> None:
    with running(1, SETTINGS, tmp_path) as cluster:
        address = cluster.nodes[1].plan.address
        # retention would wait for a checkpoint of what the log knows of idempotent producers
        producer = KafkaProducer(
            bootstrap_servers=address,
            batch_size=0,
            enable_idempotence=False,
            max_in_flight_requests_per_connection=1,
        )
        sent, active = 0, None
        while active is None or not has_old_bytes(active):
            for _ in range(5):
                producer.send("t", value(sent), partition=0)
                sent += 1
            producer.flush()
            active = max(tmp_path.rglob("t-0/*.log"))
            assert sent < MOST, "no segment was written over another"
        producer.close()
        cluster.kill(1)
        assert has_old_bytes(active)

        cluster.start(1)
        cluster.wait_ready()

        partition = TopicPartition("t", 0)
        consumer = KafkaConsumer(bootstrap_servers=address, consumer_timeout_ms=60_000)
        consumer.assign([partition])
        assert consumer.end_offsets([partition]) == {partition: sent}
        consumer.seek_to_beginning()
        expected = consumer.position(partition)
        assert 0 < expected < sent
        while expected < sent:
            record = next(consumer)
            assert (record.offset, record.value) == (expected, value(expected))
            expected += 1
        consumer.close()
    assert not has_old_bytes(active)
