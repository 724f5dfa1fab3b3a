"""Questions with one right answer: the judges say nothing of a sound broker, and find the one that
is wrong by one.
"""

from collections.abc import Sequence
from typing import Any

import pytest

from raftka.chaos.simulated.checks import retained
from raftka.chaos.simulated.clients.client import Batch, Leader
from raftka.chaos.simulated.clients.exact import Examiner, Known
from raftka.chaos.simulated.swarm import SWARM, Settings
from raftka.chaos.simulation import Options, simulate
from raftka.log import log as log_module
from raftka.log import retention
from raftka.log.config import LogConfig
from raftka.log.producers.state import ProducerState
from raftka.log.segments import search
from raftka.log.segments.segment import Segment
from raftka.replication.partition import LeaderState
from raftka.runtime.simulated.world import World
from raftka.wire.errors import Code
from tests.log.given import NOW, append, batch, open_log

CALM = Options(
    SWARM,
    Settings(
        beside=("archive",),
        exact=True,
        seconds=8.0,
        pause_s=0.1,
        segment_bytes=2000,
        index_bytes=64,
    ),
    skip=range(100),
)


def known() -> Known:
    """Three batches of two records, of the epochs 0, 0 and 3."""
    found = Known()
    for number, (epoch, times) in enumerate([(0, [10, 30]), (0, [20, 20]), (3, [30, 40])]):
        base = 2 * number
        found.learn([Batch(base + 2, epoch, [(base, b""), (base + 1, b"")], times)])
    return found


@pytest.mark.parametrize(
    ("timestamp", "offset"), [(9, 0), (10, 0), (11, 1), (20, 1), (30, 1), (31, 5), (40, 5), (41, 6)]
)
def test_the_first_that_is_not_older(timestamp: int, offset: int) -> None:
    assert known().first_since(timestamp) == offset


@pytest.mark.parametrize(
    ("epoch", "end"), [(-1, (-1, 0)), (0, (0, 4)), (2, (0, 4)), (3, (3, 6)), (9, (3, 6))]
)
def test_where_an_epoch_ends(epoch: int, end: tuple[int, int]) -> None:
    assert known().end_of(epoch) == end


def test_a_wrong_answer_is_reported() -> None:
    with World(1) as world:
        examiner = Examiner("t", 0, world.random("examiner"))
        examiner.known = known()
        asked = {
            (question := examiner.question(Leader(("n1", 1), 3))).what: question for _ in range(100)
        }
        question = asked["epoch_end"]
        right = dict(
            zip(("leader_epoch", "end_offset"), examiner.known.end_of(question.offset), strict=True)
        )
        row = question.api.response.topics.partitions
        examiner.answered(question, row(error_code=0, **right), 3)
        assert not examiner.wrong
        examiner.answered(
            question, row(error_code=0, **right | {"end_offset": right["end_offset"] - 1}), 3
        )
        assert len(examiner.wrong) == 1
        examiner.answered(
            asked["outside"], asked["outside"].api.response.responses.partitions(error_code=0), 3
        )
        assert len(examiner.wrong) == 2
        examiner.answered(question, row(error_code=int(Code.NOT_LEADER_OR_FOLLOWER)), 3)
        assert len(examiner.wrong) == 2


# retention


def retain(**config: Any) -> list[str]:
    log = open_log(segment_bytes=400, **config)
    for number in range(12):
        append(log, batch(1, size=100, timestamp=NOW + 1000 * number))
    wrong: list[str] = []
    with retained.watched(wrong):
        log.delete_old_segments(NOW + 12_000, log.end_offset - 2)
    return wrong


BOUNDS = (
    {"retention_bytes": 900},
    {"retention_ms": 5000, "retention_bytes": -1},
    {"retention_ms": -1},
)


@pytest.mark.parametrize("config", BOUNDS)
def test_kafkas_retention_is_right(config: dict[str, int]) -> None:
    assert retain(**config) == []


@pytest.mark.parametrize("config", BOUNDS)
@pytest.mark.parametrize("wrong_by", [-1, 1])
def test_a_segment_too_many_or_too_few_is_reported(
    monkeypatch: pytest.MonkeyPatch, config: dict[str, int], wrong_by: int
) -> None:

    def outlived(
        segments: Sequence[Segment],
        config: LogConfig,
        now_ms: int,
        start: int,
        end: int,
        up_to: int,
    ) -> int:
        return max(
            0,
            min(
                len(segments) - 1,
                retention.outlived(segments, config, now_ms, start, end, up_to) + wrong_by,
            ),
        )

    monkeypatch.setattr(log_module, "outlived", outlived)
    keeps_all = config == {"retention_ms": -1} and wrong_by < 0
    assert bool(retain(**config)) is not keeps_all


# lives


def test_a_calm_life_has_nothing_wrong() -> None:
    assert simulate(1, CALM).violations == []


def _low_watermark(monkeypatch: pytest.MonkeyPatch) -> None:
    """DeleteRecords waits for nobody."""
    monkeypatch.setattr(LeaderState, "low_watermark", lambda self, log_start: log_start)


def _epochs_mixed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch of an earlier producer epoch counts as a duplicate in the next."""
    right = ProducerState.record

    def record(self: ProducerState, producer_id: int, epoch: int, *rest: int) -> None:
        known = self.producers.get(producer_id)
        if known is not None:
            known.epoch = epoch
        right(self, producer_id, epoch, *rest)

    monkeypatch.setattr(ProducerState, "record", record)


def _no_fencing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A producer's earlier epoch may go on."""
    right = ProducerState.admit

    def admit(self: ProducerState, producer_id: int, epoch: int, *rest: int) -> object:
        known = self.producers.get(producer_id)
        return (
            None
            if known is not None and epoch < known.epoch
            else right(self, producer_id, epoch, *rest)
        )

    monkeypatch.setattr(ProducerState, "admit", admit)


def _before_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search by time tells of a record that was deleted."""
    right = search.first_at_or_after
    monkeypatch.setattr(
        log_module,
        "first_at_or_after",
        lambda segments, timestamp, start, up_to: right(segments, timestamp, 0, up_to),
    )


@pytest.mark.parametrize(
    "bug",
    [_low_watermark, _epochs_mixed, _no_fencing, _before_the_start],
    ids=lambda bug: bug.__name__,
)
def test_a_life_finds_answers_that_are_slightly_wrong(
    monkeypatch: pytest.MonkeyPatch, bug: object
) -> None:
    bug(monkeypatch)  # type: ignore[operator]
    assert any(simulate(seed, CALM).violations for seed in range(6))
