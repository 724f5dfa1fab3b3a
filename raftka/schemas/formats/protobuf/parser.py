"""Protobuf schemas: .proto texts (proto2, proto3, editions) that protoc compiles, and base64 of
serialized descriptors, as clients of Python send.

What a client sends as text is given back as it is; base64 is given back as the text of its
descriptor. Two texts are one schema if their descriptors are, printed with all names in full:
comments, white space and how names are qualified make no difference.
"""

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.message import DecodeError, Message

from raftka.schemas.formats import pairs
from raftka.schemas.formats.protobuf import compatibility, protoc, types
from raftka.schemas.formats.protobuf.printer import Options, is_custom, print_file
from raftka.schemas.formats.schema import InvalidSchema, Parsed, Reference, check_size

SERIALIZED_NAME = "default"  # of the file in what `serialized` gives: readers name it anew
BASE64 = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=\r\n")


@dataclass(frozen=True, eq=False)
class ProtobufSchema:
    text: str
    # each after those that it imports; the last one is the schema's
    files: tuple[FileDescriptorProto, ...]

    @property
    def descriptor(self) -> FileDescriptorProto:
        return self.files[-1]

    @cached_property
    def root(self) -> types.Message:
        return types.resolve(self.files)

    @cached_property
    def canonical(self) -> str:
        return print_file(self.descriptor, Options(self.files))

    @cached_property
    def normalized(self) -> str:
        return print_file(self.descriptor, Options(self.files), normalized=True)


def parse(text: str, references: Sequence[Reference], *, new: bool = True) -> ProtobufSchema:
    """Takes 0.1 s at least, because protoc is a process; see protoc.py for its bounds."""
    check_size(text, references)
    files: dict[str, str] = {}
    for reference in references:
        protoc.check_name(reference.name)
        try:
            files[reference.name] = _as_text(reference.text, files)
        except InvalidSchema as error:
            raise InvalidSchema(f"reference {reference.name}: {error}") from None
    name = "schema.proto"
    while name in files:
        name = f"_{name}"
    text = files[name] = _as_text(text, files)
    compiled = protoc.compile_files(files, [name])
    return ProtobufSchema(text, tuple(compiled.file))


def incompatibilities(reader: Parsed, writer: Parsed) -> list[str]:
    assert isinstance(reader, ProtobufSchema)
    assert isinstance(writer, ProtobufSchema)
    return pairs.compare(reader.root, writer.root, compatibility.expand)


def serialized(schema: ProtobufSchema) -> str:
    """The descriptor as base64, for `format=serialized`."""
    descriptor = FileDescriptorProto()
    descriptor.CopyFrom(schema.descriptor)
    descriptor.name = SERIALIZED_NAME
    return base64.b64encode(descriptor.SerializeToString(deterministic=True)).decode()


def _as_text(text: str, files: dict[str, str]) -> str:
    """The .proto text of base64; a .proto text as it is. `files`: what it may import."""
    if not text.strip() or not BASE64.issuperset(text.strip()):
        return text
    try:
        descriptor = FileDescriptorProto.FromString(base64.b64decode(text, validate=False))
    except (binascii.Error, DecodeError, ValueError):
        return text  # protoc tells what is wrong
    if not _has_custom_options(descriptor):
        return print_file(descriptor, Options())
    imported = [each for each in descriptor.dependency if each in files or protoc.is_known(each)]
    compiled = list(protoc.compile_files(files, imported).file) if imported else []
    # it may use options that it defines itself
    return print_file(descriptor, Options([*compiled, descriptor]))


def _has_custom_options(descriptor: FileDescriptorProto) -> bool:
    """Return True if one of the options of a file is an extension, which this process's pool does
    not know. Refuse names that are no UTF-8.
    """
    found = False
    waiting: list[Message] = [descriptor]
    while waiting:
        message = waiting.pop()
        found |= message.DESCRIPTOR.name.endswith("Options") and is_custom(message)
        for field, value in message.ListFields():
            values = value if field.is_repeated else [value]
            if field.message_type is not None:
                waiting += values
            elif field.type == FieldDescriptor.TYPE_STRING and any(
                isinstance(each, bytes) for each in values
            ):
                raise InvalidSchema(f"{message.DESCRIPTOR.name}.{field.name} is no UTF-8")
    return found
