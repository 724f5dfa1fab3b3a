"""Malformed input on ten connections at once: frames that do not decode, counts and lengths beyond
the frame, bombs, half frames, noise, mutations.

The benchmark measures the node's memory (VmHWM: the most that was resident), the answers and the
closed connections, and checks that the node serves.
"""

import random
import socket
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from struct import pack

from bench import hostile
from bench.hostile import CONNECTIONS, answer, memory_mb, started
from bench.systems import System
from raftka.limits import REQUEST_BYTES
from raftka.wire.frame import encode_request
from raftka.wire.messages.produce import PRODUCE
from raftka.wire.records import build_batch, seal

SECONDS = 4.0
NOISE_BYTES = 1 << 20
HALF_BYTES = 256 * 1024  # sent of a frame of 100 MiB, whose rest never comes
ANNOUNCED = REQUEST_BYTES.value
LONGEST = b"\xff\xff\xff\xff\x0f"  # 2^32-1 as a varint
DEEP = 200_000  # tags, one in the other or one behind the other
MUTATIONS = 2_000
NO_TEXT = b"\xff\xff"
TIME_MS = 1_700_000_000_000
COUNT = 5_000  # items of the requests that are changed

Frames = list[bytes]  # each with its size in front


@dataclass
class Outcome:
    """Peak and later memory of the node in MB, and what became of the frames."""

    peak_mb: float = 0.0
    after_mb: float = 0.0
    sent: int = 0
    answers: int = 0
    closed: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, *, sent: int = 0, answers: int = 0, closed: int = 0) -> None:
        with self.lock:
            self.sent += sent
            self.answers += answers
            self.closed += closed


def sized(body: bytes) -> bytes:
    return pack(">i", len(body)) + body


def header(key: int, version: int) -> bytes:
    """The header of a request without client id, of a version that has no tags in it."""
    return pack(">hhi", key, version, 7) + NO_TEXT


def kinds() -> Iterator[tuple[str, Frames]]:
    noise = random.Random(1)
    yield "noise of 1 MiB", [noise.randbytes(NOISE_BYTES)]
    yield (
        "noise of 1 MiB in a frame of Metadata",
        [sized(header(3, 4) + noise.randbytes(NOISE_BYTES))],
    )
    yield "an API that there is not, 1 MiB", [sized(header(999, 0) + bytes(NOISE_BYTES))]
    yield (
        "sizes of 0, -1, -2^31, 2^31-1",
        [pack(">i", size) + bytes(100) for size in (0, -1, -(2**31), 2**31 - 1)],
    )
    yield from of_counts()
    yield from of_tags()
    yield from of_records()
    yield (
        "half frames that are never ended, 256 KiB of 100 MiB",
        [pack(">i", ANNOUNCED) + header(0, 8) + bytes(HALF_BYTES)],
    )
    yield f"valid requests with bytes changed, {MUTATIONS:,}", list(mutations())


def of_counts() -> Iterator[tuple[str, Frames]]:
    """Arrays and strings that announce more than the frame has, and arrays with as many values as a
    frame may have.
    """
    yield (
        "an array of 2^31-1, nothing in it",
        [sized(header(3, 4) + b"\x7f\xff\xff\xff" + bytes(100))],
    )
    yield (
        "an array of 2^31-1, 1 MiB of it",
        [sized(header(3, 4) + b"\x7f\xff\xff\xff" + b"\0\x06noname" * (NOISE_BYTES // 8))],
    )
    yield (
        "100,000 names, the last one cut",
        [
            sized(
                header(3, 4)
                + pack(">i", 100_000)
                + b"\0\x0e"
                + b"\0\x0eno-such-topic-".join([b""] * 100_000)
            )
        ],
    )
    yield (
        "600,000 names without a letter",
        [sized(header(3, 4) + pack(">i", 600_000) + bytes(2 * 600_000))],
    )
    yield (
        "an array of 2^31-1 in each of 50,000 topics",
        [
            sized(
                header(1, 4) + bytes(17) + pack(">i", 50_000) + b"\0\x01t\x7f\xff\xff\xff" * 50_000
            )
        ],
    )
    yield (
        "names of 32 KB that nobody has, 1 MiB",
        [sized(header(3, 4) + pack(">i", 32) + (b"\x7f\xff" + b"x" * 32767) * 32 + b"\0")],
    )


def of_tags() -> Iterator[tuple[str, Frames]]:
    """ApiVersions and Metadata with tagged fields that nobody knows."""
    tags = b"".join(varint(tag) + b"\x01x" for tag in range(DEEP))
    versions = header(18, 3)
    yield "200,000 unknown tags", [sized(versions + varint(DEEP) + tags + b"\x02a\x02b\0")]
    yield (
        "2^32-1 tags, of 2^32-1 bytes",
        [sized(versions + LONGEST + LONGEST + LONGEST), sized(versions + b"\x01\x05" + LONGEST)],
    )
    yield (
        "a tag of 1 MiB",
        [
            sized(
                versions + b"\x01\x05" + varint(NOISE_BYTES) + bytes(NOISE_BYTES) + b"\x02a\x02b\0"
            )
        ],
    )
    topics = b"".join(bytes(16) + b"\x02x" + b"\x01\x05\x01y" for _ in range(50_000))
    yield (
        "a tag in each of 50,000 topics",
        [sized(header(3, 12) + b"\0" + varint(50_001) + topics + b"\0\0\0")],
    )


def of_records() -> Iterator[tuple[str, Frames]]:
    """Batches that open to more than they are, or are not what they say. `recoded` has a codec of
    its own, so all of it is opened.
    """
    million = [(None, b"", (), TIME_MS)] * 200_000
    for codec, name in ((1, "gzip"), (3, "lz4"), (4, "zstd")):
        yield (
            f"a bomb of empty records, {name}",
            [produce(bytes(build_batch(million, compression=codec)))],
        )
        yield (
            f"one record that opens to 60 MB, {name}",
            [
                produce(
                    bytes(build_batch([(None, bytes(60_000_000), (), TIME_MS)], compression=codec))
                )
            ],
        )
    zeros = zlib.compress(bytes(200 << 20), 9, 31)
    yield "200 MB of zeros in gzip", [produce(with_payload(zeros, 1))]
    yield (
        "2^31-1 records announced",
        [produce(changed(bytes(build_batch(million[:10])), 57, b"\x7f\xff\xff\xff"))],
    )
    yield (
        "a batch of 2^31-1 bytes announced",
        [produce(changed(bytes(build_batch(million[:10])), 8, b"\x7f\xff\xff\xff"))],
    )
    yield (
        "gzip that is none, 1 MB",
        [produce(with_payload(random.Random(2).randbytes(1_000_000), 1))],
    )


def produce(records: bytes) -> bytes:
    topic = PRODUCE.request.topic_data
    rows = [topic(name="recoded", partition_data=[topic.partition_data(index=0, records=records)])]
    return bytes(
        encode_request(
            PRODUCE, 9, 1, "attacker", PRODUCE.request(acks=1, timeout_ms=5000, topic_data=rows)
        )
    )


def with_payload(payload: bytes, codec: int) -> bytes:
    """A batch of 1,000 records that says of `payload` that it is compressed."""
    batch = bytearray(build_batch([(None, b"", (), TIME_MS)] * 1000)[:61]) + payload
    batch[8:12] = pack(">i", len(batch) - 12)
    return changed(bytes(batch), 22, bytes([codec]))


def changed(batch: bytes, at: int, data: bytes) -> bytes:
    copy = bytearray(batch)
    copy[at : at + len(data)] = data
    seal(memoryview(copy))
    return bytes(copy)


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def mutations() -> Iterator[bytes]:
    """Requests for many items with up to eight bytes changed, or cut; the size in front is
    right.
    """
    chance = random.Random(3)
    seeds = [
        bytes(encode_request(api, version, 1, "attacker", row))
        for _, api, version, row in hostile.requests(COUNT)
    ]
    for _ in range(MUTATIONS):
        frame = bytearray(chance.choice(seeds)[4:])
        for _ in range(chance.randint(1, 8)):
            frame[chance.randrange(8, min(len(frame), chance.choice((40, 400, len(frame)))))] = (
                chance.choice((0, 1, 0x7F, 0x80, 0xFF))
            )
        yield sized(bytes(frame[: chance.choice((len(frame), chance.randrange(8, len(frame))))]))


def attack(
    address: tuple[str, int], frames: Frames, outcome: Outcome, stop: threading.Event, first: int
) -> None:
    """Each frame on a connection of its own; what does not answer within a second is held open, ten
    at a time, and left.
    """
    held: list[socket.socket] = []
    at = first
    while not stop.is_set():
        frame = frames[at % len(frames)]
        at += CONNECTIONS
        with suppress(OSError):
            sock = socket.create_connection(address, 5.0)
            sock.settimeout(1.0)
            held.append(sock)
            outcome.count(sent=1)
            try:
                sock.sendall(frame)
                answer(sock)
                outcome.count(answers=1)
            except TimeoutError:
                continue
            except OSError:
                outcome.count(closed=1)
            held.pop().close()
        while len(held) > CONNECTIONS:
            held.pop(0).close()
    for sock in held:
        sock.close()


def measure(system: System, frames: Frames, address: tuple[str, int]) -> Outcome:
    outcome, stop = Outcome(), threading.Event()
    forget_peak(system)
    clients = [
        threading.Thread(target=attack, args=(address, frames, outcome, stop, first), daemon=True)
        for first in range(CONNECTIONS)
    ]
    for client in clients:
        client.start()
    time.sleep(SECONDS)
    stop.set()
    for client in clients:
        client.join(timeout=30)
    outcome.peak_mb = max(memory_mb(pid, "VmHWM") for pid in system.pids)
    time.sleep(1.0)
    outcome.after_mb = max(memory_mb(pid, "VmRSS") for pid in system.pids)
    return outcome


def forget_peak(system: System) -> None:
    """Reset VmHWM: from now on it tells of the next attack alone."""
    for pid in system.pids:
        Path(f"/proc/{pid}/clear_refs").write_text("5", encoding="ascii")


def lines(make: Callable[[], System], only: str = "") -> Iterator[str]:
    """Run all kinds one after the other on the same node: memory that one kind leaves behind counts
    for the next.
    """
    yield (
        "| malformed input on ten connections | bytes | frames sent | answered | closed | peak "
        "RSS MB | RSS MB a second later |"
    )
    yield "|---|---|---|---|---|---|---|"
    with make() as system:
        run = partial(measure, system, address=started(system))
        time.sleep(2.0)
        idle = max(memory_mb(pid, "VmRSS") for pid in system.pids)
        yield f"| nothing | | | | | {idle:.0f} | {idle:.0f} |"
        most = idle
        for name, frames in kinds():
            if only in name:
                outcome = run(frames)
                most = max(most, outcome.peak_mb)
                size = max(map(len, frames))
                yield (
                    f"| {name} | {size:,} | {outcome.sent:,} | {outcome.answers:,} | "
                    f"{outcome.closed:,} "
                    f"| {outcome.peak_mb:.0f} | {outcome.after_mb:.0f} |"
                )
        yield f"| all of them | | | | | **{most:.0f}** (+{most - idle:.0f}) | |"
