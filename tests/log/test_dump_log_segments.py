"""Apache Kafka's own DumpLogSegments reads what the log wrote and finds no error. Runs where java
and mvn are, and says so where not.
"""

import json
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import pytest

from raftka.coordinator.transactions.records import NONE as NO_PARTITIONS
from raftka.coordinator.transactions.records import (
    Growing,
    State,
    Transaction,
    tombstone,
    transaction_record,
)
from raftka.log.config import LogConfig
from raftka.log.log import Log
from raftka.runtime.interfaces import File
from raftka.runtime.real.files import RealFiles
from raftka.wire.records import build_batch
from tests.kit.kafka_jars import classpath, pytestmark
from tests.log.compacting import batches, clean, pairs_batch, records
from tests.log.given import NOW, append, batch, checkpoint, end_transaction, flush, in_transaction

__all__ = ["classpath", "pytestmark"]
CODECS = (0, 1, 2, 3, 4)
# of every segment that begins behind 0
OF_KAFKAS_OWN = re.compile(
    r"^Non-consecutive offsets in \S+\n +-1 is followed by \d+$", re.MULTILINE
)
COMPLAINTS = re.compile(
    r"mismatch|non-consecutive|out of order|corrupt|error|exception|not found|could not|isvalid: "
    r"false|should|invalid",
    re.IGNORECASE,
)


def dump(classpath: str, directory: Path, *suffixes: str, options: Sequence[str] = ()) -> str:
    paths = ",".join(
        str(path) for suffix in suffixes for path in sorted(directory.glob(f"*{suffix}"))
    )
    command = [
        "java",
        "-cp",
        classpath,
        "org.apache.kafka.tools.DumpLogSegments",
        "--files",
        paths,
        "--deep-iteration",
        "--print-data-log",
        *options,
    ]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    logging = [
        line
        for line in result.stderr.splitlines()
        if "log4j" not in line.lower() and "slf4j" not in line.lower()
    ]
    assert result.returncode == 0, result.stderr
    return OF_KAFKAS_OWN.sub("", "\n".join([result.stdout, *logging]))


@pytest.fixture
def files() -> Iterator[RealFiles]:
    files = RealFiles(lambda action: action())
    yield files
    files.stop()


def lived(files: RealFiles, directory: Path) -> int:
    """A log of many segments after rolls, a truncation, retention, a segment written over another,
    a kill, a clean end; and its number of records.
    """
    directory.mkdir()
    config = LogConfig(segment_bytes=4000, index_interval_bytes=300)
    killed = RealFiles(lambda action: action())
    log = Log.open(killed, str(directory), config, NOW, clean_shutdown=False)
    sequence = 0
    for at in range(120):
        count = 1 + at % 5
        time = NOW + 10 * at - (500 if at % 7 == 0 else 0)
        append(
            log,
            batch(
                count,
                seed=at,
                size=40,
                compression=CODECS[at % 5],
                producer=9,
                sequence=sequence,
                timestamp=time,
            ),
            epoch=at // 30,
        )
        sequence += count
    log.truncate_to(log.segments[-2].base_offset)
    append(log, *(batch(2, seed=at, timestamp=NOW + 3000) for at in range(60)), epoch=7)
    log.set_start_offset(log.segments[2].base_offset)
    checkpoint(log)
    retired: list[File] = []
    log.segments.on_retired = retired.append
    assert log.delete_old_segments(NOW, log.end_offset) == 2
    flush(log)
    log.segments.recycled.directory_flushed()
    assert [log.segments.recycled.release(file, 0.0) for file in retired] == [True, True]
    while not log.segments.active.is_over:
        append(log, batch(2, timestamp=NOW + 3500), epoch=7)
    killed.stop()  # what it removes in the background is gone, or stays

    log = Log.open(
        files,
        str(directory),
        config,
        NOW,
        clean_shutdown=False,
        recovery_point=log.segments[4].base_offset,
    )
    append(
        log,
        *(
            batch(2, seed=at, producer=10, sequence=2 * at, timestamp=NOW + 4000)
            for at in range(20)
        ),
        epoch=8,
    )
    log.close(clean=True)
    assert len(log.segments) > 3
    return log.end_offset - log.start_offset


def test_it_reads_every_file_and_finds_no_error(
    classpath: str, files: RealFiles, tmp_path: Path
) -> None:
    records = lived(files, tmp_path / "t-0")

    told = dump(classpath, tmp_path / "t-0", ".log", ".index", ".timeindex", ".snapshot")

    assert not COMPLAINTS.search(told), COMPLAINTS.findall(told)
    assert len(re.findall(r"^\| offset: ", told, re.MULTILINE)) == records
    assert told.count("isvalid: true") == told.count("baseOffset: ")
    for suffix, line, size in (
        (".index", "offset: [0-9]+ position", 8),
        (".timeindex", "timestamp: [0-9]+ offset", 12),
    ):
        entries = sum(path.stat().st_size // size for path in (tmp_path / "t-0").glob(f"*{suffix}"))
        assert len(re.findall(f"^{line}", told, re.MULTILINE)) == entries > 5
    assert {"producerId: 9 producerEpoch: 0", "producerId: 10 producerEpoch: 0"} <= set(
        re.findall(r"producerId: \d+ producerEpoch: \d+", told)
    )


# a compacted log has them
GAPS = re.compile(r"^Non-consecutive offsets in \S+\n(?: +\d+ is followed by \d+\n)+", re.MULTILINE)


@pytest.mark.parametrize("codec", CODECS)
def test_it_finds_nothing_but_gaps_in_a_compacted_log(
    classpath: str, files: RealFiles, tmp_path: Path, codec: int
) -> None:
    (tmp_path / "t-0").mkdir()
    config = LogConfig(
        segment_bytes=4000,
        index_interval_bytes=300,
        cleanup_policy="compact",
        delete_retention_ms=1000,
    )
    log = Log.open(files, str(tmp_path / "t-0"), config, NOW, clean_shutdown=False)
    # all that is left of it is an empty batch
    append(log, pairs_batch((b"0", b"soon another"), producer=9, compression=codec))
    random = Random(codec)
    for part in range(3):
        for at in range(60):
            pairs = [
                (
                    b"%d" % random.randrange(40),
                    None if random.random() < 0.2 else b"x" * random.randrange(90),
                )
                for _ in range(1 + at % 4)
            ]
            append(
                log,
                pairs_batch(
                    *pairs,
                    timestamp=NOW + 1000 * part + at,
                    compression=codec,
                    producer=at % 3,
                    sequence=sequence(log, at % 3),
                ),
                now=NOW + 2500,
            )
        assert clean(files, log, NOW + 1000 * part) is not None
    left = len(records(log))
    assert left < 150
    assert any(header.count == 0 for header, _ in batches(log))
    log.close(clean=True)

    told = dump(classpath, tmp_path / "t-0", ".log", ".index", ".timeindex", ".snapshot")

    assert not COMPLAINTS.search(GAPS.sub("", told)), COMPLAINTS.findall(GAPS.sub("", told))
    assert len(re.findall(r"^\| offset: ", told, re.MULTILINE)) == left
    assert told.count("isvalid: true") == told.count("baseOffset: ")
    assert "deleteHorizonMs" in told


def sequence(log: Log, producer: int) -> int:
    known = log.producers.producers.get(producer)
    return known.next_sequence if known else 0


def test_it_would_find_one(classpath: str, files: RealFiles, tmp_path: Path) -> None:
    lived(files, tmp_path / "t-0")
    index = sorted((tmp_path / "t-0").glob("*.index"))[-1]
    data = bytearray(index.read_bytes())
    data[3] ^= 1
    index.write_bytes(data)

    assert COMPLAINTS.search(dump(classpath, tmp_path / "t-0", ".index"))


# transactions


def lived_with_transactions(files: RealFiles, directory: Path) -> Log:
    """A log of many segments with transactions of both versions that were committed, aborted, cut
    and left open, after a kill and a clean end.
    """
    directory.mkdir()
    config, random = LogConfig(segment_bytes=3000, index_interval_bytes=300), Random(5)
    killed = RealFiles(lambda action: action())
    log = Log.open(killed, str(directory), config, NOW, clean_shutdown=False)
    for at in range(150):
        write(
            log,
            producer=random.randrange(1, 5),
            commit=random.random() < 0.4,
            ends=random.random() < 0.4,
            size=1 + at % 90,
        )
    cut = log.segments[-2].base_offset
    log.truncate_to(cut)
    checkpoint(log)
    killed.stop()

    log = Log.open(
        files,
        str(directory),
        config,
        NOW,
        clean_shutdown=False,
        recovery_point=log.segments[3].base_offset,
    )
    for at in range(90):
        write(
            log,
            producer=random.randrange(1, 5),
            commit=random.random() < 0.4,
            ends=random.random() < 0.4,
            size=1 + at % 90,
        )
    write(log, producer=6, commit=False, ends=False, size=3)
    log.close(clean=True)
    return log


def write(log: Log, *, producer: int, commit: bool, ends: bool, size: int) -> None:
    """`producer` writes a batch in its transaction, and ends it; the even ones with transactions of
    version 2.
    """
    version = 2 - producer % 2
    known = log.producers.producers.get(producer)
    epoch, first = (known.epoch, known.next_sequence) if known else (0, 0)
    in_transaction(
        log,
        batch(2, producer=producer, epoch=epoch, sequence=first, size=size, transactional=True),
        version=version,
    )
    if ends:
        end_transaction(
            log,
            producer,
            commit=commit,
            epoch=epoch + version - 1,
            coordinator_epoch=7,
            version=version,
        )


ABORTED = re.compile(
    r"^version: 0 producerId: (\d+) firstOffset: (\d+) lastOffset: (\d+) lastStableOffset: (\d+)$",
    re.MULTILINE,
)


def test_it_reads_markers_and_aborted_transactions_and_open_ones(
    classpath: str, files: RealFiles, tmp_path: Path
) -> None:
    log = lived_with_transactions(files, tmp_path / "t-0")

    told = dump(classpath, tmp_path / "t-0", ".log", ".index", ".timeindex", ".snapshot")
    aborted = dump(classpath, tmp_path / "t-0", ".txnindex")

    assert not COMPLAINTS.search(told + aborted), COMPLAINTS.findall(told + aborted)
    assert told.count("isvalid: true") == told.count("baseOffset: ")
    assert {
        "endTxnMarker: COMMIT coordinatorEpoch: 7",
        "endTxnMarker: ABORT coordinatorEpoch: 7",
    } == set(re.findall(r"endTxnMarker.*", told))
    known = [tuple(each) for each in log.aborted.find(0, log.end_offset)]
    assert [tuple(map(int, each)) for each in ABORTED.findall(aborted)] == known
    assert len(known) > 20
    latest = dump(
        classpath, tmp_path / "t-0", sorted((tmp_path / "t-0").glob("*.snapshot"))[-1].name
    )
    shown = re.findall(r"producerId: (\d+) .*currentTxnFirstOffset: OptionalLong\[(\d+)\]", latest)
    assert {int(producer): int(first) for producer, first in shown} == {
        producer: each.transaction_start
        for producer, each in log.producers.producers.items()
        if each.transactional
    }
    assert ("6", str(log.end_offset - 2)) in shown


def test_its_decoder_reads_the_log_of_a_transaction_coordinator(
    classpath: str, files: RealFiles, tmp_path: Path
) -> None:
    growing = Growing(NO_PARTITIONS)
    growing.add("t", bytes(16), {0, 3})
    growing.add("u", bytes(16), {1})
    open_one = Transaction(
        4001, 5, 60_000, State.ONGOING, growing.partitions(), start_ms=NOW, update_ms=NOW + 1
    )
    # with a tag that Kafka has not
    later = Transaction(
        4002, 0, 1_000, update_ms=NOW, previous_producer_id=4001, version=2, last_epoch=3
    )
    records = [
        transaction_record("mine", open_one),
        transaction_record("über", later),
        tombstone("gone"),
    ]
    (tmp_path / "__transaction_state-0").mkdir()
    log = Log.open(
        files, str(tmp_path / "__transaction_state-0"), LogConfig(), NOW, clean_shutdown=False
    )
    append(log, memoryview(build_batch([(key, value, (), NOW) for key, value in records])))
    log.close(clean=True)

    told = dump(
        classpath, tmp_path / "__transaction_state-0", ".log", options=["--transaction-log-decoder"]
    )

    assert not COMPLAINTS.search(told)
    decoded = re.findall(r"key: (\{.*\}) payload: (.*)$", told, re.MULTILINE)
    assert [json.loads(key)["data"] for key, _ in decoded] == [
        {"transactionalId": name} for name in ("mine", "über", "gone")
    ]
    assert decoded[2][1] == "<DELETE>"
    first, second = (json.loads(value)["data"] for _, value in decoded[:2])
    assert first == {
        "producerId": 4001,
        "producerEpoch": 5,
        "transactionTimeoutMs": 60_000,
        "transactionStatus": "Ongoing",
        "transactionPartitions": [
            {"topic": "t", "partitionIds": [0, 3]},
            {"topic": "u", "partitionIds": [1]},
        ],
        "transactionStartTimestampMs": NOW,
        "transactionLastUpdateTimestampMs": NOW + 1,
    }
    assert (
        second["transactionPartitions"],
        second["previousProducerId"],
        second["clientTransactionVersion"],
    ) == (None, 4001, 2)
