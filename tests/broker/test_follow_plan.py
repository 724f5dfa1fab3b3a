"""The short way of a follower's Fetch: followers have the same log and the same high watermark, and strangers gain nothing by it."""

from collections.abc import Iterator
from typing import Any

import pytest

from raftka.broker.fastpath.follow import FollowPlan, Rows, ShortRequest
from raftka.broker.handlers import fetch as fetch_handler
from raftka.broker.handlers import fetch_place
from raftka.broker.replica.fetcher import ReplicaFetcher
from raftka.wire.errors import Code
from raftka.wire.messages.fetch import FETCH, FetchResponse
from raftka.wire.messages.produce import PRODUCE
from raftka.wire.replica_fetch import MOST, VERSION
from tests.broker.requests import batch, fetch, produce, produced
from tests.broker.stage import Stage, Wire
from tests.broker.test_authorizer import Deny
from tests.broker.test_fast_paths import short_ways
from tests.broker.test_fetch import values

PARTITIONS = 3


def write(stage: Stage, partition: int, value: bytes) -> int:
    """Return the offset of a record that all replicas have."""
    answer = produced(stage.wire(stage.leader("t", partition)).ask(PRODUCE, produce("t", batch(value), partition, acks=-1)))
    assert answer.error_code == 0
    return answer.base_offset


@pytest.mark.parametrize(("leaders", "followers"), [(True, True), (True, False), (False, True), (False, False)])
def test_followers_have_what_the_leader_has(leaders: bool, followers: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever of the two sides goes the long way."""
    if not followers:
        monkeypatch.setattr(ReplicaFetcher, "_sent", lambda self, wanted: False)
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
        state = FETCH.request.replica_state(replica_id=self.follower, replica_epoch=fields.pop("broker_epoch", self.broker_epoch))
        leader_epoch = self.stage.partition("t").leader_epoch
        given = {"session_id": self.session_id, "session_epoch": self.epoch, "min_bytes": 1, "current_leader_epoch": leader_epoch, **fields}
        answer = self.wire.ask(FETCH, fetch("t", offset, topic_id=self.topic_id, replica_state=state, **given), 17)
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
    return [value for topic in answer.responses for row in topic.partitions for value in values(row)]


def test_records_come_the_short_way(pretender: tuple[Pretender, list[bool]]) -> None:
    reader, taken = pretender

    assert fetched_values(reader.ask(0)) == [b"0"]
    assert taken[-1] is True


def test_a_follower_at_the_end_is_noted_and_hears_of_the_high_watermark_with_its_answer(
    pretender: tuple[Pretender, list[bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, _ = pretender
    notes: list[bool] = []

    def noted(*arguments: Any) -> bool:
        notes.append(fetch_place.noted(*arguments))
        return notes[-1]

    monkeypatch.setattr(fetch_handler, "noted", noted)
    write(reader.stage, 0, b"1")
    notes.clear()

    told = reader.ask(2, last_fetched_epoch=0, log_start_offset=0, max_wait_ms=200)

    assert notes[0] is True
    assert [row.high_watermark for row in told.responses[0].partitions] == [2]


def test_a_follower_whose_last_records_are_of_another_epoch_is_not_noted(pretender: tuple[Pretender, list[bool]]) -> None:
    reader, _ = pretender

    answer = reader.ask(1, last_fetched_epoch=5)

    assert answer.responses[0].partitions[0].error_code == Code.OFFSET_OUT_OF_RANGE


def test_a_wrong_session_epoch_is_refused(pretender: tuple[Pretender, list[bool]]) -> None:
    reader, taken = pretender

    assert reader.ask(0, session_epoch=reader.epoch + 1).error_code == Code.INVALID_FETCH_SESSION_EPOCH
    assert taken[-1] is False


def test_another_broker_epoch_is_no_replica_any_more(pretender: tuple[Pretender, list[bool]]) -> None:
    """The broker has started again since, or somebody else says to be it."""
    reader, taken = pretender
    known: Any = reader.stage.nodes[reader.leader].context.metadata.image.brokers
    known[reader.follower] = known[reader.follower]._replace(epoch=reader.broker_epoch + 1)

    answer = reader.ask(0)

    assert (answer.responses[0].partitions[0].error_code, taken[-1]) == (Code.NOT_LEADER_OR_FOLLOWER, False)


def test_another_leader_epoch_is_fenced(pretender: tuple[Pretender, list[bool]]) -> None:
    reader, taken = pretender

    answer = reader.ask(0, current_leader_epoch=7)

    assert (answer.responses[0].partitions[0].error_code, taken[-1]) == (Code.UNKNOWN_LEADER_EPOCH, False)


def test_an_offset_beyond_the_log_is_told_the_short_way_as_well(pretender: tuple[Pretender, list[bool]]) -> None:
    reader, taken = pretender

    answer = reader.ask(99)

    assert (answer.responses[0].partitions[0].error_code, taken[-1]) == (Code.OFFSET_OUT_OF_RANGE, True)


def test_a_partition_that_the_session_does_not_know_goes_the_long_way(pretender: tuple[Pretender, list[bool]]) -> None:
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


@pytest.mark.parametrize(("count", "at_once"), [(MOST, True), (MOST + 1, False)])
def test_a_long_answer_is_encoded_as_its_rows_are_added(count: int, at_once: bool) -> None:
    """Else thousands of partitions that grow while a short request waits would keep the loop when they are told."""
    request = object.__new__(ShortRequest)
    request.api, request.version = FETCH, VERSION

    assert isinstance(request.encoded_rows(FETCH.response.responses.partitions, count), Rows) is at_once
