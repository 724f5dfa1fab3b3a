"""Spark's own Kafka source and sink, four jars from Maven, on raftka and on Apache Kafka: the same
jobs, row for row what format("raftka") has.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip(
    "pyspark",
    reason="PySpark is not installed: ./run setup pipeline installs it into .venv/ (1 GB)",
)

from bench.systems import KAFKA_JARS, Kafka, Raftka, System
from raftka.client.blocking.producer import Producer
from raftka.pipeline.topics.brokers import Brokers

pytestmark = pytest.mark.filterwarnings("default")

SETTINGS = {"log.retention.ms": "-1"}  # records are years old
PARTITIONS = 3


@pytest.fixture(scope="module", params=[Raftka, Kafka], ids=lambda kind: str(kind.name))
def system(request: pytest.FixtureRequest, kafka_jars: str) -> Iterator[System]:
    if kafka_jars.startswith("none"):
        pytest.skip(f'no jars of Spark\'s format("kafka"), {kafka_jars}')
    if request.param is Kafka and not KAFKA_JARS.is_dir():
        pytest.skip(f"{KAFKA_JARS} is not there; ./run bench fetches it")
    with request.param(1, SETTINGS) as started:
        started.start()
        started.wait_ready()
        yield started


@pytest.fixture
def brokers(system: System) -> Iterator[Brokers]:
    opened = Brokers(tuple(system.addresses), "comparison", 30.0)
    yield opened
    opened.close()


class Both:
    """A topic that both formats read and write."""

    def __init__(self, spark: Any, system: System, brokers: Brokers, topic: str) -> None:
        self.spark, self.system, self.brokers, self.topic = spark, system, brokers, topic
        self.servers = {
            "kafka.bootstrap.servers": ",".join(f"{host}:{port}" for host, port in system.addresses)
        }
        system.create_topic(topic, PARTITIONS)
        system.create_topic(f"{topic}-appended", 1, {"message.timestamp.type": "LogAppendTime"})

    def fill(self, count: int, base: int = 0) -> None:
        """With every codec; with keys, tombstones and headers, and without."""
        for compression in range(5):
            producer = Producer(self.brokers, compression=compression)
            for at in range(base + compression, base + count, 5):
                headers = [("h", b"%d" % at), ("none", None), ("h", b"")][: at % 4]
                record = (
                    b"k%d" % at if at % 3 else None,
                    b"v%d" % at * 20 if at % 7 else None,
                    headers,
                    1_700_000_000_000 + at,
                )
                producer.add((self.topic, at % PARTITIONS), record)
                producer.add((f"{self.topic}-appended", 0), record)
            producer.flush()

    def read(self, form: str, **options: Any) -> list[Any]:
        where = {} if "subscribePattern" in options else {"subscribe": self.topic}
        frame = self.spark.read.format(form).options(**self.servers, **{**where, **options}).load()
        return [
            frame.schema.simpleString(),
            *sorted(
                frame.collect(), key=lambda row: (row["topic"], row["partition"], row["offset"])
            ),
        ]

    def same(self, rows: int, **options: Any) -> None:
        theirs, ours = self.read("kafka", **options), self.read("raftka", **options)
        assert ours == theirs
        assert len(theirs) == rows + 1

    def stream(self, form: str, folder: Path, **options: Any) -> None:
        """All that is there on top of what was read before, into a topic."""
        given = {**self.servers, "subscribe": self.topic, "startingOffsets": "earliest", **options}
        frame = (
            self.spark.readStream.format(form)
            .options(**given)
            .load()
            .selectExpr("cast(concat(partition, '-', offset) as string) as value")
        )
        writer = frame.writeStream.format(form).options(
            **self.servers, topic=f"{self.topic}-out", checkpointLocation=str(folder)
        )
        writer.trigger(availableNow=True).start().awaitTermination()


@pytest.fixture
def both(spark: Any, system: System, brokers: Brokers, request: pytest.FixtureRequest) -> Both:
    return Both(spark, system, brokers, request.function.__name__.replace("_", "-")[:40])


def test_batches(both: Both) -> None:
    both.fill(600)

    both.same(600)
    both.same(1200, includeHeaders="true", subscribe=f"{both.topic},{both.topic}-appended")
    both.same(
        1200, subscribePattern=f"{both.topic}.*", **{"kafka.isolation.level": "read_committed"}
    )
    ends = {both.topic: {str(partition): 150 for partition in range(PARTITIONS)}}
    both.same(
        300,
        startingOffsets=str({both.topic: {"0": 50, "1": 100, "2": 0}}).replace("'", '"'),
        endingOffsets=str(ends).replace("'", '"'),
    )
    # from the first record on that is that late
    both.same(500, startingTimestamp="1700000000500", minPartitions="7")


def test_streams_and_a_checkpoint_that_goes_from_one_to_the_other(
    both: Both, tmp_path: Path
) -> None:
    both.system.create_topic(f"{both.topic}-out", 1)
    both.fill(300)
    both.stream("kafka", tmp_path, maxOffsetsPerTrigger="100")
    both.fill(60, base=300)
    both.stream("raftka", tmp_path)

    written = both.read("raftka", subscribe=f"{both.topic}-out")
    assert sorted(bytes(row["value"]).decode() for row in written[1:]) == sorted(
        f"{partition}-{at}" for partition in range(3) for at in range(120)
    )


def test_both_sources_read_the_records_of_each_sink(both: Both) -> None:
    columns = (
        "cast(id as string) as key, if(id % 5 = 0, null, repeat(cast(id as string), 30)) as "
        "value, cast(id % 3 as int) as partition"
    )
    headers = "array(named_struct('key', 'h', 'value', cast('x' as binary))) as headers"
    rows = both.spark.sql(f"select {columns}, {headers} from range(300)")
    for form in ("kafka", "raftka"):
        rows.write.format(form).mode("append").options(**both.servers, topic=both.topic).save()

    both.same(600, includeHeaders="true")
    found = both.read("raftka")[1:]
    halves = [
        [
            (row["key"], row["value"], row["partition"])
            for row in found
            if (row["offset"] < 100) is first
        ]
        for first in (True, False)
    ]
    assert sorted(halves[0], key=str) == sorted(halves[1], key=str)
