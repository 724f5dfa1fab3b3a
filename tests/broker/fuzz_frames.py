"""Requests that nobody would write, by seed: rows with values that mean something to the broker,
and recorded requests with bytes changed.

The same seed gives the same frames, for a target with the same topics. Knows no socket and judges
no answer.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from random import Random
from struct import pack, pack_into
from typing import Any

from hypothesis import HealthCheck, given, seed, settings

from raftka.wire.errors import ProtocolError
from raftka.wire.frame import decode_request_header, decode_response_header
from raftka.wire.messages.cluster import UNREGISTER_BROKER
from raftka.wire.messages.metadata import METADATA
from raftka.wire.records import build_batch, seal
from raftka.wire.rows import FIXED, NO_VERSION, ZERO_UUID, Field, Row, Struct
from raftka.wire.schema import AnyApi
from tests.wire.oracle import Oracle, Values, row_of

# of the recorded requests, and so of the target, with their settings
TOPICS: dict[str, dict[str, str]] = {
    **{name: {} for name in ("f", "i", "p", "t", "tx")},
    "pc": {"cleanup.policy": "compact"},
    "pl": {"message.timestamp.type": "LogAppendTime"},
    "pz": {"compression.type": "gzip"},
}
WORDS = [
    *TOPICS,
    *(
        "",
        ".",
        "a",
        "no-such",
        "bad/name",
        "__consumer_offsets",
        "x" * 249,
        "x" * 250,
        "ü",
        "\x00",
        "�" * 3,
        "1",
        "-1",
        "0",
        "99999999999999999999",
    ),
    *(
        "retention.ms",
        "min.insync.replicas",
        "cleanup.policy",
        "compact",
        "delete",
        "max.message.bytes",
        "no.such.setting",
        "segment.bytes",
        "log.dirs",
    ),
    *(
        "metadata.version",
        "kraft.version",
        "root",
        "DEBUG",
        "/nowhere",
        "__cluster_metadata",
        "bool",
        "true",
        "100",
        "0:1",
        "*",
        "a,b,,c",
    ),
]
SMALL = (-2, -1, 0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 100)
NUMBERS = (
    *SMALL,
    127,
    128,
    255,
    256,
    1000,
    32767,
    32768,
    65535,
    65536,
    10**6,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**63 - 1,
    -(2**31),
    -(2**63),
    -3,
    -6,
)
BYTES = (0, 1, 2, 0x7E, 0x7F, 0x80, 0x81, 0xFE, 0xFF)
SKIPPED = 0.9  # of the frames that no decoder takes: what decoders refuse is tested with them
LISTING = 526  # the exchange that tells the topics of that run
CLOCK_MS = 1_795_249_727_000
RECORDED = Path(__file__).parent / "golden.jsonl"


class Frames:
    """`ids` are those of the target's topics, `number` is the seed. Frames are without their sizes
    and always of the one API.
    """

    def __init__(self, api: AnyApi, ids: Mapping[str, bytes], number: int) -> None:
        self.api = api
        self.random = Random(f"{number} {api.key}")
        self.ids = [*ids.values(), ZERO_UUID]
        self.recorded = recorded(api.key, ids)

    def __iter__(self) -> Iterator[bytes]:
        return filter(harmless, self._any())

    def _any(self) -> Iterator[bytes]:
        """Without end: one in three a row, two in three bytes changed in what was recorded and in
        rows.
        """
        random = self.random
        while True:
            row = self.of_row()
            yield row
            seeds = [*self.recorded, row, row]
            for _ in range(2):
                frame = self.changed(random.choice(seeds), random.choice(seeds))
                while not self.understood(frame) and random.random() < SKIPPED:
                    frame = self.changed(random.choice(seeds), random.choice(seeds))
                yield frame

    def understood(self, frame: bytes) -> bool:
        """Return whether the frame comes as far as the handler."""
        version = int.from_bytes(frame[2:4], signed=True)
        try:
            _, position = decode_request_header(
                memoryview(frame), flexible=version in self.api.flexible
            )
            self.api.decode_request(version, memoryview(frame), position)
        except ProtocolError:
            return False
        return True

    def by_hypothesis(self, count: int) -> list[bytes]:
        """Rows with any values at all, a share for each version."""
        versions = range(self.api.min_version, self.api.max_version + 1)
        return [
            frame
            for version in versions
            for frame in self._of_any_values(version, -(-count // len(versions)))
        ][:count]

    def _of_any_values(self, version: int, count: int) -> list[bytes]:
        frames: list[bytes] = []

        @seed(self.random.randrange(2**31))
        @settings(
            max_examples=max(count, 1),
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(Oracle(self.api, "Request", version).values())
        def collect(values: Values) -> None:
            frames.append(
                header(self.api, version, self.random)
                + self.api.encode_request(version, row_of(self.api.request.struct, values))
            )

        collect()
        return frames

    # rows

    def of_row(self) -> bytes:
        version = self.random.randint(self.api.min_version, self.api.max_version)
        row = self.row(self.api.request.struct, version)
        return header(self.api, version, self.random) + self.api.encode_request(version, row)

    def row(self, struct: Struct, version: int) -> Row:
        return struct.row(
            **{
                field.name: self.value(field, version)
                for field in struct.fields
                if version in field.versions
            }
        )

    def value(self, field: Field, version: int) -> Any:
        random = self.random
        if version in field.nullable and random.random() < 0.1:
            return None
        if field.array:
            count = 40 if random.random() < 0.01 else random.choice((0, 1, 1, 1, 2, 3))
            element = replace(field, array=False, nullable=NO_VERSION)
            return [self.value(element, version) for _ in range(count)]
        if field.struct is not None:
            return self.row(field.struct, version)
        match field.kind:
            case "string":
                return (
                    random.choice(WORDS)
                    if random.random() < 0.98
                    else "y" * random.randint(0, 32767)
                )
            case "uuid":
                return random.choice(self.ids) if random.random() < 0.9 else random.randbytes(16)
            case "bool":
                return random.random() < 0.5
            case "float64":
                return random.choice(
                    (0.0, -1.0, 1e300, float("inf"), float("nan"), random.random())
                )
            case "records" | "bytes":
                return self.records()
        return self.number(field.kind)

    def number(self, kind: str) -> int:
        letter = FIXED[kind][0]
        bits = 8 * len(pack(f">{letter}", 0))
        value = (
            self.random.choice(SMALL if self.random.random() < 0.7 else NUMBERS) & (1 << bits) - 1
        )
        return value if letter.isupper() or value >> bits - 1 == 0 else value - (1 << bits)

    def records(self) -> bytes:
        random = self.random
        if random.random() < 0.1:
            return random.choice((b"", random.randbytes(random.choice((1, 60, 61, 200)))))
        records = [
            (random.choice((None, b"k")), random.choice((None, b"", b"v" * 50)), (), CLOCK_MS + i)
            for i in range(random.choice((1, 1, 2, 9)))
        ]
        batch = bytearray(build_batch(records, compression=random.choice((0, 0, 1, 2, 3, 4))))
        for _ in range(random.choice((0, 0, 1, 2))):
            batch[random.randrange(len(batch))] = random.choice(BYTES)
        if random.random() < 0.5:  # as an idempotent producer's: id, epoch, sequence
            pack_into(
                ">qhi",
                batch,
                43,
                random.choice((0, 1, 2, 10**6)),
                random.choice((0, 0, 1, -1)),
                random.choice((0, 0, 1, 2, -1)),
            )
        if random.random() < 0.9:
            seal(memoryview(batch))
        return bytes(batch) * random.choice((1, 1, 1, 1, 2))

    # bytes

    def changed(self, frame: bytes, other: bytes) -> bytes:
        data = bytearray(frame)
        for _ in range(self.random.choice((1, 1, 1, 2, 2, 3, 5))):
            self.change(data, other)
        data[:2] = self.api.key.to_bytes(2)
        return bytes(data)

    def change(self, data: bytearray, other: bytes) -> None:
        random = self.random
        if len(data) < 12:
            data += random.randbytes(12)
        at = random.randrange(8 if random.random() < 0.97 else 2, len(data))
        match random.randrange(9):
            case 0:
                data[at] ^= 1 << random.randrange(8)
            case 1:
                data[at] = random.choice(BYTES)
            case 2:
                size = random.choice((2, 4, 8))
                data[at : at + size] = (random.choice(NUMBERS) & (1 << 8 * size) - 1).to_bytes(size)
            case 3:
                del data[at : at + random.choice((1, 1, 2, 4, 16))]
            case 4:
                data[at:at] = data[at : at + random.choice((1, 2, 4, 16, 64))]
            case 5:
                data[at:at] = random.randbytes(random.choice((1, 2, 4, 8)))
            case 6:
                del data[at:]
            case 7:
                data[at:] = other[min(at, len(other)) :]
            case 8:
                data[2:4] = (random.randint(self.api.min_version, self.api.max_version)).to_bytes(2)


def header(api: AnyApi, version: int, random: Random) -> bytes:
    client_id = random.choice((b"\xff\xff", b"\x00\x00", b"\x00\x04fuzz"))
    tags = (
        b""
        if version not in api.flexible
        else b"\x00"
        if random.random() < 0.95
        else b"\x01\x07\x02ab"
    )
    return pack(">hhi", api.key, version, random.randrange(2**31)) + client_id + tags


def harmless(frame: bytes) -> bool:
    """All but one: who has the target unregistered without end gets what it asks for, and no
    neighbour is served.
    """
    return frame[:2] != pack(">h", UNREGISTER_BROKER.key) or pack(">i", 1) not in frame[8:]


def recorded(key: int, ids: Mapping[str, bytes]) -> list[bytes]:
    """The recorded requests of that API, with the target's topic ids where those of that run
    were.
    """
    lines = [json.loads(line) for line in RECORDED.read_text(encoding="utf-8").splitlines()]
    frames = [
        bytes.fromhex(line["request"])
        for line in lines
        if line["key"] == key and line["request"] is not None
    ]
    listed = memoryview(
        bytes.fromhex(next(line["response"] for line in lines if line["n"] == LISTING))
    )
    row, _ = METADATA.decode_response(12, listed, decode_response_header(listed, METADATA, 12)[1])
    for topic in row.topics:
        frames = [
            frame.replace(topic.topic_id, ids.get(topic.name or "", topic.topic_id))
            for frame in frames
        ]
    return frames
