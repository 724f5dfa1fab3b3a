"""Compatibility of Protobuf schemas: the changes that a reader can bear, as Confluent's
ProtobufSchema decides.

| change from the writer to the reader | problem |
|---|---|
| another package | PACKAGE_CHANGED |
| a message is gone (also: renamed, moved into another message) | MESSAGE_REMOVED |
| a field is of another kind: scalar, message, group, map | FIELD_KIND_CHANGED |
| a scalar is of another group (below) | FIELD_SCALAR_KIND_CHANGED |
| a message's type has another name, without package | FIELD_NAMED_TYPE_CHANGED |
| a number is optional in the one and repeated or required in the other |
    FIELD_NUMERIC_LABEL_CHANGED |
| a string or bytes field, or a message, becomes required | REQUIRED_FIELD_ADDED |
| a required field comes or goes | REQUIRED_FIELD_ADDED, REQUIRED_FIELD_REMOVED |
| a field of a oneof is gone, and not all of the oneof | ONEOF_FIELD_REMOVED |
| two fields that were in no oneof are in the same one | MULTIPLE_FIELDS_MOVED_TO_ONEOF |
| fields that were in different oneofs, or one and in none, are in the same one |
    FIELD_MOVED_TO_EXISTING_ONEOF |

Groups of scalars: int32 int64 uint32 uint64 bool enum; sint32 sint64; fixed32 sfixed32; fixed64
sfixed64; string bytes; float; double.

No problem are: new messages, fields, enums, oneofs and fields in oneofs; another order; other names
of fields, of oneofs and of values of enums; fields that go and are not required; enums and values
that go; a whole oneof that goes; a field that leaves its oneof; a single field that enters a new
oneof; string or bytes, or a message, that turns repeated or back; another syntax, options and
imports.
"""

from raftka.schemas.formats.pairs import Expanded, Fault, Need
from raftka.schemas.formats.protobuf.types import REQUIRED, Field, Message, Type


def expand(reader: Message, writer: Message) -> Expanded[Message]:
    expanded: Expanded[Message] = Expanded(cost=(len(reader.fields) + len(writer.fields)) // 16)
    if not writer.name and reader.package != writer.package:
        said = (
            f"the reader's package is {reader.package or 'none'}, the writer's "
            f"{writer.package or 'none'}"
        )
        expanded.faults.append(Fault("PACKAGE_CHANGED", said))
    for name, nested in writer.nested.items():
        if name in reader.nested:
            expanded.needs.append(Need(name, [(reader.nested[name], nested)]))
        else:
            expanded.faults.append(
                Fault("MESSAGE_REMOVED", f"the reader has no message {nested.local_name}", name)
            )
    _expand_oneofs(expanded, reader, writer)
    for number, field in reader.fields.items():
        if number in writer.fields:
            _expand_field(expanded, field, writer.fields[number])
        elif field.label == REQUIRED:
            said = f"the reader requires {_told(field)}, which the writer has not"
            expanded.faults.append(Fault("REQUIRED_FIELD_ADDED", said, str(number)))
    for number, field in writer.fields.items():
        if number not in reader.fields and field.label == REQUIRED:
            expanded.faults.append(
                Fault(
                    "REQUIRED_FIELD_REMOVED",
                    f"the reader has no {_told(field)}, which the writer requires",
                    str(number),
                )
            )
    return expanded


def _told(field: Field) -> str:
    return f"field {field.name} = {field.number}"


def _expand_oneofs(expanded: Expanded[Message], reader: Message, writer: Message) -> None:
    for name, fields in writer.oneofs().items():
        gone = [field for field in fields if field.number not in reader.fields]
        if len(gone) == len(fields) and not any(
            field.oneof == name for field in reader.fields.values()
        ):
            continue
        for field in gone:
            said = f"the reader has no {_told(field)}, which is one of the writer's oneof {name}"
            expanded.faults.append(Fault("ONEOF_FIELD_REMOVED", said, f"{name}/{field.number}"))
    for name, fields in reader.oneofs().items():
        known = [writer.fields[field.number] for field in fields if field.number in writer.fields]
        alone = [field for field in known if field.oneof is None]
        if len(alone) + len({field.oneof for field in known if field.oneof is not None}) < 2:
            continue
        told = ", ".join(_told(field) for field in known[:10])
        if len(alone) > 1:
            said = (
                f"the reader has them in the oneof {name}, the writer has several of them in "
                f"none: {told}"
            )
            expanded.faults.append(Fault("MULTIPLE_FIELDS_MOVED_TO_ONEOF", said, name))
        else:
            said = (
                f"the reader has them in the oneof {name}, the writer has them in no common "
                f"one: {told}"
            )
            expanded.faults.append(Fault("FIELD_MOVED_TO_EXISTING_ONEOF", said, name))


def _expand_field(expanded: Expanded[Message], reader: Field, writer: Field) -> None:
    path = f"{reader.oneof}/{reader.number}" if reader.oneof else str(reader.number)
    _expand_type(expanded, reader.type, writer.type, path, f"{_told(reader)} is")
    if reader.label == writer.label or reader.type.kind != writer.type.kind:
        return
    said = f"{_told(reader)} is {reader.label} for the reader, {writer.label} for the writer"
    if (
        reader.type.scalar
        and reader.type.scalar == writer.type.scalar
        and reader.type.scalar != "string or bytes"
    ):
        expanded.faults.append(Fault("FIELD_NUMERIC_LABEL_CHANGED", said, path))
    elif reader.label == REQUIRED:
        expanded.faults.append(Fault("REQUIRED_FIELD_ADDED", said, path))


def _expand_type(
    expanded: Expanded[Message], reader: Type, writer: Type, path: str, told: str
) -> None:
    said = f"{told} {reader.told} for the reader, {writer.told} for the writer"
    if reader.kind != writer.kind:
        expanded.faults.append(Fault("FIELD_KIND_CHANGED", said, path))
    elif reader.scalar != writer.scalar:
        expanded.faults.append(Fault("FIELD_SCALAR_KIND_CHANGED", said, path))
    elif reader.message is not None and writer.message is not None:
        if reader.message.local_name != writer.message.local_name:
            expanded.faults.append(Fault("FIELD_NAMED_TYPE_CHANGED", said, path))
        else:
            expanded.needs.append(Need(path, [(reader.message, writer.message)]))
    elif (
        reader.key is not None
        and writer.key is not None
        and reader.value is not None
        and writer.value is not None
    ):
        _expand_type(expanded, reader.key, writer.key, path, f"the key of {told}")
        _expand_type(expanded, reader.value, writer.value, path, f"the value of {told}")
