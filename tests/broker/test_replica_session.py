"""Followers fetch in sessions: both sides agree on what is asked for, idle partitions cost nothing,
and silence is neither absence nor presence.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftka.broker.fetch import reading
from raftka.broker.fetch.fetch import Fetch
from raftka.broker.fetch.follower_plan import FollowPlan
from raftka.broker.fetch.sessions import FetchSession, FetchSessionCache, Reader
from raftka.broker.replica.alter_partition_manager import AlterPartitionManager
from raftka.broker.replica.fetch_session_handler import FetchSessionHandler, Key, Place
from raftka.broker.replica.partition import Partition
from raftka.broker.telemetry.metrics import Metrics
from raftka.broker.work.long_work import drained
from raftka.replication.follower import Position
from raftka.replication.partition import AlterIsr
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.api_versions import API_VERSIONS
from raftka.wire.messages.fetch import FETCH
from raftka.wire.messages.produce import PRODUCE
from tests.broker.requests import batch, produce, produced
from tests.broker.stage import Stage

FOLLOWER = Reader(2, 5)
LAG: dict[str, Any] = {"replica_lag_time_max_ms": "1000", "broker_session_timeout_ms": "60000"}
TOPICS = [bytes([i]) * 16 for i in range(3)]


# both sides


class Pair:
    """A follower's side and the leader's, with what the follower means to fetch."""

    def __init__(self) -> None:
        self.mine = FetchSessionHandler()
        self.theirs = FetchSessionCache(1, Random(1), Metrics())
        self.wanted: dict[Key, Place] = {}
        self.gone: dict[Key, None] = {}

    def exchange(self, changes: dict[Key, Place | None], *, answered: bool) -> FetchSession:
        for key, place in changes.items():
            if place is None:
                if self.wanted.pop(key, None) is not None:
                    self.gone[key] = None
            else:
                self.wanted[key] = place
        new = {key: place for key, place in changes.items() if place is not None}
        whole = self.mine.whole
        row = self.mine.request(self.wanted if whole else new, self.gone, 100)
        self.gone = {}
        try:
            session, goes_on = drained(self.theirs.for_request(row, FOLLOWER, 0.0, by_id=True))
        except KafkaError as error:
            code = int(error.code)
        else:
            code = 0
        if code:
            assert not self.mine.answered(FETCH.response(error_code=code))
            return self.exchange({}, answered=answered)
        if not goes_on and row.session_epoch == 0:
            self.theirs.admit(session, 0.0)
        if answered:
            assert self.mine.answered(FETCH.response(session_id=session.id))
        else:
            self.mine.lost()
        return session


positions = st.builds(
    Place,
    st.builds(Position, st.integers(0, 2), st.integers(-1, 1), st.integers(0, 1)),
    st.integers(0, 1),
)
keys = st.tuples(st.sampled_from(TOPICS), st.integers(0, 2))


@given(
    st.lists(
        st.tuples(
            st.dictionaries(keys, st.none() | positions),
            st.sampled_from(["answered", "lost", "evicted"]),
        ),
        max_size=12,
    )
)
def test_the_leader_knows_what_the_follower_wants(
    rounds: list[tuple[dict[Key, Place | None], str]],
) -> None:
    pair = Pair()
    for changes, fate in rounds:
        session = pair.exchange(changes, answered=fate != "lost")
        known = {
            key: (
                each.fetch_request.fetch_offset,
                each.fetch_request.last_fetched_epoch,
                each.fetch_request.log_start_offset,
            )
            for key, each in session.partitions.items()
        }
        assert known == {
            key: (place.position.fetch_offset, place.position.last_fetched_epoch, place.log_start)
            for key, place in pair.wanted.items()
        }
        if fate == "evicted" and session.id in pair.theirs.by_id:
            pair.theirs.close(session)


def test_a_request_tells_what_is_new() -> None:
    pair, place = Pair(), Place(Position(5, 0, 0), 0)
    pair.exchange({(TOPICS[0], i): place for i in range(1000)}, answered=True)

    row = pair.mine.request(
        {(TOPICS[0], 7): place, (TOPICS[0], 8): Place(Position(6, 0, 0), 0)},
        {(TOPICS[0], 9): None},
        100,
    )

    assert [[asked.partition for asked in topic.partitions] for topic in row.topics] == [[8]]
    assert [gone.partitions for gone in row.forgotten_topics_data] == [(9,)]


def test_without_a_session_every_request_is_whole() -> None:
    mine, place = FetchSessionHandler(), Place(Position(5, 0, 0), 0)
    for _ in range(2):
        row = mine.request({(TOPICS[0], 7): place}, {}, 100)
        assert (row.session_id, row.session_epoch, len(row.topics)) == (0, 0, 1)
        assert mine.answered(FETCH.response(session_id=0))


@pytest.mark.parametrize("code", [Code.INVALID_FETCH_SESSION_EPOCH, Code.UNKNOWN_SERVER_ERROR])
def test_after_an_error_the_old_session_is_ended(code: Code) -> None:
    mine = FetchSessionHandler()
    mine.answered(FETCH.response(session_id=77))
    assert not mine.answered(FETCH.response(error_code=int(code)))

    assert (mine.id, mine.epoch, mine.whole) == (77, 0, True)


# in a cluster


def quiet(stage: Stage) -> None:
    """Everybody is in sync and everybody knows it."""
    partitions = sum(len(topic.partitions) for topic in stage.nodes[1].image.topics.values())
    stage.wait(
        lambda: all(len(node.replicas.partitions) == partitions for node in stage.nodes.values())
    )
    stage.wait(
        lambda: all(
            len(partition.image.isr) == 3
            for node in stage.nodes.values()
            for partition in node.replicas.partitions.values()
        )
    )
    stage.world.run(stage.world.now + 2.0)


def test_idle_partitions_are_neither_asked_for_nor_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Stage(3) as stage:
        stage.create("t", 90)
        quiet(stage)
        read: list[str] = []
        read_for_follower = reading.read_for_follower

        def reads(replicas: Any, partition: Partition, *given: Any) -> Any:
            read.append(partition.name)
            return read_for_follower(replicas, partition, *given)

        monkeypatch.setattr(reading, "read_for_follower", reads)

        with counted(monkeypatch) as sizes:
            stage.world.run(stage.world.now + 5.0)
        assert read == []
        assert len(sizes) in IDLE
        assert max(sizes) < 150
        stage.wire(stage.leader("t", 5)).ask(PRODUCE, produce("t", batch(b"1"), 5))
        stage.world.run(stage.world.now + 2.0)
        assert set(read) == {"t-5"}
        assert len(read) <= 8


def bystander(stage: Stage, leader: int) -> int:
    """A follower that is not the controller."""
    controller = next(
        i
        for i, node in stage.nodes.items()
        if node.quorum.host is not None and node.quorum.host.active
    )
    return next(i for i in stage.nodes if i not in (leader, controller))


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The sizes of all Fetch requests, whichever way they go."""
    sizes: list[int] = []
    begin, run = Fetch.__init__, FollowPlan.run

    def begins(self: Fetch, request: Any, *parts: Any) -> None:
        if request.frame:
            sizes.append(len(request.frame))
        begin(self, request, *parts)

    def runs(self: FollowPlan, connection: Any, frame: memoryview, correlation_id: int) -> bool:
        size, taken = len(frame), run(self, connection, frame, correlation_id)
        if taken:
            sizes.append(size)
        return taken

    with monkeypatch.context() as patched:
        patched.setattr(Fetch, "__init__", begins)
        patched.setattr(FollowPlan, "run", runs)
        yield sizes


IDLE = range(40, 73)  # in five seconds: each of three asks two others twice a second


def test_a_partition_that_is_gone_is_forgotten_by_both_sides(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Stage(3) as stage:
        stage.create("t", 3)
        stage.create("u", 30)
        quiet(stage)
        stage.delete("u")
        stage.wait(
            lambda: all(node.image.topic_named("u") is None for node in stage.nodes.values())
        )
        stage.world.run(stage.world.now + 2.0)

        with counted(monkeypatch) as sizes:
            stage.world.run(stage.world.now + 5.0)
        assert len(sizes) in IDLE
        assert (
            sum(
                len(s.partitions)
                for node in stage.nodes.values()
                for s in node.fetch_sessions.by_id.values()
            )
            == 6
        )


def test_a_partition_in_error_rests_and_the_others_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    with Stage(3) as stage:
        stage.create("t", 6)
        quiet(stage)
        stage.partition("t").leader = None
        stage.partition("t").wake_all()

        with counted(monkeypatch) as sizes:
            stage.world.run(stage.world.now + 5.0)
        assert len(sizes) < 100
        assert (
            produced(
                stage.wire(stage.leader("t", 5)).ask(PRODUCE, produce("t", batch(b"1"), 5))
            ).error_code
            == 0
        )


def test_a_follower_that_was_refused_once_asks_to_be_let_in_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Stage(3, **LAG) as stage:
        stage.create("t")
        quiet(stage)
        leader = stage.leader("t")
        away = bystander(stage, leader)
        stage.world.pause(f"n{away}")
        stage.wire(leader).ask(PRODUCE, produce("t", batch(b"1"), timeout_ms=10_000))
        stage.wait(lambda: away not in stage.partition("t", node_id=leader).image.isr)
        asked: list[Any] = []
        ask = AlterPartitionManager.ask

        def refuse_once(
            self: AlterPartitionManager, partition: Partition, effect: AlterIsr
        ) -> None:
            asked.append(effect)
            if len(asked) > 1:
                ask(self, partition, effect)
            else:
                self._answered(partition, effect, Code.INELIGIBLE_REPLICA)

        monkeypatch.setattr(AlterPartitionManager, "ask", refuse_once)
        stage.world.resume(f"n{away}")

        stage.wait(lambda: away in stage.partition("t", node_id=leader).image.isr)
        assert len(asked) == 2


def test_a_follower_of_an_idle_partition_has_its_full_time_when_a_record_comes() -> None:
    with Stage(3, **LAG) as stage:
        stage.create("t")
        quiet(stage)
        stage.world.run(stage.world.now + 30.0)
        leader = stage.leader("t")
        away = bystander(stage, leader)
        stage.world.pause(f"n{away}")
        stage.wire(leader).ask(PRODUCE, produce("t", batch(b"1"), acks=1))

        stage.world.run(stage.world.now + 0.4)
        assert len(stage.partition("t", node_id=leader).image.isr) == 3
        stage.world.resume(f"n{away}")
        stage.wait(lambda: stage.partition("t", node_id=leader).high_watermark == 1)
        assert len(stage.partition("t", node_id=leader).image.isr) == 3


def test_a_follower_that_went_away_while_nothing_happened_has_had_its_time() -> None:
    with Stage(3, **LAG) as stage:
        stage.create("t")
        quiet(stage)
        leader = stage.leader("t")
        away = bystander(stage, leader)
        stage.world.network.cut(f"n{leader}", f"n{away}", one_way=False)
        stage.world.run(stage.world.now + 5.0)
        assert len(stage.partition("t", node_id=leader).image.isr) == 3
        begin = stage.world.now

        answer = produced(
            stage.wire(leader).ask(PRODUCE, produce("t", batch(b"1"), timeout_ms=10_000))
        )

        assert answer.error_code == 0
        assert stage.world.now < begin + 0.5
        stage.wait(lambda: away not in stage.partition("t", node_id=leader).image.isr)


def test_a_leader_notices_that_nobody_follows_any_more() -> None:
    """Nothing is asked by anybody, so nothing but the append can begin the wait."""
    with Stage(3, **LAG) as stage:
        stage.create("t", 6, replication_factor=2, configs={"min_insync_replicas": "1"})
        stage.world.run(stage.world.now + 2.0)
        controller = next(
            i
            for i, node in stage.nodes.items()
            if node.quorum.host is not None and node.quorum.host.active
        )
        partition = next(
            p
            for p in range(6)
            if set(stage.partition("t", p).image.replicas) - {stage.leader("t", p)} != {controller}
        )
        leader = stage.leader("t", partition)
        (away,) = set(stage.partition("t", partition).image.replicas) - {leader}
        stage.world.network.cut(f"n{leader}", f"n{away}", one_way=False)
        stage.world.run(stage.world.now + 5.0)

        answer = produced(
            stage.wire(leader).ask(PRODUCE, produce("t", batch(b"1"), partition, timeout_ms=5000))
        )

        assert answer.error_code == 0
        assert stage.partition("t", partition, leader).image.isr == (leader,)


def test_a_follower_that_is_not_in_sync_is_let_in_without_a_record() -> None:
    with Stage(3, **LAG) as stage:
        stage.create("t")
        quiet(stage)
        leader = stage.leader("t")
        away = bystander(stage, leader)
        stage.world.network.cut(f"n{leader}", f"n{away}", one_way=False)
        stage.wire(leader).ask(PRODUCE, produce("t", batch(b"1"), timeout_ms=10_000))
        stage.wait(lambda: away not in stage.partition("t", node_id=leader).image.isr)
        stage.world.network.heal()

        stage.wait(lambda: away in stage.partition("t", node_id=leader).image.isr)
        quiet(stage)
        assert stage.partition("t", node_id=away).high_watermark == 1


def test_a_session_that_the_leader_forgot_begins_anew() -> None:
    with Stage(3) as stage:
        stage.create("t", 30)
        quiet(stage)
        for node in stage.nodes.values():
            for session in tuple(node.fetch_sessions.by_id.values()):
                node.fetch_sessions.close(session)

        answers = [
            produced(
                stage.wire(stage.leader("t", p)).ask(PRODUCE, produce("t", batch(b"1"), p))
            ).error_code
            for p in range(30)
        ]

        assert answers == [0] * 30
        assert all(len(node.fetch_sessions.by_id) == 2 for node in stage.nodes.values())


def test_followers_do_without_sessions_where_none_are_given() -> None:
    with Stage(3, max_incremental_fetch_session_cache_slots="0") as stage:
        stage.create("t", 6)
        answers = [
            produced(
                stage.wire(stage.leader("t", p)).ask(PRODUCE, produce("t", batch(b"1"), p))
            ).error_code
            for p in range(6)
        ]

        assert answers == [0] * 6
        stage.wire().ask(
            API_VERSIONS,
            API_VERSIONS.request(client_software_name="test", client_software_version="1"),
        )


def test_frames_that_come_in_pieces_are_received_into_the_nodes_buffers() -> None:
    with Stage(3) as stage:
        fetchers = [
            fetcher
            for node in stage.nodes.values()
            for fetcher in node.replicas.fetchers.by_leader.values()
        ]
        stage.create("t", 6)
        quiet(stage)
        fetchers = [
            fetcher
            for node in stage.nodes.values()
            for fetcher in node.replicas.fetchers.by_leader.values()
        ]

        assert fetchers
        assert all(
            fetcher.connection is not None
            and fetcher.connection._frames._pool is fetcher.fetchers.pool
            for fetcher in fetchers
        )
