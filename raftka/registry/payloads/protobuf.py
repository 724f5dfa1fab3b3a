"""Protobuf payloads compared with a schema: which message of it they are, and that they are one."""

from collections.abc import Callable

from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from raftka.registry.formats import protobuf
from raftka.registry.formats.schema import InvalidSchema, Reference
from raftka.registry.payloads.avro import Unfit

MOST_INDEXES = 100


def matcher(text: str, references: tuple[Reference, ...]) -> Callable[[bytes], None]:
    """A function that raises Unfit. Raises InvalidSchema."""
    schema = protobuf.parse(text, references)
    pool = DescriptorPool()
    try:
        for file in schema.files:
            pool.Add(file)
    except TypeError as error:
        raise InvalidSchema(f"its files do not go together: {error}") from None
    classes: dict[tuple[int, ...], type[Message] | None] = {}

    def match(payload: bytes) -> None:
        indexes, at = _indexes(payload)
        if indexes not in classes:
            name = _name(schema.descriptor, indexes)
            classes[indexes] = (
                GetMessageClass(pool.FindMessageTypeByName(name)) if name is not None else None
            )
        found = classes[indexes]
        if found is None:
            raise Unfit(f"the schema has no message {list(indexes)}")
        message = found()
        try:
            message.ParseFromString(payload[at:])
        except DecodeError as error:
            raise Unfit(f"it is no {message.DESCRIPTOR.full_name}: {error}") from None
        if not message.IsInitialized():
            raise Unfit(
                f"{message.DESCRIPTOR.full_name} has no "
                f"{', '.join(message.FindInitializationErrors())}"
            )

    return match


def _indexes(payload: bytes) -> tuple[tuple[int, ...], int]:
    count, at = _number(payload, 0)
    if not 0 <= count <= MOST_INDEXES:
        raise Unfit(f"{count} indexes of messages")
    indexes = []
    for _ in range(count):
        index, at = _number(payload, at)
        indexes.append(index)
    return tuple(indexes) or (0,), at


def _number(payload: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(payload) and shift < 35:
        byte = payload[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value >> 1 ^ -(value & 1), at
    raise Unfit("it has no indexes of a message")


def _name(file: FileDescriptorProto, indexes: tuple[int, ...]) -> str | None:
    """In full; None where there is no such message."""
    names = [file.package] if file.package else []
    messages: list[DescriptorProto] = list(file.message_type)
    for index in indexes:
        if not 0 <= index < len(messages):
            return None
        names.append(messages[index].name)
        messages = list(messages[index].nested_type)
    return ".".join(names)
