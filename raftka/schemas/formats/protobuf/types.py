"""Protobuf's messages and fields as rules compare them: with types resolved, map entries folded
into their fields, and groups of wire types.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)

REQUIRED, REPEATED, SINGULAR = "required", "repeated", "optional"
LABELS = {
    FieldDescriptorProto.LABEL_REQUIRED: REQUIRED,
    FieldDescriptorProto.LABEL_REPEATED: REPEATED,
}
# a reader of a type reads what was written with another one of its group, if the value is in range
SCALARS = {
    FieldDescriptorProto.TYPE_INT32: "number",
    FieldDescriptorProto.TYPE_INT64: "number",
    FieldDescriptorProto.TYPE_UINT32: "number",
    FieldDescriptorProto.TYPE_UINT64: "number",
    FieldDescriptorProto.TYPE_BOOL: "number",
    FieldDescriptorProto.TYPE_ENUM: "number",
    FieldDescriptorProto.TYPE_SINT32: "signed number",
    FieldDescriptorProto.TYPE_SINT64: "signed number",
    FieldDescriptorProto.TYPE_FIXED32: "fixed32",
    FieldDescriptorProto.TYPE_SFIXED32: "fixed32",
    FieldDescriptorProto.TYPE_FIXED64: "fixed64",
    FieldDescriptorProto.TYPE_SFIXED64: "fixed64",
    FieldDescriptorProto.TYPE_FLOAT: "float",
    FieldDescriptorProto.TYPE_DOUBLE: "double",
    FieldDescriptorProto.TYPE_STRING: "string or bytes",
    FieldDescriptorProto.TYPE_BYTES: "string or bytes",
}


@dataclass(eq=False, slots=True)
class Type:
    """Of a field, or of a map's keys or values. `kind`: scalar, message, group or map."""

    kind: str
    told: str  # as in a .proto file
    scalar: str = ""  # one of SCALARS' groups
    message: "Message | None" = None
    key: "Type | None" = None
    value: "Type | None" = None


@dataclass(eq=False, slots=True)
class Field:
    name: str
    number: int
    label: str
    type: Type
    oneof: str | None  # the name of the oneof that it is in


@dataclass(eq=False, slots=True)
class Message:
    """`local_name` is without package. The root, which stands for a file, has a package and nested
    messages only.
    """

    name: str
    local_name: str
    package: str
    fields: dict[int, Field] = field(default_factory=dict)
    nested: dict[str, "Message"] = field(default_factory=dict)

    def oneofs(self) -> dict[str, list[Field]]:
        found: dict[str, list[Field]] = {}
        for each in self.fields.values():
            if each.oneof is not None:
                found.setdefault(each.oneof, []).append(each)
        return found


def resolve(files: Iterable[FileDescriptorProto]) -> Message:
    """The root of the last file. All files have come from protoc, so all names are full and lead to
    something.
    """
    messages: dict[str, Message] = {}
    descriptors: list[tuple[Message, DescriptorProto]] = []
    maps: dict[str, DescriptorProto] = {}
    root = Message("", "", "")
    for file in files:
        root = Message("", "", file.package)
        prefix = f".{file.package}" if file.package else ""
        for full, owner, descriptor in _walk(root, prefix, file.message_type):
            if descriptor.options.map_entry:
                maps[full] = descriptor
                continue
            message = Message(descriptor.name, full.removeprefix(f"{prefix}."), file.package)
            messages[full] = message
            descriptors.append((message, descriptor))
            messages.get(owner, root).nested[message.name] = message
    for message, descriptor in descriptors:
        for each in descriptor.field:
            message.fields[each.number] = _field(each, descriptor, messages, maps)
    return root


def _walk(
    root: Message, prefix: str, top: Iterable[DescriptorProto]
) -> Iterator[tuple[str, str, DescriptorProto]]:
    """Full name, that of the message around, descriptor; outer ones first."""
    waiting = [(prefix, each) for each in reversed(list(top))]
    while waiting:
        owner, descriptor = waiting.pop()
        full = f"{owner}.{descriptor.name}"
        yield full, owner, descriptor
        waiting += [(full, each) for each in reversed(descriptor.nested_type)]


def _field(
    found: FieldDescriptorProto,
    owner: DescriptorProto,
    messages: dict[str, Message],
    maps: dict[str, DescriptorProto],
) -> Field:
    oneof = None
    if found.HasField("oneof_index") and not found.proto3_optional:
        oneof = owner.oneof_decl[found.oneof_index].name
    entry = maps.get(found.type_name)
    if entry is None:
        return Field(
            found.name,
            found.number,
            LABELS.get(found.label, SINGULAR),
            _type(found, messages),
            oneof,
        )
    key, value = (
        _type(each, messages) for each in sorted(entry.field, key=lambda each: each.number)
    )
    return Field(
        found.name,
        found.number,
        REPEATED,
        Type("map", f"map<{key.told}, {value.told}>", key=key, value=value),
        oneof,
    )


def _type(found: FieldDescriptorProto, messages: dict[str, Message]) -> Type:
    told = (
        found.type_name.removeprefix(".")
        or FieldDescriptorProto.Type.Name(found.type).removeprefix("TYPE_").lower()
    )
    if found.type in SCALARS:
        return Type("scalar", told, scalar=SCALARS[found.type])
    kind = "group" if found.type == FieldDescriptorProto.TYPE_GROUP else "message"
    return Type(kind, told, message=messages[found.type_name])
