"""Compaction beside a model of a few lines, over generated records: what stays is exactly what
must, byte for byte as it was read before.
"""

from hypothesis import given, settings
from hypothesis import strategies as st

from raftka.log.log import Log
from raftka.log.rows import all_rows, body_of, digest
from raftka.wire.records import BATCH_HEADER, NewRecord, Record, build_batch, records_of
from tests.log.compacting import batches, clean, records, seal
from tests.log.given import NOW, append, disk, open_log

KEYS = st.sampled_from(
    [b"", b"a", b"b", b"c", b"k" * 63, b"k" * 64, b"k" * 65, b"k" * 64 + b"x", bytes(9000)]
)
VALUES = st.one_of(st.none(), st.binary(max_size=20), st.sampled_from([b"v" * 100, b"v" * 9000]))
TIMES = st.sampled_from([0, 1, 63, 64, -1, -64, -65, 8191, 8192, -8192, -8193, 10**7, -(10**7)])
HEADERS = st.sampled_from([[], [("h", b"1")], [("h", None), ("", b"")]])
RECORDS = st.tuples(KEYS, VALUES, HEADERS, TIMES.map(lambda delta: NOW + delta))
BATCHES = st.lists(
    st.tuples(st.integers(0, 4), st.lists(RECORDS, min_size=1, max_size=12)),
    min_size=1,
    max_size=12,
)


@given(
    codec=st.integers(0, 4),
    rows=st.lists(RECORDS, min_size=1, max_size=8),
    copies=st.sampled_from([1, 1, 20, 200]),
)
@settings(derandomize=True, deadline=None, max_examples=80)
def test_the_fast_way_to_keys_and_times_reads_what_the_thorough_one_does(
    codec: int, rows: list[NewRecord], copies: int
) -> None:
    rows = [
        row for row in rows if len(row[0] or b"") < 100 and len(row[1] or b"") < 1000
    ] * copies or rows
    data = bytes(build_batch(rows, base_offset=7, compression=codec))
    header = BATCH_HEADER.unpack_from(data)

    found = all_rows(*body_of(data, 0, header), header)

    def told(record: Record) -> tuple[int, int, object, bool]:
        key = record.key if len(record.key or b"") < 64 else digest(record.key or b"")
        return record.timestamp, record.offset, key, record.value is None

    assert [
        (header[7] + (time >> 1 ^ -(time & 1)), 7 + delta, key, null)
        for _, _, time, delta, key, null in found
    ] == [told(record) for record in records_of(memoryview(data))]


def expected(before: list[Record], dirty_end: int, gone_tombstones: set[int]) -> list[Record]:
    last = {record.key: record.offset for record in before if record.offset < dirty_end}
    return [
        record
        for record in before
        if record.offset >= dirty_end
        or (record.offset >= last[record.key] and record.offset not in gone_tombstones)
    ]


@given(
    parts=st.lists(BATCHES, min_size=1, max_size=3),
    segment=st.sampled_from([9500, 20_000, 1 << 20]),
    read=st.sampled_from([61, 4096, 1 << 20]),
)
@settings(derandomize=True, deadline=None, max_examples=60)
def test_what_stays_is_what_must(
    parts: list[list[tuple[int, list[NewRecord]]]], segment: int, read: int
) -> None:
    files = disk()
    log: Log = open_log(
        files,
        cleanup_policy="compact",
        segment_bytes=max(segment, 120_000),
        delete_retention_ms=1000,
        message_timestamp_after_max_ms=10**9,
    )
    waiting: dict[int, int] = {}  # tombstones by offset: when they may go
    now = NOW
    for part in parts:
        for codec, rows in part:
            append(log, memoryview(build_batch(rows, compression=codec)), now=now)
        if part is not parts[-1] or len(part) % 2:
            seal(log, now)
        before = records(log)
        bounds = {header.base_offset: header.last_offset for header, _ in batches(log)}
        end = log.segments.active.base_offset
        gone = {offset for offset, since in waiting.items() if since <= now}

        ended = clean(files, log, now, read_bytes=read)

        assert records(log) == (before if ended is None else expected(before, end, gone))
        assert all(bounds[header.base_offset] == header.last_offset for header, _ in batches(log))
        for header, view in batches(log):
            for record in records_of(view):
                if record.value is None and record.offset < end:
                    waiting.setdefault(record.offset, header.base_timestamp)
        now += 700
