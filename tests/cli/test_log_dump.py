"""`raftka log dump` tells what is in the files that the log wrote, and finds what is wrong in
them.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from raftka.cli.commands import root
from raftka.cli.log_dump import DELIVERY_MARKS
from raftka.log.config import DeliveryRules, LogConfig
from raftka.log.delivery.delivering import HeldRecord, make_batch
from raftka.log.delivery.due import DELIVER_AT, find_due
from raftka.log.log import Log
from raftka.runtime.real.files import RealFiles
from raftka.wire.records import DELETE_HORIZON, build_batch
from tests.log.compacting import clean, pairs_batch
from tests.log.given import NOW, append, batch

FIRST = f"{0:020d}"


@pytest.fixture
def files() -> Iterator[RealFiles]:
    files = RealFiles(lambda action: action())
    yield files
    files.stop()


@pytest.fixture
def folder(files: RealFiles, tmp_path: Path) -> Path:
    """A closed log of two segments with indexes, a producer, a tombstone that waits, and a
    compacted part.
    """
    config = LogConfig(segment_bytes=5000, index_interval_bytes=100, cleanup_policy="compact")
    log = Log.open(files, str(tmp_path), config, NOW, clean_shutdown=False)
    append(
        log,
        *(
            pairs_batch((b"%d" % (at % 9), b"v%d" % at), timestamp=NOW + at, compression=at % 5)
            for at in range(18)
        ),
    )
    append(
        log,
        pairs_batch(
            (b"key", b"value"),
            (b"gone", None),
            producer=7,
            epoch=3,
            sequence=40,
            timestamp=NOW + 50,
        ),
        epoch=2,
    )
    log.roll(NOW)
    append(log, batch(3), epoch=2)
    assert clean(files, log) is not None
    log.close(clean=True)
    return tmp_path


def dump(*arguments: object) -> Result:
    return CliRunner().invoke(root, ["log", "dump", *map(str, arguments)])


def rows(*arguments: object) -> list[dict[str, Any]]:
    result = dump(*arguments, "-o", "json")
    assert result.exit_code == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_batches_and_records_under_kafkas_names(folder: Path) -> None:
    found = rows(folder / f"{FIRST}.log", "--print-data")

    *_, batch, key, gone = found
    assert batch | {"crc": 0, "position": 0} == {
        "file": str(folder / f"{FIRST}.log"),
        "baseOffset": 18,
        "lastOffset": 19,
        "count": 2,
        "baseSequence": 40,
        "lastSequence": 41,
        "producerId": 7,
        "producerEpoch": 3,
        "partitionLeaderEpoch": 2,
        "isTransactional": False,
        "isControl": False,
        "deleteHorizonMs": NOW + 86_400_000,
        "position": 0,
        "CreateTime": NOW + 51,
        "size": batch["size"],
        "magic": 2,
        "compresscodec": "none",
        "crc": 0,
        "isvalid": True,
    }
    assert DELETE_HORIZON
    assert (key["offset"], key["key"], key["payload"], key["sequence"]) == (18, "key", "value", 40)
    assert (gone["offset"], gone["keySize"], gone["valueSize"], gone["payload"]) == (
        19,
        4,
        -1,
        None,
    )
    assert [row["offset"] for row in found if "offset" in row] == list(range(9, 20))


def test_batches_of_delayed_topics_say_so(tmp_path: Path) -> None:
    path = tmp_path / f"{FIRST}.log"
    given = [(None, b"v", ((DELIVER_AT, b"%d" % (NOW + 1000)),), NOW)]
    held = find_due(memoryview(build_batch(given)), NOW, DeliveryRules(0, 10_000)).batch
    record = HeldRecord(0, 0, 0, len(held), given[0])
    delivering = make_batch([record], LogConfig(), NOW, 0)
    delivering[:8] = (1).to_bytes(8)  # its offset, which no CRC covers
    path.write_bytes(b"".join((held, delivering)))

    marks = [{name for name in row if name in DELIVERY_MARKS} for row in rows(path)]
    assert marks == [{"isHeld"}, {"isDelivering"}]


def test_text_reads_as_kafkas_tool_does(folder: Path) -> None:
    text = dump(folder / f"{FIRST}.log", "--print-data").stdout

    assert text.startswith(
        f"Dumping {folder / f'{FIRST}.log'}\nbaseOffset: 9 lastOffset: 9 count: 1 baseSequence: -1 "
    )
    assert (
        f"| offset: 18 CreateTime: {NOW + 50} keySize: 3 valueSize: 5 sequence: 40 headerKeys: [] "
        "key: key payload: value\n" in text
    )


def test_indexes_fit_the_log_beside_them(folder: Path) -> None:
    batches = {row["position"]: row for row in rows(folder / f"{FIRST}.log")}

    index, times = rows(folder / f"{FIRST}.index"), rows(folder / f"{FIRST}.timeindex")

    assert len(index) > 3
    assert all(batches[row["position"]]["lastOffset"] == row["offset"] for row in index)
    assert times[-1] == {
        "file": str(folder / f"{FIRST}.timeindex"),
        "timestamp": NOW + 51,
        "offset": 19,
    }


def test_snapshots_and_checkpoints(folder: Path) -> None:
    newest = sorted(folder.glob("*.snapshot"))[-1]
    (row,) = rows(newest)
    assert (
        row["producerId"],
        row["producerEpoch"],
        row["lastSequence"],
        row["lastOffset"],
        row["offsetDelta"],
    ) == (7, 3, 41, 19, 1)
    assert [
        (row["epoch"], row["startOffset"]) for row in rows(folder / "leader-epoch-checkpoint")
    ] == [(0, 0), (2, 18)]

    (folder / "cleaner-offset-checkpoint").write_text("0\n2\nt 0 14\nu 3 5\n")
    (folder / "partition.metadata").write_text("version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw")
    assert [
        (row["topic"], row["partition"], row["offset"])
        for row in rows(folder / "cleaner-offset-checkpoint")
    ] == [("t", 0, 14), ("u", 3, 5)]
    assert rows(folder / "partition.metadata")[0]["topicId"] == "AAECAwQFBgcICQoLDA0ODw"


@pytest.mark.parametrize(
    ("suffix", "position", "told"),
    [
        (".log", 65, "the CRC of the batch at offset 9 is wrong"),
        (".log", -1, "the CRC of the batch at offset 18 is wrong"),
        (".log", 8, "are no batch"),
        (".index", 7, "no batch that ends with offset"),
        (".timeindex", 7, "as its largest timestamp"),
    ],
)
def test_wrong_options_are_reported(folder: Path, suffix: str, position: int, told: str) -> None:
    path = folder / f"{FIRST}{suffix}"
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)

    result = dump(path)

    assert result.exit_code == 1
    assert told in result.stderr


def test_old_bytes_behind_the_records_of_a_running_broker(folder: Path) -> None:
    path = folder / f"{FIRST}.log"
    data = path.read_bytes()
    path.write_bytes(data + bytes(4096) + data)

    result = dump(path)

    assert result.exit_code == 1
    assert (
        f"{4096 + len(data)} bytes from {len(data)} on are no batch, as in a segment that is "
        "being written over a deleted one" in result.stderr
    )


def test_a_tail_that_is_cut(folder: Path) -> None:
    path = folder / f"{FIRST}.log"
    path.write_bytes(path.read_bytes()[:-5])

    result = dump(path)

    assert result.exit_code == 1
    assert "are no batch" in result.stderr
    assert "baseOffset: 17" in result.stdout


def test_what_is_no_file_of_a_log(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "x.index").write_bytes(b"")

    assert "is no file of a log" in dump(tmp_path / "notes.txt").stderr
    assert "begins with its base offset" in dump(tmp_path / "x.index").stderr
    assert dump(tmp_path / "absent.log").exit_code == 2


def test_zeros_that_a_running_kafka_reserves_are_no_entries(folder: Path) -> None:
    for suffix in ".index", ".timeindex":
        path = folder / f"{FIRST}{suffix}"
        before = rows(path)
        path.write_bytes(path.read_bytes() + bytes(12 * 8 * 3))
        assert rows(path) == before
