"""Kafka's small text files: offset checkpoints, leader-epoch-checkpoint, partition.metadata,
meta.properties, .kafka_cleanshutdown.

Text to values and back.

An empty file is an empty checkpoint (Kafka makes them before it fills them); any other that does
not read to its end raises CheckpointError, and one of a later version NewerFormat.
"""

import json
from binascii import a2b_base64, b2a_base64
from collections.abc import Iterable, Mapping

from raftka import versions
from raftka.versions import Format

LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
META_PROPERTIES = "meta.properties"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
START_OFFSETS = "log-start-offset-checkpoint"
CLEANED_OFFSETS = "cleaner-offset-checkpoint"  # before them a cleaner has left each key once
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
LOCK = ".lock"

Offsets = dict[tuple[str, int], int]


class CheckpointError(ValueError):
    """The file is not what it should be."""


def encode_lines(lines: Iterable[str]) -> bytes:
    """Version 0, the number of lines, the lines: what all of Kafka's checkpoint files are."""
    body = list(lines)
    return "\n".join(["0", str(len(body)), *body, ""]).encode()


def decode_lines(data: bytes, of: Format = versions.CHECKPOINTS) -> list[str]:
    """Raises CheckpointError, NewerFormat."""
    if not data:
        return []
    version, _, rest = data.decode("ascii", "replace").partition("\n")
    _check_version(version, of)
    count, _, rest = rest.partition("\n")
    lines = rest.split("\n")
    if (
        version != "0"
        or not count.isascii()
        or not count.isdigit()
        or lines.pop() != ""
        or int(count) != len(lines)
    ):
        raise CheckpointError("a checkpoint that is cut")
    return lines


def _check_version(text: str, of: Format) -> None:
    """Raise NewerFormat for the number of a later version; anything else is damage."""
    if text.isascii() and text.isdigit():
        of.check(int(text), of.place)


def encode_offsets(offsets: Mapping[tuple[str, int], int]) -> bytes:
    return encode_lines(
        [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()]
    )


def decode_offsets(data: bytes) -> Offsets:
    offsets = {}
    for line in decode_lines(data):
        topic, partition, offset = _fields(line, 3)
        offsets[topic, _number(partition)] = _number(offset)
    return offsets


def encode_epochs(entries: Iterable[tuple[int, int]]) -> bytes:
    return encode_lines(f"{epoch} {start}" for epoch, start in entries)


def decode_epochs(data: bytes) -> list[tuple[int, int]]:
    return [
        (_number(epoch), _number(start))
        for epoch, start in (_fields(line, 2) for line in decode_lines(data))
    ]


def encode_partition_metadata(topic_id: bytes) -> bytes:
    return f"version: 0\ntopic_id: {uuid_text(topic_id)}".encode()


def decode_partition_metadata(data: bytes) -> bytes:
    """The topic's id, 16 bytes. Raises CheckpointError, NewerFormat."""
    fields = dict(
        line.split(": ", 1) for line in data.decode("ascii", "replace").splitlines() if ": " in line
    )
    _check_version(fields.get("version", ""), versions.PARTITION_METADATA)
    if fields.get("version") != "0":
        raise CheckpointError("partition metadata that is cut")
    return uuid_bytes(fields.get("topic_id", ""))


def encode_properties(properties: Mapping[str, str]) -> bytes:
    """Java's format, for names and values that need no escape."""
    return "".join(
        f"{line}\n" for line in ["#", *(f"{name}={value}" for name, value in properties.items())]
    ).encode()


def decode_properties(data: bytes) -> dict[str, str]:
    pairs = (
        line.partition("=")
        for line in data.decode("utf-8", "replace").splitlines()
        if line.strip() and not line.startswith(("#", "!"))
    )
    return {name.strip(): value.strip().replace("\\", "") for name, _, value in pairs}


def encode_clean_shutdown(broker_epoch: int) -> bytes:
    return json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":")).encode()


def check_clean_shutdown(data: bytes) -> int:
    """Return the broker epoch of the shutdown; -1: it cannot be read. Raise NewerFormat.

    For the logs only that the file is there counts, so damage does no harm.
    """
    try:
        found = json.loads(data)
    except ValueError:
        return -1
    values = found if isinstance(found, dict) else {}
    if type(version := values.get("version")) is int:
        versions.CLEAN_SHUTDOWN.check(version, CLEAN_SHUTDOWN)
    return epoch if type(epoch := values.get("brokerEpoch")) is int else -1


def uuid_text(uuid: bytes) -> str:
    """Kafka's way: base64 for URLs, without padding."""
    return b2a_base64(uuid, newline=False).decode().rstrip("=").replace("+", "-").replace("/", "_")


def uuid_bytes(text: str) -> bytes:
    try:
        uuid = a2b_base64(text.replace("-", "+").replace("_", "/") + "==")
    except ValueError as error:
        raise CheckpointError(f"no uuid: {text!r}") from error
    if len(uuid) != 16:
        raise CheckpointError(f"no uuid: {text!r}")
    return uuid


def _fields(line: str, count: int) -> list[str]:
    fields = line.split(" ")
    if len(fields) != count:
        raise CheckpointError(f"{count} fields expected in {line!r}")
    return fields


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise CheckpointError(f"no number: {text!r}") from error
