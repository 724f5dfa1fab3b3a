"""Names of records in schemas, for subjects that are named after them, as Confluent's serializers
make them.

Names in Protobuf are read from the serialized descriptor by hand, so that a broker needs no library
for them.
"""

import json
from base64 import b64decode
from collections.abc import Mapping

from raftka.schemas.framing import MAX_INDEXES, Indexes
from raftka.wire.errors import ProtocolError
from raftka.wire.records import signed

MAX_NAME = 1_000  # characters: a name becomes a subject, and a part of URLs
NAMED = ("record", "enum", "fixed", "error")
MAX_MESSAGES = 10_000  # of a descriptor
PACKAGE, MESSAGE, NAME, NESTED = 2, 4, 1, 3  # fields of FileDescriptorProto and of DescriptorProto
VARINT, FIXED_64, SIZED, FIXED_32 = 0, 1, 2, 5  # kinds of fields


def record_name(kind: str, text: str) -> str | None:
    """Return the full name of the type in an Avro schema, or the title of a JSON Schema; None: the
    schema has none. Slow for a long text.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = text  # a primitive type, as some clients register it
    name = None
    if kind == "JSON":
        name = value.get("title") if isinstance(value, dict) else None
    elif isinstance(value, dict) and value.get("type") in NAMED:
        name, space = value.get("name"), value.get("namespace")
        if isinstance(name, str) and "." not in name and isinstance(space, str) and space:
            name = f"{space}.{name}"
    elif kind == "AVRO":
        name = value.get("type") if isinstance(value, dict) else value
    return name if isinstance(name, str) and 0 < len(name) <= MAX_NAME else None


def message_names(descriptor: str) -> Mapping[Indexes, str]:
    """Return the full names of the messages in a file; `descriptor` is its FileDescriptorProto in
    base64. Raise ValueError.
    """
    found: dict[Indexes, str] = {}
    try:
        data = b64decode(descriptor, validate=True)
        fields = _fields(data, (PACKAGE, MESSAGE))
        package = next((part.decode() for number, part in fields if number == PACKAGE), "")
        waiting: list[tuple[Indexes, bytes, str]] = [
            ((place,), part, package)
            for place, part in enumerate(part for number, part in fields if number == MESSAGE)
        ]
        while waiting:
            indexes, part, outer = waiting.pop()
            inner = _fields(part, (NAME, NESTED))
            name = next((each.decode() for number, each in inner if number == NAME), "")
            full = found[indexes] = f"{outer}.{name}" if outer else name
            if len(found) > MAX_MESSAGES or len(full) > MAX_NAME or len(indexes) > MAX_INDEXES:
                raise ValueError("a descriptor with too many messages, or too long names")
            waiting += [
                ((*indexes, place), each, full)
                for place, each in enumerate(each for number, each in inner if number == NESTED)
            ]
    except (IndexError, ProtocolError) as error:
        raise ValueError("no descriptor") from error
    return found


def _fields(data: bytes, wanted: tuple[int, ...]) -> list[tuple[int, bytes]]:
    """Return the sized fields with these numbers. Raise IndexError or ProtocolError."""
    found = []
    position = 0
    while position < len(data):
        tag, position = _unsigned(data, position)
        number, kind = tag >> 3, tag & 7
        if kind == VARINT:
            _, position = _unsigned(data, position)
        elif kind == SIZED:
            size, position = _unsigned(data, position)
            if size > len(data) - position:
                raise ProtocolError("a field ends behind its message")
            if number in wanted:
                found.append((number, data[position : position + size]))
            position += size
        elif kind in (FIXED_32, FIXED_64):
            position += 4 if kind == FIXED_32 else 8
        else:
            raise ProtocolError(f"a field of kind {kind}")
    return found


def _unsigned(data: bytes, position: int) -> tuple[int, int]:
    value, position = signed(data, position)
    return value << 1 ^ value >> 63, position
