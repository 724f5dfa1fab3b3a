"""The short ways of Fetch and ListOffsets answer byte for byte what the long ones do, and are left
when anything is different.
"""

from random import Random
from typing import Any

import pytest

from raftka.broker.fetch.consumer_plan import FetchPlan, SessionPlan
from raftka.broker.fetch.list_offsets_plan import EndsPlan
from raftka.log.producers.aborted import AbortedTransactions
from raftka.log.segments.transaction_index import AbortedTransaction
from raftka.wire.errors import Code
from raftka.wire.messages.fetch import FETCH, READ_COMMITTED, FetchResponse
from raftka.wire.messages.list_offsets import EARLIEST, LATEST, LIST_OFFSETS, MAX_TIMESTAMP
from raftka.wire.messages.produce import PRODUCE
from tests.broker.requests import batch, fetch, list_offsets, produce, produced
from tests.broker.short_ways import short_ways
from tests.broker.stage import Stage, Wire
from tests.kit.broker.fetching import SIZE, filled
from tests.kit.broker.transactional_partition import Scene


class Session:
    def __init__(self, stage: Stage, version: int, topic_id: bytes, **fields: Any) -> None:
        self.stage, self.version, self.topic_id = stage, version, topic_id
        self.fields = {"partition_max_bytes": SIZE, "min_bytes": 1, **fields}
        self.wire: Wire = stage.wire(stage.leader("t"))
        self.id = b""
        self.epoch = 0

    def ask(self, offset: int, epoch: int | None = None, **fields: Any) -> bytes:
        """The answer, without correlation id and the session's."""
        row = fetch("t", offset, topic_id=self.topic_id, **{**self.fields, **fields})
        row.session_id = int.from_bytes(self.id)
        row.session_epoch = self.epoch if epoch is None else epoch
        self.wire.request(FETCH, row, self.version)
        data = self.wire.frame()
        assert data is not None
        if epoch is None:
            self.epoch += 1
        at = 11 if self.version >= 12 else 10
        if not self.id:
            self.id = data[at : at + 4]
        return data[4:].replace(self.id, b"<id>")

    def ask_nothing(self) -> FetchResponse:
        row = FETCH.request(session_id=int.from_bytes(self.id), session_epoch=self.epoch)
        self.epoch += 1
        return self.wire.ask(FETCH, row, self.version)


@pytest.mark.parametrize("version", [7, 11, 12, 17])
def test_a_session_of_one_partition(version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    told = []
    for open in (True, False):
        with Stage() as stage, short_ways(monkeypatch, SessionPlan, open=open) as taken:
            session = Session(stage, version, filled(stage))
            answers = [
                session.ask(0),
                session.ask(2),
                session.ask(4),
                session.ask(2),
                session.ask(2),
            ]
            answers += [session.ask(2, epoch=77), session.ask(4), session.ask(6, min_bytes=0)]
            stage.partition("t").log.set_start_offset(2)
            answers += [session.ask(2), session.ask(1), session.ask(4)]
            produced(stage.wire().ask(PRODUCE, produce("t", batch(b"more"))))
            answers += [session.ask(6), session.ask(6), session.ask(7, min_bytes=0)]
            if version >= 9:
                answers += [session.ask(4, current_leader_epoch=5)]
            answers += [session.ask(4)]
            (known,) = stage.nodes[1].fetch_sessions.by_id.values()
            stage.nodes[1].fetch_sessions.close(known)
            told.append([*answers, session.ask(4)])
            if open:
                assert sum(taken) == 9, taken

    assert told[0] == told[1]


@pytest.mark.parametrize("version", [4, 5, 11, 12, 17])
def test_aborted_transactions_are_named_the_short_way(
    version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = []
    for open in (True, False):
        with Stage() as stage, short_ways(monkeypatch, FetchPlan, open=open) as taken:
            topic_id = stage.create("t")
            scene = Scene(stage)
            for at in range(6):
                scene.send(b"r", sequence=at)
                scene.mark(commit=at % 2 == 0)
            wire, answers = stage.wire(stage.leader("t")), []
            for offset in (0, 2, 4, 0, 8, 10):
                row = fetch(
                    "t",
                    offset,
                    topic_id=topic_id,
                    isolation_level=READ_COMMITTED,
                    partition_max_bytes=700,
                    min_bytes=1,
                )
                wire.request(FETCH, row, version)
                data = wire.frame()
                assert data is not None
                answers.append(data[4:])
            told.append(answers)
            if open:
                assert taken in ([True] * 4, [True] * 5)
                assert len({len(each) for each in answers}) > 2
    assert told[0] == told[1]


@pytest.mark.parametrize("seed", range(4))
def test_a_reader_that_is_far_behind_hears_of_each_aborted_transaction(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, searches = [], []
    find = AbortedTransactions.find

    def counted(self: AbortedTransactions, offset: int, end: int) -> list[AbortedTransaction]:
        searches.append(offset)
        return find(self, offset, end)

    monkeypatch.setattr(AbortedTransactions, "find", counted)
    for open in (True, False):
        random = Random(seed)
        with Stage() as stage, short_ways(monkeypatch, FetchPlan, open=open):
            topic_id = stage.create("t")
            scene = Scene(stage)
            for at in range(120):
                scene.send(b"r" * 700, sequence=at)
                scene.mark(commit=random.random() < 0.9)
            wire, answers, offset = stage.wire(stage.leader("t")), [], 0
            while offset < 220:
                wire.request(
                    FETCH,
                    fetch(
                        "t",
                        offset,
                        topic_id=topic_id,
                        isolation_level=READ_COMMITTED,
                        partition_max_bytes=2_500,
                        min_bytes=1,
                    ),
                    12,
                )
                data = wire.frame()
                assert data is not None
                answers.append(data[4:])
                offset += 2 * random.randrange(1, 3)
            told.append(answers)
    assert told[0] == told[1]
    assert len(searches) < 1.8 * len(told[1]), "nothing was found to be clear"


def test_what_was_told_the_short_way_is_known_the_long_way(monkeypatch: pytest.MonkeyPatch) -> None:
    with Stage() as stage, short_ways(monkeypatch, SessionPlan) as taken:
        session = Session(stage, 12, filled(stage))
        for offset in (0, 0, 2):
            session.ask(offset)
        session.ask(6, min_bytes=0)  # all is told
        session.ask(4)
        assert taken == [True, False, True]

        answer = session.ask_nothing()  # as the offset was told last, its records come again
        assert bytes(answer.responses[0].partitions[0].records or b"")[:8] == (4).to_bytes(8)


def test_a_session_of_more_partitions_goes_the_long_way(monkeypatch: pytest.MonkeyPatch) -> None:
    with Stage() as stage, short_ways(monkeypatch, SessionPlan) as taken:
        session = Session(stage, 12, filled(stage, partitions=2))
        for offset in (0, 2, 4):
            session.ask(offset)
        session.ask(0, partition=1)
        answer = session.ask(4)

        assert taken == [True, False, False]
        assert answer.count(batch(b"004", b"005")[21:]) == 1
        assert answer.count(batch(b"000", b"001")[21:]) == 1, "of the other partition"


def test_a_request_that_overtakes_goes_the_long_way() -> None:
    with Stage() as stage:
        session = Session(stage, 12, filled(stage))
        for offset in (0, 2, 4):
            session.ask(offset)
        parked = fetch(
            "t",
            6,
            session_id=int.from_bytes(session.id),
            session_epoch=session.epoch,
            max_wait_ms=20_000,
            min_bytes=1,
        )
        session.wire.request(FETCH, parked, 12)
        stage.wait(lambda: stage.nodes[1].metrics.parked_fetches == 1)
        session.epoch += 1

        assert int.from_bytes(session.ask(4)[5:7]) == Code.INVALID_FETCH_SESSION_EPOCH
        answer = session.wire.answer(FETCH, 12)
        assert bytes(answer.responses[0].partitions[0].records or b"")[:8] == (4).to_bytes(8)


def test_who_leads_no_more_has_no_short_way(monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        Stage() as stage,
        short_ways(monkeypatch, SessionPlan) as fetches,
        short_ways(monkeypatch, EndsPlan) as ends,
    ):
        session, wire = Session(stage, 12, filled(stage)), stage.wire()
        for offset in (0, 2, 4):
            session.ask(offset)
            wire.ask(LIST_OFFSETS, list_offsets("t", LATEST), 7)
        assert (fetches, ends) == ([True], [True, True])
        stage.partition("t").leader = None

        assert (
            wire.ask(LIST_OFFSETS, list_offsets("t", LATEST), 7).topics[0].partitions[0].error_code
            == Code.NOT_LEADER_OR_FOLLOWER
        )
        session.ask(4)
        assert (fetches[-1], ends[-1]) == (False, False)


@pytest.mark.parametrize("version", [1, 3, 4, 6, 9, 11])
def test_the_ends_of_one_partition(version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    told = []
    for open in (True, False):
        with Stage() as stage, short_ways(monkeypatch, EndsPlan, open=open) as taken:
            filled(stage)
            wire = stage.wire()

            def ask(timestamp: int, wire: Wire = wire) -> bytes | None:
                wire.request(LIST_OFFSETS, list_offsets("t", timestamp), version)
                return wire.frame()

            answers = [ask(timestamp) for timestamp in (LATEST, EARLIEST, LATEST, EARLIEST)]
            stage.partition("t").log.set_start_offset(4)
            produced(stage.wire().ask(PRODUCE, produce("t", batch(b"more"))))
            answers += [
                ask(timestamp) for timestamp in (EARLIEST, LATEST, 0, MAX_TIMESTAMP, LATEST)
            ]
            told.append(answers)
            if open:
                assert taken == [True] * 5 + [False] * 2 + [True]

    assert told[0] == told[1]


def test_an_end_that_is_not_known_yet_goes_the_long_way() -> None:
    with Stage() as stage:
        filled(stage)
        wire = stage.wire()
        wire.ask(LIST_OFFSETS, list_offsets("t", LATEST), 7)
        leader = stage.partition("t").leader
        assert leader is not None
        leader.epoch_start_offset = 7

        assert (
            wire.ask(LIST_OFFSETS, list_offsets("t", LATEST), 7).topics[0].partitions[0].error_code
            == Code.OFFSET_NOT_AVAILABLE
        )


@pytest.mark.parametrize("version", range(4, 18))
def test_a_reader_whose_limits_are_zero_has_its_plan(
    version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many bytes of such a request are those of its offset."""
    with Stage() as stage, short_ways(monkeypatch, FetchPlan) as taken:
        topic_id = filled(stage)
        wire = stage.wire()
        row = fetch("t", 0, topic_id=topic_id, max_bytes=0, partition_max_bytes=0)
        for _ in range(4):
            wire.request(FETCH, row, version)
            answer = wire.answer(FETCH, version)
            assert len(answer.responses[0].partitions[0].records or b"") == SIZE

        assert taken == [True] * 3


def test_a_request_that_names_a_partition_twice_has_no_plan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Stage() as stage, short_ways(monkeypatch, FetchPlan) as taken:
        filled(stage)
        wire = stage.wire()
        row = fetch("t", 0)
        row.topics[0].partitions = [*row.topics[0].partitions, *fetch("t", 2).topics[0].partitions]
        for _ in range(3):
            assert bytes(wire.ask(FETCH, row).responses[0].partitions[0].records or b"")[:8] == (
                2
            ).to_bytes(8)

        assert taken == []
