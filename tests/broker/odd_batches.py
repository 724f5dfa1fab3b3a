"""Batches that no client should write, by name: as bytes, with what a broker answered to them and
what it stored.

`python -m tests.broker.odd_batches HOST:PORT` asks a live broker, with topics of its own, and
prints the lines of odd_batches.jsonl: these are the answers of Apache Kafka 4.3.1, one line for
each answer to a case, with the topics and codecs where it is given. Knows no validation: what the
bytes are is all that is told here.
"""

import json
import re
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from struct import pack
from typing import Any, NamedTuple, Protocol

import cramjam

from raftka.wire.compression import NAMES, compress
from raftka.wire.messages.fetch import FETCH
from raftka.wire.messages.produce import PRODUCE, PartitionProduceResponse
from raftka.wire.messages.topics import CREATE_TOPICS
from raftka.wire.records import (
    BATCH_HEADER,
    BATCH_HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    read_header,
    seal,
)
from raftka.wire.schema import Api, Req, Resp
from tests.broker.requests import fetch, fetched, produce, produced
from tests.broker.talk import Line

TOPICS: dict[str, dict[str, str]] = {
    "plain": {},
    "zipped": {"compression.type": "gzip"},
    "stamped": {"message.timestamp.type": "LogAppendTime"},
    "both": {"compression.type": "gzip", "message.timestamp.type": "LogAppendTime"},
    "compacted": {"cleanup.policy": "compact"},
    "bounded": {
        "message.timestamp.before.max.ms": "60000",
        "message.timestamp.after.max.ms": "60000",
    },
}
NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
HOUR_MS = 3_600_000
GIB = 1 << 30
RECORDED = Path(__file__).parent / "odd_batches.jsonl"


class Asks(Protocol):
    def ask(self, api: Api[Req, Resp], row: Req, version: int | None = None) -> Resp: ...


# records


def varint(value: int) -> bytes:
    """Zigzag, of any number of bits."""
    value = value << 1 if value >= 0 else (-value << 1) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def padded(value: int, size: int) -> bytes:
    """In `size` bytes, which are more than it needs."""
    short = varint(value)
    return bytes([byte | 0x80 for byte in short]) + b"\x80" * (size - len(short) - 1) + b"\x00"


def sized(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


Part = int | bytes  # a number, or the bytes in its place


def _number(part: Part) -> bytes:
    return part if isinstance(part, bytes) else varint(part)


def record(
    delta: Part = 0, *, time: Part = 0, key: bytes | None = b"k", value: bytes | None = b"v", attributes: int = 0, headers: Part = 0,
    rest: bytes = b"", key_field: bytes | None = None, value_field: bytes | None = None, longer: int = 0, size: bytes | None = None,
) -> bytes:  # fmt: skip
    """`headers`: how many, `rest`: they, or whatever is behind; `longer` than it is: what it says
    of itself, or `size` in place of that.
    """
    content = bytes([attributes]) + _number(time) + _number(delta)
    content += (sized(key) if key_field is None else key_field) + (
        sized(value) if value_field is None else value_field
    )
    content += _number(headers) + rest
    return (varint(len(content) + longer) if size is None else size) + content


FIRST = record(0)
GOOD = FIRST + record(1)


def in_second(**fields: Any) -> bytes:
    return FIRST + record(1, **fields)


INSIDE: dict[str, bytes] = {  # payloads of a batch of two records
    "good": GOOD,
    "one record too few": FIRST,
    "one record too many": GOOD + record(2),
    "no records": b"",
    "bytes behind the last record": GOOD + b"xyz",
    "a zero behind the last record": GOOD + b"\0",
    "a record longer than it says": in_second(longer=-1),
    "a record shorter than it says": in_second(longer=1),
    "a first record longer than it says": record(0, longer=-1) + record(1),
    "a record of size 0": FIRST + b"\0",
    "a record of size 0 first": b"\0" + record(1),
    "a record of size -1": in_second(size=varint(-1)),
    "a record of size -1000": in_second(size=varint(-1000)),
    "a record of 2 GiB": in_second(size=varint((1 << 31) - 1)),
    "a record of 100 MiB": in_second(size=varint(100 << 20)),
    "a size in more bytes than it needs": in_second(size=padded(len(record(1)) - 1, 5)),
    "a size in six bytes": in_second(size=padded(len(record(1)) - 1, 6)),
    "a size of 33 bits": in_second(size=varint((1 << 32) + len(record(1)) - 1)),
    "a size that does not end": FIRST + b"\x80",
    "a size that never ends": FIRST + b"\xff" * 12,
    "bytes behind the headers": in_second(rest=b"zz"),
    "a record that ends behind its attributes": FIRST + b"\x02\x00",
    "a record that ends in its key": FIRST + varint(5) + b"\0\0\2\x08k",
    "a record that ends before its headers": FIRST + varint(7) + b"\0\0\2\2k\2v",
    "offsets twice the same": record(0) + record(0),
    "offsets that go back": record(1) + record(0),
    "offsets with a gap": record(0) + record(5),
    "offsets from 1": record(1) + record(2),
    "an offset before the batch": record(0) + record(-1),
    "an offset of 33 bits": record(0) + record(varint((1 << 32) + 1)),
    "an offset in six bytes": record(0) + record(padded(1, 6)),
    "a time in ten bytes": in_second(time=padded(0, 10)),
    "a time in eleven bytes": in_second(time=padded(0, 11)),
    "the largest time there is": in_second(time=(1 << 63) - 1),
    "a time long before all time": in_second(time=-(1 << 62)),
    "two hours ahead": in_second(time=2 * HOUR_MS),
    "half an hour ahead": in_second(time=HOUR_MS // 2),
    "both two hours ahead": record(0, time=2 * HOUR_MS) + record(1, time=2 * HOUR_MS),
    "two hours ago": in_second(time=-2 * HOUR_MS),
    "attributes that mean nothing": in_second(attributes=7),
    "null value": in_second(value=None),
    "null key": in_second(key=None),
    "null keys": record(0, key=None) + record(1, key=None),
    "null key and value": in_second(key=None, value=None),
    "null key, two hours ahead": record(0, key=None) + record(1, time=2 * HOUR_MS),
    "null key two hours ahead": in_second(key=None, time=2 * HOUR_MS),
    "null key, one record too few": record(0, key=None),
    "empty key": in_second(key=b""),
    "a key of length -2": in_second(key_field=varint(-2)),
    "a key of 2 GiB": in_second(key_field=varint((1 << 31) - 1)),
    "a key as long as the record": in_second(key_field=varint(len(record(1)) - 1)),
    "a key whose length is in six bytes": in_second(key_field=padded(1, 6) + b"k"),
    "a key whose length is in five bytes": in_second(key_field=padded(1, 5) + b"k"),
    "a value of length -2": in_second(value_field=varint(-2)),
    "a value of 2 GiB": in_second(value_field=varint((1 << 31) - 1)),
    "a value longer than the record": in_second(value_field=varint(10) + b"v"),
    "a value whose length is in six bytes": in_second(value_field=padded(1, 6) + b"v"),
    "a header": in_second(headers=1, rest=sized(b"h") + sized(b"x")),
    "a header without a value": in_second(headers=1, rest=sized(b"h") + sized(None)),
    "a header without a name": in_second(headers=1, rest=sized(None) + sized(b"x")),
    "a header with an empty name": in_second(headers=1, rest=sized(b"") + sized(b"x")),
    "a header whose name is not UTF-8": in_second(headers=1, rest=sized(b"\xff\xc0") + sized(b"x")),
    "a header whose name has length -2": in_second(headers=1, rest=varint(-2) + sized(b"x")),
    "a header whose name has 2 GiB": in_second(headers=1, rest=varint((1 << 31) - 1) + b"x"),
    "a header whose value has length -2": in_second(headers=1, rest=sized(b"h") + varint(-2)),
    "a header whose value has 2 GiB": in_second(headers=1, rest=sized(b"h") + varint((1 << 31) - 1)),
    "-1 headers": in_second(headers=-1),
    "three headers that are not there": in_second(headers=3),
    "one of two headers": in_second(headers=2, rest=sized(b"h") + sized(b"x")),
    "two of one header": in_second(headers=1, rest=2 * (sized(b"h") + sized(b"x"))),
    "2^31 - 1 headers": in_second(headers=(1 << 31) - 1),
    "a header count in six bytes": in_second(headers=padded(0, 6)),
}  # fmt: skip


# batches


def batch(
    payload: bytes, now_ms: int, codec: int = 0, *, count: int = 2, delta: int | None = None, base_offset: int = 0, leader_epoch: int = -1,
    magic: int = MAGIC, attributes: int = 0, base: int | None = 0, largest: int | None = 0, producer: tuple[int, int, int] = (-1, -1, -1),
    longer: int = 0, length: int | None = None, crc: int | None = None, compressed: bool = True,
) -> bytes:  # fmt: skip
    """`base` and `largest` timestamps count from now, None is -1; `longer` than it is: what its
    length says, or `length` in place of that.

    Not `compressed`: the payload is that already.
    """
    body = compress(codec, payload) if codec and compressed else payload
    made = bytearray(BATCH_HEADER_BYTES) + body
    claimed = len(made) - LOG_OVERHEAD_BYTES + longer if length is None else length
    times = [-1 if time is None else now_ms + time for time in (base, largest)]
    last = count - 1 if delta is None else delta
    # one for each codec: a partition takes a producer's batch once
    identity = producer[0] + codec * (producer[0] > 0), *producer[1:]
    BATCH_HEADER.pack_into(
        made, 0, base_offset, claimed, leader_epoch, magic, 0, attributes | codec, last, *times, *identity, count
    )  # fmt: skip
    seal(made)
    if crc is not None:
        made[17:21] = pack(">I", crc)
    return bytes(made)


HEADERS: dict[str, dict[str, Any]] = {  # what a batch of two good records says otherwise
    "base offset 1": {"base_offset": 1},
    "base offset -1": {"base_offset": -1},
    "base offset 2^40": {"base_offset": 1 << 40},
    "leader epoch 5": {"leader_epoch": 5},
    "leader epoch -2": {"leader_epoch": -2},
    "magic 0": {"magic": 0},
    "magic 1": {"magic": 1},
    "magic 3": {"magic": 3},
    "magic -1": {"magic": -1},
    "a wrong CRC": {"crc": 1},
    "codec 5": {"attributes": 5},
    "codec 6": {"attributes": 6},
    "codec 7": {"attributes": 7},
    "LogAppendTime": {"attributes": 0x08},
    "LogAppendTime, and another largest time": {"attributes": 0x08, "largest": 5000},
    "LogAppendTime, two hours ahead": {"attributes": 0x08, "base": 2 * HOUR_MS, "largest": 2 * HOUR_MS},
    "transactional": {"attributes": 0x10},
    "control": {"attributes": 0x20},
    "control and transactional": {"attributes": 0x30},
    "control, of a producer": {"attributes": 0x20, "producer": (7010, 0, 0)},
    "control of one record": {"attributes": 0x20, "count": 1},
    "delete horizon": {"attributes": 0x40},
    "attribute bit 7": {"attributes": 0x80},
    "attribute bits 8 to 14": {"attributes": 0x7F00},
    "attribute bit 15": {"attributes": -0x8000},
    "count 0": {"count": 0, "delta": 1},
    "count 0 and last delta -1": {"count": 0, "delta": -1},
    "count -1": {"count": -1, "delta": 1},
    "count 1": {"count": 1, "delta": 1},
    "count 3": {"count": 3, "delta": 1},
    "count and last delta of 3": {"count": 3, "delta": 2},
    "count and last delta of 2^31 - 1": {"count": (1 << 31) - 1, "delta": (1 << 31) - 2},
    "last delta 0": {"delta": 0},
    "last delta 5": {"delta": 5},
    "last delta -1": {"delta": -1},
    "a producer": {"producer": (7020, 0, 0)},
    "a producer from sequence 5": {"producer": (7030, 0, 5)},
    "a producer that wraps its sequence": {"producer": (7040, 0, (1 << 31) - 1)},
    "a producer without epoch": {"producer": (7050, -1, 0)},
    "a producer without sequence": {"producer": (7060, 0, -1)},
    "a producer without epoch and sequence": {"producer": (7070, -1, -1)},
    "an epoch of -2": {"producer": (7080, -2, 0)},
    "a sequence of -2": {"producer": (7090, 0, -2)},
    "epoch and sequence without producer": {"producer": (-1, 0, 0)},
    "producer -2": {"producer": (-2, 0, 0)},
    "base and largest time -1": {"base": None, "largest": None},
    "largest time -1": {"largest": None},
    "base time -1": {"base": None},
    "a largest time too low": {"largest": -5000},
    "a largest time too high": {"largest": 5000},
    "a largest time two hours ahead": {"largest": 2 * HOUR_MS},
    "two hours ahead, all": {"base": 2 * HOUR_MS, "largest": 2 * HOUR_MS},
    "two hours ago, all": {"base": -2 * HOUR_MS, "largest": -2 * HOUR_MS},
    "two hours ago, and a good largest time": {"base": -2 * HOUR_MS},
    "a length one too small": {"longer": -1},
    "a length one too large": {"longer": 1},
    "a length of 2 GiB": {"longer": (1 << 31) - 1 - 200},
    **{f"a length of {size}": {"length": size} for size in (-(1 << 31), -13, -1, 0, 13, 14, 48, 49)},
    "LogAppendTime, null key and value": {"attributes": 0x08, "payload": in_second(key=None, value=None)},
    "count 1 and last delta 0": {"count": 1},
}  # fmt: skip


def message_set(magic: int, now_ms: int) -> bytes:
    """One record as brokers before 0.11 took it."""
    body = (
        bytes([magic, 0])
        + (pack(">q", now_ms) if magic else b"")
        + pack(">i1si1s", 1, b"k", 1, b"v")
    )
    message = pack(">I", zlib.crc32(body)) + body
    return pack(">qi", 0, len(message)) + message


AROUND: dict[str, Callable[[bytes, int], bytes]] = {  # what is done to the bytes of a good batch
    "nothing at all": lambda good, now_ms: b"",
    "one byte": lambda good, now_ms: b"\0",
    "a message of version 0": lambda good, now_ms: message_set(0, now_ms),
    "a message of version 1": lambda good, now_ms: message_set(1, now_ms),
    "sixteen bytes": lambda good, now_ms: good[:16],
    "seventeen bytes": lambda good, now_ms: good[:17],
    "half a header": lambda good, now_ms: good[:30],
    "a header alone": lambda good, now_ms: good[:61],
    "a batch without its last byte": lambda good, now_ms: good[:-1],
    "one byte behind the batch": lambda good, now_ms: good + b"x",
    "eleven bytes behind the batch": lambda good, now_ms: good + b"\xff" * 11,
    "twelve zeros behind the batch": lambda good, now_ms: good + b"\0" * 12,
    "twelve bytes of ones behind the batch": lambda good, now_ms: good + b"\xff" * 12,
    "sixty zeros behind the batch": lambda good, now_ms: good + b"\0" * 60,
    "half a batch behind the batch": lambda good, now_ms: good + good[: len(good) // 2],
    "two batches": lambda good, now_ms: good + good,
    "three batches": lambda good, now_ms: good * 3,
    "a message of version 1 behind the batch": lambda good, now_ms: good + message_set(1, now_ms),
    "a batch with a wrong CRC behind the batch": lambda good, now_ms: good + good[:-1] + b"!",
}  # fmt: skip


# compressed bytes


def claiming(codec: int) -> bytes:
    """A payload that says it is a GiB when it is opened, or needs that much memory to be."""
    good = compress(codec, GOOD)
    match codec:
        case 1:
            return good[:-4] + pack("<I", GIB)  # the size at the end
        case 2:
            # of the first block; its own size stays as it was
            return good[:20] + b"\x80\x80\x80\x80\x04" + good[21:]
        case 3:
            return bytes(cramjam.lz4.compress(b"\0" * 100_000))[:5] + b"\x70" + good[6:]
        case _:
            # a window of 2 GiB
            return (
                bytes.fromhex("28b52ffd")
                + b"\x00"
                + b"\xa8"
                + pack("<I", len(GOOD) << 3 | 1)[:3]
                + GOOD
            )


PACKED: dict[str, Callable[[int], bytes]] = {  # by codec, in place of two records compressed
    "compressed: garbage": lambda codec: b"\x55" * 40,
    "compressed: nothing": lambda codec: b"",
    "compressed: records that are not": lambda codec: GOOD,
    "compressed: nothing in it": lambda codec: compress(codec, b""),
    "compressed: without its last byte": lambda codec: compress(codec, GOOD)[:-1],
    "compressed: the first half": lambda codec: compress(codec, GOOD)[: len(compress(codec, GOOD)) // 2],
    "compressed: its head alone": lambda codec: compress(codec, GOOD)[: (0, 10, 16, 7, 6)[codec]],
    "compressed: a byte changed": lambda codec: compress(codec, GOOD)[:-9] + b"\xff" + compress(codec, GOOD)[-8:],
    "compressed: garbage behind": lambda codec: compress(codec, GOOD) + b"\x55" * 9,
    "compressed: zeros behind": lambda codec: compress(codec, GOOD) + b"\0" * 9,
    "compressed: in two parts": lambda codec: compress(codec, FIRST) + compress(codec, record(1)),
    "compressed: by another codec": lambda codec: compress(codec % 4 + 1, GOOD),
    "compressed: claims a GiB": claiming,
    "compressed: 60 KiB of zeros in a value": lambda codec: compress(codec, in_second(value=bytes(60 << 10))),
    "compressed: 100 KiB of zeros behind": lambda codec: compress(codec, GOOD + bytes(100 << 10)),
}  # fmt: skip


ZEROS = in_second(value=bytes(100 << 20))
AT_PLAIN: dict[str, tuple[int, Callable[[], bytes]]] = {  # compressed bytes of one codec
    **{f"{NAMES[codec]}: 100 MiB of zeros": (codec, partial(compress, codec, ZEROS)) for codec in (GZIP, LZ4, ZSTD)},
    "snappy: a bare block": (SNAPPY, lambda: bytes(cramjam.snappy.compress_raw(GOOD))),
    "snappy: Google's framing": (SNAPPY, lambda: bytes(cramjam.snappy.compress(GOOD))),
    "lz4: blocks that refer to each other": (LZ4, lambda: bytes(cramjam.lz4.compress(GOOD))),
    "zstd: a frame to be skipped": (ZSTD, lambda: bytes.fromhex("502a4d1803000000616263") + compress(ZSTD, GOOD)),
}  # fmt: skip


# all of them


class Case(NamedTuple):
    name: str
    topic: str
    codec: str


def cases() -> Iterator[tuple[Case, Callable[[int], bytes]]]:
    """Each with what makes its bytes, by the clock (ms)."""
    for topic in TOPICS:
        for codec in range(5) if topic == "plain" else (NONE, GZIP):
            for name, make in by_codec(codec):
                yield Case(name, topic, NAMES[codec]), make
    for name, (codec, packed) in AT_PLAIN.items():
        yield Case(name, "plain", NAMES[codec]), partial(_packed, packed, codec)


def by_codec(codec: int) -> Iterator[tuple[str, Callable[[int], bytes]]]:
    for name, payload in INSIDE.items():
        yield name, partial(batch, payload, codec=codec)
    for name, fields in HEADERS.items():
        yield name, partial(_told, fields, codec)
    for name, around in AROUND.items():
        yield name, partial(_changed, around, codec)
    for name, packed in PACKED.items() if codec else ():
        yield name, partial(_packed, partial(packed, codec), codec)


def _told(fields: dict[str, Any], codec: int, now_ms: int) -> bytes:
    return batch(now_ms=now_ms, codec=codec, **{"payload": GOOD, **fields})


def _changed(around: Callable[[bytes, int], bytes], codec: int, now_ms: int) -> bytes:
    return around(batch(GOOD, now_ms, codec), now_ms)


def _packed(packed: Callable[[], bytes], codec: int, now_ms: int) -> bytes:
    return batch(packed(), now_ms, codec, compressed=False)


# asking


def create(line: Asks) -> None:
    row = CREATE_TOPICS.request.topics
    topics = [
        row(
            name=name,
            num_partitions=1,
            replication_factor=1,
            configs=[row.configs(name=key, value=value) for key, value in configs.items()],
        )
        for name, configs in TOPICS.items()
    ]
    line.ask(CREATE_TOPICS, CREATE_TOPICS.request(topics=topics, timeout_ms=10_000))


def answer(line: Asks, topic: str, records: bytes, now_ms: int) -> dict[str, Any]:
    """Return the answer to a batch, and the fields that are stored otherwise than they were sent;
    without those that depend on time and place.
    """
    row = produced(line.ask(PRODUCE, produce(topic, records, timeout_ms=30_000), 12))
    told: dict[str, Any] = {"code": row.error_code}
    if row.log_start_offset != (0 if row.error_code == 0 else -1):
        told["log_start_offset"] = row.log_start_offset
    if row.log_append_time_ms != -1:
        told["log_append_time"] = True
    if row.error_message is not None:
        told["message"] = timeless(row.error_message)
    if row.record_errors:
        told["record_errors"] = [
            [error.batch_index, timeless(error.batch_index_error_message)]
            for error in row.record_errors
        ]
    if row.error_code == 0:
        told |= stored(line, topic, row, records, now_ms)
    return told


def timeless(text: str | None) -> str:
    return re.sub(r"-?\d{12,}", "N", text or "")


def stored(
    line: Asks, topic: str, written: PartitionProduceResponse, sent: bytes, now_ms: int
) -> dict[str, Any]:
    """Return the fields of the header that are not as they were sent, and whether the records are
    other bytes.
    """
    row = fetched(
        line.ask(FETCH, fetch(topic, written.base_offset, max_wait_ms=5000, min_bytes=1), 12)
    )
    was, found = read_header(sent), read_header(row.records or b"")
    assert found.base_offset == written.base_offset
    changed: dict[str, Any] = {
        name: value
        for name, value, before in zip(found._fields, found, was, strict=True)
        if value != before
    }
    for name in ("base_offset", "crc", "length"):
        changed.pop(name, None)
    if written.log_append_time_ms != -1:
        changed["max_timestamp"] = found.max_timestamp
    for name in changed.keys() & {"base_timestamp", "max_timestamp"}:
        value = changed[name]
        changed[name] = (
            "clock"
            if value == written.log_append_time_ms
            else value
            if value == -1
            else value - now_ms
        )
    if bytes(row.records or b"")[61 : found.size_bytes] != sent[61 : was.size_bytes]:
        changed["records"] = "others"
    return {"stored": changed}


# the recorded answers

Answers = dict[Case, dict[str, Any]]


def asked(line: Asks, now_ms: Callable[[], int]) -> Answers:
    answers = {}
    for case, made in cases():
        now = now_ms()
        answers[case] = answer(line, case.topic, made(now), now)
    return answers


def recorded() -> Answers:
    lines = [json.loads(line) for line in RECORDED.read_text(encoding="utf-8").splitlines()]
    return {
        Case(name, *place.split("/")): told
        for name, places, told in lines
        for place in places.split()
    }


def lines_of(answers: Answers) -> Iterator[str]:
    places: dict[tuple[str, str], list[str]] = {}
    for case, told in answers.items():
        places.setdefault((case.name, json.dumps(told)), []).append(f"{case.topic}/{case.codec}")
    for (name, text), where in sorted(places.items()):
        yield f"[{json.dumps(name)}, {json.dumps(' '.join(where))}, {text}]"


def main() -> None:
    host, _, port = sys.argv[1].rpartition(":")
    with Line((host, int(port))) as line:
        create(line)
        time.sleep(2)  # by hand, until all have heard of it
        print(*lines_of(asked(line, lambda: int(time.time() * 1000))), sep="\n")


if __name__ == "__main__":
    main()
