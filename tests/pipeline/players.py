"""Helpers that fill topics for readers, and read them: brokers, a producer, and whole batches as
they are given.
"""

from dataclasses import replace
from typing import Any

from raftka.client.blocking.producer import Producer
from raftka.cluster.ask import call
from raftka.pipeline.topics.brokers import Brokers
from raftka.pipeline.topics.options import SourceOptions, source_options
from raftka.pipeline.topics.planning import Range, batch
from raftka.testing import Cluster
from raftka.wire.messages.delete_records import DELETE_RECORDS

PATIENCE_S = 20.0


class Player:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.options = self.with_options()
        self._all: list[Brokers] = []
        self.brokers = self.more_brokers()

    def more_brokers(self, patience_s: float = PATIENCE_S) -> Brokers:
        """With connections of their own."""
        self._all.append(Brokers(self.options.bootstrap, "player", patience_s))
        return self._all[-1]

    def with_options(self, topic: str = "none", **given: Any) -> SourceOptions:
        return source_options(
            {
                "kafka.bootstrap.servers": self.cluster.bootstrap_servers,
                "subscribe": topic,
                **given,
            },
            streaming=False,
        )

    def fill(
        self,
        topic: str,
        count: int,
        partition: int = 0,
        size: int = 90,
        compression: int = 0,
        first: int = 0,
    ) -> None:
        producer = Producer(self.brokers, compression=compression)
        for at in range(first, first + count):
            producer.add(
                (topic, partition),
                (b"k%09d" % at, b"v%0*d" % (size - 1, at), (), 1_700_000_000_000 + at),
            )
        producer.flush()
        assert producer.written == count

    def delete_records(self, topic: str, before: int) -> None:
        partition = DELETE_RECORDS.request.topics.partitions(partition_index=0, offset=before)
        request = DELETE_RECORDS.request(
            topics=[DELETE_RECORDS.request.topics(name=topic, partitions=[partition])],
            timeout_ms=9000,
        )
        answer = call(self._leader(topic), DELETE_RECORDS, request, timeout=10, version=2)
        assert answer.topics[0].partitions[0].error_code == 0

    def plan(self, topic: str, **given: Any) -> list[Range]:
        return batch(self.with_options(topic, **given), self.brokers)

    def rows(
        self,
        ranges: list[Range],
        brokers: Brokers | None = None,
        *,
        fetch_bytes: int | None = None,
        fail_on_data_loss: bool = True,
    ) -> list[dict[str, Any]]:
        from raftka.pipeline.topics.reader import read

        options = replace(
            self.options,
            fail_on_data_loss=fail_on_data_loss,
            fetch_bytes=fetch_bytes or self.options.fetch_bytes,
        )
        return [
            row
            for each in ranges
            for found in read(brokers or self.brokers, each, options)
            for row in found.to_pylist()
        ]

    def close(self) -> None:
        for brokers in self._all:
            brokers.close()

    def _leader(self, topic: str) -> tuple[str, int]:
        led = self.brokers.leader((topic, 0))
        assert led is not None
        return led[0]
