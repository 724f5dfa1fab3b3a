"""`raftka produce` and `raftka consume`: lines in, lines out. What one prints as JSON the other
reads.
"""

import base64
import json
import os
import select
import stat
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from raftka.cli.admin.client import connect, sentence
from raftka.cli.output import CommandFailed, check_fields, command, progress
from raftka.client.blocking.client import Client, Patience, Unreachable, Where
from raftka.client.blocking.member import Member
from raftka.client.blocking.producer import ALL, NOBODY, Producer, partition_of
from raftka.client.blocking.reader import FetchedRecord, Reader
from raftka.wire.compression import NAMES
from raftka.wire.messages.list_offsets import EARLIEST, LATEST

READ_BYTES = 64 * 1024
POLL_S, POLL_RECORDS = 0.5, 500
CREATE_S = 5.0  # for a topic that the brokers make as they hear of it
KEYLESS = 500  # records without a key go to one partition, so many to each in turn


class Line(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    partition: int | None


@command
def produce(
    topic: str,
    source: str,
    key_separator: str | None,
    partition: int | None,
    acks: str,
    compression: str,
    bootstrap_server: str,
    output: str,
) -> None:
    size = _size_of_input()
    with connect(bootstrap_server) as client, progress("producing", size) as sent:
        told = _Told(topic, output)
        producer = Producer(
            client,
            compression=NAMES.index(compression),
            identity=None if acks == "all" else NOBODY,
            acks=ALL if acks == "all" else int(acks),
            on_written=told.written,
        )
        count = _partitions_to_write(client, topic)

        def idle(read: int) -> None:
            producer.flush()
            sent(read if size else 0)

        try:
            for number, line in enumerate(
                _lines(_input(sys.stdin.fileno(), idle), source, key_separator)
            ):
                where = (topic, _place(line, partition, count, number))
                if not 0 <= where[1] < count:
                    raise CommandFailed(f"{topic} has no partition {where[1]}")
                told.sent(where)
                producer.add(
                    where, (line.key, line.value, line.headers, time.time_ns() // 1_000_000)
                )
        except CommandFailed:
            producer.flush()  # what stands before the line that is wrong
            raise
        producer.flush()
        sent(size)


class _Told:
    """Prints the offset of each written record, in the order in which the records were read."""

    def __init__(self, topic: str, output: str) -> None:
        self._topic, self._prints = topic, output == "json"
        self._sent: deque[int] = deque()  # partitions
        self._offsets: dict[int, deque[int]] = {}

    def sent(self, where: Where) -> None:
        if self._prints:
            self._sent.append(where[1])

    def written(self, where: Where, offset: int, records: int) -> None:
        if not self._prints:
            return
        self._offsets.setdefault(where[1], deque()).extend(
            [offset] * records if offset < 0 else range(offset, offset + records)
        )
        while self._sent and self._offsets.get(self._sent[0]):
            partition = self._sent.popleft()
            print(
                json.dumps(
                    {
                        "topic": self._topic,
                        "partition": partition,
                        "offset": self._offsets[partition].popleft(),
                    }
                )
            )


def _partitions_to_write(client: Client, topic: str) -> int:
    """Return the number of partitions; the brokers create the topic where they may. Raises
    CommandFailed.
    """
    patience = Patience(CREATE_S, topic)
    while True:
        (found,) = client.refresh([topic], create=True).topics
        if not found.error_code and found.partitions:
            return len(found.partitions)
        try:
            patience.wait(found.error_code)
        except Unreachable:
            raise CommandFailed(sentence(topic, found.error_code)) from None


def _place(line: Line, partition: int | None, count: int, number: int) -> int:
    wanted = partition if partition is not None else line.partition
    if wanted is not None:
        return wanted
    return partition_of(line.key, count) if line.key is not None else number // KEYLESS % count


def _size_of_input() -> int:
    """Bytes, where that is known beforehand."""
    status = os.fstat(sys.stdin.fileno())
    return status.st_size if stat.S_ISREG(status.st_mode) else 0


def _input(descriptor: int, idle: Callable[[int], None]) -> Iterator[bytes]:
    """Lines. `idle` is called, with the bytes that were read so far, before it waits for more."""
    left, read = b"", 0
    while True:
        if not select.select([descriptor], (), (), 0)[0]:
            idle(read)
        found = os.read(descriptor, READ_BYTES)
        read += len(found)
        *lines, left = (left + found).split(b"\n")
        yield from lines
        if not found:
            if left:
                yield left
            return


def _lines(stream: Iterable[bytes], source: str, key_separator: str | None) -> Iterator[Line]:
    for number, raw in enumerate(stream, 1):
        text = raw.rstrip(b"\n")
        if source == "json":
            yield _from_json(text, number)
        elif key_separator is None:
            yield Line(None, text, [], None)
        else:
            key, separator, value = text.partition(key_separator.encode())
            if not separator:
                raise CommandFailed(f"line {number} has no {key_separator!r}")
            yield Line(key, value, [], None)


# as consume prints them; the last three are given anew
FIELDS = ("key", "value", "headers", "partition", "topic", "offset", "timestamp")


def _from_json(text: bytes, number: int) -> Line:
    try:
        row = json.loads(text)
        check_fields(row, FIELDS, f"line {number}")
        headers = [(name, _bytes(row_value)) for name, row_value in row.get("headers") or []]
        return Line(_bytes(row.get("key")), _bytes(row.get("value")), headers, row.get("partition"))
    except (ValueError, TypeError, AttributeError) as error:
        raise CommandFailed(f"line {number} is not a record in JSON: {error}") from None


def _bytes(value: Any) -> bytes | None:
    """Text as UTF-8; what is no text came as {"base64": ...}."""
    if isinstance(value, dict):
        return base64.b64decode(value["base64"], validate=True)
    return None if value is None else str(value).encode()


def _json(value: bytes | None) -> Any:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value or b"").decode()}


@command
def consume(
    topic: str,
    start: str,
    partitions: Sequence[int],
    count: int | None,
    exit_at_end: bool,
    keys: bool,
    group: str | None,
    bootstrap_server: str,
    output: str,
) -> None:
    with connect(bootstrap_server) as client:
        if group is not None:
            _consume_as_member(
                client, topic, group, start, partitions, count, exit_at_end, keys, output
            )
            return
        wanted = _wanted(client, topic, partitions)
        begins = client.offsets(dict.fromkeys(wanted, EARLIEST))
        ends = client.offsets(dict.fromkeys(wanted, LATEST))
        reader = Reader(
            client, {where: _position(start, begins[where], ends[where]) for where in wanted}
        )
        left = sum(ends[where] - reader.positions[where] for where in wanted) if exit_at_end else 0
        total = min(left or sys.maxsize, count or sys.maxsize) if left or count else 0
        with progress("consuming", 0 if sys.stdout.isatty() else total) as read:
            printed = 0
            while (count is None or printed < count) and not (
                exit_at_end and _read_up_to(reader, ends)
            ):
                for record in reader.poll(
                    POLL_S, POLL_RECORDS if count is None else min(POLL_RECORDS, count - printed)
                ):
                    if exit_at_end and record.offset >= ends[record.topic, record.partition]:
                        continue
                    _print(record, keys, output)
                    printed += 1
                read(printed)
        reader.close()


def _consume_as_member(
    client: Client,
    topic: str,
    group: str,
    start: str,
    partitions: Sequence[int],
    count: int | None,
    exit_at_end: bool,
    keys: bool,
    output: str,
) -> None:
    """Commit each poll's records after they are printed and before the next poll: when a member
    dies, at most one poll is printed again.
    """
    if start not in ("start", "end") or partitions:
        raise CommandFailed(
            "with --group the group decides positions and assignments: --from must be start or "
            "end, and --partition is not allowed"
        )
    ends = client.offsets(dict.fromkeys(_wanted(client, topic, ()), LATEST))
    left = count if count is not None else sys.maxsize
    with Member(client, group, topic) as member:
        reader = Reader(client, {})
        while left and not (exit_at_end and member.assigned and _read_up_to(reader, ends)):
            if member.poll():
                reader.close()
                reader = _reader_of(client, member, EARLIEST if start == "start" else LATEST)
                continue
            found = reader.poll(POLL_S, min(left, POLL_RECORDS))
            for record in found:
                _print(record, keys, output)
            left -= len(found)
            if found:
                member.commit(reader.positions)
        reader.close()


def _reader_of(client: Client, member: Member, reset: int) -> Reader:
    """Return a reader of the member's assigned partitions, from the group's committed offsets."""
    committed = member.committed()
    new = client.offsets({where: reset for where in member.assigned if where not in committed})
    return Reader(client, committed | new, reset=reset)


def _read_up_to(reader: Reader, ends: dict[Where, int]) -> bool:
    return all(position >= ends.get(where, 0) for where, position in reader.positions.items())


def _wanted(client: Client, topic: str, only: Sequence[int]) -> list[Where]:
    """These partitions, or all. Raises CommandFailed for one that is not there."""
    known = {each.partition_index for each in client.metadata([topic]).topics[0].partitions}
    if not known:
        raise CommandFailed(f"no topic {topic}")
    if missing := set(only) - known:
        raise CommandFailed(f"{topic} has no partition {min(missing)}")
    return [(topic, index) for index in sorted(only or known)]


def _position(start: str, begin: int, end: int) -> int:
    if start in ("start", "end"):
        return begin if start == "start" else end
    try:
        number = int(start)
    except ValueError:
        raise CommandFailed(f"--from {start}: start, end, an offset, or -N") from None
    return max(begin, end + number) if start.startswith("-") else max(begin, min(number, end))


def _print(record: FetchedRecord, keys: bool, output: str) -> None:
    if output == "json":
        row = {
            name: getattr(record, name) for name in ("topic", "partition", "offset", "timestamp")
        }
        row |= {
            "key": _json(record.key),
            "value": _json(record.value),
            "headers": [[name, _json(value)] for name, value in record.headers],
        }
        print(json.dumps(row), flush=True)
        return
    sys.stdout.flush()
    sys.stdout.buffer.write((record.key or b"") + b"\t" if keys else b"")
    sys.stdout.buffer.write((record.value or b"") + b"\n")
    sys.stdout.buffer.flush()
