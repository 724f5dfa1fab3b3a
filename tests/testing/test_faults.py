"""Faults hit the requests, and the parts of them, that they were told to hit, and nothing else."""

import math
from collections.abc import Iterator
from random import Random

import pytest

from raftka.client.blocking.client import check
from raftka.testing import Cluster
from raftka.wire.errors import Code
from raftka.wire.messages.fetch import FETCH, FetchResponse
from raftka.wire.messages.find_coordinator import FIND_COORDINATOR
from raftka.wire.messages.groups import DESCRIBE_GROUPS, LEAVE_GROUP
from raftka.wire.messages.list_offsets import LIST_OFFSETS
from raftka.wire.messages.metadata import METADATA
from raftka.wire.messages.offsets import OFFSET_COMMIT, OFFSET_FETCH
from raftka.wire.messages.produce import PRODUCE, ProduceResponse
from raftka.wire.messages.producer_ids import INIT_PRODUCER_ID
from raftka.wire.messages.topics import CREATE_TOPICS, DELETE_TOPICS
from raftka.wire.messages.transactions import ADD_PARTITIONS_TO_TXN
from tests.testing.wire import connect, coordinator, fetch, produce

NOT_LEADER = Code.NOT_LEADER_OR_FOLLOWER
Errors = dict[tuple[str, int], Code]


@pytest.fixture(scope="module")
def shared() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


@pytest.fixture
def cluster(shared: Cluster) -> Iterator[Cluster]:
    yield shared
    shared.heal()


def produced(answer: ProduceResponse) -> Errors:
    return {
        (topic.name, part.index): Code(part.error_code)
        for topic in answer.responses
        for part in topic.partition_responses
    }


def fetched(answer: FetchResponse) -> dict[int, tuple[Code, int]]:
    """Return error and bytes of records, by partition."""
    return {
        part.partition_index: (Code(part.error_code), len(part.records or b""))
        for topic in answer.responses
        for part in topic.partitions
    }


def counts(cluster: Cluster, topic: str) -> list[int]:
    """Return the records of each partition."""
    partitions = [record.partition for record in cluster.records(topic)]
    return [partitions.count(index) for index in range(2)]


# a part of a request


def test_an_error_of_one_partition_is_in_its_part_and_the_others_are_written(
    cluster: Cluster,
) -> None:
    topic, other = cluster.create_topic(partitions=2), cluster.create_topic()
    fault = cluster.fail_next("Produce", "NOT_LEADER_OR_FOLLOWER", topic=topic, partition=1)
    with connect(cluster) as wire:
        answer = wire.ask(PRODUCE, 9, produce({topic: [0, 1], other: [0]}))
        again = wire.ask(PRODUCE, 9, produce({topic: [0, 1], other: [0]}))

    assert produced(answer) == {
        (topic, 0): Code.NONE,
        (topic, 1): NOT_LEADER,
        (other, 0): Code.NONE,
    }
    assert set(produced(again).values()) == {Code.NONE}
    assert counts(cluster, topic) == [2, 1]
    assert len(cluster.records(other)) == 2
    assert (fault.hits, fault.seen, fault.over) == (1, 1, True)


def test_a_failed_partition_has_no_offset_as_in_kafkas_answer(cluster: Cluster) -> None:
    topic = cluster.create_topic(partitions=2)
    with (
        cluster.fail_next("Produce", "KAFKA_STORAGE_ERROR", topic=topic, partition=0),
        connect(cluster) as wire,
    ):
        answer = wire.ask(PRODUCE, 9, produce({topic: [0, 1]}))

    rows = {row.index: row for row in answer.responses[0].partition_responses}
    assert (rows[0].base_offset, rows[1].base_offset) == (-1, 0)


def test_a_topic_that_a_request_names_by_its_id_is_hit_too(cluster: Cluster) -> None:
    topic = cluster.create_topic(partitions=2)
    with connect(cluster) as wire:
        found = wire.ask(
            METADATA, 12, METADATA.request(topics=[METADATA.request.topics(name=topic)])
        )
        topic_id = bytes(found.topics[0].topic_id)
        cluster.fail_next("Produce", "NOT_LEADER_OR_FOLLOWER", topic=topic, partition=1)
        answer = wire.ask(PRODUCE, 13, produce({topic: [0, 1]}, topic_ids={topic: topic_id}))

    parts = {
        part.index: Code(part.error_code)
        for each in answer.responses
        for part in each.partition_responses
        if bytes(each.topic_id) == topic_id
    }
    assert parts == {0: Code.NONE, 1: NOT_LEADER}
    assert counts(cluster, topic) == [1, 0]


def test_a_request_of_which_nothing_is_left_does_nothing(cluster: Cluster) -> None:
    topic = cluster.create_topic(partitions=2)
    cluster.fail_next("Produce", "NOT_LEADER_OR_FOLLOWER", topic=topic, partition=0)
    cluster.fail_next("Produce", "KAFKA_STORAGE_ERROR", topic=topic, partition=1)
    with connect(cluster) as wire:
        answer = wire.ask(PRODUCE, 9, produce({topic: [0, 1]}))

    assert produced(answer) == {(topic, 0): NOT_LEADER, (topic, 1): Code.KAFKA_STORAGE_ERROR}
    assert counts(cluster, topic) == [0, 0]


def test_an_error_without_an_answer_ends_the_connection(cluster: Cluster) -> None:
    topic = cluster.create_topic(partitions=2)
    cluster.fail_next("Produce", "NOT_LEADER_OR_FOLLOWER", topic=topic, partition=0)
    with connect(cluster) as wire:
        wire.send(PRODUCE, 9, produce({topic: [0, 1]}, acks=0))
        assert wire.read_raw(1) == b""


def test_a_failed_partition_of_a_fetch_is_answered_at_once_beside_the_records_of_others(
    cluster: Cluster,
) -> None:
    topic = cluster.create_topic(partitions=2)
    with connect(cluster) as wire:
        wire.ask(PRODUCE, 9, produce({topic: [0, 1]}))
        fault = cluster.fail_next(
            "Fetch", "NOT_LEADER_OR_FOLLOWER", topic=topic, partition=1, times=2
        )
        answers = [fetched(wire.ask(FETCH, 11, fetch(topic, [0, 1]))) for _ in range(3)]

    assert [{index: code for index, (code, _) in each.items()} for each in answers] == [
        {0: Code.NONE, 1: NOT_LEADER},
        {0: Code.NONE, 1: NOT_LEADER},
        {0: Code.NONE, 1: Code.NONE},
    ]
    assert answers[0][1][1] == 0 < answers[0][0][1] == answers[2][1][1]
    assert fault.hits == 2


def test_a_partition_of_a_fetch_session_is_hit_although_the_request_does_not_repeat_it(
    cluster: Cluster,
) -> None:
    """Nothing has changed in either partition: without the fault the fetch would wait."""
    topic = cluster.create_topic(partitions=2)
    with connect(cluster) as wire:
        first = wire.ask(FETCH, 11, fetch(topic, [0, 1], session=(0, 0)))
        cluster.fail_next("Fetch", "NOT_LEADER_OR_FOLLOWER", topic=topic, partition=1)
        second = wire.ask(
            FETCH, 11, fetch(topic, [], session=(first.session_id, 1), wait_ms=60_000)
        )

    assert first.session_id != 0
    assert fetched(second) == {1: (NOT_LEADER, 0)}


def test_a_fetch_of_other_partitions_is_not_hit(cluster: Cluster) -> None:
    topic = cluster.create_topic(partitions=2)
    fault = cluster.fail_next("Fetch", "NOT_LEADER_OR_FOLLOWER", topic=topic, partition=1)
    with connect(cluster) as wire:
        assert fetched(wire.ask(FETCH, 11, fetch(topic, [0]))) == {0: (Code.NONE, 0)}

    assert (fault.hits, fault.seen) == (0, 0)


def test_metadata_have_errors_of_topics_and_of_partitions(cluster: Cluster) -> None:
    one, two = cluster.create_topic(partitions=2), cluster.create_topic()
    cluster.fail_next("Metadata", "UNKNOWN_TOPIC_OR_PARTITION", topic=two)
    cluster.fail_next("Metadata", "LEADER_NOT_AVAILABLE", topic=one, partition=1)
    rows = METADATA.request.topics
    with connect(cluster) as wire:
        named = wire.ask(METADATA, 9, METADATA.request(topics=[rows(name=one), rows(name=two)]))
        cluster.fail_next("Metadata", "UNKNOWN_TOPIC_OR_PARTITION", topic=two)
        everything = wire.ask(METADATA, 9, METADATA.request(topics=None))

    found = {topic.name: topic for topic in named.topics}
    assert (found[one].error_code, found[two].error_code) == (0, Code.UNKNOWN_TOPIC_OR_PARTITION)
    assert [(part.error_code, part.leader_id) for part in found[one].partitions] == [
        (0, 1),
        (Code.LEADER_NOT_AVAILABLE, -1),
    ]
    errors = {topic.name: topic.error_code for topic in everything.topics}
    assert (errors[one], errors[two]) == (0, Code.UNKNOWN_TOPIC_OR_PARTITION)


def test_list_offsets_of_one_partition(cluster: Cluster) -> None:
    topic = cluster.create_topic(partitions=2)
    cluster.fail_next("ListOffsets", "NOT_LEADER_OR_FOLLOWER", topic=topic, partition=0)
    rows = LIST_OFFSETS.request.topics
    parts = [rows.partitions(partition_index=index, timestamp=-1) for index in range(2)]
    with connect(cluster) as wire:
        answer = wire.ask(
            LIST_OFFSETS,
            5,
            LIST_OFFSETS.request(replica_id=-1, topics=[rows(name=topic, partitions=parts)]),
        )

    assert {
        part.partition_index: (part.error_code, part.offset) for part in answer.topics[0].partitions
    } == {0: (NOT_LEADER, -1), 1: (0, 0)}


def test_offsets_of_one_group_and_one_partition(cluster: Cluster) -> None:
    topic = cluster.create_topic(partitions=2)
    coordinator(cluster, "mine")
    rows = OFFSET_COMMIT.request.topics
    parts = [rows.partitions(partition_index=index, committed_offset=7) for index in range(2)]

    def commit(group: str) -> dict[int, Code]:
        with connect(cluster) as wire:
            answer = wire.ask(
                OFFSET_COMMIT,
                8,
                OFFSET_COMMIT.request(group_id=group, topics=[rows(name=topic, partitions=parts)]),
            )
        return {part.partition_index: Code(part.error_code) for part in answer.topics[0].partitions}

    fault = cluster.fail_next(
        "OffsetCommit", "COORDINATOR_LOAD_IN_PROGRESS", group="mine", topic=topic, partition=1
    )
    assert commit("other") == {0: Code.NONE, 1: Code.NONE}
    assert commit("mine") == {0: Code.NONE, 1: Code.COORDINATOR_LOAD_IN_PROGRESS}
    assert fault.hits == 1
    assert cluster.group("mine").offsets == {(topic, 0): 7}
    assert cluster.group("other").offsets == {(topic, 0): 7, (topic, 1): 7}


def test_an_error_of_one_group_of_many(cluster: Cluster) -> None:
    coordinator(cluster, "one")
    cluster.fail_next("OffsetFetch", "NOT_COORDINATOR", group="two")
    cluster.fail_next("FindCoordinator", "COORDINATOR_NOT_AVAILABLE", group="two")
    cluster.fail_next("DescribeGroups", "NOT_COORDINATOR", group="one")
    rows = OFFSET_FETCH.request.groups
    asked = [rows(group_id=each, topics=None) for each in ("one", "two")]
    with connect(cluster) as wire:
        offsets = wire.ask(OFFSET_FETCH, 8, OFFSET_FETCH.request(groups=asked))
        found = wire.ask(
            FIND_COORDINATOR, 4, FIND_COORDINATOR.request(coordinator_keys=["one", "two"])
        )
        described = wire.ask(DESCRIBE_GROUPS, 5, DESCRIBE_GROUPS.request(groups=["one", "two"]))

    assert {each.group_id: each.error_code for each in offsets.groups} == {
        "one": 0,
        "two": Code.NOT_COORDINATOR,
    }
    assert {each.key: (each.error_code, each.node_id) for each in found.coordinators} == {
        "one": (0, 1),
        "two": (Code.COORDINATOR_NOT_AVAILABLE, -1),
    }
    assert {each.group_id: each.error_code for each in described.groups} == {
        "one": Code.NOT_COORDINATOR,
        "two": 0,
    }


def test_an_api_without_errors_of_parts_gets_one_for_the_whole(cluster: Cluster) -> None:
    coordinator(cluster, "g")
    cluster.fail_next("LeaveGroup", "NOT_COORDINATOR", group="g")
    leave = LEAVE_GROUP.request
    with connect(cluster) as wire:
        other = wire.ask(LEAVE_GROUP, 1, leave(group_id="other", member_id="m"))
        answer = wire.ask(LEAVE_GROUP, 1, leave(group_id="g", member_id="m"))

    assert (Code(other.error_code), Code(answer.error_code)) == (
        Code.UNKNOWN_MEMBER_ID,
        Code.NOT_COORDINATOR,
    )


def test_one_topic_of_several_is_not_created_and_not_deleted(cluster: Cluster) -> None:
    rows = CREATE_TOPICS.request.topics
    new = [rows(name=name, num_partitions=1, replication_factor=1) for name in ("kept", "failed")]
    cluster.fail_next("CreateTopics", "INVALID_REQUEST", topic="failed")
    cluster.fail_next("DeleteTopics", "REQUEST_TIMED_OUT", topic="kept")
    cluster.create_topic("gone")
    with connect(cluster) as wire:
        created = wire.ask(CREATE_TOPICS, 5, CREATE_TOPICS.request(topics=new, timeout_ms=5000))
        deleted = wire.ask(
            DELETE_TOPICS, 4, DELETE_TOPICS.request(topic_names=["kept", "gone"], timeout_ms=5000)
        )
        left = wire.ask(METADATA, 9, METADATA.request(topics=None))

    assert {each.name: each.error_code for each in created.topics} == {
        "kept": 0,
        "failed": Code.INVALID_REQUEST,
    }
    assert {each.name: each.error_code for each in deleted.responses} == {
        "kept": Code.REQUEST_TIMED_OUT,
        "gone": 0,
    }
    assert {each.name for each in left.topics} & {"kept", "failed", "gone"} == {"kept"}


def test_a_transaction_is_chosen_by_its_id(cluster: Cluster) -> None:
    topic = cluster.create_topic(partitions=2)
    cluster.fail_next(
        "AddPartitionsToTxn",
        "CONCURRENT_TRANSACTIONS",
        transactional_id="mine",
        topic=topic,
        partition=1,
    )
    rows = ADD_PARTITIONS_TO_TXN.request.v3_and_below_topics

    def add(name: str) -> dict[int, Code]:
        def began() -> tuple[int, int]:
            wire.ask(FIND_COORDINATOR, 3, FIND_COORDINATOR.request(key=name, key_type=1))
            made = wire.ask(
                INIT_PRODUCER_ID,
                1,
                INIT_PRODUCER_ID.request(transactional_id=name, transaction_timeout_ms=60_000),
            )
            check(made.error_code)  # raises while there is no coordinator
            return made.producer_id, made.producer_epoch

        with connect(cluster) as wire:
            producer_id, epoch = cluster.wait_for(began)
            answer = wire.ask(
                ADD_PARTITIONS_TO_TXN,
                3,
                ADD_PARTITIONS_TO_TXN.request(
                    v3_and_below_transactional_id=name,
                    v3_and_below_producer_id=producer_id,
                    v3_and_below_producer_epoch=epoch,
                    v3_and_below_topics=[rows(name=topic, partitions=(0, 1))],
                ),
            )
        return {
            part.partition_index: Code(part.partition_error_code)
            for each in answer.results_by_topic_v3_and_below
            for part in each.results_by_partition
        }

    assert add("other") == {0: Code.NONE, 1: Code.NONE}
    assert add("mine") == {0: Code.NONE, 1: Code.CONCURRENT_TRANSACTIONS}


# which requests


def ask_many(cluster: Cluster, topic: str, count: int, client_id: str = "t") -> list[Code]:
    """Send equal requests one after the other on one connection."""
    with connect(cluster, client_id=client_id) as wire:
        answers = [wire.ask(PRODUCE, 9, produce({topic: [0]}, acks=1)) for _ in range(count)]
    return [produced(answer)[topic, 0] for answer in answers]


def test_the_nth_request_and_so_many_after_it(cluster: Cluster) -> None:
    topic = cluster.create_topic()
    fault = cluster.fail_next("Produce", "NOT_LEADER_OR_FOLLOWER", topic=topic, nth=3, times=2)

    assert ask_many(cluster, topic, 6) == [
        Code.NONE,
        Code.NONE,
        NOT_LEADER,
        NOT_LEADER,
        Code.NONE,
        Code.NONE,
    ]
    assert (fault.seen, fault.hits, fault.left) == (4, 2, 0)
    assert len(cluster.records(topic)) == 4


def test_of_several_errors_each_request_gets_the_next(cluster: Cluster) -> None:
    topic = cluster.create_topic()
    cluster.fail_next("Produce", ["NOT_LEADER_OR_FOLLOWER", "REQUEST_TIMED_OUT"])

    assert ask_many(cluster, topic, 3) == [NOT_LEADER, Code.REQUEST_TIMED_OUT, Code.NONE]


def test_a_probability_with_a_seed_hits_the_same_requests_each_time(cluster: Cluster) -> None:
    topic = cluster.create_topic()
    random = Random(7)
    expected = [NOT_LEADER if random.random() < 0.3 else Code.NONE for _ in range(40)]
    for _ in range(2):
        with cluster.fail_next(
            "Produce", "NOT_LEADER_OR_FOLLOWER", times=1000, probability=0.3, seed=7
        ):
            assert ask_many(cluster, topic, 40) == expected

    assert {NOT_LEADER, Code.NONE} == set(expected)


def test_a_client_is_chosen_by_its_id_and_a_request_by_its_version(cluster: Cluster) -> None:
    topic = cluster.create_topic()
    of_client = cluster.fail_next("Produce", "NOT_LEADER_OR_FOLLOWER", client_id="billing", times=9)
    assert ask_many(cluster, topic, 2, "orders") == [Code.NONE] * 2
    assert ask_many(cluster, topic, 2, "billing") == [NOT_LEADER] * 2
    of_client.remove()

    of_version = cluster.fail_next("Metadata", "UNKNOWN_SERVER_ERROR", version=(0, 4), topic=topic)
    request = METADATA.request(topics=[METADATA.request.topics(name=topic)])
    with connect(cluster) as wire:
        assert wire.ask(METADATA, 5, request).topics[0].error_code == 0
        assert wire.ask(METADATA, 4, request).topics[0].error_code == -1
    assert of_version.hits == 1


@pytest.mark.parametrize("in_one_piece", [False, True])
@pytest.mark.parametrize("acks", [1, -1])
def test_short_ways_of_the_broker_do_not_pass_a_fault_by(
    cluster: Cluster, acks: int, in_one_piece: bool
) -> None:
    """The broker answers equal requests without decoding them; not while there is a fault."""
    topic = cluster.create_topic()
    request = produce({topic: [0]}, acks=acks)
    with connect(cluster) as wire:
        for _ in range(3):  # the broker remembers the request
            wire.send(PRODUCE, 9, *[request] * 30)
            assert [produced(wire.read(PRODUCE, 9))[topic, 0] for _ in range(30)] == [
                Code.NONE
            ] * 30
        fault = cluster.fail_next("Produce", "NOT_LEADER_OR_FOLLOWER", topic=topic, nth=20, times=5)
        if in_one_piece:
            wire.send(PRODUCE, 9, *[request] * 60)
            codes = [produced(wire.read(PRODUCE, 9))[topic, 0] for _ in range(60)]
        else:
            codes = [produced(wire.ask(PRODUCE, 9, request))[topic, 0] for _ in range(60)]

    assert codes == [Code.NONE] * 19 + [NOT_LEADER] * 5 + [Code.NONE] * 36
    assert (fault.hits, fault.seen) == (5, 24)
    assert len(cluster.records(topic)) == 90 + 55


def test_a_request_that_was_changed_leaves_no_short_way(cluster: Cluster) -> None:
    """One partition is left of the request; the next, equal one is for both."""
    topic = cluster.create_topic(partitions=2)
    request = produce({topic: [0, 1]}, acks=1)
    with connect(cluster) as wire:
        with cluster.fail_next("Produce", "NOT_LEADER_OR_FOLLOWER", topic=topic, partition=1):
            assert produced(wire.ask(PRODUCE, 9, request))[topic, 1] == NOT_LEADER
        for _ in range(5):
            assert produced(wire.ask(PRODUCE, 9, request)) == {
                (topic, 0): Code.NONE,
                (topic, 1): Code.NONE,
            }

    assert counts(cluster, topic) == [6, 5]


# what no request can match

IMPOSSIBLE = [
    ({"api": "Prodce"}, r"no API 'Prodce'; there are .*Produce"),
    ({"error": "LEADER_GONE"}, "no error 'LEADER_GONE'"),
    ({"error": "NONE"}, "NONE is no error"),
    ({"error": []}, "no error: name at least one"),
    ({"group": "g"}, "requests of Produce name no group; they name topic, partition, transaction"),
    ({"partition": 0}, "partition=0 needs a topic"),
    ({"api": "Heartbeat", "topic": "t"}, "Heartbeat name no topic; they name group"),
    ({"api": None, "topic": "t", "transactional_id": "x", "group": "g", "version": 99}, "no API"),
    ({"version": 99}, "Produce has versions 3 to 13, not 99 to 99"),
    ({"version": (5, 4)}, "not 5 to 4"),
    ({"api": "SaslAuthenticate"}, "SaslAuthenticate is a part of the login, which no fault hits"),
    ({"nth": 0}, "nth=0: a whole number, the first request is nth=1"),
    ({"nth": math.inf}, "nth=inf: a whole number, the first request is nth=1"),
    ({"probability": 0}, "probability=0: above 0, at most 1"),
    ({"probability": 1.5}, "probability=1.5"),
    ({"times": 0}, "times=0: a fault hits at least one request"),
    ({"times": math.nan}, "times=nan: a fault hits at least one request"),
    ({"nodes": [7]}, r"nodes=\[7\]: there are \[1\]"),
    ({"nodes": []}, r"nodes=\[\]: there are \[1\]"),
]


@pytest.mark.parametrize(("keywords", "text"), IMPOSSIBLE)
def test_a_fault_that_can_never_hit_is_refused(
    cluster: Cluster, keywords: dict[str, object], text: str
) -> None:
    given: dict[str, object] = {"api": "Produce", "error": "NOT_LEADER_OR_FOLLOWER", **keywords}
    with pytest.raises(ValueError, match=text):
        cluster.fail_next(**given)  # type: ignore[arg-type]


def test_a_keyword_that_there_is_not_is_refused_by_name(cluster: Cluster) -> None:
    with pytest.raises(TypeError, match="not chosen by topik; there are version, topic"):
        cluster.fail_next("Produce", "NOT_LEADER_OR_FOLLOWER", topik="t")  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="answers of DescribeQuorum have no throttle_time_ms"):
        cluster.throttle("DescribeQuorum", 100)
    with pytest.raises(ValueError, match="ms=-1: 0 to"):
        cluster.delay("Produce", -1)
