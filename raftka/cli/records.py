"""`raftka produce` and `raftka consume`: lines in, lines out, through kafka-python. What one prints as JSON the other reads."""

import base64
import json
import os
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any, NamedTuple

from raftka.cli.admin.client import client
from raftka.cli.output import CommandFailed, command, progress


class Line(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    partition: int | None


@contextmanager
def _client(kind: str, bootstrap_server: str, **options: Any) -> Iterator[Any]:
    import kafka

    connected = client(getattr(kafka, kind), bootstrap_server, **options)
    try:
        yield connected
    finally:
        connected.close()


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
    options = {
        "acks": acks if acks == "all" else int(acks),
        "enable_idempotence": acks == "all",
        "compression_type": None if compression == "none" else compression,
        "linger_ms": 5,
    }
    stream, size = sys.stdin.buffer, _size_of_input()
    with _client("KafkaProducer", bootstrap_server, **options) as producer, progress("producing", size) as sent:
        futures = []
        for line in _lines(stream, source, key_separator):
            where = partition if partition is not None else line.partition
            futures.append(producer.send(topic, key=line.key, value=line.value, headers=line.headers, partition=where))
            if len(futures) >= 10_000:
                _acknowledged(futures[:5_000], output)
                del futures[:5_000]
                sent(stream.tell() if size else 0)
        producer.flush()
        _acknowledged(futures, output)
        sent(size)


def _size_of_input() -> int:
    """Bytes, where that is known beforehand."""
    status = os.fstat(sys.stdin.fileno())
    return status.st_size if stat.S_ISREG(status.st_mode) else 0


def _acknowledged(futures: Iterable[Any], output: str) -> None:
    for future in futures:
        done = future.get()
        if output == "json":
            print(json.dumps({"topic": done.topic, "partition": done.partition, "offset": done.offset}))


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
        row = json.loads(text)
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
    if group is not None:
        _consume_as_member(topic, group, start, partitions, count, exit_at_end, keys, bootstrap_server, output)
        return
    with _client("KafkaConsumer", bootstrap_server, group_id=None, auto_offset_reset="earliest") as consumer:
        ends = _seek(consumer, topic, start, partitions)
        left = sum(ends.values()) - sum(consumer.position(where) for where in ends) if exit_at_end else 0
        total = min(left or sys.maxsize, count or sys.maxsize) if left or count else 0
        with progress("consuming", 0 if sys.stdout.isatty() else total) as read:
            printed = 0

            def emit(record: Any) -> None:
                nonlocal printed
                _print(record, keys, output)
                printed += 1
                if not printed % 1_000:
                    read(printed)

            _print_until(consumer, ends if exit_at_end else None, count, emit)
            read(printed)


def _consume_as_member(
    topic: str,
    group: str,
    start: str,
    partitions: Sequence[int],
    count: int | None,
    exit_at_end: bool,
    keys: bool,
    bootstrap_server: str,
    output: str,
) -> None:
    """What is printed is committed before more is asked for: a member that dies leaves no more to be printed again than one poll."""
    if start not in ("start", "end") or partitions:
        raise CommandFailed(
            "with --group it is the group that knows where to go on and who reads what: --from is start or end, --partition is not for it"
        )
    reset = "earliest" if start == "start" else "latest"
    with _client("KafkaConsumer", bootstrap_server, group_id=group, auto_offset_reset=reset, enable_auto_commit=False) as consumer:
        known = consumer.partitions_for_topic(topic)
        if not known:
            raise CommandFailed(f"no topic {topic}")
        ends = _ends(consumer, topic, known) if exit_at_end else None
        consumer.subscribe([topic])
        left = count if count is not None else sys.maxsize
        while left and not (ends is not None and _read_up_to(consumer, ends)):
            found = consumer.poll(timeout_ms=500, max_records=min(left, 500))
            for record in chain.from_iterable(found.values()):
                _print(record, keys, output)
                left -= 1
            if found:
                consumer.commit()


def _ends(consumer: Any, topic: str, partitions: Iterable[int]) -> dict[Any, int]:
    from kafka import TopicPartition

    return dict(consumer.end_offsets([TopicPartition(topic, partition) for partition in partitions]))


def _read_up_to(consumer: Any, ends: dict[Any, int]) -> bool:
    """All that this member has been given."""
    owned = consumer.assignment()
    return bool(owned) and all((consumer.position(where) or 0) >= ends.get(where, 0) for where in owned)


def _seek(consumer: Any, topic: str, start: str, only: Sequence[int]) -> dict[Any, int]:
    """Stand where the user wants to begin; returns where the partitions end now."""
    from kafka import TopicPartition

    known = consumer.partitions_for_topic(topic)
    if not known:
        raise CommandFailed(f"no topic {topic}")
    if missing := set(only) - set(known):
        raise CommandFailed(f"{topic} has no partition {min(missing)}")
    wanted = [TopicPartition(topic, p) for p in sorted(only or known)]
    consumer.assign(wanted)
    begins, ends = consumer.beginning_offsets(wanted), consumer.end_offsets(wanted)
    for where in wanted:
        consumer.seek(where, _position(start, begins[where], ends[where]))
    return dict(ends)


def _position(start: str, begin: int, end: int) -> int:
    if start in ("start", "end"):
        return begin if start == "start" else end
    try:
        number = int(start)
    except ValueError:
        raise CommandFailed(f"--from {start}: start, end, an offset, or -N") from None
    return max(begin, end + number) if start.startswith("-") else max(begin, min(number, end))


def _print_until(consumer: Any, ends: dict[Any, int] | None, count: int | None, emit: Any) -> None:
    left = count
    while ends is None or any(consumer.position(where) < end for where, end in ends.items()):
        for where, records in consumer.poll(timeout_ms=500).items():
            for record in records:
                if ends is not None and record.offset >= ends[where]:
                    break
                emit(record)
                if left is not None and (left := left - 1) == 0:
                    return


def _print(record: Any, keys: bool, output: str) -> None:
    if output == "json":
        row = {name: getattr(record, name) for name in ("topic", "partition", "offset", "timestamp")}
        row |= {"key": _json(record.key), "value": _json(record.value), "headers": [[name, _json(value)] for name, value in record.headers]}
        print(json.dumps(row), flush=True)
        return
    sys.stdout.flush()
    sys.stdout.buffer.write((record.key or b"") + b"\t" if keys else b"")
    sys.stdout.buffer.write((record.value or b"") + b"\n")
    sys.stdout.buffer.flush()
