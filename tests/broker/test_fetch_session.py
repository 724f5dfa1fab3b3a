"""Fetch sessions (KIP-227) and followers that serve consumers (KIP-392): what is told when, what a
look costs, who keeps a session.
"""

from collections.abc import Iterator

import pytest

from raftka.broker.fetch import reading
from raftka.broker.fetch.sessions import (
    SAFE_S,
)
from raftka.broker.work.long_work import drained
from raftka.limits import SESSION_PARTITIONS
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.fetch import FETCH
from raftka.wire.messages.produce import PRODUCE
from tests.broker.conftest import Lower
from tests.broker.requests import batch, produce, produced
from tests.broker.stage import Stage
from tests.kit.broker.fetch_sessions import (
    CONSUMER,
    FOLLOWER,
    VERSION,
    Cache,
    Conversation,
    Growing,
    asking,
    late_records_missed,
)
from tests.kit.broker.fetching import values

LONG_MS = 20_000


@pytest.fixture
def stage() -> Iterator[Stage]:
    with Stage() as stage:
        stage.create("t", 5)
        yield stage


def append(stage: Stage, partition: int = 0, value: bytes = b"1") -> None:
    assert (
        produced(
            stage.wire(stage.leader("t", partition)).ask(
                PRODUCE, produce("t", batch(value), partition)
            )
        ).error_code
        == 0
    )


@pytest.mark.parametrize("wait_ms", [0, 50])
def test_records_that_arrive_while_a_first_fetch_is_interrupted_are_told(
    stage: Stage, wait_ms: int
) -> None:
    assert not late_records_missed(stage, wait_ms)


# what is told


def test_first_everything_then_what_changed(stage: Stage) -> None:
    reader = Conversation(stage)

    assert sorted(reader.ask(range(5))) == [0, 1, 2, 3, 4]
    assert reader.id > 0
    assert reader.ask() == {}
    append(stage, 3)
    told = reader.ask()
    assert {i: values(row) for i, row in told.items()} == {3: [b"1"]}
    assert sorted(reader.ask()) == [3], "the fetch offset has not moved"
    assert reader.ask([3], 1) == {}
    append(stage, 0)
    append(stage, 4)
    assert sorted(reader.ask()) == [0, 4]


def test_by_topic_id(stage: Stage) -> None:
    reader = Conversation(stage, 17, stage.nodes[1].image.topic_ids["t"])
    reader.ask(range(5))
    append(stage, 2)

    assert sorted(reader.ask()) == [2]
    reader.version = VERSION
    assert reader.refused() == (Code.FETCH_SESSION_TOPIC_ID_ERROR, 0)


def test_partitions_come_and_go(stage: Stage) -> None:
    reader = Conversation(stage)
    reader.ask([0, 1])

    assert sorted(reader.ask([4])) == [4], "new to the session: its high watermark is told"
    append(stage, 1)
    append(stage, 4)
    assert sorted(reader.ask(forget=[1])) == [4]
    assert stage.partition("t", 1).idle_consumers == {}
    assert reader.ask(forget=[0, 4]) == {}
    assert reader.id == 0, "a session without partitions ends"
    assert not stage.nodes[1].fetch_sessions.by_id


def test_a_reader_in_another_leader_epoch_gets_the_high_watermark_again(stage: Stage) -> None:
    """It has begun anew, and may not have heard what was said before."""
    reader = Conversation(stage)
    append(stage, 1)
    assert reader.ask([1], 1)[1].high_watermark == 1

    assert reader.ask([1], 1) == {}, "nothing has happened"
    assert reader.ask([1], 1, leader_epoch=0)[1].high_watermark == 1
    assert reader.ask([1], 1, leader_epoch=0) == {}


def test_an_error_is_reported_until_it_is_gone(stage: Stage) -> None:
    reader = Conversation(stage)

    assert {i: row.error_code for i, row in reader.ask([0, 5]).items()} == {
        0: 0,
        5: Code.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert {i: row.error_code for i, row in reader.ask(wait_ms=LONG_MS).items()} == {
        5: Code.UNKNOWN_TOPIC_OR_PARTITION
    }
    stage.delete("t")
    stage.wait(lambda: stage.nodes[1].image.topic_named("t") is None)
    assert {i: row.error_code for i, row in reader.ask().items()} == dict.fromkeys(
        [0, 5], Code.UNKNOWN_TOPIC_OR_PARTITION
    )
    stage.create("t", 6)
    assert {i: (row.error_code, row.high_watermark) for i, row in reader.ask().items()} == {
        0: (0, 0),
        5: (0, 0),
    }
    assert reader.ask() == {}
    assert stage.partition("t").idle_consumers
    reader.epoch = -1
    reader.ask([0])
    assert not stage.partition("t").idle_consumers


def test_a_log_that_begins_later_is_reported(stage: Stage) -> None:
    reader = Conversation(stage)
    append(stage)
    reader.ask([0, 1])
    reader.ask([0], 1)
    stage.partition("t").log.set_start_offset(1)
    stage.partition("t").start_moved()

    assert {
        i: (row.log_start_offset, bytes(row.records or b"")) for i, row in reader.ask().items()
    } == {0: (1, b"")}


def test_who_had_its_turn_is_read_after_the_others() -> None:
    with Stage(fetch_max_bytes="1024") as stage:
        stage.create("t", 3)
        for partition in range(3):
            append(stage, partition, b"x" * 900)
        reader = Conversation(stage)
        reader.ask(range(3))

        turns = [next(i for i, row in reader.ask().items() if row.records) for _ in range(5)]

        assert turns == [1, 2, 0, 1, 2]


# epochs and ids


def test_a_session_goes_on_after_a_wrong_epoch(stage: Stage) -> None:
    reader = Conversation(stage)
    reader.ask([0])

    assert reader.refused(session_epoch=reader.epoch + 1) == (Code.INVALID_FETCH_SESSION_EPOCH, 0)
    assert reader.refused(session_epoch=reader.epoch - 1 or 7) == (
        Code.INVALID_FETCH_SESSION_EPOCH,
        0,
    )
    assert reader.ask() == {}


def test_nobody_goes_on_with_what_is_not_there_or_not_his(stage: Stage) -> None:
    reader = Conversation(stage)
    reader.ask([0])

    assert reader.refused(session_id=reader.id ^ 1) == (Code.FETCH_SESSION_ID_NOT_FOUND, 0)
    assert reader.refused(replica_id=1) == (Code.FETCH_SESSION_ID_NOT_FOUND, 0)


def test_a_full_fetch_ends_the_session_it_names(stage: Stage) -> None:
    reader = Conversation(stage)
    reader.ask([0])
    first = reader.id
    reader.epoch = 0
    reader.ask([1])

    assert reader.id not in (0, first)
    assert list(stage.nodes[1].fetch_sessions.by_id) == [reader.id]
    reader.epoch = -1
    assert sorted(reader.ask([1])) == [1]
    assert reader.id == 0
    assert not stage.nodes[1].fetch_sessions.by_id
    assert stage.nodes[1].fetch_sessions.partitions == 0
    assert not stage.partition("t", 1).idle_consumers


def test_epochs_begin_again_at_one(stage: Stage) -> None:
    reader = Conversation(stage)
    reader.ask([0])
    stage.nodes[1].fetch_sessions.by_id[reader.id].epoch = reader.epoch = 0x7FFFFFFF
    reader.ask()

    reader.epoch = 1
    assert reader.ask() == {}


# waiting


def test_a_parked_fetch_reads_only_where_something_happened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Stage() as stage:
        stage.create("t", 1000)
        stage.wait(lambda: len(stage.nodes[1].replicas.partitions) == 1000)
        sessions = [Conversation(stage), Conversation(stage)]
        sessions[1].epoch = -1  # one fetches without a session
        for reader in sessions:
            reader.send(range(1000), wait_ms=LONG_MS, min_bytes=300)
        stage.wait(lambda: stage.nodes[1].metrics.parked_fetches == 2)
        looked: list[int] = []
        read = reading.read_for_consumer
        monkeypatch.setattr(
            reading,
            "read_for_consumer",
            lambda partition, *rest: looked.append(partition.index) or read(partition, *rest),  # type: ignore[func-returns-value]
        )

        for partition in (7, 8, 9):
            append(stage, partition, b"x" * 20)
        assert sorted(looked) == [7, 7, 8, 8, 9, 9]
        append(stage, 7, b"x" * 20)
        answers = [reader.hear() for reader in sessions]

        assert len(looked) <= 16
        assert [len(answer) for answer in answers] == [1000, 1000]
        assert [[i for i, row in answer.items() if row.records] for answer in answers] == [
            [7, 8, 9]
        ] * 2
        looked.clear()
        sessions[0].ask([7], 2)
        sessions[0].ask([8, 9], 1)
        assert sorted(looked) == [7, 8, 8, 9, 9]
        append(stage, 555)
        looked.clear()
        assert sorted(sessions[0].ask()) == [555]
        assert looked == [555]


def test_a_turn_of_many_produces_is_reported_at_once(stage: Stage) -> None:
    reader = Conversation(stage)
    reader.ask(range(5))
    reader.send(wait_ms=LONG_MS)
    stage.wait(lambda: stage.nodes[1].metrics.parked_fetches == 1)
    row, data = produce("t", None), PRODUCE.request.topic_data.partition_data
    row.topic_data[0].partition_data = [data(index=i, records=batch(b"1")) for i in range(5)]

    stage.wire().ask(PRODUCE, row)

    assert sorted(reader.hear()) == [0, 1, 2, 3, 4]


def test_a_session_outlives_its_connection_and_nothing_untold_is_forgotten(stage: Stage) -> None:
    reader = Conversation(stage)
    reader.ask(range(5))
    reader.send(wait_ms=LONG_MS, min_bytes=10_000)
    stage.wait(lambda: stage.nodes[1].metrics.parked_fetches == 1)
    append(stage, 2)
    reader.wire.close()
    stage.wait(lambda: stage.nodes[1].metrics.parked_fetches == 0)
    reader.wire = stage.wire()

    assert sorted(reader.ask()) == [2]


def test_what_was_found_long_before_the_answer_is_read_again_for_it(stage: Stage) -> None:
    """Its file may be gone."""
    append(stage)
    reader = Conversation(stage)
    reader.send(range(5), wait_ms=1000, min_bytes=10_000)
    stage.wait(lambda: stage.nodes[1].metrics.parked_fetches == 1)
    stage.partition("t").log.set_start_offset(1)

    assert reader.hear()[0].error_code == Code.OFFSET_OUT_OF_RANGE


def test_the_next_request_of_a_session_overtakes_the_one_that_waits(stage: Stage) -> None:
    reader = Conversation(stage)
    reader.ask(range(5))
    reader.send(wait_ms=LONG_MS, min_bytes=10_000)
    stage.wait(lambda: stage.nodes[1].metrics.parked_fetches == 1)
    append(stage, 2)
    reader.send()

    assert reader.wire.answer(FETCH, VERSION).error_code == Code.INVALID_FETCH_SESSION_EPOCH
    assert sorted(reader.hear()) == [2]


def test_the_end_of_a_session_leaves_its_waiting_fetch_alone(stage: Stage) -> None:
    reader, other = Conversation(stage), Conversation(stage)
    reader.ask(range(5))
    reader.send(wait_ms=LONG_MS)
    stage.wait(lambda: stage.nodes[1].metrics.parked_fetches == 1)
    other.id = reader.id
    other.ask([0])
    append(stage, 2)

    assert sorted(reader.hear()) == [2]
    assert reader.id == 0
    assert not stage.partition("t", 1).idle_consumers


# who keeps a session


def test_a_full_cache_gives_nobody_away_for_two_minutes_but_consumers_for_followers() -> None:
    cache = Cache(2)
    small, large = cache.begin(1), cache.begin(10)
    cache.now = SAFE_S

    assert cache.begin(20).id == 0
    follower = cache.begin(3, FOLLOWER)
    assert cache.has(small, large, follower) == [False, True, True]
    assert cache.begin(30, FOLLOWER).id > 0
    assert cache.has(large, follower) == [False, True]
    assert cache.begin(2, FOLLOWER).id == 0


def test_who_was_not_used_for_two_minutes_goes_first_then_the_smaller() -> None:
    cache = Cache(2)
    small, large = cache.begin(1), cache.begin(10)
    cache.now = SAFE_S + 1
    cache.sessions.advance(small, cache.now)
    newcomer = cache.begin(1)

    assert cache.has(small, large, newcomer) == [True, False, True], "the large one was silent"
    assert cache.begin(1).id == 0, "worth no more than the small one"
    assert cache.begin(2).id > 0
    assert cache.has(small, newcomer) == [False, True]
    assert (
        cache.metrics.counters[
            "kafka_server_fetchsessioncache_incrementalfetchsessionevictions_total"
        ]
        == 2
    )


def test_no_slots_no_sessions() -> None:
    with Stage(max_incremental_fetch_session_cache_slots="0") as stage:
        stage.create("t", 2)
        reader = Conversation(stage)

        for _ in range(2):
            reader.epoch = 0
            assert sorted(reader.ask([0, 1])) == [0, 1]
            assert reader.id == 0
        assert not stage.partition("t").idle_consumers


def test_sessions_have_a_bound_in_partitions(stage: Stage, lowered: Lower) -> None:
    lowered(SESSION_PARTITIONS, 4)
    first, second = Conversation(stage), Conversation(stage)
    first.ask([0, 1, 2])
    second.ask([0, 1])

    assert (first.id > 0, second.id) == (True, 0)
    assert first.refused(topics=asking([3, 4])) == (Code.FETCH_SESSION_ID_NOT_FOUND, 0)  # type: ignore[arg-type]
    assert stage.counted(SESSION_PARTITIONS.metric) == 2
    assert stage.nodes[1].fetch_sessions.partitions == 0


def test_a_session_is_not_continued_by_another_kind_of_reader() -> None:
    cache = Cache(2)
    session = cache.begin(1, FOLLOWER)
    row = FETCH.request(session_id=session.id, session_epoch=1)

    with pytest.raises(KafkaError) as refused:
        drained(cache.sessions.for_request(row, CONSUMER, 0.0, by_id=False))
    assert refused.value.code is Code.FETCH_SESSION_ID_NOT_FOUND
    assert len(session.take_dirty()) == 1
    again, goes_on = drained(
        cache.sessions.for_request(row, FOLLOWER._replace(broker_epoch=6), 0.0, by_id=False)
    )
    assert (again, goes_on, len(again.dirty)) == (session, True, 1), (
        "another process of the follower: what it has is looked at anew"
    )


# what happens between the steps of a request


def test_partitions_that_a_request_adds_are_read_whatever_happens_meanwhile() -> None:
    """Rights change, or a fetch that was parked reads: both begin the list of what is to be read
    anew.
    """
    reviewed, read = Growing(), Growing()
    reviewed.sessions.review()
    assert drained(reviewed.steps) == (reviewed.session, True)
    taken = read.session.take_dirty()
    drained(read.steps)

    assert len(reviewed.session.dirty) == 41
    assert len({*taken, *read.session.dirty}) == 40


def test_a_session_that_is_closed_during_a_request_is_not_found() -> None:
    growing = Growing()
    drained(
        growing.sessions.for_request(
            FETCH.request(session_id=growing.session.id, session_epoch=0),
            CONSUMER,
            0.0,
            by_id=False,
        )
    )

    assert growing.refused() is Code.FETCH_SESSION_ID_NOT_FOUND
    assert growing.sessions.partitions == 0


def test_of_two_requests_of_one_epoch_at_once_one_goes_on() -> None:
    growing = Growing()
    row = FETCH.request(session_id=growing.session.id, session_epoch=1)
    assert drained(growing.sessions.for_request(row, CONSUMER, 0.0, by_id=False)) == (
        growing.session,
        True,
    )

    assert growing.refused() is Code.INVALID_FETCH_SESSION_EPOCH
    assert growing.session.epoch == 2


def test_partitions_of_a_request_whose_client_has_gone_count() -> None:
    growing = Growing()
    growing.steps.close()
    assert growing.sessions.partitions == len(growing.session.partitions) > 1

    growing.sessions.close(growing.session)
    assert growing.sessions.partitions == 0
