"""Acts of real consumers besides reading on: seek, pause, subscribe by a regular expression, commit
with metadata, look for a time.
"""

from collections import defaultdict
from collections.abc import Iterator

import pytest
from kafka import KafkaProducer

from raftka.testing import Cluster
from tests.clients.readers import KINDS, Reader, Where
from tests.clients.workload import wait

RECORDS, BEGAN_MS, STEP_MS = 10, 1_700_000_000_000, 1000


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        yield running


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def topic(cluster: Cluster, kind: str) -> str:
    return filled(cluster, f"{kind}-1")


@pytest.fixture
def reader(cluster: Cluster, kind: str, topic: str) -> Iterator[Reader]:
    made = KINDS[kind](cluster.bootstrap_servers, f"^{kind}-[0-9]$", kind)
    yield made
    made.close()


def filled(cluster: Cluster, topic: str) -> str:
    """Two partitions with records a second apart."""
    cluster.create_topic(topic, partitions=2)
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers)
    try:
        for i in range(RECORDS):
            for partition in range(2):
                producer.send(
                    topic, b"%d" % i, partition=partition, timestamp_ms=BEGAN_MS + i * STEP_MS
                )
        producer.flush(30)
    finally:
        producer.close()
    return topic


class Seen:
    """The records of a reader, in the order of its reads."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.offsets: dict[Where, list[int]] = defaultdict(list)

    def until(self, where: Where, offset: int) -> list[int]:
        def there() -> bool:
            for found, at in self.reader.read():
                self.offsets[found].append(at)
            return self.offsets[where][-1:] == [offset]

        wait(there)
        return self.offsets[where]


def test_consumers_find_their_way(cluster: Cluster, topic: str, reader: Reader, kind: str) -> None:
    """One consumer does all of it, one thing after the other, as in life."""
    first, second, last = Where(topic, 0), Where(topic, 1), RECORDS - 1
    seen = Seen(reader)
    assert seen.until(first, last) == seen.until(second, last) == list(range(RECORDS))

    reader.pause(first)
    for where in (first, second):
        seen.offsets[where].clear()
        reader.seek(where, 7)
    assert seen.until(second, last) == [7, 8, 9]
    assert seen.offsets[first] == []
    reader.resume(first)
    assert seen.until(first, last)[-3:] == [7, 8, 9]

    reader.commit(first, 4, "up to here, é")
    assert reader.committed(first) == (4, "up to here, é")

    assert reader.first_since(first, BEGAN_MS + 4 * STEP_MS) == 4
    assert reader.first_since(first, BEGAN_MS + 4 * STEP_MS + 1) == 5
    assert reader.first_since(first, BEGAN_MS + RECORDS * STEP_MS) is None

    later = filled(cluster, f"{kind}-2")
    cluster.create_topic(f"not-{kind}-3")
    assert seen.until(Where(later, 1), last) == list(range(RECORDS))
    assert reader.assigned() == {
        Where(name, partition) for name in (topic, later) for partition in range(2)
    }
