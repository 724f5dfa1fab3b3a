"""The order for a compaction, and its results: plain values, because it runs in a process of its
own. The names its files have on the way.
"""

from typing import NamedTuple

CLEANED = ".cleaned"  # a new segment that may not be whole
SWAP = ".swap"  # one that is, on its way to the place of those it was made of

NO_HORIZON = -1


class Job(NamedTuple):
    directory: str
    segments: list[tuple[int, int]]  # base offset and size of all before `end`
    first_dirty: int
    end: int  # a segment begins there, and stays as it is
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    index_bytes: int
    index_interval_bytes: int
    map_bytes: int  # of memory for keys
    read_bytes: int
    # of each that is remembered: last offset (-1: it has no data) and epoch
    producers: dict[int, tuple[int, int]]
    aborted: list[tuple[int, ...]]  # as AbortedTransaction


class Cleaned(NamedTuple):
    """A new segment in the place of some: what the log needs to go on with it."""

    bases: list[int]  # of those it replaces
    size: int
    offset_index: bytes
    time_index: bytes
    transaction_index: bytes
    first_timestamp: int
    max_timestamp: int
    max_timestamp_offset: int


class Ended(NamedTuple):
    clean_until: int  # before it every key is there once
    bytes_read: int
    bytes_written: int
    keys: int
    # when the first of the tombstones that are left may go; NO_HORIZON: there are none
    next_horizon_ms: int
    unreadable: int  # batches that were kept as they are, because their payload is none
