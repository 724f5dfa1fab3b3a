"""Rows about throughput: which load, which figure of it counts, and what it must reach. Runs
nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass

MIB = 1024 * 1024
# Fresh page cache costs more than the broker on some machines (a virtual one gives freed memory
# back): segments that come again are measured, not the host. All keep two of 64 MiB; raftka and
# Kafka look each second whether there are more, and wait for Kafka's minute before they let a
# deleted file go. raftka writes new segments over the files of deleted ones, the others make new
# files. Neither Kafka nor the floor flushes here; raftka does the same with flush=os.
ONE_NODE: Mapping[str, str] = {
    "log.segment.bytes": str(64 * MIB),
    "log.retention.bytes": str(128 * MIB),
    "log.retention.check.interval.ms": "1000",
    "log.segment.delete.delay.ms": "60000",
    "raftka.log.flush": "os",
}
# Kafka flushes before it answers only when told so; raftka always does.
THREE_NODES: Mapping[str, str] = {
    **{name: ONE_NODE[name] for name in ONE_NODE if name != "raftka.log.flush"},
    "min.insync.replicas": "2",
}
FLUSHED: Mapping[str, str] = {"flush.messages": "1"}


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    title: str
    load: str  # of lg
    figure: str  # of lg's answer; the less the better
    unit: str
    goal: float  # times the floor
    partitions: int = 1
    filled_by: str = ""  # of lg, before
    flushed: bool = False  # each batch, before its answer; the floor never flushes


ROWS = (
    Row(
        "produce-1m",
        "produce 1 MB batches, five in flight",
        "produce -b 1000000 -s 1000 -d 5",
        "s_GB",
        "CPU-s/GB",
        1.1,
    ),
    Row(
        "produce-1m-flushed",
        "produce 1 MB batches, five in flight, each flushed",
        "produce -b 1000000 -s 1000 -d 5",
        "s_GB",
        "CPU-s/GB",
        1.25,
        flushed=True,
    ),
    Row(
        "produce-16k",
        "produce 16 KB batches, five in flight",
        "produce -b 16384 -d 5",
        "s_GB",
        "CPU-s/GB",
        1.35,
    ),
    Row(
        "single",
        "single-record produce, 50 connections",
        "produce -b 1 -c 50",
        "us_req",
        "us of CPU a request",
        1.9,
    ),
    Row(
        "single-deep",
        "single-record produce, 50 connections, five in flight",
        "produce -b 1 -c 50 -d 5",
        "us_req",
        "us of CPU a request",
        1.7,
    ),
    Row(
        "single-one",
        "single-record produce, one connection",
        "produce -b 1",
        "us_req",
        "us of CPU a request",
        2.2,
    ),
    Row(
        "fetch-1m",
        "fetch 1 MB",
        "fetch -b 1000000 -s 1000 -k 32",
        "s_GB",
        "CPU-s/GB",
        1.3,
        filled_by="produce -b 1000000 -s 1000 -m 40",
    ),
    Row(
        "fetch-64k",
        "fetch 64 KB",
        "fetch -b 65536 -k 32",
        "s_GB",
        "CPU-s/GB",
        1.5,
        filled_by="produce -b 65536 -m 40",
    ),
)
WIDE = tuple(
    Row(
        f"wide-{count}",
        f"one record to each of {count} partitions",
        "wide -b 1 -a -1",
        "p50us",
        "us",
        0,
        count,
        flushed=True,
    )
    for count in (1, 150)
)
REPLICATED = Row(
    "replicated",
    "RF 3, acks=all, 100 KB batches on three partitions, flushed",
    "produce -b 100000 -s 1000 -c 3 -d 5 -a -1",
    "s_GB",
    "CPU-s/GB",
    0,
    3,
    flushed=True,
)
# Small requests at RF 3: each waits for two followers, so most of its cost is waking up.
SMALL = (
    Row(
        "small-16k",
        "16 KB batches on three partitions, five in flight",
        "produce -b 16384 -c 3 -d 5 -a -1",
        "us_req",
        "us",
        0,
        3,
        flushed=True,
    ),
    Row(
        "small-one",
        "single records, one connection",
        "produce -b 1 -a -1",
        "us_req",
        "us",
        0,
        flushed=True,
    ),
    Row(
        "small-light",
        "single records, 200 a second",
        "produce -b 1 -a -1 -r 200",
        "us_req",
        "us",
        0,
        flushed=True,
    ),
)
