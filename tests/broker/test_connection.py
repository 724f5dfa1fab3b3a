"""A client connection without a socket: however the bytes come, frames come whole, answers leave in
order, and nobody's word is believed.
"""

from collections.abc import Callable
from struct import pack

import pytest

from raftka.broker.network.connection import (
    ARRIVALS,
    DRIP_BYTES,
    READINGS,
    TURN_S,
    Arrival,
    Reading,
    ServerConnection,
)
from raftka.broker.network.frame_pool import KEPT_BYTES, LOOK, WORTH_KEEPING_BYTES, FramePool
from raftka.limits import (
    IDLE_SECONDS,
    OUTPUT_BYTES,
    PARTIAL_BYTES,
    PARTIAL_FRAME_SECONDS,
    REQUEST_BYTES,
    REQUESTS_IN_HAND,
)
from raftka.wire.frame import FrameBuffer
from tests.broker.conftest import Lower
from tests.broker.line import Line
from tests.kit.transitions import changes_of, recorded


def frame(body: bytes) -> bytes:
    return pack(">i", len(body)) + body


FRAMES = [bytes([i]) * size for i, size in enumerate((8, 9, 70_000, 8, 300_000, 12))]


@pytest.mark.parametrize("step", [1, 2, 3, 5, 7, 4096, 100_000, 1_000_000])
@pytest.mark.parametrize("direct", [False, True])
def test_frames_come_whole_however_the_bytes_come(step: int, direct: bool) -> None:
    line = Line()
    frames = FRAMES if step > 100 else [f[:40] for f in FRAMES]

    line.feed(b"".join(map(frame, frames)), step, direct)

    assert line.frames == frames
    assert line.pool.taken_bytes == 0


@pytest.mark.parametrize("size", [-1, -(2**31), REQUEST_BYTES.value + 1, 2**31 - 1])
@pytest.mark.parametrize("step", [1, 100])
def test_a_size_that_can_not_be_closes_the_connection(size: int, step: int) -> None:
    line = Line()

    line.feed(pack(">i", size) + bytes(20), step)

    assert line.frames == []
    assert len(line.refusals) >= 1
    assert line.close_reason == line.refusals[0]


@pytest.mark.parametrize(
    ("start", "name"), [(b"GET / HTTP/1.1\r\n", "HTTP"), (b"\x16\x03\x01\x02\x00\x01", "TLS")]
)
def test_strangers_are_named_in_the_log(start: bytes, name: str) -> None:
    line = Line()

    line.feed(start, 100)

    assert name in line.refusals[0]


def test_memory_grows_with_what_comes_and_not_with_what_is_announced() -> None:
    line = Line()

    line.feed(pack(">i", REQUEST_BYTES.value) + bytes(10), 100)

    assert line.pool.taken_bytes > 0
    assert line.pool.taken_bytes <= 4096


def test_large_frames_of_many_connections_share_few_buffers() -> None:
    """One after the other, ten at a time: also the buffers in which frames begin are used again."""
    turn: list[Callable[[], None]] = []
    pool = FramePool(turn.append)
    for _ in range(100):
        buffers = [FrameBuffer(pool=pool) for _ in range(10)]
        for piece in (pack(">i", 1_000_000) + bytes(60_000), bytes(200_000), bytes(740_000)):
            for buffer in buffers:
                buffer.feed(memoryview(piece))
            while turn:
                turn.pop()()
        assert not pool.taken_bytes
    assert pool._free_bytes < 20_000_000


@pytest.mark.parametrize("size", [1_000, 100_000])
def test_a_debug_run_overwrites_a_buffer_that_comes_back_and_is_not_held(size: int) -> None:
    turn: list[Callable[[], None]] = []
    poisoned: list[bytearray] = []
    pool = FramePool(turn.append, poisoned.append)
    buffer, held = pool.take(size, size), pool.take(WORTH_KEEPING_BYTES, WORTH_KEEPING_BYTES)
    for each in (buffer, held):
        pool.give_at_turn_end(each)
    pool.hold(memoryview(held))
    while turn:
        turn.pop()()

    assert [len(each) for each in poisoned] == [size]


def test_buffers_that_nobody_needs_any_more_are_given_back() -> None:
    turn: list[Callable[[], None]] = []
    pool = FramePool(turn.append)

    def used(count: int) -> None:
        taken = [pool.take(100_000, 100_000) for _ in range(count)]
        for buffer in taken:
            pool.give_at_turn_end(buffer)
        while turn:
            turn.pop()()

    used(100)
    assert len(pool._free) == 100
    for _ in range(2 * LOOK):
        used(3)
    assert len(pool._free) == 3
    assert pool._free_bytes == 300_000
    used(2 * LOOK)
    used(100)
    assert pool._free_bytes == sum(map(len, pool._free)) <= KEPT_BYTES


def test_the_beginnings_of_frames_that_never_end_are_not_kept() -> None:
    line = Line()
    line.feed(pack(">i", 1_000_000) + bytes(200_000), 100_000)
    line.end_turn()
    assert line.pool.taken_bytes >= 200_000
    kept = line.pool._free_bytes

    line.connection.closed("gone")
    line.end_turn()
    assert (line.pool.taken_bytes, line.pool._free_bytes) == (0, kept)


def test_a_frame_for_which_there_is_no_room_is_refused(lowered: Lower) -> None:
    lowered(PARTIAL_BYTES, 20_000)
    line = Line()
    line.feed(pack(">i", 1_000_000) + bytes(16_000), 100_000)

    assert line.connection.room() is None
    assert line.close_reason is not None
    assert line.metrics.counters == {PARTIAL_BYTES.metric: 1}
    line.end_turn()
    assert line.pool.taken_bytes == 0


def test_nothing_behind_a_holding_request_is_decoded() -> None:
    line = Line()
    line.act = lambda data: line.connection.hold() if data[0] == 1 else None

    line.feed(b"".join(map(frame, FRAMES)), 100_000)
    assert line.frames == FRAMES[:2]
    assert not line.reading

    line.connection.release()
    assert line.frames == FRAMES
    assert line.reading


def test_answers_leave_in_the_order_of_their_requests() -> None:
    line = Line()
    line.act = lambda data: line.slots.append(line.connection.slot())
    line.feed(b"".join(map(frame, FRAMES)), 1_000_000)

    line.connection.answer([b"last"])
    line.slots[1].complete([b"1"])
    assert line.connection.take_output() == []
    line.slots[0].complete([b"0a", b"0b"])
    assert line.connection.take_output() == [b"0a", b"0b", b"1"]
    for slot in line.slots[2:]:
        slot.complete([b"x"])
    assert line.connection.take_output() == [b"x", b"x", b"x", b"x", b"last"]


def test_too_many_requests_in_hand_wait_in_the_kernel() -> None:
    line = Line()

    def park(data: bytes) -> None:
        line.connection.check_crowded()
        line.slots.append(line.connection.slot())

    line.act = park
    line.feed(frame(bytes(8)) * (REQUESTS_IN_HAND.value + 50), 1_000_000)

    assert len(line.frames) <= REQUESTS_IN_HAND.value + 1
    assert not line.reading
    assert line.metrics.counters == {REQUESTS_IN_HAND.metric: 1}
    while line.slots:
        line.slots.pop(0).complete([b"done"])
    assert len(line.frames) == REQUESTS_IN_HAND.value + 50
    assert line.reading


def test_who_does_not_read_is_not_read_from() -> None:
    line = Line()

    def answer(data: bytes) -> None:
        line.connection.answer([bytes(100_000)], 100_000)

    line.act = answer
    line.feed(frame(bytes(8)) * 200, 1_000_000)

    assert len(line.frames) <= OUTPUT_BYTES.value // 100_000 + 2
    assert not line.reading
    assert line.metrics.counters == {OUTPUT_BYTES.metric: 1}
    while not line.reading:
        assert line.connection.take_output()
    assert len(line.frames) == 200


def test_who_has_said_all_still_gets_the_answers() -> None:
    line = Line()
    line.act = lambda data: line.slots.append(line.connection.slot())
    line.feed(frame(bytes(8)), 100)

    line.connection.receive(memoryview(b""))
    assert line.close_reason is None
    line.slots[0].complete([b"answer"])
    assert line.connection.take_output() == [b"answer"]
    assert line.close_reason is not None


def test_half_a_frame_and_the_end_closes() -> None:
    line = Line()
    line.feed(frame(bytes(100))[:50], 100)

    line.connection.receive(memoryview(b""))

    assert line.close_reason is not None


def test_what_was_whole_before_the_garbage_is_answered() -> None:
    line = Line()
    line.act = lambda data: line.connection.answer([data])

    line.feed(frame(FRAMES[0]) + frame(FRAMES[1]) + pack(">i", -1) + bytes(20), 100)

    assert line.connection.take_output() == FRAMES[:2]
    assert line.close_reason is not None
    assert len(line.refusals) == 1


def test_an_abort_takes_back_what_has_not_left() -> None:
    line = Line()
    line.act = lambda data: line.connection.answer([data])
    line.feed(frame(FRAMES[0]), 100)

    line.connection.abort("the log could not be written")

    assert line.connection.take_output() == []
    assert line.dropped


def test_a_muted_connection_is_not_read_until_its_time() -> None:
    line = Line()
    line.act = lambda data: (
        line.connection.mute(7.5) if data[0] == 1 else line.connection.answer([data])
    )

    line.feed(b"".join(map(frame, FRAMES)), 100_000)
    assert line.frames == FRAMES[:2]
    assert line.connection.take_output() == [FRAMES[0]]
    assert not line.reading
    ((when, unmute),) = line.timers

    assert when == 7.5
    unmute()
    assert line.frames == FRAMES
    assert line.reading


@pytest.mark.parametrize("size", [1, DRIP_BYTES - 1])
def test_a_drip_is_silence(size: int) -> None:
    line = Line()
    line.feed(pack(">i", 1_000_000), 4)
    line.connection.overdue(20.0)

    found = []
    for _ in range(3):
        line.feed(bytes(size), size)
        found.append(line.connection.overdue(20.0))

    assert found == [None, None, PARTIAL_FRAME_SECONDS]


def test_a_large_frame_that_goes_on_may_take_its_time() -> None:
    line = Line()
    line.feed(pack(">i", 10_000_000), 4)

    for _ in range(20):
        line.feed(bytes(DRIP_BYTES), DRIP_BYTES)
        assert line.connection.overdue(20.0) is None


def test_who_is_silent_is_overdue_and_who_is_held_is_not_to_blame() -> None:
    silent, held = Line(), Line()
    held.act = lambda data: held.connection.hold()
    held.feed(frame(FRAMES[0]) + frame(FRAMES[1])[:20], 1000)

    for line in (silent, held):
        line.connection.overdue(PARTIAL_FRAME_SECONDS.value)
        assert line.connection.overdue(PARTIAL_FRAME_SECONDS.value) is None
        assert line.connection.overdue(IDLE_SECONDS.value) is IDLE_SECONDS


def test_who_waits_for_more_to_send_hears_that_nobody_is_there() -> None:
    line = Line()
    heard: list[bool] = []
    line.act = lambda data: line.slots.append(
        line.connection.slot(lambda: heard.append(line.connection.gone))
    )
    line.feed(frame(FRAMES[0]), 100)

    line.connection.closed("the client went away")

    assert heard == [True]


def test_answers_that_were_waited_for_count_as_output() -> None:
    line = Line()
    line.act = lambda data: line.slots.append(line.connection.slot())
    line.feed(frame(FRAMES[0]), 100)

    line.slots[0].complete([bytes(OUTPUT_BYTES.value + 1)])

    assert not line.reading
    assert line.metrics.counters == {OUTPUT_BYTES.metric: 1}


def busy(count: int) -> Line:
    """So many requests have come at once, and each takes longer than a connection has in a turn."""
    line = Line()
    clock = iter(range(1000))
    line.now = line.cpu_s = lambda: next(clock) * TURN_S * 2
    line.act = lambda frame: line.connection.answer((frame,))
    line.feed(b"".join(frame(b"%08d" % number) for number in range(count)), 1 << 20)
    return line


def later(line: Line) -> None:
    timers, line.timers = line.timers, []
    for _, action in timers:
        action()


def test_who_asks_for_much_has_a_turn_and_then_others_have_theirs() -> None:
    line = busy(4)
    assert line.frames == [b"00000000"]
    assert not line.reading

    turns = 0
    while line.timers:
        later(line)
        turns += 1

    assert turns >= 2
    assert line.frames == [b"%08d" % number for number in range(4)]
    assert line.connection.take_output() == line.frames
    assert line.reading


def test_who_ends_before_all_is_answered_is_closed_when_it_is() -> None:
    line = busy(3)

    line.connection.receive(memoryview(b""))
    assert line.close_reason is None
    while line.timers:
        later(line)

    assert line.connection.take_output() == line.frames
    assert len(line.frames) == 3
    assert line.close_reason == "closed by the other side"


def test_every_transition_of_a_connection_happens() -> None:
    """One connection ends before the client has closed its side, one after."""
    with (
        recorded(ServerConnection, "_arrival") as arrivals,
        recorded(ServerConnection, "_reading") as readings,
    ):
        for client_ends in (False, True):
            line = Line()
            connection = line.connection
            connection.hold()
            connection.out_bytes = OUTPUT_BYTES.value + 1
            connection.check_crowded()  # a request that holds, and too many answers behind it
            connection.take_output()
            assert not line.reading
            connection.release()
            assert line.reading
            connection.answer([bytes(OUTPUT_BYTES.value + 1)])
            assert not line.reading
            connection.take_output()
            connection.mute(1.0)
            line.timers.pop()[1]()
            assert line.reading
            if client_ends:
                connection.slot()
                connection.receive(memoryview(b""))
            connection.end("the broker stops")
            connection.receive(memoryview(frame(FRAMES[0])))
            assert line.frames == []

    assert arrivals == changes_of(ARRIVALS)
    assert readings == changes_of(READINGS)
    assert set(ARRIVALS) == set(Arrival)
    assert set(READINGS) == set(Reading)
