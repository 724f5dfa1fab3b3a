"""Hostile bytes of strangers to a live node: each case ends as with the real broker or better,
nobody else notices, and memory stays where it was.

One process for all cases, over real sockets: whatever one of them leaves behind is there for those
that follow.
"""

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from struct import pack
from typing import NamedTuple

import pytest

from raftka.cluster.processes import Processes, running
from raftka.limits import REQUEST_BYTES
from raftka.wire.errors import Code
from raftka.wire.messages.api_versions import API_VERSIONS
from raftka.wire.messages.fetch import FETCH
from raftka.wire.messages.metadata import METADATA
from raftka.wire.messages.partitions import ELECT_LEADERS
from raftka.wire.messages.produce import PRODUCE
from raftka.wire.messages.producers import DESCRIBE_PRODUCERS
from raftka.wire.messages.topics import CREATE_TOPICS
from raftka.wire.records import seal
from raftka.wire.schema import AnyApi, Row
from tests.broker.requests import batch, fetch, produce, produced
from tests.broker.talk import Line

MIB = 1 << 20
CLIENT = API_VERSIONS.request(client_software_name="test", client_software_version="1")
BOMBS, BOMBS_MAY_TAKE = 20, 25 * MIB
# ApiVersions v0 with correlation id 1 and no client id
LENIENT_V0 = bytes.fromhex("0012000000000001ffff")


class Target(NamedTuple):
    processes: Processes

    @property
    def address(self) -> tuple[str, int]:
        return self.processes.addresses[0]

    @property
    def log(self) -> str:
        return self.processes.nodes[1].plan.log_file.read_text(encoding="utf-8")

    @property
    def resident_bytes(self) -> int:
        pages = (
            Path(f"/proc/{self.processes.nodes[1].pid}/statm")
            .read_text(encoding="ascii")
            .split()[1]
        )
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def line(self) -> Line:
        return Line(self.address)

    def serves(self) -> None:
        """A new client is answered."""
        with self.line() as line:
            assert line.ask(API_VERSIONS, CLIENT).error_code == 0


@pytest.fixture(scope="module")
def node() -> Iterator[Target]:
    # times of records here are long ago, and a machine under load takes minutes for this file
    with running(nodes=1, settings={"log.retention.ms": "-1"}) as processes:
        target = Target(processes)
        with target.line() as line:
            request = CREATE_TOPICS.request
            line.ask(
                CREATE_TOPICS,
                request(topics=[request.topics(name="t", num_partitions=1, replication_factor=1)]),
            )
        yield target


@pytest.fixture(autouse=True)
def _neighbour(node: Target) -> Iterator[None]:
    """Another client's connection is there before, is served after, and the node is the same
    process.
    """
    pid = node.processes.nodes[1].pid
    with node.line() as line:
        assert line.ask(API_VERSIONS, CLIENT).error_code == 0
        yield
        assert line.ask(API_VERSIONS, CLIENT).error_code == 0
    node.serves()
    assert node.processes.nodes[1].pid == pid


def header(
    key: int, version: int, client_id: bytes = b"\xff\xff", correlation_id: int = 7
) -> bytes:
    return pack(">hhi", key, version, correlation_id) + client_id


def sized(body: bytes) -> bytes:
    return pack(">i", len(body)) + body


def metadata_v1(topics: bytes) -> bytes:
    return sized(header(3, 1) + topics)


def metadata_v12(topics: bytes, rest: bytes = b"\x00\x00\x00") -> bytes:
    return sized(header(3, 12) + b"\x00" + topics + rest)


def flexible_header(tags: bytes) -> bytes:
    """ApiVersions v3 with these tags in its header."""
    return sized(header(18, 3) + tags + b"\x05test\x021\x00")


def raw_produce(records: bytes, announced: int | None = None) -> bytes:
    """Produce v9 to topic t with any bytes as records, and any claim of how many they are."""
    size = _unsigned((len(records) if announced is None else announced) + 1)
    return sized(
        header(0, 9)
        + b"\x00"
        + b"\x00\xff\xff\x00\x00\x13\x88"
        + b"\x02\x02t\x02\x00\x00\x00\x00"
        + size
        + records
        + b"\x00\x00\x00"
    )


def _unsigned(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


LONGEST = b"\xff\xff\xff\xff\x0f"  # 2^32-1 as a varint

# name: (bytes, what the log says of it)
CLOSED: dict[str, tuple[bytes, str]] = {
    "size 2^31-1": (pack(">i", 2**31 - 1) + bytes(10), "2147483647 bytes"),
    "size 100 MiB + 1": (pack(">i", REQUEST_BYTES.value + 1) + bytes(10), "104857601 bytes"),
    "size -1": (pack(">i", -1) + bytes(10), "-1 bytes"),
    "size -2^31": (pack(">i", -(2**31)) + bytes(10), "-2147483648 bytes"),
    "size 0": (pack(">i", 0), "0 bytes"),
    "size 1": (sized(b"\x00"), "1 bytes"),
    "size 3": (sized(bytes(3)), "3 bytes"),
    "no client id": (sized(header(18, 0, b"")), "inside its header"),
    "client id longer than the frame": (sized(header(18, 0, b"\x7f\xffabc")), "inside its header"),
    "api key 999": (sized(header(999, 0)), "API key 999"),
    "api key -1": (sized(header(-1, 0)), "API key -1"),
    "Metadata v99": (sized(header(3, 99)), "API key 3 version 99"),
    "Metadata v-1": (sized(header(3, -1)), "API key 3 version -1"),
    "a removed API": (sized(header(7, 0)), "API key 7"),
    "a controller's API": (sized(header(52, 0)), "API key 52"),
    "an announced version that is not served": (sized(header(0, 2)), "API key 0 version 2"),
    "ApiVersions v99 without tags": (sized(header(18, 99)), "inside its header"),
    "ApiVersions v99 with garbage behind the client id": (
        sized(header(18, 99) + b"\xff" * 9),
        "a varint of more than 5 bytes",
    ),
    "ApiVersions v3 without a body": (sized(header(18, 3)), ""),
    "noise": (b"\x9b\x17" * 512, "bytes, 104857600 are possible"),
    "HTTP": (b"GET /topics HTTP/1.1\r\nHost: kafka\r\n\r\n", "HTTP"),
    "HTTP POST": (b"POST /topics HTTP/1.1\r\n\r\n", "HTTP"),
    "TLS": (bytes.fromhex("16030100f8010000f40303") + bytes(200), "TLS"),
    "four letters": (b"ruok\n", "ZooKeeper"),
    "array of 2^31-1": (metadata_v1(b"\x7f\xff\xff\xff"), ""),
    "varint of 6 bytes": (metadata_v12(b"\xff\xff\xff\xff\xff\x01"), ""),
    "varint that never ends": (metadata_v12(b"\xff" * 40), ""),
    "null name": (metadata_v1(b"\x00\x00\x00\x01\xff\xff"), ""),
    "cut in a name": (metadata_v1(b"\x00\x00\x00\x01\x00\x10abc"), ""),
    "tag longer than the frame": (flexible_header(b"\x01\x05" + LONGEST), ""),
    "10,001 tags": (
        flexible_header(_unsigned(10_001) + b"\x05\x00" * 10_001),
        "10001 tagged fields",
    ),
    "records longer than the frame": (raw_produce(batch(b"1"), 50_000), ""),
    "a million and one objects": (
        metadata_v1(pack(">i", 600_000) + bytes(2 * 600_000)),
        "more than 1000000 values",
    ),
}


@pytest.mark.parametrize("name", CLOSED)
def test_closed_with_a_line_in_the_log(node: Target, name: str) -> None:
    sent, said = CLOSED[name]
    before = node.log.count("connection_refused")

    with node.line() as line:
        line.send(sent)
        if name in ("four letters", "ApiVersions v3 without a body"):
            line.end()
        assert line.closed()

    lines = [line for line in node.log.splitlines() if "connection_refused" in line]
    assert len(lines) == before + 1
    assert said in lines[-1]
    assert f'"peer": "{socket.gethostbyname("localhost")}:' in lines[-1]


# name: (bytes, the correlation id of the answer)
ANSWERED: dict[str, tuple[bytes, int]] = {
    "client id length -2": (sized(header(18, 0, b"\xff\xfe")), 7),
    "client id null": (sized(LENIENT_V0), 1),
    "client id of invalid UTF-8": (sized(header(18, 0, b"\x00\x03\xff\xfe\xfd")), 7),
    "correlation id -5": (sized(header(18, 0, correlation_id=-5)), -5),
    "bytes behind the body": (sized(LENIENT_V0 + b"12345"), 1),
    "array length -2": (metadata_v1(b"\xff\xff\xff\xfe"), 7),
    "compact array length 2^32-1": (metadata_v12(LONGEST), 7),
    "boolean 7": (metadata_v12(b"\x01", b"\x07\x00\x00"), 7),
    "10,000 unknown tags": (
        flexible_header(
            _unsigned(10_000) + b"".join(_unsigned(tag) + b"\x01x" for tag in range(10_000))
        ),
        7,
    ),
    "2^32-1 tags announced": (flexible_header(LONGEST), 7),  # as a signed number that is -1
    "a tag twice": (flexible_header(b"\x02\x05\x01a\x05\x01b"), 7),
    "tags descending": (flexible_header(b"\x02\x09\x01a\x05\x01b"), 7),
    "unknown tag of 1 MB": (
        sized(header(18, 3) + b"\x00\x05test\x021\x01\x05" + _unsigned(MIB) + bytes(MIB)),
        7,
    ),
}


@pytest.mark.parametrize("name", ANSWERED)
def test_answered_as_the_real_broker_does(node: Target, name: str) -> None:
    sent, correlation_id = ANSWERED[name]

    with node.line() as line:
        line.send(sent)
        frame = line.frame()
        assert frame is not None
        assert int.from_bytes(frame[:4], signed=True) == correlation_id
        assert line.ask(API_VERSIONS, CLIENT).error_code == 0


@pytest.mark.parametrize("version", [6, 99, 32767, -1])
def test_an_unknown_version_of_api_versions_is_answered_as_version_0(
    node: Target, version: int
) -> None:
    with node.line() as line:
        line.send(sized(header(18, version) + b"\x00\x05test\x021\x00"))

        assert line.frame() == bytes.fromhex("00000007002300000001001200000005")
        assert line.ask(API_VERSIONS, CLIENT).error_code == 0


def test_a_name_of_invalid_utf8_is_an_invalid_topic(node: Target) -> None:
    with node.line() as line:
        line.send(metadata_v1(b"\x00\x00\x00\x01\x00\x03\xff\xfe\xfd"))

        (topic,) = line.answer(METADATA, 1).topics

    assert topic.error_code == Code.INVALID_TOPIC_EXCEPTION


def changed(records: bytes, at: int, data: bytes, *, sealed: bool = True) -> bytes:
    copy = bytearray(records)
    copy[at : at + len(data)] = data
    if sealed:
        seal(memoryview(copy))
    return bytes(copy)


GOOD = batch(b"1", b"2")
NO_CODEC = {
    codec: changed(GOOD, 22, bytes([number]))
    for number, codec in enumerate(("gzip", "snappy", "lz4", "zstd"), 1)
}
RECORDS: dict[str, tuple[bytes, Code]] = {
    "wrong CRC": (changed(GOOD, 17, b"\0\0\0\1", sealed=False), Code.CORRUPT_MESSAGE),
    "batch length 2^31-1": (
        changed(GOOD, 8, b"\x7f\xff\xff\xff", sealed=False),
        Code.INVALID_RECORD,
    ),
    "batch length 0": (changed(GOOD, 8, b"\0\0\0\0", sealed=False), Code.CORRUPT_MESSAGE),
    "batch length -1": (changed(GOOD, 8, b"\xff\xff\xff\xff", sealed=False), Code.CORRUPT_MESSAGE),
    "record count 2^31-1": (changed(GOOD, 57, b"\x7f\xff\xff\xff"), Code.INVALID_RECORD),
    "record count -1": (changed(GOOD, 57, b"\xff\xff\xff\xff"), Code.INVALID_RECORD),
    "a codec that is none": (changed(GOOD, 22, b"\x06"), Code.UNKNOWN_SERVER_ERROR),
    "2 MB in one batch": (batch(bytes(2 * MIB)), Code.MESSAGE_TOO_LARGE),
    "empty": (b"", Code.INVALID_RECORD),
}


@pytest.mark.parametrize("name", RECORDS)
def test_records_that_are_none(node: Target, name: str) -> None:
    records, code = RECORDS[name]

    with node.line() as line:
        answer = produced(line.ask(PRODUCE, produce("t", records), 12))
        good = produced(line.ask(PRODUCE, produce("t", GOOD), 12))

    assert (Code(answer.error_code), answer.base_offset) == (code, -1)
    assert good.error_code == 0


def test_an_unknown_topic_is_said_before_a_wrong_crc(node: Target) -> None:
    with node.line() as line:
        answer = produced(line.ask(PRODUCE, produce("nope", RECORDS["wrong CRC"][0]), 12))

    assert answer.error_code == Code.UNKNOWN_TOPIC_OR_PARTITION


def test_null_records_are_answered(node: Target) -> None:
    """The real broker's connection stays mute for ever."""
    with node.line() as line:
        line.send(raw_produce(b"", -1))

        assert produced(line.answer(PRODUCE, 9)).error_code == Code.INVALID_RECORD


@pytest.mark.parametrize("codec", NO_CODEC)
def test_a_payload_that_is_not_of_its_codec_harms_nobody(node: Target, codec: str) -> None:
    """Batches are judged by their header: it is stored, and its reader sees it as it was sent.
    (With raftka.validation=records it is refused.)
    """
    with node.line() as line:
        assert produced(line.ask(PRODUCE, produce("t", NO_CODEC[codec]), 12)).error_code == 0


def test_a_bomb_stays_closed(node: Target) -> None:
    before = node.resident_bytes

    with node.line() as line:
        bomb = batch(bytes(200 * MIB), compression=1)
        assert len(bomb) < MIB
        assert produced(line.ask(PRODUCE, produce("t", bomb), 12)).error_code == 0

    assert node.resident_bytes - before < 20 * MIB


def test_100_000_unknown_topics(node: Target) -> None:
    before = node.resident_bytes
    names = b"".join(b"\x00\x07u%06d" % i for i in range(100_000))

    with node.line() as line:
        line.send(sized(header(3, 4) + pack(">i", 100_000) + names + b"\x00"))
        answer = line.answer(METADATA, 4)

    assert len(answer.topics) == 100_000
    assert {topic.error_code for topic in answer.topics} == {Code.UNKNOWN_TOPIC_OR_PARTITION}
    assert node.resident_bytes - before < 100 * MIB


def test_100_000_partitions_of_an_unknown_topic(node: Target) -> None:
    row, asked = fetch("nope"), FETCH.request.topics.partitions
    row.topics[0].partitions = [asked(partition=i) for i in range(100_000)]

    with node.line() as line:
        (topic,) = line.ask(FETCH, row, 4).responses

    assert len(topic.partitions) == 100_000


def test_100_000_partitions_to_create(node: Target) -> None:
    request = CREATE_TOPICS.request
    with node.line() as line:
        (topic,) = line.ask(
            CREATE_TOPICS,
            request(
                topics=[request.topics(name="many", num_partitions=100_000, replication_factor=1)]
            ),
        ).topics

    assert topic.error_code == Code.POLICY_VIOLATION


# how it comes


def test_a_hundred_mib_that_are_only_announced_take_no_memory(node: Target) -> None:
    """The real broker allocates them on the word of the size field: 20 of these and it has no
    memory left.
    """
    with ExitStack() as stack:
        node.serves()
        before = node.resident_bytes
        lines = [stack.enter_context(node.line()) for _ in range(BOMBS)]
        for line in lines:
            line.send(pack(">i", REQUEST_BYTES.value) + bytes(100))
        node.serves()

        assert node.resident_bytes - before <= BOMBS_MAY_TAKE
        for line in lines:  # nor are they given up before their time: the first megabyte of each
            line.send(bytes(MIB))
        node.serves()
        assert node.resident_bytes - before <= BOMBS * 4 * MIB + BOMBS_MAY_TAKE


def test_half_a_frame_waits_for_the_other_half(node: Target) -> None:
    frame = sized(LENIENT_V0)
    for cut in range(1, len(frame)):
        with node.line() as line:
            line.send(frame[:cut])
            node.serves()
            line.send(frame[cut:])
            assert line.answer(API_VERSIONS, 0).error_code == 0


def test_a_request_that_drips_is_answered(node: Target) -> None:
    with node.line() as line, node.line() as other:
        for byte in sized(LENIENT_V0):
            line.send(bytes([byte]))
            other.ask(API_VERSIONS, CLIENT)

        assert line.answer(API_VERSIONS, 0).error_code == 0


def test_who_shuts_down_its_side_still_gets_the_answer(node: Target) -> None:
    with node.line() as line:
        line.send(sized(LENIENT_V0) * 3)
        line.end()

        assert [line.answer(API_VERSIONS, 0).error_code for _ in range(3)] == [0, 0, 0]
        assert line.closed()


def test_who_shuts_down_while_a_topic_is_made_still_gets_the_answer(node: Target) -> None:
    request = CREATE_TOPICS.request
    with node.line() as line:
        line.request(
            CREATE_TOPICS,
            request(topics=[request.topics(name="late", num_partitions=1, replication_factor=1)]),
        )
        line.end()

        assert line.answer(CREATE_TOPICS).topics[0].error_code == 0
        assert line.closed()


def test_half_a_request_and_the_end_closes(node: Target) -> None:
    with node.line() as line:
        line.send(sized(LENIENT_V0)[:-2])
        line.end()

        assert line.closed()


def test_500_requests_at_once_are_answered_in_order(node: Target) -> None:
    frames = b"".join(sized(header(18, 0, correlation_id=i)) for i in range(500))
    with node.line() as line:
        line.send(frames)
        node.serves()

        came = [line.frame() or b"" for _ in range(500)]

    assert [int.from_bytes(frame[:4]) for frame in came] == list(range(500))


def test_a_good_request_before_garbage_is_answered(node: Target) -> None:
    with node.line() as line:
        line.send(sized(LENIENT_V0) + pack(">i", -1))

        assert line.answer(API_VERSIONS, 0).error_code == 0
        assert line.closed()


def test_who_never_reads_takes_little_memory(node: Target) -> None:
    """(That it is stopped, and by what, is test_limits' matter.)"""
    requests = sized(header(18, 0)) * 1000
    before = node.resident_bytes
    with node.line() as line:
        line.sock.setblocking(False)
        for _ in range(150):
            try:
                line.sock.send(requests)
            except BlockingIOError:
                node.serves()

        assert node.resident_bytes - before < 30 * MIB


def test_1000_idle_connections_and_a_new_client_is_served(node: Target) -> None:
    before = node.resident_bytes
    with ExitStack() as stack:
        lines = [stack.enter_context(node.line()) for _ in range(1000)]
        node.serves()

        assert node.resident_bytes - before < 20 * MIB
        for line in lines[::100]:
            assert line.ask(API_VERSIONS, CLIENT).error_code == 0


def test_what_came_before_is_all_still_there(node: Target) -> None:
    """The log of a topic that was attacked is one that a consumer reads from its beginning to its
    end.
    """
    with node.line() as line:
        wanted = produced(line.ask(PRODUCE, produce("t", batch(b"last")), 12)).base_offset
        offset = 0
        while offset <= wanted:
            row = fetch("t", offset, max_bytes=50 * MIB, partition_max_bytes=50 * MIB)
            ((partition,),) = [topic.partitions for topic in line.ask(FETCH, row, 12).responses]
            assert partition.error_code == 0
            records = bytes(partition.records or b"")
            position = 0
            while position < len(records):
                base = int.from_bytes(records[position : position + 8])
                length = int.from_bytes(records[position + 8 : position + 12])
                assert base == offset
                offset += 1 + int.from_bytes(records[position + 23 : position + 27])
                position += 12 + length

    assert offset == wanted + 1


def test_many_partitions_of_a_topic_whose_name_is_none(node: Target) -> None:
    """Each is told what is wrong, and none in 32 KB of its name."""
    name, many = "y" * 32767, list(range(8000))
    election = ELECT_LEADERS.request(
        topic_partitions=[ELECT_LEADERS.request.topic_partitions(topic=name, partitions=many)]
    )
    producers = DESCRIBE_PRODUCERS.request(
        topics=[DESCRIBE_PRODUCERS.request.topics(name=name, partition_indexes=many)]
    )
    asked: tuple[tuple[AnyApi, Row], ...] = (
        (ELECT_LEADERS, election),
        (DESCRIBE_PRODUCERS, producers),
    )
    for api, row in asked:
        with node.line() as line:
            line.request(api, row)
            answer = line.frame()

        assert answer is not None
        assert 8000 * 256 < len(answer) < 8000 * 512
    node.serves()
