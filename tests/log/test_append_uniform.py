"""Batches of one size that are appended together: the log is what it is when they are appended one
by one, or nothing was done.
"""

from collections.abc import Callable, Sequence
from random import Random
from struct import Struct, pack_into
from typing import Any

import pytest

from raftka.log.log import Log
from raftka.wire.errors import Code, KafkaError
from raftka.wire.records import seal
from tests.log.given import NOW, batch, checkpoint, content, disk, flush, open_log, read_all

HOUR = 3_600_000


def append_alike(
    log: Log, batches: Sequence[memoryview], epoch: int = 0, now: int = NOW
) -> list[int] | None:
    """As the fast path of Produce cuts them."""
    crcs = tuple(int.from_bytes(each[17:21]) for each in batches)
    pack = Struct(">" + f"q9sI{len(batches[0]) - 21}s" * len(batches)).pack
    return log.client_batches.append_uniform(
        bytes(batches[0][:17]),
        tuple(bytes(each[21:61]) for each in batches),
        crcs,
        tuple(bytes(each[21:]) for each in batches),
        pack,
        epoch,
        now,
    )


def copies(batches: Sequence[memoryview]) -> list[memoryview]:
    return [memoryview(bytearray(each)) for each in batches]


def changed(
    original: memoryview, layout: str, position: int, value: int, *, sealed: bool = True
) -> memoryview:
    copy = memoryview(bytearray(original))
    pack_into(layout, copy, position, value)
    if sealed:
        seal(copy)
    return copy


def state(log: Log) -> dict[str, Any]:
    """All that a log knows, but for what it has staged."""
    log.write_staged()
    flush(log)
    segments = []
    for each in log.segments:
        indexes = (
            list(each.offset_index.offsets),
            list(each.offset_index.positions),
            each.time_index.encoded(),
        )
        segments.append(
            (
                each.base_offset,
                each.size,
                each.since_index,
                each.max_timestamp,
                each.max_timestamp_offset,
                each.first_timestamp,
                *indexes,
            )
        )
    ends = (
        log.start_offset,
        log.end_offset,
        log.written_offset,
        log.flushed_offset,
        log.appended_bytes,
    )
    return {
        "ends": ends,
        "segments": segments,
        "epochs": log.epochs.entries(),
        "producers": dict(log.producers.producers),
    }


def begun(**config: Any) -> Log:
    """A log that has a batch already: the first of a segment goes the long way."""
    log = open_log(**config)
    log.client_batches.append(batch(1), 0, NOW)
    return log


def group(random: Random, now: int) -> list[memoryview]:
    """Batches of one size, most of them as a client sends them in one go."""
    records, size = random.choice([1, 1, 1, 2, 5]), random.choice([10, 10, 100])
    times = [now] * 8 if random.random() < 0.6 else [now + random.randint(-2, 2) for _ in range(8)]
    made = [
        batch(records, size=size, seed=random.getrandbits(32), timestamp=times[at])
        for at in range(random.randint(1, 8))
    ]
    if random.random() < 0.2:
        odd = random.randrange(len(made))
        layout, position, value = random.choice(
            [
                (">b", len(made[odd]) - 1, 5),
                (">h", 21, 1),
                (">h", 21, 8),
                (">q", 43, 9),
                (">i", 57, 3),
            ]
        )
        made[odd] = changed(made[odd], layout, position, value, sealed=random.random() < 0.7)
    return made


def answered(log: Log, batches: Sequence[memoryview], epoch: int, now: int) -> list[int | Code]:
    """Base offsets and codes, when they are appended one by one."""
    answers: list[int | Code] = []
    for each in batches:
        try:
            answers.append(log.client_batches.append(each, epoch, now)[0])
        except KafkaError as error:
            answers.append(error.code)
    return answers


@pytest.mark.parametrize("seed", range(60))
def test_together_and_one_by_one_make_the_same_log(seed: int) -> None:
    random = Random(seed)
    config: dict[str, Any] = {
        "segment_bytes": random.choice([900, 4000, 1 << 20]),
        "index_interval_bytes": random.choice([0, 200, 4096]),
        "segment_ms": HOUR,
    }
    disks = disk(), disk()
    together, alone = (open_log(files, **config) for files in disks)
    now, epoch, taken = NOW, 0, 0
    for _ in range(40):
        now += random.choice([0, 0, 1, 5, 100, HOUR // 3])
        epoch += random.random() < 0.05
        batches = group(random, now)

        bases = append_alike(together, copies(batches), epoch, now)

        taken += bases is not None
        expected = answered(alone, copies(batches), epoch, now)
        assert expected == (
            bases if bases is not None else answered(together, copies(batches), epoch, now)
        )
        if random.random() < 0.5:
            assert state(together) == state(alone)
    assert state(together) == state(alone)
    assert taken > 2
    for log in (together, alone):
        checkpoint(log)
        log.close(clean=True)
    first, second = (
        {name: bytes(inode.data) for name, inode in files.names.items()} for files in disks
    )
    assert first == second


PLAIN = batch(1, size=40)
# settings of the log, batches that are alike
LEFT_OUT: dict[str, tuple[dict[str, Any], Callable[[], Sequence[memoryview]]]] = {
    "base offset": ({}, lambda: [changed(PLAIN, ">q", 0, 7)] * 3),
    "length": ({}, lambda: [changed(PLAIN, ">i", 8, len(PLAIN) - 13)] * 3),
    "magic": ({}, lambda: [changed(PLAIN, ">b", 16, 1)] * 3),
    "compressed": ({}, lambda: [changed(PLAIN, ">h", 21, 1)] * 3),
    "codec 5": ({}, lambda: [changed(PLAIN, ">h", 21, 5)] * 3),
    "LogAppendTime": ({}, lambda: [changed(PLAIN, ">h", 21, 8)] * 3),
    "transactional": ({}, lambda: [changed(PLAIN, ">h", 21, 0x10)] * 3),
    "control": ({}, lambda: [changed(PLAIN, ">h", 21, 0x20)] * 3),
    "last offset delta": ({}, lambda: [changed(PLAIN, ">i", 23, 1)] * 3),
    "no records": ({}, lambda: [changed(changed(PLAIN, ">i", 57, 0), ">i", 23, -1)] * 3),
    "more records than bytes for them": (
        {},
        lambda: [changed(changed(PLAIN, ">i", 57, 1000), ">i", 23, 999)] * 3,
    ),
    "one has more records": (
        {},
        lambda: [PLAIN, changed(changed(PLAIN, ">i", 57, 2), ">i", 23, 1), PLAIN],
    ),
    "of a producer with an id": (
        {},
        lambda: [batch(1, size=40, producer=7, sequence=at) for at in range(3)],
    ),
    "one of a producer with an id": ({}, lambda: [PLAIN, changed(PLAIN, ">q", 43, 7), PLAIN]),
    "one is compressed": ({}, lambda: [PLAIN, changed(PLAIN, ">h", 21, 1), PLAIN]),
    "too large": ({"max_message_bytes": len(PLAIN) - 1}, lambda: [PLAIN] * 3),
    "LogAppendTime of the topic": (
        {"message_timestamp_type": "LogAppendTime"},
        lambda: [PLAIN] * 3,
    ),
    "another codec of the topic": ({"compression_type": "gzip"}, lambda: [PLAIN] * 3),
    "records are looked at": ({"validation": "records"}, lambda: [PLAIN] * 3),
    "too new": ({"message_timestamp_after_max_ms": 10}, lambda: [batch(1, timestamp=NOW + 11)] * 3),
    "one is too new": (
        {"message_timestamp_after_max_ms": 10},
        lambda: [batch(1, timestamp=NOW + at) for at in (0, 11, 0)],
    ),
    "too old": (
        {"message_timestamp_before_max_ms": 10},
        lambda: [batch(1, timestamp=NOW - 11)] * 3,
    ),
    "one is too old": (
        {"message_timestamp_before_max_ms": 10},
        lambda: [batch(1, timestamp=NOW - at) for at in (0, 11, 0)],
    ),
    "no room in the segment": (
        {"segment_bytes": len(batch(1)) + 3 * len(PLAIN) - 1},
        lambda: [PLAIN] * 3,
    ),
    "one is too late for the segment": (
        {"segment_ms": 10},
        lambda: [batch(1, timestamp=NOW + at) for at in (0, 0, 11)],
    ),
    "the first CRC": ({}, lambda: [changed(PLAIN, ">I", 17, 1, sealed=False), PLAIN, PLAIN]),
    "the last CRC": ({}, lambda: [PLAIN, PLAIN, changed(PLAIN, ">I", 17, 1, sealed=False)]),
    "two CRCs, one the other's": ({}, lambda: swapped_crcs(PLAIN, batch(1, size=40, seed=1))),
}


def swapped_crcs(first: memoryview, second: memoryview) -> list[memoryview]:
    of_first, of_second = (int.from_bytes(each[17:21]) for each in (first, second))
    return [
        changed(first, ">I", 17, of_second, sealed=False),
        changed(second, ">I", 17, of_first, sealed=False),
    ]


@pytest.mark.parametrize(("config", "batches"), LEFT_OUT.values(), ids=LEFT_OUT)
def test_where_anything_is_not_plain_nothing_is_done(
    config: dict[str, Any], batches: Callable[[], Sequence[memoryview]]
) -> None:
    log = begun(**config)
    before = state(log)

    assert append_alike(log, batches()) is None
    assert state(log) == before


def test_the_same_batches_without_what_is_wrong_are_taken() -> None:
    sizes = {"max_message_bytes": len(PLAIN), "segment_bytes": len(batch(1)) + 3 * len(PLAIN)}
    times = {
        "message_timestamp_after_max_ms": 10,
        "message_timestamp_before_max_ms": 10,
        "segment_ms": 10,
    }
    assert append_alike(begun(**sizes), [PLAIN] * 3) == [1, 2, 3]
    assert append_alike(begun(**times), [batch(1, timestamp=NOW + at) for at in (-10, 10, 0)]) == [
        1,
        2,
        3,
    ]


def test_offsets_end_where_the_indexes_of_a_segment_do() -> None:
    log = begun()
    log.segments.roll_offset = 4
    assert append_alike(log, [PLAIN] * 4) is None
    assert append_alike(log, [PLAIN] * 3) == [1, 2, 3]


def test_the_first_of_a_segment_and_of_an_epoch_go_the_long_way() -> None:
    log = open_log()
    log.assign_epoch(0)
    assert append_alike(log, [PLAIN] * 3) is None
    log = begun()
    assert append_alike(log, [PLAIN] * 3, epoch=1) is None
    assert log.latest_epoch == 0


def test_a_log_that_has_failed_takes_none() -> None:
    files = disk()
    log = open_log(files)
    log.client_batches.append(batch(1), 0, NOW)
    log.write_staged()
    log.client_batches.append(batch(1), 0, NOW)
    files.room = 0
    with pytest.raises(OSError, match="space"):
        log.write_staged()

    assert append_alike(log, [PLAIN] * 3) is None
    assert log.end_offset == 1


def test_the_leader_sets_offset_and_epoch_of_each() -> None:
    log = open_log()
    log.client_batches.append(batch(1), 7, NOW)
    sent = [batch(2, size=40, seed=at) for at in range(3)]

    assert append_alike(log, copies(sent), epoch=7) == [1, 3, 5]

    state(log)
    stored = read_all(log, 1)
    assert [(each.base_offset, each.last_offset, each.leader_epoch) for each in stored] == [
        (1, 2, 7),
        (3, 4, 7),
        (5, 6, 7),
    ]
    data = content(log.read(1, 1 << 20, 7)[0])
    size = len(sent[0])
    for at, each in enumerate(sent):
        assert data[at * size + 17 : (at + 1) * size] == each[17:]
