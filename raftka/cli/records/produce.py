"""`raftka produce`: a record a line. What `raftka consume -o json` prints it reads."""

import json
import os
import select
import stat
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator

from raftka.cli.admin.client import connect, sentence
from raftka.cli.output import CommandFailed, command
from raftka.cli.progress import progress
from raftka.client.blocking.client import Client, Patience, Unreachable, Where
from raftka.client.blocking.producer import ALL, NOBODY, Producer, partition_of
from raftka.client.json_lines import Line, read_line
from raftka.wire.compression import NAMES

READ_BYTES = 64 * 1024
CREATE_S = 5.0  # for a topic that the brokers make as they hear of it
KEYLESS = 500  # records without a key go to one partition, so many to each in turn


@command
def produce(
    topic: str,
    source: str,
    key_separator: str | None,
    partition: int | None,
    acks: str,
    compression: str,
    quiet: bool,
    bootstrap_server: str,
    output: str,
) -> None:
    size = _size_of_input()
    with (
        connect(bootstrap_server) as client,
        progress("producing", size, "bytes", quiet=quiet or not size) as shown,
    ):
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
            shown.update(read)

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


def _from_json(text: bytes, number: int) -> Line:
    try:
        return read_line(text)
    except ValueError as error:
        raise CommandFailed(f"line {number}{error}") from None
