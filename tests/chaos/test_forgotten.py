"""A producer's batch may be refused as out of order when recovery need not remember it, and in no
other circumstances.
"""

from typing import Any

import pytest

from raftka.chaos.simulated.checks import verify
from raftka.chaos.simulated.checks.forgotten import Forgotten, noted
from raftka.chaos.simulated.clients.client import Client, Leader
from raftka.chaos.simulated.clients.producers import History, Producer, Stream
from raftka.chaos.simulated.releases import PRESENT
from raftka.log.log import Log
from raftka.log.producers.snapshots import ENTRIES_BACK
from raftka.log.producers.state import ProducerState
from raftka.runtime.simulated.world import World
from raftka.wire.errors import Code
from raftka.wire.messages.produce import PRODUCE, ProduceResponse
from raftka.wire.rows import Row
from tests.log.given import DIRECTORY, append, batch, checkpoint, open_log

PRODUCER_ID = 7


# what recovery may forget


def reopened(others: int, *, snapshot: bool = True) -> tuple[Log, list[Forgotten]]:
    """A log of three batches of a producer and then others, after a power loss; and what is noted
    as forgotten.
    """
    with World(1) as world:
        files = world.node("n1").files
        files.make_directory(DIRECTORY)
        log = open_log(files, index_interval_bytes=1)
        append(
            log,
            *(batch(2, producer=PRODUCER_ID, sequence=2 * number) for number in range(3)),
            *(batch() for _ in range(others)),
        )
        point = checkpoint(log) if snapshot else 0
        files.sync_directory(DIRECTORY)
        world.kill("n1", power_loss=True)
        forgotten: set[Forgotten] = set()
        with noted(forgotten, PRESENT.rebuild_producers):
            log = open_log(world.node("n1").files, recovery_point=point, index_interval_bytes=1)
        assert log.end_offset == 6 + others
        return log, sorted(forgotten)


def sequences(log: Log) -> list[int]:
    return [first for first, _, _, _ in log.producers.producers[PRODUCER_ID].batches]


def test_batches_far_before_the_snapshot_are_noted() -> None:
    log, forgotten = reopened(ENTRIES_BACK)

    assert sequences(log) == [4]
    assert forgotten == [Forgotten("n1", "t-0", PRODUCER_ID, 0, sequence) for sequence in (0, 2)]


@pytest.mark.parametrize(("others", "snapshot"), [(ENTRIES_BACK - 5, True), (ENTRIES_BACK, False)])
def test_batches_near_the_snapshot_or_read_again_are_not_noted(others: int, snapshot: bool) -> None:
    log, forgotten = reopened(others, snapshot=snapshot)

    assert sequences(log) == [0, 2, 4]
    assert forgotten == []


def test_forgetting_a_batch_near_the_snapshot_is_a_violation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ProducerState, "remember_older", lambda self, batches: None)

    log, forgotten = reopened(ENTRIES_BACK - 5)

    assert sequences(log) == [4]
    assert forgotten == []


# what a producer makes of it


def refused(
    monkeypatch: pytest.MonkeyPatch, excuse: dict[str, Any] | None
) -> tuple[Producer, History, list[int]]:
    """Of three batches the second is refused as out of order. Numbers of its records. `excuse`:
    what differs from one that fits; None: none.
    """
    codes = [Code.NONE, Code.OUT_OF_ORDER_SEQUENCE_NUMBER, Code.NONE]
    with World(1) as world:
        client, history = Client(world.node("client"), [("n1", 1)]), History()
        producer = Producer(client, history, Stream("a", "t", 0), 2, (0.0, 0.0))
        producer._producer_id = PRODUCER_ID

        async def leader(topic: str, partition: int) -> Leader:
            return Leader(("n1", 1), 0)

        async def ask_all(address: object, api: object, rows: list[Row]) -> list[Row]:
            return [_answer(codes.pop(0)) for _ in rows]

        async def run() -> None:
            producer._begin_batch()
            await producer._send_all()
            producer._begin_batch()
            producer._begin_batch()
            batch = producer._waiting[0]
            if excuse is not None:
                history.forgotten.add(
                    Forgotten("n1", "t-0", PRODUCER_ID, 0, batch.first)._replace(**excuse)
                )
            await producer._send_all()
            numbers.extend(range(batch.first, batch.first + batch.count))

        monkeypatch.setattr(client, "leader", leader)
        monkeypatch.setattr(client, "ask_all", ask_all)
        numbers: list[int] = []
        client.runtime.spawn(run, "run")
        assert world.run(lambda: bool(numbers), at_most_s=10.0)
    return producer, history, numbers


def _answer(code: Code) -> ProduceResponse:
    response = PRODUCE.response
    partition = response.responses.partition_responses(
        index=0, error_code=int(code), base_offset=-1
    )
    return response(responses=[response.responses(name="t", partition_responses=[partition])])


def test_a_producer_continues_after_a_refusal_of_a_batch_that_may_be_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    producer, history, numbers = refused(monkeypatch, {})

    assert history.violations == []
    assert history.given_up[producer.stream] == set(numbers)
    assert not history.acknowledged[producer.stream].keys() & set(numbers)
    assert (producer._epoch, producer._epoch_begins_at, producer._waiting) == (
        1,
        history.begun[producer.stream],
        [],
    )


@pytest.mark.parametrize(
    "excuse",
    [
        None,
        {"machine": "n2"},
        {"partition": "t-1"},
        {"producer_id": 8},
        {"epoch": 1},
        {"sequence": 0},
    ],
    ids=lambda excuse: str(excuse and next(iter(excuse))),
)
def test_any_other_refusal_is_a_violation(
    excuse: dict[str, Any] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer, history, numbers = refused(monkeypatch, excuse)

    assert history.violations == [
        f"{producer.stream}: the batch at {numbers[0]} is refused with OUT_OF_ORDER_SEQUENCE_NUMBER"
    ]
    assert [batch.first for batch in producer._waiting] == numbers[:1]


def test_only_records_that_were_given_up_may_be_missing() -> None:
    stream, history = Stream("a", "t", 0), History()
    history.begun[stream] = 4
    history.given_up[stream] = {1}

    assert verify.records(history, "t", 0, [(0, b"a/0/"), (1, b"a/2/")]) == []
    assert verify.records(history, "t", 0, [(0, b"a/0/"), (1, b"a/1/"), (2, b"a/2/")]) == []
    assert verify.records(history, "t", 0, [(0, b"a/0/"), (1, b"a/3/")]) == [
        f"{stream}: there is a gap"
    ]
    assert verify.records(history, "t", 0, [(0, b"a/1/"), (1, b"a/1/")]) == [
        f"{stream}: 1 records are there twice",
        f"{stream}: there is a gap",
    ]
