"""Batches that a topic stores under another codec: large ones are compressed anew beside the loop.
What a connection sends stays in its order, and nobody else waits.
"""

import gc
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from raftka.limits import BESIDE_BYTES
from raftka.log.validation import RefusedRecords
from raftka.metadata.image import TOPIC
from raftka.wire.errors import Code, ProtocolError
from raftka.wire.messages.fetch import FETCH
from raftka.wire.messages.metadata import METADATA
from raftka.wire.messages.produce import PRODUCE, ProduceRequest
from raftka.wire.records import (
    ATTRIBUTES_POSITION,
    BATCH_HEADER_BYTES,
    build_batch,
    iterate,
    read_header,
    records_of,
    seal,
)
from tests.broker.conftest import Lower
from tests.broker.requests import batch, fetch, fetched, produce, produced
from tests.broker.stage import Stage, Wire

LARGE = Random(1).randbytes(20_000)


class Held:
    """Threads that do nothing until they are let go."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.jobs: list[tuple[Callable[[], Any], Callable[[Any], None]]] = []
        stage.nodes[1].background._offload = self  # type: ignore[assignment]

    def run(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        self.jobs.append((work, done))

    def wait(self) -> None:
        self.stage.wait(lambda: bool(self.jobs))

    def let_go(self, result: BaseException | None = None) -> None:
        """One of them."""
        self.wait()
        work, done = self.jobs.pop(0)
        self.stage.nodes[1].runtime.take(lambda _: done(result or work()), None)  # type: ignore[attr-defined]


@pytest.fixture
def stage() -> Iterator[Stage]:
    with Stage() as stage:
        stage.create("t", 3, configs={"compression_type": "zstd"})
        yield stage
        assert not stage.world.failures


@pytest.fixture
def held(stage: Stage) -> Held:
    return Held(stage)


def stored(stage: Stage, partition: int = 0) -> list[bytes | None]:
    """All values, each batch under the topic's codec."""
    records = fetched(stage.wire().ask(FETCH, fetch("t", 0, partition, max_bytes=1 << 20))).records
    batches = list(iterate(memoryview(records or b"")))
    assert all(header.compression == 4 for header, _ in batches)
    return [record.value for _, each in batches for record in records_of(each)]


def served(stage: Stage) -> bool:
    """Somebody else gets an answer."""
    return len(stage.wire().ask(METADATA, METADATA.request(topics=None)).topics) == 1


def three(*batches: tuple[int, bytes], acks: int = -1) -> ProduceRequest:
    """Batches for several partitions."""
    request = PRODUCE.request
    data = [
        request.topic_data.partition_data(index=index, records=records)
        for index, records in batches
    ]
    return request(
        acks=acks, timeout_ms=5000, topic_data=[request.topic_data(name="t", partition_data=data)]
    )


@pytest.mark.parametrize("acks", [0, 1, -1])
@pytest.mark.parametrize("first", [b"", b"small"], ids=["the long way", "by a plan"])
def test_what_one_connection_sends_is_stored_in_its_order(
    stage: Stage, held: Held, acks: int, first: bytes
) -> None:
    wire = stage.wire()
    sent = [first] * bool(first) + [LARGE, b"a", LARGE[::-1], b"b", b"c"]
    for value in sent:
        wire.request(PRODUCE, produce("t", batch(value), acks=acks))

    held.wait()
    assert served(stage)
    assert len(held.jobs) == 1
    assert stored(stage) == [first] * bool(first)
    held.let_go()
    held.let_go()
    if acks:
        assert [produced(wire.answer(PRODUCE)).base_offset for _ in sent] == list(range(len(sent)))
    stage.wait(lambda: stage.partition("t").high_watermark == len(sent))
    assert stored(stage) == sent


def test_others_write_meanwhile_to_the_same_partition(stage: Stage, held: Held) -> None:
    wire = stage.wire()
    wire.request(PRODUCE, produce("t", batch(LARGE)))
    held.wait()

    assert produced(stage.wire().ask(PRODUCE, produce("t", batch(b"other")))).base_offset == 0
    held.let_go()
    assert produced(wire.answer(PRODUCE)).base_offset == 1
    assert stored(stage) == [b"other", LARGE]


def test_one_is_worked_on_at_a_time_first_come_first_served(stage: Stage, held: Held) -> None:
    wires = [stage.wire() for _ in range(3)]
    for at, wire in enumerate(wires):
        wire.request(PRODUCE, produce("t", batch(LARGE + b"%d" % at)))
        # done before the next one comes
        stage.wait(lambda: len(stage.nodes[1].background._waiting) == at + 1)  # noqa: B023

    assert len(held.jobs) == 1
    for wire in wires:
        held.let_go()
        assert produced(wire.answer(PRODUCE)).error_code == 0
    assert stored(stage) == [LARGE + b"%d" % at for at in range(3)]


@pytest.mark.parametrize("acks", [1, -1])
def test_a_request_with_several_partitions_is_answered_once_and_whole(
    stage: Stage, held: Held, acks: int
) -> None:
    wire = stage.wire()
    damaged = bytearray(build_batch([(None, LARGE, (), -5)]))
    wire.request(
        PRODUCE, three((0, batch(b"a")), (1, bytes(damaged)), (2, batch(LARGE)), acks=acks)
    )
    held.wait()
    stage.wait(lambda: stage.partition("t").log.flushed_offset == 1)
    assert served(stage)
    assert not wire.frames, "two partitions are not through"

    held.let_go()
    held.let_go()

    (topic,) = wire.answer(PRODUCE).responses
    stage.wait(lambda: stage.partition("t", 2).high_watermark == 1)
    assert [each.index for each in topic.partition_responses] == [0, 1, 2]
    codes = [each.error_code for each in topic.partition_responses]
    assert codes[0] == codes[2] == 0
    assert codes[1] in (Code.UNKNOWN_SERVER_ERROR, Code.INVALID_TIMESTAMP)
    assert (stored(stage), stored(stage, 1), stored(stage, 2)) == ([b"a"], [], [LARGE])


def test_whatever_happens_to_the_topic_meanwhile(stage: Stage, held: Held) -> None:
    wire, other = stage.wire(), stage.wire()
    wire.request(PRODUCE, produce("t", batch(LARGE)))
    held.wait()
    stage.set(TOPIC, "t", compression_type="lz4")
    held.let_go()
    held.let_go()  # once more
    assert produced(wire.answer(PRODUCE)).error_code == 0
    assert (
        read_header(
            memoryview(fetched(stage.wire().ask(FETCH, fetch("t"))).records or b"")
        ).compression
        == 3
    )

    other.request(PRODUCE, produce("t", batch(LARGE)))
    held.wait()
    stage.delete("t")
    held.let_go()
    assert produced(other.answer(PRODUCE)).error_code == Code.UNKNOWN_TOPIC_OR_PARTITION


def test_time_of_append_is_that_of_the_append(stage: Stage, held: Held) -> None:
    stage.set(TOPIC, "t", message_timestamp_type="LogAppendTime")
    wire = stage.wire()
    wire.request(PRODUCE, produce("t", batch(LARGE)))
    held.wait()
    stage.world.run(stage.world.now + 5.0)
    before = produced(stage.wire().ask(PRODUCE, produce("t", batch(b"other")))).log_append_time_ms
    held.let_go()

    assert produced(wire.answer(PRODUCE)).log_append_time_ms >= before


def test_who_has_gone_is_stored_all_the_same(stage: Stage, held: Held) -> None:
    wire = stage.wire()
    wire.request(PRODUCE, produce("t", batch(LARGE)))
    held.wait()
    stage.server_side().abort("the test says so")
    stage.wait(lambda: wire.close_reason is not None)
    held.let_go()

    stage.wait(lambda: stage.partition("t").log.end_offset == 1)


def test_a_mistake_of_ours_ends_one_request(stage: Stage, held: Held) -> None:
    wire = stage.wire()
    wire.request(PRODUCE, produce("t", batch(LARGE)))
    held.let_go(ZeroDivisionError())

    assert produced(wire.answer(PRODUCE)).error_code == Code.UNKNOWN_SERVER_ERROR
    assert produced(wire.ask(PRODUCE, produce("t", batch(b"a")))).error_code == 0
    assert stage.events("handler_failed")


def test_so_much_waits_and_no_more(stage: Stage, held: Held, lowered: Lower) -> None:
    lowered(BESIDE_BYTES, 30_000)
    wire = stage.wire()
    wire.request(PRODUCE, produce("t", batch(LARGE)))
    held.wait()

    other = stage.wire()
    assert (
        produced(other.ask(PRODUCE, produce("t", batch(LARGE[::-1])))).error_code
        == Code.REQUEST_TIMED_OUT
    )
    assert stage.counted(BESIDE_BYTES.metric) == 1
    assert len(held.jobs) == 1
    held.let_go()
    assert produced(wire.answer(PRODUCE)).base_offset == 0
    other.request(PRODUCE, produce("t", batch(LARGE)))
    held.let_go()
    assert produced(other.answer(PRODUCE)).base_offset == 1


def test_a_batch_waits_by_its_size_when_opened(stage: Stage, held: Held, lowered: Lower) -> None:
    lowered(BESIDE_BYTES, 100_000)
    records = [(b"k", b"", (), 1_700_000_000_000) for _ in range(10_000)]
    bomb = build_batch(records, compression=3)
    assert len(bomb) < 50_000
    stage.wire().request(PRODUCE, produce("t", bytes(bomb)))
    held.wait()

    assert (
        produced(stage.wire().ask(PRODUCE, produce("t", batch(LARGE)))).error_code
        == Code.REQUEST_TIMED_OUT
    )
    held.let_go()


def test_records_of_a_compacted_topic_are_walked_beside_the_loop(stage: Stage, held: Held) -> None:
    stage.create("c", configs={"cleanup_policy": "compact"})
    wire, large = stage.wire(), build_batch([(b"k", LARGE, (), 1_700_000_000_000)])
    wire.request(PRODUCE, produce("c", bytes(large)))
    held.let_go()
    assert produced(wire.answer(PRODUCE)).error_code == 0

    wire.request(PRODUCE, produce("c", batch(LARGE)))
    held.let_go()
    assert produced(wire.answer(PRODUCE)).error_code == Code.INVALID_RECORD  # there is no key


def test_a_small_one_takes_no_thread(stage: Stage, held: Held) -> None:
    assert produced(stage.wire().ask(PRODUCE, produce("t", batch(b"a")))).error_code == 0
    assert not held.jobs


def test_a_compressed_one_may_become_large(stage: Stage, held: Held) -> None:
    wire: Wire = stage.wire()
    wire.request(PRODUCE, produce("t", batch(bytes(1_000_000), compression=1)))
    held.let_go()

    assert produced(wire.answer(PRODUCE)).error_code == 0
    assert stored(stage) == [bytes(1_000_000)]


@pytest.mark.parametrize(("acks", "values"), [(1, [LARGE]), (0, [LARGE, LARGE])])
def test_what_waits_of_a_client_that_has_gone_is_not_begun_unless_it_asked_for_no_acknowledgement(
    stage: Stage, held: Held, acks: int, values: list[bytes]
) -> None:
    first, gone = stage.wire(), stage.wire()
    first.request(PRODUCE, produce("t", batch(LARGE)), 12)
    held.wait()
    row = produce("t", batch(LARGE))
    row.acks = acks
    gone.request(PRODUCE, row, 12)
    beside = stage.nodes[1].background
    stage.wait(lambda: len(beside._waiting) == 2)
    gone.close()
    stage.world.run(stage.world.now + 1)

    held.let_go()
    if acks == 0:
        held.let_go()
    stage.wait(lambda: not beside._waiting and not beside._bytes)
    stage.world.run(stage.world.now + 1)
    assert produced(first.answer(PRODUCE, 12)).error_code == 0
    assert stored(stage) == values


def garbage() -> bytes:
    """A batch that says of noise that it is gzip."""
    data = (
        bytearray(build_batch([(None, b"", (), 1_700_000_000_000)] * 10)[:BATCH_HEADER_BYTES])
        + LARGE
    )
    data[8:12] = (len(data) - 12).to_bytes(4, "big")
    data[ATTRIBUTES_POSITION + 1] = 1
    seal(memoryview(data))
    return bytes(data)


def test_a_batch_that_cannot_be_opened_leaves_nothing_in_memory(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its error's frames would hold all that was decompressed, 64 MiB of each, until the garbage is
    collected.
    """
    monkeypatch.setattr("raftka.log.validation.AT_ONCE_BYTES", 1000)
    wire = stage.wire()
    gc.collect()
    gc.disable()
    try:
        for _ in range(3):
            assert (
                produced(wire.ask(PRODUCE, produce("t", garbage()), 12)).error_code
                == Code.UNKNOWN_SERVER_ERROR
            )
        assert not [
            each for each in gc.get_objects() if isinstance(each, RefusedRecords | ProtocolError)
        ]
    finally:
        gc.enable()
