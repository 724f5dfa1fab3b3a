"""The blocking client on real nodes: whom it asks, when it asks again, when it gives up, and what
it says then.
"""

from collections.abc import Iterator

import pytest

from raftka.client.blocking.client import Client, Unreachable, error_codes
from raftka.client.blocking.connection import (
    ANSWER_S,
    AnotherNode,
    Connection,
    Unsupported,
    addresses_of,
)
from raftka.client.blocking.producer import NOBODY, Producer
from raftka.client.blocking.reader import FetchedRecord, Reader
from raftka.client.blocking.transaction import begin, end
from raftka.testing import Cluster
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.fetch import FetchResponse
from raftka.wire.messages.groups import LIST_GROUPS
from raftka.wire.messages.list_offsets import EARLIEST, LATEST, LIST_OFFSETS, ListOffsetsRequest
from raftka.wire.messages.offsets import OFFSET_FETCH, OffsetFetchRequest
from raftka.wire.messages.topics import CREATE_TOPICS
from raftka.wire.records import CRC_POSITION
from tests.client.future_api import NO_BROKER_KNOWS

RETRIABLE_OF_PRODUCE = [
    "NOT_LEADER_OR_FOLLOWER",
    "NOT_ENOUGH_REPLICAS",
    "KAFKA_STORAGE_ERROR",
    "REQUEST_TIMED_OUT",
    "UNKNOWN_TOPIC_OR_PARTITION",
]


@pytest.fixture(scope="module")
def three() -> Iterator[Cluster]:
    with Cluster(3) as cluster:
        yield cluster


@pytest.fixture
def cluster(three: Cluster) -> Iterator[Cluster]:
    yield three
    three.heal()


def client_of(cluster: Cluster, patience_s: float = 20.0, *, answer_s: float = ANSWER_S) -> Client:
    return Client(addresses_of(cluster.bootstrap_servers), "test", patience_s, answer_s=answer_s)


@pytest.fixture
def client(cluster: Cluster) -> Iterator[Client]:
    with client_of(cluster) as client:
        yield client


def end_request(topic: str) -> ListOffsetsRequest:
    row = LIST_OFFSETS.request
    return row(
        topics=[
            row.topics(
                name=topic, partitions=[row.topics.partitions(partition_index=0, timestamp=LATEST)]
            )
        ]
    )


def committed_request(group: str) -> OffsetFetchRequest:
    return OFFSET_FETCH.request(group_id=group, topics=None)


def write(client: Client, topic: str, values: range, partition: int = 0, **options: int) -> None:
    producer = Producer(client, **options)  # type: ignore[arg-type]
    for value in values:
        producer.add((topic, partition), (None, b"%d" % value, (), value))
    producer.flush()


def read(client: Client, topic: str, count: int, partition: int = 0) -> list[bytes | None]:
    reader, found = Reader(client, {(topic, partition): 0}), list[FetchedRecord]()
    while len(found) < count:
        found += reader.poll(1.0, 100)
    reader.close()
    assert reader.positions == {(topic, partition): found[-1].offset + 1}
    return [record.value for record in found]


# whom it asks


def test_a_request_goes_to_the_leader_that_follows_a_dead_one(
    cluster: Cluster, client: Client
) -> None:
    topic = cluster.create_topic(replication_factor=3)
    write(client, topic, range(10))
    dead = cluster.leader(topic)
    cluster.kill(dead)

    answer = client.ask_leader((topic, 0), LIST_OFFSETS, end_request(topic))
    assert answer.topics[0].partitions[0].offset == 10
    write(client, topic, range(10, 20))
    assert read(client, topic, 20) == [b"%d" % value for value in range(20)]


@pytest.mark.parametrize("error", ["NOT_LEADER_OR_FOLLOWER", "UNKNOWN_LEADER_EPOCH"])
def test_a_leader_that_says_it_is_none_is_looked_for_again(
    cluster: Cluster, client: Client, error: str
) -> None:
    topic = cluster.create_topic()
    fault = cluster.fail_next("ListOffsets", error, times=2)

    assert (
        client.ask_leader((topic, 0), LIST_OFFSETS, end_request(topic))
        .topics[0]
        .partitions[0]
        .error_code
        == 0
    )
    assert fault.hits == 2


def test_a_partition_that_nobody_led_is_asked_for_again(cluster: Cluster, client: Client) -> None:
    topic = cluster.create_topic(replication_factor=1)
    dead = cluster.leader(topic)
    cluster.kill(dead)
    cluster.wait_for(lambda: client.refresh([topic]).topics[0].partitions[0].leader_id == -1)
    assert client.leader((topic, 0)) is None

    cluster.restart(dead)

    cluster.wait_for(lambda: client.leader((topic, 0)) is not None)


def test_committed_records_are_read_without_aborted_ones(cluster: Cluster, client: Client) -> None:
    topic = cluster.create_topic(replication_factor=3)
    for value, commit in ((b"first", True), (b"aborted", False), (b"second", True)):
        identity = begin(client, "reader", 10_000)
        producer = Producer(client, identity=identity)
        producer.add((topic, 0), (None, value, (), 1))
        producer.flush()
        end(client, identity, commit=commit)
    write(client, topic, range(1))

    reader, found = Reader(client, {(topic, 0): 0}, committed=True), list[FetchedRecord]()
    while len(found) < 3:
        found += reader.poll(1.0, 100)
    reader.close()

    assert [record.value for record in found] == [b"first", b"second", b"0"]


def test_a_request_goes_to_the_coordinator_that_follows_a_dead_one(
    cluster: Cluster, client: Client
) -> None:
    before = client.ask_coordinator("g", OFFSET_FETCH, committed_request("g"), 7)
    assert before.error_code == 0
    cluster.kill(cluster.group("g").coordinator)

    assert client.ask_coordinator("g", OFFSET_FETCH, committed_request("g"), 7).error_code == 0


@pytest.mark.parametrize(
    ("api_name", "error"),
    [
        ("OffsetFetch", "NOT_COORDINATOR"),
        ("OffsetFetch", "COORDINATOR_LOAD_IN_PROGRESS"),
        ("FindCoordinator", "COORDINATOR_NOT_AVAILABLE"),
    ],
)
def test_a_coordinator_that_moves_is_looked_for_again(
    cluster: Cluster, client: Client, api_name: str, error: str
) -> None:
    fault = cluster.fail_next(api_name, error, times=2)

    assert client.ask_coordinator("g", OFFSET_FETCH, committed_request("g"), 7).error_code == 0
    assert fault.hits == 2


def test_a_request_for_the_controller_is_sent_again_when_the_controller_changes(
    cluster: Cluster, client: Client
) -> None:
    fault = cluster.fail_next("CreateTopics", "NOT_CONTROLLER", times=2)
    topics = [CREATE_TOPICS.request.topics(name="made", num_partitions=1, replication_factor=1)]
    answer = client.ask_controller(CREATE_TOPICS, CREATE_TOPICS.request(topics=topics))

    assert [(topic.name, topic.error_code) for topic in answer.topics] == [("made", 0)]
    assert fault.hits == 2
    # an error that does not pass is the answer
    refused = client.ask_controller(CREATE_TOPICS, CREATE_TOPICS.request(topics=topics))
    assert error_codes(refused) == {Code.TOPIC_ALREADY_EXISTS}


def test_one_broker_is_asked_by_its_id(cluster: Cluster, client: Client) -> None:
    assert client.ask_broker(2, LIST_GROUPS, LIST_GROUPS.request()).error_code == 0
    with pytest.raises(KafkaError, match="BROKER_NOT_AVAILABLE: there is no broker 77"):
        client.ask_broker(77, LIST_GROUPS, LIST_GROUPS.request())


def test_a_known_address_at_which_another_broker_is_makes_the_client_begin_again(
    cluster: Cluster,
) -> None:
    server = addresses_of(cluster.bootstrap_servers)[0]  # the one that it has a connection to
    with Client([server], patience_s=20.0) as client:
        client.refresh([])
        (node_id, address), other = [
            broker for broker in client.brokers.items() if broker[1] != server
        ]
        client.brokers = {other[0]: address}  # it has moved, and another has taken its place
        with pytest.raises(AnotherNode, match=f"not broker {other[0]} of cluster"):
            client.ask_at(address, LIST_GROUPS, LIST_GROUPS.request())
        assert (client.brokers, client.cluster_id) == ({}, None)

        client.refresh([])
        client.brokers = {other[0]: address}
        assert client.ask_any(LIST_GROUPS, LIST_GROUPS.request()).error_code == 0
        assert client.ask_broker(node_id, LIST_GROUPS, LIST_GROUPS.request()).error_code == 0


def test_a_bootstrap_server_that_is_away_is_passed_over(cluster: Cluster) -> None:
    with Client(
        [("127.0.0.1", 1), *addresses_of(cluster.bootstrap_servers)], patience_s=0.0
    ) as client:
        assert client.ask(LIST_GROUPS, LIST_GROUPS.request()).error_code == 0


# when it gives up


def test_when_the_time_is_up_the_last_reason_is_reported(cluster: Cluster) -> None:
    with client_of(cluster, 0.2) as client:
        cluster.lose_requests("ListGroups", times=10**6)
        with pytest.raises(
            Unreachable, match=r"ListGroups: nobody answered for 0.2 s; last: 127.0.0.1:\d+: "
        ):
            client.ask(LIST_GROUPS, LIST_GROUPS.request())


def test_when_the_time_is_up_an_answer_is_returned_with_its_errors(cluster: Cluster) -> None:
    topic = cluster.create_topic()
    with client_of(cluster, 0.2) as client:
        fault = cluster.fail_next("ListOffsets", "NOT_LEADER_OR_FOLLOWER", times=10**6)
        answer = client.ask_leader((topic, 0), LIST_OFFSETS, end_request(topic))

    assert error_codes(answer) == {Code.NOT_LEADER_OR_FOLLOWER}
    assert fault.hits > 1


def test_a_broker_that_is_silent_is_an_error_in_time(cluster: Cluster) -> None:
    (address, *_) = addresses_of(cluster.bootstrap_servers)
    with client_of(cluster, answer_s=0.1) as client:
        client.ask_at(address, LIST_GROUPS, LIST_GROUPS.request())
        cluster.pause(1)
        with pytest.raises(TimeoutError):
            client.ask_at(address, LIST_GROUPS, LIST_GROUPS.request())


def test_an_api_that_the_broker_does_not_have_is_an_error_at_once(
    cluster: Cluster, client: Client
) -> None:
    with pytest.raises(
        Unsupported, match=r"127.0.0.1:\d+ knows no version of FutureApi that we know"
    ):
        client.ask(NO_BROKER_KNOWS, NO_BROKER_KNOWS.request())


def test_a_value_that_the_version_cannot_carry_is_an_error_at_once(
    cluster: Cluster, client: Client
) -> None:
    with pytest.raises(Unsupported, match="v3 has no states_filter"):
        client.ask(LIST_GROUPS, LIST_GROUPS.request(states_filter=["Empty"]), 3)
    assert client.ask(LIST_GROUPS, LIST_GROUPS.request(states_filter=["Empty"])).error_code == 0


# connections


def test_an_idle_connection_that_died_is_made_again(cluster: Cluster, client: Client) -> None:
    (address, *_) = addresses_of(cluster.bootstrap_servers)
    client.ask_at(address, LIST_GROUPS, LIST_GROUPS.request())
    connection = client.take(address)
    connection._socket.shutdown(2)
    client.give(connection)

    assert client.ask_at(address, LIST_GROUPS, LIST_GROUPS.request()).error_code == 0


def test_several_requests_of_a_connection_are_answered_in_order(cluster: Cluster) -> None:
    topic = cluster.create_topic()
    connection = Connection(addresses_of(cluster.bootstrap_servers)[0], "test")
    replies = [
        connection.send(LIST_OFFSETS, end_request(topic if each % 2 else "nope"))
        for each in range(4)
    ]
    unknown = [
        error_codes(reply.wait()) == {Code.UNKNOWN_TOPIC_OR_PARTITION}
        for reply in reversed(replies)
    ]
    connection.close()

    assert unknown == [False, True, False, True]
    assert all(reply.is_there for reply in replies)


@pytest.mark.parametrize(
    "servers", ["bad", ":9092", "host:", "host:x", "host:0", "host:65536", "a:1,b"]
)
def test_an_invalid_address_is_refused(servers: str) -> None:
    with pytest.raises(ValueError, match="is not host:port"):
        addresses_of(servers)


def test_addresses_of_both_families() -> None:
    assert addresses_of(" a:1, [::1]:2,") == [("a", 1), ("::1", 2)]


# producers and readers


@pytest.mark.parametrize("error", RETRIABLE_OF_PRODUCE)
def test_a_batch_sent_again_is_written_once(cluster: Cluster, client: Client, error: str) -> None:
    topic = cluster.create_topic()
    fault = cluster.fail_next("Produce", error, times=1)
    write(client, topic, range(10))
    cluster.lose_answers("Produce", times=2)
    write(client, topic, range(10, 20))

    assert fault.hits == 1
    assert [record.value for record in cluster.records(topic)] == [
        b"%d" % value for value in range(20)
    ]


@pytest.mark.parametrize("acks", [0, 1])
def test_weaker_acks_write_too(cluster: Cluster, client: Client, acks: int) -> None:
    topic, told = cluster.create_topic(), list[tuple[tuple[str, int], int, int]]()
    producer = Producer(
        client, acks=acks, identity=NOBODY, on_written=lambda *written: told.append(written)
    )
    for at in range(5):
        producer.add((topic, 0), (b"k", b"%d" % at, (), at))
    producer.flush()

    assert told == [((topic, 0), 0 if acks else -1, 5)]
    assert read(client, topic, 5) == [b"%d" % at for at in range(5)]


def test_a_record_that_is_too_large_is_reported(cluster: Cluster, client: Client) -> None:
    topic = cluster.create_topic(max_message_bytes=1000)
    producer = Producer(client)
    producer.add((topic, 0), (None, b"x" * 9000, (), 0))
    with pytest.raises(
        KafkaError,
        match=r"MESSAGE_TOO_LARGE: .*the largest of 9000: raise the topic's max.message.bytes",
    ):
        producer.flush()


def test_a_reader_follows_leaders_and_partitions(cluster: Cluster, client: Client) -> None:
    topic = cluster.create_topic(partitions=3, replication_factor=3)
    for partition in range(3):
        write(client, topic, range(100), partition)
    reader = Reader(client, {(topic, partition): 40 for partition in range(3)})
    found = list[FetchedRecord]()
    found += reader.poll(5.0, 7)
    assert len(found) == 7
    cluster.kill(cluster.leader(topic, 1))
    while len(found) < 180:
        found += reader.poll(1.0, 1000)
    reader.close()

    for partition in range(3):
        own = [(record.offset, record.value) for record in found if record.partition == partition]
        assert own == [(offset, b"%d" % offset) for offset in range(40, 100)]


@pytest.mark.parametrize(("reset", "expected"), [(EARLIEST, b"0"), (LATEST, b"later")])
def test_a_position_that_is_not_there_is_reset(
    cluster: Cluster, client: Client, reset: int, expected: bytes
) -> None:
    topic = cluster.create_topic()
    write(client, topic, range(3))
    reader = Reader(client, {(topic, 0): 99}, reset=reset)
    while reader.positions[topic, 0] == 99:
        assert reader.poll(1.0, 0) == []
    producer = Producer(client)
    producer.add((topic, 0), (None, b"later", (), 0))
    producer.flush()
    found: list[FetchedRecord] = []
    while not found:
        found = reader.poll(1.0, 1)
    reader.close()

    assert found[0].value == expected


@pytest.mark.parametrize(
    "error", ["NOT_LEADER_OR_FOLLOWER", "UNKNOWN_TOPIC_OR_PARTITION", "KAFKA_STORAGE_ERROR"]
)
def test_a_reader_goes_on_after_an_error_that_passes(
    cluster: Cluster, client: Client, error: str
) -> None:
    topic = cluster.create_topic()
    write(client, topic, range(5))
    fault = cluster.fail_next("Fetch", error, times=2)
    cluster.lose_answers("Fetch", times=1)

    assert read(client, topic, 5) == [b"%d" % value for value in range(5)]
    assert fault.hits == 2


def test_a_reader_tells_an_error_that_does_not_pass(cluster: Cluster, client: Client) -> None:
    topic = cluster.create_topic()
    cluster.fail_next("Fetch", "TOPIC_AUTHORIZATION_FAILED")
    reader = Reader(client, {(topic, 0): 0})
    with pytest.raises(KafkaError, match=f"TOPIC_AUTHORIZATION_FAILED: {topic}-0"):
        reader.poll(5.0, 1)
    reader.close()


def test_a_batch_whose_checksum_is_wrong_is_not_read(
    cluster: Cluster, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = cluster.create_topic()
    write(client, topic, range(5))
    reader, take = Reader(client, {(topic, 0): 0}), Reader._take

    def damaged(self: Reader, asked: object, answer: FetchResponse) -> None:
        (partition,) = answer.responses[0].partitions
        assert partition.records is not None
        records = bytearray(partition.records)
        records[CRC_POSITION] ^= 1
        partition.records = memoryview(records)
        take(self, asked, answer)  # type: ignore[arg-type]

    monkeypatch.setattr(Reader, "_take", damaged)
    with pytest.raises(KafkaError, match=f"CORRUPT_MESSAGE: {topic}-0 at offset 0"):
        reader.poll(5.0, 1)
