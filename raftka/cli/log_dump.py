"""`raftka log dump FILE...`: what is in a partition's files and in the checkpoints, and what is
wrong with them. Reads files, asks no broker.

The names are those of Kafka's DumpLogSegments. Exit code 1 when something is wrong: damage, or an
index that does not fit the log beside it.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from raftka.cli.output import CommandFailed, command, show
from raftka.cli.progress import Progress, progress
from raftka.json_values import JsonObject
from raftka.log import checkpoints
from raftka.log.delivery.due import DELIVERING
from raftka.log.producers.state import ENTRY, SNAPSHOT_HEAD, ProducerState
from raftka.log.segments.index import OFFSET_ENTRY, TIME_ENTRY
from raftka.log.segments.times import HELD, time_in
from raftka.versions import NewerFormat
from raftka.wire.compression import NAMES
from raftka.wire.errors import ProtocolError
from raftka.wire.records import (
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    MAGIC,
    TRANSACTIONAL,
    BatchHeader,
    Record,
    crc_matches,
    read_header,
    records_of,
)

ON_THEIR_WAY = (".deleted", ".cleaned", ".swap")
MARKERS = {0: "ABORT", 1: "COMMIT"}
DELIVERY_MARKS = {"isHeld": HELD, "isDelivering": DELIVERING}  # of batches of delayed topics
Row = JsonObject
Complain = Callable[[str], None]


@command
def dump(files: Sequence[str], print_data: bool, quiet: bool, output: str) -> None:
    paths = [Path(each) for each in files]
    total = sum(path.stat().st_size for path in paths)
    with progress("reading", total, "bytes", quiet=quiet, beside_output=False) as shown:
        wrong = _dump(paths, print_data, output, shown)
    if wrong:
        raise CommandFailed(f"{wrong} {'things are' if wrong > 1 else 'thing is'} wrong")


def _dump(paths: Sequence[Path], print_data: bool, output: str, shown: Progress) -> int:
    """Print the files; returns how many things are wrong."""
    wrong = before = 0

    def complain(text: str) -> None:
        nonlocal wrong
        wrong += 1
        sys.stdout.flush()
        shown.clear()
        print(f"raftka: {path}: {text}", file=sys.stderr)

    for path in paths:
        rows = _counted(_rows(path, print_data, complain), before, shown)
        before += path.stat().st_size
        if output == "json":
            show(({"file": str(path), **row} for row in rows), (), "json")
            continue
        print(f"Dumping {path}")
        for row in rows:
            print(
                ("| " if "keySize" in row else "")
                + " ".join(f"{name}: {value}" for name, value in row.items())
            )
    return wrong


def _counted(rows: Iterator[Row], before: int, shown: Progress) -> Iterator[Row]:
    """Show how far the rows are: a batch has its position. `before`: bytes of the earlier files."""
    for row in rows:
        if isinstance(position := row.get("position"), int) and "size" in row:
            shown.update(before + position)
        yield row


def _rows(path: Path, print_data: bool, complain: Complain) -> Iterator[Row]:
    name = path.name
    for suffix in ON_THEIR_WAY:
        name = name.removesuffix(suffix)
    match Path(name).suffix:
        case ".log":
            return _log(path, print_data, complain)
        case ".index":
            return _index(path, _base(name), complain)
        case ".timeindex":
            return _time_index(path, _base(name), complain)
        case ".snapshot":
            return _snapshot(path)
    return _checkpoint(path, name)


def _base(name: str) -> int:
    stem = name.partition(".")[0]
    if not stem.isdigit():
        raise CommandFailed(f"{name}: the name of a segment's file begins with its base offset")
    return int(stem)


# segments


def _batches(path: Path, complain: Complain) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """(position, header, the batch) up to the first that is cut."""
    position, size = 0, path.stat().st_size
    with path.open("rb") as file:
        while position < size:
            head = file.read(61)
            header = read_header(head) if len(head) == 61 else None
            if (
                header is None
                or header.magic != MAGIC
                or not 61 <= header.size_bytes <= size - position
            ):
                written_over = (
                    ""
                    if any(head)
                    else (
                        ", as in a segment that is being written over a deleted one "
                        "(raftka.log.segment.reuse.ms)"
                    )
                )
                complain(f"{size - position} bytes from {position} on are no batch{written_over}")
                return
            yield position, header, memoryview(head + file.read(header.size_bytes - 61))
            position += header.size_bytes


def _log(path: Path, print_data: bool, complain: Complain) -> Iterator[Row]:
    last = -1
    for position, header, batch in _batches(path, complain):
        sound = crc_matches(batch, header)
        if not sound:
            complain(f"the CRC of the batch at offset {header.base_offset} is wrong")
        if header.base_offset <= last:
            complain(f"offset {header.base_offset} follows {last}")
        last = header.last_offset
        yield _batch(position, header, sound)
        if print_data and sound:
            try:
                for record in records_of(batch):
                    yield _record(record, header)
            except ProtocolError as error:
                complain(f"the batch at offset {header.base_offset}: {error}")


def _batch(position: int, header: BatchHeader, sound: bool) -> Row:
    sequence = header.base_sequence
    return {
        "baseOffset": header.base_offset,
        "lastOffset": header.last_offset,
        "count": header.count,
        "baseSequence": sequence,
        "lastSequence": (sequence + header.last_offset_delta) % (1 << 31) if sequence >= 0 else -1,
        "producerId": header.producer_id,
        "producerEpoch": header.producer_epoch,
        "partitionLeaderEpoch": header.leader_epoch,
        "isTransactional": bool(header.attributes & TRANSACTIONAL),
        "isControl": bool(header.attributes & CONTROL),
        "deleteHorizonMs": header.base_timestamp if header.attributes & DELETE_HORIZON else None,
        "position": position,
        _time_of(header): header.max_timestamp,
        "size": header.size_bytes,
        "magic": header.magic,
        "compresscodec": NAMES[header.compression]
        if header.compression < len(NAMES)
        else header.compression,
        "crc": header.crc,
        "isvalid": sound,
        **{name: True for name, mark in DELIVERY_MARKS.items() if header.attributes & mark},
    }


def _time_of(header: BatchHeader) -> str:
    return "LogAppendTime" if header.attributes & LOG_APPEND_TIME else "CreateTime"


def _record(record: Record, header: BatchHeader) -> Row:
    row = {
        "offset": record.offset,
        _time_of(header): record.timestamp,
        "keySize": -1 if record.key is None else len(record.key),
        "valueSize": -1 if record.value is None else len(record.value),
        "sequence": (header.base_sequence + record.offset - header.base_offset) % (1 << 31)
        if header.base_sequence >= 0
        else -1,
        "headerKeys": [name for name, _ in record.headers],
    }
    if header.attributes & CONTROL and record.key is not None:
        kind = int.from_bytes(record.key[2:4])
        return row | {
            "endTxnMarker": MARKERS.get(kind, kind),
            "coordinatorEpoch": int.from_bytes((record.value or b"")[2:6]),
        }
    return row | {"key": _text(record.key), "payload": _text(record.value)}


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "backslashreplace")


# indexes


def _times(path: Path, complain: Complain) -> dict[int, int] | None:
    """The largest timestamps of the batches in the log beside a time index, by last offset; None
    when there is no log.
    """
    log = path.with_name(path.name.replace(".timeindex", ".log"))
    return (
        {
            header.last_offset: time_in(batch, 0, header)
            for _, header, batch in _batches(log, complain)
        }
        if log.exists()
        else None
    )


def _index(path: Path, base: int, complain: Complain) -> Iterator[Row]:
    log = path.with_name(path.name.replace(".index", ".log"))
    starts = (
        {position: header.last_offset for position, header, _ in _batches(log, complain)}
        if log.exists()
        else None
    )
    for offset, position in OFFSET_ENTRY.iter_unpack(_whole(path, OFFSET_ENTRY.size, complain)):
        yield {"offset": base + offset, "position": position}
        if starts is not None and starts.get(position) != base + offset:
            complain(f"no batch that ends with offset {base + offset} begins at {position}")


def _time_index(path: Path, base: int, complain: Complain) -> Iterator[Row]:
    times = _times(path, complain)
    last = -1
    for timestamp, offset in TIME_ENTRY.iter_unpack(_whole(path, TIME_ENTRY.size, complain)):
        yield {"timestamp": timestamp, "offset": base + offset}
        if timestamp <= last:
            complain(f"timestamp {timestamp} follows {last}")
        last = timestamp
        if times is not None and times.get(base + offset) != timestamp:
            complain(
                f"no batch that ends with offset {base + offset} has {timestamp} as its largest "
                "timestamp"
            )


def _whole(path: Path, size: int, complain: Complain) -> bytes:
    data = path.read_bytes()
    if len(data) % size:
        complain(f"{len(data) % size} bytes behind the last entry")
    data = data[: len(data) - len(data) % size]
    # a running Kafka reserves zeros
    return data[: len(data.rstrip(b"\0")) + -len(data.rstrip(b"\0")) % size]


# the small files


def _snapshot(path: Path) -> Iterator[Row]:
    data = path.read_bytes()
    try:
        whole = ProducerState.from_snapshot(data, 0) is not None
    except NewerFormat as error:
        raise CommandFailed(f"{path}: {error}") from error
    if not whole:
        raise CommandFailed(f"{path} is no whole snapshot of producers")
    names = (
        "producerId",
        "producerEpoch",
        "lastSequence",
        "lastOffset",
        "offsetDelta",
        "lastTimestamp",
        "coordinatorEpoch",
        "currentTxnFirstOffset",
    )
    for fields in ENTRY.iter_unpack(data[SNAPSHOT_HEAD.size :]):
        yield dict(zip(names, fields, strict=True))


def _checkpoint(path: Path, name: str) -> Iterator[Row]:
    data = path.read_bytes()
    try:
        if name == checkpoints.LEADER_EPOCH_CHECKPOINT:
            yield from (
                {"epoch": epoch, "startOffset": start}
                for epoch, start in checkpoints.decode_epochs(data)
            )
        elif name.endswith("-offset-checkpoint"):
            for (topic, partition), offset in checkpoints.decode_offsets(data).items():
                yield {"topic": topic, "partition": partition, "offset": offset}
        elif name == checkpoints.PARTITION_METADATA:
            yield {"topicId": checkpoints.uuid_text(checkpoints.decode_partition_metadata(data))}
        elif name == checkpoints.META_PROPERTIES:
            yield dict(checkpoints.decode_properties(data))
        else:
            raise CommandFailed(
                f"{path} is no file of a log: .log, .index, .timeindex, .snapshot, or a checkpoint"
            )
    except (checkpoints.CheckpointError, NewerFormat) as error:
        raise CommandFailed(f"{path}: {error}") from error
