"""A client with a quota gets its rate over many windows, however it asks; a client beside it
without one is not slowed. On virtual time.
"""

import pytest

from raftka.metadata.quotas import CLIENT_ID, USER
from raftka.runtime.simulated.clock import READING_S
from raftka.wire.messages.metadata import METADATA
from raftka.wire.messages.produce import PRODUCE
from tests.broker.quotas import Busy, alter, fetching, producing
from tests.broker.requests import batch, produce
from tests.broker.stage import Stage

RATE = 1_000_000.0
WINDOW_S = 11.0
# what may be used at once after a silence has gone before the first of them
BEFORE_S, WINDOWS = 2 * WINDOW_S, 10
READINGS, SHARE = 2, 0.005  # of the CPU clock by a request; of the time of the loop
AT_ONCE_S = 0.05  # an answer that nothing holds back


def topic(stage: Stage) -> None:
    stage.create("t", configs={"segment_bytes": "1048576", "retention_bytes": "1048576"})


@pytest.mark.parametrize("size", [20_000, 200_000])
def test_producer_holds_its_rate(size: int) -> None:
    with Stage(log_retention_check_interval_ms="1000") as stage:
        topic(stage)
        assert alter(stage.wire(), {CLIENT_ID: "limited"}, producer_byte_rate=RATE) == 0
        limited = producing(stage, "limited", size)
        free = producing(stage, "free", 1_000, pause_s=0.1)
        began = stage.world.now + BEFORE_S
        stage.world.run(began + WINDOWS * WINDOW_S)

        assert limited.per_s(began, stage.world.now) == pytest.approx(RATE, rel=0.1)
        assert limited.told_s > 0
        assert free.slowest() < AT_ONCE_S
        assert not stage.world.failures


@pytest.mark.parametrize("size", [50_000, 1_000_000])
def test_consumer_holds_its_rate(size: int) -> None:
    with Stage() as stage:
        stage.create("t")
        writer = stage.wire()
        for _ in range(1_500_000 // 10_000):
            writer.ask(PRODUCE, produce("t", batch(bytes(10_000))))
        assert alter(stage.wire(), {CLIENT_ID: "limited"}, consumer_byte_rate=RATE) == 0
        limited = fetching(stage, "limited", size)
        free = fetching(stage, "free", 20_000, pause_s=0.1)
        began = stage.world.now + BEFORE_S
        stage.world.run(began + WINDOWS * WINDOW_S)

        assert limited.per_s(began, stage.world.now) == pytest.approx(RATE, rel=0.1)
        assert free.slowest() < AT_ONCE_S
        assert not stage.world.failures


def test_time_of_the_loop_is_shared_out() -> None:
    """CPU time passes in the simulation when its clock is read: twice from the beginning of a
    request to its end.
    """
    with Stage() as stage:
        assert alter(stage.wire(), {CLIENT_ID: "limited"}, request_percentage=SHARE * 100) == 0
        row = METADATA.request(topics=[])
        limited = Busy(stage, "limited", METADATA, row, 0.001)
        free = Busy(stage, "free", METADATA, row, 0.1)
        began = stage.world.now + BEFORE_S
        stage.world.run(began + WINDOWS * WINDOW_S)

        requests = sum(at >= began for at, _, _ in limited.answers)
        assert requests * READINGS * READING_S / (WINDOWS * WINDOW_S) == pytest.approx(
            SHARE, rel=0.1
        )
        assert free.slowest() < AT_ONCE_S


def test_user_shares_its_rate_among_its_connections() -> None:
    with Stage(log_retention_check_interval_ms="1000") as stage:
        topic(stage)
        assert alter(stage.wire(), {USER: "ANONYMOUS"}, producer_byte_rate=RATE) == 0
        both = [producing(stage, client, 50_000) for client in ("a", "b")]
        began = stage.world.now + BEFORE_S
        stage.world.run(began + 4 * WINDOW_S)
        assert sum(each.per_s(began, stage.world.now) for each in both) == pytest.approx(
            RATE, rel=0.1
        )


def test_default_gives_each_client_the_whole() -> None:
    with Stage(log_retention_check_interval_ms="1000") as stage:
        topic(stage)
        assert alter(stage.wire(), {CLIENT_ID: None}, producer_byte_rate=RATE) == 0
        both = [producing(stage, client, 50_000) for client in ("a", "b")]
        began = stage.world.now + BEFORE_S
        stage.world.run(began + 4 * WINDOW_S)
        assert [each.per_s(began, stage.world.now) for each in both] == pytest.approx(
            [RATE, RATE], rel=0.1
        )
