"""The reader of batches on real nodes: all records up to the stops, whatever happens meanwhile."""

from collections.abc import Iterator, Mapping

import pytest

from raftka.client.blocking.batch_reader import BatchReader, Fetched, _Asked, next_offset
from raftka.client.blocking.client import Client, Unreachable, Where
from raftka.client.blocking.connection import addresses_of
from raftka.client.blocking.producer import Producer
from raftka.client.blocking.reader import Reader, batches_of
from raftka.client.blocking.transaction import begin, end
from raftka.limits import HEADERS_OF_RECORD
from raftka.testing import Cluster
from raftka.wire.errors import KafkaError
from raftka.wire.messages.delete_records import DELETE_RECORDS
from raftka.wire.messages.fetch import FetchResponse
from raftka.wire.records import CRC_POSITION, build_batch, records_of


@pytest.fixture(scope="module")
def three() -> Iterator[Cluster]:
    with Cluster(3) as cluster:
        yield cluster


@pytest.fixture
def cluster(three: Cluster) -> Iterator[Cluster]:
    yield three
    three.heal()


@pytest.fixture
def client(cluster: Cluster) -> Iterator[Client]:
    with Client(addresses_of(cluster.bootstrap_servers), "test", 20.0) as client:
        yield client


def write(client: Client, topic: str, partition: int, values: range) -> None:
    producer = Producer(client)
    for value in values:
        producer.add((topic, partition), (None, b"%d" % value, (), value))
        if value % 7 == 0:
            producer.flush()
    producer.flush()


def take(reader: BatchReader, found: dict[Where, list[int]]) -> None:
    for fetched in reader.poll(1.0):
        batches = batches_of(fetched.where, fetched.records, fetched.aborted)
        found.setdefault(fetched.where, []).extend(
            int(record.value or b"")
            for _, batch, has_records in batches
            if has_records
            for record in records_of(batch)
            if record.offset >= fetched.offset
        )


def read(reader: BatchReader) -> Mapping[Where, list[int]]:
    found: dict[Where, list[int]] = {}
    while not reader.is_over:
        take(reader, found)
    reader.close()
    return found


def test_each_partition_is_read_from_its_position_to_its_stop(
    cluster: Cluster, client: Client
) -> None:
    topic = cluster.create_topic(partitions=4, retention_ms=-1)
    for partition in range(4):
        write(client, topic, partition, range(100))
    wheres = [(topic, partition) for partition in range(4)]

    reader = BatchReader(client, {where: where[1] for where in wheres}, dict.fromkeys(wheres, 100))
    assert read(reader) == {where: list(range(where[1], 100)) for where in wheres}


def test_batches_go_on_behind_the_stop_and_the_reader_does_not(
    cluster: Cluster, client: Client
) -> None:
    topic = cluster.create_topic(partitions=1, retention_ms=-1)
    write(client, topic, 0, range(100))

    found = read(BatchReader(client, {(topic, 0): 3}, {(topic, 0): 5}))
    assert found[topic, 0][:2] == [3, 4]
    assert read(BatchReader(client, {(topic, 0): 5}, {(topic, 0): 5})) == {}


def test_a_leader_that_is_killed_is_followed(cluster: Cluster, client: Client) -> None:
    topic = cluster.create_topic(replication_factor=3, retention_ms=-1)
    write(client, topic, 0, range(50))
    reader = BatchReader(client, {(topic, 0): 0}, {(topic, 0): 100})
    found: dict[Where, list[int]] = {}
    while len(found.get((topic, 0), ())) < 50:
        take(reader, found)
    cluster.kill(cluster.leader(topic))
    with Client(addresses_of(cluster.bootstrap_servers), "test", 20.0) as other:
        write(other, topic, 0, range(50, 100))

    while not reader.is_over:
        take(reader, found)
    assert found[topic, 0] == list(range(100))


def test_a_cluster_that_is_gone_ends_the_patience(cluster: Cluster) -> None:
    topic = cluster.create_topic(retention_ms=-1)
    with Client(addresses_of(cluster.bootstrap_servers), "test", 0.3) as client:
        write(client, topic, 0, range(5))
        reader = BatchReader(client, {(topic, 0): 0}, {(topic, 0): 5})
        cluster.fail_next("Fetch", "NOT_LEADER_OR_FOLLOWER", times=1_000_000)
        with pytest.raises(Unreachable):
            read(reader)
        reader.close()


def test_records_that_were_deleted_meanwhile_are_counted(cluster: Cluster, client: Client) -> None:
    topic = cluster.create_topic(partitions=1, retention_ms=-1)
    write(client, topic, 0, range(20))
    row = DELETE_RECORDS.request.topics
    client.ask_leader(
        (topic, 0),
        DELETE_RECORDS,
        DELETE_RECORDS.request(
            topics=[row(name=topic, partitions=[row.partitions(partition_index=0, offset=15)])],
            timeout_ms=10_000,
        ),
    )

    reader = BatchReader(client, {(topic, 0): 3}, {(topic, 0): 20})
    assert read(reader)[topic, 0] == list(range(15, 20))
    assert reader.lost == 12

    records = Reader(client, {(topic, 0): 3})
    found: list[int] = []
    while len(found) < 5:
        found += [each.offset for each in records.poll(1.0, 100)]
    records.close()
    assert (found, records.lost) == (list(range(15, 20)), 12)


@pytest.mark.parametrize(("committed", "expected"), [(True, [0, 1]), (False, [0, 1, 2, 3])])
def test_a_reader_of_committed_records_ends_before_an_open_transaction(
    cluster: Cluster, client: Client, committed: bool, expected: list[int]
) -> None:
    topic = cluster.create_topic(partitions=1, retention_ms=-1)
    identity = begin(client, f"writer-{topic}", 60_000)
    producer = Producer(client, identity=identity)
    for value in (0, 1):
        producer.add((topic, 0), (None, b"%d" % value, (), 0))
    producer.flush()
    end(client, identity, commit=True)
    identity = begin(client, f"writer-{topic}", 60_000)
    producer = Producer(client, identity=identity)
    for value in (2, 3):
        producer.add((topic, 0), (None, b"%d" % value, (), 0))
    producer.flush()

    stops = {(topic, 0): 5}  # with the marker of the first transaction
    assert read(BatchReader(client, {(topic, 0): 0}, stops, committed=committed))[topic, 0] == (
        expected
    )
    end(client, identity, commit=False)
    if committed:
        stops = client.offsets({(topic, 0): -1})
        reader = BatchReader(client, {(topic, 0): 0}, stops, committed=True)
        assert read(reader)[topic, 0] == expected


@pytest.mark.parametrize("committed", [False, True])
def test_a_new_leader_that_knows_little_as_committed_is_asked_again(
    cluster: Cluster, client: Client, committed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its answers have no records before its followers have fetched."""
    topic = cluster.create_topic(partitions=1, retention_ms=-1)
    write(client, topic, 0, range(10))
    left = 3

    def take(self: BatchReader, asked: _Asked, answer: FetchResponse) -> list[Fetched]:
        nonlocal left
        if left:
            left -= 1
            row = answer.responses[0].partitions[0]
            row.records, row.high_watermark, row.last_stable_offset = b"", 0, 0
        return original(self, asked, answer)

    original = BatchReader._take
    monkeypatch.setattr(BatchReader, "_take", take)
    found = read(BatchReader(client, {(topic, 0): 0}, {(topic, 0): 10}, committed=committed))
    assert found == {(topic, 0): list(range(10))}
    assert left == 0


def test_records_that_a_leader_has_lost_end_the_patience(cluster: Cluster, client: Client) -> None:
    topic = cluster.create_topic(partitions=1, retention_ms=-1)
    write(client, topic, 0, range(10))
    with Client(addresses_of(cluster.bootstrap_servers), "test", 0.3) as impatient:
        for begin_ in (0, 15):
            reader = BatchReader(impatient, {(topic, 0): begin_}, {(topic, 0): 20})
            with pytest.raises(Unreachable, match=topic):
                read(reader)
            reader.close()


def test_a_batch_with_a_wrong_crc_is_named() -> None:
    batch = bytearray(build_batch([(b"k", b"v", (), 1)], base_offset=7))
    batch[CRC_POSITION] ^= 1

    with pytest.raises(KafkaError, match="t-0 at offset 7"):
        list(batches_of(("t", 0), memoryview(batch), ()))


def test_record_that_cannot_be_read_is_named(cluster: Cluster, client: Client) -> None:
    topic = cluster.create_topic(partitions=1)
    write(client, topic, 0, range(2))
    producer = Producer(client)
    many = [("h", b"")] * (HEADERS_OF_RECORD.value + 1)
    producer.add((topic, 0), (None, b"v", many, 1))
    producer.flush()

    reader = Reader(client, {(topic, 0): 0})
    with pytest.raises(KafkaError, match=f"{topic}-0, in the batch at offset 2: a record with"):
        list(iter(lambda: reader.poll(1.0, 100), None))  # which never comes


def test_the_next_offset_is_behind_the_last_whole_batch() -> None:
    first = bytes(build_batch([(None, b"v", (), 1)] * 3, base_offset=4))
    second = bytes(build_batch([(None, b"v", (), 1)] * 2, base_offset=9))

    assert next_offset(memoryview(b""), 4) == 4
    assert next_offset(memoryview(first), 4) == 7
    assert next_offset(memoryview(first + second), 4) == 11
    assert next_offset(memoryview(first + second[:-1]), 4) == 7
