"""The short way of a follower's Fetch: followers have the same log and the same high watermark, and
strangers gain nothing by it.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from raftka.broker.fetch import follower_plan as follow
from raftka.broker.fetch.follower_plan import FollowPlan, FollowWait
from raftka.broker.replica.fetcher import ReplicaFetcher
from raftka.wire.errors import Code
from raftka.wire.messages.fetch import FETCH, FetchResponse
from raftka.wire.messages.produce import PRODUCE
from tests.broker.denying import Deny
from tests.broker.requests import batch, fetch, produce, produced
from tests.broker.short_ways import short_ways
from tests.broker.stage import Stage, Wire
from tests.kit.broker.fetching import values

PARTITIONS = 3
WAITS: dict[str, Any] = {"last_fetched_epoch": 0, "max_wait_ms": 500}


def write(stage: Stage, partition: int, value: bytes) -> int:
    """Return the offset of a record that all replicas have."""
    answer = produced(
        stage.wire(stage.leader("t", partition)).ask(
            PRODUCE, produce("t", batch(value), partition, acks=-1)
        )
    )
    assert answer.error_code == 0
    return answer.base_offset


@pytest.mark.parametrize(
    ("leaders", "followers"), [(True, True), (True, False), (False, True), (False, False)]
)
def test_followers_have_what_the_leader_has(
    leaders: bool, followers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever of the two sides goes the long way."""
    if not followers:
        monkeypatch.setattr(ReplicaFetcher, "_send_changes", lambda self, wanted: False)
    with Stage(3) as stage, short_ways(monkeypatch, FollowPlan, open=leaders) as taken:
        stage.create("t", PARTITIONS)
        for number in range(20):
            write(stage, number % PARTITIONS, b"%d" % number)
        stage.world.run(stage.world.now + 2.0)  # so that followers hear of the last commit

        for partition in range(PARTITIONS):
            replicas = [node.replicas.partitions["t", partition] for node in stage.nodes.values()]
            assert len({replica.log.end_offset for replica in replicas}) == 1
            assert {replica.high_watermark for replica in replicas} == {replicas[0].log.end_offset}
            assert len({_bytes(replica) for replica in replicas}) == 1
        if leaders:
            assert taken.count(True) > 20
        else:
            assert True not in taken


def _bytes(replica: Any) -> bytes:
    spans, _ = replica.log.read(0, 1 << 20, replica.log.end_offset)
    return b"".join(span.file.read(span.position, span.size) for span in spans)


class Pretender:
    """A wire that says to be a broker that follows, with the epoch that this one has."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.leader = stage.leader("t")
        self.follower = next(i for i in stage.nodes if i != self.leader)
        self.wire: Wire = stage.wire(self.leader)
        self.topic_id = stage.partition("t").topic_id
        self.broker_epoch = stage.nodes[self.follower].lifecycle.broker_epoch
        self.session_id = self.epoch = 0

    def ask(self, offset: int, **fields: Any) -> FetchResponse:
        self.send(offset, **fields)
        return self.answer()

    def send(self, offset: int, **fields: Any) -> None:
        state = FETCH.request.replica_state(
            replica_id=self.follower, replica_epoch=fields.pop("broker_epoch", self.broker_epoch)
        )
        leader_epoch = self.stage.partition("t").leader_epoch
        given = {
            "session_id": self.session_id,
            "session_epoch": self.epoch,
            "min_bytes": 1,
            "current_leader_epoch": leader_epoch,
            "log_start_offset": 0,
            **fields,
        }
        self.wire.request(
            FETCH, fetch("t", offset, topic_id=self.topic_id, replica_state=state, **given), 17
        )

    def answer(self) -> FetchResponse:
        answer = self.wire.answer(FETCH, 17)
        if not answer.error_code:
            self.session_id, self.epoch = answer.session_id, self.epoch + 1
        return answer


@pytest.fixture
def pretender(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Pretender, list[bool]]]:
    with Stage(3) as stage, short_ways(monkeypatch, FollowPlan) as taken:
        stage.create("t")
        write(stage, 0, b"0")
        pretender = Pretender(stage)
        pretender.ask(0)
        pretender.ask(0)
        taken.clear()
        yield pretender, taken


def fetched_values(answer: FetchResponse) -> list[bytes | None]:
    return [
        value for topic in answer.responses for row in topic.partitions for value in values(row)
    ]


def test_records_come_the_short_way(pretender: tuple[Pretender, list[bool]]) -> None:
    reader, taken = pretender

    assert fetched_values(reader.ask(0)) == [b"0"]
    assert taken[-1] is True


def test_a_follower_that_has_all_waits_and_hears_of_the_high_watermark_when_its_time_is_up(
    pretender: tuple[Pretender, list[bool]],
) -> None:
    reader, taken = pretender
    write(reader.stage, 0, b"1")

    answer = reader.ask(2, **WAITS)

    assert [row.high_watermark for row in answer.responses[0].partitions] == [2]
    assert reader.ask(2, **WAITS).responses == []
    assert taken[-2:] == [True, True]


def test_a_follower_that_waits_gets_what_is_written(
    pretender: tuple[Pretender, list[bool]],
) -> None:
    reader, taken = pretender
    reader.send(1, **WAITS)
    write(reader.stage, 0, b"1")

    assert fetched_values(reader.answer()) == [b"1"]
    assert taken[-1] is True


def test_a_follower_whose_last_records_are_of_another_epoch_is_not_noted(
    pretender: tuple[Pretender, list[bool]],
) -> None:
    reader, _ = pretender

    answer = reader.ask(1, last_fetched_epoch=5)

    assert answer.responses[0].partitions[0].error_code == Code.OFFSET_OUT_OF_RANGE


def test_a_wrong_session_epoch_is_refused(pretender: tuple[Pretender, list[bool]]) -> None:
    reader, taken = pretender

    assert (
        reader.ask(0, session_epoch=reader.epoch + 1).error_code == Code.INVALID_FETCH_SESSION_EPOCH
    )
    assert taken[-1] is False


def test_another_broker_epoch_is_no_replica_any_more(
    pretender: tuple[Pretender, list[bool]],
) -> None:
    """The broker has started again since, or somebody else says to be it."""
    reader, taken = pretender
    known: Any = reader.stage.nodes[reader.leader].context.metadata.image.brokers
    known[reader.follower] = known[reader.follower]._replace(epoch=reader.broker_epoch + 1)

    answer = reader.ask(0)

    assert (answer.responses[0].partitions[0].error_code, taken[-1]) == (
        Code.NOT_LEADER_OR_FOLLOWER,
        False,
    )


def test_another_leader_epoch_is_fenced(pretender: tuple[Pretender, list[bool]]) -> None:
    reader, taken = pretender

    answer = reader.ask(0, current_leader_epoch=7)

    assert (answer.responses[0].partitions[0].error_code, taken[-1]) == (
        Code.UNKNOWN_LEADER_EPOCH,
        False,
    )


def test_an_offset_beyond_the_log_is_told_the_short_way_as_well(
    pretender: tuple[Pretender, list[bool]],
) -> None:
    reader, taken = pretender

    answer = reader.ask(99)

    assert (answer.responses[0].partitions[0].error_code, taken[-1]) == (
        Code.OFFSET_OUT_OF_RANGE,
        True,
    )


def test_a_partition_that_the_session_does_not_know_goes_the_long_way(
    pretender: tuple[Pretender, list[bool]],
) -> None:
    reader, taken = pretender

    answer = reader.ask(0, partition=5)

    assert answer.responses[0].partitions[-1].error_code == Code.UNKNOWN_TOPIC_OR_PARTITION
    assert taken[-1] is False


def test_who_loses_the_right_is_refused(pretender: tuple[Pretender, list[bool]]) -> None:
    reader, taken = pretender
    reader.stage.nodes[reader.leader].dispatcher.authorizer = Deny("CLUSTER_ACTION")

    answer = reader.ask(0)

    assert answer.responses[0].partitions[0].error_code == Code.TOPIC_AUTHORIZATION_FAILED
    assert not taken  # the dispatcher asks before


# a Fetch that waits


def waiting(reader: Pretender) -> FollowWait:
    """Ask, at the end of the log, until the request waits on the short way."""
    session = reader.stage.nodes[reader.leader].fetch_sessions.by_id[reader.session_id]
    reader.ask(1, **WAITS)  # a plan for these terms is made
    reader.send(1, **WAITS)
    assert reader.stage.world.run(lambda: session.parked is not None, at_most_s=1.0)
    assert isinstance(session.parked, FollowWait)
    return session.parked


def test_another_request_of_the_session_ends_the_wait(
    pretender: tuple[Pretender, list[bool]],
) -> None:
    reader, _ = pretender
    waiting(reader)

    reader.send(1, session_epoch=reader.epoch + 1, **WAITS)

    assert [reader.answer().error_code, reader.answer().error_code] == [
        Code.INVALID_FETCH_SESSION_EPOCH,
        Code.NONE,
    ]


def test_a_topic_that_goes_while_a_follower_waits_is_told_the_long_way(
    pretender: tuple[Pretender, list[bool]],
) -> None:
    reader, _ = pretender
    waiting(reader)

    reader.stage.delete("t")

    assert reader.answer().responses[0].partitions[0].error_code in (
        Code.UNKNOWN_TOPIC_ID,
        Code.NOT_LEADER_OR_FOLLOWER,
    )


def test_a_session_that_was_taken_away_while_a_follower_waits_is_told_to_be_over(
    pretender: tuple[Pretender, list[bool]],
) -> None:
    reader, _ = pretender
    wait = waiting(reader)
    sessions = reader.stage.nodes[reader.leader].fetch_sessions
    sessions.close(wait.plan.session)

    assert reader.answer().session_id == 0
    assert wait.plan.session.partitions == {}


def test_a_right_that_is_lost_while_a_follower_waits(
    pretender: tuple[Pretender, list[bool]],
) -> None:
    reader, _ = pretender
    waiting(reader)
    reader.stage.nodes[reader.leader].dispatcher.authorizer = Deny("CLUSTER_ACTION")

    assert reader.answer().responses[0].partitions[0].error_code == Code.TOPIC_AUTHORIZATION_FAILED


def test_a_session_that_has_grown_while_a_follower_waits_is_read_in_slices(
    pretender: tuple[Pretender, list[bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, _ = pretender
    plan = waiting(reader).plan
    long_way: list[object] = []
    go_on = plan.go_on

    def noted(request: Any) -> Any:
        long_way.append(request)
        return go_on(request)

    plan.go_on = noted
    monkeypatch.setattr(follow, "MOST", 0)

    write(reader.stage, 0, b"1")

    assert fetched_values(reader.answer()) == [b"1"]
    assert len(long_way) == 1


def test_a_follower_that_goes_while_it_waits_leaves_nothing(
    pretender: tuple[Pretender, list[bool]],
) -> None:
    reader, _ = pretender
    wait = waiting(reader)
    node = reader.stage.nodes[reader.leader]
    before = node.context.metrics.parked_fetches

    reader.wire.close()

    assert reader.stage.world.run(lambda: wait.slot is None, at_most_s=1.0)
    assert node.context.metrics.parked_fetches == before - 1
    assert wait.plan.session.parked is None
    assert wait.later.keys() <= wait.plan.session.dirty.keys()


def test_a_mistake_in_an_answer_that_waits_harms_nobody_else(
    pretender: tuple[Pretender, list[bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, _ = pretender
    waiting(reader)

    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(FollowPlan, "answer", broken)
    assert write(reader.stage, 0, b"1") == 1

    assert reader.answer().error_code == Code.UNKNOWN_SERVER_ERROR
